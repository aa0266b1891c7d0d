//! The slices of A and B for warpgroups: panels of shared memory that bulk copies fill and matrix instructions read as they are.
//!
//! A panel consists of boxes whose rows are 128 bytes, 64 elements of half precision: that is the widest swizzle, with which eight
//! rows below each other have the same 16 bytes of a row in different banks, so that both copies and instructions run at full
//! speed. Which way such a row runs is the layout's to say, and nothing is ever transposed: instructions take either
//! ([`cuda_std::wgmma`]).
//!
//! | rows of what is stored run | box | panel |
//! |---|---|---|
//! | along k (A row-major, B transposed) | all its rows of A or columns of B, by 64 values of k | one box |
//! | across (A transposed, B row-major) | 64 values of k by 64 rows of A or columns of B | as many boxes as that takes |
//!
//! Where the blocks of a cluster bring a panel together each has as many of the boxes, or of a box along k as many rows. Of a panel whose width
//! [fits](crate::warpgroup::fit) each has as many rows of every box.
//!
//! Where a factor may have few rows along k the box has no more of them ([`fitted`]), and of boxes across only those
//! are copied that have something of it. The rest of the panel is [cleared](BulkPanel::clear_outside) once.

use crate::layout::{Nn, Nt, OperandLayouts, Tn, Tt};
use crate::maps::{BoxShape, Mapped, fitted};
use crate::swapped::{InOrder, Operands};
use core::marker::PhantomData;
use cuda_std::bulk_copy::{TensorMap, load_3d, load_3d_multicast};
use cuda_std::device_inline;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::SharedPtr;
use cuda_std::swizzle::Swizzle;
use cuda_std::wgmma::{Descriptor, Element, K, KMajor, Layout, Major, MnMajor};

/// How boxes lie in shared memory.
const SWIZZLE: Swizzle = Swizzle::Bytes128;

/// Bytes of a row of a box.
const ROW_BYTES: u32 = SWIZZLE.row_bytes();

/// Bytes of the rows that a swizzle mixes.
const PATTERN_BYTES: u32 = SWIZZLE.repeats_after();

/// What panels begin at a multiple of.
pub const ALIGNMENT: u32 = PATTERN_BYTES;

/// Which dimension of the factors is contiguous, as types.
pub trait MajorLayouts: OperandLayouts {
    /// That of A.
    type A: Major;
    /// That of B.
    type B: Major;
    /// Whether they are [swapped](crate::swapped): then `A` is that of the factor on the left, which is B, and `B` that of A.
    type Operands: Operands;
}

impl MajorLayouts for Nn {
    type A = KMajor;
    type B = MnMajor;
    type Operands = InOrder;
}

impl MajorLayouts for Nt {
    type A = KMajor;
    type B = KMajor;
    type Operands = InOrder;
}

impl MajorLayouts for Tn {
    type A = MnMajor;
    type B = MnMajor;
    type Operands = InOrder;
}

impl MajorLayouts for Tt {
    type A = MnMajor;
    type B = KMajor;
    type Operands = InOrder;
}

/// A panel of `WIDTH` rows of A or columns of B and `DEPTH` values of k.
#[derive(Clone, Copy)]
pub struct BulkPanel<T, M, const WIDTH: usize, const DEPTH: usize> {
    /// Where it begins in shared memory, at a multiple of [`ALIGNMENT`].
    address: u32,
    elements: PhantomData<(T, M)>,
}

impl<T: Element, M: Major, const WIDTH: usize, const DEPTH: usize> BulkPanel<T, M, WIDTH, DEPTH> {
    /// Elements in a row of a box.
    const ROW: u32 = ROW_BYTES / size_of::<T>() as u32;

    /// What one copy brings.
    pub const BOX: BoxShape = Self::box_of(1);

    /// What one copy brings where as many blocks of a cluster bring a part of the panel each.
    pub const fn box_of(blocks: u32) -> BoxShape {
        let (width, depth) = (WIDTH as u32, DEPTH as u32);
        let rows = if M::TRANSPOSED { depth } else { width / blocks };
        let in_rows = if M::TRANSPOSED { width } else { depth };
        assert!(in_rows.is_multiple_of(Self::ROW), "rows of whole boxes");
        assert!(M::TRANSPOSED || depth == Self::ROW, "along k a panel is one box");
        let bytes = rows * ROW_BYTES;
        assert!(Self::BYTES.is_multiple_of(blocks * bytes), "parts of whole boxes");
        assert!(bytes.is_multiple_of(PATTERN_BYTES), "boxes are aligned");
        BoxShape { rows, cols: Self::ROW, swizzle: SWIZZLE }
    }

    /// Bytes of the boxes of a panel that begins at row of A or column of B `first` that have something of a factor of `end` of them, the
    /// boxes along k [fitted] to it.
    #[device_inline]
    pub fn bytes_inside(first: u32, end: u32) -> u32 {
        if M::TRANSPOSED {
            let boxes = end.saturating_sub(first).div_ceil(Self::ROW).min(WIDTH as u32 / Self::ROW);
            boxes * Self::BOX_BYTES
        } else {
            fitted(end, WIDTH as u32) * ROW_BYTES
        }
    }

    /// Begins to copy those boxes.
    ///
    /// # Safety
    /// As for [`load`](Self::load), with boxes along k that are fitted to the factor.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_inside(
        self,
        factor: Mapped<'_>,
        (first, end): (u32, u32),
        k: u32,
        full: Mbarrier,
    ) {
        let boxes =
            if M::TRANSPOSED { Self::bytes_inside(first, end) / Self::BOX_BYTES } else { 1 };
        // SAFETY: as promised by the caller.
        unsafe { self.load_boxes(factor, boxes, first, k, full) };
    }

    /// Bytes of the boxes of a panel of which `width` rows of A or columns of B are wanted, those of a [tile that fits](crate::warpgroup::fit): whole boxes across, and one of as
    /// many rows along k.
    #[device_inline]
    pub const fn bytes_of(width: u32) -> u32 {
        if M::TRANSPOSED { width.div_ceil(Self::ROW) * Self::BOX_BYTES } else { width * ROW_BYTES }
    }

    /// What one copy brings of a tile that fits and is as wide as the panel, where as many blocks of a cluster bring a part each: of boxes across some values of
    /// k, since there may be no equal number of boxes for each, and of one along k some rows.
    pub const fn box_of_width(blocks: u32) -> BoxShape {
        let rows = if M::TRANSPOSED { DEPTH as u32 } else { WIDTH as u32 } / blocks;
        BoxShape { rows, ..Self::BOX }
    }

    /// Begins to copy the `part`-th of `BLOCKS` equal parts of what is [wanted](Self::bytes_of), to as many blocks of a cluster.
    ///
    /// # Safety
    /// As for [`load_part`](Self::load_part), with [such boxes](Self::box_of_width); along k they have as many rows as each block brings of `width`, a multiple of 8.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_part_of_width<const BLOCKS: u32>(
        self,
        factor: Mapped<'_>,
        (first, width): (u32, u32),
        k: u32,
        full: Mbarrier,
        part: u32,
    ) {
        let Mapped { map, index } = factor;
        let boxes = if M::TRANSPOSED { width.div_ceil(Self::ROW) } else { 1 };
        let rows = if M::TRANSPOSED { DEPTH as u32 } else { width } / BLOCKS;
        let skipped = if BLOCKS == 1 { 0 } else { part * rows };
        for number in 0..boxes {
            let offset = number * Self::BOX_BYTES + skipped * ROW_BYTES;
            let at = first + number * Self::ROW;
            let (col, row) = if M::TRANSPOSED { (at, k + skipped) } else { (k, at + skipped) };
            let target = SharedPtr::<T>::from_address(self.address + offset);
            // SAFETY: as promised by the caller.
            unsafe {
                Self::load_box::<BLOCKS>(target, map, [col as i32, row as i32, index], full);
            }
        }
    }

    /// Begins to copy a box to as many blocks of a cluster.
    ///
    /// # Safety
    /// As for [`load_part`](Self::load_part).
    #[device_inline]
    #[track_caller]
    unsafe fn load_box<const BLOCKS: u32>(
        target: SharedPtr<T>,
        map: &TensorMap,
        at: [i32; 3],
        full: Mbarrier,
    ) {
        // SAFETY: as promised by the caller.
        unsafe {
            if BLOCKS == 1 {
                load_3d(target, map, at, full);
            } else {
                load_3d_multicast(target, map, at, full, const { (1 << BLOCKS) - 1 });
            }
        }
    }

    /// Begins to copy the first of the panel's boxes.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[device_inline]
    #[track_caller]
    unsafe fn load_boxes(self, factor: Mapped<'_>, boxes: u32, first: u32, k: u32, full: Mbarrier) {
        let Mapped { map, index } = factor;
        for number in 0..boxes {
            let target = SharedPtr::<T>::from_address(self.address + number * Self::BOX_BYTES);
            let at = first + number * Self::ROW;
            let (col, row) = if M::TRANSPOSED { (at, k) } else { (k, at) };
            // SAFETY: as promised by the caller.
            unsafe { load_3d(target, map, [col as i32, row as i32, index], full) };
        }
    }

    /// Writes zeros to where [`load_inside`](Self::load_inside) brings nothing.
    ///
    /// # Safety
    /// `threads` threads do so together, and this is the `thread`-th. They have a barrier before anybody reads the panel.
    #[device_inline]
    #[track_caller]
    pub unsafe fn clear_outside(self, (first, end): (u32, u32), (thread, threads): (u32, u32)) {
        const VECTOR: usize = 4;
        let mut at = Self::bytes_inside(first, end) + thread * size_of::<[u32; VECTOR]>() as u32;
        while at < Self::BYTES {
            // SAFETY: as promised by the caller.
            unsafe { SharedPtr::from_address(self.address + at).store_vec([0_u32; VECTOR]) };
            at += threads * size_of::<[u32; VECTOR]>() as u32;
        }
    }

    /// Bytes of a box, where one block brings them all.
    const BOX_BYTES: u32 = Self::BOX.rows * ROW_BYTES;

    /// Bytes of the panel.
    pub const BYTES: u32 = WIDTH as u32 * DEPTH as u32 * size_of::<T>() as u32;

    /// How an instruction finds its elements. Along k it does not ask for the leading offset.
    const LAYOUT: Layout<T, M> = Layout::new(SWIZZLE, Self::BOX_BYTES, PATTERN_BYTES);

    /// Bytes from the elements of one instruction to those of the next values of k.
    const STEP_BYTES: u32 = {
        let step = K as u32;
        if M::TRANSPOSED { step * ROW_BYTES } else { step * size_of::<T>() as u32 }
    };

    /// The panel at an address of shared memory.
    #[device_inline]
    pub fn at(address: u32) -> Self {
        BulkPanel { address, elements: PhantomData }
    }

    /// Begins to copy the panel that starts at row of A or column of B `first` and at `k`. What lies outside of the factor becomes
    /// zero, and counts among the [`BYTES`](Self::BYTES) that `full` is told of nevertheless.
    ///
    /// # Safety
    /// As for [`load_3d`]; the map is one of the factor in boxes of shape [`BOX`](Self::BOX).
    #[device_inline]
    #[track_caller]
    pub unsafe fn load(self, factor: Mapped<'_>, first: u32, k: u32, full: Mbarrier) {
        // SAFETY: as promised by the caller.
        unsafe { self.load_part::<1>(factor, first, k, full, 0) }
    }

    /// Begins to copy the `part`-th of as many equal parts of the panel as the cluster has blocks, to all of them: each brings another part,
    /// and `full` is told of all.
    ///
    /// # Safety
    /// As for [`load`](Self::load), with boxes of the shape that [`box_of`](Self::box_of) gives, and in all blocks of the cluster as for
    /// [`load_3d_multicast`].
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_part<const BLOCKS: u32>(
        self,
        factor: Mapped<'_>,
        first: u32,
        k: u32,
        full: Mbarrier,
        part: u32,
    ) {
        let Mapped { map, index } = factor;
        let rows = const { Self::box_of(BLOCKS).rows };
        let box_bytes = rows * ROW_BYTES;
        let boxes = Self::BYTES / box_bytes / BLOCKS;
        for number in 0..boxes {
            let number = if BLOCKS == 1 { number } else { part * boxes + number };
            let (col, row) = match M::TRANSPOSED {
                true => (first + number * Self::ROW, k),
                false => (k, first + number * rows),
            };
            let target = SharedPtr::<T>::from_address(self.address + number * box_bytes);
            let at = [col as i32, row as i32, index];
            // SAFETY: as promised by the caller.
            unsafe { Self::load_box::<BLOCKS>(target, map, at, full) };
        }
    }

    /// The operand of an instruction that begins `first` rows of A or columns of B into the panel, a multiple of 64, at its first
    /// values of k.
    #[device_inline]
    #[track_caller]
    pub fn operand(self, first: u32) -> Descriptor<T, M> {
        Self::LAYOUT.at(SharedPtr::from_address(self.address + Self::offset(first)))
    }

    /// Bytes from the elements of the panel's first row of A or column of B to those of the `number`-th, a multiple of 64.
    const fn offset(number: u32) -> u32 {
        if M::TRANSPOSED { number / Self::ROW * Self::BOX_BYTES } else { number * ROW_BYTES }
    }

    /// The same operand `number` rows of A or columns of B further on, a multiple of 64.
    #[device_inline]
    pub const fn further(operand: Descriptor<T, M>, number: u32) -> Descriptor<T, M> {
        operand.advance(Self::offset(number))
    }

    /// The same operand at the `step`-th [`K`] values of k.
    #[device_inline]
    pub const fn step(operand: Descriptor<T, M>, step: u32) -> Descriptor<T, M> {
        operand.advance(step * Self::STEP_BYTES)
    }
}
