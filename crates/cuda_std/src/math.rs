//! Arithmetic the simulator counts and the GPU fuses.

use crate::backend;

/// `a * b + c`, rounded once (`fma.rn.f32`).
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    backend::fma_f32(a, b, c)
}

/// `a * b + c`, rounded once (`fma.rn.f64`).
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    backend::fma_f64(a, b, c)
}

/// `2^x` with a relative error of at most `2^-22`; what is no normal number becomes zero (`ex2.approx.ftz.f32`).
///
/// The simulator's is rounded to nearest, so results on the two differ in their last bits.
#[inline(always)]
pub fn exp2_approx_f32(x: f32) -> f32 {
    backend::exp2_approx_f32(x)
}

/// `1 / x` with an error of at most a unit in the last place; what is no normal number becomes zero, and zero infinity
/// (`rcp.approx.ftz.f32`).
///
/// The simulator's is rounded to nearest.
#[inline(always)]
pub fn reciprocal_approx_f32(x: f32) -> f32 {
    backend::reciprocal_approx_f32(x)
}

/// `tanh(x)` with a relative error of at most `2^-11` by the manual, and of `2^-16.4` on Hopper, where all arguments
/// were tried (`tanh.approx.f32`, sm_75 and later).
///
/// The simulator's is rounded to nearest.
#[inline(always)]
pub fn tanh_approx_f32(x: f32) -> f32 {
    backend::tanh_approx_f32(x)
}

/// `x` or the limit, whichever is larger; NaN where one of the two is (`max.NaN.f32`, sm_80 and later).
#[inline(always)]
pub fn at_least_f32(x: f32, limit: f32) -> f32 {
    backend::at_least_f32(x, limit)
}

/// `|x|` or the limit, whichever is smaller; NaN for NaN, and on sm_80 and later also where the limit is
/// (`min.NaN.f32`).
#[inline(always)]
pub fn magnitude_up_to_f32(x: f32, limit: f32) -> f32 {
    backend::magnitude_up_to_f32(x, limit)
}

/// A row of an outer product: `c[j] = a * b[j] + c[j]` for all `j`, each rounded once (`fma.rn.f32`), from the first to
/// the last or `backwards`.
///
/// Rows of 16, 8 and 4 are one block of instructions, whose order no compiler changes on the way to PTX. That order
/// decides which operand a multiply-add shares with the one before it, and so how many registers it fetches.
#[inline(always)]
pub fn fma_row_f32<const N: usize>(a: f32, b: &[f32; N], c: &mut [f32; N], backwards: bool) {
    backend::fma_row_f32(a, b, c, backwards)
}
