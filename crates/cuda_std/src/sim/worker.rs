//! The state of one host thread while it runs blocks, and what the running kernel thread needs of it.

mod thread;

pub(super) use thread::{Fiber, State, Stop, Thread};

use super::block::Job;
use super::clocks::Clocks;
use super::cluster::Neighbours;
use super::counters::Counters;
use super::fault::{Fault, FaultKind, Index, MemoryAccess, SourceLocation};
use super::global::Table;
use super::global_order::Heard;
use super::knowledge::{Gathered, Member};
use super::limits::WARP_THREADS;
use super::log::{Entry, Log};
use super::mbarrier::Mbarriers;
use super::named_barrier::NamedBarriers;
use super::observation::Observer;
use super::progress::Progress;
use super::registers::Registers;
use super::shared::{SharedMemory, agents_of};
use super::sites::Watch;
use super::stack::Stacks;
use super::wgmma::Warpgroup;
use corosensei::Yielder;
use std::cell::Cell;
use std::panic::Location;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

thread_local! {
    /// The worker whose kernel thread runs on this host thread; null outside of kernels.
    static CURRENT: Cell<*mut Worker> = const { Cell::new(null_mut()) };
}

/// Whether a kernel runs on this host thread.
#[inline]
pub(super) fn in_kernel() -> bool {
    !CURRENT.get().is_null()
}

/// The worker of the kernel that runs, or null.
#[inline(always)]
pub(crate) fn current_or_null() -> *mut Worker {
    CURRENT.get()
}

/// The worker of the kernel that runs. The caller may access it until it next suspends the kernel thread.
///
/// # Panics
/// Outside of a kernel.
#[inline(always)]
#[track_caller]
pub(crate) fn current() -> *mut Worker {
    let worker = CURRENT.get();
    if worker.is_null() {
        outside_of_kernel();
    }
    worker
}

#[cold]
#[track_caller]
fn outside_of_kernel() -> ! {
    panic!(
        "a device function was called outside of a kernel: launch the kernel with `Simulator::launch`"
    )
}

/// An allocation of global memory that was accessed recently.
#[derive(Clone, Copy)]
pub(super) struct CachedAllocation {
    pub(super) base: u64,
    /// Zero in an empty line.
    pub(super) bytes: u64,
    pub(super) words: *const AtomicU32,
}

/// Lines of the cache of allocations. A place in the source always uses the same line, as it mostly accesses the same
/// allocation.
pub(super) const CACHE_LINES: usize = 16;

pub(super) const EMPTY_LINE: CachedAllocation =
    CachedAllocation { base: 0, bytes: 0, words: null() };

/// Everything a host thread needs to run one block after another.
///
/// The scheduler and the kernel thread that it has resumed take turns in accessing it through one raw pointer; neither
/// keeps a reference while the other runs.
pub(crate) struct Worker {
    // The kernel thread that runs.
    pub(crate) thread_index: [u32; 3],
    /// Linear index in the block.
    pub(crate) thread: u32,
    pub(super) clock: u32,
    /// Entries it has written to the log.
    pub(super) logged: usize,
    /// Its part of the log.
    pub(super) entries: *mut Entry,
    pub(super) yielder: *const Yielder<u32, Stop>,
    pub(super) is_early: bool,

    // The block.
    /// Linear index in the grid.
    pub(super) block: u64,
    pub(crate) block_index: [u32; 3],
    pub(super) threads: Vec<Thread>,
    /// One for each warp.
    pub(super) clocks: Vec<Clocks>,
    pub(crate) shared: SharedMemory,
    pub(super) mbarriers: Mbarriers,
    /// Empty before the first accumulators are declared.
    pub(super) warpgroups: Vec<Warpgroup>,
    pub(super) named_barriers: NamedBarriers,
    pub(super) registers: Registers,
    pub(super) member: Member,
    pub(super) neighbours: Neighbours,
    pub(super) log: Log,
    pub(super) fault: Option<Box<Fault>>,
    /// Signals that its threads have waited for, where anybody asks.
    pub(super) heard: Vec<Heard>,

    // The launch.
    pub(super) kernel: &'static str,
    pub(crate) block_dim: [u32; 3],
    pub(crate) grid_dim: [u32; 3],
    pub(super) table: Arc<Table>,
    pub(super) progress: Arc<Progress>,
    pub(super) cache: [CachedAllocation; CACHE_LINES],
    /// Steps that a thread may take.
    pub(super) most_steps: u64,
    /// What is noted and left out, if anything is.
    pub(super) watch: Option<Arc<Watch>>,
    /// Who is told what its threads do, if anybody is.
    pub(super) observer: Option<Arc<Observer>>,
    pub(crate) counters: Counters,

    pub(super) stacks: Stacks,
}

// SAFETY: between launches, when a worker may move to another host thread, it has no fibers, and its pointers are only
// read after a launch has set them anew.
unsafe impl Send for Worker {}

impl Worker {
    pub(super) fn new() -> Self {
        Worker {
            thread_index: [0; 3],
            thread: 0,
            clock: 0,
            logged: 0,
            entries: null_mut(),
            yielder: null(),
            is_early: false,
            block: 0,
            block_index: [0; 3],
            threads: Vec::new(),
            clocks: Vec::new(),
            shared: SharedMemory::new(),
            mbarriers: Mbarriers::new(),
            warpgroups: Vec::new(),
            named_barriers: NamedBarriers::default(),
            registers: Registers::default(),
            member: Member::ALONE,
            neighbours: Neighbours::default(),
            log: Log::new(),
            fault: None,
            heard: Vec::new(),
            kernel: "",
            block_dim: [0; 3],
            grid_dim: [0; 3],
            table: Arc::default(),
            progress: Arc::new(Progress::new(0)),
            cache: [EMPTY_LINE; CACHE_LINES],
            most_steps: 0,
            watch: None,
            observer: None,
            counters: Counters::default(),
            stacks: Stacks::default(),
        }
    }

    /// Gets ready for the blocks of a job.
    pub(super) fn begin_launch(
        &mut self,
        job: &Job<'_>,
        table: Arc<Table>,
        progress: Arc<Progress>,
    ) {
        self.kernel = job.entry.name;
        self.block_dim = job.block_dim;
        self.grid_dim = job.grid_dim;
        self.table = table;
        self.progress = progress;
        self.cache = [EMPTY_LINE; CACHE_LINES];
        self.most_steps = job.most_steps;
        self.watch = job.watch.cloned();
        self.observer = job.observer.cloned();
        self.counters = Counters::default();
        self.shared.begin_launch(job.dynamic_shared);
    }

    /// Lets go of what belongs to the launch.
    pub(super) fn end_launch(&mut self) {
        self.table = Arc::default();
        self.progress = Arc::new(Progress::new(0));
        self.cache = [EMPTY_LINE; CACHE_LINES];
        self.watch = None;
        self.observer = None;
        self.stacks.release();
    }

    /// A block barrier: what came before is ordered before what comes after, and can be told from it.
    pub(super) fn end_epoch(&mut self) {
        if !self.member.is_alone() {
            self.share_knowledge();
        }
        let copiers = agents_of(self.threads.len()) / 2;
        let lanes = WARP_THREADS as usize;
        let clocks = &mut self.clocks;
        let ends = self.threads.iter().enumerate().flat_map(|(thread, state)| {
            let clocks = &mut clocks[thread / lanes];
            let own = clocks.own(thread % lanes);
            clocks.tick(thread % lanes);
            [(thread, own), (copiers + thread, state.copies.clock())]
        });
        self.shared.fences.end_epoch(ends);
        self.shared.barrier();
    }

    /// Lets all threads know what each of them knows: elsewhere in the cluster the block's epochs say nothing.
    fn share_knowledge(&mut self) {
        let lanes = WARP_THREADS as usize;
        let mut all = Gathered::default();
        for thread in 0..self.threads.len() {
            let (warp, lane) = (thread / lanes, thread % lanes);
            self.clocks[warp].tell(warp, lane, &mut all);
        }
        let all = Arc::new(all.take());
        for thread in 0..self.threads.len() {
            let (warp, lane) = (thread / lanes, thread % lanes);
            self.clocks[warp].learn(warp, lane, &all);
        }
    }

    /// The block of a rank in the cluster, whose blocks follow each other along x.
    pub(super) fn block_of(&self, rank: usize) -> [u32; 3] {
        let [x, y, z] = self.block_index;
        [x + rank as u32 - self.member.rank as u32, y, z]
    }

    /// What follows the address of an access to the shared memory of `owner`: the block, where it is another one.
    pub(super) fn whose(&self, owner: &Worker) -> String {
        match owner.block == self.block {
            true => String::new(),
            false => format!("of block {} ", Index(owner.block_index)),
        }
    }

    /// Lets what the thread that runs does from now on come later than what it has made known.
    pub(super) fn tick(&mut self) {
        let (warp, lane) = (self.thread / WARP_THREADS, self.thread % WARP_THREADS);
        let clocks = &mut self.clocks[warp as usize];
        clocks.tick(lane as usize);
        self.clock = clocks.own(lane as usize);
    }

    /// A fault of a thread of this block.
    #[cold]
    pub(super) fn fault_of(
        &self,
        thread: [u32; 3],
        kind: FaultKind,
        access: Option<MemoryAccess>,
        message: String,
        location: Option<SourceLocation>,
    ) -> Box<Fault> {
        let Worker { kernel, block_index: block, .. } = *self;
        Box::new(Fault { kind, kernel, block, thread, access, message, location })
    }
}

/// Lets a fiber run until it stops, as the kernel thread of `worker` on this host thread.
pub(super) fn resume(
    worker: *mut Worker,
    fiber: &mut Fiber,
    result: u32,
) -> corosensei::CoroutineResult<Stop, std::thread::Result<()>> {
    let outer = CURRENT.replace(worker);
    let outcome = fiber.resume(result);
    CURRENT.set(outer);
    outcome
}

/// Stops the kernel thread that runs; returns when the scheduler resumes it.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
pub(super) unsafe fn suspend(worker: *mut Worker, stop: Stop) -> u32 {
    // SAFETY: the yielder lives as long as the fiber that runs this.
    unsafe { (*(*worker).yielder).suspend(stop) }
}

/// Reports a fault of the kernel thread that runs and stops it for good.
///
/// # Safety
/// As for [`suspend`].
#[cold]
pub(super) unsafe fn raise(
    worker: *mut Worker,
    kind: FaultKind,
    access: Option<MemoryAccess>,
    message: String,
    location: &'static Location<'static>,
) -> ! {
    // SAFETY: the worker is the current one.
    unsafe {
        let state = &mut *worker;
        let thread = state.thread_index;
        state.fault = Some(state.fault_of(thread, kind, access, message, Some(location.into())));
        suspend(worker, Stop::Fault);
    }
    unreachable!("the scheduler resumed a thread that had stopped for good")
}
