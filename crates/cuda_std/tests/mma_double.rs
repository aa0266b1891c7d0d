//! Matrix products of a warp in double precision: fragments of all shapes against the tables of the PTX manual, element
//! by element, the arithmetic, and what is counted.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::mma::double::{
    multiply_add, multiply_add_8x8x4, multiply_add_16x8x4, multiply_add_16x8x8,
    multiply_add_16x8x16, multiply_add_in_parts,
};
use cuda_std::sim::{Counters, FaultKind, Simulator};
use cuda_std::{kernel, warp};
use std::array::from_fn;

const SOURCE: &str = include_str!("mma_double.rs");
const LANES: usize = 32;

/// Registers of A, B and C that a lane has room for, and those of D.
const OPERANDS: usize = 16;
const RESULTS: usize = 4;

/// A way to multiply, and the rows and columns of A.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    index: u32,
    m: usize,
    k: usize,
}

const WAYS: [Way; 6] = [
    Way { index: 0, m: 8, k: 4 },
    Way { index: 1, m: 16, k: 4 },
    Way { index: 2, m: 16, k: 8 },
    Way { index: 3, m: 16, k: 16 },
    // By what the target has, and in two parts.
    Way { index: 4, m: 16, k: 4 },
    Way { index: 5, m: 16, k: 4 },
];

/// Each lane multiplies the fragments that it finds: A's registers from the first on, B's from the ninth, C's from the
/// thirteenth.
#[kernel]
unsafe fn multiply(way: u32, operands: GlobalPtr<f64>, d: GlobalPtr<f64>) {
    let lane = u64::from(warp::lane_id());
    unsafe {
        let register = |i: usize| operands.add(lane * OPERANDS as u64 + i as u64).load();
        let all: [f64; OPERANDS] = from_fn(register);
        let (a, b, c) = (from_fn(|i| all[i]), from_fn(|i| all[8 + i]), from_fn(|i| all[12 + i]));
        let sums = match way {
            0 => {
                let [first, second] = multiply_add_8x8x4([a[0]], [b[0]], [c[0], c[1]]);
                [first, second, f64::NAN, f64::NAN]
            }
            1 => multiply_add_16x8x4([a[0], a[1]], [b[0]], c),
            2 => multiply_add_16x8x8([a[0], a[1], a[2], a[3]], [b[0], b[1]], c),
            3 => multiply_add_16x8x16(a, b, c),
            4 => multiply_add([a[0], a[1]], [b[0]], c),
            _ => multiply_add_in_parts([a[0], a[1]], [b[0]], c),
        };
        for (i, &sum) in sums.iter().enumerate() {
            d.add(lane * RESULTS as u64 + i as u64).store(sum);
        }
    }
}

/// Row and column of register `i` of a lane's fragment of A: "Matrix Fragments for mma.m8n8k4 with .f64 floating point
/// type" and those for m16n8k4, m16n8k8 and m16n8k16.
fn of_a(way: Way, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    match (way.m, way.k) {
        (8, _) => (group, thread_in_group),
        (_, 4) => (if i == 0 { group } else { group + 8 }, thread_in_group),
        (_, 8) => {
            let row = if i == 0 || i == 2 { group } else { group + 8 };
            (row, if i < 2 { thread_in_group } else { thread_in_group + 4 })
        }
        _ => {
            let row = if i.is_multiple_of(2) { group } else { group + 8 };
            let col = if i.is_multiple_of(2) { i * 2 } else { i * 2 - 2 };
            (row, col + thread_in_group)
        }
    }
}

/// The same of B.
fn of_b(way: Way, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    match way.k {
        4 => (thread_in_group, group),
        8 => (if i == 0 { thread_in_group } else { thread_in_group + 4 }, group),
        _ => (thread_in_group + i * 4, group),
    }
}

/// The same of C and D.
fn of_c(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread_in_group * 2 + (i & 1))
}

/// The factors and the addend of a product.
#[derive(Clone, Copy)]
struct Product {
    a: fn(usize, usize) -> f64,
    b: fn(usize, usize) -> f64,
    c: fn(usize, usize) -> f64,
}

/// D of a product, by rows, and what was counted.
fn run(product: Product, way: Way) -> (Vec<[f64; 8]>, Counters) {
    let registers = (way.m * way.k / LANES, way.k * 8 / LANES, way.m * 8 / LANES);
    let mut operands = vec![f64::NAN; OPERANDS * LANES];
    for (lane, operands) in operands.chunks_exact_mut(OPERANDS).enumerate() {
        let mut put = |i: usize, value: fn(usize, usize) -> f64, (row, col): (usize, usize)| {
            operands[i] = value(row, col);
        };
        (0..registers.0).for_each(|i| put(i, product.a, of_a(way, lane, i)));
        (0..registers.1).for_each(|i| put(8 + i, product.b, of_b(way, lane, i)));
        (0..registers.2).for_each(|i| put(12 + i, product.c, of_c(lane, i)));
    }
    let simulator = Simulator::new();
    let (operands, d) = (upload(&simulator, &operands), alloc::<f64>(&simulator, RESULTS * LANES));
    let counters = launch!(simulator, multiply[1, 32, 0](way.index, operands, d)).unwrap();
    let mut result = vec![[f64::NAN; 8]; way.m];
    for (lane, found) in download(&simulator, d, RESULTS * LANES).chunks_exact(RESULTS).enumerate()
    {
        for (i, &value) in found.iter().enumerate().take(registers.2) {
            let (row, col) = of_c(lane, i);
            result[row][col] = value;
        }
    }
    (result, counters)
}

/// Elements of A are told apart by their rows, those of B by their columns, and both by k.
#[test]
fn fragments_are_those_of_the_manual() {
    let product = Product {
        a: |row, k| (row * 16 + k) as f64 - 70.0,
        b: |k, col| (k * 8 + col) as f64 * 3.0 - 50.0,
        c: |row, col| (row * 100 + col) as f64,
    };
    for way in WAYS {
        let (d, counters) = run(product, way);
        for (row, values) in d.iter().enumerate() {
            for (col, &value) in values.iter().enumerate() {
                let products = (0..way.k).map(|k| (product.a)(row, k) * (product.b)(k, col));
                let expected = products.sum::<f64>() + (product.c)(row, col);
                assert_eq!(value, expected, "{way:?}: row {row}, column {col}");
            }
        }
        assert_eq!(counters.tensor_fma, (way.m * 8 * way.k) as u64, "{way:?}");
        assert_eq!((counters.fma, counters.warp_collectives), (0, 0), "{way:?}");
    }
}

/// Each product is rounded together with its sum, in ascending order of k and nothing else, whatever the instruction.
#[test]
fn sums_are_fused_in_ascending_order() {
    let product = Product {
        a: |row, k| 1.0 / (3.0 + (row * 16 + k) as f64),
        b: |k, col| (1.0 + (k * 8 + col) as f64).sqrt() - 7.0,
        c: |row, col| 1.0 / (1.0 + (row + col) as f64),
    };
    let mut other_orders = 0;
    for way in WAYS {
        let (d, _) = run(product, way);
        for (row, values) in d.iter().enumerate() {
            for (col, &value) in values.iter().enumerate() {
                let add = |sum, k| (product.a)(row, k).mul_add((product.b)(k, col), sum);
                let expected = (0..way.k).fold((product.c)(row, col), add);
                assert_eq!(value.to_bits(), expected.to_bits(), "{way:?}: row {row}, column {col}");
                let backwards = (0..way.k).rev().fold((product.c)(row, col), add);
                other_orders += u32::from(value != backwards);
            }
        }
    }
    assert!(other_orders > 100, "the order shows");
}

#[test]
fn special_values_are_those_of_ieee_754() {
    let product = Product {
        a: |row, k| match (row, k) {
            (0, 3) => f64::NAN,
            (1, 3) => f64::INFINITY,
            (2, 3) => 0.0,
            _ => 1.0,
        },
        b: |k, col| if (k, col) == (3, 5) { f64::INFINITY } else { 1.0 },
        c: |_, _| 0.0,
    };
    for way in WAYS {
        let (d, _) = run(product, way);
        assert!(d[0].iter().all(|x| x.is_nan()));
        assert!(d[1].iter().all(|&x| x == f64::INFINITY));
        assert!(d[2][5].is_nan(), "0 * infinity");
        assert_eq!((d[2][0], d[3][5]), ((way.k - 1) as f64, f64::INFINITY));
    }
}

/// Lanes that reach the instruction: all, or the lower half.
#[kernel]
unsafe fn diverge(half: u32) {
    unsafe {
        if half == 0 || warp::lane_id() < 16 {
            multiply_add_8x8x4([1.0], [1.0], [0.0; 2]); // a product
        }
    }
}

#[test]
fn all_lanes_execute_it_together() {
    let simulator = Simulator::new();
    launch!(simulator, diverge[1, 64, 0](0_u32)).unwrap();
    let missing = fault(launch!(simulator, diverge[1, 32, 0](1_u32)));
    assert_eq!(missing.kind, FaultKind::DivergentBarrier { missing: [16, 0, 0] });
    let partial = fault(launch!(simulator, diverge[1, 40, 0](0_u32)));
    assert_eq!(partial.kind, FaultKind::PartialWarp { lanes: 8 });
    assert_line(&partial, SOURCE, "a product");
}
