//! Which writes to global memory a thread that reads there has been told of: what one thread stores another one finds
//! only where something orders the two. See "What is left out" in [the module](crate::sim).
//!
//! Threads of a block are ordered as they are in shared memory, and those of a cluster by its barriers. Beyond that a
//! thread has been told of what the thread that [posted](super::signal) a signal had seen, where it has seen a wait for
//! that, and of what that one had been told of in turn. Writes that overwrite others, or what others are still to read,
//! are not looked at, and neither are bulk copies.

use super::accessor::Accessor;
use super::block::coordinates;
use super::fault::{AccessKind, FaultKind, Index, MemoryAccess};
use super::knowledge::{Knowledge, Member};
use super::limits::WARP_THREADS;
use super::worker::Worker;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

const LANES: usize = WARP_THREADS as usize;

/// Bytes that nearly all scalars have or are a multiple of.
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

    /// Whether a thread of the same block, or of another one of the cluster, has seen it.
    fn is_seen(&self, worker: &Worker, thread: usize) -> bool {
        let clocks = &worker.clocks[thread / LANES];
        let Some(block) = member_of(self.block, (worker.block, worker.member)) else {
            return false;
        };
        if block != worker.member {
            // SAFETY: blocks of a cluster run on one host thread, one at a time, and this is another one than that of
            // `worker`.
            let shared = unsafe { &(*worker.neighbours.workers[block.rank]).shared };
            return clocks.has_seen_of(block, thread % LANES, self.thread as usize, self.clock)
                && shared.has_released(self.thread, self.clock);
        }
        let who = Accessor::new(thread as u32, clocks.own(thread % LANES), clocks);
        self.epoch < worker.shared.epoch()
            || self.thread == who.thread
            || who.comes_after(self.thread, self.clock)
    }
}

/// Which block of a cluster the block of this linear index is, if it is one; `one` and which it is are those of one of
/// them.
fn member_of(block: u64, (one, member): (u64, Member)) -> Option<Member> {
    let rank = block.checked_sub(one - member.rank as u64)? as usize;
    (rank < member.blocks).then_some(Member { rank, ..member })
}

/// A signal that has been set.
struct Post {
    address: u64,
    value: u32,
    /// Whether it says anything to who waits for the value.
    tells: bool,
    event: Event,
    /// What its thread had seen of its block and its cluster.
    known: Knowledge,
    member: Member,
    /// The posts that it had been told of.
    heard: Vec<usize>,
}

impl Post {
    /// Whether its thread had seen what another one of its block or its cluster has done.
    fn covers(&self, event: &Event) -> bool {
        let Some(block) = member_of(event.block, (self.event.block, self.member)) else {
            return false;
        };
        let known = self.known.get(block.index(event.thread as usize)).copied().unwrap_or(0);
        event.clock <= known || block == self.member && event.epoch < self.event.epoch
    }
}

/// A thread has waited for a post.
pub(super) struct Heard {
    post: usize,
    wait: Event,
}

/// The last writes.
#[derive(Default)]
struct Writes {
    /// By address, in units of [`UNIT`] bytes.
    units: HashMap<u64, Event>,
    /// By address, those of single bytes, which have come after that of their unit.
    bytes: HashMap<u64, Event>,
}

impl Writes {
    fn add(&mut self, access: &MemoryAccess, event: Event) {
        let range = access.address..access.address + u64::from(access.bytes);
        if u64::from(access.bytes) < UNIT {
            range.for_each(|byte| _ = self.bytes.insert(byte, event));
            return;
        }
        for unit in range.start / UNIT..range.end / UNIT {
            self.units.insert(unit, event);
            if !self.bytes.is_empty() {
                (unit * UNIT..(unit + 1) * UNIT).for_each(|byte| _ = self.bytes.remove(&byte));
            }
        }
    }

    /// Those of the bytes of an access, each once or more often.
    fn of(&self, access: &MemoryAccess) -> impl Iterator<Item = &Event> {
        // One byte of each unit is enough where none has been written by itself.
        let step = if self.bytes.is_empty() { UNIT as usize } else { 1 };
        let bytes = access.address..access.address + u64::from(access.bytes);
        bytes.step_by(step).filter_map(move |byte| {
            let by_itself = if step == 1 { self.bytes.get(&byte) } else { None };
            by_itself.or_else(|| self.units.get(&(byte / UNIT)))
        })
    }
}

#[derive(Default)]
struct Told {
    writes: Writes,
    posts: Vec<Post>,
    /// Addresses of words that are there to be written and read at any time.
    words: HashSet<u64>,
}

impl Told {
    /// The posts that a thread of the block that runs has been told of.
    fn posts_of(&self, worker: &Worker, thread: usize) -> BTreeSet<usize> {
        let others = worker.neighbours.workers.iter().enumerate();
        let others = others.filter(|(rank, _)| *rank != worker.member.rank);
        // SAFETY: as in `Event::is_seen`.
        let others = others.flat_map(|(_, &other)| unsafe { &(*other).heard });
        let heard = worker.heard.iter().chain(others);
        let heard =
            heard.filter(|heard| heard.wait.is_seen(worker, thread)).map(|heard| heard.post);
        let telling = heard.filter(|&post| self.posts[post].tells);
        telling.flat_map(|post| self.posts[post].heard.iter().copied().chain([post])).collect()
    }
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
    let (event, member) = (Event::of(worker, thread), worker.member);
    let known = seen(worker, thread);
    let mut told = worker.progress.order.lock();
    let heard = told.posts_of(worker, thread).into_iter().collect();
    told.posts.push(Post { address, value, tells, event, known, member, heard });
    drop(told);
    // What it writes from now on the post says nothing of.
    worker.tick();
}

/// What a thread knows, and of other blocks of the cluster what it sees in memory.
fn seen(worker: &Worker, thread: usize) -> Knowledge {
    let (warp, lane, member) = (thread / LANES, thread % LANES, worker.member);
    let mut known = worker.clocks[warp].knowledge(warp, lane, worker.shared.agents());
    for (rank, &other) in worker.neighbours.workers.iter().enumerate() {
        if rank == member.rank {
            continue;
        }
        // SAFETY: as in `Event::is_seen`.
        let shared = unsafe { &(*other).shared };
        for agent in 0..worker.shared.agents() {
            let clock = &mut known[Member { rank, ..member }.index(agent)];
            *clock = shared.released(agent as u32).min(*clock);
        }
    }
    known
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
    if access.kind == AccessKind::Write {
        let event = Event::of(worker, thread);
        told.writes.add(access, event);
        return None;
    }
    let told = &*told;
    let mut heard = None;
    let mut unseen = |write: &&Event| {
        let posts = || told.posts_of(worker, thread);
        !write.is_seen(worker, thread)
            && !heard.get_or_insert_with(posts).iter().any(|&post| told.posts[post].covers(write))
    };
    let write = told.writes.of(access).find(|write| unseen(write))?;
    let block = coordinates(write.block, worker.grid_dim);
    let thread = coordinates(write.thread.into(), worker.block_dim);
    let message = format!(
        "races with thread {} of block {}, which wrote there: nothing that this thread has waited for says that it has",
        Index(thread),
        Index(block)
    );
    Some((FaultKind::GlobalRace { block, thread }, message))
}
