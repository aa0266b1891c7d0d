//! Asynchronous copies of a thread.

#[cfg(not(target_feature = "sm_80"))]
use super::{global_load_if, shared_store};
#[cfg(target_feature = "sm_80")]
use core::arch::asm;

/// `cp.async` (section 9.7.9.25.3.1) of a number of bytes; where the predicate does not hold it reads none of them and
/// writes zeros.
#[cfg(target_feature = "sm_80")]
macro_rules! cp_async {
    ($cache:literal, $bytes:literal, $target:ident, $source:ident, $predicate:ident) => {
        asm!("{{", ".reg .pred p;", ".reg .b32 s;", "setp.ne.u32 p, {p}, 0;",
            concat!("selp.b32 s, ", $bytes, ", 0, p;"),
            concat!("cp.async.", $cache, ".shared.global [{t}], [{a}], ", $bytes, ", s;"), "}}",
            p = in(reg32) $predicate as u32, t = in(reg32) $target, a = in(reg64) $source, options(nostack))
    };
}

/// Through the L1 cache but for whole vectors, which go past it: only those can.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub unsafe fn copy_async<V: Copy>(target: u32, source: u64, predicate: bool) {
    // SAFETY: as promised by the caller; each arm moves exactly the bytes of `V`.
    unsafe {
        match size_of::<V>() {
            4 => cp_async!("ca", "4", target, source, predicate),
            8 => cp_async!("ca", "8", target, source, predicate),
            16 => cp_async!("cg", "16", target, source, predicate),
            _ => unreachable!(),
        }
    }
}

/// Sections 9.7.9.25.3.2 and 9.7.9.25.3.3.
#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn commit_group() {
    // SAFETY: no operands.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) }
}

#[cfg(target_feature = "sm_80")]
#[inline(always)]
pub fn wait_group<const N: usize>() {
    // SAFETY: no operands but a constant; the compiler keeps reads of memory after it.
    unsafe { asm!("cp.async.wait_group {};", const N, options(nostack)) }
}

/// Before sm_80: done when it returns.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub unsafe fn copy_async<V: Copy>(target: u32, source: u64, predicate: bool) {
    // SAFETY: as promised by the caller.
    unsafe { shared_store(target, global_load_if::<V>(source, predicate)) }
}

/// Nothing is under way.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn commit_group() {}

/// Nothing is under way.
#[cfg(not(target_feature = "sm_80"))]
#[inline(always)]
pub fn wait_group<const N: usize>() {}
