//! The configurations of the parameter sweep and their kernels (feature `sweep`).
//!
//! A configuration is a block tile, a thread tile, a loop order and a way of staging. The space is that of a well-known
//! experiment, five block tiles with five thread tiles in three loop orders, as it stands and with slices in shared
//! memory; around its winner larger tiles and the ways of staging; and the plainest mapping, a block a row of D and a
//! thread a column: see [`configurations`]. Its kernels are a crate and PTX of their own (`kernels-sweep`), for f32.
//!
//! ```
//! use regemm::ndarray::Array2;
//! use regemm::{Device, Gemm, Linear, sweep};
//!
//! # fn main() -> regemm::Result<()> {
//! let device = Device::sim();
//! let a = device.upload(&Array2::from_elem((40, 20), 0.5f32).view())?;
//! let b = device.upload(&Array2::from_elem((20, 50), 2.0f32).view())?;
//! let mut d = device.matrix(40, 50)?;
//! for candidate in sweep::candidates().iter().step_by(60) {
//!     match (&candidate.kernel, sweep::unfit(candidate, &device)) {
//!         (Ok(kernel), None) => {
//!             // SAFETY: the epilogue reads no matrix.
//!             unsafe { Gemm::new(&a, &b).run_custom(kernel, Linear::identity(), &mut d)? };
//!             assert!(d.to_array()?.iter().all(|&x| x == 20.0));
//!         }
//!         (_, why) => println!("{}: {}", candidate.configuration, why.unwrap()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use crate::device::Device;
use crate::device::ptx::PtxModule;
use crate::error::Error;
use crate::gemm::custom::CustomKernel;
use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::{KernelInfo, Rung, Tile};
use regemm_kernels::layout::Layouts;
use regemm_kernels::slices::shared_bytes_of;
use regemm_sweep_kernels::{registers, space};
use std::fmt;

/// The kernels of the sweep: each for each architecture.
static MODULES: &[PtxModule] = include!(concat!(env!("OUT_DIR"), "/sweep/ptx.rs"));

/// Most threads in a block on any GPU. This and the next: CUDA C++ Programming Guide, "Technical Specifications per
/// Compute Capability".
const MAX_THREADS: u32 = 1024;

/// Most bytes of shared memory that a block can ask for on any GPU.
const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// Where the loop over k stands among a thread's loops. One thread owns `TM x TN` elements of D in all of them, and the
/// results have the same bits.
///
/// In the first two D holds partial sums while the kernel runs, so C must not be D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopOrder {
    /// k outermost: for every k the partial sums come from global memory and go back there.
    Standard,
    /// k after the loops over the thread's elements: partial sums are in registers for `BK` values of k, a slice, and
    /// go to global memory and back between slices.
    KAfterThreads,
    /// k innermost: sums are in registers throughout.
    KInnermost,
}

impl LoopOrder {
    /// All loop orders.
    pub const ALL: [LoopOrder; 3] =
        [LoopOrder::Standard, LoopOrder::KAfterThreads, LoopOrder::KInnermost];

    /// The name in reports and in names of kernels.
    pub const fn name(self) -> &'static str {
        match self {
            LoopOrder::Standard => "standard",
            LoopOrder::KAfterThreads => "k_after_threads",
            LoopOrder::KInnermost => "k_innermost",
        }
    }
}

impl fmt::Display for LoopOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How operands come to the threads that multiply them: by which way slices of A and B come to shared memory, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staging {
    /// None: each thread loads its operands from global memory, and the L1 cache is all that the threads of a block
    /// share. There is no shared memory and no barrier.
    Direct,
    /// One stage: a block loads or multiplies, in turns.
    Single,
    /// Two stages, filled through registers while the other is multiplied: [`Rung::DoubleBuffered`].
    Double,
    /// Two stages, filled by asynchronous copies: [`Rung::Pipelined`], as the next two.
    Async2,
    /// Three stages.
    Async3,
    /// Four stages.
    Async4,
}

impl Staging {
    /// All ways of staging.
    pub const ALL: [Staging; 6] = [
        Staging::Direct,
        Staging::Single,
        Staging::Double,
        Staging::Async2,
        Staging::Async3,
        Staging::Async4,
    ];

    /// The name in reports and in names of kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Staging::Direct => "direct",
            Staging::Single => "single",
            Staging::Double => "double",
            Staging::Async2 => "async2",
            Staging::Async3 => "async3",
            Staging::Async4 => "async4",
        }
    }

    /// Copies of the slices in shared memory.
    pub const fn stages(self) -> u32 {
        match self {
            Staging::Direct => 0,
            Staging::Single => 1,
            Staging::Double | Staging::Async2 => 2,
            Staging::Async3 => 3,
            Staging::Async4 => 4,
        }
    }
}

impl fmt::Display for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A point of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// Sizes of the tiles; the number of stages is that of `staging`.
    pub tile: Tile,
    /// The loop order.
    pub order: LoopOrder,
    /// The way of staging.
    pub staging: Staging,
}

impl Configuration {
    fn new(
        (bm, bn, bk): (u32, u32, u32),
        (tm, tn): (u32, u32),
        order: LoopOrder,
        staging: Staging,
    ) -> Self {
        let tile = Tile { bm, bn, bk, tm, tn, stages: staging.stages() };
        Configuration { tile, order, staging }
    }

    /// Name of its kernel.
    pub fn kernel_name(&self) -> String {
        let Configuration { tile: Tile { bm, bn, bk, tm, tn, .. }, order, staging } = self;
        format!("sweep_{bm}x{bn}x{bk}_{tm}x{tn}_{order}_{staging}")
    }

    /// Bytes of shared memory that a block needs.
    pub fn shared_bytes(&self) -> u32 {
        shared_bytes_of::<f32>(self.tile, Layouts::NN, 1)
    }

    /// The rung of the ladder whose idea its staging is.
    pub fn rung(&self) -> Rung {
        match self.staging {
            Staging::Direct => Rung::Naive,
            Staging::Single => Rung::Microkernel,
            Staging::Double => Rung::DoubleBuffered,
            Staging::Async2 | Staging::Async3 | Staging::Async4 => Rung::Pipelined,
        }
    }

    /// Why no GPU can run it, if so.
    fn impossible(&self) -> Option<CannotRun> {
        let threads = self.tile.threads();
        let registers = (registers::needed(self.tile, self.rung()), registers::available(threads));
        CannotRun::threads(threads, MAX_THREADS)
            .or_else(|| CannotRun::shared_memory(self.shared_bytes(), MAX_SHARED_BYTES))
            .or_else(|| CannotRun::registers(registers.0, registers.1))
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Configuration { tile: Tile { bm, bn, bk, tm, tn, .. }, order, staging } = self;
        f.pad(&format!("{bm}x{bn}x{bk}, {tm}x{tn}, {order}, {staging}"))
    }
}

/// Why a configuration cannot run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotRun {
    /// Its blocks have too many threads.
    #[error("{needed} threads in a block, {available} at most")]
    Threads {
        /// Threads of a block.
        needed: u32,
        /// The most there can be.
        available: u32,
    },
    /// Its slices do not fit into shared memory.
    #[error("{needed} bytes of shared memory a block, {available} at most")]
    SharedMemory {
        /// Bytes a block.
        needed: u32,
        /// The most there can be.
        available: u32,
    },
    /// A thread's sums, and what it must hold beside them, do not fit into registers.
    #[error("{needed} registers a thread, {available} at most")]
    Registers {
        /// Registers a thread.
        needed: u32,
        /// The most there can be.
        available: u32,
    },
    /// The device does not take the kernel.
    #[error("{0}")]
    Refused(Error),
    /// The library holds no kernel for it.
    #[error("no kernel is compiled for it")]
    NotCompiled,
}

impl CannotRun {
    fn threads(needed: u32, available: u32) -> Option<Self> {
        (needed > available).then_some(CannotRun::Threads { needed, available })
    }

    fn shared_memory(needed: u32, available: u32) -> Option<Self> {
        (needed > available).then_some(CannotRun::SharedMemory { needed, available })
    }

    fn registers(needed: u32, available: u32) -> Option<Self> {
        (needed > available).then_some(CannotRun::Registers { needed, available })
    }
}

/// A configuration and its kernel.
#[derive(Debug)]
pub struct Candidate {
    /// The configuration.
    pub configuration: Configuration,
    /// Its kernel, or why no GPU can run it. For loop orders other than [`LoopOrder::KInnermost`] C must not be D.
    pub kernel: Result<CustomKernel<f32, Linear<f32>>, CannotRun>,
}

/// The block tiles of the loop orders.
const BLOCKS: [(u32, u32, u32); 5] =
    [(32, 32, 32), (32, 64, 32), (64, 32, 32), (64, 64, 32), (64, 64, 64)];

/// The thread tiles of the loop orders.
const THREADS: [(u32, u32); 5] = [(2, 2), (4, 4), (4, 8), (8, 4), (8, 8)];

/// Rows and columns of the larger block tiles, and their depths.
const LARGER_BLOCKS: [(u32, u32); 4] = [(128, 64), (64, 128), (128, 128), (256, 128)];
const LARGER_DEPTHS: [u32; 3] = [8, 16, 32];

/// The thread tiles of the larger block tiles: without the smallest, and with a larger one.
const LARGER_THREADS: [(u32, u32); 5] = [(4, 4), (4, 8), (8, 4), (8, 8), LARGEST_THREADS];
const LARGEST_THREADS: (u32, u32) = (8, 16);

/// Block tiles of the loop orders that the largest thread tile and the ways of staging are tried on.
const STAGED_BLOCKS: [(u32, u32, u32); 2] = [(64, 64, 32), (64, 64, 64)];

/// Thread tiles with which the ways of staging are tried, on those block tiles and on the larger ones.
const STAGED_THREADS: [(u32, u32); 3] = [(4, 4), (8, 4), (8, 8)];
const STAGED_LARGER_THREADS: [(u32, u32); 2] = [(8, 8), LARGEST_THREADS];

/// Widths of blocks that are one row of D or a part of it, a thread an element: up to the most threads of a block, so
/// that wider rows are those of several blocks. The depth says what it says of other tiles without shared memory: after
/// how many values of k a sum is written that goes to memory and back in [`LoopOrder::KAfterThreads`].
const ROW_WIDTHS: [u32; 4] = [128, 256, 512, MAX_THREADS];
const ROW_DEPTH: u32 = 32;

/// All configurations, in a fixed order, also those that cannot run:
///
/// 1. the loop orders: each with each small thread tile on each small block tile, one stage;
/// 2. for the loop order with k innermost, larger block tiles and a larger thread tile, one stage;
/// 3. for that order the ways of staging, on some of all these tiles;
/// 4. without shared memory the loop orders again: each with the same tiles, and with blocks of a row.
pub fn configurations() -> Vec<Configuration> {
    let larger_blocks: Vec<_> = LARGER_BLOCKS
        .iter()
        .flat_map(|&(bm, bn)| LARGER_DEPTHS.map(|depth| (bm, bn, depth)))
        .collect();
    let mut configurations = Vec::new();
    let mut add = |blocks: &[_], threads: &[_], order, staging| {
        for &block in blocks {
            for &thread in threads {
                configurations.push(Configuration::new(block, thread, order, staging));
            }
        }
    };

    for order in LoopOrder::ALL {
        add(&BLOCKS, &THREADS, order, Staging::Single);
    }
    let order = LoopOrder::KInnermost;
    add(&STAGED_BLOCKS, &[LARGEST_THREADS], order, Staging::Single);
    add(&larger_blocks, &LARGER_THREADS, order, Staging::Single);
    for staging in [Staging::Double, Staging::Async2, Staging::Async3, Staging::Async4] {
        add(&STAGED_BLOCKS, &STAGED_THREADS, order, staging);
        add(&larger_blocks, &STAGED_LARGER_THREADS, order, staging);
    }

    let rows = ROW_WIDTHS.map(|width| (1, width, ROW_DEPTH));
    for order in LoopOrder::ALL {
        add(&BLOCKS, &THREADS, order, Staging::Direct);
        add(&rows, &[(1, 1)], order, Staging::Direct);
    }
    configurations
}

/// All [`configurations`] and their kernels, in the same order. What a kernel lacks is a fact of its configuration: see
/// [`unfit`] for a device.
pub fn candidates() -> Vec<Candidate> {
    let candidate = |configuration| Candidate { configuration, kernel: kernel(&configuration) };
    configurations().into_iter().map(candidate).collect()
}

fn kernel(configuration: &Configuration) -> Result<CustomKernel<f32, Linear<f32>>, CannotRun> {
    let name = configuration.kernel_name();
    match space::kernels().find(|kernel| kernel.name == name) {
        // SAFETY: a row of the table, whose epilogues are all `Linear<f32>`; the modules are made of the same crate.
        Some(info) => unsafe { CustomKernel::new(info, MODULES) }.map_err(CannotRun::Refused),
        None => Err(configuration.impossible().unwrap_or(CannotRun::NotCompiled)),
    }
}

/// The kernels of the sweep, all configurations that some GPU can run; no particular order.
pub fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
    space::kernels()
}

/// The embedded PTX of the sweep's kernels, each for each architecture: for people and tools to look at.
pub fn ptx_modules() -> &'static [PtxModule] {
    MODULES
}

/// Why this device cannot run a candidate, if so. Registers that spill make a kernel slow, not unfit.
///
/// On a GPU this compiles the kernel if it has not been used yet.
pub fn unfit(candidate: &Candidate, device: &Device) -> Option<CannotRun> {
    let kernel = match &candidate.kernel {
        Ok(kernel) => kernel,
        Err(why) => return Some(why.clone()),
    };
    let (info, limits) = (kernel.info(), device.info());
    let by_size = CannotRun::threads(info.threads(), limits.max_threads_per_block)
        .or_else(|| CannotRun::shared_memory(info.shared_bytes, limits.shared_bytes_per_block));
    if by_size.is_some() {
        return by_size;
    }
    match kernel.report(device) {
        Err(error) => Some(CannotRun::Refused(error)),
        Ok(report) => {
            let available = limits.registers_per_multiprocessor / info.threads();
            CannotRun::registers(report.registers.unwrap_or(0), available)
        }
    }
}
