//! The element types of a product.

use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::KernelInfo;
use std::fmt;

/// The element types of a product: mostly one for all matrices, which can be [given](From) as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Types {
    /// Of A and B.
    pub factors: Dtype,
    /// Of D, C and the bias.
    pub results: Dtype,
}

impl Types {
    /// All that there are kernels for.
    pub const ALL: [Types; 6] = [
        Types::same(Dtype::F32),
        Types::same(Dtype::F64),
        Types::same(Dtype::F16),
        Types::same(Dtype::Bf16),
        Types { factors: Dtype::F16, results: Dtype::F32 },
        Types { factors: Dtype::Bf16, results: Dtype::F32 },
    ];

    /// One for all matrices.
    pub const fn same(dtype: Dtype) -> Types {
        Types { factors: dtype, results: dtype }
    }

    /// Those themselves, and one for all matrices where these are two: what is known of the latter says something of
    /// the former, whose kernels are the same up to what becomes of sums.
    pub(crate) fn and_alike(self) -> impl Iterator<Item = Types> {
        let alike = Types::same(self.factors);
        [Some(self), (self != alike).then_some(alike)].into_iter().flatten()
    }

    /// How names of kernels end: `bf16`, or `bf16_f32` where there are two. Where there are no kernels it is the name
    /// of the factors' type.
    pub const fn name(self) -> &'static str {
        match (self.factors, self.results) {
            (Dtype::F16, Dtype::F32) => "f16_f32",
            (Dtype::Bf16, Dtype::F32) => "bf16_f32",
            (factors, _) => factors.name(),
        }
    }

    /// Those of a kernel.
    pub const fn of(kernel: &KernelInfo) -> Types {
        Types { factors: kernel.dtype, results: kernel.target }
    }

    /// The name of a kernel without [that](Types::name).
    pub(super) fn strip_from(self, name: &str) -> Option<&str> {
        name.strip_suffix(self.name())?.strip_suffix('_')
    }
}

/// Runs a generic function with the types of factors and results that a value of [`Types`] names.
#[doc(hidden)]
#[macro_export]
macro_rules! with_types {
    ($types:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let $crate::kernels::Types { factors, results } = $types;
        match (factors, results) {
            ($crate::Dtype::F16, $crate::Dtype::F32) => {
                $function::<$crate::f16, f32>($($argument),*)
            }
            ($crate::Dtype::Bf16, $crate::Dtype::F32) => {
                $function::<$crate::bf16, f32>($($argument),*)
            }
            ($crate::Dtype::F32, _) => $function::<f32, f32>($($argument),*),
            ($crate::Dtype::F64, _) => $function::<f64, f64>($($argument),*),
            ($crate::Dtype::F16, _) => $function::<$crate::f16, $crate::f16>($($argument),*),
            ($crate::Dtype::Bf16, _) => $function::<$crate::bf16, $crate::bf16>($($argument),*),
        }
    }};
}

impl From<Dtype> for Types {
    fn from(dtype: Dtype) -> Types {
        Types::same(dtype)
    }
}

/// `bf16`, or `bf16 with results of f32`.
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Types { factors, results } = self;
        if factors == results {
            write!(f, "{factors}")
        } else {
            write!(f, "{factors} with results of {results}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernels;

    #[test]
    fn there_are_kernels_for_all_of_them_and_for_no_others() {
        for types in Types::ALL {
            assert!(kernels().iter().any(|kernel| Types::of(kernel) == types), "{types}");
            assert_eq!(types.strip_from(&format!("naive_nt_{}", types.name())), Some("naive_nt"));
        }
        assert!(kernels().iter().all(|kernel| Types::ALL.contains(&Types::of(kernel))));
    }
}
