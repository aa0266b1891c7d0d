//! The last stretch of a warp's part of D: rounded, by way of shared memory, to where it belongs.
//!
//! Lanes hold pairs of neighbouring elements in eight rows; D is written in rows. So a warp writes 16 rows by 64 columns to shared
//! memory, matrices of 8 x 8 together ([`cuda_std::mma::store_matrices`]), and sends them from there. A row is 128 bytes, as many as
//! there are in all banks, and its 16-byte pieces change places with those of the rows next to it ([`Swizzle::Bytes128`]): so the
//! eight rows of a matrix lie in different banks, as do the pieces of a row.
//!
//! There is room for two such parts, which are used in turn.

use crate::element::Element;
use crate::params::GemmParams;
use crate::tile::Origin;
use cuda_std::memory::SharedPtr;
use cuda_std::scalar::Scalar;
use cuda_std::swizzle::Swizzle;
use cuda_std::{hint, mma, warp};

/// Rows of a part.
pub const ROWS: usize = 16;
/// Columns of a part.
pub const COLS: usize = 64;

/// How a part lies in shared memory.
const SWIZZLE: Swizzle = Swizzle::Bytes128;

/// Bytes of a row of a part, and of all of it.
const ROW_BYTES: u32 = SWIZZLE.row_bytes();
const PART_BYTES: u32 = ROWS as u32 * ROW_BYTES;

/// Columns that are written together, and their bytes.
pub const BLOCK: usize = 2 * mma::MATRIX;
const BLOCK_BYTES: u32 = ROW_BYTES / (COLS / BLOCK) as u32;

/// Bytes of shared memory of one warp.
pub const BYTES: u32 = 2 * PART_BYTES;

/// What the room of a warp begins at a multiple of.
pub const ALIGNMENT: u32 = SWIZZLE.repeats_after();

/// What a lane reads before it stores any of it.
const AT_ONCE: usize = 8;

/// A warp's room for parts of D on their way.
pub struct Outbox {
    /// Where the part that is written begins.
    part: u32,
    /// Bytes from there to the other part's place: this many, modulo 2^32.
    to_other: u32,
}

impl Outbox {
    /// The room of a warp, [`BYTES`] from a multiple of [`ALIGNMENT`] on.
    #[inline(always)]
    pub fn new(room: SharedPtr<u8>) -> Self {
        Outbox { part: room.address(), to_other: PART_BYTES }
    }

    /// Writes 16 columns of the part, the `block`-th: of each 8 rows by 8 columns a lane's pair, upper and lower rows of the first 8
    /// columns, then of the others.
    ///
    /// # Safety
    /// All lanes of the warp get here together. The room is the warp's own.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn write(&self, block: u32, pairs: [u32; 4]) {
        let lane = warp::lane_id();
        let (row, piece) = (lane % ROWS as u32, lane / ROWS as u32);
        let first = SWIZZLE.apply(self.part + row * ROW_BYTES + piece * (BLOCK_BYTES / 2));
        // The part begins at a multiple of the swizzle's pattern, in which other pieces of a row differ in the same bits.
        let place = SharedPtr::<u16>::from_address(first ^ (block * BLOCK_BYTES));
        // SAFETY: as promised by the caller.
        unsafe { mma::store_matrices(place, pairs) }
    }

    /// Sends the part to D, where it begins at `origin`, all lanes elements of type `W` of the same row: pairs or single ones. Rows
    /// of D consist of such.
    ///
    /// # Safety
    /// All lanes of the warp get here together, having written all blocks. D is valid for the shape in `params`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn send_rows<T: Element, E, W: Scalar + Default, const WORDS: usize>(
        &mut self,
        params: &GemmParams<T, E>,
        origin: Origin,
    ) {
        let bytes = (size_of::<W>() * WORDS) as u32;
        let in_row = ROW_BYTES / bytes;
        let turns = PART_BYTES / bytes / warp::WARP_SIZE;
        let at_once = AT_ONCE.min(turns as usize) as u32;
        let lane = warp::lane_id();
        let of_turn = |turn: u32| {
            let index = turn * warp::WARP_SIZE + lane;
            (index / in_row, index % in_row * bytes)
        };
        // SAFETY: as promised by the caller; a part is written again when all lanes have written the one after it.
        unsafe {
            warp::sync_warp(warp::FULL_MASK);
            for round in 0..hint::opaque(turns / at_once) {
                let mut words = [[W::default(); WORDS]; AT_ONCE];
                for i in 0..AT_ONCE {
                    if (i as u32) < at_once {
                        let (row, byte) = of_turn(round * at_once + i as u32);
                        let place = SWIZZLE.apply(self.part + row * ROW_BYTES + byte);
                        words[i] = SharedPtr::from_address(place).load_vec();
                    }
                }
                for i in 0..AT_ONCE {
                    if (i as u32) < at_once {
                        let (row, byte) = of_turn(round * at_once + i as u32);
                        let row = origin.row + row;
                        let col = origin.col + byte / size_of::<T>() as u32;
                        let inside = row < params.m && col < params.n;
                        params.d.at(row, col).cast::<W>().store_vec_if(inside, words[i]);
                    }
                }
            }
        }
        self.turn();
    }

    /// On to the other part's place.
    #[inline(always)]
    fn turn(&mut self) {
        self.part = self.part.wrapping_add(self.to_other);
        self.to_other = self.to_other.wrapping_neg();
    }
}
