//! Products of f32 in two [halves](crate::warpgroup::halves) on the tensor cores of any GPU that has them, from sm_80
//! on: by warps.
//!
//! What is multiplied, what becomes of it and why is as in [`crate::warpgroup::halves`]; how it gets there is as in
//! [`crate::warp::tensor_core`], with which this shares the frame of its loop ([`crate::warp::pipeline`]), the panels
//! in shared memory ([`crate::warp::panels`]) and the way of sums to D ([`crate::warp::tile`]). A stage holds two of
//! its pairs of panels: the high halves of A and B, and behind them the low ones.
//!
//! An element of D takes three registers where a warpgroup multiplies: of the sum, and of the products of high halves
//! and of low ones. A warp can do with less, since its instructions are small. It goes through its rows 16 by 16, and
//! of one slice, which has just as many values of k as tensor cores may add up. So it is for these 16 rows alone that
//! the products of high halves take registers, and the next 16 take the same. With tiles of 64 x 32 for each of 8 warps
//! a thread has 64 sums, as many of low halves and 16 of high ones, where it would otherwise be 192 of its 255
//! registers.
//!
//! | a thread's registers | |
//! |---|---:|
//! | sums, and those of low halves | 2 x 64 |
//! | those of high halves, of 16 rows | 16 |
//! | fragments of A: 16 rows, and the next 16, both halves of 32 values of k | 2 x 16 |
//! | fragments of B: 32 columns, the same | 32 |
//!
//! Each fragment of B serves for 64 rows, and each of A for 32 columns, those of high halves in two products; so shared
//! memory delivers 6 KB in the time of 98,304 multiply-adds, half of what it could beside the tensor cores of an A100.
//! Smaller tiles of warps would leave more of them room on a multiprocessor, but read more: 32 x 32 two thirds of what
//! shared memory delivers.
//!
//! Of the 128 x 128 tile the assembler (ptxas 13.0) makes 242 to 252 registers for all architectures from sm_80 on, in
//! all layouts, without spills: one block a multiprocessor, two warps for each quarter of it. Three stages take 96 KB
//! of shared memory, which every GPU with these tensor cores has. The loop of a slice is 320 instructions, of which 96
//! are products and 24 read fragments. The former take a quarter of an A100's multiprocessor 768 clocks, so that in the
//! time of two warps' products all their instructions need two fifths of the turns; and 24 of the products come behind
//! the slice's barrier. These are estimates. An H200, whose tensor cores are not made for such instructions, has 112
//! TFLOP/s at 4096 by it, 2.2 times the vendor's f32.

mod tile;

use crate::element::Dtype;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Needs, Rung, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::prepare::split::{HALVES, halves_of_block};
use crate::tile::grouped_block_tile;
use crate::warp::panels::{PanelCopier, Panels};
use crate::warp::pipeline::{SliceWork, multiply_slices};
use crate::warp::tile::WarpTile;
use crate::warpgroup::halves::PROMOTED;
use core::marker::PhantomData;
use cuda_std::{device_inline, hint, thread};
use half::f16;
use tile::HalvesTile;

/// Values of k in a slice: those whose products of high halves tensor cores add up before threads take them over.
const BK: usize = PROMOTED;

/// The kernel for block tiles of `BM x BN`, thread tiles of `TM x TN`, which makes `8 TM x 4 TN` for a warp, 2 to 4
/// stages, and factors in the layouts `L`.
///
/// What its parameters call A and B are the [lines](crate::prepare::split::Line) of both, and where their halves are
/// ([`reference`](crate::prepare::split::reference())).
pub struct WarpHalves<
    const BM: usize,
    const BN: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L = Nn,
>(PhantomData<L>);

impl<
    const BM: usize,
    const BN: usize,
    const TM: usize,
    const TN: usize,
    const STAGES: u32,
    L: OperandLayouts,
> GemmKernel for WarpHalves<BM, BN, TM, TN, STAGES, L>
{
    type Element = f16;
    type Target = f32;
    const DTYPE: Dtype = Dtype::F32;
    const RUNG: Rung = Rung::TensorCore;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::Halves;
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
        let slices = STAGES * HALVES * Panels::bytes::<Self>();
        let sums = WarpTile::<Self, TM, TN>::BYTES;
        if slices > sums { slices } else { sums }
    };

    #[device_inline]
    unsafe fn run<E: Epilogue<f32>>(p: GemmParams<f16, E, f32>) {
        // Worked out twice: kept over the main loop it would take registers from the sums.
        let origin = || grouped_block_tile(&Self::TILE, hint::opaque(p.m), hint::opaque(p.n));
        let of_a = halves_of_block(p.a, p.a_stride, L::LAYOUTS.a.stored(p.m, p.k));
        let of_b = halves_of_block(p.b, p.b_stride, L::LAYOUTS.b.stored(p.k, p.n));
        let copier = |half: usize| {
            PanelCopier::new(&GemmParams { a: of_a[half], b: of_b[half], ..p }, origin())
        };
        // SAFETY: the launch keeps the kernel's contract, and there is memory for the stages.
        unsafe {
            let mut work = Work::<Self, TM, TN> {
                high: copier(0),
                low: copier(1),
                tile: HalvesTile::new(),
                thread: thread::thread_idx_x(),
            };
            multiply_slices::<STAGES, BK>(p.k, &mut work);
            work.tile.store(&p, origin());
        }
    }
}

/// A thread at work on the slices of its block.
struct Work<K: GemmKernel, const TM: usize, const TN: usize> {
    high: PanelCopier<K>,
    low: PanelCopier<K>,
    tile: HalvesTile<K, TM, TN>,
    thread: u32,
}

impl<K: GemmKernel<Element = f16, Target = f32>, const TM: usize, const TN: usize> SliceWork
    for Work<K, TM, TN>
{
    #[device_inline]
    #[track_caller]
    unsafe fn copy(&self, k: u32, stage: u32) {
        let [high, low] = halves_of_stage::<K>(stage);
        let thread = hint::opaque(self.thread);
        // SAFETY: as promised by the caller.
        unsafe {
            self.high.copy(thread, k, high);
            self.low.copy(thread, k, low);
        }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn begin(&mut self, stage: u32) {
        // SAFETY: as promised by the caller.
        unsafe { self.tile.begin(halves_of_stage::<K>(stage)) }
    }

    #[device_inline]
    #[track_caller]
    unsafe fn multiply(&mut self, next: impl FnOnce() -> Option<u32>) {
        // SAFETY: as promised by the caller.
        unsafe { self.tile.multiply(|| next().map(halves_of_stage::<K>)) }
    }
}

/// The panels of a stage: those of high halves and those of low ones.
#[device_inline]
fn halves_of_stage<K: GemmKernel>(stage: u32) -> [Panels; 2] {
    [0, 1].map(|half| Panels::of_stage::<K>(stage * HALVES + half))
}
