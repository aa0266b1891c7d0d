//! Where kernels without maps find the halves of their factors, and what they may read of them.

use super::{HALVES, elements, elements_of_half, ld};
use crate::panels::CHUNK;
use crate::params::MatrixRef;
use cuda_std::memory::GlobalPtr;
use cuda_std::{hint, thread};
use half::f16;

/// Columns of halves that are written, those behind the end of a row as zeros: whole chunks, as warps take them to shared memory
/// ([`crate::panels`]).
pub const fn written(cols: u32) -> u32 {
    cols.next_multiple_of(CHUNK as u32)
}

/// Elements from the high halves of a launch's first matrix to what is known of the lines, where that lies behind the `made` halves of all
/// matrices: so it must for kernels that have no maps.
pub const fn to_lines(made: u32, matrices: u32, (rows, cols): (u32, u32)) -> u64 {
    (made as u64 * matrices as u64).saturating_mul(elements_of_half(rows, cols))
}

/// The high and the low halves of a factor of the running block's product, for kernels that have no maps. They are found by what is known
/// of the factor's lines, `stride` elements from product to product; `shape` is the factor's as it is stored.
#[inline(always)]
pub fn halves_of_block(
    lines: MatrixRef<f16>,
    stride: u64,
    shape: (u32, u32),
) -> [MatrixRef<f16>; 2] {
    let is_shared = stride == 0;
    let matrices = if is_shared { 1 } else { thread::grid_dim_y() };
    let index = if is_shared { 0 } else { u64::from(thread::block_idx_y()) };
    let from_first = index * elements(shape.0, shape.1);
    // Without depth there need be no lines, and so no halves before them.
    let back =
        (index * stride).wrapping_add(to_lines(HALVES, matrices, shape)).wrapping_sub(from_first);
    let address = lines.data.address().wrapping_sub(back.wrapping_mul(size_of::<f16>() as u64));
    let data = GlobalPtr::from_address(hint::whole(address));
    let high = MatrixRef { data, ld: ld(shape.1) };
    [high, high.shifted(u64::from(shape.0) * high.ld)]
}
