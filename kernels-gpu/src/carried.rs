//! Copies of slices from global to shared memory through registers, for factors that are transposed on the way.
//!
//! An asynchronous copy that transposes moves one element, and those of a warp, which come from eight columns of four rows, take
//! four passes through shared memory. Here a thread loads 16 bytes of a row of the factor and stores its elements one by one: a
//! quarter of the loads, and every store of a warp takes one pass. The price are the registers that the loads need while they are
//! under way, and a thread that waits for them. Producers ([`crate::warp_specialised`]) have both.

use crate::copies::{Slice, Source};
use crate::element::Element;
use crate::mover::vector_len;
use cuda_std::memory::SharedPtr;
use cuda_std::unroll;

/// Vectors of a row that neighbouring threads load: the elements of two, four rows apart in the slice, and of the 16 columns that
/// the lanes of a warp have beside, go to different banks where rows of the slice are a multiple of all banks and a vector apart.
const TOGETHER: usize = 2;

/// Loads that a thread has under way.
const UNDER_WAY: usize = 8;

/// Copies by hand of a factor whose stored rows are columns of the slices.
pub(crate) struct Carried<'a, T, S>(pub &'a Source<T, S>);

impl<T: Element<Acc = T>, S: Slice> Carried<'_, T, S> {
    /// Elements in a vector.
    const VECTOR: usize = vector_len::<T>();
    /// Rows of the slice that the threads load at a time.
    const ROWS: usize = Self::VECTOR * TOGETHER;
    /// Columns of the slice that the threads load at a time.
    const COLS: usize = S::THREADS / TOGETHER;
    /// Loads along the depth of the slice.
    const LOADS_DEEP: usize = S::DEPTH / Self::ROWS;
    /// Loads of a thread for a slice.
    const LOADS: usize = S::WIDTH / Self::COLS * Self::LOADS_DEEP;

    /// Rounds of loads of a thread for a slice.
    pub const ROUNDS: usize = Self::LOADS.div_ceil(UNDER_WAY);

    /// Whether every stored row consists of whole, aligned vectors. The same for all threads.
    #[inline(always)]
    pub fn is_possible(&self) -> bool {
        let vector = Self::VECTOR as u32;
        self.0.matrix.has_vectors(vector) && self.0.depth.is_multiple_of(vector)
    }

    /// Brings the slice that begins at `k`, this thread's share of it. Elements outside the matrix become zero where it is
    /// `checked`; elsewhere the slice lies inside.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy(&self, thread: u32, checked: bool, k: u32, target: SharedPtr<T>) {
        const {
            assert!(S::DEPTH.is_multiple_of(Self::ROWS) && S::WIDTH.is_multiple_of(Self::COLS));
            assert!(Self::LOADS.is_multiple_of(UNDER_WAY), "whole rounds of loads");
            assert!(UNDER_WAY.is_multiple_of(Self::LOADS_DEEP), "rounds begin with a new column");
        }
        let thread = thread as usize;
        let (row, col) = (thread % TOGETHER * Self::VECTOR, thread / TOGETHER);
        for round in 0..Self::LOADS / UNDER_WAY {
            let col = col + round * (UNDER_WAY / Self::LOADS_DEEP) * Self::COLS;
            let (at, across) = (k + row as u32, col as u32);
            let source = self.0.matrix.at(self.0.first + across, at);
            // Written out, as registers cannot be indexed; rows beyond those under way are never used.
            let mut values = [[T::ZERO; MAX_VECTOR]; MAX_UNROLLED];
            // SAFETY: as promised by the caller of `Copier::bring`; vectors are aligned where `is_possible` holds.
            unsafe {
                unroll!(i < UNDER_WAY, {
                    let right = i / Self::LOADS_DEEP * Self::COLS;
                    let down = i % Self::LOADS_DEEP * Self::ROWS;
                    let inside = !checked || self.0.holds(at + down as u32, across + right as u32);
                    let source = source.add(right as u64 * self.0.matrix.ld + down as u64);
                    source.load_slice_if(inside, &mut values[i][..Self::VECTOR]);
                });
                unroll!(i < UNDER_WAY, {
                    let right = i / Self::LOADS_DEEP * Self::COLS;
                    let down = i % Self::LOADS_DEEP * Self::ROWS;
                    for e in 0..Self::VECTOR {
                        let element = (row + down + e) * S::STRIDE + col + right;
                        target.add(element as u32).store(values[i][e]);
                    }
                });
            }
        }
    }
}

/// Most elements in a vector, of the types that are their own accumulators.
const MAX_VECTOR: usize = vector_len::<f32>();

/// Most rounds of `unroll!`, which checks the index of all that it could write out.
const MAX_UNROLLED: usize = 32;
