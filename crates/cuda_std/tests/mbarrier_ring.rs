//! A ring of stages between a warp that fills them and those that read them, ordered by mbarriers alone, and what
//! happens where it leaves something out.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, SimError, Simulator, Space};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, lane_id, sync_warp};
use cuda_std::{kernel, shared_array, thread};

const SOURCE: &str = include_str!("mbarrier_ring.rs");

/// Stages of the ring.
const STAGES: u32 = 3;

/// Elements of a stage.
const LEN: u32 = 4 * WARP_SIZE;

/// Rows that go through the ring: several phases of each stage.
const ROWS: u32 = 4 * STAGES + 1;

/// Which warp fills the ring. The simulator runs the warps one after another, so that the one that comes first waits
/// for the others or the other way round.
const PRODUCERS: [u32; 3] = [0, 1, 3];

/// How a ring works, and what it does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Ring {
    /// Each consumer arrives for itself.
    EachArrives,
    /// Warps gather, and their first lane arrives for them.
    WarpArrives,
    /// As `WarpArrives`, with ordinary stores into the ring.
    Stores,
    /// As `EachArrives`; the producers also wait for their copies themselves, a row later.
    WaitsForGroups,
    /// Consumers read without a wait for `full`.
    NoWaitForFull,
    /// Producers overwrite without a wait for `empty`.
    NoWaitForEmpty,
    /// The same with ordinary stores.
    StoresWithoutWait,
    /// The first lane of a warp arrives before its warp has gathered.
    ArrivesForOthers,
    /// Ordinary stores that are followed by the arrival of copies.
    StoresAsCopies,
    /// The last consumer never arrives.
    OneArrivalMissing,
    /// The first consumer arrives twice.
    OneArrivalTooMany,
}

impl Ring {
    /// Whether one lane of a warp arrives for all.
    fn gathers(self) -> bool {
        matches!(self, Ring::WarpArrives | Ring::Stores | Ring::ArrivesForOthers)
    }

    /// Whether the ring is filled with ordinary stores.
    fn stores(self) -> bool {
        matches!(self, Ring::Stores | Ring::StoresWithoutWait | Ring::StoresAsCopies)
    }
}

unsafe fn fill(how: Ring, stage: SharedPtr<u32>, row: GlobalPtr<u32>) {
    let first = lane_id() * LEN / WARP_SIZE;
    unsafe {
        if how.stores() {
            for i in first..first + LEN / WARP_SIZE {
                stage.add(i).store(row.add(i as u64).load());
            }
        } else {
            copy_async::<_, 4>(stage.add(first), row.add(first as u64), true); // copy
        }
    }
}

/// Adds up rows, columns in the order of the threads but reversed; one warp of the block, `producer`, brings them.
#[kernel]
unsafe fn ring(sums: GlobalPtr<u32>, rows: GlobalPtr<u32>, producer: u32, how: Ring) {
    let stages = shared_array!(u32; STAGES * LEN);
    let objects = shared_array!(u64; 2 * STAGES);
    let full = |row: u32| Mbarrier::new(objects.add(row % STAGES));
    let empty = |row: u32| Mbarrier::new(objects.add(STAGES + row % STAGES));
    let parity = |row: u32| row / STAGES % 2;
    let i = thread::thread_idx_x();
    let warp = i / WARP_SIZE;
    let consumer = i - if warp > producer { WARP_SIZE } else { 0 };
    let consumers = thread::block_dim_x() - WARP_SIZE;
    unsafe {
        if i == 0 {
            for stage in 0..STAGES {
                full(stage).init(WARP_SIZE);
                empty(stage).init(if how.gathers() { consumers / WARP_SIZE } else { consumers });
            }
        }
        thread::sync_threads();
        if warp == producer {
            for row in 0..ROWS {
                if !matches!(how, Ring::NoWaitForEmpty | Ring::StoresWithoutWait) {
                    empty(row).wait(1 - parity(row));
                }
                fill(how, stages.add(row % STAGES * LEN), rows.add((row * LEN) as u64));
                if matches!(how, Ring::Stores | Ring::StoresWithoutWait) {
                    full(row).arrive();
                } else {
                    full(row).arrive_on_copies(); // full
                }
                if how == Ring::WaitsForGroups {
                    commit_group();
                    wait_group::<1>();
                }
            }
            return;
        }
        let mut sum = 0;
        for row in 0..ROWS {
            if how != Ring::NoWaitForFull {
                full(row).wait(parity(row));
            }
            for column in (consumer..LEN).step_by(consumers as usize) {
                sum += stages.add(row % STAGES * LEN + LEN - 1 - column).load(); // consume
            }
            if how.gathers() {
                if how != Ring::ArrivesForOthers {
                    sync_warp(FULL_MASK);
                }
                if lane_id() == 0 {
                    empty(row).arrive();
                }
            } else if how != Ring::OneArrivalMissing || consumer + 1 < consumers {
                empty(row).arrive(); // empty
            }
            if how == Ring::OneArrivalTooMany && consumer == 0 {
                empty(row).arrive(); // again
            }
        }
        sums.add(consumer as u64).store(sum);
    }
}

/// Threads of a block with three consumer warps.
const THREADS: u32 = 4 * WARP_SIZE;

/// Threads that consume.
const CONSUMERS: u32 = THREADS - WARP_SIZE;

/// The element of a row.
fn element(row: u32, column: u32) -> u32 {
    1000 * row + column * column
}

fn run_ring(how: Ring, producer: u32) -> (Result<Counters, SimError>, Vec<u32>) {
    let simulator = Simulator::new();
    let rows = Vec::from_iter((0..ROWS * LEN).map(|i| element(i / LEN, i % LEN)));
    let rows = upload(&simulator, &rows);
    let sums = upload(&simulator, &[u32::MAX; CONSUMERS as usize]);
    let result = launch!(simulator, ring[2, THREADS, 0](sums, rows, producer, how));
    (result, download(&simulator, sums, CONSUMERS as usize))
}

#[test]
fn rings_of_three_stages() {
    let of = |consumer: u32, row: u32| -> u32 {
        (consumer..LEN)
            .step_by(CONSUMERS as usize)
            .map(|column| element(row, LEN - 1 - column))
            .sum()
    };
    let expected =
        Vec::from_iter((0..CONSUMERS).map(|c| (0..ROWS).map(|row| of(c, row)).sum::<u32>()));
    for producer in PRODUCERS {
        for how in [Ring::EachArrives, Ring::WarpArrives, Ring::Stores, Ring::WaitsForGroups] {
            let (result, sums) = run_ring(how, producer);
            let counters = result.unwrap_or_else(|e| panic!("{how:?} with {producer}: {e}"));
            assert_eq!(sums, expected, "{how:?} with {producer}");
            let blocks = 2;
            let empties = if how.gathers() { CONSUMERS / WARP_SIZE } else { CONSUMERS };
            let arrivals = (ROWS * (WARP_SIZE + empties)) as u64;
            assert_eq!(counters.mbarrier_arrivals, blocks * arrivals);
            assert_eq!(counters.mbarrier_waits, blocks * (ROWS * THREADS) as u64);
            assert_eq!(counters.block_barriers, blocks);
            if !how.stores() {
                assert_eq!(counters.async_copies, blocks * (ROWS * WARP_SIZE) as u64);
                assert_eq!(counters.shared_store_requests, blocks * ROWS as u64);
            }
            // Lanes that wait together go on together: a row takes two loads of 96 and 32 columns.
            assert_eq!(counters.shared_load_requests, blocks * ROWS as u64 * 4, "{how:?}");
        }
    }
}

/// The fault of a ring, whose copies are reported under way or as racing, depending on the order of the warps.
fn ring_fault(how: Ring, producer: u32) -> cuda_std::sim::Fault {
    fault(run_ring(how, producer).0)
}

#[test]
fn a_wait_for_full_that_was_dropped() {
    let first = ring_fault(Ring::NoWaitForFull, 0);
    assert_eq!(first.kind, FaultKind::AsyncNotWaited { issuer: [31, 0, 0] });
    assert_line(&first, SOURCE, "consume");
    // The consumers come first and find nothing at all.
    let last = ring_fault(Ring::NoWaitForFull, 3);
    assert_eq!(last.kind, FaultKind::UninitialisedShared);
}

#[test]
fn a_wait_for_empty_that_was_dropped() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::NoWaitForEmpty, producer);
        // The producer comes to the stage again, where its own copies are under way.
        assert_eq!(fault.kind, FaultKind::AsyncNotWaited { issuer: [WARP_SIZE * producer, 0, 0] });
        assert_line(&fault, SOURCE, "copy");
        // With stores its first lanes make all arrivals of the first phase, in place of the others.
        assert_eq!(ring_fault(Ring::StoresWithoutWait, producer).kind, FaultKind::MbarrierOverrun);
    }
}

#[test]
fn stores_are_not_covered_by_the_arrival_of_copies() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::StoresAsCopies, producer);
        let FaultKind::SharedRace { other: [thread, 0, 0], other_access: Write } = fault.kind
        else {
            panic!("{fault}");
        };
        assert_eq!(thread / WARP_SIZE, producer);
        assert_line(&fault, SOURCE, "consume");
    }
}

#[test]
fn an_arrival_before_the_warp_has_gathered() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::ArrivesForOthers, producer);
        // The last lane of the first consumer.
        let other = [if producer == 0 { 2 * WARP_SIZE } else { WARP_SIZE } - 1, 0, 0];
        let kind = FaultKind::SharedRace { other, other_access: Read };
        assert_eq!(fault.kind, kind, "{fault}");
    }
}

#[test]
fn an_arrival_that_never_comes() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::OneArrivalMissing, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierDeadlock { missing: 1 });
        let access = fault.access.unwrap();
        assert_eq!((access.space, access.bytes), (Space::Shared, 8));
        assert!(fault.to_string().contains("1 of its 96 arrivals"), "{fault}");
    }
}

#[test]
fn an_arrival_too_many() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::OneArrivalTooMany, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierOverrun, "{fault}");
    }
}
