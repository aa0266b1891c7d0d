//! One product with everything that can vary about it: what tests and `regemm verify` run.

use super::inputs::{Distribution, exact_integer_limit, random_matrix};
use super::problem::{Problem, ShapeError};
use super::reference::{Reference, exact_reference, reference};
use crate::precision::Precision;
use cuda_std::tensor_map::ALIGNMENT;
use ndarray::{Array2, Array3, ArrayView2, Axis, concatenate};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use regemm_kernels::element::{Accumulator, Element};
use regemm_kernels::epilogue::BiasAxis;
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use std::fmt;
use std::num::NonZeroU32;

/// A product or a batch of them: shape, factors, epilogue, and where its matrices lie.
///
/// Running it is hostile where the rules of the operation allow it: there is NaN beside the rows of A, B and C and
/// between the matrices of a batch, in D before the product, and in every operand whose factor is zero; D lies among
/// canaries.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of C.
    pub beta: f64,
    /// Where C comes from.
    pub addend: Addend,
    /// Along which axis there is a bias.
    pub bias: BiasAxis,
    /// The function applied last.
    pub activation: Activation,
    /// Slope of leaky ReLU below zero.
    pub slope: f64,
    /// What the operands hold.
    pub elements: Elements,
    /// How A and B lie in memory.
    pub layouts: Layouts,
    /// Unused elements before and after each row, as it is stored, of A, B, C and D. They decide whether rows are
    /// aligned.
    pub gaps: [(usize, usize); 4],
    /// The batch, if it is one.
    pub batch: Option<BatchCase>,
    /// What it is computed in: for kernels of that precision.
    pub precision: Precision,
    /// Slices of K, for kernels that split it; chosen by the library if none are given. Their number decides the bits.
    pub slices: Option<NonZeroU32>,
}

/// A batch of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCase {
    /// Number of products.
    pub count: usize,
    /// Whether A, B, C and the bias are shared by all products. A C that is D is not.
    pub shared: [bool; 4],
}

/// Where C comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addend {
    /// There is none.
    None,
    /// A matrix of its own.
    Matrix,
    /// C and D are one matrix.
    Same,
}

/// What random operands hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Normal with mean 0 and variance 1.
    Normal,
    /// Uniform in [-1, 1).
    Uniform,
    /// Small integers, so that products and sums are exact.
    Integers,
    /// Normal, with one NaN or infinity in each matrix.
    WithNonFinite,
}

impl Case {
    /// The plain product of packed normal matrices.
    pub fn product(m: usize, n: usize, k: usize) -> Self {
        Case {
            m,
            n,
            k,
            alpha: 1.0,
            beta: 0.0,
            addend: Addend::None,
            bias: BiasAxis::None,
            activation: Activation::None,
            slope: 0.01,
            elements: Elements::Normal,
            layouts: Layouts::NN,
            gaps: [(0, 0); 4],
            batch: None,
            precision: Precision::Exact,
            slices: None,
        }
    }

    /// The case in the layouts of a kernel, and where that makes bulk copies with gaps in A and B such that neither
    /// need be repacked: as wide as they are, or wider.
    pub fn fitted<T>(mut self, kernel: &KernelInfo) -> Self {
        self.layouts = kernel.layouts;
        if kernel.boxes.is_some() {
            let whole = ALIGNMENT as usize / size_of::<T>();
            let (_, cols_of_a) = self.layouts.a.stored(self.m, self.k);
            let (_, cols_of_b) = self.layouts.b.stored(self.k, self.n);
            for ((left, right), cols) in self.gaps.iter_mut().zip([cols_of_a, cols_of_b]) {
                *left = left.next_multiple_of(whole);
                let inside = *left + cols;
                *right = (inside + *right).next_multiple_of(whole) - inside;
            }
        }
        self
    }

    /// Number of products.
    pub fn count(&self) -> usize {
        self.batch.map_or(1, |batch| batch.count)
    }

    /// Matrices that there are of A, B, C and the bias: one where they are shared.
    fn matrices(&self) -> [usize; 4] {
        let Some(BatchCase { count, shared }) = self.batch else { return [1; 4] };
        let of_operand = |shared: bool| if shared { 1 } else { count };
        let [a, b, c, bias] = shared.map(of_operand);
        [a, b, if self.addend == Addend::Same { count } else { c }, bias]
    }

    /// Random operands for the case.
    pub fn operands<T: Element>(&self, rng: &mut ChaCha8Rng) -> Operands<T> {
        self.operands_of(rng)
    }

    /// The same where results may be of another type.
    pub fn operands_of<T: Element, D: Element>(&self, rng: &mut ChaCha8Rng) -> Operands<T, D> {
        let distribution = match self.elements {
            Elements::Normal | Elements::WithNonFinite => Distribution::Normal,
            Elements::Uniform => Distribution::Uniform,
            Elements::Integers => {
                Distribution::Integers { limit: exact_integer_limit::<T>(self.k) }
            }
        };
        let [of_a, of_b, of_c, of_bias] = self.matrices();
        let a = self.draw(rng, distribution, (of_a, self.m, self.k), self.alpha);
        let b = self.draw(rng, distribution, (of_b, self.k, self.n), self.alpha);
        let with_c = self.addend != Addend::None;
        let c = with_c.then(|| self.draw(rng, distribution, (of_c, self.m, self.n), self.beta));
        let bias = match self.bias {
            BiasAxis::None => None,
            BiasAxis::Column => Some(random_matrix(rng, of_bias, self.n, distribution)),
            BiasAxis::Row => Some(random_matrix(rng, of_bias, self.m, distribution)),
        };
        Operands { a, b, c, bias }
    }

    /// Random matrices; NaN where their factor is zero.
    fn draw<T: Element>(
        &self,
        rng: &mut ChaCha8Rng,
        distribution: Distribution,
        (count, rows, cols): (usize, usize, usize),
        factor: f64,
    ) -> Array3<T> {
        let mut matrices = Array3::from_elem((count, rows, cols), nan());
        for mut matrix in matrices.outer_iter_mut().filter(|_| factor != 0.0) {
            matrix.assign(&random_matrix(rng, rows, cols, distribution));
            if self.elements == Elements::WithNonFinite && !matrix.is_empty() {
                let place = (rng.random_range(0..rows), rng.random_range(0..cols));
                let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                let special = special.choose(rng).copied().unwrap_or(f64::NAN);
                matrix[place] = T::narrow(T::Acc::constant(special));
            }
        }
        matrices
    }

    /// The problem of product `index` for operands of this case.
    ///
    /// # Panics
    /// Where an operand has neither one matrix nor one for this product.
    pub fn problem<'o, T: Element, D: Element>(
        &self,
        operands: &'o Operands<T, D>,
        index: usize,
    ) -> Problem<'o, T, D> {
        let exactly = |value: f64| T::Acc::constant(value).to_f64();
        Problem {
            c: operands.c.as_ref().map(|c| matrix_of(c, index)),
            bias: operands.bias.as_ref().map(|bias| (self.bias, bias_of(bias, index))),
            alpha: exactly(self.alpha),
            beta: exactly(self.beta),
            activation: self.activation,
            slope: exactly(self.slope),
            precision: self.precision,
            ..Problem::of_factors(matrix_of(&operands.a, index), matrix_of(&operands.b, index))
        }
    }

    /// What D must be: exactly where integers make that possible, else within the error bound. The results of a batch
    /// are below each other.
    ///
    /// # Errors
    /// Operands that are not of this case.
    ///
    /// # Panics
    /// As for [`Case::problem`].
    pub fn reference<T: Element, D: Element>(
        &self,
        operands: &Operands<T, D>,
    ) -> Result<Reference, ShapeError> {
        let of_product = |index| {
            let problem = self.problem(operands, index);
            Ok(match exact_reference(&problem)? {
                Some(exact) => exact,
                None => reference(&problem)?,
            })
        };
        let all = (0..self.count()).map(of_product).collect::<Result<Vec<_>, _>>()?;
        Ok(Reference {
            value: stacked(&all, self.n, |r| &r.value),
            bound: stacked(&all, self.n, |r| &r.bound),
            nan_too: stacked(&all, self.n, |r| &r.nan_too),
        })
    }
}

/// A part of references below each other, with so many columns.
fn stacked<P: Clone + Default>(
    all: &[Reference],
    cols: usize,
    part: fn(&Reference) -> &Array2<P>,
) -> Array2<P> {
    let parts: Vec<_> = all.iter().map(|reference| part(reference).view()).collect();
    // Without products there is nothing to join; with some they have one shape.
    concatenate(Axis(0), &parts).unwrap_or_else(|_| Array2::default((0, cols)))
}

/// The matrix of a product, or the one that all share.
fn matrix_of<T>(matrices: &Array3<T>, index: usize) -> ArrayView2<'_, T> {
    matrices.index_axis(Axis(0), if matrices.dim().0 == 1 { 0 } else { index })
}

/// The bias of a product, or the one that all share.
fn bias_of<T>(rows: &Array2<T>, index: usize) -> &[T] {
    let row = rows.index_axis(Axis(0), if rows.nrows() == 1 { 0 } else { index });
    row.to_slice().unwrap_or_default()
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { m, n, k, alpha, beta, layouts, .. } = self;
        if let Some(BatchCase { count, shared }) = self.batch {
            write!(f, "{count} products, ")?;
            let names = ["A", "B", "C", "the bias"].into_iter().zip(shared);
            for (name, _) in names.filter(|(_, shared)| *shared) {
                write!(f, "{name} shared, ")?;
            }
        }
        write!(f, "{m} x {n} x {k}, layouts {layouts}, alpha {alpha}, ")?;
        match self.addend {
            Addend::None => write!(f, "no C")?,
            Addend::Matrix => write!(f, "beta {beta}")?,
            Addend::Same => write!(f, "beta {beta} with C in D")?,
        }
        match self.bias {
            BiasAxis::None => write!(f, ", no bias")?,
            BiasAxis::Column => write!(f, ", a bias per column")?,
            BiasAxis::Row => write!(f, ", a bias per row")?,
        }
        write!(f, ", activation {}", self.activation.name())?;
        if self.activation == Activation::LeakyRelu {
            write!(f, " {}", self.slope)?;
        }
        write!(f, ", elements {:?}", self.elements)?;
        let [a, b, c, d] = self.gaps;
        write!(f, ", gaps around rows A {a:?} B {b:?} C {c:?} D {d:?}")?;
        self.slices.map_or(Ok(()), |slices| write!(f, ", {slices} slices"))
    }
}

/// The operands of a case on the host.
#[derive(Clone, Debug)]
pub struct Operands<T, D = T> {
    /// A: one `m x k` matrix, or one for each product.
    pub a: Array3<T>,
    /// B: one `k x n` matrix, or one for each product.
    pub b: Array3<T>,
    /// C, if there is one: one `m x n` matrix, or one for each product.
    pub c: Option<Array3<D>>,
    /// The bias, if there is one: a row of `n` or `m` elements, or one for each product.
    pub bias: Option<Array2<D>>,
}

/// NaN of an element type.
pub(super) fn nan<T: Element>() -> T {
    T::narrow(T::Acc::constant(f64::NAN))
}
