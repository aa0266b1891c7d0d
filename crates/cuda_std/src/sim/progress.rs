//! How far a launch has got: which blocks have begun, which have ended, and which have failed.

use super::counter::Counts;
use super::global_order::GlobalOrder;
use super::signal::Signals;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// A block that there is not.
const NONE: u64 = u64::MAX;

/// What the runners of a launch share. Blocks are linear indices.
pub(super) struct Progress {
    /// The first block that nobody has begun.
    next: AtomicU64,
    /// The lowest block that has failed so far.
    failed: AtomicU64,
    /// The block that each runner is at: the one that it runs or, while it takes the next one, one that is not above
    /// that. [`NONE`] for those that have not begun or have ended.
    at: Vec<AtomicU64>,
    pub(super) signals: Signals,
    pub(super) counts: Counts,
    pub(super) order: GlobalOrder,
}

impl Progress {
    pub(super) fn new(runners: u64) -> Self {
        Progress {
            next: AtomicU64::new(0),
            failed: AtomicU64::new(NONE),
            at: (0..runners).map(|_| AtomicU64::new(NONE)).collect(),
            signals: Signals::default(),
            counts: Counts::default(),
            order: GlobalOrder::default(),
        }
    }

    /// The runner number `index`, which takes blocks until it is dropped.
    pub(super) fn runner(&self, index: u64) -> Runner<'_> {
        Runner { progress: self, at: &self.at[index as usize] }
    }

    /// Whether there are blocks, of so many, that nobody has begun and that have to run.
    pub(super) fn has_blocks(&self, blocks: u64) -> bool {
        let next = self.next.load(Relaxed);
        next < blocks && !self.failed_before(next)
    }

    /// Whether a block below this one has failed.
    pub(super) fn failed_before(&self, block: u64) -> bool {
        self.failed.load(Acquire) < block
    }

    /// Whether all blocks below one that has begun have ended.
    pub(super) fn ended_before(&self, block: u64) -> bool {
        // Whoever took a lower block had published that before this block was taken.
        self.at.iter().all(|at| at.load(Acquire) >= block)
    }

    pub(super) fn fail(&self, block: u64) {
        self.failed.fetch_min(block, Release);
    }
}

/// One host thread's part in a launch.
pub(super) struct Runner<'a> {
    pub(super) progress: &'a Progress,
    at: &'a AtomicU64,
}

impl Runner<'_> {
    /// Takes the next `blocks` blocks, which run together, and gives the first; those before have ended.
    pub(super) fn take(&self, blocks: u64) -> u64 {
        self.at.store(self.progress.next.load(Relaxed), Release);
        let block = self.progress.next.fetch_add(blocks, AcqRel);
        self.at.store(block, Release);
        block
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        self.at.store(NONE, Release);
    }
}
