//! Products of f32 on Hopper's tensor cores ([`crate::warp::halves`] is for others): each number is two halves
//! ([`mod@crate::prepare::split`]), and each product three products of them.
//!
//! ```text
//! a * b  =  a_high * b_high  +  (a_high * b_low + a_low * b_high) / 2^11  +  a_low * b_low / 2^22
//! ```
//!
//! The last one is as small as what the halves lack, and left out. So tensor cores do three times the work of a product
//! in half precision; that is still several times as fast as f32 without them, and a slice in shared memory serves
//! three products instead of one.
//!
//! The difficulty is how tensor cores add up. They truncate sums and products instead of rounding them, at two bits
//! behind those of an f32 (see the simulator's notes on warpgroups). That error always has the sum's sign, and grows
//! with every instruction. So the tensor cores' sums of the high halves are only ever of [`PROMOTED`] values of k;
//! then threads add them to sums of their own, which are rounded as sums of f32 are. The sum of the low halves counts
//! 2^-11 as much, and can stay in the tensor cores until the end.
//!
//! So the error grows with the root of the depth: it is a third to a quarter of that of sums of f32 in the order of k.
//! Where D is small other libraries have few tiles and split K, and so have smaller errors than sums in the order of k
//! have. This library splits K there as well: its kernel for that, [`crate::warpgroup::split_halves`], adds up in two
//! steps, with an error that does not grow (`halves/products.rs`).
//!
//! Both kinds of sums have registers of their own. That makes the additions cheap: while threads take over what the
//! high halves gave, the tensor cores are busy with the low ones.
//!
//! ```text
//! tensor cores   | high 0 | low 0 ------- | high 1 | low 1 ------- | high 2 | ..
//! threads                 | sums += high 0         | sums += high 1
//! ```
//!
//! All else is as in [`crate::warpgroup`]: warpgroups that end a tile one after the other, a producer, a ring of stages
//! that bulk copies fill, blocks that stay and share the last tiles. The tiles are smaller, since an element of D takes
//! three registers. A stage holds four panels: both halves of A and of B.
//!
//! The finished sums are divided by the powers of two that their row of A and their column of B were multiplied by, and
//! then are sums as any other kernel's: the epilogue does not know.

mod products;
pub(crate) mod scale;

use crate::element::Dtype;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Schedule, Summation, Tile};
use crate::layout::{Layouts, Nn};
use crate::maps::{Boxes, Inside, Mapped};
use crate::params::GemmParams;
use crate::prepare::split::{HALVES, Halved};
use crate::schedule::hand_over::HandOver;
use crate::schedule::parts::{Part, Parts};
use crate::slices::clusters::{Cluster, Portion};
use crate::slices::ring::{Ring, WARP, is_elected};
use crate::swapped::InOrder;
use crate::tile::Origin;
use crate::warpgroup::barriers::{CONSUMERS_MEET, HELD_MEET};
use crate::warpgroup::bulk_panels::{ALIGNMENT, BulkPanel, MajorLayouts};
use crate::warpgroup::outbox::{self, Outbox};
use crate::warpgroup::tile::WarpgroupTile;
use crate::warpgroup::{PRODUCERS, become_consumer, become_producer};
use core::marker::PhantomData;
use core::ops::Range;
use cuda_std::wgmma::{self, M, THREADS};
use cuda_std::{
    bulk_copy, device_inline, early_start, hint, named_barrier, shared, thread, unroll,
};
use half::f16;
pub(crate) use products::{InOneStep, InTwoSteps, Products, Steps};
use scale::Powers;

/// Values of k whose products of high halves tensor cores add up before threads take them over: two instructions, as
/// little as leaves threads the time.
pub const PROMOTED: usize = 32;

/// Values of k in a slice: the row of a box of bulk copies.
const BK: usize = 64;

/// Lanes that hold a row of sums together.
const LANES_OF_ROW: u32 = super::THREADS_OF_ROW as u32;

/// The operands of a slice.
pub(crate) struct HalvedSlice<A, B, const BM: usize, const BN: usize> {
    a: Halved<BulkPanel<f16, A, BM, BK>>,
    b: Halved<BulkPanel<f16, B, BN, BK>>,
}

/// The kernel for block tiles of `BM x BN`, and factors in the layouts `L`.
///
/// What its parameters call A and B are the [lines](crate::prepare::split::Line) of both: their halves are known by
/// their maps alone, in which both halves of a matrix follow one another as matrices.
pub struct Halves<const BM: usize, const BN: usize, const STAGES: u32, L = Nn>(PhantomData<L>);

impl<const BM: usize, const BN: usize, const STAGES: u32, L: MajorLayouts<Operands = InOrder>>
    GemmKernel for Halves<BM, BN, STAGES, L>
{
    type Element = f16;
    type Target = f32;
    const DTYPE: Dtype = Dtype::F32;
    const RUNG: Rung = Rung::Warpgroup;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::Halves;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: 2,
        tn: BN as u32 / LANES_OF_ROW,
        stages: STAGES,
    };
    const SCHEDULE: Schedule = Schedule::Persistent;
    const PRODUCERS: u32 = PRODUCERS;
    const NEEDS: Needs = Needs::WarpgroupProducts;
    const BOXES: Option<Boxes> = Some(Boxes {
        a: BulkPanel::<f16, L::A, BM, BK>::BOX,
        b: BulkPanel::<f16, L::B, BN, BK>::BOX,
        rests: false,
        c: None,
        d: Some(outbox::box_of::<f32>()),
    });
    const SHARED_BYTES: u32 = Self::RING + Ring::<STAGES>::BYTES;
    const WAITS: bool = true;

    #[device_inline]
    unsafe fn run<E: Epilogue<f32>>(p: GemmParams<f16, E, f32>) {
        let thread = thread::thread_idx_x();

        // SAFETY: as for `Warpgroup`, whose blocks divide in the same way.
        unsafe {
            let mut sums = WarpgroupTile::<BN>::declare();
            let mut products = Products::<InOneStep, BN>::declare();
            let mut ring =
                Ring::for_bulk_copies(Self::RING, Self::CONSUMERS / WARP, Cluster::ALONE);
            if hint::uniform(thread / WARP) >= Self::CONSUMERS / WARP {
                become_producer();
                if is_elected(Self::CONSUMERS) {
                    early_start::wait();
                    let parts = Parts::<1>::new::<Self, _>(&p);
                    let parts = parts.map(|part| (part.origin, part.slices));
                    Self::produce(&p, &mut ring, parts);
                    ring.wait_all_read();
                }
                return;
            }
            become_consumer();
            early_start::wait();
            let of_block = |block| HandOver::<Self>::of_block(&p.workspace, block);
            let meet = || named_barrier::sync(CONSUMERS_MEET, Self::CONSUMERS);
            let block = thread::block_idx_x();
            let first = hint::uniform(thread / THREADS) * M as u32;
            let mut outbox = Outbox::of_warp(Self::OUTBOXES, thread / WARP);
            let mut parts = Parts::<1>::new::<Self, _>(&p);
            let mut next = parts.next();
            while let Some(Part { origin, slices, is_left, first_helper }) = next {
                let origin = Origin { row: origin.row + first, ..origin };
                sums.clear();
                let powers = || Self::powers(&p, origin);
                let powers =
                    Self::consume(&mut sums, &mut products, &mut ring, first, slices, powers);
                if is_left {
                    sums.leave(&of_block(block), meet);
                } else {
                    for helper in first_helper..block {
                        sums.collect(&of_block(helper), meet);
                    }
                    // On the way while sums are divided. Any earlier there would be no registers for it.
                    let fetched = WarpgroupTile::<BN>::fetch(&p, origin);
                    powers.divide(&mut sums);
                    sums.store(&p, origin, fetched, &mut outbox);
                }
                next = parts.next();
            }
            outbox.finish();
        }
    }
}

impl<const BM: usize, const BN: usize, const STAGES: u32, L: MajorLayouts<Operands = InOrder>>
    Halves<BM, BN, STAGES, L>
{
    /// Threads that multiply.
    const CONSUMERS: u32 = {
        assert!(BM == 2 * M, "the registers are shared out among two warpgroups that multiply");
        Self::TILE.threads()
    };

    /// Bytes of one half of a panel of A, and of B.
    const PANEL_BYTES: [u32; 2] = {
        let (a, b) = (BulkPanel::<f16, L::A, BM, BK>::BYTES, BulkPanel::<f16, L::B, BN, BK>::BYTES);
        assert!(a.is_multiple_of(ALIGNMENT) && b.is_multiple_of(ALIGNMENT), "panels are aligned");
        [a, b]
    };

    /// Bytes of a stage.
    const STAGE_BYTES: u32 = HALVES * (Self::PANEL_BYTES[0] + Self::PANEL_BYTES[1]);

    /// Where the consumers' outboxes lie in shared memory: behind the stages.
    pub(crate) const OUTBOXES: u32 =
        (STAGES * Self::STAGE_BYTES).next_multiple_of(outbox::ALIGNMENT);

    /// Where the ring's barriers lie, behind the outboxes.
    pub(crate) const RING: u32 = Self::OUTBOXES + Self::CONSUMERS / WARP * outbox::BYTES;

    /// What is in a stage.
    #[device_inline]
    fn slice(stage: u32) -> HalvedSlice<L::A, L::B, BM, BN> {
        let start = shared::dynamic::<u8>().address() + stage * Self::STAGE_BYTES;
        let [a, b] = Self::PANEL_BYTES;
        let of_b = start + HALVES * a;
        HalvedSlice {
            a: Halved { high: BulkPanel::at(start), low: BulkPanel::at(start + a) },
            b: Halved { high: BulkPanel::at(of_b), low: BulkPanel::at(of_b + b) },
        }
    }

    /// Brings both halves of some slices each of some tiles.
    ///
    /// # Safety
    /// One thread does so; the parameters have maps of the halves of A and B.
    #[device_inline]
    #[track_caller]
    pub(crate) unsafe fn produce<E: Epilogue<f32>>(
        p: &GemmParams<f16, E, f32>,
        ring: &mut Ring<STAGES>,
        parts: impl IntoIterator<Item = (Origin, Range<u32>)>,
    ) {
        if p.k == 0 {
            // Without depth there need be no factors, and so no maps of them.
            return;
        }
        // SAFETY: as promised by the caller; the stage is empty, and the consumers wait for it to be full.
        unsafe {
            let (a, b) = p.mapped_factors();
            bulk_copy::prefetch(a.map);
            bulk_copy::prefetch(b.map);
            for (Origin { row, col }, slices) in parts {
                for slice in slices {
                    let k = slice * BK as u32;
                    let to = Self::slice(ring.wait_empty());
                    let full = ring.expect(Self::STAGE_BYTES);
                    to.a.high.load_part::<1>(of_half(a, 0), row, k, full, Portion::WHOLE);
                    to.a.low.load_part::<1>(of_half(a, 1), row, k, full, Portion::WHOLE);
                    to.b.high.load_part::<1>(of_half(b, 0), col, k, full, Portion::WHOLE);
                    to.b.low.load_part::<1>(of_half(b, 1), col, k, full, Portion::WHOLE);
                }
            }
        }
    }

    /// The powers of two of a warpgroup's part of D that begins at `origin`.
    ///
    /// # Safety
    /// The parameters have the lines of both factors, unless there is no depth.
    #[device_inline]
    #[track_caller]
    pub(crate) unsafe fn powers<E>(p: &GemmParams<f16, E, f32>, origin: Origin) -> Powers<BN> {
        // SAFETY: as promised by the caller.
        if p.k > 0 { unsafe { Powers::load(p, origin) } } else { Powers::NONE }
    }

    /// Adds the products of so many slices of a tile to the sums: of its 64 rows from `first` on. Before it waits for
    /// the last ones it does something `meanwhile`, whose result it gives back.
    ///
    /// # Safety
    /// All threads of a warpgroup get here together, and the producer brings the tile's slices.
    #[device_inline]
    #[track_caller]
    pub(crate) unsafe fn consume<S: Steps, R>(
        sums: &mut WarpgroupTile<BN>,
        products: &mut Products<S, BN>,
        ring: &mut Ring<STAGES>,
        first: u32,
        slices: Range<u32>,
        meanwhile: impl FnOnce() -> R,
    ) -> R {
        let slices = slices.end - slices.start;
        if slices == 0 {
            return meanwhile();
        }
        // SAFETY: as promised by the caller. A stage is given back when its last products have been waited for: those
        // of its low halves, with the next high ones.
        unsafe {
            products.clear();
            let is_held = slices > STAGES;
            let hold = if is_held && first != 0 { slices - STAGES } else { slices };
            let mut slice = 0;
            loop {
                let (begin, end) = (slice, if slice < hold { hold } else { slices });
                while slice < end {
                    let operands = Self::slice(ring.wait_full());
                    unroll!(section < BK / PROMOTED, {
                        products.begin(&operands, first, section);
                        products.settle(sums, section);
                        wgmma::wait_group::<1>();
                        if section == 0 && slice > begin {
                            ring.emptied();
                        }
                        products.promote(sums);
                    });
                    slice += 1;
                }
                if end == slices {
                    break;
                }
                // The first warpgroup needs all stages for its last slices.
                wgmma::wait_group::<0>();
                ring.emptied_last();
                named_barrier::sync(HELD_MEET, Self::CONSUMERS);
            }
            if is_held && first == 0 {
                named_barrier::arrive(HELD_MEET, Self::CONSUMERS);
            }
            let result = meanwhile();
            wgmma::wait_group::<0>();
            ring.emptied_last();
            products.finish(sums);
            result
        }
    }
}

/// One half of a factor.
#[device_inline]
fn of_half(factor: Mapped<'_>, half: i32) -> Inside<'_> {
    Inside::whole(Mapped { index: factor.index * HALVES as i32 + half, ..factor })
}
