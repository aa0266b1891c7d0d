//! The part of D that one warpgroup owns: one or two pieces of 64 rows, in registers that the compiler never touches.
//!
//! # Contract
//! A piece is `N` columns by 64 rows of sums, which [`Accumulators`] holds under names of PTX. A warp has 16 of the
//! rows, two times 8: in each 8 columns a lane has a pair of sums in the upper 8 rows and a pair in the lower, the
//! pairs of [`crate::epilogue::pairs`].
//!
//! A thread has room for 128 sums and what else it keeps. Two pieces of 128 columns take as many as one of 256, and
//! read half as much of B and twice as much of A for the same products: what suits a D that is narrow. Two of 160 take
//! 160, and so all that there would be for [parked](Parked) parts.
//!
//! While a warpgroup works on the way of its sums to D it does not multiply, so all of that is to be short. A lane
//! keeps its sums in registers until they are what D is to hold, 16 at a time, so that there is always another to go on
//! with while one waits for an instruction's result. As they are or rounded to half their size they leave through an
//! [outbox], from which hardware takes them to D. What that has no room for is [parked](Parked).
//!
//! A tile that [fits](crate::warpgroup::fit) may have fewer columns than there are sums (`fitted.rs`).
//!
//! Registers have names and no indices, so of all code that names them there must be a copy for each (`store.rs`).

mod fitted;
mod hand_over;
mod parked;
mod store;

pub use hand_over::VECTOR;
pub use parked::Parked;

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::epilogue::pairs::{self, Fetched, FetchedVectors, PairsAt};
use crate::params::{GemmParams, TargetRef};
use crate::swapped::{InOrder, Operands};
use crate::tile::Origin;
use crate::warp::sums_on_the_way::LANES;
use crate::warpgroup::bulk_panels::BulkPanel;
use crate::warpgroup::outbox;
use crate::warpgroup::outgoing::Outgoing;
use core::marker::PhantomData;
use cuda_std::wgmma::{self, Accumulators, K, M, Major, THREADS};
use cuda_std::{device_inline, hint, thread, unroll, warp};

/// Registers of a lane in 8 columns: a pair in the upper eight rows and one in the lower.
const OF_EIGHT: usize = 4;

/// What an epilogue has read for a part of D before its sums are there.
#[derive(Clone, Copy, Debug)]
pub struct FetchedAhead {
    /// From vectors, for all of the part.
    vectors: FetchedVectors,
    /// For the first pairs.
    first: Fetched,
}

/// Warpgroups that share a block's tile, or take turns: unless it has no more rows than one of them.
pub const WARPGROUPS: usize = 2;

/// Warpgroups that share a tile of `bm` rows.
const fn warpgroups_of(bm: usize) -> usize {
    if bm == M { 1 } else { WARPGROUPS }
}

/// Most sums of a thread.
const MOST_SUMS: usize = 160;

/// The sums of one of the [two](WARPGROUPS) warpgroups, or of the one, that share a tile of `BM` rows and `N` columns,
/// of D or of its [transpose](crate::swapped).
pub struct WarpgroupTile<const N: usize, const BM: usize = { WARPGROUPS * M }, O = InOrder> {
    /// Of the first piece. The second one's can be read and written through it as well.
    sums: Accumulators<N, 0>,
    /// Of the second piece, where there is one.
    below: Option<Accumulators<N, 1>>,
    operands: PhantomData<O>,
}

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// Pieces of [`M`] rows.
    pub const PIECES: usize = {
        let pieces = BM / (warpgroups_of(BM) * M);
        assert!(BM == pieces * warpgroups_of(BM) * M, "warpgroups have as many rows each");
        assert!(pieces == 1 || pieces == 2, "there are two sets of accumulators");
        assert!(pieces * N / 2 <= MOST_SUMS, "a thread has room for its sums");
        pieces
    };

    /// Rows of the warpgroup.
    pub const ROWS: u32 = (Self::PIECES * M) as u32;

    /// Sums of a thread.
    pub const SUMS: usize = Self::PIECES * N / 2;

    /// Whether they are so many that hardly any registers are left for where it is: in tiles that fit alone.
    pub(crate) const HAS_MANY_SUMS: bool = Self::SUMS > 128;

    /// Whether it is narrower than a part of D on its way is [long](outbox): of few rows of D, where operands are
    /// [swapped](crate::swapped).
    pub const IS_NARROW: bool = O::SWAPPED && N < M;

    /// How many times [`pairs::COLS`] columns a piece is, and all of them one after another.
    const TURNS_OF_PIECE: u32 = (N / pairs::COLS) as u32;
    const TURNS: u32 = Self::PIECES as u32 * Self::TURNS_OF_PIECE;

    /// The sums, of undefined values.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[device_inline]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            let sums = Accumulators::declare();
            let below =
                if const { Self::PIECES > 1 } { Some(Accumulators::declare()) } else { None };
            WarpgroupTile { sums, below, operands: PhantomData }
        }
    }

    /// Makes all sums zero: those of a product without depth.
    ///
    /// # Safety
    /// No [product](Self::begin_products) is under way.
    #[device_inline]
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
        clear!(0 32 64 96 128);
    }

    /// This thread's register `I`.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn get<const I: usize>(&self) -> f32 {
        // SAFETY: as promised by the caller.
        unsafe { self.sums.get::<I>() }
    }

    /// Writes this thread's register `I`.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn set<const I: usize>(&mut self, value: f32) {
        // SAFETY: as promised by the caller.
        unsafe { self.sums.set::<I>(value) };
    }

    /// Adds to this thread's register `I`.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn add<const I: usize>(&mut self, addend: f32) {
        // SAFETY: as promised by the caller.
        unsafe { self.sums.set::<I>(self.sums.get::<I>() + addend) };
    }

    /// Begins to add the products of a slice: of the warpgroup's rows of A, from the `row`-th of its panel on, and all
    /// columns of B. For the `first` slice of a tile what the sums were before does not count.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together. Nobody writes the panels until the products have been
    /// [waited for](Self::wait).
    #[device_inline]
    #[track_caller]
    pub unsafe fn begin_products<
        T: wgmma::Element,
        A: Major,
        B: Major,
        const ROWS: usize,
        const BK: usize,
    >(
        &mut self,
        (a, row): (BulkPanel<T, A, ROWS, BK>, u32),
        b: BulkPanel<T, B, N, BK>,
        first: bool,
    ) {
        // SAFETY: as promised by the caller.
        unsafe { begin_products(&mut self.sums, self.below.as_mut(), (a, row), b, first) };
    }

    /// Waits until the products of all slices but the `NEWEST` have been added.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together.
    #[device_inline]
    #[track_caller]
    pub unsafe fn wait<const NEWEST: usize>(&self) {
        // SAFETY: as promised by the caller.
        unsafe { wgmma::wait_group::<NEWEST>() }
    }

    /// What the epilogue needs from vectors, and for the first pairs, of the part that begins at `origin`, to be
    /// [stored](Self::store) later: reading it takes a while. Of C that is [brought](crate::warpgroup::addend) there is
    /// nothing to be read.
    ///
    /// # Safety
    /// The epilogue's operands are valid for the shapes in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn fetch<T: Element, E: Epilogue<D>, D: Outgoing>(
        params: &GemmParams<T, E, D>,
        origin: Origin,
    ) -> FetchedAhead {
        let at = |turn| Self::pairs_at(params.m, params.n, Self::of_warp(origin), turn);
        // SAFETY: as promised by the caller.
        unsafe {
            FetchedAhead {
                vectors: params.epilogue.fetch_vectors(&at(pairs::turn_of_lane())),
                // Of two pieces there are no registers for it.
                first: if const { Self::PIECES == 1 } && !params.c_is_mapped_anew() {
                    params.epilogue.fetch(&at(0))
                } else {
                    Fetched::default()
                },
            }
        }
    }

    /// Stores the sums as they are to a matrix of f32 of `m` rows, where the warpgroup's part begins at `origin`: all
    /// of a row that the matrix has room for, in pairs.
    ///
    /// # Safety
    /// All products have been waited for. The matrix is valid for `m` rows of as many elements as lie between two, an
    /// even number.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_sums(&self, to: TargetRef<f32>, m: u32, origin: Origin) {
        let to = to.of_block();
        let at = Self::pairs_at(m, to.ld as u32, Self::of_warp(origin), 0);
        let rows = |first: u32| {
            let at = PairsAt { row: at.row + first, ..at };
            [0, 1].map(|i| (to.at(at.row(i), at.col), at.row(i) < at.m))
        };
        let pieces = [rows(0), if const { Self::PIECES > 1 } { rows(M as u32) } else { rows(0) }];
        macro_rules! store {
            ($j:expr, $i:literal) => {{
                const FIRST: usize = ($j) * OF_EIGHT + $i * 2;
                let (row, there) = pieces[const { ($j) / (N / pairs::STEP as usize) }][$i];
                let col = const { (($j) % (N / pairs::STEP as usize)) as u32 * pairs::STEP };
                // SAFETY: as promised by the caller.
                unsafe {
                    let pair = [self.sums.get::<FIRST>(), self.sums.get::<{ FIRST + 1 }>()];
                    row.add(col.into()).store_vec_if(there && at.col + col < at.n, pair);
                }
            }};
        }
        macro_rules! store_of_eight {
            ($($first:literal)*) => {$(
                unroll!(j < 32, {
                    if const { $first + j < Self::SUMS / OF_EIGHT } {
                        store!($first + j, 0);
                        store!($first + j, 1);
                    }
                });
            )*};
        }
        store_of_eight!(0 32);
    }

    /// Where this warp's 16 rows begin, of a warpgroup's part of D that begins at `origin`.
    #[device_inline]
    fn of_warp(origin: Origin) -> Origin {
        let thread = thread::thread_idx_x();
        let thread = if const { Self::HAS_MANY_SUMS } { hint::opaque(thread) } else { thread };
        let warp = thread % THREADS / warp::WARP_SIZE;
        Origin { row: origin.row + warp * outbox::ROWS as u32, ..origin }
    }

    /// Where this lane's pairs of the `turn`-th [`pairs::COLS`] columns lie, of a warp's part that begins at `origin`,
    /// in an `m x n` matrix.
    #[device_inline]
    fn pairs_at(m: u32, n: u32, origin: Origin, turn: u32) -> PairsAt {
        let lane = warp::lane_id();
        let is_scarce = const { Self::HAS_MANY_SUMS };
        let (g, t) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
        let (row, col) = (origin.row + g, origin.col + turn * pairs::COLS as u32 + 2 * t);
        PairsAt { row, col, m, n, swapped: O::SWAPPED, is_scarce }
    }
}

/// Begins to add the products of a slice to the sums of a piece, and of the piece below it where there is one: as
/// [`WarpgroupTile::begin_products`], for any set of accumulators.
///
/// # Safety
/// As for that.
#[device_inline]
#[track_caller]
pub(super) unsafe fn begin_products<
    T: wgmma::Element,
    A: Major,
    B: Major,
    const SET: usize,
    const N: usize,
    const ROWS: usize,
    const BK: usize,
>(
    sums: &mut Accumulators<N, SET>,
    mut below: Option<&mut Accumulators<N, 1>>,
    (a, row): (BulkPanel<T, A, ROWS, BK>, u32),
    b: BulkPanel<T, B, N, BK>,
    first: bool,
) {
    let (a, b) = (a.operand(row), b.operand(0));
    // SAFETY: as promised by the caller.
    unsafe {
        wgmma::fence();
        unroll!(step < BK / K, {
            let a = BulkPanel::<T, A, ROWS, BK>::step(a, step as u32);
            let b = BulkPanel::<T, B, N, BK>::step(b, step as u32);
            sums.mma_async(a, b, !first || step != 0);
            if let Some(below) = &mut below {
                let a = BulkPanel::<T, A, ROWS, BK>::further(a, M as u32);
                below.mma_async(a, b, !first || step != 0);
            }
        });
        wgmma::commit_group();
    }
}
