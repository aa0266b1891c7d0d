//! What is printed, and that it is what the kernel does.

use super::products::{stored, target};
use super::tables::multiply_adds;
use super::*;
use crate::Cli;
use crate::element::{Element, Name};
use crate::testing::{assert_printed, lines};
use clap::Parser;
use std::collections::BTreeMap;

fn arguments(line: &[&str]) -> Arguments {
    match Cli::try_parse_from(["phases", "fragments"].iter().chain(line)).unwrap().other {
        Some(crate::Other::Fragments(arguments)) => arguments,
        _ => panic!("{line:?}"),
    }
}

fn printed(line: &[&str]) -> Vec<String> {
    lines(&show(&arguments(line)).unwrap())
}

#[test]
fn two_by_two() {
    let expected = [
        "Thread (0,1) for k = 3 loads from shared memory",
        "of a column of A: A[4][3] A[5][3]",
        "of a row of B: B[3][6] B[3][7]",
        "to the sum of * B[3][6] * B[3][7]",
        "A[4][3] D[4][6] D[4][7]",
        "A[5][3] D[5][6] D[5][7]",
        "4 loads, 4 multiply-adds: each element of A is used 2 times, each of B 2.",
        // Loads and multiply-adds for one k, their ratio, and all loads from shared memory, multiply-adds and loads
        // from global memory.
        "1x1 2 1 2.000 2,048 1,024 1,024",
        "2x2 4 4 1.000 1,024 1,024 512",
        "4x4 8 16 0.500 512 1,024 256",
        "8x4 12 32 0.375 384 1,024 192",
        "8x8 16 64 0.250 256 1,024 128",
    ];
    assert_printed(&printed(&["--block", "5", "--thread", "1", "--k", "3"]), &expected);
}

#[test]
fn vectors_of_the_threads_take_turns() {
    let expected = [
        "of a column of A: A[4][1] A[5][1] A[6][1] A[7][1] A[12][1] A[13][1] A[14][1] A[15][1]",
        "of a row of B: B[1][0] B[1][1] B[1][2] B[1][3]",
        "12 loads, 32 multiply-adds: each element of A is used 4 times, each of B 8.",
    ];
    let line = ["--thread-tile", "8x4", "--thread", "2", "--k", "1"];
    assert_printed(&printed(&line), &expected);
}

#[test]
fn zeros_are_multiplied_at_edges() {
    let expected = [
        "Thread (0,1) for k = 2 loads from shared memory",
        "of a column of A: A[4][2] 0",
        "of a row of B: B[2][2] 0",
        "to the sum of * B[2][2] * 0",
        "A[4][2] D[4][2] outside of D",
        "0 outside of D outside of D",
        "4 loads, 4 multiply-adds: each element of A is used 2 times, each of B 2.",
    ];
    let line = ["--size", "5x3x3", "--block", "1", "--thread", "1", "--k", "2"];
    assert_printed(&printed(&line), &expected);
}

/// Each thread must have added up a whole row of A times a column of B, in order, for each element of D that it stores.
#[test]
fn fragments_add_up_rows_times_columns() {
    for size in ["16x16x4", "5x3x3", "4x6x5", "17x9x2", "1"] {
        for kernel in kernels::all() {
            let run = Run::new(kernel, size.parse().unwrap()).unwrap();
            let (tm, tn) = (kernel.tile.tm as usize, kernel.tile.tn as usize);
            assert_eq!(multiply_adds(&run).unwrap() as usize, tm * tn, "{}", kernel.name);
            let threads = 0..kernel.threads() as usize;
            for (block, thread) in
                (0..run.blocks()).flat_map(|block| threads.clone().map(move |own| (block, own)))
            {
                let mut sums = BTreeMap::<Element, Vec<_>>::new();
                for own in fragments(&run, block, thread).unwrap() {
                    assert_eq!((own.a.len(), own.b.len()), (tm, tn), "{}", kernel.name);
                    for (a, b) in own.a.iter().flat_map(|&a| own.b.iter().map(move |&b| (a, b))) {
                        if let Some(d) = target(a, b) {
                            sums.entry(d).or_default().push((a.unwrap(), b.unwrap()));
                        }
                    }
                }
                let expected = stored(&run, block, thread).unwrap().into_iter().map(|d| {
                    let product = |p| {
                        let a = Element { matrix: Name::A, row: d.row, col: p };
                        (a, Element { matrix: Name::B, row: p, col: d.col })
                    };
                    (d, (0..run.size.k.into()).map(product).collect())
                });
                assert_eq!(sums, expected.collect(), "{size}, {}", kernel.name);
            }
        }
    }
}

#[test]
fn what_cannot_be_shown_is_refused() {
    for (line, expected) in [
        (["--block", "16"], "there is no block 16: they are 0 to 15"),
        (["--thread", "4"], "there is no thread 4: they are 0 to 3"),
        (["--k", "4"], "there is no k 4: they are 0 to 3"),
    ] {
        assert_eq!(show(&arguments(&line)).unwrap_err().to_string(), expected);
    }
    for wrong in [["--thread-tile", "3x3"], ["--size", "0"], ["--k", "-1"]] {
        let line = ["phases", "fragments"].iter().chain(&wrong);
        assert!(Cli::try_parse_from(line).is_err(), "{wrong:?}");
    }
}
