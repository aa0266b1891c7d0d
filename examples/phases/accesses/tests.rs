//! What is printed, and that it is what the kernels do.

use super::deeds::{Deed, Phase, Place, deeds, phases};
use super::*;
use crate::Cli;
use crate::element::{Element, Name};
use crate::testing::{assert_printed, lines};
use clap::Parser;
use std::collections::BTreeMap;

fn printed(size: &str, tile: u32, block: u32) -> Vec<String> {
    lines(&show(&Arguments { size: size.parse().unwrap(), tile, block }).unwrap())
}

#[test]
fn four_by_four_in_blocks_of_two_by_two() {
    let expected = [
        "thread 1 2 3 4 5 6 7 8 stores",
        "(0,0) A[0][0] B[0][0] A[0][1] B[1][0] A[0][2] B[2][0] A[0][3] B[3][0] D[0][0]",
        "(0,1) A[0][0] B[0][1] A[0][1] B[1][1] A[0][2] B[2][1] A[0][3] B[3][1] D[0][1]",
        "(1,0) A[1][0] B[0][0] A[1][1] B[1][0] A[1][2] B[2][0] A[1][3] B[3][0] D[1][0]",
        "(1,1) A[1][0] B[0][1] A[1][1] B[1][1] A[1][2] B[2][1] A[1][3] B[3][1] D[1][1]",
        "A[0][0] A[0][1] A[0][2] A[0][3] (0,0) (0,1)",
        "A[1][0] A[1][1] A[1][2] A[1][3] (1,0) (1,1)",
        "B[0][0] B[1][0] B[2][0] B[3][0] (0,0) (1,0)",
        "B[0][1] B[1][1] B[2][1] B[3][1] (0,1) (1,1)",
        "The block makes 32 loads of 16 elements.",
        "tiled: phase 1 of 2",
        "(0,0) A[0][0] -> tile_a[0][0] B[0][0] -> tile_b[0][0] \
         tile_a[0][0] * tile_b[0][0] + tile_a[0][1] * tile_b[1][0]",
        "(0,1) A[0][1] -> tile_a[0][1] B[0][1] -> tile_b[0][1] \
         tile_a[0][0] * tile_b[0][1] + tile_a[0][1] * tile_b[1][1]",
        "(1,0) A[1][0] -> tile_a[1][0] B[1][0] -> tile_b[1][0] \
         tile_a[1][0] * tile_b[0][0] + tile_a[1][1] * tile_b[1][0]",
        "(1,1) A[1][1] -> tile_a[1][1] B[1][1] -> tile_b[1][1] \
         tile_a[1][0] * tile_b[0][1] + tile_a[1][1] * tile_b[1][1]",
        "tiled: phase 2 of 2",
        "(0,0) A[0][2] -> tile_a[0][0] B[2][0] -> tile_b[0][0] \
         tile_a[0][0] * tile_b[0][0] + tile_a[0][1] * tile_b[1][0]",
        "(1,1) A[1][3] -> tile_a[1][1] B[3][1] -> tile_b[1][1] \
         tile_a[1][0] * tile_b[0][1] + tile_a[1][1] * tile_b[1][1]",
        "The block makes 16 loads of 16 elements. After the last phase its threads store 4 elements of D.",
        // Loads of A, of B and together, of each element of A and of B, zeros, loads from shared memory, barriers, and
        // how many times fewer loads from global memory.
        "naive 64 64 128 4 4 0 0 0 1.00",
        "tiled, 2 x 2 32 32 64 2 2 0 128 16 2.00",
        "tiled, 4 x 4 16 16 32 1 1 0 128 2 4.00",
    ];
    assert_printed(&printed("4", 2, 0), &expected);
}

#[test]
fn tiles_of_t_by_t_take_t_times_fewer_loads() {
    let expected = [
        "naive 4,096 4,096 8,192 16 16 0 0 0 1.00",
        "tiled, 2 x 2 2,048 2,048 4,096 8 8 0 8,192 1,024 2.00",
        "tiled, 4 x 4 1,024 1,024 2,048 4 4 0 8,192 128 4.00",
        "tiled, 8 x 8 512 512 1,024 2 2 0 8,192 16 8.00",
        "tiled, 16 x 16 256 256 512 1 1 0 8,192 2 16.00",
    ];
    assert_printed(&printed("16", 4, 5), &expected);
}

#[test]
fn edges_are_filled_up_with_zeros() {
    let expected = [
        "(0,0) A[4][0] B[0][2] A[4][1] B[1][2] A[4][2] B[2][2] A[4][3] B[3][2] D[4][2]",
        "(0,1) outside of D",
        "(0,1) A[4][1] -> tile_a[0][1] 0 -> tile_b[0][1] \
         tile_a[0][0] * tile_b[0][1] + tile_a[0][1] * tile_b[1][1]",
        "(1,0) 0 -> tile_a[1][0] B[1][2] -> tile_b[1][0] \
         tile_a[1][0] * tile_b[0][0] + tile_a[1][1] * tile_b[1][0]",
        "(1,1) 0 -> tile_a[1][1] 0 -> tile_b[1][1] \
         tile_a[1][0] * tile_b[0][1] + tile_a[1][1] * tile_b[1][1]",
        "The block makes 8 loads of 8 elements, and 8 zeros stand for what lies outside of the matrices. \
         After the last phase its threads store 1 element of D.",
        "naive 60 60 120 3 5 0 0 0 1.00",
        "tiled, 2 x 2 40 36 76 2 3 20 192 24 1.58",
    ];
    assert_printed(&printed("5x3x4", 2, 5), &expected);
}

/// Sizes with and without edges, in each direction, and tiles larger than the matrices.
const CASES: [(&str, u32); 6] =
    [("4", 2), ("5x3x4", 2), ("4x6x5", 2), ("7x9x6", 4), ("1x2x3", 8), ("17x5x33", 16)];

fn run(kernel: &'static regemm_kernels::kernel::KernelInfo, size: &str) -> (Run, Vec<Vec<Deed>>) {
    let run = Run::new(kernel, size.parse().unwrap()).unwrap();
    let deeds = deeds(&run, &run.threads).unwrap();
    (run, deeds)
}

/// Follows what lies in shared memory from phase to phase: each thread must then have added up a whole row of A times a
/// column of B, in order, and besides nothing but zeros.
#[test]
fn phases_add_up_rows_times_columns() {
    for (size, tile) in CASES {
        let (run, deeds) = run(kernels::tiled(tile), size);
        for block in deeds.chunks(run.kernel.threads() as usize) {
            let phases: Vec<Vec<Phase>> =
                block.iter().map(|deeds| phases(deeds).unwrap()).collect();
            let mut sums = vec![Vec::new(); block.len()];
            for number in 0..run.size.k.div_ceil(tile) as usize {
                let brought: BTreeMap<Place, Option<Element>> = phases
                    .iter()
                    .flat_map(|phases| &phases[number].brings)
                    .map(|&(element, place)| (place, element))
                    .collect();
                assert_eq!(brought.len() as u32, 2 * tile * tile, "both tiles are whole");
                for (phases, sum) in phases.iter().zip(&mut sums) {
                    let products = phases[number].products.iter();
                    sum.extend(products.filter_map(|(a, b)| brought[a].zip(brought[b])));
                }
            }
            for (deeds, sum) in block.iter().zip(sums) {
                let Some(&Deed::Store(Element { matrix: Name::D, row, col })) = deeds.last() else {
                    continue;
                };
                let product = |p| {
                    let a = Element { matrix: Name::A, row, col: p };
                    (a, Element { matrix: Name::B, row: p, col })
                };
                let expected: Vec<_> = (0..run.size.k.into()).map(product).collect();
                assert_eq!(sum, expected, "{size}, tiles of {tile}");
            }
        }
    }
}

/// Every element is loaded once for each row or column of D that needs it, or for each row or column of tiles.
#[test]
fn loads_of_each_element() {
    for (size, tile) in CASES {
        for (kernel, step) in [(kernels::naive(tile), 1), (kernels::tiled(tile), tile)] {
            let (run, deeds) = run(kernel, size);
            let mut times = BTreeMap::<Element, u32>::new();
            let mut stores = BTreeMap::<Element, u32>::new();
            for deed in deeds.iter().flatten() {
                match *deed {
                    Deed::Load(_, Some(element)) => *times.entry(element).or_default() += 1,
                    Deed::Store(element) => *stores.entry(element).or_default() += 1,
                    _ => {}
                }
            }
            let Size { m, n, k } = run.size;
            assert_eq!(times.len() as u32, m * k + k * n, "all of them");
            for (element, times) in times {
                let across = if element.matrix == Name::A { n } else { m };
                assert_eq!(times, across.div_ceil(step), "{element} in {size}, {}", kernel.name);
            }
            assert_eq!(stores.len() as u32, m * n);
            assert!(stores.values().all(|&times| times == 1));
        }
    }
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let arguments = Arguments { size: "4".parse().unwrap(), tile: 2, block: 4 };
    assert_eq!(show(&arguments).unwrap_err().to_string(), "there is no block 4: they are 0 to 3");
    for size in ["0", "65", "4x4", "4x4x4x4", "4xx4", ""] {
        size.parse::<Size>().unwrap_err();
    }
    for wrong in [["--tile", "3"], ["--size", "0"], ["--block", "-1"]] {
        assert!(Cli::try_parse_from(["phases"].iter().chain(&wrong)).is_err(), "{wrong:?}");
    }
    let usual = Cli::try_parse_from(["phases"]).unwrap().accesses;
    assert_eq!((usual.size, usual.tile, usual.block), ("4x4x4".parse().unwrap(), 2, 0));
}
