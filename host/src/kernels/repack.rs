//! Factors that bulk copies cannot take: which these are, and what a kernel that makes such copies must do first.

use super::Problem;
use super::launch::MAX_PRODUCTS;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::repack::{self, ROW_ALIGNMENT, Unit};
use std::fmt;

/// How many matrices of each factor are repacked: copied into rows that bulk copies can take, in a launch before the main one
/// ([`regemm_kernels::repack`]). None of a factor that they can take as it is stored; one of a factor that all products of a batch
/// share, else one for each product.
///
/// Bulk copies take matrices that begin at a multiple of 16 bytes, as do all their rows as they are stored, and that follow each
/// other in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repack {
    /// Matrices of A.
    pub a: u32,
    /// Matrices of B.
    pub b: u32,
}

impl Repack {
    /// What a kernel repacks for a problem: nothing if it makes no bulk copies, or of halves that were made for it, or where there is nothing
    /// to multiply.
    pub fn of(kernel: &KernelInfo, problem: &Problem) -> Repack {
        let copies = kernel.boxes.is_some() && !kernel.takes_halves();
        if copies && problem.k > 0 { problem.repack } else { Repack::default() }
    }

    /// Whether neither factor is.
    pub fn is_nothing(self) -> bool {
        self == Repack::default()
    }

    /// The factors that are, by name.
    pub fn factors(self) -> impl Iterator<Item = &'static str> {
        [("A", self.a), ("B", self.b)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, _)| name)
    }

    /// Elements of all that is copied.
    pub(super) fn elements(self, problem: &Problem) -> u64 {
        let of = |count: u32, (rows, cols): (u32, u32)| {
            u64::from(count).saturating_mul(u64::from(rows) * u64::from(cols))
        };
        let [a, b] = stored(problem);
        of(self.a, a).saturating_add(of(self.b, b))
    }

    /// Bytes of the copies of each factor that one launch makes, multiples of [`ROW_ALIGNMENT`].
    pub(crate) fn bytes(self, problem: &Problem) -> [u64; 2] {
        let of = |count: u32, (rows, cols): (u32, u32)| {
            let units = repack::units(rows, units_of(problem.dtype, cols));
            let copies = u64::from(count.min(MAX_PRODUCTS));
            copies.saturating_mul(units).saturating_mul(size_of::<Unit>() as u64)
        };
        let [a, b] = stored(problem);
        [of(self.a, a), of(self.b, b)]
    }

    /// Blocks of the largest launch that makes the copies, all along x.
    pub(super) fn blocks(self, problem: &Problem) -> u64 {
        let of = |count: u32, (rows, cols): (u32, u32)| {
            let blocks = repack::blocks(rows, units_of(problem.dtype, cols));
            blocks.saturating_mul(count.min(MAX_PRODUCTS).into())
        };
        let [a, b] = stored(problem);
        of(self.a, a).saturating_add(of(self.b, b))
    }
}

impl fmt::Display for Repack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nothing() {
            return f.write_str("nothing is repacked");
        }
        let verb = if self.a > 0 && self.b > 0 { "are" } else { "is" };
        let factors: Vec<_> = self.factors().collect();
        let factors = factors.join(" and ");
        write!(
            f,
            "{factors} {verb} repacked first, into rows at multiples of {ROW_ALIGNMENT} bytes"
        )
    }
}

/// Rows and columns of both factors as they are stored.
pub(super) fn stored(problem: &Problem) -> [(u32, u32); 2] {
    let Problem { m, n, k, layouts, .. } = *problem;
    [layouts.a.stored(m, k), layouts.b.stored(k, n)]
}

/// Units of a row of so many elements.
fn units_of(dtype: Dtype, cols: u32) -> u64 {
    u64::from(cols) * (dtype.bytes() / size_of::<Unit>()) as u64
}
