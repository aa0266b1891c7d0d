//! What parts of a block do together: barriers of some of its warps, registers that move from one warpgroup to another.

use super::convergent;

/// Whether warpgroups can hand registers over: sm_90a alone.
pub const REGISTER_TRANSFERS: bool = cfg!(target_feature = "sm_90a");

/// Section 9.7.13.1, "bar, barrier".
#[inline(always)]
pub unsafe fn named_barrier_sync(barrier: u32, threads: u32) {
    // SAFETY: the caller promises that all of its warps get here together.
    unsafe { convergent::barrier_sync(barrier, threads) }
}

/// As above.
#[inline(always)]
pub unsafe fn named_barrier_arrive(barrier: u32, threads: u32) {
    // SAFETY: the caller promises that all of its warps get here together.
    unsafe { convergent::barrier_arrive(barrier, threads) }
}

/// `setmaxnreg` ("Miscellaneous Instructions: setmaxnreg").
#[inline(always)]
pub unsafe fn increase_registers<const N: u32>() {
    // SAFETY: the caller promises that the whole warpgroup gets here together.
    unsafe {
        if REGISTER_TRANSFERS {
            convergent::setmaxnreg_inc::<N>()
        }
    }
}

/// As above.
#[inline(always)]
pub unsafe fn decrease_registers<const N: u32>() {
    // SAFETY: the caller promises that the whole warpgroup gets here together.
    unsafe {
        if REGISTER_TRANSFERS {
            convergent::setmaxnreg_dec::<N>()
        }
    }
}

/// `elect.sync`, where the target has bulk copies too; elsewhere the first lane of the mask.
#[inline(always)]
pub unsafe fn elect(mask: u32) -> bool {
    // SAFETY: the caller promises that the lanes of `mask` arrive together.
    unsafe {
        if super::BULK_COPIES {
            convergent::elect_sync(mask).1
        } else {
            convergent::bar_warp_sync(mask);
            super::lane_id() == mask.trailing_zeros()
        }
    }
}
