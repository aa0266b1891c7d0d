//! Bulk copies as the running kernel thread issues them and waits for them. See "Bulk copies" in [the
//! module](crate::sim).

mod store;

pub(super) use store::{StoreQueue, end_thread};
pub(crate) use store::{bulk_commit_group, bulk_store, bulk_wait_group, bulk_wait_group_read};

use super::access::{Place, shared_access_of};
use super::backing;
use super::cluster;
use super::counters::Counters;
use super::early_start::raise_early;
use super::fault::{AccessKind, FaultKind, MemoryAccess, Space};
use super::in_flight::Issuer;
use super::knowledge::Knowledge;
use super::limits::WARP_THREADS;
use super::mbarrier::begin_load;
use super::requests::SECTOR_BYTES;
use super::shared::SharedMemory;
use super::tensor_map::{Mapped, PIECE, Piece, TensorBox, decode};
use super::worker::{Worker, current, raise};
use crate::bulk_copy::{BOX_ALIGNMENT, TensorMap};
use crate::tensor_map::{ALIGNMENT, MAX_RANK};
use std::sync::Arc;

/// What a piece is in shared memory.
type PieceWords = [u32; PIECE as usize / size_of::<u32>()];

/// A bulk load under way.
pub(super) struct BulkLoad {
    source: TensorBox,
    pub(super) bytes: u32,
    /// The thread that issued it.
    pub(super) issuer: Issuer,
    /// What that thread had learned by then, where it is one of another block: what it has done itself since its last
    /// wait need not come before the copy's arrival.
    pub(super) knowledge: Knowledge,
    pub(super) place: Place,
}

impl BulkLoad {
    /// Lets it arrive, as a store that `agent` makes at `clock`.
    pub(super) fn land(&self, shared: &mut SharedMemory, agent: u32, clock: u32) {
        let Mapped { tensor, words, .. } = self.source.mapped;
        let element = tensor.element.bytes() as usize;
        for Piece { shared: address, global, inside: (start, end) } in self.source.pieces() {
            let mut bytes = [0; PIECE as usize];
            for (i, bytes) in bytes[start..end].chunks_exact_mut(element).enumerate() {
                // SAFETY: the elements lie in the tensor, which was found to lie in its allocation, which the launch
                // keeps alive.
                unsafe { load_element(words, global + i * element, bytes) };
            }
            shared.end_load(address, &bytes, agent, clock);
        }
    }
}

/// Reads an element of `bytes.len()` bytes.
///
/// # Safety
/// As for [`backing::load`].
unsafe fn load_element(
    words: *const std::sync::atomic::AtomicU32,
    offset: usize,
    bytes: &mut [u8],
) {
    // SAFETY: as promised by the caller.
    unsafe {
        match bytes.len() {
            1 => bytes.copy_from_slice(&backing::load::<[u8; 1]>(words, offset)),
            2 => bytes.copy_from_slice(&backing::load::<[u8; 2]>(words, offset)),
            4 => bytes.copy_from_slice(&backing::load::<[u8; 4]>(words, offset)),
            _ => bytes.copy_from_slice(&backing::load::<[u8; 8]>(words, offset)),
        }
    }
}

/// The box of a copy. Raises a fault where there is none.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
unsafe fn tensor_box(
    worker: *mut Worker,
    kind: AccessKind,
    map: &TensorMap,
    coordinates: &[i32],
    shared: u32,
    place: Place,
) -> TensorBox {
    // SAFETY: the worker is the current one; references to it end before a suspension.
    unsafe {
        if (*worker).is_early {
            raise_early(worker, None, place)
        }
        let tensor = decode(map).filter(|tensor| tensor.rank as usize == coordinates.len());
        let Some(tensor) = tensor else {
            let message = format!(
                "copies a box of {} dimensions with what is no tensor map of that rank that this simulator has made",
                coordinates.len()
            );
            raise(worker, FaultKind::InvalidTensorMap, None, message, place)
        };
        let (bytes, alignment) =
            (tensor.box_bytes(), tensor.swizzle.repeats_after().max(BOX_ALIGNMENT));
        if !shared.is_multiple_of(alignment) {
            let access = MemoryAccess { space: Space::Shared, kind, address: shared.into(), bytes };
            let message =
                format!("is misaligned: a box there must begin at a multiple of {alignment}");
            raise(worker, FaultKind::Misaligned, Some(access), message, place)
        }
        let first = i64::from(coordinates[0]) * tensor.element.bytes() as i64;
        if first.rem_euclid(ALIGNMENT as i64) != 0 {
            let message = format!(
                "copies a box that begins at element {} of a row, {first} bytes from its start: it must be a multiple of {ALIGNMENT}",
                coordinates[0]
            );
            raise(worker, FaultKind::Misaligned, None, message, place)
        }
        let mapped = match Mapped::new(tensor, &(*worker).table) {
            Ok(mapped) => mapped,
            Err(bytes) => {
                let around = (*worker).table.explain(tensor.address, bytes);
                let message = format!("copies from or to a tensor that is out of bounds: {around}");
                raise(worker, FaultKind::OutOfBounds, None, message, place)
            }
        };
        let mut at = [0; MAX_RANK];
        at[..coordinates.len()].copy_from_slice(coordinates);
        TensorBox { mapped, at, shared }
    }
}

/// Counts a copy.
fn count(counters: &mut Counters, copied: &TensorBox, kind: AccessKind) {
    let tensor = copied.mapped.tensor;
    let (mut bytes, mut sectors) = (0, 0);
    // Rows follow each other in memory, and two that meet may share a sector.
    let mut next_sector = 0;
    for (global, start, end) in copied.rows().flatten() {
        let address = tensor.address + global;
        let row = u64::from(end - start);
        let first = (address / SECTOR_BYTES).max(next_sector);
        next_sector = (address + row).div_ceil(SECTOR_BYTES);
        sectors += next_sector.saturating_sub(first);
        bytes += row;
    }
    counters.bulk_copies += 1;
    counters.bulk_bytes += u64::from(tensor.box_bytes());
    let c = counters;
    let (requests, elements, moved, touched) = match kind {
        AccessKind::Read => (
            &mut c.global_load_requests,
            &mut c.global_load_elements,
            &mut c.global_load_bytes,
            &mut c.global_load_sectors,
        ),
        AccessKind::Write => (
            &mut c.global_store_requests,
            &mut c.global_store_elements,
            &mut c.global_store_bytes,
            &mut c.global_store_sectors,
        ),
    };
    *requests += u64::from(bytes > 0);
    *elements += bytes / u64::from(tensor.element.bytes());
    *moved += bytes;
    *touched += sectors;
}

/// Checks the map that a prefetch names. The memory that it is about is not touched.
pub(crate) fn bulk_prefetch_map(map: &TensorMap, place: Place) {
    let worker = current();
    if decode(map).is_none() {
        let message = "prefetches what is no tensor map that this simulator has made";
        // SAFETY: the worker is the current one.
        unsafe { raise(worker, FaultKind::InvalidTensorMap, None, message.to_owned(), place) }
    }
}

/// Begins a load of a box that an mbarrier is told of.
pub(crate) fn bulk_load(
    target: u32,
    map: &TensorMap,
    coordinates: &[i32],
    mbarrier: u32,
    place: Place,
) {
    let worker = current();
    // SAFETY: the worker is the current one, and no reference to it outlives a statement that may suspend the thread.
    unsafe {
        let source = tensor_box(worker, AccessKind::Write, map, coordinates, target, place);
        load_to(worker, worker, source, mbarrier, place);
        count(&mut (*worker).counters, &source, AccessKind::Read);
    }
}

/// Begins a load of a box to each block of the cluster that the mask names.
pub(crate) fn bulk_load_multicast(
    target: u32,
    map: &TensorMap,
    coordinates: &[i32],
    mbarrier: u32,
    blocks: u16,
    place: Place,
) {
    let worker = current();
    // SAFETY: as in `bulk_load`; the blocks that are visited are some of the cluster.
    unsafe {
        let source = tensor_box(worker, AccessKind::Write, map, coordinates, target, place);
        let all = (*worker).member.blocks;
        if blocks == 0 || u32::from(blocks) >> all != 0 {
            let message = format!(
                "copies to the blocks {blocks:#06x} of a cluster that has {all}: there must be some, and all of them in it"
            );
            raise(worker, FaultKind::ClusterMisuse, None, message, place)
        }
        let access = (AccessKind::Write, target, source.mapped.tensor.box_bytes() as usize);
        for rank in (0..all).filter(|rank| blocks >> rank & 1 == 1) {
            // That a block ends before the copy has arrived its mbarrier tells.
            let owner = cluster::neighbour(worker, rank, access, place);
            load_to(worker, owner, source, mbarrier, place);
        }
        (*worker).tick();
        count(&mut (*worker).counters, &source, AccessKind::Read);
    }
}

/// Begins a load of a box to the block of `owner`.
///
/// # Safety
/// `worker` must be the current one, `owner` one of its cluster, and no reference to either may be alive.
unsafe fn load_to(
    worker: *mut Worker,
    owner: *mut Worker,
    source: TensorBox,
    mbarrier: u32,
    place: Place,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        begin_load(worker, owner, mbarrier, place);
        for Piece { shared, .. } in source.pieces() {
            let kind = AccessKind::Write;
            shared_access_of::<PieceWords, ()>(
                worker,
                owner,
                kind,
                shared,
                place,
                |memory, who| memory.begin_load(shared, PIECE, who),
            );
        }
        let (thread, bytes) = ((*worker).thread, source.mapped.tensor.box_bytes());
        let (warp, lane) = (thread / WARP_THREADS, thread % WARP_THREADS);
        let knowledge = if owner == worker {
            Knowledge::new()
        } else {
            let (clocks, agents) = (&(*worker).clocks, (*worker).shared.agents());
            clocks[warp as usize].learned(warp as usize, lane as usize, agents)
        };
        let issuer = Issuer { rank: (*worker).member.rank, thread };
        let load = BulkLoad { source, bytes, issuer, knowledge, place };
        if let Some(object) = (*owner).mbarriers.get_mut(&mbarrier) {
            object.add_load(load);
        }
    }
}

/// Lets later bulk copies see what the thread has written and seen.
pub(crate) fn fence_proxy_async_shared() {
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    if state.shared.agents() == 0 {
        state.shared.track_threads(state.threads.len());
    }
    let (warp, lane) =
        ((state.thread / WARP_THREADS) as usize, (state.thread % WARP_THREADS) as usize);
    let clocks = &mut state.clocks[warp];
    let agents = state.shared.agents();
    let mut known = clocks.knowledge(warp, lane, agents);
    let own = state.member.index(state.thread as usize);
    state.shared.fences.fence(&mut known, state.member);
    // It is no wait, by which the thread would learn of what it has done itself.
    known[own] = clocks.learned_of(lane, own);
    clocks.learn(warp, lane, &Arc::new(known));
    state.tick();
}
