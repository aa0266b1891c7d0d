//! Blocks of a cluster, and what they reach of each other.

use core::arch::{asm, nvptx};

/// Whether the target has clusters: sm_90 in PTX ISA 7.8; with what is older than 8.0 they could not multicast.
pub const CLUSTERS: bool = super::BULK_COPIES;

/// `blocks`, or a single one where the target has no clusters.
pub const fn blocks_of_cluster(blocks: u32) -> u32 {
    if CLUSTERS { blocks } else { 1 }
}

/// The special register `%cluster_ctarank`.
#[inline(always)]
pub fn cluster_rank() -> u32 {
    if !CLUSTERS {
        return 0;
    }
    let rank;
    // SAFETY: reads a special register.
    unsafe {
        asm!("mov.u32 {}, %cluster_ctarank;", out(reg32) rank, options(pure, nomem, nostack))
    };
    rank
}

/// `mapa` ("Data Movement and Conversion Instructions: mapa").
#[inline(always)]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    if !CLUSTERS {
        // SAFETY: a trap has no operands.
        unsafe { nvptx::trap() }
    }
    let mapped;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("mapa.shared::cluster.u32 {m}, {a}, {r};",
            m = out(reg32) mapped, a = in(reg32) address, r = in(reg32) rank, options(pure, nomem, nostack))
    };
    mapped
}

/// Instructions of clusters, or the end of the launch where the target has none.
macro_rules! cluster {
    ($($(#[$doc:meta])* $name:ident($($operand:ident),*) => $asm:literal);* $(;)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name($($operand: u32),*) {
            // SAFETY: as promised by the caller; a trap has no operands.
            unsafe {
                if CLUSTERS {
                    asm!($asm, $($operand = in(reg32) $operand,)* options(nostack))
                } else {
                    nvptx::trap()
                }
            }
        }
    )*};
}

cluster! {
    /// "Parallel Synchronization and Communication Instructions: barrier.cluster".
    cluster_arrive() => "barrier.cluster.arrive.release;";
    /// As above.
    cluster_wait() => "barrier.cluster.wait.acquire;";
    /// "mbarrier.arrive", at an mbarrier of any block of the cluster. With `.release.cluster` it would come after a fence of the whole GPU
    /// (ptxas 13.0), which takes longer than the products of a slice, and which nobody needs who only reads.
    mbarrier_arrive_in_cluster(address) => "mbarrier.arrive.shared::cluster.b64 _, [{address}];";
}
