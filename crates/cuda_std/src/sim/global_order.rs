//! Which writes to global memory a thread that reads there has been told of: what one thread stores another one finds only where
//! something orders the two. See "What is left out" in [the module](crate::sim).
//!
//! Threads of a block are ordered as they are in shared memory. What other blocks have written a thread has been told of where the
//! thread that [posted](super::signal) a signal had seen that, and this one has seen the wait for it. Writes that overwrite others, or
//! what others are still to read, are not looked at, and neither are bulk copies.

use super::accessor::Accessor;
use super::block::coordinates;
use super::clocks::{Knowledge, Member};
use super::fault::{AccessKind, FaultKind, Index, MemoryAccess};
use super::limits::WARP_THREADS;
use super::worker::Worker;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

const LANES: usize = WARP_THREADS as usize;

/// Bytes of the shortest scalar that kernels store.
const UNIT: u64 = 2;

/// Something that a thread of a block does.
#[derive(Clone, Copy)]
struct Event {
    block: u64,
    thread: u32,
    clock: u32,
    epoch: u32,
}

impl Event {
    /// Of the thread, whose clocks are up to date.
    fn of(worker: &Worker, thread: usize) -> Self {
        let clock = worker.clocks[thread / LANES].own(thread % LANES);
        Event { block: worker.block, thread: thread as u32, clock, epoch: worker.shared.epoch() }
    }

    /// Whether a thread of the same block has seen it.
    fn is_seen(&self, worker: &Worker, thread: usize) -> bool {
        let clocks = &worker.clocks[thread / LANES];
        let who = Accessor::new(thread as u32, clocks.own(thread % LANES), clocks);
        self.epoch < worker.shared.epoch()
            || self.thread == who.thread
            || who.comes_after(self.thread, self.clock)
    }
}

/// A signal that has been set.
struct Post {
    address: u64,
    value: u32,
    /// Whether it says anything to who waits for the value.
    tells: bool,
    event: Event,
    /// What its thread had seen.
    known: Knowledge,
    member: Member,
}

impl Post {
    /// Whether its thread had seen what another one of its block has done.
    fn covers(&self, event: &Event) -> bool {
        let known = self.known.get(self.member.index(event.thread as usize)).copied().unwrap_or(0);
        self.tells
            && event.block == self.event.block
            && (event.epoch < self.event.epoch || event.clock <= known)
    }
}

/// A thread has waited for a post.
pub(super) struct Heard {
    post: usize,
    wait: Event,
}

#[derive(Default)]
struct Told {
    /// By address, in units.
    writes: HashMap<u64, Event>,
    posts: Vec<Post>,
    /// Addresses of words that are there to be written and read at any time.
    words: HashSet<u64>,
}

/// What threads of a launch have written and told others.
#[derive(Default)]
pub(super) struct GlobalOrder {
    told: Mutex<Told>,
}

impl GlobalOrder {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that a word tells others something and is not looked at itself.
pub(super) fn excuse(worker: &Worker, address: u64) {
    if worker.watch.is_some() {
        worker.progress.order.lock().words.insert(address);
    }
}

/// Notes that the running thread sets a signal, which tells others what it has done and seen, or not.
pub(super) fn post(worker: &mut Worker, address: u64, value: u32, tells: bool) {
    if worker.watch.is_none() {
        return;
    }
    if worker.shared.agents() == 0 {
        worker.shared.track_threads(worker.threads.len());
    }
    let thread = worker.thread as usize;
    let known = worker.clocks[thread / LANES].knowledge(
        thread / LANES,
        thread % LANES,
        worker.shared.agents(),
    );
    let (event, member) = (Event::of(worker, thread), worker.member);
    worker.progress.order.lock().posts.push(Post { address, value, tells, event, known, member });
    // What it writes from now on the post says nothing of.
    worker.tick();
}

/// Notes that a thread has waited for the value of a signal.
pub(super) fn hear(worker: &mut Worker, thread: usize, address: u64, value: u32) {
    if worker.watch.is_none() {
        return;
    }
    let found = {
        let told = worker.progress.order.lock();
        let posted = |post: &Post| {
            (post.address, post.value) == (address, value) && post.event.block <= worker.block
        };
        told.posts.iter().rposition(posted)
    };
    if let Some(post) = found {
        let wait = Event::of(worker, thread);
        worker.heard.push(Heard { post, wait });
    }
}

/// Notes what the running thread writes, and says what is wrong where it reads what it has not been told of.
#[cold]
pub(super) fn access(worker: &Worker, access: &MemoryAccess) -> Option<(FaultKind, String)> {
    let thread = worker.thread as usize;
    let mut told = worker.progress.order.lock();
    if told.words.contains(&access.address) {
        return None;
    }
    let units = access.address / UNIT..(access.address + u64::from(access.bytes)).div_ceil(UNIT);
    if access.kind == AccessKind::Write {
        let event = Event::of(worker, thread);
        units.for_each(|unit| _ = told.writes.insert(unit, event));
        return None;
    }
    let unseen = |write: &&Event| {
        if write.block == worker.block {
            !write.is_seen(worker, thread)
        } else {
            let heard = worker.heard.iter().filter(|heard| heard.wait.is_seen(worker, thread));
            !heard.map(|heard| &told.posts[heard.post]).any(|post| post.covers(write))
        }
    };
    let write = units.filter_map(|unit| told.writes.get(&unit)).find(unseen)?;
    let block = coordinates(write.block, worker.grid_dim);
    let thread = coordinates(write.thread.into(), worker.block_dim);
    let message = format!(
        "races with thread {} of block {}, which wrote there: nothing that this thread has waited for says that it has",
        Index(thread),
        Index(block)
    );
    Some((FaultKind::GlobalRace { block, thread }, message))
}
