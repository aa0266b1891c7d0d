//! How far a correct result may be from the exact one.
//!
//! The device computes `D = round(activation(fma(alpha, sum, fma(beta, c, bias))))`, where `sum` takes `k` fused
//! multiply-adds in the accumulator's precision and `round` is the conversion to the element type. Every function here
//! bounds the error of one of these steps, given the error that comes in. Write `u` for the unit roundoff and `eta` for
//! the smallest subnormal number of the accumulator:
//!
//! 1. The sum: `|error| <= gamma_k |A||B| + k eta`, with `gamma_n = n u / (1 - n u)` (N. J. Higham, *Accuracy and
//!    Stability of Numerical Algorithms*, 2nd ed., SIAM 2002, section 3.1; the first term is his (3.5), and with fused
//!    operations each product meets at most `k` roundings instead of `k + 1`). The second term is for results in the
//!    subnormal range, where a rounding is off by up to `eta / 2` (section 2.1 there); twice that also covers what
//!    later roundings make of it.
//!
//!    Products of f16 and bf16 may be summed by tensor cores ([`cuda_std::mma`]). Those truncate where others round:
//!    each of the `k` products loses up to a unit in the last place of the largest number it is added up with, twice a
//!    rounding, and the sum of an instruction up to another one, which the truncations that its other products do not
//!    need make up for. So for these types a product counts as two roundings ([`roundings`]), unless sums are
//!    [promoted](crate::Precision::Promoted). Products that are computed in another [precision](crate::Precision) than
//!    exact have roundings of their own, and elements of f32 that are made halves lose a part of the largest element of
//!    their row or column ([`lost_of_largest`], [`lost`]).
//! 2. Each of the two fused operations around it: `u |result| + eta / 2`, and the error that comes in through the
//!    factor.
//! 3. The activation: its Lipschitz constant times the incoming error, and the error of its evaluation, derived from
//!    the formula that the device evaluates and the errors of the library functions in it. For f16 and bf16 kernels may
//!    evaluate shorter formulas ([`approximation`]).
//! 4. The conversion to f16 or bf16: `u' |result| + eta' / 2` with the constants of that type. Where factors of these
//!    types have results of f32 nothing is converted, and nothing in step 3 is shorter.
//!
//! Steps 1 and 2 together are sharper than `gamma_(k+2) (|alpha||A||B| + |beta||C| + |bias|)`. The reference is itself
//! computed in double precision, and its own error is added with the same formulas.
//!
//! The theory assumes that nothing overflows; `reference` finds the elements where something can.

use super::sums::Line;
use crate::precision::Precision;
use half::{bf16, f16};
use regemm_kernels::element::Dtype;
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::fast_activation::{self, Rounded};
use regemm_kernels::epilogue::math::{self, Elementary};
use std::f64::consts::{LOG2_E, PI};

/// The constants of a binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Unit roundoff `u`: half the distance from 1 to the next number.
    pub unit_roundoff: f64,
    /// The smallest positive (subnormal) number.
    pub smallest: f64,
    /// The largest finite number.
    pub largest: f64,
}

impl Format {
    /// IEEE 754 binary64, the precision of the reference.
    pub const DOUBLE: Format = Format {
        unit_roundoff: f64::EPSILON / 2.0,
        smallest: f64::from_bits(1),
        largest: f64::MAX,
    };

    const SINGLE: Format = Format {
        unit_roundoff: f32::EPSILON as f64 / 2.0,
        smallest: f32::from_bits(1) as f64,
        largest: f32::MAX as f64,
    };

    /// The format in which elements of this type are stored.
    pub fn of_elements(dtype: Dtype) -> Format {
        match dtype {
            Dtype::F32 => Format::SINGLE,
            Dtype::F64 => Format::DOUBLE,
            Dtype::F16 => Format {
                unit_roundoff: half::f16::EPSILON.to_f64() / 2.0,
                smallest: half::f16::MIN_POSITIVE_SUBNORMAL.to_f64(),
                largest: half::f16::MAX.to_f64(),
            },
            Dtype::Bf16 => Format {
                unit_roundoff: half::bf16::EPSILON.to_f64() / 2.0,
                smallest: half::bf16::MIN_POSITIVE_SUBNORMAL.to_f64(),
                largest: half::bf16::MAX.to_f64(),
            },
        }
    }

    /// The format in which products of elements of this type are summed.
    pub fn of_sums(dtype: Dtype) -> Format {
        match dtype {
            Dtype::F64 => Format::DOUBLE,
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => Format::SINGLE,
        }
    }

    /// `gamma_n = n u / (1 - n u)`: the relative error of `n` roundings in a row. Infinite where `n u >= 1`, because
    /// nothing can be said then.
    pub fn gamma(&self, operations: usize) -> f64 {
        let nu = operations as f64 * self.unit_roundoff;
        if nu < 1.0 { nu / (1.0 - nu) } else { f64::INFINITY }
    }

    /// The magnitude from which on a value rounds to infinity: half a unit in the last place past the largest number.
    /// For double precision that is not a double, and the result is infinite.
    pub fn overflow(&self) -> f64 {
        // The largest number is 2^(emax + 1) (1 - u).
        self.largest / (1.0 - self.unit_roundoff) * (1.0 - self.unit_roundoff / 2.0)
    }
}

/// Roundings that a sum of `k` products of elements of this type is worth (step 1), computed in a precision if that is
/// for the type.
pub const fn roundings(dtype: Dtype, precision: Precision, k: usize) -> usize {
    match (dtype, precision) {
        (Dtype::F32, _) | (Dtype::F16 | Dtype::Bf16, Precision::Promoted) => precision.roundings(k),
        (Dtype::F64, _) => k,
        (Dtype::F16 | Dtype::Bf16, _) => 2 * k,
    }
}

/// The part of the largest element of its line that a high half loses at most where that is more than 2^-11 of its own
/// element: the largest has an exponent of 14 or more when it is split, and the last place of an f16 is 2^-24.
pub(super) const LOST_BY_ONE_HALF: f64 = 1.0 / (1u64 << 39) as f64;

/// The part of the largest element of its line that an element loses at most, besides the parts of itself that
/// [`roundings`] count.
///
/// A low half has 11 more places than the high one. What is left out of a product of halves, that of both low ones, is
/// as much once more.
pub(super) const fn lost_of_largest(dtype: Dtype, precision: Precision) -> f64 {
    match (dtype, precision) {
        (Dtype::F32, Precision::Split) => 2.0 * LOST_BY_ONE_HALF / (1 << 11) as f64,
        (Dtype::F32, Precision::Fast) => LOST_BY_ONE_HALF,
        _ => 0.0,
    }
}

/// What a sum of `k` products of a row of A and a column of B loses where each element loses this part of the largest
/// one in its line.
pub(super) fn lost(part: f64, k: usize, row: Line, col: Line) -> f64 {
    let both = k as f64 * part * row.largest * col.largest;
    part * (row.largest * col.sum + row.sum * col.largest + both)
}

/// What an element of f32 loses at most besides the parts of itself that [`roundings`] count when it is rounded to
/// TF32, which has no numbers between zero and 2^-136.
pub(super) const LOST_BY_TF32: f64 = 1.0 / (1u128 << 127) as f64 / (1 << 10) as f64;

/// The magnitude from which on an element of f32 is infinite when it is rounded to TF32: half a place of 11 bits below
/// what f32 has no numbers for.
pub(super) const OVERFLOW_OF_TF32: f64 =
    (1u128 << 127) as f64 * 2.0 * (1.0 - 1.0 / (1 << 12) as f64);

/// What a sum of `k` products of a row of A and a column of B loses where each element loses so much.
pub(super) fn lost_of_each(lost: f64, k: usize, row: Line, col: Line) -> f64 {
    lost * (row.sum + col.sum + k as f64 * lost)
}

/// `gamma` of the roundings of sums of `k` products of elements of this type, by which all bounds for the type scale;
/// f32 is computed exactly.
pub fn gamma(dtype: Dtype, k: usize) -> f64 {
    Format::of_sums(dtype).gamma(roundings(dtype, Precision::Exact, k))
}

/// Error of a sum of `k` products that is worth so many roundings, and whose absolute values sum up to `magnitude`
/// (step 1). In the subnormal range each product counts, also where sums are worth fewer roundings than there are
/// products.
pub(super) fn sum(p: Format, (roundings, k): (usize, usize), magnitude: f64) -> f64 {
    p.gamma(roundings) * magnitude + roundings.max(k) as f64 * p.smallest
}

/// Error of a fused multiply-add with the exact result `value` whose operands bring in the error `incoming` (step 2).
pub(super) fn fused(p: Format, value: f64, incoming: f64) -> f64 {
    incoming + p.unit_roundoff * (value.abs() + incoming) + p.smallest
}

/// Error of the conversion to the element type of D, and before it (step 4). Nothing is converted in f32 and f64.
pub(super) fn conversion(dtype: Dtype, value: f64, incoming: f64) -> f64 {
    match dtype {
        Dtype::F32 | Dtype::F64 => incoming,
        Dtype::F16 | Dtype::Bf16 => {
            let p = Format::of_elements(dtype);
            incoming + p.unit_roundoff * (value.abs() + incoming) + p.smallest / 2.0
        }
    }
}

/// Errors of the device's functions in units in the last place of the result, one of which is at most `2 u` relative to
/// it: the larger one of both precisions.
const EXP_ULPS: f64 = f64::max(<f32 as Elementary>::EXP_ULPS, <f64 as Elementary>::EXP_ULPS);
const ERF_ULPS: f64 = f64::max(<f32 as Elementary>::ERF_ULPS, <f64 as Elementary>::ERF_ULPS);
const TANH_ULPS: f64 = f64::max(<f32 as Elementary>::TANH_ULPS, <f64 as Elementary>::TANH_ULPS);

const GELU_TANH_ULPS: f64 =
    f64::max(<f32 as Elementary>::GELU_TANH_ULPS, <f64 as Elementary>::GELU_TANH_ULPS);

/// Where the weight of GELU by `erf` has become exactly 0: `erf` is -1 to the last bit from -6 down.
const GELU_SATURATION: f64 = 8.6;

/// The largest slope of an activation: how much it can magnify an incoming error.
///
/// GELU (both forms) is steepest near `x = sqrt(2)`, where its slope is `Phi(x) + x phi(x) < 1.13`; SiLU near 2.4 with
/// less than 1.1. The slope of leaky ReLU is that of the side on which the value certainly lies.
pub(super) fn lipschitz(activation: Activation, slope: f64, z: f64, error: f64) -> f64 {
    match activation {
        Activation::None | Activation::Relu | Activation::Tanh => 1.0,
        Activation::LeakyRelu if z > error => 1.0,
        Activation::LeakyRelu if z < -error => slope.abs(),
        Activation::LeakyRelu => slope.abs().max(1.0),
        Activation::GeluErf | Activation::GeluTanh => 1.13,
        Activation::Silu => 1.1,
        Activation::Sigmoid => 0.25,
    }
}

/// Error of `activation(z)` evaluated in precision `p` as the device does it, for an argument of sign `sign` and
/// magnitude up to `x` and a result of magnitude up to `v` (step 3). What the argument's own error contributes comes on
/// top.
pub(super) fn evaluation(p: Format, activation: Activation, sign: f64, x: f64, v: f64) -> f64 {
    let u = p.unit_roundoff;
    // Where e^-x overflows, the quotient is 0 although the sigmoid is up to this:
    let lost = 1.0 / p.largest;
    // e^-x is off by EXP_ULPS, 1 + e^-x and the quotient by one rounding each; the first counts less than fully.
    let sigmoid = (2.0 * EXP_ULPS + 2.0) * u;
    match activation {
        Activation::None | Activation::Relu => 0.0,
        Activation::LeakyRelu => u * v + p.smallest,
        Activation::Sigmoid => SECOND_ORDER * sigmoid * v + lost + p.smallest,
        Activation::Silu => SECOND_ORDER * (sigmoid + u) * v + x.max(1.0) * lost + p.smallest,
        Activation::Tanh => SECOND_ORDER * 2.0 * TANH_ULPS * u * v + p.smallest,
        // The argument x / sqrt(2) has two roundings (the constant's and the product's), and erf passes on at most the
        // same relative error.
        Activation::GeluErf => gelu(p, 2.0 + 2.0 * ERF_ULPS, sign, x, v),
        Activation::GeluTanh => gelu_tanh(p, GELU_TANH_ULPS, sign, x, v),
    }
}

/// What kernels may add to that for results of this type, with the same arguments: shorter formulas, the errors of
/// which are a small part of the conversion's (step 4), and for which subnormal numbers are zero ([`fast_activation`]).
///
/// In f32 that is GELU by tanh alone, whose short form has a larger error than the other.
pub(super) fn approximation(
    dtype: Dtype,
    activation: Activation,
    sign: f64,
    x: f64,
    v: f64,
) -> f64 {
    let gelu = match dtype {
        Dtype::F32 if activation == Activation::GeluTanh => {
            let ulps = fast_activation::SHORT_GELU_TANH_ULPS;
            return gelu_tanh(Format::of_sums(dtype), ulps, sign, x, v);
        }
        Dtype::F32 | Dtype::F64 => return 0.0,
        Dtype::F16 => <f16 as Rounded>::GELU_ERROR,
        Dtype::Bf16 => <bf16 as Rounded>::GELU_ERROR,
    };
    let flushed = 2.0 * x.max(1.0) * f64::from(f32::MIN_POSITIVE);
    match activation {
        Activation::None | Activation::Relu | Activation::LeakyRelu => 0.0,
        Activation::GeluErf => gelu * (v + fast_activation::GELU_NEAR_ZERO),
        // By one of two forms.
        Activation::GeluTanh => {
            gelu * (v + fast_activation::GELU_NEAR_ZERO) + fast_activation::GELU_BY_TANH_ERROR * x
        }
        Activation::Silu | Activation::Sigmoid | Activation::Tanh => {
            fast_activation::SIGMOID_ERROR * v + flushed
        }
    }
}

/// Room for products of roundings, which the first-order counts above leave out.
const SECOND_ORDER: f64 = 1.01;

/// GELU by `erf` is `x * fma(0.5, s, 0.5)` with `s` in [-1, 1] that has `roundings` relative roundings.
/// For negative x the sum cancels, so the error is relative to `|x|` and not to the result; it stops growing where `s`
/// saturates.
fn gelu(p: Format, roundings: f64, sign: f64, x: f64, v: f64) -> f64 {
    let x = if sign < 0.0 { x.min(GELU_SATURATION) } else { x };
    let u = p.unit_roundoff;
    SECOND_ORDER * (0.5 * roundings * u * x + 2.0 * u * v) + p.smallest
}

/// GELU by `tanh` has a bound in ulp of the result, which for negative x grows with the exponent `t` of the weight
/// `1 / (1 + 2^t)`, and an absolute one next to zero ([`math::gelu_tanh`]).
///
/// The reference's formula in double precision has up to eight roundings in `2u`, so an error of up to `8 ln 2`
/// roundings for each unit of `t`: within the same bound.
fn gelu_tanh(p: Format, ulps: f64, sign: f64, x: f64, v: f64) -> f64 {
    let surely_positive = x < 2.0 * sign;
    let exponent = if surely_positive {
        0.0
    } else {
        // Beyond, weights are zero.
        let x = x.min(f64::GELU_TANH_LIMIT);
        2.0 * (2.0 / PI).sqrt() * LOG2_E * (0.044715 * x.powi(3) + x)
    };
    let smallest_normal = p.smallest / (2.0 * p.unit_roundoff);
    let relative = 2.0 * ulps * (1.0 + exponent) * p.unit_roundoff;
    SECOND_ORDER * relative * v + math::GELU_TANH_TAIL * smallest_normal
}
