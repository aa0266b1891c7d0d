//! Sums of double precision that one block [hands over](crate::schedule::hand_over) to another.

use super::DoubleTile;
use crate::double::panels::FragmentReader;
use crate::double::sums::PAIR;
use crate::kernel::{GemmKernel, consumers};
use crate::schedule::hand_over::HandOver;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, thread};

impl<
    K: GemmKernel<Element = f64>,
    const TM: usize,
    const TN: usize,
    A: FragmentReader,
    B: FragmentReader,
> DoubleTile<K, TM, TN, A, B>
{
    /// Leaves the sums in the workspace and says so. `barrier` is one of all threads that multiply.
    ///
    /// # Safety
    /// All those threads get here together; the workspace has room for the block's sums, and nobody else writes there.
    #[device_inline]
    #[track_caller]
    pub unsafe fn leave(&self, to: &HandOver<K>, barrier: impl Fn()) {
        // SAFETY: as promised by the caller; all threads have stored their sums when the signal is given.
        unsafe {
            self.for_each_pair_of::<0>(|i, sums| pair(to, i).store_vec(sums));
            self.for_each_pair_of::<1>(|i, sums| pair(to, TM * TN / 4 + i).store_vec(sums));
            to.say(barrier);
        }
    }

    /// Adds the sums that another block has left or will leave, and takes back its signal.
    ///
    /// # Safety
    /// As for [`leave`](Self::leave); that block has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub unsafe fn collect(&mut self, from: &HandOver<K>, barrier: impl Fn()) {
        // SAFETY: as promised by the caller; when the signal has been seen the sums are there.
        unsafe {
            from.hear(barrier);
            self.add_pairs(|i| pair(from, i).load_vec());
        }
    }
}

/// Where the `index`-th pair of this thread lies among those of all that multiply.
#[device_inline]
fn pair<K: GemmKernel<Element = f64>>(of: &HandOver<K>, index: usize) -> GlobalPtr<f64> {
    let pair = index as u32 * consumers::<K>() + thread::thread_idx_x();
    of.sums.add(u64::from(pair) * PAIR as u64)
}
