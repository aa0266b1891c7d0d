//! Kernels with bulk copies: of any shape in rows that these can take, on one tile after another.

use crate::product::{Product, SECTOR};
use regemm_kernels::element::Dtype;
use regemm_kernels::epilogue::BiasAxis;
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::kernel::{KernelInfo, Tile};
use regemm_kernels::layout::Layouts;
use regemm_kernels::table::KERNELS;

/// Those with bulk copies.
fn bulk_kernels() -> impl Iterator<Item = &'static KernelInfo> {
    KERNELS.iter().filter(|kernel| kernel.target == Dtype::F64 && kernel.boxes.is_some())
}

#[test]
fn bulk_copies_are_there_in_all_layouts() {
    let of = |kernel: &KernelInfo| ((kernel.tile.bm, kernel.tile.bn), kernel.layouts);
    let found: Vec<_> = bulk_kernels().map(of).collect();
    let tiles = [(128, 128), (128, 96)];
    let all = tiles.into_iter().flat_map(|tile| Layouts::ALL.map(|layouts| (tile, layouts)));
    assert_eq!(found, all.collect::<Vec<_>>());
}

/// Rows of any length that begin at multiples of 16 bytes; depths of no slice, of one, of as many as stages, and of
/// more; D of one tile, and of a pair of which one lies outside.
#[test]
fn bulk_copies_bring_what_there_is() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, stages, .. } = kernel.tile;
        // All even or all odd: then the same gaps make rows of both factors even, whatever the layouts.
        for (m, n, k) in [
            (2 * bm, bn, 2 * bk),
            (1, 1, 1),
            (bm + 2, bn - 6, stages * bk),
            (34, 18, 0),
            (35, 21, 2 * stages * bk + 5),
        ] {
            for gap in if k % 2 == 0 { [0, 2] } else { [1, 3] } {
                Product { gap, ..Product::new(m, n, k) }.check(kernel);
            }
        }
    }
}

/// Clusters that have one pair of tiles after another, some one more than others, some none; and the epilogue of each
/// of them.
#[test]
fn bulk_copies_go_on_with_the_next_tile() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        let plain = Product::new(3 * bm - 2, 2 * bn - 6, 2 * bk + 2);
        for product in [
            Product { clusters: 3, ..plain },
            Product { clusters: 5, alpha: -0.75, beta: 0.5, ..plain },
            Product { bias: BiasAxis::Column, activation: Activation::GeluErf, ..plain },
            Product { gap: 2, beta: 0.25, bias: BiasAxis::Row, ..plain },
            Product { k: 0, clusters: 2, beta: 1.5, ..plain },
            Product { batch: 2, clusters: 2, m: 66, ..plain },
        ] {
            product.check(kernel);
        }
    }
}

/// Clusters that share tiles, and go on with whole ones: parts of two tiles for one cluster, of three clusters in one
/// tile, of one slice and of more than the groups of a block are apart, before whole tiles and without.
#[test]
fn clusters_share_tiles() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        for (tiles, shared, slices) in
            [(2, (2, 3), 5), (1, (1, 3), 9), (5, (2, 3), 4), (3, (1, 2), 2)]
        {
            let (m, n, k) = (bm + 2, tiles * bn - 6, slices * bk - 2);
            let (_, clusters) = shared;
            for beta in [0.0, 0.5] {
                Product { clusters, shared, beta, ..Product::new(m, n, k) }.check(kernel);
            }
        }
    }
}

/// What both blocks of a cluster need is fetched once, and neither fragments nor sums on their way to D meet in a bank.
#[test]
fn bulk_copies_and_fragments_in_exact_counts() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        let (m, n, k) = (2 * bm, 2 * bn, 4 * bk);
        for (alpha, beta) in [(-0.75, 0.0), (1.0, 0.5)] {
            let counters = Product { alpha, beta, ..Product::new(m, n, k) }.check(kernel);
            let name = kernel.name;
            let conflicts = (counters.shared_load_conflicts, counters.shared_store_conflicts);
            assert_eq!(conflicts, (0, 0), "{name}");
            // Two tiles for each block, and one slice beyond the last, which lies outside.
            let slices = u64::from(2 * k + bk);
            assert_eq!(counters.bulk_bytes, 8 * slices * u64::from(2 * bm + bn), "{name}");
            let elements = u64::from(m * n);
            let products = elements * u64::from(k);
            let of_epilogue = elements * if beta == 0.0 { 1 } else { 2 };
            assert_eq!((counters.tensor_fma, counters.fma), (products, of_epilogue), "{name}");
            assert_eq!(counters.global_store_sectors * SECTOR, 8 * elements, "{name}");
        }
    }
}
