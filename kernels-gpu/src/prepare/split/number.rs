//! A number in two halves, and what a line of them has in common.

use crate::element::Element;
use cuda_std::device_inline;
use half::f16;

/// What low halves are multiplied by: then they are as large as high ones, and have as many places.
pub const LOW_FACTOR: f32 = (1 << 11) as f32;

/// Exponent of a line's largest element once it is multiplied: half of what f16 has room for, so that rounding does not
/// reach the end.
const LARGEST: i32 = 14;

/// The part of itself that an ordinary element loses of which there is one half alone.
pub(super) const ONE_HALF_LOSES: f32 = 1.0 / (1 << 11) as f32;

/// Bits of an infinity.
const INFINITE: u32 = f32::INFINITY.to_bits();

/// What is known of a line: by which power of two its elements were multiplied, and whether it is marked.
///
/// It is two bytes, as a half is, so that a kernel can find a line's as the element of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(i16);

impl Line {
    /// Of a line whose largest finite element has these bits, without the sign.
    #[device_inline]
    pub(super) fn new(largest: u32) -> Line {
        /// Fraction bits.
        const FRACTION: u32 = f32::MANTISSA_DIGITS - 1;
        /// Of zero and subnormal numbers: the exponent of the smallest normal one.
        const SMALLEST: i32 = f32::MIN_EXP - 1;
        let exponent = match largest >> FRACTION {
            // The first bit of a subnormal number, which counts 2^-149 at the very end.
            0 if largest != 0 => {
                SMALLEST - (largest.leading_zeros() as i32 - (u32::BITS - 1 - FRACTION) as i32)
            }
            0 => LARGEST,
            biased => biased as i32 - (f32::MAX_EXP - 1),
        };
        Line(((LARGEST - exponent) * 2) as i16)
    }

    /// The same line, marked or not.
    #[device_inline]
    pub(super) fn marked(self, marked: bool) -> Line {
        Line(self.0 | i16::from(marked))
    }

    /// The line of these bits.
    #[device_inline]
    pub const fn from_bits(bits: i16) -> Line {
        Line(bits)
    }

    /// Its bits.
    #[device_inline]
    pub const fn to_bits(self) -> i16 {
        self.0
    }

    /// Exponent of the power of two by which its elements were multiplied: -113 to 163.
    #[device_inline]
    pub const fn exponent(self) -> i32 {
        (self.0 >> 1) as i32
    }

    /// Whether an element lost more of itself than it may, or is no finite number, or all are subnormal.
    #[device_inline]
    pub const fn is_marked(self) -> bool {
        self.0 & 1 != 0
    }
}

/// `value * 2^exponent`, for exponents down to -252 and up to 254: by two factors, since one alone need not be an f32.
/// It is exact where the result is a normal number.
#[device_inline]
pub fn scaled(value: f32, exponent: i32) -> f32 {
    let half = exponent >> 1;
    value * power_of_two(half) * power_of_two(exponent - half)
}

/// `2^exponent`, for exponents of normal numbers.
#[device_inline]
pub(crate) fn power_of_two(exponent: i32) -> f32 {
    const BIAS: i32 = f32::MAX_EXP - 1;
    f32::from_bits(((exponent + BIAS) as u32) << (f32::MANTISSA_DIGITS - 1))
}

/// Both halves of an element that has been multiplied, the low one zero where `HALVES` is 1, and whether they lack more
/// than such a part of it.
#[device_inline]
pub(super) fn halves<const HALVES: u32>(x: f32, tolerance: f32) -> ([f16; 2], bool) {
    let high = f16::narrow(x);
    let rest = x - high.widen();
    let low = if const { HALVES == 1 } {
        f16::ZERO
    } else {
        // What is not finite has no rest but NaN. Selected, not branched upon.
        f16::from_bits(if rest.is_nan() { 0 } else { f16::narrow(rest * LOW_FACTOR).to_bits() })
    };
    let lost = rest - low.widen() / LOW_FACTOR;
    let kept = lost.abs() <= tolerance * x.abs();
    ([high, low], !kept)
}

/// The bit of the sign.
const SIGN: u32 = 1 << (u32::BITS - 1);

/// The bits of a number without its sign, which are in the order of magnitudes; those of zero where it is not finite.
#[device_inline]
pub(super) fn magnitude(x: f32) -> u32 {
    let bits = x.to_bits() & !SIGN;
    if bits < INFINITE { bits } else { 0 }
}

/// Whether these are the bits of a number, without its sign, that is smaller than the smallest normal one, and not
/// zero.
#[device_inline]
pub(super) fn is_subnormal(magnitude: u32) -> bool {
    magnitude.wrapping_sub(1) < f32::MIN_POSITIVE.to_bits() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^-22, what halves may always lose.
    const LEAST: f32 = 1.0 / (1 << 22) as f32;

    #[test]
    fn the_largest_element_comes_to_lie_below_two_to_the_fifteenth() {
        for x in
            [f32::MAX, 1e30, 3.0, 1.0, 0.99, 1e-30, f32::MIN_POSITIVE, 1e-40, f32::from_bits(1)]
        {
            let line = Line::new(x.to_bits());
            let scaled = scaled(x, line.exponent());
            assert!((16384.0..32768.0).contains(&scaled), "{x:e} becomes {scaled}");
            assert_eq!(f64::from(scaled), f64::from(x) * 2f64.powi(line.exponent()), "{x:e}");
            assert!(!line.is_marked() && line.marked(true).is_marked());
            assert_eq!(line.marked(true).exponent(), line.exponent());
        }
        assert_eq!(Line::new(0).exponent(), 0);
    }

    #[test]
    fn halves_keep_22_bits_of_what_is_not_too_small() {
        let mut x = 32767.999_f32;
        while x > 2f32.powi(-14) {
            let ([high, low], lossy) = halves::<2>(x, LEAST);
            let kept = f64::from(high.widen()) + f64::from(low.widen() / LOW_FACTOR);
            assert!((f64::from(x) - kept).abs() <= f64::from(x) * 2f64.powi(-22) && !lossy, "{x}");
            x *= 0.999;
        }
        let lossy = (1.0 + 4.0 * f32::EPSILON) * 2f32.powi(-17);
        assert!(halves::<2>(lossy, LEAST).1);
        assert!(!halves::<2>(lossy, 1e-6).1, "so much may be lost");
        assert!(!halves::<2>(2f32.powi(-20), LEAST).1, "it is an f16");
        assert!(!halves::<2>(0.0, LEAST).1);
    }

    #[test]
    fn one_half_is_the_nearest_f16() {
        for x in [1.0 + 2f32.powi(-11), 1.0 + 3.0 * 2f32.powi(-11), 3.3e4, -0.1, 2f32.powi(-14)] {
            assert_eq!(
                halves::<1>(x, ONE_HALF_LOSES),
                ([f16::from_f32(x), f16::ZERO], false),
                "{x}"
            );
        }
        let subnormal = (1.0 + 2f32.powi(-10)) * 2f32.powi(-15);
        assert!(halves::<1>(subnormal, ONE_HALF_LOSES).1, "an f16 so small has fewer bits");
        assert!(!halves::<1>(2f32.powi(-20), ONE_HALF_LOSES).1, "it is an f16");
        assert!(
            halves::<1>(f32::INFINITY, ONE_HALF_LOSES).1 && halves::<1>(f32::NAN, ONE_HALF_LOSES).1
        );
    }

    #[test]
    fn what_is_not_finite_is_marked() {
        assert_eq!(halves::<2>(f32::NEG_INFINITY, 1.0), ([f16::NEG_INFINITY, f16::ZERO], true));
        let ([high, low], lossy) = halves::<2>(f32::NAN, 1.0);
        assert!(high.is_nan() && low == f16::ZERO && lossy);
        assert!(is_subnormal(1) && is_subnormal(f32::MIN_POSITIVE.to_bits() - 1));
        assert!(!is_subnormal(0) && !is_subnormal(f32::MIN_POSITIVE.to_bits()));
        assert_eq!((magnitude(f32::INFINITY), magnitude(f32::NAN)), (0, 0));
    }
}
