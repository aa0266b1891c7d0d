//! What may be stored in memory, and the conversions between precisions.

use crate::backend;
use half::{bf16, f16};

/// A plain value of 1, 2, 4 or 8 bytes: any bit pattern is valid, and its alignment is its size.
///
/// # Safety
/// Implementors must have no padding, no invalid bit patterns, and `align_of` equal to `size_of`.
pub unsafe trait Scalar: Copy + Send + Sync + 'static {}

macro_rules! scalars {
    ($($t:ty),*) => {$(
        // SAFETY: a primitive number (or a transparent wrapper of one) whose alignment is its size on every target.
        unsafe impl Scalar for $t {}
    )*};
}
scalars!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

/// `value` in single precision, exactly (`cvt.f32.f16`).
#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    backend::f16_to_f32(value)
}

/// `value` rounded to the nearest half, ties to even (`cvt.rn.f16.f32`).
#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    backend::f32_to_f16(value)
}

/// `value` in single precision, exactly: a bf16 is the upper half of an f32.
#[inline(always)]
pub fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits((value.to_bits() as u32) << 16)
}

/// `value` rounded to the nearest bf16, ties to even.
///
/// In integer arithmetic, because `cvt.rn.bf16.f32` only exists from sm_80 on and this must run on sm_75 too.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // Rounding could carry a NaN's payload into infinity: keep the sign and force a quiet NaN.
        return bf16::from_bits(((bits >> 16) | 0x0040) as u16);
    }
    let round = 0x7fff + ((bits >> 16) & 1);
    bf16::from_bits((bits.wrapping_add(round) >> 16) as u16)
}
