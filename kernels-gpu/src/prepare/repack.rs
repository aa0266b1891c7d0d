//! Copies of factors in rows that bulk copies can take.
//!
//! Bulk copies want rows that begin at multiples of 16 bytes ([`crate::maps`]). A factor whose address, leading
//! dimension or distance to the next of its batch is none is copied first, to rows that begin at whole lines of the
//! cache; the bulk copies then take the copy. Each byte goes through the multiprocessors once, at the speed of memory,
//! where the product takes it a hundred times: what the copy costs is little beside what slow loads of rows at odd
//! places would.
//!
//! What makes it hard is that rows begin anywhere, and the widest loads only at multiples of 16 bytes. So a thread
//! loads the two aligned vectors that 16 bytes of its row lie in, shifts them together and stores one aligned vector:
//!
//! ```text
//! loaded        | . . . a b c d e | f g h i j k l m |      aligned
//! stored              | a b c d e   f g h |                aligned, too
//! ```
//!
//! The upper of the two is the lower one of the next thread, so it is in the L1 cache, or on its way there, and memory
//! is read but once. Vectors are counted through all rows, and neighbouring threads have neighbouring ones, whatever
//! the rows' length: all threads have something to do, and both sides are read and written from front to back. A thread
//! has several, whose loads are in flight together: what is in flight on all multiprocessors must fill the time that
//! memory takes to answer.
//!
//! Nothing is read but elements of the factor. A vector that reaches out of it, at the ends of rows with gaps between
//! them or of the whole where there are none, is loaded element by element instead. What the last vector of a row has
//! behind the row's end becomes zero, and the rest of the copy's row is left alone: bulk copies know where rows end,
//! and read neither.
//!
//! A factor that lies otherwise than a kernel takes it is [transposed](transpose) on the way, by another launch.

pub mod transpose;

use crate::params::MatrixRef;
use crate::slices::mover;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, thread, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Blocks that a multiprocessor must have room for. With `VECTORS` they have 48 KiB of loads in flight there, which is
/// more than twice what memory of 4.8 TB/s delivers to it in the microsecond that it takes to answer.
pub const MIN_BLOCKS: u32 = 3;

/// Vectors of a thread, whose loads are in flight together.
const VECTORS: usize = 4;

/// Vectors of a block.
const VECTORS_OF_BLOCK: u32 = THREADS * VECTORS as u32;

/// What rows are counted in here: two bytes, of which all elements consist.
pub type Unit = u16;

/// Bytes of a unit.
const UNIT_BYTES: u64 = size_of::<Unit>() as u64;

/// Bytes of a vector.
const VECTOR_BYTES: u64 = mover::VECTOR_BYTES as u64;

/// Units of a vector.
const UNITS: u64 = VECTOR_BYTES / UNIT_BYTES;

/// Bytes of a line of the cache, at multiples of which the rows of copies begin: a row of a box of bulk copies is one
/// ([`crate::warpgroup::bulk_panels`]).
pub const ROW_ALIGNMENT: u64 = 128;

/// Units from one row of a copy to the next, for rows of so many.
pub const fn ld(cols: u64) -> u64 {
    cols.next_multiple_of(ROW_ALIGNMENT / UNIT_BYTES)
}

/// Units of the copy of a matrix.
pub const fn units(rows: u32, cols: u64) -> u64 {
    (rows as u64).saturating_mul(ld(cols))
}

/// Blocks that copy a matrix.
pub const fn blocks(rows: u32, cols: u64) -> u64 {
    (rows as u64).saturating_mul(cols.div_ceil(UNITS)).div_ceil(VECTORS_OF_BLOCK as u64)
}

/// Matrices of one factor that are copied. All distances are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopiedFactor {
    /// The first one, as it is stored.
    from: GlobalPtr<Unit>,
    /// From one row to the next.
    row_pitch: u64,
    /// From one matrix to the next.
    matrix_pitch: u64,
    /// Length of a row.
    row_bytes: u64,
    /// The first copy. Those of other matrices follow one another.
    to: GlobalPtr<Unit>,
    /// From one row of a copy to the next.
    copied_pitch: u64,
    /// Rows.
    rows: u32,
    /// Vectors of a row, the last of which need not be whole.
    vectors: u32,
    /// Units of that one.
    last: u32,
    /// Blocks that copy a matrix.
    blocks_of_matrix: u32,
    /// Blocks that copy all of them.
    blocks: u32,
    /// Of the blocks of a matrix that is copied by [squares](CopiedFactor::squares), those along its rows; nobody else
    /// asks.
    squares_across: u32,
    /// Zero where it is copied as it lies.
    is_transposed: u32,
}

impl CopiedFactor {
    /// No matrix at all.
    pub const NONE: CopiedFactor = CopiedFactor {
        from: GlobalPtr::null(),
        row_pitch: 0,
        matrix_pitch: 0,
        row_bytes: 0,
        to: GlobalPtr::null(),
        copied_pitch: 0,
        rows: 0,
        vectors: 0,
        last: 0,
        blocks_of_matrix: 0,
        blocks: 0,
        squares_across: 0,
        is_transposed: 0,
    };

    /// `count` matrices of `rows x cols` units that begin `stride` units apart, and whose copies are to begin at `to`,
    /// a multiple of [`ROW_ALIGNMENT`]: rows [`ld`] units apart, and matrices [`units`]. Rows are below 2^31, vectors
    /// of a row and blocks as well.
    pub const fn new(
        from: MatrixRef<Unit>,
        (rows, cols): (u32, u64),
        (count, stride): (u32, u64),
        to: GlobalPtr<Unit>,
    ) -> CopiedFactor {
        let vectors = cols.div_ceil(UNITS);
        let blocks_of_matrix = blocks(rows, cols) as u32;
        CopiedFactor {
            from: from.data,
            row_pitch: from.ld * UNIT_BYTES,
            matrix_pitch: stride * UNIT_BYTES,
            row_bytes: cols * UNIT_BYTES,
            to,
            copied_pitch: ld(cols) * UNIT_BYTES,
            rows,
            vectors: vectors as u32,
            last: (cols - vectors.saturating_sub(1) * UNITS) as u32,
            blocks_of_matrix,
            blocks: blocks_of_matrix.saturating_mul(count),
            ..CopiedFactor::NONE
        }
    }

    /// The same for elements of four bytes, which [`transpose`] copies in squares, with rows and columns exchanged or
    /// not: `cols` is in units all the same, and copies are as for [`new`](Self::new), with `cols / 2` rows of `2 *
    /// rows` units where they are transposed.
    pub const fn squares(
        from: MatrixRef<Unit>,
        (rows, cols): (u32, u64),
        (count, stride): (u32, u64),
        to: GlobalPtr<Unit>,
        is_transposed: bool,
    ) -> CopiedFactor {
        let factor = CopiedFactor::new(from, (rows, cols), (count, stride), to);
        let (across, of_matrix) = transpose::blocks(rows, cols / UNITS_OF_ELEMENT);
        let of_row = if is_transposed { rows as u64 * UNITS_OF_ELEMENT } else { cols };
        CopiedFactor {
            copied_pitch: ld(of_row) * UNIT_BYTES,
            blocks_of_matrix: of_matrix as u32,
            blocks: (of_matrix as u32).saturating_mul(count),
            squares_across: across as u32,
            is_transposed: is_transposed as u32,
            ..factor
        }
    }
}

/// Units of an element that [`transpose`] copies.
const UNITS_OF_ELEMENT: u64 = transpose::ELEMENT_BYTES / UNIT_BYTES;

/// Blocks that copy a matrix of so many rows, and units in a row, in [squares](CopiedFactor::squares).
pub const fn blocks_of_squares(rows: u32, cols: u64) -> u64 {
    transpose::blocks(rows, cols / UNITS_OF_ELEMENT).1
}

/// What one launch copies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Repack {
    /// Of A.
    pub a: CopiedFactor,
    /// Of B.
    pub b: CopiedFactor,
}

impl Repack {
    /// Blocks of the launch, all along x.
    pub const fn blocks(&self) -> u32 {
        self.a.blocks.saturating_add(self.b.blocks)
    }

    /// The factor of a block, and which of its blocks it is.
    #[device_inline]
    fn factor(&self, block: u32) -> (CopiedFactor, u32) {
        if block < self.a.blocks { (self.a, block) } else { (self.b, block - self.a.blocks) }
    }
}

/// Where a thread is: a vector of a row, and where that row lies.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    vector: u32,
    /// The row's first unit.
    from: u64,
    /// That of its copy.
    to: u64,
}

impl Place {
    /// The place so many rows and vectors ahead, fewer vectors than a row has.
    #[device_inline]
    fn ahead(self, factor: &CopiedFactor, (rows, vectors): (u32, u32)) -> Place {
        let vector = self.vector + vectors;
        let ends = vector >= factor.vectors;
        let rows = rows + u32::from(ends);
        Place {
            row: self.row + rows,
            vector: if ends { vector - factor.vectors } else { vector },
            from: self.from + u64::from(rows) * factor.row_pitch,
            to: self.to + u64::from(rows) * factor.copied_pitch,
        }
    }

    /// Units of the vector; none behind the last row.
    #[device_inline]
    fn units(&self, factor: &CopiedFactor) -> u32 {
        let of_vector = if self.vector + 1 == factor.vectors { factor.last } else { UNITS as u32 };
        if self.row < factor.rows { of_vector } else { 0 }
    }

    /// The vector's first unit.
    #[device_inline]
    fn source(&self) -> GlobalPtr<Unit> {
        GlobalPtr::from_address(self.from + u64::from(self.vector) * VECTOR_BYTES)
    }

    /// The vector of the copy.
    #[device_inline]
    fn target(&self) -> GlobalPtr<u32> {
        GlobalPtr::from_address(self.to + u64::from(self.vector) * VECTOR_BYTES)
    }

    /// Bytes by which the vector begins behind a multiple of 16.
    #[device_inline]
    fn shift(&self) -> u32 {
        self.source().address() as u32 % VECTOR_BYTES as u32
    }
}

/// Runs one thread.
///
/// # Safety
/// Launched with [`THREADS`] threads along x and [`Repack::blocks`] along x; the matrices are valid, and the copies are
/// memory of their own.
#[device_inline]
pub unsafe fn repack(p: Repack) {
    let (factor, block) = p.factor(thread::block_idx_x());
    // SAFETY: as promised by the caller.
    unsafe { copy::<VECTORS>(factor, block) }
}

/// Copies a block's vectors of a factor, `N` for each thread.
///
/// # Safety
/// As for [`repack`].
#[device_inline]
unsafe fn copy<const N: usize>(factor: CopiedFactor, block: u32) {
    // There are blocks and vectors; saying so spares the compiler checks for division by zero.
    let factor = CopiedFactor { vectors: factor.vectors.max(1), ..factor };
    let of_matrix = factor.blocks_of_matrix.max(1);
    let (matrix, block) = (block / of_matrix, block % of_matrix);
    let first_from = factor.from.address() + u64::from(matrix) * factor.matrix_pitch;
    let to = factor.to.address() + u64::from(matrix) * u64::from(factor.rows) * factor.copied_pitch;
    let end = first_from + u64::from(factor.rows) * factor.row_bytes;
    // Without gaps between them rows go on in each other.
    let gaps = factor.row_pitch != factor.row_bytes;

    let index = u64::from(block) * u64::from(VECTORS_OF_BLOCK) + u64::from(thread::thread_idx_x());
    let vectors = u64::from(factor.vectors);
    let (row, vector) = ((index / vectors) as u32, (index % vectors) as u32);
    let mut place = Place {
        row,
        vector,
        from: first_from + u64::from(row) * factor.row_pitch,
        to: to + u64::from(row) * factor.copied_pitch,
    };
    let step = (THREADS / factor.vectors, THREADS % factor.vectors);

    let mut places = [place; N];
    let mut loaded = [([0; 4], [0; 4]); N];
    let mut whole = [false; N];
    unroll!(i < N, {
        if i != 0 {
            place = place.ahead(&factor, step);
        }
        let (source, shift) = (place.source().address(), place.shift());
        let lower = source - u64::from(shift);
        let bytes = if shift == 0 { VECTOR_BYTES } else { 2 * VECTOR_BYTES };
        let (start, end) =
            if gaps { (place.from, place.from + factor.row_bytes) } else { (first_from, end) };
        // All of it is worked out, since branches would cost more.
        let inside = (place.row < factor.rows) & (lower >= start) & (lower + bytes <= end);
        let lower = GlobalPtr::<u32>::from_address(lower);
        // SAFETY: both vectors lie in the factor where they are loaded, and are aligned.
        loaded[i] =
            unsafe { (lower.load_vec_if(inside), lower.add(4).load_vec_if(inside & (shift != 0))) };
        (places[i], whole[i]) = (place, inside);
    });
    unroll!(i < N, {
        let (place, (lower, upper)) = (places[i], loaded[i]);
        let units = place.units(&factor);
        let mut vector = shifted(lower, upper, place.shift());
        if !whole[i] {
            // SAFETY: only units of the row are loaded.
            vector = unsafe { singly(place.source(), units) };
        } else if units < UNITS as u32 {
            vector = cut(vector, units);
        }
        // SAFETY: the vector lies in the row of the copy, which is long enough for whole ones and aligned.
        unsafe { place.target().store_vec_if(units > 0, vector) };
    });
}

/// The 16 bytes that begin `bytes` into two neighbouring vectors, an even number less than 16.
#[device_inline]
fn shifted(lower: [u32; 4], upper: [u32; 4], bytes: u32) -> [u32; 4] {
    let [a, b, c, d] = lower;
    let [e, f, g, h] = upper;
    let either = |which: bool, one: u32, other: u32| if which { one } else { other };
    // By each bit of the number in turn.
    let two = bytes & 8 != 0;
    let [a, b, c, d, e, f] = [(c, a), (d, b), (e, c), (f, d), (g, e), (h, f)]
        .map(|(shifted, not)| either(two, shifted, not));
    let one = bytes & 4 != 0;
    let [a, b, c, d, e] =
        [(b, a), (c, b), (d, c), (e, d), (f, e)].map(|(shifted, not)| either(one, shifted, not));
    // The shift is one of two registers as one, by none or half of one.
    let bits = bytes % 4 * u8::BITS;
    [(a, b), (b, c), (c, d), (d, e)]
        .map(|(low, high)| ((u64::from(high) << u32::BITS | u64::from(low)) >> bits) as u32)
}

/// The vector with zeros behind its first `left` units.
#[device_inline]
fn cut(vector: [u32; 4], left: u32) -> [u32; 4] {
    let [a, b, c, d] = vector;
    [(a, 0), (b, 2), (c, 4), (d, 6)].map(|(word, before)| {
        let kept = match left.saturating_sub(before) {
            0 => 0,
            1 => Unit::MAX.into(),
            _ => u32::MAX,
        };
        word & kept
    })
}

/// The vector whose first `left` units are those from `from` on, loaded one by one, and the others zero.
///
/// # Safety
/// These units are valid.
#[device_inline]
unsafe fn singly(from: GlobalPtr<Unit>, left: u32) -> [u32; 4] {
    [0, 2, 4, 6].map(|unit| {
        let at = from.add(u64::from(unit));
        // SAFETY: as promised by the caller.
        let (low, high) = unsafe { (at.load_if(unit < left), at.add(1).load_if(unit + 1 < left)) };
        u32::from(low) | u32::from(high) << Unit::BITS
    })
}
