//! Blocks of a cluster, and what they reach of each other.

use super::convergent;
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
pub unsafe fn map_shared(address: u32, rank: u32) -> u32 {
    if !CLUSTERS {
        // SAFETY: a trap has no operands.
        unsafe { nvptx::trap() }
    }
    let mapped;
    // SAFETY: the caller promises that the cluster has such a block.
    unsafe {
        asm!("mapa.shared::cluster.u32 {m}, {a}, {r};",
            m = out(reg32) mapped, a = in(reg32) address, r = in(reg32) rank, options(pure, nomem, nostack))
    };
    mapped
}

/// "Parallel Synchronization and Communication Instructions: barrier.cluster", whose arrival releases what the thread
/// has done.
#[inline(always)]
pub unsafe fn cluster_arrive() {
    // SAFETY: as promised by the caller; a trap has no operands.
    unsafe { if CLUSTERS { convergent::barrier_cluster_arrive() } else { nvptx::trap() } }
}

/// As above.
#[inline(always)]
pub unsafe fn cluster_wait() {
    // SAFETY: as promised by the caller; a trap has no operands.
    unsafe { if CLUSTERS { convergent::barrier_cluster_wait() } else { nvptx::trap() } }
}

/// "mbarrier.arrive" where a condition holds, at an mbarrier of any block of the cluster. With `.release.cluster` it
/// would come after a fence of the whole GPU (ptxas 13.0), which takes longer than the products of a slice, and which
/// nobody needs who only reads.
#[inline(always)]
pub unsafe fn mbarrier_arrive_in_cluster_if(holds: u32, address: u32) {
    // SAFETY: as promised by the caller; a trap has no operands.
    unsafe {
        if CLUSTERS {
            asm!("{{", ".reg .pred p;", "setp.ne.u32 p, {h}, 0;", "@p mbarrier.arrive.shared::cluster.b64 _, [{a}];", "}}",
                h = in(reg32) holds, a = in(reg32) address, options(nostack))
        } else {
            nvptx::trap()
        }
    }
}

/// "Data Movement and Conversion Instructions: ld", of 16 bytes from shared memory of any block of the cluster. No
/// other access to memory moves across it.
#[inline(always)]
pub unsafe fn cluster_load<V: Copy>(address: u32) -> V {
    let (x, y, z, w): (u32, u32, u32, u32);
    // SAFETY: as promised by the caller, who asks for 16 bytes; a trap has no operands.
    unsafe {
        if CLUSTERS {
            asm!("ld.shared::cluster.v4.b32 {{{x}, {y}, {z}, {w}}}, [{a}];",
                x = out(reg32) x, y = out(reg32) y, z = out(reg32) z, w = out(reg32) w, a = in(reg32) address,
                options(nostack));
        } else {
            nvptx::trap();
        }
        core::mem::transmute_copy(&[x, y, z, w])
    }
}
