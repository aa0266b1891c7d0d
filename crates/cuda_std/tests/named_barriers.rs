//! Barriers of some of a block's warps.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, SimError, Simulator};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, elect, lane_id, sync_warp};
use cuda_std::{cluster, kernel, named_barrier, registers, shared_array, thread};

const SOURCE: &str = include_str!("named_barriers.rs");

/// Threads of a block: two pairs of warps.
const THREADS: u32 = 4 * WARP_SIZE;

/// Threads of a pair of warps.
const PAIR: u32 = 2 * WARP_SIZE;

/// Rounds in which each pair exchanges values.
const ROUNDS: u32 = 3;

/// The threads of each pair write, meet at the pair's barrier, and read what their neighbours wrote.
#[kernel(max_threads = THREADS, min_blocks = 1)]
unsafe fn pairs(d: GlobalPtr<u32>, meets: u32, other_pair: u32) {
    let values = shared_array!(u32; THREADS);
    let i = thread::thread_idx_x();
    let pair = i / PAIR;
    let from = (i % PAIR + WARP_SIZE) % PAIR + (pair ^ other_pair) * PAIR;
    unsafe {
        registers::decrease::<24>();
        let mut value = i;
        for _ in 0..ROUNDS {
            values.add(i).store(value);
            if meets != 0 {
                named_barrier::sync(1 + pair, PAIR);
            }
            value = values.add(from).load() + 1; // read
            named_barrier::sync(1 + pair, PAIR);
        }
        registers::increase::<240>();
        d.add(i.into()).store(value);
    }
}

#[test]
fn pairs_of_warps_meet_apart() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, THREADS as usize);
    let run = |meets: u32, other: u32| launch!(simulator, pairs[1, THREADS, 0](d, meets, other));
    let counters = run(1, 0).unwrap();
    // After an odd number of rounds each thread has what its neighbour began with.
    let expected = Vec::from_iter((0..THREADS).map(|i| (i ^ WARP_SIZE) + ROUNDS));
    assert_eq!(download(&simulator, d, THREADS as usize), expected);
    assert_eq!(counters.named_barriers, u64::from(2 * 2 * ROUNDS));
    assert_eq!(counters.block_barriers, 0);
    assert_eq!(counters.shared_load_requests, u64::from(4 * ROUNDS));

    let fault = fault(run(0, 0));
    assert_eq!(fault.kind, FaultKind::UninitialisedShared, "{fault}");
    assert_line(&fault, SOURCE, "read");
}

#[test]
fn a_pair_does_not_see_what_the_other_does() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, THREADS as usize);
    let fault = fault(launch!(simulator, pairs[1, THREADS, 0](d, 1_u32, 1_u32)));
    assert_eq!(fault.kind, FaultKind::UninitialisedShared, "{fault}");
}

/// What the second pair does at a barrier at which the first one arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Arrival {
    /// Waits, and reads what the first one has written.
    Waits,
    /// The first pair reads what the second one has written, and has not waited.
    ReadsAtOnce,
    /// A warp does not come.
    OneMissing,
    /// It names another number of threads.
    OtherNumber,
    /// The first pair arrives a second time.
    Twice,
    /// The number is that of the block's own barrier.
    Zero,
    /// There is no such number.
    Sixteen,
    /// Not whole warps.
    Parts,
    /// More threads than there are.
    TooMany,
}

#[kernel]
unsafe fn arrival(d: GlobalPtr<u32>, how: Arrival) {
    let values = shared_array!(u32; THREADS);
    let i = thread::thread_idx_x();
    let barrier = match how {
        Arrival::Zero => 0,
        Arrival::Sixteen => 16,
        _ => 15,
    };
    let threads = match how {
        Arrival::Parts => THREADS - 1,
        Arrival::TooMany => THREADS + WARP_SIZE,
        Arrival::OtherNumber if i >= PAIR => PAIR,
        _ => THREADS,
    };
    unsafe {
        values.add(i).store(i);
        if i < PAIR {
            named_barrier::arrive(barrier, threads); // arrive
            if how == Arrival::Twice {
                named_barrier::arrive(barrier, threads); // twice
            }
            if how == Arrival::ReadsAtOnce {
                d.add(i.into()).store(values.add(i + PAIR).load());
            }
        } else if how != Arrival::OneMissing || i < PAIR + WARP_SIZE {
            named_barrier::sync(barrier, threads); // wait
            d.add(i.into()).store(values.add(i - PAIR).load());
        }
    }
}

#[test]
fn some_arrive_and_others_wait() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, THREADS as usize);
    let run = |how: Arrival| -> Result<Counters, SimError> {
        launch!(simulator, arrival[1, THREADS, 0](d, how))
    };
    run(Arrival::Waits).unwrap();
    let found = download(&simulator, d, THREADS as usize);
    assert_eq!(found[PAIR as usize..], Vec::from_iter(0..PAIR));

    let reads = fault(run(Arrival::ReadsAtOnce));
    assert_eq!(reads.kind, FaultKind::UninitialisedShared);
    let missing = fault(run(Arrival::OneMissing));
    assert_eq!(missing.kind, FaultKind::NamedBarrierDeadlock { missing: WARP_SIZE });
    assert_eq!(missing.thread, [PAIR, 0, 0]);
    assert_line(&missing, SOURCE, "wait");
    for (how, line) in [
        (Arrival::OtherNumber, "wait"),
        (Arrival::Twice, "twice"),
        (Arrival::Zero, "arrive"),
        (Arrival::Sixteen, "arrive"),
        (Arrival::Parts, "arrive"),
        (Arrival::TooMany, "arrive"),
    ] {
        let fault = fault(run(how));
        assert_eq!(fault.kind, FaultKind::NamedBarrierMisuse, "{how:?}");
        assert_line(&fault, SOURCE, line);
    }
}

/// A warp comes to a barrier in each round and waits only for what the others say at another one after each round, if
/// at all. Which warp it is decides who comes last in the simulator's order.
#[kernel]
unsafe fn announcements(announcer: u32, hears: u32) {
    let warp = thread::thread_idx_x() / WARP_SIZE;
    unsafe {
        for round in 0..ROUNDS {
            if warp == announcer {
                named_barrier::arrive(1, THREADS); // announce
                // Its lanes come together.
                sync_warp(FULL_MASK);
                if hears > 0 && round + 1 < ROUNDS {
                    named_barrier::sync(2, THREADS);
                }
            } else {
                named_barrier::sync(1, THREADS);
                if round + 1 < ROUNDS {
                    named_barrier::arrive(2, THREADS); // answer
                }
            }
        }
    }
}

#[test]
fn who_comes_again_has_seen_that_the_barrier_was_complete() {
    let simulator = Simulator::new();
    let run = |announcer: u32, hears: u32| launch!(simulator, announcements[1, THREADS, 0](announcer, hears));
    for announcer in 0..THREADS / WARP_SIZE {
        run(announcer, 1).unwrap();
        let fault = fault(run(announcer, 0));
        assert_eq!(fault.kind, FaultKind::NamedBarrierMisuse, "warp {announcer}");
        assert_eq!(fault.thread, [announcer * WARP_SIZE, 0, 0]);
        assert_line(&fault, SOURCE, "announce");
        // Where it comes last the barrier has been complete.
        let complete = announcer == THREADS / WARP_SIZE - 1;
        assert_eq!(fault.message.contains("has not seen"), complete, "{fault}");
    }
}

/// The same in blocks of a cluster, where a barrier of all of them comes first.
#[kernel(cluster = 2)]
unsafe fn announcements_in_clusters(announcer: u32, hears: u32) {
    unsafe {
        cluster::sync();
        announcements(announcer, hears);
        cluster::sync();
    }
}

#[test]
fn in_clusters_as_well() {
    let simulator = Simulator::new();
    for announcer in 0..THREADS / WARP_SIZE {
        let run = |hears: u32| launch!(simulator, announcements_in_clusters[2, THREADS, 0](announcer, hears));
        run(1).unwrap();
        let fault = fault(run(0));
        assert_eq!(fault.kind, FaultKind::NamedBarrierMisuse, "warp {announcer}");
        assert_line(&fault, SOURCE, "announce");
    }
}

/// Three warps come to a barrier of two.
#[kernel]
unsafe fn too_many() {
    if thread::thread_idx_x() < 3 * WARP_SIZE {
        unsafe { named_barrier::sync(1, PAIR) } // comes
    }
}

#[test]
fn a_warp_too_many() {
    let fault = fault(launch!(Simulator::new(), too_many[1, THREADS, 0]()));
    assert_eq!((&fault.kind, fault.thread), (&FaultKind::NamedBarrierMisuse, [PAIR, 0, 0]));
    assert_line(&fault, SOURCE, "comes");
    assert!(fault.message.contains("64 threads have come before"), "{fault}");
    assert!(fault.message.contains("comes for the first time"), "{fault}");
}

/// Rounds that the block's own barrier keeps apart.
#[kernel]
unsafe fn rounds_apart() {
    let warp = thread::thread_idx_x() / WARP_SIZE;
    unsafe {
        for _ in 0..ROUNDS {
            if warp == 3 {
                named_barrier::arrive(1, THREADS);
            } else {
                named_barrier::sync(1, THREADS);
            }
            thread::sync_threads();
        }
    }
}

#[test]
fn the_barrier_of_the_block_shows_that_a_named_one_was_complete() {
    launch!(Simulator::new(), rounds_apart[1, THREADS, 0]()).unwrap();
}

/// The first pair overwrites what the second one reads, after it has met it or not.
#[kernel]
unsafe fn overwrites(d: GlobalPtr<u32>, meets: u32) {
    let value = shared_array!(u32; 1);
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            value.store(5);
        }
        named_barrier::sync(1, THREADS);
        if i >= PAIR {
            d.add(i.into()).store(value.load());
            named_barrier::arrive(2, THREADS);
        } else {
            if meets != 0 {
                named_barrier::sync(2, THREADS);
            }
            if i == 0 {
                value.store(6); // overwrite
            }
        }
    }
}

#[test]
fn reads_come_before_the_barrier_they_arrive_at() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, THREADS as usize);
    let run = |meets: u32| launch!(simulator, overwrites[1, THREADS, 0](d, meets));
    run(1).unwrap();
    assert_eq!(download(&simulator, d, THREADS as usize)[PAIR as usize..], [5; PAIR as usize]);
    let fault = fault(run(0));
    // The last warp has gone on at once, and has read.
    let kind = FaultKind::SharedRace { other: [PAIR + WARP_SIZE, 0, 0], other_access: Read };
    assert_eq!(fault.kind, kind);
}

#[kernel]
unsafe fn elections(d: GlobalPtr<u32>, lanes: u32) {
    let mask = FULL_MASK << (WARP_SIZE - lanes);
    unsafe {
        if mask >> lane_id() & 1 == 1 {
            let elected = elect(mask);
            d.add(thread::thread_idx_x().into()).store(elected.into());
        }
    }
}

#[test]
fn one_lane_of_a_warp_is_elected() {
    let simulator = Simulator::new();
    for lanes in [32, 7, 1] {
        let d = alloc::<u32>(&simulator, 64);
        launch!(simulator, elections[1, 64, 0](d, lanes)).unwrap();
        let elected = download(&simulator, d, 64).iter().filter(|&&elected| elected == 1).count();
        assert_eq!(elected, 2);
    }
}
