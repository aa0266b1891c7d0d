//! Runs a grid: its blocks are handed out in order to the host's threads.

use super::block::{Job, run_cluster};
use super::counters::Counters;
use super::fault::SimError;
use super::global::Table;
use super::progress::{Progress, Runner};
use super::stack;
use super::worker::Worker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Workers between launches.
static IDLE: Mutex<Vec<Box<Worker>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    let cluster = job.entry.cluster as usize;
    let most = stack::most(cluster, job.threads()) as u64;
    let runners = most.min(blocks / cluster as u64).min(rayon::current_num_threads() as u64);
    let progress = Arc::new(Progress::new(runners));
    let outcome = Mutex::default();
    let run = |runner: u64| {
        // Others may have run all blocks by the time that there are stacks for this one.
        let is_needed = || progress.has_blocks(blocks);
        let Some(reservation) = stack::reserve(cluster, job.threads(), is_needed) else { return };
        let take = || lock(&IDLE).pop().unwrap_or_else(|| Box::new(Worker::new()));
        let mut workers: Vec<Box<Worker>> = (0..cluster).map(|_| take()).collect();
        for worker in &mut workers {
            worker.begin_launch(job, table.clone(), progress.clone());
        }
        // SAFETY: as promised by the caller; the workers are prepared for the job.
        unsafe { run_blocks(&mut workers, job, blocks, &progress.runner(runner), &outcome) };
        workers.iter_mut().for_each(|worker| worker.end_launch());
        drop(reservation);
        lock(&IDLE).append(&mut workers);
    };

    // In threads of its own: one of the caller's pool would do other work of that while it waits, such as a launch for
    // which the caller holds what this one holds too.
    std::thread::scope(|scope| {
        let run = &run;
        for runner in 1..runners {
            // Where there can be no more threads those that are there run all blocks.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || run(runner));
        }
        run(0);
    });

    let outcome: Outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    match outcome.error {
        Some((_, error)) => Err(error),
        None => {
            progress.signals.check_end(job)?;
            progress.counts.check_end(job)?;
            Ok(outcome.counters)
        }
    }
}

/// Runs blocks until none is left or one has failed, as many at a time as there are workers: the clusters. Blocks above
/// one that has failed need not run.
///
/// # Safety
/// As for [`run_cluster`].
unsafe fn run_blocks(
    workers: &mut [Box<Worker>],
    job: &Job<'_>,
    blocks: u64,
    runner: &Runner<'_>,
    outcome: &Mutex<Outcome>,
) {
    loop {
        let block = runner.take(workers.len() as u64);
        if block >= blocks || runner.progress.failed_before(block) {
            break;
        }
        let cluster: Vec<*mut Worker> =
            workers.iter_mut().map(|worker| &raw mut **worker).collect();
        // SAFETY: as promised by the caller.
        if let Err(error) = unsafe { run_cluster(&cluster, job, block) } {
            runner.progress.fail(block);
            let mut outcome = lock(outcome);
            if outcome.error.as_ref().is_none_or(|(lowest, _)| block < *lowest) {
                outcome.error = Some((block, error));
            }
            break;
        }
    }
    workers.iter().for_each(|worker| lock(outcome).counters += worker.counters);
}
