//! Work on several things at the same time, as many as cargo runs jobs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What `work` makes of each item, in their order. Items are begun in their order, too.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Only build scripts are told.
    let jobs = std::env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    map_with(jobs.unwrap_or(1), items, work)
}

/// The same with so many threads.
fn map_with<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_are_in_the_order_of_items_whoever_is_first() {
        let barrier = Barrier::new(2);
        let doubled = map_with(2, &[1, 2, 3, 4], |item| {
            // Both threads are needed to get on.
            barrier.wait();
            item * 2
        });
        assert_eq!(doubled, [2, 4, 6, 8]);
        assert_eq!(map_with(0, &[5], |item| *item), [5]);
        assert_eq!(map_with(9, &[0; 0], |item| *item), [0; 0]);
    }
}
