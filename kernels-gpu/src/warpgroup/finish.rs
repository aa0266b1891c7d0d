//! From a tile's finished sums to D, step by step: C and the epilogue (`tile/store.rs`), rounding (`outgoing.rs`), the
//! buffer in shared memory (`outbox.rs`, laid out as `part.rs` says).

use super::{Sums, Warpgroup};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::slices::ring::Ring;
use crate::tile::Origin;
use crate::warpgroup::addend::{InStages, NotBrought};
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outbox::{self, Outbox};
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{FetchedAhead, Parked};
use cuda_std::{device_inline, shared, wgmma};

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
    /// Puts a warpgroup's finished sums through the epilogue and sends them to D, where they begin at `origin`, `first`
    /// rows into the tile, and have so many columns. What leaves [later](Parked) it gives back.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together; all products have been waited for, and the parameters are those
    /// of the tile's product.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn finish<E: Epilogue<D>>(
        sums: &mut Sums<L, BN, BM>,
        p: &GemmParams<T, E, D>,
        (origin, first): (Origin, u32),
        fetched: FetchedAhead,
        ((ring, outbox), cols): ((&mut Ring<STAGES>, &mut Outbox<L::Operands>), impl Fn() -> u32),
    ) -> Parked<D> {
        const {
            let parts = Sums::<L, BN, BM>::parts::<D>();
            let in_turn = Self::SENDS && !Self::HAS_ROOM;
            assert!(!in_turn || parts.is_multiple_of(outbox::ROOMS), "both rooms alike");
        };
        // SAFETY: as promised by the caller.
        unsafe {
            let mut parked = Parked::nothing();
            let at = (origin, &mut *outbox);
            if const { !Self::BRINGS_C } {
                let c = NotBrought;
                if const { Self::HAS_ROOM } {
                    parked = sums.store_or_park::<_, _, _, _, true, FITS>(p, at, fetched, c);
                } else {
                    sums.store_or_park::<_, _, _, _, false, FITS>(p, at, fetched, c);
                }
            } else {
                let stages = shared::dynamic::<u8>().address();
                let c = InStages::<Self, STAGES, L::Operands>::new(ring, stages, first);
                if const { Self::HAS_ROOM } {
                    parked = sums.store_or_park::<_, _, _, _, true, FITS>(p, at, fetched, c);
                    if const { FITS && !Self::SWAPPED } {
                        Sums::<L, BN, BM>::send_rest(p, &parked, cols(), outbox);
                    }
                } else {
                    sums.store_or_park::<_, _, _, _, false, FITS>(p, at, fetched, c);
                }
            }
            parked
        }
    }
}
