//! The part of D that one warp owns in double precision, and the products of tensor cores that build it.
//!
//! # Contract
//! That of [`crate::warp_tile`]: a block of `TM x TN` thread tiles owns `BM x BN` elements of D, a warp `8 TM x 4 TN` of them. Two
//! of a thread's rows by two of its columns are a product of 16 x 8 ([`cuda_std::mma::double`]).
//!
//! Half of a warp's registers are sums. A step is only 4 values of k, so that there is room for the fragments of two: those of the next
//! step are read while those of this one are multiplied, and have all of its time to arrive.
//!
//! The sums go to D [through shared memory](crate::double_sums), where slices are no longer needed by then.

use crate::double_panels::DoubleReader;
use crate::double_sums::{DoubleSums, PAIR};
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::panels::{PanelA, PanelB, Panels};
use crate::params::GemmParams;
use crate::sums_on_the_way::LANES;
use crate::tile::Origin;
use core::marker::PhantomData;
use cuda_std::memory::SharedPtr;
use cuda_std::mma::double;
use cuda_std::{shared, thread, unroll, warp};

/// Values of k of a step.
pub const STEP: usize = double::SMALLEST_K;

/// A lane's elements of what a warp multiplies in a step: one for each 8 rows of A, and one for each 8 columns of B, of which there are half
/// as many as a thread has columns.
#[derive(Clone, Copy)]
pub struct Fragments<const TM: usize, const TN: usize> {
    a: [f64; TM],
    b: [f64; TN],
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

    /// Reads the fragments of step `step` of a slice.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panels are written, and nobody writes them before this warp has said that it has read them.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fragments(&self, panels: Panels, step: usize) -> Fragments<TM, TN> {
        let mut fragments = Fragments { a: [0.0; TM], b: [0.0; TN] };
        for i in 0..TM {
            // SAFETY: as promised by the caller.
            fragments.a[i] = unsafe { self.a.read(panels.a, i, step) };
        }
        for j in 0..TN / 2 {
            // SAFETY: as promised by the caller.
            fragments.b[j] = unsafe { self.b.read(panels.b, j, step) };
        }
        fragments
    }

    /// Adds the products of a step.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn multiply(&mut self, fragments: &Fragments<TM, TN>) {
        let Fragments { a, b } = fragments;
        unroll!(j < TN / 2, {
            for i in 0..TM / 2 {
                let (upper, lower, left, right) = (2 * i, 2 * i + 1, 2 * j, 2 * j + 1);
                let sums = &mut self.sums;
                let c =
                    [sums[upper][left], sums[upper][right], sums[lower][left], sums[lower][right]];
                // SAFETY: as promised by the caller.
                let d = unsafe { double::multiply_add([a[upper], a[lower]], [b[j]], c) };
                [sums[upper][left], sums[upper][right]] = [d[0], d[1]];
                [sums[lower][left], sums[lower][right]] = [d[2], d[3]];
            }
        });
    }

    /// Gives each pair of neighbouring sums to `take`, with its number.
    #[inline(always)]
    pub fn for_each_pair(&self, take: impl Fn(usize, [f64; PAIR])) {
        unroll!(i < TM, {
            unroll!(j < TN / 2, {
                take(i * TN / 2 + j, [self.sums[i][2 * j], self.sums[i][2 * j + 1]]);
            });
        });
    }

    /// Adds to each pair of neighbouring sums what `load` gives for its number.
    #[inline(always)]
    pub fn add_pairs(&mut self, load: impl Fn(usize) -> [f64; PAIR]) {
        unroll!(i < TM, {
            let mut others = [0.0; TN];
            for j in 0..TN / 2 {
                [others[2 * j], others[2 * j + 1]] = load(i * TN / 2 + j);
            }
            for j in 0..TN {
                self.sums[i][j] += others[j];
            }
        });
    }

    /// Puts the sums through the epilogue and stores what lies in D, in vectors where D's rows consist of them.
    ///
    /// # Safety
    /// All lanes of the warp call it together, and no thread reads or writes slices any more, or what other warps have of the
    /// [`BYTES`](Self::BYTES) of dynamic shared memory. D and the epilogue's operands are valid for the shapes in `params`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<E: Epilogue<f64>>(self, params: &GemmParams<f64, E>, origin: Origin) {
        let sums = DoubleSums::new(Self::room(), Self::ROWS, Self::COLS);
        let (row, col) = Self::of_warp();
        let origin = Origin { row: origin.row + row, col: origin.col + col };
        // SAFETY: as promised by the caller; a warp reads what it has written itself.
        unsafe {
            unroll!(i < TM, {
                unroll!(j < TN / 2, {
                    sums.write(i, j, [self.sums[i][2 * j], self.sums[i][2 * j + 1]]);
                });
            });
            sums.store(params, origin);
        }
    }

    /// Where the warp's sums lie in shared memory, when they do: as many as it has.
    #[inline(always)]
    pub fn room() -> SharedPtr<f64> {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        shared::dynamic::<f64>().add(warp * (Self::ROWS * Self::COLS) as u32)
    }
}
