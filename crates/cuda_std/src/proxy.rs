//! Order between what threads do to shared memory themselves and what the hardware does for them in the background.
//!
//! The matrix instructions of a warpgroup and the bulk copies access shared memory through another path than loads and
//! stores, the *asynchronous proxy* (PTX ISA, "Memory Consistency Model", "Proxies"). A barrier alone does not order the
//! two: who has stored to shared memory calls [`fence_proxy_async`] after the stores and before the barrier, and whoever
//! comes after that barrier may hand the memory to an asynchronous instruction. The simulator reports who forgets it as
//! `FaultKind::MissingProxyFence`.

use crate::backend;

/// Whether the target has the asynchronous proxy: sm_90 and later. Where it has not, [`fence_proxy_async`] ends the launch
/// (`trap`).
pub const AVAILABLE: bool = backend::ASYNC_PROXY;

/// Makes what this thread has done to shared memory so far, and what it has seen of others, visible to asynchronous
/// instructions that come after (`fence.proxy.async.shared::cta`).
///
/// # Safety
/// The target must have the instruction ([`AVAILABLE`]).
#[inline(always)]
#[track_caller]
pub unsafe fn fence_proxy_async() {
    // SAFETY: as promised by the caller.
    unsafe { backend::fence_proxy_async() }
}
