//! A kernel's description as a value, for the host: what [`GemmKernel`](super::GemmKernel) says as constants.

use super::{Needs, Rung, Schedule, ShortSide, Summation, Tile};
use crate::element::Dtype;
use crate::layout::{Layout, Layouts};
use crate::maps::Boxes;
use cuda_std::wgmma::M;

/// The kernel of a second launch, which adds up what a kernel of [`Schedule::SplitK`] has left in the workspace:
/// [`crate::schedule::reduce`].
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

/// The reducer of a row, as it is: one where K is split and none otherwise, which takes the row's parameters.
///
/// # Panics
/// Where it is not so, which makes the table a compile-time error: without one nobody would write D, and one for
/// another epilogue would read its parameters from what they are not.
#[cfg(not(target_arch = "nvptx64"))]
pub const fn checked_reducer<K: super::GemmKernel, E: crate::epilogue::Epilogue<K::Target>>(
    reducer: Option<Reducer>,
) -> Option<Reducer> {
    use crate::params::GemmParams;
    use cuda_std::entry::Parameter;
    let splits = matches!(K::SCHEDULE, Schedule::SplitK);
    match &reducer {
        None => assert!(!splits, "a kernel that splits K has a reducer"),
        Some(reducer) => {
            assert!(splits, "a kernel that does not split K has no reducer");
            let expected = Parameter::of::<GemmParams<K::Target, E>>();
            let found = &reducer.entry.parameters[0];
            assert!(
                found.size == expected.size && found.align == expected.align,
                "a reducer takes the parameters of its kernel's epilogue"
            );
        }
    }
    reducer
}

/// A kernel of the table, as a value: what the host needs to choose, launch and report it.
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// Its name, unique. That of its PTX entry is the same, unless it [shares](crate::gemm_kernels) one with another
    /// kernel.
    pub name: &'static str,
    /// The idea it stands for.
    pub rung: Rung,
    /// Element type of A and B.
    pub dtype: Dtype,
    /// Element type of D, C and the bias.
    pub target: Dtype,
    /// How A and B are stored.
    pub layouts: Layouts,
    /// How they lie in memory when it multiplies them: in the same way, unless a launch before it
    /// [transposes](crate::prepare::transposed) them.
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
    /// Whether its blocks can [keep pace](crate::warpgroup::pace).
    pub keeps_pace: bool,
    /// Whether it [swaps A and B](crate::swapped), and the launch passes the transposed product.
    pub swapped: bool,
    /// Whether its tiles may have [fewer columns](crate::warpgroup::fit) than `tile` says, or rows where A and B are
    /// swapped.
    pub fits: bool,
    /// Whether its blocks can go through all products of a batch.
    pub walks_batches: bool,
    /// Groups of threads that each own all of a block's tile.
    pub depth_groups: u32,
    /// See [`SHORT_SIDE`](super::GemmKernel::SHORT_SIDE).
    pub short_side: Option<ShortSide>,
    /// Groups of threads that each own all of one of the block's tiles, and take turns.
    pub turns: u32,
    /// Threads of a block that own no part of its tile.
    pub producers: u32,
    /// Blocks of a cluster: the launch's blocks along x are a multiple of that.
    pub cluster: u32,
    /// Blocks of a cluster whose tiles lie beside each other; those of the others lie below.
    pub cluster_cols: u32,
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
    /// In how many [halves](mod@crate::prepare::split) it takes each element of the factors, which a launch before it
    /// makes of them: two, one alone, or none where it takes the factors as they are.
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
            && !self.fits
            && self.turns == 1
    }

    /// Whether its tiles are those of [warpgroups](crate::warpgroup) for a D of few rows: all of them in one tile.
    pub const fn is_for_few_rows(&self) -> bool {
        matches!(self.rung, Rung::Warpgroup) && self.tile.bm <= M as u32
    }

    /// Rows and columns of the matrix that its blocks walk over, of an `m x n` matrix D: those of the transpose where
    /// it [swaps A and B](crate::swapped).
    pub const fn walked(&self, m: u32, n: u32) -> (u32, u32) {
        if self.swapped { (n, m) } else { (m, n) }
    }

    /// How wide its tiles are, in the matrix that its blocks [walk over](Self::walked).
    pub const fn width(&self) -> u32 {
        self.walked(self.tile.bm, self.tile.bn).1
    }

    /// Whether the factor across the width of its tiles is stored by rows along k, of which any may be a tile's first.
    pub fn has_width_along_k(&self) -> bool {
        match self.swapped {
            true => self.multiplied.a == Layout::RowMajor,
            false => self.multiplied.b == Layout::Transposed,
        }
    }

    /// Blocks of a cluster that lie one above the other in the matrix that its blocks [walk over](Self::walked): they
    /// share the factor across the width of their tiles.
    pub const fn sharing_width(&self) -> u32 {
        let (above, beside) = (self.cluster / self.cluster_cols, self.cluster_cols);
        self.walked(above, beside).0
    }

    /// The kernel with tiles as wide as that.
    #[must_use]
    pub const fn with_width(mut self, width: u32) -> Self {
        if self.swapped {
            self.tile.bm = width;
        } else {
            self.tile.bn = width;
        }
        self
    }

    /// Threads in a block.
    pub const fn threads(&self) -> u32 {
        self.tile.threads() * self.depth_groups * self.turns + self.producers
    }

    /// Rows of the tiles of a cluster, in the matrix that its blocks [walk over](Self::walked).
    pub const fn rows_together(&self) -> u32 {
        let (above, beside) = (self.cluster / self.cluster_cols, self.cluster_cols);
        self.walked(above * self.tile.bm, beside * self.tile.bn).0
    }

    /// Tiles of an `m x n` matrix D, or all blocks where each is that of a [cluster](Schedule::ClusterK): the blocks of
    /// a launch, all along x, unless the schedule says otherwise; of each product, in a batch. Those that clusters take
    /// are counted together, those outside of D among them.
    pub const fn blocks(&self, m: u32, n: u32) -> u64 {
        if matches!(self.schedule, Schedule::ClusterK) {
            return m.div_ceil(self.tile.bm) as u64
                * n.div_ceil(self.tile.bn) as u64
                * self.cluster as u64;
        }
        let rows = m.div_ceil(self.tile.bm).next_multiple_of(self.cluster / self.cluster_cols);
        let cols = n.div_ceil(self.tile.bn).next_multiple_of(self.cluster_cols);
        rows as u64 * cols as u64
    }
}
