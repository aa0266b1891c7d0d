//! Streams and events of the driver.

use super::context::{Bound, Context, check};
use crate::device::pending::Marker;
use crate::device::workspace::Grown;
use crate::error::Result;
use cust::sys;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A stream that neither waits for the default stream nor makes it wait.
pub(crate) struct CudaStream {
    raw: sys::CUstream,
    /// Tells streams apart even when the driver uses an address again.
    id: u64,
    /// Memory for the unfinished sums of its work, which is in order and so can share it.
    workspace: Mutex<Grown>,
    context: Arc<Context>,
}

// SAFETY: the driver may be called with a stream from any thread.
unsafe impl Send for CudaStream {}
// SAFETY: as above; calls on one stream from several threads are put in some order.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    pub fn new(context: &Arc<Context>) -> Result<CudaStream> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        const DEFAULT_PRIORITY: i32 = 0;
        let _bound = context.bind()?;
        let mut raw = ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is to a local; destroyed when this is dropped.
        check("cuStreamCreateWithPriority", unsafe {
            sys::cuStreamCreateWithPriority(&mut raw, flags, DEFAULT_PRIORITY)
        })?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(CudaStream { raw, id, workspace: Mutex::default(), context: Arc::clone(context) })
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn raw(&self) -> sys::CUstream {
        self.raw
    }

    pub fn workspace(&self) -> &Mutex<Grown> {
        &self.workspace
    }

    /// Calls a function with the handle while the context is current.
    pub fn bound<R>(&self, call: impl FnOnce(sys::CUstream) -> R) -> Result<R> {
        let _bound = self.context.bind()?;
        Ok(call(self.raw))
    }

    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.context.bind()?;
        // SAFETY: the stream lives.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw) })
    }

    /// Makes later work on this stream wait for an event.
    pub fn wait_for(&self, event: &CudaEvent) -> Result<()> {
        let _bound = self.context.bind()?;
        // SAFETY: stream and event live; the driver keeps what it needs of the event.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) })
    }

    /// Records an event after all work on the stream.
    pub fn record(&self, event: &CudaEvent, _bound: &Bound<'_>) -> Result<()> {
        // SAFETY: stream and event live and belong to the same context.
        check("cuEventRecord", unsafe { sys::cuEventRecord(event.raw, self.raw) })
    }

    /// A new event after all work on the stream, with the time at which it is reached.
    pub fn record_timed(&self) -> Result<CudaEvent> {
        let bound = self.context.bind()?;
        let raw = new_event(sys::CUevent_flags_enum::CU_EVENT_DEFAULT, &bound)?;
        let event = CudaEvent { raw, is_timed: true, context: Arc::clone(&self.context) };
        self.record(&event, &bound)?;
        Ok(event)
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        let workspace =
            std::mem::take(self.workspace.get_mut().unwrap_or_else(PoisonError::into_inner));
        if workspace != Grown::default() {
            // A failure means that the context is broken, and nothing uses the memory any more.
            let _ = self.synchronize();
        }
        if let Ok(_bound) = self.context.bind() {
            for address in workspace.addresses() {
                // SAFETY: allocated in this context for this stream, whose work is done.
                let _ = unsafe { sys::cuMemFree_v2(address) };
            }
            // SAFETY: made once and used by nobody else; the driver finishes the stream's work first.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// An event.
pub(crate) struct CudaEvent {
    raw: sys::CUevent,
    is_timed: bool,
    context: Arc<Context>,
}

// SAFETY: the driver may be called with an event from any thread.
unsafe impl Send for CudaEvent {}
// SAFETY: as above; an event is recorded once, before it is shared.
unsafe impl Sync for CudaEvent {}

/// A new event of the current context.
fn new_event(flags: sys::CUevent_flags_enum, _bound: &Bound<'_>) -> Result<sys::CUevent> {
    let mut raw = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags as u32) })?;
    Ok(raw)
}

impl CudaEvent {
    /// An event that only marks a point, which is cheaper than one with a time; one that was used before if there is one.
    pub fn untimed(context: &Arc<Context>, bound: &Bound<'_>) -> Result<CudaEvent> {
        let raw = match context.take_spare_event() {
            Some(raw) => raw,
            None => new_event(sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING, bound)?,
        };
        Ok(CudaEvent { raw, is_timed: false, context: Arc::clone(context) })
    }

    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.context.bind()?;
        // SAFETY: the event lives.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// Time from `start` to this event, both timed; waits for both. The driver's clock counts in half microseconds.
    pub fn elapsed_since(&self, start: &CudaEvent) -> Result<Duration> {
        start.synchronize()?;
        self.synchronize()?;
        let _bound = self.context.bind()?;
        let mut milliseconds = 0f32;
        // SAFETY: the pointer is to a local and both events live.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime(&mut milliseconds, start.raw, self.raw)
        })?;
        // Negative where the events were given the wrong way round: no time has passed.
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) * 1e-3).unwrap_or_default())
    }
}

impl Marker for CudaEvent {
    fn wait(&self) -> Result<()> {
        self.synchronize()
    }

    fn is_reached(&self) -> bool {
        let Ok(_bound) = self.context.bind() else {
            return false;
        };
        // SAFETY: the event lives.
        unsafe { sys::cuEventQuery(self.raw) == sys::CUresult::CUDA_SUCCESS }
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // Streams that wait for it wait for the point that it marked then, whatever it marks later.
        let raw = if self.is_timed { Some(self.raw) } else { self.context.keep_event(self.raw) };
        if let Some(raw) = raw
            && let Ok(_bound) = self.context.bind()
        {
            // SAFETY: made once and used by nobody else; the driver keeps what waiting streams need of it.
            let _ = unsafe { sys::cuEventDestroy_v2(raw) };
        }
    }
}
