//! Launches that begin before the one before them has ended.

use crate::sim::{self, SyncOperation};
use std::panic::Location;

/// Kernels are checked as on targets that have them.
pub const EARLY_STARTS: bool = true;

#[inline(always)]
#[track_caller]
pub fn wait_for_earlier_launches() {
    let wait = |_| sim::wait_for_earlier_launches();
    sim::at(SyncOperation::EarlierLaunchesWait, Location::caller(), wait);
}
