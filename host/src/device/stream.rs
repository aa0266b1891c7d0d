//! Streams and events.

use super::cuda::queue::{CudaEvent, CudaStream};
use super::{Device, Machine};
use crate::error::{Error, Result};
use std::fmt;
use std::time::Duration;

/// A queue of work on a device: in order within it, beside the work of other streams.
///
/// Work on two streams that uses the same matrix is put in order by the library. Dropping a stream neither stops its
/// work nor waits for it. On the simulator work is done when `enqueue` returns.
///
/// # Examples
/// ```
/// use regemm::ndarray::Array2;
/// use regemm::{Device, Gemm};
///
/// let device = Device::sim();
/// let (one, other) = (device.stream()?, device.stream()?);
/// let a = device.upload(&Array2::from_elem((8, 16), 0.5f32).view())?;
/// let (mut b, mut d) = (device.matrix(8, 8)?, device.matrix(8, 8)?);
/// Gemm::new(&a, a.t()).enqueue(&one, &mut b)?; // returns at once
/// Gemm::new(&b, &b).enqueue(&other, &mut d)?; // begins when b is there
/// assert!(d.to_array()?.iter().all(|&x| x == 128.0)); // waits for d
/// # Ok::<(), regemm::Error>(())
/// ```
///
/// # Capture in a CUDA graph
///
/// What [`enqueue`](crate::Gemm::enqueue) puts on a stream are launches of kernels and nothing else, so that a stream
/// can be captured (`cuStreamBeginCapture`, `cudaStreamBeginCapture`, in any mode, on [its
/// handle](Stream::with_cuda_handle)) and the products in the graph launched again and again, with whatever the
/// matrices then hold. All that is not a launch has to happen before:
///
/// 1. *Warm up.* Enqueue every product once on the stream before the capture, and before that of any other stream where
///    products are [measured at first use](crate::tuning::Tuning::FirstUse). That loads its kernels, chooses among
///    them, and allocates the workspace. A product that would have to do so during the capture is refused with
///    [`Error::Capturing`], before anything of it is captured.
/// 2. *Give a [workspace](crate::Gemm::workspace)* to products that need one, and keep it as long as the graph. With
///    the stream's own a graph works too: what was captured is kept as long as any handle of the device, also when a
///    later product on the stream needs a larger one, or the stream is dropped. But it is never given back before, and
///    other work on the stream uses it as well, so that the graph must not run beside that.
/// 3. *Synchronise other streams* that use the same matrices: a graph cannot wait for work outside of it, and the
///    product is refused in the same way. Streams that have [come into the capture](Stream::wait) are put in order by
///    the library as ever.
/// 4. Capture: begin, `enqueue`, end. Nothing else: making, reading, writing or dropping a matrix
///    allocates, copies or frees, which the driver answers with an error, and with the loss of the capture.
///
/// The graph knows addresses, and its kernels are those of the device. Whoever launches it keeps matrices and
/// workspaces alive, or a [handle of the device](Device) where all memory is that of others, does not launch two graphs
/// that share a workspace at the same time, and synchronises before he reads: the library does not see those launches.
pub struct Stream {
    device: Device,
    /// None on the simulator.
    cuda: Option<CudaStream>,
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Stream> {
        let cuda = match device.machine() {
            Machine::Cuda(cuda) => Some(cuda.new_stream()?),
            Machine::Sim(_) => None,
        };
        Ok(Stream { device: device.clone(), cuda })
    }

    /// A stream of somebody else: that of a framework or another library, in whose order products are to be. The null
    /// handle is the legacy default stream.
    ///
    /// All that is said of [streams](Stream) goes for it. Work that others put on it before and after is in order with
    /// what this library puts there, as on any stream. Dropping the `Stream` leaves the driver's stream as it is.
    ///
    /// Make one for each of the other's streams and keep it: its workspace, and what was warmed up before a capture,
    /// belong to the `Stream` and not to the handle, and work of two `Stream`s with the same handle is put in order
    /// like that of two streams.
    ///
    /// # Errors
    /// [`Error::NotCuda`] on the simulator, which has no such streams.
    ///
    /// # Safety
    /// The handle (`CUstream`, `cudaStream_t`) is that of a stream in the device's primary context, which the CUDA
    /// runtime uses, or null. The stream is not destroyed before the `Stream` is dropped, and not being captured then.
    /// It is not the default stream of each thread (`cudaStreamPerThread`), which is many streams with one handle.
    ///
    /// # Examples
    /// ```no_run
    /// use regemm::{Device, Error, Gemm, MatrixView, MatrixViewMut, Stream};
    /// use std::ffi::c_void;
    ///
    /// /// Products on the stream that a framework computes on, of its own matrices.
    /// struct Products {
    ///     device: Device,
    ///     stream: Stream,
    /// }
    ///
    /// impl Products {
    ///     /// Made once for a stream.
    ///     fn on(handle: *mut c_void) -> Result<Products, Error> {
    ///         let device = Device::cuda(0)?;
    ///         // SAFETY: the framework's stream lives until the program ends.
    ///         let stream = unsafe { Stream::from_cuda_handle(&device, handle)? };
    ///         Ok(Products { device, stream })
    ///     }
    ///
    ///     /// Puts `D = A * A` on the stream, of matrices of `n x n` elements at these addresses.
    ///     ///
    ///     /// # Safety
    ///     /// The addresses are of such matrices, whose memory is written, read and given back in the stream's order.
    ///     unsafe fn square(&self, n: usize, a: u64, d: u64) -> Result<(), Error> {
    ///         // SAFETY: as promised by the caller.
    ///         let a = unsafe { MatrixView::<f32>::from_raw(&self.device, a, n, n, n)? };
    ///         // SAFETY: as above.
    ///         let d = unsafe { MatrixViewMut::<f32>::from_raw(&self.device, d, n, n, n)? };
    ///         Gemm::new(a, a).enqueue(&self.stream, d)?;
    ///         Ok(())
    ///     }
    /// }
    /// ```
    pub unsafe fn from_cuda_handle(
        device: &Device,
        handle: *mut std::ffi::c_void,
    ) -> Result<Stream> {
        let Machine::Cuda(cuda) = device.machine() else {
            return Err(Error::NotCuda { what: "a handle of a stream" });
        };
        // SAFETY: as promised by the caller; it is given up when this is dropped.
        let cuda = Some(unsafe { cuda.stream_of_other(handle.cast()) });
        Ok(Stream { device: device.clone(), cuda })
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    /// A failure of the driver, or of a kernel on this device since the last synchronisation.
    pub fn synchronize(&self) -> Result<()> {
        self.cuda.as_ref().map_or(Ok(()), CudaStream::synchronize)
    }

    /// Marks the point after all work that is on the stream now.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn record(&self) -> Result<Event> {
        let cuda = match &self.cuda {
            Some(stream) => Some(stream.record_timed()?),
            None => None,
        };
        Ok(Event { cuda })
    }

    /// Makes all later work on this stream wait for an event, such as that of work of another library on another
    /// stream; waits for nothing itself. What this library puts on streams needs that only where matrices are not all
    /// that it depends on.
    ///
    /// While the stream is being captured in a graph the event must be of the same capture; a stream that is not, and
    /// waits for an event of a capture, comes into it.
    ///
    /// # Examples
    /// ```
    /// # use regemm::Device;
    /// let device = Device::sim();
    /// let (one, other) = (device.stream()?, device.stream()?);
    /// // (Another library's work is put on `one`.)
    /// other.wait(&one.record()?)?;
    /// # Ok::<(), regemm::Error>(())
    /// ```
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn wait(&self, event: &Event) -> Result<()> {
        match (&self.cuda, &event.cuda) {
            (Some(stream), Some(event)) => stream.wait_for_event(event),
            // The simulator's work is done when it has been put on a stream.
            (_, None) => Ok(()),
            (None, Some(event)) => event.synchronize(),
        }
    }

    /// Calls a function with the driver's handle of this stream (`CUstream`, `cudaStream_t`) while the device's context
    /// is current: the way to put another library's work on the stream. `None` on the simulator, which has no handle.
    ///
    /// The library's own ordering does not see such work: whoever enqueues it keeps its matrices alive and
    /// synchronises.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn with_cuda_handle<R>(
        &self,
        call: impl FnOnce(*mut std::ffi::c_void) -> R,
    ) -> Result<Option<R>> {
        self.cuda.as_ref().map(|stream| stream.bound(|raw| call(raw.cast()))).transpose()
    }

    /// An error where it is being captured in a graph: before something is done that would spoil the capture.
    pub(crate) fn refuse_capture(&self, needed: &'static str, remedy: &'static str) -> Result<()> {
        self.cuda.as_ref().map_or(Ok(()), |stream| stream.refuse_capture(needed, remedy))
    }

    pub(crate) fn as_cuda(&self) -> Option<&CudaStream> {
        self.cuda.as_ref()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let (Some(stream), Machine::Cuda(cuda)) = (&self.cuda, self.device.machine()) {
            cuda.release_workspace(stream);
            stream.give_up();
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

/// A point on a stream, made by [`Stream::record`].
pub struct Event {
    /// None on the simulator.
    cuda: Option<CudaEvent>,
}

impl Event {
    /// Waits until the stream has reached the point.
    ///
    /// # Errors
    /// A failure of the driver, or of a kernel before the point.
    pub fn synchronize(&self) -> Result<()> {
        self.cuda.as_ref().map_or(Ok(()), CudaEvent::synchronize)
    }

    /// Whether the stream has reached the point; waits for nothing. Always so on the simulator.
    ///
    /// # Errors
    /// A failure of the driver, or of a kernel on this device.
    pub fn has_passed(&self) -> Result<bool> {
        self.cuda.as_ref().map_or(Ok(true), CudaEvent::has_passed)
    }

    /// Calls a function with the driver's handle of this event (`CUevent`, `cudaEvent_t`) while the device's context is
    /// current: the way to have another library's stream wait for it. `None` on the simulator, which has no handle.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn with_cuda_handle<R>(
        &self,
        call: impl FnOnce(*mut std::ffi::c_void) -> R,
    ) -> Result<Option<R>> {
        self.cuda.as_ref().map(|event| event.bound(|raw| call(raw.cast()))).transpose()
    }

    /// The time the device took from `start` to this event; waits for both.
    ///
    /// # Errors
    /// [`Error::NotMeasurable`] on the simulator, which counts work but has no clock; a failure of the driver, also
    /// where the events belong to different devices.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration> {
        match (&self.cuda, &start.cuda) {
            (Some(end), Some(start)) => end.elapsed_since(start),
            _ => Err(Error::NotMeasurable {
                why: "the simulator counts work and has no clock".into(),
            }),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").finish_non_exhaustive()
    }
}
