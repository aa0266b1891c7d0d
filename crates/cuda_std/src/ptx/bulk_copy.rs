//! Bulk copies of boxes of tensors, and the fences that they need.

use core::arch::{asm, nvptx};

/// Whether the target has bulk copies: sm_90 in PTX ISA 8.0, which rustc writes for sm_90a and for what came after; for
/// sm_90 it must be asked to.
pub const BULK_COPIES: bool = cfg!(any(
    target_feature = "sm_90a",
    target_feature = "sm_100",
    all(target_feature = "sm_90", target_feature = "ptx80")
));

/// Instructions of sm_90, or the end of the launch where the target has none. The condition is a constant, so only one
/// of the two is left.
macro_rules! bulk {
    ($($(#[$doc:meta])* $name:ident($($operand:ident: $type:ty = $register:ident),*) => $asm:literal);* $(;)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name($($operand: $type),*) {
            // SAFETY: as promised by the caller; a trap has no operands.
            unsafe {
                if BULK_COPIES {
                    asm!($asm, $($operand = in($register) $operand,)* options(nostack))
                } else {
                    nvptx::trap()
                }
            }
        }
    )*};
}

bulk! {
    /// `cp.async.bulk.tensor` ("Data Movement and Conversion Instructions: Tensor copy"). The mbarrier counts the
    /// bytes.
    bulk_load_2d(target: u32 = reg32, map: u64 = reg64, x: i32 = reg32, y: i32 = reg32, mbarrier: u32 = reg32) =>
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
         [{target}], [{map}, {{{x}, {y}}}], [{mbarrier}];";
    /// As above, of a tensor of three dimensions.
    bulk_load_3d(target: u32 = reg32, map: u64 = reg64, x: i32 = reg32, y: i32 = reg32, z: i32 = reg32, mbarrier: u32 = reg32) =>
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
         [{target}], [{map}, {{{x}, {y}, {z}}}], [{mbarrier}];";
    /// As above, to the same place in each block of the cluster that the mask names, and to the mbarrier there.
    bulk_load_3d_multicast(target: u32 = reg32, map: u64 = reg64, x: i32 = reg32, y: i32 = reg32, z: i32 = reg32, mbarrier: u32 = reg32, blocks: u16 = reg16) =>
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster \
         [{target}], [{map}, {{{x}, {y}, {z}}}], [{mbarrier}], {blocks};";
    /// As above, in the other direction; completes with the thread's bulk group.
    bulk_store_2d(map: u64 = reg64, x: i32 = reg32, y: i32 = reg32, source: u32 = reg32) =>
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [{map}, {{{x}, {y}}}], [{source}];";
    /// As above, to a tensor of three dimensions, where a condition holds: in one block, in which the compiler sees no
    /// branch.
    bulk_store_3d_if(holds: u32 = reg32, map: u64 = reg64, x: i32 = reg32, y: i32 = reg32, z: i32 = reg32, source: u32 = reg32) =>
        "{{ .reg .pred p; setp.ne.u32 p, {holds}, 0; \
         @p cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [{map}, {{{x}, {y}, {z}}}], [{source}]; }}";
    /// `prefetch.tensormap` ("Data Movement and Conversion Instructions: prefetch").
    bulk_prefetch_map(map: u64 = reg64) => "prefetch.tensormap [{map}];";
    /// `cp.async.bulk.commit_group`
    bulk_commit_group() => "cp.async.bulk.commit_group;";
    /// `fence.proxy.async` ("Parallel Synchronization and Communication Instructions: membar / fence").
    fence_proxy_async_shared() => "fence.proxy.async.shared::cta;";
    /// `fence.mbarrier_init`, in the same section.
    fence_mbarrier_init() => "fence.mbarrier_init.release.cluster;";
}

/// `cp.async.bulk.wait_group`
#[inline(always)]
pub unsafe fn bulk_wait_group<const N: usize>() {
    // SAFETY: no operands but a constant; a trap has none.
    unsafe {
        if BULK_COPIES {
            asm!("cp.async.bulk.wait_group {};", const N, options(nostack))
        } else {
            nvptx::trap()
        }
    }
}

/// As above: waits until the sources have been read.
#[inline(always)]
pub unsafe fn bulk_wait_group_read<const N: usize>() {
    // SAFETY: no operands but a constant; a trap has none.
    unsafe {
        if BULK_COPIES {
            asm!("cp.async.bulk.wait_group.read {};", const N, options(nostack))
        } else {
            nvptx::trap()
        }
    }
}
