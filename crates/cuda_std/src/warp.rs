//! What the 32 threads of a warp can do together.

use crate::backend;

/// Threads in a warp.
pub const WARP_SIZE: u32 = 32;

/// All lanes of a warp, as the mask of a warp-collective operation.
pub const FULL_MASK: u32 = u32::MAX;

/// Index of the thread in its warp, `0..32` (`%laneid`).
#[inline(always)]
pub fn lane_id() -> u32 {
    backend::lane_id()
}

/// A value that can travel between lanes.
///
/// # Safety
/// It has 32 bits, any of which are a value.
pub unsafe trait Lane: Copy {}

// SAFETY: 32 bits each.
unsafe impl Lane for u32 {}
// SAFETY: as above.
unsafe impl Lane for i32 {}
// SAFETY: as above.
unsafe impl Lane for f32 {}

/// A value and its bits. A conversion by functions would be too much for rustc to write a shuffle out where it is
/// called, and LLVM might copy the call, of which it does not know that lanes meet there.
union Bits<T: Lane> {
    value: T,
    bits: u32,
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($operand:ident) => $backend:ident),* $(,)?) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Every lane named in `mask` must execute the same shuffle, and the source lane must be among them.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Lane>(mask: u32, value: T, $operand: u32) -> T {
            // SAFETY: the caller promises that the lanes of `mask` arrive together; bits are values.
            unsafe { Bits { bits: backend::$backend(mask, Bits { value }.bits, $operand) }.value }
        }
    )*};
}

shuffles! {
    /// The `value` of the lane whose index differs by the bits of `lane_mask` (`shfl.sync.bfly`).
    shuffle_xor(lane_mask) => shuffle_bfly,
    /// The `value` of the lane `delta` above; the top `delta` lanes keep their own (`shfl.sync.down`).
    shuffle_down(delta) => shuffle_down,
    /// The `value` of the lane `delta` below; the bottom `delta` lanes keep their own (`shfl.sync.up`).
    shuffle_up(delta) => shuffle_up,
    /// The `value` of lane `lane % 32` (`shfl.sync.idx`).
    shuffle(lane) => shuffle_idx,
}

/// Waits for the lanes named in `mask`; memory they wrote before is visible to them after (`bar.warp.sync`).
///
/// # Safety
/// Every lane named in `mask` must reach the same barrier.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller promises that the lanes of `mask` arrive together.
    unsafe { backend::sync_warp(mask) }
}

/// True in one lane of `mask`, the same every time (`elect.sync`; before sm_90 the first lane). Orders no memory.
///
/// The compiler knows then that a single lane goes on, as it does not of a comparison with the lane's index.
///
/// # Safety
/// Every lane named in `mask` must execute the same election.
#[inline(always)]
#[track_caller]
pub unsafe fn elect(mask: u32) -> bool {
    // SAFETY: the caller promises that the lanes of `mask` arrive together.
    unsafe { backend::elect(mask) }
}
