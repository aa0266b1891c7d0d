//! Factors that bulk copies cannot take: which these are, and what a kernel that makes such copies must do first.

use super::Problem;
use super::launch::MAX_PRODUCTS;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::prepare::repack::{self, ROW_ALIGNMENT, Unit};
use std::fmt;

/// How many matrices of each factor are repacked: copied into rows that bulk copies can take, in a launch before the
/// main one ([`regemm_kernels::prepare::repack`]). None of a factor that they can take as it is stored; one of a factor
/// that all products of a batch share, else one for each product.
///
/// Bulk copies take matrices that begin at a multiple of 16 bytes, as do all their rows as they are stored, and that
/// follow each other in a batch. Of a kernel that takes a factor in another layout than it is stored in, all its
/// matrices are [transposed](Self::transposed) by that launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repack {
    /// Matrices of A.
    pub a: u32,
    /// Matrices of B.
    pub b: u32,
    /// Whether those of A, and of B, are transposed as well.
    pub transposed: [bool; 2],
}

/// How the matrices of a factor are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As they lie, by vectors.
    Vectors,
    /// As they lie, by [squares](regemm_kernels::prepare::repack::transpose), beside the other factor.
    Squares,
    /// By squares that are transposed.
    Transposed,
}

impl Repack {
    /// Of so many matrices of A and B that stay in their layouts.
    pub const fn new(a: u32, b: u32) -> Repack {
        Repack { a, b, transposed: [false; 2] }
    }

    /// What a kernel repacks for a problem: nothing if it makes no bulk copies, or of halves that were made for it, or
    /// where there is nothing to multiply.
    pub fn of(kernel: &KernelInfo, problem: &Problem) -> Repack {
        let copies = kernel.boxes.is_some() && !kernel.takes_halves();
        if !copies || problem.k == 0 {
            return Repack::default();
        }
        let transposed = kernel.transposes();
        let [all_of_a, all_of_b] = problem.matrices;
        let of = |is_transposed, all, needed| if is_transposed { all } else { needed };
        Repack {
            a: of(transposed[0], all_of_a, problem.repack.a),
            b: of(transposed[1], all_of_b, problem.repack.b),
            transposed,
        }
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

    /// Whether one of them is transposed.
    pub(crate) fn transposes(self) -> bool {
        self.transposed.contains(&true)
    }

    /// How each of them is copied: both by the same launch.
    pub(crate) fn ways(self) -> [Way; 2] {
        self.transposed.map(|is_transposed| match is_transposed {
            true => Way::Transposed,
            false if self.transposes() => Way::Squares,
            false => Way::Vectors,
        })
    }

    /// Those that are transposed.
    pub fn transposed_factors(self) -> impl Iterator<Item = &'static str> {
        let of_b = self.transposed[1];
        self.factors().filter(move |name| if *name == "A" { self.transposed[0] } else { of_b })
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
        self.of_factors(problem, |count, way, (rows, cols)| {
            let (rows, cols) = if way == Way::Transposed { (cols, rows) } else { (rows, cols) };
            let units = repack::units(rows, units_of(problem.dtype, cols));
            count.saturating_mul(units).saturating_mul(size_of::<Unit>() as u64)
        })
    }

    /// Blocks of the largest launch that makes the copies, all along x.
    pub(super) fn blocks(self, problem: &Problem) -> u64 {
        let [a, b] = self.of_factors(problem, |count, way, (rows, cols)| {
            let units = units_of(problem.dtype, cols);
            let blocks = match way {
                Way::Vectors => repack::blocks(rows, units),
                Way::Squares | Way::Transposed => repack::blocks_of_squares(rows, units),
            };
            blocks.saturating_mul(count)
        });
        a.saturating_add(b)
    }

    /// What a function gives for the matrices of each factor that are copied by one launch, how that is done, and rows
    /// and columns as they are stored.
    fn of_factors(self, problem: &Problem, of: impl Fn(u64, Way, (u32, u32)) -> u64) -> [u64; 2] {
        let counts = [self.a, self.b].map(|count| u64::from(count.min(MAX_PRODUCTS)));
        let (ways, shapes) = (self.ways(), stored(problem));
        [0, 1].map(|factor| of(counts[factor], ways[factor], shapes[factor]))
    }
}

impl fmt::Display for Repack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transposed: Vec<_> = self.transposed_factors().collect();
        let repacked: Vec<_> = self.factors().filter(|name| !transposed.contains(name)).collect();
        let sentence = |names: &[&str], what: &str| {
            let verb = if names.len() > 1 { "are" } else { "is" };
            let said = format!("{} {verb} {what}", names.join(" and "));
            (!names.is_empty()).then_some(said)
        };
        let into_rows = format!("repacked first, into rows at multiples of {ROW_ALIGNMENT} bytes");
        let sentences =
            [sentence(&repacked, &into_rows), sentence(&transposed, "transposed first")];
        let said: Vec<_> = sentences.into_iter().flatten().collect();
        f.write_str(if said.is_empty() { "nothing is repacked" } else { "" })?;
        f.write_str(&said.join("; "))
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
