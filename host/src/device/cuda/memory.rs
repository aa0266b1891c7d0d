//! Allocation and copies on a GPU.

use super::context::check;
use super::queue::{CudaStream, Point};
use super::{CudaDevice, capture, lock};
use crate::device::pending::{Pending, Use};
use crate::device::workspace::{Memory, Purpose};
use crate::device::{Region, Rows};
use crate::error::{Error, Result};
use cust::sys;
use std::ffi::c_void;

/// Largest distance of rows in a two-dimensional copy, in bytes (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of every GPU).
const MAX_PITCH: u64 = i32::MAX as u64;

impl CudaDevice {
    /// Memory of `bytes` bytes, not zero of them. Gives back what dropped buffers held, and waits for that if memory is
    /// short.
    pub fn alloc(&self, bytes: u64) -> Result<u64> {
        self.free_released(false);
        if let Some(address) = self.try_alloc(bytes)? {
            return Ok(address);
        }
        self.free_released(true);
        if let Some(address) = self.try_alloc(bytes)? {
            return Ok(address);
        }
        Err(Error::OutOfMemory { device: self.spec(), requested: bytes, free: self.free_bytes()? })
    }

    fn try_alloc(&self, bytes: u64) -> Result<Option<u64>> {
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        let _bound = self.context.bind()?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        match unsafe { sys::cuMemAlloc_v2(&mut address, bytes) } {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            code => check("cuMemAlloc", code).map(|()| Some(address)),
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        let _bound = self.context.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to locals.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    /// Frees memory as soon as nothing uses it any more: at once, or at a later allocation or synchronisation, as where
    /// the driver frees nothing because some stream is being captured.
    pub fn release(&self, address: u64, mut pending: Pending<Point>) {
        pending.forget_reached();
        if !pending.is_empty() || !self.free(address) {
            self.released.add(address, pending);
        }
    }

    /// Frees released memory that nothing uses any more, or waits until nothing uses it and frees it all.
    pub(super) fn free_released(&self, wait: bool) {
        self.released.free(wait, |address| self.free(address));
    }

    /// Releases the workspace of a stream that is not used any more, after the work that is on it.
    pub fn release_workspace(&self, stream: &CudaStream) {
        let workspace = std::mem::take(&mut *lock(stream.workspace()));
        let point = stream.point();
        for address in workspace.addresses() {
            if workspace.is_in_graph() {
                self.context.keep_memory(address);
            } else {
                let mut pending = Pending::default();
                pending.add(stream.id(), &point, Use::Write);
                self.release(address, pending);
            }
        }
    }

    /// Whether memory is done with: not where a capture is in the way. In a context that a faulty kernel has broken
    /// this fails, and the memory goes with the context.
    fn free(&self, address: u64) -> bool {
        let Ok(_bound) = self.context.bind() else { return true };
        // SAFETY: the address came from `cuMemAlloc` and nothing uses the memory.
        let freed = check("cuMemFree", unsafe { sys::cuMemFree_v2(address) });
        freed.map_or_else(|error| !capture::is_in_the_way(&error), |()| true)
    }

    /// Copies rows to the host, without gaps; complete on return.
    pub fn read_rows(&self, from: Rows, to: &mut [u8]) -> Result<()> {
        let host = to.as_mut_ptr();
        assert!(to.len() as u64 >= from.row_bytes * from.rows);
        self.copy(from, |part, offset, stream| {
            // SAFETY: the parts tile the rows, and the slice has room for all of them.
            unsafe {
                let host = host.add(offset).cast::<c_void>();
                if part.rows == 1 {
                    let bytes = part.row_bytes as usize;
                    check("cuMemcpyDtoHAsync", {
                        sys::cuMemcpyDtoHAsync_v2(host, part.address, bytes, stream)
                    })
                } else {
                    let copy = sys::CUDA_MEMCPY2D {
                        dstMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST,
                        dstHost: host,
                        dstPitch: part.row_bytes as usize,
                        ..device_side(part, sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE)
                    };
                    check("cuMemcpy2DAsync", sys::cuMemcpy2DAsync_v2(&copy, stream))
                }
            }
        })
    }

    /// Copies rows without gaps from the host; complete on return.
    pub fn write_rows(&self, from: &[u8], to: Rows) -> Result<()> {
        let host = from.as_ptr();
        assert!(from.len() as u64 >= to.row_bytes * to.rows);
        self.copy(to, |part, offset, stream| {
            // SAFETY: the parts tile the rows, and the slice holds all of them.
            unsafe {
                let host = host.add(offset).cast::<c_void>();
                if part.rows == 1 {
                    let bytes = part.row_bytes as usize;
                    check("cuMemcpyHtoDAsync", {
                        sys::cuMemcpyHtoDAsync_v2(part.address, host, bytes, stream)
                    })
                } else {
                    let copy = sys::CUDA_MEMCPY2D {
                        srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST,
                        srcHost: host,
                        srcPitch: part.row_bytes as usize,
                        ..device_side(part, sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE)
                    };
                    check("cuMemcpy2DAsync", sys::cuMemcpy2DAsync_v2(&copy, stream))
                }
            }
        })
    }

    /// Sets bytes to zero; complete on return.
    pub fn zero(&self, address: u64, bytes: u64) -> Result<()> {
        let _bound = self.context.bind()?;
        // SAFETY: the caller owns the memory.
        check("cuMemsetD8Async", unsafe {
            sys::cuMemsetD8Async(address, 0, bytes as usize, self.copies.raw())
        })?;
        self.copies.synchronize()
    }

    /// Copies rows within the device's memory, each of one of these regions: on a stream, or on none and to the end.
    /// The copy starts after all earlier work on their memory.
    pub fn move_rows(
        &self,
        [from, to]: [Rows; 2],
        [read, written]: [Region<'_>; 2],
        stream: Option<&CudaStream>,
    ) -> Result<()> {
        let queue = stream.unwrap_or(&self.foreground);
        let _bound = self.context.bind()?;
        read.order_on(queue, Use::Read)?;
        written.order_on(queue, Use::Write)?;
        let started = if from.rows > 1 && from.pitch.max(to.pitch) <= MAX_PITCH {
            let device = sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE;
            let copy = sys::CUDA_MEMCPY2D {
                dstDevice: to.address,
                dstPitch: to.pitch as usize,
                ..device_side(from, device)
            };
            // SAFETY: the caller has views of the rows.
            check("cuMemcpy2DAsync", unsafe { sys::cuMemcpy2DAsync_v2(&copy, queue.raw()) })
        } else {
            (0..from.rows).try_for_each(|row| {
                let at = |rows: Rows| rows.address + row * rows.pitch;
                let bytes = from.row_bytes as usize;
                // SAFETY: as above.
                check("cuMemcpyDtoDAsync", unsafe {
                    sys::cuMemcpyDtoDAsync_v2(at(to), at(from), bytes, queue.raw())
                })
            })
        };
        // Also after a failure, before which some rows may have been put on the stream.
        let point = queue.point();
        read.remember(queue, &point, Use::Read);
        written.remember(queue, &point, Use::Write);
        started?;
        if stream.is_none() { queue.synchronize() } else { Ok(()) }
    }

    /// Copies all rows in one part, or each in a part of its own where they are too far apart, and waits for the end.
    /// `copy` takes a part, its offset on the host, and a stream.
    ///
    /// Not the driver's synchronous copies: from pageable memory those may return before the last bytes have arrived,
    /// and our streams do not wait for the default stream.
    fn copy(
        &self,
        rows: Rows,
        copy: impl Fn(Rows, usize, sys::CUstream) -> Result<()>,
    ) -> Result<()> {
        let _bound = self.context.bind()?;
        let stream = self.copies.raw();
        let started = if rows.rows == 1 || rows.pitch <= MAX_PITCH {
            copy(rows, 0, stream)
        } else {
            (0..rows.rows).try_for_each(|row| {
                let address = rows.address + row * rows.pitch;
                copy(Rows { address, rows: 1, ..rows }, (row * rows.row_bytes) as usize, stream)
            })
        };
        // Also after a failure: the copies before it use the host's memory.
        let finished = self.copies.synchronize();
        started.and(finished)
    }
}

/// Memory for the work of one stream.
pub(super) struct StreamMemory<'a> {
    pub device: &'a CudaDevice,
    pub stream: &'a CudaStream,
}

impl Memory for StreamMemory<'_> {
    fn settle(&self, purpose: Purpose) -> Result<()> {
        let (needed, remedy) = purpose.in_capture();
        self.stream.refuse_capture(needed, remedy)?;
        self.stream.synchronize()
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        self.device.alloc(bytes)
    }

    fn free(&self, address: u64) {
        self.device.release(address, Pending::default());
    }

    fn is_captured(&self) -> Result<bool> {
        self.stream.is_captured()
    }

    fn keep(&self, address: u64) {
        self.device.context.keep_memory(address);
    }

    fn zero(&self, address: u64, words: u64) -> Result<()> {
        let _bound = self.device.context.bind()?;
        // SAFETY: the words were allocated for this stream.
        check("cuMemsetD32Async", unsafe {
            sys::cuMemsetD32Async(address, 0, words as usize, self.stream.raw())
        })
    }
}

/// A two-dimensional copy with this device memory on both sides; the caller replaces one of them.
fn device_side(rows: Rows, device: sys::CUmemorytype_enum) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: device,
        srcHost: std::ptr::null(),
        srcDevice: rows.address,
        srcArray: std::ptr::null_mut(),
        srcPitch: rows.pitch as usize,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: device,
        dstHost: std::ptr::null_mut(),
        dstDevice: rows.address,
        dstArray: std::ptr::null_mut(),
        dstPitch: rows.pitch as usize,
        WidthInBytes: rows.row_bytes as usize,
        Height: rows.rows as usize,
    }
}
