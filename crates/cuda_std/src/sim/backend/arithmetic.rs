//! Arithmetic, which counts fused multiply-adds.

use crate::sim;
use half::f16;

/// Counts a fused multiply-add of a kernel. Outside of one it is plain arithmetic.
#[inline(always)]
fn count_fma() {
    let worker = sim::current_or_null();
    if !worker.is_null() {
        // SAFETY: the worker is the current one.
        unsafe { (*worker).counters.fma += 1 };
    }
}

#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    count_fma();
    sim::fma_f32(a, b, c)
}

/// Subnormal numbers are zero, of either sign.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

#[inline(always)]
pub fn exp2_approx_f32(x: f32) -> f32 {
    flushed(f64::from(flushed(x)).exp2() as f32)
}

#[inline(always)]
pub fn reciprocal_approx_f32(x: f32) -> f32 {
    flushed(1.0 / flushed(x))
}

#[inline(always)]
pub fn tanh_approx_f32(x: f32) -> f32 {
    f64::from(x).tanh() as f32
}

/// The NaN that instructions give, whatever one they are given.
const NAN: f32 = f32::from_bits(0x7fff_ffff);
const NAN_F16: f16 = f16::from_bits(0x7fff);

/// Of the two zeros the positive one is the larger.
#[inline(always)]
pub fn at_least_f32(x: f32, limit: f32) -> f32 {
    if x > limit {
        x
    } else if x < limit {
        limit
    } else if x == limit {
        // The same number, or zeros, whose sum is negative where both are.
        if x == 0.0 { x + limit } else { x }
    } else {
        NAN
    }
}

#[inline(always)]
pub fn magnitude_up_to_f32(x: f32, limit: f32) -> f32 {
    let magnitude = x.abs();
    if magnitude < limit {
        magnitude
    } else if magnitude >= limit {
        // Of two zeros it may be the negative one.
        limit
    } else {
        NAN
    }
}

/// No result depends on another, so the order shows nowhere.
#[inline(always)]
pub fn fma_row_f32<const N: usize>(a: f32, b: &[f32; N], c: &mut [f32; N], _backwards: bool) {
    for (b, c) in b.iter().zip(c) {
        *c = fma_f32(a, *b, *c);
    }
}

#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    count_fma();
    sim::fma_f64(a, b, c)
}

#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    value.to_f32()
}

#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    if value.is_nan() { NAN_F16 } else { f16::from_f32(value) }
}
