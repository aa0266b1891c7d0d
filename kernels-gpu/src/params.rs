//! What a launch passes to a kernel.

use crate::element::Element;
use cuda_std::memory::GlobalPtr;

/// A row-major matrix in global memory: element `(row, col)` is at `row * ld + col`.
#[repr(C)]
#[derive(Debug)]
pub struct MatrixRef<T> {
    /// Element `(0, 0)`.
    pub data: GlobalPtr<T>,
    /// Leading dimension: elements from one row to the next, at least the row length. 64 bits, so that offsets past
    /// 2^31 elements need no special care.
    pub ld: u64,
}

impl<T> Clone for MatrixRef<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MatrixRef<T> {}

impl<T: Element> MatrixRef<T> {
    /// A matrix that is absent: nothing may read it.
    pub const NULL: Self = Self { data: GlobalPtr::null(), ld: 0 };

    /// Pointer to element `(row, col)`.
    #[inline(always)]
    pub fn at(&self, row: u32, col: u32) -> GlobalPtr<T> {
        self.data.add(row as u64 * self.ld + col as u64)
    }

    /// Whether every row starts at a multiple of `width` elements, so that vectors of `width` may be loaded and stored.
    #[inline(always)]
    pub fn has_vectors(&self, width: u32) -> bool {
        let bytes = width as u64 * size_of::<T>() as u64;
        let row_bytes = self.ld * size_of::<T>() as u64;
        (self.data.address() | row_bytes).is_multiple_of(bytes)
    }
}

/// The parameters of every kernel: `D[m x n] = epilogue(A[m x k] * B[k x n])`.
///
/// All matrices are row-major; `m`, `n` and `k` are below 2^31. `E` carries everything that happens to a sum before it
/// is stored (see [`crate::epilogue`]).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GemmParams<T: Element, E> {
    /// A, `m x k`.
    pub a: MatrixRef<T>,
    /// B, `k x n`.
    pub b: MatrixRef<T>,
    /// D, `m x n`. May be the same matrix as the epilogue's C; must not overlap A or B.
    pub d: MatrixRef<T>,
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A, rows of B. Zero makes the product zero, and neither A nor B is read.
    pub k: u32,
    /// What happens to a sum before it is stored.
    pub epilogue: E,
}
