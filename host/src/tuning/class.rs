//! Shapes of problems, and classes of shapes that are alike.

use regemm_kernels::element::Dtype;
use std::fmt;

/// Bytes of the widest load or store of a kernel.
const VECTOR_BYTES: u64 = 16;

/// Classes to a doubling of a size.
const CLASSES_PER_OCTAVE: f64 = 2.0;

/// What the time of a product depends on, apart from its element type: `D[m x n] = A[m x k] * B[k x n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Depth of the product.
    pub k: u32,
    /// Whether all rows of A, B and D begin at multiples of 16 bytes and are whole multiples of 16 bytes long, so that
    /// kernels load and store vectors.
    pub aligned: bool,
}

impl Shape {
    /// The shape of a product of matrices without gaps between their rows, in memory that a device has allocated.
    pub fn packed(dtype: Dtype, m: u32, n: u32, k: u32) -> Shape {
        let whole =
            |cols: u32| (u64::from(cols) * dtype.bytes() as u64).is_multiple_of(VECTOR_BYTES);
        Shape { m, n, k, aligned: whole(k) && whole(n) }
    }

    /// Whether the rows of a matrix are whole, aligned vectors: by the address of its first element, its columns and its
    /// leading dimension.
    pub(crate) fn has_vectors(dtype: Dtype, address: u64, cols: usize, ld: usize) -> bool {
        let bytes = |elements: usize| elements as u64 * dtype.bytes() as u64;
        (address | bytes(cols) | bytes(ld)).is_multiple_of(VECTOR_BYTES)
    }

    /// The class it belongs to.
    pub fn class(self) -> ShapeClass {
        let Shape { m, n, k, aligned } = self;
        ShapeClass { m: half_octave(m), n: half_octave(n), k: half_octave(k), aligned }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { m, n, k, aligned } = self;
        write!(f, "{m} x {n} x {k}")?;
        if *aligned { Ok(()) } else { f.write_str(" unaligned") }
    }
}

/// Shapes that are alike: those whose sizes round to the same half octaves. A table holds one measurement a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeClass {
    /// Half octaves of the rows of D: twice their binary logarithm, rounded.
    pub m: u8,
    /// Half octaves of the columns of D.
    pub n: u8,
    /// Half octaves of the depth.
    pub k: u8,
    /// As [`Shape::aligned`].
    pub aligned: bool,
}

/// Twice the binary logarithm of a size, rounded; 0 for sizes 0 and 1. At most 64.
fn half_octave(size: u32) -> u8 {
    (CLASSES_PER_OCTAVE * f64::from(size.max(1)).log2()).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_half_octaves() {
        let octaves =
            [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (181, 15), (256, 16), (u32::MAX, 64)];
        for (size, expected) in octaves {
            assert_eq!(half_octave(size), expected, "{size}");
        }
        // The edges are at the fourth root of two to either side.
        assert_eq!((half_octave(861), half_octave(862)), (19, 20));
        assert_eq!((half_octave(1217), half_octave(1218)), (20, 21));
    }

    #[test]
    fn alignment_is_part_of_the_class() {
        let even = Shape::packed(Dtype::F32, 100, 100, 100);
        let odd = Shape::packed(Dtype::F32, 100, 99, 100);
        assert!(even.aligned && !odd.aligned);
        assert_eq!(ShapeClass { aligned: true, ..odd.class() }, even.class());
        assert_ne!(odd.class(), even.class());
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
