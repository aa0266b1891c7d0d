//! Mbarriers: a ring of stages between producers and consumers, what parities mean, and that each way to use an mbarrier
//! wrongly is reported.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, SimError, Simulator, Space};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, lane_id, sync_warp};
use cuda_std::{kernel, shared_array, thread};

const SOURCE: &str = include_str!("mbarrier.rs");

/// Stages of the ring.
const STAGES: u32 = 3;

/// Elements of a stage.
const LEN: u32 = 4 * WARP_SIZE;

/// Rows that go through the ring: several phases of each stage.
const ROWS: u32 = 4 * STAGES + 1;

/// Which warp fills the ring. The simulator runs the warps one after another, so that the one that comes first waits for
/// the others or the other way round.
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
        // With stores it is a race, or runs ahead by a phase.
        let fault = ring_fault(Ring::StoresWithoutWait, producer);
        let race = matches!(fault.kind, FaultKind::SharedRace { .. });
        assert!(race || fault.kind == FaultKind::MbarrierOverrun, "{fault}");
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
        let race = matches!(fault.kind, FaultKind::SharedRace { other_access: Read, .. });
        assert!(race || fault.kind == FaultKind::MbarrierOverrun, "{fault}");
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

/// A thread that does a few things with an mbarrier for one arrival, before any other thread runs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Alone {
    /// Waits for the phase before the first.
    WaitsForPhaseBefore,
    /// Waits for the first phase, in which nobody has arrived.
    WaitsForFirst,
    /// Arrives, and waits for phase after phase.
    ArrivesAndWaits,
    /// As `ArrivesAndWaits`, but waits for the phase after the one that is over.
    WaitsForPhaseAfter,
    /// Waits for a number that is no parity.
    WaitsForTwo,
    /// Makes the mbarrier a second time.
    InitialisesTwice,
    /// Expects nobody.
    ExpectsNobody,
    /// Expects more than can be counted.
    ExpectsTooMany,
    /// Uses the 8 bytes after the mbarrier.
    Beside,
    /// Makes the mbarrier where 8 bytes are not aligned.
    Misaligned,
    /// Makes the mbarrier past the end of the array.
    Outside,
}

#[kernel]
unsafe fn alone(d: GlobalPtr<u32>, what: Alone) {
    let objects = shared_array!(u64; 2);
    let object = Mbarrier::new(objects);
    let at = |bytes: u32| Mbarrier::new(SharedPtr::from_address(objects.address() + bytes));
    unsafe {
        match what {
            Alone::ExpectsNobody => object.init(0),
            Alone::ExpectsTooMany => object.init(1 << 20),
            Alone::Misaligned => at(4).init(1),
            Alone::Outside => at(16).init(1),
            _ => object.init(1),
        }
        match what {
            Alone::WaitsForPhaseBefore => object.wait(1),
            Alone::WaitsForFirst => object.wait(0),
            Alone::ArrivesAndWaits | Alone::WaitsForPhaseAfter => {
                for phase in 0..5 {
                    object.arrive();
                    object.wait(phase & 1);
                    object.wait(phase & 1);
                }
                if what == Alone::WaitsForPhaseAfter {
                    object.wait(1); // the sixth
                }
            }
            Alone::WaitsForTwo => object.wait(2),
            Alone::InitialisesTwice => object.init(1),
            Alone::Beside => at(8).arrive(), // beside
            Alone::ExpectsNobody | Alone::ExpectsTooMany | Alone::Misaligned | Alone::Outside => {}
        }
        d.store(1);
    }
}

#[test]
fn parities_and_misuse() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    let run = |what: Alone| launch!(simulator, alone[1, 1, 0](d, what));
    let counters = run(Alone::WaitsForPhaseBefore).unwrap();
    assert_eq!((counters.mbarrier_arrivals, counters.mbarrier_waits), (0, 1));
    let counters = run(Alone::ArrivesAndWaits).unwrap();
    assert_eq!((counters.mbarrier_arrivals, counters.mbarrier_waits), (5, 10));
    for (what, kind) in [
        (Alone::WaitsForFirst, FaultKind::MbarrierDeadlock { missing: 1 }),
        (Alone::WaitsForPhaseAfter, FaultKind::MbarrierDeadlock { missing: 1 }),
        (Alone::WaitsForTwo, FaultKind::MbarrierMisuse),
        (Alone::InitialisesTwice, FaultKind::MbarrierMisuse),
        (Alone::ExpectsNobody, FaultKind::MbarrierMisuse),
        (Alone::ExpectsTooMany, FaultKind::MbarrierMisuse),
        (Alone::Beside, FaultKind::MbarrierUninitialised),
        (Alone::Misaligned, FaultKind::Misaligned),
        (Alone::Outside, FaultKind::OutOfBounds),
    ] {
        assert_eq!(fault(run(what)).kind, kind, "{what:?}");
    }
    // All that says where a fault was.
    let beside = fault(run(Alone::Beside));
    let address = beside.address().unwrap();
    assert_access(&beside, "alone", ([0; 3], [0; 3]), (Space::Shared, Write, address, 8));
    assert_line(&beside, SOURCE, "beside");
    let stuck = fault(run(Alone::WaitsForPhaseAfter));
    assert_access(&stuck, "alone", ([0; 3], [0; 3]), (Space::Shared, Read, address - 8, 8));
    assert_line(&stuck, SOURCE, "the sixth");
    assert!(stuck.message.contains("the phase of parity 1"), "{stuck}");
}

/// Thread 0 makes an mbarrier and the last thread uses it, after a block barrier if one is wanted.
#[kernel]
unsafe fn initialises(barrier: u32) {
    let object = Mbarrier::new(shared_array!(u64; 1));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            object.init(1);
        }
        if barrier != 0 {
            thread::sync_threads();
        }
        if i + 1 == thread::block_dim_x() {
            object.arrive(); // arrives
        }
    }
}

#[test]
fn a_barrier_lies_between_initialisation_and_use() {
    let simulator = Simulator::new();
    for threads in [2, THREADS] {
        launch!(simulator, initialises[1, threads, 0](1_u32)).unwrap();
        let fault = fault(launch!(simulator, initialises[1, threads, 0](0_u32)));
        assert_eq!(fault.kind, FaultKind::MbarrierUninitialised);
        assert_eq!(fault.thread, [threads - 1, 0, 0]);
        assert_line(&fault, SOURCE, "arrives");
    }
    // The next block starts without any.
    let counters = launch!(simulator, initialises[9, 64, 0](1_u32)).unwrap();
    assert_eq!((counters.mbarrier_arrivals, counters.mbarrier_waits), (9, 0));
}

/// What the threads of a block of two warps do with two mbarriers, between a block barrier and their end.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Handover {
    /// Thread 0 writes and arrives; the others wait and read.
    Waits,
    /// As `Waits`, where thread 0 writes after it has arrived.
    WritesAfterArrival,
    /// As `Waits`, but lanes of the second warp wait alone and pass it on by a warp barrier.
    OneWaitsForWarp,
    /// As `OneWaitsForWarp` without the warp barrier.
    OneWaitsForItself,
    /// The second warp learns of the write from the first one, which has waited.
    PassedOn,
    /// As `Waits`, but thread 0 lets another phase end that the waiting threads may miss.
    TwoPhases,
    /// As `Waits`, but thread 40 overwrites what others may still read.
    Overwrites,
    /// As `Waits` with a block barrier and a second phase, which it orders.
    BlockBarrier,
}

#[kernel]
unsafe fn handover(d: GlobalPtr<u32>, how: Handover) {
    let value = shared_array!(u32; 1);
    let objects = shared_array!(u64; 2);
    let (first, second) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let i = thread::thread_idx_x();
    let warp = i / WARP_SIZE;
    unsafe {
        if i == 0 {
            first.init(1);
            second.init(WARP_SIZE);
        }
        thread::sync_threads();
        if i == 0 {
            if how != Handover::WritesAfterArrival {
                value.store(7);
            }
            first.arrive();
            if how == Handover::WritesAfterArrival {
                value.store(7);
            }
            if how == Handover::TwoPhases {
                first.arrive();
                first.arrive();
            }
        }
        match how {
            Handover::OneWaitsForWarp | Handover::OneWaitsForItself if warp == 1 => {
                if lane_id() == 3 {
                    first.wait(0);
                }
                if how == Handover::OneWaitsForWarp {
                    sync_warp(FULL_MASK);
                }
            }
            Handover::PassedOn if warp == 0 => {
                first.wait(0);
                second.arrive();
            }
            Handover::PassedOn => second.wait(0),
            _ => first.wait(0),
        }
        if how == Handover::Overwrites && i == 40 {
            value.store(8); // overwrites
        } else {
            d.add(i as u64).store(value.load()); // reads
        }
        if how == Handover::BlockBarrier {
            thread::sync_threads();
            if i == 40 {
                value.store(9);
                first.arrive();
            }
            first.wait(1);
            d.add(i as u64).store(value.load());
        }
    }
}

#[test]
fn what_an_arrival_hands_over() {
    let simulator = Simulator::new();
    for (how, value) in [
        (Handover::Waits, 7),
        (Handover::OneWaitsForWarp, 7),
        (Handover::PassedOn, 7),
        (Handover::BlockBarrier, 9),
    ] {
        let d = alloc::<u32>(&simulator, 64);
        launch!(simulator, handover[1, 64, 0](d, how)).unwrap_or_else(|e| panic!("{how:?}: {e}"));
        assert_eq!(download(&simulator, d, 64), [value; 64], "{how:?}");
    }
    let d = alloc::<u32>(&simulator, 64);
    let run = |how: Handover| fault(launch!(simulator, handover[1, 64, 0](d, how)));
    let race = |other, other_access| FaultKind::SharedRace { other: [other, 0, 0], other_access };
    assert_eq!(run(Handover::WritesAfterArrival).kind, race(0, Write));
    assert_eq!(run(Handover::OneWaitsForItself).kind, race(0, Write));
    assert_eq!(run(Handover::TwoPhases).kind, FaultKind::MbarrierOverrun);
    let overwrites = run(Handover::Overwrites);
    assert_eq!((overwrites.kind.clone(), overwrites.thread), (race(0, Read), [40, 0, 0]));
    assert_line(&overwrites, SOURCE, "overwrites");
}

/// Thread 0 copies two values and arrives at an mbarrier after each; the others wait for one of them and read one.
#[kernel]
unsafe fn two_copies(d: GlobalPtr<u32>, source: GlobalPtr<u32>, waits: u32, reads: u32) {
    let values = shared_array!(u32; 2);
    let objects = shared_array!(u64; 2);
    let object = |n: u32| Mbarrier::new(objects.add(n));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            object(0).init(1);
            object(1).init(1);
        }
        thread::sync_threads();
        if i == 0 {
            for n in 0..2 {
                copy_async::<_, 1>(values.add(n), source.add(n as u64), true);
                object(n).arrive_on_copies();
            }
            source.store(100);
        }
        if waits < 2 {
            object(waits).wait(0);
        }
        d.add(i as u64).store(values.add(reads).load()); // reads one
    }
}

#[test]
fn copies_are_visible_after_the_wait_alone() {
    let simulator = Simulator::new();
    let run = |waits: u32, reads: u32| {
        let source = upload(&simulator, &[5_u32, 6]);
        let d = alloc::<u32>(&simulator, 64);
        launch!(simulator, two_copies[1, 64, 0](d, source, waits, reads))
            .map(|_| download(&simulator, d, 64))
    };
    // The first copy reads its source at the wait, when thread 0 has changed it.
    assert_eq!(run(0, 0).unwrap(), [100; 64]);
    // Whoever sees the second copy sees those that were issued before.
    assert_eq!(run(1, 0).unwrap(), [100; 64]);
    assert_eq!(run(1, 1).unwrap(), [6; 64]);
    for (waits, reads) in [(0, 1), (2, 0), (2, 1)] {
        let fault = fault(run(waits, reads).map(|_| Counters::default()));
        assert_eq!(fault.kind, FaultKind::AsyncNotWaited { issuer: [0; 3] });
        assert_line(&fault, SOURCE, "reads one");
    }
}

/// As [`two_copies`] with one copy, which the second warp waits for; the first one reads it after a barrier of its own that
/// only what it knows itself can order.
#[kernel]
unsafe fn others_wait(d: GlobalPtr<u32>, source: GlobalPtr<u32>) {
    let value = shared_array!(u32; 1);
    let objects = shared_array!(u64; 2);
    let (copied, unrelated) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            copied.init(1);
            unrelated.init(1);
        }
        thread::sync_threads();
        if i == 0 {
            copy_async::<_, 1>(value, source, true);
            copied.arrive_on_copies();
        }
        if i / WARP_SIZE == 1 {
            copied.wait(0);
        }
        if i == 2 * WARP_SIZE {
            unrelated.arrive();
        }
        if i / WARP_SIZE == 0 {
            unrelated.wait(0);
            d.add(i as u64).store(value.load()); // not waited
        }
    }
}

#[test]
fn a_wait_of_others_is_not_enough() {
    let simulator = Simulator::new();
    let (d, source) = (alloc::<u32>(&simulator, 32), upload(&simulator, &[5_u32]));
    let fault = fault(launch!(simulator, others_wait[1, 96, 0](d, source)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0; 3], other_access: Write });
    assert_line(&fault, SOURCE, "not waited");
}

/// Two lanes of a warp wait for each other's warp barrier and mbarrier.
#[kernel]
unsafe fn crossed() {
    let object = Mbarrier::new(shared_array!(u64; 1));
    unsafe {
        if thread::thread_idx_x() == 0 {
            object.init(1);
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            sync_warp(FULL_MASK);
            object.arrive();
        } else {
            object.wait(0); // crossed
            sync_warp(FULL_MASK);
        }
    }
}

#[test]
fn warp_barriers_and_mbarriers_that_wait_for_each_other() {
    let simulator = Simulator::new();
    let fault = fault(launch!(simulator, crossed[1, 32, 0]()));
    assert_eq!(fault.kind, FaultKind::MbarrierDeadlock { missing: 1 });
    assert_eq!(fault.thread, [1, 0, 0]);
    assert_line(&fault, SOURCE, "crossed");
}

/// Elements narrower than a word, in an array that is declared when mbarriers are already in use: both warps read one half of
/// each word, and after their arrivals thread 0 overwrites that half, or the other one without them.
#[kernel]
unsafe fn halves(waits: u32, overwrites: u32) {
    let objects = shared_array!(u64; 2);
    let (written, read) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            written.init(1);
            read.init(thread::block_dim_x());
        }
        thread::sync_threads();
        let values = shared_array!(u16; 2 * WARP_SIZE);
        if i == 0 {
            for n in 0..2 * WARP_SIZE {
                values.add(n).store(n as u16);
            }
            written.arrive();
        }
        written.wait(0);
        values.add(2 * lane_id()).load();
        read.arrive();
        if i == 0 {
            if waits != 0 {
                read.wait(0);
            }
            values.add(6 + overwrites).store(1); // half
        }
    }
}

#[test]
fn halves_of_words_are_told_apart() {
    let simulator = Simulator::new();
    let run = |waits: u32, overwrites: u32| launch!(simulator, halves[2, 64, 0](waits, overwrites));
    run(1, 0).unwrap();
    run(1, 1).unwrap();
    run(0, 1).unwrap();
    // Of the first warp, lanes after thread 0 have not run yet; of the second one none has.
    let fault = fault(run(0, 0));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0; 3], other_access: Write });
}
