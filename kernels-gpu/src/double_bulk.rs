//! Tensor cores in double precision, fed by bulk copies.

use crate::double_bulk_panels::{ALIGNMENT, DoubleBulkPanel};
use crate::double_tile::{DoubleTile, STEP};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::maps::{BoxShape, Boxes};
use crate::panels::{PanelA, PanelB, Panels};
use crate::params::GemmParams;
use crate::ring::{Ring, WARP, after};
use crate::tile::{Origin, tiles, tiles_of_cluster_at};
use core::marker::PhantomData;
use cuda_std::swizzle::Swizzle;
use cuda_std::{
    bulk_copy, cluster, early_start, hint, mma, named_barrier, registers, shared, thread, unroll,
};

/// Threads that own no sums: a warp that copies, and one for each group of warps that multiply. Registers are handed over by four warps.
const PRODUCERS: u32 = 4 * WARP;

/// Registers of those, and of the others. All threads together have what they were launched with: 168 each.
const PRODUCER_REGISTERS: u32 = 24;
const CONSUMER_REGISTERS: u32 = 240;

/// Groups of warps that multiply, each one warp of every quarter of the multiprocessor.
const GROUPS: u32 = 2;

/// Slices that the first group is ahead of the second when that begins, so that they do not store at one time.
const AHEAD: u32 = 3;

/// Steps of k that an instruction takes.
const STEPS: usize = 2;

/// The named barriers at which a group learns that a slice is there, those where it says that it has read one, and that of the start.
const FULL: u32 = 1;
const EMPTY: u32 = FULL + GROUPS;
const START: u32 = EMPTY + GROUPS;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, clusters of as many blocks, and
/// factors in the layouts `L`.
pub struct DoubleBulk<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    const CLUSTER: u32,
    L = Nn,
>(PhantomData<L>);

impl<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    const CLUSTER: u32,
    L: OperandLayouts,
> GemmKernel for DoubleBulk<BM, BN, BK, TM, TN, STAGES, CLUSTER, L>
{
    type Element = f64;
    type Target = f64;
    const RUNG: Rung = Rung::TensorCore;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::TensorCores;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const SCHEDULE: Schedule = Schedule::Persistent;
    const PRODUCERS: u32 = PRODUCERS;
    const CLUSTER: u32 = CLUSTER;
    const NEEDS: Needs = Needs::DoubleTensorCoresInClusters;
    const BOXES: Option<Boxes> = Some(Boxes {
        a: DoubleBulkPanel::<PanelA<Self>>::box_of(1),
        fits_a: false,
        b: DoubleBulkPanel::<PanelB<Self>>::box_of(CLUSTER),
        // Nobody stores D so.
        d: BoxShape { rows: 8, cols: 16, swizzle: Swizzle::Bytes128 },
    });
    const SHARED_BYTES: u32 = Self::RING + Ring::<STAGES>::BYTES;
    const WAITS: bool = true;

    #[inline(always)]
    unsafe fn run<E: Epilogue<f64>>(p: GemmParams<f64, E>) {
        registers::require();
        mma::require();
        let thread = thread::thread_idx_x();
        // SAFETY: the launch keeps the kernel's contract; the block divides into those that copy, announce and multiply once, and all go through the
        // same slices of the same tiles.
        unsafe {
            let mut ring = Ring::for_bulk_copies(Self::RING, GROUPS, CLUSTER);
            if thread >= Self::CONSUMERS {
                registers::decrease::<PRODUCER_REGISTERS>();
                let warp = hint::uniform((thread - Self::CONSUMERS) / WARP);
                if p.k > 0 && warp < GROUPS {
                    Self::announce(&p, &mut ring, warp);
                } else if p.k > 0 && thread == Self::CONSUMERS + GROUPS * WARP {
                    early_start::wait();
                    Self::copy(&p, &mut ring);
                    return;
                }
                if warp < GROUPS {
                    ring.leave_cluster();
                }
                return;
            }
            registers::increase::<CONSUMER_REGISTERS>();
            early_start::wait();
            Self::multiply(&p);
            ring.leave_cluster();
        }
    }
}

impl<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    const CLUSTER: u32,
    L: OperandLayouts,
> DoubleBulk<BM, BN, BK, TM, TN, STAGES, CLUSTER, L>
{
    /// Threads that multiply, and those of a group.
    const CONSUMERS: u32 = Self::TILE.threads();
    const OF_GROUP: u32 = Self::CONSUMERS / GROUPS;

    /// Where sums lie on their way to D: behind the stages.
    const ROOM: u32 = {
        let stage = Panels::bytes::<Self>();
        assert!(stage.is_multiple_of(2 * ALIGNMENT), "panels are aligned");
        STAGES * stage
    };

    /// Where the ring's barriers lie, behind that.
    const RING: u32 = Self::ROOM + DoubleTile::<Self, TM, TN>::PART_BYTES;

    /// The tiles of a cluster, as one.
    const TOGETHER: Tile = Tile { bm: CLUSTER * BM as u32, ..Self::TILE };

    /// The numbers of the cluster's tiles, and where the block's own begins.
    #[inline(always)]
    fn tiles<E>(p: &GemmParams<f64, E>) -> core::iter::StepBy<core::ops::Range<u32>> {
        let (first, step) = (thread::block_idx_x() / CLUSTER, thread::grid_dim_x() / CLUSTER);
        (first..tiles(&Self::TOGETHER, p.m, p.n)).step_by(step as usize)
    }

    #[inline(always)]
    fn origin<E>(p: &GemmParams<f64, E>, tile: u32) -> Origin {
        let (m, n) = (hint::opaque(p.m), hint::opaque(p.n));
        let Origin { row, col } = tiles_of_cluster_at(&Self::TOGETHER, m, n, tile);
        Origin { row: row + Self::rank() * BM as u32, col }
    }

    #[inline(always)]
    fn rank() -> u32 {
        if CLUSTER > 1 { cluster::rank() } else { 0 }
    }

    /// Brings all slices of all tiles, and one more.
    #[inline(always)]
    #[track_caller]
    unsafe fn copy<E>(p: &GemmParams<f64, E>, ring: &mut Ring<STAGES>) {
        // SAFETY: as promised by the caller; the stage is empty, and those who announce wait for it to be full.
        unsafe {
            let (a, b) = p.mapped_factors();
            bulk_copy::prefetch(a.map);
            bulk_copy::prefetch(b.map);
            let mut copy = |Origin { row, col }: Origin, k: u32| {
                let to = Panels::of_stage::<Self>(ring.wait_empty());
                let full = ring.expect(Panels::bytes::<Self>());
                DoubleBulkPanel::<PanelA<Self>>::load_part::<1>(to.a, a, (row, k), full, 0);
                let part = Self::rank();
                DoubleBulkPanel::<PanelB<Self>>::load_part::<CLUSTER>(
                    to.b,
                    b,
                    (col, k),
                    full,
                    part,
                );
            };
            for tile in Self::tiles(p) {
                let origin = Self::origin(p, tile);
                for slice in 0..p.k.div_ceil(BK as u32) {
                    copy(origin, slice * BK as u32);
                }
            }
            copy(Origin { row: 0, col: 0 }, p.k.next_multiple_of(BK as u32));
        }
    }

    /// Tells a group of each slice that is there, and the ring of each that the group has read.
    #[inline(always)]
    #[track_caller]
    unsafe fn announce<E>(p: &GemmParams<f64, E>, ring: &mut Ring<STAGES>, group: u32) {
        let slices = Self::tiles(p).len() as u32 * p.k.div_ceil(BK as u32);
        let ahead = AHEAD.min(slices);
        // SAFETY: as promised by the caller.
        unsafe {
            if group > 0 {
                named_barrier::sync(START, GROUPS * WARP);
            }
            for number in 0..=slices {
                ring.wait_full();
                named_barrier::arrive(FULL + group, Self::OF_GROUP + WARP);
                if number > 0 {
                    named_barrier::sync(EMPTY + group, Self::OF_GROUP + WARP);
                    ring.emptied();
                }
                if group == 0 && number == ahead {
                    named_barrier::arrive(START, GROUPS * WARP);
                }
            }
        }
    }

    /// Sums the products of all tiles and stores them.
    #[inline(always)]
    #[track_caller]
    unsafe fn multiply<E: Epilogue<f64>>(p: &GemmParams<f64, E>) {
        let slices = p.k.div_ceil(BK as u32);
        let mut stage = 0;
        // SAFETY: as promised by the caller.
        unsafe {
            if slices > 0 {
                let group = thread::thread_idx_x() / Self::OF_GROUP;
                named_barrier::sync(FULL + group, Self::OF_GROUP + WARP);
            }
            for number in Self::tiles(p) {
                let mut tile = DoubleTile::<
                    Self,
                    TM,
                    TN,
                    DoubleBulkPanel<PanelA<Self>>,
                    DoubleBulkPanel<PanelB<Self>>,
                >::new();
                let mut panels = Panels::of_stage::<Self>(stage);
                if slices > 0 {
                    let mut fragments = [tile.fragments(panels, 0), tile.fragments(panels, 1)];
                    for _ in 0..slices {
                        stage = after::<STAGES>(stage);
                        let next = Panels::of_stage::<Self>(stage);
                        unroll!(index < BK / (STEP * STEPS), {
                            let following = if index + 1 < BK / (STEP * STEPS) {
                                let step = (index + 1) * STEPS;
                                [tile.fragments(panels, step), tile.fragments(panels, step + 1)]
                            } else {
                                let full = FULL + tile.part_of_rows(GROUPS);
                                named_barrier::sync(full, Self::OF_GROUP + WARP);
                                [tile.fragments(next, 0), tile.fragments(next, 1)]
                            };
                            tile.multiply_two(&fragments);
                            fragments = following;
                        });
                        let empty = EMPTY + tile.part_of_rows(GROUPS);
                        named_barrier::arrive(empty, Self::OF_GROUP + WARP);
                        panels = next;
                    }
                }
                let origin = Self::origin(p, number);
                match p.epilogue.only_scales() {
                    Some(alpha) => tile.store_scaled(p, origin, alpha),
                    None => {
                        let room = shared::dynamic::<u8>().add(Self::ROOM);
                        tile.store_in_parts(p, origin, room.cast());
                    }
                }
            }
        }
    }
}
