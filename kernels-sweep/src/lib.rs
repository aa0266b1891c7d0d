//! The kernels of regemm's parameter sweep: one for each configuration of block tile, thread tile, loop order and
//! staging, as PTX of their own that ordinary builds do not pay for.
//!
//! | module | what it holds |
//! |---|---|
//! | [`loop_order`] | the kernel whose partial sums go back to memory, in the two loop orders that do that |
//! | [`direct`] | the kernel without shared memory, in all loop orders |
//! | [`space`] | the configurations, and an instantiation of each that can run |
//! | [`registers`] | how many registers a thread needs, and how many blocks that leaves room for |
//!
//! Everything else comes from [`regemm_kernels`]: with slices in shared memory the loop order with sums in registers
//! throughout is its microkernel, and the ways of staging are its rungs.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod direct;
pub mod loop_order;
pub mod registers;
pub mod space;
