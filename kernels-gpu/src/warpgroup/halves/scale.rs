//! Powers of two that rows of A and columns of B were multiplied by, taken out of finished sums.
//!
//! A lane has sums in a quarter of the columns, those which all lanes of its kind have, so that each exponent of a
//! column would be loaded eight times. Instead a warp loads those of all columns once, each lane some of them, and
//! lanes pass them on.
//!
//! A sum is multiplied by a factor of its row and one of its column, of which first the product is made: one after the
//! other a large row would make a sum infinite before its small column makes it finite again. Powers of two of lines
//! with less than 2^-49 or more than 2^77 at most are too large or too small for that: where there are some all are
//! taken out in two rounds, half of each exponent at a time. Nothing is rounded but the result.

use super::LANES_OF_ROW;
use crate::params::{GemmParams, MatrixRef};
use crate::prepare::split::{Line, power_of_two, scaled};
use crate::tile::Origin;
use crate::warpgroup::outbox;
use crate::warpgroup::tile::WarpgroupTile;
use cuda_std::memory::GlobalPtr;
use cuda_std::wgmma::THREADS;
use cuda_std::{device_inline, hint, thread, warp};
use half::f16;

/// Columns in which a lane has two neighbouring sums of each of its rows.
const EIGHT: u32 = 8;

/// Columns of which the lanes of a warp load two each.
const COLS_OF_WARP: usize = 2 * warp::WARP_SIZE as usize;

/// The most columns that a tile has, in [`COLS_OF_WARP`].
const PAIRS: usize = 256 / COLS_OF_WARP;

/// The largest exponent, and with the other sign the smallest, by whose power of two a sum can be divided in one round:
/// the product of two such is a normal number. So is that of two powers of half the largest exponents there are, and
/// one of half the smallest is subnormal or zero only where the result is zero. Sums are multiples of 2^-59 and, with
/// any depth, below 2^62: after the first of two rounds they are between what they were and the result, and if that has
/// rounded them the second leaves zero.
const NEAR: i32 = 63;

/// Exponents of two neighbouring columns, in the lower and the upper half.
#[derive(Clone, Copy)]
struct Pair(u32);

impl Pair {
    #[device_inline]
    fn new([first, second]: [i32; 2]) -> Pair {
        Pair(u32::from(first as u16) | (second as u32) << u16::BITS)
    }

    #[device_inline]
    fn exponents(self) -> [i32; 2] {
        [i32::from(self.0 as i16), self.0 as i32 >> u16::BITS]
    }
}

/// Divides sums by the powers of two that their rows of A and columns of B were multiplied by. Those of a warpgroup
/// begin at `origin`.
///
/// # Safety
/// As for [`Powers::load`] and [`Powers::divide`].
#[device_inline]
#[track_caller]
pub(crate) unsafe fn divide<const N: usize, E>(
    sums: &mut WarpgroupTile<N>,
    p: &GemmParams<f16, E, f32>,
    origin: Origin,
) {
    // SAFETY: as promised by the caller.
    unsafe { Powers::<N>::load(p, origin).divide(sums) }
}

/// The powers of two of a lane's rows and of its warp's `N` columns: to be loaded while there is something else to wait
/// for.
#[derive(Clone, Copy)]
pub(crate) struct Powers<const N: usize> {
    /// Exponents of this lane's upper row and lower row.
    rows: [i32; 2],
    /// Of columns, which lanes pass on.
    pairs: [Pair; PAIRS],
    /// Whether one round is enough, as far as this lane knows.
    near: bool,
}

impl<const N: usize> Powers<N> {
    /// All one.
    pub const NONE: Self = Powers { rows: [0; 2], pairs: [Pair(0); PAIRS], near: true };

    /// Loads those of a warpgroup's sums, which begin at `origin`.
    ///
    /// # Safety
    /// The parameters have the lines of both factors.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load<E>(p: &GemmParams<f16, E, f32>, origin: Origin) -> Self {
        const { assert!(N.is_multiple_of(COLS_OF_WARP) && N <= PAIRS * COLS_OF_WARP, "whole pairs") };
        let (warp, lane) = (thread::thread_idx_x() % THREADS / warp::WARP_SIZE, warp::lane_id());
        let row = origin.row + warp * outbox::ROWS as u32 + lane / LANES_OF_ROW;
        // SAFETY: lines are loaded where there are some.
        let exponent = |lines, line, count| unsafe { exponent(lines, line, count) };
        let rows = [0, EIGHT].map(|below| exponent(p.a, row + below, p.m));
        let mut near = is_near(rows);
        let mut pairs = [Pair(0); PAIRS];
        for i in 0..N / COLS_OF_WARP {
            let col = origin.col + (i * COLS_OF_WARP) as u32 + 2 * lane;
            let cols = [0, 1].map(|next| exponent(p.b, col + next, p.n));
            near &= is_near(cols);
            pairs[i] = Pair::new(cols);
        }
        Powers { rows, pairs, near }
    }

    /// Divides sums by them.
    ///
    /// # Safety
    /// All lanes of the warp get here together; all products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn divide(self, sums: &mut WarpgroupTile<N>) {
        let Powers { rows, pairs, near } = self;
        let lane = warp::lane_id();
        macro_rules! divide {
            ($of_rows:ident, $pairs:ident: $($j:literal)*) => {$(
                if const { $j * (EIGHT as usize) < N } {
                    // Four lanes' pairs, one for each lane of a row, are 8 columns.
                    const OF_WARP: usize = COLS_OF_WARP / EIGHT as usize;
                    let from = ($j % OF_WARP) as u32 * LANES_OF_ROW + lane % LANES_OF_ROW;
                    // SAFETY: all lanes get here together.
                    let pair = unsafe { warp::shuffle(warp::FULL_MASK, $pairs[$j / OF_WARP].0, from) };
                    let pair = Pair(pair);
                    let of_cols = pair.exponents().map(|exponent| power_of_two(-exponent));
                    divide!(@ $j, $of_rows, of_cols: 0 0 0, 1 0 1, 2 1 0, 3 1 1);
                }
            )*};
            (@ $j:literal, $of_rows:ident, $of_cols:ident: $($i:literal $row:literal $col:literal),*) => {$({
                const I: usize = $j * 4 + $i;
                // SAFETY: all products have been waited for.
                unsafe { sums.set::<I>(sums.get::<I>() * ($of_rows[$row] * $of_cols[$col])) };
            })*};
        }
        // SAFETY: as promised by the caller.
        let rounds = unsafe { hint::uniform(if all(near) { 1 } else { 2 }) };
        for round in 0..rounds {
            let part = |exponent: i32| match (rounds, round) {
                (1, _) => exponent,
                (_, 0) => exponent >> 1,
                _ => exponent - (exponent >> 1),
            };
            let of_rows = rows.map(|exponent| power_of_two(-part(exponent)));
            let pairs = pairs.map(|pair| Pair::new(pair.exponents().map(part)));
            divide!(of_rows, pairs: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        }
    }
}

/// Whether sums can be divided by the powers of two of both, one after the other.
#[device_inline]
fn is_near(exponents: [i32; 2]) -> bool {
    exponents[0].abs() <= NEAR && exponents[1].abs() <= NEAR
}

/// Whether it is so in all lanes.
///
/// # Safety
/// All lanes of the warp get here together.
#[device_inline]
#[track_caller]
unsafe fn all(mut holds: bool) -> bool {
    for bit in [16, 8, 4, 2, 1] {
        // SAFETY: as promised by the caller.
        holds &= unsafe { warp::shuffle_xor(warp::FULL_MASK, u32::from(holds), bit) } != 0;
    }
    holds
}

/// A sum without the powers of two that its row of A and its column of B were multiplied by.
#[device_inline]
pub(crate) fn divided(sum: f32, of_row: i32, of_col: i32) -> f32 {
    /// The most that [`scaled`] takes off.
    const MOST: i32 = 252;
    // What is smaller becomes zero in any case.
    scaled(sum, -(of_row + of_col).min(MOST))
}

/// By which power of two the elements of a line were multiplied, if there is such a line.
///
/// # Safety
/// There are so many lines.
#[device_inline]
#[track_caller]
pub(crate) unsafe fn exponent(lines: MatrixRef<f16>, line: u32, count: u32) -> i32 {
    let lines: GlobalPtr<i16> = lines.data.cast();
    // SAFETY: as promised by the caller.
    Line::from_bits(unsafe { lines.add(line.into()).load_if(line < count) }).exponent()
}
