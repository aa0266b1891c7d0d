//! A tile of D in the registers of each thread, updated by outer products.
//!
//! In [`crate::ladder::tiled`] every multiply-add needs two loads from shared memory, and those loads are the limit.
//! Here a thread owns `TM x TN` elements of D. For each k it loads `TM` elements of A and `TN` of B once and multiplies
//! each with each: `TM * TN` multiply-adds for `TM + TN` loads. The block's tile grows with the threads' tiles, and
//! with it the use of every element that comes from global memory: each is loaded once a block and used by `BN` (or
//! `BM`) sums.
//!
//! Gain: 4.9 times the speed of [`crate::ladder::tiled`] (f32, 4096, H200).

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::params::GemmParams;
use crate::slices::{Slices, Stager, shared_bytes};
use crate::thread_tile::ThreadTile;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::device_inline;
use cuda_std::thread;

/// The kernel for block tiles of `BM x BN x BK` and thread tiles of `TM x TN`.
pub struct Microkernel<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
>(PhantomData<T>);

impl<
    T: Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
> GemmKernel for Microkernel<T, BM, BN, BK, TM, TN>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::Microkernel;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: 1,
    };
    const SHARED_BYTES: u32 = shared_bytes::<Self>();

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let stager = Stager::<Self>::new(&p, origin);
        let mut sums = ThreadTile::<Self, TM, TN>::new();

        // SAFETY: the launch keeps the kernel's contract; the barriers keep writes and reads of the slices apart, and
        // all threads of the block count to the same k.
        unsafe {
            let mut k = 0;
            while k < p.k {
                stager.fetch(k, 0);
                thread::sync_threads(); // the slices are whole

                sums.multiply(&Slices::of_stage(0));
                thread::sync_threads(); // nobody needs them any more
                k += BK as u32;
            }
            sums.store(&p, origin);
        }
    }
}
