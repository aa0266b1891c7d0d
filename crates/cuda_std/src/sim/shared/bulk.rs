//! Shared memory as bulk copies write and read it.

use super::SharedMemory;
use crate::sim::accessor::Accessor;
use crate::sim::violation::Violation;

impl SharedMemory {
    /// Fails where a bulk copy of `who` need not see the last write to an aligned range.
    pub(in crate::sim) fn check_fenced(
        &mut self,
        address: u32,
        bytes: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<(), Violation>> {
        let first_epoch = self.first_epoch;
        let fences = std::mem::take(&mut self.fences);
        let checked = self.locate(address, bytes).map(|(region, offset)| {
            region.shadow.check_fenced(offset, bytes as usize, first_epoch, |agent, clock| {
                fences.cover(agent, clock, who)
            })
        });
        self.fences = fences;
        checked
    }

    /// Begins a bulk load to an aligned range, which comes after all earlier writes only where those have been fenced;
    /// else as [`begin_copy`](Self::begin_copy).
    pub(in crate::sim) fn begin_load(
        &mut self,
        address: u32,
        bytes: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<(), Violation>> {
        let (region, offset) = self.locate(address, bytes)?;
        if let Err(violation) = region.objects.check(offset, bytes as usize) {
            return Some(Err(violation));
        }
        if let Err(violation) = self.check_fenced(address, bytes, who)? {
            return Some(Err(violation));
        }
        self.begin_copy(address, bytes, who)
    }

    /// Ends a bulk load that has begun: from now on it is a store that `agent` has made at `clock`.
    pub(in crate::sim) fn end_load(&mut self, address: u32, bytes: &[u8], agent: u32, clock: u32) {
        let epoch = self.epoch;
        let Some((region, offset)) = self.locate(address, bytes.len() as u32) else { return };
        region.in_flight.end(offset, bytes.len());
        region.shadow.write_instead(offset, bytes.len(), agent, clock, epoch);
        region.data[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Begins a bulk store from an aligned range, which it reads at any time from now on.
    pub(in crate::sim) fn begin_store<V: Copy>(
        &mut self,
        address: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<V, Violation>> {
        let bytes = size_of::<V>() as u32;
        let value = match self.read(address, who)? {
            Ok(value) => value,
            violation => return Some(violation),
        };
        if let Err(violation) = self.check_fenced(address, bytes, who)? {
            return Some(Err(violation));
        }
        let (region, offset) = self.locate(address, bytes)?;
        region.being_read.begin(offset, bytes as usize, who.thread);
        Some(Ok(value))
    }

    /// Ends a bulk store that has begun, with a read of `who` at its present clock.
    pub(in crate::sim) fn end_store<V: Copy>(
        &mut self,
        address: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<V, Violation>> {
        let bytes = size_of::<V>();
        let (region, offset) = self.locate(address, bytes as u32)?;
        region.being_read.end(offset, bytes);
        self.read(address, who)
    }
}
