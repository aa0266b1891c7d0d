//! What the producer does: one thread asks for the slices of all parts of its block.

use super::Warpgroup;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::slices::ring::Ring;
use crate::tile::Origin;
use crate::warpgroup::addend::Brings;
use crate::warpgroup::bulk_panels::{BulkPanel, MajorLayouts};
use crate::warpgroup::fit;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::unbrought::Margin;
use core::ops::Range;
use cuda_std::{device_inline, hint, wgmma};

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
    /// Brings some slices each of some tiles, of which it gets the product and where in it they begin, and then, if it
    /// is to, C of those that are finished, where that is mapped. Does something `before` each slice.
    ///
    /// # Safety
    /// One thread does so; A, B and C are valid for their shapes, and the parameters have their maps.
    #[device_inline]
    #[track_caller]
    pub unsafe fn produce<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        (ring, brings_c): (&mut Ring<STAGES>, bool),
        parts: impl IntoIterator<Item = ((u32, Origin), Range<u32>)>,
        mut before: impl FnMut(),
    ) {
        if p.k == 0 {
            // Without depth there need be no factors, and so no maps of them.
            return;
        }
        // SAFETY: as promised by the caller.
        unsafe {
            let (a, b) = p.factors_inside(Self::ends(p));
            BulkPanel::<T, L::A, BM, BK>::prefetch(a, BM as u32 / BESIDE);
            BulkPanel::<T, L::B, BN, BK>::prefetch(b, fit::cols::<Self, _>(p) / ABOVE);
            let mut margin = Margin::new(!brings_c || !p.c_is_mapped_anew());
            for ((product, Origin { row, col }), slices) in parts {
                let p = p.further(product);
                let origin = Origin { row, col: fit::first_col::<Self, _>(&p, col) };
                Self::bring(&p, (ring, &mut margin), origin, slices.clone(), &mut before);
                if brings_c && p.c_is_mapped_anew() {
                    // Who has the end of a tile finishes it.
                    if slices.end == hint::opaque(p.k).div_ceil(BK as u32) {
                        Self::bring_c(&p, ring, origin);
                        margin.spoil();
                    }
                }
            }
        }
    }

    /// Brings some slices of the tile that begins at `origin`, what of them lies inside of A and B, and zeros where
    /// there are none around it. Does something `before` each.
    ///
    /// # Safety
    /// As for [`produce`](Self::produce); the parameters are those of the tile's product.
    #[device_inline]
    #[track_caller]
    pub unsafe fn bring<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        (ring, margin): (&mut Ring<STAGES>, &mut Margin<STAGES>),
        Origin { row, col }: Origin,
        slices: impl Iterator<Item = u32>,
        mut before: impl FnMut(),
    ) {
        // SAFETY: as promised by the caller; the stage is empty, and the consumers wait for it to be full.
        unsafe {
            let tile = (Origin { row, col }, fit::cols::<Self, _>(p));
            let (inside, all) = Self::inside_of_cluster(p, tile);
            margin.begin(inside, all);
            for slice in slices {
                before();
                let k = slice * BK as u32;
                let stage = ring.wait_empty();
                // Most slices are whole, and of these nothing need be worked out: where a product is small one thread
                // has no more time for a slice than it takes.
                if margin.next_is_whole() {
                    Self::bring_slice(p, (ring, stage), tile, k, [None; 2]);
                } else {
                    Self::bring_slice(p, (ring, stage), tile, k, Self::ends(p));
                }
            }
        }
    }

    /// Where A and B end, worked out each time anew: producers have few registers.
    #[device_inline]
    fn ends<E: Epilogue<D>>(p: &GemmParams<T, E, D>) -> [Option<u32>; 2] {
        [p.m, p.n].map(|end| Some(hint::opaque(end)))
    }

    /// Brings this block's part of the slice at `k` to a stage, of factors that [end](crate::maps::Inside::end) so.
    ///
    /// # Safety
    /// As for [`bring`](Self::bring); the stage is the ring's next, and empty.
    #[device_inline]
    #[track_caller]
    unsafe fn bring_slice<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        (ring, stage): (&mut Ring<STAGES>, u32),
        (Origin { row, col }, cols): (Origin, u32),
        k: u32,
        ends: [Option<u32>; 2],
    ) {
        let rank = Self::SHARED_BY.rank();
        let of_a = BulkPanel::<T, L::A, BM, BK>::bytes_of_parts::<BESIDE>(row, ends[0]);
        let of_b = match FITS {
            true => BulkPanel::<T, L::B, BN, BK>::bytes_of_width::<ABOVE>(col, cols, ends[1]),
            false => BulkPanel::<T, L::B, BN, BK>::bytes_of_parts::<ABOVE>(col, ends[1]),
        };
        let (to_a, to_b) = Self::panels(stage);
        // SAFETY: as promised by the caller, and the consumers wait for the stage to be full.
        unsafe {
            let (a, b) = p.factors_inside(ends);
            let full = ring.expect(of_a + of_b);
            to_a.load_part::<BESIDE>(a, row, k, full, Self::SHARED_BY.of_row(rank));
            if const { FITS } {
                let portion = Self::SHARED_BY.of_col(rank);
                to_b.load_part_of_width::<ABOVE>(b, (col, cols), k, full, portion);
            } else {
                to_b.load_part::<ABOVE>(b, col, k, full, Self::SHARED_BY.of_col(rank));
            }
        }
    }

    /// Rows and columns of D that its cluster's tiles have, where this block's begins at `origin` and has so many
    /// columns; and all of the tiles'.
    #[device_inline]
    fn inside_of_cluster<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        (Origin { row, col }, cols): (Origin, u32),
    ) -> ((u32, u32), (u32, u32)) {
        let (above, beside) = Self::SHARED_BY.place(Self::SHARED_BY.rank());
        let (rows, cols_of_block) = (BM as u32, cols);
        let (first_row, first_col) = (row - above * rows, col - beside * cols_of_block);
        let all = (rows * ABOVE, cols_of_block * BESIDE);
        (((p.m - first_row).min(all.0), (p.n - first_col).min(all.1)), all)
    }

    /// Brings C of the tile that begins at `origin`, which is finished by this block.
    ///
    /// # Safety
    /// As for [`produce`](Self::produce); C is mapped, and the parameters are those of the tile's product.
    #[device_inline]
    #[track_caller]
    unsafe fn bring_c<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        ring: &mut Ring<STAGES>,
        Origin { row, col }: Origin,
    ) {
        let place = |rank| Self::SHARED_BY.place(rank);
        let (above, beside) = place(Self::SHARED_BY.rank());
        let cols = fit::cols::<Self, _>(p);
        let origins = |block: u32| {
            let (row, col) = (row - above * BM as u32, col - beside * cols);
            let (above, beside) = place(block);
            Origin { row: row + above * BM as u32, col: col + beside * cols }
        };
        for fill in 0..Self::FILLS.count() {
            // SAFETY: as promised by the caller; the stage is empty, and the consumers wait for it to be full.
            unsafe {
                let stage = Self::stage(ring.wait_empty());
                let full = ring.expect(Self::FILLS.bytes());
                Self::FILLS.load::<D>(fill, (p.mapped_c(), origins), (stage, full));
            }
        }
    }
}
