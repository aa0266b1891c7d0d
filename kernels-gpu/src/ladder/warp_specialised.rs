//! Warps that only copy, and warps that only multiply.
//!
//! In [`crate::ladder::decoupled`] every warp copies between its multiplications: for as long as the copies take to
//! issue it does not multiply, its addresses take registers from the sums, and the compiler has to weave two tasks into
//! one loop. Here a warpgroup of *producers* does nothing but bring slices, and the warps of the thread tiles, the
//! *consumers*, do nothing but read them and multiply. Both go round the same ring of stages: a producer waits for a
//! stage to be empty, a consumer for it to be full.
//!
//! Registers are shared out accordingly. A block is launched with the same number for every thread; producers give up
//! what they do not need, and consumers take it ([`cuda_std::registers`]). That is what needs compute capability 9.0.
//!
//! As producers have time to spare they transpose a factor themselves where it must be transposed, by loads and stores:
//! that keeps shared memory busy for less time than asynchronous copies of single elements ([`crate::slices::staged`]).
//! As consumers have no registers to spare, their sums go to D through shared memory, which is free by then
//! ([`crate::thread_tile::store_rows`]); sums that are only scaled go from registers straight to D.
//!
//! The main loop that remains has 1107 instructions for 1024 multiply-adds, where that of `decoupled` has 1547.
//!
//! Gain: 1.07 times the speed of the rung below at 4096, 1.08 times at 2048 (f32, H200).

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Tile, consumers};
use crate::ladder::decoupled::ROUND;
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::share_of_registers::Registers;
use crate::slices::copies::Copier;
use crate::slices::ring::{Ring, WARP};
use crate::slices::staged::producers_shared_bytes;
use crate::slices::{Slices, shared_bytes};
use crate::thread_tile::{InWarps, ThreadTile, own_depth};
use crate::tile::{Origin, grouped_block_tile};
use core::marker::PhantomData;
use core::ops::Range;
use cuda_std::{device_inline, hint, named_barrier, registers, shared, thread, unroll};

/// Threads that only copy: one warpgroup.
pub const PRODUCERS: u32 = 128;

/// As many for consumers as they can use.
pub const MOST_FOR_CONSUMERS: Registers = Registers::new(56, 224);

/// Some fewer. Here the compiler then finds an order of the main loop in which fewer operands meet in a bank of
/// registers; in kernels with more to do besides, one in which fragments are loaded too late.
const FEWER: Registers = Registers::new(72, 216);

/// The barrier of the consumers alone.
const CONSUMERS: u32 = 1;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, at least 3 stages, and factors in the
/// layouts `L`.
pub struct WarpSpecialised<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L = Nn,
>(PhantomData<(T, L)>);

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
> GemmKernel for WarpSpecialised<T, BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::WarpSpecialised;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::RegisterTransfers;
    const SHARED_BYTES: u32 = producers_shared_bytes::<T, Self>() + Ring::<STAGES>::BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = grouped_block_tile(&Self::TILE, p.m, p.n);
        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices.
        unsafe {
            let mut ring = ring::<Self, STAGES>();
            if is_producer::<Self>() {
                become_producer::<{ FEWER.producer }>();
                produce::<Self, _, STAGES>(&p, &mut ring, origin, 0..p.k);
            } else {
                become_consumer::<{ FEWER.consumer }>();
                let sums = consume::<Self, TM, TN, STAGES>(&mut ring, 0..p.k);
                match p.epilogue.only_scales() {
                    Some(alpha) if ThreadTile::<Self, TM, TN, InWarps>::wide(&p) => {
                        sums.store_scaled(&p, origin, alpha);
                    }
                    _ => {
                        consumers_meet::<Self>();
                        let meet = || consumers_meet::<Self>();
                        sums.store_rows(&p, origin, shared::dynamic(), meet);
                    }
                }
            }
        }
    }
}

/// How producers bring slices. (From here on the file holds what all rungs with producers share: `sliced_k`,
/// `split_sliced_k` and `stream_k` too.)
pub trait Bring: 'static {
    /// Whether by bulk copies.
    const IN_BULK: bool;

    /// The ring of a kernel's block.
    ///
    /// # Safety
    /// All threads of the block get here together, and the kernel's shared memory is that [for slices](bytes_to_bring)
    /// and the ring behind it.
    unsafe fn ring<K: GemmKernel<Element: Element<Acc = K::Element>>, const STAGES: u32>()
    -> Ring<STAGES>;

    /// Brings the slices for some values of k, of which the first is a multiple of `BK`, for the tile that begins at
    /// `origin`.
    ///
    /// # Safety
    /// All producers get here together; A and B are valid for their shapes, and the parameters have maps of them where
    /// slices come in bulk.
    unsafe fn produce<
        K: GemmKernel<Element: Element<Acc = K::Element>>,
        E: Epilogue<K::Element>,
        const STAGES: u32,
    >(
        p: &GemmParams<K::Element, E>,
        ring: &mut Ring<STAGES>,
        origin: Origin,
        depth: Range<u32>,
    );
}

/// By copies of the producers' threads, which transpose on the way what has to be transposed.
pub struct OnTheWay;

impl Bring for OnTheWay {
    const IN_BULK: bool = false;

    #[device_inline]
    unsafe fn ring<K: GemmKernel<Element: Element<Acc = K::Element>>, const STAGES: u32>()
    -> Ring<STAGES> {
        // SAFETY: as promised by the caller.
        unsafe { ring::<K, STAGES>() }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn produce<
        K: GemmKernel<Element: Element<Acc = K::Element>>,
        E: Epilogue<K::Element>,
        const STAGES: u32,
    >(
        p: &GemmParams<K::Element, E>,
        ring: &mut Ring<STAGES>,
        origin: Origin,
        depth: Range<u32>,
    ) {
        // SAFETY: as promised by the caller.
        unsafe { produce::<K, E, STAGES>(p, ring, origin, depth) }
    }
}

/// Bytes of dynamic shared memory that a kernel needs for slices that come so.
pub const fn bytes_to_bring<T: Element<Acc = T>, K: GemmKernel<Element = T>, H: Bring>() -> u32 {
    if H::IN_BULK { shared_bytes::<K>() } else { producers_shared_bytes::<T, K>() }
}

/// The ring of a kernel's block: producers fill it both ways, the warps of consumers empty it.
///
/// # Safety
/// All threads of the block get here together, and the kernel's shared memory ends with the ring.
#[device_inline]
pub unsafe fn ring<K: GemmKernel<Element: Element<Acc = K::Element>>, const STAGES: u32>()
-> Ring<STAGES> {
    // SAFETY: as promised by the caller.
    unsafe {
        let (offset, readers) =
            (producers_shared_bytes::<K::Element, K>(), consumers::<K>() / WARP);
        Ring::new(offset, 2 * K::PRODUCERS, readers)
    }
}

/// Whether this thread is a producer: one of the block's last.
#[device_inline]
pub fn is_producer<K: GemmKernel>() -> bool {
    thread::thread_idx_x() >= consumers::<K>()
}

/// Gives up registers, all but so many.
///
/// # Safety
/// All producers do, once.
#[device_inline]
pub unsafe fn become_producer<const REGISTERS: u32>() {
    // SAFETY: as promised by the caller.
    unsafe { registers::decrease::<REGISTERS>() }
}

/// Takes registers, up to so many.
///
/// # Safety
/// All consumers do, once, and producers give theirs up.
#[device_inline]
pub unsafe fn become_consumer<const REGISTERS: u32>() {
    // SAFETY: as promised by the caller.
    unsafe { registers::increase::<REGISTERS>() }
}

/// Waits until all consumers are here.
///
/// # Safety
/// All of them get here together.
#[device_inline]
#[track_caller]
pub unsafe fn consumers_meet<K: GemmKernel>() {
    // SAFETY: as promised by the caller.
    unsafe { named_barrier::sync(CONSUMERS, consumers::<K>()) }
}

/// Brings the slices for some values of k, of which the first is a multiple of `BK`, for the tile that begins at
/// `origin`.
///
/// # Safety
/// All producers get here together; A and B are valid for their shapes.
#[device_inline]
#[track_caller]
pub unsafe fn produce<
    K: GemmKernel<Element: Element<Acc = K::Element>>,
    E: Epilogue<K::Element>,
    const STAGES: u32,
>(
    p: &GemmParams<K::Element, E>,
    ring: &mut Ring<STAGES>,
    origin: Origin,
    depth: Range<u32>,
) {
    let thread = thread::thread_idx_x() - consumers::<K>();
    let copier = Copier::<K>::new(p, origin);
    let mut k = depth.start;
    // Addresses are computed anew for each slice: kept over the loop they would spoil the consumers' registers.
    // SAFETY: as promised by the caller; the stage is empty.
    unsafe {
        if k < depth.end {
            copier.begin(hint::opaque(thread), k);
        }
        while k < depth.end {
            let free = Slices::of_stage(ring.wait_empty());
            let next = k + K::TILE.bk;
            let following = if next < depth.end { next } else { k };
            copier.bring_at_once(hint::opaque(thread), k, &free);
            ring.filled_by_copies();
            copier.bring_staged(hint::opaque(thread), (k, following), &free);
            ring.filled_by_hand();
            k = next;
        }
    }
}

/// The sums of this thread over some values of k, of which the first is a multiple of `BK`, or over its group's part of
/// them: the loop of [`crate::ladder::decoupled`] without copies.
///
/// # Safety
/// All consumers get here together, and the producers bring the slices.
#[device_inline]
#[track_caller]
pub unsafe fn consume<K: GemmKernel, const TM: usize, const TN: usize, const STAGES: u32>(
    ring: &mut Ring<STAGES>,
    depth: Range<u32>,
) -> ThreadTile<K, TM, TN, InWarps> {
    let mut sums = ThreadTile::new();
    if depth.start >= depth.end {
        return sums;
    }
    // Groups that share the depth of the slices all take the same part of each, to the end of the last.
    let own = own_depth::<K>();
    let Range { start: mut k, end } = if K::DEPTH_GROUPS > 1 {
        0..(depth.end - depth.start).div_ceil(K::TILE.bk) * own
    } else {
        depth
    };
    // SAFETY: as promised by the caller; every warp reads each slice, in order, and says so.
    unsafe {
        let mut slices = Slices::of_stage(ring.wait_full());
        let mut fragments = sums.fragments(&slices, 0);
        while k < end {
            unroll!(step < ROUND, {
                let last = step == ROUND - 1;
                let mut on = false;
                if last {
                    k += ROUND as u32;
                    if k >= end {
                        // Of what follows the last k nobody needs fragments: those of this round will do.
                    } else if k.is_multiple_of(own) {
                        slices = Slices::of_stage(ring.wait_full());
                        on = true;
                    } else {
                        slices = slices.after(ROUND as u32);
                    }
                }
                let next_k = if last { 0 } else { step as u32 + 1 };
                let next = sums.fragments(&slices.after(next_k), next_k);
                sums.add_rows(&fragments);
                if on {
                    ring.emptied();
                }
                fragments = next;
            });
        }
        ring.emptied_last();
    }
    sums
}
