//! The way of a warpgroup's sums through the epilogue to D.
//!
//! | an epilogue that | on the way | code |
//! |---|---|---|
//! | only scales, as most do | one multiplication | all written out |
//! | [is short](Epilogue::short): a bias per column | one multiply-add | all written out |
//! | the same with C, where the producer [brings](crate::warpgroup::addend) it | two | all written out |
//! | the same with GELU | 10 instructions for each sum, 12 in f16, 7 by tanh in both | for each form written out for one half of the sums, to which the other is moved; of fewer sums than two such halves for all |
//! | is any other, and any D that is not mapped | whatever it takes | a multiply-add for each sum, and one copy of all the rest |
//!
//! Where a thread has [many sums](WarpgroupTile::HAS_MANY_SUMS) GELU is all written out, too, and no part waits.
//!
//! All that is said of D in half precision. Of f32 GELU by tanh takes 12 instructions, and the exact one is any other;
//! lanes store results [themselves](WarpgroupTile::is_stored_directly) where tiles fit (`directly.rs`).
//!
//! Where all is written out (`written_out.rs`, and `in_halves.rs` for one half of the sums) nothing but the sums
//! depends on what is known at run time. One copy (`in_one_copy.rs`) costs twice as much as it is long: a jump to the
//! sums and one to the activation, each of which waits for where to, and what the sums are copied to.
//!
//! This file chooses the way, and says where parts of D lie.

use super::{FetchedAhead, Parked, WarpgroupTile};
use crate::element::{Accumulator, Element};
use crate::epilogue::pairs::{self, FetchedVectors, Pairs};
use crate::epilogue::{Epilogue, Short};
use crate::maps::Mapped;
use crate::params::GemmParams;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::addend::{Addend, NotBrought};
use crate::warpgroup::outbox::{self, Outbox};
use crate::warpgroup::outgoing::Outgoing;
use cuda_std::device_inline;
use cuda_std::wgmma::M;

/// How many times [`pairs::COLS`] columns there is one copy of a long epilogue for.
const HALF: u32 = 4;

/// A lane's sums of [`pairs::COLS`] columns.
const OF_TURN: usize = pairs::ROWS * pairs::PAIRS * 2;

/// A lane's sums of the `$turn`-th [`pairs::COLS`] columns, each multiplied by a factor and added to its addend, for
/// code in which reading them is safe. A macro, since registers have names and no indices.
macro_rules! scaled {
    ($sums:expr, $turn:literal, $factor:expr, $addends:expr) => {
        [
            scaled!($sums, $turn, $factor, $addends, 0: 0 1 2 3),
            scaled!($sums, $turn, $factor, $addends, 1: 0 1 2 3),
        ]
    };
    ($sums:expr, $turn:literal, $factor:expr, $addends:expr, $row:literal: $($j:literal)*) => {
        [$({
            const FIRST: usize = ($turn * pairs::PAIRS + $j) * OF_EIGHT + $row * 2;
            let [low, high] = $addends[$row][$j];
            [$sums.scaled::<FIRST>($factor, low), $sums.scaled::<{ FIRST + 1 }>($factor, high)]
        }),*]
    };
}

/// The same, as an epilogue makes values of D of them.
macro_rules! finished {
    ($sums:expr, $turn:literal, $factor:expr, $addends:expr, $gelu:expr, $by_tanh:expr) => {{
        let mut values = scaled!($sums, $turn, $factor, $addends);
        if const { $gelu } {
            let flat = values.as_flattened_mut().as_flattened_mut();
            let mut all = [0.0; OF_TURN];
            all.copy_from_slice(flat);
            flat.copy_from_slice(&D::short_gelu::<{ $by_tanh }, OF_TURN>(all));
        }
        values
    }};
}

// Behind the macros that they use.
mod directly;
mod in_halves;
mod in_one_copy;
mod written_out;

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// Puts the sums through the epilogue and stores what lies in D, where the warpgroup's part begins at `origin`.
    ///
    /// # Safety
    /// All lanes of the warp get here together; all products have been waited for. D and the epilogue's operands are
    /// valid for the shapes in `params`, and `fetched` is what has been [fetched](Self::fetch) for the same part.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<T: Element, E: Epilogue<D>, D: Outgoing>(
        &mut self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        fetched: FetchedAhead,
        outbox: &mut Outbox<O>,
    ) {
        // SAFETY: as promised by the caller. Nothing is parked.
        unsafe {
            let at = (origin, outbox);
            self.store_or_park::<T, E, D, _, false, false>(params, at, fetched, NotBrought);
        }
    }

    /// [`store`](Self::store), which may leave what the outbox has no room for [to be sent](Self::send_parked) later.
    /// Of a tile that [fits](crate::warpgroup::fit) `params` have no columns behind its own, and what is left may [lie
    /// there](Self::send_rest).
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_or_park<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        C: Addend<D>,
        const PARKS: bool,
        const FITS: bool,
    >(
        &mut self,
        params: &GemmParams<T, E, D>,
        (origin, outbox): (Origin, &mut Outbox<O>),
        fetched: FetchedAhead,
        c: C,
    ) -> Parked<D> {
        const {
            let has_rests = FITS && Self::HAS_MANY_SUMS || Self::IS_NARROW;
            assert!(has_rests || Self::has_whole_parts::<D>(), "whole parts");
        };
        // SAFETY: as promised by the caller.
        unsafe {
            if const { Self::is_stored_directly::<D, FITS>() } {
                self.store_directly(params, origin, fetched, c);
                return Parked::nothing();
            }
            let origin = Self::of_warp(origin);
            let is_mapped = params.d_is_mapped_anew();
            if let (Some(factor), true) = (params.epilogue.only_scales(), is_mapped) {
                let by = (factor, None, NO_C);
                return self.store_written_out::<_, _, _, _, PARKS, FITS, false, false>(
                    params,
                    by,
                    (origin, outbox),
                );
            }
            if is_mapped
                && let Some(Short { factor, has_gelu, by_tanh, of_c }) = params.epilogue.short()
                && (of_c.is_none() || is_brought::<C, _, _, _>(params))
            {
                let at = (origin, outbox);
                if const { C::IS_POSSIBLE }
                    && let Some(of_c) = of_c
                {
                    let by = (factor, Some(fetched.vectors), (Some(of_c), c));
                    return self.store_written_out::<_, _, _, _, PARKS, FITS, false, false>(
                        params, by, at,
                    );
                }
                let by = (factor, Some(fetched.vectors));
                return if !has_gelu {
                    let by = (by.0, by.1, NO_C);
                    self.store_written_out::<_, _, _, _, PARKS, FITS, false, false>(params, by, at)
                } else if by_tanh || !D::has_short_gelu(false) {
                    self.store_gelu::<T, E, D, PARKS, FITS, true>(params, by, at)
                } else {
                    self.store_gelu::<T, E, D, PARKS, FITS, false>(params, by, at)
                };
            }
            let at = (origin, outbox);
            self.store_by_epilogue::<_, _, _, _, FITS>(params, is_mapped, at, fetched, c);
        }
        Parked::nothing()
    }

    /// Whether lanes store their elements of D themselves, and nothing leaves through an outbox (`directly.rs`): of
    /// f32, in tiles that fit, which need not end with a part, and may be swapped; and of any that are narrower than a
    /// part.
    pub const fn is_stored_directly<D: Outgoing, const FITS: bool>() -> bool {
        FITS && !D::IS_PARKED || Self::IS_NARROW
    }

    /// Parts of D that a warp has, those that may be half of one among them.
    pub const fn parts<D>() -> u32 {
        (Self::PIECES * N.div_ceil(outbox::cols::<D>())) as u32
    }

    /// Where the piece begins in which the `turn`-th [`pairs::COLS`] columns are, of the pieces of a part that begins
    /// at `origin`; and how many such come before in that piece.
    #[device_inline]
    fn in_piece(origin: Origin, turn: u32) -> (Origin, u32) {
        if const { Self::PIECES == 1 } {
            return (origin, turn);
        }
        let row = origin.row + turn / Self::TURNS_OF_PIECE * M as u32;
        (Origin { row, ..origin }, turn % Self::TURNS_OF_PIECE)
    }

    /// Vectors that have been fetched for the first piece of parts that begin at `origin`, for the second: where
    /// operands are swapped it is of other columns of D.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[device_inline]
    unsafe fn vectors_of_second_piece<T: Element, E: Epilogue<D>, D: Outgoing>(
        params: &GemmParams<T, E, D>,
        origin: Origin,
        vectors: Option<FetchedVectors>,
    ) -> Option<FetchedVectors> {
        let (piece, _) = Self::in_piece(origin, Self::TURNS_OF_PIECE);
        let at = Self::pairs_at(params.m, params.n, piece, pairs::turn_of_lane());
        // SAFETY: as promised by the caller.
        vectors.map(|_| unsafe { params.epilogue.fetch_vectors(&at) })
    }

    /// What is added to this lane's sums of the `TURN`-th [`pairs::COLS`] columns, of vectors that have been fetched,
    /// for the second piece when that begins, times a scale; and of C.
    ///
    /// # Safety
    /// As for [`store`](Self::store), once for each turn in order; `origin` is that of the warp's part.
    #[device_inline]
    #[track_caller]
    unsafe fn addends_of_turn<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        C: Addend<D>,
        const TURN: u32,
    >(
        params: &GemmParams<T, E, D>,
        origin: Origin,
        (vectors, of_c, scale): (&mut Option<FetchedVectors>, (Option<f32>, &mut C), f32),
    ) -> Pairs<f32> {
        // SAFETY: as promised by the caller.
        unsafe {
            if const { O::SWAPPED && TURN != 0 && TURN == Self::TURNS_OF_PIECE } {
                *vectors = Self::vectors_of_second_piece(params, origin, *vectors);
            }
            let turn = const { (TURN, TURN % Self::TURNS_OF_PIECE) };
            addends_and_c::<D, C, O>(*vectors, of_c, turn, scale)
        }
    }

    /// Where the part begins that the `turn`-th [`pairs::COLS`] columns belong to, of the parts of a warp that begin at
    /// `origin`.
    #[device_inline]
    pub(super) fn part_at<D>(origin: Origin, turn: u32) -> Origin {
        let (piece, turn_of_piece) = Self::in_piece(origin, turn);
        let part = turn_of_piece / const { turns_of_part::<D>() };
        Origin { col: piece.col + part * outbox::cols::<D>() as u32, ..piece }
    }

    /// Which of the turns of its part the `turn`-th is.
    #[device_inline]
    const fn turn_of_part<D>(turn: u32) -> u32 {
        if const { Self::has_whole_parts::<D>() } {
            turn % turns_of_part::<D>()
        } else {
            turn % Self::TURNS_OF_PIECE % turns_of_part::<D>()
        }
    }

    /// Whether the `turn`-th is the last of its part: the last part of a piece may be half of one.
    #[device_inline]
    const fn ends_part<D>(turn: u32) -> bool {
        let is_last = Self::turn_of_part::<D>(turn) == turns_of_part::<D>() - 1;
        if const { Self::has_whole_parts::<D>() } {
            is_last
        } else {
            is_last || turn % Self::TURNS_OF_PIECE == Self::TURNS_OF_PIECE - 1
        }
    }

    /// Whether the columns of a tile that is as wide as can be are whole parts.
    const fn has_whole_parts<D>() -> bool {
        N.is_multiple_of(outbox::cols::<D>())
    }

    /// Sends the part of a mapped D that has been written: of a tile that [fits](crate::warpgroup::fit) what lies
    /// before the last of its columns.
    ///
    /// # Safety
    /// As for [`Outbox::send`]; of a tile that fits `params` have no columns behind its own.
    #[device_inline]
    #[track_caller]
    unsafe fn send_part<T: Element, E: Epilogue<D>, D: Outgoing, const FITS: bool>(
        params: &GemmParams<T, E, D>,
        d: Mapped<'_>,
        part: Origin,
        outbox: &mut Outbox<O>,
    ) {
        let is_whole = || part.col + const { outbox::cols::<D>() as u32 } <= params.n;
        // SAFETY: as promised by the caller.
        unsafe {
            if const { FITS && O::SWAPPED } {
                outbox.send_before(d, part, params.n);
            } else if const { !FITS } || is_whole() {
                outbox.send(d, part);
            } else {
                outbox.send_pieces(params, part);
            }
        }
    }

    /// [`store_written_out`](Self::store_written_out) with GELU, by tanh or the exact one.
    ///
    /// # Safety
    /// As for [`store_written_out`](Self::store_written_out).
    #[device_inline]
    #[track_caller]
    unsafe fn store_gelu<
        T: Element,
        E: Epilogue<D>,
        D: Outgoing,
        const PARKS: bool,
        const FITS: bool,
        const BY_TANH: bool,
    >(
        &mut self,
        params: &GemmParams<T, E, D>,
        (factor, vectors): (f32, Option<FetchedVectors>),
        at: (Origin, &mut Outbox<O>),
    ) -> Parked<D> {
        let by = (factor * D::short_gelu_scale(BY_TANH), vectors);
        // SAFETY: as promised by the caller.
        unsafe {
            if const { (PARKS || !D::IS_PARKED) && Self::TURNS == 2 * HALF } {
                self.store_in_halves::<T, E, D, BY_TANH>(params, by, at)
            } else {
                let by = (by.0, by.1, NO_C);
                self.store_written_out::<_, _, _, _, PARKS, FITS, true, BY_TANH>(params, by, at)
            }
        }
    }
}

/// How many times [`pairs::COLS`] columns are a part of D on its way.
pub(super) const fn turns_of_part<D>() -> u32 {
    (outbox::cols::<D>() / pairs::COLS) as u32
}

/// No C.
const NO_C: (Option<f32>, NotBrought) = (None, NotBrought);

/// Whether C is brought. Asked each time anew: the answer takes no register all the while.
#[device_inline]
fn is_brought<C: Addend<D>, T: Element, E: Epilogue<D>, D: Outgoing>(
    params: &GemmParams<T, E, D>,
) -> bool {
    C::IS_POSSIBLE && params.c_is_mapped_anew()
}

/// No addends.
const NO_ADDENDS: Pairs<f32> = [[[0.0; 2]; pairs::PAIRS]; pairs::ROWS];

/// What is added to this lane's sums of the `turn`-th [`pairs::COLS`] columns of a piece, times a scale: zeros where
/// nothing has been fetched. It is the same for both of the lane's rows, or, where these are columns of D, for all in
/// each of them.
///
/// # Safety
/// As for [`FetchedVectors::of_turn`].
#[device_inline]
#[track_caller]
unsafe fn addends_of<D: Outgoing, O: Operands>(
    vectors: Option<FetchedVectors>,
    turn: u32,
    scale: f32,
) -> Pairs<f32> {
    let Some(vectors) = vectors else { return NO_ADDENDS };
    let scaled = |words| pairs::unpack::<D>(words).map(|addend| D::widen(addend) * scale);
    if const { O::SWAPPED } {
        scaled(vectors.of_rows).map(|of_row| [[of_row; 2]; pairs::PAIRS])
    } else {
        // SAFETY: as promised by the caller.
        [unsafe { vectors.of_turn::<D>(turn) }.of_cols.map(scaled); pairs::ROWS]
    }
}

/// What is added to this lane's sums of the `turn`-th [`pairs::COLS`] columns: as [`addends_of`], and C times its
/// factor, if there is one. A function and no closure, which the compiler does not write out wherever it is called.
///
/// # Safety
/// As for [`addends_of`] and [`Addend::of_turn`].
#[device_inline]
#[track_caller]
unsafe fn addends_and_c<D: Outgoing, C: Addend<D>, O: Operands>(
    vectors: Option<FetchedVectors>,
    (of_c, c): (Option<f32>, &mut C),
    (turn, turn_of_piece): (u32, u32),
    scale: f32,
) -> Pairs<f32> {
    // SAFETY: as promised by the caller.
    let mut addends = unsafe { addends_of::<D, O>(vectors, turn_of_piece, scale) };
    let Some(of_c) = of_c else { return addends };
    // SAFETY: as promised by the caller.
    let words = unsafe { c.of_turn(turn) };
    for i in 0..pairs::ROWS {
        for j in 0..pairs::PAIRS {
            let elements = pairs::unpack::<D>(words[i][j]).map(D::widen);
            let [low, high] = addends[i][j];
            addends[i][j] = [f32::fma(of_c, elements[0], low), f32::fma(of_c, elements[1], high)];
        }
    }
    addends
}
