//! What a launch passes to a kernel.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::layout::Layout;
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

    /// Pointer to element `(row, col)` of the factor that is stored here in this layout.
    #[inline(always)]
    pub fn at_in(&self, layout: Layout, row: u32, col: u32) -> GlobalPtr<T> {
        let (stored_row, stored_col) = layout.stored(row, col);
        self.at(stored_row, stored_col)
    }

    /// Elements from one row to the next, and from one column to the next, of the factor that is stored here in this layout.
    #[inline(always)]
    pub fn steps_in(&self, layout: Layout) -> (u64, u64) {
        layout.stored(self.ld, 1)
    }

    /// The matrix `elements` elements further on.
    #[inline(always)]
    pub fn shifted(self, elements: u64) -> Self {
        MatrixRef { data: self.data.add(elements), ..self }
    }

    /// Whether every row starts at a multiple of `width` elements, so that vectors of `width` may be loaded and stored.
    #[inline(always)]
    pub fn has_vectors(&self, width: u32) -> bool {
        let bytes = width as u64 * size_of::<T>() as u64;
        let row_bytes = self.ld * size_of::<T>() as u64;
        (self.data.address() | row_bytes).is_multiple_of(bytes)
    }
}

/// Elements from the matrix of one product to that of the next, in a batch. Zero for a matrix that all products share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStrides {
    /// Of A.
    pub a: u64,
    /// Of B.
    pub b: u64,
    /// Of D.
    pub d: u64,
}

/// The parameters of every kernel: `D[m x n] = epilogue(A[m x k] * B[k x n])`, or a batch of such products.
///
/// A and B are stored as the kernel's [`Layouts`](crate::layout::Layouts) say, D is row-major; `m`, `n` and `k` are below
/// 2^31. `E` carries everything that happens to a sum before it is stored (see [`crate::epilogue`]). The pointers are
/// those of the first product; [`GemmParams::of_batch`] gives those of another.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GemmParams<T: Element, E> {
    /// A as it is stored: `m x k`, or `k x m` where it is transposed.
    pub a: MatrixRef<T>,
    /// B as it is stored: `k x n`, or `n x k` where it is transposed.
    pub b: MatrixRef<T>,
    /// D, `m x n`. May be the same matrix as the epilogue's C; must not overlap A or B.
    pub d: MatrixRef<T>,
    /// The way from one product of a batch to the next; without meaning for a single product.
    pub strides: BatchStrides,
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A, rows of B. Zero makes the product zero, and neither A nor B is read.
    pub k: u32,
    /// What happens to a sum before it is stored.
    pub epilogue: E,
}

impl<T: Element, E: Epilogue<T>> GemmParams<T, E> {
    /// The parameters of product `batch`, the first being 0.
    #[inline(always)]
    pub fn of_batch(self, batch: u32) -> Self {
        let batch_elements = |stride: u64| u64::from(batch) * stride;
        GemmParams {
            a: self.a.shifted(batch_elements(self.strides.a)),
            b: self.b.shifted(batch_elements(self.strides.b)),
            d: self.d.shifted(batch_elements(self.strides.d)),
            epilogue: self.epilogue.of_batch(batch),
            ..self
        }
    }
}
