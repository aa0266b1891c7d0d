//! Barriers in shared memory.

use core::arch::{asm, nvptx};

/// Whether the target has mbarriers. Waiting for a parity needs PTX ISA 7.1, which rustc writes for sm_86 and later;
/// for sm_80 it must be asked to.
pub const MBARRIERS: bool =
    cfg!(any(target_feature = "sm_86", all(target_feature = "sm_80", target_feature = "ptx71")));

/// The instructions of an mbarrier, or the end of the launch where the target has none. The condition is a constant, so
/// only one of the two is left.
macro_rules! mbarrier {
    ($($(#[$doc:meta])* $name:ident($($operand:ident),*) => $($asm:literal),*);* $(;)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name($($operand: u32),*) {
            // SAFETY: as promised by the caller; a trap has no operands.
            unsafe {
                if MBARRIERS {
                    asm!($($asm),*, $($operand = in(reg32) $operand),*, options(nostack))
                } else {
                    nvptx::trap()
                }
            }
        }
    )*};
}

mbarrier! {
    /// Section 9.7.13.15.9.
    mbarrier_init(address, arrivals) => "mbarrier.init.shared.b64 [{address}], {arrivals};";
    /// Section 9.7.13.15.13. The state of the phase is not used, since all waits are for parities.
    mbarrier_arrive(address) =>
        "{{", ".reg .b64 state;", "mbarrier.arrive.shared.b64 state, [{address}];", "}}";
    /// The same where a condition holds, in one block.
    mbarrier_arrive_if(holds, address) =>
        "{{", ".reg .b64 state;", ".reg .pred p;", "setp.ne.u32 p, {holds}, 0;", "@p mbarrier.arrive.shared.b64 state, [{address}];", "}}";
    /// Section 9.7.13.15.15. Without `.noinc` it would not count as one of the arrivals that the phase expects.
    mbarrier_arrive_on_copies(address) => "cp.async.mbarrier.arrive.noinc.shared.b64 [{address}];";
}

/// Whether the phases of an mbarrier count the bytes of bulk copies: sm_90 in PTX ISA 8.0.
const MBARRIER_TRANSACTIONS: bool = super::BULK_COPIES;

/// Arrives, and adds to the bytes that the phase expects (section 9.7.13.15.13).
#[inline(always)]
pub unsafe fn mbarrier_arrive_expect_tx(address: u32, bytes: u32) {
    // SAFETY: as promised by the caller; a trap has no operands.
    unsafe {
        if MBARRIER_TRANSACTIONS {
            asm!("{{", ".reg .b64 state;", "mbarrier.arrive.expect_tx.shared.b64 state, [{a}], {b};", "}}",
                a = in(reg32) address, b = in(reg32) bytes, options(nostack))
        } else {
            nvptx::trap()
        }
    }
}

/// One look at whether the phase of a parity is over (section 9.7.13.15.16): `try_wait` may suspend the thread for a
/// while.
macro_rules! mbarrier_test {
    ($instruction:literal, $address:ident, $parity:ident) => {{
        let over: u32;
        asm!("{{", ".reg .pred p;", concat!($instruction, " p, [{a}], {q};"), "selp.b32 {r}, 1, 0, p;", "}}",
            r = out(reg32) over, a = in(reg32) $address, q = in(reg32) $parity, options(nostack));
        over
    }};
}

#[inline(always)]
pub unsafe fn mbarrier_wait(address: u32, parity: u32) {
    // SAFETY: as promised by the caller; a trap has no operands.
    unsafe {
        if !MBARRIERS {
            nvptx::trap()
        }
        while 0
            == if cfg!(target_feature = "sm_90") {
                mbarrier_test!("mbarrier.try_wait.parity.shared.b64", address, parity)
            } else {
                mbarrier_test!("mbarrier.test_wait.parity.shared.b64", address, parity)
            }
        {}
    }
}
