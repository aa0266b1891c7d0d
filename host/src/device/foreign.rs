//! Work that is outstanding on memory which somebody else owns.
//!
//! A view of such memory is made anew whenever its owner likes, so nothing that belongs to the view could remember the
//! work. The device does, by addresses.

use super::pending::{Marker, Pending, Use};
use std::ops::Range;

/// So many blocks are remembered before anybody asks which of them are done.
const FEW: usize = 64;

/// The outstanding work on somebody else's memory, by the blocks that views were made of.
pub(crate) struct ForeignWork<M> {
    blocks: Vec<(Range<u64>, Pending<M>)>,
    /// At so many blocks those are forgotten on which all is done: twice as many as were left the last time, so that
    /// asking costs each launch the same in the long run.
    most: usize,
}

impl<M> Default for ForeignWork<M> {
    fn default() -> Self {
        ForeignWork { blocks: Vec::new(), most: FEW }
    }
}

impl<M: Marker> ForeignWork<M> {
    /// What a new use of these addresses has to wait for, as [`Pending::before`] says it.
    pub fn before(&mut self, addresses: Range<u64>, kind: Use, stream: Option<u64>) -> Vec<M> {
        let shared =
            |block: &Range<u64>| block.start.max(addresses.start) < block.end.min(addresses.end);
        let blocks = self.blocks.iter_mut().filter(|(block, _)| shared(block));
        blocks.flat_map(|(_, pending)| pending.before(kind, stream)).collect()
    }

    /// Remembers work on these addresses that ends at `last` on `stream`.
    pub fn add(&mut self, addresses: Range<u64>, stream: u64, last: &M, kind: Use) {
        if addresses.is_empty() {
            return;
        }
        if let Some((_, pending)) = self.blocks.iter_mut().find(|(block, _)| *block == addresses) {
            return pending.add(stream, last, kind);
        }
        if self.blocks.len() >= self.most {
            self.forget_reached();
        }
        let mut pending = Pending::default();
        pending.add(stream, last, kind);
        self.blocks.push((addresses, pending));
    }

    /// Waits as [`Pending::wait_for_all`] does.
    pub fn wait_for_all(&mut self) {
        self.blocks.iter_mut().for_each(|(_, pending)| pending.wait_for_all());
    }

    /// Forgets what is done.
    pub fn forget_reached(&mut self) {
        self.blocks.retain_mut(|(_, pending)| {
            pending.forget_reached();
            !pending.is_empty()
        });
        self.most = FEW.max(2 * self.blocks.len());
    }
}

#[cfg(test)]
mod tests {
    use super::super::pending::tests::{event, same};
    use super::*;

    #[test]
    fn work_on_shared_addresses_is_put_in_order() {
        let (write, read, apart) = (event(), event(), event());
        let mut work = ForeignWork::default();
        work.add(100..200, 1, &write, Use::Write);
        work.add(150..250, 1, &read, Use::Read);
        work.add(250..300, 1, &apart, Use::Write);
        assert!(same(&work.before(190..240, Use::Read, None), &[&write]));
        assert!(same(&work.before(190..240, Use::Write, Some(2)), &[&write, &read]));
        assert!(same(&work.before(200..250, Use::Write, None), &[&read]));
        assert!(work.before(200..250, Use::Read, None).is_empty());
        assert!(work.before(0..1000, Use::Write, Some(1)).is_empty(), "in order anyway");
        assert!(work.before(160..160, Use::Write, None).is_empty(), "no memory at all");
    }

    #[test]
    fn one_block_has_one_record() {
        let (first, last) = (event(), event());
        let mut work = ForeignWork::default();
        work.add(0..8, 1, &first, Use::Write);
        work.add(0..8, 1, &last, Use::Write);
        assert_eq!(work.blocks.len(), 1);
        assert!(same(&work.before(0..8, Use::Read, None), &[&last]));
    }

    #[test]
    fn what_is_done_is_forgotten_and_what_is_not_is_kept() {
        let mut work = ForeignWork::default();
        let kept = event();
        work.add(0..1, 1, &kept, Use::Write);
        for block in 1..10 * FEW as u64 {
            let done = event();
            work.add(block..block + 1, 1, &done, Use::Write);
            done.wait().unwrap();
        }
        assert!(work.blocks.len() <= 2 * FEW, "{}", work.blocks.len());
        assert!(same(&work.before(0..u64::MAX, Use::Read, None), &[&kept]));
    }
}
