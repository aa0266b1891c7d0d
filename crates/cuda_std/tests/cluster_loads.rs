//! Blocks of a cluster that read each other's shared memory, and what happens where they leave something out.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, SimError, Simulator};
use cuda_std::{cluster, kernel, shared_array, thread};

const SOURCE: &str = include_str!("cluster_loads.rs");

/// Blocks of a cluster, threads of a block, and elements of each that lie in 16 bytes.
const BLOCKS: u32 = 2;
const THREADS: u32 = 64;
const VECTOR: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum How {
    Right,
    /// Blocks wait for their own threads alone before they read.
    NoBarrierBefore,
    /// A block ends when it has read.
    NoBarrierAfter,
    /// They read what nobody has written.
    BehindTheEnd,
    /// They read from a block that there is not.
    NoSuchRank,
    /// They read their own memory, as another block's might be.
    Own,
}

#[kernel(max_threads = THREADS, cluster = BLOCKS)]
unsafe fn exchange(to: GlobalPtr<u32>, how: How) {
    let words = shared_array!(u32; 2 * VECTOR * THREADS);
    let (thread, rank) = (thread::thread_idx_x(), cluster::rank());
    let first = thread::block_idx_x() * 1000 + thread * VECTOR;
    unsafe {
        words.add(thread * VECTOR).store_vec([first, first + 1, first + 2, first + 3]);
        match how {
            How::NoBarrierBefore => thread::sync_threads(),
            _ => cluster::sync(),
        }
        let from = match how {
            How::Own => rank,
            How::NoSuchRank => BLOCKS,
            _ => 1 - rank,
        };
        let other = THREADS - 1 - thread + if how == How::BehindTheEnd { THREADS } else { 0 };
        let read: [u32; VECTOR as usize] = cluster::load_vector(words.add(other * VECTOR), from); // load
        to.add(u64::from((thread::block_idx_x() * THREADS + thread) * VECTOR)).store_vec(read);
        if how != How::NoBarrierAfter {
            cluster::sync();
        }
    }
}

fn run(how: How) -> (Result<cuda_std::sim::Counters, SimError>, Vec<u32>) {
    let simulator = Simulator::new();
    let elements = (2 * BLOCKS * THREADS * VECTOR) as usize;
    let to = alloc::<u32>(&simulator, elements);
    let result = launch!(simulator, exchange[2 * BLOCKS, THREADS, 0](to, how));
    (result, download(&simulator, to, elements))
}

#[test]
fn blocks_read_each_other() {
    for how in [How::Right, How::Own] {
        let (result, found) = run(how);
        result.unwrap();
        for block in 0..2 * BLOCKS {
            let from = if how == How::Own { block } else { block ^ 1 };
            for thread in 0..THREADS {
                for i in 0..VECTOR {
                    let index = ((block * THREADS + thread) * VECTOR + i) as usize;
                    let expected = from * 1000 + (THREADS - 1 - thread) * VECTOR + i;
                    assert_eq!(found[index], expected, "{how:?}, block {block}, thread {thread}");
                }
            }
        }
    }
}

#[test]
fn without_a_barrier_of_the_cluster_the_other_block_need_not_have_written() {
    let fault = fault(run(How::NoBarrierBefore).0);
    let races = matches!(fault.kind, FaultKind::SharedRace { .. });
    assert!(races || fault.kind == FaultKind::UninitialisedShared, "{fault}");
    assert_line(&fault, SOURCE, "load");
}

#[test]
fn a_block_that_ends_takes_its_memory_with_it() {
    let fault = fault(run(How::NoBarrierAfter).0);
    assert!(matches!(fault.kind, FaultKind::BlockEnded { .. }), "{fault}");
}

#[test]
fn memory_that_nobody_has_written() {
    let fault = fault(run(How::BehindTheEnd).0);
    assert_eq!(fault.kind, FaultKind::UninitialisedShared, "{fault}");
    assert_line(&fault, SOURCE, "load");
}

#[test]
fn a_block_that_there_is_not() {
    let fault = fault(run(How::NoSuchRank).0);
    assert_eq!(fault.kind, FaultKind::ClusterMisuse, "{fault}");
    assert_line(&fault, SOURCE, "load");
}
