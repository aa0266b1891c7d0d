//! Mbarriers: what parities mean, what an arrival makes visible, and that each way to use an mbarrier wrongly is
//! reported.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::async_copy::copy_async;
use cuda_std::bulk_copy::fence_shared;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, Simulator, Space};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, lane_id, sync_warp};
use cuda_std::{kernel, shared_array, thread};

const SOURCE: &str = include_str!("mbarrier.rs");

/// Threads of a block of four warps.
const THREADS: u32 = 4 * WARP_SIZE;

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
        object(0).wait(0);
        object(1).wait(0);
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

/// What a thread does between a store and a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Between {
    /// Nothing.
    Nothing,
    /// Arrives at another mbarrier.
    Arrival,
    /// A proxy fence.
    Fence,
    /// A warp barrier of its lane alone.
    WarpBarrier,
    /// Waits for a phase that is over.
    Wait,
    /// Waits for the block.
    BlockBarrier,
}

/// Thread 0 stores a header, copies a value and arrives once that has arrived; the second warp reads the value, or the
/// header.
#[kernel]
unsafe fn header(d: GlobalPtr<u32>, source: GlobalPtr<u32>, between: Between, reads: u32) {
    let (values, objects) = (shared_array!(u32; 2), shared_array!(u64; 2));
    let (full, other) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            full.init(1);
            other.init(1);
        }
        thread::sync_threads();
        if i == 0 {
            values.store(7);
            match between {
                Between::Arrival => other.arrive(),
                Between::Fence => fence_shared(),
                Between::WarpBarrier => sync_warp(1),
                Between::Wait => other.wait(1),
                Between::Nothing | Between::BlockBarrier => {}
            }
        }
        if between == Between::BlockBarrier {
            thread::sync_threads();
        }
        if i == 0 {
            copy_async::<_, 1>(values.add(1), source, true);
            full.arrive_on_copies();
        }
        if i >= WARP_SIZE {
            full.wait(0);
            d.add(i as u64).store(values.add(reads).load()); // reads header
        }
    }
}

#[test]
fn an_arrival_on_copies_hands_over_nothing_else() {
    use Between::*;
    let simulator = Simulator::new();
    let (d, source) = (alloc::<u32>(&simulator, 64), upload(&simulator, &[5_u32]));
    let run = |between: Between, reads: u32| launch!(simulator, header[1, 64, 0](d, source, between, reads));
    for between in [Nothing, Arrival, Fence, WarpBarrier, Wait, BlockBarrier] {
        run(between, 1).unwrap_or_else(|e| panic!("{between:?}: {e}"));
        if between == BlockBarrier {
            run(between, 0).unwrap();
            continue;
        }
        let fault = fault(run(between, 0));
        let kind = FaultKind::SharedRace { other: [0; 3], other_access: Write };
        assert_eq!(fault.kind, kind, "{between:?}");
        assert_line(&fault, SOURCE, "reads header");
    }
}

/// All threads arrive on their copies and wait for them, phase after phase: the arrivals of a phase say that the
/// threads have waited for the one before.
#[kernel]
unsafe fn copies_of_phases(d: GlobalPtr<u32>, source: GlobalPtr<u32>) {
    let values = shared_array!(u32; 3 * THREADS);
    let object = Mbarrier::new(shared_array!(u64; 1));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            object.init(THREADS);
        }
        thread::sync_threads();
        for phase in 0..3 {
            copy_async::<_, 1>(values.add(phase * THREADS + i), source.add(i.into()), true);
            object.arrive_on_copies();
            object.wait(phase % 2);
            let other = values.add(phase * THREADS + (i ^ WARP_SIZE));
            d.add(i.into()).store(other.load() + phase);
        }
    }
}

#[test]
fn arrivals_on_copies_show_that_their_threads_have_waited() {
    let simulator = Simulator::new();
    let source = upload(&simulator, &Vec::from_iter(0..THREADS));
    let d = alloc::<u32>(&simulator, THREADS as usize);
    launch!(simulator, copies_of_phases[1, THREADS, 0](d, source)).unwrap();
    let expected = Vec::from_iter((0..THREADS).map(|i| (i ^ WARP_SIZE) + 2));
    assert_eq!(download(&simulator, d, THREADS as usize), expected);
}

/// As [`two_copies`] with one copy, which the second warp waits for; the first one reads it after a barrier of its own
/// that only what it knows itself can order.
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

/// Lane 0 waits for lane 1, that one for lane 2, and that one for an mbarrier at which another warp arrives; or lane 2
/// has left.
#[kernel]
unsafe fn one_after_another(d: GlobalPtr<u32>, leaves: u32) {
    let object = Mbarrier::new(shared_array!(u64; 1));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            object.init(1);
        }
        thread::sync_threads();
        if i < 2 {
            if i == 1 {
                inner();
            }
            sync_warp(0b011); // outer
        } else if i == 2 {
            if leaves != 0 {
                return;
            }
            object.wait(0);
            inner();
        } else if i == WARP_SIZE {
            object.arrive();
        }
        d.add(i.into()).store(i);
    }
}

/// The inner barrier in one function, so that both lanes come to the same place.
#[inline(never)]
unsafe fn inner() {
    unsafe { sync_warp(0b110) }
}

#[test]
fn lanes_that_wait_for_lanes_that_wait_for_an_mbarrier() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 64);
    launch!(simulator, one_after_another[1, 64, 0](d, 0_u32)).unwrap();
    assert_eq!(download(&simulator, d, 3), [0, 1, 2]);
    let fault = fault(launch!(simulator, one_after_another[1, 64, 0](d, 1_u32)));
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [1, 0, 0] });
    assert_eq!(fault.thread, [0; 3]);
    assert_line(&fault, SOURCE, "outer");
}

/// Elements narrower than a word, in an array that is declared when mbarriers are already in use: both warps read one
/// half of each word, and after their arrivals thread 0 overwrites that half, or the other one without them.
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

/// Lanes of the first warp read a value and arrive, each for itself; one does so the wrong way round. The second warp
/// waits and overwrites.
#[kernel]
unsafe fn each_for_itself(d: GlobalPtr<u32>, wrong: u32, half: u32) {
    let value = shared_array!(u32; 1);
    let object = Mbarrier::new(shared_array!(u64; 1));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            object.init(WARP_SIZE);
            value.store(5);
        }
        thread::sync_threads();
        if half != 0 && i == 1 {
            // The word's readers are then kept byte by byte.
            d.store(value.cast::<u16>().load().into());
        }
        if i < WARP_SIZE {
            if i == wrong {
                object.arrive();
            }
            d.add(i as u64).store(value.load());
            if i != wrong {
                object.arrive();
            }
        } else {
            object.wait(0);
            if i == WARP_SIZE {
                value.store(6); // overwrites what one reads
            }
        }
    }
}

#[test]
fn one_lane_that_arrives_before_it_has_read() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, WARP_SIZE as usize);
    for half in [0_u32, 1] {
        let run = |wrong: u32| launch!(simulator, each_for_itself[1, 64, 0](d, wrong, half));
        run(WARP_SIZE).unwrap();
        for wrong in [0, 1, 17, 31] {
            let fault = fault(run(wrong));
            let kind = FaultKind::SharedRace { other: [wrong, 0, 0], other_access: Read };
            assert_eq!(fault.kind, kind);
            assert_line(&fault, SOURCE, "overwrites what one reads");
        }
    }
}
