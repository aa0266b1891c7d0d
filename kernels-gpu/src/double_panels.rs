//! The panels of [`crate::panels`] for f64: how they are copied, and how tensor cores' fragments are read from them.
//!
//! A fragment of f64 is single elements, one a lane and register ([`cuda_std::mma::double`]): with `g = lane / 4` and `t = lane % 4`
//! those of row `g` of A, or column `g` of B, at the `t`-th of 4 values of k. Nothing need be transposed to read it, and 8
//! bytes a lane are as much as the banks deliver in two passes, one for each half of the warp. These are conflict-free where 4 rows of
//! what is stored, in 4 neighbouring elements each, lie in different banks: what the swizzle sees to, whether k runs along rows (4
//! `g` by 4 `t`) or across them (4 `t` by 4 `g`).

use crate::element::Element;
use crate::kernel::GemmKernel;
use crate::panels::{CHUNK_BYTES, LINE, Panel, PanelA, PanelB, Panels, place};
use crate::params::{GemmParams, MatrixRef};
use crate::tile::Origin;
use core::marker::PhantomData;
use cuda_std::async_copy::copy_elements_async;
use cuda_std::memory::SharedPtr;
use cuda_std::mma::double::SMALLEST_K;
use cuda_std::{hint, warp};

/// Rows of A or columns of B in a fragment's register.
const EIGHT: u32 = 8;

/// Values of k in a fragment's register.
const FOUR: u32 = SMALLEST_K as u32;

/// A lane's part in reading fragments from panels.
#[derive(Clone, Copy)]
pub struct DoubleReader<P> {
    /// Bytes from the start of a panel to the lane's element of the first 8 rows of A, or columns of B, at the first 4 values of k.
    offset: u32,
    panel: PhantomData<P>,
}

impl<P: Panel> DoubleReader<P> {
    /// For a warp whose part of the panel begins `first` rows of A or columns of B into it: a multiple of what fills all banks.
    #[inline(always)]
    pub fn new(first: u32) -> Self {
        let lane = warp::lane_id();
        let (across, deep) = (first + lane / FOUR, lane % FOUR);
        let (row, col) = if P::ALONG_K { (across, deep) } else { (deep, across) };
        let in_chunk = col % P::IN_CHUNK * P::ELEMENT_BYTES;
        DoubleReader { offset: place::<P>(row, col / P::IN_CHUNK) + in_chunk, panel: PhantomData }
    }

    /// Reads the lane's element of the `eight`-th 8 rows or columns of the warp's part, at the `four`-th 4 values of k.
    ///
    /// 4 or 8 elements further on in a row change bits of the address that the swizzle has not mixed with those of the other elements
    /// which the warp reads, and it is the same 4 or 8 rows below. So both are constants to exclude, or to add.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panel is written, and nobody writes it before the next barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn read(&self, panel: u32, eight: usize, four: usize) -> f64 {
        const LINE_BYTES: u32 = LINE * CHUNK_BYTES;
        let (eight, four) = (eight as u32 * EIGHT, four as u32 * FOUR);
        let (in_row, rows) = if P::ALONG_K { (four, eight) } else { (eight, four) };
        let in_row = in_row * P::ELEMENT_BYTES;
        let start = (panel + self.offset) ^ (in_row % LINE_BYTES);
        let lines = in_row / LINE_BYTES * LINE_BYTES;
        // SAFETY: as promised by the caller; elements are aligned.
        unsafe { SharedPtr::from_address(start + lines + rows * P::ROW_BYTES).load() }
    }
}

/// A factor, of which a block copies `WIDTH` rows of A or columns of B, from `first` on.
struct Source<T, P> {
    matrix: MatrixRef<T>,
    first: u32,
    /// Rows of A or columns of B.
    width: u32,
    /// Columns of A, rows of B.
    depth: u32,
    panel: PhantomData<P>,
}

impl<T: Element, P: Panel> Source<T, P> {
    /// Copies this thread's share of the panel that begins at `k`: by chunks where all rows that are stored consist of whole,
    /// aligned ones, else by elements, each of which is a copy's worth. Which it is, is the same for all threads.
    #[inline(always)]
    #[track_caller]
    unsafe fn copy(&self, thread: u32, k: u32, panel: u32) {
        let stored = |width, depth| if P::ALONG_K { (width, depth) } else { (depth, width) };
        let (_, cols) = stored(self.width, self.depth);
        let whole = self.matrix.has_vectors(P::IN_CHUNK) && cols.is_multiple_of(P::IN_CHUNK);
        // SAFETY: as promised by the caller of `DoubleCopier::copy`.
        unsafe {
            if whole {
                self.copy_by(P::IN_CHUNK, thread, k, panel);
            } else {
                self.copy_by(1, thread, k, panel);
            }
        }
    }

    /// The same by so many elements at a time, all of which lie in the matrix or none. Threads lie along rows, so that a warp reads
    /// consecutive addresses and writes to all banks.
    #[inline(always)]
    #[track_caller]
    unsafe fn copy_by(&self, len: u32, thread: u32, k: u32, panel: u32) {
        let in_row = P::CHUNKS * P::IN_CHUNK / len;
        let rows_of_turn = P::THREADS / in_row;
        let turns = P::ROWS / rows_of_turn;
        assert!(P::THREADS == rows_of_turn * in_row && P::ROWS == turns * rows_of_turn);
        let stored = |width, depth| if P::ALONG_K { (width, depth) } else { (depth, width) };
        let (rows, cols) = stored(self.width, self.depth);
        let (first_row, first_col) = stored(self.first, k);
        let col = thread % in_row * len;
        let in_chunk = col % P::IN_CHUNK * P::ELEMENT_BYTES;
        // Chunks are what most matrices are copied by: only there a loop that is written out is worth its room.
        let turns = if len > 1 { turns } else { hint::opaque(turns) };
        for turn in 0..turns {
            let row = thread / in_row + turn * rows_of_turn;
            let target = panel + place::<P>(row, col / P::IN_CHUNK) + in_chunk;
            let source = self.matrix.at(first_row + row, first_col + col);
            let inside = first_row + row < rows && first_col + col < cols;
            // SAFETY: as promised by the caller; what is copied at once is aligned, or a single element.
            unsafe {
                copy_elements_async(SharedPtr::from_address(target), source, len as usize, inside);
            }
        }
    }
}

/// Copies the panels that a block needs to shared memory, all threads together.
pub struct DoubleCopier<K: GemmKernel> {
    a: Source<K::Element, PanelA<K>>,
    b: Source<K::Element, PanelB<K>>,
}

impl<K: GemmKernel> DoubleCopier<K> {
    /// For the block whose tile of D starts at `origin`.
    #[inline(always)]
    pub fn new<E, D: Element>(params: &GemmParams<K::Element, E, D>, origin: Origin) -> Self {
        let GemmParams { a, b, m, n, k, .. } = *params;
        let (row, col) = (origin.row, origin.col);
        DoubleCopier {
            a: Source { matrix: a, first: row, width: m, depth: k, panel: PhantomData },
            b: Source { matrix: b, first: col, width: n, depth: k, panel: PhantomData },
        }
    }

    /// Copies this thread's share of the panels that begin at `k`, asynchronously. What lies outside the matrices becomes zero. Panels
    /// past the end are left out altogether: nobody multiplies them.
    ///
    /// # Safety
    /// A and B are valid for their shapes. No thread reads or writes the panels from the last barrier until this thread has waited
    /// for its copies and met the others at another barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy(&self, thread: u32, k: u32, panels: Panels) {
        if k < self.a.depth {
            // SAFETY: as promised by the caller; a stage has room for both panels.
            unsafe {
                self.a.copy(thread, k, panels.a);
                self.b.copy(thread, k, panels.b);
            }
        }
    }
}
