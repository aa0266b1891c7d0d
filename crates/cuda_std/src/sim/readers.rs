//! Who has read a byte of shared memory, warp by warp: kept where mbarriers order threads of different warps, or where
//! lanes of a warp have read it at different clocks. See [`shadow`](super::shadow).

use super::accessor::Accessor;
use super::limits::WARP_THREADS;
use std::collections::HashMap;

/// `WarpReaders::clock` where the lanes' clocks differ: no lane has it.
const MIXED: u32 = 0;

/// The clocks of a warp's readers.
type LaneClocks = [u32; WARP_THREADS as usize];

/// The clocks of readers that differ, by the cell and the warp. Lanes of a warp mostly read at one clock: they run in
/// step until they make known one by one what they have done.
pub(super) type MixedClocks = HashMap<(usize, usize), LaneClocks>;

/// The readers of one cell in one warp.
#[derive(Clone, Copy, Default)]
pub(super) struct WarpReaders {
    epoch: u32,
    lanes: u32,
    clock: u32,
}

/// The readers of one cell, warp by warp.
pub(super) struct CellReaders<'a> {
    /// Of each warp those of all cells.
    pub(super) of_warps: &'a mut [Vec<WarpReaders>],
    /// The mask of those warps that have read since the last write. What there is of the others is of no meaning.
    pub(super) some: &'a mut u32,
    pub(super) cell: usize,
    pub(super) mixed: &'a mut MixedClocks,
}

impl CellReaders<'_> {
    /// A read of `who` that races with no write.
    pub(super) fn read(&mut self, who: &Accessor<'_>, epoch: u32) {
        let (warp, lane) = ((who.thread / WARP_THREADS) as usize, who.lane());
        let (cell, place) = (self.cell, (self.cell, warp));
        let readers = &mut self.of_warps[warp][cell];
        let current = *self.some >> warp & 1 == 1 && readers.epoch == epoch;
        if current && readers.clock == who.clock {
            readers.lanes |= 1 << lane;
            return;
        }
        let last = *readers;
        *self.some |= 1 << warp;
        if !current || last.seen_by(warp, who, || self.mixed[&place]) {
            *readers = WarpReaders { epoch, lanes: 1 << lane, clock: who.clock };
            return;
        }
        let clocks = self.mixed.entry(place).or_default();
        if last.clock != MIXED {
            *clocks = [last.clock; WARP_THREADS as usize];
        }
        // Who comes after a lane's last read comes after those before.
        clocks[lane as usize] = who.clock;
        (readers.lanes, readers.clock) = (last.lanes | 1 << lane, MIXED);
    }

    /// A reader of `epoch` that a write of `who` races with.
    pub(super) fn racing(&self, who: &Accessor<'_>, epoch: u32) -> Option<u32> {
        self.find(|readers| readers.epoch == epoch, who)
    }

    /// A reader of an epoch from `first_epoch` on that a write of `who`, of another block, races with.
    pub(super) fn racing_since(&self, who: &Accessor<'_>, first_epoch: u32) -> Option<u32> {
        self.find(|readers| readers.epoch >= first_epoch, who)
    }

    fn find(&self, counts: impl Fn(&WarpReaders) -> bool, who: &Accessor<'_>) -> Option<u32> {
        bits(*self.some).find_map(|warp| {
            let warp = warp as usize;
            let readers = self.of_warps.get(warp)?.get(self.cell)?;
            let mixed = || self.mixed[&(self.cell, warp)];
            if counts(readers) { readers.unseen(warp, who, mixed) } else { None }
        })
    }

    /// Forgets all readers.
    pub(super) fn clear(&mut self) {
        *self.some = 0;
    }
}

impl WarpReaders {
    /// A reader that is another thread than `who`, or of another block, and that `who` does not come after; `mixed`
    /// gives clocks that differ.
    fn unseen(
        &self,
        warp: usize,
        who: &Accessor<'_>,
        mixed: impl FnOnce() -> LaneClocks,
    ) -> Option<u32> {
        let thread = |lane: u32| warp as u32 * WARP_THREADS + lane;
        let own = |thread: u32| thread == who.thread && !who.is_remote();
        if self.clock != MIXED {
            let mut threads = bits(self.lanes).map(thread);
            return threads.find(|&reader| !own(reader) && !who.comes_after(reader, self.clock));
        }
        let clocks = mixed();
        let lane = bits(self.lanes).find(|&lane| {
            !own(thread(lane)) && !who.comes_after(thread(lane), clocks[lane as usize])
        });
        lane.map(thread)
    }

    /// Whether `who` comes after all of them.
    fn seen_by(&self, warp: usize, who: &Accessor<'_>, mixed: impl FnOnce() -> LaneClocks) -> bool {
        self.unseen(warp, who, mixed).is_none()
    }
}

/// The bits of a mask that are set, lowest first: lanes of a warp, or warps of a block.
pub(super) fn bits(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit)
    })
}
