//! Words in global memory that blocks wait for.

use super::access::{Place, global};
use super::fault::AccessKind;
use super::worker::current;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Sets a word.
pub(crate) fn signal_post(address: u64, value: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; the access was found to lie in its allocation.
    unsafe {
        let (allocation, offset) = global::<u32>(worker, AccessKind::Write, address, place);
        (*allocation.words.add(offset / 4)).store(!value, Release);
    }
}

/// Waits for a value.
pub(crate) fn signal_wait(address: u64, value: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; the access was found to lie in its allocation.
    unsafe {
        let (allocation, offset) = global::<u32>(worker, AccessKind::Read, address, place);
        while (*allocation.words.add(offset / 4)).load(Acquire) != !value {
            std::thread::yield_now();
        }
    }
}
