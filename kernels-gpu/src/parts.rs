//! What a block of a [persistent](crate::kernel::Schedule::Persistent) launch sums, one part of D after another.
//!
//! It stays and takes one tile, and after as many as there are blocks the next. In the last round there may be tiles for a few blocks
//! only, while the others have nothing to do. Where that costs enough these tiles are *shared* ([`crate::shares`]): all blocks begin
//! with equal parts of them, cut wherever it takes, and what follows are whole rounds.
//!
//! ```text
//! block 0      | tile 0, slices 0 to 65            | tile 34 | tile 100 | ..
//! block 1      | tile 0, 66 to 127 | tile 1, 0 to 3 | tile 35 | tile 101 | ..        34 shared tiles of 128 slices, 66 blocks
//! ```
//!
//! The blocks of a cluster walk together, each on its own of as many tiles one above the other. At the lower edge of D some of these may
//! lie wholly outside.

use crate::element::Element;
use crate::kernel::{GemmKernel, Tile};
use crate::params::GemmParams;
use crate::shares::{Segment, Share, Shares};
use crate::tile::{Origin, tiles, tiles_of_cluster_at};
use core::ops::Range;
use cuda_std::{cluster, hint, thread};

/// Slices of a tile that one block sums in one go.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where the block's tile begins.
    pub origin: Origin,
    /// The slices of k.
    pub slices: Range<u32>,
    /// Whether another block has the end of the tile, and gets the sums.
    pub is_left: bool,
    /// The blocks whose sums of the tile are to be collected, as many of them as are below the block itself: from this one on, in steps
    /// of a cluster.
    pub first_helper: u32,
}

/// The parts of the running block, in order.
#[derive(Clone, Debug)]
pub struct Parts<const CLUSTER: u32 = 1> {
    /// The tiles of a cluster, as one.
    together: Tile,
    m: u32,
    n: u32,
    /// Slices of a tile.
    slices: u32,
    /// From their first row to that of the block's own tile.
    row: u32,
    share: Share,
    turn: u32,
    next: u32,
}

/// The turns before those with whole tiles: what is left to others, and what is finished of the shared tiles.
const UNFINISHED: u32 = 0;
const FINISHED: u32 = 1;
const WHOLE: u32 = 2;

impl<const CLUSTER: u32> Parts<CLUSTER> {
    /// Those of the running block.
    #[inline(always)]
    pub fn new<K: GemmKernel, E>(p: &GemmParams<K::Element, E>) -> Self
    where
        K::Element: Element,
    {
        let tile = K::TILE;
        let row = if CLUSTER > 1 { cluster::rank() * tile.bm } else { 0 };
        let together = Tile { bm: CLUSTER * tile.bm, ..tile };
        let unit = thread::block_idx_x() / CLUSTER;
        let slices = p.k.div_ceil(tile.bk);
        let shares = Shares::new(p.shared_tiles, p.sharing_blocks, slices);
        let nothing = Segment { tile: 0, first: 0, end: 0 };
        let nothing = Share { unfinished: nothing, finished: nothing, first_helper: unit };
        let (share, turn) =
            if unit < shares.blocks() { (shares.of(unit), UNFINISHED) } else { (nothing, WHOLE) };
        let next = shares.tiles() + unit;
        Parts { together, m: p.m, n: p.n, slices, row, share, turn, next }
    }

    /// The part of a tile of the cluster.
    #[inline(always)]
    fn part(&self, segment: Segment) -> Part {
        let Origin { row, col } =
            tiles_of_cluster_at(CLUSTER, &self.together, self.m, self.n, segment.tile);
        Part {
            origin: Origin { row: row + self.row, col },
            slices: segment.first..segment.end,
            is_left: false,
            first_helper: thread::block_idx_x(),
        }
    }
}

impl<const CLUSTER: u32> Iterator for Parts<CLUSTER> {
    type Item = Part;

    #[inline(always)]
    fn next(&mut self) -> Option<Part> {
        if self.turn == UNFINISHED {
            self.turn = FINISHED;
            if !self.share.unfinished.is_empty() {
                return Some(Part { is_left: true, ..self.part(self.share.unfinished) });
            }
        }
        if self.turn == FINISHED {
            self.turn = WHOLE;
            if !self.share.finished.is_empty() {
                let rank = thread::block_idx_x() % CLUSTER;
                let first_helper = self.share.first_helper * CLUSTER + rank;
                return Some(Part { first_helper, ..self.part(self.share.finished) });
            }
        }
        let tile = self.next;
        if tile >= tiles(&self.together, self.m, self.n) {
            return None;
        }
        // Fewer than 2^31 tiles, and no more blocks than that.
        self.next = tile + thread::grid_dim_x() / CLUSTER;
        Some(self.part(Segment { tile, first: 0, end: hint::opaque(self.slices) }))
    }
}
