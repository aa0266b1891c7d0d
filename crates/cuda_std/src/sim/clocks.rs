//! What each lane of a warp knows of the others: vector clocks, as in C. Flanagan and S. Freund, "FastTrack: Efficient
//! and Precise Dynamic Race Detection" (PLDI 2009).
//!
//! A lane's own clock advances at each warp barrier it takes part in, and wherever it makes known to others what it has
//! done (an arrival at an mbarrier) or sees what others have made known (a wait for one). A lane has seen everything
//! that another did up to the clock it knows of it. A block barrier orders everything and needs no clocks: see
//! [`shadow`](super::shadow).
//!
//! Only mbarriers order threads of different warps within an epoch. What a lane knows through them is a [`Knowledge`]
//! of all *agents* of the block: its threads, its warpgroups, which stand for their matrix instructions, and for each
//! of them another one that makes its asynchronous copies, which are ordered otherwise than what a thread does itself.
//! Behind those it says which of their writes have been [fenced](super::fences), and which phases' bulk loads have been
//! seen at each mbarrier.
//!
//! Blocks of a cluster are ordered by mbarriers and the cluster's barriers alone, so what a lane knows covers the
//! agents of all of them. A barrier of one block lets its threads know what all of them know.

use std::ops::Range;

const LANES: usize = super::limits::WARP_THREADS as usize;

/// The clock of each agent of a block that somebody knows: those of the threads, whose number is rounded up to whole
/// warps, those of the warpgroups, then those of what copies for them. Empty where nothing is known. The entries of the
/// blocks of a cluster alternate: see [`Member::index`].
pub(super) type Knowledge = Vec<u32>;

/// Which of the blocks of a cluster one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) rank: usize,
    /// Blocks of the cluster.
    pub(super) blocks: usize,
}

impl Member {
    /// A block that is in no cluster.
    pub(super) const ALONE: Member = Member { rank: 0, blocks: 1 };

    /// Where a [`Knowledge`] has the entry of this number of the block.
    pub(super) fn index(self, entry: usize) -> usize {
        entry * self.blocks + self.rank
    }

    /// Whether no other block has to do with this one.
    pub(super) fn is_alone(self) -> bool {
        self.blocks == 1
    }
}

/// Where a [`Knowledge`] of so many agents says up to which clock an agent's writes have been fenced.
pub(super) fn fenced(agents: usize, agent: usize) -> usize {
    agents + agent
}

/// Where it says of which phase of an mbarrier, the `n`-th of the block, the bulk loads have been seen. They are an
/// agent too, whose clock is the phase.
pub(super) fn loads_of(agents: usize, mbarrier: usize) -> usize {
    2 * agents + mbarrier
}

/// Adds to what is known in `all` what is known in `more`.
pub(super) fn merge(all: &mut Knowledge, more: &[u32]) {
    if all.len() < more.len() {
        all.resize(more.len(), 0);
    }
    for (all, &one) in all.iter_mut().zip(more) {
        *all = one.max(*all);
    }
}

/// The clocks of one warp: `known[a][b]` is the clock of lane `b` that lane `a` knows.
#[derive(Clone)]
pub(super) struct Clocks {
    known: [[u32; LANES]; LANES],
    /// What each lane knows of agents outside its warp; empty until the first of them has waited for an mbarrier.
    afar: Vec<Knowledge>,
    /// The warp's block.
    pub(super) member: Member,
}

impl Clocks {
    /// No lane has seen anything of another one.
    pub(super) fn new(member: Member) -> Self {
        let mut known = [[0; LANES]; LANES];
        for (lane, clocks) in known.iter_mut().enumerate() {
            clocks[lane] = 1;
        }
        Clocks { known, afar: Vec::new(), member }
    }

    /// A lane's own clock.
    pub(super) fn own(&self, lane: usize) -> u32 {
        self.known[lane][lane]
    }

    /// What a lane does from now on is later than all it has done.
    pub(super) fn tick(&mut self, lane: usize) {
        self.known[lane][lane] += 1;
    }

    /// Whether `lane` has seen what `other`, of the same warp, did at `clock`.
    pub(super) fn has_seen(&self, lane: usize, other: usize, clock: u32) -> bool {
        self.known[lane][other] >= clock
    }

    /// Whether `lane` has seen what an agent of its block outside its warp did at `clock`.
    pub(super) fn has_seen_afar(&self, lane: usize, agent: usize, clock: u32) -> bool {
        self.has_seen_of(self.member, lane, agent, clock)
    }

    /// The same of an agent of any block of the cluster.
    #[cold]
    pub(super) fn has_seen_of(&self, block: Member, lane: usize, agent: usize, clock: u32) -> bool {
        let known = self.afar.get(lane).and_then(|known| known.get(block.index(agent)));
        known.is_some_and(|&known| known >= clock)
    }

    /// All that `lane` of warp `warp` knows, and has done itself, in a block of `agents` agents.
    pub(super) fn knowledge(&self, warp: usize, lane: usize, agents: usize) -> Knowledge {
        let mut all = self.afar.get(lane).cloned().unwrap_or_default();
        all.resize((agents * self.member.blocks).max(all.len()), 0);
        for (other, &clock) in self.known[lane].iter().enumerate() {
            all[self.member.index(warp * LANES + other)] = clock;
        }
        all
    }

    /// All that `lane` of warp `warp` knows, but of itself only what it had done before it arrived where it has waited
    /// since: what comes after everything that was known at its last wait, and not after what it has done since then.
    pub(super) fn learned(&self, warp: usize, lane: usize, agents: usize) -> Knowledge {
        let mut all = self.knowledge(warp, lane, agents);
        let own = self.member.index(warp * LANES + lane);
        all[own] = self.afar.get(lane).and_then(|known| known.get(own)).copied().unwrap_or(0);
        all
    }

    /// Whether `lane` of warp `warp` has seen all that is known in `seen`.
    pub(super) fn has_learned(&self, warp: usize, lane: usize, seen: &[u32]) -> bool {
        let afar = self.afar.get(lane).map_or(&[][..], Vec::as_slice);
        let own = self.member.index(warp * LANES)..self.member.index((warp + 1) * LANES);
        // Of all but the warp's own lanes, whose entries may have those of other blocks between them.
        let known = |range: Range<usize>| {
            let seen = &seen[range.start.min(seen.len())..range.end.min(seen.len())];
            let afar = &afar[range.start.min(afar.len())..range.end.min(afar.len())];
            let (both, more) = seen.split_at(afar.len().min(seen.len()));
            both.iter().zip(afar).all(|(seen, known)| seen <= known)
                && more.iter().all(|&seen| seen == 0)
        };
        let of_warp = |index: usize| {
            let Some(&clock) = seen.get(index) else { return true };
            let agent = index / self.member.blocks;
            if index % self.member.blocks == self.member.rank {
                self.has_seen(lane, agent - warp * LANES, clock)
            } else {
                clock <= afar.get(index).copied().unwrap_or(0)
            }
        };
        known(0..own.start) && known(own.end..usize::MAX) && own.clone().all(of_warp)
    }

    /// Lets `lane` of warp `warp` see what is known in `seen`.
    pub(super) fn learn(&mut self, warp: usize, lane: usize, seen: &[u32]) {
        self.afar.resize(LANES, Knowledge::new());
        merge(&mut self.afar[lane], seen);
        let member = self.member;
        for (other, known) in self.known[lane].iter_mut().enumerate() {
            let seen = seen.get(member.index(warp * LANES + other)).copied().unwrap_or(0);
            *known = seen.max(*known);
        }
    }

    /// Lets `lane` see what an agent of its block outside its warp has done up to `clock`.
    pub(super) fn learn_one(&mut self, lane: usize, agent: usize, clock: u32) {
        self.afar.resize(LANES, Knowledge::new());
        let (known, index) = (&mut self.afar[lane], self.member.index(agent));
        if known.len() <= index {
            known.resize(index + 1, 0);
        }
        known[index] = clock.max(known[index]);
    }

    /// The lanes of `mask` wait for each other.
    pub(super) fn join(&mut self, mask: u32) {
        let members = || (0..LANES).filter(|lane| mask >> lane & 1 == 1);
        let mut joined = [0; LANES];
        let mut latest = 0;
        for lane in members() {
            for (all, one) in joined.iter_mut().zip(self.known[lane]) {
                *all = one.max(*all);
            }
            latest = latest.max(self.own(lane));
        }
        for lane in members() {
            self.known[lane] = joined;
            // The same for all, because readers of a word are kept with one clock.
            self.known[lane][lane] = latest + 1;
        }
        let Some(first) = members().next().filter(|_| !self.afar.is_empty()) else { return };
        // Mostly they have waited for the same mbarriers.
        if members().any(|lane| self.afar[lane] != self.afar[first]) {
            let mut joined = Knowledge::new();
            members().for_each(|lane| merge(&mut joined, &self.afar[lane]));
            members().for_each(|lane| self.afar[lane].clone_from(&joined));
        }
    }
}
