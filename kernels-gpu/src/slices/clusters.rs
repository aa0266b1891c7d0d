//! Which blocks of a cluster fill each other's stages.
//!
//! The blocks of a cluster lie in rows. Those of a row take the same rows of A, those of a column the same columns of
//! B, so of each slice a block brings an equal part of A for its row and one of B for its column. Where there is but
//! one row, or one column, each brings something for all others. Of two by two none does for the one across:
//!
//! ```text
//! 0 -- A -- 1      Block 0 fills stages of 0, 1 and 2, and these three fill its own.
//! |         |
//! B         B
//! |         |
//! 2 -- A -- 3
//! ```
//!
//! Who has read a stage says so to all who fill it, and to nobody else: the block across does not wait for the same
//! slices, so it may be a phase of its barrier behind, which would count the arrival as one that it waits for still.

use cuda_std::{cluster, device_inline};

/// A cluster of one row of blocks, of one column, or of two by two. Ranks go along rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Blocks one above the other.
    above: u32,
    /// Blocks beside each other.
    beside: u32,
}

/// What a block brings of something that several take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Which of the equal parts.
    pub part: u32,
    /// The ranks of those who take it, a bit each.
    pub takers: u16,
}

impl Portion {
    /// All of it, for itself.
    pub const WHOLE: Self = Portion { part: 0, takers: 1 };
}

impl Cluster {
    /// A block for itself.
    pub const ALONE: Self = Cluster { above: 1, beside: 1 };

    /// So many rows of so many blocks.
    #[device_inline]
    pub const fn new(above: u32, beside: u32) -> Self {
        assert!(above == 1 || beside == 1 || (above == 2 && beside == 2), "a line or a square");
        Cluster { above, beside }
    }

    /// Whether there are blocks that fill nothing of each other's.
    #[device_inline]
    pub const fn is_square(self) -> bool {
        self.above > 1 && self.beside > 1
    }

    /// How many there are.
    #[device_inline]
    pub const fn blocks(self) -> u32 {
        self.above * self.beside
    }

    /// How many fill a block's stages, itself among them: its row and its column.
    #[device_inline]
    pub const fn sharers(self) -> u32 {
        self.above + self.beside - 1
    }

    /// The rank of the running block.
    #[device_inline]
    pub fn rank(self) -> u32 {
        if self.blocks() > 1 { cluster::rank() } else { 0 }
    }

    /// The rank of one of those who fill the running block's stages. Of two by two the first is the block itself, then
    /// comes the one beside it.
    #[device_inline]
    pub fn sharer(self, number: u32) -> u32 {
        if self.is_square() { cluster::rank() ^ number } else { number }
    }

    /// Blocks above one of this rank, and beside it.
    #[device_inline]
    pub const fn place(self, rank: u32) -> (u32, u32) {
        match (self.above, self.beside) {
            (1, _) => (0, rank),
            (_, 1) => (rank, 0),
            (_, beside) => (rank / beside, rank % beside),
        }
    }

    /// What a block of this rank brings of A, for its row.
    #[device_inline]
    pub const fn of_row(self, rank: u32) -> Portion {
        let (above, beside) = self.place(rank);
        let row = (1 << self.beside) - 1;
        Portion { part: beside, takers: row << (above * self.beside) }
    }

    /// What a block of this rank brings of B, for its column.
    #[device_inline]
    pub const fn of_col(self, rank: u32) -> Portion {
        let (above, beside) = self.place(rank);
        let (mut column, mut row) = (0, 0);
        while row < self.above {
            column |= 1 << (row * self.beside);
            row += 1;
        }
        Portion { part: above, takers: column << beside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shares_all_of_one_factor() {
        let column = Cluster::new(2, 1);
        assert_eq!((column.blocks(), column.sharers()), (2, 2));
        assert_eq!([0, 1].map(|rank| column.place(rank)), [(0, 0), (1, 0)]);
        assert_eq!(column.of_col(1), Portion { part: 1, takers: 0b11 });
        assert_eq!(column.of_row(1), Portion { part: 0, takers: 0b10 });
        let row = Cluster::new(1, 4);
        assert_eq!(row.place(3), (0, 3));
        assert_eq!(row.of_row(3), Portion { part: 3, takers: 0b1111 });
        assert_eq!(Cluster::ALONE.of_row(0), Portion::WHOLE);
        assert_eq!(Cluster::ALONE.of_col(0), Portion::WHOLE);
    }

    #[test]
    fn each_block_of_a_square_has_all_parts_from_its_sharers() {
        let square = Cluster::new(2, 2);
        assert_eq!((square.blocks(), square.sharers()), (4, 3));
        for rank in 0..4 {
            let sharers = [rank, rank ^ 1, rank ^ 2];
            for of in [Cluster::of_row, Cluster::of_col] {
                let takes = |from: &u32| of(square, *from).takers >> rank & 1 == 1;
                let from = || (0..4).filter(takes);
                assert!(from().all(|from| sharers.contains(&from)), "{rank}");
                assert!(from().map(|from| of(square, from).part).eq([0, 1]), "{rank}");
            }
        }
    }
}
