//! Registers that warpgroups hand over, and what happens where they do not add up.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, fault, launch};
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::wgmma::THREADS as GROUP;
use cuda_std::{kernel, registers, thread};

const SOURCE: &str = include_str!("registers.rs");

/// Threads of a block: two warpgroups that take registers and one that gives some up, 168 for each thread at the
/// launch.
const THREADS: u32 = 3 * GROUP;

/// What the block does.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum How {
    Right,
    /// The one keeps too many.
    KeepsTooMany,
    /// It gives up none.
    GivesNone,
    /// It gives up what it does not have.
    GivesUpwards,
    /// The others take fewer than they have.
    TakesDownwards,
    /// One of its warps gives up none.
    WarpMissing,
}
use How::*;

unsafe fn hand_over(how: How) {
    let i = thread::thread_idx_x();
    unsafe {
        if i < GROUP {
            match how {
                GivesNone => {}
                KeepsTooMany => registers::decrease::<48>(),
                GivesUpwards => registers::decrease::<176>(), // gives up
                WarpMissing if i < 32 => {}
                _ => registers::decrease::<40>(), // gives
            }
        } else if how == TakesDownwards {
            registers::increase::<160>(); // takes fewer
        } else {
            registers::increase::<232>(); // takes
        }
    }
}

#[kernel(max_threads = THREADS, min_blocks = 1)]
unsafe fn bounded(how: How) {
    unsafe { hand_over(how) }
}

#[kernel(max_threads = THREADS, max_registers = 168)]
unsafe fn bounded_by_itself(how: How) {
    unsafe { hand_over(how) }
}

#[kernel]
unsafe fn unbounded(how: How) {
    unsafe { hand_over(how) }
}

#[test]
fn registers_add_up() {
    let simulator = Simulator::new();
    launch!(simulator, bounded[2, THREADS, 0](Right)).unwrap();
    launch!(simulator, bounded_by_itself[2, THREADS, 0](Right)).unwrap();
    for (how, kind, thread, line) in [
        // The first of the two finds enough.
        (KeepsTooMany, FaultKind::RegistersDeadlock { missing: 8 }, 2 * GROUP, "takes"),
        (GivesNone, FaultKind::RegistersDeadlock { missing: 64 }, GROUP, "takes"),
        (GivesUpwards, FaultKind::RegistersMisuse, 0, "gives up"),
        (TakesDownwards, FaultKind::RegistersMisuse, GROUP, "takes fewer"),
        (WarpMissing, FaultKind::RegistersDeadlock { missing: 64 }, GROUP, "takes"),
    ] {
        let fault = fault(launch!(simulator, bounded[1, THREADS, 0](how)));
        assert_eq!((fault.kind.clone(), fault.thread), (kind, [thread, 0, 0]), "{how:?}");
        assert_line(&fault, SOURCE, line);
    }
    let fault = fault(launch!(simulator, unbounded[1, THREADS, 0](Right)));
    assert_eq!(fault.kind, FaultKind::RegistersMisuse);
    assert_line(&fault, SOURCE, "gives");
}

/// A warp of the only warpgroup does not come.
#[kernel(max_threads = GROUP, max_registers = 64)]
unsafe fn partly() {
    if thread::thread_idx_x() < 96 {
        unsafe { registers::decrease::<40>() } // three warps
    }
}

#[test]
fn all_warps_of_a_warpgroup_hand_registers_over() {
    let fault = fault(launch!(Simulator::new(), partly[1, GROUP, 0]()));
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [96, 0, 0] });
    assert_line(&fault, SOURCE, "three warps");
}

/// A multiprocessor holds two blocks of so many threads, and not four: each thread has 32 registers.
#[kernel(max_threads = 8 * GROUP, min_blocks = 4)]
unsafe fn more_blocks_than_fit(upwards: u32) {
    unsafe {
        if upwards == 0 {
            registers::decrease::<24>();
        } else {
            registers::decrease::<40>(); // has 32
        }
    }
}

#[test]
fn blocks_that_do_not_fit_take_no_registers() {
    let run =
        |upwards: u32| launch!(Simulator::new(), more_blocks_than_fit[1, 8 * GROUP, 0](upwards));
    run(0).unwrap();
    let fault = fault(run(1));
    assert_eq!(fault.kind, FaultKind::RegistersMisuse);
    assert!(fault.message.contains("its threads have 32"), "{fault}");
    assert_line(&fault, SOURCE, "has 32");
}
