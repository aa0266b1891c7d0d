//! Sums of warpgroups that one block [hands over](crate::schedule::hand_over) to another.

use super::WarpgroupTile;
use crate::element::Element;
use crate::kernel::{GemmKernel, consumers};
use crate::schedule::hand_over::HandOver;
use crate::swapped::Operands;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, thread, unroll};

/// Sums of a lane that are stored and loaded together: 16 bytes. Warpgroups' registers follow one another anyway.
pub const VECTOR: usize = 4;

/// Vectors whose loads are under way at a time.
const VECTORS_TOGETHER: usize = 8;

impl<const N: usize, const BM: usize, O: Operands> WarpgroupTile<N, BM, O> {
    /// Leaves the sums in the workspace and says so. `barrier` is one of all threads that multiply.
    ///
    /// # Safety
    /// All those threads get here together, all products have been waited for; the workspace has room for the block's
    /// sums, and nobody else writes there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave<K: GemmKernel<Element: Element<Acc = f32>>>(
        &self,
        to: &HandOver<K>,
        barrier: impl Fn(),
    ) {
        // SAFETY: as promised by the caller; all threads have stored their sums when the signal is given.
        unsafe {
            self.for_each_vector(|i, sums| vector(to, i).store_vec(sums));
            to.say(barrier);
        }
    }

    /// Adds the sums that another block has left or will leave, and takes back its signal.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave); that block has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub unsafe fn collect<K: GemmKernel<Element: Element<Acc = f32>>>(
        &mut self,
        from: &HandOver<K>,
        barrier: impl Fn(),
    ) {
        // SAFETY: as promised by the caller; when the signal has been seen the sums are there.
        unsafe {
            from.hear(barrier);
            self.add_vectors(|i| vector(from, i).load_vec());
        }
    }

    /// Gives each vector of a thread's sums to `take`, with its number.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn for_each_vector(&self, take: impl Fn(usize, [f32; VECTOR])) {
        macro_rules! take {
            ($($first:literal)*) => {$(
                unroll!(i < 32, {
                    const NUMBER: usize = $first + i;
                    if const { NUMBER < Self::SUMS / VECTOR } {
                        // SAFETY: as promised by the caller.
                        let sums = unsafe {
                            [
                                self.get::<{ NUMBER * VECTOR }>(),
                                self.get::<{ NUMBER * VECTOR + 1 }>(),
                                self.get::<{ NUMBER * VECTOR + 2 }>(),
                                self.get::<{ NUMBER * VECTOR + 3 }>(),
                            ]
                        };
                        take(NUMBER, sums);
                    }
                });
            )*};
        }
        take!(0 32);
    }

    /// [`VECTORS_TOGETHER`](self::VECTORS_TOGETHER), unless there are fewer.
    const VECTORS_TOGETHER: usize = {
        let vectors = Self::SUMS / VECTOR;
        if vectors < VECTORS_TOGETHER { vectors } else { VECTORS_TOGETHER }
    };

    /// Adds to each vector of a thread's sums what `load` gives for its number; several are loaded at a time.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn add_vectors(&mut self, load: impl Fn(usize) -> [f32; VECTOR]) {
        // Registers have names and no indices.
        macro_rules! add {
            ($batch:literal, $others:ident: $($i:literal)*) => {$(
                if const { $i < Self::VECTORS_TOGETHER } {
                    let [x, y, z, w] = $others[$i];
                    // SAFETY: as promised by the caller.
                    unsafe {
                        self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR }>(x);
                        self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR + 1 }>(y);
                        self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR + 2 }>(z);
                        self.add::<{ ($batch * VECTORS_TOGETHER + $i) * VECTOR + 3 }>(w);
                    }
                }
            )*};
        }
        macro_rules! batches {
            ($($batch:literal)*) => {$(
                if const { $batch * VECTORS_TOGETHER < Self::SUMS / VECTOR } {
                    let mut others = [[0.0; VECTOR]; VECTORS_TOGETHER];
                    for (i, others) in others[..Self::VECTORS_TOGETHER].iter_mut().enumerate() {
                        *others = load($batch * VECTORS_TOGETHER + i);
                    }
                    add!($batch, others: 0 1 2 3 4 5 6 7);
                }
            )*};
        }
        batches!(0 1 2 3 4);
    }
}

/// Where the `index`-th vector of this thread lies among those of all that multiply.
#[device_inline]
fn vector<K: GemmKernel<Element: Element<Acc = f32>>>(
    of: &HandOver<K>,
    index: usize,
) -> GlobalPtr<f32> {
    let vector = index as u32 * consumers::<K>() + thread::thread_idx_x();
    of.sums.add(u64::from(vector) * VECTOR as u64)
}
