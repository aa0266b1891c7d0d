//! Kernels that take f32 in halves, and the memory for these.

use super::launch::MAX_PRODUCTS;
use super::repack::stored;
use super::{Problem, base_name, family_name, supports};
use crate::device::info::DeviceInfo;
use crate::error::{Error, Result};
use crate::precision::Precision;
use half::f16;
use regemm_kernels::kernel::{KernelInfo, Rung};
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::split;
use regemm_kernels::table::HALVES;

/// What copies of factors begin at a multiple of, in bytes: a line of the cache.
const ALIGNMENT: u64 = 128;

/// The kernel that computes a problem by halves: the first of the table that the device can run, of those of a rung if one is given. Those of
/// warpgroups come before those of warps.
///
/// # Errors
/// As for [`supports`], for the last one, which needs least of a device; [`Error::Precision`] where the rung has none.
pub(crate) fn choose(
    problem: &Problem,
    device: &DeviceInfo,
    rung: Option<Rung>,
) -> Result<&'static KernelInfo> {
    let fits = |kernel: &KernelInfo| {
        kernel.layouts == problem.layouts && rung.is_none_or(|rung| rung == kernel.rung)
    };
    let mut refused = no_such_kernel();
    for kernel in HALVES.iter().filter(|kernel| fits(kernel)) {
        match supports(kernel, problem, device) {
            Ok(()) => return Ok(kernel),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The kernel of this name for a problem, in the forms that [`find_in`](super::find_in) knows.
///
/// # Errors
/// As for [`supports`]; [`Error::Precision`] where the name is of none that takes halves.
pub(crate) fn find(
    name: &str,
    problem: &Problem,
    device: &DeviceInfo,
) -> Result<&'static KernelInfo> {
    let of_layouts =
        |kernel: &&KernelInfo| kernel.layouts == problem.layouts && family_name(kernel) == name;
    let whole = |kernel: &&KernelInfo| kernel.name == name || base_name(kernel) == name;
    let found = HALVES.iter().find(of_layouts).or_else(|| HALVES.iter().find(whole));
    let kernel = found.ok_or_else(no_such_kernel)?;
    supports(kernel, problem, device).map(|()| kernel)
}

fn no_such_kernel() -> Error {
    Error::Precision {
        precision: Precision::Split,
        with: "this choice of kernel",
        remedy: "it has kernels of its own, `halves` and `warp_halves`",
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use regemm_kernels::element::Dtype;
    use regemm_kernels::kernel::Needs;

    fn problem(layouts: Layouts) -> Problem {
        Problem::packed(Dtype::F32, (300, 200, 100), layouts)
    }

    /// With 99 KB of shared memory, as on GPUs for other uses than data centres.
    fn gpu(compute_capability: (u32, u32)) -> DeviceInfo {
        let compute_capability = Some(compute_capability);
        DeviceInfo { compute_capability, shared_bytes_per_block: 101_376, ..h200() }
    }

    #[test]
    fn devices_without_warpgroup_products_take_those_of_warps() {
        for layouts in Layouts::ALL {
            let problem = problem(layouts);
            let chosen = |device| family_name(choose(&problem, &device, None).unwrap());
            let without_capability = DeviceInfo { compute_capability: None, ..h200() };
            assert_eq!([chosen(h200()), chosen(without_capability)], ["halves"; 2]);
            for capability in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
                assert_eq!(chosen(gpu(capability)), "warp_halves", "{capability:?}, {layouts}");
            }
            let error = choose(&problem, &gpu((7, 5)), None).unwrap_err();
            assert!(
                matches!(error, Error::KernelNeeds { needs: Needs::TensorCores, .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_name_or_a_rung_is_kept_to() {
        let (nn, tn) = (problem(Layouts::NN), problem(Layouts::TN));
        let found = |name, problem| find(name, problem, &h200()).unwrap().name;
        assert_eq!(found("warp_halves", &nn), "warp_halves_f32");
        assert_eq!(found("warp_halves", &tn), "warp_halves_tn_f32");
        assert_eq!(found("halves_tn", &tn), "halves_tn_f32");
        assert_eq!(found("warp_halves_f32", &nn), "warp_halves_f32");
        let other_layouts = find("halves_nt_f32", &nn, &h200()).unwrap_err();
        assert!(matches!(other_layouts, Error::KernelLayouts { .. }), "{other_layouts}");
        let needs = find("halves", &nn, &gpu((8, 0))).unwrap_err();
        assert!(matches!(needs, Error::KernelNeeds { .. }), "{needs}");
        let of_rung = |rung| choose(&tn, &h200(), Some(rung)).map(|kernel| kernel.name);
        assert_eq!(of_rung(Rung::TensorCore).unwrap(), "warp_halves_tn_f32");
        assert_eq!(of_rung(Rung::Warpgroup).unwrap(), "halves_tn_f32");
        for error in [of_rung(Rung::Naive).unwrap_err(), find("naive", &nn, &h200()).unwrap_err()] {
            assert!(matches!(error, Error::Precision { .. }), "{error}");
        }
    }
}
