//! Named barriers: what the running kernel thread does with them, and which waiting threads may go on.

use super::access::Place;
use super::block::coordinates;
use super::clocks::{Knowledge, merge};
use super::fault::{FaultKind, SimError};
use super::limits::WARP_THREADS;
use super::worker::{State, Stop, Worker, current, raise, suspend};
use crate::named_barrier::BARRIERS;
use std::ops::Range;

const LANES: usize = WARP_THREADS as usize;

/// The named barriers of the block that runs, by number. Number 0 is not used.
pub(super) type NamedBarriers = [NamedBarrier; BARRIERS as usize];

/// A thread waits until a barrier is complete.
#[derive(Clone, Copy)]
pub(super) struct NamedWait {
    barrier: u32,
    /// How often the barrier was complete before.
    round: u64,
    pub(super) place: Place,
}

/// A barrier of some of the block's warps.
#[derive(Default)]
pub(super) struct NamedBarrier {
    /// Threads that must come, as the first of them has said.
    expected: u32,
    /// Those that have come.
    arrived: Vec<u32>,
    /// What they make known.
    gathered: Knowledge,
    /// What those of the last round have made known, and the epoch that this is about: what came before a barrier of the whole block
    /// everyone has seen, unless knowledge of other blocks is among it.
    completed: Knowledge,
    epoch: u32,
    /// By thread, whether it has waited for the last round: then it has seen all that.
    waited: Vec<bool>,
    /// How often it has been complete.
    round: u64,
}

/// Waits until all threads of a barrier have come.
pub(crate) fn named_barrier_sync(barrier: u32, threads: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        let round = arrive(worker, barrier, threads, true, place);
        suspend(worker, Stop::NamedBarrier(NamedWait { barrier, round, place }));
    }
}

/// Comes to a barrier and goes on.
pub(crate) fn named_barrier_arrive(barrier: u32, threads: u32, place: Place) {
    // SAFETY: the worker is the current one.
    unsafe { arrive(current(), barrier, threads, false, place) };
}

/// Comes to a barrier, and gives how often it was complete before. `waits` says whether the thread is going to wait.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
unsafe fn arrive(
    worker: *mut Worker,
    barrier: u32,
    threads: u32,
    waits: bool,
    place: Place,
) -> u64 {
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let state = &mut *worker;
        let all = state.threads.len() as u32;
        let wrong = if !(1..BARRIERS).contains(&barrier) {
            Some(format!("there is none of that number but 1 to {}", BARRIERS - 1))
        } else if !threads.is_multiple_of(WARP_THREADS) || !(1..=all).contains(&threads) {
            Some(format!("{threads} threads are no whole warps of the block's {all} threads"))
        } else {
            let NamedBarrier { expected, arrived, .. } = &state.named_barriers[barrier as usize];
            if !arrived.is_empty() && *expected != threads {
                Some(format!(
                    "another thread has come for {expected} threads, this one for {threads}"
                ))
            } else if arrived.contains(&state.thread) {
                Some("the thread has come before and not waited until it was complete".to_owned())
            } else {
                None
            }
        };
        if let Some(wrong) = wrong {
            let message = format!("misuses the named barrier {barrier}: {wrong}");
            raise(worker, FaultKind::NamedBarrierMisuse, None, message, place)
        }

        if state.shared.agents() == 0 {
            state.shared.track_threads(state.threads.len());
        }
        let (warp, lane) = (state.thread as usize / LANES, state.thread as usize % LANES);
        let epoch = state.shared.epoch();
        let object = &mut state.named_barriers[barrier as usize];
        if object.epoch != epoch && state.member.is_alone() {
            object.completed.clear();
        }
        object.epoch = epoch;
        // In another order of the threads it would count for the round before.
        let waited = object.waited.get(state.thread as usize).is_some_and(|&waited| waited);
        if !waited && !state.clocks[warp].has_learned(warp, lane, &object.completed) {
            let message = format!(
                "misuses the named barrier {barrier}: the thread comes again, and has not seen that the barrier was complete \
                 before: in another order of the threads it counts in place of one that has yet to come"
            );
            raise(worker, FaultKind::NamedBarrierMisuse, None, message, place)
        }
        let known = state.clocks[warp].knowledge(warp, lane, state.shared.agents());
        let round = object.round;
        object.expected = threads;
        object.arrived.push(state.thread);
        merge(&mut object.gathered, &known);
        state.tick();
        let object = &mut state.named_barriers[barrier as usize];
        if object.arrived.len() == threads as usize {
            object.completed = std::mem::take(&mut object.gathered);
            object.arrived.clear();
            object.round += 1;
            state.counters.named_barriers += 1;
            let waiting = state.threads.iter().enumerate().filter(|(_, thread)| {
                matches!(thread.state, State::NamedBarrier(wait) if (wait.barrier, wait.round) == (barrier, round))
            });
            let this = waits.then_some(state.thread as usize);
            object.waited.clear();
            object.waited.resize(all as usize, false);
            for thread in waiting.map(|(thread, _)| thread).chain(this) {
                let (warp, lane) = (thread / LANES, thread % LANES);
                state.clocks[warp].learn(warp, lane, &object.completed);
                object.waited[thread] = true;
            }
        }
        round
    }
}

/// Makes those of some waiting threads ready whose barrier is complete, and says whether there were any.
pub(super) fn release(worker: &mut Worker, threads: Range<usize>) -> bool {
    let mut any = false;
    for thread in &mut worker.threads[threads] {
        let State::NamedBarrier(wait) = thread.state else { continue };
        if worker.named_barriers[wait.barrier as usize].round > wait.round {
            thread.state = State::Ready;
            any = true;
        }
    }
    any
}

/// Checks that no thread of a block in which none can go on waits at a named barrier.
pub(super) fn check_waits(worker: &Worker) -> Result<(), SimError> {
    let waiting =
        worker.threads.iter().enumerate().find_map(|(index, thread)| match thread.state {
            State::NamedBarrier(wait) => Some((index, wait)),
            _ => None,
        });
    let Some((thread, NamedWait { barrier, place, .. })) = waiting else { return Ok(()) };
    let NamedBarrier { expected, arrived, .. } = &worker.named_barriers[barrier as usize];
    let missing = expected - arrived.len() as u32;
    let message = format!(
        "waits at the named barrier {barrier} that {missing} of its {expected} threads do not reach: no thread of the block \
         can go on"
    );
    let thread = coordinates(thread as u64, worker.block_dim);
    let kind = FaultKind::NamedBarrierDeadlock { missing };
    Err(SimError::Fault(worker.fault_of(thread, kind, None, message, Some(place.into()))))
}
