//! The part of D that one warpgroup owns: one or two pieces of 64 rows, in registers that the compiler never touches.
//!
//! # Contract
//! A piece is `N` columns by 64 rows of sums, which [`Accumulators`] holds under names of PTX. A warp has 16 of the rows, two times 8: in
//! each 8 columns a lane has a pair of sums in the upper 8 rows and a pair in the lower, the pairs of [`crate::pairs`].
//!
//! A thread has room for 128 sums. Two pieces of 128 columns take as many as one of 256, and read half as much of B and twice as much of
//! A for the same products: what suits a D that is narrow.
//!
//! While a warpgroup works on the way of its sums to D it does not multiply, so all of that is to be short. A lane keeps its
//! sums in registers until they are what D is to hold, 16 at a time, so that there is always another to go on with while one waits for
//! an instruction's result. As they are or rounded to half their size they leave through an [`Outbox`], from which hardware takes them
//! to D.
//!
//! Registers have names and no indices, so of all code that names them there must be a copy for each. For an epilogue that only scales
//! that is all the code there is, and nothing in it depends on what is known at run time. For any other the copies are those
//! multiply-adds alone that begin every epilogue: they bring 16 sums to where one copy of all the rest works on them.

use crate::bulk_panels::BulkPanel;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::maps::Mapped;
use crate::outbox::{self, Outbox, Outgoing};
use crate::pairs::{self, Fetched, FetchedVectors, Pairs, PairsAt};
use crate::params::{GemmParams, TargetRef};
use crate::sums_on_the_way::LANES;
use crate::tile::Origin;
use core::hint::unreachable_unchecked;
use cuda_std::wgmma::{self, Accumulators, K, M, Major, THREADS};
use cuda_std::{hint, thread, unroll, warp};

/// Registers of a lane in 8 columns: a pair in the upper eight rows and one in the lower.
const OF_EIGHT: usize = 4;

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

/// What an epilogue has read for a part of D before its sums are there.
#[derive(Clone, Copy, Debug)]
pub struct FetchedAhead {
    /// From vectors, for all of the part.
    vectors: FetchedVectors,
    /// For the first pairs.
    first: Fetched,
}

/// Warpgroups that share a block's tile.
pub const WARPGROUPS: usize = 2;

/// Most sums of a thread.
const MOST_SUMS: usize = 128;

/// The sums of one of the [two](WARPGROUPS) warpgroups that share a tile of `BM` rows and `N` columns.
pub struct WarpgroupTile<const N: usize, const BM: usize = { WARPGROUPS * M }> {
    /// Of the first piece. The second one's can be read and written through it as well.
    sums: Accumulators<N, 0>,
    /// Of the second piece, where there is one.
    below: Option<Accumulators<N, 1>>,
}

impl<const N: usize, const BM: usize> WarpgroupTile<N, BM> {
    /// Pieces of [`M`] rows.
    pub const PIECES: usize = {
        let pieces = BM / (WARPGROUPS * M);
        assert!(BM == pieces * WARPGROUPS * M, "warpgroups have as many rows each");
        assert!(pieces == 1 || pieces == 2, "there are two sets of accumulators");
        assert!(pieces * N / 2 <= MOST_SUMS, "a thread has room for its sums");
        pieces
    };

    /// Rows of the warpgroup.
    pub const ROWS: u32 = (Self::PIECES * M) as u32;

    /// Sums of a thread.
    pub const SUMS: usize = Self::PIECES * N / 2;

    /// How many times [`pairs::COLS`] columns a piece is, and all of them one after another.
    const TURNS_OF_PIECE: u32 = (N / pairs::COLS) as u32;
    const TURNS: u32 = Self::PIECES as u32 * Self::TURNS_OF_PIECE;

    /// The sums, of undefined values.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            let sums = Accumulators::declare();
            let below =
                if const { Self::PIECES > 1 } { Some(Accumulators::declare()) } else { None };
            WarpgroupTile { sums, below }
        }
    }

    /// Makes all sums zero: those of a product without depth.
    ///
    /// # Safety
    /// No [product](Self::begin_products) is under way.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn clear(&mut self) {
        macro_rules! clear {
            ($($first:literal)*) => {$(
                unroll!(i < 32, {
                    if const { $first + i < Self::SUMS } {
                        // SAFETY: as promised by the caller.
                        unsafe { self.sums.set::<{ $first + i }>(0.0) };
                    }
                });
            )*};
        }
        clear!(0 32 64 96);
    }

    /// This thread's register `I`.
    ///
    /// # Safety
    /// All products have been waited for.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get<const I: usize>(&self) -> f32 {
        // SAFETY: as promised by the caller.
        unsafe { self.sums.get::<I>() }
    }

    /// Writes this thread's register `I`.
    ///
    /// # Safety
    /// All products have been waited for.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn set<const I: usize>(&mut self, value: f32) {
        // SAFETY: as promised by the caller.
        unsafe { self.sums.set::<I>(value) };
    }

    /// Adds to this thread's register `I`.
    ///
    /// # Safety
    /// All products have been waited for.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn add<const I: usize>(&mut self, addend: f32) {
        // SAFETY: as promised by the caller.
        unsafe { self.sums.set::<I>(self.sums.get::<I>() + addend) };
    }

    /// Begins to add the products of a slice: of the warpgroup's rows of A, from the `row`-th of its panel on, and all columns of B. For
    /// the `first` slice of a tile what the sums were before does not count.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together. Nobody writes the panels until the products have been
    /// [waited for](Self::wait).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn begin_products<T: wgmma::Element, A: Major, B: Major, const BK: usize>(
        &mut self,
        (a, row): (BulkPanel<T, A, BM, BK>, u32),
        b: BulkPanel<T, B, N, BK>,
        first: bool,
    ) {
        let (a, b) = (a.operand(row), b.operand(0));
        // SAFETY: as promised by the caller.
        unsafe {
            wgmma::fence();
            unroll!(step < BK / K, {
                let a = BulkPanel::<T, A, BM, BK>::step(a, step as u32);
                let b = BulkPanel::<T, B, N, BK>::step(b, step as u32);
                self.sums.mma_async(a, b, !first || step != 0);
                if let Some(below) = &mut self.below {
                    let a = BulkPanel::<T, A, BM, BK>::further(a, M as u32);
                    below.mma_async(a, b, !first || step != 0);
                }
            });
            wgmma::commit_group();
        }
    }

    /// Waits until the products of all slices but the `NEWEST` have been added.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait<const NEWEST: usize>(&self) {
        // SAFETY: as promised by the caller.
        unsafe { wgmma::wait_group::<NEWEST>() }
    }

    /// What the epilogue needs from vectors, and for the first pairs, of the part that begins at `origin`, to be [stored](Self::store) later: reading it
    /// takes a while.
    ///
    /// # Safety
    /// The epilogue's operands are valid for the shapes in `params`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch<T: Element, E: Epilogue<D>, D: Outgoing>(
        params: &GemmParams<T, E, D>,
        origin: Origin,
    ) -> FetchedAhead {
        let at = |turn| pairs_at(params.m, params.n, of_warp(origin), turn);
        // SAFETY: as promised by the caller.
        unsafe {
            FetchedAhead {
                vectors: params.epilogue.fetch_vectors(&at(pairs::turn_of_lane())),
                first: params.epilogue.fetch(&at(0)),
            }
        }
    }

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
            match (params.epilogue.only_scales(), params.mapped_d()) {
                (Some(factor), Some(d)) => self.store_scaled::<D>(d, factor, origin, outbox),
                (_, d) => self.store_by_epilogue(params, d, origin, fetched, outbox),
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

    /// How many times [`pairs::COLS`] columns are a part of D on its way.
    const fn turns_of_part<D>() -> u32 {
        (outbox::cols::<D>() / pairs::COLS) as u32
    }

    /// Stores the sums as they are to a matrix of f32 of `m` rows, where the warpgroup's part begins at `origin`: all of a row that
    /// the matrix has room for, in pairs.
    ///
    /// # Safety
    /// All products have been waited for. The matrix is valid for `m` rows of as many elements as lie between two, an even number.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_sums(&self, to: TargetRef<f32>, m: u32, origin: Origin) {
        let to = to.of_block();
        let at = pairs_at(m, to.ld as u32, of_warp(origin), 0);
        let rows = |first: u32| {
            let at = PairsAt { row: at.row + first, ..at };
            [0, 1].map(|i| (to.at(at.row(i), at.col), at.row(i) < at.m))
        };
        let pieces = [rows(0), if const { Self::PIECES > 1 } { rows(M as u32) } else { rows(0) }];
        macro_rules! store {
            ($j:expr, $i:literal) => {{
                const FIRST: usize = $j * OF_EIGHT + $i * 2;
                let (row, there) = pieces[const { $j / (N / pairs::STEP as usize) }][$i];
                let col = const { ($j % (N / pairs::STEP as usize)) as u32 * pairs::STEP };
                // SAFETY: as promised by the caller.
                unsafe {
                    let pair = [self.sums.get::<FIRST>(), self.sums.get::<{ FIRST + 1 }>()];
                    row.add(col.into()).store_vec_if(there && at.col + col < at.n, pair);
                }
            }};
        }
        unroll!(j < 32, {
            if const { j < Self::SUMS / OF_EIGHT } {
                store!(j, 0);
                store!(j, 1);
            }
        });
    }
}

/// Where this warp's 16 rows begin, of a warpgroup's part of D that begins at `origin`.
#[inline(always)]
fn of_warp(origin: Origin) -> Origin {
    let warp = thread::thread_idx_x() % THREADS / warp::WARP_SIZE;
    Origin { row: origin.row + warp * outbox::ROWS as u32, ..origin }
}

/// Where this lane's pairs of the `turn`-th [`pairs::COLS`] columns lie, of a warp's part that begins at `origin`, in an `m x n`
/// matrix.
#[inline(always)]
fn pairs_at(m: u32, n: u32, origin: Origin, turn: u32) -> PairsAt {
    let lane = warp::lane_id();
    let (g, t) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
    let (row, col) = (origin.row + g, origin.col + turn * pairs::COLS as u32 + 2 * t);
    PairsAt { row, col, m, n }
}
