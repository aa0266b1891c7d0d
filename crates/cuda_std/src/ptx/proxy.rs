//! Order between the proxies through which memory is accessed.

use core::arch::{asm, nvptx};

/// Whether the target has an asynchronous proxy.
pub const ASYNC_PROXY: bool = cfg!(target_feature = "sm_90");

/// "Parallel Synchronization and Communication Instructions: membar / fence".
#[inline(always)]
pub unsafe fn fence_proxy_async() {
    // SAFETY: no operands.
    unsafe {
        if ASYNC_PROXY {
            asm!("fence.proxy.async.shared::cta;", options(nostack))
        } else {
            nvptx::trap()
        }
    }
}
