//! The kernels whose groups of warps share the depth of a tile, [`regemm_kernels::ladder::sliced_k`]: the order in
//! which they sum, to the bit, and what they read from global memory and where it goes in shared memory, in exact
//! counts from the simulator.

mod common;
#[path = "common/order.rs"]
mod order;

use common::{PACKED, Product, Storage, Values};
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Rung, Summation};
use regemm_kernels::table::KERNELS;

/// Neither starts nor rows are aligned.
const ODD: Storage = Storage { start: 1, gap: 3 };

/// The kernels of f32 with several groups whose slices threads bring.
fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
    let of_type = KERNELS.iter().filter(|kernel| kernel.dtype == Dtype::F32);
    of_type.filter(|kernel| kernel.depth_groups > 1 && kernel.boxes.is_none())
}

#[test]
fn groups_sum_their_parts_and_are_added_in_order() {
    assert!(kernels().count() > 0);
    for kernel in kernels() {
        let (tile, groups) = (kernel.tile, kernel.depth_groups);
        assert_eq!(kernel.summation, Summation::InGroups, "{}", kernel.name);
        for k in [1, tile.bk / groups + 1, tile.bk, 3 * tile.bk + 5, 6 * tile.bk] {
            let values = Values::Normals;
            let expected = Product { values, ..Product::new(tile.bm + 3, 37, k) };
            for storage in [PACKED, ODD] {
                let product = Product { storage, ..expected };
                let right = product.run(kernel).bits == order::summed(&expected, kernel, k);
                assert!(right, "{}: {product:?}", kernel.name);
            }
        }
    }
}

#[test]
fn integers_are_exact_wherever_rows_start_and_end() {
    for kernel in kernels() {
        let tile = kernel.tile;
        for storage in [PACKED, Storage { start: 4, gap: 8 }, Storage { start: 0, gap: 3 }, ODD] {
            for (m, n, k) in [(1, tile.bn + 4, 0), (tile.bm + 4, 1, tile.bk + 4), (3, 7, 2)] {
                let product = Product { storage, ..Product::new(m, n, k) };
                assert!(
                    product.run(kernel).bits == product.exact(kernel.dtype),
                    "{}: {product:?}",
                    kernel.name
                );
            }
        }
    }
}

/// Every element of the factors is read once for each tile, however many groups there are, and no loads of the groups
/// meet in a bank of shared memory.
#[test]
fn groups_read_each_slice_once() {
    let mut checked = 0;
    for kernel in kernels().filter(|kernel| kernel.rung != Rung::Skinny) {
        checked += 1;
        let tile = kernel.tile;
        let product = Product::new(2 * tile.bm, tile.bn, 4 * tile.bk);
        let counters = product.run(kernel).counters;
        let (m, n, k) = (u64::from(product.m), u64::from(product.n), u64::from(product.k));
        let (tiles_m, tiles_n) = (m / u64::from(tile.bm), n / u64::from(tile.bn));
        let elements = m * k * tiles_n + k * n * tiles_m;
        assert_eq!(counters.global_load_elements, elements, "{}", kernel.name);
        assert_eq!(counters.shared_load_conflicts, 0, "{}", kernel.name);
        // Sums of groups are added by multiply-adds, too, and the epilogue, which may be another kernel's, scales by
        // one more.
        let (added, scaled) = (u64::from(kernel.depth_groups - 1), kernel.reducer.is_none());
        let multiply_adds = m * n * (k + added + u64::from(scaled));
        assert_eq!(counters.fma, multiply_adds, "{}", kernel.name);
    }
    assert!(checked > 0);
}
