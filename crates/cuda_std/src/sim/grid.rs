//! Runs a grid: its blocks are handed out in order to the host's threads.

use super::block::{Job, coordinates, run_block};
use super::counters::Counters;
use super::fault::SimError;
use super::global::Table;
use super::stack::MAX_STACKS;
use super::worker::Worker;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Workers between launches.
static IDLE: Mutex<Vec<Box<Worker>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the runners of a launch share.
struct Progress {
    /// The first block that nobody has begun.
    next: AtomicU64,
    /// The lowest block that has failed so far. Blocks above it need not run.
    failed: AtomicU64,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    counters: Counters,
    /// The error of the lowest block that has failed.
    error: Option<(u64, SimError)>,
}

/// Runs all blocks of a job.
///
/// Blocks are begun in order, and none below the lowest one that fails is left out: so the error that is returned does
/// not depend on which host thread was faster.
///
/// # Safety
/// The kernel may be launched with the job's arguments.
pub(super) unsafe fn run_grid(job: &Job<'_>, table: &Arc<Table>) -> Result<Counters, SimError> {
    let blocks = job.grid_dim.iter().map(|&n| n as u64).product::<u64>();
    let progress = Progress {
        next: AtomicU64::new(0),
        failed: AtomicU64::new(u64::MAX),
        outcome: Mutex::default(),
    };
    let runner = || {
        let mut worker = lock(&IDLE).pop().unwrap_or_else(|| Box::new(Worker::new()));
        worker.begin_launch(job, table.clone());
        // SAFETY: as promised by the caller; the worker is prepared for the job.
        unsafe { run_blocks(&mut worker, job, blocks, &progress) };
        worker.end_launch();
        lock(&IDLE).push(worker);
    };

    let most = (MAX_STACKS / job.threads()).max(1) as u64;
    let runners = most.min(blocks).min(rayon::current_num_threads() as u64);
    if runners <= 1 {
        runner();
    } else {
        rayon::scope(|scope| (0..runners).for_each(|_| scope.spawn(|_| runner())));
    }

    let outcome = progress.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    match outcome.error {
        Some((_, error)) => Err(error),
        None => Ok(outcome.counters),
    }
}

/// Runs blocks until none is left or one has failed.
///
/// # Safety
/// As for [`run_block`].
unsafe fn run_blocks(worker: &mut Worker, job: &Job<'_>, blocks: u64, progress: &Progress) {
    loop {
        let block = progress.next.fetch_add(1, Relaxed);
        if block >= blocks || block > progress.failed.load(Relaxed) {
            break;
        }
        let index = coordinates(block, job.grid_dim);
        // SAFETY: as promised by the caller.
        if let Err(error) = unsafe { run_block(worker, job, index) } {
            progress.failed.fetch_min(block, Relaxed);
            let mut outcome = lock(&progress.outcome);
            if outcome.error.as_ref().is_none_or(|(lowest, _)| block < *lowest) {
                outcome.error = Some((block, error));
            }
            break;
        }
    }
    lock(&progress.outcome).counters += worker.counters;
}
