//! The slices of A and B for warpgroups: panels of shared memory that bulk copies fill and matrix instructions read as
//! they are.
//!
//! A panel consists of boxes whose rows are 128 bytes, 64 elements of half precision: that is the widest swizzle, with
//! which eight rows below each other have the same 16 bytes of a row in different banks, so that both copies and
//! instructions run at full speed. Which way such a row runs is the layout's to say, and nothing is ever transposed:
//! instructions take either ([`cuda_std::wgmma`]).
//!
//! | rows of what is stored run | box | panel |
//! |---|---|---|
//! | along k (A row-major, B transposed) | all its rows of A or columns of B, by 64 values of k | one box |
//! | across (A transposed, B row-major) | 64 values of k by 64 rows of A or columns of B | as many boxes as that takes |
//!
//! Where the blocks of a cluster bring a panel together each has as many of the boxes, or of a box along k as many
//! rows. Of a panel whose width [fits](crate::warpgroup::fit) each has as many rows of every box.
//!
//! Of rows along k those alone are copied that the factor has ([`Rests`](crate::maps::Factors)), and of boxes across
//! those that have something of it. The rest of a panel is zero [already](crate::warpgroup::unbrought).

use crate::layout::{Nn, Nt, OperandLayouts, Tn, Tt};
use crate::maps::{BoxShape, Inside, Mapped};
use crate::slices::clusters::Portion;
use crate::swapped::{InOrder, Operands};
use core::marker::PhantomData;
use cuda_std::bulk_copy::{self, load_3d, load_3d_multicast};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::SharedPtr;
use cuda_std::swizzle::Swizzle;
use cuda_std::wgmma::{Descriptor, Element, K, KMajor, Layout, Major, MnMajor};
use cuda_std::{device_inline, unroll};

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
    /// Whether they are [swapped](crate::swapped): then `A` is that of the factor on the left, which is B, and `B` that
    /// of A.
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

    /// How many of `width` rows of A or columns of B are copied of a panel, of which so many are `inside` of the
    /// factor, where as many blocks of a cluster bring an equal part each. That is those that are inside, but of parts
    /// that lie wholly outside all: a block that brought nothing for a slice would let the others go on without it.
    #[device_inline]
    fn brought<const BLOCKS: u32>(inside: u32, width: u32) -> u32 {
        let part = width / BLOCKS;
        let mut brought = 0;
        for number in 0..BLOCKS {
            brought += Self::brought_of_part::<BLOCKS>(inside, part, number);
        }
        brought
    }

    /// The same of one part.
    #[device_inline]
    fn brought_of_part<const BLOCKS: u32>(inside: u32, part: u32, number: u32) -> u32 {
        let inside = inside.saturating_sub(number * part).min(part);
        if BLOCKS > 1 && inside == 0 { part } else { inside }
    }

    /// Rows of A or columns of B of a panel that begins at `first` and is as wide as that which are inside of a factor
    /// that [ends](Inside::end) there: all where it is not asked.
    #[device_inline]
    const fn inside((first, width): (u32, u32), end: Option<u32>) -> u32 {
        let Some(end) = end else { return width };
        let inside = end.saturating_sub(first);
        if inside < width { inside } else { width }
    }

    /// Bytes of what as many blocks together [load](Self::load_part) of a panel that begins at row of A or column of B
    /// `first`, from a factor that [ends](Inside::end) there: of rows along k those that are inside, and across whole
    /// boxes that have something of it.
    #[device_inline]
    pub fn bytes_of_parts<const BLOCKS: u32>(first: u32, end: Option<u32>) -> u32 {
        let inside = Self::inside((first, WIDTH as u32), end);
        if M::TRANSPOSED {
            Self::brought::<BLOCKS>(Self::boxes(inside), WIDTH as u32 / Self::ROW) * Self::BOX_BYTES
        } else {
            Self::brought::<BLOCKS>(inside, WIDTH as u32) * ROW_BYTES
        }
    }

    /// The same of what they load [of a tile that fits](Self::load_part_of_width) and has so many columns.
    #[device_inline]
    pub fn bytes_of_width<const BLOCKS: u32>(first: u32, width: u32, end: Option<u32>) -> u32 {
        let inside = Self::inside((first, width), end);
        if M::TRANSPOSED {
            Self::boxes(inside) * Self::BOX_BYTES
        } else {
            Self::brought::<BLOCKS>(inside, width) * ROW_BYTES
        }
    }

    /// Boxes across of so many rows of A or columns of B.
    #[device_inline]
    const fn boxes(width: u32) -> u32 {
        width.div_ceil(Self::ROW)
    }

    /// What one copy brings of a tile that fits and is as wide as the panel, where as many blocks of a cluster bring a
    /// part each: of boxes across some values of k, since there may be no equal number of boxes for each, and of one
    /// along k some rows.
    pub const fn box_of_width(blocks: u32) -> BoxShape {
        let rows = if M::TRANSPOSED { DEPTH as u32 } else { WIDTH as u32 } / blocks;
        BoxShape { rows, ..Self::BOX }
    }

    /// Fetches the map that is needed first, where a box along k has so many rows: that of whole boxes if there is one.
    ///
    /// # Safety
    /// The maps are there as long as the launch.
    #[device_inline]
    pub unsafe fn prefetch(factor: Inside<'_>, rows: u32) {
        let is_rest = !M::TRANSPOSED && factor.end.is_some_and(|end| end < rows);
        // SAFETY: as promised by the caller.
        unsafe {
            if is_rest {
                bulk_copy::prefetch(factor.rest.map);
            } else {
                bulk_copy::prefetch(factor.whole.map);
            }
        }
    }

    /// Begins to copy a portion of `width` rows of A or columns of B from `first` on, one of `BLOCKS`, those of a [tile
    /// that fits](crate::warpgroup::fit), to as many blocks of a cluster: of these what is
    /// [brought](Self::bytes_of_width).
    ///
    /// # Safety
    /// As for [`load_part`](Self::load_part), with [such boxes](Self::box_of_width); along k they have as many rows as
    /// each block brings of `width`, a multiple of 8.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_part_of_width<const BLOCKS: u32>(
        self,
        factor: Inside<'_>,
        (first, width): (u32, u32),
        k: u32,
        full: Mbarrier,
        Portion { part, takers }: Portion,
    ) {
        let rows = if M::TRANSPOSED { DEPTH as u32 } else { width } / BLOCKS;
        let skipped = if BLOCKS == 1 { 0 } else { part * rows };
        // SAFETY: as promised by the caller.
        unsafe {
            if M::TRANSPOSED {
                let boxes = Self::boxes(Self::inside((first, width), factor.end));
                unroll!(i < WIDTH / Self::ROW as usize, {
                    let number = i as u32;
                    if number < boxes {
                        let offset = number * Self::BOX_BYTES + skipped * ROW_BYTES;
                        let at = (first + number * Self::ROW, k + skipped);
                        self.load_box::<BLOCKS>(offset, factor.whole, at, (full, takers));
                    }
                });
            } else {
                self.load_rows::<BLOCKS>(factor, (first, skipped, rows), k, (full, takers));
            }
        }
    }

    /// Begins to copy the box along k of `rows` rows of A or columns of B that are `skipped` after the panel's first,
    /// to as many blocks of a cluster: what of it is inside.
    ///
    /// # Safety
    /// As for [`load_part`](Self::load_part).
    #[device_inline]
    #[track_caller]
    unsafe fn load_rows<const BLOCKS: u32>(
        self,
        factor: Inside<'_>,
        (first, skipped, rows): (u32, u32, u32),
        k: u32,
        to: (Mbarrier, u16),
    ) {
        let (at, offset) = (first + skipped, skipped * ROW_BYTES);
        // SAFETY: as promised by the caller.
        unsafe {
            match Self::brought_of_part::<BLOCKS>(Self::inside((at, rows), factor.end), rows, 0) {
                0 => (),
                brought if brought == rows => {
                    self.load_box::<BLOCKS>(offset, factor.whole, (k, at), to);
                }
                _ => self.load_box::<BLOCKS>(offset, factor.rest, (k, at), to),
            }
        }
    }

    /// Writes zeros to what is not [loaded](Self::load_part) of a panel that is as wide as `width` and starts at
    /// `first`, where a factor ends at `end` rows of A or columns of B.
    ///
    /// # Safety
    /// `threads` threads do so together, and this is the `thread`-th. They have a barrier before anybody reads the
    /// panel.
    #[device_inline]
    #[track_caller]
    pub unsafe fn clear_outside<const BLOCKS: u32>(
        self,
        (first, width): (u32, u32),
        end: u32,
        (thread, threads): (u32, u32),
    ) {
        const VECTOR: usize = 4;
        let inside = Self::inside((first, width), Some(end));
        let (inside, all, bytes) = match M::TRANSPOSED {
            true => (Self::boxes(inside), Self::boxes(width), Self::BOX_BYTES),
            false => (inside, width, ROW_BYTES),
        };
        let part = all / BLOCKS;
        for number in 0..BLOCKS {
            let from = number * part + Self::brought_of_part::<BLOCKS>(inside, part, number);
            let mut at = from * bytes + thread * size_of::<[u32; VECTOR]>() as u32;
            while at < (number + 1) * part * bytes {
                // SAFETY: as promised by the caller.
                unsafe { SharedPtr::from_address(self.address + at).store_vec([0_u32; VECTOR]) };
                at += threads * size_of::<[u32; VECTOR]>() as u32;
            }
        }
    }

    /// Begins to copy a box to `offset` bytes into the panel, of as many blocks of a cluster.
    ///
    /// # Safety
    /// As for [`load_part`](Self::load_part).
    #[device_inline]
    #[track_caller]
    unsafe fn load_box<const BLOCKS: u32>(
        self,
        offset: u32,
        Mapped { map, index }: Mapped<'_>,
        (col, row): (u32, u32),
        (full, takers): (Mbarrier, u16),
    ) {
        let target = SharedPtr::<T>::from_address(self.address + offset);
        let at = [col as i32, row as i32, index];
        // SAFETY: as promised by the caller.
        unsafe {
            if BLOCKS == 1 {
                load_3d(target, map, at, full);
            } else {
                load_3d_multicast(target, map, at, full, takers);
            }
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

    /// Begins to copy a portion, one of `BLOCKS`, of the panel that starts at row of A or column of B `first` and at
    /// `k`, to as many blocks of a cluster: each brings another, and `full` is told of all. Of rows along k, and of
    /// boxes across, nothing is copied that lies outside of the factor.
    ///
    /// # Safety
    /// As for [`load_3d`], with maps of the factor in boxes of the shape that [`box_of`](Self::box_of) gives, or of the
    /// [rest](crate::maps::Factors), and in all blocks of the cluster as for [`load_3d_multicast`].
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_part<const BLOCKS: u32>(
        self,
        factor: Inside<'_>,
        first: u32,
        k: u32,
        full: Mbarrier,
        Portion { part, takers }: Portion,
    ) {
        let part = if BLOCKS == 1 { 0 } else { part };
        // SAFETY: as promised by the caller.
        unsafe {
            if M::TRANSPOSED {
                let boxes = WIDTH as u32 / Self::ROW / BLOCKS;
                let first_box = part * boxes;
                let inside = Self::boxes(Self::inside((first, WIDTH as u32), factor.end));
                let brought = Self::brought_of_part::<BLOCKS>(inside, boxes, part);
                unroll!(i < WIDTH / Self::ROW as usize / BLOCKS as usize, {
                    if (i as u32) < brought {
                        let number = first_box + i as u32;
                        let (offset, at) = (number * Self::BOX_BYTES, first + number * Self::ROW);
                        self.load_box::<BLOCKS>(offset, factor.whole, (at, k), (full, takers));
                    }
                });
            } else {
                let rows = const { Self::box_of(BLOCKS).rows };
                self.load_rows::<BLOCKS>(factor, (first, part * rows, rows), k, (full, takers));
            }
        }
    }

    /// The operand of an instruction that begins `first` rows of A or columns of B into the panel, a multiple of 64, at
    /// its first values of k.
    #[device_inline]
    #[track_caller]
    pub fn operand(self, first: u32) -> Descriptor<T, M> {
        Self::LAYOUT.at(SharedPtr::from_address(self.address + Self::offset(first)))
    }

    /// Bytes from the elements of the panel's first row of A or column of B to those of the `number`-th, a multiple of
    /// 64.
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
