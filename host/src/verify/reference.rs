//! The exact result in double precision, and how far each element of a correct result may be from it.

use super::bound::Precision;
use super::element_rule::ElementRule;
use super::problem::{Problem, ShapeError, widen};
use super::sums::{SumError, exact_sums};
use ndarray::{Array2, Zip};
use regemm_kernels::activation::Activation;
use regemm_kernels::element::{Accumulator, Dtype, Element};

/// What each element of D must be, and by how much it may differ.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The exact result before it is rounded to the element type. NaN and infinities are what must come out.
    pub value: Array2<f64>,
    /// The largest error of a correct result. Infinite where nothing can be said because a sum may overflow on the way.
    pub bound: Array2<f64>,
}

/// The exact result with the bound of each element.
///
/// Elements with NaN or an infinity among their operands follow IEEE 754: the result must be of the same class (NaN, or
/// infinity of the same sign). Where finite operands can overflow the accumulator, the result must be infinite if that
/// is certain whatever the roundings, and is otherwise left undecided (bound infinite).
///
/// # Errors
/// Where the shapes of the operands do not fit together.
pub fn reference<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
) -> Result<Reference, ShapeError> {
    let (m, n, _) = problem.shape()?;
    let k = problem.depth();
    let a = problem.a.mapv(widen);
    let b = problem.b.mapv(widen);
    let not_finite = NotFinite::of(&a, &b);
    let (mut value, mut bound, own) = if k == 0 {
        (Array2::zeros((m, n)), Array2::zeros((m, n)), SumError::Exact)
    } else {
        let (sums, own) = exact_sums(T::DTYPE, &a, &b);
        (sums, a.mapv_into(f64::abs).dot(&b.mapv_into(f64::abs)), own)
    };
    let element = ElementRule { problem, k, own };
    Zip::indexed(&mut value).and(&mut bound).for_each(|(row, col), value, bound| {
        let finite = k == 0 || !(not_finite.rows[row] || not_finite.cols[col]);
        (*value, *bound) = element.value_and_bound(row, col, *value, *bound, finite);
    });
    Ok(Reference { value, bound })
}

/// The result rounded to the element type, with a bound of zero, for integer-valued problems: every operand, `alpha` and
/// `beta` are integers, the activation keeps integers, and all partial sums are exact in the accumulator. `None` where
/// the problem is not of that kind.
///
/// # Errors
/// Where the shapes of the operands do not fit together.
pub fn exact_reference<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
) -> Result<Option<Reference>, ShapeError> {
    let (_, _, k) = problem.shape()?;
    // Operands that are not read may hold anything.
    let factors_read = problem.alpha != 0.0;
    let c_read = problem.beta != 0.0;
    let largest = (
        largest_integer(problem.a.iter().filter(|_| factors_read)),
        largest_integer(problem.b.iter().filter(|_| factors_read)),
        largest_integer(problem.c.iter().flatten().filter(|_| c_read)),
        largest_integer(problem.bias.iter().flat_map(|(_, bias)| bias.iter())),
    );
    let (Some(a), Some(b), Some(c), Some(bias)) = largest else { return Ok(None) };
    let factors = problem.alpha.fract() == 0.0 && problem.beta.fract() == 0.0;
    let kept = matches!(problem.activation, Activation::None | Activation::Relu);
    let sums = k as f64 * a * b;
    let all = problem.alpha.abs() * sums + problem.beta.abs() * c + bias;
    let limit = 1.0 / Precision::of_sums(T::DTYPE).unit_roundoff;
    // What a precision of f32 rounds factors to is exact up to some integer.
    let whole = T::DTYPE != Dtype::F32 || a.max(b) <= problem.precision.largest_integer();
    if !(factors && kept && whole && sums <= limit && all <= limit) {
        return Ok(None);
    }
    let Reference { mut value, mut bound } = reference(problem)?;
    value.mapv_inplace(|v| widen(D::narrow(D::Acc::constant(v))));
    bound.fill(0.0);
    Ok(Some(Reference { value, bound }))
}

/// The largest magnitude of values that are all integers.
fn largest_integer<'v, T: Element>(mut values: impl Iterator<Item = &'v T>) -> Option<f64> {
    values.try_fold(0.0_f64, |largest, &v| {
        let v = widen(v);
        (v.is_finite() && v.fract() == 0.0).then(|| largest.max(v.abs()))
    })
}

/// Rows of A and columns of B that hold NaN or an infinity.
struct NotFinite {
    rows: Vec<bool>,
    cols: Vec<bool>,
}

impl NotFinite {
    fn of(a: &Array2<f64>, b: &Array2<f64>) -> Self {
        let rows = a.rows().into_iter().map(|row| row.iter().any(|v| !v.is_finite())).collect();
        let mut cols = vec![false; b.ncols()];
        for ((_, col), v) in b.indexed_iter() {
            cols[col] |= !v.is_finite();
        }
        NotFinite { rows, cols }
    }
}
