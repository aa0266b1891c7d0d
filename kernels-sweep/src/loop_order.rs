//! Partial sums that go back to memory: the loop orders in which k is not the innermost loop.
//!
//! In all of them a block owns `BM x BN` elements of D and a thread `TM x TN` of those, operands come through shared
//! memory in slices of `BK`, and each element of D is summed over k in ascending order. They differ in where the loop
//! over k stands among the loops over a thread's elements, and that decides how long a partial sum can stay in a
//! register:
//!
//! | order | loops of a thread | partial sums go to memory and back |
//! |---|---|---|
//! | standard | every k, then the elements | for every k: `STEP = 1` |
//! | k after the thread loops | every slice, then the elements, then the k of the slice | for every slice: `STEP = BK` |
//! | k innermost | the elements, then every k | never: [`regemm_kernels::ladder::microkernel`] |
//!
//! A compiler given the first order reads, changes and writes every element of D once for each k. The thread tile is
//! held in registers here for `STEP` values of k, each operand loaded once for its whole column or row as in the
//! microkernel, so that nothing but the traffic of the partial sums tells the three apart: an element of D is read
//! `ceil(K / STEP) - 1` times and written `ceil(K / STEP) + 1` times, where the microkernel writes it once.
//!
//! Without shared memory the same orders are those of [`direct`](crate::direct).
//!
//! The order of the additions is the same, and sums are parked in their own type, so the bits of the result are, too.

use core::marker::PhantomData;
use cuda_std::{device_inline, hint, thread};
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::kernel::{GemmKernel, Rung, Tile};
use regemm_kernels::params::GemmParams;
use regemm_kernels::slices::{Slices, Stager, shared_bytes};
use regemm_kernels::thread_tile::ThreadTile;
use regemm_kernels::tile::{Origin, block_tile};

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, and partial sums that are in D between
/// every `STEP` values of k and the next; `STEP` divides `BK`.
///
/// # Contract
/// That of [`GemmKernel`], with one difference: D is where partial sums are kept, so C must not be D. They are rounded
/// to elements of D, which is why the element type is its own accumulator.
pub struct LoopOrder<
    T,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STEP: u32,
>(PhantomData<T>);

impl<
    T: Element<Acc = T>,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const TM: usize,
    const TN: usize,
    const STEP: u32,
> GemmKernel for LoopOrder<T, BM, BN, BK, TM, TN, STEP>
{
    type Element = T;
    type Target = T;
    /// The rung of the loops' last order.
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
        const { assert!((BK as u32).is_multiple_of(STEP), "a slice is whole steps") };
        let origin = block_tile(&Self::TILE, p.n);
        let stager = Stager::<Self>::new(&p, origin);
        let mut sums = ThreadTile::<Self, TM, TN>::new();

        // SAFETY: the launch keeps the kernel's contract; the barriers keep writes and reads of the slices apart, all
        // threads of the block count to the same k, and only this thread touches its elements of D.
        unsafe {
            let mut k = 0;
            while k < p.k {
                stager.fetch(k, 0);
                thread::sync_threads(); // the slices are whole

                let slices = Slices::of_stage(0);
                let mut step = 0;
                while step < BK as u32 && k + step < p.k {
                    // Kept from step to step, the addresses of its elements would take a thread more registers than
                    // its sums.
                    let origin = Origin { row: hint::opaque(origin.row), ..origin };
                    // Before the first step the sums are zero, whatever D holds.
                    if k + step > 0 {
                        sums.resume(&p, origin);
                    }
                    sums.multiply_steps(&slices.after(step), STEP);
                    sums.park(&p, origin);
                    step += STEP;
                }
                thread::sync_threads(); // nobody needs them any more
                k += BK as u32;
            }
            sums.store(&p, origin);
        }
    }
}
