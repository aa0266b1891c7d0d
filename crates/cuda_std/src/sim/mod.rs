//! The SIMT simulator.

#[allow(missing_docs)]
mod contract {
    use crate::entry::KernelEntry;
    use core::ffi::c_void;

    /// A simulated GPU with its own global memory. Clones share it.
    #[derive(Clone)]
    pub struct Simulator;

    /// Shape of a launch, as for `cuLaunchKernel`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Launch {
        pub grid: [u32; 3],
        pub block: [u32; 3],
        pub dynamic_shared: u32,
    }

    /// What a launch did. Exact and repeatable.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        pub global_load_requests: u64, // warp-wide load instructions in which at least one lane took part
        pub global_load_elements: u64, // elements (not bytes) that lanes loaded; a vector of 4 counts 4
        pub global_load_bytes: u64,
        pub global_load_sectors: u64, // distinct 32-byte sectors, summed over requests
        pub global_store_requests: u64,
        pub global_store_elements: u64,
        pub global_store_bytes: u64,
        pub global_store_sectors: u64,
        pub shared_load_requests: u64,
        pub shared_load_elements: u64,
        pub shared_load_bytes: u64,
        pub shared_load_wavefronts: u64, // passes over the banks
        pub shared_load_conflicts: u64, // wavefronts beyond the fewest that the request's size needs: replays
        pub shared_store_requests: u64,
        pub shared_store_elements: u64,
        pub shared_store_bytes: u64,
        pub shared_store_wavefronts: u64,
        pub shared_store_conflicts: u64,
        pub block_barriers: u64,   // barriers completed, once a block
        pub warp_collectives: u64, // shuffles and warp barriers completed, once a warp
        pub fma: u64,              // fused multiply-adds, once a lane
        pub shared_bytes: u64,     // most static + dynamic shared memory of any block (bytes)
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Fault; // kind, kernel, block, thread, address, access, source location, message
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum SimError {
        Fault(Box<Fault>),
        InvalidLaunch(String),
        OutOfMemory { requested: u64, available: u64 },
        InvalidAddress { address: u64, bytes: u64 },
    }

    impl Simulator {
        pub fn new() -> Self {
            todo!()
        }
        pub fn with_memory(_bytes: u64) -> Self {
            todo!()
        }
        pub fn alloc(&self, _bytes: u64) -> Result<u64, SimError> {
            todo!()
        }
        pub fn free(&self, _address: u64) -> Result<(), SimError> {
            todo!()
        }
        pub fn write(&self, _address: u64, _bytes: &[u8]) -> Result<(), SimError> {
            todo!()
        }
        pub fn read(&self, _address: u64, _bytes: &mut [u8]) -> Result<(), SimError> {
            todo!()
        }
        pub fn fill(&self, _address: u64, _bytes: u64, _value: u8) -> Result<(), SimError> {
            todo!()
        }
        pub fn launch(
            &self,
            _kernel: &KernelEntry,
            _launch: Launch,
            _arguments: &[*const c_void],
        ) -> Result<Counters, SimError> {
            todo!()
        }
    }
}
pub use contract::*;
