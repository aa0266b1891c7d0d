//! Compiles all kernels for a device ahead of their use, on several threads: the driver takes up to seconds for one.

use super::space::Subject;
use crate::command::exit::Failure;
use crate::command::{interrupt, progress};
use regemm::Device;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Compiles the kernels and takes down what they take of the device, or why they cannot run.
///
/// # Errors
/// [`Failure::Interrupted`], or a failure of the device.
pub fn compile(device: &Device, subjects: &mut [Subject]) -> Result<(), Failure> {
    let bar = progress::bar(subjects.len() as u64);
    bar.set_message("compiling kernels");
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let fits = in_parallel(threads, subjects.len(), interrupt::requested, |index| {
        let fit = subjects[index].fit(device);
        bar.inc(1);
        fit
    });
    bar.finish_and_clear();
    for (subject, fit) in subjects.iter_mut().zip(fits) {
        let interrupted =
            || Failure::Interrupted("interrupted before anything was measured".into());
        subject.take_down(fit.ok_or_else(interrupted)??);
    }
    Ok(())
}

/// Does `jobs` jobs on `threads` threads. Results in the order of the jobs; none for what was not begun when `stop`
/// became true.
fn in_parallel<R: Send>(
    threads: usize,
    jobs: usize,
    stop: impl Fn() -> bool + Sync,
    work: impl Fn(usize) -> R + Sync,
) -> Vec<Option<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.max(1)) {
            scope.spawn(|| {
                while !stop() {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(result) = results.get(job) else { break };
                    let value = work(job);
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                }
            });
        }
    });
    let value =
        |result: Mutex<Option<R>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_keeps_its_place() {
        for threads in [1, 3, 50] {
            let runs = AtomicUsize::new(0);
            let squares = in_parallel(
                threads,
                20,
                || false,
                |job| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    job * job
                },
            );
            assert_eq!(squares, (0..20).map(|job| Some(job * job)).collect::<Vec<_>>());
            assert_eq!(runs.into_inner(), 20);
        }
        assert!(in_parallel(4, 0, || false, |job| job).is_empty());
    }

    #[test]
    fn nothing_is_begun_after_the_stop() {
        let begun = AtomicUsize::new(0);
        let stop = || begun.load(Ordering::Relaxed) >= 3;
        let results = in_parallel(1, 10, stop, |job| {
            begun.fetch_add(1, Ordering::Relaxed);
            job
        });
        assert_eq!(results.iter().flatten().count(), 3);
        assert_eq!(results[3], None);
    }
}
