//! One element's way through the device's computation: its exact value, and how far the device may be from it.

use super::bound::{self, Format};
use super::problem::{Problem, widen};
use super::sums::{Line, SumError};
use crate::precision::Precision;
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::epilogue::activation::Activation;

/// Follows one element through the device's computation.
pub(super) struct ElementRule<'p, 'a, T, D> {
    pub problem: &'p Problem<'a, T, D>,
    /// Depth of the sums that the device takes.
    pub k: usize,
    /// How the reference's sums were computed.
    pub own: SumError,
    /// Rows of A.
    pub rows: &'p [Line],
    /// Columns of B.
    pub cols: &'p [Line],
}

/// A value on its way through the computation: exact, and how far the device may be from it.
#[derive(Clone, Copy)]
struct Tracked {
    value: f64,
    error: f64,
}

impl Tracked {
    const ZERO: Tracked = Tracked { value: 0.0, error: 0.0 };
    const UNDECIDED: Tracked = Tracked { value: 0.0, error: f64::INFINITY };

    /// `factor * x + addend` where that is beyond double precision in the reference: infinite on the device too, if
    /// what it may be less by leaves that much.
    fn beyond_double(factor: f64, x: Tracked, addend: Tracked) -> Tracked {
        // By the square of this, the numbers of double precision end at 1.
        const SCALE: f64 = f64::from_bits((1023 - 512) << 52); // 2^-512
        let p = Format::DOUBLE;
        let scaled = (SCALE * factor, SCALE * x.value, SCALE * (SCALE * addend.value));
        let value = scaled.0.mul_add(scaled.1, scaled.2);
        let incoming = scaled.0.abs() * (SCALE * x.error) + SCALE * (SCALE * addend.error);
        // The device's own rounding, and the one here.
        let error = bound::fused(p, value, incoming) + bound::fused(p, value, 0.0);
        if value.abs() - error >= 1.0 {
            Tracked { value: f64::INFINITY.copysign(value), error: 0.0 }
        } else {
            Tracked::UNDECIDED
        }
    }
}

impl<T: Element, D: Element> ElementRule<'_, '_, T, D> {
    /// Value and bound of an element of D, from its sum and the sum of absolute values.
    pub(super) fn value_and_bound(
        &self,
        row: usize,
        col: usize,
        sum: f64,
        magnitude: f64,
    ) -> (f64, f64) {
        let sum = if self.is_finite(row, col) {
            self.sum(row, col, sum, magnitude)
        } else {
            // NaN or an infinity; which of them the finite products have no part in, but that those of f64 may overflow
            // in the reference, too.
            let value = if self.may_overflow(row, col) { self.of_others(row, col) } else { sum };
            Tracked { value, error: 0.0 }
        };
        let addend = self.addend(row, col);
        let mut z = if self.k == 0 { addend } else { self.combine(sum, magnitude, addend) };
        if !z.value.is_finite() {
            z.error = 0.0;
        }
        self.activate(z)
    }

    /// Whether neither A's row nor B's column holds NaN or an infinity.
    fn is_finite(&self, row: usize, col: usize) -> bool {
        !(self.rows[row].has_others || self.cols[col].has_others)
    }

    /// Whether some of the finite products of an element may overflow, each or together, by the largest that they can
    /// be.
    fn may_overflow(&self, row: usize, col: usize) -> bool {
        let (row, col) = (self.rows[row], self.cols[col]);
        let most = (row.largest * col.sum).min(row.sum * col.largest);
        self.rounded_up(most) >= Format::of_sums(T::DTYPE).overflow()
    }

    /// The most that a sum of so much may come to with the roundings of the device, and of the reference itself.
    fn rounded_up(&self, sum: f64) -> f64 {
        let roundings = bound::roundings(T::DTYPE, self.problem.precision, self.k);
        sum * (1.0 + Format::of_sums(T::DTYPE).gamma(roundings + self.k))
    }

    /// The products of an element of D, by their factors.
    fn products(&self, row: usize, col: usize) -> impl Iterator<Item = (f64, f64)> {
        let of_row = self.problem.a.row(row).into_iter();
        let factors = of_row.zip(self.problem.b.column(col));
        factors.map(|(&a, &b)| (self.problem.factor(a), self.problem.factor(b)))
    }

    /// The sum of those products that have NaN or an infinity as a factor: NaN or an infinity.
    fn of_others(&self, row: usize, col: usize) -> f64 {
        let products = self.products(row, col);
        products.filter(|(a, b)| !(a.is_finite() && b.is_finite())).map(|(a, b)| a * b).sum()
    }

    /// Whether an element of D may be NaN although by IEEE 754 the sum is infinite: where products of the other sign
    /// may overflow before, or an infinity is multiplied by an element of which nothing is left, or by a half of one.
    pub(super) fn may_be_nan(&self, row: usize, col: usize) -> bool {
        !self.is_finite(row, col) && (self.may_cancel(row, col) || self.may_lose_factor(row, col))
    }

    /// Whether the finite products may make the other infinity before the one that the sum is comes.
    fn may_cancel(&self, row: usize, col: usize) -> bool {
        if !self.may_overflow(row, col) {
            return false;
        }
        let opposite = self.opposite(row, col, self.of_others(row, col));
        self.rounded_up(opposite) >= Format::of_sums(T::DTYPE).overflow()
    }

    fn may_lose_factor(&self, row: usize, col: usize) -> bool {
        if T::DTYPE != Dtype::F32 {
            return false;
        }
        // What is no larger is rounded to zero.
        let lost = |line: Line| match self.problem.precision {
            Precision::Fast => bound::LOST_BY_ONE_HALF * line.largest,
            Precision::Tf32 => bound::LOST_BY_TF32,
            _ => f64::NAN,
        };
        let [lost_of_row, lost_of_col] = [self.rows[row], self.cols[col]].map(lost);
        self.problem.precision == Precision::Split
            || self.products(row, col).any(|(a, b)| {
                a.is_infinite() && b.abs() <= lost_of_col
                    || b.is_infinite() && a.abs() <= lost_of_row
            })
    }

    fn sum(&self, row: usize, col: usize, sum: f64, magnitude: f64) -> Tracked {
        let p = Format::of_sums(T::DTYPE);
        let double = Format::DOUBLE;
        let own = match self.own {
            SumError::Exact => 0.0,
            SumError::Plain => bound::sum(double, (self.k, self.k), magnitude),
            SumError::Compensated => {
                let gamma = double.gamma(self.k);
                double.unit_roundoff * sum.abs()
                    + gamma * gamma * magnitude
                    + self.k as f64 * double.smallest
            }
        };
        let precision = self.problem.precision;
        let roundings = bound::roundings(T::DTYPE, precision, self.k);
        let part = bound::lost_of_largest(T::DTYPE, precision);
        let error = if precision == Precision::Tf32 && T::DTYPE == Dtype::F32 {
            let (row, col) = (self.rows[row], self.cols[col]);
            let lost = bound::lost_of_each(bound::LOST_BY_TF32, self.k, row, col);
            bound::sum(p, (roundings, self.k), magnitude) + lost + own
        } else if part == 0.0 {
            bound::sum(p, (roundings, self.k), magnitude) + own
        } else {
            let lost = |part| bound::lost(part, self.k, self.rows[row], self.cols[col]);
            // High halves may be larger than what they are of by as much as they lose.
            let magnitude = magnitude + lost(bound::LOST_BY_ONE_HALF);
            bound::sum(p, (roundings, self.k), magnitude) + lost(part) + own
        };
        // The magnitude has been rounded, too, as often as it has terms.
        if magnitude * (1.0 + double.gamma(self.k)) + error < p.overflow() {
            return Tracked { value: sum, error };
        }
        // Partial sums may overflow. Where those of the other sign cannot, the end is certain: an infinity once reached
        // stays, and without one the sum itself would have to be finite.
        let opposite = self.rounded_up(self.opposite(row, col, sum));
        if opposite < p.overflow() && sum.abs() - error >= p.overflow() {
            return Tracked { value: f64::INFINITY.copysign(sum), error: 0.0 };
        }
        Tracked { value: sum, error: f64::INFINITY }
    }

    /// The sum of the absolute values of those products whose sign is not that of the whole sum.
    fn opposite(&self, row: usize, col: usize, sum: f64) -> f64 {
        let products = self.products(row, col).map(|(a, b)| a * b);
        products.map(|product| (-product * sum.signum()).max(0.0)).sum()
    }

    /// `beta * C + bias`: one fused operation on exact operands.
    fn addend(&self, row: usize, col: usize) -> Tracked {
        let Problem { beta, c, .. } = *self.problem;
        let bias = self.problem.bias_at(row, col);
        match c {
            Some(c) if beta != 0.0 => {
                let exact = beta.mul_add(widen(c[(row, col)]), bias);
                self.fused(exact, 0.0)
            }
            _ => Tracked { value: bias, error: 0.0 },
        }
    }

    /// `alpha * sum + addend`.
    fn combine(&self, sum: Tracked, magnitude: f64, addend: Tracked) -> Tracked {
        let alpha = self.problem.alpha;
        let exact = alpha.mul_add(sum.value, addend.value);
        if alpha.is_infinite() && sum.value.is_finite() && sum.value.abs() <= sum.error {
            // The sign of the sum, or that it is zero, decides; it is certain only where every product is zero.
            return if magnitude == 0.0 {
                Tracked { value: exact, error: 0.0 }
            } else {
                Tracked::UNDECIDED
            };
        }
        // An addend that may be an infinity is one of its value's sign.
        let may_be_opposite = exact.is_infinite()
            && addend.error.is_infinite()
            && addend.value.signum() != exact.signum();
        if !exact.is_finite() && sum.error.is_infinite() || may_be_opposite {
            return Tracked::UNDECIDED;
        }
        if exact.is_infinite() && [alpha, sum.value, addend.value].iter().all(|v| v.is_finite()) {
            return Tracked::beyond_double(alpha, sum, addend);
        }
        self.fused(exact, alpha.abs() * sum.error + addend.error)
    }

    /// The result of a fused operation of the device, which the reference rounds too.
    fn fused(&self, exact: f64, incoming: f64) -> Tracked {
        let p = Format::of_sums(T::DTYPE);
        if !exact.is_finite() {
            return Tracked { value: exact, error: 0.0 };
        }
        let error = bound::fused(p, exact, incoming) + bound::fused(Format::DOUBLE, exact, 0.0);
        if exact.abs() - error >= p.overflow() {
            Tracked { value: f64::INFINITY.copysign(exact), error: 0.0 }
        } else if exact.abs() + error >= p.overflow() {
            Tracked { value: exact, error: f64::INFINITY }
        } else {
            Tracked { value: exact, error }
        }
    }

    fn activate(&self, z: Tracked) -> (f64, f64) {
        let Problem { activation, slope, .. } = *self.problem;
        let value = exact_activation(activation, z.value, slope);
        // An infinite slope makes all the difference where the sign of the argument is uncertain.
        let torn = activation == Activation::LeakyRelu
            && !slope.is_finite()
            && z.error > 0.0
            && z.value.abs() <= z.error;
        if z.error.is_infinite() || torn {
            return (if value.is_finite() { value } else { 0.0 }, f64::INFINITY);
        }
        if value.is_infinite() && z.value.is_finite() && slope.is_finite() {
            let Tracked { value, error } = Tracked::beyond_double(slope, z, Tracked::ZERO);
            return (value, error);
        }
        // NaN and infinities have no error, and the limits of activations at infinity (0, 1 and -1) are exact.
        if !value.is_finite() || !z.value.is_finite() {
            return (value, 0.0);
        }
        let propagated = if z.error == 0.0 {
            0.0
        } else {
            bound::lipschitz(activation, slope, z.value, z.error) * z.error
        };
        let (x, v) = (z.value.abs() + z.error, value.abs() + propagated);
        let evaluation = |p| bound::evaluation(p, activation, z.value, x, v);
        let error = propagated
            + evaluation(Format::of_sums(T::DTYPE))
            + evaluation(Format::DOUBLE)
            + bound::approximation(D::DTYPE, activation, z.value, x, v);
        (value, bound::conversion(D::DTYPE, value, error))
    }
}

/// The activation in double precision. Written with other formulas than the kernels', so that a mistake in one of them
/// shows, and without their cancellation for negative arguments.
fn exact_activation(activation: Activation, z: f64, slope: f64) -> f64 {
    // At minus infinity the weight's zero wins, where the product would be NaN.
    let weighted = |weight: f64| if weight == 0.0 { 0.0 } else { z * weight };
    match activation {
        Activation::None => z,
        Activation::Relu if z < 0.0 => 0.0,
        Activation::Relu => z,
        Activation::LeakyRelu if z < 0.0 => slope * z,
        Activation::LeakyRelu => z,
        Activation::GeluErf => weighted(libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2) / 2.0),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (0.044715 * z.powi(3) + z);
            weighted(logistic(2.0 * inner))
        }
        Activation::Silu => weighted(logistic(z)),
        Activation::Sigmoid => logistic(z),
        Activation::Tanh => z.tanh(),
    }
}

/// `1 / (1 + e^-z)`
fn logistic(z: f64) -> f64 {
    if z < 0.0 {
        let e = z.exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + (-z).exp())
    }
}
