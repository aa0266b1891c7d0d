//! Where kernels without maps find the halves of their factors, and what they may read of them.

use super::{elements, ld};
use crate::params::MatrixRef;
use crate::warp::panels::CHUNK;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, hint, thread};
use half::f16;

/// Columns of halves that are written, those behind the end of a row as zeros: whole chunks, as warps take them to
/// shared memory ([`crate::warp::panels`]).
pub const fn written(cols: u32) -> u32 {
    cols.next_multiple_of(CHUNK as u32)
}

/// What kernels know of a factor besides its maps: its lines, and in the place of a leading dimension, which lines do
/// not have, where the halves of the first product begin.
pub const fn reference(halves: GlobalPtr<f16>, lines: GlobalPtr<i16>) -> MatrixRef<f16> {
    MatrixRef { data: lines.cast(), ld: halves.address() }
}

/// The high and the low halves of a factor of the running block's product, for kernels that have no maps, by what they
/// know of it: [`reference()`] and the lines from one product to the next, none where all products share them. `shape`
/// is the factor's as it is stored.
#[device_inline]
pub fn halves_of_block(
    of_factor: MatrixRef<f16>,
    stride: u64,
    shape: (u32, u32),
) -> [MatrixRef<f16>; 2] {
    let index = if stride == 0 { 0 } else { u64::from(thread::block_idx_y()) };
    let first = GlobalPtr::from_address(hint::whole(of_factor.ld));
    let high = MatrixRef { data: first.add(index * elements(shape.0, shape.1)), ld: ld(shape.1) };
    [high, high.shifted(u64::from(shape.0) * high.ld)]
}
