//! The contract between a kernel and everything around it: one trait, and its description as a value.

use crate::element::{Dtype, Element};
use crate::epilogue::Epilogue;
use crate::layout::Layouts;
use crate::params::GemmParams;
use core::fmt;

/// A rung of the ladder: one idea more than the rung before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rung {
    /// [`crate::naive`]
    Naive,
    /// [`crate::tiled`]
    Tiled,
    /// [`crate::microkernel`]
    Microkernel,
    /// [`crate::double_buffered`]
    DoubleBuffered,
    /// [`crate::pipelined`]
    Pipelined,
    /// [`crate::warp_tiled`]
    WarpTiled,
    /// [`crate::decoupled`]
    Decoupled,
    /// [`crate::tensor_core`]
    TensorCore,
}

impl Rung {
    /// All rungs, from the bottom up.
    pub const ALL: [Rung; 8] = [
        Rung::Naive,
        Rung::Tiled,
        Rung::Microkernel,
        Rung::DoubleBuffered,
        Rung::Pipelined,
        Rung::WarpTiled,
        Rung::Decoupled,
        Rung::TensorCore,
    ];

    /// The module's name.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Naive => "naive",
            Rung::Tiled => "tiled",
            Rung::Microkernel => "microkernel",
            Rung::DoubleBuffered => "double_buffered",
            Rung::Pipelined => "pipelined",
            Rung::WarpTiled => "warp_tiled",
            Rung::Decoupled => "decoupled",
            Rung::TensorCore => "tensor_core",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// In which order a kernel adds up the products of an element of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Summation {
    /// In ascending order of k, by fused multiply-adds into one accumulator that starts at zero: the same bits with every kernel, in
    /// all layouts, on the simulator and on every GPU.
    Ascending,
    /// In ascending order of k by 16 at a time, which tensor cores add up in a way of their own ([`cuda_std::mma`]): the same bits
    /// with every such kernel on one machine, but not on another.
    TensorCores,
}

/// Sizes of a kernel's tiles, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of D that a block owns.
    pub bm: u32,
    /// Columns of D that a block owns.
    pub bn: u32,
    /// Depth of the slices of A and B that a block holds in shared memory; 1 where it holds none.
    pub bk: u32,
    /// Rows of D that a thread owns.
    pub tm: u32,
    /// Columns of D that a thread owns.
    pub tn: u32,
    /// Copies of the slices in shared memory; 0 where there is none.
    pub stages: u32,
}

impl Tile {
    /// Threads in a block: one a thread tile.
    pub const fn threads(self) -> u32 {
        (self.bm / self.tm) * (self.bn / self.tn)
    }
}

/// A kernel with all its constants chosen: element type, tile sizes, and the layouts of A and B.
///
/// # Contract
/// `run` computes `D = epilogue(A * B)` for any `m`, `n` and `k` including zero. It must be launched with
/// `TILE.threads()` threads along x, `SHARED_BYTES` bytes of dynamic shared memory, and one block along x for each
/// `BM x BN` tile of D, `blocks(m, n)` in all: block `i` owns the tile that [`crate::tile::block_tile`] gives. Of a batch
/// there is one product for each block along y; the entry that [`gemm_kernels!`](crate::gemm_kernels) makes passes `run`
/// the parameters of its own product, so that a kernel need not know of batches. Each
/// element of D is the sum over k in the order of `SUMMATION`, so that all kernels that share it give the same bits, in all layouts.
pub trait GemmKernel {
    /// Element type of all matrices.
    type Element: Element;
    /// The idea this kernel stands for.
    const RUNG: Rung;
    /// How A and B lie in memory.
    const LAYOUTS: Layouts = Layouts::NN;
    /// In which order it adds up products.
    const SUMMATION: Summation = Summation::Ascending;
    /// Its tile sizes.
    const TILE: Tile;
    /// Bytes of dynamic shared memory a block needs.
    const SHARED_BYTES: u32;

    /// Runs one thread.
    ///
    /// # Safety
    /// Launched as the contract says; the matrices of `params` are valid for their shapes, and D overlaps neither A
    /// nor B.
    unsafe fn run<E: Epilogue<Self::Element>>(params: GemmParams<Self::Element, E>);
}

/// The type of a kernel's sums: the accumulator of its element type.
pub type Acc<K> = <<K as GemmKernel>::Element as Element>::Acc;

/// A kernel of the table, as a value: what the host needs to choose, launch and report it.
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// Name of the PTX entry, unique.
    pub name: &'static str,
    /// The idea it stands for.
    pub rung: Rung,
    /// Element type of all matrices.
    pub dtype: Dtype,
    /// How A and B lie in memory.
    pub layouts: Layouts,
    /// In which order it adds up products.
    pub summation: Summation,
    /// Its tile sizes.
    pub tile: Tile,
    /// Bytes of dynamic shared memory a block needs.
    pub shared_bytes: u32,
    /// How it is launched.
    #[cfg(not(target_arch = "nvptx64"))]
    pub entry: cuda_std::entry::KernelEntry,
}

impl KernelInfo {
    /// Threads in a block.
    pub const fn threads(&self) -> u32 {
        self.tile.threads()
    }

    /// The first compute capability that has the kernel's instructions. Where asynchronous copies are missing others take their
    /// place, tensor cores for f16 and bf16 nothing could.
    pub const fn compute_capability(&self) -> (u32, u32) {
        match self.summation {
            Summation::Ascending => (7, 5),
            Summation::TensorCores => (8, 0),
        }
    }

    /// Blocks of a launch for an `m x n` matrix D, all along x; of each product, in a batch.
    pub const fn blocks(&self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.tile.bm) as u64 * n.div_ceil(self.tile.bn) as u64
    }
}
