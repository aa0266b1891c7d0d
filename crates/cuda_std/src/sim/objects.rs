//! Where mbarriers lie in shared memory: nothing else may touch their bytes.

use super::violation::Violation;

/// Bytes of an mbarrier, which lies at a multiple of them.
const BYTES: usize = size_of::<u64>();

/// The mbarriers in a range of shared memory.
#[derive(Default)]
pub(super) struct Objects {
    /// Offsets in ascending order.
    offsets: Vec<usize>,
    /// From where to where they lie. They mostly lie next to each other, and then no access elsewhere needs to look.
    start: usize,
    end: usize,
}

impl Objects {
    /// Drops all of them.
    pub(super) fn clear(&mut self) {
        self.offsets.clear();
        (self.start, self.end) = (0, 0);
    }

    /// There is one at an offset from now on.
    pub(super) fn add(&mut self, offset: usize) {
        if let Err(at) = self.offsets.binary_search(&offset) {
            self.offsets.insert(at, offset);
            (self.start, self.end) =
                (self.offsets[0], self.offsets[self.offsets.len() - 1] + BYTES);
        }
    }

    /// An access to a range that is not empty: fails if there is one.
    #[inline(always)]
    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), Violation> {
        if offset >= self.end || offset + bytes <= self.start {
            return Ok(());
        }
        self.search(offset, bytes)
    }

    #[cold]
    fn search(&self, offset: usize, bytes: usize) -> Result<(), Violation> {
        let first = self.offsets.partition_point(|&object| object + BYTES <= offset);
        match self.offsets.get(first) {
            Some(&object) if object < offset + bytes => {
                Err(Violation::Mbarrier { distance: object as isize - offset as isize })
            }
            _ => Ok(()),
        }
    }
}
