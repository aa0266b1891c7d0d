//! Sums that one block hands over to another through the workspace.
//!
//! Both have the same threads with the same parts of a tile, so it does not matter where in the workspace a sum lies,
//! as long as neighbouring threads have neighbouring words. Each kind of tile has a `leave` and a `collect` of its own,
//! in its `hand_over.rs`.

use crate::kernel::{Acc, GemmKernel};
use crate::params::Workspace;
use cuda_std::memory::GlobalPtr;
use cuda_std::{device_inline, signal, thread};

/// The value of a signal that says that the sums are there.
const READY: u32 = 1;

/// Sums of one block in the workspace, and the signal that they are there.
pub struct HandOver<K: GemmKernel> {
    /// Where the first of them lies.
    pub(crate) sums: GlobalPtr<Acc<K>>,
    signal: GlobalPtr<u32>,
}

impl<K: GemmKernel> HandOver<K> {
    /// Those of block `block`.
    #[device_inline]
    pub fn of_block(workspace: &Workspace<K::Element>, block: u32) -> Self {
        let elements = u64::from(K::TILE.bm * K::TILE.bn * K::DEPTH_GROUPS);
        HandOver {
            sums: workspace.partials.add(u64::from(block) * elements),
            signal: workspace.signals.add(u64::from(block)),
        }
    }

    /// Says that the sums are there. `barrier` is one of all threads that have a part of the tile.
    ///
    /// # Safety
    /// All those threads get here together, and have stored their sums.
    #[device_inline]
    #[track_caller]
    pub(crate) unsafe fn say(&self, barrier: impl Fn()) {
        barrier();
        // SAFETY: as promised by the caller.
        unsafe { signal::post_if(thread::thread_idx_x() == 0, self.signal, READY) };
    }

    /// Waits until the sums are there, and takes back the signal.
    ///
    /// # Safety
    /// As for [`say`](Self::say); the block that says so has a lower index, and leaves its sums for this one alone.
    #[device_inline]
    #[track_caller]
    pub(crate) unsafe fn hear(&self, barrier: impl Fn()) {
        if thread::thread_idx_x() == 0 {
            // SAFETY: as promised by the caller.
            unsafe {
                signal::wait(self.signal, READY);
                signal::clear(self.signal);
            }
        }
        barrier();
    }
}
