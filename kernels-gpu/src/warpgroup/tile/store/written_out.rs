//! A mapped D and a short epilogue: code written out for each of the sums, since nothing else depends on what is known at run time.

use super::{NO_ADDENDS, OF_TURN, addends_of, turns_of_part};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::epilogue::pairs::{self, FetchedVectors};
use crate::maps::Mapped;
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::outbox::{Outbox, Outgoing};
use crate::warpgroup::tile::{OF_EIGHT, Parked, WarpgroupTile};
use core::mem::replace;
use cuda_std::device_inline;

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// [`store`](Self::store) for a mapped D and an epilogue in which nothing but the sums depends on what is known at run time: it is all written out.
    /// Sums are multiplied by a factor and added to what is the addend of their column; `GELU` says whether it is applied to that, by tanh or the
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
        const PARKS: bool,
        const GELU: bool,
        const BY_TANH: bool,
    >(
        &self,
        params: &GemmParams<T, E, D>,
        d: Option<Mapped<'_>>,
        (factor, vectors): (f32, Option<FetchedVectors>),
        (origin, outbox): (Origin, &mut Outbox<O>),
    ) -> Parked<D> {
        let turns = const { turns_of_part::<D>() };
        // SAFETY: as promised by the caller.
        let index = unsafe { Self::target(params, d).index };
        // Whether anything will be left is known here, and so takes no register.
        let parks = const { PARKS && Self::TURNS > Self::first_parked::<D>() };
        let index = if parks { index } else { Parked::<D>::nothing().index };
        let mut parked = Parked { origin, index, ..Parked::nothing() };
        let scale = if const { GELU } { D::short_gelu_scale(BY_TANH) } else { 1.0 };
        // SAFETY: as promised by the caller.
        let mut next = unsafe { addends_of::<D, O>(vectors, 0, scale) };
        macro_rules! store {
            ($($turn:literal)*) => {$(
                if const { $turn < Self::TURNS } {
                    // To fetch them takes a while.
                    let following = if const { $turn + 1 < Self::TURNS } {
                        let turn = ($turn + 1) % Self::TURNS_OF_PIECE;
                        // SAFETY: as promised by the caller.
                        unsafe { addends_of::<D, O>(vectors, turn, scale) }
                    } else {
                        NO_ADDENDS
                    };
                    let addends = replace(&mut next, following);
                    // SAFETY: as promised by the caller; a part is sent when all of its turns have been written.
                    unsafe {
                        let packed = packed!(self.sums, $turn, factor, addends, GELU, BY_TANH);
                        if const { PARKS && $turn >= Self::first_parked::<D>() } {
                            parked.packed[($turn - Self::first_parked::<D>()) as usize] = packed;
                        } else {
                            if $turn % turns == 0 {
                                outbox.wait();
                            }
                            D::write(outbox, $turn % turns, packed);
                            if $turn % turns == turns - 1 {
                                let part = Self::part_at::<D>(origin, $turn);
                                outbox.send(Self::target(params, d), part);
                            }
                        }
                    }
                }
            )*};
        }
        store!(0 1 2 3 4 5 6 7);
        parked
    }

    /// A mapped D: `d`, where registers are short, and what that is elsewhere.
    ///
    /// # Safety
    /// D is mapped.
    #[device_inline]
    unsafe fn target<'a, T: Element, E: Epilogue<D>, D: Outgoing>(
        params: &'a GemmParams<T, E, D>,
        d: Option<Mapped<'a>>,
    ) -> Mapped<'a> {
        // SAFETY: as promised by the caller.
        unsafe {
            if const { Self::has_room::<D>() } { params.mapped_d() } else { d.unwrap_unchecked() }
        }
    }
}
