//! The parts of a tile's slices that lie outside of A and B: they are zero in shared memory without being copied
//! again.
//!
//! The last tiles of D have rows and columns that lie outside of it, for which A and B have none. Bulk copies fill
//! such places with zeros, but more slowly than they copy ([`Rests`](crate::maps::Factors)). So only the first slices
//! of a tile are brought in whole boxes, one for each stage. The zeros then stay in the stages, and of all slices that
//! follow only the rows that exist are copied.
//!
//! ```text
//! slice of a tile with 72 rows   | 0      | 1      | 2      | 3      | 4      | 5      | ..
//! stage                          | 0      | 1      | 2      | 3      | 0      | 1      | ..
//! rows that are brought          | 128    | 128    | 128    | 128    | 72     | 72     | ..      the other 56 are zero
//! ```
//!
//! Of a block's first tile there is nothing in the stages yet, and its consumers, who have nothing else to do, clear
//! them while the first rows are on their way. Nothing may come to what they clear, so they leave it alone where C
//! comes to the stages too.
//!
//! What is multiplied there goes into sums that nobody stores. Zeros it is nevertheless: they take less power than the
//! rows of another tile.
//!
//! It counts most where D has few rows. 16 of a product of 28672 columns and a depth of 4096 in bf16, of which B is 235
//! MB, take 62 us in tiles of 64 x 64 ([`WARPGROUPS`](super::tile::WARPGROUPS)), 75 in tiles that have all of their 128
//! rows copied, and 55 if all that is done is to bring B to shared memory (H200).

use super::Warpgroup;
use super::barriers::CONSUMERS_MEET;
use crate::element::Element;
use crate::epilogue::Epilogue;
use crate::maps::Boxes;
use crate::params::GemmParams;
use crate::schedule::batches::in_product;
use crate::schedule::parts::Parts;
use crate::tile::Origin;
use crate::warpgroup::addend::Brings;
use crate::warpgroup::bulk_panels::{BulkPanel, MajorLayouts};
use crate::warpgroup::fit;
use crate::warpgroup::outbox;
use crate::warpgroup::outgoing::Outgoing;
use cuda_std::wgmma::Major;
use cuda_std::{bulk_copy, device_inline, hint, named_barrier, shared, thread, wgmma};

/// How many of the next slices are brought in whole boxes.
pub struct Margin<const STAGES: u32> {
    /// Rows and columns of D that a cluster's tiles have; none before the first. Blocks of a cluster, which bring
    /// slices together, so have the same.
    inside: u32,
    /// No more than stages, or more than there ever are where nothing is outside.
    wholes: u32,
    /// Whether none of them is, since consumers clear the stages of the tile's slices.
    is_cleared: bool,
}

impl<const STAGES: u32> Margin<STAGES> {
    /// Before the first tile, for whose slices consumers [clear](Warpgroup::clear_outside) the stages or not.
    #[device_inline]
    pub const fn new(is_cleared: bool) -> Self {
        Margin { inside: 0, wholes: 0, is_cleared }
    }

    /// The cluster begins tiles that have so many of all their rows and columns in D.
    #[device_inline]
    pub const fn begin(&mut self, inside: (u32, u32), all: (u32, u32)) {
        let is_first = self.inside == 0;
        let (inside, all) = (Self::word(inside), Self::word(all));
        if self.inside != inside {
            self.wholes = if inside == all { u32::MAX } else { STAGES };
        }
        self.is_cleared = self.is_cleared && is_first && inside != all;
        self.inside = inside;
    }

    /// Rows and columns.
    #[device_inline]
    const fn word((rows, cols): (u32, u32)) -> u32 {
        rows << u16::BITS | cols
    }

    /// Whether the next slice comes in whole boxes: nothing of it is outside, or its stage has no zeros there yet.
    #[device_inline]
    pub const fn next_is_whole(&mut self) -> bool {
        if self.wholes == 0 {
            return false;
        }
        self.wholes -= 1;
        !self.is_cleared
    }

    /// Something else has come to the stages.
    #[device_inline]
    pub const fn spoil(&mut self) {
        if self.wholes < STAGES {
            self.wholes = STAGES;
        }
    }
}

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
    /// The boxes in which A, B and D are copied by kernels that do not bring C.
    pub const BOXES_WITHOUT_C: Boxes = Boxes {
        a: BulkPanel::<T, L::A, BM, BK>::BOX,
        b: BulkPanel::<T, L::B, BN, BK>::BOX,
        rests: true,
        c: None,
        d: Some(outbox::box_of::<D>()),
    };

    /// Clears what lies outside of A and B for the block's first tile, which begins at `origin` and has so many slices:
    /// in their stages alone, since others may be filled by the next tile's meanwhile.
    ///
    /// # Safety
    /// All consumers do so, before they read a stage, and nothing comes to a stage before but what is inside of slices.
    #[device_inline]
    #[track_caller]
    pub unsafe fn clear_outside<E: Epilogue<D>>(
        p: &GemmParams<T, E, D>,
        Origin { row, col }: Origin,
        slices: u32,
    ) {
        let cols = fit::cols::<Self, _>(p);
        if slices > 0 && (row + BM as u32 > p.m || col + cols > p.n) {
            let threads = (thread::thread_idx_x(), Self::CONSUMERS);
            for stage in 0..slices.min(STAGES) {
                let (a, b) = Self::panels(stage);
                // SAFETY: as promised by the caller; the barrier is below.
                unsafe {
                    a.clear_outside::<BESIDE>((row, BM as u32), p.m, threads);
                    // Of boxes across a tile that fits each block brings a part.
                    if const { FITS && <L::B as Major>::TRANSPOSED } {
                        b.clear_outside::<1>((col, cols), p.n, threads);
                    } else {
                        b.clear_outside::<ABOVE>((col, cols), p.n, threads);
                    }
                }
            }
            // SAFETY: as promised by the caller.
            unsafe { Self::show_cleared() };
        }
    }

    /// Clears what lies outside of A and B for the block's first tile, if that is not [left](Margin) to whoever brings
    /// its slices.
    ///
    /// # Safety
    /// As for [`clear_outside`](Self::clear_outside).
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn clear_around<E: Epilogue<D>>(p: &GemmParams<T, E, D>) {
        if const { Self::BRINGS_C } && p.c_is_mapped_anew() {
            return;
        }
        // Nothing of what is worked out here is to stay in registers for what follows.
        let [m, n, k] = [p.m, p.n, p.k].map(hint::opaque);
        let shared_tiles = hint::opaque(p.shared_tiles);
        let p = &GemmParams { m, n, k, shared_tiles, ..*p };
        if let Some(part) = Parts::<ABOVE, BESIDE>::new::<Self, _>(p).next() {
            let (_, Origin { row, col }) = in_product::<Self, _>(p, part.origin);
            let origin = Origin { row, col: fit::first_col::<Self, _>(p, col) };
            // SAFETY: as promised by the caller.
            unsafe { Self::clear_outside(p, origin, part.slices.end - part.slices.start) };
        }
    }

    /// Clears the first stage for products without depth, of which nobody brings any slice, where there is one
    /// nevertheless: where tiles fit.
    ///
    /// # Safety
    /// All consumers do so, before they read a stage; the parameters are those of the launch.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn clear_slice_without_depth<E: Epilogue<D>>(p: &GemmParams<T, E, D>) {
        const VECTOR: usize = 4;
        if const { FITS } && p.k == 0 {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: (u32, u32) = (128, 256);

    /// Whether each of the next slices comes whole.
    fn wholes<const SLICES: usize>(margin: &mut Margin<3>) -> [bool; SLICES] {
        core::array::from_fn(|_| margin.next_is_whole())
    }

    #[test]
    fn a_slice_for_each_stage_comes_whole_when_what_is_inside_changes() {
        let mut margin = Margin::new(false);
        margin.begin((127, 256), ALL);
        assert_eq!(wholes(&mut margin), [true, true], "fewer than stages");
        margin.begin((127, 256), ALL);
        assert_eq!(wholes(&mut margin), [true, false, false, false]);
        margin.begin((5, 256), ALL);
        assert_eq!(wholes(&mut margin), [true, true, true, false]);
        margin.spoil();
        assert_eq!(wholes(&mut margin), [true, true, true, false]);
        margin.begin((5, 7), ALL);
        assert_eq!(wholes(&mut margin), [true; 3]);
    }

    #[test]
    fn all_slices_come_whole_where_nothing_is_outside() {
        let mut margin = Margin::new(true);
        margin.begin(ALL, ALL);
        assert_eq!(wholes(&mut margin), [true; 5], "there was nothing to clear");
        margin.spoil();
        assert_eq!(wholes(&mut margin), [true; 5]);
        margin.begin((5, 256), ALL);
        assert_eq!(wholes(&mut margin), [true, true, true, false], "nobody has cleared anything");
        margin.begin(ALL, ALL);
        assert_eq!(wholes(&mut margin), [true; 5]);
    }

    #[test]
    fn of_the_first_tile_none_does_where_its_stages_are_cleared() {
        let mut margin = Margin::new(true);
        margin.begin((5, 7), ALL);
        assert_eq!(wholes(&mut margin), [false; 2]);
        margin.begin((5, 7), ALL);
        assert_eq!(wholes(&mut margin), [true, false], "the last stage was not");
        let mut margin = Margin::new(true);
        margin.begin((5, 7), ALL);
        assert_eq!(wholes(&mut margin), [false; 4]);
        margin.begin((5, 7), ALL);
        assert_eq!(wholes(&mut margin), [false; 2]);
        margin.begin((5, 8), ALL);
        assert_eq!(wholes(&mut margin), [true, true, true, false]);
    }
}
