//! Allocations and copies.

use super::{
    CAPTURE_UNSUPPORTED, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, device_memory, log, spoils_capture,
    state,
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> i32 {
    if spoils_capture() {
        return CAPTURE_UNSUPPORTED;
    }
    with!(|state| {
        let used: usize = state.allocations.values().map(|memory| memory.len()).sum();
        if bytes > device_memory() - used {
            return OUT_OF_MEMORY;
        }
        let memory = vec![0u8; bytes].into_boxed_slice();
        unsafe { *address = memory.as_ptr() as u64 };
        state.allocations.insert(memory.as_ptr() as u64, memory);
    });
    log(format!("alloc {bytes}"));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> i32 {
    if spoils_capture() {
        return CAPTURE_UNSUPPORTED;
    }
    match with!(|state| state.allocations.remove(&address)) {
        Some(memory) => log(format!("free {}", memory.len())),
        None => return INVALID_VALUE,
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> i32 {
    let used: usize = with!(|state| state.allocations.values().map(|memory| memory.len()).sum());
    unsafe {
        *free = device_memory() - used;
        *total = device_memory();
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const u8,
    bytes: usize,
    _stream: usize,
) -> i32 {
    log(format!("write {bytes}"));
    unsafe { (to as *mut u8).copy_from_nonoverlapping(from, bytes) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut u8,
    from: u64,
    bytes: usize,
    _stream: usize,
) -> i32 {
    log(format!("read {bytes}"));
    unsafe { to.copy_from_nonoverlapping(from as *const u8, bytes) };
    SUCCESS
}

/// `CUDA_MEMCPY2D`, one side of it; memory type 1 is the host, 2 the device.
#[repr(C)]
pub struct Side {
    x: usize,
    y: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

impl Side {
    fn address(&self) -> u64 {
        assert_eq!((self.x, self.y), (0, 0));
        if self.kind == 1 { self.host } else { self.device }
    }
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
pub struct Copy2D {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const Copy2D, _stream: usize) -> i32 {
    let Copy2D { from, to, width, height } = unsafe { &*copy };
    log(format!("copy {width} x {height}"));
    for row in 0..*height {
        let from = from.address() as usize + row * from.pitch;
        let to = to.address() as usize + row * to.pitch;
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, *width) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: usize,
) -> i32 {
    log(format!("move {bytes} on stream {stream}"));
    unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, _stream: usize) -> i32 {
    log(format!("set {count} bytes"));
    unsafe { std::slice::from_raw_parts_mut(to as *mut u8, count) }.fill(value);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32Async(
    to: u64,
    value: u32,
    count: usize,
    _stream: usize,
) -> i32 {
    log(format!("set {count} words"));
    unsafe { std::slice::from_raw_parts_mut(to as *mut u32, count) }.fill(value);
    SUCCESS
}
