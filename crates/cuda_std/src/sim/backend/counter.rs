//! Words in global memory that all blocks may add to.

use crate::sim;
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn counter_add(address: u64, addend: u32) {
    sim::counter_add(address, addend, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn counter_arrive(address: u64) -> u32 {
    sim::counter_add(address, 1, Location::caller())
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
    sim::counter_clear(address, Location::caller());
}
