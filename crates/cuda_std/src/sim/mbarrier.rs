//! Mbarriers: what the running kernel thread does with them, and which waiting threads may go on. See "Mbarriers" in
//! [the module](crate::sim).

mod bytes;
mod waits;

pub(super) use bytes::begin_load;
pub(crate) use bytes::fence_mbarrier_init;
pub(super) use waits::{check_end, check_waits, release};

use super::access::{Place, shared_access};
use super::accessor::Accessor;
use super::block::coordinates;
use super::clocks::Clocks;
use super::cluster;
use super::fault::{AccessKind, FaultKind, Index, MemoryAccess, Space};
use super::knowledge::{Gathered, Knowledge, Member};
use super::limits::WARP_THREADS;
use super::operands::Warpgroups;
use super::worker::{Stop, Worker, current, raise, suspend};
use bytes::{Bytes, expect};
use std::collections::BTreeMap;
use std::sync::Arc;

const LANES: usize = WARP_THREADS as usize;

/// Most arrivals that a phase can expect (PTX ISA, "Size and alignment of mbarrier object", "Contents of the mbarrier
/// object").
const MAX_ARRIVALS: u32 = (1 << 20) - 1;

/// The mbarriers of the block that runs, by address.
pub(super) type Mbarriers = BTreeMap<u32, Mbarrier>;

/// A thread waits until a phase is over.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) address: u32,
    /// Number of the phase.
    phase: u64,
    pub(super) place: Place,
}

/// An arrival that a thread makes when its copies have arrived.
struct Deferred {
    thread: usize,
    /// How many of the thread's copies come first.
    copies: u64,
    /// What whoever sees the arrival knows.
    knowledge: Knowledge,
    place: Place,
}

/// When a thread passed a wait: its own clock, and that of the copies that it marks next. Who knows of either knows
/// that the thread has waited; of copies that does not say that what the thread has done before is visible.
#[derive(Clone, Copy, Default)]
struct Passed {
    own: u32,
    copies: u32,
}

/// An mbarrier object.
pub(super) struct Mbarrier {
    /// Arrivals that a phase expects.
    expected: u32,
    /// Arrivals still to come in the phase under way, deferred ones among them.
    pending: u32,
    /// Number of the phase under way, from 1. Phase 0 is over from the start, and of odd parity.
    phase: u64,
    deferred: Vec<Deferred>,
    bytes: Bytes,
    /// What the arrivals of the phase under way make known.
    gathered: Gathered,
    /// What those of the last phase made known, and those of the phase before.
    completed: [Arc<Knowledge>; 2],
    /// By thread, when it passed a wait for the last phase, 0 for the others.
    passed: Vec<Passed>,
    /// The epoch that all of the above is about. What came before is ordered by a block barrier, but not for other
    /// blocks of a cluster: there it is about all epochs.
    epoch: u32,
    /// Its block.
    member: Member,
    /// Thread, clock and epoch of the initialisation.
    initialised: (u32, u32, u32),
}

impl Mbarrier {
    /// Parity of the phase under way.
    fn parity(&self) -> u32 {
        (self.phase - 1) as u32 & 1
    }

    /// Arrivals that nobody has made, not even at a later time.
    fn missing(&self) -> u32 {
        self.pending - self.deferred.len() as u32
    }

    fn enter(&mut self, epoch: u32) {
        if self.epoch != epoch && self.member.is_alone() {
            self.epoch = epoch;
            self.gathered = Gathered::default();
            self.completed = Default::default();
            self.passed.clear();
        }
    }

    /// Ends the phase under way, in a block of `agents` agents. Fails with a thread that may not have seen the end of
    /// the last one yet.
    fn complete(&mut self, agents: usize, warpgroups: &Warpgroups) -> Result<(), u32> {
        let member = self.member;
        let gathered = self.gathered.all();
        let seen = |agent: usize| gathered.get(member.index(agent)).copied().unwrap_or(0);
        let late = self.passed.iter().enumerate().position(|(thread, passed)| {
            passed.own > seen(thread)
                && passed.copies > seen(agents / 2 + thread)
                && passed.own > warpgroups.reached(thread, gathered, member)
        });
        if let Some(late) = late {
            return Err(late as u32);
        }
        self.completed.swap(0, 1);
        self.completed[0] = Arc::new(self.gathered.take());
        self.passed.clear();
        self.phase += 1;
        self.pending = self.expected;
        self.bytes.expected = 0;
        Ok(())
    }
}

fn warp_and_lane(thread: usize) -> (usize, usize) {
    (thread / LANES, thread % LANES)
}

fn access(kind: AccessKind, address: u32) -> Option<MemoryAccess> {
    let bytes = size_of::<u64>() as u32;
    Some(MemoryAccess { space: Space::Shared, kind, address: address as u64, bytes })
}

fn overruns(owner: &Worker, late: u32) -> String {
    let late = coordinates(late as u64, owner.block_dim);
    format!(
        "overruns the mbarrier there: its phase is over before thread {} there is sure to have seen the end of the phase \
         before",
        Index(late)
    )
}

/// The mbarrier at `address` of the block of `owner`, in its present epoch. Raises a fault where there is none.
///
/// # Safety
/// `worker` must be the current one, `owner` one of its cluster, and no reference to either may be alive.
unsafe fn object<'a>(
    worker: *mut Worker,
    owner: *mut Worker,
    kind: AccessKind,
    address: u32,
    place: Place,
) -> &'a mut Mbarrier {
    // SAFETY: the worker is the current one; no reference to it is used after a suspension, and its clocks are no part
    // of what points to the owner's mbarriers.
    let (shared, who, mbarriers) = unsafe {
        let clocks = &(&(*worker).clocks)[((*worker).thread / WARP_THREADS) as usize];
        let (thread, clock, memory) = ((*worker).thread, (*worker).clock, (*owner).member);
        let who = Accessor::of(thread, clock, clocks, memory);
        (&(*owner).shared, who, &mut (*owner).mbarriers)
    };
    let epoch = shared.epoch();
    let message = match mbarriers.get_mut(&address) {
        None => "meets no mbarrier: none has been initialised there",
        Some(object) => {
            let (thread, clock, initialised) = object.initialised;
            let own = !who.is_remote() && (initialised < epoch || thread == who.thread);
            let visible = !who.is_remote() || shared.has_released(thread, clock);
            if own || visible && who.comes_after(thread, clock) {
                object.enter(epoch);
                return object;
            }
            "races with the initialisation of the mbarrier there: no barrier lies between"
        }
    };
    // SAFETY: as promised by the caller.
    unsafe {
        let kind = (FaultKind::MbarrierUninitialised, access(kind, address));
        raise(worker, kind.0, kind.1, (*worker).whose(&*owner) + message, place)
    }
}

/// Makes an mbarrier whose phases expect `arrivals` arrivals.
pub(crate) fn mbarrier_init(address: u32, arrivals: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let message = if !(1..=MAX_ARRIVALS).contains(&arrivals) {
            Some(format!(
                "initialises an mbarrier for {arrivals} arrivals, and there may be 1 to {MAX_ARRIVALS}"
            ))
        } else if (*worker).mbarriers.contains_key(&address) {
            Some("initialises an mbarrier that is in use".to_owned())
        } else {
            None
        };
        if let Some(message) = message {
            let access = access(AccessKind::Write, address);
            raise(worker, FaultKind::MbarrierMisuse, access, message, place)
        }
        shared_access::<u64, ()>(worker, AccessKind::Write, address, place, |memory, who| {
            memory.init_mbarrier(address, who)
        });
        let state = &mut *worker;
        state.shared.track_threads(state.threads.len());
        let epoch = state.shared.epoch();
        let object = Mbarrier {
            expected: arrivals,
            pending: arrivals,
            phase: 1,
            deferred: Vec::new(),
            bytes: Bytes::new(state.mbarriers.len()),
            gathered: Gathered::default(),
            completed: Default::default(),
            passed: Vec::new(),
            epoch,
            member: state.member,
            initialised: (state.thread, state.clock, epoch),
        };
        state.mbarriers.insert(address, object);
    }
}

/// Checks that an arrival belongs to the phase under way in whatever order the threads run, and gives the mbarrier and
/// the clocks of the running thread's warp.
///
/// # Safety
/// As for [`object`].
unsafe fn begin_arrival<'a>(
    worker: *mut Worker,
    owner: *mut Worker,
    address: u32,
    place: Place,
) -> (&'a mut Mbarrier, &'a Clocks) {
    // SAFETY: as promised by the caller; `object` is not used after a suspension.
    unsafe {
        let object = object(worker, owner, AccessKind::Write, address, place);
        (*worker).counters.mbarrier_arrivals += 1;
        check_phase(worker, object, address, place);
        let (warp, _) = warp_and_lane((*worker).thread as usize);
        (object, &(&(*worker).clocks)[warp])
    }
}

/// Checks that what the running thread does at an mbarrier belongs to the phase under way in whatever order the threads
/// run.
///
/// # Safety
/// As for [`object`].
unsafe fn check_phase(worker: *mut Worker, object: &Mbarrier, address: u32, place: Place) {
    // SAFETY: as promised by the caller.
    unsafe {
        let (warp, lane) = warp_and_lane((*worker).thread as usize);
        let clocks = &(&(*worker).clocks)[warp];
        if object.missing() == 0 || !clocks.has_learned(warp, lane, &object.completed[0]) {
            let message = format!(
                "arrives at an mbarrier that may have had its {} arrivals: the thread has not waited for the end of \
                 that phase",
                object.expected
            );
            let access = access(AccessKind::Write, address);
            raise(worker, FaultKind::MbarrierOverrun, access, message, place)
        }
    }
}

/// Arrives.
pub(crate) fn mbarrier_arrive(address: u32, place: Place) {
    mbarrier_arrive_expect_tx(address, 0, place);
}

/// Arrives, and before that lets the phase expect more bytes.
pub(crate) fn mbarrier_arrive_expect_tx(address: u32, bytes: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe { arrive(worker, worker, address, bytes, place) }
}

/// Arrives at an mbarrier of any block of the cluster.
pub(crate) fn mbarrier_arrive_in_cluster(address: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        let (owner, address) =
            cluster::owner(worker, (AccessKind::Write, address, size_of::<u64>()), place);
        arrive(worker, owner, address, 0, place);
    }
}

/// Arrives, and before that lets the phase expect more bytes.
///
/// # Safety
/// As for [`object`].
unsafe fn arrive(worker: *mut Worker, owner: *mut Worker, address: u32, bytes: u32, place: Place) {
    // SAFETY: as promised by the caller; `object` is not used after a suspension.
    unsafe {
        let (object, clocks) = begin_arrival(worker, owner, address, place);
        expect(worker, object, bytes, address, place);
        let (warp, lane) = warp_and_lane((*worker).thread as usize);
        clocks.tell(warp, lane, &mut object.gathered);
        object.pending -= 1;
        if object.pending == 0
            && object.bytes.expected == 0
            && let Err(late) = {
                let shared = &mut (*owner).shared;
                object.complete(shared.agents(), shared.warpgroups())
            }
        {
            let access = access(AccessKind::Write, address);
            let message = (*worker).whose(&*owner) + &overruns(&*owner, late);
            raise(worker, FaultKind::MbarrierOverrun, access, message, place)
        }
        (*worker).tick();
    }
}

/// Arrives as soon as the copies that the thread has issued have arrived.
pub(crate) fn mbarrier_arrive_on_copies(address: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; the mbarrier is no part of what the other references point to.
    unsafe {
        let (object, clocks) = begin_arrival(worker, worker, address, place);
        let (thread, agents) = ((*worker).thread as usize, (*worker).shared.agents());
        let (warp, lane) = warp_and_lane(thread);
        let mut knowledge = clocks.knowledge(warp, lane, agents);
        let state = &mut *worker;
        let (copies, clock) = state.threads[thread].copies.mark();
        // The copies, and what the thread has seen of others, but nothing else that it has done itself.
        knowledge[state.member.index(thread)] = 0;
        knowledge[state.member.index(agents / 2 + thread)] = clock;
        object.deferred.push(Deferred { thread, copies, knowledge, place });
    }
}

/// Waits until the phase of a parity is over: the one under way or the one before.
pub(crate) fn mbarrier_wait(address: u32, parity: u32, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; `object` is not used after a suspension.
    unsafe {
        if parity > 1 {
            let message = format!("waits for the parity {parity}, which must be 0 or 1");
            let access = access(AccessKind::Read, address);
            raise(worker, FaultKind::MbarrierMisuse, access, message, place)
        }
        let object = object(worker, worker, AccessKind::Read, address, place);
        // In another order of the threads the phase would be one of the same parity, but for what this one has seen.
        let (phase, before) = if parity == object.parity() {
            (object.phase, &object.completed[0])
        } else {
            (object.phase - 1, &object.completed[1])
        };
        let (warp, lane) = warp_and_lane((*worker).thread as usize);
        if !(&(*worker).clocks)[warp].has_learned(warp, lane, before) {
            let message = format!(
                "waits for a phase of parity {parity} of an mbarrier, and has not seen the end of the phase before: \
                 which of the phases of that parity it finds over depends on the order of the threads"
            );
            let access = access(AccessKind::Read, address);
            raise(worker, FaultKind::MbarrierOverrun, access, message, place)
        }
        (*worker).counters.mbarrier_waits += 1;
        suspend(worker, Stop::Mbarrier(Wait { address, phase, place }));
    }
}
