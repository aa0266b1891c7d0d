//! Tensor maps. A map of the stand-in is the tensor's address and nothing else.

use super::{INVALID_VALUE, SUCCESS, log, setting};
use std::slice::from_raw_parts;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut u64,
    kind: i32,
    rank: u32,
    address: u64,
    dims: *const u64,
    strides: *const u64,
    boxes: *const u32,
    steps: *const u32,
    interleave: i32,
    swizzle: i32,
    promotion: i32,
    fill: i32,
) -> i32 {
    let too_old = setting("FAKE_CUDA_CAPABILITY", "9.0").as_str() < "9.0";
    let aligned = map.addr().is_multiple_of(64) && address.is_multiple_of(16);
    if too_old || !aligned || !(1..=5).contains(&rank) {
        return INVALID_VALUE;
    }
    let rank = rank as usize;
    let (dims, strides) =
        unsafe { (from_raw_parts(dims, rank), from_raw_parts(strides, rank - 1)) };
    let (boxes, steps) = unsafe { (from_raw_parts(boxes, rank), from_raw_parts(steps, rank)) };
    log(format!(
        "tensor map type {kind} dims {dims:?} strides {strides:?} box {boxes:?} steps {steps:?} interleave {interleave} \
         swizzle {swizzle} promotion {promotion} fill {fill}"
    ));
    unsafe {
        map.write_bytes(0, 16);
        *map = address;
    }
    SUCCESS
}
