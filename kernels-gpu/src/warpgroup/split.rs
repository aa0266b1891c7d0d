//! Several blocks for one tile of [`crate::warpgroup`], each for a slice of K.
//!
//! [`crate::ladder::split_k`] with warpgroups: work for all multiprocessors where D has few tiles and K is deep, or few
//! rows, so that nothing matters but to read the large factor once, from as many multiprocessors as there are. A block
//! sums one slice of one tile and stores the sums as they are, in f32; the launch that follows adds them up and ends in
//! the epilogue.
//!
//! Tiles of 64 columns [promote](crate::warpgroup::promoted) their sums, whatever results are to be: they are chosen
//! where memory is what all wait for. Those of 128 are chosen where it is the products, which would take 1 to 3 %
//! longer so.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP};
use crate::swapped::InOrder;
use crate::tile::{Origin, block_tile};
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::WarpgroupTile;
use crate::warpgroup::{self, Warpgroup};
use core::marker::PhantomData;
use cuda_std::wgmma::{self, Accumulators, THREADS};
use cuda_std::{device_inline, early_start, hint, thread};

/// Columns of a tile that promotes its sums, at most.
const MOST_PROMOTED: usize = 64;

/// The kernel for block tiles of `BM x BN x BK`, at least 3 stages, factors in the layouts `L`, and results of `D`, of
/// which the kernel itself knows nothing: it is the same for all.
pub struct SplitWarpgroup<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L = Nn,
    D = T,
>(PhantomData<(T, L, D)>);

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts<Operands = InOrder>,
    D: Outgoing,
> GemmKernel for SplitWarpgroup<T, BM, BN, BK, STAGES, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::SplitK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation =
        if Self::PROMOTES { Summation::Promoted } else { Summation::Warpgroups };
    const TILE: Tile = <Warpgroup<T, BM, BN, BK, STAGES, L, 1, D> as GemmKernel>::TILE;
    const SCHEDULE: Schedule = Schedule::SplitK;
    const PRODUCERS: u32 = warpgroup::PRODUCERS;
    const NEEDS: Needs = Needs::WarpgroupProducts;
    // Sums are stored to the workspace by lanes, which need no map of D and no outboxes.
    const BOXES: Option<Boxes> =
        Some(Boxes { d: None, ..Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::BOXES_WITHOUT_C });
    const SHARED_BYTES: u32 =
        Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::OUTBOXES + Ring::<STAGES>::BYTES;
    const WAITS: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let thread = thread::thread_idx_x();
        let consumers = Self::TILE.threads();
        let slice = p.slice();
        let slices = slice.first / BK as u32..slice.end.div_ceil(BK as u32);
        let origin = block_tile(&Self::TILE, p.n);

        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices.
        unsafe {
            let mut sums = WarpgroupTile::<BN, BM>::declare();
            let mut recent = if const { Self::PROMOTES } {
                Some(Accumulators::<BN, 2>::declare())
            } else {
                None
            };
            let barriers = Self::SHARED_BYTES - Ring::<STAGES>::BYTES;
            let mut ring = Ring::for_bulk_copies(barriers, consumers / WARP, Cluster::ALONE);
            if thread >= consumers {
                Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::bring_one_tile(
                    &p, &mut ring, origin, slices,
                );
                return;
            }
            warpgroup::become_consumer();
            Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::clear_outside(&p, origin, STAGES);
            early_start::wait();
            let first = hint::uniform(thread / THREADS) * WarpgroupTile::<BN, BM>::ROWS;
            let slices = slices.end - slices.start;
            Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::consume_one_tile(
                (&mut sums, &mut recent),
                &mut ring,
                (first, slices),
                || (),
            );
            let Origin { row, col } = origin;
            sums.store_sums(slice.sums, p.m, Origin { row: row + first, col });
        }
    }
}

impl<T, const BM: usize, const BN: usize, const BK: usize, const STAGES: u32, L, D>
    SplitWarpgroup<T, BM, BN, BK, STAGES, L, D>
{
    /// Whether sums are promoted.
    const PROMOTES: bool = BN <= MOST_PROMOTED;
}
