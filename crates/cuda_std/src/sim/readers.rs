//! Who has read a byte of shared memory, warp by warp: kept where mbarriers order threads of different warps. See
//! [`shadow`](super::shadow).

use super::limits::WARP_THREADS;
use super::shadow::Accessor;

/// The readers of one cell in one warp.
#[derive(Clone, Copy, Default)]
pub(super) struct WarpReaders {
    epoch: u32,
    lanes: u32,
    /// Where the readers' clocks differ the smallest, so that a race is never reported wrongly.
    clock: u32,
}

impl WarpReaders {
    /// A read of `who`, of this warp, that races with no write.
    pub(super) fn read(&mut self, who: &Accessor<'_>, epoch: u32) {
        let lane = 1 << who.lane();
        let first = who.thread - who.lane();
        let current = self.epoch == epoch && self.lanes != 0;
        if current && self.clock == who.clock {
            self.lanes |= lane;
        } else if current && !lanes(self.lanes).all(|l| who.comes_after(first + l, self.clock)) {
            self.lanes |= lane;
            self.clock = self.clock.min(who.clock);
        } else {
            *self = WarpReaders { epoch, lanes: lane, clock: who.clock };
        }
    }

    /// A reader of `epoch` that a write of `who` races with; `warp` is the warp of these readers.
    pub(super) fn racing(&self, warp: usize, who: &Accessor<'_>, epoch: u32) -> Option<u32> {
        if self.epoch != epoch {
            return None;
        }
        self.threads(warp)
            .find(|&reader| reader != who.thread && !who.comes_after(reader, self.clock))
    }

    /// A reader of an epoch from `first_epoch` on that a write of `who`, of another block, races with.
    pub(super) fn racing_since(
        &self,
        warp: usize,
        who: &Accessor<'_>,
        first_epoch: u32,
    ) -> Option<u32> {
        if self.epoch < first_epoch {
            return None;
        }
        self.threads(warp).find(|&reader| !who.comes_after(reader, self.clock))
    }

    /// The readers.
    fn threads(&self, warp: usize) -> impl Iterator<Item = u32> + use<> {
        lanes(self.lanes).map(move |lane| warp as u32 * WARP_THREADS + lane)
    }
}

/// The lanes of a mask, lowest first.
pub(super) fn lanes(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < WARP_THREADS).then_some(lane)
    })
}
