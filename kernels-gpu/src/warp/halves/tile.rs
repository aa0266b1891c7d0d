//! The part of D that one warp owns, as [`crate::warp::tile`] has it, and its products of halves.

use super::BK;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::prepare::split::{Halved, LOW_FACTOR};
use crate::tile::Origin;
use crate::warp::panels::Panels;
use crate::warp::sums_on_the_way::LANES;
use crate::warp::tile::{Sums, WarpTile};
use crate::warpgroup::halves::scale::{divided, exponent};
use cuda_std::mma::{FragmentA, K as STEP};
use cuda_std::{device_inline, unroll, warp};
use half::f16;

/// Steps of 16 values of k in a slice.
const STEPS: usize = BK / STEP;

/// A thread's share of 16 rows of A in a slice.
type Rows = Halved<[FragmentA; STEPS]>;

/// The same of all the warp's columns of B.
type Cols<const TN: usize> = Halved<[[u32; TN]; STEPS]>;

/// A thread's part of the sums, and the fragments that are multiplied next.
pub(super) struct HalvesTile<K: GemmKernel, const TM: usize, const TN: usize> {
    /// The sums, and how fragments are read.
    tile: WarpTile<K, TM, TN>,
    /// Sums of low halves, which are multiplied by [`LOW_FACTOR`].
    low: Sums<TM, TN>,
    /// The panels of the slice that is multiplied, of high and of low halves.
    panels: [Panels; 2],
    rows: Rows,
    cols: Cols<TN>,
}

impl<K: GemmKernel<Element = f16, Target = f32>, const TM: usize, const TN: usize>
    HalvesTile<K, TM, TN>
{
    /// The tile of this thread, all sums zero.
    #[device_inline]
    pub fn new() -> Self {
        HalvesTile {
            tile: WarpTile::new(),
            low: Sums::ZERO,
            panels: [0, 1].map(Panels::of_stage::<K>),
            rows: Halved { high: [[0; 4]; STEPS], low: [[0; 4]; STEPS] },
            cols: Halved { high: [[0; TN]; STEPS], low: [[0; TN]; STEPS] },
        }
    }

    /// Reads the fragments of the `i`-th 16 rows of A.
    ///
    /// # Safety
    /// As for [`begin`](Self::begin).
    #[device_inline]
    #[track_caller]
    unsafe fn read_rows(&mut self, i: usize) {
        let [high, low] = self.panels;
        // SAFETY: as promised by the caller.
        unsafe {
            for step in 0..STEPS {
                self.rows.high[step] = self.tile.a.read::<f16>(high.a, i, step);
                self.rows.low[step] = self.tile.a.read::<f16>(low.a, i, step);
            }
        }
    }

    /// Reads the fragments of all columns of B.
    ///
    /// # Safety
    /// As for [`begin`](Self::begin).
    #[device_inline]
    #[track_caller]
    unsafe fn read_cols(&mut self) {
        let [high, low] = self.panels;
        // SAFETY: as promised by the caller.
        unsafe {
            for step in 0..STEPS {
                unroll!(j < TN / 4, {
                    let of_high = self.tile.b.read::<f16>(high.b, j, step);
                    let of_low = self.tile.b.read::<f16>(low.b, j, step);
                    self.cols.high[step][4 * j..4 * j + 4].copy_from_slice(&of_high);
                    self.cols.low[step][4 * j..4 * j + 4].copy_from_slice(&of_low);
                });
            }
        }
    }

    /// Reads the fragments that the products of a slice begin with.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panels are written, and nobody writes them before the slice has been
    /// multiplied.
    #[device_inline]
    #[track_caller]
    pub unsafe fn begin(&mut self, panels: [Panels; 2]) {
        self.panels = panels;
        // SAFETY: as promised by the caller.
        unsafe {
            self.read_cols();
            self.read_rows(0);
        }
    }

    /// Adds the products of the slice that has been begun, and begins the next one, if `next` gives its panels, on the
    /// way.
    ///
    /// # Safety
    /// As for [`Slices::multiply`](crate::warp::pipeline::Slices::multiply).
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply(&mut self, next: impl FnOnce() -> Option<[Panels; 2]>) {
        let mut next = Some(next);
        // SAFETY: as promised by the caller; nothing is done with fragments of a slice that is not there.
        unsafe {
            unroll!(i < TM / 2, {
                let last = i == TM / 2 - 1;
                let rows = self.rows;
                if last && let Some(panels) = next.take().and_then(|next| next()) {
                    self.panels = panels;
                }
                self.read_rows(if last { 0 } else { i + 1 });
                self.multiply_rows(i, &rows);
            });
            self.read_cols();
        }
    }

    /// Adds the products of the `i`-th 16 rows of A: those of low halves to their sums, those of high ones to sums that
    /// begin at zero, which are then added to the thread's own.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[device_inline]
    #[track_caller]
    unsafe fn multiply_rows(&mut self, i: usize, rows: &Rows) {
        let mut high = Sums::<2, TN>::ZERO;
        // SAFETY: as promised by the caller.
        unsafe {
            for step in 0..STEPS {
                let (a_high, a_low) = (rows.high[step], rows.low[step]);
                let (b_high, b_low) = (self.cols.high[step], self.cols.low[step]);
                unroll!(j < TN / 2, {
                    high.multiply_add::<f16>((0, a_high), (j, [b_high[2 * j], b_high[2 * j + 1]]));
                });
                unroll!(j < TN / 2, {
                    self.low
                        .multiply_add::<f16>((i, a_high), (j, [b_low[2 * j], b_low[2 * j + 1]]));
                });
                unroll!(j < TN / 2, {
                    self.low
                        .multiply_add::<f16>((i, a_low), (j, [b_high[2 * j], b_high[2 * j + 1]]));
                });
            }
        }
        for r in 0..2 {
            unroll!(j < TN, {
                self.tile.sums.0[2 * i + r][j] += high.0[r][j];
            });
        }
    }

    /// Finishes the sums, puts them through the epilogue and stores what lies in D.
    ///
    /// # Safety
    /// As for [`WarpTile::store`]; the parameters have the lines of both factors, unless there is no depth.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<E: Epilogue<f32>>(
        mut self,
        p: &GemmParams<f16, E, f32>,
        Origin { row, col }: Origin,
    ) {
        if p.k > 0 {
            let (first_row, first_col) = WarpTile::<K, TM, TN>::of_warp();
            let lane = warp::lane_id();
            let first_row = row + first_row + lane / LANES.1 as u32;
            let first_col = col + first_col + lane % LANES.1 as u32 * 2;
            let mut of_cols = [0; TN];
            // SAFETY: lines are loaded where there are some.
            unsafe {
                unroll!(j < TN, {
                    let col = first_col + (j / 2 * LANES.0 + j % 2) as u32;
                    of_cols[j] = exponent(p.b, col, p.n);
                });
                unroll!(i < TM, {
                    let of_row = exponent(p.a, first_row + (i * LANES.0) as u32, p.m);
                    unroll!(j < TN, {
                        let sum = self.tile.sums.0[i][j] + self.low.0[i][j] * (1.0 / LOW_FACTOR);
                        self.tile.sums.0[i][j] = divided(sum, of_row, of_cols[j]);
                    });
                });
            }
        }
        // SAFETY: as promised by the caller.
        unsafe { self.tile.store(p, Origin { row, col }) }
    }
}
