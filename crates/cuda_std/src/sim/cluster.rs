//! Clusters: what the running kernel thread does with other blocks of its own, and what they may expect of each other.
//! See "Clusters" in [the module](crate::sim).

use super::access::{Place, log, shared_access_of};
use super::block::coordinates;
use super::fault::{AccessKind, FaultKind, Index, MemoryAccess, SimError, Space};
use super::knowledge::{Gathered, Knowledge, Member, merge};
use super::limits::WARP_THREADS;
use super::worker::{State, Stop, Worker, current, raise, suspend};
use std::collections::BTreeMap;
use std::sync::Arc;

const LANES: usize = WARP_THREADS as usize;

/// Where an address of the cluster's shared memory says of which block it is.
const RANK_SHIFT: u32 = 24;

/// How far a thread is with a barrier of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Attendance {
    /// It has not arrived since it last waited.
    #[default]
    Away,
    /// It has arrived.
    Arrived,
    /// All others have arrived, too.
    Complete,
}

/// The last access of a thread of another block.
struct Visit {
    visitor: Member,
    thread: u32,
    clock: u32,
    access: MemoryAccess,
    place: Place,
}

/// What a block has to do with others of its cluster.
#[derive(Default)]
pub(super) struct Neighbours {
    /// The blocks of the cluster by rank, this one among them.
    pub(super) workers: Vec<*mut Worker>,
    /// Whether all threads of this one have returned.
    pub(super) ended: bool,
    /// What its threads make known that have arrived at the barrier of the cluster.
    gathered: Gathered,
    /// What all have made known at the last one.
    completed: Arc<Knowledge>,
    /// By thread of the cluster.
    visits: BTreeMap<usize, Visit>,
}

impl Neighbours {
    /// Of a block of a cluster of these, which has just begun.
    pub(super) fn new(workers: &[*mut Worker]) -> Self {
        Neighbours { workers: workers.to_vec(), ..Neighbours::default() }
    }
}

/// The rank of the block that runs.
#[track_caller]
pub(crate) fn cluster_rank() -> u32 {
    // SAFETY: the worker is the current one.
    unsafe { (*current()).member.rank as u32 }
}

/// The address, in the cluster's shared memory, of what a block of it has at `address`.
pub(crate) fn map_shared(address: u32, rank: u32, place: Place) -> u32 {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        let blocks = (*worker).member.blocks;
        if rank as usize >= blocks {
            let message =
                format!("asks for shared memory of block {rank} of a cluster that has {blocks}");
            raise(worker, FaultKind::ClusterMisuse, None, message, place)
        }
        // Else it would be an address of another block.
        if address >> RANK_SHIFT != 0 {
            let message = format!(
                "asks for shared memory of block {rank} of its cluster at the address {address:#x}, which is out of bounds: no block \
                 has such an address"
            );
            raise(worker, FaultKind::OutOfBounds, None, message, place)
        }
    }
    address | rank << RANK_SHIFT
}

/// The address in its block, and that block, of an access of so many bytes to the cluster's shared memory. Raises a
/// fault where the block may have ended.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
pub(super) unsafe fn owner(
    worker: *mut Worker,
    (kind, address, bytes): (AccessKind, u32, usize),
    place: Place,
) -> (*mut Worker, u32) {
    let (rank, address) = (address >> RANK_SHIFT, address & ((1 << RANK_SHIFT) - 1));
    // SAFETY: as promised by the caller.
    unsafe { (visit(worker, rank as usize, (kind, address, bytes), place), address) }
}

/// Loads from shared memory of any block of the cluster.
///
/// # Safety
/// Any bits must be a valid `V`.
pub(crate) unsafe fn cluster_load<V: Copy>(address: u32, place: Place) -> V {
    let worker = current();
    let kind = AccessKind::Read;
    // SAFETY: the worker is the current one.
    unsafe {
        let (owner, address) = owner(worker, (kind, address, size_of::<V>()), place);
        log::<V>(worker, Space::Shared, kind, address.into(), true, place);
        shared_access_of::<V, V>(worker, owner, kind, address, place, |memory, who| {
            if who.is_remote() {
                memory.read_from_afar(address, who)
            } else {
                memory.read(address, who)
            }
        })
    }
}

/// The block of a rank, to whose shared memory the running thread does something, which that block must have seen
/// before it ends. Raises a fault where it may have ended.
///
/// # Safety
/// As for [`owner`]; there is a block of that rank.
unsafe fn visit(
    worker: *mut Worker,
    rank: usize,
    (kind, address, bytes): (AccessKind, u32, usize),
    place: Place,
) -> *mut Worker {
    // SAFETY: as promised by the caller; workers of one cluster run on one host thread, one at a time.
    unsafe {
        let owner = neighbour(worker, rank, (kind, address, bytes), place);
        if owner != worker {
            let (visitor, thread, clock) = ((*worker).member, (*worker).thread, (*worker).clock);
            let access = access_of(kind, address, bytes);
            let visit = Visit { visitor, thread, clock, access, place };
            (*owner).neighbours.visits.insert(visitor.index(thread as usize), visit);
        }
        owner
    }
}

/// The block of a rank. Raises a fault where it has ended.
///
/// # Safety
/// As for [`owner`]; there is a block of that rank.
pub(super) unsafe fn neighbour(
    worker: *mut Worker,
    rank: usize,
    (kind, address, bytes): (AccessKind, u32, usize),
    place: Place,
) -> *mut Worker {
    // SAFETY: as promised by the caller; workers of one cluster run on one host thread, one at a time.
    unsafe {
        let owner = (&(*worker).neighbours.workers)[rank];
        if owner != worker && (*owner).neighbours.ended {
            let access = access_of(kind, address, bytes);
            let (kind, message) = too_late((*owner).block_index);
            raise(worker, kind, Some(access), message, place)
        }
        owner
    }
}

fn access_of(kind: AccessKind, address: u32, bytes: usize) -> MemoryAccess {
    MemoryAccess { space: Space::Shared, kind, address: address.into(), bytes: bytes as u32 }
}

fn too_late(block: [u32; 3]) -> (FaultKind, String) {
    let message = format!(
        "in block {} of the cluster, which may have ended by then: no thread there is sure to return later",
        Index(block)
    );
    (FaultKind::BlockEnded { block }, message)
}

/// Ends a block whose threads have all returned: one of them must have seen whatever others have done here.
pub(super) fn end_block(worker: &mut Worker) -> Result<(), SimError> {
    worker.neighbours.ended = true;
    for Visit { visitor, thread, clock, access, place } in worker.neighbours.visits.values() {
        let seen = (0..worker.threads.len()).any(|own| {
            let clocks = &worker.clocks[own / LANES];
            clocks.has_seen_of(*visitor, own % LANES, *thread as usize, *clock)
        });
        if !seen {
            let (kind, message) = too_late(worker.block_index);
            let thread = coordinates((*thread).into(), worker.block_dim);
            // SAFETY: no fiber runs, and this is another worker.
            let other = unsafe { &*worker.neighbours.workers[visitor.rank] };
            let place = Some((*place).into());
            return Err(SimError::Fault(other.fault_of(
                thread,
                kind,
                Some(*access),
                message,
                place,
            )));
        }
    }
    Ok(())
}

/// The running thread arrives at a barrier of the cluster.
pub(crate) fn cluster_arrive(place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let state = &mut *worker;
        let thread = state.thread as usize;
        if state.threads[thread].attendance != Attendance::Away {
            let message =
                "arrives at a barrier of the cluster for a second time, and has not waited between";
            raise(worker, FaultKind::ClusterMisuse, None, message.to_owned(), place)
        }
        if state.shared.agents() == 0 {
            state.shared.track_threads(state.threads.len());
        }
        let (warp, lane) = (thread / LANES, thread % LANES);
        state.clocks[warp].tell(warp, lane, &mut state.neighbours.gathered);
        state.threads[thread].attendance = Attendance::Arrived;
        state.tick();
    }
}

/// The running thread waits at a barrier of the cluster.
pub(crate) fn cluster_wait(place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let state = &*worker;
        if state.threads[state.thread as usize].attendance == Attendance::Away {
            let message = "waits at a barrier of the cluster, and has not arrived";
            raise(worker, FaultKind::ClusterMisuse, None, message.to_owned(), place)
        }
        suspend(worker, Stop::ClusterBarrier(place));
    }
}

/// Lets threads go on that wait at the barrier of a cluster in which no other thread can, if all have arrived, and says
/// whether there were any.
pub(super) fn release(cluster: &mut [&mut Worker]) -> bool {
    let threads = || cluster.iter().flat_map(|worker| &worker.threads);
    let arrived = threads().any(|thread| thread.attendance == Attendance::Arrived);
    if arrived && threads().all(|thread| thread.has_arrived()) {
        let mut all = Knowledge::new();
        cluster.iter().for_each(|worker| merge(&mut all, worker.neighbours.gathered.all()));
        let all = Arc::new(all);
        for worker in cluster.iter_mut() {
            let Worker { neighbours, shared, member, .. } = &mut **worker;
            for (index, clock) in neighbours.gathered.take().into_iter().enumerate() {
                if index % member.blocks == member.rank {
                    shared.release(index / member.blocks, clock);
                }
            }
            worker.neighbours.completed = all.clone();
            for thread in &mut worker.threads {
                if thread.attendance == Attendance::Arrived {
                    thread.attendance = Attendance::Complete;
                }
            }
        }
    }
    let mut any = false;
    for worker in cluster {
        let Worker { threads, clocks, neighbours, .. } = &mut **worker;
        for (index, thread) in threads.iter_mut().enumerate() {
            let waits = matches!(thread.state, State::ClusterBarrier(_));
            if waits && thread.attendance == Attendance::Complete {
                let (warp, lane) = (index / LANES, index % LANES);
                clocks[warp].learn(warp, lane, &neighbours.completed);
                clocks[warp].tick(lane);
                (thread.state, thread.attendance) = (State::Ready, Attendance::Away);
                any = true;
            }
        }
    }
    any
}

/// Checks that no thread of a cluster in which none can go on waits at a barrier of the cluster.
pub(super) fn check_waits(cluster: &[&mut Worker]) -> Result<(), SimError> {
    for worker in cluster {
        let waiting =
            worker.threads.iter().enumerate().find_map(|(index, thread)| match thread.state {
                State::ClusterBarrier(place) => Some((index, place)),
                _ => None,
            });
        let Some((thread, place)) = waiting else { continue };
        let absent = cluster.iter().find_map(|other| {
            let missing = other.threads.iter().position(|thread| !thread.has_arrived())?;
            Some((other.block_index, coordinates(missing as u64, other.block_dim)))
        });
        let Some((block, missing)) = absent else { continue };
        let message = format!(
            "waits at a barrier of the cluster that not all of its threads reach: thread {} of block {} does not",
            Index(missing),
            Index(block)
        );
        let thread = coordinates(thread as u64, worker.block_dim);
        let kind = FaultKind::DivergentBarrier { missing };
        return Err(SimError::Fault(worker.fault_of(
            thread,
            kind,
            None,
            message,
            Some(place.into()),
        )));
    }
    Ok(())
}
