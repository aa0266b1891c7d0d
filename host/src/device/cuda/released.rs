//! Memory that was given up while work may still use it.

use super::lock;
use crate::device::pending::{Marker, Pending};
use std::sync::{Mutex, TryLockError};

/// Addresses, and the work that is outstanding on them.
pub(super) struct Released<M> {
    blocks: Mutex<Vec<(u64, Pending<M>)>>,
    /// Held while memory is freed. Who needs some then waits for what is freed already, and does not take the list for
    /// empty.
    freeing: Mutex<()>,
}

impl<M> Default for Released<M> {
    fn default() -> Self {
        Released { blocks: Mutex::default(), freeing: Mutex::default() }
    }
}

impl<M: Marker> Released<M> {
    /// Gives memory up. Waits for nobody, not even for one who waits for the work on other memory.
    pub fn add(&self, address: u64, pending: Pending<M>) {
        lock(&self.blocks).push((address, pending));
    }

    /// Frees what nothing uses any more, unless somebody does so at the moment; or waits until nothing uses it and
    /// frees it all. What cannot be freed is kept for the next time.
    pub fn free(&self, wait: bool, free: impl Fn(u64) -> bool) {
        let _turn = match self.freeing.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) if wait => lock(&self.freeing),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut blocks = std::mem::take(&mut *lock(&self.blocks));
        blocks.retain_mut(|(address, pending)| {
            if wait {
                pending.wait_for_all();
            }
            pending.forget_reached();
            !pending.is_empty() || !free(*address)
        });
        lock(&self.blocks).append(&mut blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::pending::Use;
    use crate::error::Result;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Work that ends when the test says so.
    #[derive(Clone)]
    struct Slow(Arc<End>);

    struct End {
        is_reached: AtomicBool,
        /// Tells the test that somebody waits.
        waits: Mutex<Sender<()>>,
        ended: Mutex<Receiver<()>>,
    }

    impl Marker for Slow {
        fn advance(&mut self, _: &Self) {
            unreachable!("each is of another stream");
        }
        fn wait(&self) -> Result<()> {
            self.0.waits.lock().unwrap().send(()).unwrap();
            self.0.ended.lock().unwrap().recv().unwrap();
            self.0.is_reached.store(true, Ordering::Relaxed);
            Ok(())
        }
        fn is_reached(&self) -> bool {
            self.0.is_reached.load(Ordering::Relaxed)
        }
    }

    fn pending(slow: &Slow) -> Pending<Slow> {
        let mut pending = Pending::default();
        pending.add(1, slow, Use::Write);
        pending
    }

    #[test]
    fn memory_is_given_up_while_somebody_waits_for_other_memory() {
        const ENOUGH: Duration = Duration::from_secs(60);
        let ((waits, is_waiting), (end, ended)) = (channel(), channel());
        let (waits, ended) = (Mutex::new(waits), Mutex::new(ended));
        let slow = Slow(Arc::new(End { is_reached: AtomicBool::new(false), waits, ended }));
        let released = Arc::new(Released::default());
        let freed = Arc::new(Mutex::new(Vec::new()));
        released.add(1, pending(&slow));
        let free_all = |wait| {
            let (released, freed) = (Arc::clone(&released), Arc::clone(&freed));
            std::thread::spawn(move || {
                released.free(wait, |address| {
                    freed.lock().unwrap().push(address);
                    true
                });
            })
        };
        let first = free_all(true);
        is_waiting.recv_timeout(ENOUGH).unwrap();

        let (added, is_added) = channel();
        let (other, never) = (Arc::clone(&released), Pending::<Slow>::default());
        std::thread::spawn(move || {
            other.add(2, never);
            added.send(()).unwrap();
        });
        is_added.recv_timeout(ENOUGH).expect("giving memory up waits for nobody");
        free_all(false).join().unwrap();
        assert!(freed.lock().unwrap().is_empty(), "somebody frees already");
        let second = free_all(true);

        end.send(()).unwrap();
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(*freed.lock().unwrap(), [1, 2]);
    }

    #[test]
    fn what_cannot_be_freed_is_tried_again() {
        let released = Released::<Slow>::default();
        released.add(1, Pending::default());
        released.add(2, Pending::default());
        let freed_with = |refused: Option<u64>| {
            let freed = Mutex::new(Vec::new());
            released.free(false, |address| {
                freed.lock().unwrap().push(address);
                Some(address) != refused
            });
            freed.into_inner().unwrap()
        };
        assert_eq!(freed_with(Some(1)), [1, 2]);
        assert_eq!(freed_with(None), [1]);
        assert_eq!(freed_with(None), [0; 0]);
    }
}
