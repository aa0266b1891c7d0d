//! What is computed, with its operands in host memory.

use super::bound::OVERFLOW_OF_TF32;
use crate::precision::Precision;
use ndarray::ArrayView2;
use regemm_kernels::element::{Accumulator, Dtype, Element};
use regemm_kernels::epilogue::BiasAxis;
use regemm_kernels::epilogue::activation::Activation;

/// `D = activation(alpha * A * B + beta * C + bias)` with its operands in host memory: A and B of `T`; C, the bias and
/// D of `D`.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a, T, D = T> {
    /// A, `m x k`.
    pub a: ArrayView2<'a, T>,
    /// B, `k x n`.
    pub b: ArrayView2<'a, T>,
    /// C, `m x n`. Not read where `beta` is zero, but its shape must fit.
    pub c: Option<ArrayView2<'a, D>>,
    /// The bias: `n` elements along [`BiasAxis::Column`], `m` along [`BiasAxis::Row`].
    pub bias: Option<(BiasAxis, &'a [D])>,
    /// Factor of the product; must be a value of the accumulator's type.
    pub alpha: f64,
    /// Factor of C; must be a value of the accumulator's type.
    pub beta: f64,
    /// The function applied last.
    pub activation: Activation,
    /// Slope of leaky ReLU below zero; must be a value of the accumulator's type.
    pub slope: f64,
    /// What the device computed it in.
    pub precision: Precision,
}

/// Operands that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} is {got}, but A is {a_rows} x {a_cols} and B {b_rows} x {b_cols}: it must be {want}"
)]
pub struct ShapeError {
    what: &'static str,
    got: String,
    want: String,
    a_rows: usize,
    a_cols: usize,
    b_rows: usize,
    b_cols: usize,
}

impl ShapeError {
    /// Of another number of results than of problems, of which this is the first.
    pub(super) fn of_batch<T: Element, D: Element>(
        first: Option<&Problem<'_, T, D>>,
        results: usize,
        problems: usize,
    ) -> ShapeError {
        let ((a_rows, a_cols), (b_rows, b_cols)) =
            first.map_or_else(Default::default, |first| (first.a.dim(), first.b.dim()));
        let got = format!("a batch of {results}");
        let want = format!("one of {problems}, the number of problems");
        ShapeError { what: "the result", got, want, a_rows, a_cols, b_rows, b_cols }
    }
}

impl<'a, T: Element> Problem<'a, T> {
    /// The plain product `D = A * B`.
    pub fn product(a: ArrayView2<'a, T>, b: ArrayView2<'a, T>) -> Self {
        Self::of_factors(a, b)
    }
}

impl<'a, T: Element, D: Element> Problem<'a, T, D> {
    /// The plain product `D = A * B`, where D may be of another type.
    pub fn of_factors(a: ArrayView2<'a, T>, b: ArrayView2<'a, T>) -> Self {
        Problem {
            a,
            b,
            c: None,
            bias: None,
            alpha: 1.0,
            beta: 0.0,
            activation: Activation::None,
            slope: T::Acc::constant(0.01).to_f64(),
            precision: Precision::Exact,
        }
    }

    /// Rows, columns and depth of the product: `(m, n, k)`.
    ///
    /// # Errors
    /// Where the shapes of the operands do not fit together.
    pub fn shape(&self) -> Result<(usize, usize, usize), ShapeError> {
        let ((m, k), (b_rows, n)) = (self.a.dim(), self.b.dim());
        if b_rows != k {
            return self.error("B", format!("{b_rows} x {n}"), format!("{k} x {n}"));
        }
        if let Some(c) = &self.c {
            self.check_same_as_d("C", c)?;
        }
        if let Some((axis, bias)) = self.bias {
            let want = match axis {
                BiasAxis::None => bias.len(),
                BiasAxis::Column => n,
                BiasAxis::Row => m,
            };
            if bias.len() != want {
                let got = format!("a vector of {} elements", bias.len());
                return self.error("the bias", got, format!("{want} elements long"));
            }
        }
        Ok((m, n, k))
    }

    /// Checks the shape of a result.
    pub(super) fn check_result(&self, d: &ArrayView2<'_, D>) -> Result<(), ShapeError> {
        self.check_same_as_d("the result", d)
    }

    fn check_same_as_d(
        &self,
        what: &'static str,
        matrix: &ArrayView2<'_, D>,
    ) -> Result<(), ShapeError> {
        let (m, n) = (self.a.nrows(), self.b.ncols());
        let (rows, cols) = matrix.dim();
        if (rows, cols) == (m, n) {
            return Ok(());
        }
        self.error(what, format!("{rows} x {cols}"), format!("{m} x {n}"))
    }

    fn error<R>(&self, what: &'static str, got: String, want: String) -> Result<R, ShapeError> {
        let ((a_rows, a_cols), (b_rows, b_cols)) = (self.a.dim(), self.b.dim());
        Err(ShapeError { what, got, want, a_rows, a_cols, b_rows, b_cols })
    }

    /// The depth of the sums that the device takes: 0 where `alpha` is zero, because A and B are not read then.
    pub(super) fn depth(&self) -> usize {
        if self.alpha == 0.0 { 0 } else { self.a.ncols() }
    }

    /// An element of A or B, which is infinite where rounding makes it so.
    pub(super) fn factor(&self, element: T) -> f64 {
        let value = widen(element);
        let is_rounded = T::DTYPE == Dtype::F32 && self.precision == Precision::Tf32;
        if is_rounded && value.abs() >= OVERFLOW_OF_TF32 {
            f64::INFINITY.copysign(value)
        } else {
            value
        }
    }

    /// The bias of an element of D.
    pub(super) fn bias_at(&self, row: usize, col: usize) -> f64 {
        match self.bias {
            Some((BiasAxis::Column, bias)) => widen(bias[col]),
            Some((BiasAxis::Row, bias)) => widen(bias[row]),
            Some((BiasAxis::None, _)) | None => 0.0,
        }
    }
}

/// The value in double precision, exactly.
pub(super) fn widen<T: Element>(value: T) -> f64 {
    value.widen().to_f64()
}
