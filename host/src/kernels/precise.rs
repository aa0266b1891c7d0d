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

/// The kernel of a precision for a problem on a device: the first that can compute it, or one like it with smaller tiles where it has fewer than there
/// are multiprocessors.
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
    let mut able = for_layouts().filter(|kernel| supports(kernel, problem, device).is_ok());
    let Some(fastest) = able.next() else {
        // There are some for all layouts; if there were not, this one would say so.
        let first = for_layouts().next().unwrap_or(&kernels[0]);
        return supports(first, problem, device).map(|()| first);
    };
    let tiles = |kernel: &KernelInfo| {
        let [rows, cols] = [problem.m.div_ceil(kernel.tile.bm), problem.n.div_ceil(kernel.tile.bn)];
        (u64::from(rows) * u64::from(cols)).saturating_mul(problem.batch.into())
    };
    if tiles(fastest) >= device.multiprocessors.into() {
        return Ok(fastest);
    }
    let alike = able.filter(|kernel| kernel.needs == fastest.needs);
    let smallest = alike.max_by_key(|kernel| tiles(kernel));
    Ok(smallest.filter(|kernel| tiles(kernel) > tiles(fastest)).unwrap_or(fastest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use regemm_kernels::element::Dtype;

    #[test]
    fn small_products_by_halves_have_small_tiles() {
        let device = Device::sim();
        let tile = |m, n, batch| {
            let problem = Problem { batch, ..Problem::new(Dtype::F32, m, n, 512) };
            let tile = choose(Precision::Split, &problem, device.info()).unwrap().tile;
            (tile.bm, tile.bn)
        };
        assert_eq!(tile(1024, 1024, 1), (128, 64));
        assert_eq!(tile(1024, 1024, 3), (128, 128));
        assert_eq!(tile(2048, 2048, 1), (128, 128));
        // Half of a tile is enough here.
        assert_eq!(tile(64, 40, 1), (128, 128));
    }
}
