//! The frame of kernels whose warps multiply on tensor cores: slices travel to shared memory in the background while
//! others are multiplied.
//!
//! ```text
//! copies     | 0 | 1 | 2 |   | 3 |   | 4 |   ..
//! products               | 0     | 1     | 2 ..
//! fragments           0         1       2
//! ```
//!
//! All threads copy, each its share, and close it in a group. One barrier a slice stands between the end of its copies
//! and their first use, and that is also the last use of the slice before: so the first fragments of a slice are read
//! before the last products of the one before it, which need what is in registers alone. These keep the tensor cores
//! busy meanwhile.

use crate::ladder::pipelined::wait_for_oldest;
use crate::slices::ring::after;
use cuda_std::async_copy::commit_group;
use cuda_std::device_inline;
use cuda_std::thread;

/// What a kernel does with its slices. A stage is counted from 0, and `k` is the first one of a slice.
pub trait SliceWork {
    /// Begins to copy this thread's share of a slice to a stage.
    ///
    /// # Safety
    /// No thread reads or writes the stage from the last barrier until this thread has waited for its copies and met
    /// the others at another barrier.
    unsafe fn copy(&self, k: u32, stage: u32);

    /// Reads the first fragments of the first slice.
    ///
    /// # Safety
    /// All lanes of the warp call it together; the stage is written, and nobody writes it before the slice has been
    /// multiplied.
    unsafe fn begin(&mut self, stage: u32);

    /// Multiplies a slice, of which the first fragments have been read. When all of its fragments have been, it calls
    /// `next` once, reads the first ones of the slice in the stage that it is given, if there is another, and then
    /// makes the last products.
    ///
    /// # Safety
    /// As for [`begin`](SliceWork::begin), and all threads of the block call it together. From the call of `next` on
    /// the same holds of the stage it gives, and of the one before no longer.
    unsafe fn multiply(&mut self, next: impl FnOnce() -> Option<u32>);
}

/// Brings and multiplies the slices of `BK` values of k that `depth` has, in so many stages.
///
/// # Safety
/// All threads of the block call it together, with the same `depth`; there is shared memory for the stages.
#[device_inline]
#[track_caller]
pub unsafe fn multiply_slices<const STAGES: u32, const BK: usize>(
    depth: u32,
    slices: &mut impl SliceWork,
) {
    let ahead = (STAGES - 1) * BK as u32;
    let (mut free, mut stage) = (0, 0);
    let (mut copied, mut k) = (0, 0);
    // SAFETY: every thread waits for its copies of a slice, and a barrier lies between that and the first use, and
    // between the last use and the next copies to the same stage. All threads of the block count to the same k, and all
    // lanes of a warp do the same.
    unsafe {
        while k < depth {
            // One place for all copies: there are many ways in which a factor may lie.
            slices.copy(copied, free);
            commit_group();
            copied += BK as u32;
            free = after::<STAGES>(free);
            if copied < ahead {
                continue;
            }
            if copied == ahead {
                wait_for_oldest::<STAGES>();
                thread::sync_threads();
                slices.begin(0);
                continue;
            }

            k += BK as u32;
            stage = after::<STAGES>(stage);
            slices.multiply(|| {
                // After the last slice there is none to wait for.
                (k < depth).then(|| {
                    wait_for_oldest::<STAGES>();
                    thread::sync_threads();
                    stage
                })
            });
        }
    }
}
