//! Memory with what is known of each place of it.

use crate::sim::accessor::Accessor;
use crate::sim::in_flight::{BeingRead, InFlight};
use crate::sim::objects::Objects;
use crate::sim::operands::{Operands, Warpgroups};
use crate::sim::remote_readers::RemoteReaders;
use crate::sim::shadow::Shadow;
use crate::sim::violation::Violation;

/// Memory with its records.
#[derive(Default)]
pub(super) struct Region {
    pub(super) data: Vec<u8>,
    pub(super) shadow: Shadow,
    pub(super) in_flight: InFlight,
    pub(super) objects: Objects,
    pub(super) operands: Operands,
    pub(super) being_read: BeingRead,
    pub(super) remote_readers: RemoteReaders,
}

impl Region {
    pub(super) fn grow(&mut self, bytes: u32) {
        let bytes = bytes as usize;
        if self.data.len() < bytes {
            self.data.resize(bytes, 0);
        }
        self.shadow.grow(bytes);
        self.in_flight.grow(bytes);
        self.being_read.grow(bytes);
        self.operands.grow(bytes);
    }

    /// Fails where a read of an aligned range meets what runs in the background, or an mbarrier.
    #[inline(always)]
    pub(super) fn readable(&self, offset: usize, bytes: usize) -> Result<(), Violation> {
        self.objects.check(offset, bytes)?;
        self.in_flight.check(offset, bytes)
    }

    /// Fails where a write to an aligned range meets what runs in the background, an mbarrier, or what other blocks
    /// have read.
    #[inline(always)]
    pub(super) fn ready(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        warpgroups: &Warpgroups,
    ) -> Result<(), Violation> {
        self.readable(offset, bytes)?;
        self.being_read.check(offset, bytes)?;
        self.remote_readers.write(offset, bytes, who)?;
        self.operands.check_write(offset, bytes, who, warpgroups)
    }
}
