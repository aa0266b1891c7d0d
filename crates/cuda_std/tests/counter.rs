//! Counts that blocks keep together: everyone's part is there when the last has arrived, waiting ends, and words that
//! are not zero before or after a launch are reported.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::{counter, kernel, thread};

const SOURCE: &str = include_str!("counter.rs");

/// Each thread adds its block's index and one, and the last of all, unless it is to be forgotten, takes the sum's place
/// back.
#[kernel]
unsafe fn add_up(counts: GlobalPtr<u32>, forgets: u32) {
    let all = thread::grid_dim_x() * thread::block_dim_x();
    unsafe {
        counter::add(counts, thread::block_idx_x() + 1);
        // More than there will ever be.
        let is_reached = counter::wait_a_while(counts, u32::MAX);
        assert!(is_reached, "nobody is to do anything else on the simulator");
        if counter::arrive(counts.add(1)) + 1 == all {
            counter::clear(counts.add(1));
            if forgets == 0 {
                counter::clear(counts);
            } else {
                counter::add(counts, 1000); // leaves
            }
        }
    }
}

#[test]
fn the_last_to_arrive_sets_counts_back() {
    let simulator = Simulator::new();
    let counts = upload(&simulator, &[0_u32; 2]);
    for blocks in [1, 2, 50_u32] {
        launch!(simulator, add_up[blocks, 64, 0](counts, 0_u32)).unwrap();
        assert_eq!(download(&simulator, counts, 2), [0, 0]);
    }
}

#[test]
fn a_count_that_is_left_is_reported() {
    let simulator = Simulator::new();
    for blocks in [1, 2, 50_u32] {
        let counts = upload(&simulator, &[0_u32; 2]);
        let fault = fault(launch!(simulator, add_up[blocks, 64, 0](counts, 1_u32)));
        let added = 64 * blocks * (blocks + 1) / 2;
        assert_eq!(fault.kind, FaultKind::SignalNotZero { value: added + 1000 });
        assert_eq!(fault.address(), Some(counts.address()));
        assert_line(&fault, SOURCE, "leaves");
    }
}

#[test]
fn a_word_that_was_not_zero_is_reported() {
    let simulator = Simulator::new();
    let counts = upload(&simulator, &[0_u32, 3]);
    let fault = fault(launch!(simulator, add_up[2, 32, 0](counts, 0_u32)));
    assert_eq!(fault.kind, FaultKind::SignalNotZero { value: 3 });
    assert_eq!(fault.address(), Some(counts.add(1).address()));
}

#[test]
fn there_is_no_count_where_there_is_no_memory() {
    let simulator = Simulator::new();
    let counts = upload(&simulator, &[0_u32]);
    let fault = fault(launch!(simulator, add_up[1, 1, 0](counts, 0_u32)));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
}
