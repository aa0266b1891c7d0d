//! The exact result in double precision, and how far each element of a correct result may be from it.

use super::bound::Format;
use super::element_rule::ElementRule;
use super::problem::{Problem, ShapeError, widen};
use super::sums::Sums;
use ndarray::{Array2, Zip};
use regemm_kernels::element::{Accumulator, Dtype, Element};
use regemm_kernels::epilogue::activation::Activation;

/// What each element of D must be, and by how much it may differ.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The exact result before it is rounded to the element type. NaN and infinities are what must come out.
    pub value: Array2<f64>,
    /// The largest error of a correct result. Infinite where nothing can be said because a sum may overflow on the way.
    pub bound: Array2<f64>,
    /// Where a correct result may be NaN instead: because it is computed from halves, which do not multiply infinities
    /// as IEEE 754 says, or because a sum that must be infinite may have become infinite with the other sign before.
    pub nan_too: Array2<bool>,
}

/// The exact result with the bound of each element.
///
/// Elements with NaN or an infinity among their operands follow IEEE 754: the result must be of the same class (NaN, or
/// infinity of the same sign), or NaN where the precision may make that of an infinity, or products of the other sign
/// that overflow. Where finite operands can overflow the accumulator, the result must be infinite if that is certain
/// whatever the roundings, and is otherwise left undecided (bound infinite). Elements that the precision rounds to
/// infinity are infinities.
///
/// # Errors
/// Where the shapes of the operands do not fit together.
pub fn reference<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
) -> Result<Reference, ShapeError> {
    let (m, n, _) = problem.shape()?;
    let sums = if problem.depth() == 0 {
        Sums::none(m, n)
    } else {
        let [a, b] = [problem.a, problem.b].map(|matrix| matrix.mapv(|v| problem.factor(v)));
        Sums::of(T::DTYPE, a, b)
    };
    Ok(reference_from(problem, sums))
}

/// The same from the sums of the problem's factors.
pub(super) fn reference_from<T: Element, D: Element>(
    problem: &Problem<'_, T, D>,
    sums: Sums,
) -> Reference {
    let Sums { mut value, magnitude: mut bound, own, rows, cols } = sums;
    let element = ElementRule { problem, k: problem.depth(), own, rows: &rows, cols: &cols };
    Zip::indexed(&mut value).and(&mut bound).for_each(|(row, col), value, bound| {
        (*value, *bound) = element.value_and_bound(row, col, *value, *bound);
    });
    let nan_too = Array2::from_shape_fn(value.dim(), |(row, col)| element.may_be_nan(row, col));
    Reference { value, bound, nan_too }
}

/// The result rounded to the element type, with a bound of zero, for integer-valued problems: every operand, `alpha`
/// and `beta` are integers, the activation keeps integers, and all partial sums are exact in the accumulator. `None`
/// where the problem is not of that kind.
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
    let limit = 1.0 / Format::of_sums(T::DTYPE).unit_roundoff;
    // What a precision of f32 rounds factors to is exact up to some integer.
    let [of_one, of_other] = problem.precision.largest_integers();
    let whole = T::DTYPE != Dtype::F32 || (a.max(b) <= of_one && a.min(b) <= of_other);
    if !(factors && kept && whole && sums <= limit && all <= limit) {
        return Ok(None);
    }
    let Reference { mut value, mut bound, nan_too } = reference(problem)?;
    value.mapv_inplace(|v| widen(D::narrow(D::Acc::constant(v))));
    bound.fill(0.0);
    Ok(Some(Reference { value, bound, nan_too }))
}

/// The largest magnitude of values that are all integers.
fn largest_integer<'v, T: Element>(mut values: impl Iterator<Item = &'v T>) -> Option<f64> {
    values.try_fold(0.0_f64, |largest, &v| {
        let v = widen(v);
        (v.is_finite() && v.fract() == 0.0).then(|| largest.max(v.abs()))
    })
}
