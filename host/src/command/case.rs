//! One random problem of `regemm verify`, and what the kernels make of it.
//!
//! A case follows from its seed and number, the element types to choose from and the largest size. It is hostile where the
//! rules of the operation allow it: NaN in the gaps of A and B, in C where beta is zero, in A and B where alpha is zero;
//! canaries around D and in its gaps; NaN in D before each run.

use super::exit::Failure;
use ndarray::{Array2, ArrayView2, s};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use regemm::verify::{
    Canaries, Comparison, Distribution, Problem, Reference, ShapeError, compare,
    exact_integer_limit, exact_reference, random_matrix, random_vector, reference, rng,
};
use regemm::{
    Accumulator, Activation, BiasAxis, Device, Dtype, Element, Error, Gemm, KernelChoice,
    KernelInfo, Matrix, MatrixView, Vector,
};
use std::fmt;
use std::ops::Range;

/// A random problem.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed of the whole run.
    pub seed: u64,
    /// Its number in the run.
    pub index: u64,
    /// Element type of all matrices.
    pub dtype: Dtype,
    m: usize,
    n: usize,
    k: usize,
    alpha: f64,
    beta: f64,
    addend: Addend,
    bias: BiasAxis,
    activation: Activation,
    slope: f64,
    elements: Elements,
    /// Unused elements before and after each row of A, B, C and D.
    gaps: [(usize, usize); 4],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Addend {
    None,
    Matrix,
    /// C and D are one matrix.
    Same,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Elements {
    Normal,
    Uniform,
    /// Small integers, so that every result is exact.
    Integers,
    /// Normal, with some NaN and infinities.
    WithNonFinite,
}

/// What a kernel made of a case.
pub struct Outcome {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// The comparison with the reference; none where the kernel did not finish.
    pub comparison: Option<Comparison>,
    /// What is wrong, if anything.
    pub fault: Option<String>,
}

/// Tile sizes of kernels: sizes next to them meet the edges of tiles.
const EDGES: [usize; 5] = [8, 16, 32, 64, 128];

/// Rows of canaries above and below D.
const MARGIN: usize = 2;

/// The widest gap beside a row.
const WIDEST_GAP: usize = 9;

impl Case {
    /// Draws a case.
    pub fn draw(seed: u64, index: u64, dtypes: &[Dtype], max_size: usize) -> Option<Case> {
        let rng = &mut rng(seed, 2 * index);
        let dtype = *dtypes.choose(rng)?;
        let [m, n, k] = std::array::from_fn(|_| draw_size(rng, max_size));
        let weighted = [
            Elements::Normal,
            Elements::Normal,
            Elements::Uniform,
            Elements::Integers,
            Elements::WithNonFinite,
        ];
        let elements = *weighted.choose(rng)?;
        let exact = elements == Elements::Integers;
        let factors: &[f64] = if exact {
            &[1.0, 1.0, 0.0, -1.0, 2.0]
        } else {
            &[1.0, 1.0, 0.0, -1.0, 0.5, -1.75, 1e-3]
        };
        let activations: &[Activation] =
            if exact { &[Activation::None, Activation::Relu] } else { &Activation::ALL };
        Some(Case {
            seed,
            index,
            dtype,
            m,
            n,
            k,
            alpha: *factors.choose(rng)?,
            beta: *factors.choose(rng)?,
            addend: *[Addend::None, Addend::Matrix, Addend::Same].choose(rng)?,
            bias: *[BiasAxis::None, BiasAxis::Column, BiasAxis::Row].choose(rng)?,
            activation: *activations.choose(rng)?,
            slope: *[0.01, 0.25, -0.5, 2.0].choose(rng)?,
            elements,
            gaps: std::array::from_fn(|_| draw_gap(rng)),
        })
    }

    /// Runs kernels of the case's element type on it.
    ///
    /// # Errors
    /// A failure of the device. What the simulator finds wrong with a kernel is an outcome.
    pub fn run<T: Element>(
        &self,
        device: &Device,
        kernels: &[&'static KernelInfo],
    ) -> Result<Vec<Outcome>, Failure> {
        let host = HostOperands::<T>::draw(self);
        let problem = host.problem(self);
        let misfit = |error: ShapeError| Failure::Usage(error.to_string());
        let expected = match exact_reference(&problem).map_err(misfit)? {
            Some(exact) => exact,
            None => reference(&problem).map_err(misfit)?,
        };
        let operands = DeviceOperands::upload(device, &host, &self.gaps)?;
        kernels
            .iter()
            .map(|&kernel| match self.run_kernel(kernel, &host, &operands, &expected) {
                Ok((comparison, fault)) => {
                    Ok(Outcome { kernel, comparison: Some(comparison), fault })
                }
                Err(error @ Error::Simulator(_)) => {
                    Ok(Outcome { kernel, comparison: None, fault: Some(error.to_string()) })
                }
                Err(error) => Err(error.into()),
            })
            .collect()
    }

    /// The comparison of the result, and what is wrong with it.
    fn run_kernel<T: Element>(
        &self,
        kernel: &'static KernelInfo,
        host: &HostOperands<T>,
        operands: &DeviceOperands<T>,
        expected: &Reference,
    ) -> Result<(Comparison, Option<String>), Error> {
        let constant = T::Acc::constant;
        let (left, gap) = self.gaps[3];
        let canaries = Canaries::around(self.m, self.n, MARGIN, left, gap);
        let (rows, cols) = (canaries.inside_rows.clone(), canaries.inside_cols.clone());
        let mut buffer = canaries.buffer::<T>();
        for (row, in_buffer) in rows.clone().enumerate() {
            for (col, in_row) in cols.clone().enumerate() {
                buffer[in_buffer * canaries.ld + in_row] = match &host.c {
                    Some(c) if self.addend == Addend::Same => c[(row, col)],
                    _ => nan(),
                };
            }
        }
        let DeviceOperands { a, b, c, bias, device } = operands;
        let mut d = device.upload_slice(&buffer, canaries.rows, canaries.ld, canaries.ld)?;
        let mut gemm = Gemm::new(a.view()?, b.view()?)
            .alpha(constant(self.alpha))
            .activation(self.activation)
            .leaky_slope(constant(self.slope))
            .kernel(KernelChoice::Info(kernel));
        gemm = match (self.addend, c) {
            (Addend::Matrix, Some(c)) => gemm.c(constant(self.beta), c.view()?),
            (Addend::Same, _) => gemm.accumulate(constant(self.beta)),
            _ => gemm,
        };
        gemm = match (self.bias, bias) {
            (BiasAxis::Column, Some(bias)) => gemm.bias_per_column(bias),
            (BiasAxis::Row, Some(bias)) => gemm.bias_per_row(bias),
            _ => gemm,
        };
        gemm.run(d.view_mut().slice(rows.clone(), cols.clone())?)?;

        let comparison = compare(&d.view().slice(rows, cols)?.to_array()?.view(), expected);
        let stray = canaries.check(&d.read_raw()?, false).err();
        let fault = match (&comparison.worst, stray) {
            (_, Some(stray)) => Some(stray.to_string()),
            (Some(worst), None) if comparison.mismatches > 0 => {
                Some(format!("{} elements are wrong, worst {worst}", comparison.mismatches))
            }
            _ => None,
        };
        Ok((comparison, fault))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { dtype, m, n, k, alpha, beta, .. } = self;
        write!(f, "{m} x {n} x {k} {dtype}, alpha {alpha}, ")?;
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

/// 0 and 1 sometimes, often the neighbourhood of a tile's size, else anything up to `max`.
fn draw_size(rng: &mut ChaCha8Rng, max: usize) -> usize {
    let size = match rng.random_range(0..100) {
        0..3 => 0,
        3..10 => 1,
        10..40 => {
            let edge = EDGES.choose(rng).copied().unwrap_or(1);
            edge * rng.random_range(1..=2) + rng.random_range(0..3) - 1
        }
        _ => rng.random_range(0..=max),
    };
    size.min(max)
}

/// Elements before and after each row; none of either half of the time, so that aligned rows occur.
fn draw_gap(rng: &mut ChaCha8Rng) -> (usize, usize) {
    if rng.random_bool(0.5) {
        (0, 0)
    } else {
        (rng.random_range(0..=WIDEST_GAP), rng.random_range(0..=WIDEST_GAP))
    }
}

/// The operands on the host.
struct HostOperands<T> {
    a: Array2<T>,
    b: Array2<T>,
    c: Option<Array2<T>>,
    bias: Option<Vec<T>>,
}

impl<T: Element> HostOperands<T> {
    fn draw(case: &Case) -> Self {
        let rng = &mut rng(case.seed, 2 * case.index + 1);
        let &Case { m, n, k, elements, .. } = case;
        let distribution = match elements {
            Elements::Normal | Elements::WithNonFinite => Distribution::Normal,
            Elements::Uniform => Distribution::Uniform,
            Elements::Integers => Distribution::Integers { limit: exact_integer_limit::<T>(k) },
        };
        // Where a factor is zero its operand must not be read: NaN shows if it is.
        let mut matrix = |rows, cols, factor: f64| {
            let mut matrix = random_matrix(rng, rows, cols, distribution);
            if factor == 0.0 {
                matrix.fill(nan());
            } else if elements == Elements::WithNonFinite && !matrix.is_empty() {
                let place = (rng.random_range(0..rows), rng.random_range(0..cols));
                let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                let special = special.choose(rng).copied().unwrap_or(f64::NAN);
                matrix[place] = T::narrow(T::Acc::constant(special));
            }
            matrix
        };
        let a = matrix(m, k, case.alpha);
        let b = matrix(k, n, case.alpha);
        let c = (case.addend != Addend::None).then(|| matrix(m, n, case.beta));
        let bias = match case.bias {
            BiasAxis::None => None,
            BiasAxis::Column => Some(random_vector(rng, n, distribution)),
            BiasAxis::Row => Some(random_vector(rng, m, distribution)),
        };
        HostOperands { a, b, c, bias }
    }

    fn problem(&self, case: &Case) -> Problem<'_, T> {
        let exactly = |value: f64| T::Acc::constant(value).to_f64();
        Problem {
            c: self.c.as_ref().map(|c| c.view()),
            bias: self.bias.as_ref().map(|bias| (case.bias, bias.as_slice())),
            alpha: exactly(case.alpha),
            beta: exactly(case.beta),
            activation: case.activation,
            slope: exactly(case.slope),
            ..Problem::product(self.a.view(), self.b.view())
        }
    }
}

/// The operands on the device.
struct DeviceOperands<'d, T> {
    device: &'d Device,
    a: Framed<T>,
    b: Framed<T>,
    c: Option<Framed<T>>,
    bias: Option<Vector<T>>,
}

impl<'d, T: Element> DeviceOperands<'d, T> {
    fn upload(
        device: &'d Device,
        host: &HostOperands<T>,
        gaps: &[(usize, usize); 4],
    ) -> Result<Self, Error> {
        Ok(DeviceOperands {
            device,
            a: Framed::upload(device, &host.a.view(), gaps[0])?,
            b: Framed::upload(device, &host.b.view(), gaps[1])?,
            c: match &host.c {
                Some(c) => Some(Framed::upload(device, &c.view(), gaps[2])?),
                None => None,
            },
            bias: host.bias.as_ref().map(|bias| device.vector(bias)).transpose()?,
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
    ) -> Result<Self, Error> {
        let (rows, cols) = array.dim();
        let cols = left..left + cols;
        let mut framed = Array2::from_elem((rows, cols.end + gap), nan());
        framed.slice_mut(s![.., cols.clone()]).assign(array);
        Ok(Framed { matrix: device.upload(&framed.view())?, cols })
    }

    fn view(&self) -> Result<MatrixView<'_, T>, Error> {
        self.matrix.view().slice(0..self.matrix.rows(), self.cols.clone())
    }
}

fn nan<T: Element>() -> T {
    T::narrow(T::Acc::constant(f64::NAN))
}
