//! Several blocks for one tile of [`crate::double::tensor_core`], each for a slice of K.
//!
//! [`crate::ladder::split_k`] in double precision on tensor cores: work for all multiprocessors where D has fewer tiles
//! than there are. [`crate::double::cluster_split`] gives a tile two blocks, which is enough where there are tiles for
//! half of the multiprocessors, and needs no second launch; here there may be any number of them. A block runs the main
//! loop over its slice and stores the sums as they are; the launch that follows adds them up and ends in the epilogue.
//!
//! What decides over the tile is how often factors are read. With K so deep beside both sides of D a product waits for
//! memory: 128 x 128 takes both factors once, where four tiles of 64 x 64 take them twice from the L2 cache. Those are
//! for D of more tiles. Where D has few rows, B is nearly all there is to read, once in any tile, and a tile of 16 rows
//! leaves no tensor core at work on rows that are not there: 16 x 64, with longer slices, so that copies of a
//! transposed B read longer parts of its rows.
//!
//! Partial sums also make errors smaller, which grow with the length of a sum.

use crate::double::tensor_core::DoubleTensorCore;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::schedule::partials::Unchanged;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::{device_inline, hint};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, 3 or
/// 4 stages, and factors in the layouts `L`.
pub struct DoubleSplit<
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
> GemmKernel for DoubleSplit<BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = f64;
    type Target = f64;
    const RUNG: Rung = Rung::SplitK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::TensorCores;
    const NEEDS: Needs = Needs::DoubleTensorCores;
    const TILE: Tile = <DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L> as GemmKernel>::TILE;
    const SCHEDULE: Schedule = Schedule::SplitK;
    const SHARED_BYTES: u32 =
        <DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L> as GemmKernel>::SHARED_BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<f64>>(p: GemmParams<f64, E>) {
        // Worked out twice: kept over the main loop it would take registers from the sums.
        let origin = || block_tile(&Self::TILE, hint::opaque(p.n));
        // SAFETY: the launch keeps the kernel's contract.
        unsafe {
            let (mut slice, first) = p.slice_of_block();
            let slices = first / BK as u32..slice.k.div_ceil(BK as u32);
            let sums =
                DoubleTensorCore::<BM, BN, BK, TM, TN, STAGES, L>::sum(&slice, origin(), slices);
            // Whole vectors: what is between the rows' ends is in the workspace, too.
            slice.n = slice.d.first.ld as u32;
            sums.store(&slice.with_epilogue(Unchanged), origin());
        }
    }
}
