//! The rungs without tensor cores: all of them for f32, some for f64, f16 and bf16 too. Each adds one idea to an
//! earlier one. Read them in this order.
//!
//! | rung | idea |
//! |---|---|
//! | [`naive`] | one thread, one element of D |
//! | [`tiled`] | square tiles in shared memory, zero where out of range |
//! | [`microkernel`] | a thread tile in registers, updated by outer products |
//! | [`double_buffered`] | two stages of shared memory: load the next slices while these are multiplied |
//! | [`pipelined`] | two to four stages, filled by asynchronous copies (`cp.async`): prologue, steady state, epilogue |
//! | [`warp_tiled`] | warp tiles, and fragments of the next k loaded while those of this one are multiplied |
//! | [`decoupled`] | memory barriers (`mbarrier`) for each stage: warps wait for data instead of for one another |
//! | [`warp_specialised`] | warps that only copy, warps that only multiply, and registers to match (`setmaxnreg`) |
//! | [`stream_k`] | the tiles of the last wave are divided, so that all multiprocessors have equal work |
//!
//! Where D is small or narrow there are not enough such tiles for all multiprocessors:
//!
//! | rung | idea |
//! |---|---|
//! | [`sliced_k`] | small tiles: groups of warps share the depth of one |
//! | [`split_k`] | several blocks for one tile, each for a slice of K |
//! | [`split_sliced_k`] | both |
//! | [`skinny`] | few rows or columns of D: the large factor is read once, at the speed of memory, in [two](skinny::staged) ways |

pub mod decoupled;
pub mod double_buffered;
pub mod microkernel;
pub mod naive;
pub mod pipelined;
pub mod skinny;
pub mod sliced_k;
pub mod split_k;
pub mod split_sliced_k;
pub mod stream_k;
pub mod tiled;
pub mod warp_specialised;
pub mod warp_tiled;
