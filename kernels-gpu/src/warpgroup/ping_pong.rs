//! Warpgroups that take turns: each has a tile of its own, and one multiplies while the other takes its sums to D.
//!
//! In [`crate::warpgroup`] two warpgroups share a tile and come to its end at about the same time, so what they do then
//! is time in which hardly anybody multiplies. Here a tile is one warpgroup's alone. The slices of one tile after
//! another go through the ring, so that those of the next are there when one has begun its last, and it is the other's
//! turn:
//!
//! ```text
//! producer     | tile 0, all slices ---- | tile 1 ---------------- | tile 2 ---------------- | ..
//! consumer 0      | products of tile 0 ---- | epilogue | wait         | products of tile 2 ---- | ..
//! consumer 1                                | products of tile 1 ---- | epilogue | wait         | ..
//! ```
//!
//! It is the schedule that CUTLASS calls ping-pong. A warpgroup waits for its turn at a barrier, and not for its first
//! slice: a stage tells by the parity of its phase whether it has been filled, and one that others have read several
//! times meanwhile would seem to be.
//!
//! A thread has room for the sums of 128 x 128, a tile that takes twice as many slices for as many products as the 128
//! x 256 of two warpgroups. So it is for K that is short beside the way to D: batches of small products, and results of
//! f32. At 4096 x 4096 x 4096 in bf16 it is slower by 9 %, and by 4 % with a bias and GELU, which it does hide (H100).

use super::barriers::FIRST_TURN;
use super::{PRODUCERS, THREADS_OF_ROW, Warpgroup, become_consumer, become_producer};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::schedule::batches::in_product;
use crate::schedule::parts::{Part, Parts};
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP, is_elected};
use crate::swapped::InOrder;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{WARPGROUPS, WarpgroupTile};
use core::marker::PhantomData;
use cuda_std::wgmma::{self, THREADS};
use cuda_std::{device_inline, early_start, hint, named_barrier, thread};

/// Rows and columns of a tile, and the depth of its slices.
const BM: usize = 128;
const BN: usize = 128;
const BK: usize = 64;

/// The sums of a tile: as many as one of two warpgroups has of a tile with twice as many rows.
type Sums = WarpgroupTile<BN, { WARPGROUPS * BM }>;

/// The kernel whose slices are the same, for a tile of both.
type Brings<T, const STAGES: u32, L, D> = Warpgroup<T, BM, BN, BK, STAGES, L, 1, D>;

/// The kernel with at least 3 stages, factors in the layouts `L`, and results of `D`.
pub struct PingPong<T, const STAGES: u32, L = Nn, D = T>(PhantomData<(T, L, D)>);

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const STAGES: u32,
    L: MajorLayouts<Operands = InOrder>,
    D: Outgoing,
> GemmKernel for PingPong<T, STAGES, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::Warpgroup;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::Warpgroups;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: BM as u32 / (THREADS / THREADS_OF_ROW as u32),
        tn: (BN / THREADS_OF_ROW) as u32,
        stages: STAGES,
    };
    const SCHEDULE: Schedule = Schedule::Persistent;
    const TURNS: u32 = WARPGROUPS as u32;
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::WarpgroupProducts;
    // Of two pieces C would have to stay in a stage until the second has been through.
    const BOXES: Option<Boxes> = match Brings::<T, STAGES, L, D>::BOXES {
        Some(boxes) => Some(Boxes { c: None, ..boxes }),
        None => None,
    };
    const SHARED_BYTES: u32 = Brings::<T, STAGES, L, D>::SHARED_BYTES;
    const WAITS: bool = true;
    const WALKS_BATCHES: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let thread = thread::thread_idx_x();
        let consumers = Self::TURNS * THREADS;

        // SAFETY: the launch keeps the kernel's contract; the block divides into producers and consumers once, and all
        // go through the same tiles, of which each consumer reads every other one's slices and leaves those between to
        // the other.
        unsafe {
            let mut sums = Sums::declare();
            let barriers = Brings::<T, STAGES, L, D>::RING;
            let mut ring =
                Ring::<STAGES>::for_bulk_copies(barriers, THREADS / WARP, Cluster::ALONE);
            if hint::uniform(thread / WARP) >= consumers / WARP {
                become_producer();
                if is_elected(consumers) {
                    early_start::wait();
                    let parts =
                        Parts::<1>::new::<Self, _>(&p).map(|Part { origin, slices, .. }| {
                            (in_product::<Self, _>(&p, origin), slices)
                        });
                    Brings::<T, STAGES, L, D>::produce(&p, (&mut ring, false), parts, || ());
                }
                return;
            }
            become_consumer();
            let slices = p.k.div_ceil(BK as u32);
            if let Some(part) = Parts::<1>::new::<Self, _>(&p).next() {
                let (_, origin) = in_product::<Self, _>(&p, part.origin);
                Brings::<T, STAGES, L, D>::clear_outside(&p, origin, slices);
            }
            early_start::wait();
            let turn = hint::uniform(thread / THREADS);
            let mut outbox = Outbox::of_warp(Brings::<T, STAGES, L, D>::OUTBOXES, thread / WARP);
            let mut parts = Parts::<1>::new::<Self, _>(&p);
            let mut waits = turn != 0;
            if waits {
                parts.next();
                ring.pass(slices);
            }
            let mut next = parts.next();
            while let Some(Part { origin, .. }) = next.take() {
                if waits {
                    named_barrier::sync(FIRST_TURN + turn, consumers);
                }
                waits = true;
                let (index, origin) = in_product::<Self, _>(&p, origin);
                let p = p.further(index);
                let mut goes_on = false;
                let mut give_turn = || {
                    goes_on = parts.next().is_some();
                    if goes_on {
                        named_barrier::arrive(FIRST_TURN + (1 - turn), consumers);
                    }
                };
                // As in `Warpgroup::consume`: with a way past all products in the loop ptxas would run one after
                // another (C7515).
                let fetched = if slices == 0 {
                    sums.clear();
                    give_turn();
                    Sums::fetch(&p, origin)
                } else {
                    for slice in 0..slices {
                        let (a, b) = Brings::<T, STAGES, L, D>::panels(ring.wait_full());
                        sums.begin_products((a, 0), b, slice == 0);
                        if slice > 0 {
                            sums.wait::<1>();
                            ring.emptied();
                        }
                    }
                    give_turn();
                    let fetched = Sums::fetch(&p, origin);
                    sums.wait::<0>();
                    ring.emptied_last();
                    fetched
                };
                ring.pass(slices);
                sums.store(&p, origin, fetched, &mut outbox);
                next = if goes_on { parts.next() } else { None };
            }
            outbox.finish();
        }
    }
}
