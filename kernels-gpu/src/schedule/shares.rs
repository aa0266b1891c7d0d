//! Which parts of a product each block of a [`Schedule::StreamK`](crate::kernel::Schedule::StreamK) sums, and which
//! part of the last round's tiles each of a [persistent](crate::schedule::parts) launch.
//!
//! The slices of k of the shared tiles are counted through: tile 0 has the first, tile 1 the next, and so on. Each of
//! the blocks that share takes as many of them as the others, or one more, in order (Osama, Merrill, Cecka, Garland and
//! Owens, "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", PPoPP
//! 2023). So a block's share is, where there are at least as many blocks as shared tiles, one of
//!
//! ```text
//! tile t      |----------------|           tile t + 1  |----------------|
//! block's share        |-------------------------------------|              the end of t, then the beginning of t + 1
//!                         |----|                                            a part of t in its midst
//! ```
//!
//! Here that is worked out, by the same functions for a kernel and for whoever wants to know what it does.

use cuda_std::device_inline;

/// Slices of k of one tile, from `first` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The tile.
    pub tile: u32,
    /// The first slice.
    pub first: u32,
    /// The slice after the last.
    pub end: u32,
}

impl Segment {
    /// Nothing of a tile.
    const fn nothing(tile: u32) -> Self {
        Segment { tile, first: 0, end: 0 }
    }

    /// Whether it has no slices.
    #[device_inline]
    pub const fn is_empty(&self) -> bool {
        self.first == self.end
    }
}

/// What one block sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Slices of a tile whose end another block has; none if [empty](Segment::is_empty).
    pub unfinished: Segment,
    /// Slices of a tile up to its end; none if [empty](Segment::is_empty).
    pub finished: Segment,
    /// The first of the blocks that have the slices of the finished tile before the block's own, which are all from
    /// this one up to the block itself.
    pub first_helper: u32,
}

/// How the slices of the shared tiles are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Tiles that are shared: the first ones.
    tiles: u32,
    /// Blocks that share, at least as many as tiles, and at most as many as slices: the first ones.
    blocks: u32,
    /// Slices of a tile, at least one.
    slices: u32,
}

impl Shares {
    /// Of `tiles` tiles with `slices` slices each among `blocks` blocks: `tiles <= blocks <= tiles * slices < 2^32`, or
    /// no tiles and no blocks.
    #[device_inline]
    pub const fn new(tiles: u32, blocks: u32, slices: u32) -> Self {
        Shares { tiles, blocks, slices }
    }

    /// Tiles that are shared.
    pub const fn tiles(&self) -> u32 {
        self.tiles
    }

    /// Blocks that share.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// What block `block` of the grid sums.
    #[device_inline]
    pub const fn of(&self, block: u32) -> Share {
        if block >= self.blocks {
            let tile = self.tiles + (block - self.blocks);
            return Share {
                unfinished: Segment::nothing(tile),
                finished: Segment { tile, first: 0, end: self.slices },
                first_helper: block,
            };
        }
        let (first, end) = (self.first(block), self.first(block + 1));
        let tile = first / at_least_one(self.slices);
        let start = tile * self.slices;
        let next = start + self.slices;
        if end < next {
            let unfinished = Segment { tile, first: first - start, end: end - start };
            return Share { unfinished, finished: Segment::nothing(tile), first_helper: block };
        }
        Share {
            unfinished: Segment { tile: tile + 1, first: 0, end: end - next },
            finished: Segment { tile, first: first - start, end: self.slices },
            first_helper: if first > start { self.block_of(start) } else { block },
        }
    }

    /// The slices of each block, and how many blocks have one more: the first ones.
    #[device_inline]
    const fn part(&self) -> (u32, u32) {
        let (all, blocks) = (self.tiles * self.slices, at_least_one(self.blocks));
        (all / blocks, all % blocks)
    }

    /// The first slice of a block, counted through all tiles.
    #[device_inline]
    const fn first(&self, block: u32) -> u32 {
        let (part, longer) = self.part();
        block * part + if block < longer { block } else { longer }
    }

    /// The block that has a slice, counted through all tiles.
    #[device_inline]
    const fn block_of(&self, slice: u32) -> u32 {
        let (part, longer) = self.part();
        let of_longer = longer * (part + 1);
        if slice < of_longer {
            slice / at_least_one(part + 1)
        } else {
            longer + (slice - of_longer) / at_least_one(part)
        }
    }
}

/// What a number is that is not zero where anybody asks; saying so spares a kernel the check for division by zero.
#[device_inline]
const fn at_least_one(number: u32) -> u32 {
    if number == 0 { 1 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every slice of every tile is summed by one block; who ends a tile knows all who have the rest of it.
    #[test]
    fn every_slice_belongs_to_one_block() {
        for tiles in 1..20 {
            for slices in [1, 2, 3, 7, 8, 33] {
                for blocks in tiles..=(tiles * slices).min(40) {
                    let shares = Shares::new(tiles, blocks, slices);
                    let mut owner = [None; 20 * 33];
                    for block in 0..blocks {
                        let Share { unfinished, finished, .. } = shares.of(block);
                        let part =
                            unfinished.end - unfinished.first + finished.end - finished.first;
                        let least = tiles * slices / blocks;
                        assert!(part == least || part == least + 1, "{shares:?} {block}");
                        for segment in [unfinished, finished] {
                            for slice in segment.first..segment.end {
                                let slot = &mut owner[(segment.tile * slices + slice) as usize];
                                assert_eq!(slot.replace(block), None, "{shares:?} {segment:?}");
                            }
                        }
                    }
                    let all = &owner[..(tiles * slices) as usize];
                    assert!(all.iter().all(Option::is_some), "{shares:?}");
                    for block in 0..blocks {
                        let Share { finished, first_helper, .. } = shares.of(block);
                        if finished.is_empty() {
                            continue;
                        }
                        let tile = finished.tile * slices;
                        assert_eq!(finished.end, slices);
                        assert_eq!(owner[tile as usize], Some(first_helper), "{shares:?} {block}");
                        for helper in first_helper..block {
                            assert_eq!(shares.of(helper).unfinished.tile, finished.tile);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_that_do_not_share_have_a_tile_each() {
        let shares = Shares::new(3, 4, 10);
        for block in 4..9 {
            let Share { unfinished, finished, first_helper } = shares.of(block);
            assert!(unfinished.is_empty());
            assert_eq!(finished, Segment { tile: block - 1, first: 0, end: 10 });
            assert_eq!(first_helper, block);
        }
        let tile = |block| Shares::new(0, 0, 10).of(block).finished.tile;
        assert_eq!([tile(0), tile(5)], [0, 5]);
    }
}
