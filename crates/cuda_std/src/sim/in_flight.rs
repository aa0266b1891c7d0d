//! Which words of shared memory asynchronous copies are going to write, and which they are going to read.

use super::violation::Violation;

/// Bytes that one mark stands for: a copy moves whole words.
const WORD: usize = 4;

/// The copies under way to a range of shared memory.
#[derive(Default)]
pub(super) struct InFlight {
    /// For each word the thread whose copy is going to write it, plus one; 0 where there is none.
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
            Some(&issuer) => Err(Violation::InFlight { issuer: issuer as u32 - 1 }),
            None => Ok(()),
        }
    }

    /// A copy of `thread` to a range of words that no other copy is going to write.
    pub(super) fn begin(&mut self, offset: usize, bytes: usize, thread: u32) {
        self.issuers[offset / WORD..(offset + bytes) / WORD].fill(thread as u16 + 1);
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
