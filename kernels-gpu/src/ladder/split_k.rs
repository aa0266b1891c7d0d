//! Several blocks for one tile of D, each of which sums over a slice of K.
//!
//! A product with few tiles leaves multiprocessors idle, however deep it is: 256 x 256 has 8 tiles of 64 x 128 for 132
//! multiprocessors. Here several blocks share a tile, as many as it takes to give all multiprocessors work. Each
//! runs the main loop of [`crate::ladder::warp_tiled`] over a slice of K and stores its partial sums to a workspace;
//! a second launch ([`crate::schedule::reduce`]) adds the slices up, always in the same order, and applies the
//! epilogue. That costs one launch and, for each slice, a store and a load of D in the sums' type: so K is divided
//! into just as many slices as fill the device once.
//!
//! Gain: 1.75 times the speed of [`crate::ladder::warp_tiled`] with the same tiles at 512, 1.17 times at 1024 (f32,
//! H200).
//!
//! Factors may lie in any layout ([`crate::slices::copies`]).

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Schedule, Tile};
use crate::ladder::warp_tiled::WarpTiled;
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::device_inline;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, 2 to 4 stages, and factors in the layouts
/// `L`.
pub struct SplitK<
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
> GemmKernel for SplitK<T, BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::SplitK;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile = <WarpTiled<T, BM, BN, BK, TM, TN, STAGES, L> as GemmKernel>::TILE;
    const SCHEDULE: Schedule = Schedule::SplitK;
    const SHARED_BYTES: u32 =
        <WarpTiled<T, BM, BN, BK, TM, TN, STAGES, L> as GemmKernel>::SHARED_BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let (mut slice, first) = p.slice_of_block();
        // SAFETY: the launch keeps the kernel's contract.
        unsafe {
            let sums = WarpTiled::<T, BM, BN, BK, TM, TN, STAGES, L>::sum(&slice, origin, first);
            // Whole vectors: what is between the rows' ends is in the workspace, too.
            slice.n = slice.d.first.ld as u32;
            sums.park_whole_vectors(&slice, origin);
        }
    }
}
