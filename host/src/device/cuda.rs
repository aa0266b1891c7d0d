//! A CUDA GPU as a device.
//!
//! | module | what it holds |
//! |---|---|
//! | `context` | the driver, the primary context, errors |
//! | `limits` | the device's name and limits |
//! | `memory` | allocation and copies |
//! | `released` | memory that was given up while work may still use it |
//! | `queue` | streams and events |
//! | `capture` | streams that are being captured in a graph |
//! | `module` | PTX modules: loaded when a kernel is first used |
//! | `tensor_map` | tensor maps |
//!
//! Everything goes through `cust::sys`, the raw layer of `cust`: its safe layer cannot create non-blocking streams, let
//! an event be waited for twice, or tell why PTX was refused.

mod capture;
pub(crate) mod context;
mod limits;
mod memory;
mod module;
pub(crate) mod queue;
mod released;
mod tensor_map;

pub(crate) use context::device_count;

use super::foreign::ForeignWork;
use super::info::DeviceInfo;
use super::pending::Use;
use super::report::KernelReport;
use super::workspace::{Held, WorkspaceSize};
use super::{Code, DeviceSpec, KernelSource, Launch, Step};
use crate::error::{Error, Resource, Result};
use crate::tuning::Tuner;
use context::Context;
use cust::sys;
use memory::StreamMemory;
use module::LoadedKernel;
use queue::{CudaStream, Point};
use released::Released;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tensor_map::Maps;

/// The GPUs that are open in this process, by index.
static OPEN: Mutex<Vec<(usize, Weak<CudaDevice>)>> = Mutex::new(Vec::new());

/// A GPU.
pub(crate) struct CudaDevice {
    info: DeviceInfo,
    tuner: Arc<Tuner>,
    /// Work that the caller waits for.
    foreground: CudaStream,
    /// Copies between host and device.
    copies: CudaStream,
    /// By entry name and address of the PTX that it was found in: tables of different crates may use the same name.
    kernels: Mutex<FxHashMap<(&'static str, usize), Arc<LoadedKernel>>>,
    maps: Maps,
    /// Work on memory that somebody else owns.
    foreign: Mutex<ForeignWork<Point>>,
    /// Memory of dropped buffers that outstanding work may still use.
    released: Released<Point>,
    context: Arc<Context>,
}

impl CudaDevice {
    /// The GPU of this index; the one that is open already, if there is one.
    pub fn open(ordinal: usize) -> Result<Arc<CudaDevice>> {
        let mut open = lock(&OPEN);
        open.retain(|(_, device)| device.strong_count() > 0);
        let known = open.iter().find(|(index, _)| *index == ordinal);
        if let Some(device) = known.and_then(|(_, device)| device.upgrade()) {
            return Ok(device);
        }
        let context = Arc::new(Context::retain(ordinal)?);
        let device = Arc::new(CudaDevice {
            info: limits::read(&context, ordinal)?,
            tuner: Arc::new(Tuner::new()),
            foreground: CudaStream::new(&context)?,
            copies: CudaStream::new(&context)?,
            kernels: Mutex::default(),
            maps: Maps::default(),
            foreign: Mutex::default(),
            released: Released::default(),
            context,
        });
        open.push((ordinal, Arc::downgrade(&device)));
        Ok(device)
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub fn tuner(&self) -> &Arc<Tuner> {
        &self.tuner
    }

    /// The work on memory that somebody else owns.
    pub fn foreign_work(&self) -> MutexGuard<'_, ForeignWork<Point>> {
        lock(&self.foreign)
    }

    fn spec(&self) -> DeviceSpec {
        DeviceSpec::Cuda(self.context.ordinal())
    }

    pub fn new_stream(&self) -> Result<CudaStream> {
        CudaStream::new(&self.context)
    }

    /// # Safety
    /// As for [`CudaStream::of_other`].
    pub unsafe fn stream_of_other(&self, raw: sys::CUstream) -> CudaStream {
        // SAFETY: as promised by the caller.
        unsafe { CudaStream::of_other(raw, &self.context) }
    }

    pub fn synchronize(&self) -> Result<()> {
        self.context.synchronize()?;
        self.foreign_work().forget_reached();
        self.free_released(false);
        Ok(())
    }

    /// Puts kernels on a stream, or runs them to their end on none. They start after all earlier work on their memory.
    ///
    /// # Safety
    /// As for [`Device::launch`](super::Device::launch).
    pub unsafe fn launch(&self, launch: &Launch<'_>, stream: Option<&CudaStream>) -> Result<()> {
        let queue = stream.unwrap_or(&self.foreground);
        // Once for all calls of the driver below.
        let bound = self.context.bind()?;
        let kernel = |step: &Step<'_>| self.kernel(&step.code, Some(queue));
        let kernels: SmallVec<[_; 3]> = launch.steps.iter().map(kernel).collect::<Result<_>>()?;
        for read in launch.reads {
            read.order_on(queue, Use::Read)?;
        }
        for written in launch.writes {
            written.order_on(queue, Use::Write)?;
        }
        launch.begun.set(true);
        let started = launch.steps.iter().zip(&kernels).try_for_each(|(step, kernel)| {
            // SAFETY: as promised by the caller; the kernel's shape and shared memory are those it was loaded for.
            unsafe { kernel.launch(step.grid, queue, step.taken(), &bound) }
        });
        if let Err(error) = started {
            // Nobody would wait for what was started, so it has to end here. What goes into a graph does not start, and
            // to wait for it would spoil the capture.
            if queue.is_captured().is_ok_and(|is_captured| !is_captured) {
                let _ = queue.synchronize();
            }
            return Err(error);
        }
        let point = queue.point();
        for read in launch.reads {
            read.remember(queue, &point, Use::Read);
        }
        for written in launch.writes {
            written.remember(queue, &point, Use::Write);
        }
        if stream.is_none() { queue.synchronize() } else { Ok(()) }
    }

    /// The stream's memory for unfinished sums, of at least this size.
    pub fn hold_workspace<'w>(
        &'w self,
        size: WorkspaceSize,
        stream: Option<&'w CudaStream>,
    ) -> Result<Held<'w>> {
        let stream = stream.unwrap_or(&self.foreground);
        Held::own(stream.workspace(), size, &StreamMemory { device: self, stream })
    }

    /// What a kernel takes of this device, as compiled for it.
    pub fn report(&self, kernel: KernelSource) -> Result<KernelReport> {
        self.kernel(&kernel.code(), None)?.report()
    }

    /// The kernel, loaded on its first use: for a launch on this stream.
    fn kernel(&self, code: &Code, queue: Option<&CudaStream>) -> Result<Arc<LoadedKernel>> {
        let key = (code.name, code.modules.as_ptr().addr());
        if let Some(loaded) = lock(&self.kernels).get(&key) {
            return Ok(Arc::clone(loaded));
        }
        // What the GPU lacks altogether is said before what is too little.
        let module = super::ptx::choose(code.modules, code.name, code.needs, &self.info)?;
        // The driver would refuse it too, but not say what is short.
        self.fits(
            code,
            Resource::SharedMemory,
            code.shared_bytes,
            self.info.shared_bytes_per_block,
        )?;
        if let Some(queue) = queue {
            queue.refuse_capture(
                "loading a kernel",
                "enqueue the same product once on any stream of the device before the capture begins",
            )?;
        }
        // Compiled without the lock, so that other threads can use other kernels meanwhile. Two that need the same one
        // at the same moment both compile it, and one result is kept.
        let loaded = Arc::new(LoadedKernel::load(&self.context, code, module, &self.info)?);
        self.fits(code, Resource::Threads, code.threads, loaded.max_threads)?;
        Ok(Arc::clone(lock(&self.kernels).entry(key).or_insert(loaded)))
    }

    fn fits(&self, code: &Code, resource: Resource, needed: u32, available: u32) -> Result<()> {
        if needed <= available {
            return Ok(());
        }
        Err(Error::KernelDoesNotFit {
            kernel: code.name,
            resource,
            needed: needed.into(),
            available: available.into(),
            device: self.info.name.clone(),
        })
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.release_workspace(&self.foreground);
        // Buffers and streams keep the device alive, so all that is left is what they released, and work on memory of
        // others, which keeps nothing alive: its kernels are unloaded next.
        self.foreign_work().wait_for_all();
        self.free_released(true);
    }
}

/// Locks what no panic can leave half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
