//! Which tile of D a block owns: row by row, or in groups of rows so that tiles of one time share slices in the L2
//! cache (in other libraries: rasterisation, or threadblock swizzling).

use crate::kernel::Tile;
use cuda_std::device_inline;
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
#[device_inline]
pub fn tiles(tile: &Tile, m: u32, n: u32) -> u32 {
    m.div_ceil(tile.bm) * n.div_ceil(tile.bn)
}

/// The tile of D that this block owns: block `i` of the grid takes tile `i`, and they are counted row by row.
///
/// All tiles lie along x, where a grid may have 2^31 - 1 blocks; along y it could only have 65,535.
#[device_inline]
pub fn block_tile(tile: &Tile, n: u32) -> Origin {
    let index = thread::block_idx_x();
    // A launch has at least one column; saying so spares the compiler a check for division by zero.
    let tiles_n = n.div_ceil(tile.bn).max(1);
    Origin { row: index / tiles_n * tile.bm, col: index % tiles_n * tile.bn }
}

/// As [`block_tile`], with tiles counted as [`grouped_tile_at`] does.
#[device_inline]
pub fn grouped_block_tile(tile: &Tile, m: u32, n: u32) -> Origin {
    grouped_tile_at(tile, m, n, thread::block_idx_x())
}

/// Rows of tiles in a group. 132 tiles of 128 x 256, one for each multiprocessor of an H200, form about a square if
/// they lie in 16 rows of 8.
pub const GROUP: u32 = 16;

/// Where tile `index` of D begins if they are counted in groups of [`GROUP`] rows of tiles, column by column in each.
///
/// Tiles that are computed at the same time then lie close together in both directions, share rows of A and columns of
/// B, and find them in the L2 cache.
#[device_inline]
pub fn grouped_tile_at(tile: &Tile, m: u32, n: u32, index: u32) -> Origin {
    in_groups_of(GROUP, tile, m, n, index)
}

/// [`grouped_tile_at`] with as many rows of tiles in a group.
#[device_inline]
fn in_groups_of(group_rows: u32, tile: &Tile, m: u32, n: u32, index: u32) -> Origin {
    // A launch has at least one row and column; saying so spares the compiler checks for division by zero.
    let (tiles_m, tiles_n) = (m.div_ceil(tile.bm).max(1), n.div_ceil(tile.bn).max(1));
    let (group, place) = (index / (group_rows * tiles_n), index % (group_rows * tiles_n));
    let first = group * group_rows;
    let rows = (tiles_m - first).clamp(1, group_rows);
    Origin { row: (first + place % rows) * tile.bm, col: place / rows * tile.bn }
}

/// Rows of D in a group of tiles of warpgroups, be they those of one block or of a cluster together.
pub const ROWS_OF_GROUP: u32 = GROUP * 128;

/// The same for tiles that are those of a cluster of blocks together, one above the other, or as high by themselves: a
/// group has as many rows of D. Of lower tiles it has no more than [`GROUP`].
#[device_inline]
pub fn tiles_of_cluster_at(together: &Tile, m: u32, n: u32, index: u32) -> Origin {
    in_groups_of((ROWS_OF_GROUP / together.bm).clamp(1, GROUP), together, m, n, index)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    const TILE: Tile = Tile { bm: 128, bn: 256, bk: 64, tm: 2, tn: 64, stages: 4 };

    #[test]
    fn groups_have_every_tile_once() {
        for (tiles_m, tiles_n) in [(1, 1), (1, 7), (16, 5), (17, 3), (40, 2), (31, 1), (5, 40)] {
            let (m, n) = (tiles_m * TILE.bm - 1, tiles_n * TILE.bn - 3);
            let places: BTreeSet<_> = (0..tiles(&TILE, m, n))
                .map(|index| grouped_tile_at(&TILE, m, n, index))
                .map(|Origin { row, col }| (row, col))
                .collect();
            let all =
                (0..tiles_m).flat_map(|i| (0..tiles_n).map(move |j| (i * TILE.bm, j * TILE.bn)));
            assert_eq!(places, all.collect(), "{tiles_m} x {tiles_n}");
        }
    }

    #[test]
    fn groups_of_clusters_and_of_high_tiles_have_as_many_rows() {
        for (rows, together) in [(GROUP, TILE), (GROUP / 2, Tile { bm: 2 * TILE.bm, ..TILE })] {
            let (m, n) = (3 * ROWS_OF_GROUP, 2 * together.bn);
            let place = |index| {
                let Origin { row, col } = tiles_of_cluster_at(&together, m, n, index);
                (row, col)
            };
            assert_eq!(place(rows - 1), (ROWS_OF_GROUP - together.bm, 0));
            assert_eq!(place(rows), (0, together.bn));
            assert_eq!(place(2 * rows), (ROWS_OF_GROUP, 0));
        }
    }

    #[test]
    fn tiles_of_one_time_lie_in_a_square() {
        const TOGETHER: u32 = 128;
        let (m, n) = (64 * TILE.bm, 64 * TILE.bn);
        for first in (0..64 * 64).step_by(TOGETHER as usize) {
            let places = (first..first + TOGETHER).map(|index| grouped_tile_at(&TILE, m, n, index));
            let (rows, cols): (BTreeSet<_>, BTreeSet<_>) =
                places.map(|Origin { row, col }| (row, col)).unzip();
            assert_eq!((rows.len() as u32, cols.len() as u32), (GROUP, TOGETHER / GROUP));
        }
    }
}
