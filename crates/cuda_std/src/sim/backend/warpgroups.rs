//! What parts of a block do together: barriers of some of its warps, registers that move from one warpgroup to another.

use super::lane_id;
use crate::sim::{self, SyncOperation};
use std::panic::Location;

#[inline(always)]
#[track_caller]
pub unsafe fn named_barrier_sync(barrier: u32, threads: u32) {
    let sync = |place| sim::named_barrier_sync(barrier, threads, place);
    sim::at(SyncOperation::NamedBarrier, Location::caller(), sync);
}

#[inline(always)]
#[track_caller]
pub unsafe fn named_barrier_arrive(barrier: u32, threads: u32) {
    let arrive = |place| sim::named_barrier_arrive(barrier, threads, place);
    sim::at(SyncOperation::NamedBarrierArrival, Location::caller(), arrive);
}

#[inline(always)]
#[track_caller]
pub unsafe fn increase_registers<const N: u32>() {
    sim::transfer_registers(N, true, Location::caller());
}

/// Threads that a multiprocessor holds: of compute capability 9.0, the only one on which registers can be handed over.
pub const RESIDENT_THREADS: u32 = 2048;

/// Blocks that it holds, however small.
pub const RESIDENT_BLOCKS: u32 = 32;

/// The simulator's can hand registers over.
pub const REGISTER_TRANSFERS: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn decrease_registers<const N: u32>() {
    sim::transfer_registers(N, false, Location::caller());
}

/// The first lane of the mask, as soon as all of them have come. As a shuffle it orders no memory.
#[inline(always)]
#[track_caller]
pub unsafe fn elect(mask: u32) -> bool {
    let first = mask.trailing_zeros();
    let lane = lane_id();
    sim::shuffle(sim::Shuffle::Index, mask, lane, first, Location::caller()) == lane
}
