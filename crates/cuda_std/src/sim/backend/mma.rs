//! Matrix products of a warp.

use crate::sim;
use std::panic::Location;

/// The simulator has tensor cores.
pub const TENSOR_CORES: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn load_matrices<const TRANSPOSED: bool>(address: u32) -> [u32; 4] {
    sim::load_matrices(address, TRANSPOSED, Location::caller())
}

/// The simulator has them.
pub const STORES_MATRICES: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn store_matrices<const TRANSPOSED: bool>(address: u32, registers: [u32; 4]) {
    sim::store_matrices(address, registers, TRANSPOSED, Location::caller())
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

#[inline(always)]
#[track_caller]
pub unsafe fn mma_tf32(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    sim::multiply_add(sim::Format::Tf32, (a, b, c), Location::caller())
}

#[inline(always)]
pub fn round_to_tf32(x: f32) -> f32 {
    sim::round_to_tf32(x)
}

/// The simulator has all shapes.
pub const LARGE_DOUBLE_SHAPES: bool = true;

macro_rules! multiply_adds_of_doubles {
    ($($name:ident = $shape:ident($a:literal, $b:literal, $c:literal);)*) => {$(
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(a: [f64; $a], b: [f64; $b], c: [f64; $c]) -> [f64; $c] {
            sim::multiply_add_doubles(sim::DoubleShape::$shape, a, b, c, Location::caller())
        }
    )*};
}

multiply_adds_of_doubles! {
    dmma_8x8x4 = M8K4(1, 1, 2);
    dmma_16x8x4 = M16K4(2, 1, 4);
    dmma_16x8x8 = M16K8(4, 2, 4);
    dmma_16x8x16 = M16K16(8, 4, 4);
}
