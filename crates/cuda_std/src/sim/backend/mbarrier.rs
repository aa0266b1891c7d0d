//! Barriers in shared memory.

use crate::sim::{self, SyncOperation};
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_init(address: u32, arrivals: u32) {
    sim::mbarrier_init(address, arrivals, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive(address: u32) {
    let arrive = |place| sim::mbarrier_arrive(address, place);
    sim::at(SyncOperation::MbarrierArrival, Location::caller(), arrive);
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_if(holds: u32, address: u32) {
    if holds != 0 {
        // SAFETY: as promised by the caller.
        unsafe { mbarrier_arrive(address) }
    }
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_on_copies(address: u32) {
    let arrive = |place| sim::mbarrier_arrive_on_copies(address, place);
    sim::at(SyncOperation::MbarrierArrivalOnCopies, Location::caller(), arrive);
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_wait(address: u32, parity: u32) {
    let wait = |place| sim::mbarrier_wait(address, parity, place);
    sim::at(SyncOperation::MbarrierWait, Location::caller(), wait);
}

/// The simulator has mbarriers.
pub const MBARRIERS: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_expect_tx(address: u32, bytes: u32) {
    let place = Location::caller();
    let bytes = if sim::skips(SyncOperation::MbarrierExpectation, place) { 0 } else { bytes };
    let arrive = |place| sim::mbarrier_arrive_expect_tx(address, bytes, place);
    sim::at(SyncOperation::MbarrierArrival, place, arrive);
}

#[inline(always)]
#[track_caller]
pub unsafe fn fence_mbarrier_init() {
    let fence = |_| sim::fence_mbarrier_init();
    sim::at(SyncOperation::MbarrierFence, Location::caller(), fence);
}
