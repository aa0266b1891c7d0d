//! The loss of fences, waits, barriers and arrivals of kernels shows without a GPU.
//!
//! Of kernels of all kinds the simulator notes which operations that order others they execute, and where in the source
//! ([`Site`]). Then each is left out in turn, and a launch must fail or leave other bits in D: memory is full of NaN
//! before. The few that nobody misses are [listed](survivors) with the reason, and must really be such.
//!
//! What that proves: an operation is needed in one of the products of its kernel, not in each of them; and operations
//! of functions that pass on the place of their caller are one site, and are left out together. So where sums go
//! several ways to D, in functions that are such, products [go one of them alone](Product::finished_otherwise). Kernels
//! that are in no list, most of which are twins in other layouts, types or sizes of those that are, may have sites of
//! their own.
//!
//! With `--nocapture` a test says of each site what its loss shows.
//!
//! | file | what it holds |
//! |---|---|
//! | `product.rs` | running a product by any kernel |
//! | `copies.rs` | running the kernels that are launched before |
//! | `survivors.rs` | sites whose loss does not show |

mod copies;
mod product;
mod survivors;

use cuda_std::sim::{SimError, Simulator, Site};
use product::Product;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::table::{HALVES, IF_MARKED, KERNELS, ROUNDED, TF32};
use std::collections::BTreeMap;
use std::path::Path;
use survivors::{SURVIVORS, Survivor};

/// What is launched, and what it leaves in memory.
type Run<'a> = &'a dyn Fn(&Simulator) -> Result<Vec<u8>, SimError>;

/// The text of a site's line, if it is one of this workspace: of other files the compiler is given a path that need not
/// be there.
fn line_of(site: &Site) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&site.location.file);
    let source = std::fs::read_to_string(&path).unwrap_or_default();
    let line = source.lines().nth(site.location.line as usize - 1);
    line.unwrap_or_default().trim().to_owned()
}

/// The entry of a site among those whose loss does not show.
fn listed(site: &Site) -> Option<&'static Survivor> {
    let line = line_of(site);
    let file = Path::new(&site.location.file);
    SURVIVORS.iter().find(|survivor| {
        let place = file.ends_with(survivor.file) && line == survivor.line;
        place && site.operation == survivor.operation
    })
}

/// What comes of the loss of a site, where that shows: the fault, or that there are other bits.
fn loss(site: &Site, run: Run<'_>, bits: &[u8]) -> Option<String> {
    match run(&Simulator::new().skipping(site.clone())) {
        Err(SimError::Fault(fault)) => Some(fault.to_string()),
        Err(error) => panic!("without the {site}: {error}"),
        Ok(found) => (found != bits).then(|| "other bits".to_owned()),
    }
}

/// Leaves out each site in turn that some runs execute, and checks that it shows in one of them.
fn check(name: &str, runs: &[Run<'_>]) {
    let mut executed: BTreeMap<Site, Vec<usize>> = BTreeMap::new();
    let mut bits = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let simulator = Simulator::new().noting_sites();
        let result = run(&simulator);
        bits.push(result.unwrap_or_else(|error| panic!("{name}, run {index}: {error}")));
        for site in simulator.sites() {
            executed.entry(site).or_default().push(index);
        }
    }
    assert!(!executed.is_empty(), "{name} executes nothing that orders others");
    let mut wrong = Vec::new();
    for (site, indices) in executed {
        let shown = indices.iter().find_map(|&index| loss(&site, runs[index], &bits[index]));
        let line = line_of(&site);
        let (text, is_wrong) = match (shown, listed(&site)) {
            (Some(shown), None) => (shown, false),
            (None, Some(survivor)) => (format!("nothing: {:?}", survivor.reason), false),
            (None, None) => ("nothing".to_owned(), true),
            (Some(shown), Some(_)) => (format!("{shown}; it is listed as not shown"), true),
        };
        let report = format!("{name} without the {site}, `{line}`: {text}");
        println!("{report}");
        if is_wrong {
            wrong.push(report);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn kernel(name: &str) -> &'static KernelInfo {
    let tables = [KERNELS, HALVES, IF_MARKED, ROUNDED, TF32];
    let mut kernels = tables.into_iter().flatten();
    kernels.find(|kernel| kernel.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}

/// On one host thread, where blocks run one after another: what blocks that race with each other leave then is always
/// the same.
fn alone(run: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(run);
}

fn check_kernel(name: &str, products: &[Product]) {
    alone(|| {
        let kernel = kernel(name);
        let run_of =
            |product| move |simulator: &Simulator| Product::run(product, kernel, simulator);
        let runs: Vec<_> = products.iter().map(run_of).collect();
        check(name, &runs.iter().map(|run| run as Run<'_>).collect::<Vec<_>>());
    });
}

const fn product(m: u32, n: u32, k: u32) -> Product {
    Product::new(m, n, k)
}

/// A test for each kernel: its name, and the products that it makes.
macro_rules! kernels {
    ($($name:ident: $($product:expr),+;)*) => {$(
        #[test]
        fn $name() {
            check_kernel(stringify!($name), &[$($product),+]);
        }
    )*};
}

kernels! {
    // Rungs without tensor cores. Depths of several turns of the stages, edges that are no whole tiles, rows that begin
    // anywhere.
    tiled16_f32: product(19, 35, 50);
    microkernel32_f32: product(35, 40, 70);
    double_buffered64_f32: product(70, 72, 70);
    pipelined64_f32: product(70, 72, 200), product(70, 71, 200).odd();
    warp_tiled32_f32: product(35, 72, 300), product(35, 71, 300).odd();
    warp_tiled32_nt_f32: product(35, 72, 300), product(35, 71, 300).odd();
    decoupled_f32: product(130, 40, 200), product(130, 41, 200).odd();
    decoupled_nt_f32: product(130, 40, 200), product(130, 41, 200).odd();
    warp_specialised_f32: product(130, 40, 400);
    sliced_k_f32: product(70, 130, 700);
    sliced_k32_bulk_tn_f32: product(70, 72, 1200);
    stream_k_f32: product(130, 130, 380).shared(1, 2);
    stream_k64_f32: product(70, 130, 572).shared(2, 3);
    stream_k64_bulk_tn_f32: product(70, 130, 570).shared(2, 3);
    split_specialised_f32: product(130, 264, 600).sliced(320);
    split_k16_f32: product(20, 300, 300).sliced(112);
    split_sliced_k_f32: product(70, 130, 600).sliced(320);
    skinny_rows_f32: product(3, 300, 1000).sliced(512);
    skinny_rows_nt_f32: product(3, 300, 1000).sliced(512);
    skinny8_rows_nt_f32: product(7, 40, 1000).sliced(640);
    skinny16_cols_f32: product(20, 15, 1000).sliced(640), product(20, 15, 999).odd();
    skinny_cols_bf16: product(300, 2, 1000).sliced(512);

    // Tensor cores by warps. The last slice lies where sums are written next, or elsewhere.
    tensor_core64_bf16: product(70, 72, 640), product(70, 71, 700).odd();
    tensor_core64_nt_bf16: product(70, 72, 640), product(70, 71, 700).odd();
    warp_tiled_if_marked_f32: product(70, 136, 100).decided();
    tf32_f32: product(130, 136, 150);
    warp_halves_f32: product(130, 136, 150), product(130, 72, 100).decided();
    tensor_core32_f64: product(70, 40, 300), product(70, 39, 300).odd();
    tensor_core_bulk_f64: product(130, 136, 150), product(130, 120, 150).staying(2).shared(1, 2);
    cluster_split64k16_f64: product(70, 72, 300);
    split_tensor_core64_f64: product(70, 72, 300).sliced(160), product(70, 71, 300).odd().sliced(160);
    split_tensor_core16_f64: product(20, 72, 600).sliced(320), product(20, 71, 600).odd().sliced(320);

    // Warpgroups: several tiles for a block, more slices than stages, tiles that are shared, rows that bulk copies do
    // not take. And tiles of few slices that follow each other, the first of which lies partly outside, but another
    // part of the next.
    warpgroup64_bf16: product(130, 72, 640), product(130, 72, 640).staying(2).shared(1, 2), product(130, 71, 640), product(100, 72, 60).staying(1).reading_c();
    warpgroup_bf16: product(130, 264, 320), product(130, 264, 320).reading_c();
    warpgroup64x64_bf16: product(20, 136, 1000).staying(2), product(70, 72, 100);
    warpgroup64x64_nt_f16_f32: product(20, 136, 1000).staying(2);
    warpgroup32x64_bf16: product(10, 136, 1300).staying(2), product(40, 72, 100);
    warpgroup32x128_bf16: product(10, 264, 900).staying(2), product(40, 136, 100);
    warpgroup32x128_nt_f16_f32: product(10, 264, 900).staying(2);
    warpgroup64_f16_f32: product(130, 72, 1300), product(130, 72, 640).reading_c();
    ping_pong_bf16: product(300, 136, 500).staying(2), product(300, 132, 600).staying(1), product(100, 136, 60).staying(1);
    ping_pong_f16_f32: product(300, 136, 500).staying(2);
    warpgroup_pair128_bf16: product(300, 136, 500).staying(2).paced(2), product(130, 72, 640).staying(2).shared(1, 2);
    warpgroup_abreast64_bf16: product(130, 136, 600), product(100, 136, 60).staying(1).reading_c();
    warpgroup_abreast64_f16_f32: product(130, 136, 600);
    warpgroup_fitted_nt_bf16: product(130, 288, 320).fitted(144), product(100, 160, 60).fitted(144).staying(1).reading_c(), product(100, 192, 100).fitted(192), product(100, 160, 0).fitted(144);
    warpgroup_fitted_bf16: product(288, 130, 320).fitted(144), product(288, 136, 320).fitted(144), product(192, 104, 100).fitted(192), product(160, 104, 0).fitted(144);
    warpgroup_fitted_pair_nt_bf16: product(130, 288, 320).fitted(144), product(100, 160, 60).fitted(144).staying(1).reading_c(), product(100, 192, 100).fitted(192);
    warpgroup_fitted_pair_bf16: product(288, 130, 320).fitted(144), product(288, 136, 320).fitted(144), product(192, 104, 100).fitted(192);
    warpgroup_fitted_tall_nt_bf16: product(260, 288, 320).fitted(144), product(200, 304, 100).fitted(160), product(200, 160, 0).fitted(128);
    warpgroup_fitted_tall_bf16: product(288, 264, 320).fitted(144), product(304, 200, 100).fitted(160), product(160, 200, 0).fitted(128);
    warpgroup_fitted_tall_f16_f32: product(288, 264, 320).fitted(144), product(304, 200, 100).fitted(160);
    warpgroup_fitted_rows_nt_bf16: product(288, 130, 320).fitted(144), product(160, 104, 60).fitted(144).staying(1).reading_c(), product(192, 104, 100).fitted(192);
    warpgroup_fitted128_bf16: product(200, 136, 600).fitted(80), product(192, 104, 100).fitted(96), product(160, 40, 60).fitted(96).staying(1).reading_c(), product(100, 104, 0).fitted(80);
    warpgroup_fitted_pair128_nt_bf16: product(288, 136, 600).fitted(112), product(100, 104, 60).fitted(96).staying(1).reading_c(), product(256, 104, 100).fitted(128);
    warpgroup_fitted_pair128_f16_f32: product(200, 136, 600).fitted(96);
    warpgroup_fitted_quad128_bf16: product(200, 200, 600).fitted(96), product(192, 104, 100).fitted(96), product(160, 40, 60).fitted(96).staying(1).reading_c();
    warpgroup_fitted_quad_bf16: product(288, 260, 320).fitted(144).staying(1), product(192, 104, 100).fitted(192), product(160, 40, 60).fitted(144).staying(1).reading_c();
    warpgroup_f16_f32: product(130, 264, 320), product(130, 264, 320).staying(2).shared(1, 2);
    warpgroup_pair_f16_f32: product(130, 264, 320), product(300, 264, 320).staying(2).paced(2);
    warpgroup_fitted_pair_f16_f32: product(288, 136, 320).fitted(144), product(192, 104, 100).fitted(192);
    rounded_f32: product(130, 264, 320);
    halves64_f32: product(130, 72, 320).decided(), product(130, 72, 320), product(130, 72, 320).staying(2).shared(1, 2);
    split_halves_f32: product(130, 72, 640).sliced(320), product(130, 128, 300), product(130, 72, 320).sliced(160).decided();
    split_warpgroup64_bf16: product(130, 72, 1300).sliced(640);
    split_warpgroup128_bf16: product(130, 72, 600).sliced(512), product(100, 200, 500), product(20, 72, 500);
    cluster_split64_bf16: product(100, 64, 1400), product(20, 64, 700), product(100, 63, 700);
    cluster_split64_f16_f32: product(100, 64, 1400), product(20, 64, 700), product(100, 63, 700);
}

/// Where sums go other ways to D than with all that an epilogue reads: each way by itself, with all waits and stores
/// that it has.
mod otherwise {
    use super::*;

    fn check_kernel(name: &str, products: &[Product]) {
        let all: Vec<_> = products.iter().map(|product| product.finished_otherwise()).collect();
        for way in 0..3 {
            super::check_kernel(name, &all.iter().map(|ways| ways[way]).collect::<Vec<_>>());
        }
    }

    kernels! {
        tensor_core64_bf16: product(70, 72, 640);
        warpgroup64_bf16: product(130, 72, 640), product(130, 72, 640).staying(2).shared(1, 2), product(100, 72, 60).staying(1);
        warpgroup_bf16: product(130, 264, 320);
        ping_pong_bf16: product(300, 136, 500).staying(2), product(100, 136, 60).staying(1);
        warpgroup_fitted_nt_bf16: product(130, 288, 320).fitted(144), product(100, 160, 60).fitted(144).staying(1), product(100, 192, 100).fitted(192);
        warpgroup_fitted_tall_bf16: product(288, 264, 320).fitted(144), product(304, 200, 100).fitted(160);
        warpgroup_f16_f32: product(130, 264, 320);
        cluster_split64_bf16: product(100, 64, 1400);
    }
}

/// Entries that no test meets would stay for ever.
#[test]
fn survivors_are_still_there() {
    for Survivor { file, line, .. } in SURVIVORS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let source = std::fs::read_to_string(path).unwrap();
        assert!(source.lines().any(|found| found.trim() == *line), "{file} has no line `{line}`");
    }
}

#[test]
fn repack_factors() {
    alone(|| check("repack_factors", &[&copies::repack]));
}

#[test]
fn transpose_factors() {
    alone(|| check("transpose_factors", &[&copies::transpose]));
}
