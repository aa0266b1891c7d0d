//! The micro-kernel: the part of D that one thread owns, in registers, and the outer products that build it.
//!
//! # Contract
//! A block of `(BM / TM) x (BN / TN)` threads owns `BM x BN` elements of D; thread `(y, x)` of it, counted row by row,
//! owns `TM x TN` of them. Its rows and columns come in vectors of 16 bytes, one vector of each from every thread
//! before the next of the first: consecutive threads then read consecutive vectors of shared memory, which is free of
//! bank conflicts, and store consecutive vectors of D.
//!
//! The slice of A lies transposed in shared memory ([`crate::slices`]), so that a thread's column of A is made of
//! vectors just as its row of B is.

mod hand_over;
mod parked;
pub mod store_rows;

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{Acc, GemmKernel};
use crate::params::GemmParams;
use crate::slices::mover::{VECTOR_BYTES, vector_len};
use crate::slices::{SWIZZLED_ROWS, Slices, swizzled};
use crate::tile::Origin;
use core::marker::PhantomData;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, hint, thread, unroll};

/// Elements in a vector of a thread's `owned` rows or columns.
const fn lane_vector<A>(owned: usize) -> usize {
    if owned < vector_len::<A>() { owned } else { vector_len::<A>() }
}

/// How the threads of a block share out its tile: in groups of threads that own one part of it together. Threads of a
/// group take turns with vectors of rows and columns of that part; groups lie side by side, row by row.
pub trait Arrangement<K: GemmKernel> {
    /// Threads of a group along a column and along a row of its part.
    const GROUP: (usize, usize);
}

/// One group: the whole block. A row of the tile is read and stored by consecutive threads.
pub struct AcrossBlock;

impl<K: GemmKernel> Arrangement<K> for AcrossBlock {
    const GROUP: (usize, usize) =
        ((K::TILE.bm / K::TILE.tm) as usize, (K::TILE.bn / K::TILE.tn) as usize);
}

/// Thread tiles of a warp along a column and along a row of its part: [`InWarps`].
pub const WARP_TILE: (usize, usize) = (4, 8);

/// Warps: each multiplies a part of its own, as square as 32 thread tiles allow, so that its threads share more of what
/// they read from shared memory.
pub struct InWarps;

impl<K: GemmKernel> Arrangement<K> for InWarps {
    const GROUP: (usize, usize) = WARP_TILE;
}

/// A thread's share of a column of A and of a row of B, for one k.
#[derive(Clone, Copy)]
pub struct Fragments<A, const TM: usize, const TN: usize> {
    /// Of the column of A.
    pub a: [A; TM],
    /// Of the row of B.
    pub b: [A; TN],
}

/// The sums of `TM x TN` elements of D.
pub struct ThreadTile<K: GemmKernel, const TM: usize, const TN: usize, P = AcrossBlock> {
    pub(crate) sums: [[Acc<K>; TN]; TM],
    /// The first of the thread's rows in the block's tile.
    row: usize,
    /// The first of the thread's columns in the block's tile.
    col: usize,
    /// The first of the values of k of every slice that the thread multiplies.
    first: usize,
    arrangement: PhantomData<P>,
}

impl<K: GemmKernel, const TM: usize, const TN: usize, P: Arrangement<K>> ThreadTile<K, TM, TN, P> {
    /// Groups that lie along a row of the block's tile.
    pub(crate) const GROUPS_N: usize = K::TILE.bn as usize / (TN * P::GROUP.1);
    pub(crate) const ROW_VECTOR: usize = lane_vector::<Acc<K>>(TM);
    /// Columns of the thread that lie side by side.
    pub const COL_VECTOR: usize = lane_vector::<Acc<K>>(TN);
    /// From one of a thread's vectors of rows to the next.
    pub(crate) const ROW_STEP: usize = P::GROUP.0 * Self::ROW_VECTOR;
    pub(crate) const COL_STEP: usize = P::GROUP.1 * Self::COL_VECTOR;
    /// Values of k for which the multiplications are written out, so that loads for one can overlap with
    /// multiplications of another. More than this and the compiler declines.
    const UNROLL: u32 = 8;
    /// Times that so many values of k may be written out one after another.
    const WRITTEN_OUT: u32 = 2;

    /// The tile of this thread, all sums zero.
    #[device_inline]
    #[allow(clippy::new_without_default)] // which thread calls it matters
    pub fn new() -> Self {
        const {
            let is_whole =
                TM.is_multiple_of(Self::ROW_VECTOR) && TN.is_multiple_of(Self::COL_VECTOR);
            assert!(is_whole, "rows and columns of a thread are whole vectors");
            let (bm, bn) = (K::TILE.bm as usize, K::TILE.bn as usize);
            let (rows, cols) = P::GROUP;
            let is_tiled = bm.is_multiple_of(TM * rows) && bn.is_multiple_of(TN * cols);
            assert!(is_tiled, "groups of threads tile the block's tile");
        };
        let thread = thread_of_tile::<K>() as usize;
        let (rows, cols) = P::GROUP;
        let (group, member) = (thread / (rows * cols), thread % (rows * cols));
        ThreadTile {
            sums: [[Acc::<K>::ZERO; TN]; TM],
            row: group / Self::GROUPS_N * (TM * rows) + member / cols * Self::ROW_VECTOR,
            col: group % Self::GROUPS_N * (TN * cols) + member % cols * Self::COL_VECTOR,
            first: (depth_group::<K>() * own_depth::<K>()) as usize,
            arrangement: PhantomData,
        }
    }

    /// Adds the product of the slices: for each of the `BK` values of k, the outer product of a column of A and a row
    /// of B, `TM + TN` loads for `TM * TN` multiply-adds.
    ///
    /// # Safety
    /// All of the slices is written, and no thread writes them before the next barrier.
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply(&mut self, slices: &Slices<K>) {
        // SAFETY: as promised by the caller.
        unsafe { self.multiply_steps(slices, K::TILE.bk) }
    }

    /// [`multiply`](Self::multiply) for the first `steps` values of k alone; `steps` should be a constant.
    ///
    /// # Safety
    /// As for [`multiply`](Self::multiply); the slices are at least so deep.
    #[device_inline]
    #[track_caller]
    pub unsafe fn multiply_steps(&mut self, slices: &Slices<K>, steps: u32) {
        const { assert!(!Slices::<K>::B_IS_SWIZZLED, "rows of B lie as they are") }
        let unroll = if steps.is_multiple_of(Self::UNROLL) { Self::UNROLL } else { 1 };
        // A deep slice written out completely would take more registers than it saves branches.
        let rounds = steps / unroll;
        let rounds = if rounds > Self::WRITTEN_OUT { hint::opaque(rounds) } else { rounds };
        let mut column_of_a = slices.a.add(self.row as u32);
        let mut row_of_b = slices.b.add(self.col as u32);
        for _ in 0..rounds {
            for _ in 0..unroll {
                // SAFETY: as promised by the caller.
                let fragments = unsafe { Self::load(column_of_a, row_of_b) };
                self.add_rows(&fragments);
                column_of_a = column_of_a.add(Slices::<K>::A_STRIDE as u32);
                row_of_b = row_of_b.add(Slices::<K>::B_STRIDE as u32);
            }
        }
    }

    /// Reads the thread's share of the first column of A and row of B in the slices that its group multiplies: those
    /// `step` values of k behind a multiple of [`SWIZZLED_ROWS`].
    ///
    /// # Safety
    /// The slices hold at least one k, which is written, and no thread writes it before the next barrier.
    #[device_inline]
    #[track_caller]
    pub unsafe fn fragments(&self, slices: &Slices<K>, step: u32) -> Fragments<Acc<K>, TM, TN> {
        const {
            let banks = SWIZZLED_ROWS * vector_len::<Acc<K>>();
            let alike = Self::COL_STEP.is_multiple_of(banks)
                && own_depth::<K>().is_multiple_of(SWIZZLED_ROWS as u32);
            assert!(!Slices::<K>::B_IS_SWIZZLED || alike, "vectors and groups are swizzled alike");
        }
        let column_of_a = slices.a.add((self.first * Slices::<K>::A_STRIDE + self.row) as u32);
        let col = if Slices::<K>::B_IS_SWIZZLED {
            swizzled::<Acc<K>>(step as usize, self.col)
        } else {
            self.col
        };
        let row_of_b = slices.b.add((self.first * Slices::<K>::B_STRIDE + col) as u32);
        // SAFETY: as promised by the caller.
        unsafe { Self::load(column_of_a, row_of_b) }
    }

    /// Reads a thread's share of a column of A and a row of B from their first elements on.
    #[device_inline]
    #[track_caller]
    unsafe fn load(a: SharedPtr<Acc<K>>, b: SharedPtr<Acc<K>>) -> Fragments<Acc<K>, TM, TN> {
        let mut fragments = Fragments { a: [Acc::<K>::ZERO; TM], b: [Acc::<K>::ZERO; TN] };
        // SAFETY: all positions lie in the slices, which are written.
        unsafe {
            for i in 0..TM / Self::ROW_VECTOR {
                let vector = &mut fragments.a[i * Self::ROW_VECTOR..(i + 1) * Self::ROW_VECTOR];
                a.add((i * Self::ROW_STEP) as u32).load_slice_if(true, vector);
            }
            for j in 0..TN / Self::COL_VECTOR {
                let vector = &mut fragments.b[j * Self::COL_VECTOR..(j + 1) * Self::COL_VECTOR];
                b.add((j * Self::COL_STEP) as u32).load_slice_if(true, vector);
            }
        }
        fragments
    }

    /// Adds the outer product of a column of A and a row of B.
    ///
    /// Row by row, every other row backwards: each multiply-add shares an operand with the one before it, which the GPU
    /// can then keep instead of fetching it from the register file again. So that it does, the compiler keeps their
    /// order: see [`Accumulator::fma_row`].
    #[device_inline]
    pub fn add_rows(&mut self, fragments: &Fragments<Acc<K>, TM, TN>) {
        unroll!(i < TM, {
            Acc::<K>::fma_row(fragments.a[i], &fragments.b, &mut self.sums[i], i % 2 == 1);
        });
    }

    /// Row of D of the thread's row `i`, for a block's tile that starts at `origin`.
    #[device_inline]
    pub fn row_of_d(&self, origin: Origin, i: usize) -> u32 {
        let step = i / Self::ROW_VECTOR * Self::ROW_STEP;
        origin.row + (self.row + step + i % Self::ROW_VECTOR) as u32
    }

    /// First column of D of the thread's vector `j` of columns.
    #[device_inline]
    pub fn col_of_d(&self, origin: Origin, j: usize) -> u32 {
        origin.col + (self.col + j * Self::COL_STEP) as u32
    }

    /// Whether vectors of a thread's columns may be loaded from D and stored there. The same for all threads.
    #[device_inline]
    pub(crate) fn wide<E>(params: &GemmParams<K::Element, E>) -> bool {
        let vector = Self::COL_VECTOR as u32;
        params.d.has_vectors(vector) && params.n.is_multiple_of(vector)
    }

    /// A number of rounds over a large tile, which the compiler is not to write out: it would stop halfway, and what is
    /// left of the loop would index the sums.
    #[device_inline]
    fn rolled(rounds: usize) -> usize {
        const LARGE: usize = 64;
        if TM * TN > LARGE { hint::opaque(rounds as u32) as usize } else { rounds }
    }

    /// Puts the sums through the epilogue and stores what lies in D, in vectors where D's rows consist of them.
    ///
    /// Registers cannot be indexed, and an epilogue copied for each of `TM * TN` sums would be most of the kernel's
    /// code. So one copy always works on the first vector of sums, and the others move up after it. They are
    /// [copied](Accumulator::copied) before, so that registers of the main loop need not follow one another.
    ///
    /// # Safety
    /// D and the epilogue's operands are valid for the shapes in `params`.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store<E: Epilogue<K::Element>>(
        mut self,
        params: &GemmParams<K::Element, E>,
        origin: Origin,
    ) {
        let vector = Self::COL_VECTOR;
        let wide = Self::wide(params);
        unroll!(i < TM, {
            self.sums[i] = copied::<K::Element, TN>(&self.sums[i]);
        });
        for i in 0..Self::rolled(TM) {
            let row = self.row_of_d(origin, i);
            for j in 0..Self::rolled(TN / vector) {
                let col = self.col_of_d(origin, j);
                if row < params.m && col < params.n {
                    // SAFETY: as promised by the caller; the vector starts inside of D.
                    unsafe { store_vector(params, row, col, &mut self.sums[0][..vector], wide) };
                }
                for column in 0..TN - vector {
                    self.sums[0][column] = self.sums[0][column + vector];
                }
            }
            for row in 0..TM - 1 {
                self.sums[row] = self.sums[row + 1];
            }
        }
    }
}

/// Sums in [registers of their own](Accumulator::copied).
#[device_inline]
fn copied<T: Element, const N: usize>(sums: &[T::Acc; N]) -> [T::Acc; N] {
    let mut copies = *sums;
    for copy in &mut copies {
        *copy = copy.copied();
    }
    copies
}

/// The index of this thread among those that own the tile together.
#[device_inline]
pub(crate) fn thread_of_tile<K: GemmKernel>() -> u32 {
    let thread = thread::thread_idx_x();
    if K::DEPTH_GROUPS > 1 { thread % K::TILE.threads() } else { thread }
}

/// Which of the groups that share the depth of the slices this thread belongs to.
#[device_inline]
pub(crate) fn depth_group<K: GemmKernel>() -> u32 {
    if K::DEPTH_GROUPS > 1 { thread::thread_idx_x() / K::TILE.threads() } else { 0 }
}

/// Values of k of every slice that a group multiplies.
#[device_inline]
pub(crate) const fn own_depth<K: GemmKernel>() -> u32 {
    const { assert!(K::TILE.bk.is_multiple_of(K::DEPTH_GROUPS), "equal parts for all groups") };
    K::TILE.bk / K::DEPTH_GROUPS
}

/// Puts consecutive sums of one row through the epilogue and stores those that lie in D; the first, `(row, col)`, does.
/// They are stored at once where `wide` holds.
///
/// # Safety
/// D and the epilogue's operands are valid for the shapes in `params`. Where `wide` holds D's rows consist of vectors
/// of so many elements, which start at multiples of their size.
#[device_inline]
#[track_caller]
pub unsafe fn store_vector<T: Element, E: Epilogue<D>, D: Element>(
    params: &GemmParams<T, E, D>,
    row: u32,
    col: u32,
    sums: &mut [D::Acc],
    wide: bool,
) {
    // SAFETY: as promised by the caller; only elements inside of D are passed to the epilogue.
    unsafe {
        params.epilogue.apply_vector(sums, row, col, params.n - col);
        store_results(params, row, col, sums, wide);
    }
}

/// [`store_vector`] for the same columns of rows one below another, of which the first lies in D.
///
/// # Safety
/// As for [`store_vector`].
#[device_inline]
#[track_caller]
pub(crate) unsafe fn store_vectors<T: Element, E: Epilogue<T>, const R: usize, const N: usize>(
    params: &GemmParams<T, E>,
    row: u32,
    col: u32,
    sums: &mut [[T::Acc; N]; R],
    wide: bool,
) {
    let inside = (params.m - row, params.n - col);
    // SAFETY: as promised by the caller; only elements inside of D are passed to the epilogue.
    unsafe {
        params.epilogue.apply_rows(sums, row, col, inside);
        for i in 0..R {
            if (i as u32) < inside.0 {
                store_results(params, row + i as u32, col, &sums[i], wide);
            }
        }
    }
}

/// Stores consecutive results of one row, those that lie in D; the first does.
///
/// # Safety
/// As for [`store_vector`].
#[device_inline]
#[track_caller]
unsafe fn store_results<T: Element, E, D: Element>(
    params: &GemmParams<T, E, D>,
    row: u32,
    col: u32,
    results: &[D::Acc],
    wide: bool,
) {
    let inside = params.n - col;
    let target = params.d.at(row, col);
    let mut values = [D::ZERO; VECTOR_BYTES];
    for (j, &result) in results.iter().enumerate() {
        values[j] = D::narrow(result);
    }
    // SAFETY: only elements inside of D are stored; wide stores are aligned because `wide` holds, and then all of the
    // vector lies in D.
    unsafe {
        if wide {
            target.store_slice_if(true, &values[..results.len()]);
        } else {
            for j in 0..results.len() {
                target.add(j as u64).store_if((j as u32) < inside, values[j]);
            }
        }
    }
}
