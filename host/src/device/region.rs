//! Memory that work uses: this library's own, or somebody else's.

use super::cuda::queue::{CudaStream, Point};
use super::pending::{Marker, Use};
use super::{Buffer, Device, Machine};
use crate::error::Result;
use std::ops::Range;

/// Memory that work uses, with what is outstanding on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Region<'a> {
    /// In a buffer of this library.
    Owned(&'a Buffer),
    /// Somebody else's: addresses on a device, from `start` to before `end`. The device remembers the work that this
    /// library puts on it.
    Foreign { device: &'a Device, start: u64, end: u64 },
}

impl<'a> Region<'a> {
    pub fn device(&self) -> &'a Device {
        match *self {
            Region::Owned(buffer) => buffer.device(),
            Region::Foreign { device, .. } => device,
        }
    }

    /// Blocks until the host may use the memory this way.
    pub fn finish(&self, kind: Use) -> Result<()> {
        match self {
            Region::Owned(buffer) => buffer.finish(kind),
            Region::Foreign { .. } => {
                let before = self.foreign(|work, addresses| work.before(addresses, kind, None));
                before.iter().flatten().try_for_each(Marker::wait)
            }
        }
    }

    /// Makes `stream` wait for all work that has to come before this use.
    pub fn order_on(&self, stream: &CudaStream, kind: Use) -> Result<()> {
        match self {
            Region::Owned(buffer) => buffer.order_on(stream, kind),
            Region::Foreign { .. } => {
                let id = Some(stream.id());
                let before = self.foreign(|work, addresses| work.before(addresses, kind, id));
                before.iter().flatten().try_for_each(|point| stream.wait_for(point))
            }
        }
    }

    /// Remembers work on `stream` that ends at `point`.
    pub fn remember(&self, stream: &CudaStream, point: &Point, kind: Use) {
        match self {
            Region::Owned(buffer) => buffer.remember(stream, point, kind),
            Region::Foreign { .. } => {
                self.foreign(|work, addresses| work.add(addresses, stream.id(), point, kind));
            }
        }
    }

    /// What the device remembers of somebody else's memory; nothing of its own, and nothing on the simulator, where
    /// work is done at once.
    fn foreign<R>(
        &self,
        call: impl FnOnce(&mut super::foreign::ForeignWork<Point>, Range<u64>) -> R,
    ) -> Option<R> {
        match *self {
            Region::Foreign { device, start, end } => match device.machine() {
                Machine::Cuda(cuda) => Some(call(&mut cuda.foreign_work(), start..end)),
                Machine::Sim(_) => None,
            },
            Region::Owned(_) => None,
        }
    }
}

impl<'a> From<&'a Buffer> for Region<'a> {
    fn from(buffer: &'a Buffer) -> Self {
        Region::Owned(buffer)
    }
}
