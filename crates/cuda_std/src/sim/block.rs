//! Runs one block: its threads take turns as coroutines.
//!
//! Warps run one after another, and so do the lanes of a warp, each until it stops. A warp that can go on does so
//! before the next one runs, so the order is the same every time. When no warp can go on, all threads have reached the
//! block barrier, or the block is done, or it is stuck. A thread that waits for an mbarrier can go on once its phase is
//! over, one at a named barrier once all have come, and the threads of a warpgroup once all have reached the same operation. Only
//! when nothing else is left to run do threads that wait for signals of other blocks go on.

use super::bulk_copy;
use super::clocks::Clocks;
use super::collective;
use super::divergence;
use super::fault::{FaultKind, SimError};
use super::limits::WARP_THREADS;
use super::mbarrier;
use super::named_barrier;
use super::panics;
use super::signal;
use super::wgmma;
use super::worker::{Fiber, State, Stop, Thread, Worker, resume};
use crate::entry::KernelEntry;
use corosensei::CoroutineResult;
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

const LANES: usize = WARP_THREADS as usize;

/// What all blocks of a launch run.
pub(super) struct Job<'a> {
    pub(super) entry: &'a KernelEntry,
    pub(super) arguments: &'a [*const c_void],
    pub(super) block_dim: [u32; 3],
    pub(super) grid_dim: [u32; 3],
    pub(super) dynamic_shared: u32,
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

/// Runs the block of linear index `block` and adds its work to the worker's counters.
///
/// # Safety
/// `worker` must be valid and used by nobody else, and prepared for the job; the kernel may be launched with the job's
/// arguments.
pub(super) unsafe fn run_block(
    worker: *mut Worker,
    job: &Job<'_>,
    block: u64,
) -> Result<(), SimError> {
    /// Takes back the stacks of threads that will not go on, whichever way the block ends.
    struct Cleanup(*mut Worker);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            // SAFETY: no fiber runs, so nobody else accesses the worker.
            let worker = unsafe { &mut *self.0 };
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

    let threads = job.threads();
    {
        // SAFETY: the worker is not used by anybody else.
        let worker = unsafe { &mut *worker };
        worker.block = block;
        worker.block_index = coordinates(block, job.grid_dim);
        worker.shared.begin_block(threads);
        worker.mbarriers.clear();
        worker.warpgroups.clear();
        worker.named_barriers = Default::default();
        worker.log.clear();
        worker.threads.clear();
        worker.threads.resize_with(threads, Thread::new);
        worker.clocks.clear();
        worker.clocks.resize(threads.div_ceil(LANES), Clocks::new());
    }
    let cleanup = Cleanup(worker);
    loop {
        for first in (0..threads).step_by(LANES) {
            // SAFETY: as promised by the caller.
            unsafe { run_warp(worker, job, first..threads.min(first + LANES))? };
        }
        // SAFETY: no fiber runs.
        let worker = unsafe { &mut *worker };
        if worker.threads.iter().all(|thread| matches!(thread.state, State::Exited)) {
            break;
        }
        let named = named_barrier::release(worker, 0..threads);
        let warpgroups = wgmma::release(worker)?;
        let moved = mbarrier::release(worker, 0..threads)? || named || warpgroups;
        if moved || signal::release(worker)? {
            continue;
        }
        mbarrier::check_waits(worker)?;
        named_barrier::check_waits(worker)?;
        wgmma::check_warpgroups(worker)?;
        divergence::check_block_barrier(worker)?;
        worker.end_epoch();
        worker.counters.block_barriers += 1;
        worker.threads.iter_mut().for_each(|thread| thread.state = State::Ready);
    }
    drop(cleanup);
    // SAFETY: no fiber runs.
    let worker = unsafe { &mut *worker };
    let bytes = worker.shared.bytes() as u64;
    worker.counters.shared_bytes = worker.counters.shared_bytes.max(bytes);
    Ok(())
}

/// Runs the threads of a warp until each has exited or waits for threads of other warps.
///
/// # Safety
/// As for [`run_block`].
unsafe fn run_warp(worker: *mut Worker, job: &Job<'_>, warp: Range<usize>) -> Result<(), SimError> {
    loop {
        for thread in warp.clone() {
            // SAFETY: as promised by the caller.
            unsafe {
                if matches!((&(*worker).threads)[thread].state, State::Ready) {
                    run_thread(worker, job, thread)?;
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
    }
}

/// Runs a thread until it stops.
///
/// # Safety
/// As for [`run_block`].
unsafe fn run_thread(worker: *mut Worker, job: &Job<'_>, index: usize) -> Result<(), SimError> {
    let lane = index % LANES;
    let (mut fiber, result) = {
        // SAFETY: no fiber runs.
        let state = unsafe { &mut *worker };
        let thread = &mut state.threads[index];
        let fiber = match thread.fiber.take() {
            Some(fiber) => fiber,
            None => {
                let stack = state.stacks.take();
                new_fiber(worker, job, stack.map_err(|e| SimError::HostResources(e.to_string()))?)
            }
        };
        state.thread = index as u32;
        state.thread_index = coordinates(index as u64, job.block_dim);
        state.clock = state.clocks[index / LANES].own(lane);
        state.logged = state.log.length(lane);
        state.entries = state.log.lane(lane);
        state.yielder = thread.yielder;
        state.declared = thread.declared;
        (fiber, thread.result)
    };

    let outcome = resume(worker, &mut fiber, result);

    // SAFETY: the fiber has stopped.
    let state = unsafe { &mut *worker };
    state.log.set_length(lane, state.logged);
    let thread = &mut state.threads[index];
    thread.yielder = state.yielder;
    thread.declared = state.declared;
    match outcome {
        CoroutineResult::Yield(stop) => {
            thread.fiber = Some(fiber);
            thread.state = match stop {
                Stop::LogFull => State::Ready,
                Stop::Barrier(location) => State::Barrier(location),
                Stop::Collective(collective) => State::Collective(collective),
                Stop::Mbarrier(wait) => State::Mbarrier(wait),
                Stop::Signal(wait) => State::Signal(wait),
                Stop::Warpgroup(step) => State::Warpgroup(step),
                Stop::NamedBarrier(wait) => State::NamedBarrier(wait),
                Stop::Fault => {
                    let fault =
                        state.fault.take().expect("a thread leaves its fault before it stops");
                    return Err(SimError::Fault(fault));
                }
            };
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
    Ok(())
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
