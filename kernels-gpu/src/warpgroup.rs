//! Warpgroups (`wgmma`): four warps multiply together, straight from shared memory, and never wait for it.
//!
//! [`crate::warp::tensor_core`] reads fragments to registers and multiplies 16 x 8 x 16 with each instruction of a
//! warp; on Hopper that is half of what its tensor cores can do. Their own instruction multiplies 64 x 256 x 16, in the
//! background, with both factors taken from shared memory ([`cuda_std::wgmma`]). One takes 128 cycles, and all that is
//! left to do is to have the next slice there in time. It is 2.11 times as fast (f16, 4096, H200). In the words of
//! CUTLASS this is a persistent, warp-specialised, cooperative kernel with TMA, and [`ping_pong`] its other schedule:
//!
//! - one thread asks for whole slices; hardware (the tensor memory accelerator, TMA) brings them, swizzles them and
//!   fills up with zeros what lies outside of the factors ([`crate::warpgroup::bulk_panels`]);
//! - slices go through a ring of stages. The producer waits for one to be empty and lets it be filled; the warpgroups
//!   that multiply wait for it to be full, begin its products, wait for those of the slice before, and give that one
//!   back ([`crate::slices::ring`]): there are always products under way;
//! - two warpgroups share a tile of 128 x 256, so each slice of B is fetched once for both. Their 64 x 256 sums each
//!   take 128 registers a thread, which the producers give up ([`crate::warpgroup::tile`]). Or they share 256 rows, and
//!   fewer columns: then each has two pieces of 64 rows, and two instructions to every step along k;
//! - the second warpgroup leaves the tensor cores to the first for the last slices of a large tile, and has them for
//!   its own last ones after that: while one takes its sums to D the other multiplies. Without that both would end at
//!   the same time, and nobody would multiply for all of the epilogue;
//! - a block stays and takes one tile after another. While its consumers finish one the producer is already bringing
//!   the slices of the next, and while hardware takes it to D they multiply again ([`crate::warpgroup::outbox`]), with
//!   the last of it still in registers ([`crate::warpgroup::tile::Parked`]); and the tiles of all blocks lie together,
//!   so that most slices are in the L2 cache ([`crate::tile`]);
//! - where rows of A or B run along k, only those that exist are copied, not a whole box of them ([`unbrought`]). Where
//!   D has few rows all wait for memory: one warpgroup is enough then, with tiles of 64 x 64 and room for 13 slices on
//!   their way; and a D of up to 32 rows is computed with A and B [swapped](crate::swapped), its rows being columns of
//!   tiles of 32 x 64 or, where D is wide, of 32 x 128, which takes less time;
//! - C comes the same way as slices do, behind those of a tile ([`crate::warpgroup::addend`]);
//! - for results of f32 sums are [promoted], since tensor cores truncate them, where a thread has registers for that;
//! - in a batch a block goes through the tiles of all products ([`crate::schedule::batches`]);
//! - where the last round (wave) would have tiles for a few blocks only, all blocks share them: each begins with an
//!   equal part of them ([`crate::schedule::parts`]), and hands over its sums of a tile to the block that has the
//!   tile's end ([`crate::schedule::hand_over`]);
//! - or the launch makes tiles just so narrow that the last round is full, with kernels whose tiles can [fit], some of
//!   which have A and B [swapped](crate::swapped);
//! - where the L2 cache has no room for all that blocks share, those that are ahead wait for those behind
//!   ([`crate::warpgroup::pace`]);
//! - of two blocks that work on tiles one above the other, and so take the same slices of B, each may fetch half of
//!   them for both: a cluster ([`cuda_std::cluster`]). That is a third less to fetch from the L2 cache, whose bandwidth
//!   and power the multipliers miss. Where D has few columns the two lie beside each other and share the slices of A,
//!   which then are most of what there is to fetch.
//!
//! ```text
//! producer     | fill 0 | fill 1 | fill 2 | fill 3 | wait, fill 0 | ..      all tiles of the block, without a break
//! consumer 0            | 0 ------ | 1 ------ | ..  | last -- | store    | 0 ------ | ..      rows 0 to 63 of the tile
//! consumer 1            | 0 ------ | 1 ------ | ..            | last --- | store    | ..      rows 64 to 127
//! ```
//!
//! Where the way to D is long beside the products, two warpgroups with a tile each take turns instead ([`ping_pong`]).
//!
//! This is for f16 and bf16, on sm_90a alone. Bulk copies need rows that begin at multiples of 16 bytes
//! ([`crate::maps`]); other factors are copied into such rows by a launch before ([`crate::prepare::repack`]), and the
//! kernel takes the copy for the factor.

pub mod addend;
mod barriers;
pub mod bulk_panels;
pub mod cluster_split;
mod derived;
mod each;
mod finish;
pub mod fit;
pub mod halves;
mod one_tile;
pub mod outbox;
pub mod outgoing;
pub mod pace;
pub mod part;
pub mod ping_pong;
mod produce;
pub mod promoted;
mod roles;
pub mod rounded;
pub mod split;
pub mod split_halves;
pub mod tile;
pub mod unbrought;

pub use roles::{PRODUCERS, become_consumer, become_producer};

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::schedule::batches::in_product;
use crate::schedule::hand_over::HandOver;
use crate::schedule::parts::{Part, Parts};
use crate::slices::ring::{Ring, WARP, is_elected};
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warp::sums_on_the_way::LANES;
use crate::warpgroup::addend::Brings;
use crate::warpgroup::barriers::{CONSUMERS_MEET, HELD_MEET};
use crate::warpgroup::bulk_panels::{BulkPanel, MajorLayouts};
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::pace::Pace;
use crate::warpgroup::tile::{Parked, WarpgroupTile};
use core::marker::PhantomData;
use cuda_std::wgmma::{self, THREADS};
use cuda_std::{device_inline, early_start, hint, named_barrier, thread};

/// The slice of a tile during whose products the rest of the tile before it leaves. By then what has been sent of that
/// has been read, and two slices' products are under way.
const EARLY: u32 = 2;

/// The sums of a warpgroup.
type Sums<L, const BN: usize, const BM: usize> =
    WarpgroupTile<BN, BM, <L as MajorLayouts>::Operands>;

/// Threads among which a row of sums is divided (PTX ISA, "Register Fragments and Shared Memory Matrix Layouts": each
/// lane of a quad has two of 8 columns).
const THREADS_OF_ROW: usize = LANES.1;

/// Rows of sums that a thread has a part of, in each piece of a [`WarpgroupTile`].
const ROWS_OF_THREAD: usize = 2;

/// The kernel for block tiles of `BM x BN x BK`, at least 3 stages, factors in the layouts `L`, clusters of blocks of
/// which so many lie above each other or beside each other, and results of `D`; of tiles that [fit] `BN` is the most
/// columns.
pub struct Warpgroup<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L = Nn,
    const ABOVE: u32 = 1,
    D = T,
    const BESIDE: u32 = 1,
    const FITS: bool = false,
>(PhantomData<(T, L, D)>);

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts,
    const ABOVE: u32,
    D: Outgoing,
    const BESIDE: u32,
    const FITS: bool,
> GemmKernel for Warpgroup<T, BM, BN, BK, STAGES, L, ABOVE, D, BESIDE, FITS>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::Warpgroup;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation =
        if Self::PROMOTES { Summation::Promoted } else { Summation::Warpgroups };
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: (WarpgroupTile::<BN, BM>::PIECES * ROWS_OF_THREAD) as u32,
        tn: (BN / THREADS_OF_ROW) as u32,
        stages: STAGES,
    };
    const SCHEDULE: Schedule = Schedule::Persistent;
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::WarpgroupProducts;
    const CLUSTER: u32 = Self::SHARED_BY.blocks();
    const CLUSTER_COLS: u32 = BESIDE;
    const BOXES: Option<Boxes> = Some(Boxes {
        a: BulkPanel::<T, L::A, BM, BK>::box_of(BESIDE),
        b: if FITS {
            BulkPanel::<T, L::B, BN, BK>::box_of_width(ABOVE)
        } else {
            BulkPanel::<T, L::B, BN, BK>::box_of(ABOVE)
        },
        rests: true,
        c: if Self::BRINGS_C { Some(Self::FILLS.box_of::<D>()) } else { None },
        d: if Self::SENDS { Some(outbox::box_of::<D>()) } else { None },
    });
    const SHARED_BYTES: u32 = Self::RING + Ring::<STAGES>::BYTES;
    const WAITS: bool = true;
    // What large products take, as those of two by two blocks are not. Where each block is for itself, ptxas finds no
    // registers for it.
    const KEEPS_PACE: bool = ABOVE > 1 && !Self::SHARED_BY.is_square();
    const SWAPPED: bool = L::Operands::SWAPPED;
    const FITS: bool = FITS;
    const WALKS_BATCHES: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        const { Self::CHECKED };
        // SAFETY: as promised by the caller.
        unsafe { Self::run_with(&p, |_, _| ()) }
    }
}

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts,
    const ABOVE: u32,
    D: Outgoing,
    const BESIDE: u32,
    const FITS: bool,
> Warpgroup<T, BM, BN, BK, STAGES, L, ABOVE, D, BESIDE, FITS>
{
    /// Runs one thread, which may change the finished sums of each warpgroup's part of D before they are put through
    /// the epilogue: `change` gets them, how many products after the running block's they are of, and where that part
    /// begins.
    ///
    /// # Safety
    /// As for [`GemmKernel::run`].
    #[device_inline]
    pub unsafe fn run_with<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        change: impl Fn(&mut Sums<L, BN, BM>, (u32, Origin)),
    ) {
        let thread = thread::thread_idx_x();

        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and both
        // go through the same slices of the same tiles. Who has the end of a tile collects what the blocks before it
        // have left, each of which has a part of that tile to leave.
        unsafe {
            let mut sums = Sums::<L, BN, BM>::declare();
            let mut recent = Self::recent();
            let mut ring =
                Ring::for_bulk_copies(Self::RING, Self::CONSUMERS / WARP, Self::SHARED_BY);
            if hint::uniform(thread / WARP) >= Self::CONSUMERS / WARP {
                Self::become_producer();
                if is_elected(Self::CONSUMERS) {
                    early_start::wait();
                    let parts = Parts::<ABOVE, BESIDE>::new::<Self, _>(p);
                    let parts = parts.map(|Part { origin, slices, .. }| {
                        (in_product::<Self, _>(p, origin), slices)
                    });
                    let to = (&mut ring, Self::BRINGS_C);
                    if const { Self::KEEPS_PACE } {
                        let mut pace = Pace::new();
                        Self::produce(p, to, parts, || pace.step::<Self, _>(p));
                        pace.end::<Self, _>(p);
                    } else {
                        Self::produce(p, to, parts, || ());
                    }
                    ring.wait_all_read();
                }
                return;
            }
            Self::become_consumer();
            Self::clear_slice_without_depth(p);
            Self::clear_around(p);
            early_start::wait();
            let cols = || fit::cols::<Self, _>(p);
            let of_block = |block| HandOver::<Self>::of_block(&p.workspace, block);
            let meet = || named_barrier::sync(CONSUMERS_MEET, Self::CONSUMERS);
            let block = thread::block_idx_x();
            let first = hint::uniform(thread / THREADS) * Sums::<L, BN, BM>::ROWS;
            let mut outbox = Outbox::of_warp(Self::OUTBOXES, thread / WARP);
            let mut parts = Parts::<ABOVE, BESIDE>::new::<Self, _>(p);
            let mut next = Self::next(&mut parts, p);
            let mut parked = Parked::nothing();
            while let Some(Part { origin, slices, is_left, first_helper }) = next.take() {
                // Worked out twice, since what stays in registers in between takes them from the sums.
                let product = || Self::product_of(p, origin, first);
                let fetch = || {
                    if const { Self::HAS_ROOM } {
                        next = Self::next(&mut parts, p);
                    }
                    let (p, (_, origin)) = product();
                    Sums::<L, BN, BM>::fetch(&p, origin)
                };
                let slices = slices.end - slices.start;
                let send = || {
                    if const { Self::HAS_ROOM } {
                        Sums::<L, BN, BM>::send_parked::<_, _, _, FITS>(
                            p,
                            &parked,
                            cols,
                            &mut outbox,
                        );
                    }
                };
                let fetched = if let Some(recent) = &mut recent {
                    Self::consume_promoted(&mut sums, recent, &mut ring, (first, slices), fetch)
                } else {
                    Self::consume(
                        &mut sums,
                        &mut ring,
                        (first, Self::HOLDS),
                        (slices, cols),
                        (send, fetch),
                    )
                };
                parked = Parked::nothing();
                if const { !FITS } && is_left {
                    sums.leave(&of_block(block), meet);
                } else {
                    if const { !FITS } {
                        for helper in (first_helper..block).step_by(Self::CLUSTER as usize) {
                            sums.collect(&of_block(helper), meet);
                        }
                    }
                    let (p, at) = product();
                    change(&mut sums, at);
                    if const { !Self::HAS_ROOM } {
                        // A tile ends where it has begun, so nothing need be kept in between.
                        outbox = Outbox::of_warp(Self::OUTBOXES, hint::opaque(thread) / WARP);
                    }
                    let to = (&mut ring, &mut outbox);
                    parked = Self::finish(&mut sums, &p, (at.1, first), fetched, (to, cols));
                }
                // Here and not where the next part begins: of a loop whose first branches are those of an iterator
                // ptxas does not find that lanes stay together, and keeps in registers of each lane what the loop over
                // slices has in uniform ones.
                if const { !Self::HAS_ROOM } {
                    next = Self::next(&mut parts, p);
                }
            }
            if const { Self::HAS_ROOM } {
                Sums::<L, BN, BM>::send_parked::<_, _, _, FITS>(p, &parked, cols, &mut outbox);
            }
            if const { Self::SENDS } {
                outbox.finish();
            }
        }
    }

    /// Sums the products of so many slices of a tile of so many columns: of a warpgroup's rows of it, from `first` on.
    /// The second warpgroup may hold before its last slices, which pays where tiles follow each other. While products
    /// are under way it does two things `meanwhile`: the first as soon as there are some, the second, whose result it
    /// gives back, before it waits for the last ones.
    ///
    /// # Safety
    /// All threads of a warpgroup get here together, and the producer brings the tile's slices.
    #[device_inline]
    #[track_caller]
    pub unsafe fn consume<O: Operands, R>(
        sums: &mut WarpgroupTile<BN, BM, O>,
        ring: &mut Ring<STAGES>,
        (first, holds): (u32, bool),
        (slices, cols): (u32, impl Fn() -> u32),
        meanwhile: (impl FnMut(), impl FnOnce() -> R),
    ) -> R {
        // SAFETY: as promised by the caller; a stage is given back when its products have been waited for.
        unsafe {
            let (mut early, late) = meanwhile;
            if const { !FITS } && slices == 0 {
                early();
                sums.clear();
                return late();
            }
            // Where tiles fit there is a slice at any rate, which is zero: with a way past all products ptxas runs one
            // after another (C7515).
            let is_empty = const { FITS } && slices == 0;
            let slices = if const { FITS } { slices.max(1) } else { slices };
            let is_early = (slices - 1).min(EARLY);
            let is_held = holds && slices > STAGES;
            let hold = if is_held && first != 0 { slices - Self::HELD } else { slices };
            for slice in 0..if const { FITS } { is_early + 1 } else { slices } {
                if holds && slice == hold {
                    named_barrier::sync(HELD_MEET, Self::CONSUMERS);
                }
                let stage = if const { FITS } && is_empty { 0 } else { ring.wait_full() };
                let (a, b) = Self::panels(stage);
                if const { FITS } {
                    sums.begin_products_of_cols((a, first), (b, cols()), slice == 0);
                } else {
                    sums.begin_products((a, first), b, slice == 0);
                }
                if slice > 0 {
                    sums.wait::<1>();
                    ring.emptied();
                }
                if const { !FITS } && slice == is_early {
                    early();
                }
            }
            if const { FITS } {
                early();
                let panels = |stage| {
                    let (a, b) = Self::panels(stage);
                    ((a, first), b)
                };
                sums.add_products_of_cols(cols(), slices - 1 - is_early, ring, panels);
            }
            if is_held && first == 0 {
                named_barrier::arrive(HELD_MEET, Self::CONSUMERS);
            }
            let result = late();
            sums.wait::<0>();
            if const { !FITS } || !is_empty {
                ring.emptied_last();
            }
            result
        }
    }
}
