//! Blocks of a cluster, and what they reach of each other.

use crate::sim::{self, SyncOperation};
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn cluster_load<V: Copy>(address: u32) -> V {
    // SAFETY: `V` is an array of scalars, as all callers promise.
    unsafe { sim::cluster_load(address, Location::caller()) }
}

/// The simulator has clusters.
pub const CLUSTERS: bool = true;

#[inline(always)]
#[track_caller]
pub fn cluster_rank() -> u32 {
    sim::cluster_rank()
}

#[inline(always)]
#[track_caller]
pub unsafe fn map_shared(address: u32, rank: u32) -> u32 {
    sim::map_shared(address, rank, Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn cluster_arrive() {
    sim::at(SyncOperation::ClusterArrival, Location::caller(), sim::cluster_arrive);
}

#[inline(always)]
#[track_caller]
pub unsafe fn cluster_wait() {
    sim::at(SyncOperation::ClusterWait, Location::caller(), sim::cluster_wait);
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_in_cluster_if(holds: u32, address: u32) {
    if holds != 0 {
        let arrive = |place| sim::mbarrier_arrive_in_cluster(address, place);
        sim::at(SyncOperation::MbarrierArrivalInCluster, Location::caller(), arrive);
    }
}
