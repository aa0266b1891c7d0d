//! The last write of a cell of shared memory, and who has read it since. See [`shadow`](super::shadow).

use super::accessor::Accessor;
use super::fault::AccessKind;
use super::limits::WARP_THREADS;
use super::readers::bits;
use super::violation::Violation;

/// `Record::reader_warp` when threads of several warps have read.
const SEVERAL: u8 = u8::MAX;

/// The last write of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) agent: u32,
    pub(super) clock: u32,
    pub(super) epoch: u32,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Record {
    pub(super) write_epoch: u32,
    pub(super) write_clock: u32,
    read_epoch: u32,
    /// Clock of the readers.
    read_clock: u32,
    /// Readers of one warp: the mask of their lanes. Readers of several: two threads of different warps, 16 bits each.
    readers: u32,
    /// Agent of the last write: a thread, or what copies for it (see [`clocks`](super::clocks)).
    pub(super) writer: u16,
    /// Warp of all readers, or `SEVERAL`.
    reader_warp: u8,
    /// The bytes of this word have their own records, and `readers` says where.
    split: bool,
}

/// Both ways to touch a record fail with the thread that they race with, and what that did.
impl Record {
    /// That of a word whose bytes have records of their own, at a place.
    pub(super) fn split_to(place: usize) -> Self {
        Record { readers: place as u32, split: true, ..Record::default() }
    }

    /// Where the records of the word's bytes are, if they have some.
    #[inline(always)]
    pub(super) fn place_of_bytes(&self) -> Option<usize> {
        self.split.then_some(self.readers as usize)
    }

    /// Fails where nobody has written since the block's first epoch. `distance` says which byte of the access this is.
    #[inline(always)]
    pub(super) fn check_written(&self, distance: usize, first_epoch: u32) -> Result<(), Violation> {
        if self.write_epoch < first_epoch {
            return Err(Violation::Uninitialised { distance });
        }
        Ok(())
    }

    /// Fails where the last write races with an access of `who`.
    #[inline(always)]
    pub(super) fn check_writer(
        &self,
        who: &Accessor<'_>,
        epoch: u32,
    ) -> Result<(), (u32, AccessKind)> {
        let writer = self.writer as u32;
        if self.write_epoch == epoch
            && writer != who.thread
            && !who.comes_after(writer, self.write_clock)
        {
            return Err((writer, AccessKind::Write));
        }
        Ok(())
    }

    /// Gives `false`, and does nothing, where others of the warp have read at another clock.
    #[inline]
    pub(super) fn read(
        &mut self,
        who: &Accessor<'_>,
        epoch: u32,
    ) -> Result<bool, (u32, AccessKind)> {
        self.check_writer(who, epoch)?;
        let (warp, lane) = (who.warp(), 1 << who.lane());
        if self.read_epoch != epoch {
            self.read_epoch = epoch;
            (self.reader_warp, self.readers, self.read_clock) = (warp, lane, who.clock);
        } else if self.reader_warp == warp {
            if self.read_clock == who.clock {
                self.readers |= lane;
            } else if bits(self.readers)
                .all(|l| who.comes_after(warp as u32 * WARP_THREADS + l, self.read_clock))
            {
                (self.readers, self.read_clock) = (lane, who.clock);
            } else {
                return Ok(false);
            }
        } else if self.reader_warp != SEVERAL {
            let first = self.reader_warp as u32 * WARP_THREADS + self.readers.trailing_zeros();
            (self.reader_warp, self.readers) = (SEVERAL, first | who.thread << u16::BITS);
        }
        Ok(true)
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        who: &Accessor<'_>,
        epoch: u32,
    ) -> Result<(), (u32, AccessKind)> {
        self.check_writer(who, epoch)?;
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
        bits(self.readers)
            .map(|lane| self.reader_warp as u32 * WARP_THREADS + lane)
            .find(|&reader| reader != who.thread && !who.comes_after(reader, self.read_clock))
    }
}
