//! Kernels that end in an epilogue of their own: `D = clamp(A * B * scales + residual, 0, limit)`.

// On the GPU there is only `core`.
#![no_std]
// What a PTX entry needs of the compiler, on the device alone: its calling convention, and directives beside it.
// `cuda_builder` admits both in a stable compiler.
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use cuda_std::device_inline;
use cuda_std::math::fma_f32;
use cuda_std::memory::GlobalPtr;
use half::bf16;
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::gemm_kernels;
use regemm_kernels::ladder::microkernel::Microkernel;
use regemm_kernels::ladder::tiled::Tiled;
use regemm_kernels::ladder::warp_specialised::WarpSpecialised;
use regemm_kernels::layout::Nn;
use regemm_kernels::params::MatrixRef;
use regemm_kernels::warpgroup::Warpgroup;

/// What the host passes with a launch. `repr(C)`: two compilers must agree on the layout, the host's and the device's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScaledResidual<T: Element> {
    /// Added to the product; a matrix of D's shape.
    pub residual: MatrixRef<T>,
    /// Factors of the product's columns, one for each column of D.
    pub scales: GlobalPtr<T>,
    /// The largest value of D. The least is zero.
    pub limit: f32,
}

/// For every element type whose products are summed in f32.
impl<T: Element<Acc = f32>> Epilogue<T> for ScaledResidual<T> {
    /// Inlined, so that the sums stay in registers.
    #[device_inline]
    unsafe fn apply(&self, sum: f32, row: u32, col: u32) -> f32 {
        // SAFETY: the element lies in D, whose shape is the residual's, and there is a scale for each column.
        let (residual, scale) =
            unsafe { (self.residual.at(row, col).load(), self.scales.add(col.into()).load()) };
        let x = fma_f32(sum, scale.widen(), residual.widen());
        // Not `max` and `min`, which make a number of a NaN; nor `clamp`, which may panic.
        if x < 0.0 {
            0.0
        } else if x > self.limit {
            self.limit
        } else {
            x
        }
    }
}

// Tiles, stages and least blocks of a multiprocessor are those of the library's own kernels
// (`kernels-gpu/src/table.rs`), where comments say what the numbers are.
gemm_kernels! {
    /// The kernels of this crate; the names are those of the PTX entries.
    KERNELS:
    scaled_residual_tiled_f32 = Tiled<f32, 16>, epilogue = ScaledResidual<f32>, min_blocks = 8;
    scaled_residual_microkernel_f32 = Microkernel<f32, 128, 128, 8, 8, 8>, epilogue = ScaledResidual<f32>, min_blocks = 2;
    scaled_residual_warp_specialised_f32 = WarpSpecialised<f32, 128, 256, 32, 8, 16, 4>, epilogue = ScaledResidual<f32>, min_blocks = 1;
    // `mapped`: its launches pass maps for bulk copies of the factors.
    scaled_residual_warpgroup_bf16 = Warpgroup<bf16, 128, 256, 64, 4, Nn>, epilogue = ScaledResidual<bf16>, min_blocks = 1, factors = mapped;
}
