//! Memory for factors of f32 in halves.

use super::Problem;
use super::launch::MAX_PRODUCTS;
use super::repack::stored;
use half::f16;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::split;

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
    /// Bytes of both.
    pub fn bytes(self) -> u64 {
        self.halves.saturating_add(self.lines)
    }
}

/// Memory for so many halves of both factors, each with so many matrices that are split in one launch: no more than a grid has products.
pub(crate) fn rooms(problem: &Problem, [of_a, of_b]: [u32; 2], halves: u32) -> [Room; 2] {
    let [across_a, across_b] = across(problem.layouts);
    let [a, b] = stored(problem);
    [(a, across_a, of_a), (b, across_b, of_b)].map(|(shape, across, count)| {
        let matrices = u64::from(count.min(MAX_PRODUCTS));
        let of = |elements: u64, bytes: usize| {
            let bytes = matrices.saturating_mul(elements).saturating_mul(bytes as u64);
            bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
        };
        let lines = split::lines(shape, across).into();
        let of_half = split::elements_of_half(shape.0, shape.1);
        let halves = of(of_half.saturating_mul(halves.into()), size_of::<f16>());
        Room { halves, lines: of(lines, size_of::<i16>()) }
    })
}

/// Whether rows of A, and columns of B, run across the rows of what is stored.
pub(crate) fn across(Layouts { a, b }: Layouts) -> [bool; 2] {
    [a == Layout::Transposed, b == Layout::RowMajor]
}
