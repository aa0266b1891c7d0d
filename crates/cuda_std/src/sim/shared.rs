//! The shared memory of a block.
//!
//! Static arrays lie from [`STATIC_BASE`] on, dynamic memory at [`DYNAMIC_BASE`]. Static arrays are found while the
//! threads run, so their addresses are given out in the order of the declarations, with a gap after each: running off
//! one array does not end in the next one, as it would on a GPU.

mod bulk;
mod region;
mod statics;

pub(super) use statics::DeclarationError;

use super::accessor::Accessor;
use super::fault::AccessKind;
use super::fences::Fences;
use super::in_flight::Issuer;
use super::limits::WARP_THREADS;
use super::operands::{UNIT, Warpgroups};
use super::record::Write;
use super::violation::Violation;
use region::Region;
use statics::StaticArray;

/// Address of the first static array. The first KiB is not the kernel's, as on GPUs since compute capability 8.0, so
/// that address 0 is never valid.
pub(super) const STATIC_BASE: u32 = 1 << 10;

/// What the address of dynamic shared memory is a multiple of.
pub(super) const DYNAMIC_ALIGNMENT: usize = 1 << 10;

/// Address of dynamic shared memory: a multiple of its alignment, as a block is promised, and of nothing more, as it is
/// on GPUs behind the KiB that is not the kernel's.
pub(crate) const DYNAMIC_BASE: u32 = (1 << 20) + DYNAMIC_ALIGNMENT as u32;

/// Agents of a block of so many threads (see [`clocks`](super::clocks)): the first half are the threads, of whole
/// warps, and the warpgroups, the second what copies for them.
pub(super) fn agents_of(threads: usize) -> usize {
    let warpgroups = threads.div_ceil(crate::wgmma::THREADS as usize);
    2 * (threads.next_multiple_of(WARP_THREADS as usize) + warpgroups)
}

/// The shared memory of the block that runs now.
pub(crate) struct SharedMemory {
    statics: Vec<StaticArray>,
    static_bytes: u32,
    static_region: Region,
    dynamic_bytes: u32,
    dynamic_region: Region,
    /// The interval between barriers that runs now.
    epoch: u32,
    /// The block's first.
    first_epoch: u32,
    /// Agents whose order is tracked across warps: none before the block's first mbarrier.
    agents: usize,
    warpgroups: Warpgroups,
    pub(super) fences: Fences,
    /// For each agent the clock up to which barriers of the cluster have made its writes visible to other blocks.
    released: Vec<u32>,
}

impl SharedMemory {
    pub(super) fn new() -> Self {
        SharedMemory {
            statics: Vec::new(),
            static_bytes: 0,
            static_region: Region::default(),
            dynamic_bytes: 0,
            dynamic_region: Region::default(),
            epoch: 1,
            first_epoch: 1,
            agents: 0,
            warpgroups: Warpgroups::default(),
            fences: Fences::default(),
            released: Vec::new(),
        }
    }

    /// Gets ready for a launch.
    pub(super) fn begin_launch(&mut self, dynamic_bytes: u32) {
        self.dynamic_bytes = dynamic_bytes;
        self.dynamic_region.grow(dynamic_bytes);
        self.static_region.shadow.unsplit();
        self.dynamic_region.shadow.unsplit();
    }

    /// Gets ready for a block of `threads` threads: nothing is declared or written.
    pub(super) fn begin_block(&mut self, threads: usize) {
        self.statics.clear();
        self.static_bytes = 0;
        if self.epoch > u32::MAX / 2 {
            self.clear();
        }
        self.warpgroups.track(0, 0);
        for region in [&mut self.static_region, &mut self.dynamic_region] {
            region.in_flight.clear();
            region.objects.clear();
            region.being_read.clear();
            region.operands.clear();
            region.remote_readers.clear();
        }
        self.fences.begin_block(agents_of(threads));
        self.released.clear();
        self.agents = 0;
        let warps = threads.div_ceil(WARP_THREADS as usize);
        self.static_region.shadow.begin_block(warps);
        self.dynamic_region.shadow.begin_block(warps);
        self.epoch += 1;
        self.first_epoch = self.epoch;
    }

    fn clear(&mut self) {
        self.static_region.shadow.clear();
        self.dynamic_region.shadow.clear();
        (self.epoch, self.first_epoch) = (1, 1);
    }

    /// A block barrier: what came before is ordered before what comes after.
    pub(super) fn barrier(&mut self) {
        self.epoch += 1;
        self.warpgroups.barrier();
        if self.agents == 0 {
            self.static_region.shadow.untrack_warps();
            self.dynamic_region.shadow.untrack_warps();
        }
    }

    /// A barrier of the cluster, up to which an agent of the block is known there to have come to a clock.
    pub(super) fn release(&mut self, agent: usize, clock: u32) {
        if self.released.len() <= agent {
            self.released.resize(agent + 1, 0);
        }
        self.released[agent] = clock.max(self.released[agent]);
    }

    /// Whether what an agent of the block has done at a clock is visible to who comes after that in another block.
    /// Arrivals at mbarriers there put it in order, and show it to nobody.
    pub(super) fn has_released(&self, agent: u32, clock: u32) -> bool {
        self.released(agent) >= clock
    }

    /// The clock up to which what an agent has done is visible so.
    pub(super) fn released(&self, agent: u32) -> u32 {
        self.released.get(agent as usize).copied().unwrap_or(0)
    }

    /// The interval between barriers that runs now.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Tracks from now on how the `threads` threads of the block are ordered across warps.
    pub(super) fn track_threads(&mut self, threads: usize) {
        self.agents = agents_of(threads);
        self.track_readers();
    }

    /// Keeps the readers of each warp apart, if only until the next barrier of the block: a warp stops, and others that
    /// read what it has read may meet it before one of them writes there.
    pub(super) fn track_readers(&mut self) {
        self.static_region.shadow.track_warps();
        self.dynamic_region.shadow.track_warps();
    }

    /// Follows from now on what the matrix instructions of the block's warpgroups read.
    pub(super) fn track_warpgroups(&mut self, threads: usize) {
        let warpgroups = threads.div_ceil(crate::wgmma::THREADS as usize);
        self.warpgroups.track(warpgroups, threads.next_multiple_of(WARP_THREADS as usize));
    }

    /// A matrix instruction, which has a number in its warpgroup, reads the unit at `address` from now on; `judge` says
    /// whether it comes after a write. `None` where the unit is not in one array.
    pub(super) fn begin_operand(
        &mut self,
        address: u32,
        warpgroup: usize,
        instruction: u32,
        judge: &mut impl FnMut(Write) -> Result<(), Violation>,
    ) -> Option<Result<(), Violation>> {
        let first_epoch = self.first_epoch;
        let (region, offset, warpgroups) = self.locate_write(address, UNIT as u32)?;
        let ready = region.readable(offset, UNIT);
        let begun = ready.and_then(|()| region.shadow.writes(offset, UNIT, first_epoch, judge));
        Some(begun.map(|()| region.operands.begin(offset, warpgroups, warpgroup, instruction)))
    }

    /// The unit at an address that [`begin_operand`](Self::begin_operand) has found.
    pub(super) fn unit(&mut self, address: u32) -> [u8; UNIT] {
        let unit = self.locate(address, UNIT as u32);
        let bytes =
            unit.and_then(|(region, offset)| region.data.get(offset..)?.first_chunk().copied());
        bytes.unwrap_or([0; UNIT])
    }

    /// How far the block's warpgroups have come with their matrix instructions.
    pub(super) fn warpgroups(&mut self) -> &mut Warpgroups {
        &mut self.warpgroups
    }

    /// Agents whose order is tracked across warps (see [`clocks`](super::clocks)).
    pub(super) fn agents(&self) -> usize {
        self.agents
    }

    /// Bytes of dynamic shared memory.
    pub(crate) fn dynamic_bytes(&self) -> u32 {
        self.dynamic_bytes
    }

    /// Bytes of static and dynamic shared memory that the block has so far.
    pub(super) fn bytes(&self) -> u32 {
        self.static_bytes + self.dynamic_bytes
    }

    /// The memory of an address range, which must lie in one array.
    #[inline]
    fn locate(&mut self, address: u32, bytes: u32) -> Option<(&mut Region, usize)> {
        self.locate_write(address, bytes).map(|(region, offset, _)| (region, offset))
    }

    /// The same, with what a write there must know.
    #[inline]
    fn locate_write(
        &mut self,
        address: u32,
        bytes: u32,
    ) -> Option<(&mut Region, usize, &Warpgroups)> {
        if address >= DYNAMIC_BASE {
            let offset = address - DYNAMIC_BASE;
            let inside = offset < self.dynamic_bytes && bytes <= self.dynamic_bytes - offset;
            return inside.then_some((&mut self.dynamic_region, offset as usize, &self.warpgroups));
        }
        let offset = address.checked_sub(STATIC_BASE)?;
        let inside = self.statics.iter().any(|array| {
            offset >= array.offset
                && offset - array.offset < array.bytes
                && bytes <= array.bytes - (offset - array.offset)
        });
        inside.then_some((&mut self.static_region, offset as usize, &self.warpgroups))
    }

    /// Reads an aligned value; `None` where it is not in one array.
    #[inline]
    pub(super) fn read<V: Copy>(
        &mut self,
        address: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<V, Violation>> {
        let (epoch, first_epoch) = (self.epoch, self.first_epoch);
        let (region, offset) = self.locate(address, size_of::<V>() as u32)?;
        let ready = region.readable(offset, size_of::<V>());
        let read = ready
            .and_then(|()| region.shadow.read(offset, size_of::<V>(), who, epoch, first_epoch));
        Some(read.map(|()| {
            let data = region.data.as_ptr();
            // SAFETY: the range lies in the region, which is at least as long as its arrays; any bits are a valid `V`.
            unsafe { data.add(offset).cast::<V>().read_unaligned() }
        }))
    }

    /// [`read`](Self::read) by a thread of another block: it comes after the writes that a barrier of the cluster has
    /// shown it, in whatever epoch they were, and before those that see it.
    pub(super) fn read_from_afar<V: Copy>(
        &mut self,
        address: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<V, Violation>> {
        let first_epoch = self.first_epoch;
        let released = std::mem::take(&mut self.released);
        let mut judge = |Write { agent, clock, .. }: Write| {
            let visible = released.get(agent as usize).is_some_and(|&released| released >= clock);
            match who.comes_after(agent, clock) {
                true if visible => Ok(()),
                true => Err(Violation::NotReleased { writer: agent }),
                false => Err(Violation::Race { other: agent, other_access: AccessKind::Write }),
            }
        };
        let bytes = size_of::<V>();
        let read = self.locate(address, bytes as u32).map(|(region, offset)| {
            region.readable(offset, bytes)?;
            region.shadow.writes(offset, bytes, first_epoch, &mut judge)?;
            region.remote_readers.read(offset, bytes, who);
            let data = region.data.as_ptr();
            // SAFETY: the range lies in the region, which is at least as long as its arrays; any bits are a valid `V`.
            Ok(unsafe { data.add(offset).cast::<V>().read_unaligned() })
        });
        self.released = released;
        read
    }

    /// Writes an aligned value; `None` where it is not in one array.
    #[inline]
    pub(super) fn write<V: Copy>(
        &mut self,
        address: u32,
        value: V,
        who: &Accessor<'_>,
    ) -> Option<Result<(), Violation>> {
        let epoch = self.epoch;
        let (region, offset, warpgroups) = self.locate_write(address, size_of::<V>() as u32)?;
        let ready = region.ready(offset, size_of::<V>(), who, warpgroups);
        let written = ready.and_then(|()| region.shadow.write(offset, size_of::<V>(), who, epoch));
        Some(written.map(|()| {
            let data = region.data.as_mut_ptr();
            // SAFETY: the range lies in the region, which is at least as long as its arrays.
            unsafe { data.add(offset).cast::<V>().write_unaligned(value) }
        }))
    }

    /// Makes an mbarrier where a thread could write as many bytes; `None` where it could not.
    pub(super) fn init_mbarrier(
        &mut self,
        address: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<(), Violation>> {
        let written = self.write(address, 0_u64, who)?;
        let (region, offset) = self.locate(address, size_of::<u64>() as u32)?;
        Some(written.map(|()| region.objects.add(offset)))
    }

    /// Begins an asynchronous copy to an aligned range: it writes there at any time from now on. `None` where the range
    /// is not in one array.
    pub(super) fn begin_copy(
        &mut self,
        address: u32,
        bytes: u32,
        who: &Accessor<'_>,
    ) -> Option<Result<(), Violation>> {
        let (epoch, first_epoch) = (self.epoch, self.first_epoch);
        let (region, offset, warpgroups) = self.locate_write(address, bytes)?;
        let bytes = bytes as usize;
        let ready = region.ready(offset, bytes, who, warpgroups);
        let begun = ready.and_then(|()| {
            if who.is_remote() {
                region.shadow.begin_remote_write(offset, bytes, who, first_epoch)
            } else {
                region.shadow.write(offset, bytes, who, epoch)
            }
        });
        Some(begun.map(|()| region.in_flight.begin(offset, bytes, Issuer::of(who))))
    }

    /// Ends an asynchronous copy of `thread` that has begun, with the words that arrive. From now on it is a store that
    /// the thread has made at the first clock, or, where mbarriers can order it otherwise than what the thread does
    /// itself, that what copies for it has made at the second.
    pub(super) fn end_copy(
        &mut self,
        address: u32,
        words: &[u32],
        thread: u32,
        clocks: (u32, u32),
    ) {
        let epoch = self.epoch;
        let (agent, clock) = match self.agents {
            0 => (thread, clocks.0),
            agents => (agents as u32 / 2 + thread, clocks.1),
        };
        let bytes = size_of_val(words);
        let Some((region, offset)) = self.locate(address, bytes as u32) else { return };
        region.in_flight.end(offset, bytes);
        region.shadow.write_instead(offset, bytes, agent, clock, epoch);
        for (word, bytes) in
            words.iter().zip(region.data[offset..].chunks_exact_mut(size_of::<u32>()))
        {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }
}
