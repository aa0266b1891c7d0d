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

/// A 32-bit value that can travel between lanes.
pub trait Lane: Copy {
    /// The value as bits.
    fn to_bits(self) -> u32;
    /// The value of some bits.
    fn from_bits(bits: u32) -> Self;
}

impl Lane for u32 {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits
    }
}

impl Lane for i32 {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits as i32
    }
}

impl Lane for f32 {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        f32::to_bits(self)
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
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
            // SAFETY: the caller promises that the lanes of `mask` arrive together.
            T::from_bits(unsafe { backend::$backend(mask, value.to_bits(), $operand) })
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
