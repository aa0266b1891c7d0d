//! Kernels that swap A and B: they compute the transpose of D, as the product of the transposes of B and A.
//!
//! A tile of warpgroups has 64 rows for each warpgroup, and may be made just so wide that its rounds are full
//! ([`crate::warpgroup::fit`]). For that the slices of the right factor must be able to begin at any of its columns,
//! which they can only if these are stored as rows along k. In B they are if it is transposed. Where both factors are
//! row-major it is A whose rows run along k; where B alone is transposed both do. So there
//!
//! ```text
//! D^T = B^T A^T        the factor on the left is B^T, which is stored as its transpose, and that on the right A^T,
//!                      stored likewise
//! ```
//!
//! A D of few rows is another matter: an instruction always multiplies 64 rows, most of which A would not have, but can
//! take as few columns as there are. So where D has at most 32 rows they become the columns of a tile of its transpose,
//! in kernels for an A whose rows run along k.
//!
//! Nothing is transposed for that but the way of a tile's sums to D ([`crate::warpgroup::outbox`]): registers that lie
//! beside each other are of rows below each other, and a thread's sums are of few columns, for which it needs few
//! elements of a bias. A tile of few columns has so few sums that lanes store them one by one.
//!
//! The host hands over the [parameters](GemmParams::swapped) of the transposed product, so a kernel computes one like
//! any other until the sums are there. What the table says of it is said of the product as the caller sees it.

use crate::element::Element;
use crate::kernel::{GemmKernel, Tile};
use crate::layout::{Layouts, OperandLayouts};
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::warpgroup::bulk_panels::MajorLayouts;
use core::marker::PhantomData;

/// Whether a kernel's sums are those of D or of its transpose, as a type.
pub trait Operands: Copy + 'static {
    /// Whether A and B are swapped, and sums are those of the transpose of D.
    const SWAPPED: bool;
}

/// They are those of D.
#[derive(Clone, Copy, Debug)]
pub struct InOrder;

/// They are those of the transpose of D.
#[derive(Clone, Copy, Debug)]
pub struct Swapped;

impl Operands for InOrder {
    const SWAPPED: bool = false;
}

impl Operands for Swapped {
    const SWAPPED: bool = true;
}

/// Factors in the layouts `L`, which are swapped.
pub struct SwapAB<L>(PhantomData<L>);

impl<L: OperandLayouts> OperandLayouts for SwapAB<L> {
    const LAYOUTS: Layouts = L::LAYOUTS;
}

impl<L: MajorLayouts> MajorLayouts for SwapAB<L> {
    type A = L::B;
    type B = L::A;
    type Operands = Swapped;
}

/// The tile of a kernel in D.
pub const fn tile_of_d<K: GemmKernel>() -> Tile {
    let tile = K::TILE;
    if K::SWAPPED {
        Tile { bm: tile.bn, bn: tile.bm, tm: tile.tn, tn: tile.tm, ..tile }
    } else {
        tile
    }
}

/// How many tiles of a kernel's cluster lie beside each other in D.
pub const fn cluster_cols_of_d<K: GemmKernel>() -> u32 {
    if K::SWAPPED { K::CLUSTER / K::CLUSTER_COLS } else { K::CLUSTER_COLS }
}

/// The boxes of a kernel's factors.
pub const fn boxes_of_factors<K: GemmKernel>() -> Option<Boxes> {
    match K::BOXES {
        Some(boxes) if K::SWAPPED => Some(Boxes { a: boxes.b, b: boxes.a, ..boxes }),
        boxes => boxes,
    }
}

impl<T: Element, E, D: Element> GemmParams<T, E, D> {
    /// Those of the transposed product. Where D and the epilogue's operands lie does not change.
    #[must_use]
    pub fn swapped(self) -> Self {
        GemmParams {
            a: self.b,
            b: self.a,
            a_stride: self.b_stride,
            b_stride: self.a_stride,
            m: self.n,
            n: self.m,
            ..self
        }
    }
}
