//! The contract between a kernel and everything around it: one trait, and its description as a value.

use crate::element::{Dtype, Element};
use crate::epilogue::Epilogue;
use crate::layout::Layouts;
use crate::maps::Boxes;
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
    /// [`crate::warp_specialised`]
    WarpSpecialised,
    /// [`crate::sliced_k`]
    SlicedK,
    /// [`crate::split_k`]
    SplitK,
    /// [`crate::skinny`]
    Skinny,
    /// [`crate::stream_k`]
    StreamK,
    /// [`crate::tensor_core`], [`crate::double_tensor_core`] and [`crate::double_bulk`]
    TensorCore,
    /// [`crate::warpgroup`]
    Warpgroup,
}

impl Rung {
    /// All rungs, from the bottom up.
    pub const ALL: [Rung; 14] = [
        Rung::Naive,
        Rung::Tiled,
        Rung::Microkernel,
        Rung::DoubleBuffered,
        Rung::Pipelined,
        Rung::WarpTiled,
        Rung::Decoupled,
        Rung::WarpSpecialised,
        Rung::SlicedK,
        Rung::SplitK,
        Rung::Skinny,
        Rung::StreamK,
        Rung::TensorCore,
        Rung::Warpgroup,
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
            Rung::WarpSpecialised => "warp_specialised",
            Rung::SlicedK => "sliced_k",
            Rung::SplitK => "split_k",
            Rung::Skinny => "skinny",
            Rung::StreamK => "stream_k",
            Rung::TensorCore => "tensor_core",
            Rung::Warpgroup => "warpgroup",
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
    /// By each of a kernel's [`DEPTH_GROUPS`](GemmKernel::DEPTH_GROUPS) in the same way, but only over its own part of every `BK`
    /// values of k: the first group over the first, and so on, all of the same length, as if A and B went on with zeros to a
    /// multiple of `BK`. Then the sums of the groups are added to that of the first, in order. The same bits with every kernel of
    /// as many groups and the same `BK`, in all layouts, on the simulator and on every GPU.
    InGroups,
    /// In ascending order of k by as many at a time as an instruction takes, which tensor cores add up in a way of their own: 16 of
    /// half precision and 8 of TF32 ([`cuda_std::mma`]), and 4 of f64 ([`cuda_std::mma::double`]). The same bits
    /// with every such kernel of the same [`Schedule`] on one machine, but not on another.
    TensorCores,
    /// The same by instructions of whole warpgroups ([`cuda_std::wgmma`]), which need not add up as those of warps do.
    Warpgroups,
    /// Of numbers in two halves: products of high ones as `Warpgroups` or `TensorCores` does, but only [`PROMOTED`](crate::halves::PROMOTED) values
    /// of k at a time, or half as many, whose sums are added up as f32 is, in one step or two ([`crate::halves`]); then those of high ones with low ones,
    /// all as it does, are added to that. The same bits with kernels of tiles as wide, for the same slices of K.
    Halves,
    /// Of numbers rounded to one half: as `Warpgroups` does.
    Rounded,
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

/// How the sums of a product are shared out among blocks, which decides a launch's grid, workspace and order of summation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// A tile of D for each block along x: `blocks(m, n)` in all. No workspace.
    ///
    /// Each element of D is the sum over k in ascending order of fused multiply-adds into one accumulator that starts at
    /// zero, so that all such kernels give the same bits, in all layouts.
    #[default]
    Tiles,
    /// As many blocks along x as there are multiprocessors, or tiles if those are fewer; in a batch as many as tiles. Block `i` takes
    /// the tiles `i`, `i` and the number of blocks, and so on, of which [`crate::parts`] says where they are. Where blocks are in
    /// clusters it is these that are counted, and each takes as many tiles as it has blocks, one above the other.
    ///
    /// The tiles of a last round that would keep only some of the blocks busy may be shared among them as with
    /// [`StreamK`](Schedule::StreamK), if the kernel [can](KernelInfo::shares_tiles): then these are the first ones, and all blocks begin with them. Without that there is no workspace,
    /// and the bits are those that `Tiles` would give.
    Persistent,
    /// A tile for each block along x, and for each along z a slice of K: slice `s` is k from `s * slice_depth` to
    /// `(s + 1) * slice_depth` or the end. Every block stores the sums of its slice to the workspace
    /// ([`crate::partials`] says where), and a second launch, of the kernel's [`Reducer`], adds them up and applies the
    /// epilogue. Where there is one slice, blocks of kernels that [finish](GemmKernel::FINISHES) do that themselves, and there is
    /// neither workspace nor second launch.
    ///
    /// A slice is summed as [`Tiles`](Schedule::Tiles) sums all of k, and the sums of the slices are added to that of slice 0
    /// in ascending order. So all such kernels give the same bits for the same `slice_depth`, in all layouts, and for one
    /// slice those of `Tiles`: of the sums, that is. The reducer has the activations of every epilogue, where warpgroups have shorter
    /// ones ([`crate::fast_activation`]).
    SplitK,
    /// A tile for each cluster of blocks, which follow each other along x; the blocks share K in equal slices, in the order of their ranks,
    /// and add their sums up through each other's shared memory. No workspace.
    ClusterK,
    /// The last tiles of D, which are too few for all multiprocessors, are *shared*: as many blocks as there are
    /// multiprocessors take equal parts of all their slices of k, tile after tile, wherever that cuts a tile in two. After
    /// those blocks come the other tiles, one for each block ([`crate::shares`]). All blocks lie along x.
    ///
    /// A block that ends in the midst of a tile stores its sums to the workspace, `BM x BN` of them for each of its
    /// [groups](GemmKernel::DEPTH_GROUPS), and gives a signal, one for each of them too. The block that has the end of the tile adds them to its own sums, those of
    /// the smallest k first. All that sum over a part of k do so as [`Tiles`](Schedule::Tiles) does. So the bits depend on
    /// `BK`, the number of blocks that share and what they share, and on nothing else; where nothing is shared they are those of
    /// `Tiles`.
    StreamK,
}

/// What a kernel needs of a device beyond room for its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Nothing.
    #[default]
    Nothing,
    /// Tensor cores that multiply f16, bf16 and TF32 ([`cuda_std::mma`]): compute capability 8.0 and later.
    TensorCores,
    /// Tensor cores that multiply f64 ([`cuda_std::mma::double`]): compute capability 8.0 and later. Not all are fast.
    DoubleTensorCores,
    /// The same, and [clusters](cuda_std::cluster) of blocks: compute capability 9.0, for which alone kernels are compiled that have them.
    DoubleTensorCoresInClusters,
    /// Warpgroups that hand registers over to others ([`cuda_std::registers`]): compute capability 9.0.
    RegisterTransfers,
    /// Instructions of whole warpgroups ([`cuda_std::wgmma`]), and bulk copies to feed them: compute capability 9.0.
    WarpgroupProducts,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Needs::Nothing => "nothing",
            Needs::TensorCores => "tensor cores for f16, bf16 and TF32 (compute capability 8.0)",
            Needs::DoubleTensorCores => "tensor cores for f64 (compute capability 8.0)",
            Needs::DoubleTensorCoresInClusters => {
                "tensor cores for f64, and clusters of blocks (compute capability 9.0)"
            }
            Needs::RegisterTransfers => {
                "warpgroups that hand registers over (compute capability 9.0)"
            }
            Needs::WarpgroupProducts => {
                "matrix instructions of warpgroups (compute capability 9.0)"
            }
        })
    }
}

impl Needs {
    /// Whether a device of this compute capability has it.
    pub const fn met_by(self, (major, minor): (u32, u32)) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::TensorCores | Needs::DoubleTensorCores => major >= 8,
            Needs::DoubleTensorCoresInClusters
            | Needs::RegisterTransfers
            | Needs::WarpgroupProducts => major == 9 && minor == 0,
        }
    }
}

/// A kernel with all its constants chosen: element types, tile sizes, and the layouts of A and B.
///
/// # Contract
/// `run` computes `D = epilogue(A * B)` for any `m`, `n` and `k` including zero. It must be launched with
/// [`threads`] threads along x, `SHARED_BYTES` bytes of dynamic shared memory, and the grid and workspace that its
/// [`Schedule`] asks for, which also says in which order it sums. Unless that says otherwise there is one block along x for each
/// `BM x BN` tile of D, `blocks(m, n)` in all: block `i` owns the tile that [`crate::tile::block_tile`] gives. Of a batch
/// there is one product for each block along y; the entry that [`gemm_kernels!`](crate::gemm_kernels) makes passes `run`
/// the parameters of its own product, so that a kernel need not know of batches. Products are added up as `SUMMATION` says.
pub trait GemmKernel {
    /// Element type of A and B.
    type Element: Element;
    /// Element type of D, and of what the epilogue reads.
    type Target: Element<Acc = <Self::Element as Element>::Acc>;
    /// Element type of the factors of the product, as a value: `Element` unless they are split into [halves](mod@crate::split) of it, or rounded to it.
    const DTYPE: Dtype = <Self::Element as Element>::DTYPE;
    /// The idea this kernel stands for.
    const RUNG: Rung;
    /// How A and B lie in memory.
    const LAYOUTS: Layouts = Layouts::NN;
    /// How they are stored: where that differs, a launch before the kernel [transposes](crate::transposed) them.
    const STORED: Layouts = Self::LAYOUTS;
    /// In which order it adds up products.
    const SUMMATION: Summation = Summation::Ascending;
    /// Its tile sizes.
    const TILE: Tile;
    /// How its blocks share the sums.
    const SCHEDULE: Schedule = Schedule::Tiles;
    /// Whether blocks end in the epilogue by themselves where [`Schedule::SplitK`] has one slice, and no reducer is launched. Blocks see
    /// that it is so by the workspace, of which there is none then.
    const FINISHES: bool = false;
    /// Groups of threads that each own all of a block's tile, and share the values of k of its slices: [`crate::sliced_k`].
    const DEPTH_GROUPS: u32 = 1;
    /// Threads of a block that own no part of its tile, but bring the slices of A and B for those that do: its last ones.
    const PRODUCERS: u32 = 0;
    /// Blocks of a cluster, which walk over D together ([`crate::parts`]) or share K ([`Schedule::ClusterK`]).
    const CLUSTER: u32 = 1;
    /// What it needs of a device.
    const NEEDS: Needs = Needs::Nothing;
    /// The boxes in which it copies A, B and D, if it makes bulk copies: [`crate::maps`]. The row of the table must say so, too.
    const BOXES: Option<Boxes> = None;
    /// Bytes of dynamic shared memory a block needs.
    const SHARED_BYTES: u32;
    /// Whether `run` itself [waits](cuda_std::early_start) for earlier launches, after what it can do before; else that has been done.
    const WAITS: bool = false;

    /// Runs one thread.
    ///
    /// # Safety
    /// Launched as the contract says; the matrices of `params` are valid for their shapes, and D overlaps neither A
    /// nor B.
    unsafe fn run<E: Epilogue<Self::Target>>(params: GemmParams<Self::Element, E, Self::Target>);
}

/// Threads of a kernel's block: those that multiply, and the producers.
pub const fn threads<K: GemmKernel>() -> u32 {
    consumers::<K>() + K::PRODUCERS
}

/// Threads of a kernel's block that multiply: one a thread tile in each of the groups that share the depth.
pub const fn consumers<K: GemmKernel>() -> u32 {
    K::TILE.threads() * K::DEPTH_GROUPS
}

/// Threads of a kernel's block that bring the slices of A and B: the producers where there are some, else all.
pub const fn copiers<K: GemmKernel>() -> u32 {
    if K::PRODUCERS > 0 { K::PRODUCERS } else { consumers::<K>() }
}

/// The type of a kernel's sums: the accumulator of its element type.
pub type Acc<K> = <<K as GemmKernel>::Element as Element>::Acc;

/// The kernel of a second launch, which adds up what a kernel of [`Schedule::SplitK`] has left in the workspace:
/// [`crate::reduce`].
#[derive(Clone, Copy, Debug)]
pub struct Reducer {
    /// Name of the PTX entry, unique.
    pub name: &'static str,
    /// Element type of D.
    pub dtype: Dtype,
    /// How it is launched.
    #[cfg(not(target_arch = "nvptx64"))]
    pub entry: cuda_std::entry::KernelEntry,
}

/// A kernel of the table, as a value: what the host needs to choose, launch and report it.
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// Its name, unique. That of its PTX entry is the same, unless it [shares](crate::gemm_kernels) one with another kernel.
    pub name: &'static str,
    /// The idea it stands for.
    pub rung: Rung,
    /// Element type of A and B.
    pub dtype: Dtype,
    /// Element type of D, C and the bias.
    pub target: Dtype,
    /// How A and B are stored.
    pub layouts: Layouts,
    /// How they lie in memory when it multiplies them: in the same way, unless a launch before it [transposes](crate::transposed) them.
    pub multiplied: Layouts,
    /// In which order it adds up products.
    pub summation: Summation,
    /// Its tile sizes.
    pub tile: Tile,
    /// Bytes of dynamic shared memory a block needs.
    pub shared_bytes: u32,
    /// How its blocks share the sums.
    pub schedule: Schedule,
    /// Whether no reducer is launched where K is one slice.
    pub finishes: bool,
    /// Groups of threads that each own all of a block's tile.
    pub depth_groups: u32,
    /// Threads of a block that own no part of its tile.
    pub producers: u32,
    /// Blocks of a cluster: the launch's blocks along x are a multiple of that.
    pub cluster: u32,
    /// What it needs of a device.
    pub needs: Needs,
    /// The boxes of its bulk copies, if it makes some: what the launch makes maps for.
    pub boxes: Option<Boxes>,
    /// What is launched after it: where the schedule is [`Schedule::SplitK`].
    pub reducer: Option<Reducer>,
    /// How it is launched.
    #[cfg(not(target_arch = "nvptx64"))]
    pub entry: cuda_std::entry::KernelEntry,
}

impl KernelInfo {
    /// In how many [halves](mod@crate::split) it takes each element of the factors, which a launch before it makes of them: two, one alone, or none
    /// where it takes the factors as they are.
    pub const fn halves(&self) -> u32 {
        match self.summation {
            Summation::Halves => 2,
            Summation::Rounded => 1,
            _ => 0,
        }
    }

    /// Whether it takes factors in halves.
    pub const fn takes_halves(&self) -> bool {
        self.halves() > 0
    }

    /// Whether A, and B, is transposed by a launch before it.
    pub fn transposes(&self) -> [bool; 2] {
        let (stored, multiplied) = (self.layouts, self.multiplied);
        [stored.a != multiplied.a, stored.b != multiplied.b]
    }

    /// Whether its blocks can share tiles, and hand their sums over to each other.
    pub const fn shares_tiles(&self) -> bool {
        matches!(self.schedule, Schedule::StreamK | Schedule::Persistent)
    }

    /// Threads in a block.
    pub const fn threads(&self) -> u32 {
        self.tile.threads() * self.depth_groups + self.producers
    }

    /// Tiles of an `m x n` matrix D, or all blocks where each is that of a [cluster](Schedule::ClusterK): the blocks of a launch, all along
    /// x, unless the schedule says otherwise; of each product, in a batch. Those that clusters take are counted together, those outside of
    /// D among them.
    pub const fn blocks(&self, m: u32, n: u32) -> u64 {
        if matches!(self.schedule, Schedule::ClusterK) {
            return m.div_ceil(self.tile.bm) as u64
                * n.div_ceil(self.tile.bn) as u64
                * self.cluster as u64;
        }
        let rows = m.div_ceil(self.tile.bm).next_multiple_of(self.cluster);
        rows as u64 * n.div_ceil(self.tile.bn) as u64
    }
}
