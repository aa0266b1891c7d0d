//! Which elements of a slice each thread moves.

use super::{Carried, VECTOR_BYTES, vector_len};
use crate::element::Element;
use cuda_std::device_inline;
use cuda_std::memory::SharedPtr;

/// One of `of` equal parts of a thread's share.
#[derive(Clone, Copy)]
pub struct Fraction {
    /// Which of them, from 0.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

impl Fraction {
    /// All of a share at once.
    pub const WHOLE: Fraction = Fraction { index: 0, of: 1 };
}

/// Which elements of a slice a thread moves: `count` vectors of `width`. The first is at `(row, col)`; `across` of them
/// lie in one row of the slice, `col_step` columns apart, before the next do, `row_step` rows further down.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    pub(super) width: usize,
    pub(super) row: usize,
    pub(super) col: usize,
    pub(super) across: usize,
    pub(super) row_step: usize,
    pub(super) col_step: usize,
    pub(super) count: usize,
}

impl Pattern {
    /// Rows and columns from the first vector to vector `i`.
    #[device_inline]
    pub(super) fn offset(&self, i: usize) -> (usize, usize) {
        (i / self.across * self.row_step, i % self.across * self.col_step)
    }

    /// Row and column of vector `i` in the slice.
    #[device_inline]
    pub(super) fn at(&self, i: usize) -> (usize, usize) {
        let (down, right) = self.offset(i);
        (self.row + down, self.col + right)
    }

    /// One of equal parts of it, which are whole rows of the pattern.
    #[device_inline]
    pub(super) fn fraction(self, fraction: Fraction) -> Pattern {
        let count = self.count / fraction.of;
        Pattern {
            row: self.row + fraction.index * (count / self.across * self.row_step),
            count,
            ..self
        }
    }

    /// As [`Mover::write`](super::Mover::write).
    ///
    /// # Safety
    /// As for that.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn write<T: Element>(
        self,
        carried: &Carried<T>,
        target: SharedPtr<T::Acc>,
        stride: usize,
    ) {
        // A vector of elements may widen to more than one vector of sums.
        let step =
            if self.width < vector_len::<T::Acc>() { self.width } else { vector_len::<T::Acc>() };
        for i in 0..self.count {
            let (row, col) = self.at(i);
            for vector in 0..self.width / step {
                let j = vector * step;
                let mut widened = [T::ZERO.widen(); VECTOR_BYTES];
                for e in 0..step {
                    widened[e] = carried.elements[i * self.width + j + e].widen();
                }
                let target = target.add((row * stride + col + j) as u32);
                // SAFETY: as promised by the caller of `Mover::write`.
                unsafe { target.store_slice_if(true, &widened[..step]) };
            }
        }
    }

    /// As [`Mover::write_transposed`](super::Mover::write_transposed).
    ///
    /// # Safety
    /// As for that.
    #[device_inline]
    #[track_caller]
    pub(super) unsafe fn write_transposed<T: Element>(
        self,
        carried: &Carried<T>,
        target: SharedPtr<T::Acc>,
        stride: usize,
    ) {
        for i in 0..self.count {
            let (row, col) = self.at(i);
            for e in 0..self.width {
                let target = target.add(((col + e) * stride + row) as u32);
                // SAFETY: as promised by the caller of `Mover::write_transposed`.
                unsafe { target.store(carried.elements[i * self.width + e].widen()) };
            }
        }
    }
}
