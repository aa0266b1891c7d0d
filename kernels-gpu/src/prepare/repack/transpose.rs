//! Copies of elements of four bytes whose rows become columns: the launch before kernels that are
//! [`Transposed`](crate::prepare::transposed::Transposed).
//!
//! A thread takes a square of 4 x 4 elements. It loads 16 bytes of each of four rows, which lie in neighbouring
//! registers, and stores 16 bytes to each of four rows of the copy, one element of each load: what is transposed is
//! which registers an instruction names. Eight lanes load a line of the cache of each row, and four store half a line.
//!
//! Rows that begin anywhere, and the ends of rows, are loaded element by element. The rows of the copy are aligned and
//! have room for whole vectors; what of them lies behind the last row of what is stored becomes zero, or is left alone.
//!
//! It is a launch of its own, since it needs half of the registers: all loads of a factor of 4 MB are then in flight at
//! once. Where one factor is transposed and the other only needs other rows it copies both, that one as it lies.

use super::{Repack, THREADS};
use cuda_std::device_inline;
use cuda_std::memory::GlobalPtr;
use cuda_std::thread;

/// Blocks that a multiprocessor must have room for.
pub const MIN_BLOCKS: u32 = 6;

/// Bytes of an element.
pub(super) const ELEMENT_BYTES: u64 = 4;

/// Rows and columns of a thread's square: elements of a vector.
const SIDE: u32 = 4;

/// Lanes of a warp along the rows of what is stored, and along its columns.
const LANES: (u32, u32) = (8, 4);

/// Rows and columns of a block of threads, which are as many.
const OF_BLOCK: u32 = 64;

/// Warps of a block of threads along the rows of what is stored.
const WARPS_ALONG: u32 = OF_BLOCK / (SIDE * LANES.0);

const _: () = assert!(THREADS * SIDE * SIDE == OF_BLOCK * OF_BLOCK, "a block takes a square");

/// Blocks of threads along the rows of a matrix, and all that transpose it.
pub(super) const fn blocks(rows: u32, cols: u64) -> (u64, u64) {
    let across = cols.div_ceil(OF_BLOCK as u64);
    (across, across.saturating_mul(rows.div_ceil(OF_BLOCK) as u64))
}

/// Runs one thread.
///
/// # Safety
/// As for [`repack`](super::repack); the factors are [of squares](super::CopiedFactor::squares).
#[device_inline]
pub unsafe fn transpose(p: Repack) {
    let (factor, block) = p.factor(thread::block_idx_x());
    // There are blocks; saying so spares the compiler checks for division by zero.
    let (of_matrix, across) = (factor.blocks_of_matrix.max(1), factor.squares_across.max(1));
    let (matrix, block) = (u64::from(block / of_matrix), block % of_matrix);
    let (thread, (lanes_along, lanes_down)) = (thread::thread_idx_x(), LANES);
    let (warp, lane) = (thread / (lanes_along * lanes_down), thread % (lanes_along * lanes_down));
    let down = warp / WARPS_ALONG * lanes_down + lane / lanes_along;
    let along = warp % WARPS_ALONG * lanes_along + lane % lanes_along;
    let row = block / across * OF_BLOCK + down * SIDE;
    let col = block % across * OF_BLOCK + along * SIDE;
    let (rows, cols) = (factor.rows, (factor.row_bytes / ELEMENT_BYTES) as u32);

    let from = factor.from.address() + matrix * factor.matrix_pitch;
    let from = from + u64::from(row) * factor.row_pitch + u64::from(col) * ELEMENT_BYTES;
    let at = |down: u64| GlobalPtr::<u32>::from_address(from + down * factor.row_pitch);
    let aligned =
        (factor.from.address() | factor.row_pitch | factor.matrix_pitch).is_multiple_of(16);
    // SAFETY: elements of the factor, where they are loaded; whole vectors are aligned.
    let square = unsafe {
        if aligned && col + SIDE <= cols {
            [0, 1, 2, 3].map(|down| at(down).load_vec_if(row + (down as u32) < rows))
        } else {
            [0, 1, 2, 3].map(|down| {
                [0, 1, 2, 3].map(|along| {
                    let inside = (row + (down as u32) < rows) & (col + (along as u32) < cols);
                    at(down).add(along).load_if(inside)
                })
            })
        }
    };
    let is_transposed = factor.is_transposed != 0;
    let [a, b, c, d] = square;
    let transposed = [0, 1, 2, 3].map(|i| [a[i], b[i], c[i], d[i]]);
    let copied = if is_transposed { transposed } else { square };
    let flipped = |(row, col): (u32, u32)| if is_transposed { (col, row) } else { (row, col) };
    let ((row, col), (rows, cols)) = (flipped((row, col)), flipped((rows, cols)));
    let to =
        factor.to.address() + (matrix * u64::from(rows) + u64::from(row)) * factor.copied_pitch;
    let to = to + u64::from(col) * ELEMENT_BYTES;
    for (down, vector) in copied.into_iter().enumerate() {
        let to = GlobalPtr::<u32>::from_address(to + down as u64 * factor.copied_pitch);
        // SAFETY: rows of the copy are aligned, and long enough for whole vectors.
        unsafe { to.store_vec_if((row + (down as u32) < rows) & (col < cols), vector) };
    }
}
