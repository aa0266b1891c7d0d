//! Barriers and warp-collective operations that not all of their threads reach.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind, FaultKind, Simulator};
use cuda_std::{counter, kernel, shared_array, thread, warp};

const SOURCE: &str = include_str!("barriers.rs");

/// Threads from `len` on leave before the barrier.
#[kernel]
unsafe fn early_return(len: u32) {
    if thread::thread_idx_x() >= len {
        return;
    }
    unsafe { thread::sync_threads() } // barrier after return
}

#[test]
fn a_thread_that_has_left() {
    let simulator = Simulator::new();
    let fault = fault(launch!(simulator, early_return[(2, 3), 64, 0](50_u32)));
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [50, 0, 0] });
    assert_eq!((fault.kernel, fault.block, fault.thread), ("early_return", [0; 3], [0; 3]));
    assert_line(&fault, SOURCE, "barrier after return");
    let text = fault.to_string();
    assert!(text.contains("14 of its 64 threads do not reach"), "{text}");
    assert!(text.contains("thread (50,0,0) has exited"), "{text}");
    launch!(simulator, early_return[(2, 3), 64, 0](64_u32)).unwrap();
}

/// The two halves of the block wait at different barriers.
#[kernel]
unsafe fn two_barriers(middle: u32) {
    unsafe {
        if thread::thread_idx_y() < middle {
            thread::sync_threads(); // upper barrier
        } else {
            thread::sync_threads(); // lower barrier
        }
    }
}

#[test]
fn threads_at_different_barriers() {
    let simulator = Simulator::new();
    let fault = fault(launch!(simulator, two_barriers[1, (8, 8), 0](4_u32)));
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [0, 4, 0] });
    assert_eq!(fault.thread, [0; 3]);
    assert_line(&fault, SOURCE, "upper barrier");
    assert!(fault.message.contains("thread (0,4,0) waits at the block barrier at"), "{fault}");
    launch!(simulator, two_barriers[1, (8, 8), 0](8_u32)).unwrap();
    launch!(simulator, two_barriers[1, (8, 8), 0](0_u32)).unwrap();
}

/// The passes of a loop with a barrier differ by thread.
#[kernel]
unsafe fn uneven_loop(extra: u32) {
    let passes = 3 + if thread::thread_idx_x() == 7 { extra } else { 0 };
    for _ in 0..passes {
        unsafe { thread::sync_threads() }
    }
}

#[test]
fn a_loop_that_one_thread_leaves_later() {
    let simulator = Simulator::new();
    let fault = fault(launch!(simulator, uneven_loop[1, 40, 0](1_u32)));
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [0; 3] });
    assert_eq!(fault.thread, [7, 0, 0]);
    let counters = launch!(simulator, uneven_loop[5, 40, 0](0_u32)).unwrap();
    assert_eq!(counters.block_barriers, 5 * 3);
}

/// A shuffle of the whole warp that only the lanes below `lanes` execute; the others do what `instead` says.
#[kernel]
unsafe fn partial_shuffle(lanes: u32, instead: u32) {
    let lane = warp::lane_id();
    unsafe {
        if lane < lanes {
            warp::shuffle_xor(warp::FULL_MASK, lane, 1); // partial shuffle
        } else if instead == 1 {
            thread::sync_threads();
        } else if instead == 2 {
            warp::sync_warp(warp::FULL_MASK);
        }
    }
}

#[test]
fn a_shuffle_that_some_lanes_skip() {
    let simulator = Simulator::new();
    for (instead, doing) in
        [(0, "has exited"), (1, "waits at the block barrier"), (2, "waits at the warp barrier")]
    {
        let fault = fault(launch!(simulator, partial_shuffle[1, 64, 0](20_u32, instead)));
        assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [20, 0, 0] });
        assert_eq!(fault.thread, [0; 3]);
        assert_line(&fault, SOURCE, "partial shuffle");
        assert!(fault.message.contains(doing), "{fault}");
        assert!(fault.message.contains("12 of its 32 threads"), "{fault}");
    }
    let counters = launch!(simulator, partial_shuffle[1, 64, 0](32_u32, 0_u32)).unwrap();
    assert_eq!(counters.warp_collectives, 2);
}

#[kernel]
unsafe fn masked(mask: u32) {
    unsafe { warp::sync_warp(mask) } // masked barrier
}

#[test]
fn a_lane_that_its_mask_does_not_name() {
    let simulator = Simulator::new();
    let fault = fault(launch!(simulator, masked[1, 32, 0](u32::MAX - 8)));
    assert_eq!(fault.kind, FaultKind::LaneNotInMask { mask: u32::MAX - 8 });
    assert_eq!(fault.thread, [3, 0, 0]);
    assert_line(&fault, SOURCE, "masked barrier");
    launch!(simulator, masked[1, 32, 0](u32::MAX)).unwrap();
}

/// Two halves of a warp meet apart, and once together.
#[kernel]
unsafe fn halves(d: GlobalPtr<u32>) {
    let lane = warp::lane_id();
    let half = if lane < 16 { 0x0000_ffff } else { 0xffff_0000 };
    unsafe {
        let neighbour = warp::shuffle_xor(half, lane, 3);
        let opposite = warp::shuffle_xor(warp::FULL_MASK, neighbour, 16);
        d.add(lane as u64).store(opposite);
    }
}

#[test]
fn groups_of_lanes_of_one_warp() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 32);
    let counters = launch!(simulator, halves[1, 32, 0](d)).unwrap();
    assert_eq!(counters.warp_collectives, 3);
    let expected: Vec<u32> = (0..32).map(|lane| lane ^ 3 ^ 16).collect();
    assert_eq!(download(&simulator, d, 32), expected);
}

/// Thread 0 waits for memory that the last thread of its warp writes: lanes make progress while others spin.
#[kernel]
unsafe fn spin(flag: GlobalPtr<u32>) {
    unsafe {
        if thread::thread_idx_x() == 0 {
            while flag.load() != 1 {}
        }
        flag.store_if(thread::thread_idx_x() == 31, 1);
    }
}

#[test]
fn a_thread_that_spins_lets_the_others_run() {
    let simulator = Simulator::new();
    let flag = alloc::<u32>(&simulator, 1);
    launch!(simulator, spin[1, 32, 0](flag)).unwrap();
    assert_eq!(download(&simulator, flag, 1), [1]);
}

/// Thread 0 waits for memory that a thread of another warp writes.
#[kernel]
unsafe fn spin_for_another_warp(flag: GlobalPtr<u32>, meets: u32) {
    unsafe {
        if thread::thread_idx_x() < 32 {
            while flag.load() != 1 {
                if meets != 0 {
                    warp::sync_warp(warp::FULL_MASK);
                }
            }
        }
        flag.store_if(thread::thread_idx_x() == 63, 1);
    }
}

/// The same in shared memory.
#[kernel]
unsafe fn spin_in_shared() {
    let flag = shared_array!(u32; 1);
    unsafe {
        flag.store_if(thread::thread_idx_x() == 0, 0);
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            while flag.load() != 1 {}
        }
        flag.store_if(thread::thread_idx_x() == 63, 1); // store of flag
    }
}

/// Blocks of a cluster that wait for each other in global memory.
#[kernel(cluster = 2)]
unsafe fn spin_for_another_block(flags: GlobalPtr<u32>) {
    let block = u64::from(thread::block_idx_x());
    unsafe {
        for round in 1..4 {
            flags.add(block).store(round);
            while flags.add(block ^ 1).load() < round {}
        }
    }
}

#[test]
fn a_warp_that_spins_lets_other_warps_run() {
    let simulator = Simulator::new();
    for meets in [0_u32, 1] {
        let flag = upload(&simulator, &[0_u32]);
        launch!(simulator, spin_for_another_warp[1, 64, 0](flag, meets)).unwrap();
        assert_eq!(download(&simulator, flag, 1), [1]);
    }
    let flags = upload(&simulator, &[0_u32; 2]);
    launch!(simulator, spin_for_another_block[2, 1, 0](flags)).unwrap();
    assert_eq!(download(&simulator, flags, 2), [3; 2]);

    let fault = fault(launch!(simulator, spin_in_shared[1, 64, 0]()));
    let kind = FaultKind::SharedRace { other: [0; 3], other_access: AccessKind::Read };
    assert_eq!((&fault.kind, fault.thread), (&kind, [63, 0, 0]));
    assert_line(&fault, SOURCE, "store of flag");
}

/// A loop that ends with `end`, or never.
#[kernel]
unsafe fn runs_on(x: GlobalPtr<u32>, end: u32, what: u32) {
    let mut i = 0;
    unsafe {
        while i != end {
            match what {
                0 => _ = x.load(),            // load
                1 => counter::clear(x),       // count
                2 => thread::sync_threads(),  // wait
                _ => warp::sync_warp(1 << 0), // lane
            }
            i += 1;
        }
    }
}

#[test]
fn threads_that_never_end() {
    let simulator = Simulator::new();
    let limited = simulator.limiting_steps(1000);
    for (what, marker) in ["load", "count", "wait", "lane"].into_iter().enumerate() {
        let x = upload(&simulator, &[0_u32]);
        let run = |simulator: &Simulator, end: u32| launch!(simulator, runs_on[1, 1, 0](x, end, what as u32));
        run(&limited, 990).unwrap();
        run(&simulator, 1010).unwrap();
        let fault = fault(run(&limited, u32::MAX));
        assert_eq!(fault.kind, FaultKind::Endless { steps: 1000 });
        assert_line(&fault, SOURCE, marker);
    }
}
