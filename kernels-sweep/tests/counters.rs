//! What loop orders cost, and what it costs to do without shared memory, in exact counts: the claims that
//! [`regemm_sweep_kernels::loop_order`] and [`regemm_sweep_kernels::direct`] make.

mod common;

use common::Product;
use cuda_std::sim::Counters;
use regemm_kernels::kernel::KernelInfo;
use regemm_sweep_kernels::space::kernels;

/// The kernel of a loop order and a staging with the same tiles as the others.
fn kernel(order: &str, staging: &str) -> &'static KernelInfo {
    let name = format!("sweep_32x64x32_4x8_{order}_{staging}");
    kernels().find(|kernel| kernel.name == name).unwrap()
}

fn is_direct(kernel: &KernelInfo) -> bool {
    kernel.name.ends_with("_direct")
}

/// Elements of A and B that a kernel loads. With slices in shared memory: A once for each tile of columns of D, B once
/// for each of rows. Without: for each k a column of A and a row of B in every thread that owns an element of D.
fn operands(kernel: &KernelInfo, product: Product) -> u64 {
    let Product { m, n, k, .. } = product;
    if is_direct(kernel) {
        let (tile, each) = (kernel.tile, u64::from(kernel.tile.tm + kernel.tile.tn));
        return owners(m, tile.bm, tile.tm) * owners(n, tile.bn, tile.tn) * each * u64::from(k);
    }
    let across = n.div_ceil(kernel.tile.bn);
    let down = m.div_ceil(kernel.tile.bm);
    (m * k * across + k * n * down).into()
}

/// Threads along a column of D, or along a row, that own a part of it: their first vectors, of 4 elements or as many
/// as a thread owns, begin inside of it.
fn owners(extent: u32, block: u32, thread: u32) -> u64 {
    let begins = |tile: u32, index: u32| tile * block + index * thread.min(4);
    let of_tile = |tile| (0..block / thread).filter(move |&index| begins(tile, index) < extent);
    (0..extent.div_ceil(block)).flat_map(of_tile).count() as u64
}

/// Elements of D that are loaded and stored.
fn traffic_of_d(kernel: &KernelInfo, product: Product, counters: &Counters) -> (u64, u64) {
    (counters.global_load_elements - operands(kernel, product), counters.global_store_elements)
}

/// In the standard order an element of D is loaded for every k but the first, and stored for every k and once at the
/// end; after the loops over threads for every slice instead; with k innermost it is stored once.
#[test]
fn partial_sums_go_to_memory_as_often_as_the_order_says() {
    // Whole tiles and slices; ragged ones, with a last slice of 5; one slice that is not full.
    let shapes = [(64, 128, 64), (45, 70, 69), (33, 65, 7)];
    for ((m, n, k), staging) in
        shapes.into_iter().flat_map(|s| ["single", "direct"].map(|w| (s, w)))
    {
        let product = Product::new(m, n, k);
        let elements = u64::from(m * n);
        let (every_k, every_slice) = (u64::from(k), u64::from(k.div_ceil(32)));
        for (order, steps) in [("standard", every_k), ("k_after_threads", every_slice)] {
            let kernel = kernel(order, staging);
            let (_, counters) = product.run(kernel);
            let expected = (elements * (steps - 1), elements * (steps + 1));
            let name = kernel.name;
            assert_eq!(traffic_of_d(kernel, product, &counters), expected, "{name}: {product:?}");
        }
        let innermost = kernel("k_innermost", staging);
        let (_, counters) = product.run(innermost);
        assert_eq!(traffic_of_d(innermost, product, &counters), (0, elements), "{product:?}");
    }
}

/// Nothing but the traffic of D tells the orders apart.
#[test]
fn everything_else_is_the_same() {
    let product = Product::new(64, 128, 64);
    let without_d = |order, staging| {
        let kernel = kernel(order, staging);
        let (_, mut counters) = product.run(kernel);
        let (loads, stores) = traffic_of_d(kernel, product, &counters);
        // All accesses are vectors of four; a warp's vectors are whole sectors.
        let (lanes, sector) = (32 * 4, 8);
        counters.global_load_requests -= loads / lanes;
        counters.global_load_sectors -= loads / sector;
        counters.global_load_bytes -= loads * 4;
        counters.global_load_elements -= loads;
        counters.global_store_requests -= stores / lanes;
        counters.global_store_sectors -= stores / sector;
        counters.global_store_bytes -= stores * 4;
        counters.global_store_elements -= stores;
        counters
    };
    for staging in ["single", "direct"] {
        let innermost = without_d("k_innermost", staging);
        assert_eq!(without_d("standard", staging), innermost);
        assert_eq!(without_d("k_after_threads", staging), innermost);
    }
}

/// Without shared memory a thread loads `TM + TN` elements for each k, whatever the block; nobody stores to shared
/// memory, and nobody waits.
#[test]
fn without_shared_memory_every_thread_loads_its_own_operands() {
    let mut checked = 0;
    for kernel in kernels().filter(|kernel| is_direct(kernel)) {
        // Whole tiles; ragged ones, in rows that consist of vectors and in rows that do not.
        for (m, n, k) in [(64, 128, 8), (35, 68, 9), (5, 33, 3)] {
            let product = Product::new(m, n, k);
            let (_, counters) = product.run(kernel);
            let name = format!("{}: {product:?}", kernel.name);
            let steps = match kernel.name {
                name if name.contains("standard") => k,
                _ => 1,
            };
            let parked = u64::from(m * n * (steps - 1));
            assert_eq!(counters.global_load_elements, operands(kernel, product) + parked, "{name}");
            assert_eq!(counters.shared_load_elements + counters.shared_store_elements, 0, "{name}");
            assert_eq!((counters.block_barriers, counters.async_copies), (0, 0), "{name}");
        }
        checked += 1;
    }
    assert_eq!(checked, 3 * (25 + 4));
}

/// Blocks of one row: neighbouring threads load neighbouring elements of B, which is a sector for 8 of them, and all of
/// them the same element of A.
#[test]
fn a_row_of_threads_loads_whole_sectors() {
    let kernel = kernels().find(|kernel| kernel.name == "sweep_1x128x32_1x1_k_innermost_direct");
    let (m, n, k) = (3, 256, 16);
    let (_, counters) = Product::new(m, n, k).run(kernel.unwrap());
    let warps_and_depth = u64::from(m * n / 32 * k);
    assert_eq!(counters.global_load_requests, 2 * warps_and_depth);
    assert_eq!(counters.global_load_sectors, (1 + 4) * warps_and_depth);
}

/// Blocks of a few threads move their slices in rounds, and still every element once.
#[test]
fn blocks_of_any_number_of_threads_load_each_operand_once() {
    let mut checked = 0;
    for kernel in kernels().filter(|kernel| kernel.name.ends_with("k_innermost_single")) {
        checked += 1;
        let product = Product::new(kernel.tile.bm, kernel.tile.bn, kernel.tile.bk);
        let (_, counters) = product.run(kernel);
        let expected = operands(kernel, product);
        assert_eq!(counters.global_load_elements, expected, "{}", kernel.name);
        assert_eq!(counters.shared_store_elements, expected, "{}", kernel.name);
    }
    assert!(checked > 0);
}
