//! Freivalds' test and sampled checks.

use crate::harness::*;
use ndarray::{Array2, Axis, stack};
use regemm::verify::{
    Distribution, Expectation, Freivalds, Method, Problem, check_batch, random_vector, rng,
};
use regemm::{Activation, BiasAxis, Element, bf16, f16};
use std::num::NonZeroUsize;

struct Large {
    a: Array2<f32>,
    b: Array2<f32>,
    d: Array2<f32>,
}

impl Large {
    fn new() -> Self {
        let (a, b) = (normal(40, 120, 90), normal(41, 90, 110));
        let d = device_like(&Problem::product(a.view(), b.view()));
        Large { a, b, d }
    }

    fn problem(&self) -> Problem<'_, f32> {
        Problem::product(self.a.view(), self.b.view())
    }
}

#[test]
fn freivalds_passes_right_results_of_every_type_and_epilogue() {
    fn check<T: Element>()
    where
        T::Acc: HostFma,
    {
        let (m, n, k) = (60, 50, 70);
        let (a, b, c) = (normal::<T>(42, m, k), normal::<T>(43, k, n), normal::<T>(44, m, n));
        let per_column = random_vector::<T>(&mut rng(SEED, 45), n, Distribution::Normal);
        let per_row = random_vector::<T>(&mut rng(SEED, 46), m, Distribution::Normal);
        for bias in
            [None, Some((BiasAxis::Column, &per_column[..])), Some((BiasAxis::Row, &per_row[..]))]
        {
            let problem = Problem {
                c: Some(c.view()),
                bias,
                alpha: -1.5,
                beta: 0.75,
                ..Problem::product(a.view(), b.view())
            };
            let test = Freivalds::new(&problem, SEED).unwrap().expect("a linear problem");
            let mut d = device_like(&problem);
            let result = test.check(&d.view());
            assert!(result.pass(), "{}: {result:?}", T::DTYPE);
            // And it notices when the bias or C is missing.
            let plain = Problem { bias: None, c: None, beta: 0.0, ..problem };
            d.assign(&device_like(&plain));
            assert!(test.check(&d.view()).failed_rows > m / 2);
        }
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
}

#[test]
fn freivalds_never_misses_a_single_wrong_element() {
    let mut large = Large::new();
    large.d[(77, 13)] += 0.1;
    for seed in 0..200 {
        let test = Freivalds::with_vectors(&large.problem(), seed, NonZeroUsize::MIN)
            .unwrap()
            .expect("linear");
        let result = test.check(&large.d.view());
        assert_eq!((result.failed_rows, result.first_failed_row), (1, Some(77)), "seed {seed}");
    }
}

/// Two errors that cancel for half of all vectors: one vector misses them with probability 1/2, all of them with 2^-24.
#[test]
fn freivalds_misses_cancelling_errors_as_often_as_stated() {
    let mut large = Large::new();
    large.d[(50, 3)] += 1.0;
    large.d[(50, 99)] -= 1.0;
    let misses = (0..400)
        .filter(|&seed| {
            let test = Freivalds::with_vectors(&large.problem(), seed, NonZeroUsize::MIN).unwrap();
            test.expect("linear").check(&large.d.view()).pass()
        })
        .count();
    // 200 expected, standard deviation 10.
    assert!((150..=250).contains(&misses), "missed {misses} of 400");
    for seed in 0..50 {
        let test = Freivalds::new(&large.problem(), seed).unwrap().expect("linear");
        assert_eq!(test.check(&large.d.view()).first_failed_row, Some(50));
    }
}

#[test]
fn freivalds_rejects_nan_and_infinity() {
    for wrong in [f32::NAN, f32::INFINITY] {
        let mut large = Large::new();
        large.d[(119, 109)] = wrong;
        let test = Freivalds::new(&large.problem(), SEED).unwrap().expect("linear");
        let result = test.check(&large.d.view());
        assert_eq!((result.failed_rows, result.max_ratio), (1, f64::INFINITY));
    }
}

#[test]
fn freivalds_rejects_tf32() {
    let large = Large::new();
    let round = |v: f32| f32::from_bits((v.to_bits() + 0x1000) & !0x1fff);
    let (a, b) = (large.a.mapv(round), large.b.mapv(round));
    let d = device_like(&Problem::product(a.view(), b.view()));
    let test = Freivalds::new(&large.problem(), SEED).unwrap().expect("linear");
    assert!(test.check(&d.view()).failed_rows > 60);
}

#[test]
fn freivalds_does_not_apply_past_an_activation_or_with_nan() {
    let mut large = Large::new();
    let with_relu = Problem { activation: Activation::Relu, ..large.problem() };
    assert!(Freivalds::new(&with_relu, SEED).unwrap().is_none());
    large.a[(0, 0)] = f32::NAN;
    assert!(Freivalds::new(&large.problem(), SEED).unwrap().is_none());
}

fn sampled<'a, T: Element>(problem: Problem<'a, T>) -> Expectation<'a, T> {
    Expectation::with_method(problem, SEED, Method::Sampled).unwrap()
}

#[test]
fn sampled_checks_pass_right_results_and_find_one_wrong_element() {
    let mut large = Large::new();
    let right = sampled(large.problem()).check(&large.d.view()).unwrap();
    assert!(right.pass(), "{right:?}");
    assert!(right.comparison.elements >= 16 * 110 && right.freivalds.is_some());
    large.d[(60, 60)] += 0.1;
    assert!(!sampled(large.problem()).check(&large.d.view()).unwrap().pass());
}

#[test]
fn sampled_checks_report_places_in_the_whole_result() {
    let mut large = Large::new();
    large.d[(119, 70)] = -100.0;
    let found = sampled(large.problem()).check(&large.d.view()).unwrap();
    assert_fails_at(&found.comparison, 119, 70);
    let mut large = Large::new();
    large.d[(70, 109)] = -100.0;
    let found = sampled(large.problem()).check(&large.d.view()).unwrap();
    assert_fails_at(&found.comparison, 70, 109);
}

#[test]
fn sampled_checks_find_nan_anywhere() {
    let mut large = Large::new();
    large.d[(61, 62)] = f32::NAN;
    let found = sampled(large.problem()).check(&large.d.view()).unwrap();
    assert_fails_at(&found.comparison, 61, 62);
}

#[test]
fn sampled_checks_accept_infinities_that_are_right() {
    let (a, b) = (normal::<f16>(47, 40, 30), normal::<f16>(48, 30, 40));
    let problem = Problem { alpha: 2e4, ..Problem::product(a.view(), b.view()) };
    let mut d = device_like(&problem);
    let infinite = d.iter().filter(|v| v.is_infinite()).count();
    assert!(infinite > 100);
    assert!(sampled(problem).check(&d.view()).unwrap().pass());
    let wrong = d.indexed_iter().find(|(_, v)| v.is_finite()).map(|(place, _)| place).unwrap();
    d[wrong] = f16::INFINITY;
    assert!(!sampled(problem).check(&d.view()).unwrap().pass());
}

#[test]
fn sampled_checks_see_bias_and_activation() {
    let large = Large::new();
    let per_row: Vec<f32> = (0..120).map(|i| i as f32).collect();
    let problem = Problem {
        bias: Some((BiasAxis::Row, &per_row)),
        activation: Activation::Relu,
        ..large.problem()
    };
    let d = device_like(&problem);
    let right = sampled(problem).check(&d.view()).unwrap();
    assert!(right.pass() && right.freivalds.is_none(), "{right:?}");
    assert!(!sampled(problem).check(&large.d.view()).unwrap().pass());
}

#[test]
fn small_problems_are_checked_in_full() {
    let large = Large::new();
    assert_eq!(Expectation::new(large.problem(), SEED).unwrap().method(), Method::Full);
    let (a, b) = (Array2::<f32>::zeros((2049, 1024)), Array2::<f32>::zeros((1024, 1024)));
    let problem = Problem::product(a.view(), b.view());
    assert_eq!(Expectation::new(problem, SEED).unwrap().method(), Method::Sampled);
}

/// Every product of a batch is judged, in rows that count on from product to product.
#[test]
fn a_wrong_product_of_a_batch_is_found() {
    let large = Large::new();
    let (a, b) = (normal::<f32>(47, 120, 90), normal::<f32>(48, 110, 90));
    // The second has a transposed factor.
    let other = Problem::product(a.view(), b.t());
    let problems = [large.problem(), other];
    let right = stack![Axis(0), large.d, device_like(&other)];
    let found = check_batch(&problems, &right.view(), SEED).unwrap();
    assert!(found.pass() && found.method == Method::Full, "{found:?}");
    assert_eq!(found.comparison.elements, 2 * 120 * 110);
    for product in 0..2 {
        let mut wrong = right.clone();
        wrong[(product, 7, 9)] += 1.0;
        let found = check_batch(&problems, &wrong.view(), SEED).unwrap();
        assert_eq!(found.comparison.mismatches, 1);
        let worst = found.comparison.worst.unwrap();
        assert_eq!((worst.row, worst.col), (product * 120 + 7, 9));
    }
    let nothing =
        check_batch::<f32, f32>(&[], &ndarray::Array3::zeros((0, 5, 5)).view(), SEED).unwrap();
    assert!(nothing.pass());
}

#[test]
fn a_batch_has_a_result_for_each_problem() {
    let large = Large::new();
    let two = stack![Axis(0), large.d, large.d];
    let error = check_batch(&[large.problem()], &two.view(), SEED).unwrap_err().to_string();
    assert!(error.contains("a batch of 2") && error.contains("one of 1"), "{error}");
    assert!(check_batch::<f32, f32>(&[], &two.view(), SEED).is_err());
}
