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

use super::knowledge::{Gathered, Knowledge, Member, covers, merge};
use std::ops::Range;
use std::sync::Arc;

const LANES: usize = super::limits::WARP_THREADS as usize;

/// The clocks of one warp: `known[a][b]` is the clock of lane `b` that lane `a` knows.
#[derive(Clone)]
pub(super) struct Clocks {
    known: [[u32; LANES]; LANES],
    /// What each lane knows of agents outside its warp; empty until the first of them has waited for an mbarrier.
    afar: Vec<Arc<Knowledge>>,
    /// What a lane has learned last: the next one mostly learns the same.
    lesson: Option<Lesson>,
    /// The warp's block.
    pub(super) member: Member,
}

/// What a lane has learned of agents outside its warp.
#[derive(Clone)]
struct Lesson {
    before: Arc<Knowledge>,
    news: News,
    after: Arc<Knowledge>,
}

#[derive(Clone)]
enum News {
    /// What others have made known.
    All(Arc<Knowledge>),
    /// How far one agent has come, by its entry.
    One(usize, u32),
}

impl News {
    /// Whether two are the same without a look at what others have made known.
    fn is(&self, other: &News) -> bool {
        match (self, other) {
            (News::All(one), News::All(other)) => Arc::ptr_eq(one, other),
            (&News::One(agent, clock), &News::One(other, at)) => (agent, clock) == (other, at),
            _ => false,
        }
    }
}

impl Clocks {
    /// No lane has seen anything of another one.
    pub(super) fn new(member: Member) -> Self {
        let mut known = [[0; LANES]; LANES];
        for (lane, clocks) in known.iter_mut().enumerate() {
            clocks[lane] = 1;
        }
        Clocks { known, afar: Vec::new(), lesson: None, member }
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

    /// Whether `lane` has seen what an agent outside its warp, of any block of the cluster, did at `clock`.
    #[inline(never)]
    pub(super) fn has_seen_of(&self, block: Member, lane: usize, agent: usize, clock: u32) -> bool {
        let known = self.afar.get(lane).and_then(|known| known.get(block.index(agent)));
        known.is_some_and(|&known| known >= clock)
    }

    /// What `lane` knows of agents outside its warp.
    fn known_afar(&self, lane: usize) -> &[u32] {
        self.afar.get(lane).map_or(&[], |known| known.as_slice())
    }

    /// All that `lane` of warp `warp` knows, and has done itself, in a block of `agents` agents.
    pub(super) fn knowledge(&self, warp: usize, lane: usize, agents: usize) -> Knowledge {
        let afar = self.known_afar(lane);
        let entries = (agents * self.member.blocks).max(afar.len());
        let mut all = Knowledge::with_capacity(entries);
        all.extend_from_slice(afar);
        all.resize(entries, 0);
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
        all[own] = self.learned_of(lane, own);
        all
    }

    /// What `lane` has learned afar of the agent whose entry this is, which may be itself.
    pub(super) fn learned_of(&self, lane: usize, entry: usize) -> u32 {
        self.known_afar(lane).get(entry).copied().unwrap_or(0)
    }

    /// Adds to what is `gathered` all that `lane` of warp `warp` knows, and has done itself.
    pub(super) fn tell(&self, warp: usize, lane: usize, gathered: &mut Gathered) {
        if let Some(afar) = self.afar.get(lane) {
            gathered.add_shared(afar);
        }
        for (other, &clock) in self.known[lane].iter().enumerate() {
            gathered.add_one(self.member.index(warp * LANES + other), clock);
        }
    }

    /// Whether `lane` of warp `warp` has seen all that is known in `seen`.
    pub(super) fn has_learned(&self, warp: usize, lane: usize, seen: &Arc<Knowledge>) -> bool {
        // What it knows of its own warp is at least what it knows of that afar.
        if self.afar.get(lane).is_some_and(|afar| Arc::ptr_eq(afar, seen)) {
            return true;
        }
        let afar = self.known_afar(lane);
        let own = self.member.index(warp * LANES)..self.member.index((warp + 1) * LANES);
        // Of all but the warp's own lanes, whose entries may have those of other blocks between them.
        let known = |range: Range<usize>| {
            let part = |all: &[u32]| range.start.min(all.len())..range.end.min(all.len());
            covers(&afar[part(afar)], &seen[part(seen)])
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
    pub(super) fn learn(&mut self, warp: usize, lane: usize, seen: &Arc<Knowledge>) {
        self.learn_afar(lane, News::All(seen.clone()));
        let member = self.member;
        for (other, known) in self.known[lane].iter_mut().enumerate() {
            let seen = seen.get(member.index(warp * LANES + other)).copied().unwrap_or(0);
            *known = seen.max(*known);
        }
    }

    /// Lets `lane` see what an agent of its block outside its warp has done up to `clock`.
    pub(super) fn learn_one(&mut self, lane: usize, agent: usize, clock: u32) {
        self.learn_afar(lane, News::One(self.member.index(agent), clock));
    }

    fn learn_afar(&mut self, lane: usize, news: News) {
        self.afar.resize(LANES, Arc::default());
        let before = &self.afar[lane];
        let is_same =
            |lesson: &&Lesson| Arc::ptr_eq(&lesson.before, before) && lesson.news.is(&news);
        let after = match (self.lesson.as_ref().filter(is_same), &news) {
            (Some(lesson), _) => lesson.after.clone(),
            // So lanes that knew different things share again what all of them know now.
            (None, News::All(seen)) if covers(seen, before) => seen.clone(),
            (None, News::All(seen)) => {
                let mut all = Knowledge::clone(before);
                merge(&mut all, seen);
                Arc::new(all)
            }
            (None, &News::One(index, clock)) => {
                let mut all = Knowledge::clone(before);
                all.resize(all.len().max(index + 1), 0);
                all[index] = clock.max(all[index]);
                Arc::new(all)
            }
        };
        let before = std::mem::replace(&mut self.afar[lane], after.clone());
        self.lesson = Some(Lesson { before, news, after });
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
        // Mostly they share it, as they have waited for the same mbarriers.
        if members().any(|lane| self.afar[lane] != self.afar[first]) {
            let mut joined = Gathered::default();
            members().for_each(|lane| joined.add_shared(&self.afar[lane]));
            let joined = Arc::new(joined.take());
            members().for_each(|lane| self.afar[lane] = joined.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agents of a block of two warps, and one that stands for what is no thread.
    const AGENTS: usize = 2 * LANES + 1;
    const WARP: usize = 1;

    /// Whatever lanes learn, and whoever of them learns it first, each knows what it would if nothing was shared.
    #[test]
    fn lanes_that_share_know_what_each_would_alone() {
        let mut some = vec![0; AGENTS];
        (some[3], some[LANES + 1], some[2 * LANES]) = (7, 5, 1);
        let mut others = vec![0; LANES];
        (others[3], others[4]) = (6, 2);
        let news = [Arc::new(some), Arc::new(others)];
        let lesson = |clocks: &mut Clocks, known: &mut [Knowledge; 2], step: usize| {
            let lane = step % 2;
            match news.get(step / 2) {
                Some(news) => {
                    clocks.learn(WARP, lane, news);
                    merge(&mut known[lane], news);
                }
                None => {
                    clocks.learn_one(lane, 2 * LANES, 3);
                    merge(&mut known[lane], &[vec![0; 2 * LANES], vec![3]].concat());
                }
            }
        };
        const STEPS: usize = 2 * 3;
        for sequence in 0..STEPS.pow(4) {
            let mut clocks = Clocks::new(Member::ALONE);
            let mut known = [Knowledge::new(), Knowledge::new()];
            for n in 0..4 {
                lesson(&mut clocks, &mut known, sequence / STEPS.pow(n) % STEPS);
            }
            for (lane, known) in known.iter().enumerate() {
                let knows = |agent| known.get(agent).copied().unwrap_or(0);
                for agent in (0..LANES).chain([2 * LANES]) {
                    let sees = |clock| clocks.has_seen_of(Member::ALONE, lane, agent, clock);
                    assert!(sees(knows(agent)) || knows(agent) == 0, "{sequence}: {lane}, {agent}");
                    assert!(!sees(knows(agent) + 1), "{sequence}: {lane}, {agent}");
                }
                for other in (0..LANES).filter(|&other| other != lane) {
                    let clock = knows(WARP * LANES + other);
                    assert!(clocks.has_seen(lane, other, clock), "{sequence}: {lane}, {other}");
                    assert!(
                        !clocks.has_seen(lane, other, clock + 1),
                        "{sequence}: {lane}, {other}"
                    );
                }
                for news in &news {
                    // What the lane has done itself it knows anyway.
                    let mut of_others = known.clone();
                    merge(&mut of_others, &[vec![0; WARP * LANES + lane], vec![1]].concat());
                    let expected = covers(&of_others, news);
                    assert_eq!(
                        clocks.has_learned(WARP, lane, news),
                        expected,
                        "{sequence}: {lane}"
                    );
                }
                let mut told = Gathered::default();
                clocks.tell(WARP, lane, &mut told);
                let all = clocks.knowledge(WARP, lane, AGENTS);
                assert!(covers(&all, told.all()) && covers(told.all(), &all), "{sequence}: {lane}");
            }
        }
    }
}
