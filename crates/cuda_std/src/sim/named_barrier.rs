//! Named barriers: what the running kernel thread does with them, and which waiting threads may go on.

use super::access::Place;
use super::block::coordinates;
use super::divergence;
use super::fault::{FaultKind, Index, SimError};
use super::knowledge::{Gathered, Knowledge};
use super::limits::WARP_THREADS;
use super::worker::{State, Stop, Worker, current, raise, suspend};
use crate::named_barrier::BARRIERS;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

const LANES: usize = WARP_THREADS as usize;

/// The named barriers of the block that runs.
#[derive(Default)]
pub(super) struct NamedBarriers {
    /// By number. Number 0 is not used.
    barriers: [NamedBarrier; BARRIERS as usize],
    /// By warp, where its lanes come together one after another, oldest first: lanes that do not wait may be ahead of
    /// others.
    coming: Vec<VecDeque<Coming>>,
}

/// A thread waits until a barrier is complete.
#[derive(Clone, Copy)]
pub(super) struct NamedWait {
    barrier: u32,
    /// How often the barrier was complete before all lanes of the warp had come; `None` until they have.
    round: Option<u64>,
    pub(super) place: Place,
}

/// What a thread does at a barrier.
#[derive(Clone, Copy, PartialEq)]
struct Arrival {
    barrier: u32,
    /// Threads that must come.
    threads: u32,
    waits: bool,
    place: Place,
}

/// A warp comes to a barrier, which counts it when all of its lanes are there.
struct Coming {
    arrival: Arrival,
    /// Lanes that have come.
    lanes: u32,
    /// What they make known.
    gathered: Gathered,
}

/// A barrier of some of the block's warps.
#[derive(Default)]
struct NamedBarrier {
    /// Threads that must come, as the first of them has said.
    expected: u32,
    /// Warps that have come.
    arrived: Vec<usize>,
    /// What they make known.
    gathered: Gathered,
    /// What those of the last round have made known, and the epoch that this is about: what came before a barrier of
    /// the whole block everyone has seen, unless knowledge of other blocks is among it.
    completed: Arc<Knowledge>,
    epoch: u32,
    /// By thread, whether it has waited for the last round: then it has seen all that.
    waited: Vec<bool>,
    /// By warp, whether it was among those of a round that was complete.
    came: Vec<bool>,
    /// How often it has been complete.
    round: u64,
}

impl NamedBarrier {
    /// Threads that have come: a warp counts as a whole one.
    fn count(&self) -> u32 {
        self.arrived.len() as u32 * WARP_THREADS
    }
}

/// Waits until all threads of a barrier have come.
pub(crate) fn named_barrier_sync(barrier: u32, threads: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        let round = arrive(worker, Arrival { barrier, threads, waits: true, place });
        suspend(worker, Stop::NamedBarrier(NamedWait { barrier, round, place }));
    }
}

/// Comes to a barrier and goes on.
pub(crate) fn named_barrier_arrive(barrier: u32, threads: u32, place: Place) {
    // SAFETY: the worker is the current one.
    unsafe { arrive(current(), Arrival { barrier, threads, waits: false, place }) };
}

/// The running thread comes to a barrier. Gives how often it was complete before, if all lanes of the warp have come.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
unsafe fn arrive(worker: *mut Worker, arrival: Arrival) -> Option<u64> {
    let Arrival { barrier, place, .. } = arrival;
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let state = &mut *worker;
        let (warp, lane) = (state.thread as usize / LANES, state.thread as usize % LANES);
        let warps = state.threads.len().div_ceil(LANES);
        state.named_barriers.coming.resize_with(warps, VecDeque::new);
        if let Some(wrong) = misuse(state, &arrival) {
            let message = format!("misuses the named barrier {barrier}: {wrong}");
            raise(worker, FaultKind::NamedBarrierMisuse, None, message, place)
        }

        if state.shared.agents() == 0 {
            state.shared.track_threads(state.threads.len());
        }
        let epoch = state.shared.epoch();
        let object = &mut state.named_barriers.barriers[barrier as usize];
        if object.epoch != epoch && state.member.is_alone() {
            object.completed = Arc::default();
        }
        object.epoch = epoch;
        // In another order of the threads it would count for the round before.
        let waited = object.waited.get(state.thread as usize).is_some_and(|&waited| waited);
        if !waited && !state.clocks[warp].has_learned(warp, lane, &object.completed) {
            let unseen = "has not seen that the barrier was complete before: in another order of the threads it counts \
                          in place of one that has yet to come";
            let message = if object.came.get(warp).is_some_and(|&came| came) {
                format!("misuses the named barrier {barrier}: the thread comes again, and {unseen}")
            } else {
                format!(
                    "misuses the named barrier {barrier}: {} threads have come before, as many as must, and this one, \
                     which comes for the first time, is one too many or {unseen}",
                    object.expected
                )
            };
            raise(worker, FaultKind::NamedBarrierMisuse, None, message, place)
        }

        let coming = &mut state.named_barriers.coming[warp];
        let next = coming.iter().position(|coming| coming.lanes >> lane & 1 == 0);
        let next = next.unwrap_or_else(|| {
            coming.push_back(Coming { arrival, lanes: 0, gathered: Gathered::default() });
            coming.len() - 1
        });
        let others = &mut coming[next];
        if others.arrival != arrival {
            let (missing, at) = (others.lanes.trailing_zeros(), others.arrival);
            let missing = (warp * LANES) as u32 + missing;
            let missing = coordinates(missing.into(), state.block_dim);
            let message = format!(
                "comes to the named barrier {barrier} without all of its warp: thread {} has come to the named barrier {} at {}",
                Index(missing),
                at.barrier,
                at.place
            );
            raise(worker, FaultKind::DivergentBarrier { missing }, None, message, place)
        }
        state.clocks[warp].tell(warp, lane, &mut others.gathered);
        others.lanes |= 1 << lane;
        let lanes = LANES.min(state.threads.len() - warp * LANES) as u32;
        let all_came = others.lanes.count_ones() == lanes;
        state.tick();
        all_came.then(|| count(state, warp))
    }
}

/// What is wrong with an arrival of the running thread as such, if anything is.
fn misuse(worker: &Worker, &Arrival { barrier, threads, .. }: &Arrival) -> Option<String> {
    let all = worker.threads.len() as u32;
    if !(1..BARRIERS).contains(&barrier) {
        return Some(format!("there is none of that number but 1 to {}", BARRIERS - 1));
    }
    let whole_warps = 1..=all.next_multiple_of(WARP_THREADS);
    if !threads.is_multiple_of(WARP_THREADS) || !whole_warps.contains(&threads) {
        return Some(format!("{threads} threads are no whole warps of the block's {all} threads"));
    }
    let (warp, lane) = (worker.thread as usize / LANES, worker.thread as usize % LANES);
    let object = &worker.named_barriers.barriers[barrier as usize];
    if !object.arrived.is_empty() && object.expected != threads {
        return Some(format!(
            "another thread has come for {} threads, this one for {threads}",
            object.expected
        ));
    }
    let mut coming = worker.named_barriers.coming[warp].iter();
    let comes =
        |coming: &Coming| coming.arrival.barrier == barrier && coming.lanes >> lane & 1 == 1;
    if object.arrived.contains(&warp) || coming.any(comes) {
        return Some("the thread has come before and not waited until it was complete".to_owned());
    }
    None
}

/// Counts a warp of which the running thread was the last to come, and gives how often the barrier was complete before.
fn count(worker: &mut Worker, warp: usize) -> u64 {
    // A lane comes to one barrier after the other, so all of them have come to the first one.
    let Some(Coming { arrival, gathered, .. }) = worker.named_barriers.coming[warp].pop_front()
    else {
        unreachable!("the running thread has just come");
    };
    let Arrival { barrier, threads, waits, .. } = arrival;
    let object = &mut worker.named_barriers.barriers[barrier as usize];
    let round = object.round;
    if waits {
        let lanes = worker.threads.iter_mut().skip(warp * LANES).take(LANES);
        for thread in lanes {
            if let State::NamedBarrier(wait) = &mut thread.state {
                wait.round = Some(round);
            }
        }
    }
    object.expected = threads;
    object.arrived.push(warp);
    object.gathered.add(gathered.all());
    if object.count() == threads {
        object.completed = Arc::new(object.gathered.take());
        object.came.resize(worker.clocks.len(), false);
        object.arrived.drain(..).for_each(|warp| object.came[warp] = true);
        object.round += 1;
        worker.counters.named_barriers += 1;
        let waiting = worker.threads.iter().enumerate().filter(|(_, thread)| {
            matches!(thread.state, State::NamedBarrier(wait) if (wait.barrier, wait.round) == (barrier, Some(round)))
        });
        let this = waits.then_some(worker.thread as usize);
        object.waited.clear();
        object.waited.resize(worker.threads.len(), false);
        for thread in waiting.map(|(thread, _)| thread).chain(this) {
            let (warp, lane) = (thread / LANES, thread % LANES);
            worker.clocks[warp].learn(warp, lane, &object.completed);
            object.waited[thread] = true;
        }
    }
    round
}

/// Makes those of some waiting threads ready whose barrier is complete, and says whether there were any.
pub(super) fn release(worker: &mut Worker, threads: Range<usize>) -> bool {
    let mut any = false;
    for thread in &mut worker.threads[threads] {
        let State::NamedBarrier(wait) = thread.state else { continue };
        let completed = worker.named_barriers.barriers[wait.barrier as usize].round;
        if wait.round.is_some_and(|round| completed > round) {
            thread.state = State::Ready;
            any = true;
        }
    }
    any
}

/// Checks that no thread of a block in which none can go on waits at a named barrier.
pub(super) fn check_waits(worker: &Worker) -> Result<(), SimError> {
    check_warps(worker)?;
    let waiting =
        worker.threads.iter().enumerate().find_map(|(index, thread)| match thread.state {
            State::NamedBarrier(wait) => Some((index, wait)),
            _ => None,
        });
    let Some((thread, NamedWait { barrier, place, .. })) = waiting else { return Ok(()) };
    let object = &worker.named_barriers.barriers[barrier as usize];
    let (missing, expected) = (object.expected - object.count(), object.expected);
    let message = format!(
        "waits at the named barrier {barrier} that {missing} of its {expected} threads do not reach: no thread of the block \
         can go on"
    );
    let thread = coordinates(thread as u64, worker.block_dim);
    let kind = FaultKind::NamedBarrierDeadlock { missing };
    Err(SimError::Fault(worker.fault_of(thread, kind, None, message, Some(place.into()))))
}

/// Checks that no warp of a block in which no thread goes on has come to a named barrier with a part of its lanes.
pub(super) fn check_warps(worker: &Worker) -> Result<(), SimError> {
    for (warp, coming) in worker.named_barriers.coming.iter().enumerate() {
        let Some(Coming { arrival: Arrival { place, .. }, lanes, .. }) = coming.front() else {
            continue;
        };
        let first = warp * LANES;
        let expected = LANES.min(worker.threads.len() - first);
        return Err(divergence::partial_warp(worker, place, (first, *lanes, expected)));
    }
    Ok(())
}
