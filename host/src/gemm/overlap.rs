//! Which views share memory.

use std::ops::Range;

/// The elements of a view: `rows` rows of `cols` elements, `ld` elements apart, from an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub address: u64,
    pub rows: usize,
    pub cols: usize,
    pub ld: usize,
    pub element_bytes: usize,
}

impl Extent {
    /// Addresses from the first element to the end of the last one.
    pub fn addresses(&self) -> Range<u64> {
        if self.is_empty() {
            return self.address..self.address;
        }
        self.address..self.address.saturating_add((self.span() * self.element_bytes) as u64)
    }

    /// All from the first element to the last one of `count` such matrices, `stride` elements apart. The gaps in
    /// between count too: batches that interleave with another operand are taken to overlap it.
    pub fn repeated(self, count: usize, stride: usize) -> Extent {
        if count == 0 || self.is_empty() {
            return Extent { rows: 0, ..self };
        }
        let cols = (count - 1) * stride + self.span();
        Extent { rows: 1, cols, ld: cols, ..self }
    }

    /// Elements from the first to the last one, both included.
    fn span(&self) -> usize {
        crate::matrix::span(self.rows, self.cols, self.ld)
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Whether both have the same elements in the same places.
    pub fn is_same(&self, other: &Extent) -> bool {
        let same_ld = self.ld == other.ld || self.rows <= 1;
        same_ld && Extent { ld: other.ld, ..*self } == *other
    }

    /// Whether an element of one shares memory with an element of the other. Exact where both have the same leading
    /// dimension, as parts of one matrix do; otherwise all between the first and the last element counts.
    pub fn overlaps(&self, other: &Extent) -> bool {
        let (first, second) =
            if self.address <= other.address { (self, other) } else { (other, self) };
        if first.is_empty() || second.is_empty() || first.addresses().end <= second.address {
            return false;
        }
        let bytes = (second.address - first.address) as usize;
        let Some(ld) = common_ld(first, second) else { return true };
        if first.element_bytes != second.element_bytes || !bytes.is_multiple_of(first.element_bytes)
        {
            return true;
        }

        // In a grid of `ld` columns whose origin is the first view's, the second one begins at (row, col). Its columns
        // may run past the end of the grid's row; the rest then lies in the next row from column 0 on.
        let (row, col) = (bytes / first.element_bytes / ld, bytes / first.element_bytes % ld);
        let beside = col < first.cols && row < first.rows;
        let wrapped = col + second.cols > ld && row + 1 < first.rows;
        beside || wrapped
    }
}

/// A leading dimension by which both can be described. That of a single row may be any that is not shorter.
fn common_ld(a: &Extent, b: &Extent) -> Option<usize> {
    let fits = |extent: &Extent, ld| extent.ld == ld || (extent.rows == 1 && extent.cols <= ld);
    [a.ld, b.ld].into_iter().find(|&ld| fits(a, ld) && fits(b, ld))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const BYTES: usize = 4;

    fn extent(offset: usize, rows: usize, cols: usize, ld: usize) -> Extent {
        let address = 1024 + (offset * BYTES) as u64;
        Extent { address, rows, cols, ld, element_bytes: BYTES }
    }

    fn elements(extent: &Extent) -> HashSet<u64> {
        let row = |i: usize| extent.address + (i * extent.ld * BYTES) as u64;
        (0..extent.rows)
            .flat_map(|i| (0..extent.cols).map(move |j| row(i) + (j * BYTES) as u64))
            .collect()
    }

    #[test]
    fn exact_for_all_small_parts_of_one_matrix() {
        const LD: usize = 4;
        let a_sizes = [(1, 1), (2, 2), (3, 4), (1, 4), (3, 1), (0, 2), (2, 0)];
        for (a_rows, a_cols) in a_sizes {
            let a = extent(LD * 3, a_rows, a_cols, LD);
            for offset in 0..LD * 7 {
                for rows in 0..4 {
                    for cols in 0..=LD {
                        let b = extent(offset, rows, cols, LD);
                        let expected = !elements(&a).is_disjoint(&elements(&b));
                        assert_eq!(a.overlaps(&b), expected, "{a:?} {b:?}");
                        assert_eq!(b.overlaps(&a), expected, "{b:?} {a:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn never_misses_an_overlap_of_different_leading_dimensions() {
        for offset in 0..30 {
            for (rows, cols, ld) in [(2, 2, 3), (3, 1, 5), (1, 7, 7), (1, 3, 9)] {
                let (a, b) = (extent(8, 3, 2, 4), extent(offset, rows, cols, ld));
                let shared = !elements(&a).is_disjoint(&elements(&b));
                assert!(a.overlaps(&b) || !shared, "{a:?} {b:?}");
                let apart = a.addresses().end <= b.address || b.addresses().end <= a.address;
                assert!(!(apart && a.overlaps(&b)), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_shift_of_half_an_element_overlaps() {
        let a = extent(0, 2, 2, 4);
        let b = Extent { address: a.address + 10, ..a };
        assert!(a.overlaps(&b));
    }

    #[test]
    fn a_batch_is_all_that_lies_between_its_ends() {
        let batch = extent(8, 2, 2, 3).repeated(3, 10);
        assert_eq!(batch.addresses(), extent(8, 1, 25, 25).addresses());
        assert!(batch.overlaps(&extent(32, 1, 1, 1)) && batch.overlaps(&extent(14, 1, 1, 1)));
        assert!(!batch.overlaps(&extent(33, 1, 9, 9)) && !batch.overlaps(&extent(0, 2, 4, 4)));
        assert!(!extent(8, 2, 2, 3).repeated(0, 10).overlaps(&extent(8, 2, 2, 3)));
        assert!(!extent(8, 0, 2, 3).repeated(3, 10).overlaps(&extent(8, 2, 2, 3)));
    }

    #[test]
    fn the_same_matrix() {
        assert!(extent(0, 2, 3, 4).is_same(&extent(0, 2, 3, 4)));
        assert!(!extent(0, 2, 3, 4).is_same(&extent(0, 2, 3, 5)));
        assert!(extent(0, 1, 3, 4).is_same(&extent(0, 1, 3, 5)), "one row has no next");
        assert!(!extent(0, 2, 3, 4).is_same(&extent(1, 2, 3, 4)));
    }
}
