//! Activations of values that are rounded to half precision next.
//!
//! On Hopper the products of a tile of 128 x 256 x 4096 take 65,536 cycles, and each instruction more for each element
//! of the tile takes 256 of them. The functions of [`crate::epilogue::math`] need 30 to 50 instructions for the last
//! bit of an f32, of which rounding to 11 or 8 bits then leaves nothing. So here are shorter ones, whose errors are a
//! small part of that rounding.
//!
//! The weight of GELU, `Phi(x)`, is one minus its mirror image, so that
//!
//! ```text
//! GELU(x) = max(x, 0) - |x| Phi(-|x|),    Phi(-a) = 2^P(a)
//! ```
//!
//! with a polynomial `P`, the minimax fit of `log2 Phi(-a)` whose relative error in `a Phi(-a) + 10^-4` is level (by
//! Lawson's iteration: C. L. Lawson, "Contributions to the Theory of Linear Least Maximum Approximation", 1961). That
//! is one instruction of the special function unit, where a quotient takes two; it has 16 lanes on a multiprocessor,
//! multiply-adds have 128. Negative arguments keep their relative accuracy. Both forms of GELU differ in `P` alone.
//! Larger arguments than `GELU_LIMIT` count as that, since their weight is nothing in the results' type, and
//! polynomials go anywhere beyond the fit.
//!
//! On Hopper GELU by tanh is shorter still by the unit's own `tanh`, which is more accurate there than its manual
//! promises ([`gelu_tanh_of_halves`]).

use crate::epilogue::activation::Activation;
use crate::epilogue::math::{Elementary, polynomial};
use cuda_std::device_inline;
use cuda_std::math::{
    at_least_f32, exp2_approx_f32, fma_f32, magnitude_up_to_f32, reciprocal_approx_f32,
    tanh_approx_f32,
};
use cuda_std::unroll;
use half::{bf16, f16};

/// A type of half precision that results are rounded to, and what GELU takes to be accurate enough for it.
pub trait Rounded {
    /// Ascending coefficients of `P` for [`Activation::GeluErf`].
    const GELU_ERF: &'static [f32];
    /// The same for [`Activation::GeluTanh`].
    const GELU_TANH: &'static [f32];
    /// Where weights are zero, or so small that they are once results are rounded. Infinity times zero would be NaN.
    const GELU_LIMIT: f32;
    /// Bound on the error of both, relative to the sum of the result's magnitude and [`GELU_NEAR_ZERO`].
    const GELU_ERROR: f64;
}

/// Results smaller than this have the absolute error of this one.
pub const GELU_NEAR_ZERO: f64 = 1e-4;

/// Bound on the relative error of [`Activation::Silu`], [`Activation::Sigmoid`] and [`Activation::Tanh`] where they are
/// normal numbers of f32: the argument of the exponential function has an error of two roundings, and it may be 128.
pub const SIGMOID_ERROR: f64 = 2.0 * 128.0 * (f32::EPSILON as f64);

impl Rounded for bf16 {
    const GELU_ERF: &'static [f32] =
        &[-1.001_003_1, -1.139_182_3, -0.483_075_4, -0.035_646_5, 0.002_424_671_7];
    const GELU_TANH: &'static [f32] =
        &[-1.001_526_5, -1.128_330_4, -0.516_310_8, -0.002_553_835, -0.007_244_843_7];
    const GELU_LIMIT: f32 = 16.0;
    const GELU_ERROR: f64 = 1e-3;
}

impl Rounded for f16 {
    const GELU_ERF: &'static [f32] = &[
        -1.000_006_2,
        -1.151_067_5,
        -0.459_082_54,
        -0.053_141_544,
        0.007_983_26,
        -0.000_756_973_6,
        3.310_795_8e-5,
    ];
    const GELU_TANH: &'static [f32] = &[
        -1.000_134_3,
        -1.150_249_5,
        -0.457_537_96,
        -0.060_577_79,
        0.018_640_458,
        -0.005_305_919_4,
        0.000_405_882_4,
    ];
    const GELU_LIMIT: f32 = 7.0;
    const GELU_ERROR: f64 = 1e-4;
}

/// An [activation](Activation) of several values, which do not wait for one another.
///
/// As in [`Activation::apply_to_each`] branches are the same for a whole launch.
#[device_inline]
pub fn apply_to_each<T: Rounded, const N: usize>(
    activation: Activation,
    mut values: [f32; N],
    slope: f32,
) -> [f32; N] {
    macro_rules! each {
        ($x:ident => $value:expr) => {{
            unroll!(i < N, {
                let $x = values[i];
                values[i] = $value;
            });
        }};
    }
    match activation {
        Activation::None => {}
        // Written so that a NaN is neither below zero nor replaced.
        Activation::Relu => each!(x => if x < 0.0 { 0.0 } else { x }),
        Activation::LeakyRelu => each!(x => if x < 0.0 { slope * x } else { x }),
        Activation::GeluErf => values = gelu::<T, N>(false, values),
        Activation::GeluTanh => values = gelu::<T, N>(true, values),
        Activation::Silu => each!(x => {
            let sigmoid = sigmoid(x);
            // The limit at minus infinity, where the product would be NaN.
            if sigmoid == 0.0 { 0.0 } else { x * sigmoid }
        }),
        Activation::Sigmoid => each!(x => sigmoid(x)),
        Activation::Tanh => each!(x => tanh(x)),
    }
    values
}

/// GELU of several values, `max(x, 0) - |x| 2^P(|x|)`: by tanh or the exact one, in the same code.
#[device_inline]
pub fn gelu<T: Rounded, const N: usize>(by_tanh: bool, mut values: [f32; N]) -> [f32; N] {
    let degree = const { T::GELU_ERF.len() - 1 };
    let coefficient = |i: usize| if by_tanh { T::GELU_TANH[i] } else { T::GELU_ERF[i] };
    unroll!(i < N, {
        let x = values[i];
        let magnitude = magnitude_up_to_f32(x, T::GELU_LIMIT);
        let mut exponent = coefficient(degree);
        for j in (0..degree).rev() {
            exponent = fma_f32(exponent, magnitude, coefficient(j));
        }
        values[i] = fma_f32(-magnitude, exp2_approx_f32(exponent), x.max(0.0));
    });
    values
}

/// Bound on the error of [`gelu_tanh_of_halves`] relative to the argument's magnitude: half of what the `tanh` of
/// Hopper is off by at most.
///
/// So where results for negative arguments are much smaller than these they are not accurate relative to themselves, no
/// more than those of cuBLASLt, which uses the same instruction.
pub const GELU_BY_TANH_ERROR: f64 = 6e-6;

/// [GELU by tanh](Activation::GeluTanh) of twice the values, `h + h tanh(u)` with `h` half of the argument, on Hopper:
/// six instructions.
///
/// With a polynomial of `h^2` times `h` for `u = sqrt(2 / pi) (2 h + 0.044715 (2 h)^3)`.
#[device_inline]
pub fn gelu_tanh_of_halves<const N: usize>(mut halves: [f32; N]) -> [f32; N] {
    /// `2 sqrt(2 / pi)`.
    const LINEAR: f64 = 1.595_769_121_605_730_6;
    const CUBIC: f32 = (LINEAR * 4.0 * 0.044_715) as f32;
    /// Half of an argument for which GELU is zero in all types, since the limit at minus infinity would be NaN.
    const ZERO_FROM: f32 = -8.0;
    unroll!(i < N, {
        let h = at_least_f32(halves[i], ZERO_FROM);
        let u = h * fma_f32(h * h, CUBIC, LINEAR as f32);
        halves[i] = fma_f32(h, tanh_approx_f32(u), h);
    });
    halves
}

/// Bound on the error of [`short_gelu_tanh`] in ulp, in the sense of [`Elementary::GELU_TANH_ULPS`].
///
/// In roundings of half an ulp, for the weight `e / (1 + e)` where it is one half: two of `2^t`, which has four, one
/// each of `1 + e`, of the product of divisors and of both products with its reciprocal, two of that; and one of the
/// last step.
pub const SHORT_GELU_TANH_ULPS: f64 = 5.0;

/// [`gelu_tanh`](crate::epilogue::math::gelu_tanh) of an even number of f32, in half of its instructions.
///
/// It is the same formula, with `2^t` and the reciprocal by the special function unit. That has an eighth of the lanes
/// that others have, so two values share one reciprocal, that of the product of their divisors, which lies between 1
/// and 4.
#[device_inline]
pub fn short_gelu_tanh<const N: usize>(mut values: [f32; N]) -> [f32; N] {
    const { assert!(N.is_multiple_of(2), "pairs") };
    /// `-2 sqrt(2 / pi) log2(e)`.
    const FACTOR: f64 = -2.302_208_198_144_325;
    const CUBIC: f32 = (FACTOR * 0.044_715) as f32;
    unroll!(half < N / 2, {
        let x = [values[2 * half], values[2 * half + 1]];
        let magnitude = x.map(|x| magnitude_up_to_f32(x, f32::GELU_TANH_LIMIT));
        let e = magnitude.map(|a| exp2_approx_f32(a * fma_f32(a * a, CUBIC, FACTOR as f32)));
        // At most 2 in any case, but if it is NaN: that must not get into the other value's weight.
        let divisor = e.map(|e| 1.0 + e.min(1.0));
        let reciprocal = reciprocal_approx_f32(divisor[0] * divisor[1]);
        let weight = [e[0] * divisor[1] * reciprocal, e[1] * divisor[0] * reciprocal];
        values[2 * half] = fma_f32(-magnitude[0], weight[0], x[0].max(0.0));
        values[2 * half + 1] = fma_f32(-magnitude[1], weight[1], x[1].max(0.0));
    });
    values
}

/// GELU by tanh or the exact one, of values to be rounded to half precision, which have been multiplied by
/// [`short_gelu_scale`].
#[device_inline]
pub(crate) fn short_gelu<T: Rounded, const BY_TANH: bool, const N: usize>(
    values: [f32; N],
) -> [f32; N] {
    if const { BY_TANH } { gelu_tanh_of_halves(values) } else { gelu::<T, N>(false, values) }
}

/// What the arguments of [`short_gelu`] are multiplied by.
pub(crate) const fn short_gelu_scale(by_tanh: bool) -> f32 {
    if by_tanh { 0.5 } else { 1.0 }
}

/// [`short_gelu_tanh`] of values of which it has been asked whether there is
/// [another](crate::element::Element::has_short_gelu).
#[device_inline]
pub(crate) fn gelu_by_tanh<const BY_TANH: bool, const N: usize>(values: [f32; N]) -> [f32; N] {
    short_gelu_tanh(values)
}

/// `1 / (1 + 2^(-x log2(e)))`.
#[device_inline]
fn sigmoid(x: f32) -> f32 {
    reciprocal_approx_f32(1.0 + exp2_approx_f32(x * -core::f32::consts::LOG2_E))
}

/// `1 - 2 / (1 + e^(2|x|))` with the sign of `x`, and near zero, where that cancels, the first terms of the series.
#[device_inline]
fn tanh(x: f32) -> f32 {
    /// Up to here the terms after the fourth are smaller than a rounding.
    const NEAR: f32 = 0.25;
    /// The first terms of `tanh(x) / x` in `x^2`.
    const SERIES: &[f32] = &[1.0, -1.0 / 3.0, 2.0 / 15.0, -17.0 / 315.0];
    let near = x * polynomial(SERIES, x * x);
    let power = exp2_approx_f32(x.abs() * (2.0 * core::f32::consts::LOG2_E));
    let far = fma_f32(-2.0, reciprocal_approx_f32(1.0 + power), 1.0).copysign(x);
    if x.abs() < NEAR { near } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of half precision, and what lies between two.
    fn check<T: Rounded>(halves: impl Fn(u16) -> f32) {
        for bits in 0..=u16::MAX {
            let x = halves(bits) * 1.001;
            if !x.is_finite() {
                continue;
            }
            let z = f64::from(x);
            let u = (2.0 / core::f64::consts::PI).sqrt() * (0.044715 * z.powi(3) + z);
            let logistic = |z: f64| 1.0 / (1.0 + (-z).exp());
            for (activation, exact) in [
                (Activation::GeluErf, z * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2) / 2.0),
                (Activation::GeluTanh, z * logistic(2.0 * u)),
            ] {
                let [found] = apply_to_each::<T, 1>(activation, [x], 0.0);
                let error = (f64::from(found) - exact).abs();
                let bound = T::GELU_ERROR * (exact.abs() + GELU_NEAR_ZERO);
                assert!(error <= bound, "{activation:?} of {x:e}: {found:e}, not {exact:e}");
            }
            for (activation, exact) in [
                (Activation::Silu, z * logistic(z)),
                (Activation::Sigmoid, logistic(z)),
                (Activation::Tanh, z.tanh()),
            ] {
                let [found] = apply_to_each::<T, 1>(activation, [x], 0.0);
                let error = (f64::from(found) - exact).abs();
                let smallest = f64::from(f32::MIN_POSITIVE) * z.abs().max(1.0);
                let bound = SIGMOID_ERROR * exact.abs() + 2.0 * smallest;
                assert!(error <= bound, "{activation:?} of {x:e}: {found:e}, not {exact:e}");
            }
        }
    }

    /// With the exact tanh, of which the bound leaves most to that of the GPU.
    #[test]
    fn gelu_of_halves_is_that_of_twice_the_values() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits).to_f32();
            let [found] = gelu_tanh_of_halves([x * short_gelu_scale(true)]);
            if !x.is_finite() {
                assert_eq!(found.is_nan(), x.is_nan());
                assert!(x.is_nan() || found == x.max(0.0), "of {x}: {found}");
                continue;
            }
            let exact = f64::from(crate::epilogue::math::gelu_tanh(x));
            let error = (f64::from(found) - exact).abs();
            let bound = GELU_BY_TANH_ERROR / 20.0 * f64::from(x.abs());
            assert!(error <= bound, "of {x:e}: {found:e}, not {exact:e}");
        }
    }

    #[test]
    fn errors_are_within_their_bounds() {
        check::<bf16>(|bits| bf16::from_bits(bits).to_f32());
        check::<f16>(|bits| f16::from_bits(bits).to_f32());
    }

    #[test]
    fn limits_are_exact_and_nan_stays() {
        use Activation::*;
        let of = |activation, x| apply_to_each::<bf16, 1>(activation, [x], 0.0)[0];
        for (activation, low, high) in [
            (GeluErf, 0.0, f32::INFINITY),
            (GeluTanh, 0.0, f32::INFINITY),
            (Silu, 0.0, f32::INFINITY),
            (Sigmoid, 0.0, 1.0),
            (Tanh, -1.0, 1.0),
            (Relu, 0.0, f32::INFINITY),
        ] {
            assert_eq!(of(activation, f32::NEG_INFINITY), low, "{activation:?}");
            assert_eq!(of(activation, f32::INFINITY), high, "{activation:?}");
            assert!(of(activation, f32::NAN).is_nan(), "{activation:?}");
        }
        // In f16 once they are rounded.
        for activation in [GeluErf, GeluTanh] {
            let of = |x| f16::from_f32(apply_to_each::<f16, 1>(activation, [x], 0.0)[0]);
            assert_eq!(of(f32::NEG_INFINITY), f16::ZERO, "{activation:?}");
            assert_eq!(of(f32::INFINITY), f16::INFINITY, "{activation:?}");
            assert!(of(f32::NAN).is_nan(), "{activation:?}");
        }
    }
}
