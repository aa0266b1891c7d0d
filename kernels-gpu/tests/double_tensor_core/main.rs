//! Products of f64 on tensor cores, [`regemm_kernels::double::tensor_core`], [`regemm_kernels::double::cluster_split`],
//! [`regemm_kernels::double::split`] and [`regemm_kernels::double::bulk`]: in all layouts, wherever matrices lie and
//! whatever their shapes, the bits of fused multiply-adds in ascending order of k, which is how the simulator adds up,
//! over all of K, half of it, or slices; and what the kernels do, in exact counts.
//!
//! | file | what it holds |
//! |---|---|
//! | `product.rs` | running a product and checking every bit of it |
//! | `bulk.rs` | kernels with bulk copies |

mod bulk;
mod product;

use product::{Product, SECTOR, WARP};
use regemm_kernels::double::tensor_core::DoubleTensorCore;
use regemm_kernels::double::tile::STEP;
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::{KernelInfo, Needs, Schedule};
use regemm_kernels::layout::{Layouts, Tn};
use regemm_kernels::table::KERNELS;

regemm_kernels::gemm_kernels! {
    /// What the table has no row for: slices that are more than a line of the banks, and other numbers of stages.
    OTHERS:

    tensor_core_deep_f64 = DoubleTensorCore<64, 64, 32, 4, 8, 3>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core_deep_tn_f64 = DoubleTensorCore<64, 64, 32, 4, 8, 4, Tn>, epilogue = Linear<f64>, min_blocks = 1;
}

/// The kernels of the table whose threads copy: one block for a tile, two, or several.
fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
    const NEEDS: [Needs; 2] = [Needs::DoubleTensorCores, Needs::DoubleTensorCoresInClusters];
    let of_doubles = KERNELS.iter().filter(|kernel| NEEDS.contains(&kernel.needs));
    of_doubles.filter(|kernel| kernel.boxes.is_none())
}

/// The other tests loop over what is there.
#[test]
fn there_are_tiles_of_all_sizes_in_all_layouts() {
    const TILES: [((u32, u32, u32), Schedule); 11] = [
        ((128, 128, 16), Schedule::Tiles),
        ((128, 64, 32), Schedule::Tiles),
        ((96, 96, 16), Schedule::Tiles),
        ((64, 64, 16), Schedule::Tiles),
        ((64, 32, 32), Schedule::Tiles),
        ((96, 96, 16), Schedule::ClusterK),
        ((64, 64, 32), Schedule::ClusterK),
        ((64, 64, 16), Schedule::ClusterK),
        ((128, 128, 16), Schedule::SplitK),
        ((64, 64, 16), Schedule::SplitK),
        ((16, 64, 32), Schedule::SplitK),
    ];
    for ((bm, bn, bk), schedule) in TILES {
        for layouts in Layouts::ALL {
            let fits = |kernel: &&KernelInfo| {
                let tile = kernel.tile;
                (tile.bm, tile.bn, tile.bk, kernel.schedule, kernel.layouts)
                    == (bm, bn, bk, schedule, layouts)
            };
            let count = kernels().filter(fits).count();
            assert_eq!(count, 1, "{bm} x {bn} x {bk}, {schedule:?}, {layouts}");
        }
    }
    assert_eq!(kernels().count(), TILES.len() * Layouts::ALL.len());
}

/// No slice at all, less than one, whole ones, fewer than stages, as many, and more.
#[test]
fn sums_are_in_ascending_order_for_all_depths() {
    for kernel in kernels().chain(OTHERS) {
        let (bk, stages) = (kernel.tile.bk, kernel.tile.stages);
        for k in [0, 1, 3, bk - 1, bk, bk + 1, 2 * bk, stages * bk, 2 * stages * bk + 5] {
            Product::new(33, 17, k).check(kernel);
        }
    }
}

/// Chunks are copied where all rows begin at multiples of 16 bytes and consist of whole ones, elements anywhere else.
#[test]
fn matrices_lie_anywhere() {
    for kernel in kernels().chain(OTHERS) {
        let (bm, bn) = (kernel.tile.bm, kernel.tile.bn);
        let (odd, even) = ((bm + 3, bn - 5, 37), (bm - 2, bn + 2, 38));
        for (start, gap, shapes) in
            [(0, 0, [(1, 1, 1), odd]), (0, 2, [(2, 2, 2), even]), (1, 1, [odd, even])]
        {
            for (m, n, k) in shapes {
                Product { start, gap, ..Product::new(m, n, k) }.check(kernel);
            }
        }
    }
}

/// Also with several groups of tiles, the last of which has fewer rows.
#[test]
fn tiles_are_counted_in_groups() {
    let kernel = KERNELS.iter().find(|kernel| kernel.name == "tensor_core64_f64").unwrap();
    Product::new(18 * 64 + 1, 2 * 64, 2).check(kernel);
}

#[test]
fn the_epilogue_is_fused() {
    // Rows of whole vectors, and others.
    let plain = Product::new(66, 70, 19);
    let odd = Product { start: 1, ..Product::new(66, 71, 19) };
    for kernel in kernels() {
        for product in [
            Product { alpha: -0.75, beta: 0.5, ..plain },
            Product { alpha: -0.75, beta: 0.5, ..odd },
            Product { bias: BiasAxis::Row, activation: Activation::GeluErf, ..plain },
            Product { beta: -2.0, bias: BiasAxis::Column, activation: Activation::Relu, ..odd },
            Product { k: 0, beta: 1.5, bias: BiasAxis::Row, ..plain },
        ] {
            product.check(kernel);
        }
    }
}

#[test]
fn products_of_a_batch_are_apart() {
    for kernel in kernels() {
        let product =
            Product { gap: 1, beta: 0.25, bias: BiasAxis::Column, ..Product::new(65, 30, 21) };
        Product { batch: 3, ..product }.check(kernel);
    }
}

/// Whole slices travel by chunks, each element once for each block that needs it, all others one by one; fragments are
/// read without conflicts wherever k runs, and so are the sums on their way to D.
#[test]
fn no_lanes_meet_in_a_bank() {
    for kernel in kernels().chain(OTHERS) {
        let (name, tile) = (kernel.name, kernel.tile);
        for (odd, bytes_of_copy) in [(0, 16), (1, 8)] {
            let product =
                Product { start: odd, ..Product::new(2 * tile.bm, 2 * tile.bn, 6 * tile.bk) };
            let Product { m, n, k, .. } = product;
            let counters = product.check(kernel);
            let conflicts = (counters.shared_load_conflicts, counters.shared_store_conflicts);
            assert_eq!(conflicts, (0, 0), "{name}");

            let loads = 2 * u64::from(k) * u64::from(m + n);
            assert_eq!(counters.global_load_elements, loads, "{name}");
            // As many slices of zeros as are under way follow the last.
            let is_split = kernel.schedule == Schedule::SplitK;
            let blocks = if is_split { product.slices } else { kernel.cluster };
            let beyond = blocks * (tile.stages - 1) * tile.bk;
            let copied = 2 * u64::from(k + beyond) * u64::from(m + n);
            assert_eq!(counters.async_copies * bytes_of_copy, 8 * copied, "{name}");
            if odd == 0 {
                assert_eq!(counters.global_load_sectors * SECTOR, 8 * loads, "{name}");
                let stored = u64::from(m * n) * u64::from(if is_split { blocks } else { 1 });
                assert_eq!(counters.global_store_sectors * SECTOR, 8 * stored, "{name}");
            }

            // A warp reads its rows of A and columns of B for each k, and for one step more.
            let (rows, cols) = (u64::from(8 * tile.tm), u64::from(4 * tile.tn));
            let warps = u64::from(m * n) / (rows * cols);
            let fragments = warps * (rows + cols) * u64::from(k + blocks * STEP as u32);
            // Each sum goes there and back on its way to D; before that each block of a cluster leaves half of its own
            // there for the other. Of slices all sums go that way.
            let sums = u64::from(m * n);
            let left = u64::from(blocks - 1) * sums;
            assert_eq!(counters.shared_load_elements, fragments + sums + left, "{name}");
            let requests = (fragments + (sums + left) / 2) / WARP;
            assert_eq!(counters.shared_load_requests, requests, "{name}");
            assert_eq!(counters.shared_store_elements, copied + sums + left, "{name}");

            // One for the first slice, one for each, and one before the sums take the stages' place.
            let barriers = k / tile.bk + 2 * blocks;
            assert_eq!(counters.block_barriers, 4 * u64::from(barriers), "{name}");
            // Slices end in no epilogue.
            let (products, of_epilogue) = (sums * u64::from(k), if is_split { 0 } else { sums });
            assert_eq!((counters.tensor_fma, counters.fma), (products, of_epilogue), "{name}");
        }
    }
}
