//! The one comparison of a result with its reference.

use super::bound::Format;
use super::problem::widen;
use super::reference::Reference;
use ndarray::{ArrayView2, Axis};
use regemm_kernels::element::Element;
use serde::{Serialize, Serializer};
use std::fmt;

/// What comparing all elements of a result showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Elements compared: all of them.
    pub elements: usize,
    /// Elements of which an error can be stated: they and their reference are finite, and decided.
    pub finite: usize,
    /// Elements that differ from the reference by more than their bound, are NaN where a number is expected or the
    /// reverse, or are the wrong infinity.
    pub mismatches: usize,
    /// Elements about which nothing can be said because finite operands may overflow on the way to them. They are not
    /// mismatches.
    pub undecided: usize,
    /// The largest `|error| / bound` of all elements; infinite where a class (NaN, infinity) is wrong or the bound is
    /// zero. A result passes with at most 1.
    #[serde(serialize_with = "serialize_float")]
    pub max_ratio: f64,
    /// The element with that ratio; `None` where no element has an error.
    pub worst: Option<Mismatch>,
    /// `||D - D_ref|| / ||D_ref||` in the Frobenius norm over the elements whose reference is finite and decided. NaN
    /// where one of them is NaN.
    #[serde(serialize_with = "serialize_float")]
    pub relative_norm_error: f64,
}

/// An element with an error, within its bound or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mismatch {
    /// Row in D.
    pub row: usize,
    /// Column in D.
    pub col: usize,
    /// The result.
    #[serde(serialize_with = "serialize_float")]
    pub got: f64,
    /// The reference before it is rounded to the element type.
    #[serde(serialize_with = "serialize_float")]
    pub expected: f64,
    /// The largest error that a correct result can have.
    #[serde(serialize_with = "serialize_float")]
    pub bound: f64,
    /// `|got - expected| / bound`.
    #[serde(serialize_with = "serialize_float")]
    pub ratio: f64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { row, col, got, expected, bound, ratio } = self;
        write!(
            f,
            "row {row}, column {col}: got {got:e}, expected {expected:e} within {bound:.3e} ({ratio:.3} of the bound)"
        )
    }
}

impl Comparison {
    /// Whether the result is right: no mismatch, and not every element undecided.
    pub fn pass(&self) -> bool {
        self.mismatches == 0 && (self.elements == 0 || self.undecided < self.elements)
    }

    /// The comparison of the picked rows (axis 0) or columns (axis 1) of a result, with places in the result itself.
    pub(super) fn at(mut self, picked: &[usize], axis: Axis) -> Self {
        if let Some(worst) = &mut self.worst {
            let place = if axis == Axis(0) { &mut worst.row } else { &mut worst.col };
            *place = picked[*place];
        }
        self
    }

    /// Whether there is an error to state: an element has one, or one is wrong, or there are no elements.
    pub fn has_error(&self) -> bool {
        self.finite > 0 || self.mismatches > 0 || self.elements == 0
    }

    /// Adds another comparison of parts of the same result. The norm error becomes the larger of the two.
    pub(super) fn merge(&mut self, other: Comparison) {
        self.elements += other.elements;
        self.finite += other.finite;
        self.mismatches += other.mismatches;
        self.undecided += other.undecided;
        if other.worst.is_some() && (self.worst.is_none() || other.max_ratio > self.max_ratio) {
            self.max_ratio = other.max_ratio;
            self.worst = other.worst;
        }
        let (ours, theirs) = (self.relative_norm_error, other.relative_norm_error);
        self.relative_norm_error =
            if ours.is_nan() || theirs.is_nan() { f64::NAN } else { ours.max(theirs) };
    }
}

/// Compares every element of a result with its reference.
///
/// A number must lie within the bound, NaN must be NaN, and an infinity must be the same one; where the bound reaches
/// the magnitude that rounds to infinity, that infinity is right too, and where the reference says so NaN is. The sign
/// of zero is not compared.
///
/// # Panics
/// Where the result and the reference differ in shape.
pub fn compare<T: Element>(d: &ArrayView2<'_, T>, reference: &Reference) -> Comparison {
    assert_eq!(d.dim(), reference.value.dim(), "the result and its reference differ in shape");
    let mut comparison = Comparison { elements: d.len(), ..Comparison::default() };
    let (mut error_norm, mut norm) = (Norm::default(), Norm::default());
    for ((row, col), &got) in d.indexed_iter() {
        let (got, expected) = (widen(got), reference.value[(row, col)]);
        let bound = reference.bound[(row, col)];
        if bound.is_infinite() {
            comparison.undecided += 1;
            continue;
        }
        let accepted_nan = got.is_nan() && reference.nan_too[(row, col)];
        let ratio = if accepted_nan { 0.0 } else { ratio::<T>(got, expected, bound) };
        comparison.finite += usize::from(got.is_finite() && expected.is_finite());
        if expected.is_finite() {
            // An infinity that rounding may give counts as no error: no finite one could be stated. So does NaN where
            // it is right.
            let accepted = accepted_nan || got.is_infinite() && ratio <= 1.0;
            error_norm.add(if accepted { 0.0 } else { got - expected });
            norm.add(expected);
        }
        let wrong = ratio > 1.0 || ratio.is_nan();
        comparison.mismatches += usize::from(wrong);
        if ratio > comparison.max_ratio || (wrong && comparison.worst.is_none()) {
            comparison.max_ratio = ratio;
            comparison.worst = Some(Mismatch { row, col, got, expected, bound, ratio });
        }
    }
    comparison.relative_norm_error = error_norm.relative_to(&norm);
    comparison
}

/// `|got - expected| / bound`: at most 1 if and only if the element is right, and never NaN.
fn ratio<T: Element>(got: f64, expected: f64, bound: f64) -> f64 {
    let right_or_wrong = |right: bool| if right { 0.0 } else { f64::INFINITY };
    if expected.is_nan() || got.is_nan() {
        return right_or_wrong(expected.is_nan() && got.is_nan());
    }
    if expected.is_infinite() {
        return right_or_wrong(got == expected);
    }
    if got.is_infinite() {
        // The bound includes the relative rounding of the conversion, as if it were exact up to here.
        let p = Format::of_elements(T::DTYPE);
        let reach = (expected * got.signum() + bound) / (1.0 + p.unit_roundoff);
        return right_or_wrong(reach >= p.overflow());
    }
    let error = (got - expected).abs();
    if error == 0.0 { 0.0 } else { error / bound }
}

/// `||got - expected|| / ||expected||` in the Frobenius norm, of as many elements; NaN where one of them is, 0 where
/// both are zero.
pub(crate) fn relative_difference(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut difference, mut norm) = (Norm::default(), Norm::default());
    for (got, expected) in pairs {
        difference.add(got - expected);
        norm.add(expected);
    }
    difference.relative_to(&norm)
}

/// A Frobenius norm whose squares cannot overflow: `scale * sqrt(sum)`.
#[derive(Clone, Copy, Debug, Default)]
struct Norm {
    scale: f64,
    sum: f64,
    not_a_number: bool,
}

impl Norm {
    fn add(&mut self, value: f64) {
        let value = value.abs();
        if value.is_nan() {
            self.not_a_number = true;
        } else if value.is_infinite() {
            (self.scale, self.sum) = (f64::INFINITY, 1.0);
        } else if value > self.scale {
            self.sum = 1.0 + self.sum * (self.scale / value).powi(2);
            self.scale = value;
        } else if value > 0.0 {
            self.sum += (value / self.scale).powi(2);
        }
    }

    /// This norm divided by another; 0 where both are 0.
    fn relative_to(&self, other: &Norm) -> f64 {
        if self.not_a_number || other.not_a_number {
            f64::NAN
        } else if self.scale == 0.0 {
            0.0
        } else {
            self.scale / other.scale * (self.sum / other.sum).sqrt()
        }
    }
}

/// A float for JSON, which has no NaN and no infinities: those become strings.
pub(super) fn serialize_float<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { s.serialize_f64(*value) } else { s.serialize_str(&value.to_string()) }
}
