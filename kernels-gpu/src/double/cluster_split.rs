//! Two blocks for one tile of [`crate::double::tensor_core`], each for half of K, that add up their sums without a
//! second launch.
//!
//! This is [`crate::warpgroup::cluster_split`] in double precision, for D that has tiles for half of the
//! multiprocessors. Small tiles would do for all of them, too, but at 512 x 512 what holds those back is the L2 cache:
//! tiles of 64 x 32 take 1.5 times as much from it as half of K for tiles of 64 x 64. The blocks of a cluster give each
//! other their sums through shared memory, and each finishes those of half of the rows that a warp has:
//!
//! ```text
//! block 0, each warp | products of the first half of K  | write the lower half of its sums | wait | add block 1's upper half | epilogue
//! block 1, each warp | products of the second half of K | write the upper half of its sums | wait | add block 0's lower half | epilogue
//! ```
//!
//! All warps then have as much to finish, and while they add they need only half of their sums, so that there are
//! registers for all that is on its way from the other block. Before that half of the warps finished all of theirs,
//! which tiles of 96 x 96 have too few registers for.
//!
//! Gain: 1.04 times the speed of tiles of 64 x 32 at 512 (H200), and none at 384; 1.36 times at 768, by tiles of 96 x
//! 96, of which there are 64, where 288 of 64 x 32 are two rounds and a little. With tiles of 128 x 128 at 1024 it was
//! 0.94 times that of tiles of 128 x 64: the way of 64 KB from each block to the other took longer than what was saved.

use crate::double::sums::PAIR;
use crate::double::tensor_core::DoubleTensorCore;
use crate::double::tile::DoubleTile;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::tile::grouped_tile_at;
use core::marker::PhantomData;
use cuda_std::{cluster, device_inline, hint, thread, warp};

/// Blocks of a cluster, one for each half of a warp's rows.
const BLOCKS: u32 = 2;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, at least 3 stages, and factors in the
/// layouts `L`.
pub struct DoubleClusterSplit<
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
> GemmKernel for DoubleClusterSplit<BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = f64;
    type Target = f64;
    const RUNG: Rung = Rung::SplitK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::TensorCores;
    const TILE: Tile = <DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L> as GemmKernel>::TILE;
    const SCHEDULE: Schedule = Schedule::ClusterK;
    const CLUSTER: u32 = BLOCKS;
    const NEEDS: Needs = Needs::DoubleTensorCoresInClusters;
    const SHARED_BYTES: u32 =
        <DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L> as GemmKernel>::SHARED_BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<f64>>(p: GemmParams<f64, E>) {
        let rank = cluster::rank();
        // Worked out twice: kept over the main loop it would take registers from the sums.
        let origin = || {
            let tile = hint::opaque(thread::block_idx_x()) / BLOCKS;
            grouped_tile_at(&Self::TILE, hint::opaque(p.m), hint::opaque(p.n), tile)
        };
        // The first block's half is the longer one. The other may have nothing at all.
        let slices = p.k.div_ceil(BK as u32);
        let half = slices.div_ceil(BLOCKS);
        let slices = if rank == 0 { 0..half } else { half..slices };

        // SAFETY: the launch keeps the kernel's contract. Nobody reads the stages any more when sums are written there,
        // and no block ends before the other has read them. A warp has the first half of its room for itself.
        unsafe {
            let mut sums =
                DoubleTensorCore::<BM, BN, BK, TM, TN, STAGES, L>::sum(&p, origin(), slices);
            let room =
                DoubleTile::<DoubleTensorCore<BM, BN, BK, TM, TN, STAGES, L>, TM, TN>::room();
            // Behind the half that the sums take on their way to D.
            let others = room.add((TM * TN) as u32 / BLOCKS * warp::WARP_SIZE);
            let place = |pair: usize| {
                others.add((pair as u32 * warp::WARP_SIZE + warp::lane_id()) * PAIR as u32)
            };
            if rank == 0 {
                sums.for_each_pair_of::<1>(|number, pair| place(number).store_vec(pair));
            } else {
                sums.for_each_pair_of::<0>(|number, pair| place(number).store_vec(pair));
            }
            cluster::sync();
            if rank == 0 {
                sums.add_pairs_to::<0>(|number| cluster::load_vector(place(number), 1));
            } else {
                sums.add_pairs_to::<1>(|number| cluster::load_vector(place(number), 0));
            }
            cluster::arrive();
            sums.store_half(&p, origin(), rank);
            cluster::wait();
        }
    }
}
