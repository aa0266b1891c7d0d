//! Hints to the compiler, which change nothing but the code it makes.

use crate::backend;

/// The same value, about which the compiler knows nothing, each time anew (`mov.b32`).
///
/// As the bound of a loop it keeps the loop, where one that is written out completely would cost more in registers and
/// instructions to fetch than it saves in branches. In a loop it keeps what is computed of it there, where values kept
/// over the whole loop would cost more registers than computing them again costs time.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    backend::opaque(value)
}

/// The same value, of whose parts the compiler knows nothing (`mov.b64`).
///
/// A sum that is the base of many addresses stays one value, where the compiler would otherwise keep its parts in
/// registers and add them in another order for each address.
#[inline(always)]
pub fn whole(value: u64) -> u64 {
    backend::whole(value)
}

/// The same value in another register (`mul.rn.f32` by 1, which the assembler does not take away).
///
/// Registers that a vector is stored from must follow one another. Without a copy between, values that are summed up in
/// a loop and stored as vectors behind it lie so in the loop already, where the assembler would otherwise distribute
/// them among the banks of the register file.
#[inline(always)]
pub fn copied(value: f32) -> f32 {
    backend::copied(value)
}

/// The same value, which is the same in all lanes of the warp, and of which the compiler is told so (`redux.sync.or`,
/// on sm_80 and later).
///
/// The value lives in a uniform register: a loop that it bounds counts in uniform registers, a branch on it does not
/// diverge, and neither costs registers of the lanes.
///
/// # Safety
/// All lanes of the warp come here together, with the same value. Where they do not, lanes wait for ever or get each
/// other's bits. The instruction itself does not wait for lanes that have exited; the simulator takes them for missing
/// ones (`FaultKind::DivergentBarrier`).
#[inline(always)]
#[track_caller]
pub unsafe fn uniform(value: u32) -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { backend::uniform(value) }
}

/// A loop written out by the macro itself, for loops whose index must be a constant: registers cannot be indexed, and
/// how much the compiler writes out is a matter of its taste. `unroll!(i < N, { .. })` runs the block for the constant
/// `i` from 0 to `N - 1`, where `N`, a constant of type `usize`, is at most 32.
#[macro_export]
macro_rules! unroll {
    ($i:ident < $n:expr, $body:block) => {
        $crate::unroll!(@ $i, $n, $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    (@ $i:ident, $n:expr, $body:block, $($value:literal)*) => {
        const { assert!($n <= 32, "a loop of at most 32 rounds is written out") };
        $(if const { $value < $n } {
            #[allow(non_upper_case_globals, dead_code)]
            const $i: usize = $value;
            $body
        })*
    };
}
