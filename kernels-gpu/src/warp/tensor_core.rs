//! Tensor cores (`mma.sync`): a warp multiplies matrices, where threads multiplied numbers.
//!
//! One instruction of a warp multiplies 16 x 16 elements of half precision by 16 x 8 and adds the products to 16 x 8
//! sums in f32 ([`cuda_std::mma`]): 2,048 multiply-adds, where 32 lanes would do 32. It is 9.1 times as fast as the
//! best rung without tensor cores (f16, 4096, H200), if everything else keeps up with that. So
//!
//! - elements travel to shared memory as they are, in the background and several slices ahead, as in
//!   [`crate::ladder::pipelined`]; there they lie as in global memory, whichever layout that is, and are transposed
//!   when they are read, which costs nothing ([`crate::warp::panels`]);
//! - a warp owns a large, square part of D ([`crate::warp::tile`]), so that each fragment it reads is multiplied many
//!   times;
//! - it reads the fragments of the next 16 values of k while it multiplies those of this 16, as in
//!   [`crate::ladder::warp_tiled`]; all around the slices is the frame that such kernels share
//!   ([`crate::warp::pipeline`]).
//!
//! Products are exact, but how the 16 of an instruction are added up is the hardware's own business: results are not
//! the bits of the other rungs, though as close to the exact ones ([`Summation::TensorCores`]).
//!
//! Factors of f32 are rounded to TF32, of 11 bits, on their way from shared memory to the tensor cores
//! ([`cuda_std::mma::tf32`]). An instruction takes half as many of them as of half precision, so it is half as
//! fast. All else is the same code. As results are not those that f32 has without tensor cores, these kernels are in a
//! table [apart](crate::table::TF32).
//!
//! This is for f16, bf16 and TF32, from sm_80 on.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::tile::block_tile;
use crate::warp::panels::{PanelCopier, Panels};
use crate::warp::pipeline::{SliceWork, multiply_slices};
use crate::warp::tile::{Fragments, WarpTile};
use core::marker::PhantomData;
use cuda_std::mma::Factor;
use cuda_std::{device_inline, hint, thread, unroll};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, 2 to
/// 4 stages, factors in the layouts `L`, and results of `D`.
pub struct TensorCore<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L = Nn,
    D = T,
>(PhantomData<(T, L, D)>);

impl<
    T: Element<Acc = f32> + Factor,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
    D: Element<Acc = f32>,
> GemmKernel for TensorCore<T, BM, BN, BK, TM, TN, STAGES, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::TensorCore;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::TensorCores;
    const NEEDS: Needs = Needs::TensorCores;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const SHARED_BYTES: u32 = {
        let (slices, sums) = (STAGES * Panels::bytes::<Self>(), WarpTile::<Self, TM, TN>::BYTES);
        if slices > sums { slices } else { sums }
    };

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let origin = block_tile(&Self::TILE, p.n);
        // SAFETY: the launch keeps the kernel's contract, and there is memory for the stages.
        unsafe {
            let mut work = Work::<Self, TM, TN> {
                copier: PanelCopier::new(&p, origin),
                tile: WarpTile::new(),
                panels: Panels::of_stage::<Self>(0),
                fragments: Fragments::ZERO,
                thread: thread::thread_idx_x(),
            };
            multiply_slices::<STAGES, BK>(p.k, &mut work);
            work.tile.store(&p, origin);
        }
    }
}

/// A thread at work on the slices of its block.
struct Work<K: GemmKernel, const TM: usize, const TN: usize> {
    copier: PanelCopier<K>,
    tile: WarpTile<K, TM, TN>,
    /// Those of the slice that is multiplied.
    panels: Panels,
    /// Those that have been read last.
    fragments: Fragments<TM, TN>,
    thread: u32,
}

impl<T: Element<Acc = f32> + Factor, K: GemmKernel<Element = T>, const TM: usize, const TN: usize>
    SliceWork for Work<K, TM, TN>
{
    #[device_inline]
    #[track_caller]
    unsafe fn copy(&self, k: u32, stage: u32) {
        // SAFETY: as promised by the caller.
        // One place for all copies: there are many ways in which a factor may lie.
        unsafe { self.copier.copy(hint::opaque(self.thread), k, Panels::of_stage::<K>(stage)) }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn begin(&mut self, stage: u32) {
        self.panels = Panels::of_stage::<K>(stage);
        // SAFETY: as promised by the caller.
        self.fragments = unsafe { self.tile.fragments(self.panels, 0) };
    }

    #[device_inline]
    #[track_caller]
    unsafe fn multiply(&mut self, next: impl FnOnce() -> Option<u32>) {
        let mut next = Some(next);
        // SAFETY: as promised by the caller; nothing is done with fragments of a slice that is not there.
        unsafe {
            unroll!(step < K::TILE.bk as usize / T::K, {
                let last = step == K::TILE.bk as usize / T::K - 1;
                if last && let Some(stage) = next.take().and_then(|next| next()) {
                    self.panels = Panels::of_stage::<K>(stage);
                }
                let next = self.tile.fragments(self.panels, if last { 0 } else { step + 1 });
                self.tile.multiply(&self.fragments);
                self.fragments = next;
            });
        }
    }
}
