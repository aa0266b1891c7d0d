//! Registers that the warpgroups of a block hand over to others (PTX ISA, "Miscellaneous Instructions: setmaxnreg").
//!
//! A block is launched with as many registers for each thread as for all others. A warpgroup (four warps) that only
//! copies needs few: it gives up those beyond `N`, and one that computes takes them. Only sm_90a has this
//! ([`AVAILABLE`]); elsewhere the other functions do nothing. The simulator keeps count of what is given up and taken.
//! The kernel must have a bound on its registers ([`max_threads` and `min_blocks`, or
//! `max_registers`](macro@crate::kernel)).

use crate::backend;

/// `min_blocks`, or fewer where a multiprocessor cannot hold as many blocks of `max_threads`: ptxas would ignore the
/// directive altogether.
#[doc(hidden)]
pub const fn blocks_that_fit(max_threads: u32, min_blocks: u32) -> u32 {
    let by_threads = backend::RESIDENT_THREADS / max_threads;
    let fit =
        if by_threads < backend::RESIDENT_BLOCKS { by_threads } else { backend::RESIDENT_BLOCKS };
    if min_blocks < fit { min_blocks } else { fit }
}

/// Whether the target can hand registers over: sm_90a alone.
pub const AVAILABLE: bool = backend::REGISTER_TRANSFERS;

/// Whether `setmaxnreg` takes this number.
const fn is_count(registers: u32) -> bool {
    registers >= 24 && registers <= 256 && registers.is_multiple_of(8)
}

/// Waits until each thread of the warpgroup can have `N` registers and takes them: 24 to 256, a multiple of 8
/// (`setmaxnreg.inc`).
///
/// # Safety
/// All threads of the warpgroup get here together, with `N` registers or fewer, and others give up what it takes.
#[inline(always)]
#[track_caller]
pub unsafe fn increase<const N: u32>() {
    const { assert!(is_count(N), "24 to 256 registers, a multiple of 8") };
    // SAFETY: as promised by the caller.
    unsafe { backend::increase_registers::<N>() }
}

/// Gives up the registers beyond `N` of each thread: 24 to 256, a multiple of 8 (`setmaxnreg.dec`).
///
/// # Safety
/// All threads of the warpgroup get here together, with `N` registers or more.
#[inline(always)]
#[track_caller]
pub unsafe fn decrease<const N: u32>() {
    const { assert!(is_count(N), "24 to 256 registers, a multiple of 8") };
    // SAFETY: as promised by the caller.
    unsafe { backend::decrease_registers::<N>() }
}
