//! placeholder

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::params::GemmParams;
use core::marker::PhantomData;

/// placeholder
pub struct Tiled<T, const TILE: u32>(PhantomData<T>);

impl<T: Element, const TILE: u32> GemmKernel for Tiled<T, TILE> {
    type Element = T;
    const RUNG: Rung = Rung::Tiled;
    const TILE: Tile = Tile { bm: TILE, bn: TILE, bk: TILE, tm: 1, tn: 1, stages: 1 };
    const SHARED_BYTES: u32 = 0;

    #[inline(always)]
    unsafe fn run<E: Epilogue<T>>(_p: GemmParams<T, E>) {
        todo!()
    }
}
