//! Memory for factors of f32 in halves.

use super::Problem;
use super::launch::MAX_PRODUCTS;
use super::repack::stored;
use half::f16;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::prepare::split;

/// What copies of factors begin at a multiple of, in bytes: a line of the cache.
const ALIGNMENT: u64 = 128;

/// Memory for a factor's matrices in halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of the halves.
    pub halves: u64,
    /// Bytes of what is known of rows of A or columns of B.
    pub lines: u64,
}

impl Room {
    /// For so many matrices in so many halves, of `rows x cols` as they are stored, whose lines run across or along the
    /// rows.
    pub fn of((rows, cols): (u32, u32), across: bool, [matrices, halves]: [u32; 2]) -> Room {
        let of = |elements: u64, bytes: usize| {
            let elements = u64::from(matrices).saturating_mul(elements);
            let bytes = elements.saturating_mul(bytes as u64);
            bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
        };
        let of_half = split::elements_of_half(rows, cols);
        Room {
            halves: of(of_half.saturating_mul(halves.into()), size_of::<f16>()),
            lines: of(split::lines((rows, cols), across).into(), size_of::<i16>()),
        }
    }

    /// Bytes of both.
    pub fn bytes(self) -> u64 {
        self.halves.saturating_add(self.lines)
    }
}

/// Memory for so many halves of both factors, each with as many matrices as are split in one launch: no more than a
/// grid has products, and none of a factor that is kept in halves.
pub(crate) fn rooms(problem: &Problem, halves: u32) -> [Room; 2] {
    let [a, b] = stored(problem);
    let [across_a, across_b] = across(problem.layouts);
    let [of_a, of_b] = to_split(problem).map(|matrices| matrices.min(MAX_PRODUCTS));
    [Room::of(a, across_a, [of_a, halves]), Room::of(b, across_b, [of_b, halves])]
}

/// Matrices of both factors that have to be split.
pub(super) fn to_split(problem: &Problem) -> [u32; 2] {
    let [a, b] = problem.matrices;
    let [keeps_a, keeps_b] = problem.kept;
    [if keeps_a { 0 } else { a }, if keeps_b { 0 } else { b }]
}

/// Whether rows of A, and columns of B, run across the rows of what is stored.
pub(crate) fn across(Layouts { a, b }: Layouts) -> [bool; 2] {
    [a == Layout::Transposed, b == Layout::RowMajor]
}
