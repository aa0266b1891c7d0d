//! Who touched which byte of shared memory, to find races and reads of what nobody wrote.
//!
//! Time in a block is a sequence of *epochs*, the intervals between its barriers. Two accesses of different threads to
//! one byte race if at least one writes, both lie in one epoch, and no warp barrier orders them
//! ([`Clocks`](super::clocks::Clocks)). So it is enough to keep, for each byte, the last write and the readers of the
//! current epoch: everything older is ordered. Epochs are never reused, neither by the next block, which makes it
//! unnecessary to clear anything between blocks: what was written before a block's first epoch was not written.
//!
//! One record stands for an aligned word of 4 bytes until something narrower touches the word; from then on each of
//! its bytes has a record of its own.

use super::clocks::Clocks;
use super::fault::AccessKind;
use super::limits::WARP_THREADS;

/// Bytes that one record stands for.
const WORD: usize = 4;

/// `Record::reader_warp` when threads of several warps have read.
const SEVERAL: u8 = u8::MAX;

/// The thread that makes an access.
#[derive(Clone, Copy)]
pub(super) struct Accessor<'a> {
    /// Linear index in the block.
    pub(super) thread: u32,
    /// Its own clock.
    pub(super) clock: u32,
    /// The clocks of its warp.
    pub(super) clocks: &'a Clocks,
}

impl Accessor<'_> {
    fn warp(&self) -> u8 {
        (self.thread / WARP_THREADS) as u8
    }

    fn lane(&self) -> u32 {
        self.thread % WARP_THREADS
    }

    /// Whether a warp barrier lies between this access and one that `other` made at `clock` in the same epoch.
    fn comes_after(&self, other: u32, clock: u32) -> bool {
        other / WARP_THREADS == self.thread / WARP_THREADS
            && self.clocks.has_seen(self.lane() as usize, (other % WARP_THREADS) as usize, clock)
    }
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// The byte at this distance from the address has not been written.
    Uninitialised { distance: usize },
    /// Another thread touched one of the bytes, and nothing orders the two.
    Race { other: u32, other_access: AccessKind },
    /// A copy of that thread is going to write one of the bytes.
    InFlight { issuer: u32 },
}

#[derive(Clone, Copy, Default)]
struct Record {
    write_epoch: u32,
    write_clock: u32,
    read_epoch: u32,
    /// Clock of the readers; where they differ, the smallest, so that a race is never reported wrongly.
    read_clock: u32,
    /// Readers of one warp: the mask of their lanes. Readers of several: two threads of different warps, 16 bits each.
    readers: u32,
    /// Thread of the last write.
    writer: u16,
    /// Warp of all readers, or `SEVERAL`.
    reader_warp: u8,
    /// The bytes of this word have their own records.
    split: bool,
}

/// Both ways to touch a record fail with the thread that they race with, and what that did.
impl Record {
    #[inline]
    fn read(&mut self, who: &Accessor<'_>, epoch: u32) -> Result<(), (u32, AccessKind)> {
        let writer = self.writer as u32;
        if self.write_epoch == epoch
            && writer != who.thread
            && !who.comes_after(writer, self.write_clock)
        {
            return Err((writer, AccessKind::Write));
        }
        let (warp, lane) = (who.warp(), 1 << who.lane());
        if self.read_epoch != epoch {
            self.read_epoch = epoch;
            (self.reader_warp, self.readers, self.read_clock) = (warp, lane, who.clock);
        } else if self.reader_warp == warp {
            if self.read_clock == who.clock {
                self.readers |= lane;
            } else if lanes(self.readers)
                .all(|l| who.comes_after(warp as u32 * WARP_THREADS + l, self.read_clock))
            {
                (self.readers, self.read_clock) = (lane, who.clock);
            } else {
                self.readers |= lane;
                self.read_clock = self.read_clock.min(who.clock);
            }
        } else if self.reader_warp != SEVERAL {
            let first = self.reader_warp as u32 * WARP_THREADS + self.readers.trailing_zeros();
            (self.reader_warp, self.readers) = (SEVERAL, first | who.thread << u16::BITS);
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, who: &Accessor<'_>, epoch: u32) -> Result<(), (u32, AccessKind)> {
        let writer = self.writer as u32;
        if self.write_epoch == epoch
            && writer != who.thread
            && !who.comes_after(writer, self.write_clock)
        {
            return Err((writer, AccessKind::Write));
        }
        if self.read_epoch == epoch
            && let Some(reader) = self.racing_reader(who)
        {
            return Err((reader, AccessKind::Read));
        }
        (self.write_epoch, self.write_clock, self.writer) = (epoch, who.clock, who.thread as u16);
        Ok(())
    }

    /// A reader of this epoch that a write of `who` races with.
    fn racing_reader(&self, who: &Accessor<'_>) -> Option<u32> {
        if self.reader_warp == SEVERAL {
            let (first, second) = (self.readers & u16::MAX as u32, self.readers >> u16::BITS);
            let other_warp = first / WARP_THREADS != who.thread / WARP_THREADS;
            return Some(if other_warp { first } else { second });
        }
        lanes(self.readers)
            .map(|lane| self.reader_warp as u32 * WARP_THREADS + lane)
            .find(|&reader| reader != who.thread && !who.comes_after(reader, self.read_clock))
    }
}

/// The lanes of a mask, lowest first.
fn lanes(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < WARP_THREADS).then_some(lane)
    })
}

/// The records of a range of shared memory.
#[derive(Default)]
pub(super) struct Shadow {
    words: Vec<Record>,
    /// Records of single bytes; empty until the first word is split.
    bytes: Vec<Record>,
}

impl Shadow {
    /// Makes room for `bytes` bytes of memory.
    pub(super) fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(WORD);
        if self.words.len() < words {
            self.words.resize(words, Record::default());
        }
        if !self.bytes.is_empty() {
            self.bytes.resize(self.words.len() * WORD, Record::default());
        }
    }

    /// Forgets everything; epochs may start again.
    pub(super) fn clear(&mut self) {
        self.words.fill(Record::default());
        self.bytes.clear();
    }

    /// Whether any word has been split, which makes all later accesses to it slower.
    pub(super) fn has_split(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// A read of an aligned range in `epoch`, of a block whose first epoch is `first_epoch`.
    #[inline]
    pub(super) fn read(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        epoch: u32,
        first_epoch: u32,
    ) -> Result<(), Violation> {
        self.each(offset, bytes, |at, record| {
            if record.write_epoch < first_epoch {
                return Err(Violation::Uninitialised { distance: at - offset });
            }
            record
                .read(who, epoch)
                .map_err(|(other, other_access)| Violation::Race { other, other_access })
        })
    }

    /// A write of an aligned range in `epoch`.
    #[inline]
    pub(super) fn write(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        epoch: u32,
    ) -> Result<(), Violation> {
        self.each(offset, bytes, |_, record| {
            record
                .write(who, epoch)
                .map_err(|(other, other_access)| Violation::Race { other, other_access })
        })
    }

    /// Calls `visit` with every record of an aligned range.
    #[inline(always)]
    fn each(
        &mut self,
        offset: usize,
        bytes: usize,
        mut visit: impl FnMut(usize, &mut Record) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        if bytes < WORD {
            self.split(offset / WORD);
            return visit_all(&mut self.bytes[offset..offset + bytes], offset, visit);
        }
        for word in offset / WORD..(offset + bytes) / WORD {
            let record = &mut self.words[word];
            let start = word * WORD;
            if record.split {
                visit_all(&mut self.bytes[start..start + WORD], start, &mut visit)?;
            } else {
                visit(start, record)?;
            }
        }
        Ok(())
    }

    /// Gives each byte of a word its own record.
    fn split(&mut self, word: usize) {
        if self.words[word].split {
            return;
        }
        if self.bytes.is_empty() {
            self.bytes.resize(self.words.len() * WORD, Record::default());
        }
        let record = self.words[word];
        self.bytes[word * WORD..][..WORD].fill(record);
        self.words[word].split = true;
    }
}

/// Calls `visit` with the records of single bytes, the first of which stands for `offset`.
fn visit_all(
    records: &mut [Record],
    offset: usize,
    mut visit: impl FnMut(usize, &mut Record) -> Result<(), Violation>,
) -> Result<(), Violation> {
    records.iter_mut().enumerate().try_for_each(|(i, record)| visit(offset + i, record))
}
