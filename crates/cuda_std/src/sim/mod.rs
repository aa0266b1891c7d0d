//! The SIMT simulator: runs kernels on the CPU, checks every access, and counts what they did.
//!
//! ```
//! use cuda_std::memory::GlobalPtr;
//! use cuda_std::sim::{Launch, SimError, Simulator};
//! use cuda_std::{kernel, thread};
//!
//! #[kernel]
//! unsafe fn double(x: GlobalPtr<f32>) {
//!     let x = x.add(thread::thread_idx_x() as u64);
//!     // SAFETY: launched with one thread an element.
//!     unsafe { x.store(2.0 * x.load()) }
//! }
//!
//! fn main() -> Result<(), SimError> {
//!     let simulator = Simulator::new();
//!     let address = simulator.alloc(32 * 4)?;
//!     simulator.write(address, &[0; 32 * 4])?;
//!     let x = GlobalPtr::<f32>::from_address(address);
//!     let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], dynamic_shared: 0 };
//!     // SAFETY: the argument points to a value of the parameter's type.
//!     let counters =
//!         unsafe { simulator.launch(&double::ENTRY, launch, &[(&raw const x).cast()])? };
//!     assert_eq!(counters.global_load_requests, 1);
//!     assert_eq!(counters.global_load_sectors, 4);
//!     Ok(())
//! }
//! ```
//!
//! # How it runs
//!
//! The blocks of a grid, or its clusters, are spread over as many host threads as the current `rayon` pool has. The
//! threads of a block are coroutines that take turns on one host thread; they yield at barriers and at warp-collective
//! operations. The order is always the same, so results, counters and faults are repeatable, however many host threads
//! there are.
//! (Blocks that race with each other in global memory are the one exception: on a GPU their result is undefined as
//! well.)
//!
//! A warp goes on until all of its lanes have exited or wait, or have taken very many steps. Then others have their
//! turn: a thread may ask again and again for what one of another warp writes in memory (which is a race, but in global
//! memory it is looked for in few launches only). One that has taken 2^26 steps, which are accesses to memory and
//! waits, is said to go on for ever ([`FaultKind::Endless`], [`Simulator::limiting_steps`]). A loop that does nothing
//! of that and never ends cannot be found: it hangs the launch.
//!
//! A kernel thread has 256 KiB of stack, on which its arrays lie that a GPU would keep in registers or local memory.
//! One that needs more is no fault: it meets the page behind the stack, which nobody may touch, and the whole process
//! ends with a segmentation fault (SIGSEGV) that names no kernel. What a thread owns on the heap when it faults is
//! leaked. The first launch puts a panic hook before the program's own, which keeps silent about panics of kernels:
//! they are faults.
//!
//! # What it checks
//!
//! [`FaultKind`] lists the rules. A shuffle does not order memory (CUDA C++ Programming Guide, "Warp Shuffle
//! Functions"), a warp barrier does, for its lanes. A launch that breaks one returns a [`Fault`] with kernel, block,
//! thread, address and place in the source: of all blocks the lowest one that fails, and in it the first fault in the
//! order of execution. Fresh global memory holds `0xff` bytes, which are NaN in every floating-point type.
//!
//! # Asynchronous copies
//!
//! A copy reads its source and writes its destination when the thread that issued it waits for its group, which is the
//! latest moment that the rules allow, or when somebody waits for an mbarrier that it arrives at; so a kernel that
//! waits too late, or not at all, fails here every time. Until then each access to the destination is a fault, after it
//! the copy is an ordinary store of that thread. A thread may exit before its copies have arrived, where somebody waits
//! for the mbarrier that they arrive at; if nobody has done so when the block ends, that is a fault
//! ([`FaultKind::EndsUnderWay`]). Copies that arrive at none, and that nobody has waited for by then, are dropped.
//!
//! # Bulk copies
//!
//! A bulk load reads its source and writes its destination when somebody waits for the phase of its mbarrier, once all
//! arrivals have been made and as many bytes are under way as the phase expects; a phase that expects none does not
//! wait for them. Only who has waited for that phase, or learns of it through barriers, may touch the destination. A
//! bulk store reads its source when its thread waits for that, and writes its destination when the thread waits for its
//! group or ends; until it has read, each write to the source is a fault. What threads have written to shared memory
//! bulk copies see only through a proxy fence ([`FaultKind::MissingProxyFence`]).
//!
//! Of global memory nothing like that is checked: a load that reads what a thread of the same launch writes, or a store
//! that others read or overwrite too early, is no fault, in no launch. What a launch writes otherwise than by bulk
//! stores its bulk loads must not read at all, as this crate has no proxy fence for global memory.
//!
//! Tensor maps are the simulator's own ([`Simulator::tensor_map`]). A load whose phase nobody has waited for when the
//! block ends is a fault ([`FaultKind::EndsUnderWay`]).
//!
//! # Mbarriers
//!
//! What a thread does before it arrives comes before what others do once they have waited for that phase, and so does
//! what the thread has seen of others; of what a thread that arrives on its copies has done itself those copies alone
//! do. They arrive, and the arrival counts, when all other arrivals of the phase have been made and somebody waits for
//! it.
//!
//! Which phase an arrival or a wait belongs to must not depend on the order in which threads run
//! ([`FaultKind::MbarrierOverrun`]): both must come after the end of the phase before, and the end of a phase after
//! every wait for the phase before. Whatever else touches the bytes of an mbarrier is a fault
//! ([`FaultKind::MbarrierOverwritten`]).
//!
//! # Clusters
//!
//! The blocks of a cluster take turns on one host thread. A multicast copy is one load in each block that its mask
//! names, which counts at the mbarrier there; it is fetched, and counted, once. What its thread had learned at
//! mbarriers and barriers when it issued it is known to who waits for that mbarrier in another block, but not what the
//! thread itself has done since: its own reads and arrivals need not be over when the copy arrives. An arrival at an
//! mbarrier of another block orders reads before what is written there after it, and makes no writes visible to other
//! blocks: barriers of the cluster alone do. Of what other blocks have done a thread knows through that, through
//! mbarriers and through barriers of the cluster alone: those of a block order its own threads. So a copy that may
//! overwrite what another block still reads is a race, an arrival at an mbarrier of another block needs a barrier of
//! the cluster after the initialisation, and a block may end only when one of its threads has seen all that others do
//! to its shared memory ([`FaultKind::BlockEnded`]). A load from another block's shared memory races with every write
//! there that nothing orders before or after it.
//!
//! # Signals
//!
//! A block sees of a signal what it and the blocks of lower index have posted; values of later blocks are none that it
//! may wait for ([`crate::signal`]). A thread that waits goes on when no other thread of its block can; when all blocks
//! before have ended as well and the value is still another one, it would wait for ever
//! ([`FaultKind::SignalDeadlock`]). So which blocks run at the same time shows nowhere. Signals order global memory
//! alone: what threads of a block do in shared memory only barriers order. A signal must be zero before and after a
//! launch ([`FaultKind::SignalNotZero`]). Loads and stores of its word that are no signals are not told from others,
//! and that a value is overwritten before all who wait for it have seen it is not found: then, as on a GPU, it may
//! depend on the host who sees it.
//!
//! # Counts
//!
//! A count is what all threads have added to it so far. That depends on which blocks run at the same time, so a thread
//! that waits for one goes on at once ([`crate::counter`]), and one that arrives should ask for nothing but whether it
//! is the last. As signals they must be zero before and after a launch.
//!
//! # Warpgroup matrix instructions
//!
//! The threads of a warpgroup wait for each other at each operation. An instruction reads its operands, and changes its
//! accumulators, when the warpgroup waits for its group, which is the latest moment that the rules allow. Until then a
//! write to the operands is a fault, and so is an access to the accumulators; after it the reads count as the
//! warpgroup's own, for all that the threads make known to others from then on. Operands must have been written, known
//! to all threads of the warpgroup, and be behind a fence of the asynchronous proxy, when the instruction is issued.
//! All instructions must have been waited for when the block ends. The sums are explained in `product.rs`: an
//! accumulator and the 16 exact products of an instruction are aligned to the largest of them and cut off two bits
//! below the last of an f32, which is a model that gives the errors measured on a GPU.
//!
//! # Registers
//!
//! Threads have as many registers as they like. Of a kernel that hands some over it is known how many its bounds leave
//! to each thread, and who takes more than its own waits until others have given them up
//! ([`FaultKind::RegistersDeadlock`]).
//!
//! # What is left out
//!
//! To see whether a missing fence, wait or arrival is found, a test lets launches leave one out:
//! [`Simulator::noting_sites`] tells which there are, [`Simulator::skipping`] leaves a site out. Otherwise a [`Site`]
//! costs a comparison.
//!
//! Such launches also check what threads load from global memory that others have stored in the same launch
//! ([`FaultKind::GlobalRace`]), which takes too long to do always. What overwrites others' values, or those that others
//! have still to read, is not found, nor are races of bulk copies in global memory.
//!
//! # What each thread did
//!
//! [`Simulator::observe`] launches a kernel and says which accesses each thread has made and at which barriers it has
//! waited, one after another. Other launches keep nothing of that. The example `phases` of this workspace prints what
//! it says of the lower rungs of the ladder.
//!
//! # What it counts
//!
//! [`Counters`]. The lanes of a warp run one after another; their n-th accesses are one request as long as they run in
//! step, and where they do not, the n-th accesses from the same place in the source are.
//!
//! | part | file |
//! |---|---|
//! | what the device functions do | `access.rs`, `async_copy.rs`, `bulk_copy.rs`, `mbarrier.rs`, `named_barrier.rs`, `cluster.rs`, `registers.rs`, `early_start.rs`, `signal.rs`, `counter.rs`, `word.rs`, `collective.rs`, `mma.rs`, `wgmma.rs`, `accumulators.rs`, `double_mma.rs`, `product.rs`, `arithmetic.rs` |
//! | launches that leave something out | `sites.rs`, `global_order.rs` |
//! | the order of execution | `grid.rs`, `progress.rs`, `block.rs`, `divergence.rs`, `steps.rs`, `worker.rs`, `stack.rs`, `panics.rs` |
//! | launches, their limits, and what is told of faults | `launch.rs`, `limits.rs`, `fault.rs` |
//! | memory | `global.rs`, `backing.rs`, `shared.rs`, `tensor_map.rs` |
//! | races and uninitialised reads | `accessor.rs`, `violation.rs`, `shadow.rs`, `record.rs`, `readers.rs`, `remote_readers.rs`, `clocks.rs`, `knowledge.rs`, `fences.rs`, `in_flight.rs`, `objects.rs`, `operands.rs` |
//! | counting, and what each thread did | `log.rs`, `requests.rs`, `counters.rs`, `observation.rs` |

mod access;
mod accessor;
mod accumulators;
mod arithmetic;
mod async_copy;
mod backing;
mod block;
mod bulk_copy;
mod clocks;
mod cluster;
mod collective;
mod counter;
mod counters;
mod divergence;
mod double_mma;
mod early_start;
mod fault;
mod fences;
mod global;
mod global_order;
mod grid;
mod in_flight;
mod knowledge;
mod launch;
pub mod limits;
mod log;
mod mbarrier;
mod mma;
mod named_barrier;
mod objects;
mod observation;
mod operands;
mod panics;
mod product;
mod progress;
mod readers;
mod record;
mod registers;
mod remote_readers;
mod requests;
mod shadow;
mod shared;
mod signal;
mod sites;
mod stack;
mod steps;
mod tensor_map;
mod violation;
pub(crate) mod wgmma;
mod word;
mod worker;

pub use counters::Counters;
pub use fault::{AccessKind, Fault, FaultKind, MemoryAccess, SimError, SourceLocation, Space};
pub use launch::Launch;
pub use observation::{Event, ThreadEvents};
pub use sites::{Site, SyncOperation};

pub(crate) use access::{
    global_load, global_store, shared_load, shared_static, shared_store, shuffle, sync_threads,
    sync_warp, uniform,
};
pub(crate) use accumulators::{wgmma_declare, wgmma_get, wgmma_set};
pub(crate) use arithmetic::{fma_f32, fma_f64};
pub(crate) use async_copy::{commit_group, copy_async, wait_group};
pub(crate) use bulk_copy::{
    bulk_commit_group, bulk_load, bulk_load_multicast, bulk_prefetch_map, bulk_store,
    bulk_wait_group, bulk_wait_group_read, fence_proxy_async_shared,
};
pub(crate) use cluster::{cluster_arrive, cluster_load, cluster_rank, cluster_wait, map_shared};
pub(crate) use collective::Shuffle;
pub(crate) use counter::{counter_add, counter_clear, counter_look};
pub(crate) use double_mma::{DoubleShape, multiply_add as multiply_add_doubles};
pub(crate) use early_start::wait_for_earlier_launches;
pub(crate) use mbarrier::{
    fence_mbarrier_init, mbarrier_arrive, mbarrier_arrive_expect_tx, mbarrier_arrive_in_cluster,
    mbarrier_arrive_on_copies, mbarrier_init, mbarrier_wait,
};
pub(crate) use mma::{Format, load_matrices, multiply_add, round_to_tf32, store_matrices};
pub(crate) use named_barrier::{named_barrier_arrive, named_barrier_sync};
pub(crate) use registers::transfer as transfer_registers;
pub(crate) use shared::DYNAMIC_BASE;
pub(crate) use signal::{signal_post, signal_wait};
pub(crate) use sites::{at, skips};
pub(crate) use worker::{current, current_or_null};

use crate::bulk_copy::TensorMap;
use crate::entry::KernelEntry;
use crate::tensor_map::{TensorMapError, TiledTensor};
use global::GlobalMemory;
use sites::Watch;
use std::ffi::c_void;
use std::sync::Arc;

/// Global memory of a simulator, in bytes, unless another size is asked for. Memory that nobody touches costs nothing.
const DEFAULT_MEMORY: u64 = 64 << 30;

/// A simulated GPU with its own global memory. Clones share it.
///
/// No two simulators have an address in common, so a kernel that is given memory of another one is caught.
#[derive(Clone, Debug)]
pub struct Simulator {
    memory: Arc<GlobalMemory>,
    /// Steps that a thread may take.
    most_steps: u64,
    watch: Option<Arc<Watch>>,
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulator {
    /// A GPU with 64 GiB of global memory.
    pub fn new() -> Self {
        Self::with_memory(DEFAULT_MEMORY)
    }

    /// A GPU with `bytes` bytes of global memory.
    pub fn with_memory(bytes: u64) -> Self {
        let memory = Arc::new(GlobalMemory::new(bytes));
        Simulator { memory, most_steps: steps::STEPS, watch: None }
    }

    /// Size of global memory, and how much of it is allocated, in bytes.
    pub fn memory_usage(&self) -> (u64, u64) {
        self.memory.usage()
    }

    /// Allocates `bytes` bytes of global memory, filled with `0xff`, and returns its address, a multiple of 256.
    ///
    /// # Errors
    /// [`SimError::OutOfMemory`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, SimError> {
        self.memory.alloc(bytes)
    }

    /// Frees an allocation, given the address that [`alloc`](Self::alloc) returned. A launch that already runs keeps
    /// it.
    ///
    /// # Errors
    /// [`SimError::InvalidAddress`] where no live allocation starts there.
    pub fn free(&self, address: u64) -> Result<(), SimError> {
        self.memory.free(address)
    }

    /// Copies from the host to global memory.
    ///
    /// # Errors
    /// [`SimError::InvalidAddress`] where the range does not lie in one live allocation.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), SimError> {
        self.memory.write(address, bytes)
    }

    /// Copies from global memory to the host.
    ///
    /// # Errors
    /// [`SimError::InvalidAddress`] where the range does not lie in one live allocation.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), SimError> {
        self.memory.read(address, bytes)
    }

    /// Sets `bytes` bytes of global memory to `value`.
    ///
    /// # Errors
    /// [`SimError::InvalidAddress`] where the range does not lie in one live allocation.
    pub fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), SimError> {
        self.memory.fill(address, bytes, value)
    }

    /// The map that bulk copies of kernels on a simulator take for a tensor.
    ///
    /// # Errors
    /// The tensor breaks a rule of the driver's tensor maps. Whether it lies in memory is found out by the copies.
    pub fn tensor_map(&self, tensor: &TiledTensor) -> Result<TensorMap, TensorMapError> {
        tensor_map::encode(tensor)
    }

    /// The same GPU, in whose launches each thread may take so many steps, which are accesses to memory and waits: one
    /// that takes more is [`FaultKind::Endless`]. Unless another number is asked for it is 2^26, for which a thread
    /// takes some seconds.
    #[must_use]
    pub fn limiting_steps(&self, steps: u64) -> Self {
        Simulator { most_steps: steps, ..self.clone() }
    }

    /// The same GPU, which leaves a site out of its launches. As threads may then well go on for ever, they may take
    /// 65,536 steps unless [fewer](Self::limiting_steps) have been asked for before, or another number after that.
    #[must_use]
    pub fn skipping(&self, site: Site) -> Self {
        let most_steps = self.most_steps.min(steps::STEPS_SKIPPING);
        Simulator { most_steps, watch: Some(Arc::new(Watch::skipping(site))), ..self.clone() }
    }

    /// The same GPU, which notes the sites that its launches execute.
    #[must_use]
    pub fn noting_sites(&self) -> Self {
        Simulator { watch: Some(Arc::default()), ..self.clone() }
    }

    /// The sites that launches have executed, in order, if they are [noted](Self::noting_sites). Each is there once,
    /// however often it has been executed.
    pub fn sites(&self) -> Vec<Site> {
        self.watch.as_ref().map_or(Vec::new(), |watch| watch.executed())
    }

    /// Runs a kernel to its end and says what it did.
    ///
    /// `arguments` holds one pointer a parameter, as in `cuLaunchKernel`.
    ///
    /// # Errors
    /// [`SimError::InvalidLaunch`] where the shape or the arguments do not fit the device or the kernel;
    /// [`SimError::Fault`] where the kernel broke a rule.
    ///
    /// # Safety
    /// Each argument must point to a value of its parameter's type that nobody changes during the launch. That is all:
    /// whatever the kernel does through this crate is checked. A thread that needs more than 256 KiB of stack ends the
    /// process (see "How it runs" in [the module](crate::sim)).
    pub unsafe fn launch(
        &self,
        kernel: &KernelEntry,
        launch: Launch,
        arguments: &[*const c_void],
    ) -> Result<Counters, SimError> {
        // SAFETY: as promised by the caller.
        unsafe { launch::run(self, kernel, launch, arguments, None) }
    }
}
