//! Kernels for the precisions of f32.

use super::{Problem, kernels, supports};
use crate::device::info::DeviceInfo;
use crate::error::{Error, Result};
use crate::precision::Precision;
use regemm_kernels::kernel::{KernelInfo, Needs};
use regemm_kernels::table::{HALVES, IF_MARKED, ROUNDED, TF32};

/// The kernels that compute products of f32 in a precision, the fastest first; all of [`kernels`], also for other types, for [`Precision::Exact`].
pub fn kernels_of(precision: Precision) -> &'static [KernelInfo] {
    match precision {
        Precision::Exact => kernels(),
        Precision::Split | Precision::Auto => HALVES,
        Precision::Tf32 => TF32,
        Precision::Fast => ROUNDED,
    }
}

/// The kernel of a precision for a problem on a device: the first that can compute it, or one like it with smaller tiles where it has fewer than there
/// are multiprocessors.
///
/// # Errors
/// [`Error::Precision`] where the device does not have what the precision takes; else as for [`supports`], for the first kernel for the problem's
/// layouts.
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
        return supports(first, problem, device).map(|()| first).map_err(|error| match error {
            Error::KernelNeeds { needs, .. } => {
                Error::Precision { precision, with: "this device", remedy: takes(needs) }
            }
            other => other,
        });
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

/// The kernel behind one by halves that computes exactly what halves cannot stand for.
///
/// # Errors
/// As for [`supports`].
pub(crate) fn choose_if_marked(
    problem: &Problem,
    device: &DeviceInfo,
) -> Result<&'static KernelInfo> {
    let for_layouts = IF_MARKED.iter().find(|kernel| kernel.layouts == problem.layouts);
    // There is one for all layouts; if there were not, this one would say so.
    let kernel = for_layouts.unwrap_or(&IF_MARKED[0]);
    supports(kernel, problem, device).map(|()| kernel)
}

/// What a device must have that meets the needs.
fn takes(needs: Needs) -> &'static str {
    match needs {
        Needs::WarpgroupProducts | Needs::RegisterTransfers => "it takes compute capability 9.0",
        _ => "it takes compute capability 8.0 or later",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use regemm_kernels::element::Dtype;
    use regemm_kernels::layout::Layouts;

    fn chosen(
        precision: Precision,
        layouts: Layouts,
        capability: (u32, u32),
    ) -> Result<&'static str> {
        let problem = Problem::packed(Dtype::F32, (64, 40, 100), layouts);
        let device = DeviceInfo { compute_capability: Some(capability), ..h200() };
        choose(precision, &problem, &device).map(|kernel| kernel.name)
    }

    #[test]
    fn small_products_by_halves_have_small_tiles() {
        let device = h200();
        let tile = |m, n, batch| {
            let problem = Problem { batch, ..Problem::new(Dtype::F32, m, n, 512) };
            let tile = choose(Precision::Split, &problem, &device).unwrap().tile;
            (tile.bm, tile.bn)
        };
        assert_eq!(tile(1024, 1024, 1), (128, 64));
        assert_eq!(tile(1024, 1024, 3), (128, 128));
        assert_eq!(tile(2048, 2048, 1), (128, 128));
        // Half of a tile is enough here.
        assert_eq!(tile(64, 40, 1), (128, 128));
    }

    #[test]
    fn each_precision_has_kernels_for_all_layouts() {
        let chosen = |precision, layouts| chosen(precision, layouts, (9, 0)).unwrap();
        assert_eq!(chosen(Precision::Split, Layouts::NN), "halves_f32");
        assert_eq!(chosen(Precision::Tf32, Layouts::NT), "tf32_nt_f32");
        assert_eq!(chosen(Precision::Fast, Layouts::TN), "rounded_tn_f32");
        for precision in [Precision::Split, Precision::Tf32, Precision::Fast] {
            for layouts in Layouts::ALL {
                let found =
                    |kernel: &&KernelInfo| kernel.layouts == layouts && kernel.dtype == Dtype::F32;
                let kernel = kernels_of(precision).iter().find(found).unwrap();
                assert_eq!(chosen(precision, layouts), kernel.name);
            }
        }
    }

    #[test]
    fn devices_that_lack_something_are_refused_by_precision() {
        let refused = |precision, capability| match chosen(precision, Layouts::NN, capability) {
            Err(error @ Error::Precision { .. }) => error.to_string(),
            other => panic!("{precision} for {capability:?}: {other:?}"),
        };
        for capability in [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)] {
            assert_eq!(chosen(Precision::Tf32, Layouts::NN, capability).unwrap(), "tf32_f32");
        }
        let error = refused(Precision::Tf32, (7, 5));
        assert_eq!(
            error,
            "precision tf32 does not go with this device: it takes compute capability 8.0 or later"
        );
        for capability in [(7, 5), (8, 9), (10, 0)] {
            for precision in [Precision::Split, Precision::Fast] {
                let error = refused(precision, capability);
                assert!(error.ends_with("it takes compute capability 9.0"), "{error}");
            }
        }
    }
}
