//! Which tile of D a block owns.

use crate::kernel::Tile;
use cuda_std::thread;

/// The first row and column of a tile of D.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// First row.
    pub row: u32,
    /// First column.
    pub col: u32,
}

/// The tile of D that this block owns: block `i` of the grid takes tile `i`, row by row of tiles.
///
/// All tiles lie along x, where a grid may have 2^31 - 1 blocks; along y it could only have 65,535.
#[inline(always)]
pub fn block_tile(tile: &Tile, n: u32) -> Origin {
    // A launch has at least one column; saying so spares the compiler a check for division by zero.
    let tiles_n = n.div_ceil(tile.bn).max(1);
    let block = thread::block_idx_x();
    Origin { row: block / tiles_n * tile.bm, col: block % tiles_n * tile.bn }
}
