//! The arithmetic of a warpgroup matrix instruction.
//!
//! The products are exact. NVIDIA does not document in which order a tensor core adds them up, nor how it rounds in between. Here
//! an accumulator and the products of one instruction are added up in f64, in the order of k, and the sum is rounded to f32 once,
//! to nearest: what a GPU gives differs from it by no more than it differs from the exact sum.

use super::operands::UNIT;
use crate::wgmma::{K, M};
use half::{bf16, f16};

/// Elements of a unit.
pub(super) const ELEMENTS: usize = UNIT / size_of::<u16>();

/// Where the units of an operand of `rows` rows or columns begin, in the order in which they are read: `(i, k)`.
pub(super) fn units(rows: usize, transposed: bool) -> impl Iterator<Item = (usize, usize)> {
    let (i_step, k_step) = if transposed { (ELEMENTS, 1) } else { (1, ELEMENTS) };
    (0..K).step_by(k_step).flat_map(move |k| (0..rows).step_by(i_step).map(move |i| (i, k)))
}

/// The operand whose units are given, as `K` rows of `rows` numbers.
pub(super) fn operand(
    units_read: impl Iterator<Item = [u8; UNIT]>,
    rows: usize,
    transposed: bool,
    is_bf16: bool,
) -> Vec<f64> {
    let mut numbers = vec![0.0; K * rows];
    for ((i, k), unit) in units(rows, transposed).zip(units_read) {
        for (e, bytes) in unit.chunks_exact(size_of::<u16>()).enumerate() {
            let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
            let number = if is_bf16 {
                bf16::from_bits(bits).to_f64()
            } else {
                f16::from_bits(bits).to_f64()
            };
            let (i, k) = if transposed { (i + e, k) } else { (i, k + e) };
            numbers[k * rows + i] = number;
        }
    }
    numbers
}

/// Adds the product of `a`, `K` rows of `M`, and `b`, `K` rows of `n`, to the `M` rows of `d`, which count as 0 unless
/// `accumulate`.
pub(super) fn multiply_add(d: &mut [f32], a: &[f64], b: &[f64], n: usize, accumulate: bool) {
    let mut sums = vec![0.0; n];
    for (i, row) in d.chunks_exact_mut(n).enumerate() {
        for (sum, &d) in sums.iter_mut().zip(&*row) {
            *sum = if accumulate { d as f64 } else { 0.0 };
        }
        for (k, b) in b.chunks_exact(n).enumerate() {
            let a = a[k * M + i];
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        for (d, &sum) in row.iter_mut().zip(&sums) {
            *d = sum as f32;
        }
    }
}
