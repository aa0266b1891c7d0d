//! Kernels that end in an epilogue of their own: `D = clamp(A * B * scales + residual, 0, limit)`.

// On the GPU there is only `core`.
#![no_std]
// What a PTX entry needs of the compiler, on the device alone: its calling convention, and directives beside it.
// `cuda_builder` admits both in a stable compiler.
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use cuda_std::device_inline;
use cuda_std::math::fma_f32;
use cuda_std::memory::GlobalPtr;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::gemm_kernels;
use regemm_kernels::ladder::microkernel::Microkernel;
use regemm_kernels::params::MatrixRef;
use regemm_kernels::ladder::tiled::Tiled;

/// What the host passes with a launch. `repr(C)`: two compilers must agree on the layout, the host's and the device's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScaledResidual {
    /// Added to the product; a matrix of D's shape.
    pub residual: MatrixRef<f32>,
    /// Factors of the product's columns, one for each column of D.
    pub scales: GlobalPtr<f32>,
    /// The largest value of D. The least is zero.
    pub limit: f32,
}

impl Epilogue<f32> for ScaledResidual {
    /// Inlined, so that the sums stay in registers.
    #[device_inline]
    unsafe fn apply(&self, sum: f32, row: u32, col: u32) -> f32 {
        // SAFETY: the element lies in D, whose shape is the residual's, and there is a scale for each column.
        let (residual, scale) =
            unsafe { (self.residual.at(row, col).load(), self.scales.add(col.into()).load()) };
        fma_f32(sum, scale, residual).max(0.0).min(self.limit)
    }
}

gemm_kernels! {
    /// The kernels of this crate; the names are those of the PTX entries.
    KERNELS:
    scaled_residual_tiled = Tiled<f32, 16>, epilogue = ScaledResidual, min_blocks = 8;
    scaled_residual_microkernel = Microkernel<f32, 128, 128, 8, 8, 8>, epilogue = ScaledResidual, min_blocks = 2;
}
