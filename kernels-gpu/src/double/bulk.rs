//! Tensor cores in double precision, fed by bulk copies: [`crate::double::tensor_core`] for large D, on Hopper.
//!
//! There all threads copy, all wait for each other once a slice, and half of the registers that are not sums hold
//! addresses. Here one thread asks for whole slices ([`crate::double::bulk_panels`]), and what that frees is used so:
//!
//! - An instruction takes 8 values of k instead of 4, with the fragments of the next one in registers of their own:
//!   half as many reads and writes of sums, which at the same power is a clock 1.5 to 3 % higher. 96 registers of
//!   fragments and 128 of sums leave 16 for all else. A lone number too many is read back from local memory once a
//!   slice, so that what is not needed in the loop is worked out after it.
//! - Blocks are in clusters of two, one above the other, which fetch each slice of B once for both.
//! - A block stays and takes one [part](crate::schedule::parts) of D after another, and copies never pause. Clusters
//!   share the tiles of the last round, where that would leave many without work. Sums that are only scaled go from
//!   registers to D, others through a place of their own, 8 rows at a time, so that slices may travel meanwhile.
//!
//! ```text
//! copier          | fill 0 | .. | fill 5 | wait, fill 0 | ..                all tiles of the block, without a break
//! announcer 0, 1  | wait, tell the group | hear from the group, give the stage back | ..
//! group 0                | 0 ---- | 1 ---- | 2 ---- | ..  store | 0 ---- | ..      4 warps, one of each quarter of the multiprocessor
//! group 1                                  | 0 ---- | 1 ---- | ..  store | ..
//! ```
//!
//! # Waiting without a branch
//!
//! Bulk copies tell a memory barrier when they arrive, and a warp waits there in a loop. Before its branches the
//! assembler has it wait for all products ([`crate::double::tensor_core`]). So other warps wait in place of those that
//! multiply, and tell them at a named barrier, which is a single instruction; at another one they learn what has been
//! read. One warp does that for a group of four, and knows nothing of the other group: the two are up to as many slices
//! apart as there are stages, and while one stores its sums the other has the tensor cores. One number of a barrier is
//! enough for each. A group learns of slice `i + 1` after it has said that it has read slice `i - 1`, which it does
//! after it has heard of slice `i`.
//!
//! # What the machine does
//!
//! On an H200 whole tiles take 4.30 million clocks at 4096 and 560 thousand at 2048, where `tensor_core_f64` takes 4.39
//! million and 568 thousand, and the products of 8 and 2 rounds alone 4.19 million and 524 thousand (`ncu`). In samples
//! that alternate with cuBLAS's it is then as fast as that at 4096, and 1.025 times as fast with a shared last
//! round, which at 2048 is full. Blocks for themselves take 1.02 times the clocks of clusters; all warps in one group
//! are as much slower than two.

use crate::double::bulk_panels::{ALIGNMENT, DoubleBulkPanel};
use crate::double::tile::{DoubleTile, STEP};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::schedule::hand_over::HandOver;
use crate::schedule::parts::{Part, Parts};
use crate::share_of_registers::Registers;
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP, after};
use crate::tile::Origin;
use crate::warp::panels::{PanelA, PanelB, Panels};
use core::marker::PhantomData;
use cuda_std::{
    bulk_copy, device_inline, early_start, hint, named_barrier, registers, shared, thread, unroll,
    warp,
};

/// Threads that own no sums: a warp for each group of those that multiply, and one that copies. Registers are handed
/// over by four warps.
const PRODUCERS: u32 = 4 * WARP;

/// Registers of those, and of the others.
const REGISTERS: Registers = Registers::new(24, 240);

/// Groups of warps that multiply, each one warp of every quarter of the multiprocessor.
const GROUPS: u32 = 2;

/// Slices that the first group is ahead of the second when that begins, so that they do not store at one time.
const AHEAD: u32 = 3;

/// Steps of k that an instruction takes.
const STEPS: usize = 2;

/// The named barriers at which a group learns that a slice is there, those where it says that it has read one, that of
/// the start, and that of both groups where a block hands its sums over.
const FULL: u32 = 1;
const EMPTY: u32 = FULL + GROUPS;
const START: u32 = EMPTY + GROUPS;
const MEET: u32 = START + 1;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp,
/// clusters of as many blocks, and factors in the layouts `L`.
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
        b: DoubleBulkPanel::<PanelB<Self>>::box_of(CLUSTER),
        rests: false,
        c: None,
        d: None,
    });
    const SHARED_BYTES: u32 = Self::RING + Ring::<STAGES>::BYTES;
    const WAITS: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<f64>>(p: GemmParams<f64, E>) {
        let thread = thread::thread_idx_x();
        // SAFETY: the launch keeps the kernel's contract; the block divides into those that copy, announce and multiply
        // once, and all go through the same slices of the same tiles.
        unsafe {
            let mut ring = Ring::for_bulk_copies(Self::RING, GROUPS, Self::SHARED_BY);
            if thread >= Self::CONSUMERS {
                registers::decrease::<{ REGISTERS.producer }>();
                let role = hint::uniform((thread - Self::CONSUMERS) / WARP);
                if p.k > 0 && role < GROUPS {
                    Self::announce(&p, &mut ring, role);
                } else if p.k > 0 && role == GROUPS && warp::elect(warp::FULL_MASK) {
                    early_start::wait();
                    Self::copy(&p, &mut ring);
                    return;
                }
                if role < GROUPS {
                    ring.leave_cluster();
                }
                return;
            }
            registers::increase::<{ REGISTERS.consumer }>();
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

    /// The blocks that share B.
    const SHARED_BY: Cluster = Cluster::new(CLUSTER, 1);

    /// Brings all slices of all tiles, and one more of zeros, whose first fragments are read behind the last.
    ///
    /// # Safety
    /// One thread does so; A and B are valid for their shapes, and the parameters have their maps.
    #[device_inline]
    #[track_caller]
    unsafe fn copy<E: Epilogue<f64>>(p: &GemmParams<f64, E>, ring: &mut Ring<STAGES>) {
        // SAFETY: as promised by the caller; the stage is empty, and those who announce wait for it to be full.
        unsafe {
            let (a, b) = p.mapped_factors();
            bulk_copy::prefetch(a.map);
            bulk_copy::prefetch(b.map);
            let mut copy = |Origin { row, col }: Origin, k: u32| {
                let to = Panels::of_stage::<Self>(ring.wait_empty());
                let full = ring.expect(Panels::bytes::<Self>());
                let rank = Self::SHARED_BY.rank();
                let (of_a, of_b) = (Self::SHARED_BY.of_row(rank), Self::SHARED_BY.of_col(rank));
                DoubleBulkPanel::<PanelA<Self>>::load_part::<1>(to.a, a, (row, k), full, of_a);
                DoubleBulkPanel::<PanelB<Self>>::load_part::<CLUSTER>(
                    to.b,
                    b,
                    (col, k),
                    full,
                    of_b,
                );
            };
            let mut parts = Parts::<CLUSTER>::new::<Self, _>(p);
            loop {
                parts = parts.anew::<Self, _>(p);
                let Some(part) = parts.next() else { break };
                for slice in part.slices {
                    copy(part.origin, slice * BK as u32);
                }
            }
            copy(Origin { row: 0, col: 0 }, p.k.next_multiple_of(BK as u32));
        }
    }

    /// Tells a group of each slice that is there, and the ring of each that the group has read.
    ///
    /// # Safety
    /// One warp of its own does so for each group.
    #[device_inline]
    #[track_caller]
    unsafe fn announce<E: Epilogue<f64>>(
        p: &GemmParams<f64, E>,
        ring: &mut Ring<STAGES>,
        group: u32,
    ) {
        let mut parts = Parts::<CLUSTER>::new::<Self, _>(p).map(|part| part.slices.len() as u32);
        let of_first = parts.next().unwrap_or(0);
        let slices = of_first + parts.sum::<u32>();
        // At the end of what it leaves to another block the first group waits for the second.
        let ahead = AHEAD.min(of_first);
        // SAFETY: as promised by the caller; who comes to a barrier again has seen that it was complete: of `FULL` this
        // warp sees that by waiting there at first, and from then on in what the group says at `EMPTY` after it has
        // heard.
        unsafe {
            if group > 0 {
                named_barrier::sync(START, GROUPS * WARP);
            }
            for number in 0..=slices {
                ring.wait_full();
                if number == 0 {
                    named_barrier::sync(FULL + group, Self::OF_GROUP + WARP);
                } else {
                    named_barrier::arrive(FULL + group, Self::OF_GROUP + WARP);
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
    ///
    /// # Safety
    /// All threads that multiply get here together, slices are copied and announced, and D and the epilogue's operands
    /// are valid for their shapes.
    #[device_inline]
    #[track_caller]
    unsafe fn multiply<E: Epilogue<f64>>(p: &GemmParams<f64, E>) {
        let mut parts = Parts::<CLUSTER>::new::<Self, _>(p);
        let mut stage = 0;
        // SAFETY: as promised by the caller; nobody writes a slice before the warps of its group have said that they
        // have read it. Who has the end of a tile collects what the blocks before it have left, each of which has a
        // part of that tile to leave.
        unsafe {
            let of_block = |block| HandOver::<Self>::of_block(&p.workspace, block);
            let meet = || named_barrier::sync(MEET, Self::CONSUMERS);
            if p.k > 0 {
                let group = thread::thread_idx_x() / Self::OF_GROUP;
                named_barrier::sync(FULL + group, Self::OF_GROUP + WARP);
            }
            loop {
                parts = parts.anew::<Self, _>(p);
                let Some(part) = parts.next() else { break };
                let slices = hint::uniform(part.slices.end - part.slices.start);
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
                parts = parts.anew::<Self, _>(p);
                let Part { origin, is_left, first_helper, .. } = parts.current();
                let block = hint::opaque(thread::block_idx_x());
                if is_left {
                    tile.leave(&of_block(block), meet);
                    continue;
                }
                for helper in (first_helper..block).step_by(CLUSTER as usize) {
                    tile.collect(&of_block(helper), meet);
                }
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
