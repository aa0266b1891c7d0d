//! Work that was put on a stream and may still be using some memory.
//!
//! Rust's borrows protect a matrix until `enqueue` returns; from then on the GPU uses its memory without a borrow. So
//! each buffer remembers a point on every stream that uses it, and whoever touches the memory next waits: the
//! host before it reads or writes, another stream before its kernel starts, and the deallocation.

use crate::error::{Error, Result};

/// A point on a stream that work reaches.
pub(crate) trait Marker: Clone {
    /// Moves on to another point of the same stream, unless that comes before this one.
    fn advance(&mut self, to: &Self);
    /// Blocks until the point is reached.
    fn wait(&self) -> Result<()>;
    /// Whether it has been reached.
    fn is_reached(&self) -> bool;
}

/// How memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

struct Access<M> {
    stream: u64,
    last: M,
    kind: Use,
}

/// The outstanding work on one buffer: at most one entry a stream, because a stream's later points come after its
/// earlier ones.
pub(crate) struct Pending<M> {
    accesses: Vec<Access<M>>,
}

impl<M> Default for Pending<M> {
    fn default() -> Self {
        Pending { accesses: Vec::new() }
    }
}

impl<M: Marker> Pending<M> {
    /// What a new use of the memory has to wait for: a reader for the writers, a writer for everyone. Work on `stream`
    /// itself is in order anyway. Forgets what of it is done.
    pub fn before(&mut self, kind: Use, stream: Option<u64>) -> Vec<M> {
        let mut before = Vec::new();
        self.accesses.retain(|access| {
            let matters =
                Some(access.stream) != stream && (kind == Use::Write || access.kind == Use::Write);
            // Asking the driver is not free, so only what matters is asked about.
            let done = matters && access.last.is_reached();
            if matters && !done {
                before.push(access.last.clone());
            }
            !done
        });
        before
    }

    /// Remembers work that ends at `last` on `stream`. Forgets what is done where another stream comes in, so that
    /// there are never many entries, and where a write is followed by a read; repeated use by one stream asks the
    /// driver nothing. Threads that share a stream may tell of its points in another order than they lie on it.
    pub fn add(&mut self, stream: u64, last: &M, kind: Use) {
        match self.accesses.iter_mut().find(|access| access.stream == stream) {
            Some(access) => {
                let is_downgraded = kind == Use::Read && access.kind == Use::Write;
                if !is_downgraded || access.last.is_reached() {
                    access.kind = kind;
                }
                access.last.advance(last);
            }
            None => {
                self.forget_reached();
                self.accesses.push(Access { stream, last: last.clone(), kind });
            }
        }
    }

    /// Forgets what is done.
    pub fn forget_reached(&mut self) {
        self.accesses.retain(|access| !access.last.is_reached());
    }

    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// Blocks until nothing is outstanding but work on streams that are being captured, which nobody can wait for: a
    /// graph may use the memory still. Where waiting fails otherwise the context is broken and nothing runs any more.
    pub fn wait_for_all(&mut self) {
        self.accesses.retain(|access| matches!(access.last.wait(), Err(Error::Capturing { .. })));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    pub(in super::super) struct Fake(AtomicBool);

    impl Marker for Arc<Fake> {
        /// The tests tell of the points of a stream as they lie on it, unless they say otherwise.
        fn advance(&mut self, to: &Self) {
            self.clone_from(to);
        }
        fn wait(&self) -> Result<()> {
            self.0.store(true, Ordering::Relaxed);
            Ok(())
        }
        fn is_reached(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    pub(in super::super) fn event() -> Arc<Fake> {
        Arc::new(Fake::default())
    }

    pub(in super::super) fn same(found: &[Arc<Fake>], expected: &[&Arc<Fake>]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    #[test]
    fn readers_wait_for_writers_and_writers_for_everyone() {
        let (read, write) = (event(), event());
        let mut pending = Pending::default();
        pending.add(1, &read, Use::Read);
        pending.add(2, &write, Use::Write);
        assert!(same(&pending.before(Use::Read, None), &[&write]));
        assert!(same(&pending.before(Use::Write, None), &[&read, &write]));
    }

    #[test]
    fn a_stream_does_not_wait_for_itself() {
        let mut pending = Pending::default();
        pending.add(1, &event(), Use::Write);
        assert!(pending.before(Use::Write, Some(1)).is_empty());
        assert_eq!(pending.before(Use::Read, Some(2)).len(), 1);
    }

    #[test]
    fn a_later_read_of_the_same_stream_does_not_hide_its_write() {
        let last = event();
        let mut pending = Pending::default();
        pending.add(1, &event(), Use::Write);
        pending.add(1, &last, Use::Read);
        assert!(same(&pending.before(Use::Read, Some(2)), &[&last]));
    }

    #[test]
    fn writers_of_two_streams_are_both_remembered() {
        let (first, second) = (event(), event());
        let mut pending = Pending::default();
        pending.add(1, &first, Use::Write);
        pending.add(2, &second, Use::Write);
        assert!(same(&pending.before(Use::Read, None), &[&first, &second]));
    }

    /// Of two threads on one stream, the one whose launch came first may be the last to tell of it.
    #[test]
    fn an_earlier_point_does_not_take_the_place_of_a_later_one() {
        /// The launch that it comes after: those before the seventh are done.
        #[derive(Clone)]
        struct After(u64);
        impl Marker for After {
            fn advance(&mut self, to: &Self) {
                self.0 = self.0.max(to.0);
            }
            fn wait(&self) -> Result<()> {
                Ok(())
            }
            fn is_reached(&self) -> bool {
                self.0 < 7
            }
        }
        for (later, earlier) in [(Use::Read, Use::Read), (Use::Write, Use::Write)] {
            let mut pending = Pending::default();
            pending.add(1, &After(7), later);
            pending.add(1, &After(6), earlier);
            pending.forget_reached();
            assert!(!pending.is_empty(), "launch 7 still runs");
            assert!(matches!(pending.before(Use::Write, None)[..], [After(7)]));
        }
        let mut pending = Pending::default();
        pending.add(1, &After(7), Use::Read);
        pending.add(1, &After(6), Use::Write);
        assert_eq!(pending.before(Use::Read, Some(2)).len(), 1, "it was also written");
    }

    #[test]
    fn a_read_after_a_write_that_is_done_is_only_a_read() {
        let mut pending = Pending::default();
        let write = event();
        pending.add(1, &write, Use::Write);
        write.wait().unwrap();
        pending.add(1, &event(), Use::Read);
        assert!(pending.before(Use::Read, Some(2)).is_empty());
    }

    #[test]
    fn repeated_use_by_one_stream_asks_nothing() {
        /// Panics where it is asked.
        #[derive(Clone)]
        struct Silent;
        impl Marker for Silent {
            fn advance(&mut self, _: &Self) {}
            fn wait(&self) -> Result<()> {
                unreachable!("nobody has to wait")
            }
            fn is_reached(&self) -> bool {
                unreachable!("nobody has to ask")
            }
        }
        for kind in [Use::Read, Use::Write] {
            let mut pending = Pending::default();
            for _ in 0..3 {
                assert!(pending.before(kind, Some(1)).is_empty());
                pending.add(1, &Silent, kind);
            }
            assert_eq!(pending.accesses.len(), 1);
        }
    }

    #[test]
    fn streams_that_are_done_leave_nothing_behind() {
        let mut pending = Pending::default();
        for stream in 0..100 {
            let last = event();
            pending.add(stream, &last, Use::Read);
            last.wait().unwrap();
        }
        assert_eq!(pending.accesses.len(), 1);
    }

    /// Memory that a graph uses must not be freed because nobody can wait for the stream meanwhile.
    #[test]
    fn what_cannot_be_waited_for_during_a_capture_is_kept() {
        /// Whether its stream is being captured.
        #[derive(Clone)]
        struct Captured(bool);
        impl Marker for Captured {
            fn advance(&mut self, to: &Self) {
                self.clone_from(to);
            }
            fn wait(&self) -> Result<()> {
                if self.0 {
                    return Err(Error::Capturing { needed: "waiting", remedy: "end it" });
                }
                Err(Error::NotMeasurable { why: "the context is broken".into() })
            }
            fn is_reached(&self) -> bool {
                false
            }
        }
        let mut pending = Pending::default();
        pending.add(1, &Captured(true), Use::Write);
        pending.add(2, &Captured(false), Use::Write);
        pending.wait_for_all();
        assert_eq!(pending.accesses.len(), 1);
        assert_eq!(pending.accesses[0].stream, 1);
    }

    #[test]
    fn what_is_done_is_forgotten() {
        let (done, outstanding) = (event(), event());
        let mut pending = Pending::default();
        pending.add(1, &done, Use::Write);
        done.wait().unwrap();
        pending.add(2, &outstanding, Use::Write);
        assert!(same(&pending.before(Use::Write, None), &[&outstanding]));
        pending.wait_for_all();
        assert!(pending.is_empty() && outstanding.is_reached());
    }
}
