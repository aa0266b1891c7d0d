//! The micro-kernel in blocks of four threads, which own parts of D of different sizes.

use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::ladder::microkernel::Microkernel;

regemm_kernels::gemm_kernels! {
    /// Kernels by the rows and columns of D that a thread owns: the last is as large as the library's.
    KERNELS:

    microkernel_1x1_f32 = Microkernel<f32, 2, 2, 2, 1, 1>, epilogue = Linear<f32>, min_blocks = 1;
    microkernel_2x2_f32 = Microkernel<f32, 4, 4, 2, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    microkernel_4x4_f32 = Microkernel<f32, 8, 8, 2, 4, 4>, epilogue = Linear<f32>, min_blocks = 1;
    microkernel_8x4_f32 = Microkernel<f32, 16, 8, 2, 8, 4>, epilogue = Linear<f32>, min_blocks = 1;
    microkernel_8x8_f32 = Microkernel<f32, 16, 16, 2, 8, 8>, epilogue = Linear<f32>, min_blocks = 1;
}

/// The parts of D that there are kernels of, as they are written.
pub const THREAD_TILES: [&str; 5] = ["1x1", "2x2", "4x4", "8x4", "8x8"];

/// All of them, from the least part of D up.
pub fn all() -> &'static [KernelInfo] {
    KERNELS
}

/// How the part of D that a thread of a kernel owns is written.
pub fn thread_tile(kernel: &KernelInfo) -> String {
    format!("{}x{}", kernel.tile.tm, kernel.tile.tn)
}

/// The kernel of a part as it is written.
pub fn of_thread_tile(tile: &str) -> &'static KernelInfo {
    KERNELS.iter().find(|kernel| thread_tile(kernel) == tile).expect("one of the list")
}
