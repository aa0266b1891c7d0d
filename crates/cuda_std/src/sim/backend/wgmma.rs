//! Warpgroup matrix instructions.

use super::{f32_to_f16, fma_f32};
use crate::sim::{self, SyncOperation, wgmma};
use crate::wgmma::{Element, Major};
use std::panic::Location;

/// The simulator has warpgroup matrix instructions.
pub const WGMMA: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_fence() {
    let fence = |place| wgmma::warpgroup(wgmma::Operation::Fence, place);
    sim::at(SyncOperation::WarpgroupFence, Location::caller(), fence);
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_commit_group() {
    let commit = |place| wgmma::warpgroup(wgmma::Operation::Commit, place);
    sim::at(SyncOperation::WarpgroupCommit, Location::caller(), commit);
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_wait_group<const PENDING: usize>() {
    let wait = |place| wgmma::warpgroup(wgmma::Operation::Wait(PENDING), place);
    sim::at(SyncOperation::WarpgroupWait, Location::caller(), wait);
}

#[inline(always)]
#[track_caller]
pub fn wgmma_start(address: u32) -> u64 {
    wgmma::wgmma_start(address, Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_declare<const N: usize, const SET: usize>() {
    sim::wgmma_declare(N, SET, Location::caller());
}

#[inline(always)]
pub fn wgmma_pack<T: Element>(pair: [f32; 2]) -> u32 {
    let bits = |value: f32| match T::BF16 {
        true if value.is_nan() => 0x7fff,
        true => crate::scalar::f32_to_bf16(value).to_bits(),
        false => f32_to_f16(value).to_bits(),
    };
    let [low, high] = pair.map(bits).map(u32::from);
    low | high << 16
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_get<const N: usize, const SET: usize, const I: usize>() -> f32 {
    sim::wgmma_get(SET + I / (N / 2), I % (N / 2), Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_scaled<const N: usize, const SET: usize, const I: usize>(
    factor: f32,
    addend: f32,
) -> f32 {
    fma_f32(factor, sim::wgmma_get(SET + I / (N / 2), I % (N / 2), Location::caller()), addend)
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_set<const N: usize, const SET: usize, const I: usize>(value: f32) {
    sim::wgmma_set(SET + I / (N / 2), I % (N / 2), value, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_mma_async<T: Element, A: Major, B: Major, const N: usize, const SET: usize>(
    a: u64,
    b: u64,
    accumulate: bool,
) {
    let instruction = wgmma::Instruction {
        n: N,
        set: SET,
        bf16: T::BF16,
        operands: [(a, A::TRANSPOSED), (b, B::TRANSPOSED)],
        accumulate,
    };
    wgmma::warpgroup(wgmma::Operation::Multiply(instruction), Location::caller());
}
