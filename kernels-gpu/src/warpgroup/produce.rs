//! What the producer does: one thread asks for the slices of all parts of its block.

use super::Warpgroup;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::slices::ring::Ring;
use crate::tile::Origin;
use crate::warpgroup::addend::Brings;
use crate::warpgroup::bulk_panels::{BulkPanel, MajorLayouts};
use crate::warpgroup::fit;
use crate::warpgroup::outgoing::Outgoing;
use core::ops::Range;
use cuda_std::{bulk_copy, cluster, device_inline, hint, wgmma};

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
    /// Brings some slices each of some tiles, of which it gets the product and where in it they begin, and then, if it is to, C of those that are finished, where that is
    /// mapped. Does something `before` each slice.
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
        // SAFETY: as promised by the caller; the stage is empty, and the consumers wait for it to be full.
        unsafe {
            let (a, b) = p.mapped_factors();
            bulk_copy::prefetch(a.map);
            bulk_copy::prefetch(b.map);
            let rank = if Self::CLUSTER > 1 { cluster::rank() } else { 0 };
            let cols = fit::cols::<Self, _>(p);
            let of_b = if const { FITS } {
                BulkPanel::<T, L::B, BN, BK>::bytes_of(cols)
            } else if const { Self::FITS_A && Self::SWAPPED } {
                BulkPanel::<T, L::B, BN, BK>::bytes_inside(0, p.n)
            } else {
                BulkPanel::<T, L::B, BN, BK>::BYTES
            };
            let of_a = if const { Self::FITS_A && !Self::SWAPPED } {
                BulkPanel::<T, L::A, BM, BK>::bytes_inside(0, p.m)
            } else {
                BulkPanel::<T, L::A, BM, BK>::BYTES
            };
            for ((product, Origin { row, col }), slices) in parts {
                let p = p.further(product);
                let col = fit::first_col::<Self, _>(&p, col);
                let (a, b) = p.mapped_factors();
                for slice in slices.clone() {
                    before();
                    let k = slice * BK as u32;
                    let (to_a, to_b) = Self::panels(ring.wait_empty());
                    let full = ring.expect(of_a + of_b);
                    to_a.load_part::<BESIDE>(a, row, k, full, rank);
                    if const { FITS } {
                        to_b.load_part_of_width::<ABOVE>(b, (col, cols), k, full, rank);
                    } else {
                        to_b.load_part::<ABOVE>(b, col, k, full, rank);
                    }
                }
                if brings_c && p.c_is_mapped_anew() {
                    // Who has the end of a tile finishes it.
                    if slices.end == hint::opaque(p.k).div_ceil(BK as u32) {
                        Self::bring_c(&p, ring, Origin { row, col });
                    }
                }
            }
        }
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
        let rank = if Self::CLUSTER > 1 { cluster::rank() } else { 0 };
        let cols = fit::cols::<Self, _>(p);
        let origins = |block: u32| Origin {
            row: row + (block / BESIDE * BM as u32) - (rank / BESIDE * BM as u32),
            col: col + (block % BESIDE) * cols - (rank % BESIDE) * cols,
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
