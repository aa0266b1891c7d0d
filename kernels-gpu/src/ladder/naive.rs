//! One thread, one element of D.
//!
//! Each thread walks a row of A and a column of B. Neighbouring threads of a warp own neighbouring columns, so their
//! reads of B are coalesced and their reads of A are the same address; still every product costs two loads from global
//! memory, and each operand is fetched again by every thread that needs it. This is the baseline of the ladder.
//!
//! Where B is transposed its columns are rows in memory, and each thread of a warp reads from a place of its own: such
//! reads cannot be coalesced, and become so only by way of shared memory ([`crate::ladder::tiled`]).

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::device_inline;
use cuda_std::thread;

/// The kernel for blocks of `BM x BN` threads, factors in the layouts `L`, and results of `D`.
pub struct Naive<T, const BM: usize, const BN: usize, L = Nn, D = T>(PhantomData<(T, L, D)>);

impl<T: Element, const BM: usize, const BN: usize, L: OperandLayouts, D: Element<Acc = T::Acc>>
    GemmKernel for Naive<T, BM, BN, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::Naive;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile = Tile { bm: BM as u32, bn: BN as u32, bk: 1, tm: 1, tn: 1, stages: 0 };
    const SHARED_BYTES: u32 = 0;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let origin = block_tile(&Self::TILE, p.n);
        let row = origin.row + thread::thread_idx_x() / BN as u32;
        let col = origin.col + thread::thread_idx_x() % BN as u32;
        if row >= p.m || col >= p.n {
            return;
        }

        // SAFETY: row and column lie in D, so all of row `row` of A and column `col` of B may be read.
        unsafe {
            let Layouts { a: layout_a, b: layout_b } = L::LAYOUTS;
            let mut a = p.a.at_in(layout_a, row, 0);
            let mut b = p.b.at_in(layout_b, 0, col);
            let (_, next_a) = p.a.steps_in(layout_a);
            let (next_b, _) = p.b.steps_in(layout_b);
            let mut sum = T::Acc::ZERO;
            for _ in 0..p.k {
                sum = T::Acc::fma(a.load().widen(), b.load().widen(), sum);
                a = a.add(next_a);
                b = b.add(next_b);
            }
            p.d.at(row, col).store(D::narrow(p.epilogue.apply(sum, row, col)));
        }
    }
}
