//! The host backend: every function is a call into the simulation that runs on this thread.
//!
//! Same names and signatures as the device backend. Functions that may fault pass on the place in the kernel's source
//! that called them.

use crate::bulk_copy::TensorMap;
use crate::sim::{self, wgmma};
use crate::wgmma::{Element, Major};
use half::f16;
use std::panic::Location;

macro_rules! special_registers {
    ($($name:ident => $field:ident[$axis:literal]),* $(,)?) => {$(
        #[inline(always)]
        #[track_caller]
        pub fn $name() -> u32 {
            // SAFETY: the worker is the current one, and the reference ends here.
            unsafe { (*sim::current()).$field[$axis] }
        }
    )*};
}

special_registers! {
    thread_idx_x => thread_index[0],
    thread_idx_y => thread_index[1],
    thread_idx_z => thread_index[2],
    block_idx_x => block_index[0],
    block_idx_y => block_index[1],
    block_idx_z => block_index[2],
    block_dim_x => block_dim[0],
    block_dim_y => block_dim[1],
    block_dim_z => block_dim[2],
    grid_dim_x => grid_dim[0],
    grid_dim_y => grid_dim[1],
    grid_dim_z => grid_dim[2],
}

#[inline(always)]
#[track_caller]
pub fn lane_id() -> u32 {
    // SAFETY: the worker is the current one.
    unsafe { (*sim::current()).thread % sim::limits::WARP_THREADS }
}

#[inline(always)]
#[track_caller]
pub fn shared_dynamic() -> u32 {
    sim::current();
    sim::DYNAMIC_BASE
}

#[inline(always)]
#[track_caller]
pub fn shared_dynamic_bytes() -> u32 {
    // SAFETY: the worker is the current one, and the reference ends here.
    unsafe { (*sim::current()).shared.dynamic_bytes() }
}

#[inline(always)]
#[track_caller]
pub fn shared_static(bytes: usize) -> u32 {
    sim::shared_static(bytes, Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    sim::sync_threads(Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    sim::sync_warp(mask, Location::caller());
}

macro_rules! shuffles {
    ($($name:ident => $mode:ident),* $(,)?) => {$(
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(mask: u32, value: u32, operand: u32) -> u32 {
            sim::shuffle(sim::Shuffle::$mode, mask, value, operand, Location::caller())
        }
    )*};
}

shuffles! {
    shuffle_bfly => Butterfly,
    shuffle_down => Down,
    shuffle_up => Up,
    shuffle_idx => Index,
}

/// Counts a fused multiply-add of a kernel. Outside of one it is plain arithmetic.
#[inline(always)]
fn count_fma() {
    let worker = sim::current_or_null();
    if !worker.is_null() {
        // SAFETY: the worker is the current one.
        unsafe { (*worker).counters.fma += 1 };
    }
}

/// The compiler of the host may know what it likes.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    value
}

#[inline(always)]
pub fn whole(value: u64) -> u64 {
    value
}

#[inline(always)]
#[track_caller]
pub fn uniform(value: u32) -> u32 {
    sim::uniform(value, Location::caller())
}

#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    count_fma();
    sim::fma_f32(a, b, c)
}

/// Subnormal numbers are zero, of either sign.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

#[inline(always)]
pub fn exp2_approx_f32(x: f32) -> f32 {
    flushed(f64::from(flushed(x)).exp2() as f32)
}

#[inline(always)]
pub fn reciprocal_approx_f32(x: f32) -> f32 {
    flushed(1.0 / flushed(x))
}

#[inline(always)]
pub fn magnitude_up_to_f32(x: f32, limit: f32) -> f32 {
    if x.abs() > limit { limit } else { x.abs() }
}

/// No result depends on another, so the order shows nowhere.
#[inline(always)]
pub fn fma_row_f32<const N: usize>(a: f32, b: &[f32; N], c: &mut [f32; N], _backwards: bool) {
    for (b, c) in b.iter().zip(c) {
        *c = fma_f32(a, *b, *c);
    }
}

#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    count_fma();
    sim::fma_f64(a, b, c)
}

#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    value.to_f32()
}

#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    f16::from_f32(value)
}

macro_rules! state_space {
    (
        address = $address:ty,
        $load:ident, $load_if:ident, $store:ident, $store_if:ident
    ) => {
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $load<V: Copy>(address: $address) -> V {
            // SAFETY: `V` is an array of scalars, as all callers promise.
            unsafe { sim::$load(address, true, Location::caller()) }
        }

        #[inline(always)]
        #[track_caller]
        pub unsafe fn $load_if<V: Copy>(address: $address, predicate: bool) -> V {
            // SAFETY: as above.
            unsafe { sim::$load(address, predicate, Location::caller()) }
        }

        #[inline(always)]
        #[track_caller]
        pub unsafe fn $store<V: Copy>(address: $address, value: V) {
            // SAFETY: as above.
            unsafe { sim::$store(address, value, true, Location::caller()) }
        }

        #[inline(always)]
        #[track_caller]
        pub unsafe fn $store_if<V: Copy>(address: $address, value: V, predicate: bool) {
            // SAFETY: as above.
            unsafe { sim::$store(address, value, predicate, Location::caller()) }
        }
    };
}

state_space!(address = u64, global_load, global_load_if, global_store, global_store_if);
state_space!(address = u32, shared_load, shared_load_if, shared_store, shared_store_if);

#[inline(always)]
#[track_caller]
pub unsafe fn copy_async<V: Copy>(target: u32, source: u64, predicate: bool) {
    sim::copy_async::<V>(target, source, predicate, Location::caller());
}

#[inline(always)]
#[track_caller]
pub fn commit_group() {
    sim::commit_group();
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_init(address: u32, arrivals: u32) {
    sim::mbarrier_init(address, arrivals, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive(address: u32) {
    sim::mbarrier_arrive(address, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_on_copies(address: u32) {
    sim::mbarrier_arrive_on_copies(address, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_wait(address: u32, parity: u32) {
    sim::mbarrier_wait(address, parity, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn signal_post(address: u64, value: u32) {
    sim::signal_post(address, value, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn cluster_load<V: Copy>(address: u32) -> V {
    // SAFETY: `V` is an array of scalars, as all callers promise.
    unsafe { sim::cluster_load(address, Location::caller()) }
}

/// No different from other values here.
#[inline(always)]
#[track_caller]
pub unsafe fn signal_clear(address: u64) {
    sim::signal_post(address, 0, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn signal_wait(address: u64, value: u32) {
    sim::signal_wait(address, value, Location::caller());
}

/// The simulator has mbarriers.
pub const MBARRIERS: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_expect_tx(address: u32, bytes: u32) {
    sim::mbarrier_arrive_expect_tx(address, bytes, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_expect_tx(address: u32, bytes: u32) {
    sim::mbarrier_expect_tx(address, bytes, Location::caller());
}

/// The simulator's mbarriers count bytes.
pub const MBARRIER_TRANSACTIONS: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn fence_mbarrier_init() {
    sim::fence_mbarrier_init();
}

/// The simulator has bulk copies.
pub const BULK_COPIES: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_load_2d(target: u32, map: u64, x: i32, y: i32, mbarrier: u32) {
    // SAFETY: the address is that of a `TensorMap`, which its callers borrow.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_load(target, map, &[x, y], mbarrier, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_load_3d(target: u32, map: u64, x: i32, y: i32, z: i32, mbarrier: u32) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_load(target, map, &[x, y, z], mbarrier, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_store_2d(map: u64, x: i32, y: i32, source: u32) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_store(map, &[x, y], source, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_load_3d_multicast(
    target: u32,
    map: u64,
    x: i32,
    y: i32,
    z: i32,
    mbarrier: u32,
    blocks: u16,
) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_load_multicast(target, map, &[x, y, z], mbarrier, blocks, Location::caller());
}

/// The simulator has clusters.
pub const CLUSTERS: bool = true;

#[inline(always)]
#[track_caller]
pub fn cluster_rank() -> u32 {
    sim::cluster_rank()
}

#[inline(always)]
#[track_caller]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    sim::map_shared(address, rank, Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn cluster_arrive() {
    sim::cluster_arrive(Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn cluster_wait() {
    sim::cluster_wait(Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn mbarrier_arrive_in_cluster(address: u32) {
    sim::mbarrier_arrive_in_cluster(address, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_store_3d(map: u64, x: i32, y: i32, z: i32, source: u32) {
    // SAFETY: as above.
    let map = unsafe { &*(map as *const TensorMap) };
    sim::bulk_store(map, &[x, y, z], source, Location::caller());
}

/// Nothing is far away.
#[inline(always)]
pub unsafe fn bulk_prefetch_map(_map: u64) {}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_commit_group() {
    sim::bulk_commit_group();
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_wait_group<const N: usize>() {
    sim::bulk_wait_group(N, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn bulk_wait_group_read<const N: usize>() {
    sim::bulk_wait_group_read(N, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn fence_proxy_async_shared() {
    sim::fence_proxy_async_shared();
}

#[inline(always)]
#[track_caller]
pub unsafe fn named_barrier_sync(barrier: u32, threads: u32) {
    sim::named_barrier_sync(barrier, threads, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn named_barrier_arrive(barrier: u32, threads: u32) {
    sim::named_barrier_arrive(barrier, threads, Location::caller());
}

/// Kernels are checked as on targets that have them.
pub const EARLY_STARTS: bool = true;

#[inline(always)]
#[track_caller]
pub fn wait_for_earlier_launches() {
    sim::wait_for_earlier_launches();
}

/// Threads have as many registers as they like.
#[inline(always)]
pub unsafe fn increase_registers<const N: u32>() {}

/// The simulator runs what needs them.
#[inline(always)]
pub fn require_register_transfers() {}

/// As above.
#[inline(always)]
pub unsafe fn decrease_registers<const N: u32>() {}

/// The first lane of the mask, as soon as all of them have come. As a shuffle it orders no memory.
#[inline(always)]
#[track_caller]
pub unsafe fn elect(mask: u32) -> bool {
    let first = mask.trailing_zeros();
    let lane = lane_id();
    sim::shuffle(sim::Shuffle::Index, mask, lane, first, Location::caller()) == lane
}

#[inline(always)]
#[track_caller]
pub fn wait_group<const N: usize>() {
    sim::wait_group(N);
}

/// The simulator has warpgroup matrix instructions.
pub const WGMMA: bool = true;

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_fence() {
    wgmma::warpgroup(wgmma::Operation::Fence, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_commit_group() {
    wgmma::warpgroup(wgmma::Operation::Commit, Location::caller());
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_wait_group<const PENDING: usize>() {
    wgmma::warpgroup(wgmma::Operation::Wait(PENDING), Location::caller());
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
    let bits = |value: f32| match (value.is_nan(), T::BF16) {
        (true, _) => 0x7fff,
        (false, true) => crate::scalar::f32_to_bf16(value).to_bits(),
        (false, false) => f32_to_f16(value).to_bits(),
    };
    let [low, high] = pair.map(bits).map(u32::from);
    low | high << 16
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_get<const N: usize, const SET: usize, const I: usize>() -> f32 {
    sim::wgmma_get(SET, I, Location::caller())
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_scaled<const N: usize, const SET: usize, const I: usize>(
    factor: f32,
    addend: f32,
) -> f32 {
    fma_f32(factor, sim::wgmma_get(SET, I, Location::caller()), addend)
}

#[inline(always)]
#[track_caller]
pub unsafe fn wgmma_set<const N: usize, const SET: usize, const I: usize>(value: f32) {
    sim::wgmma_set(SET, I, value, Location::caller());
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
