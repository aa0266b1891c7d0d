//! Blocks of a cluster that read each other's shared memory, and what happens where they leave something out.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, FaultKind, SimError, Simulator, Space};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, lane_id, sync_warp};
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
    let kind = FaultKind::SharedRace { other: [THREADS - 1, 0, 0], other_access: Write };
    assert_eq!(fault.kind, kind, "{fault}");
    assert_line(&fault, SOURCE, "load");
}

#[test]
fn a_block_that_ends_takes_its_memory_with_it() {
    let fault = fault(run(How::NoBarrierAfter).0);
    assert_eq!(fault.kind, FaultKind::BlockEnded { block: [0; 3] });
    let access = fault.access.unwrap();
    assert_eq!((access.space, access.kind, access.bytes), (Space::Shared, Read, 16));
    assert_eq!(fault.block, [1, 0, 0]);
    assert_line(&fault, SOURCE, "load");
}

/// What lies between a write of the first block and a load of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Shown {
    /// An arrival at an mbarrier of the second block.
    Arrival,
    /// A barrier of the cluster before that.
    Barrier,
    /// The same, but the write comes after the barrier.
    BarrierBefore,
    /// A barrier of the cluster alone, which the writing warp has left to another one that has met it.
    BarrierOfOthers,
}

#[kernel(max_threads = THREADS, cluster = BLOCKS)]
unsafe fn show(to: GlobalPtr<u32>, how: Shown) {
    let words = shared_array!(u32; VECTOR);
    let object = Mbarrier::new(shared_array!(u64; 1));
    let (thread, rank) = (thread::thread_idx_x(), cluster::rank());
    unsafe {
        if thread == 0 {
            object.init(1);
            words.store_vec([0; 4]);
        }
        cluster::sync();
        let writes = rank == 0 && thread == 32;
        if writes && how != Shown::BarrierBefore {
            words.store_vec([1, 2, 3, 4]);
        }
        if how == Shown::BarrierOfOthers {
            thread::sync_threads();
            if writes {
                return;
            }
        }
        if how != Shown::Arrival {
            cluster::sync();
        }
        if writes && how == Shown::BarrierBefore {
            words.store_vec([1, 2, 3, 4]);
        }
        if rank == 0 && how != Shown::BarrierOfOthers {
            thread::sync_threads();
        }
        if rank == 0 && thread == 0 {
            object.in_block(1).arrive();
        }
        if rank == 1 && thread == 0 {
            object.wait(0);
            to.store_vec(cluster::load_vector::<u32, 4>(words, 0)); // shown
        }
        cluster::sync();
    }
}

#[test]
fn what_another_block_writes_barriers_of_the_cluster_show() {
    let simulator = Simulator::new();
    let to = alloc::<u32>(&simulator, VECTOR as usize);
    let run = |how: Shown| launch!(simulator, show[BLOCKS, THREADS, 0](to, how));
    for right in [Shown::Barrier, Shown::BarrierOfOthers] {
        run(right).unwrap();
        assert_eq!(download(&simulator, to, VECTOR as usize), [1, 2, 3, 4], "{right:?}");
    }
    for wrong in [Shown::Arrival, Shown::BarrierBefore] {
        let fault = fault(run(wrong));
        let other = [32, 0, 0];
        assert_eq!(fault.kind, FaultKind::SharedRace { other, other_access: Write }, "{wrong:?}");
        assert_eq!((fault.block, fault.thread), ([1, 0, 0], [0; 3]));
        assert_line(&fault, SOURCE, "shown");
    }
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

/// What lies between the loads of another block's memory and the next write there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Between {
    /// A barrier of the cluster.
    ClusterBarrier,
    /// An arrival of each warp that has read at an mbarrier of the block that writes, which waits for it.
    Mbarrier,
    /// Barriers of either block alone.
    BlockBarriers,
    /// A barrier of the cluster at which readers arrive before the loads.
    ArrivalBefore,
    /// The mbarrier, at which a lane arrives without having waited for the others of its warp.
    LanesOnTheirOwn,
    /// The mbarrier, for which the writers do not wait.
    NoWait,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Writer {
    Store,
    /// One element of the four that were loaded together.
    NarrowStore,
    /// An asynchronous copy.
    Copy,
}

/// One block reads what the other has, and that writes there; then it reads again.
#[kernel(max_threads = THREADS, cluster = BLOCKS)]
unsafe fn rewrite(to: GlobalPtr<u32>, twos: GlobalPtr<u32>, reader: u32, how: (Between, Writer)) {
    let words = shared_array!(u32; VECTOR * THREADS);
    let empty = Mbarrier::new(shared_array!(u64; 1));
    let (thread, reads) = (thread::thread_idx_x(), cluster::rank() == reader);
    let (between, writer) = how;
    let own = words.add(thread * VECTOR);
    unsafe {
        own.store_vec([1; VECTOR as usize]);
        if thread == 0 {
            empty.init(THREADS / WARP_SIZE);
        }
        cluster::sync();
        if between == Between::ArrivalBefore {
            cluster::arrive();
        }
        if reads {
            let read: [u32; VECTOR as usize] = cluster::load_vector(own, 1 - reader); // before
            to.add(u64::from(thread * VECTOR)).store_vec(read);
        }
        match between {
            Between::ClusterBarrier => cluster::sync(),
            Between::ArrivalBefore => cluster::wait(),
            Between::BlockBarriers => thread::sync_threads(),
            _ if reads => {
                if between != Between::LanesOnTheirOwn {
                    sync_warp(FULL_MASK);
                }
                if lane_id() == 0 {
                    empty.in_block(1 - reader).arrive();
                }
            }
            Between::NoWait => {}
            _ => empty.wait(0),
        }
        if !reads {
            match writer {
                Writer::Store => own.store_vec([2; VECTOR as usize]), // store
                Writer::NarrowStore => own.add(VECTOR - 1).store(2),  // narrow
                Writer::Copy => {
                    let twos = twos.add(u64::from(thread * VECTOR));
                    copy_async::<u32, { VECTOR as usize }>(own, twos, true); // copy
                    commit_group();
                    wait_group::<0>();
                }
            }
        }
        cluster::sync();
        if reads {
            let read: [u32; VECTOR as usize] = cluster::load_vector(own, 1 - reader);
            to.add(u64::from((THREADS + thread) * VECTOR)).store_vec(read);
        }
        cluster::sync();
    }
}

fn run_rewrite(
    reader: u32,
    how: (Between, Writer),
) -> (Result<cuda_std::sim::Counters, SimError>, Vec<u32>) {
    let simulator = Simulator::new();
    let elements = (2 * THREADS * VECTOR) as usize;
    let to = alloc::<u32>(&simulator, elements);
    let twos = upload(&simulator, &[2_u32; (THREADS * VECTOR) as usize]);
    let result = launch!(simulator, rewrite[BLOCKS, THREADS, 0](to, twos, reader, how));
    (result, download(&simulator, to, elements))
}

const WRITERS: [(Writer, &str); 3] =
    [(Writer::Store, "store"), (Writer::NarrowStore, "narrow"), (Writer::Copy, "copy")];

#[test]
fn what_another_block_has_read_may_be_written() {
    for reader in 0..BLOCKS {
        for between in [Between::ClusterBarrier, Between::Mbarrier] {
            for (writer, _) in WRITERS {
                let (result, found) = run_rewrite(reader, (between, writer));
                result.unwrap_or_else(|e| panic!("{reader}, {between:?}, {writer:?}: {e}"));
                let (before, after) = found.split_at((THREADS * VECTOR) as usize);
                assert!(before.iter().all(|&element| element == 1), "{between:?}, {writer:?}");
                let mut last = after.chunks(VECTOR as usize).map(|vector| vector[3]);
                assert!(last.all(|element| element == 2), "{between:?}, {writer:?}");
            }
        }
    }
}

const WRONG: [Between; 4] =
    [Between::BlockBarriers, Between::ArrivalBefore, Between::LanesOnTheirOwn, Between::NoWait];

/// The simulator lets the block read first.
#[test]
fn what_another_block_may_still_read_must_not_be_written() {
    for between in WRONG {
        for (writer, line) in WRITERS {
            let fault = fault(run_rewrite(0, (between, writer)).0);
            let read = matches!(fault.kind, FaultKind::SharedRace { other_access: Read, .. });
            assert!(read, "{between:?}, {writer:?}: {fault}");
            assert_eq!(fault.block, [1, 0, 0]);
            assert!(fault.message.contains("of block (0,0,0), which read there"), "{fault}");
            assert_line(&fault, SOURCE, line);
        }
    }
}

/// It lets the block write first where nothing keeps that back.
#[test]
fn whichever_block_comes_first() {
    for between in WRONG {
        for (writer, line) in WRITERS {
            let fault = fault(run_rewrite(1, (between, writer)).0);
            let FaultKind::SharedRace { other_access, .. } = fault.kind else {
                panic!("{between:?}, {writer:?}: {fault}")
            };
            assert_line(&fault, SOURCE, if other_access == Write { "before" } else { line });
        }
    }
}

/// Loads from an address that lies so far behind what a block has, by the rank of a block.
#[kernel(cluster = BLOCKS)]
unsafe fn load_beyond(beyond: u32, rank: u32) {
    let words = shared_array!(u32; VECTOR);
    unsafe {
        words.store_vec([cluster::rank(); 4]);
        cluster::sync();
        let from = SharedPtr::<u32>::from_address(words.address() + beyond);
        cluster::load_vector::<u32, 4>(from, rank); // beyond
        cluster::sync();
    }
}

/// The same in a block that is alone.
#[kernel]
unsafe fn load_beyond_alone(beyond: u32) {
    let words = shared_array!(u32; VECTOR);
    unsafe {
        words.store_vec([1; 4]);
        let from = SharedPtr::<u32>::from_address(words.address() + beyond);
        cluster::load_vector::<u32, 4>(from, 0); // beyond alone
    }
}

/// Arrives at an mbarrier whose address lies so far behind that of one.
#[kernel(cluster = BLOCKS)]
unsafe fn arrive_beyond(beyond: u32) {
    let words = shared_array!(u64; 1);
    unsafe {
        Mbarrier::new(words).init(1);
        cluster::sync();
        let beyond = SharedPtr::<u64>::from_address(words.address() + beyond);
        Mbarrier::new(beyond).in_block(0).arrive(); // arrive beyond
    }
}

#[test]
fn addresses_that_no_block_has() {
    let simulator = Simulator::new();
    // Beyond what a block may have, and where an address of the cluster says which block it is of.
    for beyond in [1 << 20, 1 << 23, 1 << 24, 3 << 24, 1 << 31] {
        for rank in 0..BLOCKS {
            let fault = fault(launch!(simulator, load_beyond[BLOCKS, 1, 0](beyond, rank)));
            assert_eq!(fault.kind, FaultKind::OutOfBounds, "{beyond:#x}: {fault}");
            assert_line(&fault, SOURCE, "beyond");
        }
        let alone = fault(launch!(simulator, load_beyond_alone[1, 1, 0](beyond)));
        assert_eq!(alone.kind, FaultKind::OutOfBounds, "{beyond:#x}: {alone}");
        assert_line(&alone, SOURCE, "beyond alone");
    }
    for beyond in [1 << 24, 3 << 24] {
        let arrival = fault(launch!(simulator, arrive_beyond[BLOCKS, 1, 0](beyond)));
        assert_eq!(arrival.kind, FaultKind::OutOfBounds, "{beyond:#x}: {arrival}");
        assert_line(&arrival, SOURCE, "arrive beyond");
    }
}
