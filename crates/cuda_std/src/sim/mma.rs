//! Matrix products of a warp: what lanes bring to them, and what they get. See [`crate::mma`] for the layouts of
//! fragments and for the arithmetic.

use super::access::{Place, collective, shared_load, shared_store};
use super::collective::{Collective, Operation};
use super::fault::FaultKind;
use super::limits::WARP_THREADS;
use super::product;
use super::worker::{Thread, current, raise};
use crate::mma::{FragmentA, FragmentB, FragmentC, K, M, MATRIX, N};
use half::{bf16, f16};
use std::array::from_fn;

const LANES: usize = WARP_THREADS as usize;

/// Lanes that hold a row of an 8 x 8 matrix together.
pub(super) const LANES_OF_ROW: usize = 4;

/// The type of the factors of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F16,
    Bf16,
    Tf32,
}

impl Format {
    /// Elements of a register.
    fn in_register(self) -> usize {
        match self {
            Format::F16 | Format::Bf16 => 2,
            Format::Tf32 => 1,
        }
    }

    /// Columns of A and rows of B in one instruction.
    fn depth(self) -> usize {
        K / 2 * self.in_register()
    }

    /// Multiply-adds of one instruction.
    pub(super) fn multiply_adds(self) -> u64 {
        (M * N * self.depth()) as u64
    }

    /// Both elements of a register, the lower half first, or the only one. Exact.
    fn elements(self, register: u32) -> impl Iterator<Item = f64> {
        let halves = [register as u16, (register >> u16::BITS) as u16];
        let element = move |i: usize| match self {
            Format::F16 => f16::from_bits(halves[i]).to_f32().into(),
            Format::Bf16 => bf16::from_bits(halves[i]).to_f32().into(),
            Format::Tf32 => f32::from_bits(register & !TF32_DROPPED).into(),
        };
        (0..self.in_register()).map(element)
    }
}

/// The bits of an f32 that a TF32 does not have.
const TF32_DROPPED: u32 = (1 << 13) - 1;

/// The nearest TF32, of two that are as near the one further from zero.
pub(crate) fn round_to_tf32(x: f32) -> f32 {
    /// What the manual calls the canonical one.
    const NAN: u32 = 0x7fff_ffff;
    if x.is_nan() {
        return f32::from_bits(NAN);
    }
    // The carry of the largest makes infinity, and infinity has none.
    f32::from_bits((x.to_bits() + TF32_DROPPED.div_ceil(2)) & !TF32_DROPPED)
}

/// What a lane brings to an operation on matrices, and what it takes away.
#[derive(Clone, Copy, Default)]
pub(super) struct Fragments {
    /// Of a load the row that the lane has read, and then its registers; of a store the other way round.
    a: FragmentA,
    b: FragmentB,
    c: FragmentC,
}

/// Reads a row of a matrix and gives the lane its registers of all four.
pub(crate) fn load_matrices(address: u32, transposed: bool, place: Place) -> [u32; 4] {
    // SAFETY: any bits are a valid row.
    let row: [u16; MATRIX] = unsafe { shared_load(address, true, place) };
    let word = |i: usize| u32::from(row[2 * i]) | u32::from(row[2 * i + 1]) << u16::BITS;
    let fragments = Fragments { a: from_fn(word), ..Fragments::default() };
    together(Operation::LoadMatrices { transposed }, fragments, place).a
}

/// Takes the lane's registers of all four matrices and writes a row of one.
pub(crate) fn store_matrices(address: u32, registers: [u32; 4], transposed: bool, place: Place) {
    let fragments = Fragments { a: registers, ..Fragments::default() };
    let row = together(Operation::StoreMatrices { transposed }, fragments, place).a;
    // SAFETY: words have no padding.
    unsafe { shared_store(address, row, true, place) }
}

/// `A * B + C`.
pub(crate) fn multiply_add(
    format: Format,
    (a, b, c): (FragmentA, FragmentB, FragmentC),
    place: Place,
) -> FragmentC {
    together(Operation::MultiplyAdd(format), Fragments { a, b, c }, place).c
}

/// Executes an operation with all lanes of the warp, each of which brings fragments.
fn together(operation: Operation, fragments: Fragments, place: Place) -> Fragments {
    let worker = current();
    // SAFETY: the worker is the current one, and no reference to it is alive where the thread is suspended.
    unsafe {
        let thread = (*worker).thread as usize;
        (&mut (*worker).threads)[thread].fragments = fragments;
        whole_warp(operation, place);
        (&(*worker).threads)[thread].fragments
    }
}

/// Waits until all lanes of the warp have come to an operation and it is done, or ends the launch where some are
/// missing for ever.
///
/// # Safety
/// No reference to the current worker is alive.
pub(super) unsafe fn whole_warp(operation: Operation, place: Place) {
    let worker = current();
    // SAFETY: as promised by the caller.
    unsafe {
        let state = &*worker;
        let thread = state.thread as usize;
        let lanes = (state.threads.len() - thread / LANES * LANES).min(LANES);
        if lanes < LANES {
            let name = operation.name();
            let message =
                format!("executes a {name} in a warp of {lanes} threads: it takes all 32");
            raise(worker, FaultKind::PartialWarp { lanes: lanes as u32 }, None, message, place)
        }
    }
    let mask = u32::MAX;
    collective(Collective { operation, mask, value: 0, operand: 0, location: place });
}

/// Hands each lane of a whole warp its registers of the rows that all of them have read.
pub(super) fn distribute(warp: &mut [Thread], transposed: bool) {
    let rows: [FragmentA; LANES] = from_fn(|lane| warp[lane].fragments.a);
    let element = |matrix: usize, row: usize, col: usize| {
        rows[matrix * MATRIX + row][col / 2] >> (col % 2 * 16) & u32::from(u16::MAX)
    };
    for (lane, thread) in warp.iter_mut().enumerate() {
        let (g, t) = (lane / LANES_OF_ROW, lane % LANES_OF_ROW);
        thread.fragments.a = from_fn(|matrix| {
            let [low, high] = [2 * t, 2 * t + 1]
                .map(|i| if transposed { element(matrix, i, g) } else { element(matrix, g, i) });
            low | high << u16::BITS
        });
    }
}

/// Hands each lane of a whole warp the row that it is to write, of the registers of all of them.
pub(super) fn gather(warp: &mut [Thread], transposed: bool) {
    let registers: [FragmentA; LANES] = from_fn(|lane| warp[lane].fragments.a);
    let element = |matrix: usize, row: usize, col: usize| {
        registers[row * LANES_OF_ROW + col / 2][matrix] >> (col % 2 * 16) & u32::from(u16::MAX)
    };
    for (lane, thread) in warp.iter_mut().enumerate() {
        let (matrix, row) = (lane / MATRIX, lane % MATRIX);
        thread.fragments.a = from_fn(|t| {
            let [low, high] = [2 * t, 2 * t + 1].map(|i| {
                if transposed { element(matrix, i, row) } else { element(matrix, row, i) }
            });
            low | high << u16::BITS
        });
    }
}

/// Multiplies the fragments of a whole warp.
pub(super) fn multiply(warp: &mut [Thread], format: Format) {
    let mut a = [[0.0; K]; M];
    let mut b = [[0.0; N]; K];
    for (lane, Thread { fragments, .. }) in warp.iter().enumerate() {
        let (g, t) = (lane / LANES_OF_ROW, lane % LANES_OF_ROW);
        // Where the elements of a register begin along k, of the registers for the first half of the depth and for the
        // second.
        let k = |half: usize| t * format.in_register() + half * format.depth() / 2;
        for (i, &register) in fragments.a.iter().enumerate() {
            for (e, value) in format.elements(register).enumerate() {
                a[g + i % 2 * 8][k(i / 2) + e] = value;
            }
        }
        for (i, &register) in fragments.b.iter().enumerate() {
            for (e, value) in format.elements(register).enumerate() {
                b[k(i) + e][g] = value;
            }
        }
    }
    let mut sums = [[0.0; N]; M];
    for (lane, thread) in warp.iter().enumerate() {
        for (i, &c) in thread.fragments.c.iter().enumerate() {
            let (row, col) = place_of_sum(lane, i);
            sums[row][col] = c;
        }
    }
    product::multiply_add_of_warp(&mut sums, &a, &b);
    for (lane, thread) in warp.iter_mut().enumerate() {
        thread.fragments.c = from_fn(|i| {
            let (row, col) = place_of_sum(lane, i);
            sums[row][col]
        });
    }
}

/// Row and column of register `i` of a lane's fragment of C and D.
pub(super) fn place_of_sum(lane: usize, i: usize) -> (usize, usize) {
    (lane / LANES_OF_ROW + i / 2 * 8, lane % LANES_OF_ROW * 2 + i % 2)
}

/// The f32 that is nearest to a value among those not larger in magnitude; what is past the largest becomes infinite.
#[inline(always)]
pub(super) fn truncate(value: f64) -> f32 {
    /// The first power of two that is no f32.
    const OVERFLOW: f64 = 2.0 * (1_u128 << 127) as f64;
    let nearest = value as f32;
    let past = (f64::from(nearest).abs() > value.abs()) & (value.abs() < OVERFLOW);
    // The number before has the bits before, also where a power of two lies between. Without a branch, for vectors.
    f32::from_bits(nearest.to_bits().wrapping_sub(past.into()))
}

#[cfg(test)]
mod tests {
    use super::truncate;

    #[test]
    fn truncation_is_towards_zero() {
        let epsilon = f64::from(f32::EPSILON);
        for sign in [1.0, -1.0] {
            let truncated = |value: f64| f64::from(truncate(sign * value)) * sign;
            assert_eq!(truncated(1.0 + 0.99 * epsilon), 1.0);
            assert_eq!(truncated(1.0 + epsilon), 1.0 + epsilon);
            assert_eq!(truncated(1.0 - 0.01 * epsilon), 1.0 - epsilon / 2.0, "past a power of two");
            assert_eq!(truncated(0.75 * f64::from(f32::from_bits(1))), 0.0);
            assert_eq!(truncated(f64::from(f32::MAX) * (1.0 + 0.4 * epsilon)), f64::from(f32::MAX));
            assert_eq!(truncated(2.0_f64.powi(128)), f64::INFINITY);
            assert_eq!(truncated(f64::INFINITY), f64::INFINITY);
        }
        assert!(truncate(f64::NAN).is_nan());
    }
}
