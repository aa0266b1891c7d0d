//! The device functions as the running kernel thread calls them: memory, barriers, shuffles.

use super::accessor::Accessor;
use super::backing;
use super::collective::{Collective, Operation, Shuffle};
use super::early_start::raise_early;
use super::fault::{AccessKind, FaultKind, MemoryAccess, Space};
use super::global_order;
use super::limits::WARP_THREADS;
use super::log::{CAPACITY, Entry};
use super::shared::{DeclarationError, SharedMemory};
use super::violation::{Violation, describe};
use super::worker::{
    CACHE_LINES, CachedAllocation, EMPTY_LINE, Stop, Worker, current, in_kernel, raise, suspend,
};
use crate::warp::FULL_MASK;
use std::mem::MaybeUninit;
use std::panic::Location;

pub(super) type Place = &'static Location<'static>;

/// Most bytes that one access of a thread moves (PTX ISA, `ld` and `st`: `.v4.b32`, `.v2.b64`).
const MOST_BYTES: usize = 16;

/// Writes an access to the log. Raises a fault where no instruction moves so much.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
#[inline(always)]
pub(super) unsafe fn log<V>(
    worker: *mut Worker,
    space: Space,
    kind: AccessKind,
    address: u64,
    active: bool,
    place: Place,
) {
    // SAFETY: the worker is the current one; the entry lies within the lane's part of the log, since a full one is
    // emptied first.
    unsafe {
        if const { size_of::<V>() > MOST_BYTES } {
            let access = MemoryAccess { space, kind, address, bytes: size_of::<V>() as u32 };
            let message = format!("is too wide: one access moves at most {MOST_BYTES} bytes");
            raise(worker, FaultKind::Panic, Some(access), message, place)
        }
        loop {
            if (*worker).logged < CAPACITY {
                break;
            }
            // The scheduler makes room, though perhaps not at the first time if the lanes have diverged.
            suspend(worker, Stop::LogFull);
        }
        let entry = Entry::new::<V>(space, kind, address, active, place);
        (*worker).entries.add((*worker).logged).write(entry);
        (*worker).logged += 1;
    }
}

/// The memory of a valid global access: the words of its allocation and the offset there. Raises a fault otherwise.
///
/// # Safety
/// As for [`log`].
#[inline(always)]
pub(super) unsafe fn global<V>(
    worker: *mut Worker,
    kind: AccessKind,
    address: u64,
    place: Place,
) -> (CachedAllocation, usize) {
    let bytes = size_of::<V>() as u64;
    // SAFETY: as promised by the caller.
    unsafe {
        if (*worker).is_early {
            let bytes = bytes as u32;
            let access = MemoryAccess { space: Space::Global, kind, address, bytes };
            raise_early(worker, Some(access), place)
        }
    }
    let line = (&raw const *place as usize / align_of::<Location<'_>>()) % CACHE_LINES;
    // SAFETY: the worker is the current one.
    let cached = unsafe { (*worker).cache[line] };
    let offset = address.wrapping_sub(cached.base);
    if offset < cached.bytes && bytes <= cached.bytes - offset && address.is_multiple_of(bytes) {
        return (cached, offset as usize);
    }
    // SAFETY: as promised by the caller.
    unsafe {
        find_global(
            worker,
            line,
            MemoryAccess { space: Space::Global, kind, address, bytes: bytes as u32 },
            place,
        )
    }
}

/// [`global`] for an allocation that is not in its line of the cache.
///
/// # Safety
/// As for [`log`].
#[cold]
#[inline(never)]
unsafe fn find_global(
    worker: *mut Worker,
    line: usize,
    access: MemoryAccess,
    place: Place,
) -> (CachedAllocation, usize) {
    let bytes = access.bytes as u64;
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let state = &mut *worker;
        let found = state
            .table
            .find(access.address)
            .filter(|(allocation, offset)| bytes <= allocation.bytes - offset);
        let Some((allocation, offset)) = found else {
            let around = state.table.explain(access.address, bytes);
            let message = format!("is out of bounds: {around}");
            raise(worker, FaultKind::OutOfBounds, Some(access), message, place)
        };
        let words = allocation.backing.words();
        let cached = CachedAllocation { base: allocation.base, bytes: allocation.bytes, words };
        state.cache[line] = cached;
        if !access.address.is_multiple_of(bytes) {
            raise_misaligned(worker, access, place)
        }
        if state.watch.is_some() {
            // The next one gets here, too.
            state.cache[line] = EMPTY_LINE;
            if let Some((kind, message)) = global_order::access(state, &access) {
                raise(worker, kind, Some(access), message, place)
            }
        }
        (cached, offset as usize)
    }
}

/// # Safety
/// As for [`log`].
#[cold]
pub(super) unsafe fn raise_misaligned(
    worker: *mut Worker,
    access: MemoryAccess,
    place: Place,
) -> ! {
    let message = format!("is misaligned: the address must be a multiple of {}", access.bytes);
    // SAFETY: as promised by the caller.
    unsafe { raise(worker, FaultKind::Misaligned, Some(access), message, place) }
}

/// Loads from global memory, or gives zero bytes where `predicate` does not hold.
///
/// # Safety
/// Any bits must be a valid `V`.
#[inline]
pub(crate) unsafe fn global_load<V: Copy>(address: u64, predicate: bool, place: Place) -> V {
    let worker = current();
    // SAFETY: the worker is the current one; the access was found to lie in its allocation, which the launch keeps
    // alive; zeros are a valid `V`.
    unsafe {
        log::<V>(worker, Space::Global, AccessKind::Read, address, predicate, place);
        if !predicate {
            return MaybeUninit::zeroed().assume_init();
        }
        let (allocation, offset) = global::<V>(worker, AccessKind::Read, address, place);
        backing::load(allocation.words, offset)
    }
}

/// Stores to global memory where `predicate` holds.
///
/// # Safety
/// `V` must have no padding.
#[inline]
pub(crate) unsafe fn global_store<V: Copy>(address: u64, value: V, predicate: bool, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one; the access was found to lie in its allocation, which the launch keeps
    // alive.
    unsafe {
        log::<V>(worker, Space::Global, AccessKind::Write, address, predicate, place);
        if predicate {
            let (allocation, offset) = global::<V>(worker, AccessKind::Write, address, place);
            backing::store(allocation.words, offset, value);
        }
    }
}

/// Runs `touch` on the block's shared memory for the thread that runs. Raises a fault where it finds one.
///
/// # Safety
/// As for [`log`].
#[inline(always)]
pub(super) unsafe fn shared_access<V, R>(
    worker: *mut Worker,
    kind: AccessKind,
    address: u32,
    place: Place,
    touch: impl FnOnce(&mut SharedMemory, &Accessor<'_>) -> Option<Result<R, Violation>>,
) -> R {
    // SAFETY: as promised by the caller.
    unsafe { shared_access_of::<V, R>(worker, worker, kind, address, place, touch) }
}

/// The same with the shared memory of `owner`, a block of the cluster.
///
/// # Safety
/// As for [`log`]; no reference to `owner` is alive either.
#[inline(always)]
pub(super) unsafe fn shared_access_of<V, R>(
    worker: *mut Worker,
    owner: *mut Worker,
    kind: AccessKind,
    address: u32,
    place: Place,
    touch: impl FnOnce(&mut SharedMemory, &Accessor<'_>) -> Option<Result<R, Violation>>,
) -> R {
    let bytes = size_of::<V>() as u32;
    let access = || MemoryAccess { space: Space::Shared, kind, address: address as u64, bytes };
    // SAFETY: the worker is the current one; the clocks are no part of shared memory, and no reference is used after a
    // suspension.
    unsafe {
        if !address.is_multiple_of(bytes) {
            raise_misaligned(worker, access(), place);
        }
        let clocks = &(&(*worker).clocks)[((*worker).thread / WARP_THREADS) as usize];
        let (thread, clock, memory) = ((*worker).thread, (*worker).clock, (*owner).member);
        let who = Accessor::of(thread, clock, clocks, memory);
        match touch(&mut (*owner).shared, &who) {
            Some(Ok(result)) => result,
            Some(Err(violation)) => raise_violation(worker, owner, access(), violation, place),
            None => {
                let around = (*owner).shared.explain(address, bytes);
                let whose = (*worker).whose(&*owner);
                let message = format!("{whose}is out of bounds: {around}");
                raise(worker, FaultKind::OutOfBounds, Some(access()), message, place)
            }
        }
    }
}

/// # Safety
/// As for [`log`].
#[cold]
unsafe fn raise_violation(
    worker: *mut Worker,
    owner: *mut Worker,
    access: MemoryAccess,
    violation: Violation,
    place: Place,
) -> ! {
    // SAFETY: as promised by the caller.
    unsafe {
        let (kind, message) = describe(&*worker, &*owner, violation);
        let message = (*worker).whose(&*owner) + &message;
        raise(worker, kind, Some(access), message, place)
    }
}

/// Loads from shared memory, or gives zero bytes where `predicate` does not hold.
///
/// # Safety
/// Any bits must be a valid `V`.
#[inline]
pub(crate) unsafe fn shared_load<V: Copy>(address: u32, predicate: bool, place: Place) -> V {
    let worker = current();
    // SAFETY: the worker is the current one; zeros are a valid `V`.
    unsafe {
        log::<V>(worker, Space::Shared, AccessKind::Read, address as u64, predicate, place);
        if !predicate {
            return MaybeUninit::zeroed().assume_init();
        }
        shared_access::<V, V>(worker, AccessKind::Read, address, place, |memory, who| {
            memory.read(address, who)
        })
    }
}

/// Stores to shared memory where `predicate` holds.
///
/// # Safety
/// `V` must have no padding.
#[inline]
pub(crate) unsafe fn shared_store<V: Copy>(address: u32, value: V, predicate: bool, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        log::<V>(worker, Space::Shared, AccessKind::Write, address as u64, predicate, place);
        if predicate {
            shared_access::<V, ()>(worker, AccessKind::Write, address, place, |memory, who| {
                memory.write(address, value, who)
            });
        }
    }
}

/// The static shared array that the thread that runs declares at a place.
pub(crate) fn shared_static(bytes: usize, place: Place) -> u32 {
    let worker = current();
    // SAFETY: the worker is the current one; `state` is not used after a suspension.
    unsafe {
        let state = &mut *worker;
        match state.shared.declare(state.thread, bytes, place) {
            Ok(address) => address,
            Err(DeclarationError::Mismatch(message)) => {
                raise(worker, FaultKind::SharedMismatch, None, message, place)
            }
            Err(DeclarationError::Limit(message)) => {
                raise(worker, FaultKind::SharedLimit, None, message, place)
            }
        }
    }
}

/// Waits for the block.
pub(crate) fn sync_threads(place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe { suspend(worker, Stop::Barrier(place)) };
}

/// Waits for the lanes of `mask`.
pub(crate) fn sync_warp(mask: u32, place: Place) {
    let operation = Operation::Barrier;
    collective(Collective { operation, mask, value: 0, operand: 0, location: place });
}

/// Exchanges values between the lanes of `mask`.
pub(crate) fn shuffle(shuffle: Shuffle, mask: u32, value: u32, operand: u32, place: Place) -> u32 {
    let operation = Operation::Shuffle(shuffle);
    collective(Collective { operation, mask, value, operand, location: place })
}

/// Checks that a value is the same in all lanes of the warp, and gives it. Outside of a kernel there are no lanes.
pub(crate) fn uniform(value: u32, place: Place) -> u32 {
    if !in_kernel() {
        return value;
    }
    let operation = Operation::Shuffle(Shuffle::Uniform);
    let first =
        collective(Collective { operation, mask: FULL_MASK, value, operand: 0, location: place });
    if first != value {
        let message = format!(
            "says that {value} is the same in all lanes of the warp, and lane 0 has {first}"
        );
        // SAFETY: the worker is the current one.
        unsafe { raise(current(), FaultKind::NotUniform { first }, None, message, place) }
    }
    value
}

/// Waits for the lanes that take part in an operation, and gives the result of a shuffle.
pub(super) fn collective(collective: Collective) -> u32 {
    let worker = current();
    let Collective { mask, location, .. } = collective;
    // SAFETY: the worker is the current one.
    unsafe {
        let lane = (*worker).thread % WARP_THREADS;
        if mask >> lane & 1 == 0 {
            let name = collective.name();
            let message =
                format!("executes a {name} whose mask {mask:#010x} does not name lane {lane}");
            raise(worker, FaultKind::LaneNotInMask { mask }, None, message, location)
        }
        suspend(worker, Stop::Collective(collective))
    }
}
