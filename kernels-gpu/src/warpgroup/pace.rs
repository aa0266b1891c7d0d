//! Blocks that keep pace with one another, so that one of them fetches slices for all.
//!
//! Tiles that are computed at the same time share rows of A and columns of B ([`crate::tile`]). In the L2 cache they
//! find these only where their blocks are at about the same values of k. [Persistent](crate::schedule::parts) blocks
//! begin together, but drift apart by a little with every tile, since nothing holds them; and once those ahead and
//! those behind are further from each other than the cache has room for, each fetches from memory for itself. At 16384
//! x 16384 x 16384 half of all slices came from there: 32 GB, of which keeping pace leaves 10, and which also take
//! power from the multipliers (bf16, H200).
//!
//! So all clusters of blocks add the slices that they ask for to one [count](cuda_std::counter), and one that is ahead
//! of the average waits a while before it asks for more:
//!
//! ```text
//! slices asked for   0    2    4    6    8
//! cluster 0          |----|----|----|.. wait
//! cluster 1          |----|--
//! cluster 2          |----|----|
//! ```
//!
//! A cluster that has waited in vain a few times waits no more: then there are others that cannot run, since the GPU
//! has other work as well. Where the factors of all tiles under way fit in the cache nobody need wait, and the host
//! says so by [`GemmParams::pace`].

use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, together};
use crate::params::GemmParams;
use crate::schedule::batches::rows;
use crate::tile::tiles;
use crate::warpgroup::fit::one_col;
use cuda_std::memory::GlobalPtr;
use cuda_std::{cluster, counter, device_inline, thread};

/// Words of the workspace that it takes, behind those of blocks that share tiles: the slices asked for, and the
/// clusters that have asked for all of theirs.
pub const WORDS: u32 = 2;

/// How many times a cluster waits in vain: for less than a millisecond in all.
const PATIENCE: u32 = 16;

/// How far the running block's cluster is.
pub struct Pace {
    /// Slices that it has asked for or will before it looks again.
    asked: u32,
    /// Of these what is still to be asked for.
    left: u32,
    /// How many times it may wait in vain from now on.
    patience: u32,
}

impl Pace {
    /// At the beginning.
    #[device_inline]
    pub fn new() -> Self {
        Pace { asked: 0, left: 0, patience: PATIENCE }
    }

    /// Before a slice is asked for: says so, and waits for those behind.
    ///
    /// # Safety
    /// One thread of the block does so, before each slice. A launch that keeps pace brings the words.
    #[device_inline]
    #[track_caller]
    pub unsafe fn step<K: GemmKernel, E>(&mut self, p: &GemmParams<K::Element, E, K::Target>) {
        if p.pace() == 0 || !counts::<K>() {
            return;
        }
        if self.left == 0 {
            self.left = p.pace();
            self.asked += p.pace();
            let asked = words::<K, E>(p);
            // SAFETY: as promised by the caller.
            unsafe {
                counter::add(asked, p.pace());
                // It may be ahead of the average by what it asks for at a time.
                if self.asked > p.pace() && self.patience > 0 {
                    let enough = (self.asked - p.pace()) * clusters::<K>();
                    self.patience -= u32::from(!counter::wait_a_while(asked, enough));
                }
            }
        }
        self.left -= 1;
    }

    /// Says that nobody need wait for this cluster any more. The last one leaves the words as they were.
    ///
    /// # Safety
    /// The same thread does so, once, after all slices.
    #[device_inline]
    #[track_caller]
    pub unsafe fn end<K: GemmKernel, E: Epilogue<K::Target>>(
        self,
        p: &GemmParams<K::Element, E, K::Target>,
    ) {
        if p.pace() == 0 || !counts::<K>() {
            return;
        }
        let tiles = if const { K::FITS } {
            tiles(&one_col::<K>(), rows::<K, _>(p), p.columns().tiles())
        } else {
            tiles(&together::<K>(), rows::<K, _>(p), p.n)
        };
        let all = p.k.div_ceil(K::TILE.bk) * tiles;
        let asked = words::<K, E>(p);
        let arrived = asked.add(1);
        // SAFETY: as promised by the caller; the last cluster to arrive is the last to use the words.
        unsafe {
            counter::add(asked, all);
            if counter::arrive(arrived) + 1 == clusters::<K>() {
                counter::clear(asked);
                counter::clear(arrived);
            }
        }
    }
}

impl Default for Pace {
    #[device_inline]
    fn default() -> Self {
        Pace::new()
    }
}

/// Whether this block counts for its cluster.
#[device_inline]
fn counts<K: GemmKernel>() -> bool {
    K::CLUSTER == 1 || cluster::rank() == 0
}

/// Clusters of the launch.
#[device_inline]
fn clusters<K: GemmKernel>() -> u32 {
    thread::grid_dim_x() / K::CLUSTER
}

/// The [words](WORDS) of a launch.
#[device_inline]
fn words<K: GemmKernel, E>(p: &GemmParams<K::Element, E, K::Target>) -> GlobalPtr<u32> {
    p.workspace.signals.add(u64::from(p.sharing_blocks) * u64::from(K::CLUSTER))
}
