//! What a multiprocessor says of itself and of the time ("Special Registers").

use core::arch::asm;

#[inline(always)]
pub fn multiprocessor() -> u32 {
    let number;
    // SAFETY: reads a special register. A block stays where it is, but for debuggers.
    unsafe { asm!("mov.u32 {}, %smid;", out(reg32) number, options(nostack, nomem)) }
    number
}

#[inline(always)]
pub fn cycles() -> u64 {
    let cycles;
    // SAFETY: reads a special register. The compiler keeps accesses to memory before and after where they are.
    unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) cycles, options(nostack)) }
    cycles
}

#[inline(always)]
pub fn nanoseconds() -> u64 {
    let nanoseconds;
    // SAFETY: as above.
    unsafe { asm!("mov.u64 {}, %globaltimer;", out(reg64) nanoseconds, options(nostack)) }
    nanoseconds
}
