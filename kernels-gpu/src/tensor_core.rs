//! Tensor cores: a warp multiplies matrices, not threads numbers.
//!
//! One instruction of a warp multiplies 16 x 16 elements of half precision by 16 x 8 and adds the products to 16 x 8 sums in f32
//! ([`cuda_std::mma`]): 2,048 multiply-adds, where 32 lanes would do 32. Everything else has to keep up with that. So
//!
//! - elements travel to shared memory as they are, in the background and several slices ahead, as in [`crate::pipelined`]; there
//!   they lie as in global memory, whichever layout that is, and are transposed when they are read, which costs nothing
//!   ([`crate::panels`]);
//! - a warp owns a large, square part of D ([`crate::warp_tile`]), so that each fragment it reads is multiplied many times;
//! - it reads the fragments of the next 16 values of k while it multiplies those of this 16, as in [`crate::warp_tiled`].
//!
//! Products are exact, but how the 16 of an instruction are added up is the hardware's own business: results are not the bits of
//! the other rungs, though as close to the exact ones ([`Summation::TensorCores`]).
//!
//! Factors of f32 are rounded to TF32 on their way from shared memory to the tensor cores ([`cuda_std::mma::tf32`]): 11 bits, of which half as many fit into
//! a register and into an instruction, so that it is half as fast. All else is the same, and the same code. As that does not give what f32 gives without
//! tensor cores, its kernels are [apart](crate::table::TF32).
//!
//! This is for f16, bf16 and TF32, from sm_80 on.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::panels::{PanelCopier, Panels};
use crate::params::GemmParams;
use crate::pipelined::wait_for_oldest;
use crate::ring::after;
use crate::tile::block_tile;
use crate::warp_tile::{Fragments, WarpTile};
use core::marker::PhantomData;
use cuda_std::async_copy::commit_group;
use cuda_std::mma::{self, Factor};
use cuda_std::{hint, thread, unroll};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, 2 to 4 stages,
/// factors in the layouts `L`, and results of `D`.
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

    #[inline(always)]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        mma::require();
        let origin = block_tile(&Self::TILE, p.n);
        let copier = PanelCopier::<Self>::new(&p, origin);
        let mut tile = WarpTile::<Self, TM, TN>::new();
        let thread = thread::thread_idx_x();
        let ahead = (STAGES - 1) * BK as u32;
        let mut panels = Panels::of_stage::<Self>(0);
        let mut fragments = Fragments::ZERO;
        let (mut free, mut stage) = (0, 0);
        let (mut copied, mut k) = (0, 0);

        // SAFETY: the launch keeps the kernel's contract; every thread waits for its copies of a slice, and a barrier lies
        // between that and the first use, and between the last use and the next copies to the same stage. All threads of
        // the block count to the same k, and all lanes of a warp do the same.
        unsafe {
            while k < p.k {
                // One place for all copies: there are many ways in which a factor may lie.
                copier.copy(hint::opaque(thread), copied, Panels::of_stage::<Self>(free));
                commit_group();
                copied += BK as u32;
                free = after::<STAGES>(free);
                if copied < ahead {
                    continue;
                }
                if copied == ahead {
                    wait_for_oldest::<STAGES>();
                    thread::sync_threads();
                    fragments = tile.fragments(panels, 0);
                    continue;
                }

                k += BK as u32;
                stage = after::<STAGES>(stage);
                unroll!(step < BK / T::K, {
                    let last = step == BK / T::K - 1;
                    if last && k < p.k {
                        // Of the slice that follows the last nobody needs fragments.
                        wait_for_oldest::<STAGES>();
                        thread::sync_threads();
                        panels = Panels::of_stage::<Self>(stage);
                    }
                    let next = tile.fragments(panels, if last { 0 } else { step + 1 });
                    tile.multiply(&fragments);
                    fragments = next;
                });
            }
            tile.store(&p, origin);
        }
    }
}
