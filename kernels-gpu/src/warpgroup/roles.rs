//! Producers, who bring slices, and consumers, who multiply: how many threads they are, and their registers.

use crate::share_of_registers::Registers;
use cuda_std::wgmma::THREADS;
use cuda_std::{device_inline, registers};

/// Threads of the warpgroup that brings slices. One of them would do, but registers are handed over by whole
/// warpgroups.
pub const PRODUCERS: u32 = THREADS;

/// Their registers, and those of the others.
const REGISTERS: Registers = Registers::new(40, 232);

/// Gives up registers.
///
/// # Safety
/// All producers do, once.
#[device_inline]
pub unsafe fn become_producer() {
    // SAFETY: as promised by the caller.
    unsafe { registers::decrease::<{ REGISTERS.producer }>() }
}

/// Takes registers.
///
/// # Safety
/// All consumers do, once, and producers give theirs up.
#[device_inline]
pub unsafe fn become_consumer() {
    // SAFETY: as promised by the caller.
    unsafe { registers::increase::<{ REGISTERS.consumer }>() }
}
