//! The way of a warp's sums to D through shared memory.
//!
//! [`ThreadTile::store`] keeps one copy of the epilogue's code busy by moving all sums up after each vector, which for
//! 128 sums takes ten times as many moves. Shared memory can be indexed: here the lanes write all sums to the place of
//! their warp's part of the tile, and read it back row by row. One copy of the epilogue's code works on a few rows
//! after a few others, and a warp stores whole rows of its part.
//!
//! Where groups of threads have shared the depth of the slices ([`crate::ladder::sliced_k`]), each writes its sums of
//! the whole tile to a place of its own. When all have, each reads its share of the rows back, from all places, adds up
//! what it reads, and stores that.
//!
//! A sum is written alone ([`crate::schedule::hand_over`] says why), and lanes that have rows in different places write
//! the elements of a vector in different orders: first, second, third and fourth, or second, third, fourth and first,
//! and so on. So the 32 lanes write to 32 banks. A row that is read is turned back.
//!
//! Sums that are only scaled need no copies of a long epilogue, and so can leave this way out:
//! [`ThreadTile::store_scaled`].

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{Acc, GemmKernel};
use crate::params::GemmParams;
use crate::slices::ring::WARP;
use crate::slices::shared_bytes;
use crate::thread_tile::{Arrangement, ThreadTile, depth_group, store_vectors, thread_of_tile};
use crate::tile::Origin;
use cuda_std::memory::SharedPtr;
use cuda_std::{device_inline, hint, unroll, warp};

/// Elements in the vectors that lanes write in turn: those of 16 bytes.
const VECTOR: usize = 4;

/// Rows of which a thread stores a vector each at a time: one can be computed while another waits.
const TOGETHER: usize = 4;

impl<K: GemmKernel, const TM: usize, const TN: usize, P: Arrangement<K>> ThreadTile<K, TM, TN, P> {
    /// Rows and columns of a warp's part of the tile.
    const PART: (usize, usize) = (TM * P::GROUP.0, TN * P::GROUP.1);
    /// Elements of the tile.
    const TILE_LEN: u32 = K::TILE.bm * K::TILE.bn;

    /// Puts the sums through the epilogue and stores what lies in D, by way of `BM x BN` elements of shared memory, for
    /// each group of threads that has sums of the tile, from `scratch` on, which is aligned to 16 bytes. `meet` waits
    /// for all these threads.
    ///
    /// # Safety
    /// All threads that have sums get here together. D and the epilogue's operands are valid for the shapes in
    /// `params`; the shared memory is not used for anything else from then on.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_rows<E: Epilogue<K::Element>>(
        &self,
        params: &GemmParams<K::Element, E>,
        origin: Origin,
        scratch: SharedPtr<Acc<K>>,
        meet: impl Fn(),
    ) {
        const {
            assert!(P::GROUP.0 * P::GROUP.1 == WARP as usize, "a warp has a part of its own");
            assert!(
                Self::COL_VECTOR == VECTOR && P::GROUP.0 == VECTOR,
                "as many turns as rows of lanes"
            );
            let bytes = K::TILE.bm * K::TILE.bn * size_of::<Acc<K>>() as u32;
            assert!(
                bytes * K::DEPTH_GROUPS <= shared_bytes::<K>(),
                "the stages have room for the tile of every group"
            );
            assert!(Self::ROW_VECTOR == TOGETHER, "rows that are stored together are turned alike");
        }
        let (rows, cols) = Self::PART;
        let thread = thread_of_tile::<K>() as usize;
        let (part, lane) = (thread / WARP as usize, thread % WARP as usize);
        let group = depth_group::<K>();
        let scratch = scratch.add((part * rows * cols) as u32);
        let lane_row = lane / P::GROUP.1;
        let own = lane_row * Self::ROW_VECTOR * cols + lane % P::GROUP.1 * VECTOR;
        let own = scratch.add(group * Self::TILE_LEN + own as u32);
        // SAFETY: as promised by the caller; the lanes of a warp write and read their own part.
        unsafe {
            unroll!(i < TM, {
                let row = i / Self::ROW_VECTOR * Self::ROW_STEP + i % Self::ROW_VECTOR;
                for j in 0..TN {
                    let turned = (j + lane_row) % VECTOR;
                    let vector = row * cols + j / VECTOR * Self::COL_STEP;
                    own.add((vector + turned) as u32).store(self.sums[i][j]);
                }
            });
            if K::DEPTH_GROUPS > 1 {
                meet();
            } else {
                warp::sync_warp(warp::FULL_MASK);
            }

            let first_row = origin.row + (part / Self::GROUPS_N * rows) as u32;
            let first_col = origin.col + (part % Self::GROUPS_N * cols) as u32;
            let wide = Self::wide(params);
            // Vectors, one below the other, that a thread stores together, of which the lanes of all groups take one
            // after another.
            let of_row = (cols / VECTOR) as u32;
            let stacks = (rows / TOGETHER) as u32 * of_row;
            let lanes = K::DEPTH_GROUPS * WARP;
            // One copy of the epilogue's code for all of them.
            for round in 0..hint::opaque(stacks.div_ceil(lanes)) {
                let stack = round * lanes + group * WARP + lane as u32;
                let (r, vector) = (stack / of_row * TOGETHER as u32, stack % of_row);
                let (row, col) = (first_row + r, first_col + vector * VECTOR as u32);
                let is_one = stacks.is_multiple_of(lanes) || stack < stacks;
                if is_one && row < params.m && col < params.n {
                    let turns = r as usize / Self::ROW_VECTOR % P::GROUP.0;
                    let at = r as usize * cols + vector as usize * VECTOR;
                    let row_of = |i| {
                        let sums = Self::sum_of_groups(scratch, at + i * cols);
                        turned_back(sums, turns)
                    };
                    let mut sums: [_; TOGETHER] = [row_of(0), row_of(1), row_of(2), row_of(3)];
                    store_vectors(params, row, col, &mut sums, wide);
                }
            }
        }
    }

    /// The sums of all groups for a vector of the tile.
    ///
    /// # Safety
    /// All groups have written theirs.
    #[device_inline]
    #[track_caller]
    unsafe fn sum_of_groups(scratch: SharedPtr<Acc<K>>, at: usize) -> [Acc<K>; VECTOR] {
        let mut sums = [Acc::<K>::ZERO; VECTOR];
        // SAFETY: as promised by the caller.
        unsafe {
            scratch.add(at as u32).load_slice_if(true, &mut sums);
            for other in 1..K::DEPTH_GROUPS {
                let mut others = [Acc::<K>::ZERO; VECTOR];
                let at = other * Self::TILE_LEN + at as u32;
                scratch.add(at).load_slice_if(true, &mut others);
                for e in 0..VECTOR {
                    sums[e] = Acc::<K>::fma(Acc::<K>::ONE, others[e], sums[e]);
                }
            }
        }
        sums
    }
}

impl<K: GemmKernel, const TM: usize, const TN: usize, P: Arrangement<K>> ThreadTile<K, TM, TN, P> {
    /// Stores the sums that lie in D straight from registers, multiplied with a factor: the products are in registers
    /// of their own, so that the vectors which they are stored in leave the sums where they are.
    ///
    /// # Safety
    /// D is valid for its shape, and its rows start at multiples of a vector and have a multiple of its length.
    #[device_inline]
    #[track_caller]
    pub unsafe fn store_scaled<E>(
        &self,
        params: &GemmParams<K::Element, E>,
        origin: Origin,
        alpha: Acc<K>,
    ) {
        unroll!(i < TM, {
            let row = self.row_of_d(origin, i);
            for j in 0..TN / VECTOR {
                let col = self.col_of_d(origin, j);
                let mut scaled = [K::Element::ZERO; VECTOR];
                for e in 0..VECTOR {
                    let sum = self.sums[i][j * VECTOR + e];
                    scaled[e] = K::Element::narrow(Acc::<K>::fma(alpha, sum, Acc::<K>::ZERO));
                }
                let inside = row < params.m && col < params.n;
                // SAFETY: as promised by the caller; all of a vector lies in D where its first element does.
                unsafe { params.d.at(row, col).store_slice_if(inside, &scaled) };
            }
        });
    }
}

/// A vector whose elements have been moved up by so many places, in its own order again.
#[device_inline]
fn turned_back<A: Copy>(turned: [A; VECTOR], turns: usize) -> [A; VECTOR] {
    let mut vector = turned;
    for e in 0..VECTOR {
        for t in 1..VECTOR {
            if turns == t {
                vector[e] = turned[(e + t) % VECTOR];
            }
        }
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_undone() {
        for turns in 0..VECTOR {
            let mut turned = [0; VECTOR];
            for e in 0..VECTOR {
                turned[(e + turns) % VECTOR] = e;
            }
            assert_eq!(turned_back(turned, turns), [0, 1, 2, 3]);
        }
    }
}
