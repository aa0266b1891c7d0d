//! The kernels of regemm: `D = activation(alpha * A * B + beta * C + bias)`, one rung of the ladder a module.
//!
//! | folder | kernels |
//! |---|---|
//! | [`ladder`] | from one thread for one element to warps that only copy and warps that only multiply: f32, and f64 and halves as far as it goes |
//! | [`warp`] | f16, bf16 and f32 in halves on tensor cores, by warps |
//! | [`double`] | f64 on tensor cores |
//! | [`warpgroup`] | f16, bf16 and f32 in halves on Hopper: four warps multiply together, straight from shared memory, which bulk copies fill |
//!
//! | what they share | |
//! |---|---|
//! | [`mod@kernel`], [`params`], [`layout`], [`element`] | the contract of all kernels: what one is, what a launch passes, how A and B lie in memory, the number types |
//! | [`tile`] | which part of D a block owns |
//! | [`slices`] | the ways of A and B into shared memory, and its stages in turn |
//! | [`thread_tile`] | sums in the registers of a thread, and the micro-kernel that builds them |
//! | [`share_of_registers`] | how many registers those have who bring slices, and those who multiply |
//! | [`maps`], [`swapped`] | what bulk copies must be told; kernels that compute the transpose of D |
//! | [`mod@epilogue`] | what happens to a sum before it is stored |
//! | [`schedule`] | several blocks for a tile, several tiles for a block |
//! | [`prepare`] | launches before a product |
//!
//! [`table`] lists every instantiation, and the macros of [`instantiate`] make PTX entries, host tables and names of
//! its rows.
//!
//! The crate is `no_std` on the device. On the host the same functions run on the simulator of [`cuda_std`].
#![no_std]
// Loops count in the indices of the formulas, also where they index only one array.
#![allow(clippy::needless_range_loop)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

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
