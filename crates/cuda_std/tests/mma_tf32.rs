//! Matrix products of a warp with factors of TF32: fragments against the tables of the PTX manual, the arithmetic, and
//! rounding.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, download, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::mma::{Factor, multiply_add, tf32};
use cuda_std::sim::{Counters, Simulator};
use cuda_std::{kernel, warp};

const LANES: usize = 32;

/// Registers of A, B and C that a lane passes.
const OPERANDS: usize = 10;

/// Each lane multiplies the fragments that it finds, A's registers first.
#[kernel]
unsafe fn multiply(operands: GlobalPtr<f32>, d: GlobalPtr<f32>) {
    let lane = u64::from(warp::lane_id());
    unsafe {
        let register = |i: usize| operands.add(lane * OPERANDS as u64 + i as u64).load();
        let a = std::array::from_fn(|i| register(i).to_bits());
        let b = std::array::from_fn(|i| register(4 + i).to_bits());
        let c = std::array::from_fn(|i| register(6 + i));
        d.add(lane * 4).store_vec(multiply_add::<f32>(a, b, c));
    }
}

/// Row and column of register `i` of a lane's fragment of A: "Matrix Fragments for mma.m16n8k8", those of `.tf32`.
fn of_a(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    let row = if i == 0 || i == 2 { group } else { group + 8 };
    let col = if i == 0 || i == 1 { thread_in_group } else { thread_in_group + 4 };
    (row, col)
}

/// The same of B.
fn of_b(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    (if i == 0 { thread_in_group } else { thread_in_group + 4 }, group)
}

/// The same of C and D.
fn of_c(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread_in_group * 2 + (i & 1))
}

type Values = fn(usize, usize) -> f32;

/// D of a product, by rows, and what was counted.
fn run(a: Values, b: Values, c: Values) -> ([[f32; 8]; 16], Counters) {
    let mut operands = Vec::new();
    for lane in 0..LANES {
        let value = |value: Values, (row, col): (usize, usize)| value(row, col);
        operands.extend((0..4).map(|i| value(a, of_a(lane, i))));
        operands.extend((0..2).map(|i| value(b, of_b(lane, i))));
        operands.extend((0..4).map(|i| value(c, of_c(lane, i))));
    }
    let simulator = Simulator::new();
    let (operands, d) = (upload(&simulator, &operands), alloc::<f32>(&simulator, 4 * LANES));
    let counters = launch!(simulator, multiply[1, 32, 0](operands, d)).unwrap();
    let mut result = [[f32::NAN; 8]; 16];
    for (lane, registers) in download(&simulator, d, 4 * LANES).chunks_exact(4).enumerate() {
        for (i, &value) in registers.iter().enumerate() {
            let (row, col) = of_c(lane, i);
            result[row][col] = value;
        }
    }
    (result, counters)
}

/// Every element of A times every element of B and all of C are told apart by what they add to D.
#[test]
fn fragments_are_those_of_the_manual() {
    let a: Values = |row, k| ((row * 8 + k) % 11) as f32 - 5.0;
    let b: Values = |k, col| ((k * 8 + col) % 13) as f32 - 6.0;
    let c: Values = |row, col| (row * 100 + col) as f32;
    let (d, counters) = run(a, b, c);
    for (row, values) in d.iter().enumerate() {
        for (col, &value) in values.iter().enumerate() {
            let products = (0..tf32::K).map(|k| a(row, k) * b(k, col));
            assert_eq!(value, products.sum::<f32>() + c(row, col), "row {row}, column {col}");
        }
    }
    assert_eq!(tf32::K, 8);
    assert_eq!(counters.tensor_fma, 16 * 8 * 8);
}

/// One column of A and one row of B at a time: only their products may show, and only where they belong.
#[test]
fn each_element_has_its_place() {
    const OF_K: [(Values, Values); 8] = {
        macro_rules! of_k {
            ($($only:literal)*) => {[$((
                |row, k| if k == $only { 1.0 + row as f32 } else { 0.0 },
                |k, col| if k == $only { 1.0 + 16.0 * col as f32 } else { 0.0 },
            )),*]};
        }
        of_k!(0 1 2 3 4 5 6 7)
    };
    for (k, (a, b)) in OF_K.into_iter().enumerate() {
        let (d, _) = run(a, b, |_, _| 0.0);
        for (row, values) in d.iter().enumerate() {
            for (col, &value) in values.iter().enumerate() {
                let expected = (1 + row) * (1 + 16 * col);
                assert_eq!(value, expected as f32, "k {k}, row {row}, column {col}");
            }
        }
    }
}

/// 11 bits and the exponents of f32; what a register has beyond that is not looked at.
#[test]
fn products_are_those_of_eleven_bits() {
    let ulp = f32::EPSILON * (1 << 13) as f32;
    let (d, _) = run(|_, k| if k == 0 { 1e-30 } else { 0.0 }, |_, _| 1e30, |_, _| 0.0);
    let [x, y] = [1e-30_f32, 1e30].map(|x| f32::from_bits(x.to_bits() & !((1 << 13) - 1)));
    assert_eq!(d[3][4], x * y);
    // The last bit of a TF32 counts, the one behind it does not.
    let last: Values = |_, k| if k == 1 { 1.0 + f32::EPSILON * (1 << 13) as f32 } else { 0.0 };
    let behind: Values = |_, k| if k == 1 { 1.0 + f32::EPSILON * (1 << 12) as f32 } else { 0.0 };
    assert_eq!(run(last, |_, _| 1.0, |_, _| 0.0).0[0][0], 1.0 + ulp);
    assert_eq!(run(behind, |_, _| 1.0, |_, _| 0.0).0[0][0], 1.0);
}

#[test]
fn sums_are_truncated_once_an_instruction() {
    let small: Values = |row, k| if row % 2 == 0 || k == 0 { 2.0_f32.powi(-12) } else { 0.0 };
    let (d, _) = run(
        small,
        |_, col| if col % 2 == 0 { 2.0_f32.powi(-13) } else { -(2.0_f32.powi(-13)) },
        |_, _| 1.0,
    );
    assert_eq!(d[0][0], 1.0 + 8.0 * 2.0_f32.powi(-25), "8 products, none of which is lost");
    assert_eq!(d[1][0], 1.0, "below the last place");
    assert_eq!(d[1][1], 1.0 - f32::EPSILON / 2.0, "truncated, not rounded to 1");
    // Of a term that is as small beside the largest nothing is left before it is added.
    let (d, _) = run(small, |_, _| 2.0_f32.powi(-14), |_, _| 1.0);
    assert_eq!(d[0][0], 1.0, "8 products of 2^-26, all of which are lost");
}

#[test]
fn rounding_is_to_the_nearest_and_away_from_zero() {
    let ulp = 2.0_f32.powi(-10);
    for sign in [1.0, -1.0] {
        let rounded = |x: f32| sign * tf32::round(sign * x);
        assert_eq!(rounded(1.0 + 0.499 * ulp), 1.0);
        assert_eq!(rounded(1.0 + 0.5 * ulp), 1.0 + ulp, "of two as near the larger");
        assert_eq!(rounded(1.0 + 1.5 * ulp), 1.0 + 2.0 * ulp);
        assert_eq!(rounded(2.0 - 0.1 * ulp), 2.0, "past a power of two");
        assert_eq!(rounded(1e-30), rounded(rounded(1e-30)));
        assert!((rounded(3.3e38) / 3.3e38 - 1.0).abs() <= ulp / 2.0);
        assert_eq!(rounded(f32::MAX), f32::INFINITY);
        assert_eq!(rounded(f32::INFINITY), f32::INFINITY);
        assert_eq!(
            rounded(f32::from_bits(1 << 12)).to_bits(),
            1 << 13,
            "subnormal numbers as well"
        );
    }
    assert!(tf32::round(f32::NAN).is_nan());
    assert_eq!(f32::to_operand((1.0 + 0.5 * ulp).to_bits()), (1.0 + ulp).to_bits());
    assert_eq!(half::f16::to_operand(0x1234_5677), 0x1234_5677, "halves are what they are");
}
