//! Stacks for the threads of a block, reused from block to block and from launch to launch.
//!
//! The host does not give any number of them to a process. So whoever runs blocks [reserves](reserve) as many as the
//! threads of a block need for as long as it does, and waits while launches that run at the same time have too many.
//! Who has some waits for nobody that has none, so all get theirs at some time.

use corosensei::stack::DefaultStack;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a stack. Only pages that a thread touches take memory.
const STACK_BYTES: usize = 256 << 10;

/// Most stacks that are reserved at a time, and most that are kept for later. Each takes two mappings of the process,
/// of which Linux allows 65,530 by default.
const MAX_STACKS: usize = 16 << 10;

/// Stacks fetched at once from those that all workers share.
const BATCH: usize = 32;

static SHARED: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

static RESERVED: Mutex<usize> = Mutex::new(0);

/// Somebody has given back what it had reserved.
static GIVEN_BACK: Condvar = Condvar::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stacks that somebody may have. Dropped after they have been [released](Stacks::release).
pub(super) struct Reservation(usize);

/// How many must be reserved for so many blocks of so many threads: they are fetched in batches.
fn needed(blocks: usize, threads: usize) -> usize {
    blocks * threads.next_multiple_of(BATCH)
}

/// How many can run so many blocks of so many threads each at a time.
pub(super) fn most(blocks: usize, threads: usize) -> usize {
    (MAX_STACKS / needed(blocks, threads)).max(1)
}

/// Reserves the stacks for so many blocks of so many threads, as soon as there are enough left; `None` when they are
/// needed no more.
pub(super) fn reserve(
    blocks: usize,
    threads: usize,
    is_needed: impl Fn() -> bool,
) -> Option<Reservation> {
    let stacks = needed(blocks, threads);
    let mut reserved = lock(&RESERVED);
    while is_needed() {
        // The largest cluster needs no more than half of them.
        if *reserved + stacks <= MAX_STACKS {
            *reserved += stacks;
            return Some(Reservation(stacks));
        }
        reserved = GIVEN_BACK.wait(reserved).unwrap_or_else(PoisonError::into_inner);
    }
    None
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *lock(&RESERVED) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

/// The free stacks of one worker.
#[derive(Default)]
pub(super) struct Stacks {
    free: Vec<DefaultStack>,
}

impl Stacks {
    /// A free stack.
    pub(super) fn take(&mut self) -> io::Result<DefaultStack> {
        if self.free.is_empty() {
            let mut shared = lock(&SHARED);
            let rest = shared.len().saturating_sub(BATCH);
            self.free.extend(shared.drain(rest..));
        }
        self.free.pop().map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
    }

    /// Gives one back.
    pub(super) fn put(&mut self, stack: DefaultStack) {
        self.free.push(stack);
    }

    /// Leaves all free stacks to other workers.
    pub(super) fn release(&mut self) {
        let mut shared = lock(&SHARED);
        shared.append(&mut self.free);
        shared.truncate(MAX_STACKS);
    }
}
