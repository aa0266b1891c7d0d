//! At which clock a GPU's multiprocessors ran, by their own counters ([`regemm_kernels::cycles`]).

use crate::device::stream::Stream;
use crate::device::{Buffer, Code, Device, Launch, Region, Rows, Step, Use};
use crate::error::{Error, Operand, Result};
use cuda_std::memory::GlobalPtr;
use ndarray::aview1;
use regemm_kernels::cycles::{BLOCKS, WORDS};
use std::cell::Cell;

/// The clock of the multiprocessors during spans of a stream's work.
///
/// It is what there was: cycles that the multiprocessors counted, for the time that passed. A GPU's management library
/// gives what the clock is set to, of which multiprocessors leave out cycles at a limit of power or current.
///
/// Spans have numbers, and may be measured again and again: the last [`begin`](Self::begin) and the last
/// [`end`](Self::end) of a span count.
pub struct SmClock {
    notes: Buffer,
    multiprocessors: u32,
    /// The mark of each span's last beginning.
    marks: Vec<u32>,
}

/// What is noted of a multiprocessor: the mark of its span, cycles and nanoseconds.
type Note = [u64; WORDS];

impl SmClock {
    /// For so many spans.
    ///
    /// # Errors
    /// [`Error::NotMeasurable`] on the simulator, or the device has no room for what is noted, or fails.
    pub fn new(device: &Device, spans: usize) -> Result<SmClock> {
        if device.is_sim() {
            return Err(Error::NotMeasurable { why: "the simulator has no clock".into() });
        }
        let multiprocessors = device.info().multiprocessors;
        let bytes = 2 * spans as u64 * u64::from(multiprocessors) * size_of::<Note>() as u64;
        let notes = Buffer::new(device, bytes)?;
        device.zero(notes.address(), bytes)?;
        Ok(SmClock { notes, multiprocessors, marks: vec![0; spans] })
    }

    /// A span begins here. It holds what is put on the stream from now on.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for a stream of another device, or a failure of the device.
    ///
    /// # Panics
    /// There are not so many spans.
    pub fn begin(&mut self, stream: &Stream, span: usize) -> Result<()> {
        self.marks[span] = self.marks[span].wrapping_add(1).max(1);
        self.note(stream, span, 0)
    }

    /// A span ends here.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    ///
    /// # Panics
    /// There are not so many spans.
    pub fn end(&mut self, stream: &Stream, span: usize) -> Result<()> {
        self.note(stream, span, 1)
    }

    fn note(&self, stream: &Stream, span: usize, side: u64) -> Result<()> {
        let [found, expected] = [self.notes.device(), stream.device()];
        if !found.is_same(expected) {
            let (operand, found, expected) = (Operand::Clock, found.spec(), expected.spec());
            return Err(Error::DeviceMismatch { operand, found, expected });
        }
        let to = GlobalPtr::<u64>::from_address(self.address(span, side));
        let (multiprocessors, mark) = (self.multiprocessors, self.marks[span]);
        let arguments =
            [(&raw const to).cast(), (&raw const multiprocessors).cast(), (&raw const mark).cast()];
        let grid = [multiprocessors * BLOCKS, 1, 1];
        let steps = [Step { code: Code::cycle_counter(), grid, arguments: &arguments }];
        let (writes, begun) = ([Region::from(&self.notes)], Cell::default());
        let launch = Launch { steps: &steps, reads: &[], writes: &writes, begun: &begun };
        // SAFETY: there is room for a note of each multiprocessor, and the arguments are the kernel's.
        unsafe { self.notes.device().launch(&launch, Some(stream))? };
        Ok(())
    }

    /// The mean clock in MHz of the multiprocessors in each span that has ended; waits for that. None where no
    /// multiprocessor was asked at both ends, or no time passed.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn mhz(&self) -> Result<Vec<Option<f64>>> {
        let of_side = self.multiprocessors as usize;
        let mut bytes = vec![0; 2 * self.marks.len() * of_side * size_of::<Note>()];
        self.notes.finish(Use::Read)?;
        let row_bytes = bytes.len() as u64;
        let from = Rows { address: self.notes.address(), row_bytes, pitch: row_bytes, rows: 1 };
        self.notes.device().read_rows(from, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
        let words = Vec::from_iter(words.iter().map(|word| u64::from_ne_bytes(*word)));
        let (notes, _) = words.as_chunks::<WORDS>();
        let spans = notes.chunks(2 * of_side).zip(&self.marks);
        Ok(spans.map(|(span, mark)| mean_mhz(span.split_at(of_side), (*mark).into())).collect())
    }

    fn address(&self, span: usize, side: u64) -> u64 {
        let notes = (2 * span as u64 + side) * u64::from(self.multiprocessors);
        self.notes.address() + notes * size_of::<Note>() as u64
    }
}

/// The mean over the multiprocessors that have this mark in both notes.
fn mean_mhz((begin, end): (&[Note], &[Note]), mark: u64) -> Option<f64> {
    let of_both = Vec::from_iter(begin.iter().zip(end).filter_map(|(begin, end)| {
        let [cycles, nanoseconds] = [1, 2].map(|word| end[word].wrapping_sub(begin[word]));
        let is_of_span = mark != 0 && begin[0] == mark && end[0] == mark;
        (is_of_span && nanoseconds > 0).then(|| cycles as f64 / nanoseconds as f64 * 1e3)
    }));
    aview1(&of_both).mean()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiprocessors_count_that_were_asked_at_both_ends_of_a_span() {
        let begin = [[7, 1000, 50], [7, 0, 60], [6, 0, 0], [7, 5, 5]];
        let end = [[7, 3000, 1050], [7, 1000, 1060], [7, 9999, 100], [6, 99, 99]];
        assert_eq!(mean_mhz((&begin, &end), 7), Some(1500.0));
        assert_eq!(mean_mhz((&begin, &end), 8), None);
        let never = [[0; WORDS]; 2];
        assert_eq!(mean_mhz((&never, &never), 0), None);
        let at_once = [[1, 10, 10]; 2];
        assert_eq!(mean_mhz((&at_once, &at_once), 1), None, "no time passed");
    }

    #[test]
    fn the_simulator_has_none() {
        let clock = SmClock::new(&Device::sim(), 3);
        assert!(matches!(clock.err(), Some(Error::NotMeasurable { .. })));
    }
}
