//! What a launch did, in numbers that are exact and repeatable.

use std::iter::Sum;
use std::ops::AddAssign;

/// One field of [`Counters`] a line: documentation, name, and how two launches combine.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $combine:ident,)*) => {
        /// What a launch did. Exact and repeatable: the same launch always gives the same numbers.
        ///
        /// A *request* is one load or store instruction of a warp in which at least one lane took part. Its lanes are
        /// found by their place in the program: see the notes on counting in [the module](crate::sim).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Number of counters.
            pub const FIELDS: usize = [$(stringify!($name)),*].len();

            /// All counters by name, in the order of their declaration.
            pub fn fields(&self) -> [(&'static str, u64); Self::FIELDS] {
                [$((stringify!($name), self.$name)),*]
            }
        }

        /// Adds the work of another launch; of `shared_bytes` the larger one stays.
        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name = $combine(self.$name, other.$name);)*
            }
        }
    };
}

use std::cmp::max;
fn sum(a: u64, b: u64) -> u64 {
    a + b
}

counters! {
    /// Requests that load from global memory.
    global_load_requests: sum,
    /// Elements (not bytes) that lanes loaded from global memory: a vector of 4 counts 4.
    global_load_elements: sum,
    /// Bytes that lanes loaded from global memory.
    global_load_bytes: sum,
    /// 32-byte sectors of global memory that load requests touched: distinct within a request, summed over requests.
    global_load_sectors: sum,
    /// Requests that store to global memory.
    global_store_requests: sum,
    /// Elements that lanes stored to global memory.
    global_store_elements: sum,
    /// Bytes that lanes stored to global memory.
    global_store_bytes: sum,
    /// 32-byte sectors that store requests touched, counted as for loads.
    global_store_sectors: sum,
    /// Requests that load from shared memory.
    shared_load_requests: sum,
    /// Elements that lanes loaded from shared memory.
    shared_load_elements: sum,
    /// Bytes that lanes loaded from shared memory.
    shared_load_bytes: sum,
    /// Passes over the banks that load requests took.
    shared_load_wavefronts: sum,
    /// Wavefronts of loads beyond the fewest that the size of the request needs: bank-conflict replays.
    shared_load_conflicts: sum,
    /// Requests that store to shared memory.
    shared_store_requests: sum,
    /// Elements that lanes stored to shared memory.
    shared_store_elements: sum,
    /// Bytes that lanes stored to shared memory.
    shared_store_bytes: sum,
    /// Passes over the banks that store requests took.
    shared_store_wavefronts: sum,
    /// Wavefronts of stores beyond the fewest that the size of the request needs: bank-conflict replays.
    shared_store_conflicts: sum,
    /// Asynchronous copies to shared memory that lanes issued, zero fills among them. Each is also a load from global
    /// memory, unless it fills with zeros, and a store to shared memory.
    async_copies: sum,
    /// Bulk copies between global and shared memory that threads issued. Each is also a request of one lane that loads
    /// from global memory, or stores to it, what of its box lies in the tensor; of its way through shared memory
    /// nothing is counted.
    bulk_copies: sum,
    /// Bytes of the boxes of bulk copies, those outside of the tensor among them.
    bulk_bytes: sum,
    /// Arrivals at mbarriers, once a lane, those that follow asynchronous copies among them.
    mbarrier_arrivals: sum,
    /// Waits for phases of mbarriers, once a lane.
    mbarrier_waits: sum,
    /// Values that lanes posted for other blocks. None of them is a store to global memory besides.
    signal_posts: sum,
    /// Waits of lanes for other blocks, each once, however long it took. None of them is a load from global memory
    /// besides.
    signal_waits: sum,
    /// Block barriers completed, once a block.
    block_barriers: sum,
    /// Named barriers completed.
    named_barriers: sum,
    /// Shuffles and warp barriers completed, once for each group of lanes that took part together.
    warp_collectives: sum,
    /// Fused multiply-adds, once a lane.
    fma: sum,
    /// Multiply-adds of tensor cores. An instruction of a warp has 2,048 of halves, 1,024 of TF32 and, by its shape,
    /// 256 to 2,048 in double precision; one of a warpgroup has 1,024 for each column.
    tensor_fma: sum,
    /// Warpgroup matrix instructions, once a warpgroup. What they read of shared memory is no load of a lane, and not
    /// counted as one.
    wgmma_instructions: sum,
    /// Most static and dynamic shared memory of any block, in bytes.
    shared_bytes: max,
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |mut total, counters| {
            total += counters;
            total
        })
    }
}
