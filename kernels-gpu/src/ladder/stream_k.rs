//! No multiprocessor idle at the end: the tiles of the last wave are divided, so that all multiprocessors have equal
//! work.
//!
//! 4096 x 4096 has 512 tiles of 128 x 256. 132 multiprocessors take one each, and again: in the fourth round
//! there are 116 left. 4097 x 4097 has 561 tiles: in the fifth round 33 multiprocessors work while 99 wait (*wave
//! quantisation*).  Here the tiles of the last round are *shared* ([`crate::schedule::shares`]): their slices of k
//! are counted through, as if the tiles lay in one row, and every multiprocessor takes an equal part of them, which
//! may end in the middle of a tile. A block whose part does leaves its sums to the block that has the end of that tile
//! ([`crate::schedule::hand_over`]), which adds them to its own and stores the tile.
//!
//! The blocks that share come first in the grid, so that sums are still on their way through memory while a whole round
//! of other blocks runs. Each begins with the part that it leaves to another, so that nobody waits for long. (A block
//! waits only for blocks of lower index, which have been started before it.) The code of the main loop is there twice,
//! for what is left and for what is stored: in a loop over both the compiler would distribute registers among the banks
//! less well.
//!
//! Gain: at 4096, where the tiles nearly come out even, none over [`crate::ladder::warp_specialised`], whose tiles and
//! main loop it has, and 1.02 times its speed with bulk copies; 1.15 times at 4097, and 2.8 times at 1024 (f32, H200).

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::ladder::sliced_k::order_of_groups;
use crate::ladder::warp_specialised::{
    Bring, MOST_FOR_CONSUMERS, OnTheWay, PRODUCERS, become_consumer, become_producer,
    bytes_to_bring, consume, consumers_meet, is_producer,
};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::schedule::hand_over::HandOver;
use crate::schedule::shares::{Segment, Share, Shares};
use crate::slices::in_bulk::boxes;
use crate::slices::ring::Ring;
use crate::tile::{grouped_tile_at, tiles};
use core::marker::PhantomData;
use core::ops::Range;
use cuda_std::{device_inline, hint, shared, thread};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, at least 3 stages, `GROUPS` groups that
/// share the depth, and factors in the layouts `L`, of which slices come in the way `H`.
pub struct StreamK<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    const GROUPS: u32,
    L = Nn,
    H = OnTheWay,
>(PhantomData<(T, L, H)>);

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    const GROUPS: u32,
    L: OperandLayouts,
    H: Bring,
> GemmKernel for StreamK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, L, H>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::StreamK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const SUMMATION: Summation = order_of_groups(GROUPS);
    const SCHEDULE: Schedule = Schedule::StreamK;
    const DEPTH_GROUPS: u32 = GROUPS;
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::RegisterTransfers;
    const BOXES: Option<Boxes> = if H::IN_BULK { Some(boxes::<Self>()) } else { None };
    const SHARED_BYTES: u32 = bytes_to_bring::<T, Self, H>() + Ring::<STAGES>::BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let block = thread::block_idx_x();
        // SAFETY: all threads of the block get here.
        let Share { unfinished, finished, first_helper } = unsafe { share(&p, Self::TILE, block) };
        let origin = |segment: Segment| grouped_tile_at(&Self::TILE, p.m, p.n, segment.tile);
        let depth = |segment: Segment| depth(segment, BK as u32, p.k);

        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices. Who has the end of a tile collects what the blocks before it have left, each of
        // which has a part of that tile to leave.
        unsafe {
            let mut ring = H::ring::<Self, STAGES>();
            if is_producer::<Self>() {
                become_producer::<{ MOST_FOR_CONSUMERS.producer }>();
                H::produce::<Self, _, STAGES>(&p, &mut ring, origin(unfinished), depth(unfinished));
                H::produce::<Self, _, STAGES>(&p, &mut ring, origin(finished), depth(finished));
                return;
            }
            become_consumer::<{ MOST_FOR_CONSUMERS.consumer }>();
            let meet = || consumers_meet::<Self>();
            let of_block = |block| HandOver::<Self>::of_block(&p.workspace, block);
            if !unfinished.is_empty() {
                let sums = consume::<Self, TM, TN, STAGES>(&mut ring, depth(unfinished));
                sums.leave(&of_block(block), meet);
            }
            if !finished.is_empty() {
                let mut sums = consume::<Self, TM, TN, STAGES>(&mut ring, depth(finished));
                for helper in first_helper..block {
                    sums.collect(&of_block(helper), meet);
                }
                meet();
                sums.store_rows(&p, origin(finished), shared::dynamic(), meet);
            }
        }
    }
}

/// What a block of this launch sums, in values that are the same for all its threads.
///
/// # Safety
/// All threads of the block get here, with its index.
#[device_inline]
unsafe fn share<T: Element, E>(p: &GemmParams<T, E>, tile: Tile, block: u32) -> Share {
    let slices = p.k.div_ceil(tile.bk).max(1);
    let whole = tiles(&tile, p.m, p.n) - p.shared_tiles;
    let shares = Shares::new(p.shared_tiles, thread::grid_dim_x() - whole, slices);
    let Share { unfinished, finished, first_helper } = shares.of(block);
    // SAFETY: as promised by the caller; nothing above depends on the thread.
    let uniform = |value| unsafe { hint::uniform(value) };
    let segment = |Segment { tile, first, end }| Segment {
        tile: uniform(tile),
        first: uniform(first),
        end: uniform(end),
    };
    Share {
        unfinished: segment(unfinished),
        finished: segment(finished),
        first_helper: uniform(first_helper),
    }
}

/// The values of k in a segment of slices of `bk` values.
#[device_inline]
fn depth(segment: Segment, bk: u32, k: u32) -> Range<u32> {
    segment.first * bk..(segment.end * bk).min(k)
}
