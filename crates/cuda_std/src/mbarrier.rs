//! Barriers in shared memory at which some threads arrive and others wait (PTX ISA, section 9.7.13.15, "Parallel
//! Synchronization and Communication Instructions: mbarrier").
//!
//! An [`Mbarrier`] goes through *phases*, each of which is over when as many arrivals have been made as [`init`] was
//! told; the next one then begins at once. Phases have the *parities* 0, 1, 0, 1 and so on, and a thread waits for the
//! phase of a parity. What a thread has done before it [`arrive`]s is visible to those who have waited for that phase;
//! so are the asynchronous copies that it has issued before [`arrive_on_copies`], which waits for nothing.
//!
//! A ring of stages between producers and consumers has two of them a stage, `full` and `empty`. In the `round`-th use
//! of a stage
//!
//! ```text
//! producer  empty.wait(round + 1 & 1), copy_async .., full.arrive_on_copies()
//! consumer  full.wait(round & 1), reads, empty.arrive()
//! ```
//!
//! [Bulk copies](crate::bulk_copy) do not arrive: a phase also counts *bytes*, and is over when those that
//! [`arrive_expect_tx`] announced have arrived too. A single thread then fills a stage with
//! `full.arrive_expect_tx(bytes), load_2d .., load_2d ..`.
//!
//! The first wait of a producer passes at once: on a fresh barrier the phase before the first one, of parity 1, is
//! over.
//!
//! A thread can wait for the phase under way and for the one before, and no other: nobody may let a phase end that
//! comes after one that another thread has still to wait for, nor arrive at a phase or wait for it before it has seen,
//! through barriers of whatever kind, the end of the one before. The simulator reports who does as
//! `FaultKind::MbarrierOverrun`.
//!
//! Older targets lack these instructions: see [`AVAILABLE`].
//!
//! [`init`]: Mbarrier::init
//! [`arrive`]: Mbarrier::arrive
//! [`arrive_on_copies`]: Mbarrier::arrive_on_copies
//! [`arrive_expect_tx`]: Mbarrier::arrive_expect_tx

use crate::backend;
use crate::memory::SharedPtr;

/// Whether the target has mbarriers: sm_80 and later, compiled to PTX ISA 7.1 or later (for `sm_80` itself rustc writes
/// 7.0 unless asked for the target feature `ptx71`). Where it has not, kernels that use them compile all the same, and
/// all functions of this module end the launch (`trap`).
pub const AVAILABLE: bool = backend::MBARRIERS;

/// Makes the mbarriers that this thread has initialised visible to [bulk copies](crate::bulk_copy), which otherwise may
/// not find them (`fence.mbarrier_init`). A barrier must lie between this and the copies of other threads.
#[inline(always)]
#[track_caller]
pub fn fence_init() {
    // SAFETY: a fence touches nothing.
    unsafe { backend::fence_mbarrier_init() }
}

/// A barrier in shared memory: the address of 8 bytes that nothing else uses.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier {
    address: u32,
}

impl Mbarrier {
    /// The mbarrier at an element of a shared array, aligned to 8 bytes. It is none before [`init`](Self::init).
    #[inline(always)]
    pub const fn new(object: SharedPtr<u64>) -> Self {
        Mbarrier { address: object.address() }
    }

    /// The address in shared memory.
    #[inline(always)]
    pub const fn address(self) -> u32 {
        self.address
    }

    /// Begins the first phase; each needs `arrivals` arrivals, 1 to 2^20 - 1 (`mbarrier.init`). One thread does this,
    /// and a barrier must lie between this and all other uses.
    ///
    /// # Safety
    /// The 8 bytes must lie in shared memory, be aligned, hold no mbarrier yet, and not be accessed in any other way
    /// until the block ends.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_init(self.address, arrivals) }
    }

    /// Arrives: what this thread has done before is visible to who waits for the phase (`mbarrier.arrive`).
    ///
    /// # Safety
    /// The mbarrier must have been initialised, and the phase before be over, in what this thread has seen.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn arrive(self) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_arrive(self.address) }
    }

    /// [Arrives](Self::arrive) where `predicate` holds, without a branch, for the reason that
    /// [`store_3d_if`](crate::bulk_copy::store_3d_if) gives.
    ///
    /// # Safety
    /// As for [`arrive`](Self::arrive) where `predicate` holds.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn arrive_if(self, predicate: bool) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_arrive_if(predicate.into(), self.address) }
    }

    /// The mbarrier at the same place in shared memory of the block of this rank in the [cluster](crate::cluster)
    /// (`mapa`). It may be this one.
    ///
    /// # Safety
    /// The cluster must have a block of this rank.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn in_block(self, rank: u32) -> ClusterMbarrier {
        // SAFETY: as promised by the caller.
        ClusterMbarrier { address: unsafe { backend::map_shared(self.address, rank) } }
    }

    /// Arrives as [`arrive`](Self::arrive) does, and before that lets the phase expect `bytes` more bytes of [bulk
    /// copies](crate::bulk_copy) that name this mbarrier: it is over when all its arrivals have been made and all bytes
    /// that it expects have arrived (`mbarrier.arrive.expect_tx`). At most 2^20 - 1 bytes may be outstanding. Where the
    /// target has no bulk copies (before sm_90, or in PTX ISA before 8.0) this ends the launch.
    ///
    /// The two are one here because bytes that are announced by themselves belong to the phase only if an arrival comes
    /// after that.
    ///
    /// # Safety
    /// As for [`arrive`](Self::arrive).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn arrive_expect_tx(self, bytes: u32) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_arrive_expect_tx(self.address, bytes) }
    }

    /// Makes one arrival of this thread as soon as all asynchronous copies that it has issued so far have arrived; does
    /// not wait for that (`cp.async.mbarrier.arrive.noinc`). Of what the thread has done, those copies alone are
    /// visible to who waits for the phase, whatever groups they are in: not what it has stored itself before.
    ///
    /// # Safety
    /// As for [`arrive`](Self::arrive). Somebody must wait for the phase before the block ends; the thread itself may
    /// exit before that.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn arrive_on_copies(self) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_arrive_on_copies(self.address) }
    }

    /// Waits until the phase of this parity, 0 or 1, is over: the phase under way or the one before
    /// (`mbarrier.test_wait.parity`, from sm_90 on `mbarrier.try_wait.parity`, in a loop).
    ///
    /// # Safety
    /// The mbarrier must have been initialised.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait(self, parity: u32) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_wait(self.address, parity) }
    }
}

/// An mbarrier of some block of the cluster: [`Mbarrier::in_block`]. Only threads of that block can wait for it.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMbarrier {
    address: u32,
}

impl ClusterMbarrier {
    /// Arrives: who waits for the phase comes after what this thread has read before, and may let it be overwritten
    /// (`mbarrier.arrive.shared::cluster`). What the thread has written is visible to its own block alone.
    ///
    /// # Safety
    /// As for [`Mbarrier::arrive`]; a [barrier of the cluster](crate::cluster::sync) lies between its initialisation
    /// and this, and its block does not end before.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn arrive(self) {
        // SAFETY: as promised by the caller.
        unsafe { self.arrive_if(true) }
    }

    /// [Arrives](Self::arrive) where `predicate` holds, without a branch, for the reason that
    /// [`store_3d_if`](crate::bulk_copy::store_3d_if) gives.
    ///
    /// # Safety
    /// As for [`arrive`](Self::arrive) where `predicate` holds.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn arrive_if(self, predicate: bool) {
        // SAFETY: as promised by the caller.
        unsafe { backend::mbarrier_arrive_in_cluster_if(predicate.into(), self.address) }
    }
}
