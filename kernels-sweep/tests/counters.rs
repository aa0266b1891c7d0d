//! What the loop orders cost, in exact counts: the claims that [`regemm_sweep_kernels::loop_order`] makes.

mod common;

use common::Product;
use cuda_std::sim::Counters;
use regemm_kernels::kernel::KernelInfo;
use regemm_sweep_kernels::space::kernels;

/// The kernel of a loop order with the same tiles as the others.
fn kernel(order: &str) -> &'static KernelInfo {
    let name = format!("sweep_32x64x32_4x8_{order}_single");
    kernels().find(|kernel| kernel.name == name).unwrap()
}

/// Elements of A and B that a kernel loads: A once for each tile of columns of D, B once for each of rows.
fn operands(kernel: &KernelInfo, Product { m, n, k, .. }: Product) -> u64 {
    let across = n.div_ceil(kernel.tile.bn);
    let down = m.div_ceil(kernel.tile.bm);
    (m * k * across + k * n * down).into()
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
    for (m, n, k) in [(64, 128, 64), (45, 70, 69), (33, 65, 7)] {
        let product = Product::new(m, n, k);
        let elements = u64::from(m * n);
        let (every_k, every_slice) = (u64::from(k), u64::from(k.div_ceil(32)));
        for (order, steps) in [("standard", every_k), ("k_after_threads", every_slice)] {
            let kernel = kernel(order);
            let (_, counters) = product.run(kernel);
            let expected = (elements * (steps - 1), elements * (steps + 1));
            assert_eq!(traffic_of_d(kernel, product, &counters), expected, "{order}: {product:?}");
        }
        let innermost = kernel("k_innermost");
        let (_, counters) = product.run(innermost);
        assert_eq!(traffic_of_d(innermost, product, &counters), (0, elements), "{product:?}");
    }
}

/// Nothing but the traffic of D tells the orders apart.
#[test]
fn everything_else_is_the_same() {
    let product = Product::new(64, 128, 64);
    let without_d = |order| {
        let (_, mut counters) = product.run(kernel(order));
        let kernel = kernel(order);
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
    let innermost = without_d("k_innermost");
    assert_eq!(without_d("standard"), innermost);
    assert_eq!(without_d("k_after_threads"), innermost);
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
