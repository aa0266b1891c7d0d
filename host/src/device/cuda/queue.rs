//! Streams and events of the driver.

use super::capture::{self, Relaxed};
use super::context::{Bound, Context, check};
use crate::device::pending::Marker;
use crate::device::workspace::Grown;
use crate::error::{Error, Result};
use cust::sys;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A stream that neither waits for the default stream nor makes it wait.
pub(crate) struct CudaStream {
    queue: Arc<Queue>,
    /// Tells streams apart even when the driver uses an address again.
    id: u64,
    /// Memory for the unfinished sums of its work, which is in order and so can share it. Whoever drops the stream has
    /// the device [release it](super::CudaDevice::release_workspace).
    workspace: Mutex<Grown>,
}

/// The driver's stream, which lives as long as somebody may have to wait for its work; or somebody else's, which may be
/// gone before.
struct Queue {
    raw: sys::CUstream,
    /// Whether somebody else made it and destroys it.
    is_of_other: bool,
    /// Launches so far.
    launches: AtomicU64,
    /// Locked while anybody but the stream's owner uses the handle.
    latest: Mutex<Latest>,
    context: Arc<Context>,
}

/// The latest event on a stream.
#[derive(Default)]
struct Latest {
    /// How many launches come before it, and the event.
    event: Option<(u64, Arc<CudaEvent>)>,
    /// Whether there is no other after it: the stream was [given up](CudaStream::give_up) and may be gone.
    is_last: bool,
}

// SAFETY: the driver may be called with a stream from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above; calls on one stream from several threads are put in some order.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.is_of_other
            && let Ok(_bound) = self.context.bind()
        {
            // SAFETY: made once and used by nobody else; the driver finishes the stream's work first.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

impl CudaStream {
    pub fn new(context: &Arc<Context>) -> Result<CudaStream> {
        const DEFAULT_PRIORITY: i32 = 0;
        let _bound = context.bind()?;
        let mut raw = ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is to a local; destroyed when the queue is dropped.
        check("cuStreamCreateWithPriority", unsafe {
            sys::cuStreamCreateWithPriority(&mut raw, flags, DEFAULT_PRIORITY)
        })?;
        Ok(CudaStream::of(raw, false, context))
    }

    /// A stream that somebody else made.
    ///
    /// # Safety
    /// It belongs to the context and lives until it is [given up](CudaStream::give_up).
    pub unsafe fn of_other(raw: sys::CUstream, context: &Arc<Context>) -> CudaStream {
        CudaStream::of(raw, true, context)
    }

    fn of(raw: sys::CUstream, is_of_other: bool, context: &Arc<Context>) -> CudaStream {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (launches, latest) = Default::default();
        let queue =
            Arc::new(Queue { raw, is_of_other, launches, latest, context: Arc::clone(context) });
        CudaStream { queue, id, workspace: Mutex::default() }
    }

    /// Uses somebody else's stream no more: whoever waits for its work waits for an event after all of it, which is
    /// recorded now.
    pub fn give_up(&self) {
        if !self.queue.is_of_other {
            return;
        }
        let mut latest = self.queue.latest();
        let launches = self.queue.launches.load(Ordering::Acquire);
        if launches > 0
            && let Ok(bound) = self.context().bind()
        {
            // Where that fails, memory that the work uses is never known to be free.
            let _ = self.queue.event_after(launches, &mut latest, &bound);
        }
        latest.is_last = true;
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn raw(&self) -> sys::CUstream {
        self.queue.raw
    }

    fn context(&self) -> &Arc<Context> {
        &self.queue.context
    }

    pub fn workspace(&self) -> &Mutex<Grown> {
        &self.workspace
    }

    /// Calls a function with the handle while the context is current.
    pub fn bound<R>(&self, call: impl FnOnce(sys::CUstream) -> R) -> Result<R> {
        let _bound = self.context().bind()?;
        Ok(call(self.raw()))
    }

    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.context().bind()?;
        // SAFETY: the stream lives.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw()) })
    }

    /// Whether it is being captured in a graph.
    pub fn is_captured(&self) -> Result<bool> {
        capture::is_captured(self.raw(), &self.context().bind()?)
    }

    /// An error where the stream is being captured in a graph: before something is done that would spoil the capture.
    pub fn refuse_capture(&self, needed: &'static str, remedy: &'static str) -> Result<()> {
        capture::refuse(self.raw(), needed, remedy, &self.context().bind()?)
    }

    /// Makes later work on this stream wait for a point on another. Of two streams that are being captured in the same
    /// graph that is an edge of it.
    pub fn wait_for(&self, point: &Point) -> Result<()> {
        if let Some(event) = point.queue.event_in_capture_with(self.raw(), self.context())? {
            return self.wait_for_event(&event);
        }
        self.refuse_capture(
            "waiting for another stream",
            "synchronise the stream whose work uses the same matrix before the capture begins",
        )?;
        let bound = self.context().bind()?;
        self.wait_for_event(&*point.event(&bound)?)
    }

    /// Makes later work on this stream wait for an event.
    pub fn wait_for_event(&self, event: &CudaEvent) -> Result<()> {
        let _bound = self.context().bind()?;
        // SAFETY: stream and event live; the driver keeps what it needs of the event.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.raw(), event.raw, 0) })
    }

    /// The point after what has just been launched.
    pub fn point(&self) -> Point {
        let launch = self.queue.launches.fetch_add(1, Ordering::AcqRel) + 1;
        Point { queue: Arc::clone(&self.queue), launch }
    }

    /// A new event after all work on the stream, with the time at which it is reached.
    pub fn record_timed(&self) -> Result<CudaEvent> {
        let bound = self.context().bind()?;
        let raw = new_event(sys::CUevent_flags_enum::CU_EVENT_DEFAULT, &bound)?;
        let event = CudaEvent { raw, is_reusable: false, context: Arc::clone(self.context()) };
        self.queue.record(&event, &bound)?;
        Ok(event)
    }
}

impl Queue {
    /// Records an event after all work on the stream.
    fn record(&self, event: &CudaEvent, _bound: &Bound<'_>) -> Result<()> {
        // SAFETY: stream and event live and belong to the same context.
        check("cuEventRecord", unsafe { sys::cuEventRecord(event.raw, self.raw) })
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event that comes after so many launches: the latest, or a new one where that is too early.
    fn event_after(
        &self,
        launch: u64,
        latest: &mut Latest,
        bound: &Bound<'_>,
    ) -> Result<Arc<CudaEvent>> {
        if !latest.is_last {
            self.refuse_capture(bound)?;
        }
        if let Some((launches, event)) = &latest.event
            && *launches >= launch
        {
            return Ok(Arc::clone(event));
        }
        if latest.is_last {
            return Err(Error::Capturing {
                needed: "waiting for the work on a stream that was given up",
                remedy: "end the capture before the `Stream` is dropped",
            });
        }
        let launches = self.launches.load(Ordering::Acquire);
        let mut event = CudaEvent::untimed(&self.context, bound)?;
        self.record(&event, bound)?;
        // Another thread may have begun a capture since the first question.
        if let Err(captured) = self.refuse_capture(bound) {
            event.is_reusable = false;
            return Err(captured);
        }
        let event = Arc::new(event);
        latest.event = Some((launches, Arc::clone(&event)));
        Ok(event)
    }

    /// An event after all work on the stream so far, where that is being captured in the same graph as another one. The
    /// graph holds it, so that nobody else can ask or wait for it.
    fn event_in_capture_with(
        &self,
        other: sys::CUstream,
        context: &Arc<Context>,
    ) -> Result<Option<CudaEvent>> {
        let bound = context.bind()?;
        let latest = self.latest();
        if latest.is_last || !capture::are_together([self.raw, other], &bound)? {
            return Ok(None);
        }
        let mut event = CudaEvent::untimed(&self.context, &bound)?;
        event.is_reusable = false;
        self.record(&event, &bound)?;
        Ok(Some(event))
    }

    /// An error where the stream is being captured: an event that a graph holds could never be asked or waited for
    /// again.
    fn refuse_capture(&self, bound: &Bound<'_>) -> Result<()> {
        capture::refuse(
            self.raw,
            "waiting for its work from outside",
            "end the capture first, and synchronise after a launch of the graph",
            bound,
        )
    }
}

/// The point on a stream after one of its launches. An event is recorded only when somebody asks for one, since most
/// points are asked for by nobody, and for an event each launch would pay a good part of what it costs; the event may
/// come later than the point, after other work.
#[derive(Clone)]
pub(crate) struct Point {
    queue: Arc<Queue>,
    launch: u64,
}

impl Point {
    /// An event at this point or after it.
    fn event(&self, bound: &Bound<'_>) -> Result<Arc<CudaEvent>> {
        self.queue.event_after(self.launch, &mut self.queue.latest(), bound)
    }
}

impl Marker for Point {
    fn advance(&mut self, to: &Self) {
        debug_assert!(Arc::ptr_eq(&self.queue, &to.queue), "both are of one stream");
        self.launch = self.launch.max(to.launch);
    }

    fn wait(&self) -> Result<()> {
        let event = self.event(&self.queue.context.bind()?)?;
        event.synchronize()
    }

    fn is_reached(&self) -> bool {
        let Ok(bound) = self.queue.context.bind() else {
            return false;
        };
        // Somebody may be capturing another stream.
        let _relaxed = Relaxed::new(&bound);
        // Whoever waits is told what went wrong.
        self.event(&bound).and_then(|event| event.is_reached(&bound)).unwrap_or(false)
    }
}

/// An event.
pub(crate) struct CudaEvent {
    raw: sys::CUevent,
    /// Whether it can mark another point when nobody uses it any more: not where it has a time, or belongs to a graph.
    is_reusable: bool,
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
    /// An event that only marks a point, which is cheaper than one with a time; one that was used before if there is
    /// one.
    pub fn untimed(context: &Arc<Context>, bound: &Bound<'_>) -> Result<CudaEvent> {
        let raw = match context.take_spare_event() {
            Some(raw) => raw,
            None => new_event(sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING, bound)?,
        };
        Ok(CudaEvent { raw, is_reusable: true, context: Arc::clone(context) })
    }

    /// Calls a function with the handle while the context is current.
    pub fn bound<R>(&self, call: impl FnOnce(sys::CUevent) -> R) -> Result<R> {
        let _bound = self.context.bind()?;
        Ok(call(self.raw))
    }

    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.context.bind()?;
        // SAFETY: the event lives.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// Whether the stream has reached it, or what became of it instead.
    fn is_reached(&self, _bound: &Bound<'_>) -> Result<bool> {
        // SAFETY: the event lives.
        match unsafe { sys::cuEventQuery(self.raw) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Whether the stream has reached it; waits for nothing.
    pub fn has_passed(&self) -> Result<bool> {
        let bound = self.context.bind()?;
        // Somebody may be capturing another stream.
        let _relaxed = Relaxed::new(&bound);
        self.is_reached(&bound)
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

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // Streams that wait for it wait for the point that it marked then, whatever it marks later.
        let raw = if self.is_reusable { self.context.keep_event(self.raw) } else { Some(self.raw) };
        if let Some(raw) = raw
            && let Ok(_bound) = self.context.bind()
        {
            // SAFETY: made once and used by nobody else; the driver keeps what waiting streams need of it.
            let _ = unsafe { sys::cuEventDestroy_v2(raw) };
        }
    }
}
