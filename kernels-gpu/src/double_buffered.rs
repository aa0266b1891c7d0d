//! placeholder

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::params::GemmParams;
use core::marker::PhantomData;

/// placeholder
pub struct DoubleBuffered<
    T,
    const BM: u32,
    const BN: u32,
    const BK: u32,
    const TM: u32,
    const TN: u32,
>(PhantomData<T>);

impl<T: Element, const BM: u32, const BN: u32, const BK: u32, const TM: u32, const TN: u32>
    GemmKernel for DoubleBuffered<T, BM, BN, BK, TM, TN>
{
    type Element = T;
    const RUNG: Rung = Rung::DoubleBuffered;
    const TILE: Tile = Tile { bm: BM, bn: BN, bk: BK, tm: TM, tn: TN, stages: 2 };
    const SHARED_BYTES: u32 = 0;

    #[inline(always)]
    unsafe fn run<E: Epilogue<T>>(_p: GemmParams<T, E>) {
        todo!()
    }
}
