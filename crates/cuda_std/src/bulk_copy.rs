//! Bulk copies of boxes of tensors between global and shared memory by the tensor memory accelerator (TMA; PTX ISA,
//! "Data Movement and Conversion Instructions: Tensor copy", `cp.async.bulk.tensor`).
//!
//! One thread asks for a whole box and goes on. Where the tensor lies, how it is strided, how large a box is and how
//! its rows are [swizzled](crate::swizzle) stands in a [`TensorMap`], which the host makes; a copy only names the box's
//! first element. What of a box lies outside of the tensor is filled with zeros by loads and left out by stores. But
//! stores write pieces of 16 bytes, also beyond the end of a row that is no multiple of that (found on an H200): the
//! simulator refuses them in such tensors.
//!
//! A load completes at an [`Mbarrier`], whose phase counts the bytes of the whole box, fill included:
//!
//! ```text
//! one thread   empty.wait(..), full.arrive_expect_tx(bytes), load_2d(.., full)
//! the others   full.wait(..), reads, empty.arrive()
//! ```
//!
//! Stores complete in groups, of the thread that issues them. Before a thread issues one, everything that the store
//! reads must have been written, then fenced by [`fence_shared`], either by the thread that wrote or by one that has
//! seen the write: bulk copies reach memory by another way than loads and stores do (PTX ISA, "Proxies").
//!
//! ```text
//! all threads  writes, fence_shared(), sync_threads()
//! one thread   store_2d(..), commit_group(), wait_group_read::<0>()
//! all threads  sync_threads(), next writes
//! ```
//!
//! On the simulator a load arrives when somebody waits for its phase, the latest moment that the rules allow; touching
//! its destination before is a fault, as is a write to what a store has not yet been waited for.
//!
//! Older targets lack these instructions: see [`AVAILABLE`].

use crate::backend;
use crate::mbarrier::Mbarrier;
use crate::memory::SharedPtr;
use crate::scalar::Scalar;

/// Whether the target has bulk copies: sm_90 and later, compiled to PTX ISA 8.0 or later, as rustc does for `sm_90a`.
/// Where it has not, kernels that use them compile all the same, and all functions of this module end the launch
/// (`trap`).
pub const AVAILABLE: bool = backend::BULK_COPIES;

/// What the address of a box in shared memory must be a multiple of, in bytes, where its rows are not swizzled.
pub const BOX_ALIGNMENT: u32 = 128;

/// A tensor in global memory and the shape of its boxes: 128 bytes that only who made them understands, the driver
/// (`CUtensorMap`) or the simulator (`Simulator::tensor_map`).
///
/// A kernel takes it as a parameter that stays where the launch put it: `#[grid_constant] map: &TensorMap`.
#[cfg_attr(target_arch = "nvptx64", repr(C))]
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Opaque.
    pub opaque: [u64; TensorMap::WORDS],
}

impl TensorMap {
    /// Length of a map.
    pub const WORDS: usize = 16;

    /// Its generic address.
    #[inline(always)]
    fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }
}

/// Brings a map near, so that the first copy that uses it need not wait for it (`prefetch.tensormap`).
///
/// # Safety
/// The map must be one that a copy could use: a parameter of the launch or in global memory, and no copy of it on the
/// stack. What the host leaves zero where nothing is copied is none.
#[inline(always)]
#[track_caller]
pub unsafe fn prefetch(map: &TensorMap) {
    // SAFETY: as promised by the caller.
    unsafe { backend::bulk_prefetch_map(map.address()) }
}

/// Begins to copy the box of a matrix whose first element is `(row, column) = (at[1], at[0])` to `target`; the phase
/// under way of `full` is told as its bytes arrive. `at` may lie outside of the matrix, on any side, but `at[0]`
/// elements must be a multiple of 16 bytes (an H200 takes others for an illegal instruction).
///
/// # Safety
/// The map must be of a live matrix of two dimensions that nobody writes until the phase is over, and that nothing but
/// bulk stores has written in the same launch: there is no fence here that shows bulk copies what loads and stores have
/// done to global memory, and the simulator does not find that. `target` must be
/// aligned to [`BOX_ALIGNMENT`], or where the box is swizzled to the bytes after which its pattern repeats, with room
/// for a box that nobody accesses until they have waited for the phase; what threads wrote there before must have been
/// [fenced](fence_shared). `full` must have been initialised, [made visible](crate::mbarrier::fence_init), and be told
/// to expect the box's bytes in the same phase.
#[inline(always)]
#[track_caller]
pub unsafe fn load_2d<T: Scalar>(
    target: SharedPtr<T>,
    map: &TensorMap,
    at: [i32; 2],
    full: Mbarrier,
) {
    let [x, y] = at;
    // SAFETY: as promised by the caller.
    unsafe { backend::bulk_load_2d(target.address(), map.address(), x, y, full.address()) }
}

/// As [`load_2d`], from matrix `at[2]` of a batch: a tensor of three dimensions. A matrix that is not there is zero.
///
/// # Safety
/// As for [`load_2d`], with a map of three dimensions.
#[inline(always)]
#[track_caller]
pub unsafe fn load_3d<T: Scalar>(
    target: SharedPtr<T>,
    map: &TensorMap,
    at: [i32; 3],
    full: Mbarrier,
) {
    let [x, y, z] = at;
    // SAFETY: as promised by the caller.
    unsafe { backend::bulk_load_3d(target.address(), map.address(), x, y, z, full.address()) }
}

/// As [`load_3d`], to the same place in shared memory of every block of the [cluster](crate::cluster) whose bit, by
/// rank, is set in `blocks`. Each of them gets the whole box, which is fetched once, and `full` there is told of its
/// bytes.
///
/// # Safety
/// As for [`load_3d`], in each of those blocks; none of them ends before somebody there has waited for the phase.
#[inline(always)]
#[track_caller]
pub unsafe fn load_3d_multicast<T: Scalar>(
    target: SharedPtr<T>,
    map: &TensorMap,
    at: [i32; 3],
    full: Mbarrier,
    blocks: u16,
) {
    let ([x, y, z], map) = (at, map.address());
    let (target, full) = (target.address(), full.address());
    // SAFETY: as promised by the caller.
    unsafe { backend::bulk_load_3d_multicast(target, map, x, y, z, full, blocks) }
}

/// Begins to copy a box from `source` to the place in the matrix whose first element is `(row, column) = (at[1],
/// at[0])`; what lies outside of the matrix is left out.
///
/// # Safety
/// The map must be of a live matrix of two dimensions whose box nobody accesses until this thread has waited for its
/// group. `source` and `at` must be aligned as for [`load_2d`]; `source` must hold a box whose writes have been
/// [fenced](fence_shared), and not be written until this thread has waited for the group, at least with
/// [`wait_group_read`], which it must before it exits.
#[inline(always)]
#[track_caller]
pub unsafe fn store_2d<T: Scalar>(map: &TensorMap, at: [i32; 2], source: SharedPtr<T>) {
    let [x, y] = at;
    // SAFETY: as promised by the caller.
    unsafe { backend::bulk_store_2d(map.address(), x, y, source.address()) }
}

/// As [`store_2d`], to matrix `at[2]` of a batch: a tensor of three dimensions.
///
/// # Safety
/// As for [`store_2d`], with a map of three dimensions.
#[inline(always)]
#[track_caller]
pub unsafe fn store_3d<T: Scalar>(map: &TensorMap, at: [i32; 3], source: SharedPtr<T>) {
    // SAFETY: as promised by the caller.
    unsafe { store_3d_if(true, map, at, source) }
}

/// As [`store_3d`] where `predicate` holds, without a branch: for what one lane does at the end of a loop. Where that
/// is a branch ptxas does not find that lanes are together when the loop begins again, and keeps in registers of each
/// lane what else lies in uniform ones, such as the operands of [`wgmma`](crate::wgmma).
///
/// # Safety
/// As for [`store_3d`] where `predicate` holds.
#[inline(always)]
#[track_caller]
pub unsafe fn store_3d_if<T: Scalar>(
    predicate: bool,
    map: &TensorMap,
    at: [i32; 3],
    source: SharedPtr<T>,
) {
    let [x, y, z] = at;
    // SAFETY: as promised by the caller.
    unsafe {
        backend::bulk_store_3d_if(predicate.into(), map.address(), x, y, z, source.address());
    }
}

/// Closes the stores that this thread has issued since its last group into a new group, which may be empty
/// (`cp.async.bulk.commit_group`).
#[inline(always)]
#[track_caller]
pub fn commit_group() {
    // SAFETY: touches nothing.
    unsafe { backend::bulk_commit_group() }
}

/// Waits until at most the `N` newest groups of this thread are still under way (`cp.async.bulk.wait_group`). What has
/// been stored is visible to this thread.
#[inline(always)]
#[track_caller]
pub fn wait_group<const N: usize>() {
    // SAFETY: touches nothing.
    unsafe { backend::bulk_wait_group::<N>() }
}

/// Waits until at most the `N` newest groups of this thread have still to read shared memory, which may then be written
/// again (`cp.async.bulk.wait_group.read`).
#[inline(always)]
#[track_caller]
pub fn wait_group_read<const N: usize>() {
    // SAFETY: touches nothing.
    unsafe { backend::bulk_wait_group_read::<N>() }
}

/// Lets later bulk copies see all writes to shared memory that this thread has made or seen
/// (`fence.proxy.async.shared::cta`).
#[inline(always)]
#[track_caller]
pub fn fence_shared() {
    // SAFETY: a fence touches nothing.
    unsafe { backend::fence_proxy_async_shared() }
}
