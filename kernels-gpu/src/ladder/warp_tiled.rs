//! Warp tiles, and a pipeline from shared memory to registers as well.
//!
//! In [`crate::ladder::pipelined`] slices arrive in the background, but each outer product still waits for its own
//! loads from shared memory. Here a thread holds the fragments of two values of k: it loads those of the next k, then
//! multiplies those of this one, which hides the loads, also from one slice to the next. That needs the next slice one
//! k early, so the wait and the barrier come before the last k of a slice.
//!
//! The threads of a warp own a part of the tile that is nearly square: 4 x 8 thread tiles, where in the rungs below
//! they lie in a row or two. The warp then reads fewer different vectors of shared memory for the same number of
//! products.  Large thread tiles read less still: one of 8 x 16 loads 24 elements for 128 multiply-adds. The rows of
//! an outer product stay in the order in which they are written, so that a multiply-add shares an operand with the one
//! before it.
//!
//! Factors may lie in any layout ([`crate::slices::copies`]).
//!
//! Gain: at 512, with tiles of 32 x 64, 1.58 times the speed of the best of [`crate::ladder::pipelined`]; with the same
//! tile of 64 x 128 only 1.02 times at 1024 (f32, H200). It pays where few warps are there to hide the loads behind.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::ladder::pipelined::wait_for_oldest;
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::slices::copies::Copier;
use crate::slices::ring::{after, before};
use crate::slices::{Slices, shared_bytes};
use crate::thread_tile::{InWarps, ThreadTile};
use crate::tile::{Origin, block_tile};
use core::marker::PhantomData;
use cuda_std::async_copy::commit_group;
use cuda_std::{device_inline, hint, thread, unroll};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, 2 to 4 stages, and factors in the layouts
/// `L`.
pub struct WarpTiled<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L = Nn,
>(PhantomData<(T, L)>);

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
> GemmKernel for WarpTiled<T, BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::WarpTiled;
    const LAYOUTS: Layouts = L::LAYOUTS;
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
        // SAFETY: the launch keeps the kernel's contract.
        unsafe { Self::sum(&p, origin, 0).store(&p, origin) }
    }
}

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
> WarpTiled<T, BM, BN, BK, TM, TN, STAGES, L>
{
    /// This thread's sums of the tile that begins at `origin`, over k from `first` on, a multiple of `BK`, to the end.
    ///
    /// # Safety
    /// All threads of the block call it together, once, and the launch keeps the kernel's contract.
    #[device_inline]
    pub unsafe fn sum<E>(
        p: &GemmParams<T, E>,
        origin: Origin,
        first: u32,
    ) -> ThreadTile<Self, TM, TN, InWarps> {
        let copier = Copier::<Self>::new(p, origin);
        let mut sums = ThreadTile::<Self, TM, TN, InWarps>::new();
        let thread = thread::thread_idx_x();
        let ahead = (STAGES - 1) * BK as u32;

        // SAFETY: as promised by the caller; every thread waits for its copies of a slice, and a barrier lies between
        // that and the first use, and between the last use and the next copies to the same stage. All threads of the
        // block count to the same k.
        unsafe {
            for stage in 0..STAGES - 1 {
                copier.copy(thread, first + stage * BK as u32, &Slices::of_stage(stage));
                commit_group();
            }
            if p.k > first {
                wait_for_oldest::<STAGES>();
                thread::sync_threads();

                let mut stage = 0;
                let mut slices = Slices::of_stage(stage);
                let mut fragments = sums.fragments(&slices, 0);
                let mut k = first;
                while k < p.k {
                    let free = Slices::of_stage(before::<STAGES>(stage));
                    copier.copy(hint::opaque(thread), k + ahead, &free);
                    commit_group();
                    k += BK as u32;
                    stage = after::<STAGES>(stage);

                    unroll!(step < BK, {
                        let last = step == BK - 1;
                        if last && k < p.k {
                            // Of the slice that follows the last nobody needs fragments.
                            wait_for_oldest::<STAGES>();
                            thread::sync_threads();
                            slices = Slices::of_stage(stage);
                        }
                        let next_k = if last { 0 } else { step as u32 + 1 };
                        let next = sums.fragments(&slices.after(next_k), next_k);
                        sums.add_rows(&fragments);
                        fragments = next;
                    });
                }
            }
        }
        sums
    }
}
