//! Limits of a launch: those that every GPU of compute capability 7.5 to 9.0 has (CUDA C++ Programming Guide, table
//! "Technical Specifications per Compute Capability"), with the shared memory of 9.0.

/// Threads in a warp.
pub const WARP_THREADS: u32 = crate::warp::WARP_SIZE;

/// Most threads in a block.
pub const MAX_BLOCK_THREADS: u32 = 1024;

/// Most threads in a block along x, y and z.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

/// Most blocks in a grid along x, y and z.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Most blocks of a cluster on every GPU that has them.
pub const MAX_CLUSTER: u32 = 8;

/// Most static shared memory of a block, in bytes.
pub const MAX_STATIC_SHARED: u32 = 48 << 10;

/// Most static and dynamic shared memory of a block together, in bytes.
pub const MAX_SHARED: u32 = 227 << 10;

/// Most parameters of a kernel together, in bytes.
pub const MAX_PARAMETER_BYTES: usize = 4096;
