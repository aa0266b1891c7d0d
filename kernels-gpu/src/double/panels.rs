//! The panels of [`crate::warp::panels`] for f64: how they are copied, and how tensor cores' fragments are read from
//! them.
//!
//! A fragment of f64 is single elements, one a lane and register ([`cuda_std::mma::double`]): with `g = lane / 4` and
//! `t = lane % 4` those of row `g` of A, or column `g` of B, at the `t`-th of 4 values of k. Nothing need be transposed
//! to read it, and 8 bytes a lane are as much as the banks deliver in two passes, one for each half of the warp. These
//! are conflict-free where 4 rows of what is stored, in 4 neighbouring elements each, lie in different banks, whether k
//! runs along rows (4 `g` by 4 `t`) or across them (4 `t` by 4 `g`). 4 elements are 2 chunks, so it is pairs of chunks
//! that change places here, otherwise in each of 4 rows: chunk `c` of row `r` lies where chunk `c ^ (2 (r % 4))` would.

use crate::element::Element;
use crate::kernel::GemmKernel;
use crate::layout::{Layout, Layouts};
use crate::params::{GemmParams, MatrixRef};
use crate::tile::Origin;
use crate::warp::panels::{CHUNK_BYTES, LINE, Panel, PanelA, PanelB, Panels};
use core::marker::PhantomData;
use core::ops::Range;
use cuda_std::async_copy::copy_elements_async;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::mma::double::SMALLEST_K;
use cuda_std::{device_inline, hint, thread, warp};

/// Rows of A or columns of B in a fragment's register.
pub(crate) const EIGHT: u32 = 8;

/// Values of k in a fragment's register.
pub(crate) const FOUR: u32 = SMALLEST_K as u32;

/// Rows after which the swizzle begins again, and chunks that stay together: so many fill all banks.
const SWIZZLED: u32 = 4;
const TOGETHER: u32 = LINE / SWIZZLED;

/// Bytes from the start of a panel to a chunk of a row.
#[device_inline]
fn place<P: Panel>(row: u32, chunk: u32) -> u32 {
    const { assert!(P::CHUNKS.is_multiple_of(LINE), "rows fill all banks") };
    row * P::ROW_BYTES + (chunk ^ (row % SWIZZLED * TOGETHER)) * CHUNK_BYTES
}

/// A lane's part in reading fragments from panels.
#[derive(Clone, Copy)]
pub struct DoubleReader<P> {
    /// Bytes from the start of a panel to the lane's element of the first 8 rows of A, or columns of B, at the first 4
    /// values of k.
    offset: u32,
    panel: PhantomData<P>,
}

/// How a lane reads its elements of fragments from panels, and which rows of A or columns of B these are. Eight of them
/// are in a fragment's register, the `g`-th for the lanes `4 g` to `4 g + 3`.
pub trait FragmentReader {
    /// Of the rows of an eighth, in ascending order, where the second four begin: the others follow each other.
    const SECOND_FOUR: u32;

    /// For a warp whose part of the panel begins `first` rows of A or columns of B into it: a multiple of what fills
    /// all banks.
    fn new(first: u32) -> Self;

    /// Reads the lane's element of the `eight`-th 8 rows or columns of the warp's part, at the `four`-th 4 values of k.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the panel is written, and nobody writes it before the next barrier.
    #[track_caller]
    unsafe fn read(&self, panel: u32, eight: usize, four: usize) -> f64;

    /// Bytes from the start of a panel to the lane's first element.
    fn offset(&self) -> u32;

    /// The first row or column of the `eight`-th 8 of the warp's part.
    fn of_eight(eight: usize) -> u32;

    /// How far behind that the `g`-th of them is. An even one is followed by the next.
    fn of_lanes(g: u32) -> u32;
}

impl<P: Panel> FragmentReader for DoubleReader<P> {
    const SECOND_FOUR: u32 = EIGHT / 2;

    #[device_inline]
    fn new(first: u32) -> Self {
        let lane = warp::lane_id();
        let (across, deep) = (first + lane / FOUR, lane % FOUR);
        let (row, col) = if P::ALONG_K { (across, deep) } else { (deep, across) };
        let in_chunk = col % P::IN_CHUNK * P::ELEMENT_BYTES;
        DoubleReader { offset: place::<P>(row, col / P::IN_CHUNK) + in_chunk, panel: PhantomData }
    }

    /// 4 or 8 elements further on in a row change bits of the address that the swizzle has not mixed with those of the
    /// other elements which the warp reads, and it is the same 4 or 8 rows below. So both are constants to exclude, or
    /// to add.
    #[device_inline]
    #[track_caller]
    unsafe fn read(&self, panel: u32, eight: usize, four: usize) -> f64 {
        const LINE_BYTES: u32 = LINE * CHUNK_BYTES;
        let (eight, four) = (eight as u32 * EIGHT, four as u32 * FOUR);
        let (in_row, rows) = if P::ALONG_K { (four, eight) } else { (eight, four) };
        let in_row = in_row * P::ELEMENT_BYTES;
        let start = (panel + self.offset) ^ (in_row % LINE_BYTES);
        let lines = in_row / LINE_BYTES * LINE_BYTES;
        // SAFETY: as promised by the caller; elements are aligned.
        unsafe { SharedPtr::from_address(start + lines + rows * P::ROW_BYTES).load() }
    }

    #[device_inline]
    fn offset(&self) -> u32 {
        self.offset
    }

    #[device_inline]
    fn of_eight(eight: usize) -> u32 {
        eight as u32 * EIGHT
    }

    #[device_inline]
    fn of_lanes(g: u32) -> u32 {
        g
    }
}

/// Elements of a panel's row that threads lie along: all of them where that is a power of two, else a part.
pub const fn part_of_row(row: u32) -> u32 {
    1 << row.trailing_zeros()
}

/// A thread's share in copying the panels of a factor, `LEN` elements at a time: the same place of every panel, in
/// several *turns* of all threads.
///
/// Threads lie along rows [or parts of them](part_of_row), so that a warp reads consecutive addresses and writes to all
/// banks. Addresses are worked out once and move on from slice to slice.
struct PanelCopies<T, P, const LEN: u32> {
    /// The thread's first element of the current panel, in the first turn.
    source: GlobalPtr<T>,
    /// Elements from one row of what is stored to the next.
    ld: u64,
    /// Rows and columns of what is stored from that element on, none where it lies outside.
    left: (u32, u32),
    /// Bytes from the start of a panel to where it goes.
    target: u32,
    panel: PhantomData<P>,
}

impl<T: Element, P: Panel, const LEN: u32> PanelCopies<T, P, LEN> {
    /// Elements in a row of a panel.
    const ROW: u32 = P::CHUNKS * P::IN_CHUNK;

    /// Those that threads lie along, and such parts.
    const PART: u32 = part_of_row(Self::ROW);
    const PARTS: u32 = Self::ROW / Self::PART;

    /// Rows of which all threads copy a part in a turn.
    const ROWS_OF_TURN: u32 = P::THREADS / (Self::PART / LEN);

    /// Turns that a panel takes.
    const TURNS: u32 = {
        let turns = P::ROWS / Self::ROWS_OF_TURN * Self::PARTS;
        assert!(P::THREADS * turns * LEN == P::ROWS * Self::ROW, "threads copy the same number");
        turns
    };

    /// For the panels of `WIDTH` rows of A or columns of B of which the first is `first.0`, of a factor of `shape.0` of
    /// them, from the value of k `first.1` on, of `shape.1`.
    #[device_inline]
    fn new(matrix: MatrixRef<T>, first: (u32, u32), shape: (u32, u32)) -> Self {
        let stored = |(width, depth)| if P::ALONG_K { (width, depth) } else { (depth, width) };
        let thread = thread::thread_idx_x();
        let (row, col) = (thread / (Self::PART / LEN), thread % (Self::PART / LEN) * LEN);
        let in_chunk = col % P::IN_CHUNK * P::ELEMENT_BYTES;
        let (first_row, first_col) = stored(first);
        let (row_in_matrix, col_in_matrix) = (first_row + row, first_col + col);
        let (rows, cols) = stored(shape);
        PanelCopies {
            source: matrix.at(row_in_matrix, col_in_matrix),
            ld: matrix.ld,
            left: (rows.saturating_sub(row_in_matrix), cols.saturating_sub(col_in_matrix)),
            target: place::<P>(row, col / P::IN_CHUNK) + in_chunk,
            panel: PhantomData,
        }
    }

    /// Copies part `part` of `parts` of the share, each so many turns or one more.
    #[device_inline]
    #[track_caller]
    unsafe fn copy(&self, part: u32, parts: u32, panel: u32) {
        for turn in part * Self::TURNS / parts..(part + 1) * Self::TURNS / parts {
            let (rows, cols) =
                (turn / Self::PARTS * Self::ROWS_OF_TURN, turn % Self::PARTS * Self::PART);
            // Rows and parts of them fill all banks, so that so many further on only the swizzle differs.
            let further = rows * P::ROW_BYTES + cols * P::ELEMENT_BYTES;
            let target =
                (panel + self.target + further) ^ (rows % SWIZZLED * TOGETHER * CHUNK_BYTES);
            // Worked out anew each time: kept over the whole loop these would take registers from the sums.
            let rows = hint::opaque(rows);
            let source = self.source.add(u64::from(rows) * self.ld).add(cols.into());
            let inside = rows < self.left.0 && cols < self.left.1;
            // SAFETY: as promised by the caller of `DoubleCopier::copy`; what is copied at once is aligned, or a single
            // element.
            unsafe {
                copy_elements_async(SharedPtr::from_address(target), source, LEN as usize, inside);
            }
        }
    }

    /// Moves on to the next panel.
    #[device_inline]
    fn advance(&mut self) {
        if P::ALONG_K {
            self.source = self.source.add(P::DEPTH.into());
            self.left.1 = self.left.1.saturating_sub(P::DEPTH);
        } else {
            self.source = self.source.add(u64::from(hint::opaque(P::DEPTH)) * self.ld);
            self.left.0 = self.left.0.saturating_sub(P::DEPTH);
        }
    }
}

/// Elements of the longer copies: a chunk.
pub const CHUNK: u32 = CHUNK_BYTES / size_of::<f64>() as u32;

/// Whether all rows that are stored of both factors consist of whole, aligned chunks. The same for all threads.
#[device_inline]
pub fn has_chunks<K: GemmKernel, E, D: Element>(params: &GemmParams<K::Element, E, D>) -> bool {
    let row = |layout: Layout, shape: (u32, u32)| layout.stored(shape.0, shape.1).1;
    let GemmParams { a, b, m, n, k, .. } = *params;
    let Layouts { a: of_a, b: of_b } = K::LAYOUTS;
    a.has_vectors(CHUNK)
        && b.has_vectors(CHUNK)
        && (row(of_a, (m, k)) | row(of_b, (k, n))).is_multiple_of(CHUNK)
}

/// Copies the panels that a block needs to shared memory, slice after slice, all threads together: `LEN` elements at a
/// time, a [`CHUNK`] where both factors [have them](has_chunks), else one.
pub struct DoubleCopier<K: GemmKernel, const LEN: u32> {
    a: PanelCopies<K::Element, PanelA<K>, LEN>,
    b: PanelCopies<K::Element, PanelB<K>, LEN>,
}

impl<K: GemmKernel, const LEN: u32> DoubleCopier<K, LEN> {
    /// For the block whose tile of D starts at `origin`, over some slices: those after them become zero.
    #[device_inline]
    pub fn new<E, D: Element>(
        params: &GemmParams<K::Element, E, D>,
        origin: Origin,
        slices: &Range<u32>,
    ) -> Self {
        let GemmParams { a, b, m, n, k, .. } = *params;
        let (first, k) = (slices.start * K::TILE.bk, k.min(slices.end * K::TILE.bk));
        DoubleCopier {
            a: PanelCopies::new(a, (origin.row, first), (m, k)),
            b: PanelCopies::new(b, (origin.col, first), (n, k)),
        }
    }

    /// Copies part `part` of `parts` of this thread's share of a slice, asynchronously. What lies outside the matrices
    /// or after the slices becomes zero. Both numbers are constants.
    ///
    /// # Safety
    /// A and B are valid for their shapes, and consist of copies of `LEN`. No thread reads or writes the panels from
    /// the last barrier until this thread has waited for its copies and met the others at another barrier.
    #[device_inline]
    #[track_caller]
    pub unsafe fn copy(&self, part: usize, parts: usize, panels: Panels) {
        // SAFETY: as promised by the caller; a stage has room for both panels.
        unsafe {
            self.a.copy(part as u32, parts as u32, panels.a);
            self.b.copy(part as u32, parts as u32, panels.b);
        }
    }

    /// Moves on to the next slice.
    #[device_inline]
    pub fn advance(&mut self) {
        self.a.advance();
        self.b.advance();
    }
}
