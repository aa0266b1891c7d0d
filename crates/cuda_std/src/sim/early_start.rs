//! Kernels that begin before the launch before theirs has ended: which of their threads have waited for it.

use super::access::Place;
use super::fault::{FaultKind, MemoryAccess};
use super::worker::{Worker, current, raise};

/// Lets the thread that runs touch global memory.
pub(crate) fn wait_for_earlier_launches() {
    let worker = current();
    // SAFETY: the worker is the current one, and the reference ends here.
    let state = unsafe { &mut *worker };
    state.is_early = false;
    state.threads[state.thread as usize].is_early = false;
}

/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
#[cold]
#[inline(never)]
pub(super) unsafe fn raise_early(
    worker: *mut Worker,
    access: Option<MemoryAccess>,
    place: Place,
) -> ! {
    let what = if access.is_some() { "comes" } else { "a copy from or to global memory comes" };
    let message = format!(
        "{what} before the thread has waited for earlier launches, which may still use that memory: the kernel is marked `early_start`"
    );
    // SAFETY: as promised by the caller.
    unsafe { raise(worker, FaultKind::TooEarly, access, message, place) }
}
