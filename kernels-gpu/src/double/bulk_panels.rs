//! The panels of [`crate::warp::panels`] for f64 as bulk copies fill them, and how tensor cores' fragments are read
//! from them.
//!
//! Bulk copies know swizzles of their own ([`cuda_std::swizzle`]), in which other rows have their chunks in different
//! banks than in [`crate::double::panels`]. So it is the rows that a fragment takes which are chosen: 8 of A or columns
//! of B whose elements, by 4 values of k, half a warp reads without conflicts. Which rows of D a lane has sums of
//! follows from that ([`FragmentReader::of_lanes`]); a lane's two columns must be neighbours.
//!
//! | rows of what is stored run | box | the 8 rows of A or columns of B of a fragment |
//! |---|---|---|
//! | along k, of A | all rows, by 16 values of k | 0, 2, 4, 6, 1, 3, 5, 7 |
//! | along k, of B | all columns, by 8 values of k: two boxes | 0, 1, 4, 5, 2, 3, 6, 7 |
//! | across | 16 values of k by 16 rows or columns | 0, 1, 8, 9, 2, 3, 10, 11, and 4 further on in the same boxes |

use crate::double::panels::{EIGHT, FOUR, FragmentReader};
use crate::maps::{BoxShape, Mapped};
use crate::slices::clusters::Portion;
use crate::warp::panels::{CHUNK_BYTES, Panel};
use core::marker::PhantomData;
use cuda_std::bulk_copy::{load_3d, load_3d_multicast};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::SharedPtr;
use cuda_std::swizzle::Swizzle;
use cuda_std::{device_inline, hint, warp};

/// What panels begin at a multiple of.
pub const ALIGNMENT: u32 = Swizzle::Bytes128.repeats_after();

/// Columns of a line in a fragment across: in 16 of them there are two.
const ACROSS: u32 = 16;

/// A panel as bulk copies fill it: that of A, or of B.
#[derive(Clone, Copy)]
pub struct DoubleBulkPanel<P> {
    /// Bytes from the start of a panel to the lane's element of the first 8 rows of A, or columns of B, at the first 4
    /// values of k.
    offset: u32,
    panel: PhantomData<P>,
}

impl<P: Panel> DoubleBulkPanel<P> {
    /// How boxes lie in shared memory. `WIDTH_FIRST` tells A from B.
    const SWIZZLE: Swizzle = match (P::ALONG_K, P::WIDTH_FIRST) {
        (true, false) => Swizzle::Bytes64,
        _ => Swizzle::Bytes128,
    };

    /// Bytes and elements of a row of a box.
    const ROW_BYTES: u32 = Self::SWIZZLE.row_bytes();
    const ROW: u32 = Self::ROW_BYTES / P::ELEMENT_BYTES;

    /// Boxes that rows consist of.
    const BOXES: u32 = {
        let row = P::CHUNKS * P::IN_CHUNK;
        assert!(row.is_multiple_of(Self::ROW), "rows of whole boxes");
        row / Self::ROW
    };

    /// Bytes of all rows of a box.
    const BOX_BYTES: u32 = P::ROWS * Self::ROW_BYTES;

    /// What one copy brings where as many blocks of a cluster bring a part of the panel each: of boxes across some, of
    /// others some of the rows.
    pub const fn box_of(blocks: u32) -> BoxShape {
        let rows = if P::ALONG_K { P::ROWS / blocks } else { P::ROWS };
        assert!((rows * Self::ROW_BYTES).is_multiple_of(ALIGNMENT), "boxes are aligned");
        assert!(P::ALONG_K || Self::BOXES.is_multiple_of(blocks), "parts of whole boxes");
        BoxShape { rows, cols: Self::ROW, swizzle: Self::SWIZZLE }
    }

    /// Begins to copy a portion, one of `BLOCKS`, of the panel at `address` to as many blocks of a cluster: it starts
    /// at row of A or column of B `first` and at `k`. What lies outside of the factor becomes zero, and counts among
    /// the bytes that `full` is told of.
    ///
    /// # Safety
    /// As for [`load_3d_multicast`] in all blocks of the cluster; the map is one of the factor in boxes of the shape
    /// that [`box_of`](Self::box_of) gives.
    #[device_inline]
    #[track_caller]
    pub unsafe fn load_part<const BLOCKS: u32>(
        address: u32,
        factor: Mapped<'_>,
        (first, k): (u32, u32),
        full: Mbarrier,
        Portion { part, takers }: Portion,
    ) {
        let rows = const { Self::box_of(BLOCKS).rows };
        let part = if BLOCKS == 1 { 0 } else { part };
        let boxes = if P::ALONG_K { Self::BOXES } else { Self::BOXES / BLOCKS };
        // Written out the copies of all boxes would take more registers than a thread that only copies has.
        for number in 0..hint::opaque(boxes) {
            let (number, first_row) =
                if P::ALONG_K { (number, part * rows) } else { (part * boxes + number, 0) };
            let at = address + number * Self::BOX_BYTES + first_row * Self::ROW_BYTES;
            let target = SharedPtr::<f64>::from_address(at);
            let in_row = number * Self::ROW;
            let (col, row) =
                if P::ALONG_K { (k + in_row, first + first_row) } else { (first + in_row, k) };
            let at = [col as i32, row as i32, factor.index];
            // SAFETY: as promised by the caller.
            unsafe {
                if BLOCKS == 1 {
                    load_3d(target, factor.map, at, full);
                } else {
                    load_3d_multicast(target, factor.map, at, full, takers);
                }
            }
        }
    }

    /// Where in the panel an element lies.
    const fn place(row: u32, col: u32) -> u32 {
        let (number, col) = (col / Self::ROW, col % Self::ROW);
        let at = number * Self::BOX_BYTES + row * Self::ROW_BYTES + col * P::ELEMENT_BYTES;
        Self::SWIZZLE.apply(at)
    }
}

impl<P: Panel> FragmentReader for DoubleBulkPanel<P> {
    const SECOND_FOUR: u32 = if P::ALONG_K { EIGHT / 2 } else { EIGHT };

    #[device_inline]
    fn new(first: u32) -> Self {
        let lane = warp::lane_id();
        let (across, deep) = (first + Self::of_lanes(lane / FOUR), lane % FOUR);
        let (row, col) = if P::ALONG_K { (across, deep) } else { (deep, across) };
        DoubleBulkPanel { offset: Self::place(row, col), panel: PhantomData }
    }

    /// The elements that follow are so many bytes further on in a row, of which the swizzle has mixed none with the
    /// bits that the lanes' elements differ in, or in rows that change only such bits of what it mixes in. So all of
    /// that is constants to exclude, or to add.
    #[device_inline]
    #[track_caller]
    unsafe fn read(&self, panel: u32, eight: usize, four: usize) -> f64 {
        let (first, k) = (Self::of_eight(eight), four as u32 * FOUR);
        let (row, col) = if P::ALONG_K { (first, k) } else { (k, first) };
        let place = Self::place(row, col);
        let changed = place % Self::ROW_BYTES;
        const { assert!(CHUNK_BYTES * 4 <= Self::ROW_BYTES, "a swizzle of several chunks") };
        let start = (panel + self.offset) ^ changed;
        // SAFETY: as promised by the caller; elements are aligned.
        unsafe { SharedPtr::from_address(start + (place - changed)).load() }
    }

    #[device_inline]
    fn offset(&self) -> u32 {
        self.offset
    }

    #[device_inline]
    fn of_eight(eight: usize) -> u32 {
        let eight = eight as u32;
        if P::ALONG_K { eight * EIGHT } else { eight / 2 * ACROSS + eight % 2 * (EIGHT / 2) }
    }

    #[device_inline]
    fn of_lanes(g: u32) -> u32 {
        let (pair, second) = (g / 2, g % 2);
        match (P::ALONG_K, P::WIDTH_FIRST) {
            (true, true) => g % 4 * 2 + g / 4,
            (true, false) => pair % 2 * 4 + pair / 2 * 2 + second,
            (false, _) => pair % 2 * EIGHT + pair / 2 * 2 + second,
        }
    }
}
