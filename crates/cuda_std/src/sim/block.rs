//! Runs one block: its threads take turns as coroutines.
//!
//! Warps run one after another, and so do the lanes of a warp, each until it stops. A warp that can go on does so
//! before the next one runs, so the order is the same every time; but after very many steps, when it may be waiting for
//! what another one writes, it is the next one's turn. When no warp can go on, all threads have reached the
//! block barrier, or the block is done, or it is stuck. A thread that waits for an mbarrier can go on once its phase is
//! over, one at a named barrier once all have come, and the threads of a warpgroup once all have reached the same
//! operation. Only when nothing else is left to run do threads that wait for signals of other blocks go on.
//!
//! The blocks of a cluster take turns like that, too: each goes on until none of its threads can.

use super::bulk_copy;
use super::clocks::Clocks;
use super::cluster::{self, Neighbours};
use super::collective;
use super::divergence;
use super::fault::{FaultKind, SimError};
use super::knowledge::Member;
use super::limits::WARP_THREADS;
use super::mbarrier;
use super::named_barrier;
use super::observation::{self, Observer};
use super::panics;
use super::registers::{self, Registers};
use super::signal;
use super::sites::Watch;
use super::steps::{self, TURN};
use super::wgmma;
use super::worker::{Fiber, State, Stop, Thread, Worker, resume};
use crate::entry::KernelEntry;
use corosensei::CoroutineResult;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const LANES: usize = WARP_THREADS as usize;

/// What all blocks of a launch run.
pub(super) struct Job<'a> {
    pub(super) entry: &'a KernelEntry,
    pub(super) arguments: &'a [*const c_void],
    pub(super) block_dim: [u32; 3],
    pub(super) grid_dim: [u32; 3],
    pub(super) dynamic_shared: u32,
    pub(super) most_steps: u64,
    pub(super) watch: Option<&'a Arc<Watch>>,
    pub(super) observer: Option<&'a Arc<Observer>>,
}

// SAFETY: the pointers are the launch's arguments, which nobody changes while it runs.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Threads in a block.
    pub(super) fn threads(&self) -> usize {
        self.block_dim.iter().product::<u32>() as usize
    }
}

/// The index triple of a linear index: x runs fastest.
pub(super) fn coordinates(linear: u64, dim: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = dim.map(u64::from);
    [linear % x, linear / x % y, linear / x / y].map(|index| index as u32)
}

/// Runs the blocks of a cluster, which are those of linear index `first` and up, and adds their work to the workers'
/// counters.
///
/// # Safety
/// The workers, one for each block, must be valid and used by nobody else, and prepared for the job; the kernel may be
/// launched with the job's arguments.
pub(super) unsafe fn run_cluster(
    workers: &[*mut Worker],
    job: &Job<'_>,
    first: u64,
) -> Result<(), SimError> {
    /// Takes back the stacks of threads that will not go on, whichever way the blocks end.
    struct Cleanup<'a>(&'a [*mut Worker]);
    impl Drop for Cleanup<'_> {
        fn drop(&mut self) {
            for &worker in self.0 {
                // SAFETY: no fiber runs, so nobody else accesses the worker.
                let worker = unsafe { &mut *worker };
                for thread in &mut worker.threads {
                    if let Some(mut fiber) = thread.fiber.take() {
                        // SAFETY: the frames of a kernel that has stopped for good are never returned to; what they own
                        // is leaked.
                        unsafe { fiber.force_reset() };
                        worker.stacks.put(fiber.into_stack());
                    }
                }
            }
        }
    }

    for (rank, &worker) in workers.iter().enumerate() {
        let member = Member { rank, blocks: workers.len() };
        // SAFETY: the worker is not used by anybody else.
        let worker = unsafe { &mut *worker };
        worker.neighbours = Neighbours::new(workers);
        begin_block(worker, job, first + rank as u64, member);
    }
    let cleanup = Cleanup(workers);
    loop {
        let mut moved = false;
        for &worker in workers {
            // SAFETY: as promised by the caller; no fiber runs.
            unsafe {
                if !(*worker).neighbours.ended {
                    moved |= advance(worker, job)?;
                }
            }
        }
        if moved {
            continue;
        }
        // SAFETY: no fiber runs, and the workers are different ones.
        let mut cluster: Vec<&mut Worker> =
            workers.iter().map(|&worker| unsafe { &mut *worker }).collect();
        if cluster.iter().all(|worker| worker.neighbours.ended) {
            break;
        }
        if cluster::release(&mut cluster) || release_signals(&mut cluster)? {
            continue;
        }
        for worker in &cluster {
            registers::check_waits(worker)?;
            mbarrier::check_waits(worker)?;
            named_barrier::check_waits(worker)?;
            wgmma::check_warpgroups(worker)?;
        }
        cluster::check_waits(&cluster)?;
        for worker in &cluster {
            divergence::check_block_barrier(worker)?;
        }
        unreachable!("a thread that cannot go on waits for something");
    }
    drop(cleanup);
    for &worker in workers {
        // SAFETY: no fiber runs.
        let worker = unsafe { &mut *worker };
        let bytes = worker.shared.bytes() as u64;
        worker.counters.shared_bytes = worker.counters.shared_bytes.max(bytes);
    }
    Ok(())
}

/// Gets a worker ready for a block.
fn begin_block(worker: &mut Worker, job: &Job<'_>, block: u64, member: Member) {
    let threads = job.threads();
    worker.block = block;
    worker.block_index = coordinates(block, job.grid_dim);
    worker.member = member;
    worker.shared.begin_block(threads);
    if !member.is_alone() {
        worker.shared.track_threads(threads);
    }
    worker.mbarriers.clear();
    worker.warpgroups.clear();
    worker.named_barriers = Default::default();
    worker.registers = Registers::new(job);
    worker.log.clear();
    worker.heard.clear();
    worker.threads.clear();
    worker.threads.resize_with(threads, || Thread::new(job.entry.early_start));
    worker.clocks.clear();
    worker.clocks.resize(threads.div_ceil(LANES), Clocks::new(member));
}

/// Runs all warps of a block once, and says whether anything has come of it for the block or others of its cluster.
///
/// # Safety
/// As for [`run_cluster`].
unsafe fn advance(worker: *mut Worker, job: &Job<'_>) -> Result<bool, SimError> {
    let threads = job.threads();
    // SAFETY: no fiber runs.
    let ready =
        unsafe { (*worker).threads.iter().any(|thread| matches!(thread.state, State::Ready)) };
    for first in (0..threads).step_by(LANES) {
        // SAFETY: as promised by the caller.
        unsafe { run_warp(worker, job, first..threads.min(first + LANES))? };
    }
    // SAFETY: no fiber runs.
    let worker = unsafe { &mut *worker };
    if worker.threads.iter().all(|thread| matches!(thread.state, State::Exited)) {
        named_barrier::check_warps(worker)?;
        cluster::end_block(worker)?;
        mbarrier::check_end(worker)?;
        wgmma::check_end(worker)?;
        return Ok(true);
    }
    let named = named_barrier::release(worker, 0..threads);
    let warpgroups = wgmma::release(worker)?;
    if mbarrier::release(worker, 0..threads)? || named || warpgroups {
        return Ok(true);
    }
    if !worker.threads.iter().all(|thread| matches!(thread.state, State::Barrier(_))) {
        return Ok(ready);
    }
    divergence::check_block_barrier(worker)?;
    worker.end_epoch();
    worker.counters.block_barriers += 1;
    worker.threads.iter_mut().for_each(|thread| thread.state = State::Ready);
    Ok(true)
}

/// Makes threads ready that wait for signals, in a cluster in which no other thread can go on, and says whether there
/// were any.
fn release_signals(cluster: &mut [&mut Worker]) -> Result<bool, SimError> {
    let mut released = Ok(false);
    for worker in cluster {
        // What one block cannot expect another one may yet give it.
        match signal::release(worker) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            error => released = released.and(error),
        }
    }
    released
}

/// Runs the threads of a warp until each has exited or waits for threads of other warps, or its turn is over.
///
/// # Safety
/// As for [`run_cluster`].
unsafe fn run_warp(worker: *mut Worker, job: &Job<'_>, warp: Range<usize>) -> Result<(), SimError> {
    let mut steps = 0;
    loop {
        for thread in warp.clone() {
            // SAFETY: as promised by the caller.
            unsafe {
                if matches!((&(*worker).threads)[thread].state, State::Ready) {
                    steps += run_thread(worker, job, thread)?;
                }
            }
        }
        // SAFETY: no fiber runs.
        let worker = unsafe { &mut *worker };
        // A thread that has run and is ready has stopped because its log is full.
        let ready = |thread: &Thread| matches!(thread.state, State::Ready);
        let full = worker.threads[warp.clone()]
            .iter()
            .enumerate()
            .fold(0, |mask, (lane, thread)| mask | (ready(thread) as u32) << lane);
        worker.log.flush(full, &mut worker.counters);
        let clocks = &mut worker.clocks[warp.start / LANES];
        let (threads, counters) = (&mut worker.threads[warp.clone()], &mut worker.counters);
        if let Err(bad) = collective::complete(threads, clocks, counters) {
            return Err(divergence::bad_source(worker, warp.start, bad));
        }
        mbarrier::release(worker, warp.clone())?;
        named_barrier::release(worker, warp.clone());
        if !worker.threads[warp.clone()].iter().any(ready) {
            return divergence::check_collectives(worker, warp);
        }
        if steps > TURN {
            // The next warp needs the log; and it may meet what this one has read.
            worker.log.flush(0, &mut worker.counters);
            worker.shared.track_readers();
            return Ok(());
        }
    }
}

/// Runs a thread until it stops, and gives the steps that it has taken.
///
/// # Safety
/// As for [`run_cluster`].
unsafe fn run_thread(worker: *mut Worker, job: &Job<'_>, index: usize) -> Result<u64, SimError> {
    let lane = index % LANES;
    let (mut fiber, result, logged) = {
        // SAFETY: no fiber runs.
        let state = unsafe { &mut *worker };
        let thread = &mut state.threads[index];
        let fiber = match thread.fiber.take() {
            Some(fiber) => fiber,
            None => {
                let stack = state.stacks.take();
                new_fiber(worker, job, stack.map_err(|e| no_stack(job, &e))?)
            }
        };
        state.thread = index as u32;
        state.thread_index = coordinates(index as u64, job.block_dim);
        state.clock = state.clocks[index / LANES].own(lane);
        state.logged = state.log.length(lane);
        state.entries = state.log.lane(lane);
        state.yielder = thread.yielder;
        state.is_early = thread.is_early;
        (fiber, thread.result, state.logged)
    };

    let outcome = resume(worker, &mut fiber, result);

    // SAFETY: the fiber has stopped.
    let state = unsafe { &mut *worker };
    state.log.set_length(lane, state.logged);
    if state.observer.is_some() {
        observation::note(state, logged, &outcome);
    }
    let thread = &mut state.threads[index];
    thread.yielder = state.yielder;
    let steps = 1 + (state.logged - logged) as u64;
    thread.steps += steps;
    match outcome {
        CoroutineResult::Yield(stop) => {
            thread.fiber = Some(fiber);
            let place = stop.place();
            thread.state = match stop {
                Stop::LogFull => State::Ready,
                Stop::Barrier(location) => State::Barrier(location),
                Stop::Collective(collective) => State::Collective(collective),
                Stop::Mbarrier(wait) => State::Mbarrier(wait),
                Stop::Signal(wait) => State::Signal(wait),
                Stop::Warpgroup(step) => State::Warpgroup(step),
                Stop::NamedBarrier(wait) => State::NamedBarrier(wait),
                Stop::ClusterBarrier(place) => State::ClusterBarrier(place),
                Stop::Fault => {
                    let fault =
                        state.fault.take().expect("a thread leaves its fault before it stops");
                    return Err(SimError::Fault(fault));
                }
            };
            if thread.steps > state.most_steps {
                return Err(steps::too_many(state, index, place));
            }
        }
        CoroutineResult::Return(end) => {
            thread.state = State::Exited;
            state.stacks.put(fiber.into_stack());
            if let Err(payload) = end {
                let (message, location) = panics::describe(&*payload);
                let thread = state.thread_index;
                let fault = state.fault_of(thread, FaultKind::Panic, None, message, location);
                return Err(SimError::Fault(fault));
            }
            bulk_copy::end_thread(state, index)?;
        }
    }
    Ok(steps)
}

fn no_stack(job: &Job<'_>, error: &io::Error) -> SimError {
    SimError::HostResources(format!(
        "{error} (kernel {}). Each takes two mappings, of which Linux allows as many as `vm.max_map_count` says; a rayon \
         pool of fewer threads needs fewer",
        job.entry.name
    ))
}

/// A fiber that will run a thread from its start.
fn new_fiber(worker: *mut Worker, job: &Job<'_>, stack: corosensei::stack::DefaultStack) -> Fiber {
    let function = job.entry.function;
    let arguments: *const [*const c_void] = job.arguments;
    Fiber::with_stack(stack, move |yielder, _| {
        // SAFETY: the worker runs this thread now.
        unsafe { (*worker).yielder = yielder };
        // The kernel's frames are gone after a panic, and the launch gives nothing of its state away but the fault.
        catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the job outlives the block, and the launch has promised that the arguments fit the kernel.
            unsafe { function(&*arguments) }
        }))
    })
}
