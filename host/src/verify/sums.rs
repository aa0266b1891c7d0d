//! `A * B` on the host, accurately enough to judge the device's sums.
//!
//! Products are widened to double precision and multiplied by the [processor](host_product). For f32,
//! f16 and bf16 each product is exact in double precision and the sum is off by no more than `gamma_k` of that
//! precision, 2^29 times less than the device's. Products of f64 are summed as unevaluated pairs of doubles instead, as
//! accurate as if computed in twice the precision and then rounded (T. Ogita, S. M. Rump and S. Oishi, *Accurate sum
//! and dot product*, SIAM J. Sci. Comput. 26, 2005, algorithm 5.3), so that there too the bound is the device's own
//! error.

use super::host_product::host_product;
use ndarray::{Array1, Array2, Zip};
use regemm_kernels::element::Dtype;

/// The error of the reference's own sums.
#[derive(Clone, Copy, Debug)]
pub(super) enum SumError {
    /// There are no sums.
    Exact,
    /// Summed in double precision.
    Plain,
    /// Summed in pairs of doubles.
    Compensated,
}

/// What there is in a row of A or in a column of B.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// The largest magnitude of a finite element.
    pub largest: f64,
    /// The sum of those magnitudes.
    pub sum: f64,
    /// Whether it holds NaN or an infinity besides.
    pub has_others: bool,
}

impl Line {
    fn add(&mut self, element: f64) {
        let magnitude = element.abs();
        if magnitude.is_finite() {
            self.largest = self.largest.max(magnitude);
            self.sum += magnitude;
        } else {
            self.has_others = true;
        }
    }
}

/// What the reference of every problem with these factors begins with.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    /// `A * B`, accurately enough to judge sums of the factors' type.
    pub value: Array2<f64>,
    /// `|A| * |B|`.
    pub magnitude: Array2<f64>,
    /// How `value` was computed.
    pub own: SumError,
    /// Rows of A.
    pub rows: Vec<Line>,
    /// Columns of B.
    pub cols: Vec<Line>,
}

impl Sums {
    /// Of factors that fit together, with elements of this type.
    pub fn of(dtype: Dtype, a: Array2<f64>, b: Array2<f64>) -> Self {
        let (mut rows, mut cols) =
            (vec![Line::default(); a.nrows()], vec![Line::default(); b.ncols()]);
        a.indexed_iter().for_each(|((row, _), &v)| rows[row].add(v));
        b.indexed_iter().for_each(|((_, col), &v)| cols[col].add(v));
        let (value, own) = exact_sums(dtype, &a, &b);
        let magnitude = host_product(&a.mapv_into(f64::abs).view(), &b.mapv_into(f64::abs).view());
        Sums { value, magnitude, own, rows, cols }
    }

    /// Of no products.
    pub fn none(rows: usize, cols: usize) -> Self {
        Sums {
            value: Array2::zeros((rows, cols)),
            magnitude: Array2::zeros((rows, cols)),
            own: SumError::Exact,
            rows: vec![Line::default(); rows],
            cols: vec![Line::default(); cols],
        }
    }
}

/// `A * B`, accurately enough to judge sums of this type.
fn exact_sums(dtype: Dtype, a: &Array2<f64>, b: &Array2<f64>) -> (Array2<f64>, SumError) {
    let small = |m: &Array2<f64>| m.iter().all(|v| v.abs() < SPLIT_LIMIT);
    if dtype == Dtype::F64 && small(a) && small(b) {
        (compensated_product(a, b), SumError::Compensated)
    } else {
        (host_product(&a.view(), &b.view()), SumError::Plain)
    }
}

/// Below this magnitude the product of two numbers and of their halves cannot overflow. NaN is not below it.
const SPLIT_LIMIT: f64 = 1e150;

/// `A * B` with each element summed as the unevaluated sum of two doubles.
fn compensated_product(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let n = b.ncols();
    let b_high = b.mapv(|v| split(v).0);
    let b_low = b.mapv(|v| split(v).1);
    let mut product = Array2::zeros((a.nrows(), n));
    let mut low = Array1::<f64>::zeros(n);
    for (a_row, mut high) in a.rows().into_iter().zip(product.rows_mut()) {
        low.fill(0.0);
        for (&a, ((b, b_high), b_low)) in
            a_row.iter().zip(b.rows().into_iter().zip(b_high.rows()).zip(b_low.rows()))
        {
            let (a_high, a_low) = split(a);
            Zip::from(&mut high).and(&mut low).and(b).and(b_high).and(b_low).for_each(
                |high, low, &b, &b_high, &b_low| {
                    // The product and its rounding error (Dekker), then the sum and its (Knuth).
                    let product = a * b;
                    let product_error = a_low * b_low
                        - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
                    let sum = *high + product;
                    let other = sum - *high;
                    let sum_error = (*high - (sum - other)) + (product - other);
                    *high = sum;
                    *low += sum_error + product_error;
                },
            );
        }
        high += &low;
    }
    product
}

/// A double as the sum of two with at most 26 significant bits each (Veltkamp).
fn split(value: f64) -> (f64, f64) {
    const FACTOR: f64 = 134_217_729.0; // 2^27 + 1
    let scaled = FACTOR * value;
    let high = scaled - (scaled - value);
    (high, value - high)
}
