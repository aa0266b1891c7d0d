//! Device intrinsics for kernels written in Rust, and the simulator that runs the same kernels without a GPU.
//!
//! A kernel is an ordinary `unsafe fn` marked [`#[kernel]`](kernel). Compiled for `nvptx64-nvidia-cuda` the functions
//! of this crate are single PTX instructions; compiled for any other target they are calls into the `sim` module, a
//! SIMT simulator that checks every access and counts what the kernel did. Kernel code cannot tell the difference:
//! there is one source and no `cfg` in it.
//!
//! | module | what it gives |
//! |---|---|
//! | [`thread`] | thread, block and grid indices, the block barrier |
//! | [`warp`] | lane index, shuffles, the warp barrier |
//! | [`memory`] | typed pointers to global and shared memory, scalar and vector accesses, with and without predicate |
//! | [`async_copy`] | copies from global to shared memory that run in the background (`cp.async`) |
//! | [`bulk_copy`] | copies of boxes of matrices between global and shared memory that single threads issue (TMA, `cp.async.bulk.tensor`) |
//! | [`mbarrier`] | barriers in shared memory at which some threads arrive and others wait |
//! | [`wgmma`] | matrix products of four warps, of operands in shared memory, on tensor cores |
//! | [`cluster`] | blocks that run together and reach each other's shared memory |
//! | [`named_barrier`] | barriers of some of a block's warps (`barrier.sync` with a number) |
//! | [`registers`] | registers that warpgroups hand over to others (`setmaxnreg`) |
//! | [`signal`] | blocks that wait for other blocks |
//! | [`counter`] | counts that blocks keep together |
//! | [`clock`] | cycles of a multiprocessor, and time |
//! | [`early_start`] | launches that begin before the one before them has ended (programmatic dependent launch) |
//! | [`mma`] | matrix products of a warp, on tensor cores (`mma.sync`, `ldmatrix`) |
//! | [`shared`] | static shared arrays ([`shared_array!`]) and dynamic shared memory |
//! | [`swizzle`] | how bulk copies and matrix products lay out rows in shared memory |
//! | [`scalar`] | what may be stored in memory, conversions from and to half precision |
//! | [`math`] | fused multiply-add |
//! | [`hint`] | what the compiler should not know |
//!
//! And for the host alone:
//!
//! | module | what it gives |
//! |---|---|
//! | `entry` | kernels as a host launches them |
//! | `tensor_map` | which tensors bulk copies can reach, and in which boxes |
//! | `sim` | the simulator |
//!
//! # The one rule of the simulator
//!
//! It sees what goes through this crate. Kernels therefore reach memory only through [`memory::GlobalPtr`] and
//! [`memory::SharedPtr`], and multiply-add only through [`math`].
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_unadjusted,
        asm_experimental_arch,
        core_float_math,
        link_llvm_intrinsics,
        stdarch_nvptx
    ),
    allow(internal_features, reason = "barriers that the compiler knows as such")
)]

pub use cuda_std_macros::{device_inline, kernel};

pub mod async_copy;
pub mod bulk_copy;
pub mod clock;
pub mod cluster;
pub mod counter;
pub mod early_start;
pub mod hint;
pub mod math;
pub mod mbarrier;
pub mod memory;
pub mod mma;
pub mod named_barrier;
pub mod registers;
pub mod scalar;
pub mod shared;
pub mod signal;
pub mod swizzle;
pub mod thread;
pub mod warp;
pub mod wgmma;

#[cfg(doctest)]
mod refused;

/// The functions every other module is written with: one PTX instruction each.
#[cfg(target_arch = "nvptx64")]
#[path = "ptx.rs"]
#[doc(hidden)]
pub mod backend;

/// The functions every other module is written with: calls into the running simulation.
#[cfg(not(target_arch = "nvptx64"))]
#[path = "sim/backend.rs"]
#[doc(hidden)]
pub mod backend;

#[cfg(not(target_arch = "nvptx64"))]
pub mod entry;
#[cfg(not(target_arch = "nvptx64"))]
pub mod sim;
#[cfg(not(target_arch = "nvptx64"))]
pub mod tensor_map;

/// A panic on the device stops the whole launch: the driver reports it as a launch failure.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` has no operands and does not return control to this thread.
    unsafe { core::arch::nvptx::trap() }
}
