//! A mapped D and a short epilogue: code written out for each of the sums, since nothing else depends on what is known
//! at run time.

use super::{NO_ADDENDS, OF_TURN};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::epilogue::pairs::{self, FetchedVectors};
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::addend::Addend;
use crate::warpgroup::fit::has_whole_rooms;
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{OF_EIGHT, Parked, WarpgroupTile};
use core::mem::replace;
use cuda_std::device_inline;

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// [`store`](Self::store) for a mapped D and an epilogue in which nothing but the sums depends on what is known at
    /// run time: it is all written out. Sums are multiplied by a factor and added to what is the addend of their
    /// column, and to C, if there is one, times its factor; `GELU` says whether it is applied to that, by tanh or the
    /// exact one, for which the factor has been [scaled](Element::short_gelu_scale) already.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn store_written_out<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        C: Addend<D>,
        const PARKS: bool,
        const FITS: bool,
        const GELU: bool,
        const BY_TANH: bool,
    >(
        &self,
        params: &GemmParams<T, E, D>,
        (factor, mut vectors, (of_c, mut c)): (f32, Option<FetchedVectors>, (Option<f32>, C)),
        (origin, outbox): (Origin, &mut Outbox<O>),
    ) -> Parked<D> {
        // SAFETY: as promised by the caller.
        let index = unsafe { params.mapped_d().index };
        // Whether anything will be left is known here, and so takes no register.
        let parks = const { PARKS && Self::TURNS > Self::first_parked::<D>() };
        let index = if parks { index } else { Parked::<D>::nothing().index };
        let mut parked = Parked { origin, index, ..Parked::nothing() };
        let scale = if const { GELU } { D::short_gelu_scale(BY_TANH) } else { 1.0 };
        macro_rules! addends_of {
            ($turn:expr) => {{
                let by = (&mut vectors, (of_c, &mut c), scale);
                // SAFETY: as promised by the caller; turns are asked for in order.
                unsafe { Self::addends_of_turn::<T, E, D, C, { $turn }>(params, origin, by) }
            }};
        }
        // Where C comes from shared memory there are no registers to fetch it ahead, and it is there at once.
        let ahead = const { !C::IS_POSSIBLE };
        let mut next = if ahead { addends_of!(0) } else { NO_ADDENDS };
        macro_rules! store {
            ($($turn:literal)*) => {$(
                if const { $turn < Self::TURNS } {
                    // To fetch them takes a while.
                    let following = if ahead && const { $turn + 1 < Self::TURNS } {
                        addends_of!($turn + 1)
                    } else {
                        NO_ADDENDS
                    };
                    let addends =
                        if ahead { replace(&mut next, following) } else { addends_of!($turn) };
                    // SAFETY: as promised by the caller; a part is sent when all of its turns have been written.
                    unsafe {
                        let values = finished!(self.sums, $turn, factor, addends, GELU, BY_TANH);
                        let packed = D::pack(values);
                        if const { PARKS && $turn >= Self::first_parked::<D>() } {
                            parked.packed[($turn - Self::first_parked::<D>()) as usize] = packed;
                        } else {
                            if const { Self::turn_of_part::<D>($turn) == 0 } {
                                outbox.wait();
                            }
                            D::write(outbox, const { Self::turn_of_part::<D>($turn) }, packed);
                            if const { Self::ends_part::<D>($turn) } {
                                let part = Self::part_at::<D>(origin, $turn);
                                // Where some are parked all before them are whole.
                                if const { FITS && !(PARKS && has_whole_rooms(N)) } {
                                    let d = params.mapped_d();
                                    Self::send_part::<_, _, _, FITS>(params, d, part, outbox);
                                } else {
                                    outbox.send(params.mapped_d(), part);
                                }
                            }
                        }
                    }
                }
            )*};
        }
        store!(0 1 2 3 4 5 6 7 8 9);
        parked
    }
}
