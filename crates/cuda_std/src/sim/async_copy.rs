//! Asynchronous copies as the running kernel thread issues them and waits for them. See "Asynchronous copies" in
//! [the module](crate::sim).

use super::access::{Place, global, log, raise_misaligned, shared_access};
use super::backing;
use super::fault::{AccessKind, MemoryAccess, Space};
use super::limits::WARP_THREADS;
use super::shared::SharedMemory;
use super::worker::current;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;

const LANES: usize = WARP_THREADS as usize;

/// Words of the largest copy.
const MAX_WORDS: usize = 4;

/// A copy under way.
pub(super) struct Copy {
    /// The words of the source's allocation and the offset of the source there; `None` for a copy that writes zeros.
    source: Option<(*const AtomicU32, usize)>,
    target: u32,
    bytes: u32,
    /// Clock of what copies for the thread, when the copy was issued.
    clock: u32,
}

/// The copies of one thread, oldest first.
#[derive(Default)]
pub(super) struct CopyQueue {
    copies: VecDeque<Copy>,
    /// Number of copies in each committed group, oldest first.
    groups: VecDeque<usize>,
    /// Copies that are in no group yet.
    open: usize,
    /// Copies that have arrived.
    arrived: u64,
    /// Clock of the last of them.
    landed: u32,
    /// Marks and groups so far. One more is the clock of what copies for the thread: it advances where copies may be
    /// waited for, so that those before can be told from those after.
    marks: u32,
}

impl CopyQueue {
    fn issue(&mut self, copy: Copy) {
        self.copies.push_back(copy);
        self.open += 1;
    }

    fn commit(&mut self) {
        self.groups.push_back(self.open);
        self.open = 0;
        self.marks += 1;
    }

    /// Clock of the copies that have arrived: of what is under way nobody can have seen anything.
    pub(super) fn clock(&self) -> u32 {
        self.landed
    }

    /// Clock of the next mark or group.
    pub(super) fn next_mark(&self) -> u32 {
        self.marks + 1
    }

    /// Marks the end of all copies issued so far: their number, and the clock that covers them.
    pub(super) fn mark(&mut self) -> (u64, u32) {
        self.marks += 1;
        (self.arrived + self.copies.len() as u64, self.marks)
    }

    /// Takes out the copies before the `end`-th that the thread has issued.
    pub(super) fn arrive_before(&mut self, end: u64) -> impl Iterator<Item = Copy> {
        let copies = end.saturating_sub(self.arrived) as usize;
        let mut left = copies;
        for group in self.groups.iter_mut().chain([&mut self.open]) {
            let taken = left.min(*group);
            *group -= taken;
            left -= taken;
        }
        self.take(copies)
    }

    /// Takes out the copies of all groups but the `newest` ones.
    fn arrive(&mut self, newest: usize) -> impl Iterator<Item = Copy> {
        let old = self.groups.len().saturating_sub(newest);
        let copies: usize = self.groups.drain(..old).sum();
        self.take(copies)
    }

    /// Takes out the oldest copies.
    fn take(&mut self, copies: usize) -> impl Iterator<Item = Copy> {
        self.arrived += copies as u64;
        if let Some(last) = copies.checked_sub(1).and_then(|last| self.copies.get(last)) {
            self.landed = last.clock;
        }
        self.copies.drain(..copies)
    }
}

/// Begins a copy of the bytes of a `V`, or of as many zeros where `predicate` does not hold. The alignment of the
/// source is checked in either case, as the instruction is executed in either case.
pub(crate) fn copy_async<V>(target: u32, source: u64, predicate: bool, place: Place) {
    let worker = current();
    let bytes = size_of::<V>() as u32;
    // SAFETY: the worker is the current one, and no reference to it outlives a statement that may suspend the thread.
    unsafe {
        log::<V>(worker, Space::Global, AccessKind::Read, source, predicate, place);
        log::<V>(worker, Space::Shared, AccessKind::Write, target as u64, true, place);
        let source = if predicate {
            let (allocation, offset) = global::<V>(worker, AccessKind::Read, source, place);
            Some((allocation.words, offset))
        } else {
            if !source.is_multiple_of(bytes as u64) {
                let (space, kind) = (Space::Global, AccessKind::Read);
                let access = MemoryAccess { space, kind, address: source, bytes };
                raise_misaligned(worker, access, place)
            }
            None
        };
        shared_access::<V, ()>(worker, AccessKind::Write, target, place, |memory, who| {
            memory.begin_copy(target, bytes, who)
        });
        let state = &mut *worker;
        state.counters.async_copies += 1;
        let copies = &mut state.threads[state.thread as usize].copies;
        copies.issue(Copy { source, target, bytes, clock: copies.next_mark() });
    }
}

/// Closes the thread's latest copies into a group.
pub(crate) fn commit_group() {
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    state.threads[state.thread as usize].copies.commit();
}

/// Lets the copies of all groups of the thread but the `newest` arrive.
pub(crate) fn wait_group(newest: usize) {
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    let thread = state.thread as usize;
    let copies = state.threads[thread].copies.arrive(newest);
    let latest = land(copies, &mut state.shared, thread, state.clock);
    let agents = state.shared.agents();
    if let Some(clock) = latest.filter(|_| agents > 0) {
        state.clocks[thread / LANES].learn_one(thread % LANES, agents / 2 + thread, clock);
    }
}

/// Lets copies of a thread arrive, and gives the clock of the latest. `own_clock` is the thread's own, for blocks in
/// which nobody but the thread can wait for them.
pub(super) fn land(
    copies: impl Iterator<Item = Copy>,
    shared: &mut SharedMemory,
    thread: usize,
    own_clock: u32,
) -> Option<u32> {
    let mut latest = None;
    for Copy { source, target, bytes, clock } in copies {
        let mut words = [0; MAX_WORDS];
        let words = &mut words[..bytes as usize / size_of::<u32>()];
        if let Some((allocation, offset)) = source {
            for (i, word) in words.iter_mut().enumerate() {
                // SAFETY: the source was found to lie in its allocation, which the launch keeps alive.
                *word = unsafe { backing::load(allocation, offset + i * size_of::<u32>()) };
            }
        }
        shared.end_copy(target, words, thread as u32, (own_clock, clock));
        latest = Some(clock);
    }
    latest
}
