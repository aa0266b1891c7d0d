//! The driver, the primary context of a GPU, and the driver's errors.

use super::lock;
use crate::error::{Error, Result};
use cuda_driver::result;
use cust::sys;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

/// Turns a result code of the driver into an error that says which call failed and why.
pub(crate) fn check(call: &'static str, code: sys::CUresult) -> Result<()> {
    check_code(call, answered(code))
}

/// What the driver has just answered to this thread, also where `cust` does not know the code.
fn answered(code: sys::CUresult) -> i32 {
    match code as i32 {
        result::UNKNOWN => result::take_foreign().unwrap_or(result::UNKNOWN),
        code => code,
    }
}

/// [`check`] for functions that `cust` does not know, whose code is the driver's own.
pub(crate) fn check_code(call: &'static str, code: i32) -> Result<()> {
    match code {
        result::SUCCESS => Ok(()),
        code => Err(failure(call, code)),
    }
}

fn failure(call: &'static str, code: i32) -> Error {
    let (name, text) = result::describe(code).unwrap_or_else(|| {
        ("unknown result".to_owned(), "the driver has no text for it".to_owned())
    });
    Error::Cuda { call, code, name, text }
}

/// Loads and initialises the driver and counts its devices.
pub(crate) fn device_count() -> Result<usize> {
    cuda_driver::load().map_err(|error| Error::NoDriver { why: error.to_string() })?;
    // SAFETY: takes no pointers; may be called any number of times from any thread.
    match answered(unsafe { sys::cuInit(0) }) {
        result::SUCCESS => {}
        result::NO_DEVICE => return Ok(0),
        code @ result::STUB_LIBRARY => {
            return Err(Error::NoDriver { why: failure("cuInit", code).to_string() });
        }
        code => return Err(failure("cuInit", code)),
    }
    let mut count = 0;
    // SAFETY: the pointer is to a local.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// A GPU's primary context, shared with everyone in the process who uses the runtime API.
pub(crate) struct Context {
    ordinal: usize,
    device: sys::CUdevice,
    raw: sys::CUcontext,
    /// Events without a time that nobody uses any more: making one anew costs every launch more than recording it.
    spare_events: Mutex<Vec<sys::CUevent>>,
    /// Memory whose addresses are in graphs.
    of_graphs: Mutex<Vec<u64>>,
}

/// Most events that are kept for later launches.
const MOST_SPARE_EVENTS: usize = 256;

// SAFETY: the driver may be called with a context from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of the GPU with this index.
    pub fn retain(ordinal: usize) -> Result<Context> {
        let count = device_count()?;
        let index = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let Some(index) = index else {
            return Err(Error::NoSuchDevice { ordinal, count });
        };
        let mut device = 0;
        // SAFETY: the pointer is to a local.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, index) })?;
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a local; released when this is dropped.
        check("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&mut raw, device)
        })?;
        let (spare_events, of_graphs) = Default::default();
        Ok(Context { ordinal, device, raw, spare_events, of_graphs })
    }

    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// Makes the context current on this thread until the guard is dropped; the thread's own is current again then.
    pub fn bind(&self) -> Result<Bound<'_>> {
        // SAFETY: the context is retained.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.raw) })?;
        Ok(Bound { context: PhantomData, thread: PhantomData })
    }

    /// An event that was kept, if there is one.
    pub fn take_spare_event(&self) -> Option<sys::CUevent> {
        lock(&self.spare_events).pop()
    }

    /// Keeps an event that only marks points; gives it back where enough are kept.
    pub fn keep_event(&self, event: sys::CUevent) -> Option<sys::CUevent> {
        let mut spare = lock(&self.spare_events);
        if spare.len() >= MOST_SPARE_EVENTS {
            return Some(event);
        }
        spare.push(event);
        None
    }

    /// Keeps memory as long as the context: a graph may be launched at any time, and nobody says when it is no more.
    pub fn keep_memory(&self, address: u64) {
        lock(&self.of_graphs).push(address);
    }

    /// Waits for all work in the context.
    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.bind()?;
        // SAFETY: takes no arguments.
        check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let spare = std::mem::take(&mut *lock(&self.spare_events));
        let of_graphs = std::mem::take(&mut *lock(&self.of_graphs));
        if let Ok(_bound) = self.bind() {
            for event in spare {
                // SAFETY: made once, and nobody has used it since it was kept.
                let _ = unsafe { sys::cuEventDestroy_v2(event) };
            }
            for address in of_graphs {
                // SAFETY: allocated in this context; by now nobody launches the graphs.
                let _ = unsafe { sys::cuMemFree_v2(address) };
            }
        }
        // SAFETY: retained once when this was made; a failure leaves nothing to do.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// While this lives its context is current on this thread.
pub(crate) struct Bound<'a> {
    context: PhantomData<&'a Context>,
    /// Pushed on this thread, to be popped on this thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: the context was pushed on this thread, and guards are dropped in reverse order of their making.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}
