//! One product with everything that can vary about it: drawn, run on a device and checked.

use crate::machine::Machine;
use ndarray::{Array2, ArrayView2};
use rand::rngs::ChaCha8Rng;
use regemm::verify::{
    Canaries, Distribution, Problem, compare, exact_reference, random_matrix, random_vector,
    reference, rng,
};
use regemm::{
    Accumulator, Activation, BiasAxis, Device, Element, Gemm, KernelChoice, KernelInfo, Matrix,
    MatrixView, Vector, ndarray,
};

/// An element whose bits can be compared.
pub trait TestElement: Element {
    fn bits(self) -> u64;
}

macro_rules! test_element {
    ($($t:ty),*) => {$(
        impl TestElement for $t {
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )*};
}
test_element!(f32, f64, regemm::f16, regemm::bf16);

/// Where C comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addend {
    None,
    Separate,
    /// C is D.
    InPlace,
}

/// A product. All matrices are cut out of larger ones: `left` elements from the start of a row and with `gap` elements
/// at its end, which decides whether rows are aligned.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub left: usize,
    pub gap: usize,
    pub alpha: f64,
    pub beta: f64,
    pub addend: Addend,
    pub bias: BiasAxis,
    pub activation: Activation,
    pub slope: f64,
    pub values: Distribution,
    pub seed: u64,
}

impl Case {
    /// The plain product of two packed normal matrices.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Case {
            m,
            n,
            k,
            left: 0,
            gap: 0,
            alpha: 1.0,
            beta: 0.0,
            addend: Addend::None,
            bias: BiasAxis::None,
            activation: Activation::None,
            slope: 0.01,
            values: Distribution::Normal,
            seed: (m * 1_000_000 + n * 1_000 + k) as u64,
        }
    }

    /// Runs the case and checks every element, the canaries around D, and that operands were left alone.
    pub fn check<T: TestElement>(
        &self,
        machine: &Machine,
        kernel: &'static KernelInfo,
    ) -> Result<Array2<T>, String> {
        self.run_and_check(Operands::draw(self), machine, kernel)
    }

    /// As [`check`](Self::check), after a change to the operands, which is given NaN for its use.
    pub fn check_with<T: TestElement>(
        &self,
        machine: &Machine,
        kernel: &'static KernelInfo,
        change: impl FnOnce(&mut Operands<T>, T),
    ) -> Result<(), String> {
        let mut operands = Operands::draw(self);
        change(&mut operands, nan());
        self.run_and_check(operands, machine, kernel).map(drop)
    }

    fn run_and_check<T: TestElement>(
        &self,
        operands: Operands<T>,
        machine: &Machine,
        kernel: &'static KernelInfo,
    ) -> Result<Array2<T>, String> {
        let d = operands
            .run(self, &machine.device, kernel)
            .map_err(|why| format!("{self:?}: {why}"))?;
        let problem = operands.problem(self);
        let describe = |comparison: regemm::verify::Comparison| {
            if comparison.pass() { Ok(()) } else { Err(format!("{self:?}: {comparison:?}")) }
        };
        if matches!(self.values, Distribution::Integers { .. })
            && let Some(exact) = exact_reference(&problem).map_err(|error| error.to_string())?
        {
            describe(compare(&d.view(), &exact))?;
        } else {
            let reference = reference(&problem).map_err(|error| error.to_string())?;
            describe(compare(&d.view(), &reference))?;
        }
        Ok(d)
    }

    /// As [`check`](Self::check), giving bits: products that must be the same to the last one.
    pub fn bits<T: TestElement>(
        &self,
        machine: &Machine,
        kernel: &'static KernelInfo,
    ) -> Result<Vec<u64>, String> {
        Ok(self.check::<T>(machine, kernel)?.iter().map(|x| x.bits()).collect())
    }
}

/// The operands of a case on the host.
pub struct Operands<T> {
    pub a: Array2<T>,
    pub b: Array2<T>,
    pub c: Array2<T>,
    pub bias: Vec<T>,
}

impl<T: TestElement> Operands<T> {
    pub fn draw(case: &Case) -> Self {
        let mut rng: ChaCha8Rng = rng(case.seed, 0);
        let mut matrix = |rows, cols| random_matrix(&mut rng, rows, cols, case.values);
        let (a, b, c) = (matrix(case.m, case.k), matrix(case.k, case.n), matrix(case.m, case.n));
        let len = match case.bias {
            BiasAxis::None => 0,
            BiasAxis::Column => case.n,
            BiasAxis::Row => case.m,
        };
        Operands { a, b, c, bias: random_vector(&mut rng, len, case.values) }
    }

    pub fn problem(&self, case: &Case) -> Problem<'_, T> {
        Problem {
            c: (case.addend != Addend::None).then(|| self.c.view()),
            bias: (case.bias != BiasAxis::None).then_some((case.bias, &self.bias[..])),
            alpha: round::<T>(case.alpha).to_f64(),
            beta: round::<T>(case.beta).to_f64(),
            activation: case.activation,
            slope: round::<T>(case.slope).to_f64(),
            ..Problem::product(self.a.view(), self.b.view())
        }
    }

    /// Computes D on a device, in the middle of canaries.
    pub fn run(
        &self,
        case: &Case,
        device: &Device,
        kernel: &'static KernelInfo,
    ) -> Result<Array2<T>, String> {
        let text = |error: regemm::Error| error.to_string();
        let place = |rows, cols| Canaries::around(rows, cols, 1, case.left, case.gap);
        let upload = |array: &Array2<T>| framed(device, array.view(), &place).map_err(text);
        let a = upload(&self.a)?;
        let b = upload(&self.b)?;
        let c = upload(&self.c)?;
        let bias: Vector<T> = device.vector(&self.bias).map_err(text)?;

        let around_d = place(case.m, case.n);
        let mut buffer = around_d.buffer::<T>();
        if case.addend == Addend::InPlace {
            fill_inside(&mut buffer, &around_d, self.c.view());
        }
        let mut d =
            device.upload_slice(&buffer, around_d.rows, around_d.ld, around_d.ld).map_err(text)?;

        let mut gemm = Gemm::new(a.view().map_err(text)?, b.view().map_err(text)?)
            .alpha(round::<T>(case.alpha))
            .activation(case.activation)
            .leaky_slope(round::<T>(case.slope))
            .kernel(KernelChoice::Info(kernel));
        gemm = match case.addend {
            Addend::None => gemm,
            Addend::Separate => gemm.c(round::<T>(case.beta), c.view().map_err(text)?),
            Addend::InPlace => gemm.accumulate(round::<T>(case.beta)),
        };
        gemm = match case.bias {
            BiasAxis::None => gemm,
            BiasAxis::Column => gemm.bias_per_column(&bias),
            BiasAxis::Row => gemm.bias_per_row(&bias),
        };
        let target = d
            .view_mut()
            .slice(around_d.inside_rows.clone(), around_d.inside_cols.clone())
            .map_err(text)?;
        gemm.run(target).map_err(text)?;

        let after = d.read_raw().map_err(text)?;
        around_d
            .check(&after, case.addend != Addend::InPlace)
            .map_err(|fault| fault.to_string())?;
        for (operand, name) in [(&a, "A"), (&b, "B"), (&c, "C")] {
            let now = operand.matrix.read_raw().map_err(text)?;
            if now.iter().zip(&operand.before).any(|(x, y)| x.bits() != y.bits()) {
                return Err(format!("{name} was changed"));
            }
        }
        Ok(Array2::from_shape_fn((case.m, case.n), |(row, col)| {
            after[(around_d.inside_rows.start + row) * around_d.ld
                + around_d.inside_cols.start
                + col]
        }))
    }
}

/// An operand inside of canaries, which a kernel must neither read nor write.
struct Framed<T> {
    canaries: Canaries,
    before: Vec<T>,
    matrix: Matrix<T>,
}

impl<T: Element> Framed<T> {
    fn view(&self) -> regemm::Result<MatrixView<'_, T>> {
        let Canaries { inside_rows, inside_cols, .. } = self.canaries.clone();
        self.matrix.view().slice(inside_rows, inside_cols)
    }
}

fn framed<T: TestElement>(
    device: &Device,
    array: ArrayView2<'_, T>,
    place: &impl Fn(usize, usize) -> Canaries,
) -> regemm::Result<Framed<T>> {
    let canaries = place(array.nrows(), array.ncols());
    // NaN all around: whatever a kernel reads by mistake shows in the result.
    let mut before = vec![nan::<T>(); canaries.rows * canaries.ld];
    fill_inside(&mut before, &canaries, array);
    let matrix = device.upload_slice(&before, canaries.rows, canaries.ld, canaries.ld)?;
    Ok(Framed { canaries, before, matrix })
}

fn fill_inside<T: Copy>(buffer: &mut [T], canaries: &Canaries, array: ArrayView2<'_, T>) {
    for (row, values) in canaries.inside_rows.clone().zip(array.rows()) {
        for (col, &value) in canaries.inside_cols.clone().zip(values) {
            buffer[row * canaries.ld + col] = value;
        }
    }
}

/// A factor as the accumulator's type holds it.
fn round<T: Element>(value: f64) -> T::Acc {
    T::Acc::constant(value)
}

fn nan<T: Element>() -> T {
    T::narrow(T::Acc::constant(f64::NAN))
}
