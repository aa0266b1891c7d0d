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

use crate::element::Element;
use crate::params::MatrixRef;
use cuda_std::memory::GlobalPtr;
use cuda_std::{shared_array, thread, unroll, warp};
use half::f16;

/// Threads of a block.
pub const THREADS: u32 = 512;

/// Blocks that a multiprocessor must have room for.
pub const MIN_BLOCKS: u32 = 2;

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

/// What low halves are multiplied by: then they are as large as high ones, and have as many places.
pub const LOW_FACTOR: f32 = (1 << 11) as f32;

/// Exponent of a line's largest element once it is multiplied: half of what f16 has room for, so that rounding does not reach the end.
const LARGEST: i32 = 14;

/// The part of itself that an element may lose before its line is marked.
const KEPT: f32 = 1.0 / (1 << 22) as f32;

/// Bits of an infinity.
const INFINITE: u32 = f32::INFINITY.to_bits();

/// Elements from one row of halves to the next.
pub const fn ld(cols: u32) -> u64 {
    (cols as u64).next_multiple_of(ROW)
}

/// Elements of both halves of a matrix, as it is stored.
pub const fn elements(rows: u32, cols: u32) -> u64 {
    (HALVES as u64 * rows as u64).saturating_mul(ld(cols))
}

/// What is known of a line: by which power of two its elements were multiplied, and whether it is marked.
///
/// It is two bytes, as a half is, so that a kernel can find a line's as the element of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(i16);

impl Line {
    /// Of a line whose largest finite element has these bits, without the sign.
    #[inline(always)]
    fn new(largest: u32) -> Line {
        /// Fraction bits.
        const FRACTION: u32 = f32::MANTISSA_DIGITS - 1;
        /// Of zero and subnormal numbers: the exponent of the smallest normal one.
        const SMALLEST: i32 = f32::MIN_EXP - 1;
        let exponent = match largest >> FRACTION {
            // The first bit of a subnormal number, which counts 2^-149 at the very end.
            0 if largest != 0 => {
                SMALLEST - (largest.leading_zeros() as i32 - (u32::BITS - 1 - FRACTION) as i32)
            }
            0 => LARGEST,
            biased => biased as i32 - (f32::MAX_EXP - 1),
        };
        Line(((LARGEST - exponent) * 2) as i16)
    }

    /// The same line, marked or not.
    #[inline(always)]
    fn marked(self, marked: bool) -> Line {
        Line(self.0 | i16::from(marked))
    }

    /// The line of these bits.
    #[inline(always)]
    pub const fn from_bits(bits: i16) -> Line {
        Line(bits)
    }

    /// Exponent of the power of two by which its elements were multiplied: -113 to 163.
    #[inline(always)]
    pub const fn exponent(self) -> i32 {
        (self.0 >> 1) as i32
    }

    /// Whether an element lost more than 2^-22 of itself, or is no finite number.
    #[inline(always)]
    pub const fn is_marked(self) -> bool {
        self.0 & 1 != 0
    }
}

/// `value * 2^exponent`, for exponents down to -252 and up to 254: by two factors, since one alone need not be an f32. It is exact where the result is a normal
/// number.
#[inline(always)]
pub fn scaled(value: f32, exponent: i32) -> f32 {
    let half = exponent >> 1;
    value * power_of_two(half) * power_of_two(exponent - half)
}

/// For exponents of normal numbers.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    const BIAS: i32 = f32::MAX_EXP - 1;
    f32::from_bits(((exponent + BIAS) as u32) << (f32::MANTISSA_DIGITS - 1))
}

/// Both halves of an element that has been multiplied, and whether they lack more of it than is to be.
#[inline(always)]
fn halves(x: f32) -> ([f16; 2], bool) {
    let high = f16::narrow(x);
    let rest = x - high.widen();
    // What is not finite has no rest but NaN. Selected, not branched upon.
    let low =
        f16::from_bits(if rest.is_nan() { 0 } else { f16::narrow(rest * LOW_FACTOR).to_bits() });
    let lost = rest - low.widen() / LOW_FACTOR;
    let kept = lost.abs() <= KEPT * x.abs();
    ([high, low], !kept)
}

/// The bit of the sign.
const SIGN: u32 = 1 << (u32::BITS - 1);

/// The bits of a number without its sign, which are in the order of magnitudes; those of zero where it is not finite.
#[inline(always)]
fn magnitude(x: f32) -> u32 {
    let bits = x.to_bits() & !SIGN;
    if bits < INFINITE { bits } else { 0 }
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
            matrix.split_across(block * warp::WARP_SIZE);
        } else {
            matrix.split_along(block * WARPS);
        }
    }
}

impl Matrix {
    /// Splits the rows from `first` on, one for each warp.
    ///
    /// # Safety
    /// As for [`split`].
    #[inline(always)]
    unsafe fn split_along(&self, first: u32) {
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
                for x in self.vectors(from, step, lane) {
                    for x in x {
                        largest = largest.max(magnitude(x));
                    }
                }
            }
            let line = Line::new(among_lanes(largest, u32::max));
            let mut marked = false;
            for step in (0..steps).rev() {
                let loaded = self.vectors(from, step, lane);
                unroll!(i < TOGETHER, {
                    let col = Self::col(step, i as u32, lane);
                    let (mut high, mut low) = ([f16::ZERO; VECTOR], [f16::ZERO; VECTOR]);
                    for j in 0..VECTOR {
                        let ([h, l], lossy) = halves(scaled(loaded[i][j], line.exponent()));
                        (high[j], low[j]) = (h, l);
                        marked |= lossy;
                    }
                    // Rows of halves have room for whole vectors.
                    self.high.at(row, col).store_vec_if(col < self.cols, high);
                    self.low.at(row, col).store_vec_if(col < self.cols, low);
                });
            }
            let marked = among_lanes(u32::from(marked), u32::max) != 0;
            if lane == 0 {
                self.lines.add(row.into()).store(line.marked(marked).0);
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
    unsafe fn vectors(
        &self,
        from: GlobalPtr<f32>,
        step: u32,
        lane: u32,
    ) -> [[f32; VECTOR]; TOGETHER] {
        let aligned = from.address().is_multiple_of((VECTOR * size_of::<f32>()) as u64);
        let mut vectors = [[0.0; VECTOR]; TOGETHER];
        unroll!(i < TOGETHER, {
            let col = Self::col(step, i as u32, lane);
            let whole = aligned & (self.cols.saturating_sub(col) >= VECTOR as u32);
            // SAFETY: the elements are loaded where there are some.
            vectors[i] = unsafe { from.add(col.into()).load_vec_if(whole) };
        });
        // Behind all of them, so that nothing comes between.
        unroll!(i < TOGETHER, {
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

    /// Splits the columns from `first` on, one for each lane.
    ///
    /// # Safety
    /// As for [`split`]; all threads of the block get here.
    #[inline(always)]
    unsafe fn split_across(&self, first: u32) {
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
                for x in self.column(step, warp, col) {
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
                let loaded = self.column(step, warp, col);
                unroll!(i < ROWS_TOGETHER, {
                    let row = Self::row(step, i as u32, warp);
                    let ([high, low], lossy) = halves(scaled(loaded[i], line.exponent()));
                    marked |= lossy;
                    let inside = (row < self.rows) & (col < self.cols);
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
                self.lines.add(col.into()).store(line.marked(marked != 0).0);
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
    unsafe fn column(&self, step: u32, warp: u32, col: u32) -> [f32; ROWS_TOGETHER] {
        let mut column = [0.0; ROWS_TOGETHER];
        unroll!(i < ROWS_TOGETHER, {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_element_comes_to_lie_below_two_to_the_fifteenth() {
        for x in
            [f32::MAX, 1e30, 3.0, 1.0, 0.99, 1e-30, f32::MIN_POSITIVE, 1e-40, f32::from_bits(1)]
        {
            let line = Line::new(x.to_bits());
            let scaled = scaled(x, line.exponent());
            assert!((16384.0..32768.0).contains(&scaled), "{x:e} becomes {scaled}");
            assert_eq!(f64::from(scaled), f64::from(x) * 2f64.powi(line.exponent()), "{x:e}");
            assert!(!line.is_marked() && line.marked(true).is_marked());
            assert_eq!(line.marked(true).exponent(), line.exponent());
        }
        assert_eq!(Line::new(0).exponent(), 0);
    }

    #[test]
    fn halves_keep_22_bits_of_what_is_not_too_small() {
        let mut x = 32767.999_f32;
        while x > 2f32.powi(-14) {
            let ([high, low], lossy) = halves(x);
            let kept = f64::from(high.widen()) + f64::from(low.widen() / LOW_FACTOR);
            assert!((f64::from(x) - kept).abs() <= f64::from(x) * 2f64.powi(-22) && !lossy, "{x}");
            x *= 0.999;
        }
        assert!(halves(1.000_000_1 * 2f32.powi(-17)).1);
        assert!(!halves(2f32.powi(-20)).1, "it is an f16");
        assert!(!halves(0.0).1);
    }

    #[test]
    fn what_is_not_finite_is_marked() {
        assert_eq!(halves(f32::NEG_INFINITY), ([f16::NEG_INFINITY, f16::ZERO], true));
        let ([high, low], lossy) = halves(f32::NAN);
        assert!(high.is_nan() && low == f16::ZERO && lossy);
        assert_eq!((magnitude(f32::INFINITY), magnitude(f32::NAN)), (0, 0));
    }
}
