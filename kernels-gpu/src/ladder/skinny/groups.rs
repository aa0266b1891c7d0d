//! The threads of a [skinny](super) product's block: groups that share K, each of which owns all of the block's tile.
//! What they have summed meets in shared memory.

use super::factors::{Side, layouts_of_factors};
use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{Acc, GemmKernel};
use crate::layout::Layout;
use crate::params::GemmParams;
use crate::schedule::partials::SliceOfK;
use crate::slices::mover::vector_len;
use crate::tile::block_tile;
use core::marker::PhantomData;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, shared, thread, unroll};
use half::f16;

/// Elements of 2 bytes, the shortest, in a vector: most places of a thread, and most values of k that it multiplies
/// together.
pub const MOST_IN_VECTOR: usize = vector_len::<f16>();

/// What a thread has to do.
#[derive(Clone, Copy)]
pub struct Part {
    /// The first place of the block's tile along the short axis of D.
    pub short: u32,
    /// The first place of the block's tile along the long axis of D.
    pub long: u32,
    /// The thread's first place along the short axis of the tile.
    pub down: usize,
    /// The thread's first place along the long axis of the tile.
    pub right: usize,
    /// The group that the thread belongs to: which vector of values of k it has of each slice.
    pub group: usize,
}

/// The groups of the kernel `K`, for D with the short axis `S`.
pub struct Groups<K, S>(PhantomData<(K, S)>);

impl<K: GemmKernel, S: Side> Groups<K, S> {
    /// Places of a tile along the short axis of D.
    pub const SHORT: usize = Self::sides(K::TILE.bm, K::TILE.bn).0;

    /// Places of a tile along the long axis of D.
    pub const LONG: usize = Self::sides(K::TILE.bm, K::TILE.bn).1;

    /// Places of a thread along both axes.
    const OF_THREAD: (usize, usize) = Self::sides(K::TILE.tm, K::TILE.tn);

    /// Groups of a block.
    const COUNT: usize = K::DEPTH_GROUPS as usize;

    /// Threads of a group, and how many of them lie along the long axis.
    const THREADS: usize = K::TILE.threads() as usize;
    const BESIDE: usize = Self::LONG / Self::OF_THREAD.1;

    /// What lies along the short and the long axis, of rows and columns of D.
    const fn sides(rows: u32, cols: u32) -> (usize, usize) {
        if S::TRANSPOSED { (cols as usize, rows as usize) } else { (rows as usize, cols as usize) }
    }

    /// Whether a tile has fewer columns than a vector of sums.
    const NARROW: bool = S::TRANSPOSED && Self::SHORT < vector_len::<Acc<K>>();

    /// Whether elements of the large factor lie together along the long axis.
    pub const ALONG: bool =
        matches!(layouts_of_factors(K::LAYOUTS, S::TRANSPOSED).b, Layout::RowMajor);

    /// Sums from one place to the next in shared memory: those of all groups, and one more, so that neither threads of
    /// one group nor of all groups meet in a bank.
    const STRIDE: usize = Self::COUNT + 1;

    /// Bytes of shared memory in which sums meet.
    pub const SHARED_BYTES: u32 =
        (Self::SHORT * Self::LONG * Self::STRIDE * size_of::<Acc<K>>()) as u32;

    /// The running thread's part.
    ///
    /// Neighbouring threads follow each other as elements of the large factor do: along the long axis, or along k.
    #[device_inline]
    pub fn part<E>(p: &GemmParams<K::Element, E, K::Target>) -> Part {
        let origin = block_tile(&K::TILE, p.n);
        let (short, long) =
            if S::TRANSPOSED { (origin.col, origin.row) } else { (origin.row, origin.col) };
        let thread = thread::thread_idx_x() as usize;
        let (group, place) = if Self::ALONG {
            (thread / Self::THREADS, thread % Self::THREADS)
        } else {
            (thread % Self::COUNT, thread / Self::COUNT)
        };
        let down = place / Self::BESIDE * Self::OF_THREAD.0;
        let right = place % Self::BESIDE * Self::OF_THREAD.1;
        Part { short, long, down, right, group }
    }

    /// Adds up what all groups have summed over a slice of K. Where it is all of K the epilogue is applied to it, else
    /// it is left to the reducer.
    ///
    /// # Safety
    /// All threads of the block get here together with their sums, and shared memory is not in use. The launch keeps
    /// the kernel's contract.
    #[device_inline]
    #[track_caller]
    pub unsafe fn add_up<E: Epilogue<K::Target>, const TM: usize, const TN: usize>(
        p: &GemmParams<K::Element, E, K::Target>,
        slice: &SliceOfK<Acc<K>>,
        part: Part,
        sums: &[[Acc<K>; TN]; TM],
    ) {
        const {
            assert!(
                TM == Self::OF_THREAD.0 && TN >= Self::OF_THREAD.1,
                "a thread has sums of all its places"
            )
        };
        // The only slice is all of K, and no other launch follows that would read the workspace.
        let finish = p.workspace.partials.is_null();
        // Where one follows it adds up whole vectors: what is between the rows' ends is in the workspace, too.
        let cols = if finish { p.n } else { slice.sums.first.ld as u32 };
        let Part { short, long, down, right, group } = part;
        // SAFETY: as promised by the caller; all threads of the block meet once between writes and reads.
        unsafe {
            unroll!(i < TM, {
                for j in 0..Self::OF_THREAD.1 {
                    let place = (down + i) * Self::LONG + right + j;
                    Self::place(place, group).store(sums[i][j]);
                }
            });
            thread::sync_threads();
            // The reducer reads vectors that may reach beyond the last tile's columns.
            let beyond = Self::NARROW && !finish && short + Self::SHORT as u32 >= p.n;
            let places = if beyond {
                (cols - short) as usize * Self::LONG
            } else {
                Self::SHORT * Self::LONG
            };
            let mut index = thread::thread_idx_x() as usize;
            while index < places {
                let (short, long) =
                    (short + (index / Self::LONG) as u32, long + (index % Self::LONG) as u32);
                let (row, col) = if S::TRANSPOSED { (long, short) } else { (short, long) };
                if Self::NARROW && index >= Self::SHORT * Self::LONG {
                    if row < p.m {
                        slice.sums.at(row, col).store(Acc::<K>::ZERO);
                    }
                } else if row < p.m && col < cols {
                    let mut sum = Self::place(index, 0).load();
                    for group in 1..Self::COUNT {
                        sum = Acc::<K>::add(sum, Self::place(index, group).load());
                    }
                    if finish {
                        let value = p.epilogue.apply(sum, row, col);
                        p.d.at(row, col).store(K::Target::narrow(value));
                    } else {
                        slice.sums.at(row, col).store(sum);
                    }
                }
                index += Self::THREADS * Self::COUNT;
            }
        }
    }

    /// Where the sum of a group for a place of the tile lies in shared memory.
    #[device_inline]
    fn place(place: usize, group: usize) -> SharedPtr<Acc<K>> {
        shared::dynamic().add((place * Self::STRIDE + group) as u32)
    }
}
