//! The way of a slice of one operand from global into shared memory: through registers, or by asynchronous copies.
//!
//! Every thread of a block carries the same share of a slice. Through registers reading is apart from writing, so that
//! a kernel can put work between the two: loads are in flight while the thread multiplies, and only the write waits for
//! them. Where a few threads have a large slice to move, a share can be moved in fractions, one after the other
//! ([`Fraction`]). Asynchronous copies need no registers and no second step, but they can only move what lies together,
//! so a slice that is transposed on the way is copied element by element.
//!
//! Elements outside the matrix become zero, so nothing after this needs a bounds check: a zero adds nothing to a sum.

mod pattern;

pub use pattern::Fraction;

use crate::element::Element;
use crate::kernel::GemmKernel;
use crate::params::MatrixRef;
use core::marker::PhantomData;
use cuda_std::async_copy::copy_elements_async;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, thread};
use pattern::Pattern;

/// Bytes of the widest load or store.
pub const VECTOR_BYTES: usize = 16;

/// Elements of `T` in the widest load or store.
pub const fn vector_len<T>() -> usize {
    VECTOR_BYTES / size_of::<T>()
}

/// Bytes of all banks of shared memory: 32 of 4 bytes.
pub const BANKS_BYTES: usize = 128;

/// Most elements of one slice that a thread may carry at a time. They live in registers.
pub const MAX_SHARE: usize = 32;

/// What a thread carries of one slice at a time, in registers: its share, or a fraction of that.
pub struct Carried<T> {
    elements: [T; MAX_SHARE],
}

/// Shape of a slice, in rows and columns of its matrix as that is stored, and the block that moves it. Everything here
/// is a constant of the kernel.
pub trait StoredSlice {
    /// Rows of the slice.
    const ROWS: usize;
    /// Columns of the slice.
    const COLS: usize;
    /// Threads of the block.
    const THREADS: usize;
    /// Where asynchronous copies bring an element of the slice to, whose rows are to lie `stride` elements apart:
    /// vectors stay together.
    #[device_inline]
    fn place(row: usize, col: usize, stride: usize) -> usize {
        row * stride + col
    }
    /// Elements that each thread moves.
    const SHARE: usize = {
        let share = Self::ROWS * Self::COLS / Self::THREADS;
        assert!(
            share * Self::THREADS == Self::ROWS * Self::COLS,
            "all threads move the same share"
        );
        share
    };
}

/// The slices of A of a kernel: `BM x BK`.
pub struct StoredA<K>(PhantomData<K>);

impl<K: GemmKernel> StoredSlice for StoredA<K> {
    const ROWS: usize = K::TILE.bm as usize;
    const COLS: usize = K::TILE.bk as usize;
    const THREADS: usize = K::TILE.threads() as usize;
}

/// The slices of B of a kernel: `BK x BN`.
pub struct StoredB<K>(PhantomData<K>);

impl<K: GemmKernel> StoredSlice for StoredB<K> {
    const ROWS: usize = K::TILE.bk as usize;
    const COLS: usize = K::TILE.bn as usize;
    const THREADS: usize = K::TILE.threads() as usize;
}

/// Moves slices of one operand.
pub struct Mover<T, S> {
    matrix: MatrixRef<T>,
    matrix_rows: u32,
    matrix_cols: u32,
    /// Whether every row of the matrix consists of whole, aligned vectors. The same for all threads.
    wide: bool,
    slice: PhantomData<S>,
}

impl<T: Element, S: StoredSlice> Mover<T, S> {
    /// Elements in a vector: the most with which all threads carry the same number of vectors, none of which crosses
    /// the end of a row.
    pub(super) const WIDTH: usize = {
        let mut width = vector_len::<T>();
        while !Self::divides_into(width) {
            width /= 2;
        }
        width
    };

    /// Whether the threads can share a slice in vectors of this width: either whole rows of it fall to the threads at a
    /// time, or the threads go along a row several times.
    const fn divides_into(width: usize) -> bool {
        let vectors = S::COLS / width;
        S::SHARE.is_multiple_of(width)
            && S::COLS.is_multiple_of(width)
            && (S::THREADS.is_multiple_of(vectors) || vectors.is_multiple_of(S::THREADS))
    }

    /// For slices of a matrix of the given shape (rows, columns).
    #[device_inline]
    pub fn new(matrix: MatrixRef<T>, (matrix_rows, matrix_cols): (u32, u32)) -> Self {
        let width = Self::WIDTH as u32;
        let wide = matrix.has_vectors(width) && matrix_cols.is_multiple_of(width);
        Mover { matrix, matrix_rows, matrix_cols, wide, slice: PhantomData }
    }

    /// Threads lie along the rows of the slice first, so that a warp reads consecutive addresses.
    #[device_inline]
    fn pattern(width: usize) -> Pattern {
        let vectors = S::COLS / width;
        let thread = thread::thread_idx_x() as usize;
        Pattern {
            width,
            row: thread / vectors,
            col: thread % vectors * width,
            across: vectors.div_ceil(S::THREADS),
            row_step: S::THREADS.div_ceil(vectors),
            col_step: S::THREADS * width,
            count: S::SHARE / width,
        }
    }

    /// Reads a fraction of this thread's share of the slice whose first element is `(row, col)` of the matrix. It may
    /// have [`MAX_SHARE`] elements.
    ///
    /// # Safety
    /// The matrix is valid for its shape.
    #[device_inline]
    #[track_caller]
    pub unsafe fn read(&self, row: u32, col: u32, fraction: Fraction) -> Carried<T> {
        let mut carried = Carried { elements: [T::ZERO; MAX_SHARE] };
        // SAFETY: as promised by the caller; wide reads are aligned because `wide` holds.
        unsafe {
            if self.wide {
                self.read_pattern(
                    Self::pattern(Self::WIDTH).fraction(fraction),
                    row,
                    col,
                    &mut carried,
                );
            } else {
                self.read_pattern(Self::pattern(1).fraction(fraction), row, col, &mut carried);
            }
        }
        carried
    }

    #[device_inline]
    #[track_caller]
    unsafe fn read_pattern(&self, pattern: Pattern, row: u32, col: u32, carried: &mut Carried<T>) {
        let row = row + pattern.row as u32;
        let col = col + pattern.col as u32;
        for i in 0..pattern.count {
            let (down, right) = pattern.offset(i);
            let (row, col) = (row + down as u32, col + right as u32);
            let inside = row < self.matrix_rows && col < self.matrix_cols;
            let out = &mut carried.elements[i * pattern.width..(i + 1) * pattern.width];
            // SAFETY: inside the matrix where the predicate holds: a row of it ends with a whole vector.
            unsafe { self.matrix.at(row, col).load_slice_if(inside, out) };
        }
    }

    /// Writes a fraction of a share so that element `(r, c)` of the slice is at `target[r * stride + c]`.
    ///
    /// # Safety
    /// `target` has room for the slice, which no thread reads before the next barrier. `target` and `stride` are
    /// multiples of a vector.
    #[device_inline]
    #[track_caller]
    pub unsafe fn write(
        &self,
        carried: &Carried<T>,
        fraction: Fraction,
        target: SharedPtr<T::Acc>,
        stride: usize,
    ) {
        // SAFETY: as promised by the caller.
        unsafe {
            if self.wide {
                Self::pattern(Self::WIDTH).fraction(fraction).write(carried, target, stride);
            } else {
                Self::pattern(1).fraction(fraction).write(carried, target, stride);
            }
        }
    }

    /// Writes a fraction of a share transposed: element `(r, c)` of the slice goes to `target[c * stride + r]`.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[device_inline]
    #[track_caller]
    pub unsafe fn write_transposed(
        &self,
        carried: &Carried<T>,
        fraction: Fraction,
        target: SharedPtr<T::Acc>,
        stride: usize,
    ) {
        // SAFETY: as promised by the caller.
        unsafe {
            if self.wide {
                let pattern = Self::pattern(Self::WIDTH).fraction(fraction);
                pattern.write_transposed(carried, target, stride);
            } else {
                Self::pattern(1).fraction(fraction).write_transposed(carried, target, stride);
            }
        }
    }
}

/// Asynchronous copies move bytes as they are, so these are for elements of the sums' type.
impl<T: Element<Acc = T>, S: StoredSlice> Mover<T, S> {
    /// Columns of a slice that neighbouring threads copy to a transposed one: as many as fall on different banks, when
    /// the rows of the transposed slice are a multiple of all banks apart and one vector more. They are whole sectors
    /// of global memory.
    const COLS_TOGETHER: usize = {
        let most = BANKS_BYTES / VECTOR_BYTES;
        let together = if S::COLS < most { S::COLS } else { most };
        assert!(
            S::COLS % together == 0
                && S::THREADS % together == 0
                && S::ROWS * together % S::THREADS == 0,
            "all threads copy the same number of elements to a transposed slice"
        );
        together
    };

    /// Columns of the matrix.
    #[device_inline]
    pub fn matrix_cols(&self) -> u32 {
        self.matrix_cols
    }

    /// Issues copies of this thread's share of the slice whose first element is `(row, col)` of the matrix, so that
    /// element `(r, c)` of the slice arrives at `target[r * stride + c]`, or [elsewhere](StoredSlice::place). Elements
    /// outside the matrix arrive as zeros.
    ///
    /// # Safety
    /// The matrix is valid for its shape. `target` has room for the slice, which no thread reads or writes from the
    /// last barrier until this thread has waited for the copies. `target` and `stride` are multiples of a vector.
    #[device_inline]
    #[track_caller]
    pub unsafe fn copy(&self, row: u32, col: u32, target: SharedPtr<T>, stride: usize) {
        // SAFETY: as promised by the caller; wide copies are aligned because `wide` holds.
        unsafe {
            if self.wide {
                self.copy_pattern(Self::pattern(Self::WIDTH), row, col, target, stride);
            } else {
                self.copy_pattern(Self::pattern(1), row, col, target, stride);
            }
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn copy_pattern(
        &self,
        pattern: Pattern,
        row: u32,
        col: u32,
        target: SharedPtr<T>,
        stride: usize,
    ) {
        for i in 0..pattern.count {
            let (r, c) = pattern.at(i);
            let target = target.add(S::place(r, c, stride) as u32);
            // SAFETY: as promised by the caller of `copy`.
            unsafe { self.copy_elements(row + r as u32, col + c as u32, target, pattern.width) };
        }
    }

    /// Issues copies of this thread's share transposed: element `(r, c)` of the slice arrives at `target[c * stride +
    /// r]`.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[device_inline]
    #[track_caller]
    pub unsafe fn copy_transposed(&self, row: u32, col: u32, target: SharedPtr<T>, stride: usize) {
        let thread = thread::thread_idx_x() as usize;
        let rows_together = S::THREADS / Self::COLS_TOGETHER;
        for across in 0..S::COLS / Self::COLS_TOGETHER {
            for down in 0..S::ROWS / rows_together {
                let r = thread / Self::COLS_TOGETHER + down * rows_together;
                let c = thread % Self::COLS_TOGETHER + across * Self::COLS_TOGETHER;
                let target = target.add((c * stride + r) as u32);
                // SAFETY: as promised by the caller; single elements are always aligned.
                unsafe { self.copy_elements(row + r as u32, col + c as u32, target, 1) };
            }
        }
    }

    /// Issues the copy of some consecutive elements, of which either all lie in the matrix or none.
    #[device_inline]
    #[track_caller]
    unsafe fn copy_elements(&self, row: u32, col: u32, target: SharedPtr<T>, elements: usize) {
        let inside = row < self.matrix_rows && col < self.matrix_cols;
        // SAFETY: as promised by the caller of `copy`; inside the matrix where the predicate holds.
        unsafe { copy_elements_async(target, self.matrix.at(row, col), elements, inside) };
    }
}
