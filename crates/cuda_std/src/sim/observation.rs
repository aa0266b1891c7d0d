//! Launches that are observed: what each thread does, one event after another.
//!
//! All accesses stand in the log of the warp anyway, which is where counters come from. Whenever a thread of an
//! observed launch stops, what it has added to the log is kept before the log is evaluated, and then the barrier that
//! it waits at, if it does. Nothing is asked at an access, and in other launches only once each time that a thread
//! stops.

use super::block::coordinates;
use super::collective::{Collective, Operation};
use super::counters::Counters;
use super::fault::{MemoryAccess, SimError};
use super::launch::{self, Launch};
use super::limits::WARP_THREADS;
use super::sites::SyncOperation;
use super::worker::{Stop, Worker};
use super::{Simulator, access::Place};
use crate::entry::KernelEntry;
use corosensei::CoroutineResult;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that a thread of an [observed](Simulator::observe) launch did. Its place is in the source of the kernel;
/// of functions that pass on the place of their caller it is that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It executed a load or a store.
    Access {
        /// Where in memory, and what. In shared memory of another block of a cluster this is the address in that block.
        access: MemoryAccess,
        /// Whether its predicate held. If not, no memory was touched; a load gave zero.
        active: bool,
        /// Where in the source.
        place: &'static Location<'static>,
    },
    /// It waited at a barrier.
    Barrier {
        /// At which kind: [`BlockBarrier`](SyncOperation::BlockBarrier), [`WarpBarrier`](SyncOperation::WarpBarrier),
        /// [`NamedBarrier`](SyncOperation::NamedBarrier) or [`ClusterWait`](SyncOperation::ClusterWait).
        operation: SyncOperation,
        /// Where in the source.
        place: &'static Location<'static>,
    },
}

/// All that one thread of an [observed](Simulator::observe) launch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvents {
    /// Index of its block in the grid.
    pub block: [u32; 3],
    /// Its index in the block.
    pub thread: [u32; 3],
    /// What it did, in the order in which it did it.
    pub events: Vec<Event>,
}

impl Simulator {
    /// Runs a kernel to its end and says what it did: in numbers, as [`launch`](Self::launch) does, and thread by
    /// thread. Threads are in the order of their blocks, and within a block in that of their indices, x fastest. Which
    /// of two threads made an access first barriers alone can say.
    ///
    /// Accesses are those that [`Counters`] count lane by lane. An asynchronous copy is a load, which is not active
    /// where it fills with zeros, and then a store, both when it is issued. What bulk copies, matrix instructions,
    /// mbarriers, signals and counts do to memory is not among them.
    ///
    /// Each event takes some 40 bytes of the host's memory, and a thread of a matrix product has thousands: this is for
    /// small launches.
    ///
    /// ```
    /// use cuda_std::memory::GlobalPtr;
    /// use cuda_std::sim::{AccessKind, Event, Launch, SimError, Simulator, Space};
    /// use cuda_std::{kernel, shared_array, thread};
    ///
    /// /// Gives each thread the element of its neighbour.
    /// #[kernel]
    /// unsafe fn swap(x: GlobalPtr<f32>) {
    ///     let tile = shared_array!(f32; 2);
    ///     let thread = thread::thread_idx_x();
    ///     // SAFETY: launched with one thread for each of two elements.
    ///     unsafe {
    ///         tile.add(thread).store(x.add(thread.into()).load());
    ///         thread::sync_threads();
    ///         x.add(thread.into()).store(tile.add(1 - thread).load());
    ///     }
    /// }
    ///
    /// fn main() -> Result<(), SimError> {
    ///     let simulator = Simulator::new();
    ///     let address = simulator.alloc(2 * 4)?;
    ///     simulator.write(address, &[0; 2 * 4])?;
    ///     let x = GlobalPtr::<f32>::from_address(address);
    ///     let launch = Launch { grid: [1, 1, 1], block: [2, 1, 1], dynamic_shared: 0 };
    ///     // SAFETY: the argument points to a value of the parameter's type.
    ///     let (counters, threads) =
    ///         unsafe { simulator.observe(&swap::ENTRY, launch, &[(&raw const x).cast()])? };
    ///
    ///     assert_eq!(counters.block_barriers, 1);
    ///     let [first, second] = &threads[..] else { panic!("a block of two threads") };
    ///     let words = |event: &Event| match event {
    ///         Event::Access { access, .. } => format!("{} {}", access.kind, access.space),
    ///         Event::Barrier { operation, .. } => operation.to_string(),
    ///     };
    ///     let words: Vec<String> = first.events.iter().map(words).collect();
    ///     let expected =
    ///         ["read global", "write shared", "block barrier", "read shared", "write global"];
    ///     assert_eq!(words, expected);
    ///
    ///     let Event::Access { access, .. } = second.events[0] else { panic!("a load") };
    ///     assert_eq!((access.space, access.kind), (Space::Global, AccessKind::Read));
    ///     assert_eq!((access.address, access.bytes), (address + 4, 4));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`launch`](Self::launch). A launch that fails tells nothing but its fault.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    pub unsafe fn observe(
        &self,
        kernel: &KernelEntry,
        launch: Launch,
        arguments: &[*const c_void],
    ) -> Result<(Counters, Vec<ThreadEvents>), SimError> {
        let observer = Arc::default();
        // SAFETY: as promised by the caller.
        let counters = unsafe { launch::run(self, kernel, launch, arguments, Some(&observer))? };
        Ok((counters, observer.take(&launch)))
    }
}

/// Who is told what the threads of one launch do.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// By linear index of the block in the grid, and of the thread in it.
    events: Mutex<BTreeMap<(u64, u32), Vec<Event>>>,
}

impl Observer {
    /// Everything that it was told.
    fn take(&self, launch: &Launch) -> Vec<ThreadEvents> {
        let events =
            std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        let thread = |((block, thread), events): ((u64, u32), Vec<Event>)| ThreadEvents {
            block: coordinates(block, launch.grid),
            thread: coordinates(thread.into(), launch.block),
            events,
        };
        events.into_iter().map(thread).collect()
    }
}

/// Tells the observer what the thread that has just run has done since its log had `start` entries, and what it has
/// stopped for.
#[cold]
#[inline(never)]
pub(super) fn note<R>(worker: &Worker, start: usize, outcome: &CoroutineResult<Stop, R>) {
    let Some(observer) = &worker.observer else { return };
    let lane = (worker.thread % WARP_THREADS) as usize;
    let accesses = worker.log.entries_from(lane, start).iter().map(|entry| {
        let (access, place, active) = entry.access();
        Event::Access { access, active, place }
    });
    let barrier = match outcome {
        CoroutineResult::Yield(stop) => barrier(stop),
        CoroutineResult::Return(_) => None,
    };
    let barrier = barrier.map(|(operation, place)| Event::Barrier { operation, place });
    let mut events = observer.events.lock().unwrap_or_else(PoisonError::into_inner);
    events.entry((worker.block, worker.thread)).or_default().extend(accesses.chain(barrier));
}

/// The barrier that a thread has stopped at, if it is one.
fn barrier(stop: &Stop) -> Option<(SyncOperation, Place)> {
    match *stop {
        Stop::Barrier(place) => Some((SyncOperation::BlockBarrier, place)),
        Stop::Collective(Collective { operation: Operation::Barrier, location, .. }) => {
            Some((SyncOperation::WarpBarrier, location))
        }
        Stop::NamedBarrier(wait) => Some((SyncOperation::NamedBarrier, wait.place)),
        Stop::ClusterBarrier(place) => Some((SyncOperation::ClusterWait, place)),
        _ => None,
    }
}
