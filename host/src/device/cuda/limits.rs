//! A GPU's name and limits.

use super::context::{Context, check};
use crate::device::info::{DeviceInfo, DeviceKind};
use crate::error::Result;
use cust::sys;
use cust::sys::CUdevice_attribute_enum as Attribute;
use std::ffi::{CStr, c_char};

/// Room for a device's name; the longest are some 40 bytes.
const NAME_BYTES: usize = 256;

/// Asks the driver.
pub(super) fn read(context: &Context, ordinal: usize) -> Result<DeviceInfo> {
    let get = |which| attribute(context, which);
    let some = |which| get(which).map(|value| (value > 0).then_some(value));
    let mut memory_bytes = 0;
    // SAFETY: the pointer is to a local.
    check("cuDeviceTotalMem", unsafe {
        sys::cuDeviceTotalMem_v2(&mut memory_bytes, context.device())
    })?;
    Ok(DeviceInfo {
        name: name(context)?,
        kind: DeviceKind::Cuda { ordinal },
        compute_capability: Some((
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        )),
        multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock_khz: some(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_bytes: memory_bytes as u64,
        memory_bandwidth: bandwidth(
            get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        ),
        l2_bytes: some(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.map(u64::from),
        max_threads_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_threads_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        )?,
        max_blocks_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
        )?,
        registers_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        )?,
        shared_bytes_per_block: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        shared_bytes_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        driver_version: Some(driver_version()?),
    })
}

/// Bytes a second of a memory with this clock in kHz and this width of the bus in bits, which transfers twice a clock;
/// none where the driver does not know them.
fn bandwidth(clock_khz: u32, bus_bits: u32) -> Option<u64> {
    const TRANSFERS: u64 = 2;
    let bytes_per_second = u64::from(clock_khz) * 1000 * TRANSFERS * u64::from(bus_bits / 8);
    (bytes_per_second > 0).then_some(bytes_per_second)
}

fn attribute(context: &Context, which: Attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the pointer is to a local.
    check("cuDeviceGetAttribute", unsafe {
        sys::cuDeviceGetAttribute(&mut value, which, context.device())
    })?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn name(context: &Context) -> Result<String> {
    let mut bytes = [0u8; NAME_BYTES];
    // SAFETY: the driver writes at most the given number of bytes, the last of them a NUL.
    check("cuDeviceGetName", unsafe {
        sys::cuDeviceGetName(
            bytes.as_mut_ptr().cast::<c_char>(),
            NAME_BYTES as i32,
            context.device(),
        )
    })?;
    let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

/// CUDA version that the driver supports; it reports 12.4 as 12040.
fn driver_version() -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: the pointer is to a local.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    let version = u32::try_from(version).unwrap_or(0);
    Ok((version / 1000, version % 1000 / 10))
}
