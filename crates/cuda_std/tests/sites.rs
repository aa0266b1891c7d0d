//! Launches that leave out one operation: the list of those that a kernel executes, and what comes of the loss of each.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{download, fault, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{Counters, FaultKind, SimError, Simulator, Site, SyncOperation};
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::{FULL_MASK, sync_warp};
use cuda_std::{kernel, shared_array, signal};

const SOURCE: &str = include_str!("sites.rs");

const THREADS: u32 = 64;

/// Reverses what the threads copy; the barrier in the middle orders nothing.
#[kernel]
unsafe fn reverse(x: GlobalPtr<u32>, y: GlobalPtr<u32>) {
    let shared: SharedPtr<u32> = shared_array!(u32; 64);
    let thread = thread_idx_x();
    unsafe {
        copy_async::<_, 1>(shared.add(thread), x.add(thread.into()), true);
        commit_group(); // commit
        sync_warp(FULL_MASK); // needless
        wait_group::<0>(); // wait
        sync_threads(); // barrier
        y.add(thread.into()).store(shared.add(THREADS - 1 - thread).load());
    }
}

/// The line that ends in a mark.
fn line_of(mark: &str) -> u32 {
    SOURCE.lines().position(|line| line.ends_with(mark)).unwrap() as u32 + 1
}

fn run(simulator: &Simulator) -> (Result<Counters, SimError>, Vec<u32>) {
    let x = upload(simulator, &(0..THREADS).collect::<Vec<_>>());
    let y = upload(simulator, &[0_u32; THREADS as usize]);
    let result = launch!(simulator, reverse[1, THREADS, 0](x, y));
    (result, download(simulator, y, THREADS as usize))
}

fn sites() -> Vec<Site> {
    let simulator = Simulator::new().noting_sites();
    run(&simulator).0.unwrap();
    simulator.sites()
}

fn site(operation: SyncOperation) -> Site {
    sites().into_iter().find(|site| site.operation == operation).unwrap()
}

#[test]
fn sites_are_told_by_operation_and_place() {
    let expected = [
        (SyncOperation::BlockBarrier, "// barrier"),
        (SyncOperation::WarpBarrier, "// needless"),
        (SyncOperation::CopyCommit, "// commit"),
        (SyncOperation::CopyWait, "// wait"),
    ];
    let expected = expected.map(|(operation, mark)| (operation, line_of(mark)));
    let found: Vec<_> =
        sites().into_iter().map(|site| (site.operation, site.location.line)).collect();
    assert_eq!(found, expected);
    let text = site(SyncOperation::CopyWait).to_string();
    assert!(
        text.starts_with("wait for asynchronous copies (crates/cuda_std/tests/sites.rs:"),
        "{text}"
    );
    assert_eq!(Simulator::new().sites(), [], "nobody notes them unasked");
}

#[test]
fn what_is_left_out_shows() {
    let without = |operation| run(&Simulator::new().skipping(site(operation)));
    let race = fault(without(SyncOperation::BlockBarrier).0).kind;
    assert!(
        matches!(race, FaultKind::SharedRace { .. } | FaultKind::UninitialisedShared),
        "{race:?}"
    );
    for operation in [SyncOperation::CopyCommit, SyncOperation::CopyWait] {
        let kind = fault(without(operation).0).kind;
        assert!(matches!(kind, FaultKind::AsyncNotWaited { .. }), "{operation}: {kind:?}");
    }
    let (result, y) = without(SyncOperation::WarpBarrier);
    result.unwrap();
    assert!(y.into_iter().eq((0..THREADS).rev()), "nobody needs it");
}

#[test]
fn launches_of_the_same_memory_leave_nothing_out() {
    let simulator = Simulator::new();
    let without = simulator.skipping(site(SyncOperation::BlockBarrier));
    run(&without).0.unwrap_err();
    run(&simulator).0.unwrap();
    run(&without).0.unwrap_err();
}

/// An arrival that expects bytes is two sites: without the one its phase never ends, without the other it ends at once.
#[kernel]
unsafe fn expects() {
    let address = shared_array!(u64; 1);
    unsafe {
        let barrier = Mbarrier::new(address);
        barrier.init(1);
        barrier.arrive_expect_tx(0); // arrival
        barrier.wait(0);
    }
}

#[test]
fn arrivals_and_what_they_expect_are_apart() {
    let simulator = Simulator::new().noting_sites();
    launch!(simulator, expects[1, 1, 0]()).unwrap();
    let here = |site: &Site| site.location.line == line_of("// arrival");
    let operations: Vec<_> =
        simulator.sites().into_iter().filter(here).map(|site| site.operation).collect();
    assert_eq!(operations, [SyncOperation::MbarrierArrival, SyncOperation::MbarrierExpectation]);
    let arrival = simulator.sites().into_iter().find(here).unwrap();
    let without = Simulator::new().skipping(arrival);
    let kind = fault(launch!(without, expects[1, 1, 0]())).kind;
    assert_eq!(kind, FaultKind::MbarrierDeadlock { missing: 1 });
}

/// The first warp asks until the second has answered, which it has before the barrier.
#[kernel]
unsafe fn asks(answer: GlobalPtr<u32>) {
    unsafe {
        if thread_idx_x() >= 32 {
            answer.store(1);
        }
        sync_threads();
        while answer.load() == 0 {
            sync_warp(FULL_MASK);
        }
    }
}

#[test]
fn nothing_goes_on_for_ever() {
    let simulator = Simulator::new().noting_sites();
    launch!(simulator, asks[1, THREADS, 0](upload(&simulator, &[0_u32]))).unwrap();
    let without = simulator.skipping(simulator.sites().swap_remove(0));
    let run = |without: &Simulator| {
        fault(launch!(without, asks[1, THREADS, 0](upload(&simulator, &[0_u32])))).kind
    };
    assert_eq!(run(&without.limiting_steps(1000)), FaultKind::Endless { steps: 1000 });
    // After a while the second warp answers, but nothing orders that.
    let kind = FaultKind::GlobalRace { block: [0; 3], thread: [THREADS - 1, 0, 0] };
    assert_eq!(run(&without), kind);
}

/// The first block leaves a row for the second.
#[kernel]
unsafe fn hands_over(row: GlobalPtr<u32>, word: GlobalPtr<u32>, result: GlobalPtr<u32>) {
    let thread = thread_idx_x();
    unsafe {
        if block_idx_x() == 0 {
            row.add(thread.into()).store(thread);
            sync_threads(); // written
            if thread == 0 {
                signal::post(word, 1); // said
            }
            return;
        }
        if thread == 0 {
            signal::wait(word, 1); // heard
            signal::clear(word); // cleared
        }
        sync_threads(); // known
        let other = row.add((THREADS - 1 - thread).into()).load();
        result.add(thread.into()).store(other);
    }
}

/// The first block sets a word to zero, by a post or without one, and the second takes that for news.
#[kernel]
unsafe fn sets_back(posts: u32, x: GlobalPtr<u32>, word: GlobalPtr<u32>) {
    unsafe {
        if block_idx_x() == 0 {
            x.store(1);
            if posts != 0 {
                signal::post(word, 0);
            } else {
                signal::clear(word);
            }
        } else {
            signal::wait(word, 0);
            x.store(x.load() + 1);
        }
    }
}

#[test]
fn a_word_that_is_cleared_says_nothing() {
    let one_at_a_time = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let run = |posts: u32| {
        let simulator = Simulator::new().noting_sites();
        let [x, word] = [(); 2].map(|()| upload(&simulator, &[0_u32]));
        one_at_a_time.install(|| launch!(simulator, sets_back[2, 1, 0](posts, x, word)))
    };
    run(1).unwrap();
    let race = FaultKind::GlobalRace { block: [0; 3], thread: [0; 3] };
    assert_eq!(fault(run(0)).kind, race);
}

#[test]
fn what_other_blocks_have_written() {
    // One block after the other: of two at a time either may come first where one does not wait for the other.
    let one_at_a_time = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let run = |simulator: &Simulator| {
        let [row, result] = [(); 2].map(|()| upload(simulator, &[u32::MAX; THREADS as usize]));
        let word = upload(simulator, &[0_u32]);
        let launched = one_at_a_time
            .install(|| launch!(simulator, hands_over[2, THREADS, 0](row, word, result)));
        (launched, download(simulator, result, THREADS as usize))
    };
    let simulator = Simulator::new().noting_sites();
    let (launched, result) = run(&simulator);
    launched.unwrap();
    assert!(result.into_iter().eq((0..THREADS).rev()));
    let block = [0; 3];
    let kind_without = |mark: &str| {
        let here = |site: &Site| site.location.line == line_of(mark);
        let site = simulator.sites().into_iter().find(here).unwrap();
        fault(run(&simulator.skipping(site)).0).kind
    };
    // The thread that sets the signal has not seen what others have written: all but its own.
    let unseen = |thread: u32| FaultKind::GlobalRace { block, thread: [thread, 0, 0] };
    assert_eq!(kind_without("// written"), unseen(THREADS - 1));
    // Only the thread that has waited knows that it has.
    assert_eq!(kind_without("// known"), unseen(THREADS - 2));
    // Without a wait the first to read is the first to know nothing.
    assert_eq!(kind_without("// heard"), unseen(THREADS - 1));
    assert_eq!(kind_without("// said"), FaultKind::SignalDeadlock { found: 0, wanted: 1 });
    assert_eq!(kind_without("// cleared"), FaultKind::SignalNotZero { value: 1 });
}
