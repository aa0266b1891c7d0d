//! Signals: blocks that wait for the ones before them, that it shows nowhere how many of them run at the same time, and
//! that each way to wait in vain is reported. And the hint that a value is the same in all lanes.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, SimError, Simulator, Space};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, shuffle_xor};
use cuda_std::{hint, kernel, shared_array, signal, thread};

const SOURCE: &str = include_str!("signal.rs");

/// Threads of a block of two warps.
const THREADS: u32 = 2 * WARP_SIZE;

/// Loads of a block that works while others run, on as many host threads as there are.
const WORK: u32 = 50_000;

/// What `run` gives in pools of one host thread and of more, among them more than there are blocks of some tests.
fn in_pools<R: Send>(run: impl Fn() -> R + Sync) -> Vec<R> {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    [1, 2, 3, 8, 8].into_iter().map(|threads| pool(threads).install(&run)).collect()
}

/// Signals as a launch must find them.
fn signals(simulator: &Simulator, count: usize) -> GlobalPtr<u32> {
    upload(simulator, &vec![0_u32; count])
}

/// Each block adds its numbers to the sums of the blocks before it, one a thread, which it gets through global memory.
#[kernel]
unsafe fn chain(x: GlobalPtr<u32>, sums: GlobalPtr<u32>, given: GlobalPtr<u32>) {
    let (block, i) = (thread::block_idx_x(), thread::thread_idx_x());
    let last = block + 1 == thread::grid_dim_x();
    let at = |block: u32| (block * THREADS + i) as u64;
    unsafe {
        let mut sum = x.add(at(block)).load();
        if block > 0 {
            if i == 0 {
                let given = given.add(block as u64 - 1);
                signal::wait(given, 1);
                signal::post(given, 0);
            }
            thread::sync_threads();
            sum += sums.add(at(block - 1)).load();
        }
        sums.add(at(block)).store(sum);
        thread::sync_threads();
        if i == 0 && !last {
            signal::post(given.add(block as u64), 1);
        }
    }
}

#[test]
fn a_chain_of_blocks() {
    let simulator = Simulator::new();
    for blocks in [1, 2, 7, 1000_u32] {
        let count = (blocks * THREADS) as usize;
        let values: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(i) % 1000).collect();
        let x = upload(&simulator, &values);
        let given = signals(&simulator, blocks as usize);
        let mut expected = values.clone();
        for i in THREADS as usize..count {
            expected[i] += expected[i - THREADS as usize];
        }
        let all = in_pools(|| {
            let sums = alloc::<u32>(&simulator, count);
            let counters = launch!(simulator, chain[blocks, THREADS, 0](x, sums, given)).unwrap();
            assert_eq!(download(&simulator, sums, count), expected);
            assert!(download(&simulator, given, blocks as usize).iter().all(|&word| word == 0));
            counters
        });
        let links = blocks as u64 - 1;
        for counters in all {
            assert_eq!((counters.signal_posts, counters.signal_waits), (2 * links, links));
            assert_eq!(counters.global_load_requests, 2 * (blocks as u64 + links));
            assert_eq!(counters.global_store_requests, 2 * blocks as u64);
            assert_eq!(counters.block_barriers, blocks as u64 + links);
        }
    }
}

/// What a block does wrong that waits for another one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Wrong {
    /// Nothing.
    Nothing,
    /// Block 0 waits for block 1, after having worked for as long as that one needs to post.
    WaitsForLater,
    /// Nobody posts.
    NobodyPosts,
    /// Block 0 posts another value.
    OtherValue,
    /// Nobody sets the word back.
    LeavesIt,
    /// An address between two words.
    Misaligned,
    /// Past the end of the words.
    Outside,
    /// The post is past the end of the words.
    PostsOutside,
    /// No address.
    Null,
}

#[kernel]
unsafe fn wrong(words: GlobalPtr<u32>, what: Wrong) {
    let block = thread::block_idx_x();
    let (first, second) = if what == Wrong::WaitsForLater { (1, 0) } else { (0, 1) };
    let at = match what {
        Wrong::Misaligned => GlobalPtr::from_address(words.address() + 2),
        Wrong::Outside => words.add(2),
        Wrong::Null => GlobalPtr::from_address(0),
        _ => words,
    };
    unsafe {
        if block == first && what != Wrong::NobodyPosts {
            let words = if what == Wrong::PostsOutside { words.add(2) } else { words };
            signal::post(words, if what == Wrong::OtherValue { 2 } else { 1 }); // posts
        }
        if block == second {
            let rounds = if what == Wrong::WaitsForLater { WORK } else { 0 };
            for _ in 0..rounds {
                words.add(1).load();
            }
            signal::wait(at, 1); // waits
            if what != Wrong::LeavesIt {
                signal::post(at, 0);
            }
        }
    }
}

#[test]
fn what_goes_wrong_between_two_blocks() {
    use FaultKind::{Misaligned, OutOfBounds, SignalDeadlock, SignalNotZero};
    let simulator = Simulator::new();
    for (what, kind, block, access, distance, marker) in [
        (Wrong::WaitsForLater, SignalDeadlock { found: 0, wanted: 1 }, 0, Read, 0, "waits"),
        (Wrong::NobodyPosts, SignalDeadlock { found: 0, wanted: 1 }, 1, Read, 0, "waits"),
        (Wrong::OtherValue, SignalDeadlock { found: 2, wanted: 1 }, 1, Read, 0, "waits"),
        (Wrong::LeavesIt, SignalNotZero { value: 1 }, 0, Write, 0, "posts"),
        (Wrong::Misaligned, Misaligned, 1, Read, 2, "waits"),
        (Wrong::Outside, OutOfBounds, 1, Read, 8, "waits"),
        (Wrong::PostsOutside, OutOfBounds, 0, Write, 8, "posts"),
    ] {
        let faults = in_pools(|| {
            let words = signals(&simulator, 2);
            let fault = fault(launch!(simulator, wrong[2, 1, 0](words, what)));
            let access = (Space::Global, access, words.address() + distance, 4);
            assert_access(&fault, "wrong", ([block, 0, 0], [0; 3]), access);
            fault
        });
        for fault in faults {
            assert_eq!(fault.kind, kind, "{what:?}");
            assert_line(&fault, SOURCE, marker);
        }
    }
    let words = signals(&simulator, 2);
    let fault = fault(launch!(simulator, wrong[2, 1, 0](words, Wrong::Null)));
    assert_eq!((fault.kind.clone(), fault.address()), (OutOfBounds, Some(0)));
    assert!(fault.message.contains("null"), "{fault}");
}

#[test]
fn the_message_of_a_wait_that_never_ends() {
    let simulator = Simulator::new();
    let words = signals(&simulator, 2);
    let fault = fault(launch!(simulator, wrong[2, 1, 0](words, Wrong::OtherValue)));
    assert!(fault.message.contains("waits for the value 1 of a signal that is 2"), "{fault}");
}

/// Words that a launch leaves set, or that nobody has written, are no signals.
#[test]
fn words_that_are_not_zero_before_a_launch() {
    let simulator = Simulator::new();
    let words = signals(&simulator, 2);
    in_pools(|| launch!(simulator, wrong[2, 1, 0](words, Wrong::Nothing)).unwrap());
    for (words, value) in
        [(upload(&simulator, &[1_u32, 0]), 1), (alloc::<u32>(&simulator, 2), u32::MAX)]
    {
        for fault in in_pools(|| fault(launch!(simulator, wrong[2, 1, 0](words, Wrong::Nothing)))) {
            assert_eq!(fault.kind, FaultKind::SignalNotZero { value });
            assert_eq!(fault.block, [0; 3]);
            assert_line(&fault, SOURCE, "posts");
        }
    }
}

/// Four blocks, of which the last waits with some threads and computes with the others:
///
/// - threads 0 and 1, of one warp, for the blocks 2 and 0, in the other order of their posts;
/// - thread 2 for thread 0 of its own block, which comes after the wait of that;
/// - the second warp sums up through shuffles and shared memory.
#[kernel]
unsafe fn some_wait(d: GlobalPtr<u32>, words: GlobalPtr<u32>, own: u32) {
    let (block, i) = (thread::block_idx_x(), thread::thread_idx_x());
    let values = shared_array!(u32; THREADS);
    unsafe {
        if block < 3 {
            if i == 0 {
                d.add(block as u64).store(100 + block);
                signal::post(words.add(block as u64), 7);
            }
            return;
        }
        match i {
            0 => {
                signal::wait(words.add(2), 7); // two
                signal::post(words.add(own as u64), 5);
                values.store(d.add(2).load());
            }
            1 => {
                signal::wait(words, 7);
                values.add(1).store(d.load());
            }
            2 => {
                signal::wait(words.add(3), 5); // own
                values.add(2).store(d.add(2).load());
            }
            _ if i >= WARP_SIZE => {
                let mut sum = i;
                for lanes in [1, 2, 4, 8, 16] {
                    sum += shuffle_xor(FULL_MASK, sum, lanes);
                }
                values.add(i).store(sum);
            }
            _ => values.add(i).store(0),
        }
        thread::sync_threads();
        d.add((3 + i) as u64).store(values.add(THREADS - 1 - i).load());
        if i < 4 {
            signal::post(words.add(i as u64), 0);
        }
    }
}

#[test]
fn some_threads_wait_while_others_compute() {
    let simulator = Simulator::new();
    let count = 3 + THREADS as usize;
    let words = signals(&simulator, 5);
    let all = in_pools(|| {
        let d = alloc::<u32>(&simulator, count);
        let counters = launch!(simulator, some_wait[4, THREADS, 0](d, words, 3_u32)).unwrap();
        (counters, download(&simulator, d, count))
    });
    let (counters, values) = &all[0];
    assert_eq!((counters.signal_posts, counters.signal_waits), (3 + 1 + 4, 3));
    assert_eq!(values[..3], [100, 101, 102]);
    assert_eq!(values[3..][..WARP_SIZE as usize], [(WARP_SIZE..THREADS).sum::<u32>(); 32]);
    assert_eq!(values[count - 3..], [102, 100, 102]);
    assert!(all.iter().all(|other| *other == all[0]));
}

/// The thread that waits for its own block waits for ever, while another one of its warp has got its value.
#[test]
fn a_thread_that_waits_for_its_own_block_in_vain() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 3 + THREADS as usize);
    let all = in_pools(|| {
        let words = signals(&simulator, 5);
        let fault = fault(launch!(simulator, some_wait[4, THREADS, 0](d, words, 4_u32)));
        assert_eq!(fault.address(), Some(words.add(3).address()));
        fault
    });
    for fault in all {
        assert_eq!(fault.kind, FaultKind::SignalDeadlock { found: 0, wanted: 5 });
        assert_eq!((fault.block, fault.thread), ([3, 0, 0], [2, 0, 0]));
        assert_line(&fault, SOURCE, "own");
    }
}

/// All blocks but `fails` wait for the one before; that one works for a while and reads out of bounds.
#[kernel]
unsafe fn one_fails(d: GlobalPtr<u32>, words: GlobalPtr<u32>, fails: u32) {
    let block = thread::block_idx_x();
    unsafe {
        if block == fails {
            for _ in 0..WORK {
                d.load();
            }
            d.add(1).load(); // fails
        }
        if block > 0 {
            signal::wait(words.add(block as u64 - 1), 1);
        }
        signal::post(words.add(block as u64), 1);
    }
}

#[test]
fn blocks_that_wait_for_one_that_fails() {
    let simulator = Simulator::new();
    let d = upload(&simulator, &[0_u32]);
    for fails in [0, 5, 19_u32] {
        for _ in 0..10 {
            for fault in in_pools(|| {
                let words = signals(&simulator, 20);
                fault(launch!(simulator, one_fails[20, 1, 0](d, words, fails)))
            }) {
                assert_eq!(fault.kind, FaultKind::OutOfBounds);
                assert_eq!(fault.block, [fails, 0, 0]);
                assert_line(&fault, SOURCE, "fails");
            }
        }
    }
}

/// Launches that wait inside of one pool, none of which has all of its host threads.
#[test]
fn launches_that_share_a_pool() {
    let simulator = Simulator::new();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    pool.install(|| {
        rayon::scope(|scope| {
            for n in 0..12 {
                let simulator = &simulator;
                scope.spawn(move |_| {
                    let what = if n % 2 == 0 { Wrong::NobodyPosts } else { Wrong::Nothing };
                    let words = signals(simulator, 2);
                    let result = launch!(simulator, wrong[2, 1, 0](words, what));
                    assert_eq!(result.is_err(), n % 2 == 0, "{result:?}");
                });
            }
        });
    });
}

/// Blocks in two dimensions, each of which waits for the one above it.
#[kernel]
unsafe fn rows(words: GlobalPtr<u32>) {
    let (x, y) = (thread::block_idx_x(), thread::block_idx_y());
    let at = |y: u32| words.add((y * thread::grid_dim_x() + x) as u64);
    unsafe {
        if y > 0 {
            signal::wait(at(y - 1), y);
            signal::post(at(y - 1), 0);
        }
        if y + 1 < thread::grid_dim_y() {
            signal::post(at(y), y + 1);
        }
    }
}

#[test]
fn blocks_in_two_dimensions() {
    let simulator = Simulator::new();
    let words = signals(&simulator, 600);
    for counters in in_pools(|| launch!(simulator, rows[(30, 20), 1, 0](words)).unwrap()) {
        assert_eq!((counters.signal_posts, counters.signal_waits), (2 * 570, 570));
    }
}

/// Says that `value`, and `other` from lane `from` on, is the same everywhere; lanes from `stays` on do not come.
#[kernel]
unsafe fn same(d: GlobalPtr<u32>, value: u32, other: u32, from: u32, stays: u32) {
    let i = thread::thread_idx_x();
    if i >= stays {
        return;
    }
    let value = unsafe { hint::uniform(if i < from { value } else { other }) }; // same
    unsafe { d.add(i as u64).store(value) }
}

#[test]
fn a_value_that_is_the_same_in_all_lanes() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 50);
    let run = |threads: u32, other: u32, from: u32, stays: u32| -> Result<Counters, SimError> {
        launch!(simulator, same[1, threads, 0](d, 3_u32, other, from, stays))
    };
    // Another value in the second warp, which is not a whole one.
    let counters = run(50, 4, 32, 50).unwrap();
    assert_eq!(counters.warp_collectives, 0);
    assert_eq!(download(&simulator, d, 50), [[3; 32].as_slice(), &[4; 18]].concat());
    let differs = fault(run(32, 4, 9, 32));
    assert_eq!(differs.kind, FaultKind::NotUniform { first: 3 });
    assert_eq!(differs.thread, [9, 0, 0]);
    assert_line(&differs, SOURCE, "same");
    let missing = fault(run(32, 3, 32, 30));
    assert_eq!(missing.kind, FaultKind::DivergentBarrier { missing: [30, 0, 0] });
    // SAFETY: this thread is in no kernel.
    assert_eq!(unsafe { hint::uniform(8) }, 8);
}
