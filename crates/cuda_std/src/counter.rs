//! Counts that blocks keep together: words in global memory that all may add to.
//!
//! A count says how far others are. It says nothing about memory: what a thread has done before it [`add`]s need not be
//! visible to who sees the sum ([`crate::signal`] is for that). Only who [`arrive`]s last knows that all others have
//! added what they had to.
//!
//! Waiting for a count is a hint. A block may run with blocks that it would have to wait for still to be started, so
//! nobody may wait without end for a block of higher index; [`wait_a_while`] looks a few times and then goes on. What a
//! kernel computes must not depend on it. The simulator, in which no time passes, does not wait at all.
//!
//! All words are zero before a launch, and the kernel sets them back, as with signals; the simulator reports those that
//! are not as `FaultKind::SignalNotZero`. During a launch nothing else may access them.

use crate::backend;
use crate::memory::GlobalPtr;

/// How many times [`wait_a_while`] looks at most: 50 microseconds on an H200.
pub const LOOKS: u32 = 64;

/// Adds to a count (`red.relaxed.gpu`).
///
/// # Safety
/// The word must lie in live global memory and be aligned to 4 bytes, and during the launch only functions of this
/// module may access it.
#[inline(always)]
#[track_caller]
pub unsafe fn add(count: GlobalPtr<u32>, addend: u32) {
    // SAFETY: as promised by the caller.
    unsafe { backend::counter_add(count.address(), addend) }
}

/// Adds one to a count and gives what it was before (`atom.acq_rel.gpu`): whoever finds that all others have arrived
/// knows that what they have added before is there.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
#[track_caller]
pub unsafe fn arrive(count: GlobalPtr<u32>) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { backend::counter_arrive(count.address()) }
}

/// Waits until a count is at least as much, but not for long (`ld.relaxed.gpu`, [`LOOKS`] times at most), and says
/// whether it was. On the simulator it always was.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
#[track_caller]
pub unsafe fn wait_a_while(count: GlobalPtr<u32>, at_least: u32) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { backend::counter_wait(count.address(), at_least, LOOKS) }
}

/// Sets a count back to zero (`st.relaxed.gpu`).
///
/// # Safety
/// As for [`add`]; nobody adds to it any more.
#[inline(always)]
#[track_caller]
pub unsafe fn clear(count: GlobalPtr<u32>) {
    // SAFETY: as promised by the caller.
    unsafe { backend::counter_clear(count.address()) }
}
