//! Which writes to shared memory bulk copies are sure to see.
//!
//! Threads reach memory through the generic proxy, bulk copies through the asynchronous one, and a write through one is
//! visible through the other only where a proxy fence lies between the two (PTX ISA, "Memory Consistency Model:
//! Proxies" and "Causality order"). A fence of a thread covers what the thread has written or seen, for all that come
//! after the fence.
//!
//! So a fence copies what its thread knows ([`Knowledge`]) to a second part of that knowledge, which then travels
//! through barriers like the first: for each agent the clock up to which its writes have been fenced.

use super::accessor::Accessor;
use super::knowledge::{Knowledge, Member, fenced};

/// The fences of a block before its present epoch, and what they covered.
#[derive(Default)]
pub(super) struct Fences {
    /// For each agent the clock at the end of the last epoch: all of its writes up to that are seen by everyone.
    seen: Vec<u32>,
    /// For each agent the clock up to which fences of earlier epochs cover its writes.
    before: Vec<u32>,
    /// The same of fences of this epoch.
    now: Vec<u32>,
}

impl Fences {
    /// Gets ready for a block of so many agents.
    pub(super) fn begin_block(&mut self, agents: usize) {
        for clocks in [&mut self.seen, &mut self.before, &mut self.now] {
            clocks.clear();
            clocks.resize(agents, 0);
        }
    }

    /// A barrier of the whole block, up to which the agents have come to these clocks.
    pub(super) fn end_epoch(&mut self, clocks: impl Iterator<Item = (usize, u32)>) {
        for (agent, clock) in clocks {
            self.seen[agent] = clock;
        }
        for (before, &now) in self.before.iter_mut().zip(&self.now) {
            *before = now.max(*before);
        }
    }

    /// A fence of a thread of the `block` that knows `known`, which it adds what it covers to.
    pub(super) fn fence(&mut self, known: &mut Knowledge, block: Member) {
        let agents = self.seen.len();
        known.resize(known.len().max(block.index(fenced(agents, agents))), 0);
        let (known, all) = known.split_at_mut(fenced(agents, 0) * block.blocks);
        let of_block = |known| <[u32]>::chunks_exact(known, block.blocks);
        for (((known, all), seen), now) in of_block(known)
            .zip(all.chunks_exact_mut(block.blocks))
            .zip(&self.seen)
            .zip(&mut self.now)
        {
            let (covered, all) = (known[block.rank].max(*seen), &mut all[block.rank]);
            *all = covered.max(*all);
            *now = covered.max(*now);
        }
    }

    /// Whether a fence lies between a write that `agent` has made at `clock` and what `who` does now.
    pub(super) fn cover(&self, agent: u32, clock: u32, who: &Accessor<'_>) -> bool {
        let agents = self.seen.len();
        match self.before.get(agent as usize) {
            // What bulk copies write other bulk copies see.
            None => true,
            Some(&before) => {
                before >= clock && !who.is_remote()
                    || who.has_seen_agent(fenced(agents, agent as usize), clock)
            }
        }
    }
}
