//! What a lane knows of all agents of its block: see [`clocks`](super::clocks).
//!
//! There are thousands of entries, and lanes of a warp mostly know the same: they have waited for the same barriers,
//! one after another. So they share what they know, and whatever is done with it is done once for those that do.

use std::sync::Arc;

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
    #[inline(always)]
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

/// Whether all that is known in `some` is known in `all`.
pub(super) fn covers(all: &[u32], some: &[u32]) -> bool {
    /// Entries that are compared before anybody asks how that went: so compilers use vectors.
    const TOGETHER: usize = 64;
    let (both, more) = some.split_at(all.len().min(some.len()));
    let pairs = all.chunks(TOGETHER).zip(both.chunks(TOGETHER));
    let covered = |(all, some): (&[u32], &[u32])| {
        all.iter().zip(some).fold(true, |covered, (all, some)| covered & (some <= all))
    };
    pairs.into_iter().all(covered) && more.iter().all(|&clock| clock == 0)
}

/// What several make known, one after another.
#[derive(Default)]
pub(super) struct Gathered {
    all: Knowledge,
    /// What was added last: whoever is next mostly shares it.
    last: Option<Arc<Knowledge>>,
}

impl Gathered {
    /// Adds what is known in `more`.
    pub(super) fn add(&mut self, more: &[u32]) {
        merge(&mut self.all, more);
    }

    /// The same of what several share.
    pub(super) fn add_shared(&mut self, more: &Arc<Knowledge>) {
        if self.last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, more)) {
            self.add(more);
            self.last = Some(more.clone());
        }
    }

    /// Adds that the agent whose entry this is has come to a clock.
    pub(super) fn add_one(&mut self, index: usize, clock: u32) {
        if self.all.len() <= index {
            self.all.resize(index + 1, 0);
        }
        self.all[index] = clock.max(self.all[index]);
    }

    /// All that has been added.
    pub(super) fn all(&self) -> &[u32] {
        &self.all
    }

    /// All that has been added, and forgets it.
    pub(super) fn take(&mut self) -> Knowledge {
        self.last = None;
        std::mem::take(&mut self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_known() {
        assert!(covers(&[], &[]) && covers(&[], &[0, 0]) && covers(&[3], &[]));
        assert!(!covers(&[], &[0, 1]) && !covers(&[2, 2], &[2, 3]) && covers(&[2, 3], &[2, 3, 0]));
        let (all, mut some) = (vec![5; 200], vec![5; 200]);
        assert!(covers(&all, &some));
        some[150] = 6;
        assert!(!covers(&all, &some));
    }

    #[test]
    fn what_is_shared_is_added_once_until_it_is_taken() {
        let mut gathered = Gathered::default();
        let shared = Arc::new(vec![1, 4]);
        gathered.add_shared(&shared);
        gathered.add_one(0, 3);
        gathered.add_shared(&shared);
        gathered.add(&[0, 0, 2]);
        assert_eq!(gathered.all(), [3, 4, 2]);
        assert_eq!(gathered.take(), [3, 4, 2]);
        gathered.add_shared(&shared);
        assert_eq!(gathered.take(), [1, 4]);
    }
}
