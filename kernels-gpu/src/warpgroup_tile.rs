//! The part of D that one warpgroup owns: 64 rows of it, in registers that the compiler never touches.
//!
//! # Contract
//! `N` columns by 64 rows of sums, which [`Accumulators`] holds under names of PTX. A warp has 16 of the rows, two times 8: in
//! each 8 columns a lane has a pair of sums in the upper 8 rows and a pair in the lower, the pairs of [`SumsOnTheWay`].

use crate::bulk_panels::BulkPanel;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::sums_on_the_way::SumsOnTheWay;
use crate::tile::Origin;
use cuda_std::memory::SharedPtr;
use cuda_std::wgmma::{self, Accumulators, K, M, Major, THREADS};
use cuda_std::{hint, thread, unroll, warp};

/// Warps of a warpgroup.
const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// Rows of a warp's sums.
const WARP_ROWS: usize = M / WARPS as usize;

/// Columns of the sums that take the way to D at a time.
const PART_COLS: usize = 64;

/// Rows and columns of sums that a warp holds together: 8 x 8, a pair in each lane.
const EIGHT: usize = 8;

/// Bytes of shared memory that the sums of one warp take on their way.
pub const BYTES_OF_WARP: u32 = (WARP_ROWS * PART_COLS * size_of::<f32>()) as u32;

/// The sums of a warpgroup.
pub struct WarpgroupTile<const N: usize> {
    sums: Accumulators<N>,
}

impl<const N: usize> WarpgroupTile<N> {
    /// The sums, of undefined values.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        // SAFETY: as promised by the caller.
        WarpgroupTile { sums: unsafe { Accumulators::declare() } }
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
                    if const { $first + i < N / 2 } {
                        // SAFETY: as promised by the caller.
                        unsafe { self.sums.set::<{ $first + i }>(0.0) };
                    }
                });
            )*};
        }
        clear!(0 32 64 96);
    }

    /// Begins to add the products of a slice: of 64 rows of A, from the `row`-th of its panel on, and all columns of B. For the
    /// `first` slice of a tile what the sums were before does not count.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together. Nobody writes the panels until the products have been
    /// [waited for](Self::wait).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn begin_products<
        T: wgmma::Element,
        A: Major,
        B: Major,
        const BM: usize,
        const BK: usize,
    >(
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
                self.sums.mma_async(a, b, !first || step > 0);
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

    /// Puts the sums through the epilogue and stores what lies in D, where the warpgroup's part begins at `origin`, by way of
    /// [`BYTES_OF_WARP`] bytes of shared memory from `scratch` on, which are this warp's own.
    ///
    /// # Safety
    /// All lanes of the warp get here together; all products have been waited for. D and the epilogue's operands are valid for
    /// the shapes in `params`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<T: Element<Acc = f32>, E: Epilogue<T>>(
        &self,
        params: &GemmParams<T, E>,
        origin: Origin,
        scratch: SharedPtr<f32>,
    ) {
        const { assert!(N.is_multiple_of(PART_COLS) && N / PART_COLS <= 4, "as many parts") };
        let scratch = SumsOnTheWay::new(scratch, WARP_ROWS, PART_COLS);
        let row =
            origin.row + thread::thread_idx_x() % THREADS / warp::WARP_SIZE * WARP_ROWS as u32;
        // One copy of the epilogue's code for all parts.
        for part in 0..hint::opaque((N / PART_COLS) as u32) {
            // Registers have names and no indices.
            macro_rules! write {
                ($($part:literal)*) => {$(
                    if const { $part < N / PART_COLS } && part == $part {
                        unroll!(j < PART_COLS / EIGHT, {
                            const FIRST: usize = ($part * PART_COLS / EIGHT + j) * 4;
                            // SAFETY: as promised by the caller.
                            unsafe {
                                let upper = [self.sums.get::<FIRST>(), self.sums.get::<{ FIRST + 1 }>()];
                                let lower =
                                    [self.sums.get::<{ FIRST + 2 }>(), self.sums.get::<{ FIRST + 3 }>()];
                                scratch.write(0, j, upper);
                                scratch.write(1, j, lower);
                            }
                        });
                    }
                )*};
            }
            write!(0 1 2 3);
            let col = origin.col + part * PART_COLS as u32;
            // SAFETY: as promised by the caller; the lanes write the next part when all have read this one.
            unsafe {
                scratch.store(params, Origin { row, col });
                warp::sync_warp(warp::FULL_MASK);
            }
        }
    }
}
