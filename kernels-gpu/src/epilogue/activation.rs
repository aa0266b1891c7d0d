//! The activation functions of the built-in epilogue.

use crate::epilogue::math::{self, Elementary};
use cuda_std::device_inline;

/// An elementwise function applied to `alpha * A * B + beta * C + bias`.
///
/// The discriminants are what a launch passes to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Activation {
    /// `x`
    #[default]
    None = 0,
    /// `max(x, 0)`; NaN stays NaN.
    Relu = 1,
    /// `x` where positive, else `slope * x`; the slope is a parameter of the epilogue, 0.01 unless set.
    LeakyRelu = 2,
    /// `x * (1 + erf(x / sqrt(2))) / 2`: GELU in its exact form (Hendrycks and Gimpel, 2016).
    GeluErf = 3,
    /// `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`: GELU's approximation from the same paper.
    GeluTanh = 4,
    /// `x / (1 + e^-x)`, also called swish.
    Silu = 5,
    /// `1 / (1 + e^-x)`
    Sigmoid = 6,
    /// `tanh(x)`
    Tanh = 7,
}

impl Activation {
    /// All activations.
    pub const ALL: [Activation; 8] = [
        Activation::None,
        Activation::Relu,
        Activation::LeakyRelu,
        Activation::GeluErf,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Sigmoid,
        Activation::Tanh,
    ];

    /// The name used on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::None => "none",
            Activation::Relu => "relu",
            Activation::LeakyRelu => "leaky-relu",
            Activation::GeluErf => "gelu-erf",
            Activation::GeluTanh => "gelu-tanh",
            Activation::Silu => "silu",
            Activation::Sigmoid => "sigmoid",
            Activation::Tanh => "tanh",
        }
    }

    /// Applies the function in the accumulator's precision; `slope` is that of leaky ReLU.
    #[device_inline]
    pub fn apply<A: Elementary>(self, x: A, slope: A) -> A {
        let [y] = self.apply_to_each([x], slope);
        y
    }

    /// [`apply`](Self::apply) to several values at once, which do not wait for one another.
    ///
    /// The branches are uniform over a launch, so on the GPU they cost one predictable branch a call. There is one for
    /// each family of functions, whose members share the code that is long; and none in that code, so that the
    /// instructions for one value fill the time that those for another wait.
    #[device_inline]
    pub fn apply_to_each<A: Elementary, const N: usize>(self, x: [A; N], slope: A) -> [A; N] {
        let half = A::constant(0.5);
        match self {
            Activation::None => x,
            // Written so that a NaN is neither below zero nor replaced.
            Activation::Relu | Activation::LeakyRelu => x.map(|x| {
                let below = if self == Activation::Relu { A::ZERO } else { A::mul(slope, x) };
                if x < A::ZERO { below } else { x }
            }),
            Activation::GeluErf => x.map(|x| {
                let erf = math::erf(A::mul(x, A::constant(core::f64::consts::FRAC_1_SQRT_2)));
                gate(x, A::fma(half, erf, half))
            }),
            Activation::GeluTanh => x.map(math::gelu_tanh),
            Activation::Tanh => x.map(math::tanh),
            Activation::Silu | Activation::Sigmoid => x.map(|x| {
                let sigmoid = sigmoid(x);
                if self == Activation::Silu { gate(x, sigmoid) } else { sigmoid }
            }),
        }
    }
}

/// `x * weight` for a weight that falls to zero faster than any `x` grows: the limit at minus infinity is zero, where
/// plain multiplication would give NaN.
#[device_inline]
fn gate<A: Elementary>(x: A, weight: A) -> A {
    if weight == A::ZERO { A::ZERO } else { A::mul(x, weight) }
}

/// `1 / (1 + e^-x)`: for very negative `x` the exponential overflows to infinity and the quotient is zero, as it
/// should.
#[device_inline]
fn sigmoid<A: Elementary>(x: A) -> A {
    let e = math::exp(A::mul(x, A::constant(-1.0)));
    A::div(A::ONE, A::add(A::ONE, e))
}
