//! Square tiles in shared memory.
//!
//! A block of `TILE x TILE` threads owns as many elements of D. It walks along k in steps of `TILE`: every thread loads
//! one element of A and one of B into shared memory, then each multiplies a row of the one tile with a column of the
//! other. An element that comes from global memory is used `TILE` times, so the block reads `TILE` times less of it
//! than the blocks of [`crate::ladder::naive`] do.
//!
//! Loads outside the matrices give zero, so the inner loop needs no bounds check: only loads and the final store have
//! one. Threads outside D load and synchronise like all others, since their tiles' neighbours need what they load.
//!
//! Neighbouring threads load neighbours in memory, along rows of A and B, or along columns where they are transposed.
//! The tile of A then lies in shared memory as the matrix does in global memory, since reading it by columns is as
//! good: all threads of a row read the same element. B's must lie by rows, which neighbouring threads read; a
//! transposed one is turned on the way, and padding keeps the threads that store a column of it apart.
//!
//! Gain: 1.5 times the speed of [`crate::ladder::naive`] (f32, 4096, H200). The caches had hidden most of the 32-fold
//! traffic.

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::layout::{Layout, Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::slices::mover::BANKS_BYTES;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::{device_inline, shared_array, thread};

/// The kernel for blocks of `TILE x TILE` threads, and factors in the layouts `L`.
pub struct Tiled<T, const TILE: usize, L = Nn>(PhantomData<(T, L)>);

impl<T: Element, const TILE: usize, L: OperandLayouts> Tiled<T, TILE, L> {
    /// Elements from one row of the tile of B to the next. Threads that store a column of it are a row apart: with a
    /// row that is longer by the columns that are stored at once, they and the columns' neighbours meet different
    /// banks.
    const ROW_OF_B: usize = match L::LAYOUTS.b {
        Layout::RowMajor => TILE,
        Layout::Transposed => {
            let stored_at_once = BANKS_BYTES / size_of::<T::Acc>();
            TILE + if stored_at_once > TILE { stored_at_once / TILE } else { 1 }
        }
    };

    /// Where element `(row, k)` of the tile of A is.
    #[device_inline]
    fn place_a(row: u32, k: u32) -> u32 {
        let (stored_row, stored_col) = L::LAYOUTS.a.stored(row, k);
        stored_row * TILE as u32 + stored_col
    }

    /// Where element `(k, col)` of the tile of B is.
    #[device_inline]
    fn place_b(k: u32, col: u32) -> u32 {
        k * Self::ROW_OF_B as u32 + col
    }
}

impl<T: Element, const TILE: usize, L: OperandLayouts> GemmKernel for Tiled<T, TILE, L> {
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::Tiled;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile =
        Tile { bm: TILE as u32, bn: TILE as u32, bk: TILE as u32, tm: 1, tn: 1, stages: 1 };
    // The tiles are static arrays.
    const SHARED_BYTES: u32 = 0;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let tile_a = shared_array!(T::Acc; TILE * TILE);
        let tile_b = shared_array!(T::Acc; TILE * Self::ROW_OF_B);

        let size = TILE as u32;
        let origin = block_tile(&Self::TILE, p.n);
        let y = thread::thread_idx_x() / size;
        let x = thread::thread_idx_x() % size;
        let row = origin.row + y;
        let col = origin.col + x;
        let mut sum = T::Acc::ZERO;

        // The elements of both tiles that this thread loads: x counts along what lies together in memory.
        let Layouts { a: layout_a, b: layout_b } = L::LAYOUTS;
        let (row_a, k_a) = layout_a.stored(y, x);
        let (k_b, col_b) = layout_b.stored(y, x);

        // SAFETY: loads are predicated on the matrices' shapes, the store on D's; the barriers keep writes and reads of
        // the tiles apart, and all threads of the block count to the same k.
        unsafe {
            let mut k0 = 0;
            while k0 < p.k {
                let (a_row, a_col) = (origin.row + row_a, k0 + k_a);
                let (b_row, b_col) = (k0 + k_b, origin.col + col_b);
                let a = p.a.at_in(layout_a, a_row, a_col).load_if(a_row < p.m && a_col < p.k);
                let b = p.b.at_in(layout_b, b_row, b_col).load_if(b_row < p.k && b_col < p.n);
                tile_a.add(Self::place_a(row_a, k_a)).store(a.widen());
                tile_b.add(Self::place_b(k_b, col_b)).store(b.widen());
                thread::sync_threads(); // the tiles are whole

                for k in 0..size {
                    let a = tile_a.add(Self::place_a(y, k)).load();
                    let b = tile_b.add(Self::place_b(k, x)).load();
                    sum = T::Acc::fma(a, b, sum);
                }
                thread::sync_threads(); // nobody needs them any more
                k0 += size;
            }
            if row < p.m && col < p.n {
                p.d.at(row, col).store(T::narrow(p.epilogue.apply(sum, row, col)));
            }
        }
    }
}
