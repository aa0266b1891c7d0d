//! What happens to a sum of products before it is stored in D.
//!
//! A kernel is generic over its [`Epilogue`]. The built-in one is [`Linear`]; anyone can write another in plain Rust and
//! instantiate a kernel with it in a kernel crate of their own (see `examples/custom_epilogue`).

use crate::activation::Activation;
use crate::element::{Accumulator, Element};
use crate::params::MatrixRef;
use cuda_std::memory::GlobalPtr;

/// Turns the sum `(A * B)[row, col]` into the value of `D[row, col]`.
pub trait Epilogue<T: Element>: Copy + 'static {
    /// The value to store, in the accumulator's precision; the kernel narrows and stores it.
    ///
    /// # Safety
    /// `row < m` and `col < n` of the launch that this epilogue belongs to.
    unsafe fn apply(&self, sum: T::Acc, row: u32, col: u32) -> T::Acc;
}

/// Along which axis of D the bias vector runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BiasAxis {
    /// No bias.
    #[default]
    None = 0,
    /// One value a column of D: a vector of `n` elements, added to every row.
    Column = 1,
    /// One value a row of D: a vector of `m` elements, added to every column.
    Row = 2,
}

/// The built-in epilogue: `activation(alpha * sum + beta * C + bias)`.
///
/// Activation and bias are chosen at run time by branches that are the same for a whole launch, so they do not multiply
/// the number of kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Linear<T: Element> {
    /// C, `m x n`; not read where `beta` is zero.
    pub c: MatrixRef<T>,
    /// The bias vector, `n` or `m` elements as `bias_axis` says.
    pub bias: GlobalPtr<T>,
    /// Factor of the product. Where it is zero the host passes `k = 0`, so that A and B are not read.
    pub alpha: T::Acc,
    /// Factor of C.
    pub beta: T::Acc,
    /// Slope of leaky ReLU below zero.
    pub slope: T::Acc,
    /// Along which axis the bias runs.
    pub bias_axis: BiasAxis,
    /// The function applied last.
    pub activation: Activation,
}

impl<T: Element> Linear<T> {
    /// The epilogue that only stores the sum: `alpha = 1`, `beta = 0`, no bias, no activation.
    pub fn identity() -> Self {
        Linear {
            c: MatrixRef::NULL,
            bias: GlobalPtr::null(),
            alpha: T::Acc::ONE,
            beta: T::Acc::ZERO,
            slope: T::Acc::constant(0.01),
            bias_axis: BiasAxis::None,
            activation: Activation::None,
        }
    }
}

impl<T: Element> Epilogue<T> for Linear<T> {
    /// `activation(fma(alpha, sum, fma(beta, c, bias)))`: two roundings before the activation.
    #[inline(always)]
    unsafe fn apply(&self, sum: T::Acc, row: u32, col: u32) -> T::Acc {
        // SAFETY: the indices lie in the matrix, and the host has checked C's shape and the bias's length.
        unsafe {
            let bias = match self.bias_axis {
                BiasAxis::None => T::Acc::ZERO,
                BiasAxis::Column => self.bias.add(col as u64).load().widen(),
                BiasAxis::Row => self.bias.add(row as u64).load().widen(),
            };
            // NaN in C must not reach D where beta is zero, so C is not even read.
            let addend = if self.beta == T::Acc::ZERO {
                bias
            } else {
                T::Acc::fma(self.beta, self.c.at(row, col).load().widen(), bias)
            };
            self.activation.apply(T::Acc::fma(self.alpha, sum, addend), self.slope)
        }
    }
}
