//! The kernels of regemm: `D = activation(alpha * A * B + beta * C + bias)`, one rung of the ladder a module.
//!
//! | folder | kernels |
//! |---|---|
//! | [`ladder`] | without tensor cores, from one thread for one element to warps that only copy and warps that only multiply: all rungs for f32, the lower ones for f64 and half precision too |
//! | [`warp`] | tensor cores by warps (`mma.sync`): f16, bf16, TF32, and f32 as two f16 each (*in halves*) |
//! | [`double`] | f64 on tensor cores |
//! | [`warpgroup`] | tensor cores by four warps together (`wgmma`), straight from shared memory, which bulk copies (TMA) fill, on Hopper: f16, bf16, and f32 in halves |
//!
//! | what they share | |
//! |---|---|
//! | [`mod@kernel`], [`params`], [`layout`], [`element`] | the contract of all kernels: what one is, what a launch passes, how A and B lie in memory, the number types |
//! | [`tile`] | which part of D a block owns |
//! | [`slices`] | the slices of A and B in shared memory (`BK` values of k deep), their stages, and how they get there |
//! | [`thread_tile`] | sums in the registers of a thread, and the micro-kernel that builds them |
//! | [`share_of_registers`] | registers of the warps that copy and of those that multiply (`setmaxnreg`) |
//! | [`maps`], [`swapped`] | tensor maps (TMA descriptors) for bulk copies; kernels that compute the transpose of D (swap A and B) |
//! | [`mod@epilogue`] | what happens to a sum before it is stored |
//! | [`schedule`] | several blocks for a tile (split-K, stream-K), several tiles for a block (persistent kernels) |
//! | [`prepare`] | launches before a product: aligned copies, transposes, halves |
//! | [`cycles`] | at which clock other launches ran |
//!
//! [`table`] lists every instantiation, and the macros of [`instantiate`] make PTX entries, host tables and names of
//! its rows.
//!
//! The crate is `no_std` on the device. On the host the same functions run on the simulator of [`cuda_std`].
#![no_std]
// Loops count in the indices of the formulas, also where they index only one array.
#![allow(clippy::needless_range_loop)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod cycles;
pub mod double;
pub mod element;
pub mod epilogue;
pub mod instantiate;
pub mod kernel;
pub mod ladder;
pub mod layout;
pub mod maps;
pub mod params;
pub mod prepare;
pub mod schedule;
pub mod share_of_registers;
pub mod slices;
pub mod swapped;
// Not for unit tests: none of them runs an instantiation, and all together take minutes to compile. Nor for PTX of
// crates whose entries are others.
#[cfg(all(not(test), any(not(target_arch = "nvptx64"), feature = "entries")))]
pub mod table;
pub mod thread_tile;
pub mod tile;
pub mod warp;
pub mod warpgroup;

#[cfg(doctest)]
mod refused;

#[doc(hidden)]
pub use kernel_families::families;
