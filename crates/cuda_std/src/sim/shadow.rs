//! Who touched which byte of shared memory, to find races and reads of what nobody wrote.
//!
//! Time in a block is a sequence of *epochs*, the intervals between its barriers. Two accesses of different threads to
//! one byte race if at least one writes, both lie in one epoch, and no warp barrier orders them
//! ([`Clocks`](super::clocks::Clocks)). So it is enough to keep, for each byte, the last write and the readers of the
//! current epoch: everything older is ordered. Epochs are never reused, neither by the next block, which makes it
//! unnecessary to clear anything between blocks: what was written before a block's first epoch was not written.
//!
//! Mbarriers order threads of different warps within an epoch. Who has seen what is then known for each thread, and so
//! from the first mbarrier of a block on the readers are kept for each warp ([`Shadow::track_warps`]). For the rest of
//! an epoch they are also from the first time on that lanes of a warp have read a cell at clocks that differ, or that a
//! warp leaves the turn to others in any other way than at a barrier of the block: what that one has read and what
//! others read from now on may be ordered by another barrier before a write.
//!
//! One record stands for an aligned word of 4 bytes until something narrower touches the word; from then on, until the
//! end of the launch, each of its bytes has a record of its own. These lie in the order in which words are split: there
//! may be few of them in much memory.

use super::accessor::Accessor;
use super::fault::AccessKind;
use super::readers::{CellReaders, MixedClocks, WarpReaders};
use super::record::{Record, Write};
use super::violation::Violation;

/// Bytes that one record stands for.
const WORD: usize = 4;

/// Records of cells of one size.
#[derive(Default)]
struct Cells {
    records: Vec<Record>,
    /// Where the readers are kept for each warp: those of all cells, side by side as what its lanes read is.
    readers: Vec<Vec<WarpReaders>>,
    /// For each cell the warps of which that says something.
    warps_that_read: Vec<u32>,
    mixed: MixedClocks,
}

impl Cells {
    fn resize(&mut self, cells: usize, warps: usize) {
        self.records.resize(cells, Record::default());
        self.warps_that_read.resize(cells, 0);
        self.track(warps);
    }

    fn track(&mut self, warps: usize) {
        if self.readers.len() < warps {
            self.readers.resize_with(warps, Vec::new);
        }
        for readers in &mut self.readers[..warps] {
            if readers.len() < self.records.len() {
                readers.resize(self.records.len(), WarpReaders::default());
            }
        }
    }

    /// The record of a cell and its readers in each warp.
    #[inline(always)]
    fn get(&mut self, cell: usize) -> (&mut Record, CellReaders<'_>) {
        let Cells { records, readers, warps_that_read, mixed } = self;
        let readers =
            CellReaders { of_warps: readers, some: &mut warps_that_read[cell], cell, mixed };
        (&mut records[cell], readers)
    }
}

/// The records of a range of shared memory.
#[derive(Default)]
pub(super) struct Shadow {
    words: Cells,
    /// Records of the bytes of words that are split, one word after the other.
    bytes: Cells,
    /// Those words.
    split: Vec<usize>,
    /// Warps whose readers are kept apart; 0 where the records are enough.
    warps: usize,
    /// Warps of the block.
    all_warps: usize,
}

impl Shadow {
    /// Makes room for `bytes` bytes of memory.
    pub(super) fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(WORD).max(self.words.records.len());
        self.words.resize(words, self.warps);
    }

    /// Gets ready for a block of so many warps.
    pub(super) fn begin_block(&mut self, warps: usize) {
        (self.warps, self.all_warps) = (0, warps);
        for cells in [&mut self.words, &mut self.bytes] {
            cells.mixed.clear();
        }
    }

    /// Keeps the readers of each of the block's warps apart from now on.
    pub(super) fn track_warps(&mut self) {
        self.warps = self.all_warps;
        self.words.track(self.warps);
        self.bytes.track(self.warps);
    }

    /// From now on the records are enough: a new epoch has begun.
    pub(super) fn untrack_warps(&mut self) {
        self.warps = 0;
    }

    /// Forgets everything; epochs may start again.
    pub(super) fn clear(&mut self) {
        self.words.records.fill(Record::default());
        self.words.warps_that_read.fill(0);
        self.unsplit();
    }

    /// Makes one record again of those of each word's bytes, which makes accesses faster: that of memory that nobody
    /// has touched.
    pub(super) fn unsplit(&mut self) {
        for word in self.split.drain(..) {
            self.words.records[word] = Record::default();
        }
        self.bytes.records.clear();
        self.bytes.readers.iter_mut().for_each(Vec::clear);
        self.bytes.warps_that_read.clear();
    }

    /// A read of an aligned range in `epoch`, of a block whose first epoch is `first_epoch`.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        epoch: u32,
        first_epoch: u32,
    ) -> Result<(), Violation> {
        if self.warps > 0 {
            return self.read_tracked(offset, bytes, who, epoch, first_epoch);
        }
        let mut is_kept = true;
        self.each(offset, bytes, |at, record| {
            record.check_written(at - offset, first_epoch)?;
            is_kept &= record.read(who, epoch).map_err(race)?;
            Ok(())
        })?;
        if !is_kept {
            self.track_warps();
            return self.read_tracked(offset, bytes, who, epoch, first_epoch);
        }
        Ok(())
    }

    /// [`read`](Self::read) where readers are kept for each warp.
    #[inline(never)]
    fn read_tracked(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        epoch: u32,
        first_epoch: u32,
    ) -> Result<(), Violation> {
        self.each_tracked(offset, bytes, |at, record, mut readers| {
            record.check_written(at - offset, first_epoch)?;
            record.check_writer(who, epoch).map_err(race)?;
            readers.read(who, epoch);
            Ok(())
        })
    }

    /// The writes of an aligned range that an asynchronous read finds, of a block whose first epoch is `first_epoch`.
    pub(super) fn writes(
        &mut self,
        offset: usize,
        bytes: usize,
        first_epoch: u32,
        judge: &mut impl FnMut(Write) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        self.each(offset, bytes, |at, record| {
            record.check_written(at - offset, first_epoch)?;
            let Record { write_epoch: epoch, write_clock: clock, writer, .. } = *record;
            judge(Write { agent: writer as u32, clock, epoch })
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
        if self.warps > 0 {
            return self.write_tracked(offset, bytes, who, epoch);
        }
        self.each(offset, bytes, |_, record| record.write(who, epoch).map_err(race))
    }

    /// [`write`](Self::write) where readers are kept for each warp.
    #[inline(never)]
    fn write_tracked(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        epoch: u32,
    ) -> Result<(), Violation> {
        self.each_tracked(offset, bytes, |_, record, mut readers| {
            if let Some(reader) = readers.racing(who, epoch) {
                return Err(race((reader, AccessKind::Read)));
            }
            record.write(who, epoch).map_err(race)?;
            // Whoever comes after this write comes after the readers too.
            readers.clear();
            Ok(())
        })
    }

    /// A write that a thread of another block begins to an aligned range of this one's, whose first epoch is
    /// `first_epoch`: it is ordered after what it has seen, in whatever epoch that was.
    pub(super) fn begin_remote_write(
        &mut self,
        offset: usize,
        bytes: usize,
        who: &Accessor<'_>,
        first_epoch: u32,
    ) -> Result<(), Violation> {
        self.each_tracked(offset, bytes, |_, record, mut readers| {
            if let Some(reader) = readers.racing_since(who, first_epoch) {
                return Err(race((reader, AccessKind::Read)));
            }
            let writer = record.writer.into();
            if record.write_epoch >= first_epoch && !who.comes_after(writer, record.write_clock) {
                return Err(race((writer, AccessKind::Write)));
            }
            readers.clear();
            Ok(())
        })
    }

    /// Replaces the last write of a range of words, which nobody has touched since, by one that `agent` makes at
    /// `clock`.
    pub(super) fn write_instead(
        &mut self,
        offset: usize,
        bytes: usize,
        agent: u32,
        clock: u32,
        epoch: u32,
    ) {
        let written: Result<(), Violation> = self.each(offset, bytes, |_, record| {
            (record.write_epoch, record.write_clock, record.writer) = (epoch, clock, agent as u16);
            Ok(())
        });
        debug_assert!(written.is_ok());
    }

    /// Checks that `covered` holds for the agent and the clock of the last write of each byte of an aligned range that
    /// has been written since the block's first epoch.
    pub(super) fn check_fenced(
        &mut self,
        offset: usize,
        bytes: usize,
        first_epoch: u32,
        covered: impl Fn(u32, u32) -> bool,
    ) -> Result<(), Violation> {
        self.each(offset, bytes, |_, record| {
            let writer = record.writer.into();
            if record.write_epoch < first_epoch || covered(writer, record.write_clock) {
                Ok(())
            } else {
                Err(Violation::NotFenced { writer })
            }
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
            let first = self.split(offset / WORD) + offset % WORD;
            return visit_all(&mut self.bytes.records[first..first + bytes], offset, visit);
        }
        for word in offset / WORD..(offset + bytes) / WORD {
            let record = &mut self.words.records[word];
            let start = word * WORD;
            if let Some(first) = record.place_of_bytes() {
                visit_all(&mut self.bytes.records[first..first + WORD], start, &mut visit)?;
            } else {
                visit(start, record)?;
            }
        }
        Ok(())
    }

    /// [`each`](Self::each) with the readers in each warp.
    fn each_tracked(
        &mut self,
        offset: usize,
        bytes: usize,
        mut visit: impl FnMut(usize, &mut Record, CellReaders<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        if bytes < WORD {
            self.split(offset / WORD);
        }
        let mut at = offset;
        while at < offset + bytes {
            let word = at / WORD;
            if let Some(first) = self.words.records[word].place_of_bytes() {
                let (record, readers) = self.bytes.get(first + at % WORD);
                visit(at, record, readers)?;
                at += 1;
            } else {
                let (record, readers) = self.words.get(word);
                visit(at, record, readers)?;
                at += WORD;
            }
        }
        Ok(())
    }

    /// Gives each byte of a word its own record, and says where the first of them is.
    fn split(&mut self, word: usize) -> usize {
        if let Some(first) = self.words.records[word].place_of_bytes() {
            return first;
        }
        let warps = self.warps;
        let first = self.bytes.records.len();
        self.split.push(word);
        let record = std::mem::replace(&mut self.words.records[word], Record::split_to(first));
        self.bytes.records.extend([record; WORD]);
        self.bytes.warps_that_read.extend([self.words.warps_that_read[word]; WORD]);
        self.bytes.track(warps);
        for warp in 0..warps {
            let readers = self.words.readers[warp][word];
            self.bytes.readers[warp][first..first + WORD].fill(readers);
            if let Some(&clocks) = self.words.mixed.get(&(word, warp)) {
                for byte in first..first + WORD {
                    self.bytes.mixed.insert((byte, warp), clocks);
                }
            }
        }
        first
    }
}

/// The violation of an access that races with what an agent did.
fn race((other, other_access): (u32, AccessKind)) -> Violation {
    Violation::Race { other, other_access }
}

/// Calls `visit` with the records of single bytes, the first of which stands for `offset`.
fn visit_all(
    records: &mut [Record],
    offset: usize,
    mut visit: impl FnMut(usize, &mut Record) -> Result<(), Violation>,
) -> Result<(), Violation> {
    records.iter_mut().enumerate().try_for_each(|(i, record)| visit(offset + i, record))
}
