//! Words in global memory that all blocks may add to.

use crate::sim::{self, SyncOperation};
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn counter_add(address: u64, addend: u32) {
    let add = |place| _ = sim::counter_add(address, addend, place);
    sim::at(SyncOperation::CountAddition, Location::caller(), add);
}

#[inline(always)]
#[track_caller]
pub unsafe fn counter_arrive(address: u64) -> u32 {
    let place = Location::caller();
    let addend = u32::from(!sim::skips(SyncOperation::CountArrival, place));
    sim::counter_add(address, addend, place)
}

#[inline(always)]
#[track_caller]
pub unsafe fn counter_wait(address: u64, _at_least: u32, _looks: u32) -> bool {
    sim::counter_look(address, Location::caller());
    true
}

#[inline(always)]
#[track_caller]
pub unsafe fn counter_clear(address: u64) {
    let clear = |place| sim::counter_clear(address, place);
    sim::at(SyncOperation::CountClear, Location::caller(), clear);
}
