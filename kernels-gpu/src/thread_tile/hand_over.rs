//! Thread tiles that one block [hands over](crate::schedule::hand_over) to another.
//!
//! Sums are stored and loaded one by one: registers that a vector is loaded to or stored from must follow one another,
//! and that would spoil their distribution among banks in the main loop (docs/measurements has a log of what that
//! costs).

use super::{Arrangement, ThreadTile};
use crate::element::Accumulator;
use crate::kernel::{Acc, GemmKernel, consumers};
use crate::schedule::hand_over::HandOver;
use cuda_std::{device_inline, thread, unroll};

/// Rows of sums whose loads are under way at a time.
const TOGETHER: usize = 4;

impl<K: GemmKernel, const TM: usize, const TN: usize, P: Arrangement<K>> ThreadTile<K, TM, TN, P> {
    /// From one of a thread's sums to the next.
    const STEP: u64 = consumers::<K>() as u64;

    /// Leaves the sums in the workspace and says so. `barrier` is one of all threads that have a part of the tile.
    ///
    /// # Safety
    /// All those threads get here together; the workspace has room for the block's sums, and nobody else writes there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave(&self, to: &HandOver<K>, barrier: impl Fn()) {
        let target = to.sums.add(thread::thread_idx_x().into());
        unroll!(i < TM, {
            for j in 0..TN {
                // SAFETY: as promised by the caller.
                unsafe { target.add((i * TN + j) as u64 * Self::STEP).store(self.sums[i][j]) };
            }
        });
        // SAFETY: as promised by the caller; all threads have stored their sums.
        unsafe { to.say(barrier) };
    }

    /// Adds the sums that another block has left or will leave, and takes back its signal.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave); that block has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub unsafe fn collect(&mut self, from: &HandOver<K>, barrier: impl Fn()) {
        // SAFETY: as promised by the caller.
        unsafe { from.hear(barrier) };
        let source = from.sums.add(thread::thread_idx_x().into());
        unroll!(batch < TM / TOGETHER, {
            let mut others = [[Acc::<K>::ZERO; TN]; TOGETHER];
            for i in 0..TOGETHER {
                for j in 0..TN {
                    let index = (batch * TOGETHER + i) * TN + j;
                    // SAFETY: the signal has been seen, so the sums are there.
                    others[i][j] = unsafe { source.add(index as u64 * Self::STEP).load() };
                }
            }
            for i in 0..TOGETHER {
                for j in 0..TN {
                    let sum = &mut self.sums[batch * TOGETHER + i][j];
                    *sum = Acc::<K>::fma(Acc::<K>::ONE, others[i][j], *sum);
                }
            }
        });
    }
}
