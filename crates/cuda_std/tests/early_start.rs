//! Kernels that may begin before the launch before theirs has ended touch global memory only after they have waited for
//! that.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::async_copy::copy_async;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind::*, FaultKind, Simulator, Space::Global};
use cuda_std::{early_start, kernel, shared_array, thread};

const SOURCE: &str = include_str!("early_start.rs");

#[kernel(max_threads = 32, early_start)]
unsafe fn waits(x: GlobalPtr<f32>) {
    let x = x.add(thread::thread_idx_x() as u64);
    early_start::wait();
    unsafe { x.store(2.0 * x.load()) }
}

#[test]
fn it_runs_if_it_waits() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[3.0_f32; 64]);
    launch!(simulator, waits[1, 32, 0](x)).unwrap();
    assert_eq!(download(&simulator, x, 64)[31..33], [6.0, 3.0]);
    // Each block waits anew.
    launch!(simulator, waits[2, 32, 0](x)).unwrap();
}

#[kernel]
unsafe fn does_not_start_early(x: GlobalPtr<f32>) {
    unsafe { x.add(thread::thread_idx_x() as u64).store(1.0) }
}

#[test]
fn the_host_knows_which_kernels_may() {
    assert_eq!(
        [waits::ENTRY, does_not_start_early::ENTRY].map(|entry| entry.early_start),
        [true, false]
    );
    let simulator = Simulator::new();
    let x = alloc::<f32>(&simulator, 32);
    launch!(simulator, does_not_start_early[1, 32, 0](x)).unwrap();
}

#[kernel(early_start)]
unsafe fn reads_before(x: GlobalPtr<f32>) {
    let x = x.add(thread::thread_idx_x() as u64);
    unsafe {
        let value = x.load(); // early load
        early_start::wait();
        x.store(value);
    }
}

#[test]
fn a_read_that_is_early() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 32]);
    let fault = fault(launch!(simulator, reads_before[1, 32, 0](x)));
    assert_eq!(fault.kind, FaultKind::TooEarly);
    assert_access(&fault, "reads_before", ([0; 3], [0; 3]), (Global, Read, x.address(), 4));
    assert_line(&fault, SOURCE, "early load");
}

/// What one thread has waited for others need not see.
#[kernel(early_start)]
unsafe fn one_waits(x: GlobalPtr<f32>) {
    let thread = thread::thread_idx_x();
    if thread == 0 {
        early_start::wait();
    }
    unsafe { x.add(thread as u64).store(1.0) } // early store
}

#[test]
fn a_write_of_a_thread_that_has_not_waited() {
    let simulator = Simulator::new();
    let x = alloc::<f32>(&simulator, 32);
    let fault = fault(launch!(simulator, one_waits[1, 32, 0](x)));
    assert_eq!(fault.kind, FaultKind::TooEarly);
    let access = (Global, Write, x.address() + 4, 4);
    assert_access(&fault, "one_waits", ([0; 3], [1, 0, 0]), access);
    assert_line(&fault, SOURCE, "early store");
}

#[kernel(early_start)]
unsafe fn copies_before(x: GlobalPtr<f32>) {
    let thread = thread::thread_idx_x();
    let shared = shared_array![f32; 32];
    unsafe {
        copy_async::<f32, 1>(shared.add(thread), x.add(thread as u64), true); // early copy
        early_start::wait();
    }
}

#[test]
fn an_asynchronous_copy_that_is_early() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.0_f32; 32]);
    let fault = fault(launch!(simulator, copies_before[1, 32, 0](x)));
    assert_eq!(fault.kind, FaultKind::TooEarly);
    assert_line(&fault, SOURCE, "early copy");
}
