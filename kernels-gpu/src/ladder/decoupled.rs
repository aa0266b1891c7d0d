//! Warps that wait for data instead of for one another.
//!
//! A block's barrier holds every warp until the slowest has come. In [`crate::ladder::warp_tiled`] there is one for
//! each slice. With thread tiles so large that each of a multiprocessor's four schedulers has only two warps, no other
//! warp multiplies meanwhile. Here every stage has two memory barriers ([`cuda_std::mbarrier`]) instead: one completes
//! when all threads' copies to the stage have arrived (*full*), the other when all warps have read it (*empty*). A
//! warp that arrives at a barrier goes on; it waits only for what it needs, which mostly is there already. Slices are
//! copied `STAGES - 2` ahead, not `STAGES - 1`: so the stage that a warp overwrites is one that all warps have left,
//! as long as the slowest is less than a slice behind the fastest.
//!
//! A slice is multiplied in rounds of [`ROUND`] values of k, so that the loop that runs all the time is small enough
//! for the instruction cache. The copies of a slice stand apart from the multiplications of its first round: while one
//! warp of a scheduler issues copies the other multiplies.
//!
//! Gain: 1.05 times the speed of the best rung below at 4096, 1.06 times at 2048 (f32, H200). Without its copies, which
//! compete with the loads for access to shared memory, the loop would be 8 % faster: so much can still be gained.

use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::slices::copies::Copier;
use crate::slices::ring::{Ring, WARP};
use crate::slices::{SWIZZLED_ROWS, Slices, shared_bytes};
use crate::thread_tile::{InWarps, ThreadTile};
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::{device_inline, thread, unroll};

/// Values of k that are multiplied without a branch: those after which swizzled slices look the same again.
pub const ROUND: usize = SWIZZLED_ROWS;

/// The kernel for block tiles of `BM x BN x BK`, thread tiles of `TM x TN`, at least 3 stages, and factors in the
/// layouts `L`.
pub struct Decoupled<
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
> GemmKernel for Decoupled<T, BM, BN, BK, TM, TN, STAGES, L>
{
    type Element = T;
    type Target = T;
    const RUNG: Rung = Rung::Decoupled;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const TILE: Tile = Tile {
        bm: BM as u32,
        bn: BN as u32,
        bk: BK as u32,
        tm: TM as u32,
        tn: TN as u32,
        stages: STAGES,
    };
    const SHARED_BYTES: u32 = shared_bytes::<Self>() + Ring::<STAGES>::BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<T>>(p: GemmParams<T, E>) {
        let origin = block_tile(&Self::TILE, p.n);
        let copier = Copier::<Self>::new(&p, origin);
        let mut sums = ThreadTile::<Self, TM, TN, InWarps>::new();
        let thread = thread::thread_idx_x();
        let ahead = (STAGES - 2) * BK as u32;

        // SAFETY: the launch keeps the kernel's contract. Every thread copies its share of each slice and every warp
        // reads each slice, in order, as the ring asks; all threads count to the same k.
        unsafe {
            let mut ring = Ring::<STAGES>::new(
                shared_bytes::<Self>(),
                Self::TILE.threads(),
                Self::TILE.threads() / WARP,
            );
            for stage in 0..STAGES - 2 {
                // Nobody would wait for what lies behind the last k.
                if stage * (BK as u32) < p.k {
                    copier.copy(thread, stage * BK as u32, &Slices::of_stage(stage));
                    ring.filled();
                }
            }
            if p.k > 0 {
                let mut slices = Slices::of_stage(ring.wait_full());
                let mut fragments = sums.fragments(&slices, 0);
                let mut k = 0;
                while k < p.k {
                    unroll!(step < ROUND, {
                        let begins_slice = step == 1 && k.is_multiple_of(BK as u32);
                        if begins_slice && k + ahead < p.k {
                            let free = Slices::of_stage(ring.wait_empty());
                            copier.copy(thread, k + ahead, &free);
                            ring.filled();
                        }
                        let last = step == ROUND - 1;
                        let mut on = false;
                        if last {
                            k += ROUND as u32;
                            if k >= p.k {
                                // Of what follows the last k nobody needs fragments: any will do.
                                slices = Slices::of_stage(0);
                            } else if k.is_multiple_of(BK as u32) {
                                slices = Slices::of_stage(ring.wait_full());
                                on = true;
                            } else {
                                slices = slices.after(ROUND as u32);
                            }
                        }
                        let next_k = if last { 0 } else { step as u32 + 1 };
                        let next = sums.fragments(&slices.after(next_k), next_k);
                        sums.add_rows(&fragments);
                        if on {
                            ring.emptied();
                        }
                        fragments = next;
                    });
                }
            }
            sums.store(&p, origin);
        }
    }
}
