//! Hints to the compiler, which change nothing but the code it makes.

use crate::backend;

/// The same value, about which the compiler knows nothing, each time anew (`mov.b32`).
///
/// As the bound of a loop it keeps the loop, where one that is written out completely would cost more in registers and
/// instructions to fetch than it saves in branches. In a loop it keeps what is computed of it there, where values kept over
/// the whole loop would cost more registers than computing them again costs time.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    backend::opaque(value)
}

/// The same value, of whose parts the compiler knows nothing (`mov.b64`).
///
/// A sum that is the base of many addresses stays one value, where the compiler would otherwise keep its parts in registers
/// and add them in another order for each address.
#[inline(always)]
pub fn whole(value: u64) -> u64 {
    backend::whole(value)
}
