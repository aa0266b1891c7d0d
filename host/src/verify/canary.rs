//! Patterns in memory that show writes where nothing may be written, and elements that were never written.
//!
//! A result is computed into the inside of a larger buffer. Every element of the buffer starts as a canary: bits that
//! depend on its place, so that neither a constant nor a shifted copy of another part looks untouched. Afterwards the
//! frame around the result and the gap at the end of each row must still hold their canaries, and no element inside
//! may. The results of a batch lie below each other in one buffer, with canaries in between.

use cuda_std::scalar::Scalar;
use std::ops::Range;

/// A buffer of rows in which each result occupies a rectangle.
#[derive(Clone, Debug)]
pub struct Canaries {
    /// Rows of the buffer.
    pub rows: usize,
    /// Elements of a row of the buffer.
    pub ld: usize,
    /// Rows of the first result.
    pub inside_rows: Range<usize>,
    /// Columns of the results.
    pub inside_cols: Range<usize>,
    /// Number of results.
    pub count: usize,
    /// Rows from one result to the next.
    pub pitch: usize,
}

/// What the canaries showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanaryFault {
    /// Elements outside the result were overwritten.
    #[error(
        "{count} elements outside the result were overwritten, first row {row}, column {col} of the buffer"
    )]
    Overwritten {
        /// How many.
        count: usize,
        /// Row of the first in the buffer.
        row: usize,
        /// Column of the first in the buffer.
        col: usize,
    },
    /// Elements of the result were not written.
    #[error(
        "{count} elements of the result were never written, first row {row}, column {col} of the result"
    )]
    Unwritten {
        /// How many.
        count: usize,
        /// Row of the first in the results, which are counted as if they lay below each other.
        row: usize,
        /// Column of the first in the result.
        col: usize,
    },
    /// The buffer has another length.
    #[error("the buffer has {got} elements instead of {want}")]
    Length {
        /// Its length.
        got: usize,
        /// The length that was prepared.
        want: usize,
    },
}

impl Canaries {
    /// Places a `rows x cols` result with `margin` rows above and below, `left` elements before and `gap` after each
    /// row.
    pub fn around(rows: usize, cols: usize, margin: usize, left: usize, gap: usize) -> Self {
        Canaries::around_each(1, (rows, cols), margin, left, gap)
    }

    /// Places `count` results of `rows x cols` as [`Canaries::around`] places one, with `margin` rows between them.
    pub fn around_each(
        count: usize,
        (rows, cols): (usize, usize),
        margin: usize,
        left: usize,
        gap: usize,
    ) -> Self {
        let pitch = rows + margin;
        Canaries {
            rows: margin + count * pitch,
            ld: left + cols + gap,
            inside_rows: margin..margin + rows,
            inside_cols: left..left + cols,
            count,
            pitch,
        }
    }

    /// The buffer, all canaries.
    pub fn buffer<T: Scalar>(&self) -> Vec<T> {
        (0..self.rows * self.ld).map(canary).collect()
    }

    /// The row of the results, as if they lay below each other, that is in this row of the buffer.
    fn result_row(&self, row: usize) -> Option<usize> {
        let below = row.checked_sub(self.inside_rows.start)?;
        let (result, row) = (below / self.pitch.max(1), below % self.pitch.max(1));
        let rows = self.inside_rows.len();
        (result < self.count && row < rows).then_some(result * rows + row)
    }

    /// Looks at the buffer after the result was computed. Pass `written = false` where the result was not expected to
    /// be written completely from scratch, for example because it was itself an operand.
    ///
    /// An element that happens to become its own canary counts as unwritten: for 16-bit types about one in 65,536
    /// would, so for those the inside is not judged; poison it with NaN instead.
    ///
    /// # Errors
    /// With the first fault: writes outside before missing writes inside.
    pub fn check<T: Scalar>(&self, buffer: &[T], written: bool) -> Result<(), CanaryFault> {
        let want = self.rows * self.ld;
        if buffer.len() != want {
            return Err(CanaryFault::Length { got: buffer.len(), want });
        }
        let place = |index: usize| (index / self.ld, index % self.ld);
        let inside = |index: usize| {
            let (row, col) = place(index);
            self.inside_cols.contains(&col) && self.result_row(row).is_some()
        };
        let intact = |index: usize| bits(buffer[index]) == bits(canary::<T>(index));

        let mut overwritten = (0..want).filter(|&i| !inside(i) && !intact(i));
        if let Some(first) = overwritten.next() {
            let (row, col) = place(first);
            return Err(CanaryFault::Overwritten { count: 1 + overwritten.count(), row, col });
        }
        if written && size_of::<T>() >= JUDGED_INSIDE_BYTES {
            let mut unwritten = (0..want).filter(|&i| inside(i) && intact(i));
            if let Some(first) = unwritten.next() {
                let (row, col) = place(first);
                return Err(CanaryFault::Unwritten {
                    count: 1 + unwritten.count(),
                    row: self.result_row(row).unwrap_or(row),
                    col: col - self.inside_cols.start,
                });
            }
        }
        Ok(())
    }
}

/// Elements of at least this size do not become their own canary by chance.
const JUDGED_INSIDE_BYTES: usize = 4;

/// The canary of a place: a mixed counter (S. Vigna's splitmix64).
fn canary<T: Scalar>(index: usize) -> T {
    let mut z = (index as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let bytes = (z ^ (z >> 31)).to_ne_bytes();
    // SAFETY: a scalar has at most 8 bytes and any bit pattern is a valid one.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// The bits of an element, so that NaNs compare too.
fn bits<T: Scalar>(value: T) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    // SAFETY: a scalar has at most 8 bytes and no padding, so all its bytes are initialised.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
    u64::from_ne_bytes(bytes)
}
