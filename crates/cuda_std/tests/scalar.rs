//! Conversions between precisions, and the instructions for the larger and the smaller of two numbers.

use cuda_std::math::{at_least_f32, magnitude_up_to_f32};
use cuda_std::scalar::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use half::{bf16, f16};

/// Same value, sign and kind; of a NaN only the sign.
fn assert_same(ours: bf16, reference: bf16, bits: u32) {
    if reference.is_nan() {
        assert!(ours.is_nan(), "{bits:#010x}");
        assert_eq!(ours.is_sign_negative(), reference.is_sign_negative(), "{bits:#010x}");
    } else {
        assert_eq!(ours.to_bits(), reference.to_bits(), "{bits:#010x}");
    }
}

fn check(bits: u32) {
    let value = f32::from_bits(bits);
    assert_same(f32_to_bf16(value), bf16::from_f32(value), bits);
}

/// All signs and exponents with the fractions around which rounding changes.
#[test]
fn bf16_rounds_as_the_reference() {
    let lower = [0, 1, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff];
    let upper = [0, 1, 2, 3, 0x3e, 0x3f, 0x40, 0x41, 0x7d, 0x7e, 0x7f];
    for sign_and_exponent in 0..1_u32 << 9 {
        for upper in upper {
            for lower in lower {
                check(sign_and_exponent << 23 | upper << 16 | lower);
            }
        }
    }
    // And patterns from all over, by a step that is a prime.
    (0..1_000_000_u32).for_each(|i| check(i.wrapping_mul(2_654_435_761)));
}

#[test]
fn ties_go_to_the_even_neighbour() {
    assert_eq!(f32_to_bf16(f32::from_bits(0x3f80_8000)).to_bits(), 0x3f80);
    assert_eq!(f32_to_bf16(f32::from_bits(0x3f81_8000)).to_bits(), 0x3f82);
    assert_eq!(f32_to_bf16(f32::MAX), bf16::INFINITY);
    assert_eq!(f32_to_bf16(f32::NEG_INFINITY), bf16::NEG_INFINITY);
    assert_eq!(f32_to_bf16(-0.0).to_bits(), 0x8000);
    // The payload of this NaN lies in the lower half alone: truncation would make it an infinity.
    assert!(f32_to_bf16(f32::from_bits(0x7f80_0001)).is_nan());
}

#[test]
fn every_half_survives_the_way_through_f32() {
    for bits in 0..=u16::MAX {
        let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        assert_eq!(f16_to_f32(half).is_nan(), half.is_nan());
        assert_eq!(bf16_to_f32(brain).is_nan(), brain.is_nan());
        if !half.is_nan() {
            assert_eq!(f16_to_f32(half) as f64, half.to_f64());
            assert_eq!(f32_to_f16(f16_to_f32(half)).to_bits(), bits);
        }
        if !brain.is_nan() {
            assert_eq!(bf16_to_f32(brain) as f64, brain.to_f64());
            assert_eq!(f32_to_bf16(bf16_to_f32(brain)).to_bits(), bits);
        }
    }
}

#[test]
fn f16_rounds_to_nearest_even() {
    // Between neighbours 1 and 1 + 2^-10, the tie and its neighbours.
    let tie = 1.0 + 2_f32.powi(-11);
    assert_eq!(f32_to_f16(tie).to_bits(), 0x3c00);
    assert_eq!(f32_to_f16(tie.next_up()).to_bits(), 0x3c01);
    assert_eq!(f32_to_f16(1.0 + 3.0 * 2_f32.powi(-11)).to_bits(), 0x3c02);
    assert_eq!(f32_to_f16(65519.0).to_bits(), 0x7bff);
    assert_eq!(f32_to_f16(65520.0), f16::INFINITY);
    // Subnormals, and what rounds to zero.
    assert_eq!(f32_to_f16(2_f32.powi(-24)).to_bits(), 1);
    assert_eq!(f32_to_f16(2_f32.powi(-25)).to_bits(), 0);
    assert_eq!(f32_to_f16(2_f32.powi(-25).next_up()).to_bits(), 1);
}

/// The instructions give the NaN of all ones but the sign, whatever one they are given.
#[test]
fn what_is_no_number_becomes_one_nan() {
    for nan in [f32::NAN, -f32::NAN, f32::from_bits(0xffc1_2345), f32::from_bits(0x7f80_0001)] {
        assert_eq!(f32_to_f16(nan).to_bits(), 0x7fff);
        for other in [0.0, 1.0, f32::NEG_INFINITY, nan] {
            for (x, limit) in [(nan, other), (other, nan)] {
                assert_eq!(at_least_f32(x, limit).to_bits(), 0x7fff_ffff, "{x} {limit}");
                assert_eq!(magnitude_up_to_f32(x, limit).to_bits(), 0x7fff_ffff, "{x} {limit}");
            }
        }
    }
}

/// Of the two zeros the positive one is the larger.
#[test]
fn zeros_are_in_order() {
    for (x, limit) in [(0.0, -0.0), (-0.0, 0.0), (0.0, 0.0)] {
        assert_eq!(at_least_f32(x, limit).to_bits(), 0, "{x} {limit}");
    }
    assert_eq!(at_least_f32(-0.0, -0.0).to_bits(), (-0.0_f32).to_bits());
    for (x, limit) in [(0.0, -0.0), (-0.0, -0.0)] {
        assert_eq!(magnitude_up_to_f32(x, limit).to_bits(), (-0.0_f32).to_bits(), "{x} {limit}");
    }
    assert_eq!(magnitude_up_to_f32(-0.0, 0.0).to_bits(), 0);
    assert_eq!((at_least_f32(-2.0, -1.0), at_least_f32(3.0, -1.0)), (-1.0, 3.0));
    assert_eq!((magnitude_up_to_f32(-2.0, 1.0), magnitude_up_to_f32(-0.5, 1.0)), (1.0, 0.5));
}
