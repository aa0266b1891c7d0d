//! What follows from a kernel's tile, stages and elements: which of the ways it goes, and where things lie in its
//! shared memory.
//!
//! ```text
//! stage 0: A, B | stage 1: A, B | .. | outboxes of the consumers' warps | barriers of the ring
//! ```

use super::{Sums, Warpgroup};
use crate::element::Element;
use crate::epilogue::{Epilogue, OfProduct};
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::schedule::batches::in_product;
use crate::schedule::parts::{Part, Parts};
use crate::slices::clusters::Cluster;
use crate::slices::ring::WARP;
use crate::tile::Origin;
use crate::warpgroup::addend::{Brings, Fills};
use crate::warpgroup::bulk_panels::{ALIGNMENT, BulkPanel, MajorLayouts};
use crate::warpgroup::outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::{fit, roles};
use cuda_std::{device_inline, shared, wgmma};

/// The parameters of a product, how many products after the running block's it is, and a place in it.
pub(super) type OfPart<T, E, D> = (GemmParams<T, OfProduct<E, u32>, D>, (u32, Origin));

/// Sums of a tile that is too small for a warpgroup to hold.
const NOT_HELD: usize = 128 * 128;

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
> Brings for Warpgroup<T, BM, BN, BK, STAGES, L, ABOVE, D, BESIDE, FITS>
{
    const FILLS: Fills = if Self::BRINGS_C {
        Fills::new::<D, L::Operands>((BM, BN), Self::SHARED_BY, Self::STAGE_BYTES)
    } else {
        Fills::NONE
    };

    const STAGE_BYTES: u32 = {
        let (a, b) = (BulkPanel::<T, L::A, BM, BK>::BYTES, BulkPanel::<T, L::B, BN, BK>::BYTES);
        assert!(a.is_multiple_of(ALIGNMENT) && b.is_multiple_of(ALIGNMENT), "panels are aligned");
        a + b
    };
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
    /// The blocks that share slices.
    pub(super) const SHARED_BY: Cluster = Cluster::new(ABOVE, BESIDE);

    /// Threads that multiply.
    pub(super) const CONSUMERS: u32 = Self::TILE.threads();

    /// Whether producers give registers to those that multiply: one warpgroup of these has enough.
    pub(super) const HANDS_REGISTERS: bool = Self::CONSUMERS > wgmma::THREADS;

    /// That a kernel of such tiles can be.
    pub(super) const CHECKED: () = {
        let swaps = FITS || Sums::<L, BN, BM>::IS_NARROW == Self::SWAPPED;
        assert!(swaps, "tiles are swapped to fit, or for few rows of D");
        assert!(FITS || !Self::HAS_MANY_SUMS, "many sums are never handed over");
        let is_one_piece = Sums::<L, BN, BM>::PIECES == 1;
        let parks = !FITS || is_one_piece || Self::HAS_MANY_SUMS;
        assert!(parks, "of two pieces nothing is parked");
    };

    /// Whether [hardly any registers](tile::WarpgroupTile::HAS_MANY_SUMS) are left beside the sums.
    pub(super) const HAS_MANY_SUMS: bool = Sums::<L, BN, BM>::HAS_MANY_SUMS;

    /// Whether consumers keep the last of a tile until [later](crate::warpgroup::tile::Parked), where it leaves through
    /// an outbox, and work out while products are under way where the next part is, for which results of f32, and more
    /// than 128 sums, leave no registers.
    pub(super) const HAS_ROOM: bool = D::IS_PARKED && Self::SENDS && !Self::HAS_MANY_SUMS;

    /// Whether D leaves through outboxes.
    pub(super) const SENDS: bool = !Sums::<L, BN, BM>::is_stored_directly::<D, FITS>();

    /// Whether the producer brings C too, where it is mapped: a warpgroup goes through one piece after another, and so
    /// twice through what lies in a stage; and what is narrower than a part of D has few elements of C.
    pub(super) const BRINGS_C: bool =
        Sums::<L, BN, BM>::PIECES == 1 && !Sums::<L, BN, BM>::IS_NARROW;

    /// Whether the second warpgroup [holds](Self::HELD): in large tiles. The products of smaller ones take less time
    /// than their slices, as may those of tiles that fit, so that there would be nothing else to do meanwhile, and the
    /// last slices would be multiplied one warpgroup after the other when all are there.
    pub(super) const HOLDS: bool = BM * BN > NOT_HELD && !FITS;

    /// Slices at the end of a tile that the second warpgroup does not begin before the first has begun all of its own.
    /// It has not given back the one before these by then, and the first needs all others.
    ///
    /// A tile of no more slices than stages is begun and ended by both alike: the first could come to the barrier for
    /// the next tile too early.
    pub(super) const HELD: u32 = STAGES - 1;

    /// Where the consumers' outboxes lie in shared memory: behind the stages.
    pub const OUTBOXES: u32 = (STAGES * Self::STAGE_BYTES).next_multiple_of(outbox::ALIGNMENT);

    /// Where the ring's barriers lie, behind the outboxes.
    pub(super) const RING: u32 =
        Self::OUTBOXES + Self::CONSUMERS / WARP * if Self::SENDS { outbox::BYTES } else { 0 };

    /// The next part of a block.
    #[device_inline]
    pub(super) fn next<E: Epilogue<D>>(
        parts: &mut Parts<ABOVE, BESIDE>,
        p: &GemmParams<T, E, D>,
    ) -> Option<Part> {
        if const { Self::HAS_MANY_SUMS } {
            parts.next_tile_anew::<Self, _>(p)
        } else {
            parts.next()
        }
    }

    /// The parameters of a part's product, how many products after the running block's it is, and where in it the part
    /// of the warpgroup with the rows from `first` on begins.
    #[device_inline]
    pub(super) fn product_of<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        origin: Origin,
        first: u32,
    ) -> OfPart<T, E, D> {
        let p = if const { Self::HAS_MANY_SUMS } {
            &GemmParams { maps: p.maps.anew(), ..*p }
        } else {
            p
        };
        let (index, Origin { row, col }) = in_product::<Self, _>(p, origin);
        let mut p = p.further(index);
        let col = fit::first_col::<Self, _>(&p, col);
        if const { FITS } {
            // What lies beyond is another tile's.
            p.n = p.n.min(col + fit::cols::<Self, _>(&p));
        }
        (p, (index, Origin { row: row + first, col }))
    }

    /// Gives up registers, where the other warpgroups [need them](Self::HANDS_REGISTERS).
    ///
    /// # Safety
    /// As for [`roles::become_producer`].
    #[device_inline]
    pub(super) unsafe fn become_producer() {
        if const { Self::HANDS_REGISTERS } {
            // SAFETY: as promised by the caller.
            unsafe { roles::become_producer() };
        }
    }

    /// Takes registers, where it needs them.
    ///
    /// # Safety
    /// As for [`roles::become_consumer`].
    #[device_inline]
    pub(super) unsafe fn become_consumer() {
        if const { Self::HANDS_REGISTERS } {
            // SAFETY: as promised by the caller.
            unsafe { roles::become_consumer() };
        }
    }

    /// Where a stage begins in shared memory.
    #[device_inline]
    pub(super) fn stage(index: u32) -> u32 {
        shared::dynamic::<u8>().address() + index * Self::STAGE_BYTES
    }

    /// The panels of A and B in a stage.
    #[device_inline]
    pub(super) fn panels(stage: u32) -> (BulkPanel<T, L::A, BM, BK>, BulkPanel<T, L::B, BN, BK>) {
        let a = Self::stage(stage);
        (BulkPanel::at(a), BulkPanel::at(a + BulkPanel::<T, L::A, BM, BK>::BYTES))
    }
}
