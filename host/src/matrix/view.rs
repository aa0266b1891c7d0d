//! Borrowed matrices: sub-matrices, and memory that somebody else owns.

use super::batch_view::{BatchView, BatchViewMut, check_stride};
use super::vector::Vector;
use super::{Matrix, bytes_of, packed, read_elements};
use crate::device::stream::Stream;
use crate::device::{Buffer, Device, Region, Rows, Use};
use crate::error::{Error, Operand, Result, Shape};
use cuda_std::memory::GlobalPtr;
use ndarray::{Array2, ArrayView2};
use regemm_kernels::element::Element;
use regemm_kernels::params::MatrixRef;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// Place and shape of a view. The last element's end has been checked to fit an address.
#[derive(Clone, Copy)]
struct Layout<'a> {
    /// All that the view was made of first: parts of it share what is outstanding.
    region: Region<'a>,
    address: u64,
    rows: usize,
    cols: usize,
    ld: usize,
}

/// A matrix borrowed to be read: a whole [`Matrix`], a part of one, or somebody else's memory.
pub struct MatrixView<'a, T> {
    layout: Layout<'a>,
    element: PhantomData<&'a T>,
}

/// A matrix borrowed to be written: a whole [`Matrix`], a part of one, or somebody else's memory.
pub struct MatrixViewMut<'a, T> {
    layout: Layout<'a>,
    element: PhantomData<&'a mut T>,
}

impl<T> Clone for MatrixView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MatrixView<'_, T> {}

impl<'a> Layout<'a> {
    fn device(&self) -> &'a Device {
        self.region.device()
    }

    fn slice<T: Element>(self, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        check_range("rows", &rows, self.rows)?;
        check_range("columns", &cols, self.cols)?;
        // An empty part may begin behind the last element: its address is never used.
        let offset = (rows.start * self.ld + cols.start) * size_of::<T>();
        Ok(Layout {
            address: self.address.wrapping_add(offset as u64),
            rows: rows.len(),
            cols: cols.len(),
            ..self
        })
    }

    /// The elements of a single row as a matrix whose rows begin `ld` elements apart.
    fn folded<T: Element>(self, rows: usize, cols: usize, ld: usize) -> Result<Self> {
        if ld < cols {
            return Err(Error::LeadingDimension { ld, cols });
        }
        super::allocation_bytes::<T>(rows, ld)?;
        let needed = super::span(rows, cols, ld);
        if self.rows != 1 || self.cols < needed {
            let layout = format!("a {rows} x {cols} matrix of leading dimension {ld}");
            return Err(Error::SliceLength { found: self.cols, needed, layout });
        }
        Ok(Layout { rows, cols, ld, ..self })
    }

    fn as_rows<T: Element>(&self) -> Rows {
        Rows {
            address: self.address,
            row_bytes: (self.cols * size_of::<T>()) as u64,
            pitch: (self.ld * size_of::<T>()) as u64,
            rows: self.rows as u64,
        }
    }

    /// In somebody else's memory, of which it is all that is known.
    fn foreign<T: Element>(
        device: &'a Device,
        address: u64,
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Self> {
        if ld < cols {
            return Err(Error::LeadingDimension { ld, cols });
        }
        let bytes = super::allocation_bytes::<T>(rows, ld)?;
        if address.checked_add(bytes).is_none() {
            return Err(Error::AddressOverflow { address, bytes });
        }
        if !address.is_multiple_of(size_of::<T>() as u64) {
            return Err(Error::Misaligned { address, dtype: T::DTYPE });
        }
        let used = (super::span(rows, cols, ld) * size_of::<T>()) as u64;
        let region = Region::Foreign { device, start: address, end: address + used };
        Ok(Layout { region, address, rows, cols, ld })
    }

    fn fmt<T: Element>(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout { rows, cols, ld, .. } = self;
        write!(f, "{name}<{}>({rows} x {cols}, ld {ld}, {:?})", T::DTYPE, self.device())
    }
}

/// Checks that parts of `cols` columns, `pitch` columns apart, lie in a matrix of so many columns, and says how many
/// elements they begin apart; nothing where there is but one, whatever the pitch. No parts lie in any, but their
/// columns must be as many as a row can have.
fn check_parts_of_cols(
    (count, cols, pitch): (usize, usize, usize),
    len: usize,
    ld: usize,
) -> Result<usize> {
    if count == 0 && cols > ld {
        return Err(Error::LeadingDimension { ld, cols });
    }
    let last = count.saturating_sub(1).saturating_mul(pitch);
    let end = if count == 0 { 0 } else { last.saturating_add(cols) };
    check_range("columns", &(last.min(end)..end), len)?;
    Ok(if count <= 1 { 0 } else { pitch })
}

fn check_range(axis: &'static str, range: &Range<usize>, len: usize) -> Result<()> {
    if range.start <= range.end && range.end <= len {
        Ok(())
    } else {
        Err(Error::Range { axis, start: range.start, end: range.end, len })
    }
}

/// Checks that parts of `rows` rows of `ld` elements, `pitch` rows apart, lie in `len` rows. No parts lie in any, but
/// their rows must be as many as there can be.
fn check_parts<T: Element>(
    (count, rows, pitch): (usize, usize, usize),
    len: usize,
    ld: usize,
) -> Result<()> {
    if count == 0 {
        super::allocation_bytes::<T>(rows, ld)?;
    }
    let last = count.saturating_sub(1).saturating_mul(pitch);
    let end = if count == 0 { 0 } else { last.saturating_add(rows) };
    check_range("rows", &(last.min(end)..end), len)
}

/// Elements from one part to the next, `pitch` rows of `ld` each, of parts that lie in a matrix; nothing where there is
/// but one, whatever the pitch.
fn stride_of_parts<T: Element>(count: usize, pitch: usize, ld: usize) -> Result<usize> {
    if count <= 1 {
        return Ok(0);
    }
    pitch.checked_mul(ld).ok_or(Error::SizeOverflow { rows: pitch, ld, dtype: T::DTYPE })
}

macro_rules! shape {
    ($view:ident) => {
        impl<'a, T: Element> $view<'a, T> {
            /// Number of rows.
            pub fn rows(&self) -> usize {
                self.layout.rows
            }

            /// Number of columns.
            pub fn cols(&self) -> usize {
                self.layout.cols
            }

            /// Rows and columns.
            pub fn shape(&self) -> Shape {
                Shape { rows: self.rows(), cols: self.cols() }
            }

            /// Leading dimension: elements from one row to the next.
            pub fn ld(&self) -> usize {
                self.layout.ld
            }

            /// The device whose memory it is in.
            pub fn device(&self) -> &'a Device {
                self.layout.device()
            }

            /// The address of element `(0, 0)` in device memory; without meaning if there are no elements.
            pub fn address(&self) -> u64 {
                self.layout.address
            }

            /// The same in somebody else's memory of so many bytes, where those of the first matrix are not all.
            pub(super) fn in_foreign(self, bytes: u64) -> Self {
                let Region::Foreign { device, start, .. } = self.layout.region else { return self };
                let region = Region::Foreign { device, start, end: start.saturating_add(bytes) };
                $view { layout: Layout { region, ..self.layout }, element: PhantomData }
            }

            /// A matrix of `rows` such rows whose first element lies `offset` elements further on. The caller knows
            /// that it lies in the same memory.
            pub(crate) fn moved(self, offset: usize, rows: usize) -> Self {
                let address = self.layout.address.wrapping_add((offset * size_of::<T>()) as u64);
                $view { layout: Layout { address, rows, ..self.layout }, element: PhantomData }
            }

            pub(crate) fn of_buffer(
                buffer: &'a Buffer,
                rows: usize,
                cols: usize,
                ld: usize,
            ) -> Self {
                let region = Region::Owned(buffer);
                let layout = Layout { region, address: buffer.address(), rows, cols, ld };
                $view { layout, element: PhantomData }
            }
        }

        impl<T: Element> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.layout.fmt::<T>(stringify!($view), f)
            }
        }
    };
}

shape!(MatrixView);
shape!(MatrixViewMut);

impl<'a, T: Element> MatrixView<'a, T> {
    /// A vector as a matrix of one row.
    pub(crate) fn row(vector: &'a Vector<T>) -> Self {
        MatrixView::of_buffer(vector.buffer(), 1, vector.len(), vector.len())
    }

    /// The memory that it is in.
    pub(crate) fn region(&self) -> Region<'a> {
        self.layout.region
    }

    /// What a kernel is told of it: for an epilogue of your own, which must also be
    /// [told to the product](crate::Gemm::epilogue_reads_matrix).
    pub fn to_kernel(self) -> MatrixRef<T> {
        MatrixRef { data: GlobalPtr::from_address(self.address()), ld: self.ld() as u64 }
    }

    /// A matrix in memory that somebody else owns. On a GPU it must be of the GPU's primary context, which the CUDA
    /// runtime and libraries on top of it use.
    ///
    /// What this library puts on streams with such views is in order like work on a [`Matrix`]: by the addresses of the
    /// memory that each view was made of, so that it makes no difference whether the same view is used again or another
    /// one of the same memory.
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::SizeOverflow`], [`Error::AddressOverflow`], [`Error::Misaligned`].
    ///
    /// # Safety
    /// The memory from `address` on is device memory of `device` and holds `rows` rows of `cols` elements that begin
    /// `ld` elements apart.
    ///
    /// - It stays so for `'a`, and until the work that was enqueued with this view is done. Its owner gives it back
    ///   after that: he synchronises the stream or the device before, or gives it back in the order of that stream
    ///   (`cudaFreeAsync`).
    /// - Nobody writes it for `'a`, and until that work is done nobody but this library through other such views. This
    ///   is about the order on the device, and the library cannot put other work in order with its own, neither that of
    ///   another library nor that on a [`Matrix`] which owns the memory. What writes this memory comes before: it is
    ///   done when the view is made, or on the stream that the product is put on
    ///   ([`Stream::from_cuda_handle`](crate::Stream::from_cuda_handle)), or one that this waits for
    ///   ([`Stream::wait`](crate::Stream::wait)). Or it comes after that product in the same way.
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Self> {
        let layout = Layout::foreign::<T>(device, address, rows, cols, ld)?;
        Ok(MatrixView { layout, element: PhantomData })
    }

    /// The part of these rows and columns.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn slice(&self, rows: Range<usize>, cols: Range<usize>) -> Result<MatrixView<'a, T>> {
        let layout = self.layout.slice::<T>(rows, cols)?;
        Ok(MatrixView { layout, element: PhantomData })
    }

    /// The elements of a single row as a matrix whose rows begin `ld` elements apart.
    pub(crate) fn folded(self, rows: usize, cols: usize, ld: usize) -> Result<Self> {
        Ok(MatrixView { layout: self.layout.folded::<T>(rows, cols, ld)?, element: PhantomData })
    }

    /// `count` parts of `rows` rows each, the first rows of which are `pitch` rows apart.
    ///
    /// # Errors
    /// [`Error::Range`] where the matrix has not as many rows.
    pub fn as_batch(&self, count: usize, rows: usize, pitch: usize) -> Result<BatchView<'a, T>> {
        check_parts::<T>((count, rows, pitch), self.rows(), self.ld())?;
        let stride = stride_of_parts::<T>(count, pitch, self.ld())?;
        Ok(BatchView::of(self.moved(0, rows), count, stride))
    }

    /// `count` parts of `cols` columns each, the first columns of which are `pitch` columns apart: matrices side by
    /// side, such as the heads of attention.
    ///
    /// # Errors
    /// [`Error::Range`] where the matrix has not as many columns; [`Error::LeadingDimension`] where there are no parts,
    /// and a row of one would be too long.
    ///
    /// # Examples
    /// Queries, keys and values of 3 heads of 8 elements as one projection writes them: those of a token are a row. The
    /// heads' results go side by side into the columns of another matrix, and nothing is moved for any of that.
    /// ```
    /// use regemm::ndarray::Array2;
    /// use regemm::{Device, Gemm};
    ///
    /// let device = Device::sim();
    /// let (tokens, heads, dim) = (10, 3, 8);
    /// let all = device.upload(&Array2::from_elem((tokens, 3 * heads * dim), 0.5f32).view())?;
    /// let part = |first: usize| {
    ///     let columns = first * heads * dim..(first + 1) * heads * dim;
    ///     all.view().slice(0..tokens, columns)?.as_batch_of_cols(heads, dim, dim)
    /// };
    /// let (queries, keys, values) = (part(0)?, part(1)?, part(2)?);
    ///
    /// let mut scores = device.batch(heads, tokens, tokens)?;
    /// Gemm::new(queries, keys.t()).run(&mut scores)?;
    /// // (A softmax of the scores would stand here.)
    /// let mut output = device.matrix(tokens, heads * dim)?;
    /// Gemm::new(&scores, values).run(output.view_mut().into_batch_of_cols(heads, dim, dim)?)?;
    /// assert!(output.to_array()?.iter().all(|&x| x == 2.0 * 10.0 * 0.5));
    /// # Ok::<(), regemm::Error>(())
    /// ```
    pub fn as_batch_of_cols(
        &self,
        count: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<BatchView<'a, T>> {
        let stride = check_parts_of_cols((count, cols, pitch), self.cols(), self.ld())?;
        let layout = Layout { cols, ..self.layout };
        Ok(BatchView::of(MatrixView { layout, element: PhantomData }, count, stride))
    }

    /// Copies the elements to the host, after outstanding work that writes them.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn to_array(&self) -> Result<Array2<T>> {
        let (rows, ld) = (self.rows(), self.ld());
        Array2::from_shape_vec((rows, self.cols()), self.to_vec()?)
            .map_err(|_| Error::SizeOverflow { rows, ld, dtype: T::DTYPE })
    }

    /// Copies the elements to the host, row by row without gaps, after outstanding work that writes them.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.layout.region.finish(Use::Read)?;
        read_elements(self.rows() * self.cols(), |bytes| {
            self.device().read_rows(self.layout.as_rows::<T>(), bytes)
        })
    }
}

impl<'a, T: Element> MatrixViewMut<'a, T> {
    /// The memory that it is in.
    pub(crate) fn region(&self) -> Region<'a> {
        self.layout.region
    }

    /// A matrix in memory that somebody else owns; work on it is [in order](MatrixView::from_raw).
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::SizeOverflow`], [`Error::AddressOverflow`], [`Error::Misaligned`].
    ///
    /// # Safety
    /// As for [`MatrixView::from_raw`]; and while nobody else may write that memory there, here nobody else may read it
    /// either, except through this view, what is made of it, and a view that is given to the same product as C.
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Self> {
        let layout = Layout::foreign::<T>(device, address, rows, cols, ld)?;
        Ok(MatrixViewMut { layout, element: PhantomData })
    }

    /// The part of these rows and columns.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn slice(self, rows: Range<usize>, cols: Range<usize>) -> Result<MatrixViewMut<'a, T>> {
        let layout = self.layout.slice::<T>(rows, cols)?;
        Ok(MatrixViewMut { layout, element: PhantomData })
    }

    /// The elements of a single row as a matrix whose rows begin `ld` elements apart.
    pub(crate) fn folded(self, rows: usize, cols: usize, ld: usize) -> Result<Self> {
        Ok(MatrixViewMut { layout: self.layout.folded::<T>(rows, cols, ld)?, element: PhantomData })
    }

    /// The first `row` rows and the others.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn split_at_row(self, row: usize) -> Result<(Self, Self)> {
        let Layout { rows, cols, .. } = self.layout;
        let above = self.layout.slice::<T>(0..row, 0..cols)?;
        let below = self.layout.slice::<T>(row..rows, 0..cols)?;
        let view = |layout| MatrixViewMut { layout, element: PhantomData };
        Ok((view(above), view(below)))
    }

    /// The first `col` columns and the others.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn split_at_col(self, col: usize) -> Result<(Self, Self)> {
        let Layout { rows, cols, .. } = self.layout;
        let left = self.layout.slice::<T>(0..rows, 0..col)?;
        let right = self.layout.slice::<T>(0..rows, col..cols)?;
        let view = |layout| MatrixViewMut { layout, element: PhantomData };
        Ok((view(left), view(right)))
    }

    /// `count` parts of `rows` rows each, the first rows of which are `pitch` rows apart.
    ///
    /// # Errors
    /// [`Error::Range`] where the matrix has not as many rows, [`Error::BatchStride`] where the parts overlap.
    pub fn into_batch(
        self,
        count: usize,
        rows: usize,
        pitch: usize,
    ) -> Result<BatchViewMut<'a, T>> {
        check_parts::<T>((count, rows, pitch), self.rows(), self.ld())?;
        let (cols, ld) = (self.cols(), self.ld());
        let stride = stride_of_parts::<T>(count, pitch, ld)?;
        if count > 1 {
            check_stride((count, stride), (rows, cols), ld)?;
        }
        Ok(BatchViewMut::of(self.moved(0, rows), count, stride))
    }

    /// `count` parts of `cols` columns each, the first columns of which are `pitch` columns apart; see
    /// [`as_batch_of_cols`](MatrixView::as_batch_of_cols).
    ///
    /// # Errors
    /// As there, and [`Error::BatchStride`] where the parts overlap.
    pub fn into_batch_of_cols(
        self,
        count: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<BatchViewMut<'a, T>> {
        let (rows, ld) = (self.rows(), self.ld());
        let stride = check_parts_of_cols((count, cols, pitch), self.cols(), ld)?;
        if count > 1 {
            check_stride((count, stride), (rows, cols), ld)?;
        }
        let layout = Layout { cols, ..self.layout };
        Ok(BatchViewMut::of(MatrixViewMut { layout, element: PhantomData }, count, stride))
    }

    /// The same matrix, to be read.
    pub fn view(&self) -> MatrixView<'_, T> {
        MatrixView { layout: self.layout, element: PhantomData }
    }

    /// The same matrix borrowed for a shorter time, so that it can be used again.
    pub fn reborrow(&mut self) -> MatrixViewMut<'_, T> {
        MatrixViewMut { layout: self.layout, element: PhantomData }
    }

    /// Overwrites the elements with those of an array of the same shape and any strides, after outstanding work that
    /// uses them. The gaps between rows stay as they are.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn copy_from(&mut self, array: &ArrayView2<'_, T>) -> Result<()> {
        let found = Shape { rows: array.nrows(), cols: array.ncols() };
        if found != self.shape() {
            return Err(Error::ShapeMismatch {
                operand: Operand::Array,
                found,
                expected: self.shape(),
                because: "that is the shape of the matrix it is copied to".to_owned(),
            });
        }
        self.write_packed(&packed(array)?)
    }

    /// Overwrites the elements with those of a matrix of the same shape on the same device, after outstanding work that
    /// uses either, and waits for the end. The gaps between rows stay as they are.
    ///
    /// # Examples
    /// ```
    /// use regemm::Device;
    /// use regemm::ndarray::array;
    ///
    /// let device = Device::sim();
    /// let a = device.upload(&array![[1.0f32, 2.0], [3.0, 4.0]].view())?;
    /// let mut wide = device.zeros(2, 4)?;
    /// let (_, mut right) = wide.view_mut().split_at_col(2)?;
    /// right.copy_from_matrix(&a)?;
    /// assert_eq!(wide.to_array()?, array![[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]]);
    /// # Ok::<(), regemm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DeviceMismatch`], or a failure of the device.
    pub fn copy_from_matrix<'b>(&mut self, source: impl Into<MatrixView<'b, T>>) -> Result<()> {
        self.copy_on(None, &source.into())
    }

    /// Puts such a [copy](MatrixViewMut::copy_from_matrix) on a stream and does not wait for it. It is in order with
    /// other work as products are, and in a [graph](Stream#capture-in-a-cuda-graph) it can be one of the launches.
    ///
    /// # Errors
    /// As for [`copy_from_matrix`](MatrixViewMut::copy_from_matrix), also where the stream is on another device.
    pub fn enqueue_copy<'b>(
        &mut self,
        stream: &Stream,
        source: impl Into<MatrixView<'b, T>>,
    ) -> Result<()> {
        self.copy_on(Some(stream), &source.into())
    }

    fn copy_on(&mut self, stream: Option<&Stream>, source: &MatrixView<'_, T>) -> Result<()> {
        let device = stream.map_or(self.device(), Stream::device);
        let places = [(Operand::Source, source.device()), (Operand::Copy, self.device())];
        for (operand, found) in places {
            if !found.is_same(device) {
                let (found, expected) = (found.spec(), device.spec());
                return Err(Error::DeviceMismatch { operand, found, expected });
            }
        }
        let (found, expected) = (source.shape(), self.shape());
        if found != expected {
            let because = "that is the shape of the matrix it is copied to".to_owned();
            return Err(Error::ShapeMismatch {
                operand: Operand::Source,
                found,
                expected,
                because,
            });
        }
        let rows = [source.layout.as_rows::<T>(), self.layout.as_rows::<T>()];
        device.move_rows(rows, [source.layout.region, self.layout.region], stream)
    }

    /// Overwrites the elements with `rows * cols` elements.
    pub(crate) fn write_packed(&mut self, elements: &[T]) -> Result<()> {
        self.layout.region.finish(Use::Write)?;
        self.device().write_rows(bytes_of(elements), self.layout.as_rows::<T>())
    }
}

impl<'a, T: Element> From<&'a Matrix<T>> for MatrixView<'a, T> {
    fn from(matrix: &'a Matrix<T>) -> Self {
        matrix.view()
    }
}

impl<'a, T: Element> From<&'a mut Matrix<T>> for MatrixViewMut<'a, T> {
    fn from(matrix: &'a mut Matrix<T>) -> Self {
        matrix.view_mut()
    }
}

impl<'a, T: Element> From<&'a MatrixViewMut<'_, T>> for MatrixView<'a, T> {
    fn from(view: &'a MatrixViewMut<'_, T>) -> Self {
        view.view()
    }
}

impl<'a, T: Element> From<&'a mut MatrixViewMut<'_, T>> for MatrixViewMut<'a, T> {
    fn from(view: &'a mut MatrixViewMut<'_, T>) -> Self {
        view.reborrow()
    }
}
