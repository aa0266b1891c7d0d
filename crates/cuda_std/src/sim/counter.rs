//! Words in global memory that all blocks may add to: what the running kernel thread does with them. See "Counts" in [the
//! module](crate::sim).

use super::access::{Place, global};
use super::backing;
use super::block::{Job, coordinates};
use super::fault::{AccessKind, Fault, FaultKind, MemoryAccess, SimError, Space};
use super::worker::{CachedAllocation, Worker, current, raise};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A word that the kernel uses as a count.
#[derive(Clone, Copy)]
struct Count {
    /// Its value before the launch, and now.
    initial: u32,
    value: u32,
    /// Who changed it last: the linear index of the block, and the thread.
    last: Option<(u64, [u32; 3], Place)>,
}

/// The counts of a launch, by address.
#[derive(Default)]
pub(super) struct Counts {
    by_address: Mutex<BTreeMap<u64, Count>>,
}

impl Counts {
    /// Whoever looks at a count or changes it holds this lock meanwhile.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Count>> {
        // Every change is made at once, so the counts are consistent even after a panic elsewhere.
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the kernel, which has ended, has set all counts back.
    pub(super) fn check_end(&self, job: &Job<'_>) -> Result<(), SimError> {
        for (&address, &Count { value, last, .. }) in &*self.lock() {
            let Some((block, thread, place)) = last else { continue };
            if value != 0 {
                return Err(SimError::Fault(Box::new(Fault {
                    kind: FaultKind::SignalNotZero { value },
                    kernel: job.entry.name,
                    block: coordinates(block, job.grid_dim),
                    thread,
                    access: Some(access(AccessKind::Write, address)),
                    message: format!(
                        "leaves a count at {value}: the kernel must set it back to zero"
                    ),
                    location: Some(place.into()),
                })));
            }
        }
        Ok(())
    }
}

fn access(kind: AccessKind, address: u64) -> MemoryAccess {
    MemoryAccess { space: Space::Global, kind, address, bytes: size_of::<u32>() as u32 }
}

/// The memory of a word that is used as a count. Raises a fault where there is none, or where it was not zero before the launch: in
/// every thread that uses it, so that the fault that is reported is always the same one.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
unsafe fn count(
    worker: *mut Worker,
    kind: AccessKind,
    address: u64,
    place: Place,
) -> (CachedAllocation, usize) {
    // SAFETY: as promised by the caller; the access lies in its allocation, which the launch keeps alive. Neither `state` nor the
    // lock is kept when the fault is raised.
    unsafe {
        let (allocation, offset) = global::<u32>(worker, kind, address, place);
        let new = || {
            let initial = backing::load(allocation.words, offset);
            Count { initial, value: initial, last: None }
        };
        let state = &*worker;
        let value = state.progress.counts.lock().entry(address).or_insert_with(new).initial;
        if value != 0 {
            let message = format!(
                "uses as a count a word that was {value} before the launch, and must have been zero"
            );
            let kind = (FaultKind::SignalNotZero { value }, access(kind, address));
            raise(worker, kind.0, Some(kind.1), message, place)
        }
        (allocation, offset)
    }
}

/// Changes a count and gives what it was before.
fn change(address: u64, place: Place, change: impl FnOnce(u32) -> u32) -> u32 {
    let worker = current();
    // SAFETY: the worker is the current one; the word lies in its allocation.
    unsafe {
        let (allocation, offset) = count(worker, AccessKind::Write, address, place);
        let state = &*worker;
        let mut counts = state.progress.counts.lock();
        let Some(count) = counts.get_mut(&address) else { unreachable!("made above") };
        let before = count.value;
        count.value = change(before);
        count.last = Some((state.block, state.thread_index, place));
        backing::store(allocation.words, offset, count.value);
        before
    }
}

/// Adds to a count, modulo 2^32, and gives what it was before.
pub(crate) fn counter_add(address: u64, addend: u32, place: Place) -> u32 {
    change(address, place, |value| value.wrapping_add(addend))
}

/// Sets a count back.
pub(crate) fn counter_clear(address: u64, place: Place) {
    change(address, place, |_| 0);
}

/// Looks at a count. What it is depends on which blocks run at the same time, so nobody is told.
pub(crate) fn counter_look(address: u64, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe { count(worker, AccessKind::Read, address, place) };
}
