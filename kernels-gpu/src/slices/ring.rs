//! Stages of shared memory as a ring that is filled and emptied without barriers of the whole block.
//!
//! Each stage has two memory barriers. Those who fill it arrive at *full* with their copies, the warps that multiply at
//! *empty* when they have read the stage. The stages are used in turn, so a thread only needs to count where in the
//! ring it is, once as a writer and once as a reader, and in which of its phases each barrier there is: phases
//! alternate with every turn of the ring (PTX ISA, "Parallel Synchronization and Communication Instructions:
//! mbarrier").
//!
//! In a [cluster](crate::slices::clusters) the blocks fill parts of each other's stages. A stage may then be filled
//! when the readers of all who get something of it have read theirs, so each warp arrives at *empty* of every block
//! that fills its own; and no block may end before these have done so, which who fills the stages
//! [waits](Ring::wait_all_read) for.
//!
//! Targets without memory barriers (before sm_80) copy at once, so there the block's barrier stands in for them: one in
//! [`Ring::wait_full`] shows what all threads have copied, and says that all have read the stage before, two stages
//! before it is filled again.

use crate::slices::clusters::Cluster;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::memory::SharedPtr;
use cuda_std::{cluster, device_inline, hint, shared, thread, warp};

// There a barrier of the block does not stand in for them: copies may still be under way behind it.
#[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
const _: () = assert!(
    mbarrier::AVAILABLE,
    "copies are asynchronous, so memory barriers are needed: `-Ctarget-feature=+ptx71` for sm_80"
);

/// Threads of a warp.
pub const WARP: u32 = warp::WARP_SIZE;

/// Bytes of one barrier.
const BARRIER_BYTES: u32 = 8;

/// The stage after `stage`, in a ring.
#[device_inline]
pub const fn after<const STAGES: u32>(stage: u32) -> u32 {
    if stage == STAGES - 1 { 0 } else { stage + 1 }
}

/// The stage before `stage`, in a ring.
#[device_inline]
pub const fn before<const STAGES: u32>(stage: u32) -> u32 {
    if stage == 0 { STAGES - 1 } else { stage - 1 }
}

/// A place in the ring.
#[derive(Clone, Copy)]
struct Place {
    stage: u32,
    /// Parity of the phase that completes next at the stage's barrier.
    parity: u32,
}

impl Place {
    /// The stage, and on to the next.
    #[device_inline]
    fn advance<const STAGES: u32>(&mut self) -> u32 {
        let stage = self.stage;
        self.stage = after::<STAGES>(stage);
        if self.stage == 0 {
            self.parity ^= 1;
        }
        stage
    }
}

/// This thread's view of the ring.
pub struct Ring<const STAGES: u32> {
    /// The barriers: those of full stages, then those of empty ones.
    full: u32,
    empty: u32,
    /// The stage that is filled next.
    writer: Place,
    /// The stage after the one that is waited for last.
    reader: Place,
    /// The stage that is read.
    reading: u32,
    /// The cluster whose blocks fill the stages together.
    cluster: Cluster,
}

impl<const STAGES: u32> Ring<STAGES> {
    /// Bytes of shared memory for the barriers.
    pub const BYTES: u32 = 2 * STAGES * BARRIER_BYTES;

    /// A ring of empty stages, whose barriers lie `offset` bytes into the dynamic shared memory. A stage is full after
    /// `arrivals` ([`filled`](Self::filled) is one, as are [`filled_by_copies`](Self::filled_by_copies) and
    /// [`filled_by_hand`](Self::filled_by_hand)) and empty when `readers` warps have read it. The first `STAGES - 2`
    /// may be filled without [waiting](Self::wait_empty).
    ///
    /// # Safety
    /// All threads of the block get here together; there is room for [`BYTES`](Self::BYTES).
    #[device_inline]
    pub unsafe fn new(offset: u32, arrivals: u32, readers: u32) -> Self {
        // SAFETY: as promised by the caller.
        unsafe { Self::with_barriers(offset, arrivals, readers, Cluster::ALONE, || {}) }
    }

    /// The same for a thread that fills stages by bulk copies: a stage is full when all the bytes that it
    /// [expects](Self::expect) have arrived. They may come from any of the [`cluster`](Cluster)'s blocks, each of which
    /// has `readers` warps that read.
    ///
    /// # Safety
    /// As for [`new`](Self::new), for all blocks of the cluster; the target has bulk copies. In the end who fills
    /// stages calls [`wait_all_read`](Self::wait_all_read), or all warps that read
    /// [`leave_cluster`](Self::leave_cluster).
    #[device_inline]
    pub unsafe fn for_bulk_copies(offset: u32, readers: u32, cluster: Cluster) -> Self {
        // SAFETY: as promised by the caller.
        unsafe { Self::with_barriers(offset, 1, readers, cluster, mbarrier::fence_init) }
    }

    /// A ring whose barriers `publish` makes known beyond what the block's barrier does. It is `Copy`, so that nothing
    /// has to be dropped where it is not called: the compiler would do so on a way of its own, with a block's barrier
    /// of its own.
    #[device_inline]
    unsafe fn with_barriers(
        offset: u32,
        arrivals: u32,
        readers: u32,
        cluster: Cluster,
        publish: impl Fn() + Copy,
    ) -> Self {
        const { assert!(STAGES >= 3, "a stage is read, one is about to be, and one is filled") };
        let full = shared::dynamic::<u8>().address() + offset;
        let empty = full + STAGES * BARRIER_BYTES;
        if mbarrier::AVAILABLE {
            // SAFETY: one thread initialises, and the others see it after the barrier of the block or of the cluster.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    for stage in 0..STAGES {
                        barrier(full, stage).init(arrivals);
                        barrier(empty, stage).init(readers * cluster.sharers());
                    }
                    publish();
                }
                if cluster.blocks() > 1 {
                    cluster::sync();
                } else {
                    thread::sync_threads();
                }
            }
        }
        let start = Place { stage: 0, parity: 0 };
        // The phase before the first counts as complete: fresh stages are empty.
        let writer = Place { stage: 0, parity: 1 };
        Ring { full, empty, writer, reader: start, reading: 0, cluster }
    }

    /// Waits until the next stage may be filled, and says which it is.
    ///
    /// # Safety
    /// All warps will have said of what was in it that they have [read](Self::emptied) it.
    #[device_inline]
    #[track_caller]
    pub unsafe fn wait_empty(&self) -> u32 {
        if mbarrier::AVAILABLE {
            // SAFETY: the barrier is initialised.
            unsafe { barrier(self.empty, self.writer.stage).wait(self.writer.parity) };
        }
        self.writer.stage
    }

    /// Says that this thread has issued its copies to the stage that is to be filled.
    ///
    /// # Safety
    /// Every thread that copies does so, once for each stage, in order.
    #[device_inline]
    #[track_caller]
    pub unsafe fn filled(&mut self) {
        let stage = self.writer.advance::<STAGES>();
        if mbarrier::AVAILABLE {
            // SAFETY: the barrier is initialised.
            unsafe { barrier(self.full, stage).arrive_on_copies() };
        }
    }

    /// Says that this thread has issued its copies to the stage that is to be filled, but has [yet to
    /// write](Self::filled_by_hand) what it brings there itself.
    ///
    /// # Safety
    /// As for [`filled`](Self::filled); the target has mbarriers.
    #[device_inline]
    #[track_caller]
    pub unsafe fn filled_by_copies(&self) {
        // SAFETY: the barrier is initialised.
        unsafe { barrier(self.full, self.writer.stage).arrive_on_copies() };
    }

    /// Says that this thread has written what it brings itself to the stage that is to be filled. The arrival of copies
    /// says nothing of other writes: they need this one.
    ///
    /// # Safety
    /// As for [`filled_by_copies`](Self::filled_by_copies), which has been called for this stage.
    #[device_inline]
    #[track_caller]
    pub unsafe fn filled_by_hand(&mut self) {
        let stage = self.writer.advance::<STAGES>();
        // SAFETY: the barrier is initialised.
        unsafe { barrier(self.full, stage).arrive() };
    }

    /// Says that this thread alone fills the stage that is to be filled, by bulk copies of so many bytes in all, and
    /// gives the barrier that they must name.
    ///
    /// # Safety
    /// The ring is one [for bulk copies](Self::for_bulk_copies), and the stage is empty.
    #[device_inline]
    #[track_caller]
    pub unsafe fn expect(&mut self, bytes: u32) -> Mbarrier {
        let full = barrier(self.full, self.writer.advance::<STAGES>());
        // SAFETY: the barrier is initialised, and its phase lacks this arrival.
        unsafe { full.arrive_expect_tx(bytes) };
        full
    }

    /// Waits until the next stage has been filled by all threads, and says which it is.
    ///
    /// # Safety
    /// All threads of the block get here, and have filled it or will.
    #[device_inline]
    #[track_caller]
    pub unsafe fn wait_full(&mut self) -> u32 {
        let parity = self.reader.parity;
        self.reading = self.reader.advance::<STAGES>();
        // SAFETY: the barrier is initialised, and all threads of the block get here.
        unsafe {
            if mbarrier::AVAILABLE {
                barrier(self.full, self.reading).wait(parity);
            } else {
                thread::sync_threads();
            }
        }
        self.reading
    }

    /// Leaves so many of the next stages to others, who wait for them and say that they have read them.
    #[device_inline]
    pub fn pass(&mut self, stages: u32) {
        let Place { stage, parity } = self.reader;
        let to = stage + stages;
        self.reader = Place { stage: to % STAGES, parity: parity ^ (to / STAGES % 2) };
    }

    /// Says that this warp has read all of the stage before the one that was waited for last.
    ///
    /// # Safety
    /// All lanes of the warp get here together, having read what they need of it.
    #[device_inline]
    #[track_caller]
    pub unsafe fn emptied(&mut self) {
        // SAFETY: as promised by the caller.
        unsafe { self.leave(before::<STAGES>(self.reading)) }
    }

    /// Says that this warp has read all of the stage that was waited for last, too.
    ///
    /// # Safety
    /// As for [`emptied`](Self::emptied), which has been called for all stages before.
    #[device_inline]
    #[track_caller]
    pub unsafe fn emptied_last(&mut self) {
        // SAFETY: as promised by the caller.
        unsafe { self.leave(self.reading) }
    }

    /// Waits until the readers of all blocks that share slices with this one have read what this thread has had filled:
    /// nobody arrives at this block's barriers after that, and it may end. To wait for each other as
    /// [`leave_cluster`](Self::leave_cluster) does takes a fence for the whole GPU, for as long as stores to D are
    /// under way: 2 thousand cycles (H200).
    ///
    /// # Safety
    /// The thread fills stages alone, and all are [read](Self::emptied_last).
    #[device_inline]
    #[track_caller]
    pub unsafe fn wait_all_read(&mut self) {
        if self.cluster.blocks() > 1 {
            for _ in 0..STAGES {
                // SAFETY: as promised by the caller.
                unsafe { self.wait_empty() };
                self.writer.advance::<STAGES>();
            }
        }
    }

    /// Waits until no block of the cluster fills this one's stages any more or arrives at their barriers: before that
    /// none may end.
    ///
    /// # Safety
    /// All warps of the cluster that read get here, having [read](Self::emptied_last) the last stage. Others have ended
    /// or will, without waiting for anything but the ring.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave_cluster(&self) {
        if self.cluster.blocks() > 1 {
            // SAFETY: all threads of the cluster that do not end get here.
            unsafe { cluster::sync() }
        }
    }

    /// This warp's arrival at the barriers of an empty stage.
    #[device_inline]
    #[track_caller]
    unsafe fn leave(&self, stage: u32) {
        if mbarrier::AVAILABLE {
            // SAFETY: the barriers are initialised; the lanes' reads come before the arrival of one of them.
            unsafe {
                warp::sync_warp(warp::FULL_MASK);
                // What of a lane is the same for all slices would take registers all the while.
                let lane = hint::opaque(thread::thread_idx_x()) % WARP;
                let empty = barrier(self.empty, stage);
                if self.cluster.blocks() > 1 {
                    let block = self.cluster.sharer(lane % self.cluster.blocks());
                    empty.in_block(block).arrive_if(lane < self.cluster.sharers());
                } else {
                    empty.arrive_if(lane == 0);
                }
            }
        }
    }
}

/// Whether this is the thread that fills stages by bulk copies, one of the first warp behind so many consumers. The
/// warp elects it, so that the compiler knows of a single one: wherever any might ask for a copy it goes over them in a
/// loop, each time, and a small product waits for that.
///
/// # Safety
/// All producers ask, each warp of them together.
#[device_inline]
#[track_caller]
pub unsafe fn is_elected(consumers: u32) -> bool {
    // SAFETY: as promised by the caller.
    unsafe {
        let warp = hint::uniform(thread::thread_idx_x() / WARP);
        warp == consumers / WARP && warp::elect(warp::FULL_MASK)
    }
}

/// Barrier `index` of those that begin at an address of shared memory.
#[device_inline]
fn barrier(first: u32, index: u32) -> Mbarrier {
    Mbarrier::new(SharedPtr::from_address(first + index * BARRIER_BYTES))
}
