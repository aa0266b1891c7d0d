//! Words in global memory that blocks wait for: what the running kernel thread does with them, and which waiting
//! threads may go on. See "Signals" in [the module](crate::sim).

use super::access::Place;
use super::backing;
use super::block::{Job, coordinates};
use super::fault::{AccessKind, FaultKind, SimError};
use super::global_order;
use super::word::{self, Who, access};
use super::worker::{CachedAllocation, State, Stop, Worker, current, suspend};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread waits until its block sees a value.
#[derive(Clone, Copy)]
pub(super) struct SignalWait {
    address: u64,
    value: u32,
    pub(super) place: Place,
}

struct Post {
    who: Who,
    value: u32,
}

/// What words are called here.
const WHAT: &str = "signal";

/// A word that the kernel uses as a signal.
struct Signal {
    /// Its value before the launch.
    initial: u32,
    /// What somebody may see, by time and by block: what a block posts hides what it and later ones have posted before.
    posts: Vec<Post>,
}

impl Signal {
    fn post(&mut self, post: Post) {
        while self.posts.pop_if(|before| before.who.block >= post.who.block).is_some() {}
        self.posts.push(post);
    }

    /// The value for a block, which sees what it and those before it post: what later ones do is nothing to wait for,
    /// and what it saw of them would depend on the host.
    fn seen_by(&self, block: u64) -> u32 {
        let below = self.posts.partition_point(|post| post.who.block <= block);
        self.posts[..below].last().map_or(self.initial, |post| post.value)
    }
}

/// The signals of a launch, by address.
#[derive(Default)]
pub(super) struct Signals {
    by_address: Mutex<BTreeMap<u64, Signal>>,
    /// Somebody has posted.
    posted: Condvar,
}

/// How long a host thread sleeps before it looks whether other blocks have ended, of which nobody tells it: kernels
/// without signals pay nothing for it.
const NAP: Duration = Duration::from_micros(200);

impl Signals {
    /// Whoever posts and whoever waits holds this lock meanwhile, which also orders the memory of the two.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Signal>> {
        // Every change is made at once, so the signals are consistent even after a panic elsewhere.
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the kernel, which has ended, has set all signals back.
    pub(super) fn check_end(&self, job: &Job<'_>) -> Result<(), SimError> {
        for (&address, signal) in &*self.lock() {
            let Some(post) = signal.posts.last() else { continue };
            word::check_end(job, WHAT, (address, post.value), post.who)?;
        }
        Ok(())
    }
}

/// The memory of a word that is used as a signal.
///
/// # Safety
/// As for [`word::word`].
unsafe fn signal(
    worker: *mut Worker,
    kind: AccessKind,
    address: u64,
    place: Place,
) -> (CachedAllocation, usize) {
    // SAFETY: as promised by the caller.
    unsafe {
        word::word(worker, (kind, address, place), WHAT, |progress, read| {
            let new = || Signal { initial: read(), posts: Vec::new() };
            progress.signals.lock().entry(address).or_insert_with(new).initial
        })
    }
}

/// Sets a signal, which tells who waits for the value what the running thread has done, or not.
pub(crate) fn signal_post(address: u64, value: u32, tells: bool, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; the word lies in its allocation.
    unsafe {
        let (allocation, offset) = signal(worker, AccessKind::Write, address, place);
        let state = &mut *worker;
        state.counters.signal_posts += 1;
        let who = Who { block: state.block, thread: state.thread_index, place };
        let post = Post { who, value };
        global_order::post(state, address, value, tells);
        let mut signals = state.progress.signals.lock();
        backing::store(allocation.words, offset, value);
        signals.entry(address).and_modify(|signal| signal.post(post));
        drop(signals);
        state.progress.signals.posted.notify_all();
    }
}

/// Waits for a value.
pub(crate) fn signal_wait(address: u64, value: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        signal(worker, AccessKind::Read, address, place);
        (*worker).counters.signal_waits += 1;
        (*worker).shared.track_readers();
        suspend(worker, Stop::Signal(SignalWait { address, value, place }));
    }
}

/// Makes threads ready that wait for signals, in a block in which no other thread can go on, and says whether there
/// were any.
///
/// Looks until all have their values or nothing changes any more but through this block itself: so which threads go on
/// does not depend on how fast the other blocks are.
pub(super) fn release(worker: &mut Worker) -> Result<bool, SimError> {
    let threads = worker.threads.iter().enumerate();
    let waits: Vec<_> = threads
        .filter_map(|(index, thread)| match thread.state {
            State::Signal(wait) => Some((index, wait)),
            _ => None,
        })
        .collect();
    let Some(&(first, wait)) = waits.first() else { return Ok(false) };
    let (block, progress) = (worker.block, worker.progress.clone());
    let first_block = block - worker.member.rank as u64;
    let mut signals = progress.signals.lock();
    loop {
        let last_look = progress.ended_before(first_block) || progress.failed_before(first_block);
        let found = |wait: &SignalWait| signals.get(&wait.address).map_or(0, |s| s.seen_by(block));
        let given = |(_, wait): &&(usize, SignalWait)| found(wait) == wait.value;
        let ready: Vec<usize> = waits.iter().filter(given).map(|(thread, _)| *thread).collect();
        if ready.len() == waits.len() || last_look {
            if ready.is_empty() {
                // Where it is a block before that has failed, the error of that one is reported instead.
                return Err(deadlock(worker, first, wait, found(&wait)));
            }
            for &(thread, SignalWait { address, value, .. }) in &waits {
                if ready.contains(&thread) {
                    worker.threads[thread].state = State::Ready;
                    global_order::hear(worker, thread, address, value);
                }
            }
            return Ok(true);
        }
        let woken = progress.signals.posted.wait_timeout(signals, NAP);
        signals = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn deadlock(worker: &Worker, thread: usize, wait: SignalWait, found: u32) -> SimError {
    let SignalWait { address, value: wanted, place } = wait;
    let message = format!(
        "waits for the value {wanted} of a signal that is {found}: all blocks before this one have ended, and no thread of \
         the block can go on"
    );
    let thread = coordinates(thread as u64, worker.block_dim);
    let kind = FaultKind::SignalDeadlock { found, wanted };
    let access = Some(access(AccessKind::Read, address));
    SimError::Fault(worker.fault_of(thread, kind, access, message, Some(place.into())))
}
