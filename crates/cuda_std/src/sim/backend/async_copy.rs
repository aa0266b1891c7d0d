//! Asynchronous copies of a thread.

use crate::sim::{self, SyncOperation};
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn copy_async<V: Copy>(target: u32, source: u64, predicate: bool) {
    sim::copy_async::<V>(target, source, predicate, Location::caller());
}

#[inline(always)]
#[track_caller]
pub fn commit_group() {
    sim::at(SyncOperation::CopyCommit, Location::caller(), |_| sim::commit_group());
}

#[inline(always)]
#[track_caller]
pub fn wait_group<const N: usize>() {
    sim::at(SyncOperation::CopyWait, Location::caller(), |_| sim::wait_group(N));
}
