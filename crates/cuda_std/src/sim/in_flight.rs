//! Which words of shared memory asynchronous copies are going to write, and which they are going to read.

use super::accessor::Accessor;
use super::limits::{MAX_BLOCK_THREADS, MAX_CLUSTER};
use super::violation::Violation;

/// Bytes that one mark stands for: a copy moves whole words.
const WORD: usize = 4;

/// A thread of the cluster, by the rank of its block and its index there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Issuer {
    pub(super) rank: usize,
    pub(super) thread: u32,
}

impl Issuer {
    pub(super) fn of(who: &Accessor<'_>) -> Self {
        Issuer { rank: who.clocks.member.rank, thread: who.thread }
    }

    /// A number that is not 0.
    fn mark(self) -> u16 {
        const { assert!(MAX_CLUSTER * MAX_BLOCK_THREADS < u16::MAX as u32) };
        (self.rank as u32 * MAX_BLOCK_THREADS + self.thread + 1) as u16
    }

    fn from_mark(mark: u16) -> Self {
        let index = u32::from(mark) - 1;
        let (rank, thread) = (index / MAX_BLOCK_THREADS, index % MAX_BLOCK_THREADS);
        Issuer { rank: rank as usize, thread }
    }
}

/// The copies under way to a range of shared memory.
#[derive(Default)]
pub(super) struct InFlight {
    /// For each word a mark of the thread whose copy is going to write it; 0 where there is none.
    issuers: Vec<u16>,
    /// Words that are marked. Mostly none, and then no access needs to look.
    marked: usize,
}

impl InFlight {
    /// Makes room for `bytes` bytes of memory.
    pub(super) fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(WORD);
        if self.issuers.len() < words {
            self.issuers.resize(words, 0);
        }
    }

    /// Drops all copies.
    pub(super) fn clear(&mut self) {
        if self.marked > 0 {
            self.issuers.fill(0);
            self.marked = 0;
        }
    }

    /// An access to an aligned range: fails if a copy is going to write there.
    #[inline(always)]
    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), Violation> {
        if self.marked == 0 {
            return Ok(());
        }
        let mut words = self.issuers[offset / WORD..(offset + bytes).div_ceil(WORD)].iter();
        match words.find(|&&issuer| issuer > 0) {
            Some(&mark) => Err(Violation::InFlight { issuer: Issuer::from_mark(mark) }),
            None => Ok(()),
        }
    }

    /// A copy of `issuer` to a range of words that no other copy is going to write.
    pub(super) fn begin(&mut self, offset: usize, bytes: usize, issuer: Issuer) {
        self.issuers[offset / WORD..(offset + bytes) / WORD].fill(issuer.mark());
        self.marked += bytes / WORD;
    }

    /// The copy to a range of words has arrived.
    pub(super) fn end(&mut self, offset: usize, bytes: usize) {
        self.issuers[offset / WORD..(offset + bytes) / WORD].fill(0);
        self.marked -= bytes / WORD;
    }
}

/// The bulk stores under way from a range of shared memory.
#[derive(Default)]
pub(super) struct BeingRead {
    /// For each word how many stores are going to read it, and the thread whose store was the last to begin.
    readers: Vec<(u32, u16)>,
    /// Words that are marked, once for each store.
    marked: usize,
}

impl BeingRead {
    /// Makes room for `bytes` bytes of memory.
    pub(super) fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(WORD);
        if self.readers.len() < words {
            self.readers.resize(words, (0, 0));
        }
    }

    /// Drops all stores.
    pub(super) fn clear(&mut self) {
        if self.marked > 0 {
            self.readers.fill((0, 0));
            self.marked = 0;
        }
    }

    /// A write to an aligned range: fails if a store is going to read there.
    #[inline(always)]
    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), Violation> {
        if self.marked == 0 {
            return Ok(());
        }
        let mut words = self.readers[offset / WORD..(offset + bytes).div_ceil(WORD)].iter();
        match words.find(|(stores, _)| *stores > 0) {
            Some(&(_, issuer)) => Err(Violation::BeingRead { issuer: issuer.into() }),
            None => Ok(()),
        }
    }

    /// A store of `thread` from a range of words.
    pub(super) fn begin(&mut self, offset: usize, bytes: usize, thread: u32) {
        for (stores, issuer) in &mut self.readers[offset / WORD..(offset + bytes) / WORD] {
            (*stores, *issuer) = (*stores + 1, thread as u16);
        }
        self.marked += bytes / WORD;
    }

    /// The store from a range of words has read it.
    pub(super) fn end(&mut self, offset: usize, bytes: usize) {
        for (stores, _) in &mut self.readers[offset / WORD..(offset + bytes) / WORD] {
            *stores -= 1;
        }
        self.marked -= bytes / WORD;
    }
}
