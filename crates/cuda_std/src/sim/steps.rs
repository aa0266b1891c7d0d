//! How many steps threads take, so that a warp that asks again and again lets others run, and a thread that never ends
//! is reported.
//!
//! A step is an access to memory that the [log](super::log) counts, an operation on a signal or a count, or a wait,
//! however short.

use super::access::Place;
use super::block::coordinates;
use super::fault::{FaultKind, SimError, SourceLocation};
use super::limits::WARP_THREADS;
use super::worker::{Worker, raise};

/// Steps that a thread may take, unless another number is asked for.
pub(super) const STEPS: u64 = 1 << 26;

/// The same in a launch that leaves something out.
pub(super) const STEPS_SKIPPING: u64 = 1 << 16;

/// Steps that the lanes of a warp take together before it is another warp's turn. Few kernels take as many without a
/// barrier.
pub(super) const TURN: u64 = 1 << 18;

fn endless(worker: &Worker) -> (FaultKind, String) {
    let steps = worker.most_steps;
    let message = format!(
        "has made {steps} accesses to memory and waits, and not ended: it may go on for ever, or \
         `Simulator::limiting_steps` must allow for more"
    );
    (FaultKind::Endless { steps }, message)
}

/// Counts a step of the running thread that no log counts. Raises a fault where it has taken too many.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
pub(super) unsafe fn take(worker: *mut Worker, place: Place) {
    // SAFETY: as promised by the caller; `state` is not used after a suspension.
    unsafe {
        let state = &mut *worker;
        let taken = &mut state.threads[state.thread as usize].steps;
        *taken += 1;
        if *taken > state.most_steps {
            let (kind, message) = endless(state);
            raise(worker, kind, None, message, place)
        }
    }
}

/// What is said of a thread that has stopped at a place, or because its log is full, and has taken too many steps.
#[cold]
pub(super) fn too_many(worker: &Worker, thread: usize, place: Option<Place>) -> SimError {
    let lane = thread % WARP_THREADS as usize;
    let last_access = || worker.log.entries_from(lane, 0).last().map(|entry| entry.access().1);
    let place = place.or_else(last_access).map(SourceLocation::from);
    let (kind, message) = endless(worker);
    let thread = coordinates(thread as u64, worker.block_dim);
    SimError::Fault(worker.fault_of(thread, kind, None, message, place))
}
