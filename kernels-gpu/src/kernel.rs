//! The contract between a kernel and everything around it: one trait, and its description as a value.
//!
//! | file | what it holds |
//! |---|---|
//! | `rung.rs` | [`Rung`]: the idea a kernel stands for |
//! | `schedule.rs` | [`Schedule`] and [`Summation`]: who sums what, and in which order |
//! | `needs.rs` | [`Needs`]: what it needs of a device |
//! | `info.rs` | [`KernelInfo`]: a kernel of the table as a value, and [`Reducer`] |

mod info;
mod needs;
mod rung;
mod schedule;

#[cfg(not(target_arch = "nvptx64"))]
pub use info::checked_reducer;
pub use info::{KernelInfo, Reducer};
pub use needs::Needs;
pub use rung::Rung;
pub use schedule::{Schedule, Summation};

use crate::element::{Dtype, Element};
use crate::epilogue::Epilogue;
use crate::layout::Layouts;
use crate::maps::Boxes;
use crate::params::GemmParams;

/// Sizes of a kernel's tiles, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of D that a block owns.
    pub bm: u32,
    /// Columns of D that a block owns.
    pub bn: u32,
    /// Depth of the slices of A and B that a block holds in shared memory. Where it holds none, values of k that a
    /// thread goes through at a time: 1 in the kernels of the [table](crate::table).
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

/// Of which D has few: rows or columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortSide {
    /// D has few rows.
    Rows,
    /// D has few columns.
    Cols,
}

/// A kernel with all its constants chosen: element types, tile sizes, and the layouts of A and B.
///
/// # Contract
///
/// `run` computes `D = epilogue(A * B)` for any `m`, `n` and `k` including zero. It must be launched with [`threads`]
/// threads along x, with `SHARED_BYTES` bytes of dynamic shared memory, and with the grid and workspace that its
/// [`Schedule`] asks for. Unless the schedule says otherwise there is one block along x for each `BM x BN` tile of D,
/// `blocks(m, n)` in all, in the order of [`crate::tile::block_tile`] or [`crate::tile::grouped_block_tile`]. In a
/// batch blocks with index `i` along y compute product `i`; the entry that [`gemm_kernels!`](crate::gemm_kernels) makes
/// passes `run` the parameters of that product, so that a kernel need not know of batches, unless it [goes through
/// several products](Self::WALKS_BATCHES). The schedule and `SUMMATION` together say in which order products are added
/// up.
pub trait GemmKernel {
    /// Element type of A and B.
    type Element: Element;
    /// Element type of D, and of what the epilogue reads.
    type Target: Element<Acc = <Self::Element as Element>::Acc>;
    /// Element type of the factors of the product, as a value: `Element` unless they are split into
    /// [halves](mod@crate::prepare::split) of it, or rounded to it.
    const DTYPE: Dtype = <Self::Element as Element>::DTYPE;
    /// The idea this kernel stands for.
    const RUNG: Rung;
    /// How A and B lie in memory.
    const LAYOUTS: Layouts = Layouts::NN;
    /// How they are stored: where that differs, a launch before the kernel [transposes](crate::prepare::transposed)
    /// them.
    const STORED: Layouts = Self::LAYOUTS;
    /// In which order it adds up products.
    const SUMMATION: Summation = Summation::Ascending;
    /// Its tile sizes.
    const TILE: Tile;
    /// How its blocks share the sums.
    const SCHEDULE: Schedule = Schedule::Tiles;
    /// Whether blocks end in the epilogue by themselves where [`Schedule::SplitK`] has one slice, and no reducer is
    /// launched. Blocks see that it is so by the workspace, of which there is none then.
    const FINISHES: bool = false;
    /// Groups of threads that each own all of a block's tile, and share the values of k of its slices:
    /// [`crate::ladder::sliced_k`].
    const DEPTH_GROUPS: u32 = 1;
    /// The side of D that is to fit into one tile, if there is such a side: [`crate::ladder::skinny`].
    const SHORT_SIDE: Option<ShortSide> = None;
    /// Groups of threads that each own all of a block's tile, one of its tiles after another in turn:
    /// [`crate::warpgroup::ping_pong`].
    const TURNS: u32 = 1;
    /// Threads of a block that own no part of its tile, but bring the slices of A and B for those that do: its last
    /// ones.
    const PRODUCERS: u32 = 0;
    /// Blocks of a cluster, which walk over D together ([`crate::schedule::parts`]) or share K
    /// ([`Schedule::ClusterK`]).
    const CLUSTER: u32 = 1;
    /// How many of those that walk together lie beside each other; so many rows of them lie one above the other.
    const CLUSTER_COLS: u32 = 1;
    /// What it needs of a device.
    const NEEDS: Needs = Needs::Nothing;
    /// The boxes in which it copies A, B and D, if it makes bulk copies: [`crate::maps`]. The row of the table must say
    /// so, too.
    const BOXES: Option<Boxes> = None;
    /// Bytes of dynamic shared memory a block needs.
    const SHARED_BYTES: u32;
    /// Whether `run` itself [waits](cuda_std::early_start) for earlier launches, after what it can do before; else that
    /// has been done.
    const WAITS: bool = false;
    /// Whether its blocks can [keep pace](crate::warpgroup::pace).
    const KEEPS_PACE: bool = false;
    /// Whether it [swaps A and B](crate::swapped): `TILE` and `BOXES` are then those of the transposed product, whose
    /// parameters the launch passes.
    const SWAPPED: bool = false;
    /// Whether its tiles may have fewer columns than `TILE` says: as many as the [launch](crate::warpgroup::fit) does.
    const FITS: bool = false;
    /// Whether blocks that stay can go through all products of a batch, as
    /// [`Maps::of_products`](crate::maps::Maps::of_products) says: else each computes tiles of one.
    const WALKS_BATCHES: bool = false;

    /// Runs one thread.
    ///
    /// # Safety
    /// Launched as the contract says; the matrices of `params` are valid for their shapes, and D overlaps neither A
    /// nor B.
    unsafe fn run<E: Epilogue<Self::Target>>(params: GemmParams<Self::Element, E, Self::Target>);
}

/// The constants of a kernel that is `$inner` with something done before or after it: all that say how it is launched.
/// A new one belongs here, or such kernels would be launched with its default.
macro_rules! launched_as {
    ($inner:ty) => {
        const RUNG: $crate::kernel::Rung = <$inner>::RUNG;
        const LAYOUTS: $crate::layout::Layouts = <$inner>::LAYOUTS;
        const TILE: $crate::kernel::Tile = <$inner>::TILE;
        const SCHEDULE: $crate::kernel::Schedule = <$inner>::SCHEDULE;
        const FINISHES: bool = <$inner>::FINISHES;
        const DEPTH_GROUPS: u32 = <$inner>::DEPTH_GROUPS;
        const SHORT_SIDE: Option<$crate::kernel::ShortSide> = <$inner>::SHORT_SIDE;
        const TURNS: u32 = <$inner>::TURNS;
        const PRODUCERS: u32 = <$inner>::PRODUCERS;
        const CLUSTER: u32 = <$inner>::CLUSTER;
        const CLUSTER_COLS: u32 = <$inner>::CLUSTER_COLS;
        const NEEDS: $crate::kernel::Needs = <$inner>::NEEDS;
        const BOXES: Option<$crate::maps::Boxes> = <$inner>::BOXES;
        const SHARED_BYTES: u32 = <$inner>::SHARED_BYTES;
        const WAITS: bool = <$inner>::WAITS;
        const KEEPS_PACE: bool = <$inner>::KEEPS_PACE;
        const SWAPPED: bool = <$inner>::SWAPPED;
        const FITS: bool = <$inner>::FITS;
        const WALKS_BATCHES: bool = <$inner>::WALKS_BATCHES;
    };
}
pub(crate) use launched_as;

/// The tiles of a cluster whose blocks walk together, as one.
pub const fn together<K: GemmKernel>() -> Tile {
    let above = K::CLUSTER / K::CLUSTER_COLS;
    Tile { bm: above * K::TILE.bm, bn: K::CLUSTER_COLS * K::TILE.bn, ..K::TILE }
}

/// Threads of a kernel's block: those that multiply, and the producers.
pub const fn threads<K: GemmKernel>() -> u32 {
    consumers::<K>() + K::PRODUCERS
}

/// Threads of a kernel's block that multiply: one a thread tile in each of the groups that share the depth, or take
/// turns.
pub const fn consumers<K: GemmKernel>() -> u32 {
    K::TILE.threads() * K::DEPTH_GROUPS * K::TURNS
}

/// Threads of a kernel's block that bring the slices of A and B: the producers where there are some, else all.
pub const fn copiers<K: GemmKernel>() -> u32 {
    if K::PRODUCERS > 0 { K::PRODUCERS } else { consumers::<K>() }
}

/// The type of a kernel's sums: the accumulator of its element type.
pub type Acc<K> = <<K as GemmKernel>::Element as Element>::Acc;
