//! D of f32 in tiles that [fit](crate::warpgroup::fit), and any D in tiles of [few of its
//! rows](WarpgroupTile::IS_NARROW): lanes store their pairs themselves.
//!
//! Four lanes have 32 bytes of a row together, a whole sector of the L2 cache, and a warp eight such with each store.
//! Where A and B are [swapped](crate::swapped) eight lanes have 32 bytes of a row together, one element each. Parts
//! that leave through an outbox are faster by 3 to 12 %, which copies whole rows of 128 bytes while the warp goes on
//! (H200); but they would write behind the last column of a tile that fits, where the next one begins.

use super::{HALF, NO_C, OF_TURN, addends_of, is_brought};
use crate::element::Element;
use crate::epilogue::pairs::{self, Fetched, FetchedVectors, Pairs, PairsAt};
use crate::epilogue::{Epilogue, Short};
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::addend::Addend;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::{FetchedAhead, OF_EIGHT, WarpgroupTile};
use cuda_std::{device_inline, hint};

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// [`store`](Self::store) of results that lanes store themselves.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_directly<T: Element, E: Epilogue<D>, D: Outgoing, C: Addend<D>>(
        &mut self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        ahead: FetchedAhead,
        c: C,
    ) {
        let origin = Self::of_warp(origin);
        // SAFETY: as promised by the caller.
        unsafe {
            if let Some(factor) = params.epilogue.only_scales() {
                let by = (factor, None, NO_C);
                self.store_written_directly::<_, _, _, _, false, false>(params, by, origin);
            } else if let Some(Short { factor, has_gelu, by_tanh, of_c }) = params.epilogue.short()
                && (of_c.is_none() || is_brought::<C, _, _, _>(params))
            {
                if !has_gelu {
                    let of_c = of_c.filter(|_| const { C::IS_POSSIBLE });
                    let by = (factor, Some(ahead.vectors), (of_c, c));
                    self.store_written_directly::<_, _, _, _, false, false>(params, by, origin);
                } else if const { Self::TURNS == 2 * HALF } {
                    self.store_gelu_directly(params, (factor, ahead.vectors), origin);
                } else if by_tanh || !D::has_short_gelu(false) {
                    let by = (factor * D::short_gelu_scale(true), Some(ahead.vectors), NO_C);
                    self.store_written_directly::<_, _, _, _, true, true>(params, by, origin);
                } else {
                    let by = (factor * D::short_gelu_scale(false), Some(ahead.vectors), NO_C);
                    self.store_written_directly::<_, _, _, _, true, false>(params, by, origin);
                }
            } else {
                self.store_directly_by_epilogue(params, origin, ahead, c);
            }
        }
    }

    /// The same for an epilogue in which nothing but the sums depends on what is known at run time, with GELU, by tanh
    /// or the exact one, or without: as [`store_written_out`](Self::store_written_out).
    ///
    /// # Safety
    /// As for [`store_directly`](Self::store_directly); `origin` is that of the warp's part.
    #[device_inline]
    #[track_caller]
    unsafe fn store_written_directly<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        C: Addend<D>,
        const GELU: bool,
        const BY_TANH: bool,
    >(
        &self,
        params: &GemmParams<T, E, D>,
        (factor, mut vectors, (of_c, mut c)): (f32, Option<FetchedVectors>, (Option<f32>, C)),
        origin: Origin,
    ) {
        let scale = if const { GELU } { D::short_gelu_scale(BY_TANH) } else { 1.0 };
        macro_rules! store {
            ($($turn:literal)*) => {$(
                if const { $turn < Self::TURNS } {
                    // SAFETY: as promised by the caller; turns are asked for in order.
                    unsafe {
                        let by = (&mut vectors, (of_c, &mut c), scale);
                        let addends =
                            Self::addends_of_turn::<T, E, D, C, $turn>(params, origin, by);
                        let mut values = scaled!(self.sums, $turn, factor, addends);
                        if const { GELU } {
                            values.iter_mut().for_each(gelu_of_row::<D, BY_TANH>);
                        }
                        let (piece, turn_of_piece) = Self::in_piece(origin, $turn);
                        let at = Self::pairs_at(params.m, params.n, piece, turn_of_piece);
                        store_pairs(params, &at, values);
                    }
                }
            )*};
        }
        store!(0 1 2 3 4 5 6 7 8 9);
    }

    /// The same with GELU by tanh, in one copy of the code for a half of the sums: as `store_in_halves`.
    ///
    /// # Safety
    /// As for [`store_written_directly`](Self::store_written_directly). There are twice as many turns as [`HALF`].
    #[device_inline]
    #[track_caller]
    unsafe fn store_gelu_directly<T: Element, E: Epilogue<D>, D: Outgoing>(
        &mut self,
        params: &GemmParams<T, E, D>,
        (factor, vectors): (f32, FetchedVectors),
        origin: Origin,
    ) {
        let scale = D::short_gelu_scale(true);
        let factor = factor * scale;
        for half in 0..hint::opaque(2) {
            if half != 0 {
                // SAFETY: as promised by the caller.
                unsafe { self.move_half() };
            }
            let first = half * HALF;
            macro_rules! store {
                ($($turn:literal)*) => {$(
                    // SAFETY: as promised by the caller.
                    unsafe {
                        let turn = first + $turn;
                        let addends = addends_of::<D, O>(Some(vectors), turn, scale);
                        let values = finished!(self.sums, $turn, factor, addends, true, true);
                        store_pairs(params, &Self::pairs_at(params.m, params.n, origin, turn), values);
                    }
                )*};
            }
            store!(0 1 2 3);
        }
    }

    /// The same for any epilogue: one copy of its code for all columns.
    ///
    /// # Safety
    /// As for [`store_directly`](Self::store_directly); `origin` is that of the warp's part.
    #[device_inline]
    #[track_caller]
    unsafe fn store_directly_by_epilogue<T: Element, E: Epilogue<D>, D: Outgoing, C: Addend<D>>(
        &self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        ahead: FetchedAhead,
        mut c: C,
    ) {
        let mut vectors = ahead.vectors;
        // SAFETY: as promised by the caller.
        let mut fetched = unsafe { Self::first_elements(params, origin, &ahead) };
        let ahead = (&mut vectors, &mut fetched);
        // SAFETY: as promised by the caller.
        unsafe {
            if const { Self::TURNS == 1 } {
                self.store_turn(params, origin, 0, ahead, &mut c);
            } else {
                for turn in 0..hint::opaque(Self::TURNS) {
                    self.store_turn(params, origin, turn, (&mut *ahead.0, &mut *ahead.1), &mut c);
                }
            }
        }
    }

    /// The same for the `turn`-th [`pairs::COLS`] columns.
    ///
    /// # Safety
    /// As for [`through_epilogue`](Self::through_epilogue).
    #[device_inline]
    #[track_caller]
    unsafe fn store_turn<T: Element, E: Epilogue<D>, D: Outgoing, C: Addend<D>>(
        &self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        turn: u32,
        ahead: (&mut FetchedVectors, &mut Fetched),
        c: &mut C,
    ) {
        // What follows from it would be kept from one turn to the next.
        let at = Origin { row: hint::opaque(origin.row), ..origin };
        // SAFETY: as promised by the caller. Nobody asks for what lies beyond the part, be it in D or not.
        unsafe {
            let values = self.through_epilogue(params, at, turn, ahead, c);
            let (piece, turn_of_piece) = Self::in_piece(origin, turn);
            let at = Self::pairs_at(params.m, params.n, piece, turn_of_piece);
            store_pairs(params, &at, values);
        }
    }
}

/// GELU of a lane's values of a row, by tanh or the exact one.
#[device_inline]
fn gelu_of_row<D: Outgoing, const BY_TANH: bool>(row: &mut [[f32; 2]; pairs::PAIRS]) {
    const VALUES: usize = 2 * pairs::PAIRS;
    // A branch, which is always taken: ptxas works on all values between two of them at once, and where sums are many
    // spills for that.
    if hint::opaque(0) == 0 {
        let mut values = [0.0; VALUES];
        values.copy_from_slice(row.as_flattened());
        row.as_flattened_mut().copy_from_slice(&D::short_gelu::<BY_TANH, VALUES>(values));
    }
}

/// Stores a lane's values that lie in D.
///
/// # Safety
/// D is valid for the shape in `params`.
#[device_inline]
#[track_caller]
unsafe fn store_pairs<T: Element, E: Epilogue<D>, D: Outgoing>(
    params: &GemmParams<T, E, D>,
    at: &PairsAt,
    values: Pairs<f32>,
) {
    let d = at.afresh(params.target());
    let narrow = |pair: [f32; 2]| pair.map(D::narrow);
    // SAFETY: as promised by the caller: only what lies in D is stored.
    unsafe {
        if at.swapped {
            // From row to row: an address for each takes registers.
            let (row, col) = at.place(0, 0, 0);
            let mut place = d.at(row, col);
            for j in 0..pairs::PAIRS {
                for e in 0..2 {
                    let rows = if j + e == 0 {
                        0
                    } else if e == 1 {
                        1
                    } else {
                        pairs::STEP - 1
                    };
                    place = place.add(u64::from(rows) * d.ld);
                    for i in 0..pairs::ROWS {
                        let is_inside = at.inside(i, j) > e as u32;
                        let value = D::narrow(values[i][j][e]);
                        place.add(u64::from(i as u32 * pairs::STEP)).store_if(is_inside, value);
                    }
                }
            }
            return;
        }
        let whole = d.has_vectors(2) && at.n.is_multiple_of(2);
        for i in 0..pairs::ROWS {
            let row = d.at(at.row(i), at.col);
            for j in 0..pairs::PAIRS {
                let (pair, inside) = (narrow(values[i][j]), at.inside(i, j));
                let place = row.add(u64::from(j as u32 * pairs::STEP));
                if whole {
                    place.store_vec_if(inside > 0, pair);
                } else {
                    place.store_if(inside > 0, pair[0]);
                    place.add(1).store_if(inside > 1, pair[1]);
                }
            }
        }
    }
}
