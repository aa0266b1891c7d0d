//! Asynchronous copies: what arrives, what it costs, and that each way to use them wrongly is reported.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, FaultKind, Simulator, Space};
use cuda_std::{kernel, shared, shared_array, thread};

const SOURCE: &str = include_str!("async_copy.rs");

/// Threads of a block.
const THREADS: u32 = 64;

/// Stages of the pipeline.
const STAGES: u32 = 3;

/// Rows that the pipeline adds up.
const ROWS: u32 = 7;

/// What a kernel does wrong.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Mistake {
    Nothing,
    NoWait,
    NoBarrier,
    OneGroupTooMany,
    OverwritesTooEarly,
}

/// Copies the thread's element of a row to its stage, in a group of its own.
unsafe fn copy_row(stages: SharedPtr<u32>, rows: GlobalPtr<u32>, row: u32) {
    let i = thread::thread_idx_x();
    if row < ROWS {
        let target = stages.add(row % STAGES * THREADS + i);
        unsafe { copy_async::<_, 1>(target, rows.add((row * THREADS + i) as u64), true) };
    }
    commit_group();
}

/// Adds up rows; each thread the elements that its left neighbour has copied.
#[kernel]
unsafe fn pipeline(sums: GlobalPtr<u32>, rows: GlobalPtr<u32>, mistake: Mistake) {
    let stages = shared_array!(u32; STAGES * THREADS);
    let i = thread::thread_idx_x();
    let mut sum = 0;
    unsafe {
        for row in 0..STAGES - 1 {
            copy_row(stages, rows, row);
        }
        for row in 0..ROWS {
            match mistake {
                Mistake::NoWait => {}
                Mistake::OneGroupTooMany => wait_group::<2>(),
                Mistake::OverwritesTooEarly => {
                    copy_row(stages, rows, row + STAGES - 1);
                    wait_group::<2>();
                }
                Mistake::Nothing | Mistake::NoBarrier => wait_group::<1>(),
            }
            if mistake != Mistake::NoBarrier {
                thread::sync_threads();
            }
            if mistake != Mistake::OverwritesTooEarly {
                copy_row(stages, rows, row + STAGES - 1);
            }
            sum += stages.add(row % STAGES * THREADS + i.saturating_sub(1)).load(); // pipeline read
        }
        sums.add(i as u64).store(sum);
    }
}

fn run_pipeline(mistake: Mistake) -> Result<Vec<u32>, cuda_std::sim::SimError> {
    let simulator = Simulator::new();
    let rows = upload(&simulator, &Vec::from_iter(0..ROWS * THREADS));
    let sums = alloc::<u32>(&simulator, THREADS as usize);
    launch!(simulator, pipeline[2, THREADS, 0](sums, rows, mistake))?;
    Ok(download(&simulator, sums, THREADS as usize))
}

#[track_caller]
fn assert_pipeline_fault(mistake: Mistake, thread: u32, kind: FaultKind) {
    let Err(cuda_std::sim::SimError::Fault(fault)) = run_pipeline(mistake) else {
        panic!("the mistake was not found");
    };
    assert_eq!(fault.kind, kind, "{fault}");
    let address = fault.address().unwrap();
    let who = ([0; 3], [thread, 0, 0]);
    assert_access(&fault, "pipeline", who, (Space::Shared, Read, address, 4));
    assert_line(&fault, SOURCE, "pipeline read");
}

#[test]
fn a_pipeline_of_three_stages() {
    let expected =
        (0..THREADS).map(|i| (0..ROWS).map(|row| row * THREADS + i.saturating_sub(1)).sum());
    assert_eq!(run_pipeline(Mistake::Nothing).unwrap(), Vec::<u32>::from_iter(expected));
}

#[test]
fn a_wait_that_was_dropped() {
    assert_pipeline_fault(Mistake::NoWait, 0, FaultKind::AsyncNotWaited { issuer: [0; 3] });
}

#[test]
fn a_wait_that_leaves_one_group_too_many() {
    let kind = FaultKind::AsyncNotWaited { issuer: [0; 3] };
    assert_pipeline_fault(Mistake::OneGroupTooMany, 0, kind);
}

#[test]
fn a_barrier_that_was_dropped_after_the_wait() {
    let kind = FaultKind::SharedRace { other: [0; 3], other_access: Write };
    assert_pipeline_fault(Mistake::NoBarrier, 1, kind);
}

/// Thread 0 goes on to the next row and copies over what thread 1 has not read yet.
#[test]
fn a_stage_that_is_overwritten_too_early() {
    let kind = FaultKind::AsyncNotWaited { issuer: [0; 3] };
    assert_pipeline_fault(Mistake::OverwritesTooEarly, 1, kind);
}

/// All threads read an element, and the last one copies over it, after a barrier if one is wanted.
#[kernel]
unsafe fn copy_over(source: GlobalPtr<u32>, barrier: u32) {
    let value = shared_array!(u32; 1);
    let i = thread::thread_idx_x();
    unsafe {
        value.store_if(i == 0, 1);
        thread::sync_threads();
        value.load();
        if barrier != 0 {
            thread::sync_threads();
        }
        if i == THREADS - 1 {
            copy_async::<_, 1>(value, source, true); // copy over
        }
    }
}

#[test]
fn a_copy_over_what_others_read() {
    let simulator = Simulator::new();
    let source = upload(&simulator, &[1_u32]);
    let fault = fault(launch!(simulator, copy_over[1, THREADS, 0](source, 0_u32)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0; 3], other_access: Read });
    assert_eq!(fault.thread, [THREADS - 1, 0, 0]);
    assert_line(&fault, SOURCE, "copy over");
    launch!(simulator, copy_over[1, THREADS, 0](source, 1_u32)).unwrap();
}

/// What a thread does with the element that the next thread copies, between its barrier and its wait.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Meanwhile {
    Waits,
    WaitsForOtherGroups,
    Reads,
    Writes,
    Copies,
}

#[kernel]
unsafe fn meanwhile(d: GlobalPtr<u32>, source: GlobalPtr<u32>, what: Meanwhile) {
    let row = shared_array!(u32; THREADS);
    let i = thread::thread_idx_x();
    let next = (i + 1) % THREADS;
    unsafe {
        if what == Meanwhile::WaitsForOtherGroups {
            commit_group();
        }
        copy_async::<_, 1>(row.add(i), source.add(i as u64), true);
        match what {
            Meanwhile::Waits => {
                commit_group();
                wait_group::<0>();
            }
            Meanwhile::WaitsForOtherGroups => wait_group::<0>(),
            Meanwhile::Reads | Meanwhile::Writes | Meanwhile::Copies => commit_group(),
        }
        thread::sync_threads();
        match what {
            Meanwhile::Writes => row.add(next).store(0),
            Meanwhile::Copies => copy_async::<_, 1>(row.add(next), source, true),
            _ => d.add(i as u64).store(row.add(next).load()),
        }
    }
}

#[test]
fn nobody_touches_the_target_of_a_copy_under_way() {
    let simulator = Simulator::new();
    let source = upload(&simulator, &Vec::from_iter(100..100 + THREADS));
    let d = alloc::<u32>(&simulator, THREADS as usize);
    for (what, access) in [
        (Meanwhile::WaitsForOtherGroups, Read),
        (Meanwhile::Reads, Read),
        (Meanwhile::Writes, Write),
        (Meanwhile::Copies, Write),
    ] {
        let fault = fault(launch!(simulator, meanwhile[1, THREADS, 0](d, source, what)));
        assert_eq!(fault.kind, FaultKind::AsyncNotWaited { issuer: [1, 0, 0] });
        assert_eq!(fault.thread, [0; 3]);
        assert_eq!(fault.access.unwrap().kind, access);
        assert!(fault.message.contains("thread (1,0,0), which issued it"), "{fault}");
    }
    launch!(simulator, meanwhile[1, THREADS, 0](d, source, Meanwhile::Waits)).unwrap();
    assert_eq!(download(&simulator, d, 2), [101, 102]);
}

/// Changes the source between issue and wait: a GPU may copy either value.
#[kernel]
unsafe fn late_source(d: GlobalPtr<u64>, source: GlobalPtr<u64>) {
    let value = shared_array!(u64; 1);
    unsafe {
        copy_async::<_, 1>(value, source, true);
        commit_group();
        source.store(2);
        wait_group::<0>();
        d.store(value.load());
    }
}

#[test]
fn the_source_is_read_at_the_wait() {
    let simulator = Simulator::new();
    let (d, source) = (alloc::<u64>(&simulator, 1), upload(&simulator, &[1_u64]));
    launch!(simulator, late_source[1, 1, 0](d, source)).unwrap();
    assert_eq!(download(&simulator, d, 1), [2]);
}

/// The first block exits with a copy under way; the others write and read the same memory without a copy.
#[kernel]
unsafe fn exits(d: GlobalPtr<u32>, source: GlobalPtr<u32>) {
    let value = shared_array!(u32; 1);
    unsafe {
        if thread::block_idx_x() == 0 {
            copy_async::<_, 1>(value, source, true);
            commit_group();
            return;
        }
        value.store(thread::block_idx_x());
        d.add(thread::block_idx_x() as u64).store(value.load());
    }
}

#[test]
fn copies_under_way_at_the_exit_are_dropped() {
    let simulator = Simulator::new();
    let (d, source) = (alloc::<u32>(&simulator, 8), upload(&simulator, &[77_u32]));
    launch!(simulator, exits[8, 1, 0](d, source)).unwrap();
    assert_eq!(download(&simulator, d, 8)[1..], [1, 2, 3, 4, 5, 6, 7]);
}

/// Each thread copies a vector; those past `inside` and past the end of the source write zeros.
#[kernel]
unsafe fn vectors(d: GlobalPtr<f32>, source: GlobalPtr<f32>, inside: u32) {
    let row = shared::dynamic::<f32>();
    let i = 4 * thread::thread_idx_x();
    unsafe {
        copy_async::<_, 4>(row.add(i), source.add(i as u64), i < inside);
        commit_group();
        wait_group::<0>();
        d.add(i as u64).store_vec(row.add(i).load_vec::<4>());
    }
}

#[test]
fn zeros_where_the_predicate_does_not_hold_and_exact_counts() {
    let simulator = Simulator::new();
    let values = Vec::from_iter((1..=80).map(|i| i as f32));
    let (d, source) = (alloc::<f32>(&simulator, 128), upload(&simulator, &values));
    let counters = launch!(simulator, vectors[1, 32, 512](d, source, 80_u32)).unwrap();
    let result = download(&simulator, d, 128);
    assert_eq!(result[..80], values);
    assert_eq!(result[80..], [0.0; 48]);
    assert_eq!(counters.async_copies, 32);
    assert_eq!((counters.global_load_requests, counters.global_load_elements), (1, 80));
    assert_eq!((counters.global_load_bytes, counters.global_load_sectors), (320, 10));
    assert_eq!((counters.shared_store_requests, counters.shared_store_elements), (1, 128));
    assert_eq!((counters.shared_store_bytes, counters.shared_store_wavefronts), (512, 4));
    assert_eq!(counters.shared_store_conflicts, 0);

    let outside = fault(launch!(simulator, vectors[1, 32, 512](d, source, 84_u32)));
    assert_eq!(outside.kind, FaultKind::OutOfBounds);
    let address = source.address() + 320;
    assert_access(&outside, "vectors", ([0; 3], [20, 0, 0]), (Space::Global, Read, address, 16));

    let too_little = fault(launch!(simulator, vectors[1, 32, 508](d, source, 80_u32)));
    assert_eq!(too_little.kind, FaultKind::OutOfBounds);
    assert_eq!(too_little.access.unwrap().space, Space::Shared);
}

/// A vector at an address that is not a multiple of it, in one of the spaces.
#[kernel]
unsafe fn misaligned(source: GlobalPtr<f32>, target: u32, offset: u32, inside: u32) {
    let row = shared_array!(f32; 16);
    unsafe { copy_async::<_, 2>(row.add(target), source.add(offset as u64), inside != 0) }
}

#[test]
fn misaligned_vectors() {
    let simulator = Simulator::new();
    let source = upload(&simulator, &[1.0_f32; 16]);
    for (target, offset, inside, space) in
        [(1_u32, 2_u32, 1_u32, Space::Shared), (2, 1, 1, Space::Global), (2, 1, 0, Space::Global)]
    {
        let fault = fault(launch!(simulator, misaligned[1, 1, 0](source, target, offset, inside)));
        assert_eq!(fault.kind, FaultKind::Misaligned);
        assert_eq!(fault.access.unwrap().space, space);
    }
    launch!(simulator, misaligned[1, 1, 0](source, 2_u32, 2_u32, 1_u32)).unwrap();
}

/// More copies than the log of accesses holds, in few groups: they arrive in the order of the groups.
#[kernel]
unsafe fn many(d: GlobalPtr<u32>, source: GlobalPtr<u32>, len: u32) {
    let row = shared::dynamic::<u32>();
    unsafe {
        for i in 0..len {
            copy_async::<_, 1>(row.add(i), source.add(i as u64), true);
            if i % 100 == 99 {
                commit_group();
            }
        }
        wait_group::<1>();
        let arrived = (len / 100 - 1) * 100;
        d.store(row.add(arrived - 1).load());
        d.add(1).store(row.add(arrived).load()); // in the newest group
    }
}

#[test]
fn the_newest_group_is_still_under_way() {
    let simulator = Simulator::new();
    let source = upload(&simulator, &Vec::from_iter(0..400_u32));
    let d = alloc::<u32>(&simulator, 2);
    let fault = fault(launch!(simulator, many[1, 1, 1600](d, source, 400_u32)));
    assert_eq!(fault.kind, FaultKind::AsyncNotWaited { issuer: [0; 3] });
    assert_line(&fault, SOURCE, "in the newest group");
    assert_eq!(download(&simulator, d, 1), [299]);
}
