//! Tiles of which A may have few rows: only those are copied, and the rest of the panels is zero from the start.
//!
//! What bulk copies fill with zeros they fill more slowly than they copy ([`fitted`](crate::maps::fitted)), and a D of few rows has nothing to hide that behind: what it waits for
//! is memory. 16 rows of a product of 28672 columns and a depth of 4096 in bf16, of which B is 235 MB, take 62 us in tiles of 64 x 64 ([`WARPGROUPS`](super::tile::WARPGROUPS)), 75 in
//! tiles that have all of their 128 rows copied, and 55 if all that is done is to bring B to shared memory (H200).

use super::{CONSUMERS_MEET, Warpgroup};
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::kernel::GemmKernel;
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::slices::ring::Ring;
use crate::tile::Origin;
use crate::warpgroup::addend::Brings;
use crate::warpgroup::bulk_panels::{BulkPanel, MajorLayouts};
use crate::warpgroup::outbox;
use crate::warpgroup::outgoing::Outgoing;
use cuda_std::wgmma::Major;
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
        fits_a: !<L::A as Major>::TRANSPOSED,
        b: BulkPanel::<T, L::B, BN, BK>::BOX,
        c: None,
        d: Some(outbox::box_of::<D>()),
    };

    /// Clears what [`produce_inside`](Self::produce_inside) leaves out of the tile whose first row in D is `row`, where A has `m`, or [`produce`](Self::produce) of an A
    /// of few rows: while what there is of it is on its way.
    ///
    /// # Safety
    /// All consumers do so, before they read a stage.
    #[device_inline]
    #[track_caller]
    pub unsafe fn clear_outside(row: u32, m: u32) {
        let rows = const { if Self::SWAPPED { BN } else { BM } } as u32;
        if row + rows > m {
            for stage in 0..STAGES {
                let (left, right) = Self::panels(stage);
                let threads = (thread::thread_idx_x(), Self::CONSUMERS);
                // SAFETY: as promised by the caller; the barrier is below.
                unsafe {
                    if const { Self::SWAPPED } {
                        right.clear_outside((row, m), threads);
                    } else {
                        left.clear_outside((row, m), threads);
                    }
                }
            }
            // SAFETY: as promised by the caller.
            unsafe { Self::show_cleared() };
        }
    }

    /// Clears what of the stages [`produce`](Self::produce) does not bring: of an A [of few rows](Self::FITS_A), those there are none of, and where tiles fit the slice of products
    /// without depth.
    ///
    /// # Safety
    /// As for [`clear_outside`](Self::clear_outside); the parameters are those of the launch.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn clear_unbrought<E: Epilogue<D>>(p: &GemmParams<T, E, D>) {
        // SAFETY: as promised by the caller.
        unsafe {
            if const { Self::FITS_A } {
                Self::clear_outside(0, if const { Self::SWAPPED } { p.n } else { p.m });
            }
            if const { FITS } && p.k == 0 {
                Self::clear_slice();
            }
        }
    }

    /// Makes what consumers have cleared visible to their products.
    ///
    /// # Safety
    /// All consumers get here together.
    #[device_inline]
    #[track_caller]
    unsafe fn show_cleared() {
        bulk_copy::fence_shared();
        // SAFETY: as promised by the caller.
        unsafe { named_barrier::sync(CONSUMERS_MEET, Self::CONSUMERS) };
    }

    /// Clears the first stage: the slice of products without depth, of which nobody brings any.
    ///
    /// # Safety
    /// All consumers do so, before they read it.
    #[device_inline]
    #[track_caller]
    unsafe fn clear_slice() {
        const VECTOR: usize = 4;
        let step = Self::CONSUMERS * size_of::<[u32; VECTOR]>() as u32;
        let mut at = thread::thread_idx_x() * size_of::<[u32; VECTOR]>() as u32;
        // SAFETY: as promised by the caller.
        unsafe {
            while at < Self::STAGE_BYTES {
                shared::dynamic::<u8>().add(at).cast::<u32>().store_vec([0; VECTOR]);
                at += step;
            }
            Self::show_cleared();
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
