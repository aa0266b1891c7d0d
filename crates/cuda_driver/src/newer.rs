//! Functions of newer drivers that `cust` has no bindings for. Each is `None` where there is no driver or the driver is
//! older than the function. Structures are those of `cuda.h`, CUDA 12.0; field and parameter names follow it.

use crate::library::lookup;
use core::ffi::c_void;
use core::mem::transmute;

/// `CUtensorMap`: describes a tensor in global memory to the bulk copy unit of sm_90 and newer.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct TensorMap {
    /// Opaque to everyone but the driver and the hardware.
    pub opaque: [u64; 16],
}

/// `cuTensorMapEncodeTiled` (CUDA 12.0): fills in `tensor_map` for a tensor of `tensor_rank` dimensions, innermost
/// first. `global_strides` are in bytes, multiples of 16, and leave out the innermost dimension.
pub type TensorMapEncodeTiled = unsafe extern "C" fn(
    tensor_map: *mut TensorMap,
    tensor_data_type: i32,
    tensor_rank: u32,
    global_address: *mut c_void,
    global_dim: *const u64,
    global_strides: *const u64,
    box_dim: *const u32,
    element_strides: *const u32,
    interleave: i32,
    swizzle: i32,
    l2_promotion: i32,
    out_of_bounds_fill: i32,
) -> i32;

/// `CUlaunchConfig`: shape and attributes of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid_dim: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block_dim: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared_mem_bytes: u32,
    /// The `CUstream`.
    pub stream: *mut c_void,
    /// The attributes; may be null where there are none.
    pub attributes: *mut LaunchAttribute,
    /// Number of attributes.
    pub attribute_count: u32,
}

/// `CUlaunchAttribute`: for example the size of a cluster.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`
    pub id: i32,
    /// Unused bytes.
    pub padding: u32,
    /// `CUlaunchAttributeValue`, a union of 64 bytes.
    pub value: [u64; 8],
}

/// `cuLaunchKernelEx` (CUDA 11.8): a launch with attributes.
pub type LaunchKernelEx = unsafe extern "C" fn(
    config: *const LaunchConfig,
    function: *mut c_void,
    kernel_parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> i32;

/// `cuStreamIsCapturing` (CUDA 10.0): writes the `CUstreamCaptureStatus` of a stream.
pub type StreamIsCapturing =
    unsafe extern "C" fn(stream: *mut c_void, capture_status: *mut i32) -> i32;

/// `cuStreamGetCaptureInfo` (CUDA 10.1): writes the `CUstreamCaptureStatus` of a stream and, where it is being
/// captured, a number that all streams of the same capture have.
pub type StreamGetCaptureInfo =
    unsafe extern "C" fn(stream: *mut c_void, capture_status: *mut i32, id: *mut u64) -> i32;

/// `CU_STREAM_CAPTURE_STATUS_NONE`
pub const STREAM_CAPTURE_STATUS_NONE: i32 = 0;

/// `cuThreadExchangeStreamCaptureMode` (CUDA 10.1): sets the calling thread's `CUstreamCaptureMode` and gives the one
/// before.
pub type ThreadExchangeStreamCaptureMode = unsafe extern "C" fn(mode: *mut i32) -> i32;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
pub const STREAM_CAPTURE_MODE_RELAXED: i32 = 2;

/// The driver's `cuTensorMapEncodeTiled`.
pub fn tensor_map_encode_tiled() -> Option<TensorMapEncodeTiled> {
    let function = lookup("cuTensorMapEncodeTiled")?;
    // SAFETY: the driver's function of this name has this signature.
    Some(unsafe { transmute::<*mut c_void, TensorMapEncodeTiled>(function.as_ptr()) })
}

/// The driver's `cuLaunchKernelEx`.
pub fn launch_kernel_ex() -> Option<LaunchKernelEx> {
    let function = lookup("cuLaunchKernelEx")?;
    // SAFETY: the driver's function of this name has this signature.
    Some(unsafe { transmute::<*mut c_void, LaunchKernelEx>(function.as_ptr()) })
}

/// The driver's `cuStreamIsCapturing`.
pub fn stream_is_capturing() -> Option<StreamIsCapturing> {
    let function = lookup("cuStreamIsCapturing")?;
    // SAFETY: the driver's function of this name has this signature.
    Some(unsafe { transmute::<*mut c_void, StreamIsCapturing>(function.as_ptr()) })
}

/// The driver's `cuStreamGetCaptureInfo`.
pub fn stream_get_capture_info() -> Option<StreamGetCaptureInfo> {
    let function = lookup("cuStreamGetCaptureInfo")?;
    // SAFETY: the driver's function of this name has this signature.
    Some(unsafe { transmute::<*mut c_void, StreamGetCaptureInfo>(function.as_ptr()) })
}

/// The driver's `cuThreadExchangeStreamCaptureMode`.
pub fn thread_exchange_stream_capture_mode() -> Option<ThreadExchangeStreamCaptureMode> {
    let function = lookup("cuThreadExchangeStreamCaptureMode")?;
    // SAFETY: the driver's function of this name has this signature.
    Some(unsafe { transmute::<*mut c_void, ThreadExchangeStreamCaptureMode>(function.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!((size_of::<TensorMap>(), align_of::<TensorMap>()), (128, 64));
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(core::mem::offset_of!(LaunchConfig, stream), 32);
        assert_eq!(size_of::<LaunchConfig>(), 56);
    }
}
