//! Threads that wait for others that never come.

use super::block::coordinates;
use super::collective::{BadSource, Collective};
use super::fault::{FaultKind, Index, SimError};
use super::worker::{State, Worker};
use std::ops::Range;
use std::panic::Location;

/// A thread that waits in vain, and the first one it waits for.
struct Stuck<'a> {
    waiting: usize,
    at: &'a str,
    location: &'static Location<'static>,
    missing: usize,
    /// How many threads do not come, of how many.
    absent: usize,
    expected: usize,
}

impl Stuck<'_> {
    fn error(self, worker: &Worker) -> SimError {
        let dim = worker.block_dim;
        let missing = coordinates(self.missing as u64, dim);
        let doing = match worker.threads[self.missing].state {
            State::Exited => "has exited".to_owned(),
            State::Barrier(location) => format!("waits at the block barrier at {location}"),
            State::Collective(other) => {
                format!("waits at the {} at {}", other.name(), other.location)
            }
            State::Mbarrier(wait) => format!("waits for an mbarrier at {}", wait.place),
            State::Signal(wait) => format!("waits for a signal at {}", wait.place),
            State::Warpgroup(step) => {
                format!("waits at the {} at {}", step.operation.name(), step.place)
            }
            State::NamedBarrier(wait) => format!("waits at a named barrier at {}", wait.place),
            State::ClusterBarrier(place) => {
                format!("waits at a barrier of the cluster at {place}")
            }
            State::Ready => "has not arrived".to_owned(),
        };
        let Stuck { at, absent, expected, .. } = self;
        let message = format!(
            "waits at a {at} that {absent} of its {expected} threads do not reach: thread {} {doing}",
            Index(missing)
        );
        let thread = coordinates(self.waiting as u64, dim);
        let kind = FaultKind::DivergentBarrier { missing };
        let location = Some(self.location.into());
        SimError::Fault(worker.fault_of(thread, kind, None, message, location))
    }
}

/// Checks that all threads of a block in which none can go on wait at the same barrier.
pub(super) fn check_block_barrier(worker: &Worker) -> Result<(), SimError> {
    let threads = &worker.threads;
    let first = threads.iter().enumerate().find_map(|(index, thread)| match thread.state {
        State::Barrier(location) => Some((index, location)),
        _ => None,
    });
    let Some((waiting, location)) = first else { return Ok(()) };
    let absent = |state: &State| !matches!(state, State::Barrier(other) if *other == location);
    let Some(missing) = threads.iter().position(|thread| absent(&thread.state)) else {
        return Ok(());
    };
    let (at, expected) = ("block barrier", threads.len());
    let absent = threads.iter().filter(|thread| absent(&thread.state)).count();
    Err(Stuck { waiting, at, location, missing, absent, expected }.error(worker))
}

/// Checks that no lane of a warp in which none is ready waits for others of its warp that do not come. Those that wait
/// for an mbarrier, at a named barrier or one of the cluster, or for a signal may yet come, and so may those that wait
/// for nobody but such lanes.
pub(super) fn check_collectives(worker: &Worker, warp: Range<usize>) -> Result<(), SimError> {
    let threads = &worker.threads[warp.clone()];
    if !threads.iter().any(|thread| matches!(thread.state, State::Collective(_))) {
        return Ok(());
    }
    let is_outside = |state: &State| {
        use State::{ClusterBarrier, Mbarrier, NamedBarrier, Signal};
        matches!(state, Mbarrier(_) | NamedBarrier(_) | ClusterBarrier(_) | Signal(_))
    };
    let outside = threads.iter().enumerate().filter(|(_, thread)| is_outside(&thread.state));
    let mut coming = outside.fold(0_u32, |mask, (lane, _)| mask | 1 << lane);
    // Members of a lane's operation that are not there and will not come.
    let absent = |collective: Collective, coming: u32| {
        collective.members(threads.len()).filter(move |&lane| {
            let arrived =
                matches!(&threads[lane].state, State::Collective(other) if other.same(&collective));
            !arrived && coming >> lane & 1 == 0
        })
    };
    // Each pass but the last finds a lane.
    let stuck = loop {
        let waiting = threads.iter().enumerate().filter_map(|(lane, thread)| match thread.state {
            State::Collective(collective) if coming >> lane & 1 == 0 => Some((lane, collective)),
            _ => None,
        });
        let (stuck, more): (Vec<_>, Vec<_>) =
            waiting.partition(|(_, collective)| absent(*collective, coming).next().is_some());
        if more.is_empty() {
            break stuck;
        }
        more.iter().for_each(|(lane, _)| coming |= 1 << lane);
    };
    let Some(&(lane, collective)) = stuck.first() else { return Ok(()) };
    let missing = absent(collective, coming).next().unwrap_or(lane);
    let stuck = Stuck {
        waiting: warp.start + lane,
        at: collective.name(),
        location: collective.location,
        missing: warp.start + missing,
        absent: absent(collective, coming).count(),
        expected: collective.members(threads.len()).count(),
    };
    Err(stuck.error(worker))
}

/// The error for a warp, from thread `first` on, of which only some lanes come to a named barrier.
pub(super) fn partial_warp(
    worker: &Worker,
    location: &'static Location<'static>,
    (first, lanes, expected): (usize, u32, usize),
) -> SimError {
    let stuck = Stuck {
        waiting: first + lanes.trailing_zeros() as usize,
        at: "named barrier",
        location,
        missing: first + lanes.trailing_ones() as usize,
        absent: expected - lanes.count_ones() as usize,
        expected,
    };
    stuck.error(worker)
}

/// The error for a shuffle that reads from a lane that does not take part.
pub(super) fn bad_source(worker: &Worker, warp_start: usize, bad: BadSource) -> SimError {
    let thread = coordinates((warp_start + bad.lane) as u64, worker.block_dim);
    let lane = bad.source;
    let message = format!("shuffles from lane {lane}, which does not take part");
    let kind = FaultKind::ShuffleSource { lane };
    SimError::Fault(worker.fault_of(thread, kind, None, message, Some(bad.location.into())))
}
