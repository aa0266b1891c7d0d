//! Which threads that wait for mbarriers may go on, and which never will.

use super::{Deferred, Passed, Wait, access, overruns, warp_and_lane};
use crate::sim::access::Place;
use crate::sim::async_copy::land;
use crate::sim::block::coordinates;
use crate::sim::fault::{AccessKind, FaultKind, Index, SimError};
use crate::sim::worker::{State, Worker};
use std::ops::Range;

/// Makes those of some waiting threads ready whose phase is over, or is as soon as copies arrive, and says whether
/// there were any. A thread waits even where it need not, so that the lanes of its warp go on together.
pub(in crate::sim) fn release(
    worker: &mut Worker,
    threads: Range<usize>,
) -> Result<bool, SimError> {
    let mut any = false;
    for thread in threads {
        let State::Mbarrier(wait) = worker.threads[thread].state else { continue };
        let Some(object) = worker.mbarriers.get_mut(&wait.address) else { continue };
        object.enter(worker.shared.epoch());
        if object.phase == wait.phase {
            let (expected, copied) = (object.bytes.expected, object.bytes.copied());
            if object.missing() > 0 || expected > copied {
                continue;
            }
            if expected > 0 && expected < copied {
                let (kind, message) = object.wrong_bytes();
                return Err(fault(worker, thread, wait, kind, message));
            }
            for Deferred { thread, copies, knowledge, .. } in object.deferred.drain(..) {
                let copies = worker.threads[thread].copies.arrive_before(copies);
                land(copies, &mut worker.shared, thread, 0);
                object.gathered.add(&knowledge);
            }
            // Without bytes to expect the phase does not wait for those that are under way.
            if expected > 0 {
                let (member, gathered) = (object.member, &mut object.gathered);
                object.bytes.land(&mut worker.shared, object.phase, gathered, member);
            }
            let agents = worker.shared.agents();
            if let Err(late) = object.complete(agents, worker.shared.warpgroups()) {
                let message = overruns(worker, late);
                return Err(fault(worker, thread, wait, FaultKind::MbarrierOverrun, message));
            }
        } else if object.phase > wait.phase + 1 {
            let message = overruns(worker, thread as u32);
            return Err(fault(worker, thread, wait, FaultKind::MbarrierOverrun, message));
        }
        let (warp, lane) = warp_and_lane(thread);
        let Some(object) = worker.mbarriers.get_mut(&wait.address) else { continue };
        let clocks = &mut worker.clocks[warp];
        clocks.learn(warp, lane, &object.completed[0]);
        object.passed.resize(worker.threads.len(), Passed::default());
        let copies = worker.threads[thread].copies.next_mark();
        object.passed[thread] = Passed { own: clocks.own(lane), copies };
        clocks.tick(lane);
        worker.threads[thread].state = State::Ready;
        any = true;
    }
    Ok(any)
}

/// Checks that no thread of a block in which none can go on waits for an mbarrier.
pub(in crate::sim) fn check_waits(worker: &Worker) -> Result<(), SimError> {
    let waits =
        worker.threads.iter().enumerate().filter_map(|(index, thread)| match thread.state {
            State::Mbarrier(wait) => Some((index, wait, worker.mbarriers.get(&wait.address)?)),
            _ => None,
        });
    // Where some arrivals of a phase have been made, the one that is missing is more likely to be the first mistake.
    let waiting =
        waits.min_by_key(|(index, _, object)| (object.missing() == object.expected, *index));
    let Some((thread, wait, object)) = waiting else { return Ok(()) };
    if object.missing() == 0 {
        let (kind, message) = object.wrong_bytes();
        return Err(fault(worker, thread, wait, kind, message));
    }
    let (expected, missing) = (object.expected, object.missing());
    let message = format!(
        "waits for an mbarrier that {missing} of its {expected} arrivals do not reach, in the phase of parity {}: no \
         thread of the block can go on",
        object.parity()
    );
    Err(fault(worker, thread, wait, FaultKind::MbarrierDeadlock { missing }, message))
}

/// Checks that nothing that a block's mbarriers are going to be told of is under way when its threads have all
/// returned.
pub(in crate::sim) fn check_end(worker: &Worker) -> Result<(), SimError> {
    let ends = |issuer: usize, place: Place, work: &str| {
        let issuer = coordinates(issuer as u64, worker.block_dim);
        let kind = FaultKind::EndsUnderWay { issuer };
        let message = format!(
            "{work}, and nobody has waited for the mbarrier that is told of that: the block has ended before"
        );
        let place = Some(place.into());
        Err(SimError::Fault(worker.fault_of(issuer, kind, None, message, place)))
    };
    for object in worker.mbarriers.values() {
        if let Some(load) = object.bytes.first_load() {
            let rank = load.issuer.rank;
            let work = if rank == worker.member.rank {
                "has a bulk load under way".to_owned()
            } else {
                let block = Index(worker.block_of(rank));
                format!("of block {block} of the cluster has a bulk load under way to this one")
            };
            return ends(load.issuer.thread as usize, load.place, &work);
        }
        if let Some(Deferred { thread, place, .. }) = object.deferred.first() {
            return ends(*thread, *place, "is going to arrive as soon as its copies have");
        }
    }
    Ok(())
}

fn fault(worker: &Worker, thread: usize, wait: Wait, kind: FaultKind, message: String) -> SimError {
    let thread = coordinates(thread as u64, worker.block_dim);
    let access = access(AccessKind::Read, wait.address);
    SimError::Fault(worker.fault_of(thread, kind, access, message, Some(wait.place.into())))
}
