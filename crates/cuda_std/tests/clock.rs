//! Time as kernels see it, on the simulator.
//!
//! SAFETY of the kernel's `unsafe` block: it runs on the simulator alone, which checks every access.

mod common;

use common::{download, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::Simulator;
use cuda_std::{clock, kernel, thread};
use std::time::Duration;

/// Each block notes its multiprocessor, and cycles and nanoseconds twice.
#[kernel]
unsafe fn note(to: GlobalPtr<u64>) {
    let (x, y) = (thread::block_idx_x(), thread::block_idx_y());
    let to = to.add(u64::from(y * thread::grid_dim_x() + x) * 5);
    unsafe {
        to.store(clock::multiprocessor().into());
        for i in 0..2 {
            to.add(1 + i).store(clock::cycles());
            to.add(3 + i).store(clock::nanoseconds());
        }
    }
}

#[test]
fn each_block_has_a_multiprocessor_of_its_own_and_time_goes_on() {
    let simulator = Simulator::new();
    let note = || {
        let notes = upload(&simulator, &[0_u64; 6 * 5]);
        launch!(simulator, note[(3, 2), 1, 0](notes)).unwrap();
        download(&simulator, notes, 6 * 5)
    };
    let before = note();
    std::thread::sleep(Duration::from_millis(1));
    let after = note();
    for (i, (before, after)) in before.chunks(5).zip(after.chunks(5)).enumerate() {
        assert_eq!([before[0], after[0]], [i as u64; 2]);
        for times in [&before[1..3], &before[3..], &after[1..3], &after[3..]] {
            assert!(times.is_sorted(), "{before:?}, {after:?}");
        }
        assert!(before[2] < after[1] && before[4] < after[3], "{before:?}, {after:?}");
    }
}
