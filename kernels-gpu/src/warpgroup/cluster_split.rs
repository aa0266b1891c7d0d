//! Two blocks for one tile of [`crate::warpgroup`], each for half of K, that add up their sums without a second launch.
//!
//! Where D has about half as many tiles as there are multiprocessors, or is so small that nothing matters but to read
//! the large factor from all of them, K must be split ([`crate::warpgroup::split`]). But sums that go through global
//! memory, and a second launch to add them up, take some microseconds: as long as a multiprocessor takes to read its
//! part of 16 MB. The blocks of a cluster ([`cuda_std::cluster`]) reach each other's shared memory, and when the
//! products are done nobody needs it any more:
//!
//! ```text
//! block 0, warpgroup 0 | products of its half | wait | add block 1's sums of rows 0 to 63 | epilogue
//!          warpgroup 1 | products of its half | write sums of rows 64 to 127 |
//! block 1, warpgroup 0 | products of its half | write sums of rows 0 to 63   |
//!          warpgroup 1 | products of its half | wait | add block 0's sums of rows 64 to 127 | epilogue
//! ```
//!
//! Both finish one half of the tile, so that the epilogue takes half as long, too.
//!
//! Which half of K is whose is a matter of memory. Where rows of the larger factor run along k, a slice has 128 bytes
//! of each, and of a row memory gives twice as many at a time for little more than that: so each block takes every
//! other slice, and the two read what lies side by side. Where they run the other way a slice is whole rows, and each
//! block takes the slices of one half, one after another.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP};
use crate::swapped::InOrder;
use crate::tile::{Origin, grouped_tile_at};
use crate::warpgroup::barriers::CONSUMERS_MEET;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{VECTOR, WarpgroupTile};
use crate::warpgroup::{self, Warpgroup};
use core::marker::PhantomData;
use cuda_std::wgmma::{self, Major, THREADS};
use cuda_std::{cluster, device_inline, early_start, hint, named_barrier, shared, thread};

/// Blocks of a cluster, one for each warpgroup's part of a tile.
const BLOCKS: u32 = 2;

/// The kernel for block tiles of `BM x BN x BK`, at least 3 stages, factors in the layouts `L`, and results of `D`.
pub struct ClusterSplit<
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
> GemmKernel for ClusterSplit<T, BM, BN, BK, STAGES, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::SplitK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation =
        <Warpgroup<T, BM, BN, BK, STAGES, L, 1, D> as GemmKernel>::SUMMATION;
    const TILE: Tile = <Warpgroup<T, BM, BN, BK, STAGES, L, 1, D> as GemmKernel>::TILE;
    const SCHEDULE: Schedule = Schedule::ClusterK;
    const PRODUCERS: u32 = warpgroup::PRODUCERS;
    const CLUSTER: u32 = BLOCKS;
    const NEEDS: Needs = Needs::WarpgroupProducts;
    const BOXES: Option<Boxes> = Some(Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::BOXES_WITHOUT_C);
    const SHARED_BYTES: u32 =
        <Warpgroup<T, BM, BN, BK, STAGES, L, 1, D> as GemmKernel>::SHARED_BYTES;
    const WAITS: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let thread = thread::thread_idx_x();
        let consumers = Self::TILE.threads();
        let (tile, rank) = (thread::block_idx_x() / BLOCKS, cluster::rank());
        let origin = grouped_tile_at(&Self::TILE, p.m, p.n, tile);
        // The first block's half is the longer one. The other may have nothing at all.
        let slices = p.k.div_ceil(BK as u32);
        let half = slices.div_ceil(BLOCKS);
        let count = if rank == 0 { half } else { slices - half };
        let (first_slice, step) =
            if Self::in_turn(p.m, p.n) { (rank, BLOCKS) } else { (rank * half, 1) };
        let slices = (0..count).map(|i| first_slice + i * step);

        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices. Nobody reads the stages any more when sums are written there, and no block ends
        // before the other has read them.
        unsafe {
            let mut sums = WarpgroupTile::<BN, BM>::declare();
            let mut recent = Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::recent();
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
            let warpgroup = hint::uniform(thread / THREADS);
            let first = warpgroup * WarpgroupTile::<BN, BM>::ROWS;
            let origin = Origin { row: origin.row + first, ..origin };
            let fetch = || WarpgroupTile::<BN, BM>::fetch(&p, origin);
            let fetched = Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::consume_one_tile(
                (&mut sums, &mut recent),
                &mut ring,
                (first, count),
                fetch,
            );

            let place = |vector: usize| {
                let vector = vector as u32 * THREADS + thread % THREADS;
                shared::dynamic::<f32>().add(vector * VECTOR as u32)
            };
            let finishes = warpgroup == hint::uniform(rank);
            named_barrier::sync(CONSUMERS_MEET, consumers);
            if !finishes {
                sums.for_each_vector(|i, sums| place(i).store_vec(sums));
            }
            cluster::sync();
            if finishes {
                sums.add_vectors(|i| cluster::load_vector(place(i), BLOCKS - 1 - rank));
            }
            cluster::arrive();
            if finishes {
                let mut outbox = Outbox::of_warp(Self::OUTBOXES, thread / WARP);
                sums.store(&p, origin, fetched, &mut outbox);
                outbox.finish();
            }
            cluster::wait();
        }
    }
}

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts<Operands = InOrder>,
    D: Outgoing,
> ClusterSplit<T, BM, BN, BK, STAGES, L, D>
{
    /// Whether the blocks take slices in turn for an `m x n` matrix D: where rows of the larger factor run along k.
    #[device_inline]
    const fn in_turn(m: u32, n: u32) -> bool {
        if m >= n { !<L::A as Major>::TRANSPOSED } else { !<L::B as Major>::TRANSPOSED }
    }

    /// Where the consumers' outboxes lie in shared memory, behind the stages.
    const OUTBOXES: u32 = {
        let stages = Warpgroup::<T, BM, BN, BK, STAGES, L, 1, D>::OUTBOXES;
        let sums = THREADS as usize * WarpgroupTile::<BN, BM>::SUMS;
        assert!(sums * size_of::<f32>() <= stages as usize, "stages have room for sums");
        stages
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Nt, Tn, Tt};
    use half::bf16;

    /// A larger A takes turns where it is row-major, a larger B where it is transposed.
    #[test]
    fn slices_are_taken_in_turn_where_rows_of_the_larger_factor_run_along_k() {
        fn in_turn<L: MajorLayouts<Operands = InOrder>>() -> [bool; 3] {
            [(8192, 128), (128, 128), (16, 4096)]
                .map(|(m, n)| ClusterSplit::<bf16, 128, 128, 64, 6, L>::in_turn(m, n))
        }
        assert_eq!(in_turn::<Nn>(), [true, true, false]);
        assert_eq!(in_turn::<Nt>(), [true, true, true]);
        assert_eq!(in_turn::<Tn>(), [false, false, false]);
        assert_eq!(in_turn::<Tt>(), [false, false, true]);
    }
}
