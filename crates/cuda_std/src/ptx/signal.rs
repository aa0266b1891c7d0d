//! Words in global memory that blocks wait for.

use core::arch::asm;

/// Section 9.7.9.11, with the semantics of section 8.10.
#[inline(always)]
pub unsafe fn signal_post_if(holds: u32, address: u64, value: u32) {
    // SAFETY: as promised by the caller. The compiler keeps what comes before in memory.
    unsafe {
        asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {h}, 0;", "@p st.release.gpu.global.u32 [{a}], {v};", "}}",
            h = in(reg32) holds, a = in(reg64) address, v = in(reg32) value, options(nostack))
    }
}

/// As above; the word alone is ordered.
#[inline(always)]
pub unsafe fn signal_clear(address: u64) {
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("st.relaxed.gpu.global.u32 [{}], {};", in(reg64) address, in(reg32) 0, options(nostack))
    }
}

/// Section 9.7.9.8, with the semantics of section 8.10.
#[inline(always)]
pub unsafe fn signal_wait(address: u64, value: u32) {
    loop {
        let found: u32;
        // SAFETY: as promised by the caller. The compiler keeps what comes after.
        unsafe {
            asm!("ld.acquire.gpu.global.u32 {}, [{}];", out(reg32) found, in(reg64) address, options(nostack))
        }
        if found == value {
            return;
        }
    }
}
