//! The kernels in tiles that are small enough to be followed: 4 x 4 elements of D, 2 x 2 for each of four threads.

use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::ladder::double_buffered::DoubleBuffered;
use regemm_kernels::ladder::microkernel::Microkernel;
use regemm_kernels::ladder::pipelined::Pipelined;

regemm_kernels::gemm_kernels! {
    /// Kernels by the depth of their slices, each rung after the one that it builds on.
    KERNELS:

    microkernel_1_f32 = Microkernel<f32, 4, 4, 1, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    double_buffered_1_f32 = DoubleBuffered<f32, 4, 4, 1, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    pipelined_1_in_2_f32 = Pipelined<f32, 4, 4, 1, 2, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    pipelined_1_in_3_f32 = Pipelined<f32, 4, 4, 1, 2, 2, 3>, epilogue = Linear<f32>, min_blocks = 1;

    microkernel_2_f32 = Microkernel<f32, 4, 4, 2, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    double_buffered_2_f32 = DoubleBuffered<f32, 4, 4, 2, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    pipelined_2_in_2_f32 = Pipelined<f32, 4, 4, 2, 2, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    pipelined_2_in_3_f32 = Pipelined<f32, 4, 4, 2, 2, 2, 3>, epilogue = Linear<f32>, min_blocks = 1;

    microkernel_4_f32 = Microkernel<f32, 4, 4, 4, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    double_buffered_4_f32 = DoubleBuffered<f32, 4, 4, 4, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    pipelined_4_in_2_f32 = Pipelined<f32, 4, 4, 4, 2, 2, 2>, epilogue = Linear<f32>, min_blocks = 1;
    pipelined_4_in_3_f32 = Pipelined<f32, 4, 4, 4, 2, 2, 3>, epilogue = Linear<f32>, min_blocks = 1;
}

/// The depths of slices that there are kernels of, as they are written.
pub const DEPTHS: [&str; 3] = ["1", "2", "4"];

/// The kernels whose slices are so deep.
pub fn of_depth(depth: u32) -> impl Iterator<Item = &'static KernelInfo> {
    KERNELS.iter().filter(move |kernel| kernel.tile.bk == depth)
}
