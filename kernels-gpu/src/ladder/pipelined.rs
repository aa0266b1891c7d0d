//! Software pipelining: slices travel to shared memory in the background, several stages ahead of the multiplications.
//!
//! In [`crate::ladder::double_buffered`] the next slices pass through registers, and a thread waits for them after each
//! multiplication. Here each thread only *issues* copies ([`cuda_std::async_copy`]), which need no registers, and waits
//! for the group of copies that it issued `STAGES - 1` slices ago. The loop is a software pipeline in three parts (M.
//! Lam, "Software Pipelining: An Effective Scheduling Technique for VLIW Machines", PLDI 1988):
//!
//! - prologue: the copies of the first `STAGES - 1` slices are issued;
//! - steady state: wait for the oldest slice, issue the copies of the slice `STAGES - 1` ahead, multiply;
//! - epilogue: the same without copies, for the last `STAGES - 1` slices.
//!
//! One barrier a slice does two things: it shows the slice that has arrived to all threads, and it says that all of
//! them are done with the slice before, whose stage the next copies overwrite. So the barrier is after the wait and
//! before the copies. (This epilogue, which drains the pipeline, is not that of the product: [`crate::epilogue`].)
//!
//! A copy cannot convert, so this is for element types that are their own accumulators: f32 and f64. Slices of half
//! precision would have to be widened on the way (see [`crate::slices`]).
//!
//! Gain: 1.04 times the speed of [`crate::ladder::double_buffered`] at 4096, where the latency was hidden already. At
//! 1024 its tile of 64 x 128 is 1.17 times as fast as the 64 x 64 of `double_buffered`, whose thread tiles load more
//! for each product, and 1.70 times as fast as the 128 x 128, of which there are too few (f32, H200).

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::params::GemmParams;
use crate::slices::ring::{after, before};
use crate::slices::{Slices, Stager, shared_bytes};
use crate::thread_tile::ThreadTile;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::async_copy::{commit_group, wait_group};
use cuda_std::device_inline;
use cuda_std::thread;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN` and 2 to 4 stages.
pub struct Pipelined<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
>(PhantomData<T>);

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
> GemmKernel for Pipelined<T, BM, BN, BK, TM, TN, STAGES>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::Pipelined;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const SHARED_BYTES: u32 = shared_bytes::<Self>();

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let stager = Stager::<Self>::new(&p, origin);
        let mut sums = ThreadTile::<Self, TM, TN>::new();
        let ahead = (STAGES - 1) * BK as u32;

        // SAFETY: the launch keeps the kernel's contract; every thread waits for its copies of a slice, and a barrier
        // lies between that and the first use, and between the last use and the next copies to the same stage. All
        // threads of the block count to the same k.
        unsafe {
            for stage in 0..STAGES - 1 {
                stager.copy(stage * BK as u32, stage);
                commit_group();
            }

            let mut stage = 0;
            let mut k = 0;
            while k < p.k {
                wait_for_oldest::<STAGES>();
                thread::sync_threads();

                // In the pipeline's epilogue groups are empty, so that the oldest slice is always that of the oldest
                // group.
                stager.copy(k + ahead, before::<STAGES>(stage));
                commit_group();

                sums.multiply(&Slices::of_stage(stage));
                stage = after::<STAGES>(stage);
                k += BK as u32;
            }
            sums.store(&p, origin);
        }
    }
}

/// Waits until the oldest of the `STAGES - 1` groups under way has arrived.
#[device_inline]
pub fn wait_for_oldest<const STAGES: u32>() {
    const { assert!(2 <= STAGES && STAGES <= 4, "a pipeline has 2 to 4 stages") };
    match STAGES {
        2 => wait_group::<0>(),
        3 => wait_group::<1>(),
        _ => wait_group::<2>(),
    }
}
