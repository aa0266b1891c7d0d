//! Which parts of shared memory the matrix instructions of warpgroups read, so that nobody overwrites them too early.
//!
//! The instructions of a warpgroup are numbered from 1 and end in that order, so the number of the last one that reads
//! a unit says for all of them whether they still do. To others than the warpgroup itself their end becomes known as
//! what an agent of its own has done, whose clock is that number (see [`clocks`](super::clocks)).

use super::accessor::Accessor;
use super::fault::AccessKind;
use super::knowledge::Member;
use super::violation::Violation;
use crate::wgmma::THREADS;

/// Bytes that are read together: a row of a core matrix.
pub(super) const UNIT: usize = 16;

/// Clocks of a warpgroup's threads.
type GroupClocks = [u32; THREADS as usize];

/// How far a warpgroup has come.
#[derive(Clone, Default)]
struct Progress {
    /// From which instruction on the threads have had which clocks when they issued it, since the last block barrier.
    issued: Vec<(u32, GroupClocks)>,
    /// The last instruction that it has waited for.
    done: u32,
    /// The last one that it had waited for at the last block barrier.
    known: u32,
}

/// How far the warpgroups of the block have come.
#[derive(Default)]
pub(super) struct Warpgroups {
    /// Empty until the first of them declares accumulators.
    progress: Vec<Progress>,
    /// Index of the agent that stands for the instructions of the first.
    first_agent: usize,
}

impl Warpgroups {
    /// Follows from now on as many warpgroups, of none for 0.
    pub(super) fn track(&mut self, warpgroups: usize, first_agent: usize) {
        self.progress.clear();
        self.progress.resize(warpgroups, Progress::default());
        self.first_agent = first_agent;
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.progress.len()
    }

    /// The agent that stands for the instructions of a warpgroup.
    pub(super) fn agent(&self, warpgroup: usize) -> usize {
        self.first_agent + warpgroup
    }

    /// The threads of a warpgroup issue an instruction at these clocks.
    pub(super) fn begin(&mut self, warpgroup: usize, instruction: u32, clocks: GroupClocks) {
        let issued = &mut self.progress[warpgroup].issued;
        if issued.last().is_none_or(|(_, last)| *last != clocks) {
            issued.push((instruction, clocks));
        }
    }

    /// The clock at which a thread of the `block` must have been for what `known` says of its warpgroup's instructions:
    /// one that is done has been issued by all threads. What they have done before need not be visible for that.
    pub(super) fn reached(&self, thread: usize, known: &[u32], block: Member) -> u32 {
        let (warpgroup, index) = (thread / THREADS as usize, thread % THREADS as usize);
        let (Some(progress), Some(&instruction)) =
            (self.progress.get(warpgroup), known.get(block.index(self.agent(warpgroup))))
        else {
            return 0;
        };
        let until = progress.issued.partition_point(|(first, _)| *first <= instruction);
        progress.issued[..until].last().map_or(0, |(_, clocks)| clocks[index])
    }

    /// The instructions of a warpgroup are done, up to this one.
    pub(super) fn end(&mut self, warpgroup: usize, instruction: u32) {
        self.progress[warpgroup].done = instruction;
    }

    /// A block barrier.
    pub(super) fn barrier(&mut self) {
        for progress in &mut self.progress {
            progress.known = progress.done;
            progress.issued.clear();
        }
    }
}

/// The operands in a range of shared memory.
#[derive(Default)]
pub(super) struct Operands {
    /// For each unit and warpgroup the last instruction that reads it; 0 for none.
    latest: Vec<u32>,
    /// Bytes of the range.
    bytes: usize,
    /// Warpgroups, 0 before the first instruction of the block.
    warpgroups: usize,
}

impl Operands {
    /// Makes room for `bytes` bytes of memory.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.bytes = self.bytes.max(bytes);
        self.latest.resize(self.bytes.div_ceil(UNIT) * self.warpgroups, 0);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.latest.clear();
        self.warpgroups = 0;
    }

    /// An instruction of a warpgroup reads the unit at an offset from now on.
    pub(super) fn begin(
        &mut self,
        offset: usize,
        all: &Warpgroups,
        warpgroup: usize,
        instruction: u32,
    ) {
        if self.warpgroups == 0 {
            self.warpgroups = all.count();
            self.grow(0);
        }
        self.latest[offset / UNIT * self.warpgroups + warpgroup] = instruction;
    }

    /// A write to an aligned range: fails where an instruction may still read there.
    #[inline(always)]
    pub(super) fn check_write(
        &self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        all: &Warpgroups,
    ) -> Result<(), Violation> {
        if self.warpgroups == 0 {
            return Ok(());
        }
        self.check(offset, bytes, who, all)
    }

    #[inline(never)]
    fn check(
        &self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        all: &Warpgroups,
    ) -> Result<(), Violation> {
        for unit in offset / UNIT..(offset + bytes).div_ceil(UNIT) {
            let latest = &self.latest[unit * self.warpgroups..][..self.warpgroups];
            for (warpgroup, &instruction) in latest.iter().enumerate() {
                let Progress { done, known, .. } = all.progress[warpgroup];
                let reader = warpgroup as u32 * THREADS;
                if instruction > done {
                    return Err(Violation::OperandInFlight { reader });
                }
                let own = !who.is_remote() && who.thread / THREADS == warpgroup as u32;
                let known = if who.is_remote() { 0 } else { known };
                if instruction > known
                    && !own
                    && !who.has_seen_agent(all.agent(warpgroup), instruction)
                {
                    return Err(Violation::Race { other: reader, other_access: AccessKind::Read });
                }
            }
        }
        Ok(())
    }
}
