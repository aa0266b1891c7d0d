//! What a block of a [persistent](crate::kernel::Schedule::Persistent) launch sums, one part of D after another.
//!
//! It stays and takes one tile after another: with `b` blocks, block `i` takes tile `i`, then `i + b`, and so on. In
//! the last round (the last *wave*) there may be tiles for a few blocks only, while the others have nothing to
//! do. Where that costs enough these tiles are *shared* ([`crate::schedule::shares`]): all blocks begin with equal
//! parts of them, which may end in the middle of a tile, and what follows are whole rounds.
//!
//! ```text
//! block 0   | tile 0, slices 0 to 65                  | tile 34 | tile 100 | ..
//! block 1   | tile 1, 0 to 3 | tile 0, slices 66 to 127 | tile 35 | tile 101 | ..      34 shared tiles of 128 slices, 66 blocks
//! ```
//!
//! A block begins with what it leaves to another, so that nobody waits for long. Nobody would wait at all if what is
//! finished came last, after the whole rounds; but then blocks would begin these at different times, and no longer find
//! slices in the L2 cache that others have just fetched (slower by 4 % at 6144, H200).
//!
//! The blocks of a cluster walk together, each on its own of as many tiles one above the other, beside each other, or
//! two by two. At the edges of D some of these may lie wholly outside.
//!
//! In a batch they are the tiles of all products, as if the matrices D lay one below the other
//! ([`crate::schedule::batches`]).

use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Tile, together};
use crate::params::GemmParams;
use crate::schedule::batches::rows;
use crate::schedule::shares::{Segment, Share, Shares};
use crate::slices::clusters::Cluster;
use crate::tile::{Origin, tiles, tiles_of_cluster_at};
use crate::warpgroup::fit::one_col;
use core::ops::Range;
use cuda_std::{device_inline, hint, thread};

/// Slices of a tile that one block sums in one go.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where the block's tile begins, in the rows of [all products](crate::schedule::batches::rows).
    pub origin: Origin,
    /// The slices of k.
    pub slices: Range<u32>,
    /// Whether another block has the end of the tile, and gets the sums.
    pub is_left: bool,
    /// The blocks whose sums of the tile are to be collected, as many of them as are below the block itself: from this
    /// one on, in steps of a cluster.
    pub first_helper: u32,
}

/// The parts of the running block, in order: one of a cluster of `ABOVE` rows of `BESIDE` tiles.
#[derive(Clone, Debug)]
pub struct Parts<const ABOVE: u32 = 1, const BESIDE: u32 = 1> {
    /// The tiles of a cluster, as one.
    together: Tile,
    /// Rows of all products.
    m: u32,
    /// Columns, or [tiles](crate::warpgroup::fit) beside each other: then `bn` and the columns of parts count these.
    n: u32,
    /// Slices of a tile.
    slices: u32,
    shares: Shares,
    /// The next of its parts: 0 is what is left to another block, 1 the end of a shared tile, and whole tiles come from
    /// there on. One number that stays in a register: more would take registers from the sums.
    step: u32,
}

/// Parts before the first whole tile.
const SHARED: u32 = 2;

impl<const ABOVE: u32, const BESIDE: u32> Parts<ABOVE, BESIDE> {
    /// Blocks of a cluster.
    const CLUSTER: u32 = Cluster::new(ABOVE, BESIDE).blocks();

    /// Those of the running block.
    #[device_inline]
    pub fn new<K: GemmKernel, E: Epilogue<K::Target>>(
        p: &GemmParams<K::Element, E, K::Target>,
    ) -> Self {
        let slices = p.k.div_ceil(K::TILE.bk);
        let shares = if const { K::FITS || K::TURNS > 1 } {
            Shares::new(0, 0, slices)
        } else {
            Shares::new(p.shared_tiles, p.sharing_blocks, slices)
        };
        let step = if thread::block_idx_x() / Self::CLUSTER < shares.blocks() { 0 } else { SHARED };
        // Both are chosen here: of another function's results the compiler makes other code for kernels whose tiles do
        // not fit.
        let together = if const { K::FITS } { one_col::<K>() } else { together::<K>() };
        let n = if const { K::FITS } { p.columns().tiles() } else { p.n };
        Parts { together, m: rows::<K, _>(p), n, slices, shares, step }
    }

    /// The same parts, worked out anew but for where in them the block is: that is all that need stay in a register
    /// while one of them is summed.
    #[device_inline]
    pub fn anew<K: GemmKernel, E: Epilogue<K::Target>>(
        &self,
        p: &GemmParams<K::Element, E, K::Target>,
    ) -> Self {
        let slices = hint::opaque(p.k).div_ceil(K::TILE.bk);
        let (tiles, blocks) = (hint::opaque(p.shared_tiles), hint::opaque(p.sharing_blocks));
        Parts {
            together: self.together,
            m: hint::opaque(rows::<K, _>(p)),
            n: hint::opaque(p.n),
            slices,
            shares: Shares::new(tiles, blocks, slices),
            step: self.step,
        }
    }

    /// What the cluster shares. It is worked out each time anew: values that stay in registers all the while take them
    /// from the sums.
    #[device_inline]
    fn share(&self) -> Share {
        self.shares.of(hint::opaque(thread::block_idx_x()) / Self::CLUSTER)
    }

    /// The part that was given last.
    #[device_inline]
    pub fn current(&self) -> Part {
        match self.step {
            0 | 1 => Part { is_left: true, ..self.part(self.share().unfinished) },
            SHARED => {
                let Share { finished, first_helper, .. } = self.share();
                self.end(finished, first_helper)
            }
            step => self.whole(self.tile(step - 1)),
        }
    }

    /// The end of a shared tile, of which the clusters from `first_helper` on have the beginning.
    #[device_inline]
    fn end(&self, finished: Segment, first_helper: u32) -> Part {
        let rank = thread::block_idx_x() % Self::CLUSTER;
        let first_helper = first_helper * Self::CLUSTER + rank;
        Part { first_helper, ..self.part(finished) }
    }

    /// A whole tile.
    #[device_inline]
    fn whole(&self, tile: u32) -> Part {
        self.part(Segment { tile, first: 0, end: self.slices })
    }

    /// The number of the whole tile of a step: fewer than 2^31, and no more blocks than that.
    #[device_inline]
    fn tile(&self, step: u32) -> u32 {
        self.tile_of(step, (thread::block_idx_x(), thread::grid_dim_x()))
    }

    /// The same for a block of so many.
    #[device_inline]
    fn tile_of(&self, step: u32, (block, blocks): (u32, u32)) -> u32 {
        let (cluster, clusters) = (block / Self::CLUSTER, blocks / Self::CLUSTER);
        self.shares.tiles() + cluster + (step - SHARED) * clusters
    }

    /// The next tile where they [fit](crate::warpgroup::fit), which asks anew which block it is, and how many tiles
    /// there are: what it would keep takes registers from the sums.
    #[device_inline]
    pub fn next_tile_anew<K: GemmKernel, E: Epilogue<K::Target>>(
        &mut self,
        p: &GemmParams<K::Element, E, K::Target>,
    ) -> Option<Part> {
        let block = hint::opaque(thread::block_idx_x());
        let tile = self.tile_of(self.step, (block, hint::opaque(thread::grid_dim_x())));
        let launched = GemmParams { m: hint::opaque(p.m), maps: p.maps.anew(), ..*p };
        let (m, n) = (rows::<K, _>(&launched), p.columns_anew().tiles());
        if tile >= tiles(&self.together, m, n) {
            return None;
        }
        self.step += 1;
        let anew = Parts { m, n, ..self.clone() };
        Some(anew.part_of(Segment { tile, first: 0, end: self.slices }, block))
    }

    /// The part of a tile of the cluster.
    #[device_inline]
    fn part(&self, segment: Segment) -> Part {
        self.part_of(segment, thread::block_idx_x())
    }

    /// The same for a block of the cluster.
    #[device_inline]
    fn part_of(&self, segment: Segment, block: u32) -> Part {
        let Origin { row, col } = tiles_of_cluster_at(&self.together, self.m, self.n, segment.tile);
        // The blocks of a cluster follow each other.
        let rank = block % Self::CLUSTER;
        let (above, beside) = Cluster::new(ABOVE, BESIDE).place(rank);
        Part {
            origin: Origin {
                row: row + above * (self.together.bm / ABOVE),
                col: col + beside * (self.together.bn / BESIDE),
            },
            slices: segment.first..segment.end,
            is_left: false,
            first_helper: block,
        }
    }
}

impl<const ABOVE: u32, const BESIDE: u32> Iterator for Parts<ABOVE, BESIDE> {
    type Item = Part;

    #[device_inline]
    fn next(&mut self) -> Option<Part> {
        if self.step == 0 {
            self.step = 1;
            let unfinished = self.share().unfinished;
            if !unfinished.is_empty() {
                return Some(Part { is_left: true, ..self.part(unfinished) });
            }
        }
        if self.step == 1 {
            self.step = SHARED;
            let Share { finished, first_helper, .. } = self.share();
            if !finished.is_empty() {
                return Some(self.end(finished, first_helper));
            }
        }
        let tile = self.tile(self.step);
        if tile >= tiles(&self.together, self.m, self.n) {
            return None;
        }
        self.step += 1;
        Some(self.whole(tile))
    }
}
