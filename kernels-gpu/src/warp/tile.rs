//! The part of D that one warp owns, and the products of tensor cores that build it.
//!
//! # Contract
//! A block of `TM x TN` thread tiles owns `BM x BN` elements of D, a warp `8 TM x 4 TN` of them; warps lie side by
//! side, row by row. A thread has those elements that the instruction gives it ([`cuda_std::mma`]): with `g = lane / 4`
//! and `t = lane % 4`, its row `i` is row `g` of the warp's `i`-th 8, and its columns `2j` and `2j + 1` are columns
//! `2t` and `2t + 1` of the warp's `j`-th 8. Two of its rows by two of its columns are one instruction of 16 x 8.
//!
//! The sums go to D [through shared memory](crate::warp::sums_on_the_way), where slices are no longer needed by then.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::params::GemmParams;
use crate::tile::Origin;
use crate::warp::panels::{PanelA, PanelB, Panels, Reader};
use crate::warp::sums_on_the_way::{LANES, LINE, SumsOnTheWay};
use core::marker::PhantomData;
use cuda_std::mma::{self, Factor, FragmentA, FragmentB};
use cuda_std::{device_inline, shared, thread, unroll, warp};

/// A thread's share of as many columns of A and rows of B as an instruction takes: two registers for each of its rows,
/// one for each of its columns.
#[derive(Clone, Copy)]
pub struct Fragments<const TM: usize, const TN: usize> {
    a: [[u32; 2]; TM],
    b: [u32; TN],
}

impl<const TM: usize, const TN: usize> Fragments<TM, TN> {
    /// Of zeros.
    pub const ZERO: Self = Fragments { a: [[0; 2]; TM], b: [0; TN] };

    /// What instructions take in their place.
    #[device_inline]
    fn to_operands<T: Factor>(mut self) -> Self {
        unroll!(i < TM, {
            self.a[i] = [T::to_operand(self.a[i][0]), T::to_operand(self.a[i][1])];
        });
        unroll!(j < TN, {
            self.b[j] = T::to_operand(self.b[j]);
        });
        self
    }
}

/// Sums of a thread, in the order of the contract.
#[derive(Clone, Copy)]
pub struct Sums<const TM: usize, const TN: usize>(pub [[f32; TN]; TM]);

impl<const TM: usize, const TN: usize> Sums<TM, TN> {
    /// Of zeros.
    pub const ZERO: Self = Sums([[0.0; TN]; TM]);

    /// Adds the products of the `i`-th 16 rows of A and the `j`-th 8 columns of B.
    ///
    /// # Safety
    /// All lanes of the warp call it together, each with its share of the same values of k.
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply_add<T: Factor>(
        &mut self,
        (i, a): (usize, FragmentA),
        (j, b): (usize, FragmentB),
    ) {
        let c = [
            self.0[2 * i][2 * j],
            self.0[2 * i][2 * j + 1],
            self.0[2 * i + 1][2 * j],
            self.0[2 * i + 1][2 * j + 1],
        ];
        // SAFETY: as promised by the caller.
        let d = unsafe { mma::multiply_add::<T>(a, b, c) };
        self.0[2 * i][2 * j] = d[0];
        self.0[2 * i][2 * j + 1] = d[1];
        self.0[2 * i + 1][2 * j] = d[2];
        self.0[2 * i + 1][2 * j + 1] = d[3];
    }
}

/// A thread's part of the sums of its warp's part of D.
pub struct WarpTile<K: GemmKernel, const TM: usize, const TN: usize> {
    /// The sums.
    pub sums: Sums<TM, TN>,
    /// The thread's part in reading fragments.
    pub a: Reader<PanelA<K>>,
    /// The same of B.
    pub b: Reader<PanelB<K>>,
    kernel: PhantomData<K>,
}

impl<T: Element<Acc = f32> + Factor, K: GemmKernel<Element = T>, const TM: usize, const TN: usize>
    WarpTile<K, TM, TN>
{
    /// Rows and columns of D that a warp owns.
    const ROWS: usize = LANES.0 * TM;
    const COLS: usize = LANES.1 * TN;
    /// Warps along a row of the block's tile.
    const WARPS_N: usize = K::TILE.bn as usize / Self::COLS;
    /// Bytes of shared memory that the sums of a block take on their way.
    pub const BYTES: u32 = K::TILE.bm * K::TILE.bn * size_of::<f32>() as u32;

    /// The tile of this thread, all sums zero.
    #[device_inline]
    #[allow(clippy::new_without_default)] // which thread calls it matters
    pub fn new() -> Self {
        const {
            let is_whole = TM.is_multiple_of(2) && TN.is_multiple_of(4);
            assert!(is_whole, "instructions take rows and columns of a thread together");
        };
        let (row, col) = Self::of_warp();
        WarpTile { sums: Sums::ZERO, a: Reader::new(row), b: Reader::new(col), kernel: PhantomData }
    }

    /// First row and column of the warp's part of the block's tile.
    #[device_inline]
    pub fn of_warp() -> (u32, u32) {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let warps = Self::WARPS_N as u32;
        (warp / warps * Self::ROWS as u32, warp % warps * Self::COLS as u32)
    }

    /// Reads a thread's share of the `step`-th values of k that an instruction takes.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panels are written, and nobody writes them before the next barrier.
    #[device_inline]
    #[track_caller]
    pub unsafe fn fragments(&self, panels: Panels, step: usize) -> Fragments<TM, TN> {
        let mut fragments = Fragments::ZERO;
        // SAFETY: as promised by the caller.
        unsafe {
            unroll!(i < TM / 2, {
                let [a0, a1, a2, a3] = self.a.read::<T>(panels.a, i, step);
                fragments.a[2 * i] = [a0, a2];
                fragments.a[2 * i + 1] = [a1, a3];
            });
            unroll!(j < TN / 4, {
                let b = self.b.read::<T>(panels.b, j, step);
                fragments.b[4 * j..4 * j + 4].copy_from_slice(&b);
            });
        }
        fragments
    }

    /// Adds the products of fragments. Every other row of instructions backwards: each then shares a fragment with the
    /// one before it. Not until now are they rounded, where they have to be: nothing waits for fragments that are on
    /// their way.
    ///
    /// # Safety
    /// All lanes of the warp call it together, each with its share of the same values of k.
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply(&mut self, fragments: &Fragments<TM, TN>) {
        let fragments = fragments.to_operands::<T>();
        unroll!(i < TM / 2, {
            unroll!(jj < TN / 2, {
                let j = if i.is_multiple_of(2) { jj } else { TN / 2 - 1 - jj };
                let [[a0, a2], [a1, a3]] = [fragments.a[2 * i], fragments.a[2 * i + 1]];
                let b = [fragments.b[2 * j], fragments.b[2 * j + 1]];
                // SAFETY: as promised by the caller.
                unsafe { self.sums.multiply_add::<T>((i, [a0, a1, a2, a3]), (j, b)) };
            });
        });
    }

    /// Puts the sums through the epilogue and stores what lies in D, in vectors where D's rows consist of them.
    ///
    /// # Safety
    /// All threads of the block call it together, and none reads or writes slices any more. There are
    /// [`BYTES`](Self::BYTES) of dynamic shared memory. D and the epilogue's operands are valid for the shapes in
    /// `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<E: Epilogue<K::Target>>(
        self,
        params: &GemmParams<T, E, K::Target>,
        origin: Origin,
    ) {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let sums = shared::dynamic::<f32>().add(warp * (Self::ROWS * Self::COLS) as u32);
        const { assert!(Self::COLS.is_multiple_of(LINE), "rows of sums fill all banks") };
        let sums = SumsOnTheWay::new(sums, Self::ROWS, Self::COLS);
        let (row, col) = Self::of_warp();
        let origin = Origin { row: origin.row + row, col: origin.col + col };
        // SAFETY: as promised by the caller; a warp reads what it has written itself.
        unsafe {
            thread::sync_threads();
            unroll!(i < TM, {
                unroll!(j < TN / 2, {
                    sums.write(i, j, [self.sums.0[i][2 * j], self.sums.0[i][2 * j + 1]]);
                });
            });
            sums.store(params, origin);
        }
    }
}
