//! The table of kernels as the host sees it: finding one by name, asking whether it can run a problem, and choosing.
//!
//! [`supports`] says what is possible and [`rank`] what is sensible by rule; neither knows of the other. What is
//! sensible by measurement is [`tuning`](crate::tuning)'s to say.
//!
//! | module | what it holds |
//! |---|---|
//! | `fetch` | what warpgroups wait for slices that are slow to fetch |
//! | `halves` | memory for factors of f32 in halves |
//! | `launch` | how a kernel is launched: grid, slices of K and workspace |
//! | `precise` | kernels for the precisions of f32 |
//! | `repack` | factors that bulk copies cannot take |
//! | `rule` | the choice by rule |
//! | `sides` | for which sides of D kernels of few rows or columns are |
//! | `types` | the element types of a product |
//! | `weigh` | halves or not, before anything is known of the data |
//! | `why` | a chosen kernel and the reason for choosing it |

mod fetch;
pub(crate) mod halves;
mod launch;
pub(crate) mod precise;
mod repack;
mod rule;
mod sides;
mod types;
mod weigh;
mod why;

pub(crate) use fetch::{Rows, slowdown};
pub use launch::LaunchShape;
pub(crate) use launch::{MAX_PRODUCTS, drifts, fitted, keeps_k, resident, shares};
pub use precise::{kernels_of, of_all_precisions};
pub use repack::Repack;
pub(crate) use repack::Way;
pub(crate) use rule::{Order, choose_untuned, in_the_faster_way};
pub use rule::{Rule, choose, rank};
pub(crate) use sides::{is_for_both_sides, is_made_for_sides, is_told_for_sides};
pub use types::Types;
pub use weigh::{AgainstHalves, Either, weigh};
pub use why::{NotTuned, RunnerUp, Selection, Tuned, Why};

use crate::device::info::DeviceInfo;
use crate::error::{Error, Resource, Result};
use crate::near::near;
use cuda_std::tensor_map::ALIGNMENT as BULK_ALIGNMENT;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use regemm_kernels::table::KERNELS;
use std::fmt;

/// Most blocks of a grid along x on every GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
const MAX_BLOCKS: u64 = i32::MAX as u64;

/// All kernels with the built-in epilogue, from the lowest rung of the ladder up.
pub fn kernels() -> &'static [KernelInfo] {
    KERNELS
}

/// The kernels of these element types for factors in these layouts, from the lowest rung of the ladder up.
pub fn kernels_for(
    types: impl Into<Types>,
    layouts: Layouts,
) -> impl Iterator<Item = &'static KernelInfo> {
    let types = types.into();
    kernels().iter().filter(move |kernel| Types::of(kernel) == types && kernel.layouts == layouts)
}

/// The kernel of this name, such as `tiled16_f32`.
///
/// # Errors
/// [`Error::UnknownKernel`], which lists similar names; [`Error::KernelOfPrecision`], [`Error::KernelOfAuto`].
pub fn find(name: &str) -> Result<&'static KernelInfo> {
    kernels().iter().find(|kernel| kernel.name == name).ok_or_else(|| unknown(name))
}

/// The kernel of these element types with this name: the whole name (`tiled16_f32`) or the part before the element
/// types (`tiled16`).
///
/// # Errors
/// [`Error::UnknownKernel`]; [`Error::KernelDtype`] and [`Error::KernelWithoutDtype`] where the name, in its two forms,
/// is that of a kernel for other element types; [`Error::KernelOfPrecision`] and [`Error::KernelOfAuto`] where it is
/// that of one for another precision.
pub fn find_for(name: &str, types: impl Into<Types>) -> Result<&'static KernelInfo> {
    let types = types.into();
    let short = |kernel: &&KernelInfo| Types::of(kernel) == types && base_name(kernel) == name;
    if let Some(kernel) = kernels().iter().find(short) {
        return Ok(kernel);
    }
    let of_name = |of: &Types| {
        kernels().iter().any(|kernel| Types::of(kernel) == *of && base_name(kernel) == name)
    };
    let found: Vec<Types> = Types::ALL.into_iter().filter(of_name).collect();
    if !found.is_empty() {
        return Err(Error::KernelWithoutDtype { name: name.to_owned(), expected: types, found });
    }
    find(name).and_then(|kernel| check_types(kernel, types))
}

/// As [`find_for`], but a name without layouts (`tiled16`) means the kernel of that name for factors in these layouts,
/// if there is one.
///
/// # Errors
/// As for [`find_for`].
pub fn find_in(
    name: &str,
    types: impl Into<Types>,
    layouts: Layouts,
) -> Result<&'static KernelInfo> {
    let types = types.into();
    kernels_for(types, layouts)
        .find(|kernel| family_name(kernel) == name)
        .map_or_else(|| find_for(name, types), Ok)
}

/// Families of kernels that there are for some layouts alone, and those that are for the same shapes where both factors
/// are row-major: by whose times they are told.
const ROW_MAJOR_FAMILIES: [(&str, &str); 7] = [
    ("warpgroup_fitted_rows", "warpgroup_fitted"),
    ("warpgroup_fitted_cols128", "warpgroup_fitted128"),
    ("warpgroup_fitted64", "warpgroup_fitted128"),
    ("skinny4_rows", "skinny_rows"),
    ("skinny8_rows", "split_k16"),
    ("skinny16_rows", "split_k16"),
    ("skinny32_rows", "split_k16"),
];

/// The kernel that differs from another one in the layouts alone, if there is one.
pub fn twin(kernel: &KernelInfo, layouts: Layouts) -> Option<&'static KernelInfo> {
    twin_of_types(kernel, Types::of(kernel), layouts)
}

/// The kernel that differs from another one in element types and layouts alone, if there is one; that of its own
/// [family](family_name) before others.
pub(crate) fn twin_of_types(
    kernel: &KernelInfo,
    types: Types,
    layouts: Layouts,
) -> Option<&'static KernelInfo> {
    let of_family = |twin: &&KernelInfo| family_name(twin) == family_name(kernel);
    kernels_for(types, layouts).find(of_family).or_else(|| twins(kernel, types, layouts).next())
}

/// All kernels for these types and layouts that have the same twin for row-major factors as another one.
pub(crate) fn twins(
    kernel: &KernelInfo,
    types: Types,
    layouts: Layouts,
) -> impl Iterator<Item = &'static KernelInfo> {
    let family = row_major_family(kernel);
    kernels_for(types, layouts).filter(move |twin| row_major_family(twin) == family)
}

/// The family of a kernel's twin for row-major factors.
fn row_major_family(kernel: &KernelInfo) -> &'static str {
    let family = family_name(kernel);
    let mut of_others = ROW_MAJOR_FAMILIES.into_iter();
    of_others.find(|(name, _)| *name == family).map_or(family, |(_, of_row_major)| of_row_major)
}

/// The name without element types and layouts: `tiled16` of `tiled16_f32` and of `tiled16_nt_f32`.
pub fn family_name(kernel: &KernelInfo) -> &'static str {
    let base = base_name(kernel);
    let family = base.strip_suffix(kernel.layouts.name()).and_then(|base| base.strip_suffix('_'));
    family.unwrap_or(base)
}

/// The name without element types: `tiled16` of `tiled16_f32`, `warpgroup` of `warpgroup_bf16_f32`.
pub fn base_name(kernel: &KernelInfo) -> &'static str {
    Types::of(kernel).strip_from(kernel.name).unwrap_or(kernel.name)
}

fn check_types(kernel: &'static KernelInfo, expected: Types) -> Result<&'static KernelInfo> {
    match Types::of(kernel) {
        found if found == expected => Ok(kernel),
        found => Err(Error::KernelDtype { kernel: kernel.name, found, expected }),
    }
}

/// Whether a kernel takes factors in these layouts.
///
/// # Errors
/// [`Error::KernelLayouts`], which names those that do.
pub fn check_layouts(kernel: &'static KernelInfo, expected: Layouts) -> Result<()> {
    let KernelInfo { name, layouts: found, .. } = *kernel;
    if found == expected {
        return Ok(());
    }
    // Of a kernel of the user's own nothing is known that could take its place.
    let known = kernels().iter().any(|known| known.name == name);
    let fitting = kernels_for(Types::of(kernel), expected).filter(|_| known);
    let fitting = fitting.map(|kernel| kernel.name).collect();
    Err(Error::KernelLayouts { kernel: name, found, expected, fitting })
}

fn unknown(name: &str) -> Error {
    if let Some((precision, kernel)) = precise::of_name(name) {
        return Error::KernelOfPrecision { kernel: kernel.name, precision };
    }
    if let Some(kernel) = precise::if_marked_of_name(name) {
        return Error::KernelOfAuto { kernel: kernel.name };
    }
    let names = kernels().iter().flat_map(|kernel| [kernel.name, base_name(kernel)]);
    Error::UnknownKernel { name: name.to_owned(), near: near(name, names) }
}

/// A product `D[m x n] = A[m x k] * B[k x n]`, or a batch of them, as far as the choice of a kernel is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Element type of A and B.
    pub dtype: Dtype,
    /// Element type of D, C and the bias: mostly the same.
    pub target: Dtype,
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Depth of the product.
    pub k: u32,
    /// How A and B lie in memory.
    pub layouts: Layouts,
    /// Products of this shape that are computed together; 1 unless it is a batch.
    pub batch: u32,
    /// What a kernel that makes bulk copies must repack, because they cannot take it as it is stored.
    pub repack: Repack,
    /// Matrices of A and of B: one where all products share it, else one for each.
    pub matrices: [u32; 2],
    /// Whether A, and B, is kept in halves ([`SplitMatrix`](crate::SplitMatrix)), which a kernel that takes such need
    /// not make.
    pub kept: [bool; 2],
    /// Whether tensor cores may add up no more than 256 values of k:
    /// [`Precision::Promoted`](crate::Precision::Promoted). Where it is false the library may still [choose
    /// so](crate::kernels::choose).
    pub promoted: bool,
}

impl Problem {
    /// A single product of row-major matrices without gaps between their rows.
    pub fn new(types: impl Into<Types>, m: u32, n: u32, k: u32) -> Problem {
        Problem::packed(types, (m, n, k), Layouts::NN)
    }

    /// A single product of matrices in these layouts, as they are stored without gaps between their rows.
    pub fn packed(
        types: impl Into<Types>,
        (m, n, k): (u32, u32, u32),
        layouts: Layouts,
    ) -> Problem {
        let Types { factors: dtype, results: target } = types.into();
        let (_, row_of_a) = layouts.a.stored(m, k);
        let (_, row_of_b) = layouts.b.stored(k, n);
        let whole = BULK_ALIGNMENT / dtype.bytes() as u64;
        let repack = Repack::new(
            !(row_of_a as u64).is_multiple_of(whole) as u32,
            !(row_of_b as u64).is_multiple_of(whole) as u32,
        );
        let (batch, matrices, kept, promoted) = (1, [1; 2], [false; 2], false);
        Problem { dtype, target, m, n, k, layouts, batch, repack, matrices, kept, promoted }
    }

    /// Its element types.
    pub const fn types(&self) -> Types {
        Types { factors: self.dtype, results: self.target }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { m, n, k, layouts, batch, .. } = *self;
        if batch != 1 {
            write!(f, "{batch} times ")?;
        }
        write!(f, "{m} x {n} x {k} {}", self.types())?;
        if layouts == Layouts::NN { Ok(()) } else { write!(f, ", {layouts}") }
    }
}

/// Whether a device can run a kernel on a problem at all.
///
/// # Errors
/// Says why not: [`Error::KernelDtype`], [`Error::KernelLayouts`], [`Error::KernelNeeds`], [`Error::KernelDoesNotFit`];
/// [`Error::Precision`] where sums are to be [promoted](Problem::promoted) and the kernel does not.
pub fn supports(kernel: &'static KernelInfo, problem: &Problem, device: &DeviceInfo) -> Result<()> {
    check_types(kernel, problem.types())?;
    check_layouts(kernel, problem.layouts)?;
    precise::check_promotion(kernel, problem)?;
    let needs = kernel.needs;
    if let Some(found) = device.compute_capability.filter(|&found| !needs.met_by(found)) {
        let (kernel, device) = (kernel.name, device.name.clone());
        return Err(Error::KernelNeeds { kernel, needs, found, device });
    }
    let demands = [
        (Resource::Threads, kernel.threads().into(), device.max_threads_per_block.into()),
        (Resource::SharedMemory, kernel.shared_bytes.into(), device.shared_bytes_per_block.into()),
        (Resource::Blocks, kernel.blocks(problem.m, problem.n), MAX_BLOCKS),
        (Resource::Blocks, launch::reducer_blocks(kernel, problem), MAX_BLOCKS),
        (Resource::Blocks, Repack::of(kernel, problem).blocks(problem), MAX_BLOCKS),
    ];
    for (resource, needed, available) in demands {
        if needed > available {
            let (kernel, device) = (kernel.name, device.name.clone());
            return Err(Error::KernelDoesNotFit { kernel, resource, needed, available, device });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_forms() {
        assert_eq!(find("naive_f32").unwrap().name, "naive_f32");
        assert_eq!(find_for("naive", Dtype::F64).unwrap().name, "naive_f64");
        assert_eq!(find_for("naive_bf16", Dtype::Bf16).unwrap().name, "naive_bf16");
        for kernel in kernels() {
            let types = Types::of(kernel);
            assert!(Types::ALL.contains(&types), "{}", kernel.name);
            assert_eq!(find_for(base_name(kernel), types).unwrap().name, kernel.name);
        }
        let wide = Types { factors: Dtype::Bf16, results: Dtype::F32 };
        assert_eq!(find_in("warpgroup", wide, Layouts::TN).unwrap().name, "warpgroup_tn_bf16_f32");
        assert_eq!(base_name(find("naive_bf16_f32").unwrap()), "naive");
    }

    #[test]
    fn a_name_without_layouts_means_those_of_the_problem() {
        let found = |name, layouts| find_in(name, Dtype::F32, layouts).unwrap().name;
        assert_eq!(found("tiled16", Layouts::NN), "tiled16_f32");
        assert_eq!(found("tiled16", Layouts::NT), "tiled16_nt_f32");
        assert_eq!(found("tiled16_tn", Layouts::NT), "tiled16_tn_f32", "what was said counts");
        assert_eq!(found("tiled16_f32", Layouts::NT), "tiled16_f32");
        assert_eq!(found("microkernel", Layouts::NT), "microkernel_f32", "there is no other");
        for kernel in kernels() {
            assert_eq!(twin(kernel, kernel.layouts).unwrap().name, kernel.name);
            assert!(!Layouts::ALL.iter().any(|l| family_name(kernel).ends_with(l.name())));
        }
        assert_eq!(twin(find("naive_tt_f16").unwrap(), Layouts::TN).unwrap().name, "naive_tn_f16");
        assert!(twin(find("microkernel_f32").unwrap(), Layouts::TN).is_none());
        let [rows, cols] = ["warpgroup_fitted_rows_nt_f16", "warpgroup_fitted_nt_f16"];
        let row_major = twin(find(rows).unwrap(), Layouts::NN).unwrap();
        assert_eq!(row_major.name, "warpgroup_fitted_f16");
        assert_eq!(twin(row_major, Layouts::NT).unwrap().name, cols);
        let of_nt = twins(row_major, Types::of(row_major), Layouts::NT).map(|kernel| kernel.name);
        assert_eq!(Vec::from_iter(of_nt), [cols, rows]);
        let small = find("warpgroup_fitted128_bf16_f32").unwrap();
        let of_nt = twins(small, Types::of(small), Layouts::NT).map(base_name);
        let names = ["128_nt", "_cols128_nt", "64_nt"].map(|end| format!("warpgroup_fitted{end}"));
        assert!(of_nt.eq(names));
    }

    #[test]
    fn rows_of_16_bytes_need_not_be_repacked() {
        let repack = |(m, n, k), layouts| Problem::packed(Dtype::F16, (m, n, k), layouts).repack;
        let takes = |shape, layouts| repack(shape, layouts).is_nothing();
        for (layouts, shape) in [
            (Layouts::NN, (1, 16, 8)),
            (Layouts::NT, (1, 1, 8)),
            (Layouts::TN, (8, 16, 1)),
            (Layouts::TT, (24, 1, 8)),
        ] {
            assert!(takes(shape, layouts), "{layouts}");
            assert!(!takes((4, 4, 4), layouts) && !takes((7, 7, 7), layouts), "{layouts}");
        }
        assert!(!takes((1, 16, 8), Layouts::TN), "a column of A is a row of what is stored");
        assert_eq!(repack((4, 4, 4), Layouts::NN), Repack::new(1, 1));
        assert_eq!(repack((1, 16, 7), Layouts::NN), Repack::new(1, 0));
        assert_eq!(repack((1, 7, 16), Layouts::NN), Repack::new(0, 1));
        assert!(takes((1, 7, 16), Layouts::NT), "rows of B lie along k");
        assert!(Problem::new(Dtype::F32, 1, 4, 12).repack.is_nothing());
    }

    #[test]
    fn only_kernels_with_bulk_copies_repack_and_only_where_there_is_something_to_multiply() {
        let of = |name, k| {
            let problem = Problem::new(Dtype::Bf16, 255, 255, k);
            Repack::of(find(name).unwrap(), &problem)
        };
        assert_eq!(of("warpgroup_bf16", 255), Repack::new(1, 1));
        assert!(of("tensor_core_bf16", 255).is_nothing());
        assert!(of("warpgroup_bf16", 0).is_nothing());
        let both = of("warpgroup_bf16", 255).to_string();
        assert!(both.starts_with("A and B are repacked"), "{both}");
        assert!(Repack::new(0, 7).to_string().starts_with("B is repacked"));
    }

    #[test]
    fn what_a_kernel_takes_in_another_layout_is_transposed() {
        let of = |name: &str, n| {
            let kernel = find(name).unwrap();
            let problem = Problem::packed(Dtype::F32, (300, n, 200), kernel.layouts);
            Repack::of(kernel, &Problem { matrices: [1, 7], ..problem })
        };
        let transposed =
            |a: u32, b: u32| Repack { transposed: [a > 0, b > 0], ..Repack::new(a, b) };
        assert_eq!(of("sliced_k_bulk_f32", 400), transposed(1, 0));
        assert_eq!(of("sliced_k_bulk_nt_f32", 400), transposed(1, 7));
        assert_eq!(of("sliced_k_bulk_tn_f32", 400), Repack::default());
        assert_eq!(of("sliced_k_bulk_tt_f32", 400), transposed(0, 7));
        assert_eq!(of("sliced_k_bulk_nt_f32", 400).to_string(), "A and B are transposed first");
        // Rows of B that bulk copies cannot take are copied with A.
        let both = of("sliced_k_bulk_f32", 401);
        assert_eq!(both, Repack { b: 1, ..transposed(1, 0) });
        let text = both.to_string();
        assert!(text.starts_with("B is repacked first"), "{text}");
        assert!(text.ends_with("; A is transposed first"), "{text}");
        assert_eq!(both.transposed_factors().collect::<Vec<_>>(), ["A"]);
    }

    #[test]
    fn more_copies_than_a_grid_has_blocks_are_refused() {
        let kernel = find("warpgroup_bf16").unwrap();
        let info = crate::device::Device::sim().info().clone();
        let endless = Problem {
            repack: Repack::new(u32::MAX, 0),
            batch: u32::MAX,
            ..Problem::new(Dtype::Bf16, 1 << 20, 7, 1 << 20)
        };
        let error = supports(kernel, &endless, &info).unwrap_err();
        assert!(
            matches!(error, Error::KernelDoesNotFit { resource: Resource::Blocks, .. }),
            "{error}"
        );
        let none = Problem { repack: Repack::default(), ..endless };
        assert!(supports(kernel, &none, &info).is_ok());
    }

    #[test]
    fn unknown_names_get_suggestions() {
        let error = find("naiv_f32").unwrap_err();
        let Error::UnknownKernel { near, .. } = &error else { panic!("{error}") };
        assert_eq!(near[0], "naive_f32");
        assert!(error.to_string().contains("did you mean naive_f32"), "{error}");
        let error = find("qqq").unwrap_err();
        assert!(error.to_string().contains("regemm info"), "{error}");
    }

    #[test]
    fn names_of_kernels_for_other_types_or_precisions_are_known() {
        let error = find_for("warpgroup", Dtype::F32).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no kernel `warpgroup` for matrices of f32, only for f16, bf16, \
             f16 with results of f32, bf16 with results of f32"
        );
        for (name, precision) in [("halves", "split"), ("tf32_nt_f32", "tf32"), ("rounded", "fast")]
        {
            let error = find_for(name, Dtype::F32).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("in precision {precision}: ask for that precision too")),
                "{error}"
            );
        }
        for name in ["warp_tiled_if_marked_f32", "warp_tiled_if_marked"] {
            let error = find_for(name, Dtype::F32).unwrap_err();
            let Error::KernelOfAuto { kernel: "warp_tiled_if_marked_f32" } = error else {
                panic!("{error}")
            };
            assert!(error.to_string().contains("precision auto alone"), "{error}");
        }
    }

    #[test]
    fn every_kernel_can_be_named_or_is_said_to_be_of_a_precision() {
        for kernel in of_all_precisions() {
            match find(kernel.name) {
                Ok(found) => assert_eq!(found.name, kernel.name),
                Err(Error::KernelOfPrecision { .. } | Error::KernelOfAuto { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn an_entry_for_another_element_type_is_refused() {
        let error = find_for("naive_f64", Dtype::F32).unwrap_err();
        assert!(
            matches!(error, Error::KernelDtype { expected: Types { factors: Dtype::F32, .. }, .. }),
            "{error}"
        );
    }
}
