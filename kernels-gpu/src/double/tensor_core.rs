//! Tensor cores in double precision: [`crate::warp::tensor_core`] for f64.
//!
//! Tensor cores of data centre GPUs multiply f64, too, and twice as fast as the rest of the multiprocessor: 128
//! multiply-adds a clock on an H200, 67 TFLOP/s. The composition is that of [`crate::warp::tensor_core`], but what
//! limits it is not:
//!
//! - An instruction of 16 x 4 by 4 x 8 elements ([`cuda_std::mma::double`]) takes 16 clocks of a quarter of the
//!   multiprocessor, so nothing else is short of time: not the loads from shared memory, 3 for 4 of them, not barriers.
//!   What is short is registers, since an element is two of them. A warp's 32 x 64 sums are half of all that a thread
//!   can have.
//! - 8 warps of 32 x 64 are what the registers of a multiprocessor hold, a block tile of 128 x 128. For each k it takes
//!   2 KB from the L2 cache and has 128 clocks for it: 16 bytes a clock, 4.2 TB/s on an H200 at its highest clock.
//!   Smaller tiles take more, so they are for small D, and for such as multiprocessors have a better number of: at 1536
//!   there are 256 tiles of 96 x 96, two blocks of 4 warps with 48 x 48 sums each on nearly every one, all at once.
//! - Shared memory delivers 128 bytes a clock. Fragments take 96 elements for each k of a warp, 6 KB in 128 clocks for
//!   all, and copies 2 KB: half of that. The panels are swizzled so that no access takes longer
//!   ([`crate::double::panels`]).
//!
//! # Nothing may wait for a product but the next one
//!
//! These instructions give their results when they are ready, and a warp has six counters to know that by. The
//! assembler shares them out among all that is under way, loads and products alike, and before each branch it has the
//! warp wait for most of them. So the loop is made for it to have nothing to wait for:
//!
//! - There is no branch in it. Copies are the same instruction everywhere, and those that lie outside of the matrices,
//!   or after the last slice, write zeros; there is a loop for each [length](has_chunks) of copies. Waiting at
//!   mbarriers is a branch, too: with a [ring](crate::slices::ring) in place of the block's barrier the same products
//!   take 1.1 times as long at 4096, and 1.2 times at 2048.
//! - The smallest instruction of full speed is used, so that the fragments of two steps fit into the registers: those
//!   of one are read while those of the other are multiplied ([`crate::double::tile`]). Larger ones (16 x 8 and 16 x 16
//!   elements of A) are no faster by themselves, but need fragments that are overwritten as soon as they have been
//!   used: the warp waits until they have been read, and takes 1.1 to 1.2 times as long.
//!
//! One barrier a slice is enough, and it stands before the slice's products, whose first fragments have been read by
//! then: a warp that has passed it multiplies at once, and one that waits there has its last instruction still under
//! way. That takes a stage more: of the slice which is multiplied, of the next one, whose first fragments are read
//! meanwhile, and of those that travel. Nor do copies stand between the barrier and the products: a few are issued with
//! every few products.
//!
//! # What the machine does
//!
//! On an H200 products of 4096 take 1.05 times the clocks that tensor cores need for them, nearly all of it in the
//! loop: a block that takes one tile after another, copies on into the next and stores from registers saves no clocks
//! (2048 and 4096, `ncu`). At 4096 it is the GPU's power that limits the clock, of which copies take so much that
//! without them it is 1.1 times as high. [`crate::double::bulk`] does better where it can run.
//!
//! Elements are added up by IEEE arithmetic, but in which order within an instruction is not documented
//! ([`Summation::TensorCores`]).
//!
//! This is for GPUs of compute capability 8.0 and later. Those for other uses than data centres have the instruction,
//! but no fast hardware for it: the host knows which is which.

use crate::double::panels::{CHUNK, DoubleCopier, has_chunks};
use crate::double::tile::{DoubleTile, STEP};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Summation, Tile};
use crate::ladder::pipelined::wait_for_oldest;
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::slices::ring::{after, before};
use crate::tile::{Origin, grouped_block_tile};
use crate::warp::panels::Panels;
use core::marker::PhantomData;
use core::ops::Range;
use cuda_std::async_copy::{commit_group, wait_group};
use cuda_std::{device_inline, hint, thread, unroll};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, 3 or
/// 4 stages, and factors in the layouts `L`.
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

    #[device_inline]
    unsafe fn run<E: Epilogue<f64>>(p: GemmParams<f64, E>) {
        // Worked out twice: kept over the main loop it would take registers from the sums.
        let origin = || grouped_block_tile(&Self::TILE, hint::opaque(p.m), hint::opaque(p.n));
        // SAFETY: the launch keeps the kernel's contract.
        unsafe { Self::sum(&p, origin(), 0..p.k.div_ceil(BK as u32)).store(&p, origin()) }
    }
}

impl<
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
> DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L>
{
    /// This thread's sums of the tile that begins at `origin`, over some slices of k. Shared memory is free when all
    /// threads are back.
    ///
    /// # Safety
    /// All threads of the block get here together, with what the kernel's contract asks for.
    #[device_inline]
    pub unsafe fn sum<E: Epilogue<f64>>(
        p: &GemmParams<f64, E>,
        origin: Origin,
        slices: Range<u32>,
    ) -> DoubleTile<Self, TM, TN> {
        // One loop for each way of copying: a branch in it would have tensor cores wait.
        // SAFETY: as promised by the caller.
        unsafe {
            if has_chunks::<Self, _, _>(p) {
                Self::sum_by::<CHUNK, _>(p, origin, slices)
            } else {
                Self::sum_by::<1, _>(p, origin, slices)
            }
        }
    }

    /// The same by copies of so many elements.
    #[device_inline]
    unsafe fn sum_by<const LEN: u32, E: Epilogue<f64>>(
        p: &GemmParams<f64, E>,
        origin: Origin,
        slices: Range<u32>,
    ) -> DoubleTile<Self, TM, TN> {
        let mut copier = DoubleCopier::<Self, LEN>::new(p, origin, &slices);
        let mut tile = DoubleTile::<Self, TM, TN>::new();

        // SAFETY: as promised by the caller; every thread waits for its copies of a slice, and a barrier lies between
        // that and the first use, and between the last use and the next copies to the same stage. All threads of the
        // block count to the same slice, and all lanes of a warp do the same. Slices beyond the last are zeros, of
        // which some are copied and the first is read.
        unsafe {
            for stage in 0..hint::opaque(STAGES - 1) {
                copier.copy(0, 1, Panels::of_stage::<Self>(stage));
                commit_group();
                copier.advance();
            }
            let mut panels = Panels::of_stage::<Self>(0);
            wait_for_oldest::<STAGES>();
            thread::sync_threads();
            let mut fragments = tile.fragments(panels, 0);
            let mut stage = 0;
            for _ in slices {
                // The slice after this one is there, and nobody reads the one before any more, whose stage the next
                // copies take.
                wait_for_second::<STAGES>();
                thread::sync_threads();
                let free = Panels::of_stage::<Self>(before::<STAGES>(stage));
                stage = after::<STAGES>(stage);
                let next = Panels::of_stage::<Self>(stage);
                unroll!(index < BK / STEP, {
                    let following = if index + 1 < BK / STEP {
                        tile.fragments(panels, index + 1)
                    } else {
                        tile.fragments(next, 0)
                    };
                    tile.multiply(&fragments);
                    copier.copy(index, BK / STEP, free);
                    fragments = following;
                });
                commit_group();
                copier.advance();
                panels = next;
            }
            wait_group::<0>();
            thread::sync_threads();
        }
        tile
    }
}

/// Waits until the two oldest of the `STAGES - 1` groups under way have arrived.
#[device_inline]
fn wait_for_second<const STAGES: u32>() {
    const { assert!(3 <= STAGES && STAGES <= 4, "slices of one time in 3 or 4 stages") };
    match STAGES {
        3 => wait_group::<0>(),
        _ => wait_group::<1>(),
    }
}
