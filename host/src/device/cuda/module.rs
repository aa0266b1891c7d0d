//! PTX modules: the driver compiles one when a kernel is first used.

use super::context::{Bound, Context, check, check_code};
use super::queue::CudaStream;
use crate::device::Code;
use crate::device::info::DeviceInfo;
use crate::device::ptx::PtxModule;
use crate::device::report::KernelReport;
use crate::error::{Error, Result};
use cuda_driver::newer::{self, LaunchAttribute, LaunchConfig, LaunchKernelEx};
use cust::sys;
use cust::sys::CUfunction_attribute_enum as Attribute;
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

/// Dynamic shared memory that a launch may ask for without an attribute on the function, in bytes (CUDA C++ Programming
/// Guide, "Shared Memory" of compute capability 7.x and newer).
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// Room for the compiler's message when it refuses a module.
const LOG_BYTES: usize = 8 << 10;

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, whose value is 1 where the launch may begin before the one
/// before it on its stream has ended.
const EARLY_START: LaunchAttribute =
    LaunchAttribute { id: 6, padding: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] };

/// First version of CUDA in which graphs can capture such launches.
const EARLY_STARTS_IN_GRAPHS: (u32, u32) = (12, 3);

/// What a kernel waits with for the launch before its own.
const WAIT: &str = "griddepcontrol.wait";

/// A compiled kernel.
pub(super) struct LoadedKernel {
    module: sys::CUmodule,
    function: sys::CUfunction,
    threads: u32,
    shared_bytes: u32,
    arch: &'static str,
    /// Most threads that a block can have with the registers this kernel uses.
    pub max_threads: u32,
    /// The driver's function for launches that may begin early, where this kernel may.
    launch_early: Option<LaunchKernelEx>,
    context: Arc<Context>,
}

// SAFETY: the driver may be called with a module and its functions from any thread.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above; nothing changes the function after it is loaded.
unsafe impl Sync for LoadedKernel {}

impl LoadedKernel {
    /// Compiles a module and finds the kernel in it.
    pub fn load(
        context: &Arc<Context>,
        kernel: &Code,
        ptx: &PtxModule,
        device: &DeviceInfo,
    ) -> Result<Self> {
        let text = ptx.text()?;
        let _bound = context.bind()?;
        // PTX of older architectures does not wait, whatever GPU it runs on.
        let early = kernel.entry.early_start
            && text.contains(WAIT)
            && device.driver_version >= Some(EARLY_STARTS_IN_GRAPHS);
        let mut loaded = LoadedKernel {
            module: compile(ptx, text)?,
            function: ptr::null_mut(),
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes,
            arch: ptx.arch,
            max_threads: 0,
            launch_early: early.then(newer::launch_kernel_ex).flatten(),
            context: Arc::clone(context),
        };
        let name = nul_terminated(kernel.name.to_owned());
        // SAFETY: the pointers are to a local and to a string that ends in a NUL.
        check("cuModuleGetFunction", unsafe {
            sys::cuModuleGetFunction(&mut loaded.function, loaded.module, name.as_ptr())
        })?;
        loaded.max_threads =
            loaded.attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        if loaded.shared_bytes > DEFAULT_SHARED_BYTES {
            // SAFETY: the function lives. `CudaDevice` has checked the bytes against the device's limit, far below
            // 2^31.
            check("cuFuncSetAttribute", unsafe {
                sys::cuFuncSetAttribute(
                    loaded.function,
                    Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    loaded.shared_bytes as i32,
                )
            })?;
        }
        Ok(loaded)
    }

    /// Puts a launch of so many blocks along x, y and z on a stream.
    ///
    /// # Safety
    /// `arguments` point to the kernel's parameters, and the memory in them stays valid until the kernel is done.
    pub unsafe fn launch(
        &self,
        [blocks_x, blocks_y, blocks_z]: [u32; 3],
        stream: &CudaStream,
        arguments: &[*const c_void],
        _bound: &Bound<'_>,
    ) -> Result<()> {
        let mut arguments: SmallVec<[_; 4]> =
            arguments.iter().map(|argument| argument.cast_mut()).collect();
        let Some(launch_early) = self.launch_early else {
            // SAFETY: as promised by the caller; the driver copies the parameters before it returns.
            return check("cuLaunchKernel", unsafe {
                sys::cuLaunchKernel(
                    self.function,
                    blocks_x,
                    blocks_y,
                    blocks_z,
                    self.threads,
                    1,
                    1,
                    self.shared_bytes,
                    stream.raw(),
                    arguments.as_mut_ptr(),
                    ptr::null_mut(),
                )
            });
        };
        let mut attributes = [EARLY_START];
        let config = LaunchConfig {
            grid_dim: [blocks_x, blocks_y, blocks_z],
            block_dim: [self.threads, 1, 1],
            shared_mem_bytes: self.shared_bytes,
            stream: stream.raw().cast(),
            attributes: attributes.as_mut_ptr(),
            attribute_count: attributes.len() as u32,
        };
        // SAFETY: as above; the kernel waits for earlier launches before it touches memory. The driver reads the
        // attributes, which live, before it returns.
        check_code("cuLaunchKernelEx", unsafe {
            launch_early(&config, self.function.cast(), arguments.as_mut_ptr(), ptr::null_mut())
        })
    }

    pub fn report(&self) -> Result<KernelReport> {
        let _bound = self.context.bind()?;
        let mut resident = 0;
        // SAFETY: the pointer is to a local and the function lives.
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut resident,
                self.function,
                self.threads as i32,
                self.shared_bytes as usize,
            )
        })?;
        let get = |which| self.attribute(which).map(Some);
        Ok(KernelReport {
            registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            static_shared_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            dynamic_shared_bytes: self.shared_bytes,
            local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            max_threads: Some(self.max_threads),
            resident_blocks: u32::try_from(resident).ok(),
            arch: Some(self.arch),
        })
    }

    fn attribute(&self, which: Attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the pointer is to a local and the function lives.
        check("cuFuncGetAttribute", unsafe {
            sys::cuFuncGetAttribute(&mut value, which, self.function)
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

impl Drop for LoadedKernel {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: loaded once. Whoever drops this has waited for its launches: `CudaDevice` drops its kernels after
            // all work on buffers and on memory of others. By now nobody launches graphs with them.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

/// Loads a module, whose text this is, into the current context; an error carries the compiler's message.
fn compile(ptx: &PtxModule, text: String) -> Result<sys::CUmodule> {
    use sys::CUjit_option_enum as Option;
    let source = nul_terminated(text);
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [Option::CU_JIT_ERROR_LOG_BUFFER, Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes small values in the place of the pointer.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES)];
    let mut module = ptr::null_mut();
    // SAFETY: the source ends in a NUL, and the log has the room that the options say.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            source.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    check("cuModuleLoadDataEx", code).map(|()| module).map_err(|error| match error {
        Error::Cuda { call, code, name, text } => {
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_matches(|c: char| c == '\0' || c.is_whitespace());
            let text = format!("{text} (kernel {}, {}) {log}", ptx.entry, ptx.arch);
            Error::Cuda { call, code, name, text: text.trim_end().to_owned() }
        }
        other => other,
    })
}

/// Adds a NUL at the end. Text with a NUL inside is cut there, which is where the driver would stop reading.
fn nul_terminated(mut text: String) -> CString {
    text.truncate(text.find('\0').unwrap_or(text.len()));
    CString::new(text).unwrap_or_default()
}
