//! Blocks that stay and go through all products of a batch.
//!
//! The launch of a batch has as many blocks along y as there are products, and each block computes tiles of its own
//! product: a kernel need not know of batches. But a block that stays for one tile alone has nothing to multiply while
//! it begins, and while its sums go through the epilogue. So where a kernel
//! [can](crate::kernel::GemmKernel::WALKS_BATCHES) there is one block along y, and what it walks over
//! ([`crate::schedule::parts`]) are the tiles of all products, as if the matrices D lay one below the other, each from
//! a whole tile on:
//!
//! ```text
//! D of product 0   | tile 0 | tile 4 |    rows 0 to 255, of which D has 200
//!                  | tile 1 | tile 5 |
//! D of product 1   | tile 2 | tile 6 |    rows 256 to 511
//!                  | tile 3 | tile 7 |
//! ```
//!
//! Nothing lies so in memory. Whoever has a tile asks [here](in_product) which product it is of; the matrices of that
//! are known by their numbers in the [maps](crate::maps), or by their [strides](crate::params::GemmParams::further).

use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, together};
use crate::params::GemmParams;
use crate::tile::Origin;
use cuda_std::device_inline;

/// Rows of the matrices D of all products that a block goes through.
#[device_inline]
pub fn rows<K: GemmKernel, E: Epilogue<K::Target>>(
    p: &GemmParams<K::Element, E, K::Target>,
) -> u32 {
    if const { K::WALKS_BATCHES } {
        rows_of_product(together::<K>().bm, p.m) * p.maps.products()
    } else {
        p.m
    }
}

/// How many products after the running block's one it is that has a tile which begins at `origin` of all those rows,
/// and where the tile begins in it.
#[device_inline]
pub fn in_product<K: GemmKernel, E: Epilogue<K::Target>>(
    p: &GemmParams<K::Element, E, K::Target>,
    origin: Origin,
) -> (u32, Origin) {
    // Most launches have one product, and a division takes a while.
    if const { !K::WALKS_BATCHES } || p.maps.products() == 1 {
        return (0, origin);
    }
    // It is not zero; saying so spares the compiler a check for division by it.
    let rows = rows_of_product(together::<K>().bm, p.m).max(1);
    (origin.row / rows, Origin { row: origin.row % rows, ..origin })
}

/// Rows from one product to the next where each has `m`: of whole tiles of `bm`, which are those of a cluster together,
/// so that its blocks are at one product.
#[device_inline]
pub const fn rows_of_product(bm: u32, m: u32) -> u32 {
    m.next_multiple_of(bm)
}
