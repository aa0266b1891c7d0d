//! The second launch of a product whose K is split: adds the sums of all slices up, and ends in the epilogue.
//!
//! A thread owns a vector of D. It reads that vector of each slice and adds them to the first in ascending order, which
//! makes the result the same every time; the loads of several slices are in flight together, because each takes far
//! longer than the addition that waits for it. Blocks are small, so that a D of few elements still keeps many
//! multiprocessors busy.

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::params::GemmParams;
use crate::schedule::partials::Partials;
use crate::slices::mover::vector_len;
use crate::thread_tile::store_vector;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, thread, unroll};

/// Threads of a block.
pub const THREADS: u32 = 64;

/// Blocks that a multiprocessor must have room for: so few that a thread may have registers for all its loads in
/// flight.
pub const MIN_BLOCKS: u32 = 8;

/// Slices whose loads are in flight together, where there are so many.
const TOGETHER: u32 = 16;

/// Sums of 4 bytes, the shortest, in a vector.
const MOST_IN_VECTOR: usize = vector_len::<f32>();

/// Blocks along x for an `m x n` matrix D; along y there is one for each product of a batch.
pub const fn blocks<T: Element>(m: u32, n: u32) -> u64 {
    vectors::<T>(m, n).div_ceil(THREADS as u64)
}

/// Vectors in a slice.
const fn vectors<T: Element>(m: u32, n: u32) -> u64 {
    m as u64 * n.div_ceil(vector_len::<T::Acc>() as u32) as u64
}

/// Runs one thread.
///
/// # Safety
/// Launched with [`THREADS`] threads along x and [`blocks`] along x, after a launch with the same parameters of a
/// kernel whose schedule is [`SplitK`](crate::kernel::Schedule::SplitK), or in place of one where `k` is zero.
#[device_inline]
pub unsafe fn reduce<T: Element, E: Epilogue<T>>(p: GemmParams<T, E>) {
    let len = const { vector_len::<T::Acc>() };
    let index =
        u64::from(thread::block_idx_x()) * u64::from(THREADS) + u64::from(thread::thread_idx_x());
    if index >= vectors::<T>(p.m, p.n) {
        return;
    }
    let across = u64::from(p.n.div_ceil(len as u32)).max(1);
    let (row, col) = ((index / across) as u32, (index % across) as u32 * len as u32);
    let partials = Partials::new::<T>(p.m, p.n, p.k, p.slice_depth.max(1));
    let product = u64::from(thread::block_idx_y()) * partials.product();
    let first = p.workspace.partials.add(product + index * len as u64);
    let wide = p.d.has_vectors(len as u32) && p.n.is_multiple_of(len as u32);

    let mut sums = [T::Acc::ZERO; MOST_IN_VECTOR];
    let sums = &mut sums[..len];
    // SAFETY: the slices were written by the launch before; the vector starts inside of D, and vectors are aligned
    // where `wide` holds.
    unsafe {
        first.load_slice_if(partials.slices > 0, sums);
        let mut slice = 1;
        while slice + TOGETHER <= partials.slices {
            add::<T, { TOGETHER as usize }>(first, partials.slice, slice, sums);
            slice += TOGETHER;
        }
        // What is left, in the fewest rounds: one for each bit of its number.
        let left = partials.slices.saturating_sub(slice);
        macro_rules! round {
            ($($count:literal)*) => {$(
                if left & $count != 0 {
                    add::<T, $count>(first, partials.slice, slice, sums);
                    slice += $count;
                }
            )*};
        }
        round!(8 4 2);
        if left & 1 != 0 {
            add::<T, 1>(first, partials.slice, slice, sums);
        }
        store_vector(&p, row, col, sums, wide);
    }
}

/// Adds the vectors of `N` slices from `slice` on, whose loads are in flight together.
#[device_inline]
unsafe fn add<T: Element, const N: usize>(
    first: GlobalPtr<T::Acc>,
    elements: u64,
    slice: u32,
    sums: &mut [T::Acc],
) {
    let mut addends = [[T::Acc::ZERO; MOST_IN_VECTOR]; N];
    let place = first.add(u64::from(slice) * elements);
    unroll!(i < N, {
        // SAFETY: as promised by the caller.
        unsafe {
            place.add(i as u64 * elements).load_slice_if(true, &mut addends[i][..sums.len()])
        };
    });
    unroll!(i < N, {
        for j in 0..sums.len() {
            sums[j] = T::Acc::add(sums[j], addends[i][j]);
        }
    });
}
