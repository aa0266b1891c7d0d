//! Words in global memory that all blocks may add to.

use core::arch::asm;

/// "Parallel Synchronization and Communication Instructions: red", with the semantics of section 8.10.
#[inline(always)]
pub unsafe fn counter_add(address: u64, addend: u32) {
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("red.relaxed.gpu.global.add.u32 [{}], {};", in(reg64) address, in(reg32) addend, options(nostack))
    }
}

/// "Parallel Synchronization and Communication Instructions: atom", as above.
#[inline(always)]
pub unsafe fn counter_arrive(address: u64) -> u32 {
    let before;
    // SAFETY: as promised by the caller. The compiler keeps what comes before and after where it is.
    unsafe {
        asm!("atom.acq_rel.gpu.global.add.u32 {}, [{}], 1;", out(reg32) before, in(reg64) address, options(nostack))
    }
    before
}

/// Section 9.7.9.8, as above.
#[inline(always)]
pub unsafe fn counter_wait(address: u64, at_least: u32, looks: u32) -> bool {
    for _ in 0..looks {
        let found: u32;
        // SAFETY: as promised by the caller.
        unsafe {
            asm!("ld.relaxed.gpu.global.u32 {}, [{}];", out(reg32) found, in(reg64) address, options(nostack))
        }
        if found >= at_least {
            return true;
        }
    }
    false
}

/// Section 9.7.9.11, as above.
#[inline(always)]
pub unsafe fn counter_clear(address: u64) {
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("st.relaxed.gpu.global.u32 [{}], {};", in(reg64) address, in(reg32) 0, options(nostack))
    }
}
