//! The parameter sweep: the space is what it says, and the kernels and their PTX belong to it. Needs no GPU. That the
//! kernels compute products is tested in their crate.

use regemm::sweep::{self, CannotRun, Configuration, LoopOrder, Staging};
use regemm::{Device, Dtype, PtxModule};
use std::collections::{BTreeMap, BTreeSet};

/// What the kernels are compiled for, and the threads that a multiprocessor of it can hold (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
const ARCHS: [(&str, u32); 2] = [("sm_75", 1024), ("sm_80", 2048)];

/// All PTX of the sweep stays below this many bytes, because of the time that it takes to compile.
const SIZE_LIMIT: usize = 48_000_000;

/// The kernel whose threads carry so many elements of a slice that rustc 1.96 leaves them an array in local memory, and
/// 1.95 does not. Sums are in registers in all kernels.
const WITH_LOCAL_MEMORY: [&str; 1] = ["sweep_64x128x16_8x16_k_innermost_double"];

/// The five block tiles, five thread tiles and three loop orders of the experiment that the sweep repeats, with shared
/// memory and without, the rest around its winner, blocks of a row, and nothing twice.
#[test]
fn the_space_has_all_configurations_once() {
    let all = sweep::configurations();
    let names: BTreeSet<_> = all.iter().map(Configuration::kernel_name).collect();
    assert_eq!(names.len(), all.len(), "a configuration is there twice");
    assert_eq!(all.len(), 75 + 62 + 120 + 75 + 12);

    let in_all_orders = [Staging::Direct, Staging::Single];
    for (order, staging) in LoopOrder::ALL.into_iter().flat_map(|o| in_all_orders.map(|s| (o, s))) {
        let of_order = all.iter().filter(|c| c.order == order && c.staging == staging);
        let of_order = of_order.filter(|c| c.tile.bm > 1);
        let small = of_order.filter(|c| c.tile.bm <= 64 && c.tile.bn <= 64 && c.tile.tn < 16);
        let blocks: BTreeSet<_> =
            small.clone().map(|c| (c.tile.bm, c.tile.bn, c.tile.bk)).collect();
        let threads: BTreeSet<_> = small.clone().map(|c| (c.tile.tm, c.tile.tn)).collect();
        assert_eq!((blocks.len(), threads.len(), small.count()), (5, 5, 25), "{order}, {staging}");
    }
    for c in &all {
        assert_eq!(c.tile.stages, c.staging.stages(), "{c}");
        let is_the_winner = c.order == LoopOrder::KInnermost;
        assert!(is_the_winner || in_all_orders.contains(&c.staging), "{c}");
    }

    // Blocks of a row, a thread an element: as wide as blocks can be, and narrower.
    for order in LoopOrder::ALL {
        let of_order = all.iter().filter(|c| c.order == order && c.tile.bm == 1);
        let widths: Vec<_> = of_order
            .map(|c| (c.tile.bn, c.tile.threads(), c.staging))
            .inspect(|&(width, threads, _)| assert_eq!(width, threads))
            .map(|(width, _, staging)| (width, staging))
            .collect();
        assert_eq!(widths, [128, 256, 512, 1024].map(|width| (width, Staging::Direct)), "{order}");
    }
}

/// Catches a configuration whose kernel was forgotten, and a kernel that belongs to none.
#[test]
fn the_table_is_the_part_of_the_space_that_can_run() {
    let candidates = sweep::candidates();
    let runnable: BTreeSet<_> = candidates
        .iter()
        .filter(|candidate| candidate.kernel.is_ok())
        .map(|candidate| candidate.configuration.kernel_name())
        .collect();
    let table: Vec<_> = sweep::kernels().map(|kernel| kernel.name.to_owned()).collect();
    assert_eq!(table.len(), runnable.len(), "a kernel is there twice or belongs to nothing");
    assert_eq!(table.into_iter().collect::<BTreeSet<_>>(), runnable);
    assert_eq!(runnable.len(), 344 - 8, "all but what cannot run: see below");

    for candidate in &candidates {
        let configuration = &candidate.configuration;
        if let Ok(kernel) = &candidate.kernel {
            let info = kernel.info();
            assert_eq!(info.tile, configuration.tile, "{configuration}");
            assert_eq!(info.rung, configuration.rung(), "{configuration}");
            assert_eq!(info.shared_bytes, configuration.shared_bytes(), "{configuration}");
            assert_eq!(info.dtype, Dtype::F32, "{configuration}");
        }
    }
}

/// What cannot run, and why, is known in advance.
#[test]
fn what_cannot_run_says_why() {
    let mut reasons = BTreeMap::new();
    for candidate in sweep::candidates() {
        if let Err(why) = &candidate.kernel {
            let is_a_fact_of_it =
                matches!(why, CannotRun::Threads { .. } | CannotRun::Registers { .. });
            assert!(is_a_fact_of_it, "{}: {why}", candidate.configuration);
            reasons.insert(candidate.configuration.to_string(), why.to_string());
        }
    }
    let threads = "2048 threads in a block, 1024 at most";
    let expected = [
        ("128x128x32, 8x16, k_innermost, double", "264 registers a thread, 255 at most"),
        ("128x64x32, 8x16, k_innermost, double", "312 registers a thread, 255 at most"),
        ("256x128x16, 4x4, k_innermost, single", threads),
        ("256x128x32, 4x4, k_innermost, single", threads),
        ("256x128x32, 8x8, k_innermost, double", "132 registers a thread, 128 at most"),
        ("256x128x8, 4x4, k_innermost, single", threads),
        ("64x128x32, 8x16, k_innermost, double", "312 registers a thread, 255 at most"),
        ("64x64x64, 8x8, k_innermost, double", "288 registers a thread, 255 at most"),
    ];
    let expected = expected.map(|(configuration, why)| (configuration.into(), why.into()));
    assert_eq!(reasons, BTreeMap::from(expected));
}

#[test]
fn the_simulator_can_run_all_that_any_gpu_can() {
    let device = Device::sim();
    for candidate in sweep::candidates() {
        let why = sweep::unfit(&candidate, &device).map(|why| why.to_string());
        let expected = candidate.kernel.as_ref().err().map(|why| why.to_string());
        assert_eq!(why, expected, "{}", candidate.configuration);
    }
}

/// The modules of a kernel, one for each architecture, and the threads that a multiprocessor of it can hold.
fn modules(entry: &str) -> Vec<(&'static PtxModule, u32)> {
    let of = |arch| {
        let belongs = |ptx: &&PtxModule| ptx.entry == entry && ptx.arch == arch;
        let found: Vec<_> = sweep::ptx_modules().iter().filter(belongs).collect();
        assert_eq!(found.len(), 1, "modules of {entry} for {arch}");
        found[0]
    };
    ARCHS.into_iter().map(|(arch, threads)| (of(arch), threads)).collect()
}

/// Catches a kernel that was not compiled, PTX that belongs to none, and PTX that grows out of bounds.
#[test]
fn every_kernel_has_one_module_for_each_architecture() {
    let found: usize = sweep::kernels().map(|kernel| modules(kernel.name).len()).sum();
    assert_eq!(sweep::ptx_modules().len(), found, "a module belongs to no kernel of the sweep");
    let bytes: usize = sweep::ptx_modules().iter().map(|module| module.text().unwrap().len()).sum();
    assert!(bytes < SIZE_LIMIT, "{bytes} bytes of PTX, the limit is {SIZE_LIMIT}");
}

/// Catches launch bounds that got lost or disagree with the table, and ones that ptxas would ignore because a
/// multiprocessor cannot hold so many blocks.
#[test]
fn launch_bounds_are_those_of_the_table() {
    for kernel in sweep::kernels() {
        for (module, resident_threads) in modules(kernel.name) {
            let text = module.text().unwrap();
            let (header, _) = text.split_once("\n{").unwrap();
            let bound = |directive: &str| {
                let values = header.lines().filter_map(|line| line.strip_prefix(directive));
                values.map(|value| value.trim().parse::<u32>().unwrap()).collect::<Vec<_>>()
            };
            let name = format!("{} for {}", kernel.name, module.arch);
            assert_eq!(bound(".maxntid"), [kernel.threads()], "{name}");
            let asked_for = kernel.entry.min_blocks.unwrap();
            let blocks = asked_for.min(resident_threads / kernel.threads());
            assert_eq!(bound(".minnctapersm"), [blocks], "{name}");
            assert!((1..=16).contains(&blocks), "{name}");
        }
    }
}

/// Catches sums and operands that are indexed at run time and so lie in local memory, where every loop order would be
/// slow; functions that were not inlined, and panic paths.
#[test]
fn there_is_no_local_memory_no_call_and_no_trap() {
    let mut with_local_memory = BTreeSet::new();
    for module in sweep::ptx_modules() {
        for line in module.text().unwrap().lines() {
            let opcode = line.trim().split(['.', ' ', ';']).next().unwrap_or_default();
            assert!(!["call", "trap", "alloca"].contains(&opcode), "{}: {line}", module.entry);
            if line.trim_start().starts_with(".local") {
                with_local_memory.insert(module.entry);
            }
        }
    }
    let known = BTreeSet::from(WITH_LOCAL_MEMORY);
    assert!(with_local_memory.is_subset(&known), "{with_local_memory:?}");
}

/// Kernels without shared memory have none, and nobody waits.
#[test]
fn without_staging_there_is_neither_shared_memory_nor_a_barrier() {
    let mut found = 0;
    for module in sweep::ptx_modules().iter().filter(|module| module.entry.ends_with("_direct")) {
        found += 1;
        for word in [".shared", "bar.", "barrier"] {
            let text = module.text().unwrap();
            assert!(!text.contains(word), "{} for {}: {word}", module.entry, module.arch);
        }
    }
    assert_eq!(found, (75 + 12) * ARCHS.len());
}

/// The names of loop orders and stagings are what records and names of kernels say.
#[test]
fn names_are_stable() {
    let orders = LoopOrder::ALL.map(|order| order.to_string());
    assert_eq!(orders, ["standard", "k_after_threads", "k_innermost"]);
    let stagings = Staging::ALL.map(|staging| staging.to_string());
    assert_eq!(stagings, ["direct", "single", "double", "async2", "async3", "async4"]);
    let first = sweep::configurations()[0];
    assert_eq!(first.kernel_name(), "sweep_32x32x32_2x2_standard_single");
    assert_eq!(first.to_string(), "32x32x32, 2x2, standard, single");
}
