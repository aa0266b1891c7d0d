//! Indices of the running thread and the barrier of its block.

use crate::backend;

macro_rules! index_functions {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> u32 {
            backend::$name()
        }
    )*};
}

index_functions! {
    /// Index of the thread in its block along x (`%tid.x`).
    thread_idx_x,
    /// Index of the thread in its block along y (`%tid.y`).
    thread_idx_y,
    /// Index of the thread in its block along z (`%tid.z`).
    thread_idx_z,
    /// Index of the block in the grid along x (`%ctaid.x`).
    block_idx_x,
    /// Index of the block in the grid along y (`%ctaid.y`).
    block_idx_y,
    /// Index of the block in the grid along z (`%ctaid.z`).
    block_idx_z,
    /// Threads in a block along x (`%ntid.x`).
    block_dim_x,
    /// Threads in a block along y (`%ntid.y`).
    block_dim_y,
    /// Threads in a block along z (`%ntid.z`).
    block_dim_z,
    /// Blocks in the grid along x (`%nctaid.x`).
    grid_dim_x,
    /// Blocks in the grid along y (`%nctaid.y`).
    grid_dim_y,
    /// Blocks in the grid along z (`%nctaid.z`).
    grid_dim_z,
}

/// Ends the launch with an error (`trap`): for kernels that are of no use on the target.
#[inline(always)]
#[track_caller]
pub fn trap() -> ! {
    backend::trap()
}

/// Waits until every thread of the block has arrived; memory written before is visible after (`bar.sync 0`).
///
/// # Safety
/// All threads of the block must reach the same barrier. The simulator reports a block in which they do not.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    // SAFETY: the caller promises that the whole block gets here.
    unsafe { backend::sync_threads() }
}
