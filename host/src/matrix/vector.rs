//! Vectors in device memory.

use super::{allocation_bytes, bytes_of, contiguous, read_elements};
use crate::device::{Buffer, Device, Use};
use crate::error::{Error, Result};
use cuda_std::memory::GlobalPtr;
use regemm_kernels::element::Element;
use std::fmt;
use std::marker::PhantomData;

/// A vector that owns its device memory: a bias.
pub struct Vector<T> {
    buffer: Buffer,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Vector<T> {
    pub(crate) fn new(device: &Device, data: &[T]) -> Result<Self> {
        let len = data.len();
        let buffer = Buffer::new(device, allocation_bytes::<T>(1, len)?)?;
        device.write_rows(bytes_of(data), contiguous::<T>(buffer.address(), len))?;
        Ok(Vector { buffer, len, element: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device whose memory it is in.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// The address of the first element in device memory; zero if there are no elements.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Copies the elements to the host, after outstanding work that writes them.
    ///
    /// # Errors
    /// [`Error::OutOfHostMemory`], or a failure of the device.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.buffer.finish(Use::Read)?;
        read_elements(self.len, |bytes| {
            self.device().read_rows(contiguous::<T>(self.address(), self.len), bytes)
        })
    }

    /// Overwrites the elements with as many others, after outstanding work that uses them.
    ///
    /// # Errors
    /// [`Error::SliceLength`] where the slice has another length, or a failure of the device.
    pub fn copy_from(&mut self, data: &[T]) -> Result<()> {
        let (found, needed) = (data.len(), self.len);
        if found != needed {
            let layout = format!("a vector of {needed} elements");
            return Err(Error::SliceLength { found, needed, layout });
        }
        self.buffer.finish(Use::Write)?;
        self.device().write_rows(bytes_of(data), contiguous::<T>(self.address(), needed))
    }

    /// What a kernel is told of it: for an epilogue of your own, which must also be
    /// [told to the product](crate::Gemm::epilogue_reads_vector).
    pub fn to_kernel(&self) -> GlobalPtr<T> {
        GlobalPtr::from_address(self.address())
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

impl<T: Element> fmt::Debug for Vector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector<{}>({} elements, {:?})", T::DTYPE, self.len, self.device())
    }
}
