//! C on its way to the epilogue: brought by the producer into the ring's stages, behind a tile's slices.
//!
//! Lanes that read their pairs of C by themselves, four bytes here and four there, wait for each: in bf16 that costs 13
//! % of a product of 4096 (H200). So where bulk copies can take C the producer brings it, as if it were one slice more
//! of each tile, or as many as it takes stages to hold it. It asks for it while the last slices are under way, the
//! warps that multiply wait for nothing that is not there by then, and shared memory has no room for C alone.
//!
//! ```text
//! producer     | slice n-2 | slice n-1 | C, left half | C, right half | slice 0 of the next tile | ..
//! consumers      ..  products of n-2 | of n-1 | sums + C, to D ------ | products of 0 ..
//! ```
//!
//! In a stage lie parts of C as [those of D](crate::warpgroup::part) leave: below each other those of all warps, and
//! beside each other as many as find room. Where A and B are [swapped](crate::swapped) it is D's transpose of which
//! that is said.

use crate::epilogue::pairs::{self, Words};
use crate::maps::{BoxShape, Mapped};
use crate::slices::clusters::Cluster;
use crate::slices::ring::Ring;
use crate::swapped::Operands;
use crate::tile::Origin;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::part::{self, PART_BYTES, ROW_BYTES};
use core::marker::PhantomData;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::SharedPtr;
use cuda_std::wgmma::M;
use cuda_std::{bulk_copy, device_inline, hint};

/// How C of a tile of sums comes in stages.
#[derive(Clone, Copy, Debug)]
pub struct Fills {
    /// Rows of the tile.
    bm: u32,
    /// Columns of sums in a part.
    of_part: u32,
    /// Parts beside each other in a stage.
    parts: u32,
    /// How many stages it takes.
    count: u32,
    /// The blocks that share slices, and so bring parts of each other's C.
    shared_by: Cluster,
    swapped: bool,
}

impl Fills {
    /// C is not brought.
    pub const NONE: Self =
        Fills { bm: 0, of_part: 0, parts: 0, count: 0, shared_by: Cluster::ALONE, swapped: false };

    /// That of elements of `D` for a tile of `bm` rows and `bn` columns of each of a cluster's blocks, in stages of so
    /// many bytes: in as few as all have equally many parts in.
    pub const fn new<D: Outgoing, O: Operands>(
        (bm, bn): (usize, usize),
        shared_by: Cluster,
        stage: u32,
    ) -> Self {
        let (bm, of_part) = (bm as u32, part::cols::<D>() as u32);
        let parts = bn as u32 / of_part;
        let mut count = parts.div_ceil(stage / (bm * ROW_BYTES));
        while !parts.is_multiple_of(count) {
            count += 1;
        }
        let parts = parts / count;
        assert!(parts > 1 || !shared_by.is_square(), "two parts are for three to bring");
        Fills { bm, of_part, parts, count, shared_by, swapped: O::SWAPPED }
    }

    /// What one copy brings: all rows of a part, or what each block of a cluster brings of them; of D's transpose those
    /// of a warpgroup.
    pub const fn box_of<D>(self) -> BoxShape {
        part::box_of_rows::<D>(if self.swapped { self.of_part } else { self.rows_of_block() })
    }

    /// Rows of a part that a block brings at once: an equal share for all of its row or column.
    const fn rows_of_block(self) -> u32 {
        self.bm / if self.shared_by.is_square() { 2 } else { self.shared_by.blocks() }
    }

    /// The first of the rows of a part that this block brings, those of the `number`-th of its
    /// [sharers](Cluster::sharer), if it does. Of two by two blocks each brings half of all parts of its own C, and
    /// quarters of that of the block beside it and of the one above or below.
    #[device_inline]
    fn first_row(self, number: u32, part: u32) -> Option<u32> {
        let rows = self.rows_of_block();
        if !self.shared_by.is_square() {
            return Some(self.shared_by.rank() * rows);
        }
        match (number, part % 2) {
            (0, half) => Some(half * rows),
            (1, 0) => Some(rows),
            (2, 1) => Some(0),
            _ => None,
        }
    }

    /// Stages.
    #[device_inline]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Bytes of a part of all warps.
    const fn part_bytes(self) -> u32 {
        self.bm * ROW_BYTES
    }

    /// Bytes in each stage.
    #[device_inline]
    pub const fn bytes(self) -> u32 {
        self.parts * self.part_bytes()
    }

    /// Begins to copy what this block brings of the `fill`-th stage of all that share slices with it; the tiles of its
    /// cluster's blocks begin at those `origins`.
    ///
    /// Each brings something for each of them, though nothing of it is the same: so a stage is full only when all who
    /// fill it have seen theirs empty, and who has read it may say so to all.
    ///
    /// # Safety
    /// One thread of each block does so; the block's stage is empty, and `full` expects [so many bytes](Self::bytes).
    #[device_inline]
    #[track_caller]
    pub unsafe fn load<D: Outgoing>(
        self,
        fill: u32,
        (c, origins): (Mapped<'_>, impl Fn(u32) -> Origin),
        (stage, full): (u32, Mbarrier),
    ) {
        // Rows of the tile that one block brings, and how many of these one copy takes.
        let rows = self.rows_of_block();
        let at_once = if self.swapped { self.of_part } else { rows };
        for number in 0..self.shared_by.sharers() {
            let block = self.shared_by.sharer(number);
            let origin = origins(block);
            for i in 0..self.parts {
                let Some(first) = self.first_row(number, i) else { continue };
                let col = origin.col + (fill * self.parts + i) * self.of_part;
                for row in (first..first + rows).step_by(at_once as usize) {
                    let to = stage + i * self.part_bytes() + row * ROW_BYTES;
                    let to = SharedPtr::<D>::from_address(to);
                    let row = origin.row + row;
                    let (row, col) = if self.swapped { (col, row) } else { (row, col) };
                    let at = [col as i32, row as i32, c.index];
                    // SAFETY: as promised by the caller; what lies outside of C is zero.
                    unsafe {
                        if self.shared_by.blocks() > 1 {
                            bulk_copy::load_3d_multicast(to, c.map, at, full, 1 << block);
                        } else {
                            bulk_copy::load_3d(to, c.map, at, full);
                        }
                    }
                }
            }
        }
    }
}

/// Where a tile's C comes from.
pub trait Addend<D: Outgoing> {
    /// Whether there may be one that is brought: where it is [mapped](crate::params::GemmParams::c_is_mapped_anew).
    const IS_POSSIBLE: bool;

    /// This lane's elements of the `turn`-th [`pairs::COLS`] columns.
    ///
    /// # Safety
    /// C is brought. All lanes of the warp get here together, once for each turn of a tile in order. All its products
    /// have been waited for.
    #[track_caller]
    unsafe fn of_turn(&mut self, turn: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS];
}

/// Nobody brings it: an epilogue reads it itself.
pub struct NotBrought;

impl<D: Outgoing> Addend<D> for NotBrought {
    const IS_POSSIBLE: bool = false;

    #[device_inline]
    unsafe fn of_turn(&mut self, _turn: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS] {
        [[[0; 2]; pairs::PAIRS]; pairs::ROWS]
    }
}

/// A kernel that brings it.
pub trait Brings {
    /// How.
    const FILLS: Fills;

    /// Bytes of a stage.
    const STAGE_BYTES: u32;
}

/// It comes in the stages of a ring, of the kernel `K`.
pub struct InStages<'r, K, const STAGES: u32, O> {
    ring: &'r mut Ring<STAGES>,
    /// Where the warpgroup's first row lies in the first stage, and in the one that is read.
    first: u32,
    reading: u32,
    kernel: PhantomData<(K, O)>,
}

impl<'r, K: Brings, const STAGES: u32, O: Operands> InStages<'r, K, STAGES, O> {
    /// C of the rows from `first` on of a tile, in stages that begin at an address of shared memory.
    #[device_inline]
    pub fn new(ring: &'r mut Ring<STAGES>, stages: u32, first: u32) -> Self {
        let first = stages + hint::opaque(first) * ROW_BYTES;
        InStages { ring, first, reading: 0, kernel: PhantomData }
    }
}

impl<D: Outgoing, K: Brings, const STAGES: u32, O: Operands> Addend<D>
    for InStages<'_, K, STAGES, O>
{
    const IS_POSSIBLE: bool = true;

    #[device_inline]
    #[track_caller]
    unsafe fn of_turn(&mut self, turn: u32) -> [[Words; pairs::PAIRS]; pairs::ROWS] {
        const { assert!(M.is_multiple_of(part::cols::<D>()), "a warpgroup has whole boxes") };
        let of_part = const { (part::cols::<D>() / pairs::COLS) as u32 };
        let of_stage = const { (part::cols::<D>() / pairs::COLS) as u32 * K::FILLS.parts };
        // SAFETY: as promised by the caller. A stage is given back when all of it has been read.
        unsafe {
            if turn.is_multiple_of(of_stage) {
                // What of this is the same for all tiles would take registers all the while.
                let first = hint::opaque(self.first);
                self.reading = first + self.ring.wait_full() * K::STAGE_BYTES;
            }
            let part = self.reading + turn % of_stage / of_part * const { K::FILLS.part_bytes() };
            let of_warp =
                if const { O::SWAPPED } { 0 } else { hint::opaque(part::warp_of_warpgroup()) };
            let words = D::read::<O>(part + of_warp * PART_BYTES, turn % of_part);
            if turn % of_stage == of_stage - 1 {
                self.ring.emptied_last();
            }
            words
        }
    }
}
