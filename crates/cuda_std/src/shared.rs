//! Shared memory of a block: static arrays and the dynamic part whose size is given at launch.

use crate::backend;
use crate::memory::SharedPtr;

/// Declares a static shared array and gives a [`SharedPtr`](crate::memory::SharedPtr) to its first element.
///
/// `shared_array!(T; N)` has `N` elements of the scalar type `T`, aligned to 16 bytes; `N` may be a constant of generic
/// parameters. All static arrays of a kernel together may take 48 KiB. The contents are undefined until written: the
/// simulator reports reads of elements that nobody wrote.
///
/// The macro must be expanded once per array in a kernel, outside loops, in a function that is inlined into it once:
/// each place in the source stands for one array of one length, which all threads that come there share. Not all of
/// them need to. A macro that declares two arrays must take their names from two places of who calls it: ptxas says
/// otherwise that there are two of one name.
#[macro_export]
macro_rules! shared_array {
    ($t:ty; $n:expr) => {
        $crate::memory::SharedPtr::<$t>::from_address($crate::__static_shared!(
            (size_of::<$t>() * ($n) as usize)
        ))
    };
}

/// The PTX variable lives in the body of the kernel, whose functions may be of several files: its name is made of the
/// module and the place in its file.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __static_shared {
    ($bytes:expr) => {{
        let address: u32;
        // SAFETY: declares a variable and takes its address.
        unsafe {
            core::arch::asm!(
                concat!(".shared .align 16 .b8 shared_{module}_", line!(), "_", column!(), "[{bytes}];"),
                concat!("mov.u32 {address}, shared_{module}_", line!(), "_", column!(), ";"),
                module = const $crate::shared::hash(module_path!()),
                bytes = const $bytes,
                address = out(reg32) address,
                options(nostack)
            )
        };
        address
    }};
}

/// A short name of a module (FNV-1a of 64 bits).
#[doc(hidden)]
pub const fn hash(module: &str) -> u64 {
    let (bytes, mut hash, mut i) = (module.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

/// The simulator hands out the arrays of a block in the order in which its threads first declare them.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __static_shared {
    ($bytes:expr) => {
        $crate::backend::shared_static($bytes)
    };
}

/// The block's dynamic shared memory: as many bytes as the launch asked for, aligned to 1024 bytes.
#[inline(always)]
pub fn dynamic<T>() -> SharedPtr<T> {
    SharedPtr::from_address(backend::shared_dynamic())
}

/// Bytes of the block's dynamic shared memory (`%dynamic_smem_size`).
#[inline(always)]
pub fn dynamic_bytes() -> u32 {
    backend::shared_dynamic_bytes()
}
