//! Asynchronous copies as the running kernel thread issues them and waits for them. See "Asynchronous copies" in
//! [the module](crate::sim).

use super::access::{Place, global, log, raise_misaligned, shared_access};
use super::backing;
use super::fault::{AccessKind, MemoryAccess, Space};
use super::limits::WARP_THREADS;
use super::shadow::Accessor;
use super::worker::current;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;

/// Words of the largest copy.
const MAX_WORDS: usize = 4;

/// A copy under way.
struct Copy {
    /// The words of the source's allocation and the offset of the source there; `None` for a copy that writes zeros.
    source: Option<(*const AtomicU32, usize)>,
    target: u32,
    bytes: u32,
}

/// The copies of one thread, oldest first.
#[derive(Default)]
pub(super) struct CopyQueue {
    copies: VecDeque<Copy>,
    /// Number of copies in each committed group, oldest first.
    groups: VecDeque<usize>,
    /// Copies that are in no group yet.
    open: usize,
}

impl CopyQueue {
    fn issue(&mut self, copy: Copy) {
        self.copies.push_back(copy);
        self.open += 1;
    }

    fn commit(&mut self) {
        self.groups.push_back(self.open);
        self.open = 0;
    }

    /// Takes out the copies of all groups but the `newest` ones.
    fn arrive(&mut self, newest: usize) -> impl Iterator<Item = Copy> {
        let old = self.groups.len().saturating_sub(newest);
        let copies: usize = self.groups.drain(..old).sum();
        self.copies.drain(..copies)
    }
}

/// Begins a copy of the bytes of a `V`, or of as many zeros where `predicate` does not hold. The alignment of the source is
/// checked in either case, as the instruction is executed in either case.
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
        state.threads[state.thread as usize].copies.issue(Copy { source, target, bytes });
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
    let clocks = &state.clocks[(state.thread / WARP_THREADS) as usize];
    let who = Accessor { thread: state.thread, clock: state.clock, clocks };
    for Copy { source, target, bytes } in state.threads[state.thread as usize].copies.arrive(newest)
    {
        let mut words = [0; MAX_WORDS];
        let words = &mut words[..bytes as usize / size_of::<u32>()];
        if let Some((allocation, offset)) = source {
            for (i, word) in words.iter_mut().enumerate() {
                // SAFETY: the source was found to lie in its allocation, which the launch keeps alive.
                *word = unsafe { backing::load(allocation, offset + i * size_of::<u32>()) };
            }
        }
        state.shared.end_copy(target, words, &who);
    }
}
