//! What the consumers do: each warpgroup multiplies its rows of one slice after another.

use super::{EARLY, HELD_MEET, Warpgroup};
use crate::element::Element;
use crate::slices::ring::Ring;
use crate::swapped::Operands;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outbox::Outgoing;
use crate::warpgroup::tile::WarpgroupTile;
use cuda_std::{device_inline, named_barrier, wgmma};

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
    /// Slices at the end of a tile that the second warpgroup does not begin before the first has begun all of its own. It has not given back the one before these
    /// by then, and the first needs all others.
    ///
    /// A tile of no more slices than stages is begun and ended by both alike: the first could come to the barrier for the next tile too early.
    const HELD: u32 = STAGES - 1;

    /// Sums the products of so many slices of a tile of so many columns: of a warpgroup's rows of it, from `first` on. The second warpgroup may hold before its last slices,
    /// which pays where tiles follow each other. While products are under way it does two things `meanwhile`: the first as soon as there are some, the
    /// second, whose result it gives back, before it waits for the last ones.
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
            // Where tiles fit there is a slice at any rate, which is zero: with a way past all products ptxas runs one after another (C7515).
            let is_empty = const { FITS } && slices == 0;
            let slices = if const { FITS } { slices.max(1) } else { slices };
            let is_early = (slices - 1).min(EARLY);
            let is_held = holds && slices > STAGES;
            let hold = if is_held && first != 0 { slices - Self::HELD } else { slices };
            for slice in 0..slices {
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
                if slice == is_early {
                    early();
                }
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
