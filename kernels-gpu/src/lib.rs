//! The kernels of regemm: `D = activation(alpha * A * B + beta * C + bias)`, one rung of the ladder a module.
//!
//! | module | idea |
//! |---|---|
//! | [`naive`] | one thread, one element of D |
//! | [`tiled`] | square tiles in shared memory, zero where out of range |
//! | [`microkernel`] | a thread tile in registers, updated by outer products |
//! | [`double_buffered`] | two stages of shared memory: load the next tile while this one is multiplied |
//! | [`pipelined`] | two to four stages, filled by asynchronous copies: prologue, steady state, epilogue |
//! | [`warp_tiled`] | warp tiles, and fragments of the next k loaded while those of this one are multiplied |
//! | [`decoupled`] | memory barriers for each stage: warps wait for data instead of for one another |
//! | [`warp_specialised`] | warps that only copy, warps that only multiply, and registers to match |
//! | [`sliced_k`] | small tiles for small D: groups of warps share the depth of one |
//! | [`split_k`] | several blocks for one tile, each for a slice of K: work for all multiprocessors where D is small ([`split_sliced_k`], [`split_warpgroup`], [`split_halves`] and [`cluster_split`] do so with other tiles) |
//! | [`skinny`] | few rows or columns of D: the large factor is read once, at the speed of memory |
//! | [`stream_k`] | the last tiles are cut so that all multiprocessors have the same to do |
//! | [`tensor_core`] | a warp multiplies matrices of half precision on tensor cores |
//! | [`double_tensor_core`] | the same in double precision |
//! | [`double_bulk`] | in double precision: slices in bulk for clusters of blocks, and nobody who multiplies waits in a loop |
//! | [`warpgroup`] | four warps multiply together, straight from shared memory, which bulk copies fill |
//! | [`halves`] | they multiply f32 as well: as two halves each |
//! | [`warp_halves`] | the same by warps, for all GPUs with tensor cores |
//! | [`rounded`] | or, where 11 bits are enough, rounded to one |
//!
//! What they share: [`params`] is what a launch passes, [`element`] the number types, [`layout`] how A and B lie in memory,
//! [`tile`] which part of D a block owns, [`mover`] and [`slices`] bring operands into shared memory, [`copies`] does so for
//! factors in any layout and [`slices_in_bulk`] in boxes, [`transposed`] has factors transposed before, [`ring`] is the stages of shared memory in turn, [`thread_tile`] the micro-kernel in registers,
//! [`panels`] and [`warp_tile`] the same for tensor cores, [`warp_pipeline`] the frame around them, [`double_panels`], [`double_bulk_panels`], [`double_tile`] and [`double_sums`] in double precision, [`bulk_panels`] and [`warpgroup_tile`] for warpgroups of them, [`maps`]
//! what bulk copies must be told, [`mod@repack`] the launch that copies factors which they cannot take, [`mod@split`] the one that makes halves of f32, [`decision`] what decides whether they are used, [`sums_on_the_way`] and [`outbox`] how sums get to D in rows, [`pairs`] how an epilogue works on them
//! in registers, [`fast_activation`] what it may leave out where results are rounded to half precision, [`partials`] the sums of slices of K, and [`reduce`] the launch that
//! adds them up, [`shares`] which blocks sum what of a tile, [`parts`] what a block that stays sums in turn, [`batches`] of several products, and [`hand_over`] how they pass it on, [`epilogue`] what happens to a
//! sum before it is stored. [`mod@kernel`] is the contract of all kernels, [`table`] lists
//! every instantiation, and the macros of [`instantiate`] make PTX entries, host tables and names of its rows.
//!
//! The crate is `no_std` on the device. On the host the same functions run on the simulator of [`cuda_std`].
#![no_std]
// Loops count in the indices of the formulas, also where they index only one array.
#![allow(clippy::needless_range_loop)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod activation;
pub mod batches;
pub mod bulk_panels;
pub mod cluster_split;
pub mod copies;
pub mod decision;
pub mod decoupled;
pub mod double_buffered;
pub mod double_bulk;
pub mod double_bulk_panels;
pub mod double_cluster_split;
pub mod double_panels;
pub mod double_sums;
pub mod double_tensor_core;
pub mod double_tile;
pub mod element;
pub mod epilogue;
pub mod fast_activation;
pub mod fit;
pub mod halves;
pub mod hand_over;
pub mod instantiate;
pub mod kernel;
pub mod layout;
pub mod maps;
pub mod math;
pub mod microkernel;
pub mod mover;
pub mod naive;
pub mod outbox;
pub mod pace;
pub mod pairs;
pub mod panels;
pub mod params;
pub mod partials;
pub mod parts;
pub mod pipelined;
pub mod reduce;
pub mod repack;
pub mod ring;
pub mod rounded;
pub mod shares;
pub mod skinny;
pub mod sliced_k;
pub mod slices;
pub mod slices_in_bulk;
pub mod split;
pub mod split_halves;
pub mod split_k;
pub mod split_sliced_k;
pub mod split_warpgroup;
pub mod staged;
pub mod store_rows;
pub mod stream_k;
pub mod sums_on_the_way;
pub mod swapped;
// Not for unit tests: none of them runs an instantiation, and all together take minutes to compile.
#[cfg(not(test))]
pub mod table;
pub mod tensor_core;
pub mod thread_tile;
pub mod tile;
pub mod tiled;
pub mod transposed;
pub mod warp_halves;
pub mod warp_pipeline;
pub mod warp_specialised;
pub mod warp_tile;
pub mod warp_tiled;
pub mod warpgroup;
pub mod warpgroup_tile;

#[doc(hidden)]
pub use kernel_families::families;
