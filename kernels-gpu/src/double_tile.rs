//! The part of D that one warp owns in double precision, and the products of tensor cores that build it.
//!
//! # Contract
//! That of [`crate::warp_tile`]: a block of `TM x TN` thread tiles owns `BM x BN` elements of D, a warp `8 TM x 4 TN` of them. Two
//! of a thread's rows by two of its columns are a product of 16 x 8 ([`cuda_std::mma::double`]).
//!
//! Half of a warp's registers are sums, and there is no room for the fragments of two steps beside them. A step is 16 values of k,
//! and its order is made for reading each fragment shortly before it is needed, when the one that was there is not any more:
//!
//! 1. B comes by pairs of fragments, 8 columns each: the next pair is read while this one is multiplied with all of A.
//! 2. The first pair and the first 16 rows of A have been read with the last pair of the step before, so that a step begins with
//!    products.
//! 3. These keep the tensor cores busy while the other rows of A are read.
//!
//! In between the caller may do something else, such as copies: a product takes 64 clocks, in which a warp can issue as many
//! instructions that do not need it.
//!
//! The sums go to D [through shared memory](crate::double_sums), where slices are no longer needed by then.

use crate::double_panels::DoubleReader;
use crate::double_sums::DoubleSums;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::panels::{PanelA, PanelB, Panels};
use crate::params::GemmParams;
use crate::sums_on_the_way::LANES;
use crate::tile::Origin;
use core::marker::PhantomData;
use cuda_std::mma::double::{self, SMALLEST_K};
use cuda_std::{shared, thread, unroll, warp};

/// Values of k of a step.
pub const STEP: usize = double::K;

/// Registers of a lane for 8 rows of A, or columns of B, of a step.
const DEEP: usize = STEP / SMALLEST_K;

/// Fragments of B that are read together.
const TOGETHER: usize = 2;

/// Rows of A and columns of B of which a warp reads the fragments before a step.
pub const AHEAD: usize = double::M + TOGETHER * double::N;

/// A lane's registers for 16 rows of A, and for 8 columns of B.
type OfRows = [f64; 2 * DEEP];
type OfCols = [f64; DEEP];

/// A thread's share of the first fragments of a step: those of its first 16 rows of A, and of its first two times 8 columns of B.
#[derive(Clone, Copy)]
pub struct FirstFragments {
    a: OfRows,
    b: [OfCols; TOGETHER],
}

impl FirstFragments {
    /// Of zeros.
    pub const ZERO: Self = FirstFragments { a: [0.0; 2 * DEEP], b: [[0.0; DEEP]; TOGETHER] };
}

/// A step of a warp: panels, and which 16 values of k in them.
#[derive(Clone, Copy)]
pub struct Step {
    /// The panels.
    pub panels: Panels,
    /// The step, counted from the start of the panels.
    pub index: usize,
}

/// A thread's part of the sums of its warp's part of D.
pub struct DoubleTile<K: GemmKernel, const TM: usize, const TN: usize> {
    sums: [[f64; TN]; TM],
    a: DoubleReader<PanelA<K>>,
    b: DoubleReader<PanelB<K>>,
    kernel: PhantomData<K>,
}

impl<K: GemmKernel<Element = f64>, const TM: usize, const TN: usize> DoubleTile<K, TM, TN> {
    /// Rows and columns of D that a warp owns.
    const ROWS: usize = LANES.0 * TM;
    const COLS: usize = LANES.1 * TN;
    /// Warps along a row of the block's tile.
    const WARPS_N: usize = K::TILE.bn as usize / Self::COLS;
    /// Pairs of fragments of B in a step: the parts of what the caller does meanwhile.
    pub const PAIRS: usize = TN / 2 / TOGETHER;
    /// Bytes of shared memory that the sums of a block take on their way.
    pub const BYTES: u32 = K::TILE.bm * K::TILE.bn * size_of::<f64>() as u32;

    /// The tile of this thread, all sums zero.
    #[inline(always)]
    #[allow(clippy::new_without_default)] // which thread calls it matters
    pub fn new() -> Self {
        let (row, col) = Self::of_warp();
        DoubleTile {
            sums: [[0.0; TN]; TM],
            a: DoubleReader::new(row),
            b: DoubleReader::new(col),
            kernel: PhantomData,
        }
    }

    /// First row and column of the warp's part of the block's tile.
    #[inline(always)]
    fn of_warp() -> (u32, u32) {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let warps = Self::WARPS_N as u32;
        (warp / warps * Self::ROWS as u32, warp % warps * Self::COLS as u32)
    }

    /// Reads the fragment of the `i`-th 16 rows of A.
    ///
    /// # Safety
    /// As for [`first_fragments`](Self::first_fragments).
    #[inline(always)]
    #[track_caller]
    unsafe fn of_rows(&self, step: Step, i: usize) -> OfRows {
        let mut fragment = [0.0; 2 * DEEP];
        for r in 0..2 * DEEP {
            let (eight, four) = (2 * i + r % 2, step.index * DEEP + r / 2);
            // SAFETY: as promised by the caller.
            fragment[r] = unsafe { self.a.read(step.panels.a, eight, four) };
        }
        fragment
    }

    /// Reads the `pair`-th pair of fragments of B.
    ///
    /// # Safety
    /// As for [`first_fragments`](Self::first_fragments).
    #[inline(always)]
    #[track_caller]
    unsafe fn of_cols(&self, step: Step, pair: usize) -> [OfCols; TOGETHER] {
        let mut fragments = [[0.0; DEEP]; TOGETHER];
        for j in 0..TOGETHER {
            for r in 0..DEEP {
                let (eight, four) = (pair * TOGETHER + j, step.index * DEEP + r);
                // SAFETY: as promised by the caller.
                fragments[j][r] = unsafe { self.b.read(step.panels.b, eight, four) };
            }
        }
        fragments
    }

    /// Reads the fragments that the products of a step begin with.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panels are written, and nobody writes them before the next barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn first_fragments(&self, step: Step) -> FirstFragments {
        // SAFETY: as promised by the caller.
        unsafe { FirstFragments { a: self.of_rows(step, 0), b: self.of_cols(step, 0) } }
    }

    /// Adds the products of the `i`-th 16 rows of A and a pair of fragments of B.
    ///
    /// # Safety
    /// As for [`first_fragments`](Self::first_fragments).
    #[inline(always)]
    #[track_caller]
    unsafe fn multiply_pair(&mut self, i: usize, a: OfRows, pair: usize, b: [OfCols; TOGETHER]) {
        for jj in 0..TOGETHER {
            let j = 2 * (pair * TOGETHER + jj);
            let [upper, lower] = [self.sums[2 * i], self.sums[2 * i + 1]];
            let c = [upper[j], upper[j + 1], lower[j], lower[j + 1]];
            // SAFETY: as promised by the caller.
            let d = unsafe { double::multiply_add(a, b[jj], c) };
            (self.sums[2 * i][j], self.sums[2 * i][j + 1]) = (d[0], d[1]);
            (self.sums[2 * i + 1][j], self.sums[2 * i + 1][j + 1]) = (d[2], d[3]);
        }
    }

    /// Adds the products of a step, of which the first fragments have been read, reads the first of the next one instead, and does
    /// [so many](Self::PAIRS) parts of something else on the way.
    ///
    /// # Safety
    /// As for [`first_fragments`](Self::first_fragments), for the panels of both.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn multiply(
        &mut self,
        fragments: &mut FirstFragments,
        step: Step,
        next: Step,
        mut meanwhile: impl FnMut(usize),
    ) {
        const { assert!(TM == 4 && TN.is_multiple_of(2 * TOGETHER), "two times 16 rows of A") };
        let mut others = [0.0; 2 * DEEP];
        // SAFETY: as promised by the caller.
        unsafe {
            unroll!(pair < TN / 2 / TOGETHER, {
                let last = pair == Self::PAIRS - 1;
                let b = fragments.b;
                fragments.b =
                    if last { self.of_cols(next, 0) } else { self.of_cols(step, pair + 1) };
                self.multiply_pair(0, fragments.a, pair, b);
                if pair == 0 {
                    others = self.of_rows(step, 1);
                }
                if last {
                    fragments.a = self.of_rows(next, 0);
                }
                meanwhile(pair);
                self.multiply_pair(1, others, pair, b);
            });
        }
    }

    /// Puts the sums through the epilogue and stores what lies in D, in vectors where D's rows consist of them.
    ///
    /// # Safety
    /// All threads of the block call it together, and none reads or writes slices any more. There are [`BYTES`](Self::BYTES) of
    /// dynamic shared memory. D and the epilogue's operands are valid for the shapes in `params`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<E: Epilogue<D>, D: Element<Acc = f64>>(
        self,
        params: &GemmParams<f64, E, D>,
        origin: Origin,
    ) {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let sums = shared::dynamic::<f64>().add(warp * (Self::ROWS * Self::COLS) as u32);
        let sums = DoubleSums::new(sums, Self::ROWS, Self::COLS);
        let (row, col) = Self::of_warp();
        let origin = Origin { row: origin.row + row, col: origin.col + col };
        // SAFETY: as promised by the caller; a warp reads what it has written itself.
        unsafe {
            thread::sync_threads();
            unroll!(i < TM, {
                unroll!(j < TN / 2, {
                    sums.write(i, j, [self.sums[i][2 * j], self.sums[i][2 * j + 1]]);
                });
            });
            sums.store(params, origin);
        }
    }
}
