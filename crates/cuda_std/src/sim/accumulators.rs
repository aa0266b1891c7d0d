//! The accumulators of warpgroup matrix instructions as the threads declare, read and write them.

use super::access::Place;
use super::fault::FaultKind;
use super::limits::WARP_THREADS;
use super::wgmma::own;
use super::worker::{Worker, current, raise};
use crate::wgmma::M;

const LANES: usize = WARP_THREADS as usize;

/// Accumulators of the threads of a warpgroup.
pub(super) struct Accumulators {
    /// Rows of the matrix, one after the other.
    pub(super) values: Vec<f32>,
    pub(super) n: usize,
    /// Threads that have declared it.
    declared: u128,
    /// Whether a fence lies between the threads' last access and the next instruction.
    pub(super) fenced: bool,
    /// Columns of the last instruction since the last fence.
    pub(super) shape: Option<usize>,
    /// Instructions that have not been waited for.
    pub(super) pending: usize,
}

impl Accumulators {
    /// Whether all threads of the warpgroup have declared them.
    pub(super) fn complete(&self) -> bool {
        self.declared == u128::MAX
    }
}

/// Declares the accumulators `set` of `n` columns.
pub(crate) fn wgmma_declare(n: usize, set: usize, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; `warpgroup` is not used after a suspension.
    unsafe {
        let (warpgroup, index) = own(worker);
        // Whoever reads what nobody has computed finds NaN.
        let fresh = || Accumulators {
            values: vec![f32::NAN; M * n],
            n,
            declared: 0,
            fenced: false,
            shape: None,
            pending: 0,
        };
        let accumulators = warpgroup.sets.entry(set).or_insert_with(fresh);
        if accumulators.declared >> index & 1 == 1 || accumulators.n != n {
            let message =
                format!("declares accumulators {set} twice, or otherwise than other threads");
            raise(worker, FaultKind::WgmmaMisuse, None, message, place)
        }
        accumulators.declared |= 1 << index;
    }
}

/// The place of register `register` of the running thread in the accumulators `set`, for an access of the thread.
///
/// # Safety
/// As for [`own`].
unsafe fn register<'a>(
    worker: *mut Worker,
    set: usize,
    register: usize,
    place: Place,
) -> &'a mut f32 {
    // SAFETY: as promised by the caller; `warpgroup` is not used after a suspension.
    unsafe {
        let (warpgroup, index) = own(worker);
        let (kind, message) = match warpgroup.sets.get_mut(&set) {
            Some(set) if set.pending > 0 => (
                FaultKind::AccumulatorsInFlight,
                "accesses accumulators that a warpgroup matrix instruction is changing: it has not been waited for",
            ),
            Some(set) if register < set.n / 2 => {
                set.fenced = false;
                let (row, column) = element(index, register);
                return &mut set.values[row * set.n + column];
            }
            _ => (FaultKind::WgmmaMisuse, "accesses an accumulator that has not been declared"),
        };
        raise(worker, kind, None, message.to_owned(), place)
    }
}

/// Row and column of the accumulator that is register `register` of a thread of a warpgroup (PTX ISA, "Register
/// Fragments and Shared Memory Matrix Layouts").
fn element(thread: usize, register: usize) -> (usize, usize) {
    /// Rows of a warp, and of the upper half of them.
    const ROWS: usize = 16;
    const HALF: usize = 8;
    /// Columns of 4 threads in a row of a half.
    const COLUMNS: usize = 8;
    let (warp, lane) = (thread / LANES, thread % LANES);
    (
        warp * ROWS + register % 4 / 2 * HALF + lane / 4,
        register / 4 * COLUMNS + lane % 4 * 2 + register % 2,
    )
}

/// The running thread's register.
pub(crate) fn wgmma_get(set: usize, index: usize, place: Place) -> f32 {
    // SAFETY: the worker is the current one.
    unsafe { *register(current(), set, index, place) }
}

/// Writes the running thread's register.
pub(crate) fn wgmma_set(set: usize, index: usize, value: f32, place: Place) {
    // SAFETY: the worker is the current one.
    unsafe { *register(current(), set, index, place) = value }
}
