//! Tiles that are just so narrow that the last round (wave) of them is full.
//!
//! A block stays: it takes a tile, and after as many tiles as there are multiprocessors the next one, so that tiles
//! come in rounds. With tiles of one size the last round may have hardly any: 1536 x 1536 are 72 tiles of 128 x
//! 256 for 132 multiprocessors, and 2560 x 2560 are 200. To divide the tiles of that round along k costs about 10
//! microseconds ([`crate::schedule::parts`]). But an instruction multiplies any multiple of 16 columns, so a kernel
//! whose tiles *fit* is told by the launch how wide they are: 1536 x 1536 are 132 tiles of 128 x 144, and 2560 x 2560
//! two rounds of 130 of 128 x 208.
//!
//! ```text
//! 72 tiles of 256      | 256             |      60 multiprocessors have nothing to do
//! 132 tiles of 144     | 144      |             all have, and are done after 0.56 of that time
//! ```
//!
//! Shared memory and registers are those of the widest tile. Of B whole boxes are fetched, 64 columns each where its
//! rows run across. What a tile has besides whole parts of 64 columns is stored by lanes: a bulk store would write its
//! neighbour's columns ([`crate::warpgroup::tile`]). Nobody shares such tiles. Each sum is that of one block over all
//! of k, so no bit depends on the width.
//!
//! What pays depends on how B lies. Where its rows run along k any of them may be a tile's first. Where they run across
//! a tile begins in the middle of a line of the L2 cache unless its width is a multiple of 64 columns, and a row of a
//! box then takes half as long again to fetch (H200). So where both factors are row-major they are
//! [swapped](crate::swapped), and tiles are as high as makes rounds full; only of a transposed A and a row-major B all
//! rows run across. Where B alone is transposed all rows run along k, and there are both: tiles that fit columns, and
//! swapped ones that fit rows. Layers of a transformer have a round number of columns, and any number of rows.
//!
//! ```text
//! 777 x 4096    | columns: 7 rows of tiles of 128, 16 of 256    | 112 tiles of 128 x 256, of which 119 rows lie outside of D
//!               | rows:    4 rows of tiles of 208, 32 of 128    | 128 tiles of 208 x 128
//! ```
//!
//! Where D has few tiles of 128 columns or rows beside 256, or such that leave most of a round without one, others are
//! at most 128 wide, and also 80, 96 or 112: 333 x 4096 are 128 of 96 x 128. They have more to fetch for their
//! products, so in clusters of two beside each other they share what lies across their width.
//!
//! In clusters of two, one above the other, each block brings a part of what lies across the width for both: of a box
//! along k half of its rows, and of boxes across half of the values of k of each, since there may be three of them.
//! That pays where rows of A and B are no whole sectors of the L2 cache, which then has two requests for a row of a box
//! instead of one; rounds are of as many pairs as there are at a time.
//!
//! Two by two they bring a half of the rows of each factor, and so ask the L2 cache for half as many as alone: 1000 x
//! 1000 and 1400 x 1400, whose rows are no whole sectors, come 9 and 10 % sooner (H100). In exchange of 132
//! multiprocessors 12 have no place in such clusters.
//!
//! Twice as high and at most 160 columns wide, beside each other in clusters of two that share what lies across their
//! height, tiles have fewer rows to fetch for as many products than any of 128 rows, and come out in one round where
//! those take two: 2200 x 2200 are 126 of 256 x 160. A thread has 160 sums then, in two pieces, and no registers for
//! parts that leave later; what it asks of the launch it asks anew for each tile. There are such kernels where rows run
//! along k across the width.
//!
//! The host chooses the width, the same for all tiles of a launch (`host/src/kernels/launch/fit.rs`).

use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Tile, together};
use crate::params::GemmParams;
use cuda_std::device_inline;

/// What widths are multiples of.
const STEP: u32 = 16;

/// Columns of the narrowest tile where the widest has `most`. More than a half of these, so that code for a half of the
/// sums is for a whole one; and of tiles of more than the two parts of 64 columns that an
/// [outbox](crate::warpgroup::outbox) has room for as many as that, so that what leaves before anything is parked is
/// [whole](has_whole_rooms).
const fn narrowest(most: u32) -> u32 {
    let half = most / 2 + STEP;
    if most > ROOMS && half < ROOMS { ROOMS } else { half }
}

/// Columns that an outbox has room for.
const ROOMS: u32 = 2 * 64;

/// Whether of any tile of which the widest has `most` columns as many are whole as an outbox has room for.
pub(crate) const fn has_whole_rooms(most: usize) -> bool {
    narrowest(most as u32) >= ROOMS
}

/// Whether a tile of so many columns is one of those of which the widest has `most`.
#[device_inline]
pub(crate) const fn has_width(most: usize, cols: u32) -> bool {
    narrowest(most as u32) <= cols && cols <= most as u32
}

/// The widths of a tile that fits, the widest of them with `most` columns first.
pub fn widths(most: u32) -> impl Iterator<Item = u32> {
    (0..=(most - narrowest(most)) / STEP).map(move |steps| most - steps * STEP)
}

/// How wide the tiles of a launch are, and how many are beside each other, in one word: to divide takes a kernel more
/// registers than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns(u32);

impl Columns {
    /// Bits of a width, in steps.
    const WIDTH_BITS: u32 = 5;

    /// For a D of `n` columns in tiles of one of the [widths].
    pub const fn new(n: u32, width: u32) -> Self {
        Columns((width / STEP) | (n.div_ceil(width) << Self::WIDTH_BITS))
    }

    /// As a parameter has it.
    pub const fn from_word(word: u32) -> Self {
        Columns(word)
    }

    /// The parameter.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Columns of a tile.
    #[device_inline]
    pub const fn width(self) -> u32 {
        (self.0 % (1 << Self::WIDTH_BITS)) * STEP
    }

    /// Tiles beside each other.
    #[device_inline]
    pub const fn tiles(self) -> u32 {
        self.0 >> Self::WIDTH_BITS
    }
}

/// Columns of a block's tile, as blocks walk over it, worked out each time anew: what stays in a register takes it from
/// the sums.
#[device_inline]
pub fn cols<K: GemmKernel, E: Epilogue<K::Target>>(
    p: &GemmParams<K::Element, E, K::Target>,
) -> u32 {
    if const { K::FITS } { p.columns_anew().width() } else { K::TILE.bn }
}

/// A tile that fits as blocks walk over it ([`crate::schedule::parts`]): they count tiles beside each other in place of
/// columns.
#[device_inline]
pub const fn one_col<K: GemmKernel>() -> Tile {
    Tile { bn: K::CLUSTER_COLS, ..together::<K>() }
}

/// The first column of a tile that blocks have walked to.
#[device_inline]
pub fn first_col<K: GemmKernel, E: Epilogue<K::Target>>(
    p: &GemmParams<K::Element, E, K::Target>,
    col: u32,
) -> u32 {
    if const { K::FITS } { col * cols::<K, E>(p) } else { col }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_width_and_the_number_of_tiles() {
        for width in widths(256) {
            for n in [1, width, width + 1, 100_000, i32::MAX as u32] {
                let columns = Columns::from_word(Columns::new(n, width).word());
                assert_eq!((columns.width(), columns.tiles()), (width, n.div_ceil(width)));
            }
        }
    }
}
