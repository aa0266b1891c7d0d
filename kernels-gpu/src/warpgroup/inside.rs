//! Tiles of which A may have few rows: only those are copied, and the rest of the panels is zero from the start. For kernels whose blocks have one
//! tile each.

use super::{CONSUMERS_MEET, Warpgroup};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::threads;
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::slices::ring::Ring;
use crate::tile::Origin;
use crate::warpgroup::addend::Brings;
use crate::warpgroup::bulk_panels::{BulkPanel, MajorLayouts};
use crate::warpgroup::outbox;
use crate::warpgroup::outgoing::Outgoing;
use cuda_std::{bulk_copy, device_inline, named_barrier, shared, thread, wgmma};

impl<
    T: Element<Acc = f32> + wgmma::Element,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: u32,
    L: MajorLayouts,
    const ABOVE: u32,
    D: Outgoing,
    const BESIDE: u32,
    const FITS: bool,
> Warpgroup<T, BM, BN, BK, STAGES, L, ABOVE, D, BESIDE, FITS>
{
    /// The boxes in which A, B and D are copied where A [may have few rows](Self::produce_inside).
    pub const FITTED_BOXES: Boxes = Boxes {
        a: BulkPanel::<T, L::A, BM, BK>::BOX,
        fits_a: true,
        b: BulkPanel::<T, L::B, BN, BK>::BOX,
        c: None,
        d: Some(outbox::box_of::<D>()),
    };

    /// Clears what [`produce_inside`](Self::produce_inside) leaves out of the tile whose first row is `row`, where A has `m`.
    ///
    /// # Safety
    /// All threads of the block do so, before the ring is made.
    #[device_inline]
    #[track_caller]
    pub unsafe fn clear_outside(row: u32, m: u32) {
        if row + BM as u32 > m {
            for stage in 0..STAGES {
                let (a, _) = Self::panels(stage);
                let threads = (thread::thread_idx_x(), threads::<Self>());
                // SAFETY: as promised by the caller; the ring is made with a barrier.
                unsafe { a.clear_outside((row, m), threads) };
            }
            bulk_copy::fence_shared();
        }
    }

    /// Clears the first stage: the slice of products without depth, of which nobody brings any.
    ///
    /// # Safety
    /// All consumers do so, before they read it.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn clear_slice() {
        const VECTOR: usize = 4;
        let step = Self::CONSUMERS * size_of::<[u32; VECTOR]>() as u32;
        let mut at = thread::thread_idx_x() * size_of::<[u32; VECTOR]>() as u32;
        // SAFETY: as promised by the caller.
        unsafe {
            while at < Self::STAGE_BYTES {
                shared::dynamic::<u8>().add(at).cast::<u32>().store_vec([0; VECTOR]);
                at += step;
            }
            bulk_copy::fence_shared();
            named_barrier::sync(CONSUMERS_MEET, Self::CONSUMERS);
        }
    }

    /// Brings some slices of a tile, and of A only what there is of it.
    ///
    /// # Safety
    /// As for [`produce`](Self::produce), with the maps that [`FITTED_BOXES`](Self::FITTED_BOXES) say; what lies outside is [cleared](Self::clear_outside).
    #[device_inline]
    #[track_caller]
    pub unsafe fn produce_inside<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        ring: &mut Ring<STAGES>,
        Origin { row, col }: Origin,
        slices: impl Iterator<Item = u32>,
    ) {
        // SAFETY: as promised by the caller; the stage is empty, and the consumers wait for it to be full.
        unsafe {
            let (a, b) = p.mapped_factors();
            let of_a = BulkPanel::<T, L::A, BM, BK>::bytes_inside(row, p.m);
            for slice in slices {
                let k = slice * BK as u32;
                let (to_a, to_b) = Self::panels(ring.wait_empty());
                let full = ring.expect(of_a + BulkPanel::<T, L::B, BN, BK>::BYTES);
                to_a.load_inside(a, (row, p.m), k, full);
                to_b.load(b, col, k, full);
            }
        }
    }
}
