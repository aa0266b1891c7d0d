//! A stand-in for `libcuda.so.1`, compiled by tests. It keeps "device" memory in host memory, computes nothing, and
//! appends what it was asked to do to the file that `FAKE_CUDA_LOG` names.
//!
//! Work never finishes by itself here: an event is reached when somebody waits for it, its stream or everything. So the
//! log shows whether the caller waits where it has to.
//!
//! Settings in the environment:
//!
//! | `FAKE_CUDA_..` | what it is | unless set |
//! |---|---|---|
//! | `VERSION` | what the driver supports; it is compiled with `--cfg=before_cuda_11` where that is before 11000 | 12040 |
//! | `CAPABILITY` | compute capability | 9.0 |
//! | `DEVICES` | number of GPUs | 1 |
//! | `MEMORY` | bytes of a GPU | 1048576 |
//! | `SHARED` | bytes of a block that asks for them | 232448 |
//! | `UNKNOWN` | numbers of attributes that the driver does not know, with blanks between | |
//! | `INIT` | the code that `cuInit` answers with | 0 |
//! | `STREAM_DESTROY` | the code that `cuStreamDestroy_v2` answers with | 0 |
//! | `IS_CAPTURING` | the code that `cuStreamIsCapturing` answers with | 0 |
//! | `REFUSE_PTX` | a message: modules are refused with it | |
//! | `REFUSE_LAUNCH` | a kernel that is not launched | |
//! | `FAULT` | anything: all kernels are at fault, which whoever asks or waits for their work is told | |
//! | `HOLD_QUERY` | a file: the first question whether an event is reached is not answered before it is there | |
//! | `CAPTURE_AT_RECORD` | anything: somebody begins to capture a stream just before the first event is recorded on it | |
//! | `LOG_CALLS` | anything: the log has the calls for contexts and events too | |
#![allow(non_snake_case)]
// The signatures are those of `cuda.h`, and the callers of a test double are the tests.
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::sync::{Mutex, MutexGuard};

const SUCCESS: i32 = 0;
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const INVALID_PTX: i32 = 218;
const NOT_READY: i32 = 600;
/// `CUDA_ERROR_ILLEGAL_ADDRESS`
const ILLEGAL_ADDRESS: i32 = 700;
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`
const CAPTURE_UNSUPPORTED: i32 = 900;
/// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`
const CAPTURE_INVALIDATED: i32 = 901;
/// `CUDA_ERROR_CAPTURED_EVENT`
const CAPTURED_EVENT: i32 = 907;
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`, which `cust` does not know.
const DEVICE_UNAVAILABLE: i32 = 46;

#[derive(Default)]
struct State {
    next: usize,
    allocations: HashMap<u64, Box<[u8]>>,
    /// The stream that each event was recorded on, and whether it is reached.
    events: HashMap<usize, (usize, bool)>,
    /// The events that were recorded last in a capture.
    captured_events: HashSet<usize>,
    /// Whether somebody has begun a capture just before an event was recorded.
    has_interfered: bool,
    /// Whether a question was held back.
    has_held: bool,
    functions: HashMap<usize, String>,
    contexts: usize,
    /// The stream that is being captured in a graph.
    capturing: Option<usize>,
    /// Others that have waited for an event of the capture.
    joined: Vec<usize>,
    /// Whether the capture is lost, because something was asked that a graph cannot hold.
    is_capture_lost: bool,
    /// Whether a kernel was launched that is at fault.
    is_faulty: bool,
    /// Whether the only thread may do what a graph cannot hold on other streams meanwhile.
    is_relaxed: bool,
}

impl State {
    fn is_capturing(&self, stream: usize) -> bool {
        self.capturing == Some(stream) || self.joined.contains(&stream)
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    let mut state = STATE.lock().unwrap();
    state.get_or_insert_with(State::default);
    state
}

macro_rules! with {
    (|$state:ident| $body:expr) => {{
        let mut guard = state();
        let $state = guard.as_mut().unwrap();
        $body
    }};
}

mod memory;
mod queue;
mod tensor_map;

fn log(line: String) {
    if let Ok(path) = std::env::var("FAKE_CUDA_LOG") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

/// Notes a call that most tests do not care for.
fn call(name: &str) {
    if std::env::var_os("FAKE_CUDA_LOG_CALLS").is_some() {
        log(format!("call {name}"));
    }
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Version of CUDA that the driver supports.
fn version() -> i32 {
    setting("FAKE_CUDA_VERSION", "12040").parse().unwrap()
}

/// The code that a function answers with.
fn answer(name: &str) -> i32 {
    setting(name, "0").parse().unwrap()
}

/// Bytes of device memory.
fn device_memory() -> usize {
    setting("FAKE_CUDA_MEMORY", "1048576").parse().unwrap()
}

/// Most bytes of shared memory of a block.
fn shared_memory() -> i32 {
    setting("FAKE_CUDA_SHARED", "232448").parse().unwrap()
}

/// Whether a stream is being captured, in the mode in which no thread may do what a graph cannot hold, as the caller
/// has: then the capture is lost.
fn spoils_capture() -> bool {
    with!(|state| {
        state.is_capture_lost |= state.capturing.is_some();
        state.capturing.is_some()
    })
}

fn new_handle() -> usize {
    with!(|state| {
        state.next += 1;
        state.next
    })
}

unsafe fn text(pointer: *const c_char) -> String {
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> i32 {
    answer("FAKE_CUDA_INIT")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    unsafe { *version = self::version() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: i32, out: *mut *const c_char) -> i32 {
    let name = match code {
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        DEVICE_UNAVAILABLE => c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        _ => return INVALID_VALUE,
    };
    unsafe { *out = name.as_ptr() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: i32, out: *mut *const c_char) -> i32 {
    unsafe { cuGetErrorName(code, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> i32 {
    unsafe { *count = setting("FAKE_CUDA_DEVICES", "1").parse().unwrap() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> i32 {
    unsafe { *device = ordinal };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, _len: i32, _device: i32) -> i32 {
    let text = c"Fake GPU".to_bytes_with_nul();
    unsafe { name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, which: i32, _device: i32) -> i32 {
    let unknown = setting("FAKE_CUDA_UNKNOWN", "");
    if unknown.split_whitespace().any(|unknown| unknown.parse() == Ok(which)) {
        return INVALID_VALUE;
    }
    let capability = setting("FAKE_CUDA_CAPABILITY", "9.0");
    let (major, minor) = capability.split_once('.').unwrap();
    let answer = match which {
        1 => 1024,
        13 => 1_980_000,
        16 => 131,
        36 => 3_201_000,
        37 => 6144,
        38 => 50 << 20,
        39 => 2048,
        75 => major.parse().unwrap(),
        76 => minor.parse().unwrap(),
        81 => 228 << 10,
        82 => 64 << 10,
        97 => shared_memory(),
        // Nobody could ask for it before.
        106 if version() >= 11_000 => 32,
        _ => return INVALID_VALUE,
    };
    unsafe { *value = answer };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: i32) -> i32 {
    unsafe { *bytes = device_memory() };
    SUCCESS
}

/// The first GPU is free; the others are in use by somebody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> i32 {
    if device != 0 {
        return DEVICE_UNAVAILABLE;
    }
    unsafe { *context = 1 };
    log("retain".into());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease(_device: i32) -> i32 {
    log("release".into());
    SUCCESS
}

/// Its name since CUDA 11.0, beside the older one.
#[cfg(not(before_cuda_11))]
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    cuDevicePrimaryCtxRelease(device)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(_context: usize) -> i32 {
    call("cuCtxPushCurrent_v2");
    with!(|state| state.contexts += 1);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(_context: *mut usize) -> i32 {
    call("cuCtxPopCurrent_v2");
    with!(|state| state.contexts -= 1);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> i32 {
    log("synchronize".into());
    with!(|state| state.events.values_mut().for_each(|(_, reached)| *reached = true));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut usize,
    image: *const c_char,
    count: u32,
    options: *const i32,
    values: *const *mut c_void,
) -> i32 {
    const ERROR_LOG_BUFFER: i32 = 5;
    if spoils_capture() {
        return CAPTURE_UNSUPPORTED;
    }
    let source = unsafe { text(image) };
    if let Ok(message) = std::env::var("FAKE_CUDA_REFUSE_PTX") {
        for option in 0..count as usize {
            if unsafe { *options.add(option) } == ERROR_LOG_BUFFER {
                let buffer = unsafe { *values.add(option) }.cast::<u8>();
                unsafe { buffer.copy_from_nonoverlapping(message.as_ptr(), message.len()) };
            }
        }
        return INVALID_PTX;
    }
    let target = source.lines().find_map(|line| line.trim().strip_prefix(".target"));
    log(format!("load {}", target.unwrap_or("nothing").trim()));
    unsafe { *module = new_handle() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(_module: usize) -> i32 {
    log("unload".into());
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut usize,
    _module: usize,
    name: *const c_char,
) -> i32 {
    let (handle, name) = (new_handle(), unsafe { text(name) });
    with!(|state| state.functions.insert(handle, name));
    unsafe { *function = handle };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(value: *mut i32, which: i32, _function: usize) -> i32 {
    unsafe { *value = if which == 0 { 1024 } else { 32 } };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(_function: usize, which: i32, value: i32) -> i32 {
    const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;
    if which == MAX_DYNAMIC_SHARED_SIZE_BYTES && value > shared_memory() {
        return INVALID_VALUE;
    }
    log(format!("attribute {which} = {value}"));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut i32,
    _function: usize,
    threads: i32,
    _shared: usize,
) -> i32 {
    unsafe { *blocks = 2048 / threads };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: usize,
    parameters: *const *const c_void,
    extra: *const c_void,
) -> i32 {
    if i64::from(shared) > i64::from(shared_memory()) {
        return INVALID_VALUE;
    }
    let name = with!(|state| state.functions.get(&function).cloned());
    let name = name.unwrap_or_else(|| format!("function {function}"));
    if std::env::var("FAKE_CUDA_REFUSE_LAUNCH").is_ok_and(|refused| refused == name) {
        return INVALID_VALUE;
    }
    with!(|state| state.is_faulty |= std::env::var_os("FAKE_CUDA_FAULT").is_some());
    let parameters = if parameters.is_null() { "without" } else { "with" };
    log(format!(
        "launch {name} {grid_x} {grid_y} {grid_z} x {block_x} {block_y} {block_z} shared {shared} \
         stream {stream} {parameters} parameters, extra {}",
        extra.addr()
    ));
    SUCCESS
}
