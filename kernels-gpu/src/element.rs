//! The number types of matrices and of the sums made from them.

use crate::epilogue::activation::Activation;
use crate::epilogue::fast_activation::{apply_to_each, gelu_by_tanh, short_gelu, short_gelu_scale};
use crate::epilogue::math::Elementary;
use core::fmt;
use cuda_std::device_inline;
use cuda_std::hint;
use cuda_std::hint::copied;
use cuda_std::math::{fma_f32, fma_f64, fma_row_f32};
use cuda_std::scalar::{self, Scalar};
use half::{bf16, f16};

/// Element type of a matrix, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32: 8 exponent bits, 7 fraction bits.
    Bf16,
}

impl Dtype {
    /// All element types.
    pub const ALL: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16];

    /// The field's short name: `f32`, `f64`, `f16`, `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F64 => 8,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Values that an exact activation is applied to together: one is computed while another waits.
const TOGETHER: usize = 4;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// Factors of this type whose product there are kernels to store as `D`: as the same type, and of half precision as
/// f32.
pub trait Yields<D>: sealed::Sealed {}

impl<T: sealed::Sealed> Yields<T> for T {}
impl Yields<f32> for f16 {}
impl Yields<f32> for bf16 {}

/// An element of A, B, C, D or the bias.
pub trait Element: Scalar + PartialEq + fmt::Debug + Yields<Self> {
    /// The type in which products are summed and the epilogue computes.
    type Acc: Elementary;

    /// The type as a value.
    const DTYPE: Dtype;

    /// Zero.
    const ZERO: Self;

    /// The value in the accumulator's precision, exactly.
    fn widen(self) -> Self::Acc;

    /// The accumulator's value rounded to the nearest element, ties to even.
    fn narrow(sum: Self::Acc) -> Self;

    /// An activation of values that are rounded to this type next: no more accurate than that needs
    /// ([`fast_activation`](crate::epilogue::fast_activation)).
    ///
    /// Unless written otherwise it is exact, and its code so long that there is one copy, which works on four values
    /// after others; their number is a multiple of that.
    #[device_inline]
    fn activate<const N: usize>(
        activation: Activation,
        mut values: [Self::Acc; N],
        slope: Self::Acc,
    ) -> [Self::Acc; N] {
        for _ in 0..hint::opaque((N / TOGETHER) as u32) {
            let mut first = [Self::Acc::ZERO; TOGETHER];
            first.copy_from_slice(&values[..TOGETHER]);
            for i in TOGETHER..N {
                values[i - TOGETHER] = values[i];
            }
            values[N - TOGETHER..].copy_from_slice(&activation.apply_to_each(first, slope));
        }
        values
    }

    /// Whether there is a [short](Self::short_gelu) form of GELU, by tanh or the exact one.
    #[device_inline]
    fn has_short_gelu(by_tanh: bool) -> bool {
        let _ = by_tanh;
        false
    }

    /// What [`short_gelu`](Self::short_gelu) wants its arguments multiplied by.
    #[device_inline]
    fn short_gelu_scale(by_tanh: bool) -> Self::Acc {
        let _ = by_tanh;
        Self::Acc::ONE
    }

    /// GELU on Hopper of values that have been multiplied by their [scale](Self::short_gelu_scale), in code so short
    /// that a kernel may have many copies of it ([`fast_activation`](crate::epilogue::fast_activation)).
    #[device_inline]
    fn short_gelu<const BY_TANH: bool, const N: usize>(values: [Self::Acc; N]) -> [Self::Acc; N] {
        values
    }
}

/// A type in which products are summed: f32 or f64.
pub trait Accumulator:
    Scalar + PartialEq + PartialOrd + fmt::Debug + fmt::Display + Default
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// `a * b + c`, rounded once.
    fn fma(a: Self, b: Self, c: Self) -> Self;
    /// A row of an outer product, `c[j] = fma(a, b[j], c[j])`, in ascending order of `j` or `backwards`.
    #[device_inline]
    fn fma_row<const N: usize>(a: Self, b: &[Self; N], c: &mut [Self; N], backwards: bool) {
        for j in 0..N {
            let j = if backwards { N - 1 - j } else { j };
            c[j] = Self::fma(a, b[j], c[j]);
        }
    }
    /// The same value in a [register of its own](cuda_std::hint::copied), where registers have banks for values of this
    /// size.
    fn copied(self) -> Self;
    /// `a * b`.
    fn mul(a: Self, b: Self) -> Self;
    /// `a + b`.
    fn add(a: Self, b: Self) -> Self;
    /// `a / b`.
    fn div(a: Self, b: Self) -> Self;
    /// The nearest value to a constant.
    fn constant(value: f64) -> Self;
    /// The value in double precision, exactly.
    fn to_f64(self) -> f64;
}

macro_rules! accumulator {
    ($t:ident, $fma:ident, $copied:expr $(, $fma_row:ident)?) => {
        impl Accumulator for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[device_inline]
            fn fma(a: Self, b: Self, c: Self) -> Self {
                $fma(a, b, c)
            }
            $(
                #[device_inline]
                fn fma_row<const N: usize>(a: $t, b: &[$t; N], c: &mut [$t; N], backwards: bool) {
                    $fma_row(a, b, c, backwards)
                }
            )?
            #[device_inline]
            fn copied(self) -> Self {
                $copied(self)
            }
            #[device_inline]
            fn mul(a: Self, b: Self) -> Self {
                a * b
            }
            #[device_inline]
            fn add(a: Self, b: Self) -> Self {
                a + b
            }
            #[device_inline]
            fn div(a: Self, b: Self) -> Self {
                a / b
            }
            #[device_inline]
            fn constant(value: f64) -> Self {
                value as $t
            }
            #[device_inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    };
}

accumulator!(f32, fma_f32, copied, fma_row_f32);
// An f64 takes a register of each bank.
accumulator!(f64, fma_f64, |value| value);

macro_rules! element {
    (
        $t:ident, $acc:ident, $dtype:ident, $zero:expr, $widen:expr, $narrow:expr
        $(, activate = $activate:path)?
        $(, gelu = $gelu:path, scale = $scale:expr, of = $has_gelu:expr)?
    ) => {
        impl Element for $t {
            type Acc = $acc;
            const DTYPE: Dtype = Dtype::$dtype;
            const ZERO: Self = $zero;

            #[device_inline]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[device_inline]
            fn narrow(sum: $acc) -> Self {
                $narrow(sum)
            }
            $(
                #[device_inline]
                fn activate<const N: usize>(
                    activation: Activation,
                    values: [$acc; N],
                    slope: $acc,
                ) -> [$acc; N] {
                    $activate(activation, values, slope)
                }
            )?
            $(
                #[device_inline]
                fn has_short_gelu(by_tanh: bool) -> bool {
                    $has_gelu(by_tanh)
                }

                #[device_inline]
                fn short_gelu_scale(by_tanh: bool) -> $acc {
                    $scale(by_tanh)
                }

                #[device_inline]
                fn short_gelu<const BY_TANH: bool, const N: usize>(
                    values: [$acc; N],
                ) -> [$acc; N] {
                    $gelu(values)
                }
            )?
        }
    };
}

element!(
    f32,
    f32,
    F32,
    0.0,
    |x| x,
    |x| x,
    gelu = gelu_by_tanh::<BY_TANH, N>,
    scale = |_| 1.0,
    of = |by_tanh| by_tanh
);
element!(f64, f64, F64, 0.0, |x| x, |x| x);
element!(
    f16,
    f32,
    F16,
    f16::ZERO,
    scalar::f16_to_f32,
    scalar::f32_to_f16,
    activate = apply_to_each::<f16, N>,
    gelu = short_gelu::<f16, BY_TANH, N>,
    scale = short_gelu_scale,
    of = |_| true
);
element!(
    bf16,
    f32,
    Bf16,
    bf16::ZERO,
    scalar::bf16_to_f32,
    scalar::f32_to_bf16,
    activate = apply_to_each::<bf16, N>,
    gelu = short_gelu::<bf16, BY_TANH, N>,
    scale = short_gelu_scale,
    of = |_| true
);
