//! The kernels in tiles that are small enough to be shown.

use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::ladder::naive::Naive;
use regemm_kernels::ladder::tiled::Tiled;

regemm_kernels::gemm_kernels! {
    /// Naive kernels by tile.
    NAIVE:

    naive_2x2_f32 = Naive<f32, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    naive_4x4_f32 = Naive<f32, 4, 4>, epilogue = Linear<f32>, min_blocks = 1;
    naive_8x8_f32 = Naive<f32, 8, 8>, epilogue = Linear<f32>, min_blocks = 1;
    naive_16x16_f32 = Naive<f32, 16, 16>, epilogue = Linear<f32>, min_blocks = 1;
}

regemm_kernels::gemm_kernels! {
    /// Tiled kernels by tile.
    TILED:

    tiled_2x2_f32 = Tiled<f32, 2>, epilogue = Linear<f32>, min_blocks = 1;
    tiled_4x4_f32 = Tiled<f32, 4>, epilogue = Linear<f32>, min_blocks = 1;
    tiled_8x8_f32 = Tiled<f32, 8>, epilogue = Linear<f32>, min_blocks = 1;
    tiled_16x16_f32 = Tiled<f32, 16>, epilogue = Linear<f32>, min_blocks = 1;
}

/// The tiles that there are kernels of, as they are written.
pub const TILES: [&str; 4] = ["2", "4", "8", "16"];

/// The same as numbers.
pub fn tiles() -> impl Iterator<Item = u32> {
    TILED.iter().map(|kernel| kernel.tile.bm)
}

/// The naive kernel whose blocks are of `tile x tile` threads.
pub fn naive(tile: u32) -> &'static KernelInfo {
    of_tile(NAIVE, tile)
}

/// The tiled kernel with tiles of `tile x tile`.
pub fn tiled(tile: u32) -> &'static KernelInfo {
    of_tile(TILED, tile)
}

fn of_tile(table: &'static [KernelInfo], tile: u32) -> &'static KernelInfo {
    table.iter().find(|kernel| kernel.tile.bm == tile).expect("a tile of the table")
}
