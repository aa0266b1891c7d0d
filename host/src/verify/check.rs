//! Chooses how to check a product by its size, and judges any number of results of one problem.

use super::compare::{Comparison, compare};
use super::freivalds::{Freivalds, FreivaldsResult};
use super::inputs::rng;
use super::problem::{Problem, ShapeError, widen};
use super::reference::{Reference, reference};
use ndarray::{Array2, ArrayView2, ArrayView3, Axis};
use rand::seq::index::sample;
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::epilogue::BiasAxis;
use serde::Serialize;
use std::collections::BTreeSet;
use std::thread;

/// How a result is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Every element against its reference.
    Full,
    /// Sampled rows and columns against their reference, and Freivalds' test on the whole where it applies.
    Sampled,
}

/// Multiply-adds up to which every element gets a reference, which then takes about a second. The pairs of doubles that
/// f64 needs cost ten times as much.
const FULL_LIMIT: usize = 1 << 30;
const FULL_LIMIT_F64: usize = 1 << 27;

/// Rows and columns to sample, of which the first and the last are always two.
const SAMPLES: usize = 16;

/// A problem together with what its results must be.
pub struct Expectation<'a, T, D = T> {
    problem: Problem<'a, T, D>,
    seed: u64,
    kind: Kind,
}

enum Kind {
    Full(Reference),
    Sampled(Box<Sampled>),
}

struct Sampled {
    rows: Vec<usize>,
    row_reference: Reference,
    cols: Vec<usize>,
    col_reference: Reference,
    freivalds: Option<Freivalds>,
}

/// The judgement of one result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// How it was checked.
    pub method: Method,
    /// The comparison of the elements that have a reference: all, or those of sampled rows and columns (elements of
    /// both count twice).
    pub comparison: Comparison,
    /// The test of the whole, where the method is [`Method::Sampled`] and the test applies.
    pub freivalds: Option<FreivaldsResult>,
}

impl Verification {
    /// Whether the result is right as far as the method can tell.
    pub fn pass(&self) -> bool {
        self.comparison.pass() && self.freivalds.as_ref().is_none_or(FreivaldsResult::pass)
    }
}

/// Checks the results of a batch, `count x m x n`, each against its own problem, with the method that suits the size of
/// them all; `seed` draws the samples and the vectors. Rows are counted as if the results lay below each other.
///
/// # Errors
/// Where the shapes of the operands and results do not fit together, or there are not as many problems as results.
pub fn check_batch<T: Element, D: Element>(
    problems: &[Problem<'_, T, D>],
    d: &ArrayView3<'_, D>,
    seed: u64,
) -> Result<Verification, ShapeError> {
    let (results, needed) = (d.dim().0, problems.len());
    if results != needed {
        return Err(ShapeError::of_batch(problems.first(), results, needed));
    }
    let work = problems.iter().try_fold(0, |work: usize, problem| {
        let (m, n, k) = problem.shape()?;
        Ok(work.saturating_add(m.saturating_mul(n).saturating_mul(k)))
    })?;
    let method = Method::for_work(T::DTYPE, work);
    let mut whole = Verification { method, comparison: Comparison::default(), freivalds: None };
    for (index, (problem, d)) in problems.iter().zip(d.outer_iter()).enumerate() {
        let found = Expectation::with_method(*problem, seed, method)?.check(&d)?;
        let rows: Vec<usize> = (0..d.nrows()).map(|row| index * d.nrows() + row).collect();
        whole.comparison.merge(found.comparison.at(&rows, Axis(0)));
        match (&mut whole.freivalds, found.freivalds.map(|found| found.at(&rows))) {
            (Some(freivalds), Some(found)) => freivalds.merge(&found),
            (_, None) => {}
            (none, found) => *none = found,
        }
    }
    Ok(whole)
}

impl Method {
    /// The method that suits so many multiply-adds.
    pub(super) fn for_work(dtype: Dtype, work: usize) -> Method {
        let limit = if dtype == Dtype::F64 { FULL_LIMIT_F64 } else { FULL_LIMIT };
        if work <= limit { Method::Full } else { Method::Sampled }
    }
}

impl<'a, T: Element, D: Element> Expectation<'a, T, D> {
    /// Prepares the check, with the method that suits the size; `seed` draws the samples and the vectors.
    ///
    /// # Errors
    /// Where the shapes of the operands do not fit together.
    pub fn new(problem: Problem<'a, T, D>, seed: u64) -> Result<Self, ShapeError> {
        let (m, n, k) = problem.shape()?;
        let work = m.saturating_mul(n).saturating_mul(k);
        Self::with_method(problem, seed, Method::for_work(T::DTYPE, work))
    }

    /// Prepares the check with this method.
    ///
    /// # Errors
    /// Where the shapes of the operands do not fit together.
    pub fn with_method(
        problem: Problem<'a, T, D>,
        seed: u64,
        method: Method,
    ) -> Result<Self, ShapeError> {
        let (m, n, _) = problem.shape()?;
        let kind = match method {
            Method::Full => Kind::Full(reference(&problem)?),
            Method::Sampled => {
                let rows = sample_with_ends(m, seed, 0);
                let cols = sample_with_ends(n, seed, 1);
                // Three passes over operands that may be large, each on one core.
                let (row_reference, col_reference, freivalds) = thread::scope(|scope| {
                    let by_row = scope.spawn(|| reference_of_rows(&problem, &rows));
                    let by_col = scope.spawn(|| reference_of_cols(&problem, &cols));
                    let freivalds = Freivalds::new(&problem, seed);
                    (joined(by_row), joined(by_col), freivalds)
                });
                let (row_reference, col_reference) = (row_reference?, col_reference?);
                let freivalds = freivalds?;
                Kind::Sampled(Box::new(Sampled {
                    rows,
                    row_reference,
                    cols,
                    col_reference,
                    freivalds,
                }))
            }
        };
        Ok(Expectation { problem, seed, kind })
    }

    /// How results are checked.
    pub fn method(&self) -> Method {
        match self.kind {
            Kind::Full(_) => Method::Full,
            Kind::Sampled(_) => Method::Sampled,
        }
    }

    /// The seed that drew samples and vectors.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Judges a result.
    ///
    /// # Errors
    /// Where the result has another shape than the problem.
    pub fn check(&self, d: &ArrayView2<'_, D>) -> Result<Verification, ShapeError> {
        self.problem.check_result(d)?;
        match &self.kind {
            Kind::Full(reference) => Ok(Verification {
                method: Method::Full,
                comparison: compare(d, reference),
                freivalds: None,
            }),
            Kind::Sampled(sampled) => self.check_sampled(sampled, d),
        }
    }

    fn check_sampled(
        &self,
        sampled: &Sampled,
        d: &ArrayView2<'_, D>,
    ) -> Result<Verification, ShapeError> {
        let mut comparison =
            compare(&d.select(Axis(0), &sampled.rows).view(), &sampled.row_reference)
                .at(&sampled.rows, Axis(0));
        comparison.merge(
            compare(&d.select(Axis(1), &sampled.cols).view(), &sampled.col_reference)
                .at(&sampled.cols, Axis(1)),
        );
        let mut freivalds = None;
        if let Some(test) = &sampled.freivalds {
            // A residual says nothing where D holds NaN or an infinity, which may be right (f16 overflows at 65,520):
            // such rows are compared element by element instead.
            let rows: Vec<usize> = (0..d.nrows())
                .filter(|&row| d.row(row).iter().any(|&v| !widen(v).is_finite()))
                .collect();
            if !rows.is_empty() {
                let reference = reference_of_rows(&self.problem, &rows)?;
                comparison.merge(
                    compare(&d.select(Axis(0), &rows).view(), &reference).at(&rows, Axis(0)),
                );
            }
            freivalds = Some(test.check_except(d, &rows));
        }
        Ok(Verification { method: Method::Sampled, comparison, freivalds })
    }
}

/// What a thread gave; its panic goes on here.
fn joined<R>(thread: thread::ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// [`SAMPLES`] different indices below `len` in ascending order, the first and the last among them: faults at the edges
/// of tiles show there.
fn sample_with_ends(len: usize, seed: u64, stream: u64) -> Vec<usize> {
    let mut picked: BTreeSet<usize> =
        sample(&mut rng(seed, stream), len, SAMPLES.saturating_sub(2).min(len))
            .into_iter()
            .collect();
    if let Some(last) = len.checked_sub(1) {
        picked.extend([0, last]);
    }
    picked.into_iter().collect()
}

fn reference_of_rows<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
    rows: &[usize],
) -> Result<Reference, ShapeError> {
    part(problem, Axis(0), rows, BiasAxis::Row)
}

fn reference_of_cols<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
    cols: &[usize],
) -> Result<Reference, ShapeError> {
    part(problem, Axis(1), cols, BiasAxis::Column)
}

/// The reference of some rows or columns of D. `along` is the axis of a bias that has to be cut with them.
fn part<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
    axis: Axis,
    picked: &[usize],
    along: BiasAxis,
) -> Result<Reference, ShapeError> {
    let cut: Array2<T>;
    let (mut a, mut b) = (problem.a, problem.b);
    if axis == Axis(0) {
        cut = a.select(axis, picked);
        a = cut.view();
    } else {
        cut = b.select(axis, picked);
        b = cut.view();
    }
    let c = problem.c.map(|c| c.select(axis, picked));
    let bias: Option<(BiasAxis, Vec<D>)> = problem.bias.map(|(bias_axis, bias)| {
        let bias = if bias_axis == along {
            picked.iter().map(|&i| bias[i]).collect()
        } else {
            bias.to_vec()
        };
        (bias_axis, bias)
    });
    reference(&Problem {
        a,
        b,
        c: c.as_ref().map(|c| c.view()),
        bias: bias.as_ref().map(|(axis, bias)| (*axis, bias.as_slice())),
        ..*problem
    })
}
