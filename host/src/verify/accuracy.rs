//! By how much a product is off, in two numbers: the one place that measures it.

use super::compare::relative_difference;
use super::problem::{Problem, widen};
use super::reference::{Reference, reference_from};
use super::sums::Sums;
use ndarray::ArrayView2;
use regemm_kernels::element::Element;
use serde::Serialize;

/// The exact product of two matrices, and the magnitudes that errors are relative to.
///
/// Sums are taken in double precision, in which products of f32, f16 and bf16 are exact: an error of the reference's
/// own is 2^29 times smaller than one of f32. Products of f64 are summed in pairs of doubles.
#[derive(Clone, Debug)]
pub struct ExactProduct {
    sums: Sums,
}

/// How far a result is from the exact product. NaN where an element is NaN that should not be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// `||D - A B|| / ||A B||` in the Frobenius norm: what is typical.
    pub in_norm: f64,
    /// The largest `|D - A B|ij / (|A| |B|)ij`: what is worst, relative to what cancellation leaves no algorithm a
    /// chance to beat (N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., SIAM 2002, section
    /// 3.5).
    pub componentwise: f64,
}

impl ExactProduct {
    /// Of `m x k` and `k x n` matrices with elements that are finite.
    ///
    /// # Panics
    /// Where the factors do not fit together.
    pub fn new<T: Element>(a: &ArrayView2<'_, T>, b: &ArrayView2<'_, T>) -> Self {
        assert_eq!(a.ncols(), b.nrows(), "A has other columns than B rows");
        ExactProduct { sums: Sums::of(T::DTYPE, a.mapv(widen), b.mapv(widen)) }
    }

    /// The errors of a result.
    ///
    /// # Panics
    /// Where the result has another shape than the product.
    pub fn errors<D: Element>(&self, d: &ArrayView2<'_, D>) -> Errors {
        let Sums { value, magnitude, .. } = &self.sums;
        assert_eq!(d.dim(), value.dim(), "the result and the product differ in shape");
        let pairs = || d.iter().map(|&got| widen(got)).zip(value.iter().copied());
        let of_element = |((got, exact), &magnitude): ((f64, f64), &f64)| {
            let error: f64 = got - exact;
            // Where all products are zero, so must the sum be.
            if error == 0.0 { 0.0 } else { error.abs() / magnitude }
        };
        // NaN is larger than all numbers here; `f64::max` would drop it.
        let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        Errors {
            in_norm: relative_difference(pairs()),
            componentwise: pairs().zip(magnitude).map(of_element).fold(0.0, larger),
        }
    }

    /// What a product of the same factors must be, with bounds: [`reference`](super::reference()) without summing
    /// again.
    pub(crate) fn reference<T: Element, D: Element>(
        &self,
        problem: &Problem<'_, T, D>,
    ) -> Reference {
        reference_from(problem, self.sums.clone())
    }
}
