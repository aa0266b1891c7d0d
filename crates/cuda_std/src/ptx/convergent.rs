//! Instructions at which threads meet: there must be one of each for all of them. Where threads divide in the same way
//! before and after a barrier, a compiler may be tempted to copy it to both ways, and part of a warp then waits at one
//! and part at the other, which PTX leaves undefined.
//!
//! These are intrinsics of LLVM, which it knows not to copy; of `asm!` it does not know that. rustc, which knows it of
//! neither, copies no beginning of a loop when it threads jumps: so each of them is in a loop of one round, of which
//! LLVM leaves nothing. And each is so short that rustc writes it out where it is called, since of a call of a function
//! LLVM does not know either that threads meet in it.
//!
//! Matrix instructions of warps and warpgroups are `asm!` all the same, and functions that call these may be longer:
//! code that uses them keeps them away from such places.

/// A loop of one round.
macro_rules! at_one_place {
    ($meet:expr) => {
        let mut is_left = true;
        while is_left {
            $meet;
            is_left = false;
        }
    };
}

macro_rules! convergent {
    ($($name:ident $(<$n:ident: $t:ty>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)? = $intrinsic:literal;)*) => {
        mod intrinsics {
            #[allow(improper_ctypes, reason = "intrinsics are no foreign functions")]
            unsafe extern "unadjusted" {$(
                #[link_name = $intrinsic]
                pub fn $name($($n: $t,)? $($argument: $type),*) $(-> $result)?;
            )*}
        }
        $(
            convergent!(@ $name $(<$n: $t>)? ($($argument: $type),*) $(-> $result)?);
        )*
    };
    (@ $name:ident $(<$n:ident: $t:ty>)? ($($argument:ident: $type:ty),*)) => {
        #[inline(always)]
        pub unsafe fn $name $(<const $n: $t>)? ($($argument: $type),*) {
            // SAFETY: as promised by the caller.
            at_one_place!(unsafe { intrinsics::$name($($n,)? $($argument),*) });
        }
    };
    (@ $name:ident ($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[inline(always)]
        pub unsafe fn $name($($argument: $type),*) -> $result {
            let mut result = <$result>::default();
            // SAFETY: as promised by the caller.
            at_one_place!(result = unsafe { intrinsics::$name($($argument),*) });
            result
        }
    };
}

convergent! {
    bar_warp_sync(mask: u32) = "llvm.nvvm.bar.warp.sync";
    shfl_sync_bfly(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.bfly.i32";
    shfl_sync_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.down.i32";
    shfl_sync_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.up.i32";
    shfl_sync_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.idx.i32";
    redux_sync_or(value: u32, mask: u32) -> u32 = "llvm.nvvm.redux.sync.or";
    elect_sync(mask: u32) -> (u32, bool) = "llvm.nvvm.elect.sync";
    barrier_all(barrier: u32) = "llvm.nvvm.barrier.cta.sync.aligned.all";
    barrier_sync(barrier: u32, threads: u32) = "llvm.nvvm.barrier.cta.sync.aligned.count";
    barrier_arrive(barrier: u32, threads: u32) = "llvm.nvvm.barrier.cta.arrive.aligned.count";
    barrier_cluster_arrive() = "llvm.nvvm.barrier.cluster.arrive";
    barrier_cluster_wait() = "llvm.nvvm.barrier.cluster.wait";
    setmaxnreg_inc<N: u32>() = "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32";
    setmaxnreg_dec<N: u32>() = "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32";
    wgmma_fence() = "llvm.nvvm.wgmma.fence.sync.aligned";
    wgmma_commit_group() = "llvm.nvvm.wgmma.commit_group.sync.aligned";
    wgmma_wait_group<PENDING: usize>() = "llvm.nvvm.wgmma.wait_group.sync.aligned";
}
