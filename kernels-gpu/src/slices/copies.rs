//! Asynchronous copies of slices from global to shared memory, for factors in any layout.
//!
//! A slice in shared memory is `DEPTH` rows of `WIDTH` elements, one row a k. In global memory a factor lies one of two
//! ways, and each has its own copies:
//!
//! - `Along`: its rows are rows of the slice (A transposed, B row-major). Neighbours stay neighbours, so 16 bytes
//!   travel at a time where rows are aligned.
//! - `Across`: its rows are columns of the slice (A row-major, B transposed). It is transposed on the way, element by
//!   element; by producers, which have time for two steps, 16 bytes at a time ([`crate::slices::staged`]).
//!
//! Elements outside of the matrix arrive as zeros, which add nothing to a sum. Most slices lie inside all the way:
//! whether one does is asked once, and then no copy of it needs a check.

use crate::element::Element;
use crate::kernel::{GemmKernel, copiers};
use crate::layout::Layout;
use crate::params::{GemmParams, MatrixRef};
use crate::slices::mover::{BANKS_BYTES, VECTOR_BYTES, vector_len};
use crate::slices::ring;
use crate::slices::{Slices, swizzled};
use crate::tile::Origin;
use core::marker::PhantomData;
use cuda_std::async_copy::copy_elements_async;
use cuda_std::device_inline;
use cuda_std::memory::SharedPtr;

/// Threads of a warp.
const WARP: usize = ring::WARP as usize;

/// What is known of the slices of a factor when a kernel is compiled: in values of k and rows of A or columns of B,
/// however the factor is stored.
pub trait Slice {
    /// Values of k in a slice.
    const DEPTH: usize;
    /// Rows of A or columns of B in a slice.
    const WIDTH: usize;
    /// Threads that copy it.
    const THREADS: usize;
    /// Elements from one k to the next in shared memory.
    const STRIDE: usize;
    /// Whether rows are [swizzled](crate::slices).
    const SWIZZLED: bool;

    /// Where element `across` of row `k` lies in the slice; `T` is its type.
    #[device_inline]
    fn place<T>(k: usize, across: usize) -> usize {
        k * Self::STRIDE + if Self::SWIZZLED { swizzled::<T>(k, across) } else { across }
    }
}

/// A factor, and the part of it that a block needs: `WIDTH` rows of A or columns of B, from `first` on.
pub(crate) struct Source<T, S> {
    pub matrix: MatrixRef<T>,
    pub first: u32,
    /// Rows of A or columns of B.
    width: u32,
    /// Columns of A, rows of B.
    pub depth: u32,
    slice: PhantomData<S>,
}

impl<T: Element, S: Slice> Source<T, S> {
    /// Whether the slice that begins at `k` lies inside of the matrix. The same for all threads.
    #[device_inline]
    pub fn holds_slice(&self, k: u32) -> bool {
        self.first + S::WIDTH as u32 <= self.width && k + S::DEPTH as u32 <= self.depth
    }

    /// Whether row of A or column of B `first + across` has an element for this k.
    #[device_inline]
    pub fn holds(&self, k: u32, across: u32) -> bool {
        self.first + across < self.width && k < self.depth
    }
}

/// Copies of a factor whose stored rows are rows of the slices.
struct Along<'a, T, S>(&'a Source<T, S>);

impl<T: Element, S: Slice> Along<'_, T, S> {
    /// Whether every stored row consists of whole, aligned vectors. The same for all threads.
    #[device_inline]
    fn is_wide(&self) -> bool {
        let vector = vector_len::<T>() as u32;
        self.0.matrix.has_vectors(vector) && self.0.width.is_multiple_of(vector)
    }

    /// Copies vectors of `len` elements. Threads lie along rows of the slice, so that a warp reads consecutive
    /// addresses; and where a row takes them several turns it is a warp's, as all turns along a row share one address.
    #[device_inline]
    #[track_caller]
    unsafe fn copy(&self, thread: u32, len: usize, checked: bool, k: u32, target: SharedPtr<T>) {
        let thread = thread as usize;
        let vectors = S::WIDTH / len;
        let by_warps = vectors.is_multiple_of(WARP) && S::THREADS / WARP <= S::DEPTH;
        let threads = if by_warps { WARP } else { vectors.min(S::THREADS) };
        let (rows, turns) = (S::THREADS / threads, vectors / threads);
        let (first_row, col) = (thread / threads, thread % threads * len);
        let mut source = self.0.matrix.at(k + first_row as u32, self.0.first + col as u32);
        for i in 0..S::DEPTH.div_ceil(rows) {
            let row = first_row + i * rows;
            // Where the slice has fewer vectors than there are threads some have nothing to copy.
            if rows > S::DEPTH && row >= S::DEPTH {
                break;
            }
            for j in 0..turns {
                let right = j * threads * len;
                let inside = !checked || self.0.holds(k + row as u32, (col + right) as u32);
                let target = target.add((row * S::STRIDE + col + right) as u32);
                // SAFETY: as promised by the caller of `Copier::copy`; vectors are aligned where `is_wide` holds.
                unsafe { copy_elements_async(target, source.add(right as u64), len, inside) };
            }
            source = source.add(rows as u64 * self.0.matrix.ld);
        }
    }
}

/// Copies of a factor whose stored rows are columns of the slices.
struct Across<'a, T, S>(&'a Source<T, S>);

impl<T: Element, S: Slice> Across<'_, T, S> {
    /// Values of k that neighbouring threads copy: as many as go to different banks where rows of the slice are a
    /// multiple of all banks and a vector apart. They are whole sectors of global memory.
    const TOGETHER: usize = BANKS_BYTES / VECTOR_BYTES;

    #[device_inline]
    #[track_caller]
    unsafe fn copy(&self, thread: u32, checked: bool, k: u32, target: SharedPtr<T>) {
        const {
            assert!(
                S::DEPTH.is_multiple_of(Self::TOGETHER),
                "a slice has whole sectors of every row"
            );
            assert!(
                (S::WIDTH * Self::TOGETHER).is_multiple_of(S::THREADS),
                "threads copy the same number"
            );
        }
        let thread = thread as usize;
        let cols = S::THREADS / Self::TOGETHER;
        // Columns a multiple of this apart are so in shared memory, too.
        let banks = const { BANKS_BYTES / size_of::<T>() };
        let (first_row, first_col) = (thread % Self::TOGETHER, thread / Self::TOGETHER);
        let mut source = self.0.matrix.at(self.0.first + first_col as u32, k + first_row as u32);
        for j in 0..S::WIDTH / cols {
            let col = first_col + j * cols;
            for i in 0..S::DEPTH / Self::TOGETHER {
                let down = i * Self::TOGETHER;
                let row = first_row + down;
                let inside = !checked || self.0.holds(k + row as u32, col as u32);
                let behind = j * cols / banks * banks;
                let target = target.add((S::place::<T>(row, col - behind) + behind) as u32);
                // SAFETY: as promised by the caller of `Copier::copy`; single elements are always aligned.
                unsafe { copy_elements_async(target, source.add(down as u64), 1, inside) };
            }
            source = source.add(cols as u64 * self.0.matrix.ld);
        }
    }
}

/// The slices of A of a kernel.
pub struct SliceA<K>(PhantomData<K>);

impl<K: GemmKernel> Slice for SliceA<K> {
    const DEPTH: usize = K::TILE.bk as usize;
    const WIDTH: usize = K::TILE.bm as usize;
    const THREADS: usize = copiers::<K>() as usize;
    const STRIDE: usize = Slices::<K>::A_STRIDE;
    const SWIZZLED: bool = false;
}

/// The slices of B of a kernel.
pub struct SliceB<K>(PhantomData<K>);

impl<K: GemmKernel> Slice for SliceB<K> {
    const DEPTH: usize = K::TILE.bk as usize;
    const WIDTH: usize = K::TILE.bn as usize;
    const THREADS: usize = copiers::<K>() as usize;
    const STRIDE: usize = Slices::<K>::B_STRIDE;
    const SWIZZLED: bool = Slices::<K>::B_IS_SWIZZLED;
}

/// Copies the slices of one factor that a block needs.
pub(crate) struct Factor<T, S> {
    pub source: Source<T, S>,
    /// Whether its stored rows are rows of the slices. A constant of the kernel.
    along: bool,
}

impl<T: Element, S: Slice> Factor<T, S> {
    #[device_inline]
    #[track_caller]
    pub unsafe fn copy(&self, thread: u32, k: u32, target: SharedPtr<T>) {
        let checked = !self.source.holds_slice(k);
        // SAFETY: as promised by the caller; what is not checked lies inside, and vectors are aligned.
        unsafe {
            if self.along {
                let along = Along(&self.source);
                match (along.is_wide(), checked) {
                    (true, false) => along.copy(thread, vector_len::<T>(), false, k, target),
                    (true, true) => along.copy(thread, vector_len::<T>(), true, k, target),
                    (false, false) => along.copy(thread, 1, false, k, target),
                    (false, true) => along.copy(thread, 1, true, k, target),
                }
            } else {
                let across = Across(&self.source);
                if checked {
                    across.copy(thread, true, k, target)
                } else {
                    across.copy(thread, false, k, target)
                }
            }
        }
    }
}

/// Copies the slices that a block needs to shared memory, all threads together, or its producers.
pub struct Copier<K: GemmKernel> {
    pub(crate) a: Factor<K::Element, SliceA<K>>,
    pub(crate) b: Factor<K::Element, SliceB<K>>,
}

impl<T: Element<Acc = T>, K: GemmKernel<Element = T>> Copier<K> {
    /// For the block whose tile of D starts at `origin`.
    #[device_inline]
    pub fn new<E>(params: &GemmParams<T, E>, origin: Origin) -> Self {
        let GemmParams { a, b, m, n, k, .. } = *params;
        Copier {
            a: Factor {
                source: Source {
                    matrix: a,
                    first: origin.row,
                    width: m,
                    depth: k,
                    slice: PhantomData,
                },
                along: matches!(K::LAYOUTS.a, Layout::Transposed),
            },
            b: Factor {
                source: Source {
                    matrix: b,
                    first: origin.col,
                    width: n,
                    depth: k,
                    slice: PhantomData,
                },
                along: matches!(K::LAYOUTS.b, Layout::RowMajor),
            },
        }
    }

    /// Issues copies of this thread's share of the slices that begin at `k`; elements outside the matrices become zero.
    /// Slices past the end are left out altogether: nobody multiplies them.
    ///
    /// `thread` is the index of this thread. Where registers are scarce it may come from
    /// [`hint::opaque`](cuda_std::hint::opaque): addresses are then computed for each slice, not kept over the loop.
    ///
    /// # Safety
    /// A and B are valid for their shapes. No thread reads or writes the slices until this thread has waited for its
    /// copies.
    #[device_inline]
    #[track_caller]
    pub unsafe fn copy(&self, thread: u32, k: u32, slices: &Slices<K>) {
        if k < self.a.source.depth {
            // SAFETY: as promised by the caller; a stage has room for both slices.
            unsafe {
                self.a.copy(thread, k, slices.a);
                self.b.copy(thread, k, slices.b);
            }
        }
    }
}
