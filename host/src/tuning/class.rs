//! Shapes of problems, and classes of shapes that are alike.

use regemm_kernels::element::Dtype;
use regemm_kernels::layout::Layouts;
use std::fmt;

/// Bytes of the widest load or store of a kernel.
const VECTOR_BYTES: u64 = 16;

/// Classes to a doubling of a size: with fewer of them shapes would be alike whose fastest kernels differ by a quarter,
/// since D has other numbers of tiles.
const CLASSES_PER_OCTAVE: f64 = 6.0;

/// Whether a row of so many elements is whole vectors.
pub(super) fn is_whole(dtype: Dtype, cols: u32) -> bool {
    (u64::from(cols) * dtype.bytes() as u64).is_multiple_of(VECTOR_BYTES)
}

/// What the time of a product depends on, apart from its element types and layouts: `D[m x n] = A[m x k] * B[k x n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Depth of the product.
    pub k: u32,
    /// Whether all rows of A, B and D, as they are stored, begin at multiples of 16 bytes and are whole multiples of 16
    /// bytes long, so that kernels load and store vectors.
    pub aligned: bool,
}

impl Shape {
    /// The shape of a product of row-major matrices without gaps between their rows, in memory that a device has
    /// allocated.
    pub fn packed(dtype: Dtype, m: u32, n: u32, k: u32) -> Shape {
        Shape::packed_in(Layouts::NN, dtype, m, n, k)
    }

    /// The same of factors that are stored in these layouts.
    pub fn packed_in(layouts: Layouts, dtype: Dtype, m: u32, n: u32, k: u32) -> Shape {
        let rows = [layouts.a.stored(m, k), layouts.b.stored(k, n), (m, n)];
        Shape { m, n, k, aligned: rows.into_iter().all(|(_, cols)| is_whole(dtype, cols)) }
    }

    /// Whether rows of A, and of B, without gaps between them are no whole vectors as they are stored.
    pub(crate) fn odd_factors(self, factors: Dtype, layouts: Layouts) -> [bool; 2] {
        let Shape { m, n, k, .. } = self;
        let stored = [layouts.a.stored(m, k), layouts.b.stored(k, n)];
        stored.map(|(_, cols)| !is_whole(factors, cols))
    }

    /// The shape whose time of row-major factors tells of a product of this shape in other layouts: this one, unless no
    /// row-major factors can have it. Where A is transposed and B is not, rows of vectors say nothing of K, along which
    /// those of a row-major A lie: then the next K of whole vectors.
    pub(crate) fn of_row_major(self, factors: Dtype) -> Shape {
        let Shape { m, n, k, aligned } = self;
        if !aligned || Shape::packed(factors, m, n, k).aligned {
            return self;
        }
        let vector = (VECTOR_BYTES / factors.bytes() as u64) as u32;
        Shape { k: k.checked_next_multiple_of(vector).unwrap_or(k - k % vector), ..self }
    }

    /// Whether the rows of a matrix are whole, aligned vectors: by the address of its first element, its columns and
    /// its leading dimension.
    pub(crate) fn has_vectors(dtype: Dtype, address: u64, cols: usize, ld: usize) -> bool {
        let bytes = |elements: usize| elements as u64 * dtype.bytes() as u64;
        (address | bytes(cols) | bytes(ld)).is_multiple_of(VECTOR_BYTES)
    }

    /// Multiplications and additions for each byte of A, B and D, whose elements have so many.
    pub fn operations_per_byte(self, element_bytes: usize) -> f64 {
        let [m, n, k] = [self.m, self.n, self.k].map(f64::from);
        2.0 * m * n * k / ((m * k + k * n + m * n) * element_bytes as f64)
    }

    /// The class it belongs to.
    pub fn class(self) -> ShapeClass {
        let Shape { m, n, k, aligned } = self;
        ShapeClass { m: size_class(m), n: size_class(n), k: size_class(k), aligned }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { m, n, k, aligned } = self;
        write!(f, "{m} x {n} x {k}")?;
        if *aligned { Ok(()) } else { f.write_str(" unaligned") }
    }
}

/// Shapes that are alike: those whose sizes round to the same sixths of an octave. Where one of them has been measured
/// no other is [at its first use](super::Tuning::FirstUse).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeClass {
    /// Sixths of an octave of the rows of D: six times their binary logarithm, rounded.
    pub m: u8,
    /// The same of the columns of D.
    pub n: u8,
    /// The same of the depth.
    pub k: u8,
    /// As [`Shape::aligned`].
    pub aligned: bool,
}

/// The class of a size; 0 for sizes 0 and 1. At most 192.
fn size_class(size: u32) -> u8 {
    (CLASSES_PER_OCTAVE * f64::from(size.max(1)).log2()).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_sixths_of_an_octave() {
        let octaves =
            [(0, 0), (1, 0), (2, 6), (3, 10), (4, 12), (181, 45), (256, 48), (u32::MAX, 192)];
        for (size, expected) in octaves {
            assert_eq!(size_class(size), expected, "{size}");
        }
        // The edges are at the twelfth root of two to either side.
        assert_eq!((size_class(966), size_class(967)), (59, 60));
        assert_eq!((size_class(1084), size_class(1085)), (60, 61));
    }

    #[test]
    fn alignment_is_part_of_the_class() {
        let even = Shape::packed(Dtype::F32, 100, 100, 100);
        let odd = Shape::packed(Dtype::F32, 100, 99, 100);
        assert!(even.aligned && !odd.aligned);
        assert_eq!(ShapeClass { aligned: true, ..odd.class() }, even.class());
        assert_ne!(odd.class(), even.class());
    }

    /// What is stored is what has rows: of transposed factors m or k are their length.
    #[test]
    fn rows_are_those_that_are_stored() {
        let aligned = |m, n, k| {
            Layouts::ALL.map(|layouts| Shape::packed_in(layouts, Dtype::Bf16, m, n, k).aligned)
        };
        assert_eq!(aligned(64, 64, 64), [true; 4]);
        assert_eq!(aligned(1, 64, 64), [true, true, false, false], "a column of A");
        assert_eq!(
            aligned(64, 64, 1),
            [false, false, true, false],
            "a column of what is not transposed"
        );
        assert_eq!(aligned(64, 1, 64), [false; 4], "a column of D");
    }

    /// Whatever is aligned in some layouts stands for row-major factors that there can be.
    #[test]
    fn row_major_factors_have_the_shape_that_is_measured_of_them() {
        for dtype in [Dtype::F64, Dtype::F32, Dtype::F16] {
            for layouts in Layouts::ALL {
                for k in [1, 15, 16, 17, 64, 100, u32::MAX] {
                    let shape = Shape::packed_in(layouts, dtype, 64, 32, k);
                    let row_major = shape.of_row_major(dtype);
                    let Shape { m, n, k: depth, aligned } = row_major;
                    assert_eq!((m, n, aligned), (64, 32, shape.aligned));
                    let possible = Shape::packed(dtype, m, n, depth);
                    assert!(
                        !aligned || possible == row_major,
                        "{dtype} {layouts} {k}: {row_major}"
                    );
                    assert!(depth.abs_diff(k) < 8 && (depth == k || layouts == Layouts::TN));
                }
            }
        }
        let gap = Shape { aligned: false, ..Shape::packed(Dtype::F32, 64, 64, 64) };
        assert_eq!(
            gap.of_row_major(Dtype::F32),
            gap,
            "rows with gaps are unaligned in any layouts"
        );
    }

    #[test]
    fn vectors_are_16_bytes_of_any_type() {
        for (dtype, multiple) in [(Dtype::F64, 2), (Dtype::F32, 4), (Dtype::F16, 8)] {
            for size in 1..40 {
                let whole = size % multiple == 0;
                assert_eq!(Shape::packed(dtype, 3, size, 16).aligned, whole, "{dtype} {size}");
                assert_eq!(Shape::packed(dtype, 3, 16, size).aligned, whole, "{dtype} {size}");
            }
        }
        assert!(Shape::has_vectors(Dtype::F32, 256, 12, 16));
        assert!(!Shape::has_vectors(Dtype::F32, 260, 12, 16), "address");
        assert!(!Shape::has_vectors(Dtype::F32, 256, 12, 15), "leading dimension");
        assert!(!Shape::has_vectors(Dtype::F32, 256, 11, 16), "end of a row");
    }
}
