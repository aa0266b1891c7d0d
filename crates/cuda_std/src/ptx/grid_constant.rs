//! Parameters of a kernel that stay where the launch put them.

/// Whether a parameter has a generic address: sm_70 in PTX ISA 7.7, which rustc writes for sm_90 and later; for others
/// it must be asked to.
pub const PARAMETER_ADDRESSES: bool = cfg!(any(target_feature = "sm_90", target_feature = "ptx77"));

/// The generic address of a parameter of the kernel that expands this; the launch ends where the target has none. For
/// [`#[kernel]`](crate::kernel), which knows how the compiler names parameters.
///
/// "Data Movement and Conversion Instructions: cvta".
#[doc(hidden)]
#[macro_export]
macro_rules! __parameter_address {
    ($parameter:literal) => {{
        let address: u64;
        // SAFETY: takes the address of a parameter; a trap has no operands and nothing comes after it.
        unsafe {
            if $crate::backend::PARAMETER_ADDRESSES {
                ::core::arch::asm!(
                    "{{", ".reg .b64 parameter;", concat!("mov.b64 parameter, ", $parameter, ";"),
                    "cvta.param.u64 {address}, parameter;", "}}",
                    address = out(reg64) address, options(pure, nomem, nostack)
                )
            } else {
                $crate::backend::end_launch()
            }
        }
        address
    }};
}

/// Ends the launch.
#[inline(always)]
pub fn end_launch() -> ! {
    // SAFETY: a trap has no operands, and no thread goes on after it.
    unsafe { core::arch::nvptx::trap() }
}
