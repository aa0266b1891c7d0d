//! Bulk stores: when they read shared memory, and when they reach global memory.

use super::{PieceWords, count, tensor_box};
use crate::bulk_copy::TensorMap;
use crate::sim::access::{Place, shared_access};
use crate::sim::backing;
use crate::sim::block::coordinates;
use crate::sim::fault::{AccessKind, FaultKind, SimError};
use crate::sim::tensor_map::{Mapped, Piece, TensorBox};
use crate::sim::worker::{Worker, current, raise};
use crate::tensor_map::ALIGNMENT;
use std::collections::VecDeque;

/// Writes an element of `bytes.len()` bytes.
///
/// # Safety
/// As for [`backing::store`].
unsafe fn store_element(words: *const std::sync::atomic::AtomicU32, offset: usize, bytes: &[u8]) {
    // SAFETY: as promised by the caller; the arrays are as long as the element.
    unsafe {
        match *bytes {
            [a] => backing::store(words, offset, [a]),
            [a, b] => backing::store(words, offset, [a, b]),
            [a, b, c, d] => backing::store(words, offset, [a, b, c, d]),
            _ => {
                let mut all = [0; 8];
                all.copy_from_slice(bytes);
                backing::store(words, offset, all)
            }
        }
    }
}

/// A bulk store under way.
struct BulkStore {
    target: TensorBox,
    /// Its pieces as they were when it began: nobody may change them before it has read them.
    pieces: Vec<PieceWords>,
    /// Whether the thread has waited for that.
    has_read: bool,
    place: Place,
}

impl BulkStore {
    /// Writes what lies in the tensor.
    fn write(&self) {
        let Mapped { tensor, words, .. } = self.target.mapped;
        let element = tensor.element.bytes() as usize;
        for (piece, data) in self.target.pieces().zip(&self.pieces) {
            let data = data.map(u32::to_ne_bytes);
            let (start, end) = piece.inside;
            for (i, bytes) in data.as_flattened()[start..end].chunks_exact(element).enumerate() {
                // SAFETY: as in `BulkLoad::land`.
                unsafe { store_element(words, piece.global + i * element, bytes) };
            }
        }
    }
}

/// The bulk stores of one thread, oldest first.
#[derive(Default)]
pub(in crate::sim) struct StoreQueue {
    groups: VecDeque<Vec<BulkStore>>,
    /// Stores that are in no group yet.
    open: Vec<BulkStore>,
}

/// Begins a store of a box.
pub(crate) fn bulk_store(map: &TensorMap, coordinates: &[i32], source: u32, place: Place) {
    let worker = current();
    // SAFETY: as in `bulk_load`.
    unsafe {
        let target = tensor_box(worker, AccessKind::Read, map, coordinates, source, place);
        let tensor = target.mapped.tensor;
        let row = tensor.dims[0] * u64::from(tensor.element.bytes());
        if !row.is_multiple_of(ALIGNMENT) {
            let message = format!(
                "stores to a tensor whose rows have {row} bytes: a GPU writes whole pieces of {ALIGNMENT}, also beyond the end of a row"
            );
            raise(worker, FaultKind::Misaligned, None, message, place)
        }
        let pieces = target.pieces().map(|Piece { shared, .. }| {
            let kind = AccessKind::Read;
            shared_access::<PieceWords, _>(worker, kind, shared, place, |memory, who| {
                memory.begin_store(shared, who)
            })
        });
        let pieces = pieces.collect();
        let state = &mut *worker;
        count(&mut state.counters, &target, AccessKind::Write);
        let stores = &mut state.threads[state.thread as usize].stores;
        stores.open.push(BulkStore { target, pieces, has_read: false, place });
    }
}

/// Closes the thread's latest stores into a group.
pub(crate) fn bulk_commit_group() {
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    let stores = &mut state.threads[state.thread as usize].stores;
    let group = std::mem::take(&mut stores.open);
    stores.groups.push_back(group);
}

/// Lets the stores of all groups of the thread but the `newest` read shared memory.
pub(crate) fn bulk_wait_group_read(newest: usize, place: Place) {
    let worker = current();
    // SAFETY: as in `bulk_load`.
    unsafe {
        let state = &mut *worker;
        let groups = &mut state.threads[state.thread as usize].stores.groups;
        let old = groups.len().saturating_sub(newest);
        let stores = groups.iter_mut().take(old).flatten().filter(|store| !store.has_read);
        let read: Vec<_> = stores
            .flat_map(|store| {
                store.has_read = true;
                store.target.pieces().map(|piece| piece.shared)
            })
            .collect();
        for shared in read {
            let kind = AccessKind::Read;
            shared_access::<PieceWords, PieceWords>(worker, kind, shared, place, |memory, who| {
                memory.end_store(shared, who)
            });
        }
    }
}

/// Lets the stores of all groups of the thread but the `newest` reach global memory.
pub(crate) fn bulk_wait_group(newest: usize, place: Place) {
    bulk_wait_group_read(newest, place);
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    let groups = &mut state.threads[state.thread as usize].stores.groups;
    let old = groups.len().saturating_sub(newest);
    groups.drain(..old).flatten().for_each(|store| store.write());
}

/// Lets the stores of a thread that has returned reach global memory. It must have waited until they have read shared
/// memory, which is gone when the block ends.
pub(in crate::sim) fn end_thread(worker: &mut Worker, thread: usize) -> Result<(), SimError> {
    let StoreQueue { groups, open } = std::mem::take(&mut worker.threads[thread].stores);
    for store in groups.into_iter().flatten().chain(open) {
        if !store.has_read {
            let issuer = coordinates(thread as u64, worker.block_dim);
            let kind = FaultKind::BulkStoreNotWaited { issuer };
            let message = "ends before it has waited until its bulk store has read shared memory";
            let place = Some(store.place.into());
            return Err(SimError::Fault(worker.fault_of(
                issuer,
                kind,
                None,
                message.to_owned(),
                place,
            )));
        }
        store.write();
    }
    Ok(())
}
