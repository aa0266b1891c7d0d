//! Barriers of some of a block's warps (PTX ISA, "Parallel Synchronization and Communication Instructions: bar,
//! barrier").
//!
//! A block has 15 of them beside that of all its threads. A barrier is complete when as many threads as each of them
//! names have come; those that [`sync`] wait for that, those that [`arrive`] do not. What any of them did before is
//! then visible to those that waited. After that the barrier may be used again.

use crate::backend;

/// Barriers of a block; number 0 is that of [`sync_threads`](crate::thread::sync_threads).
pub const BARRIERS: u32 = 16;

/// Waits at a barrier, 1 to 15, until `threads` threads have come, this one among them: a multiple of 32, as warps
/// count with all of their lanes (`bar.sync`).
///
/// # Safety
/// All threads of a warp get here together, all that come to the barrier name the same number, and no more than that
/// come.
#[inline(always)]
#[track_caller]
pub unsafe fn sync(barrier: u32, threads: u32) {
    // SAFETY: as promised by the caller.
    unsafe { backend::named_barrier_sync(barrier, threads) }
}

/// Comes to a barrier, 1 to 15, for which `threads` threads must come, and goes on at once (`bar.arrive`).
///
/// # Safety
/// As for [`sync`]; the thread may come again only after it has seen that the barrier was complete.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive(barrier: u32, threads: u32) {
    // SAFETY: as promised by the caller.
    unsafe { backend::named_barrier_arrive(barrier, threads) }
}
