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

    /// Elements from the first to the last one, both included.
    fn span(&self) -> usize {
        crate::matrix::span(self.rows, self.cols, self.ld)
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// The same further on by so many elements.
    fn moved(self, elements: usize) -> Extent {
        let bytes = (elements as u64).wrapping_mul(self.element_bytes as u64);
        Extent { address: self.address.wrapping_add(bytes), ..self }
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

/// The elements of a batch: `count` matrices that begin `stride` elements apart. A matrix is a batch of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    first: Extent,
    count: usize,
    stride: usize,
}

impl Extents {
    pub fn new(first: Extent, count: usize, stride: usize) -> Extents {
        // What is one behind itself is there once.
        Extents { first, count: if stride == 0 { count.min(1) } else { count }, stride }
    }

    /// Addresses from the first element to the end of the last one.
    pub fn addresses(&self) -> Range<u64> {
        self.hull().addresses()
    }

    /// A matrix that all elements lie in, with what lies between them: of as many columns where the matrices lie below
    /// each other or interleave by rows, of as many rows where they lie side by side, and otherwise one row.
    fn hull(&self) -> Extent {
        let Extents { first, count, stride } = *self;
        if count == 0 || first.is_empty() {
            return Extent { rows: 0, ..first };
        }
        let further = (count - 1) * stride;
        if stride.is_multiple_of(first.ld) {
            Extent { rows: further / first.ld + first.rows, ..first }
        } else if further + first.cols <= first.ld {
            Extent { cols: further + first.cols, ..first }
        } else {
            let cols = further + first.span();
            Extent { rows: 1, cols, ld: cols, ..first }
        }
    }

    /// Whether an element of one shares memory with an element of the other. Exact where both have the same leading
    /// dimension and the same stride, as parts of one matrix do that are made in the same way; otherwise what lies
    /// between the matrices counts too.
    pub fn overlaps(&self, other: &Extents) -> bool {
        if !self.hull().overlaps(&other.hull()) {
            return false;
        }
        let (a, b) = (self.first, other.first);
        let stride = match (self.count, other.count) {
            (_, 1) => self.stride,
            (1, _) => other.stride,
            _ if self.stride == other.stride => self.stride,
            _ => return true,
        };
        if a.ld != b.ld || a.element_bytes != b.element_bytes {
            return true;
        }
        // How many strides two matrices are apart is all that matters: so the first of each batch against all of the
        // other that do not end before it or begin behind it.
        let meets = |one: &Extent, others: &Extents| {
            let Range { start, end } = one.addresses();
            let before = start.saturating_sub(others.first.addresses().end);
            let skipped = before as usize / (stride * others.first.element_bytes).max(1);
            let rest = (skipped..others.count).map(|index| others.first.moved(index * stride));
            rest.take_while(|matrix| matrix.address < end).any(|matrix| one.overlaps(&matrix))
        };
        meets(&a, other) || meets(&b, self)
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

    fn elements_of_all(extents: &Extents) -> HashSet<u64> {
        let Extents { first, count, stride } = *extents;
        (0..count).flat_map(|index| elements(&first.moved(index * stride))).collect()
    }

    /// Below each other, interleaved by rows, side by side, and with matrices that share columns or rows.
    #[test]
    fn batches_of_the_same_strides_are_told_apart_exactly() {
        const LD: usize = 6;
        let first = |offset, rows, cols| extent(offset, rows, cols, LD);
        for stride in [1, 2, 3, LD, 2 * LD, 2 * LD + 1, 5 * LD, 0] {
            for (a_count, b_count) in [(3, 3), (1, 3), (3, 1), (2, 4), (0, 2)] {
                for (a_size, b_size) in [((2, 2), (2, 1)), ((3, 1), (1, 2)), ((2, 3), (2, 3))] {
                    for offset in 0..13 * LD {
                        let a = Extents::new(first(5 * LD, a_size.0, a_size.1), a_count, stride);
                        let b = Extents::new(first(offset, b_size.0, b_size.1), b_count, stride);
                        let expected = !elements_of_all(&a).is_disjoint(&elements_of_all(&b));
                        assert_eq!(a.overlaps(&b), expected, "{a:?} {b:?}");
                        assert_eq!(b.overlaps(&a), expected, "{b:?} {a:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn never_misses_an_overlap_of_batches_of_different_strides() {
        let a = Extents::new(extent(20, 2, 2, 6), 3, 2);
        let a_elements = elements_of_all(&a);
        for offset in 0..50 {
            for (ld, stride) in [(6, 3), (6, 6), (6, 7), (6, 12), (5, 2), (4, 8)] {
                let b = Extents::new(extent(offset, 2, 2, ld), 3, stride);
                let shared = !a_elements.is_disjoint(&elements_of_all(&b));
                assert!(a.overlaps(&b) || !shared, "{a:?} {b:?}");
                assert_eq!(a.overlaps(&b), b.overlaps(&a), "{a:?} {b:?}");
            }
        }
        // Some are told apart: in other columns, and in other rows.
        let below = Extents::new(extent(32, 2, 2, 6), 2, 3);
        let beside = Extents::new(extent(0, 2, 2, 6), 5, 6);
        let right = Extents::new(extent(20, 2, 1, 6), 2, 2);
        assert!(!a.overlaps(&below) && !beside.overlaps(&right));
    }

    #[test]
    fn the_addresses_of_a_batch() {
        let batch = |rows, count| Extents::new(extent(8, rows, 2, 3), count, 10);
        assert_eq!(batch(2, 3).addresses(), extent(8, 1, 25, 25).addresses());
        let one = Extents::new(extent(8, 2, 2, 3), 1, 0);
        assert!(!batch(2, 0).overlaps(&one) && !batch(0, 3).overlaps(&one));
        let side_by_side = Extents::new(extent(8, 2, 2, 10), 3, 3);
        assert_eq!(side_by_side.addresses(), extent(8, 1, 18, 18).addresses());
    }

    #[test]
    fn the_same_matrix() {
        assert!(extent(0, 2, 3, 4).is_same(&extent(0, 2, 3, 4)));
        assert!(!extent(0, 2, 3, 4).is_same(&extent(0, 2, 3, 5)));
        assert!(extent(0, 1, 3, 4).is_same(&extent(0, 1, 3, 5)), "one row has no next");
        assert!(!extent(0, 2, 3, 4).is_same(&extent(1, 2, 3, 4)));
    }
}
