//! Matrix products of a warp in double precision.
//!
//! `mma.sync.aligned.m8n8k4.row.col.f64` exists from sm_80 on, its larger relatives from sm_90 on (PTX ISA 7.8). With
//! `g = lane / 4` and `t = lane % 4` (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type" and
//! those of the other shapes):
//!
//! | | register | element of a lane |
//! |---|---|---|
//! | A, 8 x 4 | 0 | row `g`, column `t` |
//! | A, 16 x 4, 16 x 8 and 16 x 16 | `2i` | row `g`, column `4i + t` |
//! | | `2i + 1` | row `g + 8`, the same column |
//! | B, 4 x 8, 8 x 8 and 16 x 8 | `i` | row `4i + t`, column `g` |
//! | C and D, 8 x 8 and 16 x 8 | 0, 1 | row `g`, columns `2t` and `2t + 1` |
//! | 16 x 8 only | 2, 3 | row `g + 8`, the same columns |
//!
//! So a product of 16 x 4 by 4 x 8 is that of two halves of A's rows, and its registers are those of two products of
//! the smallest shape; larger ones are several such in ascending order of k. [`multiply_add`] is this product by what a
//! target has: one instruction on sm_90, which is one of the machine's, too (`DMMA.16x8x4`), and as fast as the larger
//! ones; elsewhere two. On an H200 the smallest shape has half the speed of the others.
//!
//! # Precision
//!
//! The manual says that rounding is that of IEEE 754, to the nearest number unless told otherwise, and measurements on
//! an A100 agree (Fasi et al., see [`mma`](super)). In which order the products of an instruction are added up, and
//! whether each is rounded on its own, it does not say. The simulator adds them by fused multiply-adds in ascending
//! order of k, as if the instruction were written out as [`fma_f64`](crate::math::fma_f64): a model. Results of the
//! simulator and a GPU therefore agree within the bound of any order of `k` fused multiply-adds, and where all sums are
//! exact they are the same.

use crate::backend;

/// Whether the target has the smallest shape, and so [`multiply_add`]. On targets before sm_80 calling them ends the
/// launch.
pub const AVAILABLE: bool = backend::TENSOR_CORES;

/// Whether the target has the larger shapes as instructions: sm_90 and later. Elsewhere calling them ends the launch.
pub const HAS_LARGE_SHAPES: bool = backend::LARGE_DOUBLE_SHAPES;

/// Rows of A and D in [`multiply_add`].
pub const M: usize = 16;

/// Columns of B and D in any shape.
pub const N: usize = 8;

/// Columns of A and rows of B in [`multiply_add`].
pub const K: usize = 16;

/// Rows of A and D in the smallest shape.
pub const SMALLEST_M: usize = 8;

/// Columns of A and rows of B in the smallest shape.
pub const SMALLEST_K: usize = 4;

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = $backend:ident($a:literal, $b:literal, $c:literal);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// All 32 lanes of the warp must execute the same call together, on a target that has the instruction.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(a: [f64; $a], b: [f64; $b], c: [f64; $c]) -> [f64; $c] {
            // SAFETY: as promised by the caller.
            unsafe { backend::$backend(a, b, c) }
        }
    )*};
}

shapes! {
    /// `A * B + C` of 8 x 4, 4 x 8 and 8 x 8 elements (`mma.sync.aligned.m8n8k4.row.col.f64`), where [`AVAILABLE`].
    multiply_add_8x8x4 = dmma_8x8x4(1, 1, 2);
    /// `A * B + C` of 16 x 4, 4 x 8 and 16 x 8 elements (`mma.sync.aligned.m16n8k4.row.col.f64`), where the target
    /// [has it](HAS_LARGE_SHAPES).
    multiply_add_16x8x4 = dmma_16x8x4(2, 1, 4);
    /// `A * B + C` of 16 x 8, 8 x 8 and 16 x 8 elements (`mma.sync.aligned.m16n8k8.row.col.f64`), where the target
    /// [has it](HAS_LARGE_SHAPES).
    multiply_add_16x8x8 = dmma_16x8x8(4, 2, 4);
    /// `A * B + C` of 16 x 16, 16 x 8 and 16 x 8 elements (`mma.sync.aligned.m16n8k16.row.col.f64`), where the target
    /// [has it](HAS_LARGE_SHAPES).
    multiply_add_16x8x16 = dmma_16x8x16(8, 4, 4);
}

/// `A * B + C` of 16 x 4, 4 x 8 and 16 x 8 elements, by one instruction where the target [has it](HAS_LARGE_SHAPES),
/// else by [two](multiply_add_in_parts).
///
/// # Safety
/// All 32 lanes of the warp must execute the same call together, on a target where it is [`AVAILABLE`].
#[inline(always)]
#[track_caller]
pub unsafe fn multiply_add(a: [f64; 2], b: [f64; 1], c: [f64; 4]) -> [f64; 4] {
    // SAFETY: as promised by the caller; the target has what is asked for.
    unsafe {
        if const { HAS_LARGE_SHAPES } {
            multiply_add_16x8x4(a, b, c)
        } else {
            multiply_add_in_parts(a, b, c)
        }
    }
}

/// [`multiply_add`] by two instructions of the smallest shape.
///
/// # Safety
/// As for [`multiply_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn multiply_add_in_parts(a: [f64; 2], b: [f64; 1], c: [f64; 4]) -> [f64; 4] {
    // SAFETY: as promised by the caller.
    let [upper, lower] = unsafe {
        [multiply_add_8x8x4([a[0]], b, [c[0], c[1]]), multiply_add_8x8x4([a[1]], b, [c[2], c[3]])]
    };
    [upper[0], upper[1], lower[0], lower[1]]
}
