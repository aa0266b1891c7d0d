//! Device memory with the work that is outstanding on it.

use super::cuda::queue::{CudaStream, Point};
use super::pending::{Marker, Pending, Use};
use super::stream::Stream;
use super::{Device, Machine, Region};
use crate::error::Result;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Owned device memory.
///
/// The host reaches it through [`Buffer::finish`], which waits for outstanding work; streams through
/// [`Buffer::order_on`] and [`Buffer::remember`]. Dropping it while work is outstanding does not block: the device
/// keeps the memory until the work is done.
pub(crate) struct Buffer {
    device: Device,
    address: u64,
    pending: Mutex<Pending<Point>>,
}

/// Rows of bytes at equal distances in device memory; on the host they have no gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// Address of the first row.
    pub address: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Number of rows.
    pub rows: u64,
}

impl Rows {
    /// One row if there are no gaps, the rows themselves otherwise.
    pub fn merged(self) -> Rows {
        if self.pitch == self.row_bytes || self.rows <= 1 {
            let row_bytes = self.row_bytes * self.rows;
            Rows { row_bytes, pitch: row_bytes, rows: 1, ..self }
        } else {
            self
        }
    }

    /// Whether there is nothing to copy.
    pub fn is_empty(self) -> bool {
        self.row_bytes == 0 || self.rows == 0
    }
}

impl Buffer {
    /// Memory of `bytes` bytes; none at all for zero.
    pub fn new(device: &Device, bytes: u64) -> Result<Buffer> {
        let address = match (bytes, device.machine()) {
            (0, _) => 0,
            (_, Machine::Cuda(cuda)) => cuda.alloc(bytes)?,
            (_, Machine::Sim(sim)) => sim.alloc(bytes)?,
        };
        Ok(Buffer { device: device.clone(), address, pending: Mutex::default() })
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    /// Blocks until the host may use the memory this way.
    pub fn finish(&self, kind: Use) -> Result<()> {
        // The lock is not held while waiting: other threads may go on reading the matrix.
        let before = self.pending().before(kind, None);
        before.iter().try_for_each(Marker::wait)
    }

    /// Makes `stream` wait for all work that has to come before this use.
    pub fn order_on(&self, stream: &CudaStream, kind: Use) -> Result<()> {
        let before = self.pending().before(kind, Some(stream.id()));
        before.iter().try_for_each(|point| stream.wait_for(point))
    }

    /// Remembers work on `stream` that ends at `point`.
    pub fn remember(&self, stream: &CudaStream, point: &Point, kind: Use) {
        self.pending().add(stream.id(), point, kind);
    }

    fn pending(&self) -> MutexGuard<'_, Pending<Point>> {
        // Every change of the list is complete before anything can panic.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x} on {:?})", self.address, self.device)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        match self.device.machine() {
            Machine::Cuda(cuda) => {
                let pending = std::mem::take(&mut *self.pending());
                cuda.release(self.address, pending);
            }
            Machine::Sim(sim) => sim.free(self.address),
        }
    }
}

impl Device {
    /// Copies rows to the host, without gaps. The caller has waited for outstanding work.
    pub(crate) fn read_rows(&self, from: Rows, to: &mut [u8]) -> Result<()> {
        let from = from.merged();
        if from.is_empty() {
            return Ok(());
        }
        match self.machine() {
            Machine::Cuda(cuda) => cuda.read_rows(from, to),
            Machine::Sim(sim) => sim.read_rows(from, to),
        }
    }

    /// Sets bytes to zero. The caller has waited for outstanding work.
    pub(crate) fn zero(&self, address: u64, bytes: u64) -> Result<()> {
        match self.machine() {
            _ if bytes == 0 => Ok(()),
            Machine::Cuda(cuda) => cuda.zero(address, bytes),
            Machine::Sim(sim) => sim.zero(address, bytes),
        }
    }

    /// Copies rows to as many of the same length, each in one of these regions: on a stream, or on none and to the end.
    /// The copy starts after all earlier work on their memory.
    pub(crate) fn move_rows(
        &self,
        [from, to]: [Rows; 2],
        regions: [Region<'_>; 2],
        stream: Option<&Stream>,
    ) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let merged = [from.merged(), to.merged()];
        let rows = if merged.iter().all(|rows| rows.rows == 1) { merged } else { [from, to] };
        match self.machine() {
            Machine::Cuda(cuda) => cuda.move_rows(rows, regions, stream.and_then(Stream::as_cuda)),
            Machine::Sim(sim) => sim.move_rows(rows),
        }
    }

    /// Copies rows without gaps from the host; gaps on the device are left alone. The caller has waited for outstanding
    /// work.
    pub(crate) fn write_rows(&self, from: &[u8], to: Rows) -> Result<()> {
        let to = to.merged();
        if to.is_empty() {
            return Ok(());
        }
        match self.machine() {
            Machine::Cuda(cuda) => cuda.write_rows(from, to),
            Machine::Sim(sim) => sim.write_rows(from, to),
        }
    }
}
