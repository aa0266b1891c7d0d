//! `exp`, `tanh`, `erf` and GELU by `tanh`, written once for single and double precision.
//!
//! The functions use fused multiply-add, multiplication, addition, division, comparison and operations on bits, each
//! defined to the last bit by IEEE 754, and nothing else. The simulator and the GPU therefore agree in every result
//! that is not NaN (a NaN stays NaN; its payload is the hardware's). They never panic, and every coefficient becomes an
//! immediate operand: no table is read at run time and nothing is kept in local memory.
//!
//! The first three share one core. The argument is reduced to `x = n ln 2 + r`, `n` the nearest integer to `x / ln 2`
//! and `|r| <= ln 2 / 2`, with `ln 2` in two parts the first of which has so few bits that `n` times it is exact (Cody
//! and Waite, *Software Manual for the Elementary Functions*, 1980); a polynomial then gives `e^r - 1`. `tanh` needs
//! that difference, free of cancellation; `exp` and `erf` add one to it. [`gelu_tanh`], which the epilogues of many
//! products compute for each element of D, goes a shorter way of its own.
//!
//! Every polynomial but those for reciprocals is the minimax fit by the Remez exchange algorithm, computed with 60
//! digits for the weight that [`Elementary`] states and then rounded to the type.

use crate::element::Accumulator;
use cuda_std::device_inline;
use cuda_std::math::magnitude_up_to_f32;

/// The bit operations and coefficients that the functions of this module need of a type.
///
/// Coefficients ascend: the constant term comes first. The error bounds are in units in the last place (ulp) of the
/// exact result, subnormal results included.
pub trait Elementary: Accumulator {
    /// `1.5 * 2^p` where `p` is the number of stored fraction bits: a sum with it is rounded to an integer, which is
    /// then in the lowest bits.
    const ROUND: Self;
    /// `log2(e)`.
    const LOG2_E: Self;
    /// `ln 2` cut off after so many bits that its product with any `n` of [`exp`] is exact.
    const LN_2_HIGH: Self;
    /// `ln 2 - LN_2_HIGH`.
    const LN_2_LOW: Self;
    /// `(e^r - 1 - r) / r^2` for `|r| <= 1.003 ln 2 / 2`; weight `|r| + 0.01`, so that the relative error of `e^r - 1`
    /// is level.
    const EXPM1: &'static [Self];
    /// `erf(x) / x - 1` in terms of `x^2`, for `0 <= x <= 1`; weight 1.
    const ERF_NEAR: &'static [Self];
    /// `ln(1 - erf(x))` in terms of `x - 1`, for `1 <= x <= ERF_LIMIT`; weight `1 - erf(x)`, so that the absolute error
    /// of `erf(x)` is level.
    const ERF_FAR: &'static [Self];
    /// `(2^f - 1) / f` for `|f| <= 1 / 2`; weight `(|f| + 0.01) / 2^f`, so that the relative error of `2^f` is level.
    const EXP2M1: &'static [Self];
    /// `1 / (1 + e)` for `0 <= e <= 1` with a relative error that is level: one minus a Chebyshev polynomial, over `1 +
    /// e`.
    const RECIPROCAL: &'static [Self];
    /// Steps of Newton's iteration, each of which squares the error, from there to the last bits.
    const RECIPROCAL_STEPS: u32;
    /// From here on `e^x` is infinite, and `e^-x` zero.
    const EXP_LIMIT: Self;
    /// From here on `tanh(x)` rounds to one.
    const TANH_LIMIT: Self;
    /// From here on `erf(x)` rounds to one.
    const ERF_LIMIT: Self;
    /// Where the exponent `log2(e^(2u))` of [`gelu_tanh`] rounds to the one whose negative belongs to the subnormal
    /// numbers and zero.
    const GELU_TANH_LIMIT: Self;
    /// Bound on the error of [`exp`], in ulp.
    const EXP_ULPS: f64;
    /// Bound on the error of [`tanh`], in ulp.
    const TANH_ULPS: f64;
    /// Bound on the error of [`erf`], in ulp.
    const ERF_ULPS: f64;
    /// Bound on the error of [`gelu_tanh`], in ulp, as stated there.
    const GELU_TANH_ULPS: f64;

    /// The integer that was rounded by adding [`Elementary::ROUND`] to it; unspecified for anything else.
    fn rounded_integer(self) -> i32;
    /// `2^n`, where that is a normal number, and zero for the largest `n` below; unspecified elsewhere.
    fn power_of_two(n: i32) -> Self;
    /// `|self|`.
    fn magnitude(self) -> Self;
    /// `|self|` or `limit`, whichever is smaller; NaN for NaN.
    fn magnitude_up_to(self, limit: Self) -> Self;
    /// `|self|` with the sign of `sign`, the sign of zero included.
    fn with_sign_of(self, sign: Self) -> Self;
}

/// What does not depend on the type: both layouts are a sign, an exponent and a fraction.
macro_rules! bit_operations {
    ($t:ident, $int:ident) => {
        const ROUND: Self = 1.5 * (1_u64 << ($t::MANTISSA_DIGITS - 1)) as $t;
        const LOG2_E: Self = core::$t::consts::LOG2_E;

        #[device_inline]
        fn rounded_integer(self) -> i32 {
            self.to_bits().wrapping_sub(Self::ROUND.to_bits()) as i32
        }
        #[device_inline]
        fn power_of_two(n: i32) -> Self {
            const FRACTION_BITS: u32 = $t::MANTISSA_DIGITS - 1;
            const BIAS: i32 = $t::MAX_EXP - 1;
            Self::from_bits((n.wrapping_add(BIAS) as $int) << FRACTION_BITS)
        }
        #[device_inline]
        fn magnitude(self) -> Self {
            self.abs()
        }
        #[device_inline]
        fn with_sign_of(self, sign: Self) -> Self {
            self.copysign(sign)
        }
    };
}

/// Largest errors over all 2^32 arguments: exp 1.06, tanh 1.90, erf 1.19, gelu_tanh 2.98 ulp. The bounds are these,
/// rounded up.
impl Elementary for f32 {
    bit_operations!(f32, u32);

    // 16 bits: |n| < 2^8.
    const LN_2_HIGH: Self = 0.693_145_75;
    const LN_2_LOW: Self = 1.428_606_8e-6;
    const EXPM1: &'static [Self] = &[0.5, 0.16666543, 0.04166628, 0.008366653, 0.0013946545];
    const ERF_NEAR: &'static [Self] = &[
        0.12837917,
        -0.37612626,
        0.112836,
        -0.026854446,
        0.0051895375,
        -0.00080208556,
        7.889151e-5,
    ];
    const ERF_FAR: &'static [Self] = &[
        -1.8496056,
        -2.6389668,
        -0.8431183,
        -0.041500688,
        0.009890892,
        -0.0018261628,
        0.00018557388,
    ];
    #[allow(clippy::approx_constant)] // near the limit at zero, as a coefficient of a fit is
    const EXP2M1: &'static [Self] = &[0.693147, 0.24022245, 0.055507313, 0.009671369, 0.0013264988];
    const RECIPROCAL: &'static [Self] = &[98.0 / 99.0, -80.0 / 99.0, 32.0 / 99.0];
    const RECIPROCAL_STEPS: u32 = 2;
    const EXP_LIMIT: Self = 110.0;
    const TANH_LIMIT: Self = 10.0;
    const ERF_LIMIT: Self = 4.0;
    const GELU_TANH_LIMIT: Self = 10.03;
    const EXP_ULPS: f64 = 1.1;
    const TANH_ULPS: f64 = 2.0;
    const ERF_ULPS: f64 = 1.2;
    const GELU_TANH_ULPS: f64 = 3.0;

    #[device_inline]
    fn magnitude_up_to(self, limit: Self) -> Self {
        magnitude_up_to_f32(self, limit)
    }
}

/// Largest errors found in three million random arguments of each function, and for `tanh` in as many more between 0.17
/// and 0.24, where it is worst: exp 0.98, tanh 2.11, erf 1.17 ulp; gelu_tanh 2.37 ulp in a million. The bounds leave
/// room for what a sample misses.
impl Elementary for f64 {
    bit_operations!(f64, u64);

    // 42 bits: |n| < 2^11.
    const LN_2_HIGH: Self = 0.6931471805598903;
    const LN_2_LOW: Self = 5.497923018708371e-14;
    const EXPM1: &'static [Self] = &[
        0.5,
        0.16666666666666677,
        0.0416666666666667,
        0.00833333333332165,
        0.001388888888886688,
        0.00019841269886243791,
        2.4801587360702395e-5,
        2.75572439545495e-6,
        2.7557242503951486e-7,
        2.5109166510794593e-8,
        2.0924551250239607e-9,
    ];
    const ERF_NEAR: &'static [Self] = &[
        0.12837916709551256,
        -0.3761263890318355,
        0.11283791670945253,
        -0.02686617064327618,
        0.005223977607422963,
        -0.0008548325989665102,
        0.00012055295319381322,
        -1.4924744639660955e-5,
        1.6447517366339918e-6,
        -1.6209173430156748e-7,
        1.3722965292912055e-8,
        -7.801168191586276e-10,
    ];
    const ERF_FAR: &'static [Self] = &[
        -1.8496055099332482,
        -2.6389675142347757,
        -0.8431072563594125,
        -0.041561098025083586,
        0.010033825179163377,
        -0.0019779012161034643,
        0.00023731643612909668,
        2.629632298581169e-5,
        -2.7198965102380817e-5,
        9.671366997291704e-6,
        -2.13193057810103e-6,
        2.0480578492634586e-7,
        5.8014537449050806e-8,
        -3.3392266340196765e-8,
        8.519013117239163e-9,
        -1.319141177292046e-9,
        1.1932950621894202e-10,
        -4.865175673312772e-12,
    ];
    const EXP2M1: &'static [Self] = &[
        core::f64::consts::LN_2,
        0.2402265069591013,
        0.05550410866482013,
        0.009618129107594765,
        0.0013333558146766869,
        0.00015403530456398845,
        1.52527334961725e-5,
        1.3215435601794345e-6,
        1.017819901506329e-7,
        7.07373311639024e-9,
        4.434781734538654e-10,
    ];
    const RECIPROCAL: &'static [Self] =
        &[576.0 / 577.0, -544.0 / 577.0, 384.0 / 577.0, -128.0 / 577.0];
    const RECIPROCAL_STEPS: u32 = 3;
    const EXP_LIMIT: Self = 760.0;
    const TANH_LIMIT: Self = 20.0;
    const ERF_LIMIT: Self = 6.0;
    const GELU_TANH_LIMIT: Self = 21.15;
    const EXP_ULPS: f64 = 1.2;
    const TANH_ULPS: f64 = 2.5;
    const ERF_ULPS: f64 = 1.3;
    const GELU_TANH_ULPS: f64 = 2.8;

    #[device_inline]
    fn magnitude_up_to(self, limit: Self) -> Self {
        at_most(self.magnitude(), limit)
    }
}

/// `e^x`: infinity on overflow, rounded to a subnormal number or zero on underflow; NaN for NaN.
#[device_inline]
pub fn exp<A: Elementary>(x: A) -> A {
    let (n, fraction) = reduced_expm1(at_most(at_least(x, minus(A::EXP_LIMIT)), A::EXP_LIMIT));
    // Half the power each time: 2^n alone may lie outside the normal numbers. Only the last product rounds.
    let half = n >> 1;
    let scaled = A::mul(A::add(A::ONE, fraction), A::power_of_two(half));
    A::mul(scaled, A::power_of_two(n.wrapping_sub(half)))
}

/// The hyperbolic tangent: odd to the last bit, -0 for -0, 1 for infinity, NaN for NaN.
///
/// With `t = e^(2|x|) - 1`, `tanh(|x|)` is `t / (t + 2)`. It is computed as `w - w * 2w / (t + 2)` with `w = t / 2` for
/// `t < 2` and as the same expression with `w = 1` above, which is the same number. The fused last step makes the
/// quotient a correction, so that its rounding errors count for less.
#[device_inline]
pub fn tanh<A: Elementary>(x: A) -> A {
    let clamped = x.magnitude_up_to(A::TANH_LIMIT);
    let (n, fraction) = reduced_expm1(A::add(clamped, clamped));
    let scale = A::power_of_two(n);
    let t = A::fma(scale, fraction, A::add(scale, minus(A::ONE)));
    let numerator = at_most(t, A::constant(2.0));
    let quotient = A::div(numerator, A::add(t, A::constant(2.0)));
    let weight = A::mul(numerator, A::constant(0.5));
    A::fma(minus(weight), quotient, weight).with_sign_of(x)
}

/// The error function, `2 / sqrt(pi)` times the integral of `e^(-t^2)` from 0 to `x`: odd to the last bit, -0 for -0, 1
/// for infinity, NaN for NaN.
#[device_inline]
pub fn erf<A: Elementary>(x: A) -> A {
    // Both, whichever is wanted: on the GPU some lanes of a warp want one and some the other, and code without branches
    // can be mixed with that for other arguments.
    let near = A::fma(x, polynomial(A::ERF_NEAR, A::mul(x, x)), x);
    let beyond_one = A::add(x.magnitude_up_to(A::ERF_LIMIT), minus(A::ONE));
    let (n, fraction) = reduced_expm1(polynomial(A::ERF_FAR, beyond_one));
    let complement = A::add(A::ONE, fraction);
    let far = A::fma(minus(A::power_of_two(n)), complement, A::ONE).with_sign_of(x);
    if x.magnitude() < A::ONE { near } else { far }
}

/// `x (1 + tanh(u)) / 2` with `u = sqrt(2 / pi) (x + 0.044715 x^3)`: zero for minus infinity, infinity for infinity,
/// NaN for NaN.
///
/// The weight `(1 + tanh(u)) / 2` is `1 / (1 + e^(-2u))`, which is one minus its mirror image, so that
///
/// ```text
/// gelu_tanh(x) = max(x, 0) - |x| w,    w = e / (1 + e),    e = e^(-2 |u|) = 2^t
/// ```
///
/// `t` is an odd polynomial of `|x|`, so `2^t` is computed without a logarithm's two parts, and `1 + e` lies between 1
/// and 2, so that two or three steps of Newton's iteration from a polynomial take the place of a division with its
/// cases. No step depends on the sign of `x` but the last. `|x|` is cut off where `2^t` is no normal number any more:
/// there the weight is zero.
///
/// The error is at most [`GELU_TANH_ULPS`](Elementary::GELU_TANH_ULPS), for negative `x` that many times `1 + |t|`, as
/// an error of `t` counts the more the larger it is. Only a negative result that is closer to zero than
/// [`GELU_TANH_TAIL`] times the smallest normal number may have an error of that size.
#[device_inline]
pub fn gelu_tanh<A: Elementary>(x: A) -> A {
    const FACTOR: f64 = -2.302_208_198_144_325; // -2 sqrt(2 / pi) log2(e)
    let magnitude = x.magnitude_up_to(A::GELU_TANH_LIMIT);
    let cubic = A::constant(FACTOR * 0.044715);
    let factor = A::fma(A::mul(magnitude, magnitude), cubic, A::constant(FACTOR));
    // t = n + f
    let shifted = A::fma(magnitude, factor, A::ROUND);
    let minus_n = A::add(A::ROUND, minus(shifted));
    let f = A::fma(magnitude, factor, minus_n);
    let power = A::fma(polynomial(A::EXP2M1, f), f, A::ONE);
    let e = A::mul(power, A::power_of_two(shifted.rounded_integer()));
    let divisor = A::add(e, A::ONE);
    let mut reciprocal = polynomial(A::RECIPROCAL, e);
    for _ in 0..A::RECIPROCAL_STEPS {
        let error = A::fma(minus(divisor), reciprocal, A::ONE);
        reciprocal = A::fma(reciprocal, error, reciprocal);
    }
    let positive = if x < A::ZERO { A::ZERO } else { x };
    A::fma(minus(magnitude), A::mul(e, reciprocal), positive)
}

/// Times the smallest normal number, what [`gelu_tanh`] may take for zero.
pub const GELU_TANH_TAIL: f64 = 32.0;

/// `(n, e^r - 1)` for `x = n ln 2 + r`, so that `e^x = 2^n (1 + (e^r - 1))`; needs `|x| <= EXP_LIMIT`. For NaN the
/// second part is NaN and the first anything.
#[device_inline]
fn reduced_expm1<A: Elementary>(x: A) -> (i32, A) {
    let shifted = A::fma(x, A::LOG2_E, A::ROUND);
    let minus_n = A::add(A::ROUND, minus(shifted));
    let r = A::fma(minus_n, A::LN_2_LOW, A::fma(minus_n, A::LN_2_HIGH, x));
    let fraction = A::fma(A::mul(r, r), polynomial(A::EXPM1, r), r);
    (shifted.rounded_integer(), fraction)
}

/// The polynomial with these ascending coefficients at `x`, by Horner's rule.
///
/// The loop unrolls wholly because every caller passes a constant slice.
#[device_inline]
pub(crate) fn polynomial<A: Elementary>(coefficients: &'static [A], x: A) -> A {
    let (&leading, rest) = coefficients.split_last().unwrap_or((&A::ZERO, &[]));
    rest.iter().rev().fold(leading, |sum, &coefficient| A::fma(sum, x, coefficient))
}

/// `-x`, as a product because that is what [`Accumulator`] has; compilers make it a sign change.
#[device_inline]
fn minus<A: Elementary>(x: A) -> A {
    A::mul(x, A::constant(-1.0))
}

/// The smaller of `x` and `limit`; NaN for NaN, unlike `min`.
#[device_inline]
fn at_most<A: Elementary>(x: A, limit: A) -> A {
    if x > limit { limit } else { x }
}

/// The larger of `x` and `limit`; NaN for NaN, unlike `max`.
#[device_inline]
fn at_least<A: Elementary>(x: A, limit: A) -> A {
    if x < limit { limit } else { x }
}
