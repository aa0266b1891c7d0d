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
