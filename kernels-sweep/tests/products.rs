//! Every kernel of the sweep computes the product, with the bits of every other kernel.

mod common;

use common::Product;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::table::KERNELS;
use regemm_sweep_kernels::space::kernels;

fn naive() -> &'static KernelInfo {
    KERNELS.iter().find(|kernel| kernel.name == "naive_f32").unwrap()
}

/// All kernels against [`regemm_kernels::ladder::naive`], which sums in the same order.
fn check(product: Product, kernels: impl Iterator<Item = &'static KernelInfo>) {
    let (expected, _) = product.run(naive());
    let mut checked = 0;
    for kernel in kernels {
        let (bits, _) = product.run(kernel);
        assert!(bits == expected, "{}: {product:?}", kernel.name);
        checked += 1;
    }
    assert!(checked > 0);
}

/// Rows of whole vectors, and more than one tile of each kernel in a direction or less than one.
#[test]
fn rows_of_whole_vectors() {
    check(Product::new(100, 136, 72), kernels());
}

/// Nothing is a multiple of anything: all edges, and rows that are not aligned.
#[test]
fn odd_rows() {
    check(Product::new(67, 133, 41), kernels());
}

/// Without shared memory the bits are those of the microkernel, also where a row of D is several blocks of 1024 threads
/// and where a block is wider than D.
#[test]
fn without_shared_memory_bits_are_those_of_the_microkernel() {
    let is_microkernel =
        |kernel: &&KernelInfo| kernel.name == "sweep_32x32x32_4x4_k_innermost_single";
    let microkernel = kernels().find(is_microkernel).unwrap();
    for (m, n, k) in [(3, 2050, 35), (70, 65, 40)] {
        let product = Product::new(m, n, k);
        let (expected, _) = product.run(microkernel);
        for kernel in kernels().filter(|kernel| kernel.name.ends_with("_direct")) {
            let (bits, _) = product.run(kernel);
            assert!(bits == expected, "{}: {product:?}", kernel.name);
            let across = u64::from(n.div_ceil(kernel.tile.bn));
            assert_eq!(kernel.blocks(m, n), u64::from(m.div_ceil(kernel.tile.bm)) * across);
        }
    }
}

/// Kernels that keep partial sums in D.
fn loop_orders() -> impl Iterator<Item = &'static KernelInfo> {
    kernels().filter(|kernel| !kernel.name.contains("k_innermost"))
}

/// Partial sums must not pass through the epilogue, and C is read after all of them.
#[test]
fn the_epilogue_comes_once_and_last() {
    for (m, n, k) in [(35, 67, 37), (40, 36, 64)] {
        check(Product { with_epilogue: true, ..Product::new(m, n, k) }, loop_orders());
    }
}

/// Without depth nothing is in D to begin with, and what D held before must not be read.
#[test]
fn no_depth_and_depths_about_a_slice() {
    for k in [0, 1, 31, 33] {
        check(Product::new(33, 9, k), loop_orders());
    }
}
