//! Numbers of f32 as two halves each: the launch before a product that multiplies them on tensor cores ([`crate::halves`]).
//!
//! An f32 has 24 bits, an f16 has 11. So the f16 that is nearest to a number and the one that is nearest to the rest have 22 or 23 of
//! its bits together: `x = high + low / 2^11`, where `low` is no larger than `high`. (K. Ozaki and others have split numbers so that sums are
//! without error: "Error-free transformations of matrix multiplication", 2012; S. Markidis and others for tensor cores: "NVIDIA Tensor Core
//! Programmability, Performance & Precision", 2018; H. Ootomo and R. Yokota found what the tensor cores' own sums lose, and that a rest
//! is to be multiplied: "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022.)
//!
//! An f16 has only 40 binary places, though. So each row of A and each column of B, a *line*, is multiplied by a power of two of its own first,
//! which leaves its largest element just below 2^15: the elements of a sum have one factor in common, which is taken out of the finished sum
//! without any error. Elements down to 2^-28 of a line's largest keep all 22 bits, and what others lose is at most 2^-50 of the largest.
//! A line in which some element loses more than 2^-22 of itself is marked, and so is one with an infinity or NaN, which halves do not multiply as
//! IEEE 754 says.
//!
//! A line runs along the rows that are stored, or across:
//!
//! | | lines | who has one | largest element |
//! |---|---|---|---|
//! | along | rows of A, or of B if it is transposed | a warp, its lanes four elements each | among lanes |
//! | across | columns of B, or of A if it is transposed | a lane of all warps, these a row each | through shared memory |
//!
//! Either way a block has some lines from end to end and goes through them twice, first for the largest element and then to split. The
//! second time they are in a cache, as far as it holds them; the block goes backwards, so that what it has read last comes first.

mod number;
mod place;

pub use number::{LOW_FACTOR, Line, scaled};
pub use place::{halves_of_block, to_lines, written};

use crate::params::MatrixRef;
use cuda_std::memory::GlobalPtr;
use cuda_std::{shared_array, thread, unroll, warp};
use half::f16;
use number::{halves, magnitude};

/// Threads of a block.
pub const THREADS: u32 = 512;

/// Blocks that a multiprocessor must have room for. Most have room for two; a thread that had to make do with their registers would spill.
pub const MIN_BLOCKS: u32 = 1;

/// Warps of a block.
const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// Elements that a lane loads at once along a line.
const VECTOR: usize = 4;

/// Elements that a warp loads at once along a line.
const OF_WARP: u32 = warp::WARP_SIZE * VECTOR as u32;

/// Loads of a lane that are in flight together.
const TOGETHER: usize = 4;

/// Rows that a warp loads together where lines run across.
const ROWS_TOGETHER: usize = 8;

/// What rows of halves are padded to, in elements: a line of the cache, and a row of a box of bulk copies ([`crate::bulk_panels`]).
const ROW: u64 = 64;

/// Halves of a number.
pub const HALVES: u32 = 2;

/// Elements from one row of halves to the next.
pub const fn ld(cols: u32) -> u64 {
    (cols as u64).next_multiple_of(ROW)
}

/// Elements of both halves of a matrix, as it is stored.
pub const fn elements(rows: u32, cols: u32) -> u64 {
    (HALVES as u64 * rows as u64).saturating_mul(ld(cols))
}

/// Matrices of one factor that are split. Distances are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first one, as it is stored.
    from: MatrixRef<f32>,
    /// From one matrix to the next.
    stride: u64,
    /// The high halves of the first. Its low halves follow, then those of the next matrix.
    to: GlobalPtr<f16>,
    /// What is known of its lines, one after another, then those of the next matrix.
    lines: GlobalPtr<i16>,
    rows: u32,
    cols: u32,
    /// Whether lines run across, not along the rows.
    across: u32,
    /// Blocks that split a matrix.
    blocks_of_matrix: u32,
    /// Blocks that split all of them.
    blocks: u32,
}

impl Part {
    /// No matrix at all.
    pub const NONE: Part = Part {
        from: MatrixRef::NULL,
        stride: 0,
        to: GlobalPtr::null(),
        lines: GlobalPtr::null(),
        rows: 0,
        cols: 0,
        across: 0,
        blocks_of_matrix: 0,
        blocks: 0,
    };

    /// `count` matrices of `rows x cols` as they are stored, `stride` elements apart, whose lines run across or along the rows. There is room
    /// for their [`elements`] at `to`, a multiple of 128 bytes, and for [`lines`] at the last.
    pub const fn new(
        from: MatrixRef<f32>,
        (rows, cols): (u32, u32),
        across: bool,
        (count, stride): (u32, u64),
        to: GlobalPtr<f16>,
        lines: GlobalPtr<i16>,
    ) -> Part {
        let blocks_of_matrix = blocks((rows, cols), across) as u32;
        let (across, blocks) = (across as u32, blocks_of_matrix.saturating_mul(count));
        Part { from, stride, to, lines, rows, cols, across, blocks_of_matrix, blocks }
    }
}

/// Lines of a matrix of `rows x cols`.
pub const fn lines((rows, cols): (u32, u32), across: bool) -> u32 {
    if across { cols } else { rows }
}

/// Blocks that split a matrix of `rows x cols`.
pub const fn blocks(shape: (u32, u32), across: bool) -> u64 {
    let of_block = if across { warp::WARP_SIZE } else { WARPS };
    lines(shape, across).div_ceil(of_block) as u64
}

/// What one launch splits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// Of A.
    pub a: Part,
    /// Of B.
    pub b: Part,
}

impl Split {
    /// Blocks of the launch, all along x.
    pub const fn blocks(&self) -> u32 {
        self.a.blocks.saturating_add(self.b.blocks)
    }
}

/// One matrix of a part, with pointers of its own.
struct Matrix {
    from: MatrixRef<f32>,
    high: MatrixRef<f16>,
    low: MatrixRef<f16>,
    lines: GlobalPtr<i16>,
    rows: u32,
    cols: u32,
}

/// Runs one thread.
///
/// # Safety
/// Launched with [`THREADS`] threads along x and [`Split::blocks`] along x; the matrices are valid, and there is room for their halves and
/// lines.
#[inline(always)]
pub unsafe fn split(p: Split) {
    let block = thread::block_idx_x();
    let (part, block) = if block < p.a.blocks { (p.a, block) } else { (p.b, block - p.a.blocks) };
    let of_matrix = part.blocks_of_matrix.max(1);
    let (index, block) = (block / of_matrix, block % of_matrix);
    let (rows, cols) = (part.rows, part.cols);
    let to = part.to.add(u64::from(index) * elements(rows, cols));
    let high = MatrixRef { data: to, ld: ld(cols) };
    let matrix = Matrix {
        from: part.from.shifted(u64::from(index) * part.stride),
        high,
        low: high.shifted(u64::from(rows) * high.ld),
        lines: part.lines.add(u64::from(index) * u64::from(lines((rows, cols), part.across != 0))),
        rows,
        cols,
    };
    // SAFETY: as promised by the caller; all threads of the block go the same way.
    unsafe {
        if part.across != 0 {
            matrix.split_across::<ROWS_TOGETHER>(block * warp::WARP_SIZE);
        } else {
            matrix.split_along::<TOGETHER>(block * WARPS);
        }
    }
}

impl Matrix {
    /// Splits the rows from `first` on, one for each warp; a lane has `N` loads in flight.
    ///
    /// # Safety
    /// As for [`split`].
    #[inline(always)]
    unsafe fn split_along<const N: usize>(&self, first: u32) {
        let (thread, lane) = (thread::thread_idx_x(), warp::lane_id());
        let row = first + thread / warp::WARP_SIZE;
        if row >= self.rows {
            return;
        }
        // SAFETY: the row is one of the matrix; all lanes of its warp get here, and to each exchange.
        unsafe {
            let from = self.from.at(row, 0);
            let steps = self.cols.div_ceil(OF_WARP * TOGETHER as u32);
            let mut largest = 0;
            for step in 0..steps {
                for x in self.vectors::<N>(from, step, lane) {
                    for x in x {
                        largest = largest.max(magnitude(x));
                    }
                }
            }
            let line = Line::new(among_lanes(largest, u32::max));
            let mut marked = false;
            for step in (0..steps).rev() {
                let loaded = self.vectors::<N>(from, step, lane);
                unroll!(i < N, {
                    let col = Self::col(step, i as u32, lane);
                    let (mut high, mut low) = ([f16::ZERO; VECTOR], [f16::ZERO; VECTOR]);
                    for j in 0..VECTOR {
                        let ([h, l], lossy) = halves(scaled(loaded[i][j], line.exponent()));
                        (high[j], low[j]) = (h, l);
                        marked |= lossy;
                    }
                    // Rows of halves have room for that.
                    let inside = col < written(self.cols);
                    self.high.at(row, col).store_vec_if(inside, high);
                    self.low.at(row, col).store_vec_if(inside, low);
                });
            }
            let marked = among_lanes(u32::from(marked), u32::max) != 0;
            if lane == 0 {
                self.lines.add(row.into()).store(line.marked(marked).to_bits());
            }
        }
    }

    /// The first column of a lane's `i`-th vector of a step along a line.
    #[inline(always)]
    fn col(step: u32, i: u32, lane: u32) -> u32 {
        (step * TOGETHER as u32 + i) * OF_WARP + lane * VECTOR as u32
    }

    /// A lane's vectors of a step along a line that begins at `from`, zero behind its end.
    ///
    /// # Safety
    /// As for [`split`].
    #[inline(always)]
    unsafe fn vectors<const N: usize>(
        &self,
        from: GlobalPtr<f32>,
        step: u32,
        lane: u32,
    ) -> [[f32; VECTOR]; N] {
        let aligned = from.address().is_multiple_of((VECTOR * size_of::<f32>()) as u64);
        let mut vectors = [[0.0; VECTOR]; N];
        unroll!(i < N, {
            let col = Self::col(step, i as u32, lane);
            let whole = aligned & (self.cols.saturating_sub(col) >= VECTOR as u32);
            // SAFETY: the elements are loaded where there are some.
            vectors[i] = unsafe { from.add(col.into()).load_vec_if(whole) };
        });
        // Behind all of them, so that nothing comes between.
        unroll!(i < N, {
            let col = Self::col(step, i as u32, lane);
            let left = self.cols.saturating_sub(col);
            if !(aligned & (left >= VECTOR as u32)) {
                for j in 0..VECTOR {
                    let at = from.add(col.into()).add(j as u64);
                    // SAFETY: as above.
                    vectors[i][j] = unsafe { at.load_if((j as u32) < left) };
                }
            }
        });
        vectors
    }

    /// Splits the columns from `first` on, one for each lane; a warp has loads of `N` rows in flight.
    ///
    /// # Safety
    /// As for [`split`]; all threads of the block get here.
    #[inline(always)]
    unsafe fn split_across<const N: usize>(&self, first: u32) {
        let (thread, lane) = (thread::thread_idx_x(), warp::lane_id());
        let (col, warp) = (first + lane, thread / warp::WARP_SIZE);
        let of_warps = shared_array!(u32; THREADS);
        let marks = shared_array!(u32; THREADS);
        let steps = self.rows.div_ceil(WARPS * ROWS_TOGETHER as u32);
        // SAFETY: elements are loaded and stored where there are some; words of shared memory are read behind a barrier after they are
        // written.
        unsafe {
            let mut largest = 0;
            for step in 0..steps {
                for x in self.column::<N>(step, warp, col) {
                    largest = largest.max(magnitude(x));
                }
            }
            of_warps.add(thread).store(largest);
            thread::sync_threads();
            unroll!(i < WARPS as usize, {
                largest = largest.max(of_warps.add(i as u32 * warp::WARP_SIZE + lane).load());
            });
            let line = Line::new(largest);
            let mut marked = false;
            for step in (0..steps).rev() {
                let loaded = self.column::<N>(step, warp, col);
                unroll!(i < N, {
                    let row = Self::row(step, i as u32, warp);
                    let ([high, low], lossy) = halves(scaled(loaded[i], line.exponent()));
                    marked |= lossy;
                    let inside = (row < self.rows) & (col < written(self.cols));
                    self.high.at(row, col).store_if(inside, high);
                    self.low.at(row, col).store_if(inside, low);
                });
            }
            marks.add(thread).store(u32::from(marked));
            thread::sync_threads();
            if warp == 0 && col < self.cols {
                let mut marked = 0;
                unroll!(i < WARPS as usize, {
                    marked |= marks.add(i as u32 * warp::WARP_SIZE + lane).load();
                });
                self.lines.add(col.into()).store(line.marked(marked != 0).to_bits());
            }
        }
    }

    /// A warp's `i`-th row of a step across lines.
    #[inline(always)]
    fn row(step: u32, i: u32, warp: u32) -> u32 {
        (step * ROWS_TOGETHER as u32 + i) * WARPS + warp
    }

    /// A column's elements in the rows of a warp's step, zero where there are none.
    ///
    /// # Safety
    /// As for [`split`].
    #[inline(always)]
    unsafe fn column<const N: usize>(&self, step: u32, warp: u32, col: u32) -> [f32; N] {
        let mut column = [0.0; N];
        unroll!(i < N, {
            let row = Self::row(step, i as u32, warp);
            let inside = (row < self.rows) & (col < self.cols);
            // SAFETY: the element is loaded where there is one.
            column[i] = unsafe { self.from.at(row, col).load_if(inside) };
        });
        column
    }
}

/// What all lanes' values come to.
///
/// # Safety
/// All lanes of the warp get here together.
#[inline(always)]
unsafe fn among_lanes(mut value: u32, both: impl Fn(u32, u32) -> u32) -> u32 {
    for bit in [16, 8, 4, 2, 1] {
        // SAFETY: as promised by the caller.
        value = both(value, unsafe { warp::shuffle_xor(warp::FULL_MASK, value, bit) });
    }
    value
}
