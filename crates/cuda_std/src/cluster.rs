//! Clusters: blocks that run at the same time, on multiprocessors that lie close together, and reach each other's
//! shared memory (CUDA C++ Programming Guide, "Thread Block Clusters"; PTX ISA, "Cluster of Cooperative Thread
//! Arrays").
//!
//! [`#[kernel(cluster = n)]`](macro@crate::kernel) makes each `n` blocks that follow each other along x one. What they
//! can do with each other here:
//!
//! - wait for each other, all threads of all blocks ([`sync`], or [`arrive`] and later [`wait`]);
//! - arrive at mbarriers of each other ([`Mbarrier::in_block`](crate::mbarrier::Mbarrier::in_block)), and so give each
//!   other leave to write to shared memory;
//! - read shared memory of each other ([`load_vector`]);
//! - copy boxes of tensors to all of them at once ([`load_3d_multicast`](crate::bulk_copy::load_3d_multicast)): they
//!   are fetched once.
//!
//! Shared memory of a block, and the mbarriers in it, are gone when all its threads have returned. So two barriers of
//! the cluster frame what they do with each other: one after the mbarriers have been initialised, and one at the end,
//! which says that nobody will arrive or write any more.

use crate::backend;
use crate::memory::SharedPtr;
use crate::scalar::Scalar;

/// Whether the target has clusters: where it has [bulk copies](crate::bulk_copy::AVAILABLE). Where it has not, kernels
/// that use them compile all the same, each block is the first of its own, and all other functions for them end the
/// launch.
pub const AVAILABLE: bool = backend::CLUSTERS;

/// Which of the cluster's blocks this is, from 0 (`%cluster_ctarank`).
#[inline(always)]
#[track_caller]
pub fn rank() -> u32 {
    backend::cluster_rank()
}

/// Says that this thread has come to a barrier of the cluster (`barrier.cluster.arrive`): what it has done and seen
/// before is known to all who have [waited](wait) for that.
///
/// # Safety
/// All threads of all blocks of the cluster that have not returned do so, and each waits before it arrives again.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive() {
    // SAFETY: as promised by the caller.
    unsafe { backend::cluster_arrive() }
}

/// Waits until all threads of the cluster that have not returned have [arrived](arrive) (`barrier.cluster.wait`).
///
/// # Safety
/// This thread has arrived and not waited since.
#[inline(always)]
#[track_caller]
pub unsafe fn wait() {
    // SAFETY: as promised by the caller.
    unsafe { backend::cluster_wait() }
}

/// [`arrive`] and [`wait`].
///
/// # Safety
/// As for [`arrive`].
#[inline(always)]
#[track_caller]
pub unsafe fn sync() {
    // SAFETY: as promised by the caller.
    unsafe {
        arrive();
        wait();
    }
}

/// The bytes that [`load_vector`] reads.
const VECTOR_BYTES: usize = 16;

/// Reads `N` elements, 16 bytes, of what the block of rank `rank` has at `from` (`ld.shared::cluster`).
///
/// # Safety
/// The elements must lie in live shared memory of that block, and a barrier of the cluster lie between their writes and
/// this, as between this and the next write there or the end of that block; the address must be a multiple of 16.
#[inline(always)]
#[track_caller]
pub unsafe fn load_vector<T: Scalar, const N: usize>(from: SharedPtr<T>, rank: u32) -> [T; N] {
    const { assert!(size_of::<[T; N]>() == VECTOR_BYTES, "16 bytes") };
    // SAFETY: as promised by the caller.
    unsafe { backend::cluster_load(backend::map_shared(from.address(), rank)) }
}
