//! The thread that makes an access, and what it comes after.

use super::clocks::Clocks;
use super::knowledge::Member;
use super::limits::WARP_THREADS;
use std::cell::Cell;

/// `Accessor::seen` before anything was asked.
const NOBODY: usize = usize::MAX;

/// The thread that makes an access.
pub(super) struct Accessor<'a> {
    /// Linear index in its block.
    pub(super) thread: u32,
    /// Its own clock.
    pub(super) clock: u32,
    /// The clocks of its warp.
    pub(super) clocks: &'a Clocks,
    /// The block whose memory it is: its own, or another one of the cluster.
    pub(super) memory: Member,
    /// An agent of another warp, and a clock up to which this comes after it. The bytes of an access were mostly
    /// touched together.
    seen: Cell<(usize, u32)>,
}

impl<'a> Accessor<'a> {
    /// A thread at its own block's memory.
    pub(super) fn new(thread: u32, clock: u32, clocks: &'a Clocks) -> Self {
        Accessor::of(thread, clock, clocks, clocks.member)
    }

    /// A thread at the memory of a block of its cluster.
    #[inline(always)]
    pub(super) fn of(thread: u32, clock: u32, clocks: &'a Clocks, memory: Member) -> Self {
        Accessor { thread, clock, clocks, memory, seen: Cell::new((NOBODY, 0)) }
    }

    /// Whether the memory is another block's. Barriers of that block alone then say nothing.
    #[inline(always)]
    pub(super) fn is_remote(&self) -> bool {
        self.memory.rank != self.clocks.member.rank
    }

    pub(super) fn warp(&self) -> u8 {
        (self.thread / WARP_THREADS) as u8
    }

    pub(super) fn lane(&self) -> u32 {
        self.thread % WARP_THREADS
    }

    /// Whether this access comes after what an agent of the memory's block that is no thread has done at `clock`.
    pub(super) fn has_seen_agent(&self, agent: usize, clock: u32) -> bool {
        let (last, until) = self.seen.get();
        if agent == last && clock <= until {
            return true;
        }
        let seen = self.clocks.has_seen_of(self.memory, self.lane() as usize, agent, clock);
        if seen {
            self.seen.set((agent, clock));
        }
        seen
    }

    /// Whether a warp barrier, an mbarrier or one of the cluster lies between this access and one that `other`, of the
    /// memory's block, made at `clock` in the same epoch.
    pub(super) fn comes_after(&self, other: u32, clock: u32) -> bool {
        if other / WARP_THREADS == self.thread / WARP_THREADS && !self.is_remote() {
            let other = (other % WARP_THREADS) as usize;
            self.clocks.has_seen(self.lane() as usize, other, clock)
        } else {
            self.has_seen_agent(other as usize, clock)
        }
    }
}
