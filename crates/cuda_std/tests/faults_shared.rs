//! Broken accesses to shared memory are reported with kernel, block, thread and address; their correct twins run.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, FaultKind, Simulator, Space::Shared, limits};
use cuda_std::{kernel, shared, shared_array, thread, warp};

const SOURCE: &str = include_str!("faults_shared.rs");

/// Tells the test where a static array lies.
unsafe fn tell(address: GlobalPtr<u32>, array: SharedPtr<f32>) {
    unsafe { address.store_if(thread::thread_idx_x() == 0, array.address()) }
}

/// Reverses a row through shared memory; `shift` moves the read, `len` is that of the row.
#[kernel]
unsafe fn reverse_static(d: GlobalPtr<f32>, address: GlobalPtr<u32>, shift: u32) {
    let row = shared_array!(f32; 32);
    let i = thread::thread_idx_x();
    unsafe {
        tell(address, row);
        row.add(i).store(i as f32);
        thread::sync_threads();
        d.add(i as u64).store(row.add(31 - i + shift).load()); // reversed read
    }
}

#[test]
fn past_the_end_of_a_static_array() {
    let simulator = Simulator::new();
    let (d, address) = (alloc::<f32>(&simulator, 32), alloc::<u32>(&simulator, 1));
    let fault = fault(launch!(simulator, reverse_static[2, 32, 0](d, address, 2_u32)));
    let base = download(&simulator, address, 1)[0] as u64;
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert_access(&fault, "reverse_static", ([0; 3], [0; 3]), (Shared, Read, base + 33 * 4, 4));
    assert_line(&fault, SOURCE, "reversed read");
    assert!(fault.message.contains("8 bytes too far for the 128-byte array"), "{fault}");
}

#[test]
fn inside_a_static_array() {
    let simulator = Simulator::new();
    let (d, address) = (alloc::<f32>(&simulator, 32), alloc::<u32>(&simulator, 1));
    launch!(simulator, reverse_static[2, 32, 0](d, address, 0_u32)).unwrap();
    let expected: Vec<f32> = (0..32).rev().map(|i| i as f32).collect();
    assert_eq!(download(&simulator, d, 32), expected);
}

/// Two arrays; the first is overrun into the second.
#[kernel]
unsafe fn overrun(d: GlobalPtr<f32>, overrun: u32) {
    let first = shared_array!(f32; 32);
    let second = shared_array!(f32; 32);
    let i = thread::thread_idx_x();
    unsafe {
        second.add(i).store(2.0);
        first.add(i + overrun).store(1.0);
        thread::sync_threads();
        d.add(i as u64).store(second.add(i).load() + first.add(i).load());
    }
}

#[test]
fn from_one_static_array_into_the_next() {
    let simulator = Simulator::new();
    let d = alloc::<f32>(&simulator, 32);
    let fault = fault(launch!(simulator, overrun[1, 32, 0](d, 1_u32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert_eq!(fault.thread, [31, 0, 0]);
    launch!(simulator, overrun[1, 32, 0](d, 0_u32)).unwrap();
    assert_eq!(download(&simulator, d, 32), [3.0; 32]);
}

#[kernel]
unsafe fn fill_dynamic(elements: u32) {
    let array = shared::dynamic::<u64>();
    let mut i = thread::thread_idx_x();
    while i < elements {
        unsafe { array.add(i).store(1) };
        i += thread::block_dim_x();
    }
}

#[test]
fn past_the_end_of_dynamic_memory() {
    let simulator = Simulator::new();
    launch!(simulator, fill_dynamic[3, 16, 800](100_u32)).unwrap();
    // One byte too few for the last element.
    let fault = fault(launch!(simulator, fill_dynamic[3, 16, 799](100_u32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let base = fault.address().unwrap() - 99 * 8;
    // What is promised of the alignment, and no more: kernels shall not rely on what a GPU does not give.
    assert_eq!(base % 2048, 1024);
    assert_access(&fault, "fill_dynamic", ([0; 3], [3, 0, 0]), (Shared, Write, base + 792, 8));
    assert!(fault.message.contains("1 bytes too far for the 799 bytes"), "{fault}");
}

#[test]
fn dynamic_memory_that_was_not_asked_for() {
    let fault = fault(launch!(Simulator::new(), fill_dynamic[1, 16, 0](1_u32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
}

#[kernel]
unsafe fn vector_store(offset: u32) {
    let array = shared::dynamic::<f32>();
    let i = 4 * thread::thread_idx_x();
    unsafe { array.add(i + offset).store_vec([1.0; 4]) } // shared vector
}

#[test]
fn a_misaligned_vector() {
    let simulator = Simulator::new();
    let fault = fault(launch!(simulator, vector_store[1, 16, 1024](1_u32)));
    assert_eq!(fault.kind, FaultKind::Misaligned);
    let base = fault.address().unwrap() - 4;
    // What is promised of the alignment, and no more: kernels shall not rely on what a GPU does not give.
    assert_eq!(base % 2048, 1024);
    assert_access(&fault, "vector_store", ([0; 3], [0; 3]), (Shared, Write, base + 4, 16));
    assert_line(&fault, SOURCE, "shared vector");
    launch!(simulator, vector_store[1, 16, 1024](4_u32)).unwrap();
}

/// A tile of which the last column is never written.
#[kernel]
unsafe fn partial_tile(d: GlobalPtr<f32>, written: u32) {
    let tile = shared_array!(f32; 32);
    let i = thread::thread_idx_x();
    unsafe {
        tile.add(i).store_if(i < written, 1.0);
        thread::sync_threads();
        d.add(i as u64).store(tile.add(i).load()); // tile read
    }
}

#[test]
fn a_read_of_what_nobody_wrote() {
    let simulator = Simulator::new();
    let d = alloc::<f32>(&simulator, 32);
    // A first launch writes all of it: what an earlier block left behind does not count.
    launch!(simulator, partial_tile[1, 32, 0](d, 32_u32)).unwrap();
    let fault = fault(launch!(simulator, partial_tile[1, 32, 0](d, 31_u32)));
    assert_eq!(fault.kind, FaultKind::UninitialisedShared);
    let address = fault.address().unwrap();
    assert_access(&fault, "partial_tile", ([0; 3], [31, 0, 0]), (Shared, Read, address, 4));
    assert_eq!(address % 128, 124);
    assert_line(&fault, SOURCE, "tile read");
}

/// Writes three of four bytes and reads the word.
#[kernel]
unsafe fn three_bytes(d: GlobalPtr<u32>, written: u32) {
    let word = shared_array!(u32; 1);
    unsafe {
        for i in 0..written {
            word.cast::<u8>().add(i).store(1);
        }
        d.store(word.load());
    }
}

#[test]
fn a_read_of_a_word_of_which_a_byte_is_missing() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    let fault = fault(launch!(simulator, three_bytes[1, 1, 0](d, 3_u32)));
    assert_eq!(fault.kind, FaultKind::UninitialisedShared);
    launch!(simulator, three_bytes[1, 1, 0](d, 4_u32)).unwrap();
    assert_eq!(download(&simulator, d, 1), [0x01010101]);
}

/// An array of the place in this function.
fn array_of<const N: usize>() -> SharedPtr<u32> {
    shared_array!(u32; N)
}

/// The declarations of the threads differ in length.
#[kernel]
unsafe fn two_lengths(odd: u32) {
    let i = thread::thread_idx_x();
    let array = if i == odd { array_of::<64>() } else { array_of::<32>() };
    unsafe { array.add(i).store(1) };
}

/// Each of two warps declares arrays of its own, beside one that both declare.
#[kernel]
unsafe fn arrays_of_warps(d: GlobalPtr<u32>) {
    let (i, lane) = (thread::thread_idx_x(), warp::lane_id());
    let both = shared_array!(u32; 64);
    unsafe {
        both.add(i).store(i);
        let own = if i < 32 { shared_array!(u32; 32) } else { shared_array!(u32; 16) };
        own.add(lane % 16).store_if(lane < 16, 100 + i);
        warp::sync_warp(warp::FULL_MASK);
        d.add(i.into()).store(own.add(lane % 16).load() + both.add(i).load());
    }
}

#[test]
fn static_arrays_that_some_threads_declare() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 64);
    let counters = launch!(simulator, arrays_of_warps[1, 64, 0](d)).unwrap();
    assert_eq!(counters.shared_bytes, 4 * (64 + 32 + 16));
    let expected = Vec::from_iter((0..64).map(|i| 100 + (i & 32 | (i % 16)) + i));
    assert_eq!(download(&simulator, d, 64), expected);
}

/// Each thread declares its array once a pass.
#[kernel]
unsafe fn declares_in_a_loop(passes: u32) {
    for _ in 0..passes {
        let array = shared_array!(f32; 32);
        unsafe { array.add(thread::thread_idx_x()).store(1.0) };
    }
}

#[test]
fn static_arrays_that_differ() {
    let simulator = Simulator::new();
    let different = fault(launch!(simulator, two_lengths[1, 32, 0](5_u32)));
    assert_eq!(different.kind, FaultKind::SharedMismatch);
    assert_eq!((different.kernel, different.block), ("two_lengths", [0; 3]));
    assert_eq!(different.thread, [5, 0, 0]);
    launch!(simulator, two_lengths[1, 32, 0](32_u32)).unwrap();

    let twice = fault(launch!(simulator, declares_in_a_loop[1, 32, 0](2_u32)));
    assert_eq!((twice.kind, twice.thread), (FaultKind::SharedMismatch, [0; 3]));
    launch!(simulator, declares_in_a_loop[1, 32, 0](1_u32)).unwrap();
}

#[kernel]
unsafe fn most_static() {
    let array = shared_array!(u8; limits::MAX_STATIC_SHARED);
    unsafe { array.add(thread::thread_idx_x()).store(1) };
}

#[kernel]
unsafe fn too_much_static() {
    let first = shared_array!(u8; limits::MAX_STATIC_SHARED);
    let second = shared_array!(u8; 1);
    unsafe { first.store(second.load()) };
}

#[kernel]
unsafe fn one_static() {
    let array = shared_array!(u8; 1);
    unsafe { array.store(1) };
}

#[test]
fn the_limits_of_shared_memory() {
    let simulator = Simulator::new();
    let fault_static = fault(launch!(simulator, too_much_static[1, 1, 0]()));
    assert_eq!(fault_static.kind, FaultKind::SharedLimit);
    let rest = limits::MAX_SHARED - limits::MAX_STATIC_SHARED;
    let fault_both = fault(launch!(simulator, most_static[1, 1, rest + 1]()));
    assert_eq!(fault_both.kind, FaultKind::SharedLimit);
    let counters = launch!(simulator, most_static[1, 1, rest]()).unwrap();
    assert_eq!(counters.shared_bytes, limits::MAX_SHARED as u64);
    // Dynamic memory begins a KiB behind the first byte of the other.
    let rest = limits::MAX_SHARED - 1024;
    assert_eq!(
        fault(launch!(simulator, one_static[1, 1, rest + 1]())).kind,
        FaultKind::SharedLimit
    );
    launch!(simulator, one_static[1, 1, rest]()).unwrap();
}

/// What the `lane`-th thread of a warp does does not matter here: only that the address lies in the gap at 0.
#[kernel]
unsafe fn shared_null() {
    let array = shared_array!(f32; 32);
    unsafe {
        array.store_if(warp::lane_id() == 0, 1.0);
        SharedPtr::<f32>::from_address(0).store(1.0);
    }
}

#[test]
fn shared_address_zero() {
    let fault = fault(launch!(Simulator::new(), shared_null[1, 1, 0]()));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert_access(&fault, "shared_null", ([0; 3], [0; 3]), (Shared, Write, 0, 4));
}
