//! Time as a multiprocessor sees it.
//!
//! A GPU that is at a limit of its power or its current leaves out some of its clock's cycles. [`cycles`] are those
//! that there have been: beside [`nanoseconds`] they say how fast a multiprocessor really was.
//!
//! The simulator has no time: each block there has a multiprocessor of its own, whose clock is the host's, a cycle a
//! nanosecond.

use crate::backend;

/// Which multiprocessor the block runs on (`%smid`): below its GPU's number of multiprocessors on those that are known,
/// though it need not be (PTX ISA, "Special Registers").
#[inline(always)]
#[track_caller]
pub fn multiprocessor() -> u32 {
    backend::multiprocessor()
}

/// Cycles of the multiprocessor since some moment (`%clock64`). Each counts for itself.
#[inline(always)]
pub fn cycles() -> u64 {
    backend::cycles()
}

/// Nanoseconds since some moment (`%globaltimer`), the same for all multiprocessors. It goes on in steps, whose length
/// is up to the GPU (PTX ISA, "Special Registers").
#[inline(always)]
pub fn nanoseconds() -> u64 {
    backend::nanoseconds()
}
