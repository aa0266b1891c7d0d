//! Powers of two that rows of A and columns of B were multiplied by, taken out of finished sums.

use super::LANES_OF_ROW;
use crate::outbox;
use crate::params::{GemmParams, MatrixRef};
use crate::split::{Line, scaled};
use crate::tile::Origin;
use crate::warpgroup_tile::WarpgroupTile;
use cuda_std::memory::GlobalPtr;
use cuda_std::wgmma::THREADS;
use cuda_std::{thread, warp};
use half::f16;

/// Columns in which a lane has two neighbouring sums of each of its rows.
const EIGHT: u32 = 8;

/// Divides sums by the powers of two that their rows of A and columns of B were multiplied by. Those of a warpgroup begin at `origin`.
///
/// # Safety
/// All products have been waited for; the parameters have the lines of both factors.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn divide<const N: usize, E>(
    sums: &mut WarpgroupTile<N>,
    p: &GemmParams<f16, E, f32>,
    origin: Origin,
) {
    let (warp, lane) = (thread::thread_idx_x() % THREADS / warp::WARP_SIZE, warp::lane_id());
    let row = origin.row + warp * outbox::ROWS as u32 + lane / LANES_OF_ROW;
    let col = origin.col + lane % LANES_OF_ROW * 2;
    // SAFETY: lines are loaded where there are some.
    unsafe {
        let rows = [0, EIGHT].map(|below| exponent(p.a, row + below, p.m));
        macro_rules! eight {
            ($($j:literal)*) => {$(
                if const { $j * (EIGHT as usize) < N } {
                    let cols = [0, 1].map(|next| exponent(p.b, col + $j * EIGHT + next, p.n));
                    divide!($j, cols: 0 0 0, 1 0 1, 2 1 0, 3 1 1);
                }
            )*};
        }
        macro_rules! divide {
            ($j:literal, $cols:ident: $($i:literal $row:literal $col:literal),*) => {$({
                const I: usize = $j * 4 + $i;
                sums.set::<I>(divided(sums.get::<I>(), rows[$row], $cols[$col]));
            })*};
        }
        eight!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    }
}

/// A sum without the powers of two that its row of A and its column of B were multiplied by.
#[inline(always)]
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
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn exponent(lines: MatrixRef<f16>, line: u32, count: u32) -> i32 {
    let lines: GlobalPtr<i16> = lines.data.cast();
    // SAFETY: as promised by the caller.
    Line::from_bits(unsafe { lines.add(line.into()).load_if(line < count) }).exponent()
}
