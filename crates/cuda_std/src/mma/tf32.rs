//! Matrix products of a warp with factors of f32, which are rounded to TF32.
//!
//! A TF32 is an f32 with 11 bits in place of 24: as many as an f16 has, and the exponents of an f32. It takes a
//! register as an f32 does, whose lowest 13 bits are not looked at.
//! `mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32` exists from sm_80 on (PTX ISA 7.0). With `g = lane / 4` and `t
//! = lane % 4` (PTX ISA, "Matrix Fragments for mma.m16n8k8", those of `.tf32`):
//!
//! | | register | element of a lane |
//! |---|---|---|
//! | A, 16 x 8 | 0 | row `g`, column `t` |
//! | | 1 | row `g + 8`, the same column |
//! | | 2 | row `g`, column `t + 4` |
//! | | 3 | row `g + 8`, the same column |
//! | B, 8 x 8 | 0 | row `t`, column `g` |
//! | | 1 | row `t + 4` |
//! | C and D, 16 x 8 | | as of [half precision](super) |
//!
//! So a lane has one element where it has two neighbours of half precision, and [`load_matrices`](super::load_matrices)
//! reads these fragments, too: rows of 16 bytes are 4 elements. Not so transposed: what it exchanges are pieces of 16
//! bits.
//!
//! # Precision
//!
//! Products are exact, and added up [as those of half precision](super#precision), 8 at a time.

use super::{Factor, FragmentA, FragmentB, FragmentC};
use crate::backend;

/// Columns of A and rows of B in one instruction.
pub const K: usize = <f32 as Factor>::K;

/// The nearest TF32, of two that are as near the one further from zero (`cvt.rna.tf32.f32`). What is larger than all
/// becomes infinite.
///
/// On targets before sm_80 it ends the launch.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    backend::round_to_tf32(x)
}

impl Factor for f32 {
    #[inline(always)]
    fn to_operand(register: u32) -> u32 {
        round(f32::from_bits(register)).to_bits()
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn multiply_add(a: FragmentA, b: FragmentB, c: FragmentC) -> FragmentC {
        // SAFETY: as promised by the caller.
        unsafe { backend::mma_tf32(a, b, c) }
    }
}
