//! What a kernel takes of a device.

use serde::Serialize;

/// What a kernel takes of a device, as compiled for it. Fields that only a compiler can know are none on the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KernelReport {
    /// 32-bit registers of a thread.
    pub registers: Option<u32>,
    /// Bytes of shared memory declared in the kernel, a block.
    pub static_shared_bytes: Option<u32>,
    /// Bytes of shared memory asked for at the launch, a block.
    pub dynamic_shared_bytes: u32,
    /// Bytes of local memory a thread: what did not fit into registers.
    pub local_bytes: Option<u32>,
    /// Most threads a block of this kernel can have.
    pub max_threads: Option<u32>,
    /// Blocks that are resident on a multiprocessor at a time.
    pub resident_blocks: Option<u32>,
    /// Compute capability that the PTX was written for, such as `sm_80`.
    pub arch: Option<&'static str>,
}
