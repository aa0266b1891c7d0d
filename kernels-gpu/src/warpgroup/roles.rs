//! Those who bring slices and those who multiply: their threads and registers.

use crate::slices::ring::WARP;
use cuda_std::wgmma::THREADS;
use cuda_std::{device_inline, hint, registers, thread, warp};

/// Threads of the warpgroup that brings slices. One of them would do, but registers are handed over by whole warpgroups.
pub const PRODUCERS: u32 = THREADS;

/// Registers of a producer. Those of all threads of a block are what it was launched with: 168 for each of 384.
const PRODUCER_REGISTERS: u32 = 40;

/// Registers of a consumer.
const CONSUMER_REGISTERS: u32 = 232;

/// Gives up registers.
///
/// # Safety
/// All producers do, once.
#[device_inline]
pub unsafe fn become_producer() {
    // SAFETY: as promised by the caller.
    unsafe { registers::decrease::<PRODUCER_REGISTERS>() }
}

/// Whether this is the thread that brings slices, one of the first warp behind so many consumers. The warp elects it, so that the compiler knows of a single one: wherever any might ask for a
/// copy it goes over them in a loop, each time, and a small product waits for that.
///
/// # Safety
/// All producers ask, each warp of them together.
#[device_inline]
#[track_caller]
pub unsafe fn is_elected(consumers: u32) -> bool {
    let warp = hint::uniform(thread::thread_idx_x() / WARP);
    // SAFETY: as promised by the caller.
    warp == consumers / WARP && unsafe { warp::elect(warp::FULL_MASK) }
}

/// Takes registers.
///
/// # Safety
/// All consumers do, once, and producers give theirs up.
#[device_inline]
pub unsafe fn become_consumer() {
    // SAFETY: as promised by the caller.
    unsafe { registers::increase::<CONSUMER_REGISTERS>() }
}
