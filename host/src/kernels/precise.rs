//! Kernels for the precisions of f32, and which of the others promote their sums.

use super::launch::Sharing;
use super::{Problem, Repack, Selection, base_name, family_name, kernels, kernels_for, supports};
use crate::device::info::DeviceInfo;
use crate::error::{Error, Result};
use crate::precision::Precision;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Needs, Rung, Schedule, Summation};
use regemm_kernels::table::{HALVES, IF_MARKED, ROUNDED, TF32};
use regemm_kernels::warpgroup::promoted::PROMOTED;

/// The kernels that compute products of f32 in a precision, the fastest first; all of [`kernels`], also for other
/// types, for [`Precision::Exact`], and for [`Precision::Promoted`], which takes [some](KernelInfo::summation) of them.
pub fn kernels_of(precision: Precision) -> &'static [KernelInfo] {
    match precision {
        Precision::Exact | Precision::Promoted => kernels(),
        Precision::Split | Precision::Auto => HALVES,
        Precision::Tf32 => TF32,
        Precision::Fast => ROUNDED,
    }
}

/// All kernels with the built-in epilogue, each once: [`kernels`], and what the other precisions have besides.
pub fn of_all_precisions() -> impl DoubleEndedIterator<Item = &'static KernelInfo> + Clone {
    kernels().iter().chain(HALVES).chain(IF_MARKED).chain(ROUNDED).chain(TF32)
}

/// The kernel of a precision for a problem on a device: the first that can compute it, or where it has fewer tiles than
/// there are multiprocessors
/// - the one like it among whose blocks K may be split, if the device has room for several of them to a tile: by halves
///   its sums are also those that are as accurate as others' are for such a D
///   ([`regemm_kernels::warpgroup::split_halves`]),
/// - else one like it with smaller tiles, unless these are more than there are multiprocessors: then two of them take
///   longer than one of the others.
///
/// Of those of a rung, if one is given.
///
/// # Errors
/// [`Error::DeviceWithoutPrecision`]; [`Error::Precision`] where the precision has no such kernel; else as for
/// [`supports`], for the last kernel for the problem's layouts, which needs least of a device.
pub(crate) fn choose(
    precision: Precision,
    problem: &Problem,
    device: &DeviceInfo,
    rung: Option<Rung>,
) -> Result<&'static KernelInfo> {
    let fits = |kernel: &&KernelInfo| {
        kernel.layouts == problem.layouts && rung.is_none_or(|rung| rung == kernel.rung)
    };
    let for_layouts = || kernels_of(precision).iter().filter(fits);
    let mut able = for_layouts().filter(|kernel| supports(kernel, problem, device).is_ok());
    let Some(fastest) = able.next() else {
        let last = for_layouts().next_back().ok_or_else(|| no_such_kernel(precision))?;
        return supports(last, problem, device)
            .map(|()| last)
            .map_err(|error| by_precision(precision, error));
    };
    let tiles = |kernel: &KernelInfo| {
        let [rows, cols] = [problem.m.div_ceil(kernel.tile.bm), problem.n.div_ceil(kernel.tile.bn)];
        (u64::from(rows) * u64::from(cols)).saturating_mul(problem.batch.into())
    };
    let all = u64::from(device.multiprocessors);
    if tiles(fastest) >= all {
        return Ok(fastest);
    }
    let mut chosen = fastest;
    for kernel in able.filter(|kernel| kernel.needs == fastest.needs) {
        if kernel.schedule == Schedule::SplitK {
            if Sharing::of(kernel, problem, device).blocks > 1 {
                return Ok(kernel);
            }
        } else if (tiles(chosen) + 1..=all).contains(&tiles(kernel)) {
            chosen = kernel;
        }
    }
    Ok(chosen)
}

/// An error of [`supports`] as one of a precision that has no other kernel.
fn by_precision(precision: Precision, error: Error) -> Error {
    match error {
        Error::KernelNeeds { needs, .. } => {
            Error::DeviceWithoutPrecision { precision, takes: takes(needs) }
        }
        other => other,
    }
}

/// Whether a kernel may compute a problem as far as [`Problem::promoted`] goes. Where K is no deeper than what is
/// summed before it is taken over, no kernel of warpgroups adds up more. Instructions of warps need not cut off as
/// little, and f32 is added up by itself where there are no tensor cores.
///
/// # Errors
/// [`Error::Precision`].
pub(super) fn check_promotion(kernel: &KernelInfo, problem: &Problem) -> Result<()> {
    let promotes = match kernel.summation {
        Summation::Promoted => true,
        Summation::Warpgroups => !problem.is_deep_to_promote(),
        _ => false,
    };
    if promotes || !problem.promoted {
        return Ok(());
    }
    let (precision, with, remedy) = (Precision::Promoted, kernel.name, TAKE_ONE_THAT_PROMOTES);
    Err(Error::Precision { precision, with, remedy })
}

/// Checks that a device has a kernel that promotes, whatever the depth.
///
/// # Errors
/// [`Error::DeviceWithoutPrecision`]; as for [`supports`].
pub(crate) fn check_has_promoting(problem: &Problem, device: &DeviceInfo) -> Result<()> {
    let mut found = Ok(());
    let of_problem = kernels_for(problem.types(), problem.layouts);
    for kernel in of_problem.filter(|kernel| kernel.summation == Summation::Promoted) {
        found = supports(kernel, problem, device);
        if found.is_ok() {
            break;
        }
    }
    found.map_err(|error| by_precision(Precision::Promoted, error))
}

/// Depth from which on results of f32 of factors that must be repacked are promoted though nobody asks for it. Tensor
/// cores cut off 2e-6 of a result by then, and ever more behind it.
const DEEP: u32 = 2049;

/// What `choose` chooses for a problem, or, where tensor cores would cut off more than the vendor's library does, what
/// it chooses among kernels that [promote](Problem::promoted), if it finds one.
///
/// That is for results of f32, if factors must be [repacked](Repack) for the kernel and K is deep. At such sizes the
/// vendor's library divides K among blocks, whose sums are cut off less: at 4097 and 5003 its errors are 0.77 of those
/// of the tiles that are the fastest here. Those of promoted sums are 0.07 of its own, at 3.2 times its speed instead
/// of 4 (H100). Where bulk copies take factors as they are, its errors are as large as those of tiles that do not
/// promote. A rung that is asked for may have no kernel that does, and keeps its choice.
pub(crate) fn or_promoted<E>(
    problem: &Problem,
    rung: Option<Rung>,
    choose: impl Fn(&Problem) -> std::result::Result<Selection, E>,
) -> std::result::Result<Selection, E> {
    let chosen = choose(problem)?;
    let is_cut_off = chosen.kernel.summation == Summation::Warpgroups
        && problem.target == Dtype::F32
        && problem.k >= DEEP;
    if problem.promoted
        || rung.is_some()
        || !is_cut_off
        || Repack::of(chosen.kernel, problem).is_nothing()
    {
        return Ok(chosen);
    }
    choose(&Problem { promoted: true, ..*problem }).or(Ok(chosen))
}

impl Problem {
    /// Whether K is so deep that sums on tensor cores [must be promoted](Problem::promoted) before its end.
    pub(super) fn is_deep_to_promote(&self) -> bool {
        self.promoted && self.k as usize > PROMOTED
    }
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
        Needs::WarpgroupProducts | Needs::RegisterTransfers => "compute capability 9.0 alone",
        _ => "compute capability 8.0 or later",
    }
}

/// The kernel of a precision that has this name, in the forms that [`find_in`](super::find_in) knows.
///
/// # Errors
/// As for [`supports`]; [`Error::Precision`] where the precision has none of this name.
pub(crate) fn find(
    precision: Precision,
    name: &str,
    problem: &Problem,
    device: &DeviceInfo,
) -> Result<&'static KernelInfo> {
    let kernels = kernels_of(precision);
    let of_layouts =
        |kernel: &&KernelInfo| kernel.layouts == problem.layouts && family_name(kernel) == name;
    let whole = |kernel: &&KernelInfo| kernel.name == name || base_name(kernel) == name;
    let found = kernels.iter().find(of_layouts).or_else(|| kernels.iter().find(whole));
    let kernel = found.ok_or_else(|| no_such_kernel(precision))?;
    supports(kernel, problem, device).map(|()| kernel)
}

/// The kernel of this name that computes in a precision which has kernels that are not among [`kernels`], and that
/// precision.
pub(super) fn of_name(name: &str) -> Option<(Precision, &'static KernelInfo)> {
    let are_others = |precision: &Precision| !std::ptr::eq(kernels_of(*precision), kernels());
    let all = Precision::ALL.into_iter().filter(are_others);
    let mut kernels = all.flat_map(|p| kernels_of(p).iter().map(move |kernel| (p, kernel)));
    kernels.find(|(_, kernel)| kernel.name == name || base_name(kernel) == name)
}

/// The kernel of this name, in the same forms, among those that [`choose_if_marked`] finds.
pub(super) fn if_marked_of_name(name: &str) -> Option<&'static KernelInfo> {
    IF_MARKED.iter().find(|kernel| kernel.name == name || base_name(kernel) == name)
}

/// The precision that a kernel computes in, be it one of a table here or of the user's own. Where only some are chosen
/// for [`Precision::Promoted`] it is [`Precision::Exact`].
pub(crate) fn precision_of(kernel: &KernelInfo) -> Precision {
    match (kernel.summation, kernel.dtype) {
        (Summation::Halves, _) => Precision::Split,
        (Summation::Rounded, _) => Precision::Fast,
        (Summation::TensorCores, Dtype::F32) => Precision::Tf32,
        _ => Precision::Exact,
    }
}

fn no_such_kernel(precision: Precision) -> Error {
    let (with, remedy) = ("this choice of kernel", OWN_KERNELS);
    Error::Precision { precision, with, remedy }
}

/// What to do where a kernel of another precision is asked for.
pub(crate) const OWN_KERNELS: &str =
    "it has kernels of its own; leave the choice to the library, or the precision at exact";

/// What to do where a kernel that does not promote is asked for.
const TAKE_ONE_THAT_PROMOTES: &str = "leave the choice to the library, or name one that takes sums over to f32, such as warpgroup128";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use crate::kernels::LaunchShape;
    use regemm_kernels::layout::Layouts;

    fn chosen(
        precision: Precision,
        layouts: Layouts,
        capability: (u32, u32),
    ) -> Result<&'static str> {
        let problem = Problem::packed(Dtype::F32, (3000, 2000, 100), layouts);
        let device = DeviceInfo { compute_capability: Some(capability), ..h200() };
        choose(precision, &problem, &device, None).map(|kernel| kernel.name)
    }

    #[test]
    fn small_products_by_halves_have_small_tiles() {
        let device = h200();
        let tile = |m, n, batch| {
            let problem = Problem { batch, ..Problem::new(Dtype::F32, m, n, 512) };
            let tile = choose(Precision::Split, &problem, &device, None).unwrap().tile;
            (tile.bm, tile.bn)
        };
        assert_eq!(tile(1024, 1024, 1), (128, 64));
        assert_eq!(tile(1024, 1024, 3), (128, 128));
        assert_eq!(tile(1280, 1280, 1), (128, 128), "200 of the others would take two rounds");
        assert_eq!(tile(2048, 2048, 1), (128, 128));
    }

    #[test]
    fn tiles_by_halves_that_are_few_may_have_several_blocks_each() {
        let device = h200();
        let problem = |m, n, k| Problem::new(Dtype::F32, m, n, k);
        let name = |problem| choose(Precision::Split, &problem, &device, None).unwrap().name;
        for (m, n, k) in [(1, 1, 1), (256, 256, 16384), (512, 512, 1024), (16, 1024, 65536)] {
            assert_eq!(name(problem(m, n, k)), "split_halves_f32", "{m} x {n} x {k}");
        }
        let batch = Problem { batch: 16, ..problem(256, 256, 4096) };
        assert_eq!(name(batch), "halves64_f32", "there are tiles of others in the batch");
        for (m, n, name_of_it) in [(768, 768, "halves64_f32"), (4096, 4096, "halves_f32")] {
            assert_eq!(name(problem(m, n, 4096)), name_of_it, "there are tiles enough");
        }
        let shape = |k, asked| {
            let kernel = find(Precision::Split, "split_halves", &problem(256, 256, k), &device);
            LaunchShape::new(kernel.unwrap(), &problem(256, 256, k), &device, asked)
        };
        let deep = shape(16384, None);
        assert_eq!((deep.main, deep.slice_depth), (Some([8, 16]), 1024));
        assert!(deep.reduce.is_some());
        assert_eq!(deep.workspace.partial_bytes, 16 * 256 * 256 * 4);
        let one = shape(300, None);
        assert_eq!((one.main, one.reduce), (Some([8, 1]), None));
        assert_eq!(one.workspace.partial_bytes, 0);
        assert_eq!(shape(300, Some(3)).main, Some([8, 3]));
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

    fn problem(layouts: Layouts) -> Problem {
        Problem::packed(Dtype::F32, (3000, 2000, 100), layouts)
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
            let chosen =
                |device| family_name(choose(Precision::Split, &problem, &device, None).unwrap());
            let without_capability = DeviceInfo { compute_capability: None, ..h200() };
            assert_eq!([chosen(h200()), chosen(without_capability)], ["halves"; 2]);
            for capability in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
                assert_eq!(chosen(gpu(capability)), "warp_halves", "{capability:?}, {layouts}");
            }
        }
    }

    #[test]
    fn devices_that_lack_something_are_refused_by_precision() {
        let refused = |precision, capability| match chosen(precision, Layouts::NN, capability) {
            Err(error @ Error::DeviceWithoutPrecision { .. }) => error.to_string(),
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
        let error = refused(Precision::Split, (7, 5));
        assert!(error.ends_with("it takes compute capability 8.0 or later"), "{error}");
        for capability in [(7, 5), (8, 9), (10, 0)] {
            let error = refused(Precision::Fast, capability);
            assert!(error.ends_with("it takes compute capability 9.0 alone"), "{error}");
        }
    }

    fn to_promote(dtype: Dtype, (m, n, k): (u32, u32, u32), layouts: Layouts) -> Problem {
        let problem = Problem::packed(dtype, (m, n, k), layouts);
        Problem { target: Dtype::F32, promoted: true, ..problem }
    }

    #[test]
    fn warpgroups_promote_or_add_up_no_more_than_that() {
        let is_right = |name: &str, k| {
            let kernel = crate::kernels::find(name).unwrap();
            let problem = to_promote(kernel.dtype, (100, 100, k), kernel.layouts);
            match supports(kernel, &problem, &h200()) {
                Ok(()) => true,
                Err(Error::Precision { precision: Precision::Promoted, with, .. }) => {
                    assert_eq!(with, name);
                    false
                }
                Err(other) => panic!("{other}"),
            }
        };
        let promoted = PROMOTED as u32;
        for name in ["warpgroup128_bf16_f32", "warpgroup128_tn_f16_f32", "cluster_split64_bf16_f32"]
        {
            assert!(is_right(name, promoted) && is_right(name, 65536), "{name}");
        }
        for name in ["warpgroup_bf16_f32", "ping_pong_nt_f16_f32"] {
            assert!(is_right(name, promoted) && !is_right(name, promoted + 1), "{name}");
        }
        for name in ["tensor_core_bf16_f32", "naive_f16_f32", "skinny_rows_bf16_f32"] {
            assert!(!is_right(name, 1) && !is_right(name, promoted + 1), "{name}");
        }
    }

    #[test]
    fn devices_without_warpgroup_products_do_not_promote_at_any_depth() {
        for layouts in Layouts::ALL {
            for k in [1, 256, 257] {
                let problem = to_promote(Dtype::F16, (3000, 2000, k), layouts);
                check_has_promoting(&problem, &h200()).unwrap();
                for capability in [(7, 5), (8, 0), (8, 9), (10, 0), (12, 0)] {
                    let error = check_has_promoting(&problem, &gpu(capability)).unwrap_err();
                    assert_eq!(
                        error.to_string(),
                        "precision promoted does not go with this device: it takes compute capability 9.0 alone"
                    );
                }
            }
        }
    }

    #[test]
    fn a_name_or_a_rung_is_kept_to() {
        let (nn, tn) = (problem(Layouts::NN), problem(Layouts::TN));
        let found = |name, problem| find(Precision::Split, name, problem, &h200()).unwrap().name;
        assert_eq!(found("warp_halves", &nn), "warp_halves_f32");
        assert_eq!(found("warp_halves", &tn), "warp_halves_tn_f32");
        assert_eq!(found("halves_tn", &tn), "halves_tn_f32");
        assert_eq!(found("warp_halves_f32", &nn), "warp_halves_f32");
        let other_layouts = find(Precision::Split, "halves_nt_f32", &nn, &h200()).unwrap_err();
        assert!(matches!(other_layouts, Error::KernelLayouts { .. }), "{other_layouts}");
        let needs = find(Precision::Split, "halves", &nn, &gpu((8, 0))).unwrap_err();
        assert!(matches!(needs, Error::KernelNeeds { .. }), "{needs}");
        let of_rung =
            |rung| choose(Precision::Split, &tn, &h200(), Some(rung)).map(|kernel| kernel.name);
        assert_eq!(of_rung(Rung::TensorCore).unwrap(), "warp_halves_tn_f32");
        assert_eq!(of_rung(Rung::Warpgroup).unwrap(), "halves_tn_f32");
        for error in [
            of_rung(Rung::Naive).unwrap_err(),
            find(Precision::Split, "naive", &nn, &h200()).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Precision { .. }), "{error}");
        }
    }
}
