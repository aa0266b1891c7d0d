//! Launches that begin before the one before them has ended.

use core::arch::asm;

/// Whether the target has them: sm_90 in PTX ISA 7.8.
pub const EARLY_STARTS: bool = super::BULK_COPIES;

/// "Parallel Synchronization and Communication Instructions: griddepcontrol". No access to memory moves across it.
#[inline(always)]
pub fn wait_for_earlier_launches() {
    if EARLY_STARTS {
        // SAFETY: no operands; without an earlier launch it does nothing.
        unsafe { asm!("griddepcontrol.wait;", options(nostack)) }
    }
}
