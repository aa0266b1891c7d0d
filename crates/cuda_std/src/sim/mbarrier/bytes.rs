//! The bytes that phases of mbarriers count, and the bulk loads that bring them.

use super::{Mbarrier, access, object, warp_and_lane};
use crate::sim::access::{Place, shared_access_of};
use crate::sim::accessor::Accessor;
use crate::sim::bulk_copy::BulkLoad;
use crate::sim::fault::{AccessKind, FaultKind};
use crate::sim::in_flight::Issuer;
use crate::sim::knowledge::{Gathered, Member, loads_of};
use crate::sim::shared::SharedMemory;
use crate::sim::worker::{Worker, current, raise};

/// Most bytes that a phase can lack (PTX ISA, "Contents of the mbarrier object", "tx-count").
const MAX_BYTES: u32 = (1 << 20) - 1;

/// What an mbarrier knows of bulk loads.
#[derive(Default)]
pub(super) struct Bytes {
    /// Which of the block's mbarriers this is.
    number: usize,
    /// Bytes that the phase under way expects: none of them arrives before the phase ends.
    pub(super) expected: u32,
    /// Bulk loads under way.
    loads: Vec<BulkLoad>,
    /// The thread that issued the last of them.
    issuer: Issuer,
    /// Thread, clock and epoch of the fence that made the mbarrier visible to bulk copies.
    fenced: Option<(u32, u32, u32)>,
}

impl Bytes {
    /// Of the `number`-th mbarrier of the block.
    pub(super) fn new(number: usize) -> Self {
        Bytes { number, ..Bytes::default() }
    }

    /// Bytes that bulk loads under way are going to bring.
    pub(super) fn copied(&self) -> u32 {
        self.loads.iter().fold(0, |bytes, load| bytes.saturating_add(load.bytes))
    }

    /// The first of the bulk loads under way.
    pub(super) fn first_load(&self) -> Option<&BulkLoad> {
        self.loads.first()
    }

    /// Lets all loads arrive, at the end of a phase that expects their bytes, and adds that to what it makes known.
    pub(super) fn land(
        &mut self,
        shared: &mut SharedMemory,
        phase: u64,
        gathered: &mut Gathered,
        block: Member,
    ) {
        let loads = loads_of(shared.agents(), self.number);
        let clock = phase as u32;
        for load in self.loads.drain(..) {
            load.land(shared, loads as u32, clock);
            gathered.add(&load.knowledge);
        }
        gathered.add_one(block.index(loads), clock);
    }
}

impl Mbarrier {
    /// Adds a bulk load whose bytes it counts.
    pub(in crate::sim) fn add_load(&mut self, load: BulkLoad) {
        self.bytes.issuer = load.issuer;
        self.bytes.loads.push(load);
    }

    /// The thread that an agent stands for, where the agent is this mbarrier's loads.
    pub(in crate::sim) fn issuer_of(&self, agents: usize, agent: u32) -> Option<Issuer> {
        (loads_of(agents, self.bytes.number) == agent as usize).then_some(self.bytes.issuer)
    }

    /// What is said where other bytes come than are expected.
    pub(super) fn wrong_bytes(&self) -> (FaultKind, String) {
        let (expected, copied) = (self.bytes.expected, self.bytes.copied());
        let message = format!(
            "waits for an mbarrier whose phase of parity {} expects {expected} bytes where bulk copies bring {copied}",
            self.parity()
        );
        (FaultKind::MbarrierBytes { expected, copied }, message)
    }
}

/// Lets the phase expect more bytes.
///
/// # Safety
/// As for [`object`].
pub(super) unsafe fn expect(
    worker: *mut Worker,
    object: &mut Mbarrier,
    bytes: u32,
    address: u32,
    place: Place,
) {
    let all = object.bytes.expected.saturating_add(bytes);
    object.bytes.expected = all;
    if all > MAX_BYTES {
        let message =
            format!("lets a phase expect {all} bytes, and there may be {MAX_BYTES} at most");
        let access = access(AccessKind::Write, address);
        // SAFETY: as promised by the caller.
        unsafe { raise(worker, FaultKind::MbarrierMisuse, access, message, place) }
    }
}

/// Checks that a bulk load of the running thread may name an mbarrier of the block of `owner`, and that its bytes
/// belong to the phase under way in whatever order the threads run.
///
/// # Safety
/// As for [`object`].
pub(in crate::sim) unsafe fn begin_load(
    worker: *mut Worker,
    owner: *mut Worker,
    address: u32,
    place: Place,
) {
    // SAFETY: as promised by the caller; references end before a suspension.
    unsafe {
        let object = object(worker, owner, AccessKind::Write, address, place);
        let (fenced, completed) = (object.bytes.fenced, object.completed[0].clone());
        let state = &*worker;
        let (warp, lane) = warp_and_lane(state.thread as usize);
        let clocks = &state.clocks[warp];
        let memory = (*owner).member;
        let who = Accessor::of(state.thread, state.clock, clocks, memory);
        let visible = fenced.is_some_and(|(thread, clock, epoch)| {
            let own = epoch < (*owner).shared.epoch() || thread == who.thread;
            let released = !who.is_remote() || (*owner).shared.has_released(thread, clock);
            own && !who.is_remote() || released && who.comes_after(thread, clock)
        });
        let in_phase = clocks.has_learned(warp, lane, &completed);
        if !visible {
            // Any other proxy fence will do as well.
            let bytes = size_of::<u64>() as u32;
            let kind = AccessKind::Write;
            shared_access_of::<u64, ()>(worker, owner, kind, address, place, |memory, who| {
                memory.check_fenced(address, bytes, who)
            });
        }
        if !in_phase {
            let message = "is told of bytes of a bulk copy by a thread that has not seen the end of the phase before: which \
                           phase they belong to depends on the order of the threads";
            let access = access(AccessKind::Write, address);
            raise(worker, FaultKind::MbarrierOverrun, access, message.to_owned(), place)
        }
    }
}

/// Makes the mbarriers visible to bulk copies that the thread has initialised.
pub(crate) fn fence_mbarrier_init() {
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    let fence = (state.thread, state.clock, state.shared.epoch());
    for object in state.mbarriers.values_mut() {
        if object.initialised.0 == state.thread && object.bytes.fenced.is_none() {
            object.bytes.fenced = Some(fence);
        }
    }
}
