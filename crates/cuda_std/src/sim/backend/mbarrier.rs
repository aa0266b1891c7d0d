//! Barriers in shared memory.

use crate::sim;
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_init(address: u32, arrivals: u32) {
    sim::mbarrier_init(address, arrivals, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive(address: u32) {
    sim::mbarrier_arrive(address, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_on_copies(address: u32) {
    sim::mbarrier_arrive_on_copies(address, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_wait(address: u32, parity: u32) {
    sim::mbarrier_wait(address, parity, Location::caller());
}

/// The simulator has mbarriers.
pub const MBARRIERS: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_expect_tx(address: u32, bytes: u32) {
    sim::mbarrier_arrive_expect_tx(address, bytes, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn fence_mbarrier_init() {
    sim::fence_mbarrier_init();
}
