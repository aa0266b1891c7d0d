//! Blocks that have one tile each, of which they sum some slices of K: what [`split`](crate::warpgroup::split) and
//! [`cluster_split`](crate::warpgroup::cluster_split) do before their ways part.

use super::{Warpgroup, become_consumer, become_producer};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::slices::clusters::Cluster;
use crate::slices::ring::{Ring, WARP, is_elected};
use crate::swapped::InOrder;
use crate::tile::Origin;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::outgoing::Outgoing;
use crate::warpgroup::tile::WarpgroupTile;
use crate::warpgroup::unbrought::Margin;
use cuda_std::wgmma::{self, Accumulators, THREADS};
use cuda_std::{device_inline, early_start, hint, thread};

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts<Operands = InOrder>,
    D: Outgoing,
> Warpgroup<T, BM, BN, BK, STAGES, L, 1, D>
{
    /// Sums some slices, of which there are `count`, of the block's tile, which begins at `origin`;
    /// [promoted](crate::warpgroup::promoted) where there are registers for `recent` sums. Gives the sums of this
    /// warpgroup, which warpgroup it is, and the result of `late`, which gets that and is called before the last
    /// products are waited for. Producers bring the slices instead, and get nothing: they are done.
    ///
    /// # Safety
    /// As for [`GemmKernel::run`](crate::kernel::GemmKernel::run). There is shared memory for the stages, and for the
    /// ring's barriers from `barriers` bytes into it on.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn sum_tile<E: Epilogue<D>, R>(
        p: &GemmParams<T, E, D>,
        (barriers, mut recent): (u32, Option<Accumulators<BN, 2>>),
        origin: Origin,
        (slices, count): (impl Iterator<Item = u32>, u32),
        late: impl FnOnce(u32) -> R,
    ) -> Option<(WarpgroupTile<BN, BM>, u32, R)> {
        let thread = thread::thread_idx_x();
        // SAFETY: as promised by the caller; the block divides into producers and consumers once, and both go through
        // the same slices.
        unsafe {
            let mut sums = WarpgroupTile::declare();
            let mut ring = Ring::for_bulk_copies(barriers, Self::CONSUMERS / WARP, Cluster::ALONE);
            if thread >= Self::CONSUMERS {
                become_producer();
                if is_elected(Self::CONSUMERS) {
                    early_start::wait();
                    let to = (&mut ring, &mut Margin::new(true));
                    Self::bring(p, to, origin, slices, || ());
                }
                return None;
            }
            become_consumer();
            Self::clear_outside(p, origin, STAGES);
            early_start::wait();
            let warpgroup = hint::uniform(thread / THREADS);
            let first = warpgroup * WarpgroupTile::<BN, BM>::ROWS;
            let late = || late(warpgroup);
            let result = if let Some(recent) = &mut recent {
                Self::consume_promoted(&mut sums, recent, &mut ring, (first, count), late)
            } else {
                let cols = || BN as u32;
                Self::consume(&mut sums, &mut ring, (first, false), (count, cols), (|| (), late))
            };
            Some((sums, warpgroup, result))
        }
    }
}
