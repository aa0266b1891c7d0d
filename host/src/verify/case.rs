//! One product with everything that can vary about it: what tests and `regemm verify` run.

use super::canary::{Canaries, CanaryFault};
use super::inputs::{Distribution, exact_integer_limit, random_matrix, random_vector};
use super::problem::{Problem, ShapeError};
use super::reference::{Reference, exact_reference, reference};
use crate::device::Device;
use crate::error::Result;
use crate::gemm::{Gemm, KernelChoice};
use crate::matrix::Matrix;
use crate::matrix::vector::Vector;
use crate::matrix::view::MatrixView;
use ndarray::{Array2, ArrayView2, s};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use regemm_kernels::activation::Activation;
use regemm_kernels::element::{Accumulator, Element};
use regemm_kernels::epilogue::BiasAxis;
use regemm_kernels::kernel::KernelInfo;
use std::fmt;
use std::ops::Range;

/// A product: shape, factors, epilogue, and where its matrices lie.
///
/// Running it is hostile where the rules of the operation allow it: there is NaN beside the rows of A, B and C, in D before
/// the product, and in every operand whose factor is zero; D lies among canaries.
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
    /// Unused elements before and after each row of A, B, C and D. They decide whether rows are aligned.
    pub gaps: [(usize, usize); 4],
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

/// Rows of canaries above and below D.
const MARGIN: usize = 2;

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
            gaps: [(0, 0); 4],
        }
    }

    /// Random operands for the case.
    pub fn operands<T: Element>(&self, rng: &mut ChaCha8Rng) -> Operands<T> {
        let distribution = match self.elements {
            Elements::Normal | Elements::WithNonFinite => Distribution::Normal,
            Elements::Uniform => Distribution::Uniform,
            Elements::Integers => {
                Distribution::Integers { limit: exact_integer_limit::<T>(self.k) }
            }
        };
        let mut matrix = |rows, cols, factor: f64| {
            let mut matrix = random_matrix(rng, rows, cols, distribution);
            if factor == 0.0 {
                matrix.fill(nan());
            } else if self.elements == Elements::WithNonFinite && !matrix.is_empty() {
                let place = (rng.random_range(0..rows), rng.random_range(0..cols));
                let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                let special = special.choose(rng).copied().unwrap_or(f64::NAN);
                matrix[place] = T::narrow(T::Acc::constant(special));
            }
            matrix
        };
        let a = matrix(self.m, self.k, self.alpha);
        let b = matrix(self.k, self.n, self.alpha);
        let c = (self.addend != Addend::None).then(|| matrix(self.m, self.n, self.beta));
        let bias = match self.bias {
            BiasAxis::None => None,
            BiasAxis::Column => Some(random_vector(rng, self.n, distribution)),
            BiasAxis::Row => Some(random_vector(rng, self.m, distribution)),
        };
        Operands { a, b, c, bias }
    }

    /// The problem for operands of this case.
    pub fn problem<'o, T: Element>(&self, operands: &'o Operands<T>) -> Problem<'o, T> {
        let exactly = |value: f64| T::Acc::constant(value).to_f64();
        Problem {
            c: operands.c.as_ref().map(|c| c.view()),
            bias: operands.bias.as_ref().map(|bias| (self.bias, bias.as_slice())),
            alpha: exactly(self.alpha),
            beta: exactly(self.beta),
            activation: self.activation,
            slope: exactly(self.slope),
            ..Problem::product(operands.a.view(), operands.b.view())
        }
    }

    /// What D must be: exactly where integers make that possible, else within the error bound.
    ///
    /// # Errors
    /// Operands that are not of this case.
    pub fn reference<T: Element>(
        &self,
        operands: &Operands<T>,
    ) -> std::result::Result<Reference, ShapeError> {
        let problem = self.problem(operands);
        Ok(match exact_reference(&problem)? {
            Some(exact) => exact,
            None => reference(&problem)?,
        })
    }

    /// Copies operands of this case to a device.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn upload<'o, T: Element>(
        &self,
        device: &'o Device,
        operands: &'o Operands<T>,
    ) -> Result<Uploaded<'o, T>> {
        Ok(Uploaded {
            case: *self,
            device,
            a: Framed::upload(device, &operands.a.view(), self.gaps[0])?,
            b: Framed::upload(device, &operands.b.view(), self.gaps[1])?,
            c: match &operands.c {
                Some(c) => Some(Framed::upload(device, &c.view(), self.gaps[2])?),
                None => None,
            },
            bias: operands.bias.as_ref().map(|bias| device.vector(bias)).transpose()?,
            c_on_host: operands.c.as_ref(),
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { m, n, k, alpha, beta, .. } = self;
        write!(f, "{m} x {n} x {k}, alpha {alpha}, ")?;
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
        write!(f, ", gaps around rows A {a:?} B {b:?} C {c:?} D {d:?}")
    }
}

/// The operands of a case on the host.
#[derive(Clone, Debug)]
pub struct Operands<T> {
    /// A, `m x k`.
    pub a: Array2<T>,
    /// B, `k x n`.
    pub b: Array2<T>,
    /// C, `m x n`, if there is one.
    pub c: Option<Array2<T>>,
    /// The bias, `n` or `m` elements, if there is one.
    pub bias: Option<Vec<T>>,
}

/// The operands of a case on a device.
pub struct Uploaded<'o, T> {
    case: Case,
    device: &'o Device,
    a: Framed<T>,
    b: Framed<T>,
    c: Option<Framed<T>>,
    bias: Option<Vector<T>>,
    c_on_host: Option<&'o Array2<T>>,
}

/// What a kernel made of a case.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// D, `m x n`.
    pub d: Array2<T>,
    /// What the canaries around D show.
    pub stray: Option<CanaryFault>,
}

impl<T: Element> Uploaded<'_, T> {
    /// Computes D with a kernel.
    ///
    /// # Errors
    /// A failure of the device, or a fault that the simulator found.
    pub fn run(&self, kernel: &'static KernelInfo) -> Result<Outcome<T>> {
        let case = &self.case;
        let constant = T::Acc::constant;
        let (left, gap) = case.gaps[3];
        let canaries = Canaries::around(case.m, case.n, MARGIN, left, gap);
        let (rows, cols) = (canaries.inside_rows.clone(), canaries.inside_cols.clone());
        let mut buffer = canaries.buffer::<T>();
        for (row, in_buffer) in rows.clone().enumerate() {
            for (col, in_row) in cols.clone().enumerate() {
                buffer[in_buffer * canaries.ld + in_row] = match self.c_on_host {
                    Some(c) if case.addend == Addend::Same => c[(row, col)],
                    _ => nan(),
                };
            }
        }
        let mut d = self.device.upload_slice(&buffer, canaries.rows, canaries.ld, canaries.ld)?;
        let mut gemm = Gemm::new(self.a.view()?, self.b.view()?)
            .alpha(constant(case.alpha))
            .activation(case.activation)
            .leaky_slope(constant(case.slope))
            .kernel(KernelChoice::Info(kernel));
        gemm = match (case.addend, &self.c) {
            (Addend::Matrix, Some(c)) => gemm.c(constant(case.beta), c.view()?),
            (Addend::Same, _) => gemm.accumulate(constant(case.beta)),
            _ => gemm,
        };
        gemm = match (case.bias, &self.bias) {
            (BiasAxis::Column, Some(bias)) => gemm.bias_per_column(bias),
            (BiasAxis::Row, Some(bias)) => gemm.bias_per_row(bias),
            _ => gemm,
        };
        gemm.run(d.view_mut().slice(rows.clone(), cols.clone())?)?;

        Ok(Outcome {
            stray: canaries.check(&d.read_raw()?, false).err(),
            d: d.view().slice(rows, cols)?.to_array()?,
        })
    }
}

/// A matrix inside a larger one that is NaN around it: what is read there by mistake shows in the result.
struct Framed<T> {
    matrix: Matrix<T>,
    cols: Range<usize>,
}

impl<T: Element> Framed<T> {
    fn upload(
        device: &Device,
        array: &ArrayView2<'_, T>,
        (left, gap): (usize, usize),
    ) -> Result<Self> {
        let (rows, cols) = array.dim();
        let cols = left..left + cols;
        let mut framed = Array2::from_elem((rows, cols.end + gap), nan());
        framed.slice_mut(s![.., cols.clone()]).assign(array);
        Ok(Framed { matrix: device.upload(&framed.view())?, cols })
    }

    fn view(&self) -> Result<MatrixView<'_, T>> {
        self.matrix.view().slice(0..self.matrix.rows(), self.cols.clone())
    }
}

fn nan<T: Element>() -> T {
    T::narrow(T::Acc::constant(f64::NAN))
}
