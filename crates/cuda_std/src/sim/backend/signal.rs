//! Words in global memory that blocks wait for.

use crate::sim;
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn signal_post(address: u64, value: u32) {
    sim::signal_post(address, value, Location::caller());
}

/// No different from other values here.
#[inline(always)]
#[track_caller]
pub unsafe fn signal_clear(address: u64) {
    sim::signal_post(address, 0, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn signal_wait(address: u64, value: u32) {
    sim::signal_wait(address, value, Location::caller());
}
