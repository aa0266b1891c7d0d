//! Square tiles in shared memory.
//!
//! A block of `TILE x TILE` threads owns as many elements of D. It walks along k in steps of `TILE`: every thread loads one
//! element of A and one of B into shared memory, then each multiplies a row of the one tile with a column of the other.
//! An element that comes from global memory is used `TILE` times, so the block reads `TILE` times less of it than the
//! blocks of [`crate::naive`] do.
//!
//! Loads outside the matrices give zero, so the inner loop needs no bounds check: only loads and the final store have
//! one. Threads outside D load and synchronise like all others, since their tiles' neighbours need what they load.
//!
//! Gain: 1.5 times the speed of [`crate::naive`] (f32, 4096, H200). The caches had hidden most of the 32-fold traffic.

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::params::GemmParams;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::{shared_array, thread};

/// The kernel for blocks of `TILE x TILE` threads.
pub struct Tiled<T, const TILE: usize>(PhantomData<T>);

impl<T: Element, const TILE: usize> GemmKernel for Tiled<T, TILE> {
    type Element = T;
    const RUNG: Rung = Rung::Tiled;
    const TILE: Tile =
        Tile { bm: TILE as u32, bn: TILE as u32, bk: TILE as u32, tm: 1, tn: 1, stages: 1 };
    // The tiles are static arrays.
    const SHARED_BYTES: u32 = 0;

    #[inline(always)]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let tile_a = shared_array!(T::Acc; TILE * TILE);
        let tile_b = shared_array!(T::Acc; TILE * TILE);

        let size = TILE as u32;
        let origin = block_tile(&Self::TILE, p.n);
        let y = thread::thread_idx_x() / size;
        let x = thread::thread_idx_x() % size;
        let row = origin.row + y;
        let col = origin.col + x;
        let mut sum = T::Acc::ZERO;

        // SAFETY: loads are predicated on the matrices' shapes, the store on D's; the barriers keep writes and reads of
        // the tiles apart, and all threads of the block count to the same k.
        unsafe {
            let mut k0 = 0;
            while k0 < p.k {
                let a = p.a.at(row, k0 + x).load_if(row < p.m && k0 + x < p.k);
                let b = p.b.at(k0 + y, col).load_if(k0 + y < p.k && col < p.n);
                tile_a.add(y * size + x).store(a.widen());
                tile_b.add(y * size + x).store(b.widen());
                thread::sync_threads(); // the tiles are whole

                for k in 0..size {
                    let a = tile_a.add(y * size + k).load();
                    let b = tile_b.add(k * size + x).load();
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
