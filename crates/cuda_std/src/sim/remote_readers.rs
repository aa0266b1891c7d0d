//! What other blocks of the cluster have read of a block's shared memory. Few blocks are read at all, and of those few
//! bytes, so that only what is read has an entry. See [`shadow`](super::shadow) for the readers of the block itself.

use super::accessor::Accessor;
use super::knowledge::Member;
use super::violation::Violation;
use std::collections::BTreeMap;

/// The reads of a range of shared memory by threads of other blocks.
#[derive(Default)]
pub(super) struct RemoteReaders {
    /// The clock of the last read of each range by each thread: who has seen that has seen those before.
    reads: BTreeMap<Read, u32>,
    /// Bytes of the longest of them.
    longest: usize,
}

/// An aligned range that a thread has read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Read {
    offset: usize,
    bytes: usize,
    /// Rank of the thread's block in the cluster.
    rank: usize,
    thread: u32,
}

impl RemoteReaders {
    /// Drops all reads.
    pub(super) fn clear(&mut self) {
        self.reads.clear();
        self.longest = 0;
    }

    /// A read of `who`, of another block.
    pub(super) fn read(&mut self, offset: usize, bytes: usize, who: &Accessor<'_>) {
        let read = Read { offset, bytes, rank: who.clocks.member.rank, thread: who.thread };
        self.reads.insert(read, who.clock);
        self.longest = self.longest.max(bytes);
    }

    /// A write of `who`, of any block of the cluster: fails if it does not come after all reads of the bytes.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
    ) -> Result<(), Violation> {
        if self.reads.is_empty() { Ok(()) } else { self.check_write(offset, bytes, who) }
    }

    #[inline(never)]
    fn check_write(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
    ) -> Result<(), Violation> {
        let end = offset + bytes;
        let from = |offset| Read { offset, bytes: 0, rank: 0, thread: 0 };
        let near = from(offset.saturating_sub(self.longest))..from(end);
        let mut covered = Vec::new();
        for (read, &clock) in self.reads.range(near) {
            if read.offset + read.bytes <= offset {
                continue;
            }
            let Read { rank, thread, .. } = *read;
            let memory = Member { rank, ..who.clocks.member };
            let reader = Accessor::of(who.thread, who.clock, who.clocks, memory);
            let own = !reader.is_remote() && thread == who.thread;
            if !own && !reader.comes_after(thread, clock) {
                return Err(Violation::RemoteRead { rank, thread });
            }
            if offset <= read.offset && read.offset + read.bytes <= end {
                covered.push(*read);
            }
        }
        // Whoever comes after this write comes after those readers too.
        for read in covered {
            self.reads.remove(&read);
        }
        Ok(())
    }
}
