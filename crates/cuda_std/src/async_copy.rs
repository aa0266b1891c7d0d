//! Copies from global to shared memory that run while the thread goes on (PTX ISA, section 9.7.9.25.3, "Data Movement
//! and Conversion Instructions: Non-bulk copy", `cp.async`).
//!
//! A copy needs no registers on its way and nobody waits for it until somebody asks. A thread issues copies, closes
//! them into a group with [`commit_group`], and waits with [`wait_group`] until all but its newest groups have arrived.
//! Then they are visible to *this thread*; to the others after the next barrier. The usual order is therefore
//!
//! ```text
//! copy_async .. commit_group .. wait_group, sync_threads, use by the whole block, sync_threads, next copy_async
//! ```
//!
//! Or it leaves the waiting to others: see [`mbarrier`](crate::mbarrier).
//!
//! Between issue and wait nobody may read or write the destination or write the source. The simulator makes a copy as
//! late as these rules allow: at the wait, and not at all where nobody waits. Who touches the destination earlier is
//! reported as `FaultKind::AsyncNotWaited`.
//!
//! The instruction exists from sm_80 on. For older targets these functions copy through registers at once, which is one
//! of the orders that the rules allow, so the same kernel gives the same results there.

use crate::backend;
use crate::memory::{GlobalPtr, SharedPtr};
use crate::scalar::Scalar;

/// Whether `cp.async` can move this many bytes.
const fn is_copy_size(bytes: usize) -> bool {
    matches!(bytes, 4 | 8 | 16)
}

/// Begins to copy `N` elements, 4, 8 or 16 bytes in all, from `source` to `target`; where `inside` does not hold, to
/// write zeros there, and `source` is not read.
///
/// 16 bytes go past the L1 cache (`cp.async.cg`), fewer go through it (`cp.async.ca`); the bytes to read are the
/// instruction's operand `src-size`.
///
/// # Safety
/// Both addresses must be multiples of the bytes moved. `target` must lie in shared memory that nobody accesses until
/// this thread has waited for the copy; where `inside` holds, `source` must lie in live global memory that nobody
/// writes until then.
#[inline(always)]
#[track_caller]
pub unsafe fn copy_async<T: Scalar, const N: usize>(
    target: SharedPtr<T>,
    source: GlobalPtr<T>,
    inside: bool,
) {
    const { assert!(is_copy_size(size_of::<T>() * N), "a copy moves 4, 8 or 16 bytes") };
    // SAFETY: as promised by the caller; `[T; N]` is made of scalars.
    unsafe { backend::copy_async::<[T; N]>(target.address(), source.address(), inside) }
}

/// As [`copy_async`] for `elements` elements, for generic code that cannot name their number as a constant. It must be
/// one all the same once the code is compiled.
///
/// # Safety
/// As for [`copy_async`], with `N = elements`.
///
/// # Panics
/// Where the elements do not take 4, 8 or 16 bytes.
#[inline(always)]
#[track_caller]
pub unsafe fn copy_elements_async<T: Scalar>(
    target: SharedPtr<T>,
    source: GlobalPtr<T>,
    elements: usize,
    inside: bool,
) {
    assert!(is_copy_size(size_of::<T>() * elements), "a copy moves 4, 8 or 16 bytes");
    let (target, source) = (target.address(), source.address());
    // SAFETY: as promised by the caller; arrays of `T` are made of scalars.
    unsafe {
        match elements {
            1 => backend::copy_async::<[T; 1]>(target, source, inside),
            2 => backend::copy_async::<[T; 2]>(target, source, inside),
            4 => backend::copy_async::<[T; 4]>(target, source, inside),
            8 => backend::copy_async::<[T; 8]>(target, source, inside),
            _ => backend::copy_async::<[T; 16]>(target, source, inside),
        }
    }
}

/// Closes the copies that this thread has issued since its last group into a new group, which may be empty
/// (`cp.async.commit_group`).
#[inline(always)]
#[track_caller]
pub fn commit_group() {
    backend::commit_group()
}

/// Waits until at most the `N` newest groups of this thread are still under way (`cp.async.wait_group`). Copies that
/// are in no group are not waited for. What has arrived is visible to this thread, and to others after a barrier.
#[inline(always)]
#[track_caller]
pub fn wait_group<const N: usize>() {
    backend::wait_group::<N>()
}
