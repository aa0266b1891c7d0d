//! A product of parts of matrices, whose rows begin anywhere, with all that an epilogue does: for every precision.

use ndarray::{Array2, s};
use regemm::verify::{Distribution, Problem, random_matrix, rng};
use regemm::{
    Activation, BiasAxis, Device, Element, Gemm, Matrix, Precision, Result, Vector, Yields,
};

/// Rows and columns of D.
pub const ROWS: usize = 71;
pub const COLS: usize = 83;

/// What is around the parts: rows and columns before and behind them.
const BEFORE_A: (usize, usize) = (3, 1);
const BEFORE_B: (usize, usize) = (2, 5);
const BEHIND: usize = 11;

const ALPHA: f32 = 0.5;
const BETA: f32 = -2.0;
const ACTIVATION: Activation = Activation::GeluTanh;

/// Random operands on the host and on a device.
pub struct Parts<T, D = T> {
    depth: usize,
    a: Array2<T>,
    b: Array2<T>,
    c: Array2<D>,
    bias: Vec<D>,
    on_device: (Matrix<T>, Matrix<T>, Matrix<D>, Vector<D>),
}

impl<T, D> Parts<T, D>
where
    T: Element<Acc = f32> + Yields<D>,
    D: Element<Acc = f32>,
{
    /// Of a product of this depth.
    pub fn new(device: &Device, depth: usize, elements: Distribution) -> Result<Parts<T, D>> {
        fn random<E: Element>(
            seed: u64,
            (rows, cols): (usize, usize),
            of: Distribution,
        ) -> Array2<E> {
            random_matrix(&mut rng(seed, 0), rows, cols, of)
        }
        let around = |(rows, cols): (usize, usize), (above, left): (usize, usize)| {
            (above + rows + BEHIND, left + cols + BEHIND)
        };
        let a = random(1, around((ROWS, depth), BEFORE_A), elements);
        let b = random(2, around((depth, COLS), BEFORE_B), elements);
        let c = random(3, (ROWS, COLS), elements);
        let bias: Vec<D> = random(4, (1, COLS), elements).into_raw_vec_and_offset().0;
        let on_device = (
            device.upload(&a.view())?,
            device.upload(&b.view())?,
            device.upload(&c.view())?,
            device.vector(&bias)?,
        );
        Ok(Parts { depth, a, b, c, bias, on_device })
    }

    /// The product.
    pub fn gemm(&self) -> Result<Gemm<'_, T, D>> {
        let (a, b, c, bias) = &self.on_device;
        let part = |(above, left): (usize, usize), (rows, cols): (usize, usize)| {
            (above..above + rows, left..left + cols)
        };
        let (a_rows, a_cols) = part(BEFORE_A, (ROWS, self.depth));
        let (b_rows, b_cols) = part(BEFORE_B, (self.depth, COLS));
        let (a, b) = (a.view().slice(a_rows, a_cols)?, b.view().slice(b_rows, b_cols)?);
        let gemm = Gemm::widening(a, b).alpha(ALPHA).c(BETA, c);
        Ok(gemm.bias_per_column(bias).activation(ACTIVATION))
    }

    /// What it is to be, as it is promised in a precision.
    pub fn problem(&self, precision: Precision) -> Problem<'_, T, D> {
        let (a_above, a_left) = BEFORE_A;
        let (b_above, b_left) = BEFORE_B;
        let a = self.a.slice(s![a_above..a_above + ROWS, a_left..a_left + self.depth]);
        let b = self.b.slice(s![b_above..b_above + self.depth, b_left..b_left + COLS]);
        Problem {
            c: Some(self.c.view()),
            bias: Some((BiasAxis::Column, &self.bias)),
            alpha: ALPHA.into(),
            beta: BETA.into(),
            activation: ACTIVATION,
            precision,
            ..Problem::of_factors(a, b)
        }
    }
}
