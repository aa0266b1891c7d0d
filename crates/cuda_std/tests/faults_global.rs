//! Broken accesses to global memory are reported with kernel, block, thread and address; their correct twins run.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::bulk_copy::{TensorMap, load_2d};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind::*, FaultKind, Simulator, Space::Global};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::{kernel, shared, shared_array, thread};

const SOURCE: &str = include_str!("faults_global.rs");

fn global_thread() -> u64 {
    thread::block_idx_x() as u64 * thread::block_dim_x() as u64 + thread::thread_idx_x() as u64
}

/// The classic: the grid is rounded up, and the bounds check is missing.
#[kernel]
unsafe fn saxpy_unchecked(x: GlobalPtr<f32>, y: GlobalPtr<f32>, a: f32) {
    let i = global_thread();
    unsafe {
        let value = a * x.add(i).load() + y.add(i).load(); // unchecked load
        y.add(i).store(value);
    }
}

#[kernel]
unsafe fn saxpy(x: GlobalPtr<f32>, y: GlobalPtr<f32>, a: f32, len: u32) {
    let i = global_thread();
    let inside = i < len as u64;
    unsafe {
        let value = a * x.add(i).load_if(inside) + y.add(i).load_if(inside);
        y.add(i).store_if(inside, value);
    }
}

#[test]
fn a_read_past_the_end() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 100]);
    let y = upload(&simulator, &[2.0_f32; 100]);
    let fault = fault(launch!(simulator, saxpy_unchecked[4, 32, 0](x, y, 2.0_f32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let address = x.address() + 400;
    let place = ([3, 0, 0], [4, 0, 0]);
    assert_access(&fault, "saxpy_unchecked", place, (Global, Read, address, 4));
    assert_line(&fault, SOURCE, "unchecked load");
    let around = format!("0 bytes past the end of the 400-byte allocation at {:#x}", x.address());
    assert!(fault.message.contains(&around), "{fault}");
}

#[test]
fn the_bounds_check_cures_it() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 100]);
    let y = upload(&simulator, &[2.0_f32; 100]);
    launch!(simulator, saxpy[4, 32, 0](x, y, 2.0_f32, 100_u32)).unwrap();
    assert_eq!(download(&simulator, y, 100), [4.0; 100]);
}

#[kernel]
unsafe fn write_before(x: GlobalPtr<u16>) {
    let i = thread::thread_idx_x() as u64;
    unsafe { x.add(i).add(u64::MAX).store(7) } // element i - 1
}

#[test]
fn a_write_before_the_start() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0_u16; 64]);
    let fault = fault(launch!(simulator, write_before[2, 32, 0](x)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let access = (Global, Write, x.address() - 2, 2);
    assert_access(&fault, "write_before", ([0; 3], [0; 3]), access);
    assert!(
        fault.message.contains("2 bytes before the start of the 128-byte allocation"),
        "{fault}"
    );
    assert_eq!(download(&simulator, x, 64), [0; 64]);
}

#[kernel]
unsafe fn load_four(x: GlobalPtr<f32>, d: GlobalPtr<f32>, offset: u32) {
    let i = 4 * thread::thread_idx_x() as u64;
    unsafe { d.add(i).store_vec(x.add(i + offset as u64).load_vec::<4>()) } // vector
}

#[test]
fn a_vector_that_crosses_the_end() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 126]);
    let d = alloc::<f32>(&simulator, 128);
    let fault = fault(launch!(simulator, load_four[1, 32, 0](x, d, 0_u32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let access = (Global, Read, x.address() + 31 * 16, 16);
    assert_access(&fault, "load_four", ([0; 3], [31, 0, 0]), access);
    assert!(fault.message.contains("its last 8 bytes lie past the end"), "{fault}");
}

#[test]
fn a_vector_at_an_odd_element() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 256]);
    let d = alloc::<f32>(&simulator, 128);
    let fault = fault(launch!(simulator, load_four[1, 32, 0](x, d, 2_u32)));
    assert_eq!(fault.kind, FaultKind::Misaligned);
    let access = (Global, Read, x.address() + 8, 16);
    assert_access(&fault, "load_four", ([0; 3], [0; 3]), access);
    assert_line(&fault, SOURCE, "vector");
    assert!(fault.message.contains("multiple of 16"), "{fault}");
}

#[test]
fn a_vector_at_its_alignment() {
    let simulator = Simulator::new();
    let values: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let x = upload(&simulator, &values);
    let d = alloc::<f32>(&simulator, 128);
    launch!(simulator, load_four[1, 32, 0](x, d, 4_u32)).unwrap();
    assert_eq!(download(&simulator, d, 128), values[4..132]);
}

#[kernel]
unsafe fn store_pair(d: GlobalPtr<f64>, offset_bytes: u64) {
    let d = GlobalPtr::<f64>::from_address(d.address() + offset_bytes);
    unsafe { d.add(2 * thread::thread_idx_y() as u64).store_vec([1.0, 2.0]) }
}

#[test]
fn a_vector_store_at_half_its_alignment() {
    let simulator = Simulator::new();
    let d = alloc::<f64>(&simulator, 9);
    let fault = fault(launch!(simulator, store_pair[1, (1, 4), 0](d, 8_u64)));
    assert_eq!(fault.kind, FaultKind::Misaligned);
    let access = (Global, Write, d.address() + 8, 16);
    assert_access(&fault, "store_pair", ([0; 3], [0; 3]), access);
    launch!(simulator, store_pair[1, (1, 4), 0](d, 0_u64)).unwrap();
    assert_eq!(download(&simulator, d, 8), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
}

#[kernel]
unsafe fn load_four_doubles(x: GlobalPtr<f64>, d: GlobalPtr<f64>) {
    let mut values = [0.0; 4];
    unsafe {
        x.load_slice_if(true, &mut values); // wide
        d.store(values[0] + values[3]);
    }
}

/// A GPU has no such instruction, and the compiled kernel ends in a trap.
#[test]
fn a_slice_that_is_wider_than_an_access() {
    let simulator = Simulator::new();
    let (x, d) = (upload(&simulator, &[1.0_f64; 4]), alloc::<f64>(&simulator, 1));
    let fault = fault(launch!(simulator, load_four_doubles[1, 1, 0](x, d)));
    assert_access(&fault, "load_four_doubles", ([0; 3], [0; 3]), (Global, Read, x.address(), 32));
    assert_line(&fault, SOURCE, "wide");
    assert!(fault.message.contains("at most 16 bytes"), "{fault}");
}

#[test]
fn the_null_pointer() {
    let simulator = Simulator::new();
    let y = upload(&simulator, &[2.0_f32; 32]);
    let null = GlobalPtr::<f32>::null();
    let fault = fault(launch!(simulator, saxpy_unchecked[1, 32, 0](null, y, 2.0_f32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert_access(&fault, "saxpy_unchecked", ([0; 3], [0; 3]), (Global, Read, 0, 4));
    assert!(fault.message.contains("null"), "{fault}");
}

#[test]
fn memory_of_another_simulator() {
    let (simulator, other) = (Simulator::new(), Simulator::new());
    let x = upload(&other, &[1.0_f32; 32]);
    let y = upload(&simulator, &[2.0_f32; 32]);
    let fault = fault(launch!(simulator, saxpy_unchecked[1, 32, 0](x, y, 2.0_f32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let access = (Global, Read, x.address(), 4);
    assert_access(&fault, "saxpy_unchecked", ([0; 3], [0; 3]), access);
    assert!(fault.message.contains("no allocation of this simulator"), "{fault}");
    let x = upload(&simulator, &[1.0_f32; 32]);
    launch!(simulator, saxpy_unchecked[1, 32, 0](x, y, 2.0_f32)).unwrap();
    assert_eq!(download(&simulator, y, 32), [4.0; 32]);
}

#[test]
fn freed_memory() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 32]);
    let y = upload(&simulator, &[2.0_f32; 32]);
    simulator.free(x.address()).unwrap();
    let fault = fault(launch!(simulator, saxpy_unchecked[1, 32, 0](x, y, 2.0_f32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let access = (Global, Read, x.address(), 4);
    assert_access(&fault, "saxpy_unchecked", ([0; 3], [0; 3]), access);
    assert!(fault.message.contains("has been freed"), "{fault}");
}

/// Reads what nobody wrote and copies it.
#[kernel]
unsafe fn copy(x: GlobalPtr<f32>, d: GlobalPtr<f32>) {
    let i = thread::thread_idx_x() as u64;
    unsafe { d.add(i).store(x.add(i).load()) }
}

#[test]
fn fresh_memory_is_poison() {
    let simulator = Simulator::new();
    let x = alloc::<f32>(&simulator, 32);
    let d = upload(&simulator, &[0.0_f32; 32]);
    launch!(simulator, copy[1, 32, 0](x, d)).unwrap();
    assert!(download(&simulator, d, 32).iter().all(|value| value.is_nan()));
}

/// One byte a thread, so that a word is written by four threads and, at block borders, by two blocks.
#[kernel]
unsafe fn bytes(d: GlobalPtr<u8>) {
    let i = global_thread();
    unsafe { d.add(i).store(i as u8) }
}

#[test]
fn neighbouring_bytes_of_different_blocks() {
    let simulator = Simulator::new();
    let d = alloc::<u8>(&simulator, 3 * 4099 + 1);
    launch!(simulator, bytes[4099, 3, 0](d)).unwrap();
    let result = download(&simulator, d, 3 * 4099 + 1);
    let (last, written) = result.split_last().unwrap();
    assert!(written.iter().enumerate().all(|(i, &byte)| byte == i as u8));
    assert_eq!(*last, 0xff);
}

/// Loads the last word of the address space.
#[kernel]
unsafe fn load_last(from: GlobalPtr<f32>) {
    unsafe { from.load() };
}

/// Loads a box of a tensor.
#[kernel]
unsafe fn load_box(#[grid_constant] map: &TensorMap) {
    let arrived = Mbarrier::new(shared_array!(u64; 1));
    unsafe {
        arrived.init(1);
        fence_init();
        arrived.arrive_expect_tx(16);
        load_2d(shared::dynamic::<u32>(), map, [0, 0], arrived); // box
        arrived.wait(0);
    }
}

#[test]
fn ranges_that_end_where_the_address_space_does() {
    let simulator = Simulator::new();
    let x = alloc::<f32>(&simulator, 64);
    let last = GlobalPtr::<f32>::null().add(u64::MAX);
    let load = fault(launch!(simulator, load_last[1, 1, 0](last)));
    assert_eq!(load.kind, FaultKind::OutOfBounds);
    let access = (Global, Read, u64::MAX - 3, 4);
    assert_access(&load, "load_last", ([0; 3], [0; 3]), access);
    assert!(load.message.contains("no allocation of this simulator"), "{load}");

    let tensor = TiledTensor {
        element: ElementType::U32,
        address: x.address(),
        rank: 2,
        dims: [4, 1 << 32, 1, 1, 1],
        strides: [(1 << 40) - 16, 0, 0, 0],
        box_dims: [4, 1, 1, 1, 1],
        swizzle: Swizzle::None,
    };
    let map = simulator.tensor_map(&tensor).unwrap();
    let tensor = fault(launch!(simulator, load_box[1, 1, 16](map)));
    assert_eq!(tensor.kind, FaultKind::OutOfBounds);
    assert!(tensor.message.contains("no allocation of this simulator"), "{tensor}");
    assert_line(&tensor, SOURCE, "box");
}
