//! Numbers of f32 as two halves each: the launch before a product that multiplies them on tensor cores
//! ([`crate::warpgroup::halves`]).
//!
//! An f32 has 24 bits, an f16 has 11. So the f16 that is nearest to a number and the one that is nearest to the rest
//! have 22 or 23 of its bits together: `x = high + low / 2^11`, where `low` is no larger than `high`. (K. Ozaki and
//! others have split numbers so that sums are without error: "Error-free transformations of matrix multiplication",
//! 2012; S. Markidis and others for tensor cores: "NVIDIA Tensor Core Programmability, Performance & Precision", 2018;
//! H. Ootomo and R. Yokota found what the tensor cores' own sums lose, and that a rest is to be multiplied: "Recovering
//! single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022.)
//!
//! An f16 has only 40 binary places, though. So each row of A and each column of B, a *line*, is multiplied by a power
//! of two of its own first, which leaves its largest element just below 2^15: the elements of a sum have one factor in
//! common, which is taken out of the finished sum without any error. Elements down to 2^-28 of a line's largest keep
//! all 22 bits, and what others lose is at most 2^-50 of the largest. A line in which some element loses more of itself
//! than it [may](tolerance) is marked, and so is one with an infinity or NaN, which halves do not multiply as IEEE 754
//! says, and one of nothing but subnormal numbers, whose products lie where f32 ends. With one of its lines the whole
//! matrix is marked, if there is a word for that ([`crate::prepare::decision`]).
//!
//! Where 11 bits are enough ([`crate::warpgroup::rounded`]) there is the high half alone. All else is the same, and the
//! same code: how many halves there are is a constant, so that each of both launches does what it needs and nothing
//! more.
//!
//! A line runs along the rows that are stored, or across:
//!
//! | | lines | threads side by side have |
//! |---|---|---|
//! | along | rows of A, or columns of B if it is transposed | four elements each of one line |
//! | across | columns of B, or of A if it is transposed | two elements each of two lines; those of another row go on with the next row |
//!
//! Either way a block has [some lines](lines_of_block) from end to end and goes through them twice, first for the
//! largest element and then to split. The second time it goes backwards: what it has read last is still in registers,
//! which often is all there is, and what it has read before that is in a cache, as far as it holds it.

mod number;
mod place;
mod team;

pub(crate) use number::power_of_two;
pub use number::{LOW_FACTOR, Line, scaled};
pub use place::{halves_of_block, reference, written};

use crate::params::MatrixRef;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::{device_inline, shared_array, thread, unroll, warp};
use half::f16;
use number::{ONE_HALF_LOSES, halves, is_subnormal, magnitude};
use team::{Team, Walk};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Blocks that a multiprocessor must have room for: while one waits for memory another one works.
pub const MIN_BLOCKS: u32 = 3;

/// Elements of a thread's vector along a line, and its vectors in flight.
const ALONG: (u32, u32) = (4, 4);

/// The same where lines run across: the vector has elements of as many lines.
const ACROSS: (u32, u32) = (2, 8);

/// Threads side by side that have lines across: two to four sectors of memory for each row, one where there are few
/// lines.
const BESIDE: [u32; 3] = [16, 8, 4];

/// What rows of halves are padded to, in elements: a line of the cache, and a row of a box of bulk copies
/// ([`crate::warpgroup::bulk_panels`]).
const ROW: u64 = 64;

/// Halves of a number.
pub const HALVES: u32 = 2;

/// The high and the low halves of something.
#[derive(Clone, Copy)]
pub(crate) struct Halved<P> {
    pub high: P,
    pub low: P,
}

/// Elements from one row of halves to the next.
pub const fn ld(cols: u32) -> u64 {
    (cols as u64).next_multiple_of(ROW)
}

/// Elements of one half of a matrix, as it is stored.
pub const fn elements_of_half(rows: u32, cols: u32) -> u64 {
    (rows as u64).saturating_mul(ld(cols))
}

/// Elements of both halves of a matrix.
pub const fn elements(rows: u32, cols: u32) -> u64 {
    (HALVES as u64).saturating_mul(elements_of_half(rows, cols))
}

/// Matrices of one factor that are split. Distances are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SplitFactor {
    /// The first one, as it is stored.
    from: MatrixRef<f32>,
    /// From one matrix to the next.
    stride: u64,
    /// The high halves of the first. Its low halves follow if there are some, then those of the next matrix.
    to: GlobalPtr<f16>,
    /// What is known of its lines, one after another, then those of the next matrix.
    lines: GlobalPtr<i16>,
    /// A word for each matrix, which is set where a line of it is marked; or null.
    marks: GlobalPtr<u32>,
    /// The part of itself that an element may lose before its line is marked.
    tolerance: f32,
    rows: u32,
    cols: u32,
    /// Whether lines run across, not along the rows.
    across: u32,
    /// Lines of a block.
    lines_of_block: u32,
    /// Blocks that split a matrix.
    blocks_of_matrix: u32,
    /// Blocks that split all of them.
    blocks: u32,
}

impl SplitFactor {
    /// No matrix at all.
    pub const NONE: SplitFactor = SplitFactor {
        from: MatrixRef::NULL,
        stride: 0,
        to: GlobalPtr::null(),
        lines: GlobalPtr::null(),
        marks: GlobalPtr::null(),
        tolerance: 0.0,
        rows: 0,
        cols: 0,
        across: 0,
        lines_of_block: 1,
        blocks_of_matrix: 0,
        blocks: 0,
    };

    /// `count` matrices of `rows x cols` as they are stored, `stride` elements apart, whose lines run across or along
    /// the rows. There is room for their [`elements`], or those of as many halves as are made, at `to`, a multiple of
    /// 128 bytes, and for [`lines`] at the last.
    pub const fn new(
        from: MatrixRef<f32>,
        (rows, cols): (u32, u32),
        across: bool,
        (count, stride): (u32, u64),
        to: GlobalPtr<f16>,
        lines: GlobalPtr<i16>,
    ) -> SplitFactor {
        let shape = (rows, cols);
        let (lines_of_block, blocks_of_matrix) =
            (lines_of_block(cols, across), blocks(shape, across) as u32);
        // A line has the depth of the product.
        let tolerance = tolerance(if across { rows } else { cols });
        SplitFactor {
            from,
            stride,
            to,
            lines,
            marks: GlobalPtr::null(),
            tolerance,
            rows,
            cols,
            across: across as u32,
            lines_of_block,
            blocks_of_matrix,
            blocks: blocks_of_matrix.saturating_mul(count),
        }
    }

    /// The same with a word for each matrix, which is set where a line of it is marked and else left alone.
    pub const fn with_marks(self, marks: GlobalPtr<u32>) -> SplitFactor {
        SplitFactor { marks, ..self }
    }
}

/// The depth from which on sums by halves of lines without marks are within the bound of sums of f32.
///
/// That is `k` roundings, of 2^-24 each, for `k` products. Those of halves are worth 48 and a sixteenth of `k` (28 on
/// Hopper), and what is lost of the elements of both factors besides, a quarter of `k` each at most ([`tolerance`]):
/// `48 + 9 k / 16`, which is no more than `k` from 110 on.
pub const LEAST_DEPTH: u32 = 128;

/// The part of itself that an element may lose in a product of such a depth before its line is marked: 2^-22, which is
/// what halves always may, or a quarter of all roundings of a sum of f32, if that is more; but not more than 2^-12,
/// where little would be left.
///
/// So the deeper the product, the farther the elements of a line may lie apart: 2^28 at least, 2^36 at a depth of 4096,
/// and 2^38 at most. Data as they mostly are have elements close to zero, and the more of them the deeper the product
/// is.
pub const fn tolerance(depth: u32) -> f32 {
    const LEAST: f32 = 1.0 / (1 << 22) as f32;
    const MOST: f32 = 1.0 / (1 << 12) as f32;
    (depth as f32 / (1 << 26) as f32).clamp(LEAST, MOST)
}

/// Lines of a matrix of `rows x cols`.
pub const fn lines((rows, cols): (u32, u32), across: bool) -> u32 {
    if across { cols } else { rows }
}

/// Lines of a block.
///
/// Where they run along, a line has as many threads as can hold all of it. Where they run across, a block has the more
/// of them side by side the more there are: a row's part is read faster the longer it is, but all multiprocessors
/// should have blocks (measured on one H200).
pub const fn lines_of_block(cols: u32, across: bool) -> u32 {
    if across {
        let [many, some, few] = BESIDE;
        return ACROSS.0
            * if cols >= 8192 {
                many
            } else if cols >= 2048 {
                some
            } else {
                few
            };
    }
    let mut threads = warp::WARP_SIZE;
    while threads < THREADS && threads * ALONG.0 * ALONG.1 < cols {
        threads *= 2;
    }
    THREADS / threads
}

/// Blocks that split a matrix of `rows x cols`.
pub const fn blocks(shape: (u32, u32), across: bool) -> u64 {
    lines(shape, across).div_ceil(lines_of_block(shape.1, across)) as u64
}

/// What one launch splits: both factors, or one and [nothing](SplitFactor::NONE).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Split {
    first: SplitFactor,
    second: SplitFactor,
}

impl Split {
    /// Of both factors. Blocks whose lines run across take longer, and so come first.
    pub const fn new(a: SplitFactor, b: SplitFactor) -> Split {
        let swap = b.across > a.across;
        let (first, second) = if swap { (b, a) } else { (a, b) };
        Split { first, second }
    }

    /// Blocks of the launch, all along x.
    pub const fn blocks(&self) -> u32 {
        self.first.blocks.saturating_add(self.second.blocks)
    }
}

/// One matrix of a factor, with pointers of its own.
struct Matrix {
    from: MatrixRef<f32>,
    high: MatrixRef<f16>,
    low: MatrixRef<f16>,
    lines: GlobalPtr<i16>,
    mark: GlobalPtr<u32>,
    tolerance: f32,
    rows: u32,
    cols: u32,
}

/// Runs one thread: makes both halves of all elements, or the high ones alone where `MADE` is 1.
///
/// # Safety
/// Launched with [`THREADS`] threads along x and [`Split::blocks`] along x; the matrices are valid, and there is room
/// for their halves and lines.
#[device_inline]
pub unsafe fn split<const MADE: u32>(p: Split) {
    const { assert!(MADE == 1 || MADE == HALVES, "high halves, or both") };
    let block = thread::block_idx_x();
    let first = p.first.blocks;
    let (factor, block) = if block < first { (p.first, block) } else { (p.second, block - first) };
    let of_matrix = factor.blocks_of_matrix.max(1);
    let (index, block) = (block / of_matrix, block % of_matrix);
    let (rows, cols) = (factor.rows, factor.cols);
    let to = factor.to.add(u64::from(index) * u64::from(MADE) * elements_of_half(rows, cols));
    let high = MatrixRef { data: to, ld: ld(cols) };
    let matrix = Matrix {
        from: factor.from.shifted(u64::from(index) * factor.stride),
        high,
        low: high.shifted(u64::from(rows) * high.ld),
        lines: factor
            .lines
            .add(u64::from(index) * u64::from(lines((rows, cols), factor.across != 0))),
        mark: if factor.marks.is_null() { factor.marks } else { factor.marks.add(index.into()) },
        tolerance: factor.tolerance,
        rows,
        cols,
    };
    let first = block * factor.lines_of_block;
    let rooms = [shared_array!(u32; THREADS * ACROSS.0), shared_array!(u32; THREADS * ACROSS.0)];
    // SAFETY: as promised by the caller; all threads of the block go the same way.
    unsafe {
        if factor.across != 0 {
            let beside = factor.lines_of_block / ACROSS.0;
            let (team, walk) = team::across(first, beside, ACROSS, matrix.rows);
            matrix
                .split::<MADE, { ACROSS.0 as usize }, { ACROSS.1 as usize }, { ACROSS.0 as usize }>(
                    team, walk, rooms,
                );
        } else {
            let (team, walk) = team::along(first, factor.lines_of_block, ALONG, matrix.cols);
            matrix.split::<MADE, { ALONG.0 as usize }, { ALONG.1 as usize }, 1>(team, walk, rooms);
        }
    }
}

impl Matrix {
    /// Splits a block's lines. A thread has `N` vectors of `V` elements at a time, of `L` lines in turn.
    ///
    /// # Safety
    /// As for [`split`]; all threads of the block get here, and the rooms are of `L` words for each.
    #[device_inline]
    unsafe fn split<const MADE: u32, const V: usize, const N: usize, const L: usize>(
        &self,
        team: Team,
        walk: Walk,
        [for_largest, for_marks]: [SharedPtr<u32>; 2],
    ) {
        let (mut loaded, mut largest) = ([[0.0; V]; N], [0; L]);
        // SAFETY: elements are loaded and stored where there are some.
        unsafe {
            for step in 0..walk.steps {
                loaded = self.load(&walk, step);
                for vector in loaded {
                    for j in 0..V {
                        largest[j % L] = largest[j % L].max(magnitude(vector[j]));
                    }
                }
            }
            let largest = team.largest(largest, for_largest);
            let lines = largest.map(Line::new);
            let mut marked = largest.map(|largest| u32::from(is_subnormal(largest)));
            // One half alone always loses more.
            let tolerance = if const { MADE == 1 } { ONE_HALF_LOSES } else { self.tolerance };
            for step in (0..walk.steps).rev() {
                if step + 1 < walk.steps {
                    loaded = self.load(&walk, step);
                }
                unroll!(i < N, {
                    let (row, col) = walk.place(step, i as u32, N as u32);
                    let (mut high, mut low) = ([f16::ZERO; V], [f16::ZERO; V]);
                    for j in 0..V {
                        let scaled = scaled(loaded[i][j], lines[j % L].exponent());
                        let ([h, l], lossy) = halves::<MADE>(scaled, tolerance);
                        (high[j], low[j]) = (h, l);
                        marked[j % L] |= u32::from(lossy);
                    }
                    // Rows of halves have room for that.
                    let inside = (row < self.rows) & (col < written(self.cols));
                    self.high.at(row, col).store_vec_if(inside, high);
                    if const { MADE == HALVES } {
                        self.low.at(row, col).store_vec_if(inside, low);
                    }
                });
            }
            let marked = team.largest(marked, for_marks);
            for j in 0..L {
                let line = team.line + j as u32;
                let inside = team.is_first & (line < team.lines_of(self.rows, self.cols));
                let known = lines[j].marked(marked[j] != 0);
                self.lines.add(line.into()).store_if(inside, known.to_bits());
                let marks = inside & (marked[j] != 0) & !self.mark.is_null();
                self.mark.store_if(marks, 1);
            }
        }
    }

    /// A thread's vectors of a step, zero where there are no elements.
    ///
    /// # Safety
    /// As for [`split`].
    #[device_inline]
    unsafe fn load<const V: usize, const N: usize>(&self, walk: &Walk, step: u32) -> [[f32; V]; N] {
        let mut loaded = [[0.0; V]; N];
        let vector = |i: usize| {
            let (row, col) = walk.place(step, i as u32, N as u32);
            let from = self.from.at(row, col);
            let left = if row < self.rows { self.cols.saturating_sub(col) } else { 0 };
            let aligned = from.address().is_multiple_of((V * size_of::<f32>()) as u64);
            (from, left, aligned & (left >= V as u32))
        };
        unroll!(i < N, {
            let (from, _, whole) = vector(i);
            // SAFETY: the elements are loaded where there are some.
            loaded[i] = unsafe { from.load_vec_if(whole) };
        });
        // Behind all of them, so that nothing comes between.
        unroll!(i < N, {
            let (from, left, whole) = vector(i);
            if !whole {
                for j in 0..V {
                    // SAFETY: as above.
                    loaded[i][j] = unsafe { from.add(j as u64).load_if((j as u32) < left) };
                }
            }
        });
        loaded
    }
}
