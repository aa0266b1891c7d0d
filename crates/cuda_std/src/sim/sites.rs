//! Launches that leave out one operation of those that order others, and the list of all of them: so that a test can
//! see whether the loss of each shows.
//!
//! An operation is left out wherever it is executed: by all threads, of all blocks. It then does nothing: a wait does
//! not wait and tells nothing, an arrival does not arrive, a fence covers nothing. What it gives is what it would have
//! given.

use super::access::Place;
use super::fault::SourceLocation;
use super::steps;
use super::worker::{Worker, current};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

macro_rules! sync_operations {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// An operation that orders others, or says what they belong to.
        ///
        /// Shuffles and matrix instructions are none, although lanes wait for each other there, as they order no
        /// memory; nor are hints, such as [`counter::wait_a_while`](crate::counter::wait_a_while).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum SyncOperation {
            $($(#[$doc])* $name,)*
        }

        impl fmt::Display for SyncOperation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(SyncOperation::$name => $text,)*
                })
            }
        }
    };
}

sync_operations! {
    /// [`thread::sync_threads`](crate::thread::sync_threads).
    BlockBarrier = "block barrier",
    /// [`warp::sync_warp`](crate::warp::sync_warp).
    WarpBarrier = "warp barrier",
    /// [`named_barrier::sync`](crate::named_barrier::sync).
    NamedBarrier = "named barrier",
    /// [`named_barrier::arrive`](crate::named_barrier::arrive).
    NamedBarrierArrival = "arrival at a named barrier",
    /// [`cluster::arrive`](crate::cluster::arrive), also of [`cluster::sync`](crate::cluster::sync).
    ClusterArrival = "arrival at the cluster's barrier",
    /// [`cluster::wait`](crate::cluster::wait), also of [`cluster::sync`](crate::cluster::sync).
    ClusterWait = "wait at the cluster's barrier",
    /// The arrival of a thread at an mbarrier, also one that expects bytes.
    MbarrierArrival = "arrival at an mbarrier",
    /// The arrival of a thread at an mbarrier of any block of its cluster.
    MbarrierArrivalInCluster = "arrival at an mbarrier in the cluster",
    /// The arrival of a thread at an mbarrier once its copies have arrived.
    MbarrierArrivalOnCopies = "arrival of copies at an mbarrier",
    /// The bytes that an mbarrier is told to expect, also by an arrival.
    MbarrierExpectation = "bytes that an mbarrier expects",
    /// The wait for a phase of an mbarrier.
    MbarrierWait = "wait for an mbarrier",
    /// [`mbarrier::fence_init`](crate::mbarrier::fence_init).
    MbarrierFence = "fence of mbarriers",
    /// [`async_copy::commit_group`](crate::async_copy::commit_group).
    CopyCommit = "commit of asynchronous copies",
    /// [`async_copy::wait_group`](crate::async_copy::wait_group).
    CopyWait = "wait for asynchronous copies",
    /// [`bulk_copy::commit_group`](crate::bulk_copy::commit_group).
    BulkCommit = "commit of bulk stores",
    /// [`bulk_copy::wait_group`](crate::bulk_copy::wait_group).
    BulkWait = "wait for bulk stores",
    /// [`bulk_copy::wait_group_read`](crate::bulk_copy::wait_group_read).
    BulkReadWait = "wait for bulk stores to have read",
    /// [`bulk_copy::fence_shared`](crate::bulk_copy::fence_shared).
    ProxyFence = "proxy fence",
    /// [`wgmma::fence`](crate::wgmma::fence).
    WarpgroupFence = "warpgroup fence",
    /// [`wgmma::commit_group`](crate::wgmma::commit_group).
    WarpgroupCommit = "warpgroup commit",
    /// [`wgmma::wait_group`](crate::wgmma::wait_group).
    WarpgroupWait = "warpgroup wait",
    /// [`early_start::wait`](crate::early_start::wait).
    EarlierLaunchesWait = "wait for earlier launches",
    /// [`signal::post`](crate::signal::post).
    SignalPost = "signal",
    /// [`signal::clear`](crate::signal::clear).
    SignalClear = "clearing of a signal",
    /// [`signal::wait`](crate::signal::wait).
    SignalWait = "wait for a signal",
    /// [`counter::add`](crate::counter::add).
    CountAddition = "addition to a count",
    /// [`counter::arrive`](crate::counter::arrive).
    CountArrival = "arrival at a count",
    /// [`counter::clear`](crate::counter::clear).
    CountClear = "clearing of a count",
}

/// Where a kernel executes a [`SyncOperation`]. Of functions that pass on the place of their caller it is that place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// What.
    pub operation: SyncOperation,
    /// Where in the source.
    pub location: SourceLocation,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.operation, self.location)
    }
}

/// What is noted of launches and left out of them.
#[derive(Debug, Default)]
pub(super) struct Watch {
    skipped: Option<Site>,
    executed: Mutex<BTreeSet<(SyncOperation, Place)>>,
}

impl Watch {
    /// Leaves a site out.
    pub(super) fn skipping(site: Site) -> Self {
        Watch { skipped: Some(site), ..Watch::default() }
    }

    /// Sites that have been executed, each once.
    pub(super) fn executed(&self) -> Vec<Site> {
        let executed = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        let site = |&(operation, place): &(SyncOperation, Place)| Site {
            operation,
            location: place.into(),
        };
        let mut sites: Vec<Site> = executed.iter().map(site).collect();
        sites.sort();
        sites
    }

    /// Whether an operation is to be left out; else notes it.
    fn skips(&self, operation: SyncOperation, place: Place) -> bool {
        let Some(site) = &self.skipped else {
            self.executed.lock().unwrap_or_else(PoisonError::into_inner).insert((operation, place));
            return false;
        };
        let SourceLocation { file, line, column } = &site.location;
        site.operation == operation
            && (*line, *column) == (place.line(), place.column())
            && file == place.file()
    }
}

/// Whether the running thread is to leave an operation out.
#[inline(always)]
#[track_caller]
pub(crate) fn skips(operation: SyncOperation, place: Place) -> bool {
    let worker = current();
    // SAFETY: the worker is the current one, and no reference to it is alive.
    unsafe { (*worker).watch.is_some() && skips_watched(worker, operation, place) }
}

/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
#[cold]
#[inline(never)]
unsafe fn skips_watched(worker: *mut Worker, operation: SyncOperation, place: Place) -> bool {
    // SAFETY: as promised by the caller.
    unsafe {
        let skips = (*worker).watch.as_ref().is_some_and(|watch| watch.skips(operation, place));
        if skips {
            steps::take(worker, place);
        }
        skips
    }
}

/// Executes an operation, unless it is to be left out.
#[inline(always)]
#[track_caller]
pub(crate) fn at(operation: SyncOperation, place: Place, execute: impl FnOnce(Place)) {
    if !skips(operation, place) {
        execute(place);
    }
}
