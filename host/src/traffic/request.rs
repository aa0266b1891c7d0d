//! Which elements of a matrix the lanes of a warp touch together, and how many sectors those lie in.

use super::SECTOR_BYTES;

/// The elements that one request of a warp touches: `rows` rows, `row_step` apart, and in each of them `pieces` pieces
/// of `piece` consecutive elements, `piece_step` apart. Shifted copies of it tile the matrix; lanes outside take no
/// part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    rows: u64,
    row_step: u64,
    pieces: u64,
    piece: u64,
    piece_step: u64,
}

impl Request {
    /// A rectangle of neighbouring elements.
    pub fn rectangle(rows: u64, cols: u64) -> Self {
        Request { rows, row_step: 1, pieces: 1, piece: cols, piece_step: cols }
    }

    /// `rows` rows, `row_step` apart, of `pieces` pieces of `piece` elements, `piece_step` apart.
    pub fn spread(
        (rows, row_step): (u64, u64),
        (pieces, piece_step): (u64, u64),
        piece: u64,
    ) -> Self {
        Request { rows, row_step, pieces, piece, piece_step }
    }

    /// Requests that touch a `rows x cols` matrix until all its elements are touched once; for those of neighbouring
    /// rows.
    pub fn count(&self, rows: u64, cols: u64) -> u128 {
        debug_assert!(self.row_step == 1);
        let down = u128::from(rows.div_ceil(self.rows));
        let tile = self.pieces * self.piece_step;
        // Of shifted copies those that reach into what is left of the last tile.
        let of_columns = |cols: u64| cols.min(self.piece_step).div_ceil(self.piece);
        let across = u128::from(cols / tile) * u128::from(of_columns(tile));
        down * (across + u128::from(of_columns(cols % tile)))
    }

    /// Sectors that these requests touch: distinct within a request, summed over requests. The matrix is packed,
    /// row-major and begins at a sector.
    ///
    /// Where the first element of a tile of requests lies within its sector repeats from tile to tile, so a few tiles
    /// stand for all.
    pub fn sectors(&self, rows: u64, cols: u64, element_bytes: u64) -> u128 {
        let row_bytes = cols * element_bytes;
        let mut total = 0;
        for down in tiles(rows, self.rows * self.row_step, row_bytes) {
            for across in tiles(cols, self.pieces * self.piece_step, element_bytes) {
                let sectors = self.sectors_of_tile(&down, &across, row_bytes, element_bytes);
                total += u128::from(down.times) * u128::from(across.times) * u128::from(sectors);
            }
        }
        total
    }

    /// The sectors of all shifted copies of the request that make up one tile.
    fn sectors_of_tile(
        &self,
        down: &Tiles,
        across: &Tiles,
        row_bytes: u64,
        element_bytes: u64,
    ) -> u64 {
        let mut total = 0;
        for row_shift in 0..self.row_step {
            for shift in (0..self.piece_step).step_by(self.piece as usize) {
                // Addresses ascend, so one number remembers which sectors were counted.
                let mut uncounted = 0;
                for row in (row_shift..down.len).step_by(self.row_step as usize) {
                    for col in (shift..across.len).step_by(self.piece_step as usize) {
                        let piece = self.piece.min(across.len - col);
                        let start =
                            (down.first + row) * row_bytes + (across.first + col) * element_bytes;
                        let first = (start / SECTOR_BYTES).max(uncounted);
                        let end = (start + piece * element_bytes).div_ceil(SECTOR_BYTES);
                        total += end.saturating_sub(first);
                        uncounted = end.max(uncounted);
                    }
                }
            }
        }
        total
    }
}

/// Tiles along one axis that begin at the same place within a sector and have the same length.
struct Tiles {
    /// The first row or column of one of them.
    first: u64,
    len: u64,
    times: u64,
}

/// The tiles of `tile` rows or columns in an axis of `extent`, a row or column being `stride` bytes long.
fn tiles(extent: u64, tile: u64, stride: u64) -> impl Iterator<Item = Tiles> {
    let period = SECTOR_BYTES / greatest_power_of_two(tile * stride).min(SECTOR_BYTES);
    let (whole, rest) = (extent / tile, extent % tile);
    let alike = move |index: u64| Tiles {
        first: index * tile,
        len: tile,
        times: (whole - index).div_ceil(period),
    };
    let last = Tiles { first: whole % period * tile, len: rest, times: 1 };
    (0..period.min(whole)).map(alike).chain((rest > 0).then_some(last))
}

/// The greatest power of two that divides a number above zero.
fn greatest_power_of_two(number: u64) -> u64 {
    1 << number.trailing_zeros().min(u64::BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// The definition: every request a set of sectors.
    fn slow(request: &Request, rows: u64, cols: u64, bytes: u64) -> u128 {
        let mut requests = HashMap::<_, HashSet<u64>>::new();
        for row in 0..rows {
            for col in 0..cols {
                let height = request.rows * request.row_step;
                let width = request.pieces * request.piece_step;
                let which = (
                    row / height,
                    row % height % request.row_step,
                    col / width,
                    col % width % request.piece_step / request.piece,
                );
                let address = (row * cols + col) * bytes;
                let sectors = requests.entry(which).or_default();
                sectors.extend([address / 32, (address + bytes - 1) / 32]);
            }
        }
        requests.values().map(|sectors| sectors.len() as u128).sum()
    }

    #[test]
    fn sectors_are_those_of_the_definition() {
        let requests = [
            Request::rectangle(1, 1),
            Request::rectangle(1, 32),
            Request::rectangle(2, 16),
            Request::rectangle(16, 8),
            Request::rectangle(4, 8),
            Request::spread((2, 4), (16, 4), 4),
            Request::spread((2, 4), (16, 4), 1),
            Request::spread((8, 2), (4, 2), 1),
        ];
        for request in requests {
            for (rows, cols) in [(64, 128), (1, 1), (3, 5), (37, 70), (70, 37), (33, 200), (129, 9)]
            {
                for bytes in [2, 4, 8] {
                    assert_eq!(
                        request.sectors(rows, cols, bytes),
                        slow(&request, rows, cols, bytes),
                        "{request:?} on {rows} x {cols} of {bytes} bytes"
                    );
                }
            }
        }
    }

    #[test]
    fn aligned_rows_are_whole_sectors() {
        let quarter = Request::rectangle(2, 16);
        assert_eq!(quarter.sectors(1 << 20, 1 << 20, 4), 1 << (40 - 3));
        assert_eq!(quarter.count(1 << 20, 1 << 20), 1 << (40 - 5));
        assert_eq!(quarter.count(3, 17), 4);
        assert_eq!(quarter.sectors(0, 5, 4) + quarter.sectors(5, 0, 4), 0);
    }
}
