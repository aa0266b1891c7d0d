//! Those who bring slices and those who multiply: how many threads, and their registers.

use cuda_std::wgmma::THREADS;
use cuda_std::{device_inline, registers};

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

/// Takes registers.
///
/// # Safety
/// All consumers do, once, and producers give theirs up.
#[device_inline]
pub unsafe fn become_consumer() {
    // SAFETY: as promised by the caller.
    unsafe { registers::increase::<CONSUMER_REGISTERS>() }
}
