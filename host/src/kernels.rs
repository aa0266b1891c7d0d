//! The table of kernels as the host sees it: finding one by name, asking whether it can run a problem, and choosing.
//!
//! [`supports`] says what is possible and [`rank`] what is sensible; neither knows of the other.

use crate::device::info::DeviceInfo;
use crate::error::{Error, Resource, Result};
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Rung};
use regemm_kernels::table::KERNELS;
use std::cmp::Reverse;
use std::fmt;

/// Most blocks of a grid along x on every GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
const MAX_BLOCKS: u64 = i32::MAX as u64;

/// Names in an error message that suggests others.
const SUGGESTIONS: usize = 3;

/// Least likeness of a name that is worth suggesting (Jaro and Winkler's measure; 1 is equality).
const LIKENESS: f64 = 0.75;

/// Depth of a product from which on a tile in shared memory is worth its barriers: each element of a 16 x 16 tile is
/// then used at least half as often as it could be.
const SHALLOW: u32 = 8;

/// Elements of D below which there is one tile of the smallest kernel at most, and nothing to choose by.
const TINY: u64 = 16 * 16;

/// All kernels with the built-in epilogue, from the lowest rung of the ladder up.
pub fn kernels() -> &'static [KernelInfo] {
    KERNELS
}

/// The kernel whose PTX entry has this name, such as `tiled16_f32`.
///
/// # Errors
/// [`Error::UnknownKernel`], which lists similar names.
pub fn find(name: &str) -> Result<&'static KernelInfo> {
    kernels().iter().find(|kernel| kernel.name == name).ok_or_else(|| unknown(name))
}

/// The kernel of an element type with this name: the whole name of an entry (`tiled16_f32`) or the part before the
/// element type (`tiled16`).
///
/// # Errors
/// [`Error::UnknownKernel`], [`Error::KernelDtype`] where the name is that of an entry for another element type.
pub fn find_for(name: &str, dtype: Dtype) -> Result<&'static KernelInfo> {
    let short = |kernel: &&KernelInfo| kernel.dtype == dtype && base_name(kernel) == name;
    match kernels().iter().find(short) {
        Some(kernel) => Ok(kernel),
        None => find(name).and_then(|kernel| check_dtype(kernel, dtype)),
    }
}

/// The name without the element type: `tiled16` of `tiled16_f32`.
pub fn base_name(kernel: &KernelInfo) -> &'static str {
    let name = kernel.name;
    let base = name.strip_suffix(kernel.dtype.name()).and_then(|base| base.strip_suffix('_'));
    base.unwrap_or(name)
}

fn check_dtype(kernel: &'static KernelInfo, dtype: Dtype) -> Result<&'static KernelInfo> {
    if kernel.dtype == dtype {
        Ok(kernel)
    } else {
        let KernelInfo { name, dtype: found, .. } = *kernel;
        Err(Error::KernelDtype { kernel: name, found, expected: dtype })
    }
}

fn unknown(name: &str) -> Error {
    let mut names: Vec<_> = kernels()
        .iter()
        .flat_map(|kernel| [kernel.name, base_name(kernel)])
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    names.dedup_by_key(|(_, candidate)| *candidate);
    let near = names.into_iter().take(SUGGESTIONS).map(|(_, candidate)| candidate).collect();
    Error::UnknownKernel { name: name.to_owned(), near }
}

/// A product `D[m x n] = A[m x k] * B[k x n]` as far as the choice of a kernel is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Element type of all matrices.
    pub dtype: Dtype,
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Depth of the product.
    pub k: u32,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { dtype, m, n, k } = self;
        write!(f, "{m} x {n} x {k} {dtype}")
    }
}

/// Whether a device can run a kernel on a problem at all.
///
/// # Errors
/// Says why not: [`Error::KernelDtype`], [`Error::KernelDoesNotFit`].
pub fn supports(kernel: &'static KernelInfo, problem: &Problem, device: &DeviceInfo) -> Result<()> {
    check_dtype(kernel, problem.dtype)?;
    let demands = [
        (Resource::Threads, kernel.threads().into(), device.max_threads_per_block.into()),
        (Resource::SharedMemory, kernel.shared_bytes.into(), device.shared_bytes_per_block.into()),
        (Resource::Blocks, kernel.blocks(problem.m, problem.n), MAX_BLOCKS),
    ];
    for (resource, needed, available) in demands {
        if needed > available {
            let (kernel, device) = (kernel.name, device.name.clone());
            return Err(Error::KernelDoesNotFit { kernel, resource, needed, available, device });
        }
    }
    Ok(())
}

/// A kernel and the reason for choosing it.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// Why this one, in words.
    pub why: &'static str,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel.name, self.why)
    }
}

/// The compute capability from which on there are asynchronous copies to shared memory (`cp.async`).
const ASYNC_COPIES: (u32, u32) = (8, 0);

/// All kernels of the problem's element type, the one that should be fastest first. Whether the device can run them is
/// not asked.
///
/// The rule, in this order:
/// 1. where D is tiny or the product shallow, `naive` first: there is too little to reuse for shared memory to pay;
/// 2. else the highest rung with a tile of D for at least a third of the multiprocessors; within it the largest tiles of
///    which every multiprocessor gets one, because they reuse most, else the smallest;
/// 3. else the kernel with the most tiles, because the smallest tiles leave the fewest multiprocessors idle.
///
/// [`Rung::Pipelined`] counts from compute capability 8.0 on: before that its copies are not asynchronous.
///
/// The shares are where the kernels' speeds cross on an H200 (`docs/measurements`).
pub fn rank(problem: &Problem, device: &DeviceInfo) -> Vec<Selection> {
    let small = u64::from(problem.m) * u64::from(problem.n) <= TINY || problem.k < SHALLOW;
    let all = u64::from(device.multiprocessors);
    let enough = all.div_ceil(3);
    let copies_asynchronously = device.compute_capability.is_none_or(|cc| cc >= ASYNC_COPIES);
    let mut ranked: Vec<_> = kernels()
        .iter()
        .filter(|kernel| kernel.dtype == problem.dtype)
        .map(|kernel| {
            let blocks = kernel.blocks(problem.m, problem.n);
            let area = i64::from(kernel.tile.bm * kernel.tile.bn);
            // Sorted in descending order: the rule that applies, then what orders kernels within it.
            let (rule, order, why) = if small && kernel.rung == Rung::Naive {
                (3, (0, false, 0), "D is tiny or the product shallow, so there is little to reuse")
            } else if kernel.rung == Rung::Pipelined && !copies_asynchronously {
                (0, (0, false, 0), "this device has no asynchronous copies")
            } else if kernel.rung != Rung::Naive && blocks >= enough {
                let fills = blocks >= all;
                let order = (kernel.rung as u64, fills, if fills { area } else { -area });
                (2, order, "the highest rung whose tiles keep the device busy")
            } else {
                let why = "D has few tiles: the smallest leave the fewest multiprocessors idle";
                (1, (blocks, false, kernel.rung as i64), why)
            };
            ((rule, order), Selection { kernel, why })
        })
        .collect();
    ranked.sort_by_key(|(order, _)| Reverse(*order));
    ranked.into_iter().map(|(_, selection)| selection).collect()
}

/// The first kernel of [`rank`] that the device can run, among those of a rung if one is given.
///
/// # Errors
/// The reason why the best of them cannot run.
pub fn choose(problem: &Problem, device: &DeviceInfo, rung: Option<Rung>) -> Result<Selection> {
    let mut refusal = None;
    for selection in rank(problem, device) {
        if rung.is_some_and(|rung| rung != selection.kernel.rung) {
            continue;
        }
        match supports(selection.kernel, problem, device) {
            Ok(()) => return Ok(selection),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| unknown(rung.map_or(problem.dtype.name(), Rung::name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;

    fn problem(m: u32, n: u32, k: u32) -> Problem {
        Problem { dtype: Dtype::F32, m, n, k }
    }

    fn chosen(m: u32, n: u32, k: u32) -> &'static str {
        choose(&problem(m, n, k), &h200(), None).unwrap().kernel.name
    }

    #[test]
    fn names_are_found_in_both_forms() {
        assert_eq!(find("naive_f32").unwrap().name, "naive_f32");
        assert_eq!(find_for("naive", Dtype::F64).unwrap().name, "naive_f64");
        assert_eq!(find_for("naive_bf16", Dtype::Bf16).unwrap().name, "naive_bf16");
        for kernel in kernels() {
            assert_eq!(find_for(base_name(kernel), kernel.dtype).unwrap().name, kernel.name);
        }
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
    fn an_entry_for_another_element_type_is_refused() {
        let error = find_for("naive_f64", Dtype::F32).unwrap_err();
        assert!(matches!(error, Error::KernelDtype { expected: Dtype::F32, .. }), "{error}");
    }

    #[test]
    fn large_products_take_the_highest_rung() {
        assert_eq!(chosen(4096, 4096, 4096), "pipelined_f32");
    }

    #[test]
    fn without_asynchronous_copies_nothing_is_pipelined() {
        let turing = DeviceInfo { compute_capability: Some((7, 5)), ..h200() };
        let selection = choose(&problem(4096, 4096, 4096), &turing, None).unwrap();
        assert_eq!(selection.kernel.name, "double_buffered_f32");
    }

    #[test]
    fn few_tiles_take_smaller_ones() {
        let kernel = choose(&problem(256, 256, 4096), &h200(), None).unwrap().kernel;
        assert!(kernel.tile.bm < 128, "{}", kernel.name);
        assert_eq!(chosen(64, 64, 4096), "tiled16_f32");
    }

    /// The choice is within 6 % of the fastest kernel in every record of an H200.
    #[test]
    fn the_choice_is_close_to_the_fastest_measured() {
        const SLACK: f64 = 0.06;
        let records = [
            include_str!("../../docs/measurements/2026-11-21-h200-ladder-f32.json"),
            include_str!("../../docs/measurements/2026-11-21-h200-ladder-f64.json"),
            include_str!("../../docs/measurements/2026-11-21-h200-ladder-f16.json"),
        ];
        for record in records {
            let record: serde_json::Value = serde_json::from_str(record).unwrap();
            let dtype =
                Dtype::ALL.into_iter().find(|dtype| record["dtype"] == dtype.name()).unwrap();
            for round in record["rounds"].as_array().unwrap() {
                let size = round["size"].as_u64().unwrap() as u32;
                let entries = round["entries"].as_array().unwrap();
                let speed_of = |name: &str| {
                    entries.iter().find(|e| e["name"] == name).unwrap()["tflops"].as_f64().unwrap()
                };
                let of_type = kernels().iter().filter(|kernel| kernel.dtype == dtype);
                let fastest = of_type.map(|kernel| speed_of(kernel.name)).fold(0.0, f64::max);
                let problem = Problem { dtype, m: size, n: size, k: size };
                let kernel = choose(&problem, &h200(), None).unwrap().kernel;
                let speed = speed_of(kernel.name);
                assert!(
                    speed >= (1.0 - SLACK) * fastest,
                    "{size}: {} runs at {speed:.2} TFLOP/s, the fastest at {fastest:.2}",
                    kernel.name
                );
            }
        }
    }

    #[test]
    fn tiny_or_shallow_products_take_naive() {
        assert_eq!(chosen(16, 16, 4096), "naive_f32");
        assert_eq!(chosen(4096, 4096, 1), "naive_f32");
        assert_eq!(chosen(4096, 4096, 0), "naive_f32");
    }

    #[test]
    fn every_kernel_of_the_type_is_ranked_once() {
        let ranked = rank(&problem(100, 100, 100), &h200());
        let of_type = kernels().iter().filter(|kernel| kernel.dtype == Dtype::F32).count();
        assert_eq!(ranked.len(), of_type);
        for rung in Rung::ALL {
            let selection = choose(&problem(100, 100, 100), &h200(), Some(rung)).unwrap();
            assert_eq!(selection.kernel.rung, rung);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_numbers() {
        let kernel = find("naive_f32").unwrap();
        let narrow = DeviceInfo { max_threads_per_block: 128, ..h200() };
        let error = supports(kernel, &problem(1, 1, 1), &narrow).unwrap_err();
        assert!(error.to_string().contains("256") && error.to_string().contains("128"), "{error}");

        let huge = problem(i32::MAX as u32, i32::MAX as u32, 1);
        let error = supports(kernel, &huge, &h200()).unwrap_err();
        assert!(
            matches!(error, Error::KernelDoesNotFit { resource: Resource::Blocks, .. }),
            "{error}"
        );
        let error = supports(kernel, &Problem { dtype: Dtype::F16, ..huge }, &h200()).unwrap_err();
        assert!(matches!(error, Error::KernelDtype { .. }), "{error}");
    }

    #[test]
    fn a_kernel_that_does_not_fit_is_passed_over() {
        let narrow = DeviceInfo { max_threads_per_block: 16, ..h200() };
        let error = choose(&problem(100, 100, 100), &narrow, None).unwrap_err();
        assert!(matches!(error, Error::KernelDoesNotFit { .. }), "{error}");
        let narrow = DeviceInfo { max_threads_per_block: 256, ..h200() };
        let selection = choose(&problem(100, 100, 100), &narrow, None).unwrap();
        assert!(selection.kernel.threads() <= 256, "{selection}");
    }
}
