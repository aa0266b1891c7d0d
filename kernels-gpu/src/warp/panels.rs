//! The slices of A and B for tensor cores: panels of shared memory in which a factor lies as it does in global memory.
//!
//! Tensor cores take elements as they are, and [`load_matrices`] transposes what it reads if asked to. So nothing is
//! widened or transposed on the way to shared memory: a panel is rows of what is stored, whichever layout that is, and
//! 16 bytes travel at a time, a *chunk*.
//!
//! [`load_matrices`] reads 8 chunks at once that lie in one column of chunks, in 8 neighbouring rows. In memory that is
//! filled row by row they would meet in one or two eighths of the banks. So the chunks of a row change places,
//! otherwise in each of 8 rows (*swizzle*): chunk `c` of row `r` lies where chunk `c ^ (r % 8)` would. Where a row has
//! but 4 chunks two rows fill the banks together, and `r / 2` takes the place of `r`. Both the 8 chunks that are read
//! and the 8 that neighbouring threads write then lie in different banks, without the padding that would cost shared
//! memory.
//!
//! Elements of f32, which tensor cores take [rounded](cuda_std::mma::tf32), lie and travel in the same way, 4 to a
//! chunk, and where k runs along the rows [`load_matrices`] reads them as well. But it does not transpose 32 bits.
//! Where k runs across the rows a lane reads its elements one by one: a warp 8 neighbours, which are 2 chunks, in each
//! of 4 rows. So there it is pairs of chunks that change places, otherwise in each of 4 rows.

use crate::element::Element;
use crate::kernel::{GemmKernel, Summation};
use crate::layout::Layout;
use crate::params::{GemmParams, MatrixRef};
use crate::prepare::split;
use crate::slices::mover::BANKS_BYTES;
use crate::tile::Origin;
use crate::warp::sums_on_the_way::LANES;
use core::marker::PhantomData;
use core::mem::transmute_copy;
use cuda_std::async_copy::copy_elements_async;
use cuda_std::memory::SharedPtr;
use cuda_std::mma::{Factor, MATRIX, load_matrices};
use cuda_std::{device_inline, hint, shared, thread, warp};

/// Bytes of a chunk: a row of the matrices that tensor cores read.
pub(crate) const CHUNK_BYTES: u32 = 16;

/// Rows of the matrices that [`load_matrices`] reads.
const EIGHT: u32 = MATRIX as u32;

/// Elements of a chunk, of half precision.
pub const CHUNK: usize = 8;

/// Elements of the smallest asynchronous copy, of half precision; of f32 it is one.
pub const PAIR: usize = 2;

/// Lanes that hold a row of an 8 x 8 matrix together, and elements of f32 in a chunk.
const LANES_OF_ROW: u32 = LANES.1 as u32;

/// Chunks that fill all banks.
pub(crate) const LINE: u32 = BANKS_BYTES as u32 / CHUNK_BYTES;

/// Rows of A or columns of B that [`load_matrices`] reads at once, by as many values of k as an instruction takes
/// ([`Factor::K`]): four matrices, two by two.
pub const SQUARE: usize = 2 * MATRIX;

/// What is known of the panels of a factor when a kernel is compiled.
pub trait Panel {
    /// Bytes of an element.
    const ELEMENT_BYTES: u32;
    /// Whether k runs along the rows of what is stored (A row-major, B transposed).
    const ALONG_K: bool;
    /// Rows of A or columns of B in a panel.
    const WIDTH: u32;
    /// Values of k in a panel.
    const DEPTH: u32;
    /// Threads that copy it.
    const THREADS: u32;
    /// Whether rows of what is stored are aligned chunks, the last one filled up with zeros, as those of
    /// [halves](mod@crate::prepare::split) are.
    const IS_PADDED: bool;
    /// Whether the second of the four matrices that are read at once is that of the next rows of A or columns of B, and
    /// not that of the next k.
    const WIDTH_FIRST: bool;

    /// Rows of what is stored.
    const ROWS: u32 = if Self::ALONG_K { Self::WIDTH } else { Self::DEPTH };
    /// Elements of a chunk.
    const IN_CHUNK: u32 = CHUNK_BYTES / Self::ELEMENT_BYTES;
    /// Chunks in a row of what is stored.
    const CHUNKS: u32 = if Self::ALONG_K { Self::DEPTH } else { Self::WIDTH } / Self::IN_CHUNK;
    /// Whether fragments are read element by element: across rows of elements that [`load_matrices`] cannot transpose.
    const BY_ELEMENTS: bool = !Self::ALONG_K && Self::ELEMENT_BYTES > size_of::<u16>() as u32;
    /// Bytes from one row to the next.
    const ROW_BYTES: u32 = Self::CHUNKS * CHUNK_BYTES;
    /// Bytes of the panel.
    const BYTES: u32 = {
        assert!(
            Self::CHUNKS.is_multiple_of(LINE) || Self::CHUNKS == LINE / 2,
            "rows that the swizzle knows"
        );
        Self::ROWS * Self::ROW_BYTES
    };
}

/// Bytes from the start of a panel to a chunk of a row.
#[device_inline]
fn place<P: Panel>(row: u32, chunk: u32) -> u32 {
    let together = const { if P::CHUNKS < LINE { P::CHUNKS } else { LINE } };
    let places = if const { P::BY_ELEMENTS } {
        const { assert!(!P::BY_ELEMENTS || P::CHUNKS >= LINE, "rows fill all banks") };
        row % (LINE / 2) * 2
    } else {
        row / (LINE / together) % together
    };
    row * P::ROW_BYTES + (chunk ^ places) * CHUNK_BYTES
}

/// The panels of A of a kernel.
pub struct PanelA<K>(PhantomData<K>);

impl<K: GemmKernel> Panel for PanelA<K> {
    const ELEMENT_BYTES: u32 = size_of::<K::Element>() as u32;
    const ALONG_K: bool = matches!(K::LAYOUTS.a, Layout::RowMajor);
    const WIDTH: u32 = K::TILE.bm;
    const DEPTH: u32 = K::TILE.bk;
    const THREADS: u32 = K::TILE.threads();
    const IS_PADDED: bool = matches!(K::SUMMATION, Summation::Halves);
    const WIDTH_FIRST: bool = true;
}

/// The panels of B of a kernel.
pub struct PanelB<K>(PhantomData<K>);

impl<K: GemmKernel> Panel for PanelB<K> {
    const ELEMENT_BYTES: u32 = size_of::<K::Element>() as u32;
    const ALONG_K: bool = matches!(K::LAYOUTS.b, Layout::Transposed);
    const WIDTH: u32 = K::TILE.bn;
    const DEPTH: u32 = K::TILE.bk;
    const THREADS: u32 = K::TILE.threads();
    const IS_PADDED: bool = matches!(K::SUMMATION, Summation::Halves);
    const WIDTH_FIRST: bool = false;
}

/// Where the panels of one stage lie in shared memory.
#[derive(Clone, Copy)]
pub struct Panels {
    /// Address of that of A.
    pub a: u32,
    /// Address of that of B.
    pub b: u32,
}

impl Panels {
    /// Bytes of one stage of a kernel.
    pub const fn bytes<K: GemmKernel>() -> u32 {
        PanelA::<K>::BYTES + PanelB::<K>::BYTES
    }

    /// The panels of stage `stage`.
    #[device_inline]
    pub fn of_stage<K: GemmKernel>(stage: u32) -> Self {
        let a = shared::dynamic::<u8>().address() + stage * Self::bytes::<K>();
        Panels { a, b: a + PanelA::<K>::BYTES }
    }
}

/// A lane's part in reading fragments from panels: squares of 16 rows of A, or columns of B, by 16 values of k.
#[derive(Clone, Copy)]
pub struct Reader<P> {
    /// Bytes from the start of a panel to the row that the lane passes on for the first square, or to the first element
    /// that it reads of it.
    offset: u32,
    panel: PhantomData<P>,
}

impl<P: Panel> Reader<P> {
    /// For a warp whose part of the panel begins `first` rows of A or columns of B into it: a multiple of the part's
    /// width, which is a power of two, and of what fills all banks where elements are read one by one.
    #[device_inline]
    pub fn new(first: u32) -> Self {
        let lane = warp::lane_id();
        if const { P::BY_ELEMENTS } {
            let (col, row) = (first + lane / LANES_OF_ROW, lane % LANES_OF_ROW);
            let in_chunk = col % P::IN_CHUNK * P::ELEMENT_BYTES;
            let offset = place::<P>(row, col / P::IN_CHUNK) + in_chunk;
            return Reader { offset, panel: PhantomData };
        }
        let (matrix, line) = (lane / EIGHT, lane % EIGHT);
        let (across, deep) = Self::place_of_matrix(matrix);
        let (row, chunk) = if P::ALONG_K {
            (first + across * EIGHT + line, deep)
        } else {
            (deep * EIGHT + line, first / P::IN_CHUNK + across)
        };
        Reader { offset: place::<P>(row, chunk), panel: PhantomData }
    }

    /// Which 8 rows of A or columns of B of a square, and which half of its values of k, one of its four matrices has.
    #[device_inline]
    const fn place_of_matrix(matrix: u32) -> (u32, u32) {
        if P::WIDTH_FIRST { (matrix % 2, matrix / 2) } else { (matrix / 2, matrix % 2) }
    }

    /// Reads square `square` of the warp's part, at the `step`-th values of k that an instruction takes.
    ///
    /// The next square or step is 2 chunks further on in a row, or 16 rows: 2 chunks change bits of the address that
    /// the swizzle has not mixed with those of other squares, and 16 rows have the same swizzle. So both are constants
    /// to add, or to exclude.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the square is written, and nobody writes it before the next barrier.
    #[device_inline]
    #[track_caller]
    pub unsafe fn read<T: Factor>(&self, panel: u32, square: usize, step: usize) -> [u32; 4] {
        if const { P::BY_ELEMENTS } {
            // SAFETY: as promised by the caller.
            return unsafe { self.read_elements::<T>(panel, square as u32, step as u32) };
        }
        const SQUARE_BYTES: u32 = 2 * CHUNK_BYTES;
        const SQUARES_OF_LINE: u32 = LINE * CHUNK_BYTES / SQUARE_BYTES;
        let (in_row, in_rows) = if P::ALONG_K { (step, square) } else { (square, step) };
        let (in_row, in_rows) = (in_row as u32, in_rows as u32);
        let start = (panel + self.offset) ^ (in_row % SQUARES_OF_LINE * SQUARE_BYTES);
        let lines = in_row / SQUARES_OF_LINE * LINE * CHUNK_BYTES;
        let row = SharedPtr::from_address(start + lines + in_rows * SQUARE as u32 * P::ROW_BYTES);
        // SAFETY: as promised by the caller; what lies together are chunks, which are aligned.
        unsafe {
            if P::ALONG_K { load_matrices::<T, false>(row) } else { load_matrices::<T, true>(row) }
        }
    }

    /// [`read`](Self::read) by single elements. 8 columns further on change bits of the address that the swizzle has
    /// not mixed with those of the columns which the warp reads, and it is the same 4 rows below.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    #[device_inline]
    #[track_caller]
    unsafe fn read_elements<T: Factor>(&self, panel: u32, square: u32, step: u32) -> [u32; 4] {
        const LINE_BYTES: u32 = LINE * CHUNK_BYTES;
        const { assert!(!P::BY_ELEMENTS || T::K == 2 * LANES_OF_ROW as usize, "4 rows, twice") };
        let mut registers = [0; 4];
        for matrix in 0..registers.len() {
            let (across, deep) = Self::place_of_matrix(matrix as u32);
            let in_row = (square * SQUARE as u32 + across * EIGHT) * P::ELEMENT_BYTES;
            let row = step * T::K as u32 + deep * LANES_OF_ROW;
            let start = (panel + self.offset) ^ (in_row % LINE_BYTES);
            let lines = in_row / LINE_BYTES * LINE_BYTES;
            // SAFETY: as promised by the caller; elements are aligned.
            registers[matrix] = unsafe {
                SharedPtr::<u32>::from_address(start + lines + row * P::ROW_BYTES).load()
            };
        }
        registers
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

impl<T: Element + Factor, P: Panel> Source<T, P> {
    /// Rows that all threads copy in a turn, a chunk each.
    const ROWS_OF_TURN: u32 = P::THREADS / P::CHUNKS;
    /// Chunks that a thread copies.
    const TURNS: u32 = P::ROWS / Self::ROWS_OF_TURN;

    /// The same by the number of threads that there are, which the assembler does not know. If it did it would write
    /// out all turns where there is no branch between, choose among the ways of copying by predicates, and have all
    /// addresses in registers at once.
    #[device_inline]
    fn turns() -> u32 {
        P::ROWS * P::CHUNKS / thread::block_dim_x()
    }

    /// Copies this thread's share of the panel that begins at `k`: by chunks where all rows that are stored consist of
    /// whole, aligned ones, by pairs of elements of half precision or single ones of f32 where they consist of those,
    /// else element by element and at once. Which it is, is the same for all threads.
    #[device_inline]
    #[track_caller]
    unsafe fn copy(&self, thread: u32, k: u32, panel: u32) {
        const {
            assert!(
                P::THREADS.is_multiple_of(P::CHUNKS) && P::ROWS.is_multiple_of(Self::ROWS_OF_TURN),
                "threads copy the same number"
            );
        }
        let stored = |width, depth| if P::ALONG_K { (width, depth) } else { (depth, width) };
        let (rows, cols) = stored(self.width, self.depth);
        let cols = if P::IS_PADDED { split::written(cols) } else { cols };
        let (first_row, first_col) = stored(self.first, k);
        let chunk = thread % P::CHUNKS;
        let (in_chunk, smallest) =
            (P::IN_CHUNK as usize, const { PAIR * size_of::<u16>() / size_of::<T>() });
        let col = first_col + chunk * P::IN_CHUNK;
        let consists_of = |elements: usize| {
            self.matrix.has_vectors(elements as u32) && cols.is_multiple_of(elements as u32)
        };
        let row = |turn: u32| thread / P::CHUNKS + turn * Self::ROWS_OF_TURN;
        let target = |turn| SharedPtr::<T>::from_address(panel + place::<P>(row(turn), chunk));
        let source = |turn, e| self.matrix.at(first_row + row(turn), col + e);
        let inside = |turn, e| first_row + row(turn) < rows && col + e < cols;
        // SAFETY: as promised by the caller of `PanelCopier::copy`; what is copied at once is aligned, or a single
        // element; scalars are of any bits, and there are at least as many of them as fill a chunk.
        unsafe {
            if P::IS_PADDED || consists_of(in_chunk) {
                for turn in 0..Self::TURNS {
                    let (source, inside) = (source(turn, 0), inside(turn, 0));
                    copy_elements_async(target(turn), source, in_chunk, inside);
                }
            } else if smallest == 1 || consists_of(smallest) {
                let turns = if smallest == 1 { Self::turns() } else { Self::TURNS };
                for turn in 0..hint::opaque(turns) {
                    for e in (0..P::IN_CHUNK).step_by(smallest) {
                        let (source, inside) = (source(turn, e), inside(turn, e));
                        copy_elements_async(target(turn).add(e), source, smallest, inside);
                    }
                }
            } else {
                for turn in 0..hint::opaque(Self::TURNS) {
                    let mut elements = [T::ZERO; CHUNK];
                    for e in 0..in_chunk {
                        let (source, inside) = (source(turn, e as u32), inside(turn, e as u32));
                        elements[e] = source.load_if(inside);
                    }
                    let words: [u32; CHUNK_BYTES as usize / size_of::<u32>()] =
                        transmute_copy(&elements);
                    target(turn).cast::<u32>().store_vec(words);
                }
            }
        }
    }
}

/// Copies the panels that a block needs to shared memory, all threads together.
pub struct PanelCopier<K: GemmKernel> {
    a: Source<K::Element, PanelA<K>>,
    b: Source<K::Element, PanelB<K>>,
}

impl<T: Element + Factor, K: GemmKernel<Element = T>> PanelCopier<K> {
    /// For the block whose tile of D starts at `origin`.
    #[device_inline]
    pub fn new<E, D: Element>(params: &GemmParams<T, E, D>, origin: Origin) -> Self {
        let GemmParams { a, b, m, n, k, .. } = *params;
        let (row, col) = (origin.row, origin.col);
        PanelCopier {
            a: Source { matrix: a, first: row, width: m, depth: k, panel: PhantomData },
            b: Source { matrix: b, first: col, width: n, depth: k, panel: PhantomData },
        }
    }

    /// Copies this thread's share of the panels that begin at `k`: asynchronously where stored rows consist of aligned
    /// pairs of elements at least. What lies outside the matrices becomes zero. Panels past the end are left out
    /// altogether: nobody multiplies them.
    ///
    /// # Safety
    /// A and B are valid for their shapes. No thread reads or writes the panels from the last barrier until this thread
    /// has waited for its copies and met the others at another barrier.
    #[device_inline]
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
