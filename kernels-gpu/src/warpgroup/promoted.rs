//! Results of f32 from sums that are added up in f32: tensor cores have each of them for four slices only.
//!
//! Tensor cores truncate sums instead of rounding them, with every instruction and always in the direction of zero, by
//! more the larger they are ([`cuda_std::wgmma`]). In a result of half precision that does not show. A result of f32 is
//! off by 1e-6 of itself at a depth of 1024, and the error grows with the depth: 4.4e-6 at 4096. So where a thread has
//! registers for twice as many sums, in tiles of up to 128 columns that do not [fit](crate::warpgroup::fit), and of up
//! to 64 where [slices of K](crate::warpgroup::split) are summed apart, tensor cores begin anew every [`PROMOTED`]
//! values of k, and threads add what there is by then to sums of their own, which are rounded as f32 is:
//!
//! ```text
//! tensor cores   | 0 to 3 of warpgroup 0 | 0 to 3 of warpgroup 1 | 4 to 7 of warpgroup 0 | 4 to 7 of warpgroup 1 | ..
//! warpgroup 0                            | sums += 0 to 3        |                       | sums += 4 to 7
//! warpgroup 1                                                    | sums += 0 to 3        |                       | ..
//! ```
//!
//! It costs little, since one warpgroup multiplies while the other adds: up to 0.2 microseconds of a small product, and
//! up to 4 % of a large one (H100). In 8-bit products, of which tensor cores keep fewer bits still, it is known as
//! promotion (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, 3.3.2).

use super::Warpgroup;
use crate::element::Element;
use crate::slices::ring::Ring;
use crate::swapped::Operands;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::each::for_each_register;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{WarpgroupTile, begin_products};
use cuda_std::device_inline;
use cuda_std::wgmma::{self, Accumulators};

/// Values of k that tensor cores add up.
pub const PROMOTED: usize = 256;

/// Columns of a tile of which a thread has registers for twice as many sums.
pub(super) const MOST_COLS: usize = 128;

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
    /// Whether sums are promoted: of one piece, for which a thread has registers twice.
    pub(super) const PROMOTES: bool =
        !D::IS_PARKED && !FITS && BN <= MOST_COLS && WarpgroupTile::<BN, BM>::PIECES == 1;

    /// Registers for sums of some slices, of undefined values, if they are promoted.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn recent() -> Option<Accumulators<BN, 2>> {
        // SAFETY: as promised by the caller.
        if const { Self::PROMOTES } { Some(unsafe { Accumulators::declare() }) } else { None }
    }

    /// [`consume`](Self::consume) of a kernel that promotes its sums, and whose warpgroups do not hold.
    ///
    /// # Safety
    /// As for [`consume`](Self::consume).
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn consume_promoted<O: Operands, R>(
        sums: &mut WarpgroupTile<BN, BM, O>,
        recent: &mut Accumulators<BN, 2>,
        ring: &mut Ring<STAGES>,
        (first, slices): (u32, u32),
        late: impl FnOnce() -> R,
    ) -> R {
        const {
            assert!(
                PROMOTED.is_multiple_of(BK),
                "as many values of k as are said to be taken over"
            );
            assert!(
                !Self::PROMOTES || !Self::HOLDS,
                "a kernel whose warpgroups hold does not promote"
            );
        };
        let together = const { (PROMOTED / BK) as u32 };
        // SAFETY: as promised by the caller; a stage is given back when its products have been waited for.
        unsafe {
            sums.clear();
            // Else they would keep their registers from one tile to the next, by way of the epilogue.
            clear(recent);
            if slices == 0 {
                return late();
            }
            let mut slice = 0;
            loop {
                let (begin, end) = (slice, slices.min(slice + together));
                while slice < end {
                    let (a, b) = Self::panels(ring.wait_full());
                    begin_products(recent, None, (a, first), b, slice == begin);
                    if slice > begin {
                        wgmma::wait_group::<1>();
                        ring.emptied();
                    }
                    slice += 1;
                }
                if end == slices {
                    break;
                }
                wgmma::wait_group::<0>();
                ring.emptied_last();
                promote(sums, recent);
            }
            let result = late();
            wgmma::wait_group::<0>();
            ring.emptied_last();
            promote(sums, recent);
            result
        }
    }
}

/// Makes recent sums zero.
///
/// # Safety
/// No products are under way.
#[device_inline]
#[track_caller]
unsafe fn clear<const BN: usize>(recent: &mut Accumulators<BN, 2>) {
    // SAFETY: as promised by the caller.
    for_each_register!(BN, I, unsafe { recent.set::<I>(0.0) });
}

/// Adds recent sums to those of the threads.
///
/// # Safety
/// All products have been waited for.
#[device_inline]
#[track_caller]
unsafe fn promote<const BN: usize, const BM: usize, O: Operands>(
    sums: &mut WarpgroupTile<BN, BM, O>,
    recent: &Accumulators<BN, 2>,
) {
    // SAFETY: as promised by the caller.
    for_each_register!(BN, I, unsafe { sums.add::<I>(recent.get::<I>()) });
}
