//! Loads and stores of a thread.

use crate::sim;
use std::panic::Location;

macro_rules! state_space {
    (
        address = $address:ty,
        $load:ident, $load_if:ident, $store:ident, $store_if:ident
    ) => {
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $load<V: Copy>(address: $address) -> V {
            // SAFETY: `V` is an array of scalars, as all callers promise.
            unsafe { sim::$load(address, true, Location::caller()) }
        }

        #[inline(always)]
        #[track_caller]
        pub unsafe fn $load_if<V: Copy>(address: $address, predicate: bool) -> V {
            // SAFETY: as above.
            unsafe { sim::$load(address, predicate, Location::caller()) }
        }

        #[inline(always)]
        #[track_caller]
        pub unsafe fn $store<V: Copy>(address: $address, value: V) {
            // SAFETY: as above.
            unsafe { sim::$store(address, value, true, Location::caller()) }
        }

        #[inline(always)]
        #[track_caller]
        pub unsafe fn $store_if<V: Copy>(address: $address, value: V, predicate: bool) {
            // SAFETY: as above.
            unsafe { sim::$store(address, value, predicate, Location::caller()) }
        }
    };
}

state_space!(address = u64, global_load, global_load_if, global_store, global_store_if);
state_space!(address = u32, shared_load, shared_load_if, shared_store, shared_store_if);
