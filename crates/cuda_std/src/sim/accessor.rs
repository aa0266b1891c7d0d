//! The thread that makes an access, and what it comes after.

use super::clocks::{Clocks, Member};
use super::limits::WARP_THREADS;

/// The thread that makes an access.
#[derive(Clone, Copy)]
pub(super) struct Accessor<'a> {
    /// Linear index in its block.
    pub(super) thread: u32,
    /// Its own clock.
    pub(super) clock: u32,
    /// The clocks of its warp.
    pub(super) clocks: &'a Clocks,
    /// The block whose memory it is: its own, or another one of the cluster.
    pub(super) memory: Member,
}

impl<'a> Accessor<'a> {
    /// A thread at its own block's memory.
    pub(super) fn new(thread: u32, clock: u32, clocks: &'a Clocks) -> Self {
        Accessor { thread, clock, clocks, memory: clocks.member }
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
        self.clocks.has_seen_of(self.memory, self.lane() as usize, agent, clock)
    }

    /// Whether a warp barrier, an mbarrier or one of the cluster lies between this access and one that `other`, of the
    /// memory's block, made at `clock` in the same epoch.
    pub(super) fn comes_after(&self, other: u32, clock: u32) -> bool {
        if self.is_remote() {
            self.has_seen_agent(other as usize, clock)
        } else if other / WARP_THREADS == self.thread / WARP_THREADS {
            let other = (other % WARP_THREADS) as usize;
            self.clocks.has_seen(self.lane() as usize, other, clock)
        } else {
            self.clocks.has_seen_afar(self.lane() as usize, other as usize, clock)
        }
    }
}
