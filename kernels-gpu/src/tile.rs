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

/// Tiles of D.
#[inline(always)]
pub fn tiles(tile: &Tile, m: u32, n: u32) -> u32 {
    m.div_ceil(tile.bm) * n.div_ceil(tile.bn)
}

/// Where tile `index` of D begins: they are counted row by row.
#[inline(always)]
pub fn tile_at(tile: &Tile, n: u32, index: u32) -> Origin {
    // A launch has at least one column; saying so spares the compiler a check for division by zero.
    let tiles_n = n.div_ceil(tile.bn).max(1);
    Origin { row: index / tiles_n * tile.bm, col: index % tiles_n * tile.bn }
}

/// The tile of D that this block owns: block `i` of the grid takes tile `i`.
///
/// All tiles lie along x, where a grid may have 2^31 - 1 blocks; along y it could only have 65,535.
#[inline(always)]
pub fn block_tile(tile: &Tile, n: u32) -> Origin {
    tile_at(tile, n, thread::block_idx_x())
}
