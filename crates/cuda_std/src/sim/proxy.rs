//! The order between what threads do to shared memory themselves and what is done for them by another path, the asynchronous
//! proxy (PTX ISA, "Memory Consistency Model", "Proxy-preserved base causality order"): a fence of the proxies must lie
//! between the two, of the thread that wrote or of the one that hands the memory on, after it has seen the write.

use super::clocks::{Clocks, Knowledge};
use super::limits::WARP_THREADS;
use super::shadow::{Accessor, Write};
use super::shared::agents_of;
use super::worker::current;

const LANES: usize = WARP_THREADS as usize;

/// A fence of one thread.
#[derive(Clone, Copy)]
struct Fence {
    epoch: u32,
    /// The thread's clock.
    clock: u32,
    /// How much of what copies for the thread it had waited for.
    copies: u32,
}

/// The fences of one thread.
#[derive(Clone, Default)]
struct Fences {
    /// Oldest first.
    all: Vec<Fence>,
    /// What the thread had seen at the last one.
    seen: Knowledge,
}

/// The fences of a block's threads.
#[derive(Default)]
pub(super) struct ProxyFences {
    threads: Vec<Fences>,
}

impl ProxyFences {
    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.threads.clear();
    }

    /// Whether a fence lies between a write and what `readers` do now, in `epoch`. Of the agents the first `half` are threads,
    /// the others what copies for them.
    pub(super) fn cover<'a>(
        &self,
        write: Write,
        mut readers: impl Iterator<Item = Accessor<'a>>,
        epoch: u32,
        half: usize,
    ) -> bool {
        let Write { agent, clock, epoch: written } = write;
        let copied = agent as usize >= half;
        let writer = agent as usize % half;
        // The first fence of the writer after the write.
        let own = self.threads.get(writer).and_then(|fences| {
            let before = |fence: &Fence| {
                (fence.epoch, if copied { fence.copies } else { fence.clock }) < (written, clock)
            };
            fences.all.get(fences.all.partition_point(before))
        });
        if own.is_some_and(|fence| fence.epoch < epoch) {
            return true;
        }
        readers.all(|reader| {
            own.is_some_and(|fence| reader.comes_after(writer as u32, fence.clock))
                || self.threads.get(reader.thread as usize).is_some_and(|fences| {
                    fences.all.last().is_some_and(|last| {
                        last.epoch > written
                            || last.epoch == written
                                && fences
                                    .seen
                                    .get(agent as usize)
                                    .is_some_and(|&seen| seen >= clock)
                    })
                })
        })
    }
}

/// A fence of the running thread.
pub(crate) fn fence_proxy_async() {
    // SAFETY: the worker is the current one.
    let state = unsafe { &mut *current() };
    let thread = state.thread as usize;
    let (warp, lane) = (thread / LANES, thread % LANES);
    let agents = agents_of(state.threads.len());
    let clocks: &mut Clocks = &mut state.clocks[warp];
    let seen = clocks.knowledge(warp, lane, agents);
    let fence = Fence {
        epoch: state.shared.epoch(),
        clock: seen[thread],
        copies: seen[agents / 2 + thread],
    };
    let threads = state.threads.len();
    let fences = &mut state.proxy_fences.threads;
    fences.resize(threads, Fences::default());
    fences[thread].all.push(fence);
    fences[thread].seen = seen;
    clocks.tick(lane);
    state.clock = clocks.own(lane);
}
