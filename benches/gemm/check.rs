//! Is the result of a case right?

use ndarray::{Array2, ArrayView2, s};
use regemm::verify::{Expectation, Problem, ShapeError};
use regemm::{Activation, BiasAxis, Element, Precision, ndarray};
use regemm_report::versus::Case;
use std::num::NonZeroUsize;
use std::thread;

/// What the results of a case must be: the products of a batch one by one.
pub struct Expected<'a, T, D> {
    case: Case,
    products: Vec<Expectation<'a, T, D>>,
}

/// The judgement of a result.
pub struct Judgement {
    /// What is wrong, if anything is.
    pub wrong: Option<String>,
    /// `||D - D_ref|| / ||D_ref||`, the largest of a batch.
    pub relative_error: f64,
}

impl<'a, T: Element, D: Element> Expected<'a, T, D> {
    /// Of factors as they lie in memory, and C if there is one: see [`layout`](super::product::layout). With a bias
    /// GELU is applied.
    ///
    /// # Errors
    /// Where the shapes of the operands do not fit together.
    pub fn new(
        case: &Case,
        precision: Precision,
        (a, b, c): (&'a Array2<T>, &'a Array2<T>, Option<&'a Array2<D>>),
        bias: Option<&'a [D]>,
        seed: u64,
    ) -> Result<Self, ShapeError> {
        let products = in_parallel(case.batch, |index| {
            let a = part(a, index, case.batch, case.layouts.a_transposed());
            let b = part(b, index, case.batch, case.layouts.b_transposed());
            let mut problem = Problem { precision, ..Problem::of_factors(a, b) };
            if let Some(c) = c {
                problem.c = Some(part(c, index, case.batch, false));
                problem.beta = 1.0;
            }
            if let Some(bias) = bias {
                problem.bias = Some((BiasAxis::Column, bias));
                problem.activation = Activation::GeluTanh;
            }
            Expectation::new(problem, seed)
        });
        let products = products.into_iter().collect::<Result<_, _>>()?;
        Ok(Expected { case: *case, products })
    }

    /// Judges a result.
    ///
    /// # Errors
    /// Where the result has another shape than the case.
    pub fn check(&self, d: &Array2<D>) -> Result<Judgement, ShapeError> {
        let batch = self.case.batch;
        let verifications =
            in_parallel(batch, |index| self.products[index].check(&part(d, index, batch, false)));
        let mut judgement = Judgement { wrong: None, relative_error: 0.0 };
        for (index, verification) in verifications.into_iter().enumerate() {
            let verification = verification?;
            let error = verification.comparison.relative_norm_error;
            if error.is_nan() || error > judgement.relative_error {
                judgement.relative_error = error;
            }
            if !verification.pass() && judgement.wrong.is_none() {
                judgement.wrong = Some(format!("product {index} of {batch}: {verification:?}"));
            }
        }
        Ok(judgement)
    }
}

/// A matrix of a batch, whose matrices lie below one another.
fn part<T>(all: &Array2<T>, index: usize, batch: usize, transposed: bool) -> ArrayView2<'_, T> {
    let rows = all.nrows() / batch;
    let part = all.slice(s![index * rows..(index + 1) * rows, ..]);
    if transposed { part.reversed_axes() } else { part }
}

/// The values of a function at `0..count`, worked out by all cores.
fn in_parallel<R: Send>(count: usize, value: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let chunk = count.div_ceil(cores).max(1);
    let value = &value;
    thread::scope(|scope| {
        let starts = (0..count).step_by(chunk);
        let workers: Vec<_> = starts
            .map(|start| {
                let end = count.min(start + chunk);
                scope.spawn(move || (start..end).map(value).collect::<Vec<R>>())
            })
            .collect();
        let values = workers.into_iter().flat_map(|worker| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        values.collect()
    })
}
