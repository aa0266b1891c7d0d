//! NaN, infinities and overflow.

use crate::harness::*;
use ndarray::{Array2, s};
use regemm::verify::{Freivalds, Problem, Reference, reference};
use regemm::{Accumulator, Activation, BiasAxis, Device, Element, Gemm, Precision, f16};

#[test]
fn nan_and_infinities_must_arrive_where_ieee_puts_them() {
    let mut a = Array2::<f32>::ones((3, 2));
    let b = Array2::<f32>::ones((2, 2));
    a[(0, 0)] = f32::NAN;
    a[(1, 0)] = f32::NEG_INFINITY;
    let problem = Problem::product(a.view(), b.view());
    let right =
        ndarray::array![[f32::NAN, f32::NAN], [f32::NEG_INFINITY, f32::NEG_INFINITY], [2.0, 2.0]];
    assert!(verdict(&problem, &right).pass());
    for (place, wrong) in [
        ((0, 0), 1.0),
        ((0, 0), f32::INFINITY),
        ((1, 1), f32::INFINITY),
        ((1, 1), f32::NAN),
        ((1, 1), f32::MIN),
        ((2, 0), f32::NAN),
    ] {
        let mut d = right.clone();
        d[place] = wrong;
        assert_fails_at(&verdict(&problem, &d), place.0, place.1);
    }
}

/// What is rounded to zero is zero beside an infinity, too.
#[test]
fn infinities_may_become_nan_where_tf32_has_nothing_left_of_the_other_factor() {
    let a = ndarray::array![[3e-44_f32], [1e-30], [2.0]];
    let b = ndarray::array![[f32::INFINITY]];
    let tf32 = Problem { precision: Precision::Tf32, ..Problem::product(a.view(), b.view()) };
    let exact = Problem { precision: Precision::Exact, ..tf32 };
    let infinite = Array2::from_elem((3, 1), f32::INFINITY);
    assert!(verdict(&tf32, &infinite).pass() && verdict(&exact, &infinite).pass());
    for row in 0..3 {
        let mut d = infinite.clone();
        d[(row, 0)] = f32::NAN;
        assert_eq!(verdict(&tf32, &d).pass(), row == 0, "{row}");
        assert_fails_at(&verdict(&exact, &d), row, 0);
    }
    let mut d = infinite;
    d[(0, 0)] = 1.0;
    assert_fails_at(&verdict(&tf32, &d), 0, 0);
}

/// What is rounded to infinity is infinite, on its way through zeros and other infinities, too.
#[test]
fn the_largest_numbers_are_infinite_in_tf32() {
    let largest_kept = 2.0_f32.powi(127) * (2.0 - 2.0_f32.powi(-11)).next_down();
    let infinite = largest_kept.next_up();
    let device = Device::sim();
    for (a, b, expected) in [
        ([f32::MAX, 0.0], [1e-10, 0.0], f32::INFINITY),
        ([-infinite, 1.0], [1e-10, 1.0], f32::NEG_INFINITY),
        ([1e-10, 1.0], [infinite, 1.0], f32::INFINITY),
        ([f32::MAX, 1.0], [0.0, 1.0], f32::NAN),
        ([f32::MAX, f32::MAX], [1.0, -1.0], f32::NAN),
        ([f32::MAX, 1.0], [1e-10, f32::MIN], f32::NAN),
    ] {
        let a = Array2::from_shape_vec((1, 2), a.to_vec()).unwrap();
        let b = Array2::from_shape_vec((2, 1), b.to_vec()).unwrap();
        let tf32 = Problem { precision: Precision::Tf32, ..Problem::product(a.view(), b.view()) };
        let [on_a, on_b] = [&a, &b].map(|x| device.upload(&x.view()).unwrap());
        let mut d = device.matrix(1, 1).unwrap();
        Gemm::new(&on_a, &on_b).precision(Precision::Tf32).run(&mut d).unwrap();
        let d = d.to_array().unwrap();
        assert!(d[(0, 0)] == expected || d[(0, 0)].is_nan() && expected.is_nan(), "{a} x {b}: {d}");
        assert!(verdict(&tf32, &d).pass(), "{a} x {b}");
        for wrong in [1.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            if wrong != d[(0, 0)] && !(wrong.is_nan() && expected.is_nan()) {
                assert_fails_at(&verdict(&tf32, &Array2::from_elem((1, 1), wrong)), 0, 0);
            }
        }
        assert!(Freivalds::new(&tf32, SEED).unwrap().is_none());
        let exact = Problem { precision: Precision::Exact, ..tf32 };
        assert!(!verdict(&exact, &d).pass() && Freivalds::new(&exact, SEED).unwrap().is_some());
    }
    let (a, b) = (ndarray::array![[largest_kept]], ndarray::array![[1e-10_f32]]);
    let tf32 = Problem { precision: Precision::Tf32, ..Problem::product(a.view(), b.view()) };
    assert!(verdict(&tf32, &a.dot(&b)).pass());
    assert!(!verdict(&tf32, &ndarray::array![[f32::INFINITY]]).pass());
}

/// Finite products of the other sign may overflow first, and two infinities are NaN.
#[test]
fn an_infinity_may_become_nan_where_other_products_overflow() {
    fn check<T: Element>(large: f64)
    where
        T::Acc: HostFma,
    {
        let value = |v: f64| T::narrow(T::Acc::constant(v));
        for (factors, may_be_nan) in [
            ([-2.0, -2.0, 1.0], true),
            ([1.0, -2.0, 1.0], true),
            // These overflow to the same side, or not at all.
            ([2.0, 2.0, 1.0], false),
            ([-0.25, -0.25, 1.0], false),
            ([2.0, -0.5, 1.0], false),
        ] {
            let orders = [[0, 1, 2], [2, 0, 1], [0, 2, 1]];
            for order in orders {
                let a = [large, large, f64::INFINITY].map(value);
                let (a, b) = (order.map(|i| a[i]), order.map(|i| value(factors[i])));
                let a = Array2::from_shape_vec((1, 3), a.to_vec()).unwrap();
                let b = Array2::from_shape_vec((3, 1), b.to_vec()).unwrap();
                let product = Problem::product(a.view(), b.view());
                for activation in [Activation::None, Activation::Relu] {
                    let problem = Problem { activation, ..product };
                    assert!(verdict(&problem, &device_like(&problem)).pass(), "{factors:?}");
                    let verdict_of =
                        |v: f64| verdict(&problem, &Array2::from_elem((1, 1), value(v)));
                    assert!(verdict_of(f64::INFINITY).pass());
                    assert_eq!(verdict_of(f64::NAN).pass(), may_be_nan, "{factors:?}");
                    for wrong in [f64::NEG_INFINITY, 1.0] {
                        assert_fails_at(&verdict_of(wrong), 0, 0);
                    }
                }
            }
        }
    }
    check::<f32>(3e38);
    check::<f64>(1.5e308);
}

/// An infinity is one half that is infinite and one that is zero, which is NaN times any half that is zero.
#[test]
fn infinities_may_become_nan_where_products_are_of_halves() {
    let a = ndarray::array![[f32::INFINITY, 1.0], [f32::NEG_INFINITY, 1.0], [2.0, 3.0]];
    let b = ndarray::array![[1.0], [1.0]];
    for activation in [Activation::None, Activation::Relu] {
        let split = Problem {
            precision: Precision::Split,
            activation,
            ..Problem::product(a.view(), b.view())
        };
        let low = if activation == Activation::Relu { 0.0 } else { f32::NEG_INFINITY };
        for right in [[f32::NAN, f32::NAN, 5.0], [f32::INFINITY, low, 5.0], [f32::NAN, low, 5.0]] {
            let right = Array2::from_shape_vec((3, 1), right.to_vec()).unwrap();
            assert!(verdict(&split, &right).pass(), "{right}");
            let exact = Problem { precision: Precision::Exact, ..split };
            assert_eq!(verdict(&exact, &right).pass(), !right.iter().any(|v| v.is_nan()));
            for wrong in [1.0, f32::NEG_INFINITY] {
                let mut d = right.clone();
                d[(0, 0)] = wrong;
                assert_fails_at(&verdict(&split, &d), 0, 0);
            }
            let mut d = right.clone();
            d[(2, 0)] = f32::NAN;
            assert_fails_at(&verdict(&split, &d), 2, 0);
        }
    }
}

/// Rounded to f16 beside a large element a small one is zero, and an infinity times that is NaN.
#[test]
fn an_infinity_may_meet_what_rounding_makes_zero() {
    let a = ndarray::array![[f32::INFINITY, 1.0]];
    for (small, may_be_nan) in [(1e-25, true), (1e15, false)] {
        let b = ndarray::array![[small], [1e25]];
        let fast = Problem { precision: Precision::Fast, ..Problem::product(a.view(), b.view()) };
        assert!(verdict(&fast, &Array2::from_elem((1, 1), f32::INFINITY)).pass());
        let nan = verdict(&fast, &Array2::from_elem((1, 1), f32::NAN));
        assert_eq!(nan.pass(), may_be_nan, "{small}");
    }
}

#[test]
fn infinity_minus_infinity_and_infinity_times_zero_are_nan() {
    let a = ndarray::array![[f32::INFINITY, f32::INFINITY], [f32::INFINITY, 1.0]];
    let b = ndarray::array![[1.0, 0.0], [-1.0, 1.0]];
    let Reference { value, .. } = reference(&Problem::product(a.view(), b.view())).unwrap();
    assert!(value[(0, 0)].is_nan());
    assert!(value[(0, 1)].is_nan());
    assert_eq!(value[(1, 0)], f64::INFINITY);
    assert!(value[(1, 1)].is_nan());
}

#[test]
fn activations_of_infinities_have_their_limits() {
    let a = ndarray::array![[f32::NEG_INFINITY], [f32::INFINITY], [f32::NAN]];
    let b = ndarray::array![[1.0_f32]];
    for activation in Activation::ALL {
        let problem = Problem { activation, ..Problem::product(a.view(), b.view()) };
        let comparison = verdict(&problem, &device_like(&problem));
        assert!(comparison.pass(), "{}: {comparison:?}", activation.name());
    }
}

#[test]
fn operands_that_are_not_read_cannot_spoil_the_result() {
    let nan = Array2::from_elem((2, 2), f32::NAN);
    let ones = Array2::<f32>::ones((2, 2));
    let beta_zero = Problem { c: Some(nan.view()), ..Problem::product(ones.view(), ones.view()) };
    assert!(verdict(&beta_zero, &Array2::from_elem((2, 2), 2.0)).pass());
    let alpha_zero = Problem {
        c: Some(ones.view()),
        alpha: 0.0,
        beta: 3.0,
        ..Problem::product(nan.view(), nan.view())
    };
    assert!(verdict(&alpha_zero, &Array2::from_elem((2, 2), 3.0)).pass());
    assert!(!verdict(&alpha_zero, &nan).pass());
}

#[test]
fn without_depth_the_product_is_zero_whatever_alpha() {
    let (a, b) = (Array2::<f32>::zeros((2, 0)), Array2::<f32>::zeros((0, 3)));
    let bias = [1.0, 2.0, 3.0];
    let problem = Problem {
        bias: Some((BiasAxis::Column, &bias)),
        alpha: f64::INFINITY,
        ..Problem::product(a.view(), b.view())
    };
    let d = ndarray::array![[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]];
    assert!(verdict(&problem, &d).pass());
}

#[test]
fn f16_results_past_the_largest_number_must_be_infinite() {
    let largest = f16::MAX;
    let one = f16::ONE;
    let case = |value: f32, extra: f32| {
        // value + extra with both exact in f16.
        let a = ndarray::array![[f16::from_f32(value), f16::from_f32(extra)]];
        let b = ndarray::array![[one], [one]];
        move |d: f16| verdict(&Problem::product(a.view(), b.view()), &ndarray::array![[d]]).pass()
    };
    let past = case(65_504.0, 1_000.0);
    assert!(past(f16::INFINITY));
    assert!(!past(largest));
    assert!(!past(f16::NEG_INFINITY));
    assert!(!past(f16::NAN));
    let below = case(65_504.0, -1_000.0);
    assert!(!below(f16::INFINITY));
    let negative = case(-65_504.0, -1_000.0);
    assert!(negative(f16::NEG_INFINITY));
    assert!(!negative(f16::INFINITY));
    // On the threshold, 65,520, either neighbour is within the sum's own error.
    let threshold = case(65_504.0, 16.0);
    assert!(threshold(f16::INFINITY));
    assert!(threshold(largest));
    assert!(!threshold(f16::NEG_INFINITY));
}

#[test]
fn sums_that_certainly_overflow_must_be_infinite() {
    let a = Array2::from_elem((1, 8), 1e30_f32);
    let b = Array2::from_elem((8, 1), -1e30_f32);
    let problem = Problem::product(a.view(), b.view());
    assert_eq!(device_like(&problem)[(0, 0)], f32::NEG_INFINITY);
    assert!(verdict(&problem, &ndarray::array![[f32::NEG_INFINITY]]).pass());
    for wrong in [f32::INFINITY, f32::NAN, f32::MIN, 0.0] {
        assert_fails_at(&verdict(&problem, &ndarray::array![[wrong]]), 0, 0);
    }
}

#[test]
fn sums_that_may_overflow_on_the_way_are_undecided_and_said_so() {
    let a = ndarray::array![[1e30_f32, -1e30, 1.0], [1.0, 1.0, 1.0]];
    let b = ndarray::array![[1e30_f32, 1.0], [1e30, 1.0], [1.0, 1.0]];
    let problem = Problem::product(a.view(), b.view());
    let d = device_like(&problem);
    assert_eq!(d[(0, 0)], f32::INFINITY);
    let comparison = verdict(&problem, &d);
    assert!(comparison.pass());
    assert_eq!((comparison.undecided, comparison.mismatches), (1, 0));
    // The whole sum is certainly below all numbers, but its first product overflows to the other side.
    let (row, column) = (ndarray::array![[1e30_f32, -1e31]], ndarray::array![[1e30_f32], [1e30]]);
    let opposite = Problem::product(row.view(), column.view());
    assert_eq!(device_like(&opposite)[(0, 0)], f32::INFINITY);
    assert_eq!(verdict(&opposite, &device_like(&opposite)).undecided, 1);
    // Nothing but undecided elements is no verification.
    let problem = Problem::product(a.slice(s![..1, ..]), b.slice(s![.., ..1]));
    assert!(!verdict(&problem, &ndarray::array![[f32::INFINITY]]).pass());
}

/// `beta * C + bias` is the number from which on f32 has infinities, to which the sum is the other one.
#[test]
fn an_addend_that_may_just_overflow_leaves_an_infinite_sum_undecided() {
    let a = ndarray::array![[f32::INFINITY], [1.0]];
    let b = ndarray::array![[-1.0_f32]];
    let c = ndarray::array![[f32::MAX], [0.0]];
    let bias = [2.0_f32.powi(103)];
    let bias = Some((BiasAxis::Column, &bias[..]));
    let problem =
        Problem { beta: 1.0, c: Some(c.view()), bias, ..Problem::product(a.view(), b.view()) };
    let d = device_like(&problem);
    assert!(d[(0, 0)].is_nan());
    let comparison = verdict(&problem, &d);
    assert!(comparison.pass(), "{comparison:?}");
    assert_eq!(comparison.undecided, 1);
    // To an infinity of the same sign it makes no difference.
    let positive = a.mapv(|v| -v);
    let problem = Problem { a: positive.view(), ..problem };
    assert_fails_at(&verdict(&problem, &d), 0, 0);
    let comparison = verdict(&problem, &device_like(&problem));
    assert!(comparison.pass() && comparison.undecided == 0, "{comparison:?}");
}

/// The reference in double precision has no numbers beyond those of f64, so that it overflows with the device, or
/// alone.
#[test]
fn what_may_just_be_the_largest_f64_is_not_called_wrong() {
    let b = ndarray::array![[0.75_f64], [0.25]];
    let leaky = |factor| (1.0, Activation::LeakyRelu, factor);
    let linear = |alpha| (alpha, Activation::None, 0.0);
    for size in [1e300_f64, -1e300] {
        let a = ndarray::array![[size, size], [1.0, 1.0]];
        let problem = |(alpha, activation, slope)| Problem {
            alpha,
            activation,
            slope,
            ..Problem::product(a.view(), b.view())
        };
        let to_largest = f64::MAX / 1e300;
        let mut ways = vec![linear(to_largest), linear(to_largest.next_up())];
        if size < 0.0 {
            ways.extend([leaky(to_largest), leaky(to_largest.next_up())]);
        }
        for way in ways {
            let problem = problem(way);
            let mut d = device_like(&problem);
            for overflows in [false, true] {
                let magnitude = if overflows { f64::INFINITY } else { f64::MAX };
                d[(0, 0)] = magnitude.copysign(size);
                let comparison = verdict(&problem, &d);
                assert!(comparison.pass(), "{way:?} {overflows}: {comparison:?}");
            }
        }
        // What is certainly beyond it is an infinity, and of a sign.
        for way in [linear(1.001 * to_largest), linear(1e200), leaky(1e200)] {
            if size > 0.0 && way.1 == Activation::LeakyRelu {
                continue;
            }
            let problem = problem(way);
            let mut d = device_like(&problem);
            let comparison = verdict(&problem, &d);
            assert!(comparison.pass() && comparison.undecided == 0, "{way:?}: {comparison:?}");
            for wrong in [f64::MAX.copysign(size), -d[(0, 0)], f64::NAN] {
                d[(0, 0)] = wrong;
                assert_fails_at(&verdict(&problem, &d), 0, 0);
            }
        }
    }
}

/// By the magnitudes' own sum in double precision nothing overflows.
#[test]
fn sums_of_f64_near_the_largest_are_judged_by_magnitudes_rounded_up() {
    let part = f64::MAX / 4.0;
    let a = ndarray::array![[part, part, part, part, -part], [1.0; 5]];
    let b = Array2::<f64>::ones((5, 1));
    let problem = Problem::product(a.view(), b.view());
    let comparison = verdict(&problem, &device_like(&problem));
    assert!(comparison.pass(), "{comparison:?}");
}
