//! Tensor cores in double precision: [`crate::tensor_core`] for f64.
//!
//! Tensor cores of data centre GPUs multiply f64, too, and twice as fast as the rest of the multiprocessor: 128 multiply-adds a
//! clock on an H200, 67 TFLOP/s. One instruction of a warp is 16 x 16 by 16 x 8 elements there, on an A100 8 x 4 by 4 x 8
//! ([`cuda_std::mma::double`]). The composition is that of [`crate::tensor_core`], but what limits it is not:
//!
//! - An instruction takes 64 clocks of a quarter of the multiprocessor, so nothing else is short of time: not the 3 loads from
//!   shared memory that go with it, not barriers. What is short is registers, since an element is two of them. A warp's 32 x 64
//!   sums are half of all that a thread can have, and the fragments are read in smaller pieces ([`crate::double_tile`]).
//! - 8 warps of 32 x 64 are what the registers of a multiprocessor hold, a block tile of 128 x 128. For each k it takes 2 KB from the
//!   L2 cache and has 128 clocks for it: 16 bytes a clock, 4.2 TB/s on an H200 at its highest clock. Smaller tiles take more, so
//!   they are for small D.
//! - Shared memory delivers 128 bytes a clock. Fragments take 96 elements for each k of a warp, 6 KB in 128 clocks for all, and
//!   copies 2 KB: half of that. The panels are swizzled so that no access takes longer ([`crate::double_panels`]).
//!
//! One barrier a slice is enough, and it stands before the slice's products, whose first fragments have been read by then: a warp that
//! has passed it multiplies at once, and one that waits there has its last instruction still under way. That takes a stage more: of the
//! slice which is multiplied, of the next one, whose first fragments are read meanwhile, and of those that travel. Nor do copies stand
//! between the barrier and the products: a few are issued with every few products ([`DoubleTile::multiply`]).
//!
//! # What the machine's code says
//!
//! Of the 128 x 128 tile for sm_90a (ptxas 13.0), none of which spills in any layout:
//!
//! - 255 registers: 128 of sums, 64 of fragments, and addresses. As long as the loop runs nothing else is kept; even the place of the
//!   tile is worked out again after it. For sm_80 it is 242.
//! - The loop of a slice is 291 instructions: 16 `DMMA.16x8x16`, 48 `LDS.64`, three for each, and 8 copies by chunks or 16 by elements
//!   in between. Two warps share a quarter of the multiprocessor. Their products take it `2 * 16 * 64 = 2048` clocks, their
//!   instructions no more than 582 to issue, and the loads of all eight warps 768 passes over the banks, and the copies 256. So tensor
//!   cores should be busy all the time but about the barrier, and the rest is up to the clock that the power allows.
//! - Of sm_80 the loop has 128 `DMMA.8x8x4` (which is `DMMA.884` there) and the same loads.
//!
//! These are estimates: no time has been measured yet.
//!
//! Elements are added up by IEEE arithmetic, but in which order within an instruction is not documented
//! ([`Summation::TensorCores`]).
//!
//! This is for GPUs of compute capability 8.0 and later. Those for other uses than data centres have the instruction, but no fast
//! hardware for it: the host knows which is which.

use crate::double_panels::DoubleCopier;
use crate::double_tile::{DoubleTile, FirstFragments, STEP, Step};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::panels::Panels;
use crate::params::GemmParams;
use crate::pipelined::wait_for_oldest;
use crate::ring::{after, before};
use crate::tile::grouped_block_tile;
use core::marker::PhantomData;
use cuda_std::async_copy::{commit_group, wait_group};
use cuda_std::{hint, mma, thread, unroll};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, 3 or 4 stages, and
/// factors in the layouts `L`.
pub struct DoubleTensorCore<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L = Nn,
>(PhantomData<L>);

impl<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
> GemmKernel for DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = f64;
    type Target = f64;
    const RUNG: Rung = Rung::TensorCore;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::TensorCores;
    const NEEDS: Needs = Needs::DoubleTensorCores;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const SHARED_BYTES: u32 = {
        let (slices, sums) = (STAGES * Panels::bytes::<Self>(), DoubleTile::<Self, TM, TN>::BYTES);
        if slices > sums { slices } else { sums }
    };

    #[inline(always)]
    unsafe fn run<E: Epilogue<f64>>(p: GemmParams<f64, E>) {
        mma::require();
        // Worked out twice: kept over the main loop it would take registers from the sums.
        let origin = || grouped_block_tile(&Self::TILE, hint::opaque(p.m), hint::opaque(p.n));
        let mut copier = DoubleCopier::<Self>::new(&p, origin());
        let mut tile = DoubleTile::<Self, TM, TN>::new();
        let pairs = const { DoubleTile::<Self, TM, TN>::PAIRS };

        // SAFETY: the launch keeps the kernel's contract; every thread waits for its copies of a slice, and a barrier lies
        // between that and the first use, and between the last use and the next copies to the same stage. All threads of
        // the block count to the same k, and all lanes of a warp do the same.
        unsafe {
            for stage in 0..hint::opaque(STAGES - 1) {
                if stage * (BK as u32) < p.k {
                    copier.copy(0, 1, Panels::of_stage::<Self>(stage));
                }
                commit_group();
                copier.advance();
            }
            let mut panels = Panels::of_stage::<Self>(0);
            let mut fragments = FirstFragments::ZERO;
            if p.k > 0 {
                wait_for_oldest::<STAGES>();
                thread::sync_threads();
                fragments = tile.first_fragments(Step { panels, index: 0 });
            }
            let (mut k, mut stage) = (0, 0);
            while k < p.k {
                // The slice after this one is there, and nobody reads the one before any more, whose stage the next copies take.
                wait_for_second::<STAGES>();
                thread::sync_threads();
                let free = Panels::of_stage::<Self>(before::<STAGES>(stage));
                let is_left = k + (STAGES - 1) * (BK as u32) < p.k;
                k += BK as u32;
                stage = after::<STAGES>(stage);
                // Of the slice that follows the last nobody needs fragments.
                let next = if k < p.k { Panels::of_stage::<Self>(stage) } else { panels };
                unroll!(index < BK / STEP, {
                    let step = Step { panels, index };
                    let following = if index + 1 < BK / STEP {
                        Step { panels, index: index + 1 }
                    } else {
                        Step { panels: next, index: 0 }
                    };
                    tile.multiply(&mut fragments, step, following, |pair| {
                        if is_left {
                            copier.copy(index * pairs + pair, BK / STEP * pairs, free);
                        }
                    });
                });
                commit_group();
                copier.advance();
                panels = next;
            }
            tile.store(&p, origin());
        }
    }
}

/// Waits until the two oldest of the `STAGES - 1` groups under way have arrived.
#[inline(always)]
fn wait_for_second<const STAGES: u32>() {
    const { assert!(3 <= STAGES && STAGES <= 4, "slices of one time in 3 or 4 stages") };
    match STAGES {
        3 => wait_group::<0>(),
        _ => wait_group::<1>(),
    }
}
