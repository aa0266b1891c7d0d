//! A GPU's name and limits.

use super::context::{Context, check};
use crate::device::info::{DeviceInfo, DeviceKind};
use crate::error::Result;
use crate::occupancy::Limits;
use cust::sys;
use cust::sys::CUdevice_attribute_enum as Attribute;
use std::ffi::{CStr, c_char};

/// Room for a device's name; the longest are some 40 bytes.
const NAME_BYTES: usize = 256;

/// First version of CUDA whose driver can be asked for the blocks of a multiprocessor.
const BLOCKS_KNOWN: (u32, u32) = (11, 0);

/// Asks the driver.
pub(super) fn read(context: &Context, ordinal: usize) -> Result<DeviceInfo> {
    let get = |which| attribute(context, which);
    // A device works as well without what only says how fast it is.
    let some = |which| get(which).ok().filter(|value| *value > 0);
    let compute_capability = (
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let driver_version = driver_version()?;
    let mut memory_bytes = 0;
    // SAFETY: the pointer is to a local.
    check("cuDeviceTotalMem", unsafe {
        sys::cuDeviceTotalMem_v2(&mut memory_bytes, context.device())
    })?;
    Ok(DeviceInfo {
        name: name(context)?,
        kind: DeviceKind::Cuda { ordinal },
        compute_capability: Some(compute_capability),
        multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock_khz: some(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        memory_bytes: memory_bytes as u64,
        memory_bandwidth: some(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
            .zip(some(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH))
            .map(|(clock_khz, bus_bits)| bandwidth(clock_khz, bus_bits)),
        l2_bytes: some(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).map(u64::from),
        max_threads_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_threads_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        )?,
        max_blocks_per_multiprocessor: if driver_version >= BLOCKS_KNOWN {
            get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?
        } else {
            Limits::of(compute_capability).unwrap_or(Limits::NEWEST).blocks
        },
        registers_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        )?,
        shared_bytes_per_block: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        shared_bytes_per_multiprocessor: get(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        driver_version: Some(driver_version),
    })
}

/// Bytes a second of a memory with this clock in kHz and this width of the bus in bits, which transfers twice a clock.
fn bandwidth(clock_khz: u32, bus_bits: u32) -> u64 {
    const TRANSFERS: u64 = 2;
    u64::from(clock_khz) * 1000 * TRANSFERS * u64::from(bus_bits) / 8
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
