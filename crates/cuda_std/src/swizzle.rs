//! Swizzles: how bulk copies and warpgroup products lay out rows in shared memory, so that neither rows nor columns of
//! a tile meet bank conflicts (PTX ISA, "Tensors: Swizzling Modes").
//!
//! A row of 32, 64 or 128 bytes consists of pieces of 16 bytes. In each row they are exchanged among each other by an
//! exclusive or of a piece's index with bits of the address of the row, so that eight rows below each other have the
//! same piece at different banks. The pattern is one of addresses: it repeats after 256, 512 or 1024 bytes, and tiles
//! begin at a multiple of that.

/// Bytes that stay together.
const PIECE: u32 = 16;

/// Bits of the address that are the place in a piece.
const PIECE_BITS: u32 = PIECE.trailing_zeros();

/// Bits of the address from the index of a piece to what it is exchanged by.
const DISTANCE: u32 = 3;

/// Width of the rows of a tile whose pieces are exchanged. The numbers are those of `CUtensorMapSwizzle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Swizzle {
    /// Nothing is exchanged.
    None = 0,
    /// Rows of 32 bytes, two pieces.
    Bytes32 = 1,
    /// Rows of 64 bytes, four pieces.
    Bytes64 = 2,
    /// Rows of 128 bytes, eight pieces.
    Bytes128 = 3,
}

impl Swizzle {
    /// All of them.
    pub const ALL: [Swizzle; 4] =
        [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// Bytes of a row; 0 where nothing is exchanged and rows may be of any length.
    pub const fn row_bytes(self) -> u32 {
        match self {
            Swizzle::None => 0,
            _ => PIECE << self as u32,
        }
    }

    /// Bytes after which the pattern repeats, which a tile's address must be a multiple of; 1 where nothing is
    /// exchanged.
    pub const fn repeats_after(self) -> u32 {
        match self {
            Swizzle::None => 1,
            _ => self.row_bytes() << DISTANCE,
        }
    }

    /// Where the byte of an address lies that it would have without the swizzle. Applied twice it gives the address
    /// back.
    #[inline(always)]
    pub const fn apply(self, address: u32) -> u32 {
        let pieces = (1 << self as u32) - 1;
        address ^ (address >> DISTANCE & pieces << PIECE_BITS)
    }
}
