//! How a part of D, or of C, lies in shared memory: 16 rows of 128 bytes, or four such below each other that a
//! warpgroup has together.
//!
//! Lanes hold pairs of neighbouring elements in eight rows. Of 16 bits, matrices of 8 x 8 of them are written and read
//! together ([`cuda_std::mma`]). A row is 128 bytes, as many as there are in all banks, and its 16-byte pieces change
//! places with those of the rows next to it ([`Swizzle::Bytes128`]): so the eight rows of a matrix lie in different
//! banks, as do the pieces of a row.
//!
//! Of f32 a row has half as many columns, and lanes write or read their pairs by themselves, 8 bytes each. Of such 16
//! lanes do so at a time, those of four rows, and in each row two pieces, which lie where two rows beside each other
//! both have theirs. So lanes of odd rows go through their pairs in another order.
//!
//! Where [A and B are swapped](crate::swapped) lanes hold pairs of elements below each other, and a warp's 16 rows of
//! sums are 16 columns of D, a quarter of a row of a part. So the four warps of a warpgroup have 64 rows by 64 columns
//! together, each matrix transposed on its way.

use crate::epilogue::pairs::{self, Pairs, Words};
use crate::maps::BoxShape;
use crate::warp::sums_on_the_way::LANES;
use cuda_std::memory::SharedPtr;
use cuda_std::swizzle::Swizzle;
use cuda_std::{device_inline, mma, thread, warp, wgmma};

/// Rows of a part.
pub const ROWS: usize = 16;

/// How a part lies in shared memory.
pub const SWIZZLE: Swizzle = Swizzle::Bytes128;

/// Bytes of a row of a part.
pub const ROW_BYTES: u32 = SWIZZLE.row_bytes();

/// Bytes of a part.
pub const PART_BYTES: u32 = ROWS as u32 * ROW_BYTES;

/// Columns of 16 bits that are written together, and their bytes.
pub const BLOCK: usize = 2 * mma::MATRIX;
const BLOCK_BYTES: u32 = (BLOCK * size_of::<u16>()) as u32;

/// Bytes of f32 from one of a lane's pairs to the next in its row.
const STEP_BYTES: u32 = pairs::STEP * size_of::<f32>() as u32;

/// Of the four pairs of a row of f32, as many change places in odd rows. With that the pieces that 16 lanes read at a
/// time are all eight.
const EXCHANGED: usize = pairs::PAIRS / 2;

/// Warps that have a part together where A and B are swapped: those of a warpgroup.
pub const WARPS_TOGETHER: u32 = wgmma::THREADS / warp::WARP_SIZE;

/// Columns of a part of elements of `D`.
pub const fn cols<D>() -> usize {
    ROW_BYTES as usize / size_of::<D>()
}

/// What a mapped matrix is copied in, so many rows at a time.
pub const fn box_of_rows<D>(rows: u32) -> BoxShape {
    BoxShape { rows, cols: cols::<D>() as u32, swizzle: SWIZZLE }
}

/// Which warp of its warpgroup this is.
#[device_inline]
pub fn warp_of_warpgroup() -> u32 {
    thread::thread_idx_x() % wgmma::THREADS / warp::WARP_SIZE
}

/// What a lane passes for the `block`-th 16 columns of 16 bits of a part: of each 8 rows by 8 columns a lane's pair,
/// upper and lower rows of the first 8 columns, then of the others.
#[device_inline]
pub fn block(part: u32, block: u32, lane: u32) -> SharedPtr<u16> {
    let (row, piece) = (lane % ROWS as u32, lane / ROWS as u32);
    let first = SWIZZLE.apply(part + row * ROW_BYTES + piece * (BLOCK_BYTES / 2));
    // The part begins at a multiple of the swizzle's pattern, in which other pieces of a row differ in the same bits.
    SharedPtr::from_address(first ^ (block * BLOCK_BYTES))
}

/// The same of a part that the warps of a warpgroup have together: each 8 columns of sums are 8 rows, in which this
/// warp has two pieces beside each other.
#[device_inline]
pub fn transposed_block(part: u32, block: u32, lane: u32) -> SharedPtr<u16> {
    const MATRIX: u32 = mma::MATRIX as u32;
    let row = lane % MATRIX + lane / (2 * MATRIX) * MATRIX;
    let piece = 2 * warp_of_warpgroup() + lane / MATRIX % 2;
    let first = SWIZZLE.apply(part + row * ROW_BYTES + piece * (BLOCK_BYTES / 2));
    // As many rows as the swizzle's pattern has, or twice as many.
    SharedPtr::from_address(first + block * (BLOCK as u32 * ROW_BYTES))
}

/// Where a lane's pairs of f32 lie in a part.
struct PairsOfF32 {
    part: u32,
    odd: bool,
    row: u32,
    column: u32,
}

impl PairsOfF32 {
    #[device_inline]
    fn of(part: u32) -> Self {
        let lane = warp::lane_id();
        let (row, pair) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
        let column = pair * size_of::<[f32; 2]>() as u32;
        PairsOfF32 { part, odd: !row.is_multiple_of(2), row, column }
    }

    /// The `j`-th pair of row `i` in the order in which this lane goes through them.
    #[device_inline]
    fn place(&self, i: usize, j: usize) -> SharedPtr<f32> {
        let row = self.row + i as u32 * pairs::STEP;
        let exchanged = if self.odd { EXCHANGED as u32 * STEP_BYTES } else { 0 };
        let first = SWIZZLE.apply(self.part + row * ROW_BYTES + self.column) ^ exchanged;
        SharedPtr::from_address(first ^ (j as u32 * STEP_BYTES))
    }
}

/// Writes a lane's pairs of a part of f32.
///
/// # Safety
/// The room is the warp's own.
#[device_inline]
#[track_caller]
pub unsafe fn write_f32(part: u32, values: Pairs<f32>) {
    const { assert!(cols::<f32>() == pairs::COLS, "a part is one turn") };
    let of_lane = PairsOfF32::of(part);
    for i in 0..pairs::ROWS {
        for j in 0..pairs::PAIRS {
            let pair = if of_lane.odd { values[i][j ^ EXCHANGED] } else { values[i][j] };
            // SAFETY: as promised by the caller; a pair is aligned to its size.
            unsafe { of_lane.place(i, j).store_vec(pair) };
        }
    }
}

/// Reads a lane's elements of a part of f32.
///
/// # Safety
/// They are there, and nobody writes them at the same time.
#[device_inline]
#[track_caller]
pub unsafe fn read_f32(part: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS] {
    const { assert!(cols::<f32>() == pairs::COLS, "a part is one turn") };
    let of_lane = PairsOfF32::of(part);
    let mut words = [[[0; 2]; pairs::PAIRS]; pairs::ROWS];
    for i in 0..pairs::ROWS {
        for j in 0..EXCHANGED {
            // SAFETY: as promised by the caller; a pair is aligned to its size.
            let [first, second] = [j, j ^ EXCHANGED]
                .map(|j| unsafe { of_lane.place(i, j).cast::<u32>().load_vec::<2>() });
            let in_order = if of_lane.odd { [second, first] } else { [first, second] };
            [words[i][j], words[i][j ^ EXCHANGED]] = in_order;
        }
    }
    words
}

/// The same of parts that the warps of a warpgroup have together, two of 32 by 32 below each other: eight lanes read 32
/// bytes of a row, and four such rows have their pieces in different banks.
///
/// # Safety
/// As for [`read_f32`].
#[device_inline]
#[track_caller]
pub unsafe fn read_transposed_f32(part: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS] {
    const COLS: u32 = cols::<f32>() as u32;
    let lane = warp::lane_id();
    let (row, pair) = (lane / LANES.1 as u32, lane % LANES.1 as u32);
    let col = warp_of_warpgroup() * ROWS as u32;
    let part = part + col / COLS * (COLS * ROW_BYTES);
    let mut words = [[[0; 2]; pairs::PAIRS]; pairs::ROWS];
    for i in 0..pairs::ROWS {
        let col = col % COLS + row + i as u32 * pairs::STEP;
        for j in 0..pairs::PAIRS {
            for e in 0..2 {
                let row = j as u32 * pairs::STEP + 2 * pair + e as u32;
                let byte = row * ROW_BYTES + col * size_of::<f32>() as u32;
                // SAFETY: as promised by the caller.
                words[i][j][e] =
                    unsafe { SharedPtr::from_address(SWIZZLE.apply(part + byte)).load() };
            }
        }
    }
    words
}
