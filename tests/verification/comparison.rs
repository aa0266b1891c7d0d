//! Every way in which a result can be wrong is caught, at the right place.

use crate::harness::*;
use ndarray::{Array2, s};
use regemm::verify::{Comparison, Problem};

struct Sample {
    a: Array2<f32>,
    b: Array2<f32>,
    d: Array2<f32>,
}

impl Sample {
    fn new() -> Self {
        let (a, b) = (normal(20, 70, 33), normal(21, 33, 50));
        let d = device_like(&Problem::product(a.view(), b.view()));
        Sample { a, b, d }
    }

    fn verdict(&self) -> Comparison {
        verdict(&Problem::product(self.a.view(), self.b.view()), &self.d)
    }
}

#[test]
fn a_right_result_passes() {
    let comparison = Sample::new().verdict();
    assert!(comparison.pass());
    assert_eq!((comparison.elements, comparison.mismatches), (3500, 0));
    assert!(comparison.max_ratio > 0.0 && comparison.max_ratio <= 1.0);
    assert!(comparison.relative_norm_error > 0.0 && comparison.relative_norm_error < 1e-6);
}

#[test]
fn a_nan_where_a_number_is_expected_fails() {
    let mut sample = Sample::new();
    sample.d[(69, 49)] = f32::NAN;
    let comparison = sample.verdict();
    assert_fails_at(&comparison, 69, 49);
    assert_eq!(comparison.mismatches, 1);
    assert!(comparison.relative_norm_error.is_nan());
}

#[test]
fn nothing_but_nan_fails() {
    let mut sample = Sample::new();
    sample.d.fill(f32::NAN);
    assert_eq!(sample.verdict().mismatches, 3500);
}

#[test]
fn an_infinity_where_a_number_is_expected_fails() {
    for infinity in [f32::INFINITY, f32::NEG_INFINITY] {
        let mut sample = Sample::new();
        sample.d[(3, 4)] = infinity;
        assert_fails_at(&sample.verdict(), 3, 4);
    }
}

#[test]
fn two_swapped_elements_fail() {
    let mut sample = Sample::new();
    sample.d.swap((10, 10), (10, 11));
    assert_eq!(sample.verdict().mismatches, 2);
}

#[test]
fn one_wrong_tile_fails_although_the_norm_hardly_moves() {
    let mut sample = Sample::new();
    // The last product is missing in a tile at the edge.
    let (a, b) = (sample.a.slice(s![64.., ..32]), sample.b.slice(s![..32, 48..]));
    let tile = device_like(&Problem::product(a, b));
    sample.d.slice_mut(s![64.., 48..]).assign(&tile);
    let comparison = sample.verdict();
    assert_eq!(comparison.mismatches, 12);
    assert!(comparison.relative_norm_error < 0.05);
}

#[test]
fn an_element_that_was_never_written_fails() {
    let mut sample = Sample::new();
    sample.d[(0, 0)] = 0.0;
    assert_fails_at(&sample.verdict(), 0, 0);
}

#[test]
fn zeros_of_either_sign_are_equal() {
    let a = Array2::<f32>::zeros((2, 3));
    let b = Array2::<f32>::ones((3, 2));
    let d = ndarray::array![[0.0, -0.0], [-0.0, 0.0]];
    let comparison = verdict(&Problem::product(a.view(), b.view()), &d);
    assert!(comparison.pass() && comparison.worst.is_none(), "{comparison:?}");
}

#[test]
fn an_empty_result_passes() {
    let (a, b) = (Array2::<f32>::zeros((0, 3)), Array2::<f32>::zeros((3, 2)));
    assert!(verdict(&Problem::product(a.view(), b.view()), &Array2::zeros((0, 2))).pass());
}
