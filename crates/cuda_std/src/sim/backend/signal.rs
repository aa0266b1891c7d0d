//! Words in global memory that blocks wait for.

use crate::sim::{self, SyncOperation};
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn signal_post_if(holds: u32, address: u64, value: u32) {
    if holds != 0 {
        let post = |place| sim::signal_post(address, value, true, place);
        sim::at(SyncOperation::SignalPost, Location::caller(), post);
    }
}

#[inline(always)]
#[track_caller]
pub unsafe fn signal_clear(address: u64) {
    let clear = |place| sim::signal_post(address, 0, false, place);
    sim::at(SyncOperation::SignalClear, Location::caller(), clear);
}

#[inline(always)]
#[track_caller]
pub unsafe fn signal_wait(address: u64, value: u32) {
    let wait = |place| sim::signal_wait(address, value, place);
    sim::at(SyncOperation::SignalWait, Location::caller(), wait);
}
