//! The way of a warpgroup's sums through the epilogue to D.
//!
//! | an epilogue that | on the way | code |
//! |---|---|---|
//! | only scales, as most do | one multiplication | all written out |
//! | [is short](Epilogue::short): a bias per column, GELU | 12 instructions for each sum | the same |
//! | is any other, and any D that is not mapped | whatever it takes | a multiply-add for each sum, and one copy of all the rest |
//!
//! Where all is written out nothing but the sums depends on what is known at run time. One copy costs twice as much as it is long: a jump to the sums
//! and one to the activation, each of which waits for where to, and what the sums are copied to.

use super::{FetchedAhead, OF_EIGHT, WarpgroupTile, of_warp, pairs_at};
use crate::element::Element;
use crate::epilogue::{Epilogue, Short};
use crate::maps::Mapped;
use crate::outbox::{self, Outbox, Outgoing};
use crate::pairs::{self, FetchedVectors, Pairs};
use crate::params::GemmParams;
use crate::tile::Origin;
use core::hint::unreachable_unchecked;
use cuda_std::hint;
use cuda_std::wgmma::M;

/// A lane's sums of the `$turn`-th [`pairs::COLS`] columns, each multiplied by a factor and added to its addend, for code in which
/// reading them is safe. A macro, since registers have names and no indices.
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

impl<const N: usize, const BM: usize> WarpgroupTile<N, BM> {
    /// Puts the sums through the epilogue and stores what lies in D, where the warpgroup's part begins at `origin`.
    ///
    /// # Safety
    /// All lanes of the warp get here together; all products have been waited for. D and the epilogue's operands are valid for
    /// the shapes in `params`, and `fetched` is what has been [fetched](Self::fetch) for the same part.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<T: Element, E: Epilogue<D>, D: Outgoing>(
        &self,
        params: &GemmParams<T, E, D>,
        origin: Origin,
        fetched: FetchedAhead,
        outbox: &mut Outbox,
    ) {
        const { assert!(N.is_multiple_of(outbox::cols::<D>()), "whole parts") };
        let origin = of_warp(origin);
        // SAFETY: as promised by the caller.
        unsafe {
            let d = if const { Self::has_room::<D>() } {
                params.mapped_d_anew()
            } else {
                params.mapped_d()
            };
            match (params.epilogue.only_scales(), d) {
                (Some(factor), Some(d)) => self.store_scaled::<D>(d, factor, origin, outbox),
                (_, d) => {
                    if const { Self::has_room::<D>() }
                        && let (Some(short), Some(d)) = (params.epilogue.short(), d)
                    {
                        self.store_short::<D>(short, d, origin, fetched.vectors, outbox);
                    } else {
                        self.store_by_epilogue(params, d, origin, fetched, outbox);
                    }
                }
            }
        }
    }

    /// [`store`](Self::store) for any epilogue and any D: one copy of the epilogue's code for all columns, on [`pairs::COLS`] of them
    /// at a time. What it needs for the next ones is fetched meanwhile.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[inline(always)]
    #[track_caller]
    unsafe fn store_by_epilogue<T: Element, E: Epilogue<D>, D: Outgoing>(
        &self,
        params: &GemmParams<T, E, D>,
        d: Option<Mapped<'_>>,
        origin: Origin,
        ahead: FetchedAhead,
        outbox: &mut Outbox,
    ) {
        let turns = const { Self::turns_of_part::<D>() };
        let FetchedAhead { mut vectors, first: mut fetched } = ahead;
        let in_words = const { size_of::<D>() == size_of::<u32>() }
            || params.d.has_vectors(2) && params.n.is_multiple_of(2);
        for turn in 0..hint::opaque(Self::TURNS) {
            let (piece, turn_of_piece) = Self::in_piece(origin, turn);
            let at = pairs_at(params.m, params.n, piece, turn_of_piece);
            // SAFETY: as promised by the caller. Nobody asks for what lies beyond the part, be it in D or not.
            unsafe {
                let of_turn = vectors.of_turn::<D>(turn_of_piece);
                let (factor, addends) = params.epilogue.addends(&of_turn, &fetched);
                let (next, next_turn) = Self::in_piece(origin, turn + 1);
                fetched = params.epilogue.fetch(&pairs_at(params.m, params.n, next, next_turn));
                if const { Self::PIECES > 1 } && turn + 1 == Self::TURNS_OF_PIECE {
                    // The second piece has other rows.
                    let at = pairs_at(params.m, params.n, next, pairs::turn_of_lane());
                    vectors = params.epilogue.fetch_vectors(&at);
                }
                let mut values = self.scaled(turn, factor, addends);
                params.epilogue.finish(&mut values, &at);
                if d.is_some() && turn % turns == 0 {
                    outbox.wait();
                }
                D::write(outbox, turn % turns, values);
                if turn % turns == turns - 1 {
                    let col = piece.col + turn_of_piece / turns * outbox::cols::<D>() as u32;
                    let origin = Origin { col, ..piece };
                    match d {
                        Some(d) => outbox.send(d, origin),
                        None if in_words => outbox.send_rows::<T, E, D, u32>(params, origin),
                        None => outbox.send_rows::<T, E, D, u16>(params, origin),
                    }
                }
            }
        }
    }

    /// Where the piece begins in which the `turn`-th [`pairs::COLS`] columns are, of the pieces of a part that begins at `origin`; and how many
    /// such come before in that piece.
    #[inline(always)]
    fn in_piece(origin: Origin, turn: u32) -> (Origin, u32) {
        if const { Self::PIECES == 1 } {
            return (origin, turn);
        }
        let row = origin.row + turn / Self::TURNS_OF_PIECE * M as u32;
        (Origin { row, ..origin }, turn % Self::TURNS_OF_PIECE)
    }

    /// The sums of the `turn`-th [`pairs::COLS`] columns, each multiplied by `factor` and added to its addend.
    ///
    /// # Safety
    /// All products have been waited for, and there are so many columns.
    #[inline(always)]
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
        of_turn!(0 1 2 3 4 5 6 7)
    }

    /// [`store`](Self::store) where sums are only multiplied by `factor` and D is mapped. Nothing in between depends on what is known at run time, so
    /// it is all written out.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[inline(always)]
    #[track_caller]
    unsafe fn store_scaled<D: Outgoing>(
        &self,
        d: Mapped<'_>,
        factor: f32,
        origin: Origin,
        outbox: &mut Outbox,
    ) {
        let turns = const { Self::turns_of_part::<D>() };
        let nothing: Pairs<f32> = [[[0.0; 2]; pairs::PAIRS]; pairs::ROWS];
        macro_rules! store {
            ($($turn:literal)*) => {$(
                if const { $turn < Self::TURNS } {
                    let (piece, turn_of_piece) = Self::in_piece(origin, $turn);
                    // SAFETY: as promised by the caller; a part is sent when all of its turns have been written.
                    unsafe {
                        if $turn % turns == 0 {
                            outbox.wait();
                        }
                        let values = scaled!(self.sums, $turn, factor, nothing);
                        D::write(outbox, $turn % turns, values);
                        if $turn % turns == turns - 1 {
                            let part = turn_of_piece / turns;
                            let col = piece.col + part * outbox::cols::<D>() as u32;
                            outbox.send(d, Origin { col, ..piece });
                        }
                    }
                }
            )*};
        }
        store!(0 1 2 3 4 5 6 7);
    }

    /// [`store`](Self::store) for an epilogue that [is short](Epilogue::short) and a mapped D: it is all written out.
    ///
    /// # Safety
    /// As for [`store`](Self::store); `origin` is that of the warp's part.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    #[track_caller]
    unsafe fn store_short<D: Outgoing>(
        &self,
        short: Short<f32>,
        d: Mapped<'_>,
        origin: Origin,
        vectors: FetchedVectors,
        outbox: &mut Outbox,
    ) {
        let turns = const { Self::turns_of_part::<D>() };
        let Short { factor, has_gelu, by_tanh } = short;
        macro_rules! store {
            ($($turn:literal)*) => {$(
                if const { $turn < Self::TURNS } {
                    let (piece, turn_of_piece) = Self::in_piece(origin, $turn);
                    // SAFETY: as promised by the caller; a part is sent when all of its turns have been written.
                    unsafe {
                        let of_cols = vectors.of_turn::<D>(turn_of_piece).of_cols;
                        let of_cols = of_cols.map(|words| pairs::unpack::<D>(words).map(D::widen));
                        let addends = [of_cols; pairs::ROWS];
                        let mut values = scaled!(self.sums, $turn, factor, addends);
                        if has_gelu {
                            let flat = values.as_flattened_mut().as_flattened_mut();
                            let mut all = [0.0; pairs::ROWS * pairs::PAIRS * 2];
                            all.copy_from_slice(flat);
                            flat.copy_from_slice(&D::short_gelu(by_tanh, all));
                        }
                        if $turn % turns == 0 {
                            outbox.wait();
                        }
                        D::write(outbox, $turn % turns, values);
                        if $turn % turns == turns - 1 {
                            let part = turn_of_piece / turns;
                            let col = piece.col + part * outbox::cols::<D>() as u32;
                            outbox.send(d, Origin { col, ..piece });
                        }
                    }
                }
            )*};
        }
        store!(0 1 2 3 4 5 6 7);
    }

    /// Whether registers are left beside the sums for a short epilogue: a bias of f32 takes twice as many of them as one of half precision.
    const fn has_room<D>() -> bool {
        const MOST_BESIDE_F32: usize = 64;
        size_of::<D>() < size_of::<f32>() || Self::SUMS <= MOST_BESIDE_F32
    }

    /// How many times [`pairs::COLS`] columns are a part of D on its way.
    const fn turns_of_part<D>() -> u32 {
        (outbox::cols::<D>() / pairs::COLS) as u32
    }
}
