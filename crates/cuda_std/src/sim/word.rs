//! Words in global memory by which blocks tell one another something: what is the same for all kinds of them. They are
//! zero before a launch and again after it.

use super::access::{Place, global};
use super::backing;
use super::block::{Job, coordinates};
use super::fault::{AccessKind, Fault, FaultKind, MemoryAccess, SimError, Space};
use super::global_order;
use super::progress::Progress;
use super::steps;
use super::worker::{CachedAllocation, Worker, raise};

/// The access to a word.
pub(super) fn access(kind: AccessKind, address: u64) -> MemoryAccess {
    MemoryAccess { space: Space::Global, kind, address, bytes: size_of::<u32>() as u32 }
}

/// The memory of a word that is used as a `what`. Raises a fault where there is none, or where it was not zero before
/// the launch: in every thread that uses it, so that the fault that is reported is always the same one. `initial` gives
/// its value before the launch, as it has been noted when the word was first used, and is told how to read the word for
/// that.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
pub(super) unsafe fn word(
    worker: *mut Worker,
    (kind, address, place): (AccessKind, u64, Place),
    what: &str,
    initial: impl FnOnce(&Progress, &dyn Fn() -> u32) -> u32,
) -> (CachedAllocation, usize) {
    // SAFETY: as promised by the caller; the access lies in its allocation, which the launch keeps alive. Neither a
    // reference to the worker nor a lock is kept when the fault is raised.
    unsafe {
        steps::take(worker, place);
        global_order::excuse(&*worker, address);
        let (allocation, offset) = global::<u32>(worker, kind, address, place);
        let state = &*worker;
        let value = initial(&state.progress, &|| backing::load(allocation.words, offset));
        if value != 0 {
            let message = format!(
                "uses as a {what} a word that was {value} before the launch, and must have been zero"
            );
            let kind = (FaultKind::SignalNotZero { value }, access(kind, address));
            raise(worker, kind.0, Some(kind.1), message, place)
        }
        (allocation, offset)
    }
}

/// Who changed a word.
#[derive(Clone, Copy)]
pub(super) struct Who {
    /// Linear index of the block.
    pub block: u64,
    pub thread: [u32; 3],
    pub place: Place,
}

/// Checks that a kernel that has ended has set a `what` back, which `who` was the last to change.
pub(super) fn check_end(
    job: &Job<'_>,
    what: &str,
    (address, value): (u64, u32),
    Who { block, thread, place }: Who,
) -> Result<(), SimError> {
    if value == 0 {
        return Ok(());
    }
    Err(SimError::Fault(Box::new(Fault {
        kind: FaultKind::SignalNotZero { value },
        kernel: job.entry.name,
        block: coordinates(block, job.grid_dim),
        thread,
        access: Some(access(AccessKind::Write, address)),
        message: format!("leaves a {what} at {value}: the kernel must set it back to zero"),
        location: Some(place.into()),
    })))
}
