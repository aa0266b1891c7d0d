//! The measure of errors against cases worked out by hand.

use regemm::f16;
use regemm::ndarray::{Array2, array};
use regemm::verify::{Distribution, ExactProduct, random_matrix, rng};

/// A with the identity: the product is A, and so are, but for signs, the magnitudes.
fn of_itself(a: &Array2<f32>) -> ExactProduct {
    ExactProduct::new(&a.view(), &Array2::eye(a.ncols()).view())
}

#[test]
fn norms_are_roots_of_sums_of_squares() {
    let a = array![[0.0_f32, 6.0], [-8.0, 0.0]];
    let exact = of_itself(&a);
    let errors = exact.errors(&array![[0.0_f32, 9.0], [-12.0, 0.0]].view());
    // Of differences 3 and 4, relative to 6 and 8: 5 / 10.
    assert_eq!((errors.in_norm, errors.componentwise), (0.5, 0.5));
    let errors = exact.errors(&array![[0.0_f32, 6.0], [-8.0, 1.0]].view());
    assert_eq!(errors.in_norm, 0.1);
    assert_eq!(errors.componentwise, f64::INFINITY, "all products of the element are zero");
    let errors = exact.errors(&a.view());
    assert_eq!((errors.in_norm, errors.componentwise), (0.0, 0.0));
}

#[test]
fn the_largest_element_counts_wherever_it_is() {
    let a = array![[1.0_f32, 2.0, 4.0], [8.0, 16.0, 32.0]];
    for place in [(0, 0), (0, 2), (1, 1)] {
        let mut d = a.clone();
        d[place] *= 1.25;
        d[(1, 2)] = 33.0;
        let errors = of_itself(&a).errors(&d.view());
        assert_eq!(errors.componentwise, 0.25, "{place:?}");
    }
}

#[test]
fn elements_are_relative_to_what_was_summed_and_not_to_the_sum() {
    let (a, b) = (array![[1024.0_f32, -1024.0, 1.0]], array![[1.0_f32], [1.0], [1.0]]);
    let exact = ExactProduct::new(&a.view(), &b.view());
    let errors = exact.errors(&array![[2.0_f32]].view());
    assert_eq!((errors.in_norm, errors.componentwise), (1.0, 1.0 / 2049.0));
}

#[test]
fn what_is_no_number_is_no_small_error() {
    let a = array![[1.0_f32, 2.0], [3.0, 4.0]];
    for place in [(0, 0), (1, 0), (1, 1)] {
        let mut d = a.clone();
        d[(0, 1)] = 2.5;
        d[place] = f32::NAN;
        let errors = of_itself(&a).errors(&d.view());
        assert!(errors.in_norm.is_nan() && errors.componentwise.is_nan(), "{errors:?}");
        d[place] = f32::INFINITY;
        let errors = of_itself(&a).errors(&d.view());
        assert_eq!((errors.in_norm, errors.componentwise), (f64::INFINITY, f64::INFINITY));
    }
}

/// Sums in f32 would be off by more than is measured here, and products that f32 cannot hold.
#[test]
fn the_reference_is_in_double_precision() {
    // The square of the small one has 29 bits, and with the large one 51.
    let (large, small) = (1024.0_f32, 1.0_f32 / 64.0 + 1.0 / 1_048_576.0);
    let (a, b) = (array![[large, small, -large]], array![[1.0_f32], [small], [1.0]]);
    let exact = ExactProduct::new(&a.view(), &b.view());
    let sum = f64::from(small) * f64::from(small);
    let errors = exact.errors(&array![[sum]].view());
    assert_eq!(errors.in_norm, 0.0);
    let errors = exact.errors(&array![[sum as f32]].view());
    assert!(errors.in_norm > 0.0 && errors.in_norm < 1e-7, "{errors:?}");
}

/// Rounding to fewer bits costs what these bits are worth: the root mean square of evenly spread errors.
#[test]
fn rounded_results_have_the_error_of_their_rounding() {
    let a: Array2<f32> = random_matrix(&mut rng(1, 0), 64, 64, Distribution::UnitInterval) + 1.0;
    let errors = of_itself(&a).errors(&a.mapv(f16::from_f32).view());
    let unit = 2_f64.powi(-11);
    assert!(errors.componentwise <= unit && errors.componentwise > 0.9 * unit, "{errors:?}");
    // One in 12 of the square of twice the unit, relative to the mean square of numbers from 1 to 2, which is 7 in 3.
    let expected = unit * (4.0_f64 / 12.0 * 3.0 / 7.0).sqrt();
    assert!((errors.in_norm / expected - 1.0).abs() < 0.05, "{errors:?}");
}

#[test]
fn kinds_of_data_are_what_they_say() {
    let draw = |distribution| random_matrix::<f64>(&mut rng(1, 0), 100, 100, distribution);
    let uniform = draw(Distribution::UnitInterval);
    assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
    assert!((uniform.mean().unwrap() - 0.5).abs() < 0.02);
    let magnitudes = draw(Distribution::Wide).mapv(|x: f64| x.abs().log2());
    let (low, high) =
        magnitudes.fold((0.0_f64, 0.0_f64), |(low, high), &x| (low.min(x), high.max(x)));
    // 16 powers of two, and what normal numbers bring: hardly more than 2^2.
    assert!(high > 7.0 && high < 10.0 && low < -10.0, "{low} to {high}");
    // Evenly: half of the exponents are below the middle, at which normal numbers have -0.5 or so.
    let below = magnitudes.iter().filter(|&&x| x < -1.0).count();
    assert!((4500..5500).contains(&below), "{below}");
}

#[test]
#[should_panic(expected = "differ in shape")]
fn a_result_of_another_shape_is_no_result() {
    let a = array![[1.0_f32, 2.0]];
    of_itself(&a).errors(&array![[1.0_f32]].view());
}
