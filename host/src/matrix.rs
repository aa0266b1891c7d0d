//! Matrices in device memory.
//!
//! All are row-major: element `(row, col)` is `row * ld + col` elements behind the first, with a leading dimension `ld`
//! that is at least the number of columns. [`Matrix`] owns its memory; [`view`] borrows a part of it or of somebody
//! else's; [`vector`] is the one-dimensional case, and [`batch`] holds many matrices of one shape, of which
//! [`batch_view`] borrows.

pub mod batch;
pub mod batch_view;
pub mod vector;
pub mod view;

use crate::device::stream::Stream;
use crate::device::{Buffer, Device, Rows};
use crate::error::{Error, Result};
use ndarray::{Array2, ArrayView, ArrayView2, Dimension};
use regemm_kernels::element::Element;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use view::{MatrixView, MatrixViewMut};

/// A matrix that owns its device memory.
///
/// Work on a stream may still be using it when it is read, written, used on another stream or dropped: each of these
/// waits for, or is ordered after, what it depends on.
pub struct Matrix<T> {
    buffer: Buffer,
    rows: usize,
    cols: usize,
    ld: usize,
    element: PhantomData<T>,
}

impl<T: Element> Matrix<T> {
    pub(crate) fn new(device: &Device, rows: usize, cols: usize, ld: usize) -> Result<Self> {
        if ld < cols {
            return Err(Error::LeadingDimension { ld, cols });
        }
        let bytes = allocation_bytes::<T>(rows, ld)?;
        let buffer = Buffer::new(device, bytes)?;
        Ok(Matrix { buffer, rows, cols, ld, element: PhantomData })
    }

    /// Sets all elements, those in gaps too, to zero. Nobody else has seen the memory yet.
    pub(crate) fn zeroed(self) -> Result<Self> {
        let bytes = allocation_bytes::<T>(self.rows, self.ld)?;
        // Of all element types zero is all bits zero.
        self.device().zero(self.buffer.address(), bytes)?;
        Ok(self)
    }

    pub(crate) fn from_slice(
        device: &Device,
        data: &[T],
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Self> {
        let matrix = Matrix::new(device, rows, cols, ld)?;
        let needed = span(rows, cols, ld);
        let Some(used) = data.get(..needed) else {
            return Err(Error::SliceLength {
                found: data.len(),
                needed,
                layout: format!("a {rows} x {cols} matrix of leading dimension {ld}"),
            });
        };
        // Nobody else has seen the memory yet, so there is nothing to wait for.
        device.write_rows(bytes_of(used), contiguous::<T>(matrix.buffer.address(), needed))?;
        Ok(matrix)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Leading dimension: elements from one row to the next.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// The device whose memory it is in.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// The address of element `(0, 0)` in device memory; without meaning if there are no elements.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// The whole matrix, to be read.
    pub fn view(&self) -> MatrixView<'_, T> {
        MatrixView::of_buffer(&self.buffer, self.rows, self.cols, self.ld)
    }

    /// The whole matrix, to be written.
    pub fn view_mut(&mut self) -> MatrixViewMut<'_, T> {
        MatrixViewMut::of_buffer(&self.buffer, self.rows, self.cols, self.ld)
    }

    /// Copies the elements to the host, after outstanding work that writes them.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn to_array(&self) -> Result<Array2<T>> {
        self.view().to_array()
    }

    /// Copies the elements to the host, row by row without gaps, after outstanding work that writes them.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }

    /// Copies all `rows * ld` elements of the memory to the host, gaps included.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn read_raw(&self) -> Result<Vec<T>> {
        MatrixView::<T>::of_buffer(&self.buffer, self.rows, self.ld, self.ld).to_vec()
    }

    /// Writes all `rows * ld` elements of the memory, gaps included, after outstanding work that uses them.
    ///
    /// # Errors
    /// [`Error::SliceLength`] where the slice has another length, or a failure of the device.
    pub fn write_raw(&mut self, data: &[T]) -> Result<()> {
        let needed = self.rows * self.ld;
        if data.len() != needed {
            return Err(Error::SliceLength {
                found: data.len(),
                needed,
                layout: format!(
                    "the memory of {} rows at a leading dimension of {}",
                    self.rows, self.ld
                ),
            });
        }
        MatrixViewMut::of_buffer(&self.buffer, self.rows, self.ld, self.ld).write_packed(data)
    }

    /// Overwrites the elements with those of an array of the same shape and any strides, after outstanding work that
    /// uses them. The gaps between rows stay as they are.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn copy_from(&mut self, array: &ArrayView2<'_, T>) -> Result<()> {
        self.view_mut().copy_from(array)
    }
}

impl<T: Element> Matrix<T> {
    /// Overwrites the elements with those of a matrix of the same shape on the same device; see
    /// [`MatrixViewMut::copy_from_matrix`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_from_matrix<'a>(&mut self, source: impl Into<MatrixView<'a, T>>) -> Result<()> {
        self.view_mut().copy_from_matrix(source)
    }

    /// Puts such a copy on a stream; see [`MatrixViewMut::enqueue_copy`].
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_copy<'a>(
        &mut self,
        stream: &Stream,
        source: impl Into<MatrixView<'a, T>>,
    ) -> Result<()> {
        self.view_mut().enqueue_copy(stream, source)
    }
}

impl<T: Element> fmt::Debug for Matrix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// Bytes of `rows` rows that begin `ld` elements apart, last gap included, checked to fit an `isize` so that no later
/// product of a row, a column and a size can overflow, also where one of the factors is zero.
pub(crate) fn allocation_bytes<T: Element>(rows: usize, ld: usize) -> Result<u64> {
    let bound = rows
        .max(1)
        .checked_mul(ld.max(1))
        .and_then(|elements| elements.checked_mul(size_of::<T>()))
        .filter(|&bytes| isize::try_from(bytes).is_ok());
    match bound {
        Some(_) => Ok((rows * ld * size_of::<T>()) as u64),
        None => Err(Error::SizeOverflow { rows, ld, dtype: T::DTYPE }),
    }
}

/// Elements from the first to the last one of a matrix, both included. The sizes have been checked.
pub(crate) fn span(rows: usize, cols: usize, ld: usize) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1) * ld + cols }
}

/// `count` elements side by side.
pub(crate) fn contiguous<T>(address: u64, count: usize) -> Rows {
    let bytes = (count * size_of::<T>()) as u64;
    Rows { address, row_bytes: bytes, pitch: bytes, rows: 1 }
}

/// The elements as bytes.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an element is a scalar: it has no padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Makes a vector of `count` elements from the bytes that `read` writes.
pub(crate) fn read_elements<T: Element>(
    count: usize,
    read: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<Vec<T>> {
    let mut elements = host_vec::<T>(count)?;
    let bytes = count * size_of::<T>();
    let start = elements.as_mut_ptr().cast::<u8>();
    // SAFETY: the vector has room for that many bytes; zeroed, they are initialised bytes and valid elements, because
    // any bits are a valid scalar.
    let bytes = unsafe {
        start.write_bytes(0, bytes);
        std::slice::from_raw_parts_mut(start, bytes)
    };
    read(bytes)?;
    // SAFETY: all elements are initialised.
    unsafe { elements.set_len(count) };
    Ok(elements)
}

/// An empty vector with room for `count` elements.
fn host_vec<T>(count: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    elements
        .try_reserve_exact(count)
        .map_err(|_| Error::OutOfHostMemory { requested: count.saturating_mul(size_of::<T>()) })?;
    Ok(elements)
}

/// The elements of an array row by row, and matrix by matrix: borrowed if they lie that way already.
pub(crate) fn packed<'a, T: Element, D: Dimension>(
    array: &'a ArrayView<'_, T, D>,
) -> Result<Cow<'a, [T]>> {
    if let Some(elements) = array.as_slice() {
        return Ok(Cow::Borrowed(elements));
    }
    let mut elements = host_vec(array.len())?;
    for row in array.rows() {
        elements.extend(row.iter().copied());
    }
    Ok(Cow::Owned(elements))
}
