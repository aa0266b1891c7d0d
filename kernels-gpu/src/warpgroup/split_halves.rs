//! Several blocks for one tile of [`crate::warpgroup::halves`], each for a slice of K.
//!
//! [`crate::warpgroup::split`] for numbers in halves: work for all multiprocessors where D has few tiles and K is deep.
//! A block sums one slice of one tile, takes out the powers of two that rows of A and columns of B were multiplied by,
//! and stores what are then sums of f32 as any others; the launch that follows adds them up in the order of k and ends
//! in the epilogue. Where there is one slice alone the block does that itself.
//!
//! Where D is that small others have accurate sums, too, since they add up in parts. So these are added up in two steps
//! (`halves/products.rs`): their error does not grow with the depth, but for the roundings of slices.
//!
//! Each slice is rounded to an f32 of its own, and the sum of slices as often as there are. One that lies beyond the
//! largest f32 is infinite, and makes D infinite or, where another is infinite with the other sign, NaN: also where all
//! of them together would be an f32 again, as sums of f32 in any order do. One below the smallest normal number has
//! fewer bits.

use crate::element::Dtype;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP, is_elected};
use crate::swapped::InOrder;
use crate::tile::{Origin, block_tile};
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::halves::{Halves, InTwoSteps, Products};
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::tile::WarpgroupTile;
use crate::warpgroup::{self, PRODUCERS};
use core::marker::PhantomData;
use cuda_std::wgmma::{M, THREADS};
use cuda_std::{device_inline, early_start, hint, thread};
use half::f16;

/// The kernel for block tiles of `BM x BN` and factors in the layouts `L`. Its parameters are those of [`Halves`].
pub struct SplitHalves<const BM: usize, const BN: usize, const STAGES: u32, L = Nn>(PhantomData<L>);

impl<const BM: usize, const BN: usize, const STAGES: u32, L: MajorLayouts<Operands = InOrder>>
    GemmKernel for SplitHalves<BM, BN, STAGES, L>
{
    type Element = f16;
    type Target = f32;
    const DTYPE: Dtype = Dtype::F32;
    const RUNG: Rung = Rung::SplitK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::Halves;
    const TILE: Tile = <Halves<BM, BN, STAGES, L> as GemmKernel>::TILE;
    const SCHEDULE: Schedule = Schedule::SplitK;
    const FINISHES: bool = true;
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::WarpgroupProducts;
    const BOXES: Option<Boxes> = <Halves<BM, BN, STAGES, L> as GemmKernel>::BOXES;
    const SHARED_BYTES: u32 = <Halves<BM, BN, STAGES, L> as GemmKernel>::SHARED_BYTES;
    const WAITS: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<f32>>(p: GemmParams<f16, E, f32>) {
        let thread = thread::thread_idx_x();
        let consumers = Self::TILE.threads();
        let slice = p.slice();
        let slices = slice.first / Self::TILE.bk..slice.end.div_ceil(Self::TILE.bk);
        let origin = block_tile(&Self::TILE, p.n);

        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices.
        unsafe {
            let mut sums = WarpgroupTile::<BN>::declare();
            let mut products = Products::<InTwoSteps, BN>::declare();
            let barriers = Halves::<BM, BN, STAGES, L>::RING;
            let mut ring = Ring::for_bulk_copies(barriers, consumers / WARP, Cluster::ALONE);
            if thread >= consumers {
                warpgroup::become_producer();
                if is_elected(consumers) {
                    early_start::wait();
                    Halves::<BM, BN, STAGES, L>::produce(&p, &mut ring, [(origin, slices)]);
                }
                return;
            }
            warpgroup::become_consumer();
            early_start::wait();
            let first = hint::uniform(thread / THREADS) * M as u32;
            let origin = Origin { row: origin.row + first, ..origin };
            sums.clear();
            let powers = || Halves::<BM, BN, STAGES, L>::powers(&p, origin);
            let powers = Halves::<BM, BN, STAGES, L>::consume(
                &mut sums,
                &mut products,
                &mut ring,
                first,
                slices,
                powers,
            );
            if !p.workspace.partials.is_null() {
                powers.divide(&mut sums);
                sums.store_sums(slice.sums, p.m, origin);
                return;
            }
            let fetched = WarpgroupTile::<BN>::fetch(&p, origin);
            powers.divide(&mut sums);
            let mut outbox = Outbox::of_warp(Halves::<BM, BN, STAGES, L>::OUTBOXES, thread / WARP);
            sums.store(&p, origin, fetched, &mut outbox);
            outbox.finish();
        }
    }
}
