//! Races in shared memory are reported with both threads; the same kernels with the missing barrier run.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, FaultKind, Simulator, Space::Shared};
use cuda_std::{
    kernel, named_barrier, registers, shared, shared_array, signal, thread, warp, wgmma,
};

const SOURCE: &str = include_str!("races.rs");

/// A barrier, unless the test leaves it out.
unsafe fn barrier_if(wanted: u32) {
    if wanted != 0 {
        unsafe { thread::sync_threads() }
    }
}

/// Reverses 64 elements; the barrier between writing and reading may be missing.
#[kernel]
unsafe fn reverse(d: GlobalPtr<u32>, barrier: u32) {
    let row = shared_array!(u32; 64);
    let i = thread::thread_idx_x();
    unsafe {
        row.add(i).store(i);
        row.add(63 - i).store_if(barrier == 0, 63 - i); // second write
        barrier_if(barrier);
        d.add(i as u64).store(row.add(63 - i).load());
    }
}

#[test]
fn two_writes() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 64);
    let fault = fault(launch!(simulator, reverse[(1, 2), 64, 0](d, 0_u32)));
    // Thread 0 writes 0 and 63, thread 1 writes 1 and 62, ... thread 32 is the first to meet another's element.
    let kind = FaultKind::SharedRace { other: [31, 0, 0], other_access: Write };
    assert_eq!(fault.kind, kind);
    let address = fault.address().unwrap();
    assert_access(&fault, "reverse", ([0; 3], [32, 0, 0]), (Shared, Write, address, 4));
    assert!(fault.message.contains("thread (31,0,0), which wrote"), "{fault}");
    launch!(simulator, reverse[(1, 2), 64, 0](d, 1_u32)).unwrap();
    assert_eq!(download(&simulator, d, 64), Vec::from_iter((0..64).rev()));
}

/// Passes each element on to the next thread, round after round, through one array: a barrier is needed after the
/// writes, and another one after the reads.
#[kernel]
unsafe fn rotate(d: GlobalPtr<u32>, after_write: u32, after_read: u32) {
    let row = shared::dynamic::<u32>();
    let (i, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let mut value = i;
    for _ in 0..4 {
        unsafe {
            row.add(i).store(value); // rotate write
            barrier_if(after_write);
            value = row.add((i + threads - 1) % threads).load(); // rotate read
            barrier_if(after_read);
        }
    }
    unsafe { d.add(i as u64).store(value) };
}

#[test]
fn a_read_of_what_another_thread_writes() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 64);
    let fault = fault(launch!(simulator, write_then_read[1, 64, 0](d, 0_u32)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0, 0, 0], other_access: Write });
    let address = fault.address().unwrap();
    assert_eq!(address % 128, 0);
    assert_access(&fault, "write_then_read", ([0; 3], [1, 0, 0]), (Shared, Read, address, 4));
    assert_line(&fault, SOURCE, "neighbour read");
    launch!(simulator, write_then_read[1, 64, 0](d, 1_u32)).unwrap();
    assert_eq!(download(&simulator, d, 4), [1000, 1000, 1001, 1002]);
}

/// Each thread reads what its left neighbour wrote.
#[kernel]
unsafe fn write_then_read(d: GlobalPtr<u32>, barrier: u32) {
    let row = shared_array!(u32; 64);
    let i = thread::thread_idx_x();
    unsafe {
        row.add(i).store(1000 + i);
        barrier_if(barrier);
        d.add(i as u64).store(row.add(i.saturating_sub(1)).load()); // neighbour read
    }
}

#[test]
fn a_write_of_what_another_thread_has_read() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 64);
    let fault = fault(launch!(simulator, rotate[1, 64, 256](d, 1_u32, 0_u32)));
    // After the first barrier thread 0 reads element 63 and writes element 0, which thread 1 has not read yet: thread
    // 1 then reads what thread 0 has written.
    let kind = FaultKind::SharedRace { other: [0, 0, 0], other_access: Write };
    assert_eq!(fault.kind, kind);
    let address = fault.address().unwrap();
    assert_access(&fault, "rotate", ([0; 3], [1, 0, 0]), (Shared, Read, address, 4));
    assert_line(&fault, SOURCE, "rotate read");
    launch!(simulator, rotate[1, 64, 256](d, 1_u32, 1_u32)).unwrap();
    let expected: Vec<u32> = (0..64).map(|i| (i + 60) % 64).collect();
    assert_eq!(download(&simulator, d, 64), expected);
}

/// All threads read element 0; then `writer` writes it, after a barrier if one is wanted.
#[kernel]
unsafe fn broadcast_then_write(writer: u32, barrier: u32) {
    let value = shared_array!(u32; 1);
    let i = thread::thread_idx_x();
    unsafe {
        value.store_if(i == 0, 1);
        thread::sync_threads();
        value.load();
        barrier_if(barrier);
        value.store_if(i == writer, 2); // late write
    }
}

#[test]
fn a_write_after_reads_of_one_warp_and_of_several() {
    let simulator = Simulator::new();
    for (threads, writer, other) in [(32, 31, 0), (64, 63, 0), (96, 32, 0), (33, 32, 0)] {
        let fault = fault(launch!(simulator, broadcast_then_write[1, threads, 0](writer, 0_u32)));
        let kind = FaultKind::SharedRace { other: [other, 0, 0], other_access: Read };
        assert_eq!(fault.kind, kind, "{threads} threads");
        assert_eq!(fault.thread, [writer, 0, 0]);
        assert_line(&fault, SOURCE, "late write");
        assert!(fault.message.contains("which read there too"), "{fault}");
        launch!(simulator, broadcast_then_write[1, threads, 0](writer, 1_u32)).unwrap();
    }
}

/// Neighbouring lanes exchange values; those of `mask` wait for each other between writing and reading.
#[kernel]
unsafe fn exchange(d: GlobalPtr<u32>, mask: u32) {
    let row = shared_array!(u32; 32);
    let lane = warp::lane_id();
    unsafe {
        row.add(lane).store(0);
        thread::sync_threads();
        row.add(lane).store(lane); // exchange write
        if mask >> lane & 1 == 1 {
            warp::sync_warp(mask);
        }
        d.add(lane as u64).store(row.add(lane ^ 1).load());
    }
}

#[test]
fn an_exchange_within_a_warp() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 32);
    let unordered = fault(launch!(simulator, exchange[1, 32, 0](d, 0_u32)));
    assert_eq!(unordered.kind, FaultKind::SharedRace { other: [0; 3], other_access: Read });
    assert_eq!(unordered.thread, [1, 0, 0]);
    assert_line(&unordered, SOURCE, "exchange write");
    launch!(simulator, exchange[1, 32, 0](d, warp::FULL_MASK)).unwrap();
    let expected: Vec<u32> = (0..32).map(|lane| lane ^ 1).collect();
    assert_eq!(download(&simulator, d, 32), expected);
    // A barrier of some lanes orders those alone: lanes 30 and 31 are left out.
    let partial = fault(launch!(simulator, exchange[1, 32, 0](d, u32::MAX >> 2)));
    assert_eq!(partial.kind, FaultKind::SharedRace { other: [30, 0, 0], other_access: Read });
    assert_eq!(partial.thread, [31, 0, 0]);
}

/// A value goes from warp 0 to warp 1: a warp barrier is not enough.
#[kernel]
unsafe fn across_warps(d: GlobalPtr<u32>, block_barrier: u32) {
    let row = shared_array!(u32; 64);
    let i = thread::thread_idx_x();
    unsafe {
        row.add(i).store(i);
        warp::sync_warp(warp::FULL_MASK);
        barrier_if(block_barrier);
        d.add(i as u64).store(row.add((i + 32) % 64).load_if(i >= 32));
    }
}

#[test]
fn a_warp_barrier_does_not_order_warps() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 64);
    let fault = fault(launch!(simulator, across_warps[1, 64, 0](d, 0_u32)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0; 3], other_access: Write });
    assert_eq!(fault.thread, [32, 0, 0]);
    launch!(simulator, across_warps[1, 64, 0](d, 1_u32)).unwrap();
    assert_eq!(download(&simulator, d, 64)[32..], Vec::from_iter(0..32));
}

/// The steps of a reduction within a warp, through shared memory, ordered by a warp barrier or only by a shuffle.
#[kernel]
unsafe fn reduce_shared(d: GlobalPtr<u32>, barrier: u32) {
    let row = shared_array!(u32; 32);
    let lane = warp::lane_id();
    unsafe {
        row.add(lane).store(lane);
        for step in [16, 8, 4, 2, 1] {
            sync_or_shuffle(barrier);
            let other = row.add((lane + step) % 32).load_if(lane < step);
            sync_or_shuffle(barrier);
            let sum = row.add(lane).load_if(lane < step) + other;
            row.add(lane).store_if(lane < step, sum);
        }
        d.store_if(lane == 0, row.load_if(lane == 0));
    }
}

unsafe fn sync_or_shuffle(barrier: u32) {
    unsafe {
        if barrier != 0 {
            warp::sync_warp(warp::FULL_MASK)
        } else {
            warp::shuffle_xor(warp::FULL_MASK, 0_u32, 1);
        }
    }
}

#[test]
fn a_shuffle_is_no_memory_barrier() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    let fault = fault(launch!(simulator, reduce_shared[1, 32, 0](d, 0_u32)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [16, 0, 0], other_access: Write });
    launch!(simulator, reduce_shared[1, 32, 0](d, 1_u32)).unwrap();
    assert_eq!(download(&simulator, d, 1), [(0..32).sum::<u32>()]);
}

/// Neighbouring bytes and halves of one word belong to different threads: that is no race.
#[kernel]
unsafe fn narrow(d: GlobalPtr<u16>, overlap: u32) {
    let bytes = shared_array!(u8; 64);
    let halves: SharedPtr<u16> = bytes.cast();
    let i = thread::thread_idx_x();
    unsafe {
        bytes.add(i).store(i as u8);
        bytes.add(32 + i - overlap).store(i as u8);
        thread::sync_threads();
        d.add(i as u64).store(halves.add(i).load());
    }
}

#[test]
fn narrow_elements_of_one_word() {
    let simulator = Simulator::new();
    let d = alloc::<u16>(&simulator, 32);
    launch!(simulator, narrow[1, 32, 0](d, 0_u32)).unwrap();
    assert_eq!(download(&simulator, d, 2), [0x0100, 0x0302]);
    let fault = fault(launch!(simulator, narrow[1, 32, 0](d, 1_u32)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0; 3], other_access: Write });
    assert_eq!(fault.thread, [31, 0, 0]);
}

/// Lanes 2 and 0 read, lane 0 after it has met lane 3, which then meets lane 2 as well and writes: of lane 0 it knows
/// only what came before.
#[kernel]
unsafe fn reads_at_two_clocks(d: GlobalPtr<u32>, meets: u32) {
    let value = shared_array!(u32; 1);
    let lane = warp::lane_id();
    unsafe {
        value.store_if(lane == 9, 5);
        warp::sync_warp(warp::FULL_MASK);
        if lane == 2 {
            d.store(value.load());
        }
        if lane == 0 || lane == 3 {
            warp::sync_warp(0b1001);
        }
        if lane == 0 {
            d.store(value.load());
        }
        if lane == 2 || lane == 3 {
            warp::sync_warp(0b1100);
        }
        if meets != 0 && (lane == 0 || lane == 3) {
            warp::sync_warp(0b1001);
        }
        if lane == 3 {
            value.store(6); // writes
        }
    }
}

#[test]
fn lanes_that_have_read_at_clocks_that_differ() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    let run = |meets: u32| launch!(simulator, reads_at_two_clocks[1, 32, 0](d, meets));
    run(1).unwrap();
    let fault = fault(run(0));
    let kind = FaultKind::SharedRace { other: [0; 3], other_access: Read };
    assert_eq!(fault.kind, kind);
    assert_line(&fault, SOURCE, "writes");
}

/// What warps wait for between reads and the first named barrier after them.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum WaitsFor {
    Nothing,
    Warpgroup,
    Registers,
    Signal,
}

/// All warps read what the first one overwrites, which has met them in between or not.
#[kernel(max_threads = wgmma::THREADS, max_registers = 64)]
unsafe fn read_and_overwrite(d: GlobalPtr<u32>, word: GlobalPtr<u32>, waits: WaitsFor, meets: u32) {
    let value = shared_array!(u32; 1);
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            value.store(5);
            signal::post(word, 1);
        }
        thread::sync_threads();
        d.add(i.into()).store(value.load());
        match waits {
            WaitsFor::Nothing => {}
            WaitsFor::Warpgroup => wgmma::fence(),
            WaitsFor::Registers => registers::decrease::<40>(),
            WaitsFor::Signal => signal::wait(word, 1),
        }
        if meets != 0 {
            named_barrier::sync(1, wgmma::THREADS);
        }
        if i == 0 {
            value.store(6);
            signal::clear(word);
        }
    }
}

#[test]
fn reads_before_a_wait_and_the_first_named_barrier() {
    let simulator = Simulator::new();
    let threads = wgmma::THREADS;
    let d = alloc::<u32>(&simulator, threads as usize);
    for waits in [WaitsFor::Nothing, WaitsFor::Warpgroup, WaitsFor::Registers, WaitsFor::Signal] {
        let run = |meets: u32| {
            let word = upload(&simulator, &[0_u32]);
            launch!(simulator, read_and_overwrite[1, threads, 0](d, word, waits, meets))
        };
        run(1).unwrap_or_else(|e| panic!("{waits:?}: {e}"));
        // Without a wait the first thread overwrites before any other one has read.
        let kind = fault(run(0)).kind;
        assert!(matches!(kind, FaultKind::SharedRace { .. }), "{waits:?}: {kind:?}");
    }
}

/// A thread tells one of another warp that it has written; they meet besides, or not.
#[kernel]
unsafe fn told_by_signal(d: GlobalPtr<u32>, word: GlobalPtr<u32>, meets: u32) {
    let value = shared_array!(u32; 1);
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            value.store(5);
            signal::post(word, 1);
        }
        if i == 32 {
            signal::wait(word, 1);
            signal::clear(word);
        }
        if meets != 0 {
            named_barrier::sync(1, 64);
        }
        if i == 32 {
            d.store(value.load()); // told
        }
    }
}

/// On a GPU it does: the simulator leaves that to barriers, as the documentation of signals says.
#[test]
fn a_signal_alone_does_not_order_shared_memory() {
    let simulator = Simulator::new();
    let [d, word] = [(); 2].map(|()| upload(&simulator, &[0_u32]));
    launch!(simulator, told_by_signal[1, 64, 0](d, word, 1_u32)).unwrap();
    assert_eq!(download(&simulator, d, 1), [5]);
    let fault = fault(launch!(simulator, told_by_signal[1, 64, 0](d, word, 0_u32)));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [0; 3], other_access: Write });
    assert_line(&fault, SOURCE, "told");
}
