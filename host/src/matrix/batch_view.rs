//! Borrowed batches: parts of a batch, and memory that somebody else owns.

use super::view::{MatrixView, MatrixViewMut};
use super::{allocation_bytes, host_vec, packed, span};
use crate::device::Device;
use crate::error::{Error, Operand, Result, Shape};
use ndarray::{Array3, ArrayView3, Axis};
use regemm_kernels::element::Element;
use std::fmt;
use std::ops::Range;

/// A batch borrowed to be read: a whole [`Batch`](super::batch::Batch), a part of one, parts of a matrix
/// ([by rows](MatrixView::as_batch) or [by columns](MatrixView::as_batch_of_cols)), or somebody else's memory.
pub struct BatchView<'a, T> {
    /// The first matrix; an empty one where there is none.
    first: MatrixView<'a, T>,
    count: usize,
    stride: usize,
}

/// A batch borrowed to be written: its matrices share no elements. They lie one behind the other, or side by side in
/// the same rows.
pub struct BatchViewMut<'a, T> {
    first: MatrixViewMut<'a, T>,
    count: usize,
    stride: usize,
}

impl<T> Clone for BatchView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BatchView<'_, T> {}

/// Checks that `count` matrices of `rows x cols` elements that begin `stride` elements apart share none: they lie one
/// behind the other, or side by side in the same rows.
pub(super) fn check_stride(
    (count, stride): (usize, usize),
    (rows, cols): (usize, usize),
    ld: usize,
) -> Result<()> {
    let needed = span(rows, cols, ld);
    let side_by_side = count.saturating_sub(1).saturating_mul(stride).saturating_add(cols);
    if stride >= needed || (stride >= cols && side_by_side <= ld) {
        return Ok(());
    }
    Err(Error::BatchStride { stride, needed, cols, ld })
}

/// Bytes that a batch in somebody else's memory takes at most, which are checked to have addresses.
fn check_extent<T: Element>(
    address: u64,
    count: usize,
    stride: usize,
    matrix: usize,
) -> Result<u64> {
    // Both fit an `isize`.
    let bytes = allocation_bytes::<T>(count, stride)? + (matrix * size_of::<T>()) as u64;
    address.checked_add(bytes).map(|_| bytes).ok_or(Error::AddressOverflow { address, bytes })
}

macro_rules! shape {
    ($view:ident of $first:ident) => {
        impl<'a, T: Element> $view<'a, T> {
            /// Number of matrices.
            pub fn count(&self) -> usize {
                self.count
            }

            /// Rows of each matrix.
            pub fn rows(&self) -> usize {
                self.first.rows()
            }

            /// Columns of each matrix.
            pub fn cols(&self) -> usize {
                self.first.cols()
            }

            /// Leading dimension: elements from one row of a matrix to the next.
            pub fn ld(&self) -> usize {
                self.first.ld()
            }

            /// Elements from one matrix to the next.
            pub fn stride(&self) -> usize {
                self.stride
            }

            /// The device whose memory it is in.
            pub fn device(&self) -> &'a Device {
                self.first.device()
            }

            /// The address of the first element of the first matrix; without meaning if there are no elements.
            pub fn address(&self) -> u64 {
                self.first.address()
            }

            pub(super) fn of(first: $first<'a, T>, count: usize, stride: usize) -> Self {
                $view { first, count, stride }
            }

            /// The first matrix, the number of matrices, and elements from one to the next.
            pub(crate) fn into_parts(self) -> ($first<'a, T>, usize, usize) {
                (self.first, self.count, self.stride)
            }

            fn check(&self, matrices: &Range<usize>) -> Result<()> {
                let Range { start, end } = *matrices;
                if start <= end && end <= self.count {
                    return Ok(());
                }
                Err(Error::Range { axis: "matrices", start, end, len: self.count })
            }

            /// Whether the rows of all matrices are those of one tall matrix, and if so how many there are.
            fn stacked_rows(&self) -> Option<usize> {
                let rows = self.rows();
                if self.stride != rows * self.ld() && self.count > 1 {
                    return None;
                }
                self.count.checked_mul(rows)
            }
        }

        impl<T: Element> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $view { first, count, stride } = self;
                let name = stringify!($view);
                write!(f, "{name}({count} times {first:?}, stride {stride})")
            }
        }
    };
}

shape!(BatchView of MatrixView);
shape!(BatchViewMut of MatrixViewMut);

impl<'a, T: Element> BatchView<'a, T> {
    /// A batch in memory that somebody else owns. Its matrices may overlap one another.
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::SizeOverflow`], [`Error::AddressOverflow`], [`Error::Misaligned`].
    ///
    /// # Safety
    /// As for [`MatrixView::from_raw`], for each of the `count` matrices of `rows` rows and `cols` columns that begin
    /// `stride` elements apart.
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        count: usize,
        (rows, cols): (usize, usize),
        ld: usize,
        stride: usize,
    ) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let first = unsafe { MatrixView::from_raw(device, address, rows, cols, ld) }?;
        let bytes = check_extent::<T>(address, count, stride, rows * ld)?;
        Ok(BatchView { first: first.in_foreign(bytes), count, stride })
    }

    /// Matrix `index`.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn matrix(&self, index: usize) -> Result<MatrixView<'a, T>> {
        self.check(&(index..index.saturating_add(1)))?;
        Ok(self.first.moved(index * self.stride, self.rows()))
    }

    /// The part of these matrices.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn slice(&self, matrices: Range<usize>) -> Result<Self> {
        self.check(&matrices)?;
        let first = self.first.moved(matrices.start * self.stride, self.rows());
        Ok(BatchView { first, count: matrices.len(), stride: self.stride })
    }

    /// The same part of each matrix: these rows and columns.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn slice_each(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        let first = self.first.slice(rows, cols)?;
        Ok(BatchView { first, count: self.count, stride: self.stride })
    }

    /// Copies the elements to the host, after outstanding work that writes them: `count x rows x cols`.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], [`Error::SizeOverflow`] where matrices that overlap are more together than an
    /// address can count, or a failure of the device.
    pub fn to_array(&self) -> Result<Array3<T>> {
        let (count, rows, cols) = (self.count, self.rows(), self.cols());
        // Without gaps between the matrices, wherever they lie on the device; one of them has been checked.
        let matrix = rows * cols;
        let overflow = || Error::SizeOverflow { rows: count, ld: matrix, dtype: T::DTYPE };
        let all = matrix.checked_mul(count).ok_or_else(overflow)?;
        let elements = match self.stacked_rows() {
            Some(rows) => self.first.moved(0, rows).to_vec()?,
            None => {
                let mut elements = host_vec(all)?;
                // Matrices without elements may be any number.
                for index in 0..if all == 0 { 0 } else { count } {
                    elements.extend(self.matrix(index)?.to_vec()?);
                }
                elements
            }
        };
        Array3::from_shape_vec((count, rows, cols), elements).map_err(|_| overflow())
    }
}

impl<'a, T: Element> BatchViewMut<'a, T> {
    /// A batch in memory that somebody else owns.
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::SizeOverflow`], [`Error::AddressOverflow`], [`Error::Misaligned`],
    /// [`Error::BatchStride`].
    ///
    /// # Safety
    /// As for [`MatrixViewMut::from_raw`], for each of the `count` matrices of `rows` rows and `cols` columns that
    /// begin `stride` elements apart.
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        count: usize,
        (rows, cols): (usize, usize),
        ld: usize,
        stride: usize,
    ) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let first = unsafe { MatrixViewMut::from_raw(device, address, rows, cols, ld) }?;
        check_stride((count, stride), (rows, cols), ld)?;
        let bytes = check_extent::<T>(address, count, stride, rows * ld)?;
        Ok(BatchViewMut { first: first.in_foreign(bytes), count, stride })
    }

    /// The same batch, to be read.
    pub fn view(&self) -> BatchView<'_, T> {
        BatchView { first: self.first.view(), count: self.count, stride: self.stride }
    }

    /// The same batch borrowed for a shorter time, so that it can be used again.
    pub fn reborrow(&mut self) -> BatchViewMut<'_, T> {
        BatchViewMut { first: self.first.reborrow(), count: self.count, stride: self.stride }
    }

    /// Matrix `index`.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn into_matrix(self, index: usize) -> Result<MatrixViewMut<'a, T>> {
        self.check(&(index..index.saturating_add(1)))?;
        let (rows, offset) = (self.rows(), index * self.stride);
        Ok(self.first.moved(offset, rows))
    }

    /// The part of these matrices.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn slice(self, matrices: Range<usize>) -> Result<Self> {
        self.check(&matrices)?;
        let (rows, stride) = (self.rows(), self.stride);
        let first = self.first.moved(matrices.start * stride, rows);
        Ok(BatchViewMut { first, count: matrices.len(), stride })
    }

    /// The same part of each matrix: these rows and columns.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn slice_each(self, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        let first = self.first.slice(rows, cols)?;
        Ok(BatchViewMut { first, count: self.count, stride: self.stride })
    }

    /// Overwrites the elements with those of a `count x rows x cols` array of any strides, after outstanding work that
    /// uses them. Gaps stay as they are.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::BatchMismatch`], [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn copy_from(&mut self, array: &ArrayView3<'_, T>) -> Result<()> {
        let (count, rows, cols) = array.dim();
        let (found, expected) = (Shape { rows, cols }, self.first.shape());
        if found != expected {
            let because = "that is the shape of the matrices it is copied to".to_owned();
            return Err(Error::ShapeMismatch { operand: Operand::Array, found, expected, because });
        }
        if count != self.count {
            let (operand, found, expected) = (Operand::Array, count, Some(self.count));
            return Err(Error::BatchMismatch { operand, found, expected });
        }
        match self.stacked_rows() {
            Some(rows) => self.first.reborrow().moved(0, rows).write_packed(&packed(array)?),
            None => (0..count).try_for_each(|index| {
                self.reborrow().into_matrix(index)?.copy_from(&array.index_axis(Axis(0), index))
            }),
        }
    }
}
