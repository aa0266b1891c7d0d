//! What parts of a block do together: barriers of some of its warps, registers that move from one warpgroup to another.

use core::arch::asm;

/// Whether warpgroups can hand registers over: sm_90a alone.
pub const REGISTER_TRANSFERS: bool = cfg!(target_feature = "sm_90a");

/// Section 9.7.13.1, "bar, barrier".
#[inline(always)]
pub unsafe fn named_barrier_sync(barrier: u32, threads: u32) {
    // SAFETY: the caller promises that all of its warps get here together.
    unsafe { asm!("bar.sync {}, {};", in(reg32) barrier, in(reg32) threads, options(nostack)) }
}

/// As above.
#[inline(always)]
pub unsafe fn named_barrier_arrive(barrier: u32, threads: u32) {
    // SAFETY: the caller promises that all of its warps get here together.
    unsafe { asm!("bar.arrive {}, {};", in(reg32) barrier, in(reg32) threads, options(nostack)) }
}

/// `setmaxnreg` ("Miscellaneous Instructions: setmaxnreg").
#[inline(always)]
pub unsafe fn increase_registers<const N: u32>() {
    // SAFETY: the caller promises that the whole warpgroup gets here together.
    unsafe {
        if REGISTER_TRANSFERS {
            asm!("setmaxnreg.inc.sync.aligned.u32 {};", const N, options(nostack))
        }
    }
}

/// As above.
#[inline(always)]
pub unsafe fn decrease_registers<const N: u32>() {
    // SAFETY: the caller promises that the whole warpgroup gets here together.
    unsafe {
        if REGISTER_TRANSFERS {
            asm!("setmaxnreg.dec.sync.aligned.u32 {};", const N, options(nostack))
        }
    }
}

/// `elect.sync`, where the target has bulk copies too; elsewhere the first lane of the mask.
#[inline(always)]
pub unsafe fn elect(mask: u32) -> bool {
    // SAFETY: the caller promises that the lanes of `mask` arrive together.
    unsafe {
        if super::BULK_COPIES {
            let elected: u32;
            asm!("{{", ".reg .pred p;", "elect.sync _|p, {m};", "selp.b32 {r}, 1, 0, p;", "}}",
                m = in(reg32) mask, r = out(reg32) elected, options(nostack));
            elected != 0
        } else {
            asm!("bar.warp.sync {};", in(reg32) mask, options(nostack));
            super::lane_id() == mask.trailing_zeros()
        }
    }
}
