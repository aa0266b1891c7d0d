//! Words in global memory that all blocks may add to: what the running kernel thread does with them. See "Counts" in
//! [the module](crate::sim).

use super::access::Place;
use super::backing;
use super::block::Job;
use super::fault::{AccessKind, SimError};
use super::word::{self, Who};
use super::worker::{CachedAllocation, Worker, current};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A word that the kernel uses as a count.
#[derive(Clone, Copy)]
struct Count {
    /// Its value before the launch, and now.
    initial: u32,
    value: u32,
    /// Who changed it last.
    last: Option<Who>,
}

/// What words are called here.
const WHAT: &str = "count";

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
            let Some(who) = last else { continue };
            word::check_end(job, WHAT, (address, value), who)?;
        }
        Ok(())
    }
}

/// The memory of a word that is used as a count.
///
/// # Safety
/// As for [`word::word`].
unsafe fn count(
    worker: *mut Worker,
    kind: AccessKind,
    address: u64,
    place: Place,
) -> (CachedAllocation, usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        word::word(worker, (kind, address, place), WHAT, |progress, read| {
            let new = || {
                let initial = read();
                Count { initial, value: initial, last: None }
            };
            progress.counts.lock().entry(address).or_insert_with(new).initial
        })
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
        count.last = Some(Who { block: state.block, thread: state.thread_index, place });
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
