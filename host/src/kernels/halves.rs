//! Kernels that take f32 in halves, and the memory for these.

use super::launch::MAX_PRODUCTS;
use super::repack::stored;
use super::{Problem, supports};
use crate::device::info::DeviceInfo;
use crate::error::Result;
use half::f16;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::split;
use regemm_kernels::table::HALVES;

/// What copies of factors begin at a multiple of, in bytes: a line of the cache.
const ALIGNMENT: u64 = 128;

/// The kernel that computes a problem by halves.
///
/// # Errors
/// As for [`supports`].
pub(crate) fn choose(problem: &Problem, device: &DeviceInfo) -> Result<&'static KernelInfo> {
    let for_layouts = HALVES.iter().find(|kernel| kernel.layouts == problem.layouts);
    // There is one for all layouts; if there were not, this one would say so.
    let kernel = for_layouts.unwrap_or(&HALVES[0]);
    supports(kernel, problem, device).map(|()| kernel)
}

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

/// Memory for both factors, each with so many matrices that are split in one launch: no more than a grid has products.
pub(crate) fn rooms(problem: &Problem, [of_a, of_b]: [u32; 2]) -> [Room; 2] {
    let [across_a, across_b] = across(problem.layouts);
    let [a, b] = stored(problem);
    [(a, across_a, of_a), (b, across_b, of_b)].map(|(shape, across, count)| {
        let matrices = u64::from(count.min(MAX_PRODUCTS));
        let of = |elements: u64, bytes: usize| {
            let bytes = matrices.saturating_mul(elements).saturating_mul(bytes as u64);
            bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
        };
        let lines = split::lines(shape, across).into();
        let halves = of(split::elements(shape.0, shape.1), size_of::<f16>());
        Room { halves, lines: of(lines, size_of::<i16>()) }
    })
}

/// Whether rows of A, and columns of B, run across the rows of what is stored.
pub(crate) fn across(Layouts { a, b }: Layouts) -> [bool; 2] {
    [a == Layout::Transposed, b == Layout::RowMajor]
}
