//! The product on a device, and its verification.

use super::{Arguments, VERIFY_SEED};
use crate::command::exit::Failure;
use crate::command::operands::{Matrices, Operands};
use crate::command::progress;
use ndarray::{Array3, Axis as ArrayAxis};
use regemm::verify::{Problem, Verification, check_batch, check_room_to_verify};
use regemm::{
    Accumulator, Batch, BiasAxis, Device, Element, Factor, Gemm, KernelChoice, Layouts, Matrix,
    Report, Term, Yields,
};
use std::time::Instant;

/// An operand on a device.
enum Held<T> {
    Matrix(Matrix<T>),
    Batch(Batch<T>),
}

impl<T: Element> Held<T> {
    fn upload(device: &Device, matrices: &Matrices<T>) -> regemm::Result<Self> {
        Ok(if matrices.batch {
            Held::Batch(device.upload_batch(&matrices.array.view())?)
        } else {
            Held::Matrix(device.upload(&matrices.of_product(0))?)
        })
    }

    fn term(&self) -> Term<'_, T> {
        match self {
            Held::Matrix(matrix) => matrix.into(),
            Held::Batch(batch) => batch.into(),
        }
    }
}

/// What a product comes to.
pub(super) struct Computed<D> {
    /// All D.
    pub d: Array3<D>,
    /// What the library reports.
    pub report: Report,
    /// None on the simulator.
    pub times: Option<Times>,
}

/// Seconds that a product takes by the host's clock, from its launch to its end.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// The first time, when the driver loads the kernel or even compiles it, which mostly takes longer than the
    /// product.
    pub first: f64,
    /// What it takes in a program that goes on.
    pub once_loaded: f64,
}

/// Runs a product, on a GPU twice: that tells how much of the first time was the product's. D is the same after both.
fn run(
    device: &Device,
    mut run: impl FnMut() -> regemm::Result<Report>,
) -> regemm::Result<(Report, Option<Times>)> {
    let start = Instant::now();
    let report = run()?;
    let first = start.elapsed().as_secs_f64();
    if device.is_sim() {
        return Ok((report, None));
    }
    let start = Instant::now();
    run()?;
    Ok((report, Some(Times { first, once_loaded: start.elapsed().as_secs_f64() })))
}

/// Computes D.
pub(super) fn compute<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    arguments: &Arguments,
    operands: &Operands<T, D>,
    device: &Device,
) -> Result<Computed<D>, Failure> {
    let spinner = progress::spinner("multiplying");
    let constant = T::Acc::constant;
    let a = Held::upload(device, &operands.a)?;
    let b = Held::upload(device, &operands.b)?;
    let c = operands.c.as_ref().map(|c| Held::upload(device, c)).transpose()?;
    let bias = match &operands.bias {
        Some((axis, bias)) => Some((*axis, Held::upload(device, bias)?)),
        None => None,
    };
    let (m, n, _) = operands.shape;
    let Layouts { a: layout_a, b: layout_b } = operands.layouts;
    let (a, b) = (Factor::stored(a.term(), layout_a), Factor::stored(b.term(), layout_b));
    let mut gemm = Gemm::widening(a, b)
        .alpha(constant(arguments.alpha))
        .activation(arguments.activation)
        .leaky_slope(constant(arguments.slope()));
    if let Some(c) = &c {
        gemm = gemm.c(constant(arguments.beta), c.term());
    }
    gemm = match &bias {
        Some((BiasAxis::Column, bias)) => gemm.bias_per_column(bias.term()),
        Some((BiasAxis::Row, bias)) => gemm.bias_per_row(bias.term()),
        _ => gemm,
    };
    gemm = gemm.precision(arguments.precision);
    if let Some(name) = &arguments.kernel {
        gemm = gemm.kernel(KernelChoice::Named(name.clone()));
    }
    let (d, (report, times)) = match operands.count {
        Some(count) => {
            let mut d = device.batch::<D>(count, m, n)?;
            let done = run(device, || gemm.clone().run(&mut d))?;
            (d.to_array()?, done)
        }
        None => {
            let mut d = device.matrix::<D>(m, n)?;
            let done = run(device, || gemm.clone().run(&mut d))?;
            (d.to_array()?.insert_axis(ArrayAxis(0)), done)
        }
    };
    spinner.finish_and_clear();
    Ok(Computed { d, report, times })
}

pub(super) fn verify<T: Element, D: Element>(
    arguments: &Arguments,
    operands: &Operands<T, D>,
    d: &Array3<D>,
) -> Result<Verification, Failure> {
    check_room_to_verify(T::DTYPE, operands.shape)?;
    let spinner = progress::spinner("verifying");
    let exactly = |value: f64| T::Acc::constant(value).to_f64();
    let Layouts { a: layout_a, b: layout_b } = operands.layouts;
    let problem = |index: usize| Problem {
        c: operands.c.as_ref().map(|c| c.of_product(index)),
        bias: operands.bias.as_ref().and_then(|(axis, bias)| {
            // One row without gaps.
            Some((*axis, bias.of_product(index).to_slice()?))
        }),
        alpha: exactly(arguments.alpha),
        beta: exactly(arguments.beta),
        activation: arguments.activation,
        slope: exactly(arguments.slope()),
        precision: arguments.precision,
        ..Problem::of_factors(
            operands.a.factor(index, layout_a),
            operands.b.factor(index, layout_b),
        )
    };
    let problems: Vec<_> = (0..d.dim().0).map(problem).collect();
    // The shapes fit: the product has been computed.
    let verification = check_batch(&problems, &d.view(), VERIFY_SEED)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    spinner.finish_and_clear();
    Ok(verification)
}
