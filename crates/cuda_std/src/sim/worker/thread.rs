//! A thread of the block that runs, and why it does not.

use crate::sim::async_copy::CopyQueue;
use crate::sim::bulk_copy::StoreQueue;
use crate::sim::cluster::Attendance;
use crate::sim::collective::Collective;
use crate::sim::double_mma::Doubles;
use crate::sim::mbarrier::Wait;
use crate::sim::mma::Fragments;
use crate::sim::named_barrier::NamedWait;
use crate::sim::signal::SignalWait;
use crate::sim::wgmma::Step;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::panic::Location;
use std::ptr::null;

/// Why a kernel thread stopped.
pub(in crate::sim) enum Stop {
    /// Its log is full: it goes on as soon as the other lanes have stopped too.
    LogFull,
    /// It waits at a block barrier.
    Barrier(&'static Location<'static>),
    /// It waits at a warp-collective operation.
    Collective(Collective),
    /// It waits for an mbarrier.
    Mbarrier(Wait),
    /// It waits for a signal.
    Signal(SignalWait),
    /// It waits for its warpgroup.
    Warpgroup(Step),
    /// It waits at a named barrier.
    NamedBarrier(NamedWait),
    /// It waits at a barrier of the cluster.
    ClusterBarrier(&'static Location<'static>),
    /// It broke a rule, which it has left in `Worker::fault`.
    Fault,
}

impl Stop {
    /// Where in the source, if the stop itself says so.
    pub(in crate::sim) fn place(&self) -> Option<&'static Location<'static>> {
        match self {
            Stop::Barrier(place) | Stop::ClusterBarrier(place) => Some(place),
            Stop::Collective(collective) => Some(collective.location),
            Stop::Mbarrier(wait) => Some(wait.place),
            Stop::Signal(wait) => Some(wait.place),
            Stop::Warpgroup(step) => Some(step.place),
            Stop::NamedBarrier(wait) => Some(wait.place),
            Stop::LogFull | Stop::Fault => None,
        }
    }
}

/// A kernel thread as a coroutine: it is resumed with the result of the warp-collective operation it waited at, and
/// returns what `catch_unwind` made of its end.
pub(in crate::sim) type Fiber = Coroutine<u32, Stop, std::thread::Result<()>, DefaultStack>;

/// What a kernel thread waits for.
#[derive(Clone, Copy)]
pub(in crate::sim) enum State {
    /// Nothing.
    Ready,
    /// The block.
    Barrier(&'static Location<'static>),
    /// Lanes of its warp.
    Collective(Collective),
    /// A phase of an mbarrier.
    Mbarrier(Wait),
    /// A signal.
    Signal(SignalWait),
    /// Threads of its warpgroup.
    Warpgroup(Step),
    /// The warps of a named barrier.
    NamedBarrier(NamedWait),
    /// All threads of the cluster.
    ClusterBarrier(&'static Location<'static>),
    /// It has returned.
    Exited,
}

/// A thread of the block.
pub(in crate::sim) struct Thread {
    pub(in crate::sim) state: State,
    /// `None` before the first and after the last step.
    pub(in crate::sim) fiber: Option<Fiber>,
    pub(in crate::sim) yielder: *const Yielder<u32, Stop>,
    /// Asynchronous copies it has issued and not waited for.
    pub(in crate::sim) copies: CopyQueue,
    /// Bulk stores it has issued and not waited for.
    pub(in crate::sim) stores: StoreQueue,
    /// Result of the warp-collective operation it waited at.
    pub(in crate::sim) result: u32,
    /// What it brings to the operation on matrices that it waits at, and takes away from it.
    pub(in crate::sim) fragments: Fragments,
    /// The same for products in double precision.
    pub(in crate::sim) doubles: Doubles,
    pub(in crate::sim) attendance: Attendance,
    /// Whether it may not touch global memory yet.
    pub(in crate::sim) is_early: bool,
    /// Steps that it has [taken](crate::sim::steps).
    pub(in crate::sim) steps: u64,
}

impl Thread {
    /// A thread that has not started, of a kernel that may begin [early](crate::early_start) or not.
    pub(in crate::sim) fn new(is_early: bool) -> Self {
        Thread {
            is_early,
            state: State::Ready,
            fiber: None,
            yielder: null(),
            copies: CopyQueue::default(),
            stores: StoreQueue::default(),
            result: 0,
            fragments: Fragments::default(),
            doubles: Doubles::default(),
            attendance: Attendance::Away,
            steps: 0,
        }
    }

    /// Whether a barrier of the cluster need not wait for it.
    pub(in crate::sim) fn has_arrived(&self) -> bool {
        self.attendance == Attendance::Arrived || matches!(self.state, State::Exited)
    }
}
