//! What all tests of this folder use.

use ndarray::Array2;
use regemm::verify::{Comparison, Distribution, Problem, compare, random_matrix, reference, rng};
use regemm::{Accumulator, BiasAxis, Element};

pub const SEED: u64 = 20_240;

pub fn normal<T: Element>(stream: u64, rows: usize, cols: usize) -> Array2<T> {
    random_matrix(&mut rng(SEED, stream), rows, cols, Distribution::Normal)
}

/// A fused multiply-add on the host, whatever the accumulator.
pub trait HostFma: Accumulator {
    fn host_fma(self, b: Self, c: Self) -> Self;
}
impl HostFma for f32 {
    fn host_fma(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}
impl HostFma for f64 {
    fn host_fma(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

pub fn device_like<T: Element>(p: &Problem<'_, T>) -> Array2<T>
where
    T::Acc: HostFma,
{
    let constant = T::Acc::constant;
    let k = if p.alpha == 0.0 { 0 } else { p.a.ncols() };
    Array2::from_shape_fn((p.a.nrows(), p.b.ncols()), |(i, j)| {
        let sum = (0..k)
            .fold(T::Acc::ZERO, |sum, l| p.a[(i, l)].widen().host_fma(p.b[(l, j)].widen(), sum));
        let bias = match p.bias {
            Some((BiasAxis::Column, bias)) => bias[j].widen(),
            Some((BiasAxis::Row, bias)) => bias[i].widen(),
            _ => T::Acc::ZERO,
        };
        let addend = match p.c {
            Some(c) if p.beta != 0.0 => constant(p.beta).host_fma(c[(i, j)].widen(), bias),
            _ => bias,
        };
        let z = constant(p.alpha).host_fma(sum, addend);
        T::narrow(p.activation.apply(z, constant(p.slope)))
    })
}

pub fn verdict<T: Element>(problem: &Problem<'_, T>, d: &Array2<T>) -> Comparison {
    compare(&d.view(), &reference(problem).unwrap())
}

#[track_caller]
pub fn assert_fails_at(comparison: &Comparison, row: usize, col: usize) {
    let worst = comparison.worst.expect("an element with an error");
    assert!(!comparison.pass(), "passed: {comparison:?}");
    assert_eq!((worst.row, worst.col), (row, col), "{comparison:?}");
}
