//! What there is of time.

use super::{block_idx_x, block_idx_y, block_idx_z, grid_dim_x, grid_dim_y};
use std::sync::LazyLock;
use std::time::Instant;

#[inline(always)]
#[track_caller]
pub fn multiprocessor() -> u32 {
    (block_idx_z() * grid_dim_y() + block_idx_y()) * grid_dim_x() + block_idx_x()
}

pub fn cycles() -> u64 {
    nanoseconds()
}

pub fn nanoseconds() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
