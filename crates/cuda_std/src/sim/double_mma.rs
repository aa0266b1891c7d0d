//! Matrix products of a warp in double precision. See [`crate::mma::double`] for the layouts of fragments and for the
//! arithmetic.

use super::access::Place;
use super::arithmetic::fma_f64;
use super::collective::Operation;
use super::mma::{LANES_OF_ROW, place_of_sum, whole_warp};
use super::worker::{Thread, current};
use crate::mma::double::{K, M, N, SMALLEST_K, SMALLEST_M};

/// Rows of A and columns of A in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoubleShape {
    M8K4,
    M16K4,
    M16K8,
    M16K16,
}

impl DoubleShape {
    /// Rows of A and D.
    fn rows(self) -> usize {
        if self == DoubleShape::M8K4 { SMALLEST_M } else { M }
    }

    /// Columns of A and rows of B.
    fn depth(self) -> usize {
        match self {
            DoubleShape::M8K4 | DoubleShape::M16K4 => SMALLEST_K,
            DoubleShape::M16K8 => 2 * SMALLEST_K,
            DoubleShape::M16K16 => K,
        }
    }

    /// Multiply-adds of an instruction.
    pub(super) fn multiply_adds(self) -> u64 {
        (self.rows() * N * self.depth()) as u64
    }
}

/// What a lane brings to a product, and what it takes away: the first registers of each, as many as the shape has.
#[derive(Clone, Copy, Default)]
pub(super) struct Doubles {
    a: [f64; 8],
    b: [f64; 4],
    c: [f64; 4],
}

/// `A * B + C`.
pub(crate) fn multiply_add<const A: usize, const B: usize, const C: usize>(
    shape: DoubleShape,
    a: [f64; A],
    b: [f64; B],
    c: [f64; C],
    place: Place,
) -> [f64; C] {
    let mut doubles = Doubles::default();
    doubles.a[..A].copy_from_slice(&a);
    doubles.b[..B].copy_from_slice(&b);
    doubles.c[..C].copy_from_slice(&c);
    let worker = current();
    // SAFETY: the worker is the current one, and no reference to it is alive where the thread is suspended.
    let sums = unsafe {
        let thread = (*worker).thread as usize;
        (&mut (*worker).threads)[thread].doubles = doubles;
        whole_warp(Operation::MultiplyAddDoubles(shape), place);
        (&(*worker).threads)[thread].doubles.c
    };
    let mut result = [0.0; C];
    result.copy_from_slice(&sums[..C]);
    result
}

/// Multiplies the fragments of a whole warp.
pub(super) fn multiply(warp: &mut [Thread], shape: DoubleShape) {
    let (rows, depth) = (shape.rows(), shape.depth());
    let halves = rows / SMALLEST_M;
    let mut a = [[0.0; K]; M];
    let mut b = [[0.0; N]; K];
    for (lane, Thread { doubles, .. }) in warp.iter().enumerate() {
        let (g, t) = (lane / LANES_OF_ROW, lane % LANES_OF_ROW);
        for i in 0..depth / SMALLEST_K {
            let k = i * SMALLEST_K + t;
            for half in 0..halves {
                a[half * SMALLEST_M + g][k] = doubles.a[i * halves + half];
            }
            b[k][g] = doubles.b[i];
        }
    }
    for (lane, thread) in warp.iter_mut().enumerate() {
        for (i, sum) in thread.doubles.c[..2 * halves].iter_mut().enumerate() {
            let (row, col) = place_of_sum(lane, i);
            for k in 0..depth {
                *sum = fma_f64(a[row][k], b[k][col], *sum);
            }
        }
    }
}
