//! The counters are exact: requests, elements, bytes, sectors, wavefronts and conflicts of known access patterns.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::scalar::Scalar;
use cuda_std::sim::{Counters, Simulator};
use cuda_std::{kernel, math, shared, thread, warp};

/// Each lane loads one vector of `N` elements at `element(lane)` and stores it at the same place of `d`.
#[inline(always)]
unsafe fn copy<T: Scalar, const N: usize>(x: GlobalPtr<T>, d: GlobalPtr<T>, p: Pattern) {
    let i = p.element(thread::thread_idx_x()) as u64;
    unsafe { d.add(i).store_vec(x.add(i).load_vec::<N>()) }
}

/// Element `lane / divide * stride + offset`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pattern {
    divide: u32,
    stride: u32,
    offset: u32,
}

impl Pattern {
    fn element(self, lane: u32) -> u32 {
        lane / self.divide * self.stride + self.offset
    }
}

fn pattern(divide: u32, stride: u32, offset: u32) -> Pattern {
    Pattern { divide, stride, offset }
}

#[kernel]
unsafe fn copy_u8(x: GlobalPtr<u8>, d: GlobalPtr<u8>, p: Pattern) {
    unsafe { copy::<u8, 1>(x, d, p) }
}
#[kernel]
unsafe fn copy_f32(x: GlobalPtr<f32>, d: GlobalPtr<f32>, p: Pattern) {
    unsafe { copy::<f32, 1>(x, d, p) }
}
#[kernel]
unsafe fn copy_f32x2(x: GlobalPtr<f32>, d: GlobalPtr<f32>, p: Pattern) {
    unsafe { copy::<f32, 2>(x, d, p) }
}
#[kernel]
unsafe fn copy_f32x4(x: GlobalPtr<f32>, d: GlobalPtr<f32>, p: Pattern) {
    unsafe { copy::<f32, 4>(x, d, p) }
}
#[kernel]
unsafe fn copy_f64(x: GlobalPtr<f64>, d: GlobalPtr<f64>, p: Pattern) {
    unsafe { copy::<f64, 1>(x, d, p) }
}

/// Runs a copy by one warp and gives loads and stores, which must be the same: requests, elements, bytes, sectors.
macro_rules! copied {
    ($kernel:ident, $t:ty, $pattern:expr) => {{
        let simulator = Simulator::new();
        let x = upload(&simulator, &[<$t>::default(); 4096]);
        let d = alloc::<$t>(&simulator, 4096);
        let c = launch!(simulator, $kernel[1, 32, 0](x, d, $pattern)).unwrap();
        let loads = (
            c.global_load_requests,
            c.global_load_elements,
            c.global_load_bytes,
            c.global_load_sectors,
        );
        let stores = (
            c.global_store_requests,
            c.global_store_elements,
            c.global_store_bytes,
            c.global_store_sectors,
        );
        assert_eq!(loads, stores);
        loads
    }};
}

#[test]
fn sectors_of_one_request() {
    // Consecutive elements.
    assert_eq!(copied!(copy_u8, u8, pattern(1, 1, 0)), (1, 32, 32, 1));
    assert_eq!(copied!(copy_f32, f32, pattern(1, 1, 0)), (1, 32, 128, 4));
    assert_eq!(copied!(copy_f64, f64, pattern(1, 1, 0)), (1, 32, 256, 8));
    // Consecutive but not from a sector's start.
    assert_eq!(copied!(copy_f32, f32, pattern(1, 1, 1)), (1, 32, 128, 5));
    assert_eq!(copied!(copy_u8, u8, pattern(1, 1, 31)), (1, 32, 32, 2));
    // One element for all lanes, one for each half, one for each quarter.
    assert_eq!(copied!(copy_f32, f32, pattern(32, 1, 3)), (1, 32, 128, 1));
    assert_eq!(copied!(copy_f32, f32, pattern(16, 8, 0)), (1, 32, 128, 2));
    assert_eq!(copied!(copy_f32, f32, pattern(8, 4, 0)), (1, 32, 128, 2));
    // Strides: half of each sector, one element a sector, one element a page.
    assert_eq!(copied!(copy_f32, f32, pattern(1, 2, 0)), (1, 32, 128, 8));
    assert_eq!(copied!(copy_f32, f32, pattern(1, 8, 0)), (1, 32, 128, 32));
    assert_eq!(copied!(copy_f32, f32, pattern(1, 128, 0)), (1, 32, 128, 32));
    assert_eq!(copied!(copy_f64, f64, pattern(2, 128, 0)), (1, 32, 256, 16));
}

#[test]
fn sectors_of_vectors() {
    assert_eq!(copied!(copy_f32x2, f32, pattern(1, 2, 0)), (1, 64, 256, 8));
    assert_eq!(copied!(copy_f32x4, f32, pattern(1, 4, 0)), (1, 128, 512, 16));
    assert_eq!(copied!(copy_f32x4, f32, pattern(1, 8, 4)), (1, 128, 512, 32));
    assert_eq!(copied!(copy_f32x4, f32, pattern(2, 4, 0)), (1, 128, 512, 8));
}

/// Descending, and scattered by a multiplication: the order of the lanes does not matter.
#[kernel]
unsafe fn permuted(x: GlobalPtr<f32>, d: GlobalPtr<f32>, factor: u32) {
    let lane = thread::thread_idx_x();
    unsafe { d.add(lane as u64).store(x.add((lane * factor % 32) as u64).load()) }
}

#[test]
fn the_order_of_the_lanes_does_not_matter() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0.0_f32; 32]);
    let d = alloc::<f32>(&simulator, 32);
    for factor in [1, 31, 7, 13] {
        let c = launch!(simulator, permuted[1, 32, 0](x, d, factor)).unwrap();
        assert_eq!(c.global_load_sectors, 4, "factor {factor}");
    }
}

/// Every lane stores and loads one vector of `N` elements of shared memory, `element(lane)` elements from its start.
#[inline(always)]
unsafe fn bank<T: Scalar + Default, const N: usize>(p: Pattern, store: u32) {
    let memory = shared::dynamic::<T>();
    let lane = thread::thread_idx_x();
    let own = memory.add(p.element(lane));
    unsafe {
        // Lanes that share an element may not all store it.
        if store != 0 {
            own.store_vec([T::default(); N]);
        } else {
            if lane == 0 {
                let mut i = 0;
                while i < shared::dynamic_bytes() / (size_of::<T>() * N) as u32 {
                    memory.add(i * N as u32).store_vec([T::default(); N]);
                    i += 1;
                }
            }
            thread::sync_threads();
            own.load_vec::<N>();
        }
    }
}

#[kernel]
unsafe fn bank_u16(p: Pattern, store: u32) {
    unsafe { bank::<u16, 1>(p, store) }
}
#[kernel]
unsafe fn bank_f32(p: Pattern, store: u32) {
    unsafe { bank::<f32, 1>(p, store) }
}
#[kernel]
unsafe fn bank_f32x2(p: Pattern, store: u32) {
    unsafe { bank::<f32, 2>(p, store) }
}
#[kernel]
unsafe fn bank_f64(p: Pattern, store: u32) {
    unsafe { bank::<f64, 1>(p, store) }
}
#[kernel]
unsafe fn bank_f32x4(p: Pattern, store: u32) {
    unsafe { bank::<f32, 4>(p, store) }
}

/// Wavefronts and conflicts of one load by one warp and, where every lane has its own element, of one store.
macro_rules! banks {
    ($kernel:ident, $pattern:expr) => {{
        let simulator = Simulator::new();
        let load = launch!(simulator, $kernel[1, 32, 32768]($pattern, 0_u32)).unwrap();
        assert_eq!(load.shared_load_requests, 1);
        let result = (load.shared_load_wavefronts, load.shared_load_conflicts);
        if $pattern.divide == 1 {
            let store = launch!(simulator, $kernel[1, 32, 32768]($pattern, 1_u32)).unwrap();
            assert_eq!(store.shared_store_requests, 1);
            assert_eq!((store.shared_store_wavefronts, store.shared_store_conflicts), result);
        }
        result
    }};
}

#[test]
fn bank_conflicts_of_words() {
    assert_eq!(banks!(bank_f32, pattern(1, 1, 0)), (1, 0));
    assert_eq!(banks!(bank_f32, pattern(1, 1, 5)), (1, 0));
    assert_eq!(banks!(bank_f32, pattern(1, 3, 0)), (1, 0));
    assert_eq!(banks!(bank_f32, pattern(1, 2, 0)), (2, 1));
    assert_eq!(banks!(bank_f32, pattern(1, 4, 0)), (4, 3));
    assert_eq!(banks!(bank_f32, pattern(1, 32, 0)), (32, 31));
    // A column of a 32 x 32 tile, and the padding that removes its conflicts.
    assert_eq!(banks!(bank_f32, pattern(1, 33, 0)), (1, 0));
    // The same word for all lanes, or for groups of lanes, is read at once.
    assert_eq!(banks!(bank_f32, pattern(32, 1, 7)), (1, 0));
    assert_eq!(banks!(bank_f32, pattern(16, 1, 0)), (1, 0));
    assert_eq!(banks!(bank_f32, pattern(16, 32, 0)), (2, 1));
    assert_eq!(banks!(bank_f32, pattern(8, 32, 0)), (4, 3));
}

#[test]
fn bank_conflicts_of_halves() {
    // Two lanes share each word.
    assert_eq!(banks!(bank_u16, pattern(1, 1, 0)), (1, 0));
    assert_eq!(banks!(bank_u16, pattern(1, 2, 0)), (1, 0));
    assert_eq!(banks!(bank_u16, pattern(1, 4, 0)), (2, 1));
    assert_eq!(banks!(bank_u16, pattern(1, 64, 0)), (32, 31));
}

#[test]
fn bank_conflicts_of_eight_bytes() {
    // Two groups of 16 lanes: two wavefronts without any conflict.
    assert_eq!(banks!(bank_f32x2, pattern(1, 2, 0)), (2, 0));
    assert_eq!(banks!(bank_f64, pattern(1, 1, 0)), (2, 0));
    assert_eq!(banks!(bank_f64, pattern(32, 1, 0)), (2, 0));
    assert_eq!(banks!(bank_f64, pattern(1, 2, 0)), (4, 2));
    assert_eq!(banks!(bank_f64, pattern(1, 4, 0)), (8, 6));
    assert_eq!(banks!(bank_f64, pattern(1, 16, 0)), (32, 30));
    assert_eq!(banks!(bank_f64, pattern(1, 17, 0)), (2, 0));
}

#[test]
fn bank_conflicts_of_sixteen_bytes() {
    // Four groups of 8 lanes.
    assert_eq!(banks!(bank_f32x4, pattern(1, 4, 0)), (4, 0));
    assert_eq!(banks!(bank_f32x4, pattern(32, 4, 0)), (4, 0));
    assert_eq!(banks!(bank_f32x4, pattern(1, 8, 0)), (8, 4));
    assert_eq!(banks!(bank_f32x4, pattern(1, 16, 0)), (16, 12));
    assert_eq!(banks!(bank_f32x4, pattern(1, 32, 0)), (32, 28));
    assert_eq!(banks!(bank_f32x4, pattern(1, 36, 0)), (4, 0));
}

/// Loads and stores where the lane's index is below `lanes`.
#[kernel]
unsafe fn predicated(x: GlobalPtr<f32>, lanes: u32) {
    let i = thread::thread_idx_x();
    let inside = i < lanes;
    let memory = shared::dynamic::<f32>().add(i);
    unsafe {
        let value = x.add(i as u64).load_vec_if::<1>(inside);
        memory.store_vec_if(inside, value);
        let value = memory.load_if(inside);
        x.add(i as u64).store_if(inside, value + 1.0);
    }
}

#[test]
fn predicated_accesses() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0.0_f32; 9]);
    let c = launch!(simulator, predicated[1, 64, 36](x, 9_u32)).unwrap();
    let expected = Counters {
        global_load_requests: 1,
        global_load_elements: 9,
        global_load_bytes: 36,
        global_load_sectors: 2,
        global_store_requests: 1,
        global_store_elements: 9,
        global_store_bytes: 36,
        global_store_sectors: 2,
        shared_load_requests: 1,
        shared_load_elements: 9,
        shared_load_bytes: 36,
        shared_load_wavefronts: 1,
        shared_store_requests: 1,
        shared_store_elements: 9,
        shared_store_bytes: 36,
        shared_store_wavefronts: 1,
        shared_bytes: 36,
        ..Counters::default()
    };
    assert_eq!(c, expected);
    // The second warp, whose predicates are all false, and a launch of such warps count nothing.
    let c = launch!(simulator, predicated[1, 64, 36](x, 0_u32)).unwrap();
    assert_eq!(c, Counters { shared_bytes: 36, ..Counters::default() });
}

/// More accesses than the log of a lane holds, with lanes that leave early.
#[kernel]
unsafe fn long_loop(x: GlobalPtr<f32>, d: GlobalPtr<f32>, passes: u32) {
    let i = thread::thread_idx_x();
    if i >= 40 {
        return;
    }
    let mut sum = 0.0;
    for k in 0..passes {
        unsafe { sum = math::fma_f32(x.add((k % 4 * 32 + i % 32) as u64).load(), 2.0, sum) };
    }
    unsafe { d.add(i as u64).store(sum) };
}

#[test]
fn long_loops() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 128]);
    let d = alloc::<f32>(&simulator, 40);
    for passes in [255, 256, 257, 1000] {
        let c = launch!(simulator, long_loop[3, 64, 0](x, d, passes)).unwrap();
        let passes = passes as u64;
        assert_eq!(c.global_load_requests, 3 * 2 * passes);
        assert_eq!(c.global_load_elements, 3 * 40 * passes);
        assert_eq!(c.global_load_sectors, 3 * (4 + 1) * passes);
        assert_eq!(c.global_store_requests, 3 * 2);
        assert_eq!(c.global_store_sectors, 3 * (4 + 1));
        assert_eq!(c.fma, 3 * 40 * passes);
    }
}

/// Lanes that take different branches: each branch is a request of its own, and after it they are together again.
#[kernel]
unsafe fn diverged(x: GlobalPtr<f32>, d: GlobalPtr<f32>) {
    let i = thread::thread_idx_x();
    let mut sum = 0.0;
    unsafe {
        if i < 8 {
            sum += x.add(i as u64).load();
            sum += x.add(32 + i as u64).load();
        }
        for k in 0..i % 2 + 1 {
            sum += x.add((k * 32 + i) as u64).load();
        }
        d.add(i as u64).store(sum);
    }
}

#[test]
fn lanes_that_diverge() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 64]);
    let d = alloc::<f32>(&simulator, 32);
    let c = launch!(simulator, diverged[1, 32, 0](x, d)).unwrap();
    // Two in the branch, two passes of the loop; the store is one.
    assert_eq!(c.global_load_requests, 2 + 2);
    assert_eq!(c.global_load_elements, 8 + 8 + 32 + 16);
    assert_eq!(c.global_load_sectors, 1 + 1 + 4 + 4);
    assert_eq!((c.global_store_requests, c.global_store_sectors), (1, 4));
}

/// A long loop in which some lanes make more accesses than others, so that their logs fill at different rates.
#[kernel]
unsafe fn diverged_loop(x: GlobalPtr<f32>, d: GlobalPtr<f32>, passes: u32) {
    let i = thread::thread_idx_x();
    let mut sum = 0.0;
    for k in 0..passes {
        let row = (k % 4 * 32 + i) as u64;
        unsafe {
            if i < 8 {
                sum += x.add(row).load();
                sum += x.add(row).load();
            }
            sum += x.add(row).load();
        }
    }
    unsafe { d.add(i as u64).store(sum) };
}

#[test]
fn lanes_that_diverge_for_long() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 128]);
    let d = alloc::<f32>(&simulator, 32);
    for passes in (60..100).chain([1000, 3001]) {
        let c = launch!(simulator, diverged_loop[1, 32, 0](x, d, passes)).unwrap();
        let passes = passes as u64;
        assert_eq!(c.global_load_requests, 3 * passes);
        assert_eq!(c.global_load_elements, (8 + 8 + 32) * passes);
        assert_eq!(c.global_load_sectors, (1 + 1 + 4) * passes);
        assert_eq!(c.global_store_requests, 1);
    }
}

/// Loads in all lanes, and out of bounds in the one that is `wrong`.
#[kernel]
unsafe fn one_wrong_lane(x: GlobalPtr<f32>, wrong: u32) {
    let i = thread::thread_idx_x() as u64;
    let far = if i == wrong as u64 { 1 << 30 } else { 0 };
    unsafe {
        x.add(i).load();
        x.add(i + far).load();
    }
}

#[test]
fn a_fault_leaves_nothing_to_be_counted_later() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 32]);
    for _ in 0..20 {
        assert!(launch!(simulator, one_wrong_lane[1, 32, 0](x, 31_u32)).is_err());
        let c = launch!(simulator, one_wrong_lane[1, 8, 0](x, 31_u32)).unwrap();
        assert_eq!((c.global_load_requests, c.global_load_elements), (2, 16));
    }
}

#[kernel]
unsafe fn arithmetic(d: GlobalPtr<f64>, barriers: u32) {
    let i = thread::thread_idx_x() as u64;
    let a = 1.0 + f64::EPSILON;
    let b = 1.0 + f32::EPSILON;
    unsafe {
        for _ in 0..barriers {
            thread::sync_threads();
            warp::sync_warp(warp::FULL_MASK);
        }
        d.add(2 * i).store(math::fma_f64(a, a, -(a * a)));
        d.add(2 * i + 1).store(math::fma_f32(b, b, -(b * b)) as f64);
    }
}

#[test]
fn barriers_and_fused_multiply_adds() {
    let simulator = Simulator::new();
    let d = alloc::<f64>(&simulator, 96);
    let c = launch!(simulator, arithmetic[(2, 2), 48, 0](d, 3_u32)).unwrap();
    assert_eq!(c.block_barriers, 4 * 3);
    assert_eq!(c.warp_collectives, 4 * 3 * 2);
    assert_eq!(c.fma, 4 * 48 * 2);
    // Rounded once: the product's last bit is still there.
    let result = common::download(&simulator, d, 2);
    assert_eq!(result[0], f64::EPSILON * f64::EPSILON);
    assert_eq!(result[1], (f32::EPSILON * f32::EPSILON) as f64);
}

#[test]
fn counters_are_listed_and_added_up() {
    let one = Counters { fma: 3, global_load_bytes: 5, shared_bytes: 64, ..Counters::default() };
    let two = Counters { fma: 4, shared_bytes: 32, ..Counters::default() };
    let sum: Counters = [one, two].into_iter().sum();
    let expected =
        Counters { fma: 7, global_load_bytes: 5, shared_bytes: 64, ..Counters::default() };
    assert_eq!(sum, expected);
    let fields = sum.fields();
    assert_eq!(fields.len(), Counters::FIELDS);
    assert!(fields.contains(&("fma", 7)) && fields.contains(&("shared_bytes", 64)));
    assert_eq!(fields[0].0, "global_load_requests");
}
