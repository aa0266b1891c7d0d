//! Matrix products of a warp.

use crate::sim;
use std::panic::Location;

/// The simulator has tensor cores.
pub const TENSOR_CORES: bool = true;

#[inline(always)]
pub fn require_tensor_cores() {}

#[inline(always)]
#[track_caller]
pub unsafe fn load_matrices<const TRANSPOSED: bool>(address: u32) -> [u32; 4] {
    sim::load_matrices(address, TRANSPOSED, Location::caller())
}

/// The simulator has them.
pub const STORES_MATRICES: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn store_matrices(address: u32, registers: [u32; 4]) {
    sim::store_matrices(address, registers, Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    sim::multiply_add(sim::Format::F16, (a, b, c), Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    sim::multiply_add(sim::Format::Bf16, (a, b, c), Location::caller())
}
