//! Any epilogue and any D: one copy of the epilogue's code for all columns.

use super::is_brought;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::epilogue::pairs::{self, Fetched, FetchedVectors, Pairs};
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::addend::Addend;
use crate::warpgroup::outbox::Outbox;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{FetchedAhead, OF_EIGHT, WarpgroupTile};
use core::hint::unreachable_unchecked;
use cuda_std::device_inline;
use cuda_std::hint;

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// [`store`](Self::store) for any epilogue and any D: one copy of the epilogue's code for all columns, on
    /// [`pairs::COLS`] of them at a time. What it needs for the next ones is fetched meanwhile, unless it is a C that
    /// is brought.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn store_by_epilogue<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        C: Addend<D>,
        const FITS: bool,
    >(
        &self,
        params: &GemmParams<T, E, D>,
        is_mapped: bool,
        (origin, outbox): (Origin, &mut Outbox<O>),
        ahead: FetchedAhead,
        mut c: C,
    ) {
        let mut vectors = ahead.vectors;
        // SAFETY: as promised by the caller.
        let mut fetched = unsafe { Self::first_elements(params, origin, &ahead) };
        let cols = cols_of_d::<O, _, _, _>(params);
        let (has_pairs, cols) = if const { Self::HAS_MANY_SUMS } {
            (params.target().anew().has_vectors(2), hint::opaque(cols))
        } else {
            (params.target().has_vectors(2), cols)
        };
        let in_words =
            const { size_of::<D>() == size_of::<u32>() } || has_pairs && cols.is_multiple_of(2);
        for turn in 0..hint::opaque(Self::TURNS) {
            // SAFETY: as promised by the caller. Nobody asks for what lies beyond the part, be it in D or not.
            unsafe {
                let ahead = (&mut vectors, &mut fetched);
                let values = self.through_epilogue(params, origin, turn, ahead, &mut c);
                if is_mapped && Self::turn_of_part::<D>(turn) == 0 {
                    outbox.wait();
                }
                D::write(outbox, Self::turn_of_part::<D>(turn), D::pack(values));
                if Self::ends_part::<D>(turn) {
                    let part = Self::part_at::<D>(origin, turn);
                    match is_mapped.then(|| params.mapped_d()) {
                        Some(d) => Self::send_part::<_, _, _, FITS>(params, d, part, outbox),
                        None if in_words => outbox.send_rows::<T, E, D, u32>(params, part),
                        None => outbox.send_rows::<T, E, D, u16>(params, part),
                    }
                }
            }
        }
    }

    /// What has been fetched for the first [`pairs::COLS`] columns, or is now, where there were no registers for it.
    ///
    /// # Safety
    /// As for [`store_by_epilogue`](Self::store_by_epilogue).
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn first_elements<T: Element, E: Epilogue<D>, D: Outgoing>(
        params: &GemmParams<T, E, D>,
        origin: Origin,
        ahead: &FetchedAhead,
    ) -> Fetched {
        if const { Self::PIECES == 1 } {
            return ahead.first;
        }
        // SAFETY: as promised by the caller.
        unsafe { params.epilogue.fetch(&Self::pairs_at(params.m, params.n, origin, 0)) }
    }

    /// The values of D of the `turn`-th [`pairs::COLS`] columns, for which vectors have been fetched, and, unless C is
    /// brought, its elements. Those of the next turn are fetched meanwhile.
    ///
    /// # Safety
    /// As for [`store_by_epilogue`](Self::store_by_epilogue), once for each turn in order.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn through_epilogue<T: Element, E: Epilogue<D>, D: Outgoing, C: Addend<D>>(
        &self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        turn: u32,
        (vectors, fetched): (&mut FetchedVectors, &mut Fetched),
        c: &mut C,
    ) -> Pairs<f32> {
        let (piece, turn_of_piece) = Self::in_piece(origin, turn);
        let at = Self::pairs_at(params.m, params.n, piece, turn_of_piece);
        // SAFETY: as promised by the caller.
        unsafe {
            let of_turn = vectors.of_turn::<D>(turn_of_piece);
            if is_brought::<C, _, _, _>(params) {
                fetched.elements = c.of_turn(turn);
            }
            let (factor, addends) = params.epilogue.addends(&at, &of_turn, fetched);
            let (next, next_turn) = Self::in_piece(origin, turn + 1);
            if const { Self::TURNS > 1 } && !is_brought::<C, _, _, _>(params) {
                let at = Self::pairs_at(params.m, params.n, next, next_turn);
                *fetched = params.epilogue.fetch(&at);
            }
            if const { Self::PIECES > 1 } && turn + 1 == Self::TURNS_OF_PIECE {
                // The second piece has other rows.
                let at = Self::pairs_at(params.m, params.n, next, pairs::turn_of_lane());
                *vectors = params.epilogue.fetch_vectors(&at);
            }
            let mut values = self.scaled(turn, factor, addends);
            params.epilogue.finish(&mut values, &at);
            values
        }
    }

    /// The sums of the `turn`-th [`pairs::COLS`] columns, each multiplied by `factor` and added to its addend.
    ///
    /// # Safety
    /// All products have been waited for, and there are so many columns.
    #[device_inline]
    #[track_caller]
    unsafe fn scaled(&self, turn: u32, factor: f32, addends: Pairs<f32>) -> Pairs<f32> {
        macro_rules! of_turn {
            ($($turn:literal)*) => {
                match turn {
                    $($turn if const { $turn < Self::TURNS } => {
                        // SAFETY: as promised by the caller.
                        unsafe { scaled!(self.sums, $turn, factor, addends) }
                    })*
                    // SAFETY: as promised by the caller.
                    _ => unsafe { unreachable_unchecked() },
                }
            };
        }
        of_turn!(0 1 2 3 4 5 6 7 8 9)
    }
}

/// Columns of D.
#[device_inline]
fn cols_of_d<O: Operands, T: Element, E: Epilogue<D>, D: Outgoing>(
    params: &GemmParams<T, E, D>,
) -> u32 {
    if const { O::SWAPPED } { params.m } else { params.n }
}
