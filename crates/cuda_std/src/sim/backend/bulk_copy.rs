//! Bulk copies of boxes of tensors, and the fences that they need.

use crate::bulk_copy::TensorMap;
use crate::sim::{self, SyncOperation};
use std::panic::Location;

/// The simulator has bulk copies.
pub const BULK_COPIES: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_load_2d(target: u32, map: u64, x: i32, y: i32, mbarrier: u32) {
    // SAFETY: the address is that of a `TensorMap`, which its callers borrow.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_load(target, map, &[x, y], mbarrier, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_load_3d(target: u32, map: u64, x: i32, y: i32, z: i32, mbarrier: u32) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_load(target, map, &[x, y, z], mbarrier, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_store_2d(map: u64, x: i32, y: i32, source: u32) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_store(map, &[x, y], source, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_load_3d_multicast(
    target: u32,
    map: u64,
    x: i32,
    y: i32,
    z: i32,
    mbarrier: u32,
    blocks: u16,
) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_load_multicast(target, map, &[x, y, z], mbarrier, blocks, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_store_3d_if(holds: u32, map: u64, x: i32, y: i32, z: i32, source: u32) {
    if holds != 0 {
        // SAFETY: as above.
        let map = unsafe { &*(map as *const TensorMap) };
        sim::bulk_store(map, &[x, y, z], source, Location::caller());
    }
}

/// Nothing is far away, but there must be a map.
#[inline(always)]
#[track_caller]
pub unsafe fn bulk_prefetch_map(map: u64) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_prefetch_map(map, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_commit_group() {
    sim::at(SyncOperation::BulkCommit, Location::caller(), |_| sim::bulk_commit_group());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_wait_group<const N: usize>() {
    sim::at(SyncOperation::BulkWait, Location::caller(), |place| sim::bulk_wait_group(N, place));
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_wait_group_read<const N: usize>() {
    let wait = |place| sim::bulk_wait_group_read(N, place);
    sim::at(SyncOperation::BulkReadWait, Location::caller(), wait);
}

#[inline(always)]
#[track_caller]
pub unsafe fn fence_proxy_async_shared() {
    let fence = |_| sim::fence_proxy_async_shared();
    sim::at(SyncOperation::ProxyFence, Location::caller(), fence);
}
