//! The bound is wide enough for what the kernels promise, and too narrow for less precision.

use crate::harness::*;
use ndarray::Array2;
use regemm::verify::{
    Comparison, Distribution, Expectation, Format, Method, Problem, Reference, compare, gamma,
    random_matrix, random_vector, reference, rng,
};
use regemm::{Accumulator, Activation, BiasAxis, Dtype, Element, bf16, f16};

fn promised_results_pass<T: Element>()
where
    T::Acc: HostFma,
{
    let (m, n, k) = (37, 45, 83);
    let (a, b, c) = (normal::<T>(0, m, k), normal::<T>(1, k, n), normal::<T>(2, m, n));
    let per_column = random_vector::<T>(&mut rng(SEED, 3), n, Distribution::Normal);
    let per_row = random_vector::<T>(&mut rng(SEED, 4), m, Distribution::Normal);
    let biases =
        [None, Some((BiasAxis::Column, &per_column[..])), Some((BiasAxis::Row, &per_row[..]))];
    for activation in Activation::ALL {
        for (alpha, beta) in [(1.0, 0.0), (-0.5, 1.5), (0.0, 2.0), (0.125, 0.0)] {
            for bias in biases {
                let problem = Problem {
                    c: Some(c.view()),
                    bias,
                    alpha,
                    beta,
                    activation,
                    ..Problem::product(a.view(), b.view())
                };
                let comparison = verdict(&problem, &device_like(&problem));
                assert!(
                    comparison.pass() && comparison.undecided == 0,
                    "{} {} alpha {alpha} beta {beta}: {comparison:?}",
                    T::DTYPE,
                    activation.name()
                );
            }
        }
    }
}

#[test]
fn promised_results_pass_in_every_type() {
    promised_results_pass::<f32>();
    promised_results_pass::<f64>();
    promised_results_pass::<f16>();
    promised_results_pass::<bf16>();
}

/// Large arguments of the activations, where exponentials overflow and GELU cancels.
#[test]
fn activations_pass_over_their_whole_range() {
    fn check<T: Element>()
    where
        T::Acc: HostFma,
    {
        let n = 4001;
        let a = Array2::from_elem((1, 1), T::narrow(T::Acc::ONE));
        for reach in [1.0, 12.0, 130.0, 900.0] {
            let b = Array2::from_shape_fn((1, n), |(_, j)| {
                T::narrow(T::Acc::constant(reach * (2.0 * j as f64 / (n - 1) as f64 - 1.0)))
            });
            for activation in Activation::ALL {
                let problem = Problem { activation, ..Problem::product(a.view(), b.view()) };
                let comparison = verdict(&problem, &device_like(&problem));
                assert!(comparison.pass(), "{} {}: {comparison:?}", T::DTYPE, activation.name());
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
}

/// Sums of many terms of one sign, where the errors of the sum pile up rather than cancel.
#[test]
fn long_one_sided_sums_pass() {
    let k = 20_000;
    let a = random_matrix::<f32>(&mut rng(SEED, 5), 2, k, Distribution::Uniform).mapv(f32::abs);
    let b = random_matrix::<f32>(&mut rng(SEED, 6), k, 3, Distribution::Uniform).mapv(f32::abs);
    let problem = Problem::product(a.view(), b.view());
    let comparison = verdict(&problem, &device_like(&problem));
    assert!(comparison.pass(), "{comparison:?}");
    assert!(comparison.max_ratio > 1e-4, "no error at all after {k} roundings: {comparison:?}");
}

/// Products in the subnormal range lose bits in every rounding; the absolute term of the bound must cover that.
#[test]
fn subnormal_sums_pass() {
    let (m, n, k) = (5, 6, 40);
    let a = normal::<f32>(7, m, k).mapv(|v| v * 1e-22);
    let b = normal::<f32>(8, k, n).mapv(|v| v * 1e-22);
    let problem = Problem::product(a.view(), b.view());
    let d = device_like(&problem);
    assert!(d.iter().any(|v| v.is_subnormal()));
    assert!(verdict(&problem, &d).pass());
    // The purely relative bound would not do.
    let strict = {
        let bound = a.mapv(f64::from).mapv(f64::abs).dot(&b.mapv(f64::from).mapv(f64::abs))
            * gamma(Dtype::F32, k);
        Reference { bound, ..reference(&problem).unwrap() }
    };
    assert!(!compare(&d.view(), &strict).pass());
}

/// f32 products of operands rounded to the given number of fraction bits first.
fn with_fraction_bits(bits: u32) -> Comparison {
    let (a, b) = (normal::<f32>(10, 64, 256), normal::<f32>(11, 256, 64));
    let drop = 23 - bits;
    let round = |v: f32| {
        let half = 1u32 << (drop - 1);
        f32::from_bits((v.to_bits() + half) >> drop << drop)
    };
    let (rounded_a, rounded_b) = (a.mapv(round), b.mapv(round));
    let d = device_like(&Problem::product(rounded_a.view(), rounded_b.view()));
    verdict(&Problem::product(a.view(), b.view()), &d)
}

#[test]
fn tf32_products_do_not_pass_as_f32() {
    let comparison = with_fraction_bits(10);
    assert!(comparison.mismatches > comparison.elements / 2, "{comparison:?}");
}

#[test]
fn bf16_products_do_not_pass_as_f32() {
    let comparison = with_fraction_bits(7);
    assert!(comparison.mismatches > comparison.elements * 9 / 10, "{comparison:?}");
}

#[test]
fn f32_sums_do_not_pass_as_f64() {
    let (a, b) = (normal::<f64>(12, 20, 100), normal::<f64>(13, 100, 20));
    let (a32, b32) = (a.mapv(|v| v as f32), b.mapv(|v| v as f32));
    let d = device_like(&Problem::product(a32.view(), b32.view())).mapv(f64::from);
    let comparison = verdict(&Problem::product(a.view(), b.view()), &d);
    assert_eq!(comparison.mismatches, comparison.elements, "{comparison:?}");
}

/// Whether a method passes a right result with another value at a place, as a function of the value.
fn passes_with<'a>(
    problem: Problem<'a, f32>,
    (right, place): (&'a Array2<f32>, (usize, usize)),
    method: Method,
) -> impl Fn(f32) -> bool + 'a {
    let expectation = Expectation::with_method(problem, SEED, method).unwrap();
    move |value| {
        let mut d = right.clone();
        d[place] = value;
        expectation.check(&d.view()).unwrap().pass()
    }
}

/// Beside the largest element of its row or column an f16, or two, have no bits for much smaller ones. All methods
/// allow that, and no more.
#[test]
fn what_halves_lose_of_elements_far_below_the_largest_passes() {
    let a = ndarray::array![[1e25_f32, 1e-25]];
    let one = Array2::<f32>::eye(2);
    let (row, column) = (a.clone(), a.t().to_owned());
    for (precision, lost, wrong) in
        [(regemm::Precision::Split, 1e9, 1e11), (regemm::Precision::Fast, 1e12, 1e14)]
    {
        for (a, b, place) in [(&row, &one, (0, 1)), (&one, &column, (1, 0))] {
            let problem = Problem { precision, ..Problem::product(a.view(), b.view()) };
            let right = a.dot(b);
            for method in [Method::Full, Method::Sampled] {
                let passes = passes_with(problem, (&right, place), method);
                assert!(passes(1e-25) && passes(0.0) && passes(lost), "{precision}");
                assert!(!passes(wrong) && !passes(f32::NAN), "{precision}");
            }
            let exact = Problem { precision: regemm::Precision::Exact, ..problem };
            let mut d = right.clone();
            d[place] = 0.0;
            assert_fails_at(&verdict(&exact, &d), place.0, place.1);
        }
    }
}

/// Of a subnormal element TF32 has few bits or none. All methods allow that, and no more.
#[test]
fn what_tf32_loses_of_subnormal_elements_passes() {
    let (tiny, large) = (ndarray::array![[1e-42_f32], [2.0]], ndarray::array![[1e30_f32, -1e30]]);
    for (a, b) in [(&tiny, &large), (&large.t().to_owned(), &tiny.t().to_owned())] {
        let precision = regemm::Precision::Tf32;
        let problem = Problem { precision, ..Problem::product(a.view(), b.view()) };
        let right = a.dot(b);
        for method in [Method::Full, Method::Sampled] {
            let passes = passes_with(problem, (&right, (0, 0)), method);
            assert!(passes(1e-12) && passes(0.0), "{method:?}");
            assert!(!passes(1e-9) && !passes(f32::NAN), "{method:?}");
        }
        let exact = Problem { precision: regemm::Precision::Exact, ..problem };
        let mut d = right.clone();
        d[(0, 0)] = 0.0;
        assert_fails_at(&verdict(&exact, &d), 0, 0);
    }
}

#[test]
fn sums_in_half_precision_do_not_pass() {
    let (a, b) = (normal::<f16>(14, 20, 200), normal::<f16>(15, 200, 20));
    let d = Array2::from_shape_fn((20, 20), |(i, j)| {
        (0..200).fold(f16::ZERO, |sum, l| {
            f16::from_f32(a[(i, l)].to_f32() * b[(l, j)].to_f32() + sum.to_f32())
        })
    });
    let comparison = verdict(&Problem::product(a.view(), b.view()), &d);
    assert!(comparison.mismatches > comparison.elements / 2, "{comparison:?}");
}

#[test]
fn truncation_instead_of_rounding_to_bf16_fails() {
    let (a, b) = (normal::<bf16>(16, 20, 30), normal::<bf16>(17, 30, 20));
    let problem = Problem::product(a.view(), b.view());
    let exact = reference(&problem).unwrap().value;
    let d = exact.mapv(|v| bf16::from_bits(((v as f32).to_bits() >> 16) as u16));
    let comparison = verdict(&problem, &d);
    assert!(comparison.mismatches > comparison.elements / 10, "{comparison:?}");
}

/// The reference for f64 is computed in twice the precision: its own error must not eat up the bound.
#[test]
fn the_f64_reference_is_exact_where_plain_sums_are_not() {
    // The large terms cancel; what is left is far below their rounding errors.
    let a = ndarray::array![[1e16, 1.0, -1e16, 2.5e-9]];
    let b = ndarray::array![[1.0], [0.25], [1.0], [1.0]];
    let Reference { value, .. } = reference(&Problem::product(a.view(), b.view())).unwrap();
    assert_eq!(value[(0, 0)], 0.25 + 2.5e-9);
    assert_ne!(a.dot(&b)[(0, 0)], 0.25 + 2.5e-9);
}

#[test]
fn gamma_grows_with_the_depth_and_ends_at_infinity() {
    let u = f64::from(f32::EPSILON) / 2.0;
    assert_eq!(gamma(Dtype::F32, 0), 0.0);
    assert_eq!(gamma(Dtype::F32, 1000), 1000.0 * u / (1.0 - 1000.0 * u));
    assert_eq!(gamma(Dtype::F16, 1000), gamma(Dtype::F32, 2000), "tensor cores truncate");
    assert!(gamma(Dtype::F64, 1000) < gamma(Dtype::F32, 1000) * 1e-8);
    assert_eq!(gamma(Dtype::F32, 1 << 24), f64::INFINITY);
}

#[test]
fn overflow_thresholds_are_where_rounding_goes_to_infinity() {
    let f16_overflow = Format::of_elements(Dtype::F16).overflow();
    assert_eq!(f16_overflow, 65_520.0);
    assert_eq!(f16::from_f32(f16_overflow as f32), f16::INFINITY);
    assert_eq!(f16::from_f32((f16_overflow as f32).next_down()), f16::MAX);
    let f32_overflow = Format::of_elements(Dtype::F32).overflow();
    assert_eq!(f32_overflow as f32, f32::INFINITY);
    assert_eq!(f32_overflow.next_down() as f32, f32::MAX);
    let bf16_overflow = Format::of_elements(Dtype::Bf16).overflow();
    assert_eq!(bf16::from_f64(bf16_overflow), bf16::INFINITY);
    assert_eq!(bf16::from_f64(bf16_overflow.next_down()), bf16::MAX);
}
