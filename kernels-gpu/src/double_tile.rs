//! The part of D that one warp owns in double precision, and the products of tensor cores that build it.
//!
//! # Contract
//! That of [`crate::warp_tile`]: a block of `TM x TN` thread tiles owns `BM x BN` elements of D, a warp `8 TM x 4 TN` of them. Two
//! of a thread's rows by two of its columns are a product of 16 x 8 ([`cuda_std::mma::double`]).
//!
//! Half of a warp's registers are sums. So of the 16 values of k of a step it holds the fragments of all its rows of A, but of B only
//! those of 8 columns, and reads those of the next 8 while it multiplies these. Meanwhile, a few with each 8 columns, it reads
//! the fragments of A for the next step.
//!
//! The sums go to D [through shared memory](crate::sums_on_the_way), where slices are no longer needed by then.

use crate::double_panels::DoubleReader;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::panels::{PanelA, PanelB, Panels};
use crate::params::GemmParams;
use crate::sums_on_the_way::{LANES, SumsOnTheWay};
use crate::tile::Origin;
use core::marker::PhantomData;
use cuda_std::mma::double::{self, SMALLEST_K};
use cuda_std::{shared, thread, unroll, warp};

/// Values of k of a step.
pub const STEP: usize = double::K;

/// Registers of a lane for 8 rows of A, or columns of B, of a step.
const DEEP: usize = STEP / SMALLEST_K;

/// Sums that a thread stores together.
const PAIR: usize = 2;

/// A thread's share of the first fragments of a step: those of all its rows of A, and of its first 8 columns of B.
#[derive(Clone, Copy)]
pub struct DoubleFragments<const TM: usize> {
    a: [[f64; DEEP]; TM],
    b: [f64; DEEP],
}

impl<const TM: usize> DoubleFragments<TM> {
    /// Of zeros.
    pub const ZERO: Self = DoubleFragments { a: [[0.0; DEEP]; TM], b: [0.0; DEEP] };
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
    /// Fragments of B in a step.
    const EIGHTS: usize = TN / 2;
    /// Registers of the next step's A that are read with each 8 columns of this step's B.
    const READ_AHEAD: usize = TM * DEEP / Self::EIGHTS;
    /// Bytes of shared memory that the sums of a block take on their way.
    pub const BYTES: u32 = K::TILE.bm * K::TILE.bn * size_of::<f64>() as u32;

    /// The tile of this thread, all sums zero.
    #[inline(always)]
    #[allow(clippy::new_without_default)] // which thread calls it matters
    pub fn new() -> Self {
        const {
            assert!(
                (TM * DEEP).is_multiple_of(Self::EIGHTS),
                "the same is read ahead with all columns"
            )
        };
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

    /// Reads the fragments of the `eight`-th 8 columns of B.
    ///
    /// # Safety
    /// As for [`first_fragments`](Self::first_fragments).
    #[inline(always)]
    #[track_caller]
    unsafe fn fragment_of_b(&self, step: Step, eight: usize) -> [f64; DEEP] {
        let mut fragment = [0.0; DEEP];
        for four in 0..DEEP {
            // SAFETY: as promised by the caller.
            fragment[four] = unsafe { self.b.read(step.panels.b, eight, step.index * DEEP + four) };
        }
        fragment
    }

    /// Reads the fragments that the products of a step begin with.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panels are written, and nobody writes them before the next barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn first_fragments(&self, step: Step) -> DoubleFragments<TM> {
        let mut fragments = DoubleFragments::ZERO;
        // SAFETY: as promised by the caller.
        unsafe {
            unroll!(i < TM, {
                for four in 0..DEEP {
                    let four_of_panel = step.index * DEEP + four;
                    fragments.a[i][four] = self.a.read(step.panels.a, i, four_of_panel);
                }
            });
            fragments.b = self.fragment_of_b(step, 0);
        }
        fragments
    }

    /// Adds the products of a step, of which the first fragments have been read, and reads the first of the next one.
    ///
    /// # Safety
    /// As for [`first_fragments`](Self::first_fragments), for the panels of both.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn multiply(
        &mut self,
        fragments: &DoubleFragments<TM>,
        step: Step,
        next: Step,
    ) -> DoubleFragments<TM> {
        let mut ahead = DoubleFragments { b: fragments.b, ..DoubleFragments::ZERO };
        // SAFETY: as promised by the caller.
        unsafe {
            unroll!(j < TN / 2, {
                let b = ahead.b;
                ahead.b = if j + 1 < Self::EIGHTS {
                    self.fragment_of_b(step, j + 1)
                } else {
                    self.fragment_of_b(next, 0)
                };
                for i in j * Self::READ_AHEAD..(j + 1) * Self::READ_AHEAD {
                    let (i, four) = (i / DEEP, i % DEEP);
                    let four_of_panel = next.index * DEEP + four;
                    ahead.a[i][four] = self.a.read(next.panels.a, i, four_of_panel);
                }
                for i in 0..TM / 2 {
                    let [upper, lower] = [fragments.a[2 * i], fragments.a[2 * i + 1]];
                    let a = [
                        upper[0], lower[0], upper[1], lower[1], upper[2], lower[2], upper[3],
                        lower[3],
                    ];
                    let c = [
                        self.sums[2 * i][2 * j],
                        self.sums[2 * i][2 * j + 1],
                        self.sums[2 * i + 1][2 * j],
                        self.sums[2 * i + 1][2 * j + 1],
                    ];
                    let d = double::multiply_add(a, b, c);
                    self.sums[2 * i][2 * j] = d[0];
                    self.sums[2 * i][2 * j + 1] = d[1];
                    self.sums[2 * i + 1][2 * j] = d[2];
                    self.sums[2 * i + 1][2 * j + 1] = d[3];
                }
            });
        }
        ahead
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
        let sums = SumsOnTheWay::<f64, PAIR>::new(sums, Self::ROWS, Self::COLS);
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
