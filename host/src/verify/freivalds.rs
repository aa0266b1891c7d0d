//! A randomised check of products that are too large for a reference: R. Freivalds, *Probabilistic machines can use
//! less running time*, IFIP Congress 1977.
//!
//! For a random vector `v` of signs, `D v` must agree with `alpha A (B v) + beta C v + bias v` in every row: three
//! products of a matrix and a vector instead of one of two matrices. It only works where D is linear in the sum, that
//! is without an activation; [`Expectation`](super::Expectation) then has nothing but the sampled rows and columns.
//!
//! **Tolerance.** Let `e_ij` be the errors of a correct row, `|e_ij| <= b_ij` with the bounds of `bound`. Because the
//! signs are drawn independently of D, `|sum_j e_ij v_j| <= ||b_i||_2 sqrt(2 ln(2 / p))` but with probability `p`
//! (W. Hoeffding, JASA 58, 1963). The norm of the bounds follows without the full product from the triangle inequality:
//! `|| |A_i| |B| ||_2 <= sum_k |a_ik| ||B_k||_2`. `p` is set so that a correct product fails with probability below
//! 2^-40 altogether. To this comes the error of the check's own sums in double precision, bounded for the worst case;
//! it is negligible for f32, f16 and bf16, and for f64 makes the tolerance about `sqrt(n)` wider.
//!
//! **What it misses.** If one element of a row is wrong by more than the row's tolerance, flipping its sign alone moves
//! the row's residual by more than twice the tolerance: at most one of the two outcomes passes. So whatever the other
//! errors, a vector misses the row with probability at most 1/2, and [`VECTORS`] of them with at most 2^-24. A single
//! wrong element in an otherwise correct row is never missed if it is off by more than twice the tolerance.

use super::bound::{self, Format, roundings};
use super::compare::serialize_float;
use super::inputs::rng;
use super::problem::{Problem, ShapeError, widen};
use crate::precision::Precision;
use ndarray::{Array1, Array2, ArrayView2, Axis};
use rand::RngExt;
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::epilogue::BiasAxis;
use regemm_kernels::epilogue::activation::Activation;
use serde::Serialize;
use std::num::NonZeroUsize;

/// Random vectors in a test: an error that it can see is missed with probability at most `2^-VECTORS`.
pub const VECTORS: NonZeroUsize = NonZeroUsize::new(24).unwrap();

/// Probability that a correct product fails the test.
const FALSE_ALARM: f64 = 1.0 / (1u64 << 40) as f64;

/// What a correct product must satisfy; it can judge any number of results.
#[derive(Clone, Debug)]
pub struct Freivalds {
    /// `v`, one a column.
    vectors: Array2<f64>,
    /// `D_ref v`, one a column.
    expected: Array2<f64>,
    /// Norm of the bounds of each row, before the conversion to the element type.
    bound_norm: Array1<f64>,
    /// Largest error of `expected` in each row.
    own_error: Array1<f64>,
    /// The type that results are converted to.
    dtype: Dtype,
}

/// What the test of a result showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FreivaldsResult {
    /// Random vectors that were tried.
    pub vectors: usize,
    /// Rows whose residual exceeded the tolerance for at least one vector, NaN included.
    pub failed_rows: usize,
    /// The first of them.
    pub first_failed_row: Option<usize>,
    /// The largest `|residual| / tolerance`; infinite where a residual is NaN. A result passes with at most 1.
    #[serde(serialize_with = "serialize_float")]
    pub max_ratio: f64,
}

impl FreivaldsResult {
    /// Whether no row failed.
    pub fn pass(&self) -> bool {
        self.failed_rows == 0
    }

    /// The test of a part of a larger result, with rows of that.
    pub(super) fn at(mut self, rows: &[usize]) -> Self {
        self.first_failed_row = self.first_failed_row.map(|row| rows[row]);
        self
    }

    /// Adds the test of the next part of the same result.
    pub(super) fn merge(&mut self, next: &FreivaldsResult) {
        self.failed_rows += next.failed_rows;
        self.first_failed_row = self.first_failed_row.or(next.first_failed_row);
        self.max_ratio = self.max_ratio.max(next.max_ratio);
    }
}

impl Freivalds {
    /// Prepares the test. `None` where it does not apply: with an activation, or with NaN or infinities among the
    /// operands, also where the precision rounds an element to infinity.
    ///
    /// # Errors
    /// Where the shapes of the operands do not fit together.
    pub fn new<T: Element, D: Element>(
        problem: &Problem<'_, T, D>,
        seed: u64,
    ) -> Result<Option<Self>, ShapeError> {
        Self::with_vectors(problem, seed, VECTORS)
    }

    /// Prepares the test with another number of random vectors than [`VECTORS`].
    ///
    /// # Errors
    /// Where the shapes of the operands do not fit together.
    pub fn with_vectors<T: Element, D: Element>(
        problem: &Problem<'_, T, D>,
        seed: u64,
        count: NonZeroUsize,
    ) -> Result<Option<Self>, ShapeError> {
        let (m, n, _) = problem.shape()?;
        if problem.activation != Activation::None {
            return Ok(None);
        }
        let (k, count) = (problem.depth(), count.get());
        let mut rng = rng(seed, u64::MAX);
        let vectors =
            Array2::from_shape_simple_fn((n, count), || if rng.random() { 1.0 } else { -1.0 });

        let device = Format::of_sums(T::DTYPE);
        let ones = Array1::<f64>::ones(n);
        let mut expected = Array2::zeros((m, count));
        let mut bound_norm = Array1::zeros(m);
        // Sums of absolute values over a row, by which the check's own error scales.
        let mut magnitude = Array1::<f64>::zeros(m);
        if k > 0 {
            let factors = [problem.a, problem.b];
            let [mut a, mut b] = factors.map(|matrix| matrix.mapv(|v| problem.factor(v)));
            expected = a.dot(&b.dot(&vectors)) * problem.alpha;
            b.mapv_inplace(f64::abs);
            a.mapv_inplace(f64::abs);
            let row_norms = b.map_axis(Axis(1), |row| row.dot(&row).sqrt());
            let factor =
                problem.alpha.abs() * device.gamma(roundings(T::DTYPE, problem.precision, k) + 1);
            bound_norm = a.dot(&row_norms) * factor;
            magnitude = a.dot(&b.dot(&ones)) * problem.alpha.abs();
            let part = bound::lost_of_largest(T::DTYPE, problem.precision);
            if part > 0.0 {
                let lost = |part| norms_of_lost(part, &a, &b);
                bound_norm += &(lost(bound::LOST_BY_ONE_HALF) * factor);
                bound_norm += &(lost(part) * (problem.alpha.abs() * (1.0 + device.gamma(1))));
            }
            if (T::DTYPE, problem.precision) == (Dtype::F32, Precision::Tf32) {
                let lost = norms_of_lost_of_each(bound::LOST_BY_TF32, &a, &b);
                bound_norm += &(lost * (problem.alpha.abs() * (1.0 + device.gamma(1))));
            }
        }
        let addend_factor = device.gamma(2);
        if let Some(c) = problem.c.filter(|_| problem.beta != 0.0) {
            let mut c = c.mapv(widen) * problem.beta;
            expected += &c.dot(&vectors);
            c.mapv_inplace(f64::abs);
            bound_norm += &(c.map_axis(Axis(1), |row| row.dot(&row).sqrt()) * addend_factor);
            magnitude += &c.dot(&ones);
        }
        match problem.bias {
            Some((BiasAxis::Column, bias)) => {
                let mut bias = Array1::from_iter(bias.iter().map(|&v| widen(v)));
                expected += &bias.dot(&vectors);
                bound_norm += bias.dot(&bias).sqrt() * addend_factor;
                bias.mapv_inplace(f64::abs);
                magnitude += bias.sum();
            }
            Some((BiasAxis::Row, bias)) => {
                let bias = Array1::from_iter(bias.iter().map(|&v| widen(v)));
                let sums = vectors.sum_axis(Axis(0));
                expected +=
                    &bias.view().insert_axis(Axis(1)).dot(&sums.view().insert_axis(Axis(0)));
                bound_norm += &(bias.mapv(f64::abs) * ((n as f64).sqrt() * addend_factor));
                magnitude += &(bias.mapv(f64::abs) * n as f64);
            }
            Some((BiasAxis::None, _)) | None => {}
        }
        // Roundings in the subnormal range: one an operation, the sum's scaled by alpha.
        let subnormal = (problem.alpha.abs() * k as f64 + 2.0) * device.smallest;
        bound_norm += subnormal * (n as f64).sqrt();
        let own_error = magnitude * Format::DOUBLE.gamma(n + k + OWN_ROUNDINGS);

        let applies = expected.iter().chain(&bound_norm).chain(&own_error).all(|v| v.is_finite());
        Ok(applies.then_some(Freivalds {
            vectors,
            expected,
            bound_norm,
            own_error,
            dtype: D::DTYPE,
        }))
    }

    /// Tests a result.
    ///
    /// # Panics
    /// Where it has another shape than the problem.
    pub fn check<T: Element>(&self, d: &ArrayView2<'_, T>) -> FreivaldsResult {
        self.check_except(d, &[])
    }

    /// Tests a result but for these rows, in ascending order.
    pub(super) fn check_except<T: Element>(
        &self,
        d: &ArrayView2<'_, T>,
        skipped: &[usize],
    ) -> FreivaldsResult {
        let (m, n) = d.dim();
        assert_eq!((m, n), (self.expected.nrows(), self.vectors.nrows()), "another shape");
        let mut d = d.mapv(widen);
        let residuals = d.dot(&self.vectors) - &self.expected;
        d.mapv_inplace(f64::abs);
        let tests = residuals.len().max(1) as f64;
        let deviations = (2.0 * (2.0 * tests / FALSE_ALARM).ln()).sqrt();
        let own_gamma = Format::DOUBLE.gamma(n);

        let mut result = FreivaldsResult {
            vectors: self.vectors.ncols(),
            failed_rows: 0,
            first_failed_row: None,
            max_ratio: 0.0,
        };
        for (row, residuals) in residuals.rows().into_iter().enumerate() {
            if skipped.binary_search(&row).is_ok() {
                continue;
            }
            let d = d.row(row);
            let norm = self.bound_norm[row] + self.conversion_norm(d.dot(&d).sqrt(), n);
            let tolerance = deviations * norm + self.own_error[row] + own_gamma * d.sum();
            let ratio = residuals.iter().map(|r| ratio(r.abs(), tolerance)).fold(0.0, f64::max);
            result.max_ratio = result.max_ratio.max(ratio);
            if ratio > 1.0 {
                result.failed_rows += 1;
                result.first_failed_row.get_or_insert(row);
            }
        }
        result
    }

    /// Norm of the errors of converting a row to the element type, from the norm of the converted row.
    fn conversion_norm(&self, row_norm: f64, n: usize) -> f64 {
        match self.dtype {
            Dtype::F32 | Dtype::F64 => 0.0,
            Dtype::F16 | Dtype::Bf16 => {
                let p = Format::of_elements(self.dtype);
                row_norm * p.gamma(1) + p.smallest * (n as f64).sqrt()
            }
        }
    }
}

/// For each row of D a bound of the norm of what its sums lose ([`bound::lost`]), from the magnitudes of A and B.
fn norms_of_lost(part: f64, a: &Array2<f64>, b: &Array2<f64>) -> Array1<f64> {
    let norm = |of_columns: Array1<f64>| of_columns.dot(&of_columns).sqrt();
    let larger = |a: &f64, b: &f64| a.max(*b);
    let sums = norm(b.sum_axis(Axis(0)));
    let largest = norm(b.fold_axis(Axis(0), 0.0, larger));
    let both = a.ncols() as f64 * part * largest;
    (a.fold_axis(Axis(1), 0.0, larger) * (sums + both) + a.sum_axis(Axis(1)) * largest) * part
}

/// The same of what they lose where each element loses so much ([`bound::lost_of_each`]).
fn norms_of_lost_of_each(lost: f64, a: &Array2<f64>, b: &Array2<f64>) -> Array1<f64> {
    let of_cols = b.sum_axis(Axis(0));
    let (sums, ones) = (of_cols.dot(&of_cols).sqrt(), (b.ncols() as f64).sqrt());
    (a.sum_axis(Axis(1)) * ones + (sums + a.ncols() as f64 * lost * ones)) * lost
}

/// Roundings of the check around its three products: factors, sums of terms, and the residual.
const OWN_ROUNDINGS: usize = 8;

/// `residual / tolerance`, infinite where that is no number: NaN or infinities in the result.
fn ratio(residual: f64, tolerance: f64) -> f64 {
    if residual == 0.0 {
        return 0.0;
    }
    let ratio = residual / tolerance;
    if ratio.is_nan() || residual.is_infinite() { f64::INFINITY } else { ratio }
}
