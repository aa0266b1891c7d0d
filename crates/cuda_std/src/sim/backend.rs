//! The host backend: every function is a call into the simulation that runs on this thread.
//!
//! Same names and signatures as the device backend, in files of the same names. Functions that may fault pass on the
//! place in the kernel's source that called them.

#[path = "backend/arithmetic.rs"]
mod arithmetic;
#[path = "backend/async_copy.rs"]
mod async_copy;
#[path = "backend/bulk_copy.rs"]
mod bulk_copy;
#[path = "backend/clock.rs"]
mod clock;
#[path = "backend/cluster.rs"]
mod cluster;
#[path = "backend/counter.rs"]
mod counter;
#[path = "backend/early_start.rs"]
mod early_start;
#[path = "backend/mbarrier.rs"]
mod mbarrier;
#[path = "backend/memory.rs"]
mod memory;
#[path = "backend/mma.rs"]
mod mma;
#[path = "backend/signal.rs"]
mod signal;
#[path = "backend/warpgroups.rs"]
mod warpgroups;
#[path = "backend/wgmma.rs"]
mod wgmma;

pub use arithmetic::*;
pub use async_copy::*;
pub use bulk_copy::*;
pub use clock::*;
pub use cluster::*;
pub use counter::*;
pub use early_start::*;
pub use mbarrier::*;
pub use memory::*;
pub use mma::*;
pub use signal::*;
pub use warpgroups::*;
pub use wgmma::*;

use crate::sim::{self, SyncOperation};
use std::panic::Location;

macro_rules! special_registers {
    ($($name:ident => $field:ident[$axis:literal]),* $(,)?) => {$(
        #[inline(always)]
        #[track_caller]
        pub fn $name() -> u32 {
            // SAFETY: the worker is the current one, and the reference ends here.
            unsafe { (*sim::current()).$field[$axis] }
        }
    )*};
}

special_registers! {
    thread_idx_x => thread_index[0],
    thread_idx_y => thread_index[1],
    thread_idx_z => thread_index[2],
    block_idx_x => block_index[0],
    block_idx_y => block_index[1],
    block_idx_z => block_index[2],
    block_dim_x => block_dim[0],
    block_dim_y => block_dim[1],
    block_dim_z => block_dim[2],
    grid_dim_x => grid_dim[0],
    grid_dim_y => grid_dim[1],
    grid_dim_z => grid_dim[2],
}

#[inline(always)]
#[track_caller]
pub fn lane_id() -> u32 {
    // SAFETY: the worker is the current one.
    unsafe { (*sim::current()).thread % sim::limits::WARP_THREADS }
}

#[inline(always)]
#[track_caller]
pub fn shared_dynamic() -> u32 {
    sim::current();
    sim::DYNAMIC_BASE
}

#[inline(always)]
#[track_caller]
pub fn shared_dynamic_bytes() -> u32 {
    // SAFETY: the worker is the current one, and the reference ends here.
    unsafe { (*sim::current()).shared.dynamic_bytes() }
}

#[inline(always)]
#[track_caller]
pub fn shared_static(bytes: usize) -> u32 {
    sim::shared_static(bytes, Location::caller())
}

/// What the simulator makes a fault of.
#[inline(always)]
#[track_caller]
pub fn trap() -> ! {
    panic!("trap")
}

#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    sim::at(SyncOperation::BlockBarrier, Location::caller(), sim::sync_threads);
}

#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    sim::at(SyncOperation::WarpBarrier, Location::caller(), |place| sim::sync_warp(mask, place));
}

macro_rules! shuffles {
    ($($name:ident => $mode:ident),* $(,)?) => {$(
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(mask: u32, value: u32, operand: u32) -> u32 {
            sim::shuffle(sim::Shuffle::$mode, mask, value, operand, Location::caller())
        }
    )*};
}

shuffles! {
    shuffle_bfly => Butterfly,
    shuffle_down => Down,
    shuffle_up => Up,
    shuffle_idx => Index,
}

/// The compiler of the host may know what it likes.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    value
}

#[inline(always)]
pub fn copied(value: f32) -> f32 {
    value
}

#[inline(always)]
pub fn whole(value: u64) -> u64 {
    value
}

#[inline(always)]
#[track_caller]
pub unsafe fn uniform(value: u32) -> u32 {
    sim::uniform(value, Location::caller())
}
