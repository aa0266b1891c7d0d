//! Small tiles for small D: groups of warps share the depth of a tile.
//!
//! 1024 x 1024 has 32 tiles of 128 x 256 for 132 multiprocessors: 100 of them have nothing to do. Dividing K
//! among blocks gives all of them work, but then sums have to travel through memory ([`crate::ladder::split_k`],
//! [`crate::ladder::stream_k`]). Of tiles of 64 x 128 there are 128. But a multiprocessor needs eight warps that
//! multiply to be busy, and thread tiles of 8 x 16 to have few loads for each multiply-add: eight such warps cover 128
//! x 256 elements, four times such a tile.
//!
//! So here four groups of two warps each own the whole tile, and every slice of A and B is cut in four along its depth:
//! the first group multiplies the first 16 of its 64 values of k, the second the next, and so on. Nothing else changes
//! in the main loop. At the end there are four sums of each element of D, all of them on the same multiprocessor: on
//! their way through shared memory, which they take anyway, they are added up ([`crate::thread_tile::store_rows`]).
//!
//! The price is that twice as much is copied for each multiply-add as with tiles of 128 x 256. So this is for D that
//! has too few of those. With eight groups of one warp each tiles are smaller still: 48 x 96, of which 768 x 768 has
//! 128, and 32 x 64 for 512 x 512.
//!
//! Gain: at 1024 3.3 times the speed of [`crate::ladder::warp_specialised`], 1.10 times that of `split_k`, and 1.02
//! times that of `stream_k` with tiles of the same size (f32, H200).
//!
//! As a slice is so little to multiply, the producers' instructions weigh more than elsewhere. Where factors lie as
//! slices do, or are [transposed](crate::prepare::transposed) before, slices come in [bulk](crate::slices::in_bulk)
//! instead: 1.03 times the speed at 1024 in TN, 1.06 in NT with both factors transposed before (f32, H200).

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Summation, Tile};
use crate::ladder::warp_specialised::{
    Bring, MOST_FOR_CONSUMERS, OnTheWay, PRODUCERS, become_consumer, become_producer,
    bytes_to_bring, consume, consumers_meet, is_producer,
};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::slices::in_bulk::boxes;
use crate::slices::ring::Ring;
use crate::tile::grouped_block_tile;
use core::marker::PhantomData;
use cuda_std::{device_inline, shared};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, at least 3 stages, `GROUPS` groups that
/// share the depth, and factors in the layouts `L`, of which slices come in the way `H`.
pub struct SlicedK<
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
> GemmKernel for SlicedK<T, BM, BN, BK, TM, TN, STAGES, GROUPS, L, H>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::SlicedK;
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
    const DEPTH_GROUPS: u32 = GROUPS;
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::RegisterTransfers;
    const BOXES: Option<Boxes> = if H::IN_BULK { Some(boxes::<Self>()) } else { None };
    const SHARED_BYTES: u32 = bytes_to_bring::<T, Self, H>() + Ring::<STAGES>::BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = grouped_block_tile(&Self::TILE, p.m, p.n);
        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices.
        unsafe {
            let mut ring = H::ring::<Self, STAGES>();
            if is_producer::<Self>() {
                become_producer::<{ MOST_FOR_CONSUMERS.producer }>();
                H::produce::<Self, _, STAGES>(&p, &mut ring, origin, 0..p.k);
            } else {
                become_consumer::<{ MOST_FOR_CONSUMERS.consumer }>();
                let sums = consume::<Self, TM, TN, STAGES>(&mut ring, 0..p.k);
                consumers_meet::<Self>();
                sums.store_rows(&p, origin, shared::dynamic(), || consumers_meet::<Self>());
            }
        }
    }
}

/// In which order kernels with so many groups add up products.
pub const fn order_of_groups(groups: u32) -> Summation {
    if groups > 1 { Summation::InGroups } else { Summation::Ascending }
}
