//! The way of tensor cores' sums in f64 to D through shared memory: [`crate::warp::sums_on_the_way`], where a lane's
//! pair is a vector.
//!
//! A quarter of the warp writes at a time, 4 pairs in each of 2 rows, which are half of what fills all banks. Which
//! rows and pairs these are is the [reader's](crate::double::panels::FragmentReader::of_lanes) to say: rows that differ
//! in their first bit or else in their second, and pairs that follow each other or are two and two of a line's halves.
//! So in one of the two rows these change places.

use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::slices::mover::{BANKS_BYTES, VECTOR_BYTES};
use crate::thread_tile::store_vectors;
use crate::tile::Origin;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, hint, warp};

/// Sums that a thread stores together.
pub const PAIR: usize = VECTOR_BYTES / size_of::<f64>();

/// Rows that a thread stores together.
pub const ROWS: usize = 4;

/// Pairs that fill all banks.
const LINE: u32 = (BANKS_BYTES / VECTOR_BYTES) as u32;

/// What the places of pairs are exclusively ored with in one of two rows.
const TURN: u32 = 6;

/// Pairs of a row that lanes store in a turn: a power of two of them, all or a part.
pub const fn pairs_of_turn(cols: usize) -> usize {
    1 << (cols / PAIR).trailing_zeros()
}

/// Whether a row of so many sums fills all banks once, or several times.
pub const fn fills_banks(cols: usize) -> bool {
    cols.is_multiple_of(LINE as usize * PAIR)
}

/// Rows that lanes store in a turn, each so many of them at a time.
pub const fn rows_of_turn(cols: usize, rows: usize) -> usize {
    warp::WARP_SIZE as usize / pairs_of_turn(cols) * rows
}

/// Rows of which some may lie apart from the others in D.
const FOUR: u32 = ROWS as u32;

/// Room for `ROWS x COLS` sums of a warp.
#[derive(Clone, Copy)]
pub struct DoubleSums {
    /// The first of them, aligned to 16 bytes.
    sums: SharedPtr<f64>,
    rows: u32,
    cols: u32,
    /// Rows of D from the first of four rows to the first of the next four.
    four: u32,
}

impl DoubleSums {
    /// Room for a warp's sums, `rows * cols` of them from `sums` on. Both are constants, and rows [fill all
    /// banks](fills_banks). In D every four rows begin `four` below the four before.
    #[device_inline]
    pub fn new(sums: SharedPtr<f64>, rows: usize, cols: usize, four: u32) -> Self {
        DoubleSums { sums, rows: rows as u32, cols: cols as u32, four }
    }

    /// Where a pair of a row lies.
    #[device_inline]
    fn place(&self, row: u32, pair: u32) -> SharedPtr<f64> {
        let swizzled = pair ^ ((row ^ row >> 1) % 2 * TURN);
        self.sums.add(row * self.cols + swizzled * PAIR as u32)
    }

    /// Writes a pair of neighbouring sums, the `pair`-th of a row.
    ///
    /// # Safety
    /// None of the lanes reads it at that time.
    #[device_inline]
    #[track_caller]
    pub unsafe fn write(&self, row: u32, pair: u32, sums: [f64; PAIR]) {
        // SAFETY: as promised by the caller.
        unsafe { self.place(row, pair).store_vec(sums) };
    }

    /// Puts the sums, which begin at `origin` in D, through the epilogue and stores what lies in D, in vectors where
    /// D's rows consist of them, a lane `R` rows at a time.
    ///
    /// # Safety
    /// All lanes get here together, and all parts are written. D and the epilogue's operands are valid for the shapes
    /// in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<const R: usize, E: Epilogue<f64>>(
        &self,
        params: &GemmParams<f64, E>,
        origin: Origin,
    ) {
        let pairs = pairs_of_turn(self.cols as usize) as u32;
        let parts = self.cols / PAIR as u32 / pairs;
        let wide = params.d.has_vectors(PAIR as u32) && params.n.is_multiple_of(PAIR as u32);
        // Lanes have the same columns of several rows each.
        let rows_of_turn = rows_of_turn(self.cols as usize, R) as u32;
        debug_assert!(self.rows.is_multiple_of(rows_of_turn), "turns have all rows");
        let (first, pair) = (warp::lane_id() / pairs * R as u32, warp::lane_id() % pairs);
        // SAFETY: as promised by the caller; all lanes are here.
        unsafe { warp::sync_warp(warp::FULL_MASK) };
        for turn in 0..hint::opaque(self.rows / rows_of_turn * parts) {
            let (row, pair) = (turn / parts * rows_of_turn + first, turn % parts * pairs + pair);
            let mut values = [[0.0; PAIR]; R];
            for (i, values) in (0..).zip(&mut values) {
                // SAFETY: the warp has written all parts.
                *values = unsafe { self.place(row + i, pair).load_vec::<PAIR>() };
            }
            let row = origin.row + row / FOUR * self.four + row % FOUR;
            let col = origin.col + pair * PAIR as u32;
            if row < params.m && col < params.n {
                // SAFETY: as promised by the caller; the first vector starts inside of D.
                unsafe { store_vectors(params, row, col, &mut values, wide) };
            }
        }
    }
}
