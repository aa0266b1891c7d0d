//! What blocks of a cluster do with each other besides copies: barriers of the cluster, arrivals at each other's
//! mbarriers, signals.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::{cluster, kernel, shared_array, signal, thread};

const SOURCE: &str = include_str!("cluster_barriers.rs");

/// Blocks of a cluster, clusters of a launch, and threads of a block.
const BLOCKS: u32 = 2;
const CLUSTERS: u32 = 2;
const THREADS: u32 = 96;

/// How a barrier of the cluster is used.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Use {
    /// All threads but one, which has returned.
    Right,
    /// A thread waits without having arrived.
    WaitsOnly,
    /// A thread arrives twice.
    ArrivesTwice,
    /// A thread of the second block waits for its block instead.
    WaitsForItsBlock,
}

#[kernel(cluster = BLOCKS)]
unsafe fn barrier(ranks: GlobalPtr<u32>, how: Use) {
    let (i, rank) = (thread::thread_idx_x(), cluster::rank());
    let odd_one = (i, rank) == (7, 1);
    unsafe {
        if how == Use::Right && odd_one {
            return;
        }
        if how == Use::WaitsForItsBlock && odd_one {
            thread::sync_threads();
        }
        for _ in 0..3 {
            if how != Use::WaitsOnly || !odd_one {
                cluster::arrive();
            }
            if how == Use::ArrivesTwice && odd_one {
                cluster::arrive();
            }
            cluster::wait(); // wait
        }
        ranks.add((thread::block_idx_x() * THREADS + i).into()).store(rank);
    }
}

#[test]
fn barriers_of_the_cluster() {
    let run = |how: Use| {
        let simulator = Simulator::new();
        let grid = CLUSTERS * BLOCKS;
        let ranks = upload(&simulator, &vec![u32::MAX; (grid * THREADS) as usize]);
        let result = launch!(simulator, barrier[grid, THREADS, 0](ranks, how));
        (result, download(&simulator, ranks, (grid * THREADS) as usize))
    };
    let (result, ranks) = run(Use::Right);
    result.unwrap();
    for (at, rank) in ranks.into_iter().enumerate() {
        let (block, thread) = (at as u32 / THREADS, at as u32 % THREADS);
        let returned = (block % BLOCKS, thread) == (1, 7);
        assert_eq!(rank, if returned { u32::MAX } else { block % BLOCKS });
    }
    for how in [Use::WaitsOnly, Use::ArrivesTwice] {
        let fault = fault(run(how).0);
        assert_eq!((fault.kind, fault.thread), (FaultKind::ClusterMisuse, [7, 0, 0]), "{how:?}");
    }
    let fault = fault(run(Use::WaitsForItsBlock).0);
    assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [7, 0, 0] }, "{fault}");
    assert_line(&fault, SOURCE, "wait");
}

/// A thread of each block arrives at an mbarrier of the other one.
#[kernel(cluster = BLOCKS)]
unsafe fn greeting(known: bool) {
    let greeted = Mbarrier::new(shared_array!(u64; 1));
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            greeted.init(1);
        }
        if known {
            cluster::sync()
        } else {
            thread::sync_threads()
        }
        if i == 0 {
            greeted.in_block(1 - cluster::rank()).arrive(); // greet
        }
        greeted.wait(0);
    }
}

#[test]
fn arrivals_at_mbarriers_of_the_other_block() {
    let simulator = Simulator::new();
    launch!(simulator, greeting[BLOCKS, THREADS, 0](true)).unwrap();
    let fault = fault(launch!(simulator, greeting[BLOCKS, THREADS, 0](false)));
    assert_eq!(fault.kind, FaultKind::MbarrierUninitialised, "{fault}");
    assert_line(&fault, SOURCE, "greet");
}

/// Each block waits for the one before it, in its cluster or not. If blocks also meet in between they wait for ever.
#[kernel(cluster = BLOCKS)]
unsafe fn in_turn(signals: GlobalPtr<u32>, meet: bool) {
    let block = thread::block_idx_x();
    let signal = |block: u32| signals.add(block.into());
    unsafe {
        if thread::thread_idx_x() == 0 && block > 0 {
            signal::wait(signal(block - 1), 1);
            signal::post(signal(block - 1), 0);
        }
        if meet {
            cluster::sync();
        }
        if thread::thread_idx_x() == 0 && block + 1 < thread::grid_dim_x() {
            signal::post(signal(block), 1);
        }
    }
}

#[test]
fn signals_between_blocks_of_clusters() {
    for clusters in 1..4 {
        let simulator = Simulator::new();
        let blocks = clusters * BLOCKS;
        let run = |meet: bool| {
            let signals = upload(&simulator, &vec![0_u32; blocks as usize]);
            launch!(simulator, in_turn[blocks, THREADS, 0](signals, meet))
        };
        run(false).unwrap();
        let fault = fault(run(true));
        assert_eq!(fault.kind, FaultKind::SignalDeadlock { found: 0, wanted: 1 }, "{fault}");
        assert_eq!(fault.block, [1, 0, 0]);
    }
}
