//! What a kernel moves between the memories, counted and worked out, and where that places it on the roofline of a GPU.
//!
//! [`count()`] runs a kernel on the simulator, whose counters are exact. [`formula`] works the same numbers out from
//! the kernel's tile sizes alone, at once and for any size; the derivations are there. A test holds the two against
//! each other for every kernel of the table. [`roofline`] says what a GPU's memories and multiply-add units let a
//! kernel attain.
//!
//! | file | what it holds |
//! |---|---|
//! | `formula.rs` | the formulas of each rung |
//! | `request.rs` | which elements the lanes of a warp touch together, and how many sectors those lie in |
//! | `count.rs` | a run on the simulator |
//! | `roofline.rs` | bounds of a GPU, and which of them a kernel meets first |

mod count;
pub mod formula;
mod request;
pub mod roofline;

pub use count::count;

use crate::kernels::Problem;
use cuda_std::sim::Counters;
use serde::Serialize;

/// Bytes of a sector, the unit in which global memory is read and written.
pub const SECTOR_BYTES: u64 = 32;

/// Bytes that one pass over the banks of shared memory serves: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared
/// Memory").
pub const PASS_BYTES: u64 = 128;

/// Bytes that the shared memory of a multiprocessor hands out a clock, and its L1 cache, which is one unit with it: a
/// pass, and on Turing half of one (NVIDIA's white paper of GA102, "Larger and Faster L1 Cache and Shared Memory").
pub fn shared_bytes_per_clock(capability: Option<(u32, u32)>) -> u64 {
    if capability == Some((7, 5)) { PASS_BYTES / 2 } else { PASS_BYTES }
}

/// Lanes of a warp.
const WARP_LANES: u64 = 32;

/// One field of [`Traffic`] a line: documentation, name, and what it is the sum of among the simulator's counters.
macro_rules! traffic {
    ($($(#[$doc:meta])* $name:ident = $counter:ident $(+ $other:ident)?,)*) => {
        /// What one launch of a kernel moves and does.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Traffic {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Traffic {
            /// Number of quantities.
            pub const FIELDS: usize = [$(stringify!($name)),*].len();

            /// All quantities by name, in the order of their declaration.
            pub fn fields(&self) -> [(&'static str, u64); Self::FIELDS] {
                [$((stringify!($name), self.$name)),*]
            }
        }

        impl From<&Counters> for Traffic {
            fn from(counters: &Counters) -> Self {
                Traffic { $($name: counters.$counter $(+ counters.$other)?,)* }
            }
        }
    };
}

traffic! {
    /// Load instructions of warps that read global memory.
    global_load_requests = global_load_requests,
    /// Bytes that lanes receive from global memory. Lanes that read the same address receive its bytes each.
    global_load_bytes = global_load_bytes,
    /// 32-byte sectors that these requests touch, distinct within a request: what comes from beyond the multiprocessor
    /// if no cache holds it. Lanes that read the same address share a sector.
    global_load_sectors = global_load_sectors,
    /// Bytes that lanes store to global memory.
    global_store_bytes = global_store_bytes,
    /// 32-byte sectors that store requests touch.
    global_store_sectors = global_store_sectors,
    /// Bytes that lanes receive from shared memory. A broadcast counts for every lane.
    shared_load_bytes = shared_load_bytes,
    /// Bytes that lanes store to shared memory, asynchronous copies among them.
    shared_store_bytes = shared_store_bytes,
    /// Passes over the banks of shared memory, of [`PASS_BYTES`] at most: a multiprocessor does one a clock, on Turing
    /// one in two.
    shared_passes = shared_load_wavefronts + shared_store_wavefronts,
    /// Those among them that are due to bank conflicts.
    bank_conflicts = shared_load_conflicts + shared_store_conflicts,
    /// Barriers, once a block.
    block_barriers = block_barriers,
    /// Fused multiply-adds, those with zeros outside the matrices and those of the epilogue among them, and those of
    /// tensor cores.
    fma = fma + tensor_fma,
}

impl Traffic {
    /// Bytes between the multiprocessors and what lies beyond, without caches: all sectors.
    pub fn global_bytes(&self) -> u64 {
        let sectors = self.global_load_sectors.saturating_add(self.global_store_sectors);
        SECTOR_BYTES.saturating_mul(sectors)
    }

    /// Bytes that lanes receive from shared memory and store there.
    pub fn shared_bytes(&self) -> u64 {
        self.shared_load_bytes.saturating_add(self.shared_store_bytes)
    }
}

/// Floating-point operations of a product, a multiply-add being two.
pub fn operations(problem: &Problem) -> f64 {
    2.0 * f64::from(problem.m) * f64::from(problem.n) * f64::from(problem.k)
}

/// Bytes that every way to compute a product moves at least: A and B once, D once. Perfect caches would leave no more.
pub fn compulsory_bytes(problem: &Problem) -> f64 {
    let (m, n, k) = (f64::from(problem.m), f64::from(problem.n), f64::from(problem.k));
    (m * k + k * n) * problem.dtype.bytes() as f64 + m * n * problem.target.bytes() as f64
}
