//! Kernels for the precisions of f32.

use super::{Problem, kernels, supports};
use crate::device::info::DeviceInfo;
use crate::error::Result;
use crate::precision::Precision;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::table::{HALVES, ROUNDED};

/// The kernels that compute in a precision, the fastest first.
pub(crate) fn kernels_of(precision: Precision) -> &'static [KernelInfo] {
    match precision {
        Precision::Exact => kernels(),
        Precision::Split => HALVES,
        Precision::Fast => ROUNDED,
    }
}

/// The first kernel of a precision that can compute a problem on a device.
///
/// # Errors
/// As for [`supports`], for the first one for the problem's layouts.
pub(crate) fn choose(
    precision: Precision,
    problem: &Problem,
    device: &DeviceInfo,
) -> Result<&'static KernelInfo> {
    let kernels = kernels_of(precision);
    let for_layouts = || kernels.iter().filter(|kernel| kernel.layouts == problem.layouts);
    let can = |kernel: &&'static KernelInfo| supports(kernel, problem, device).is_ok();
    // There are some for all layouts; if there were not, this one would say so.
    let first = || for_layouts().next().unwrap_or(&kernels[0]);
    let kernel = for_layouts().find(can).unwrap_or_else(first);
    supports(kernel, problem, device).map(|()| kernel)
}
