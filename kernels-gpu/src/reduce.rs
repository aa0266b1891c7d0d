//! The second launch of a product whose K is split: adds the sums of all slices up, and ends in the epilogue.
//!
//! A thread owns a vector of D. It reads that vector of each slice and adds them to the first in ascending order, which makes
//! the result the same every time; the loads of several slices are in flight together, because each takes far longer than the
//! addition that waits for it. Blocks are small, so that a D of few elements still keeps many multiprocessors busy.

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::mover::{VECTOR_BYTES, vector_len};
use crate::params::GemmParams;
use crate::partials::Partials;
use crate::thread_tile::store_vector;
use cuda_std::thread;

/// Threads of a block.
pub const THREADS: u32 = 64;

/// Slices whose loads are in flight together.
const TOGETHER: usize = 8;

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
/// Launched with [`THREADS`] threads along x and [`blocks`] along x, after a launch with the same parameters of a kernel whose
/// schedule is [`SplitK`](crate::kernel::Schedule::SplitK), or in place of one where `k` is zero.
#[inline(always)]
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

    let mut sums = [T::Acc::ZERO; VECTOR_BYTES / size_of::<f32>()];
    let sums = &mut sums[..len];
    // SAFETY: the slices were written by the launch before; the vector starts inside of D, and vectors are aligned where
    // `wide` holds.
    unsafe {
        first.load_slice_if(partials.slices > 0, sums);
        let mut slice = 1;
        while slice < partials.slices {
            let mut addends = [[T::Acc::ZERO; VECTOR_BYTES / size_of::<f32>()]; TOGETHER];
            for i in 0..TOGETHER {
                let inside = slice + (i as u32) < partials.slices;
                let place = first.add(u64::from(slice + i as u32) * partials.slice);
                place.load_slice_if(inside, &mut addends[i][..len]);
            }
            for i in 0..TOGETHER {
                if slice + (i as u32) < partials.slices {
                    for j in 0..len {
                        sums[j] = T::Acc::add(sums[j], addends[i][j]);
                    }
                }
            }
            slice += TOGETHER as u32;
        }
        store_vector(&p, row, col, sums, wide);
    }
}
