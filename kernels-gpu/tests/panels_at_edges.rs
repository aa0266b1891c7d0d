//! What comes to shared memory of a panel that A or B does not fill: whole boxes where rows of it run across, rows
//! inside where they run along k.

use cuda_std::wgmma::{KMajor, MnMajor};
use half::bf16;
use regemm_kernels::warpgroup::bulk_panels::BulkPanel;

/// Of 128 rows of A, or columns of B, and 64 values of k: two boxes across, or one along k.
type Across = BulkPanel<bf16, MnMajor, 128, 64>;
type Along = BulkPanel<bf16, KMajor, 128, 64>;

/// Bytes of a row of a box, of 64 elements.
const ROW: u32 = 128;

#[test]
fn boxes_across_come_whole() {
    // What lies behind the end in a box is zero.
    let bytes = |inside: u32| Across::bytes_of_parts::<1>(1000, Some(1000 + inside));
    assert_eq!([1, 64, 65, 128, 500].map(bytes), [1, 1, 2, 2, 2].map(|boxes| boxes * 64 * ROW));
}

#[test]
fn rows_along_k_come_that_are_inside() {
    let bytes = |inside: u32| Along::bytes_of_parts::<1>(1000, Some(1000 + inside));
    assert_eq!([1, 64, 65, 128, 500].map(bytes), [1, 64, 65, 128, 128].map(|rows| rows * ROW));
}

#[test]
fn a_block_of_a_cluster_brings_a_part_though_all_of_it_is_outside() {
    let bytes = |inside: u32| Along::bytes_of_parts::<2>(0, Some(inside));
    assert_eq!([10, 64, 70, 128].map(bytes), [74, 128, 70, 128].map(|rows| rows * ROW));
    let bytes = |inside: u32| Across::bytes_of_parts::<2>(0, Some(inside));
    assert_eq!([10, 64, 70].map(bytes), [2 * 64 * ROW; 3]);
}

#[test]
fn without_an_end_all_is_inside() {
    assert_eq!(Across::bytes_of_parts::<2>(0, None), Across::BYTES);
    assert_eq!(Along::bytes_of_width::<1>(0, 96, None), 96 * ROW);
    // Of boxes across those come that a tile has something of.
    assert_eq!(Across::bytes_of_width::<1>(0, 96, None), 2 * 64 * ROW);
}
