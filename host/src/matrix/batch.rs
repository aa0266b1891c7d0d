//! Batches: matrices of one shape at equal distances in device memory.
//!
//! Matrix `i` of a batch begins `i * stride` elements behind the first one; within it rows are `ld` elements apart. So
//! they can lie one behind the other (a stride of `rows * ld` or more), or side by side in the same rows, as the
//! columns of the heads of attention do (a stride from `cols` on, and an `ld` that all of them fit in). A product of
//! batches is one launch ([`Gemm`](crate::Gemm)).

use super::batch_view::{BatchView, BatchViewMut, check_stride};
use super::view::{MatrixView, MatrixViewMut};
use super::{allocation_bytes, span};
use crate::device::{Buffer, Device};
use crate::error::{Error, Result};
use ndarray::{Array3, ArrayView3};
use regemm_kernels::element::Element;
use std::fmt;
use std::marker::PhantomData;

/// A batch of matrices that owns its device memory.
///
/// As for a [`Matrix`](crate::Matrix), work on a stream may still be using it when it is read, written or dropped.
///
/// # Examples
/// ```
/// use regemm::ndarray::Array3;
/// use regemm::{Device, Gemm};
///
/// let device = Device::sim();
/// let a = device.upload_batch(&Array3::from_elem((10, 3, 4), 2.0f32).view())?;
/// let b = device.upload_batch(&Array3::from_elem((10, 4, 5), 0.5f32).view())?;
/// let mut d = device.batch(10, 3, 5)?;
/// Gemm::new(&a, &b).run(&mut d)?;
/// assert_eq!(d.to_array()?, Array3::from_elem((10, 3, 5), 4.0));
/// # Ok::<(), regemm::Error>(())
/// ```
pub struct Batch<T> {
    buffer: Buffer,
    count: usize,
    rows: usize,
    cols: usize,
    ld: usize,
    stride: usize,
    element: PhantomData<T>,
}

impl<T: Element> Batch<T> {
    pub(crate) fn new(
        device: &Device,
        count: usize,
        (rows, cols): (usize, usize),
        ld: usize,
        stride: usize,
    ) -> Result<Self> {
        if ld < cols {
            return Err(Error::LeadingDimension { ld, cols });
        }
        allocation_bytes::<T>(rows, ld)?;
        check_stride((count, stride), (rows, cols), ld)?;
        let (lines, pitch) = lines((count, stride), (rows, cols), ld);
        let buffer = Buffer::new(device, allocation_bytes::<T>(lines, pitch)?)?;
        Ok(Batch { buffer, count, rows, cols, ld, stride, element: PhantomData })
    }

    /// Sets all elements to zero, as [`Matrix::zeroed`](crate::Matrix::zeroed) does.
    pub(crate) fn zeroed(self) -> Result<Self> {
        let (lines, pitch) = self.lines();
        self.device().zero(self.buffer.address(), allocation_bytes::<T>(lines, pitch)?)?;
        Ok(self)
    }

    /// Number of matrices.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows of each matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of each matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Leading dimension: elements from one row of a matrix to the next.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// Elements from one matrix to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The device whose memory it is in.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// The address of the first element of the first matrix in device memory; without meaning if there are no elements.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// The whole batch, to be read.
    pub fn view(&self) -> BatchView<'_, T> {
        let first = MatrixView::of_buffer(&self.buffer, self.rows, self.cols, self.ld);
        BatchView::of(first, self.count, self.stride)
    }

    /// The whole batch, to be written.
    pub fn view_mut(&mut self) -> BatchViewMut<'_, T> {
        let first = MatrixViewMut::of_buffer(&self.buffer, self.rows, self.cols, self.ld);
        BatchViewMut::of(first, self.count, self.stride)
    }

    /// Matrix `index`, to be read.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn matrix(&self, index: usize) -> Result<MatrixView<'_, T>> {
        self.view().matrix(index)
    }

    /// Matrix `index`, to be written.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn matrix_mut(&mut self, index: usize) -> Result<MatrixViewMut<'_, T>> {
        self.view_mut().into_matrix(index)
    }

    /// Copies the elements to the host, after outstanding work that writes them: `count x rows x cols`.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn to_array(&self) -> Result<Array3<T>> {
        self.view().to_array()
    }

    /// Overwrites the elements with those of a `count x rows x cols` array of any strides, after outstanding work that
    /// uses them. Gaps stay as they are.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::BatchMismatch`], [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn copy_from(&mut self, array: &ArrayView3<'_, T>) -> Result<()> {
        self.view_mut().copy_from(array)
    }

    /// The lines that all of its memory consists of, gaps included, and their length.
    fn lines(&self) -> (usize, usize) {
        lines((self.count, self.stride), (self.rows, self.cols), self.ld)
    }

    /// Copies all elements of the memory to the host, gaps included: `count * stride`, or `rows * ld` where the
    /// matrices lie side by side.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn read_raw(&self) -> Result<Vec<T>> {
        let (lines, pitch) = self.lines();
        MatrixView::of_buffer(&self.buffer, lines, pitch, pitch).to_vec()
    }

    /// Writes all elements of the memory, as many as [`read_raw`](Batch::read_raw) copies, after outstanding work that
    /// uses them.
    ///
    /// # Errors
    /// [`Error::SliceLength`] where the slice has another length, or a failure of the device.
    pub fn write_raw(&mut self, data: &[T]) -> Result<()> {
        let (lines, pitch) = self.lines();
        let needed = lines * pitch;
        if data.len() != needed {
            let Batch { count, stride, .. } = self;
            let layout = format!("the memory of {count} matrices {stride} elements apart");
            return Err(Error::SliceLength { found: data.len(), needed, layout });
        }
        MatrixViewMut::of_buffer(&self.buffer, lines, pitch, pitch).write_packed(data)
    }
}

/// What the memory of a batch consists of: a line for each matrix, or for each row of matrices that lie side by side.
fn lines(
    (count, stride): (usize, usize),
    (rows, cols): (usize, usize),
    ld: usize,
) -> (usize, usize) {
    if count == 0 || stride >= span(rows, cols, ld) { (count, stride) } else { (rows, ld) }
}

impl<T: Element> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}
