//! Blocks that have one tile each, of which they sum some slices of K: what [`split`](crate::warpgroup::split) and
//! [`cluster_split`](crate::warpgroup::cluster_split) have in common.

use super::{Warpgroup, become_producer};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::slices::ring::{Ring, is_elected};
use crate::swapped::InOrder;
use crate::tile::Origin;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::WarpgroupTile;
use crate::warpgroup::unbrought::Margin;
use cuda_std::wgmma::{self, Accumulators};
use cuda_std::{device_inline, early_start};

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts<Operands = InOrder>,
    D: Outgoing,
> Warpgroup<T, BM, BN, BK, STAGES, L, 1, D>
{
    /// All that the producers do: one of them brings some slices of the block's tile, which begins at `origin`.
    ///
    /// # Safety
    /// All producers get here together, once, and all others become consumers. A and B are valid for their shapes, and
    /// the parameters have their maps.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn bring_one_tile<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        ring: &mut Ring<STAGES>,
        origin: Origin,
        slices: impl Iterator<Item = u32>,
    ) {
        // SAFETY: as promised by the caller.
        unsafe {
            become_producer();
            if is_elected(Self::CONSUMERS) {
                early_start::wait();
                Self::bring(p, (ring, &mut Margin::new(true)), origin, slices, || ());
            }
        }
    }

    /// Sums the products of so many slices of the tile, of a warpgroup's rows of it from `first` on:
    /// [promoted](crate::warpgroup::promoted) where there are registers for recent sums. Before it waits for the last
    /// products it does something `late`, whose result it gives back.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume).
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn consume_one_tile<R>(
        (sums, recent): (&mut WarpgroupTile<BN, BM>, &mut Option<Accumulators<BN, 2>>),
        ring: &mut Ring<STAGES>,
        (first, slices): (u32, u32),
        late: impl FnOnce() -> R,
    ) -> R {
        // SAFETY: as promised by the caller.
        unsafe {
            if let Some(recent) = recent {
                Self::consume_promoted(sums, recent, ring, (first, slices), late)
            } else {
                let cols = || BN as u32;
                Self::consume(sums, ring, (first, false), (slices, cols), (|| (), late))
            }
        }
    }
}
