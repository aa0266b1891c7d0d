//! Clusters of two blocks that fill each other's stages, and what happens where they leave something out.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::bulk_copy::{TensorMap, fence_shared, load_3d_multicast};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, Counters, Fault, FaultKind, SimError, Simulator};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, lane_id, sync_warp};
use cuda_std::{cluster, kernel, shared, shared_array, thread};

const SOURCE: &str = include_str!("clusters.rs");

/// Blocks of a cluster.
const BLOCKS: u32 = 2;

/// Both, as a mask.
const BOTH: u16 = 0b11;

/// Stages of the ring: each a box of 8 x 64 elements from either block.
const STAGES: u32 = 3;
const BOX_ROWS: u32 = 8;
const BOX_COLS: u32 = 64;
const BOX: u32 = BOX_ROWS * BOX_COLS;
const BOX_BYTES: u32 = BOX * size_of::<u16>() as u32;
const STAGE: u32 = BLOCKS * BOX;
const STAGE_BYTES: u32 = BLOCKS * BOX_BYTES;

/// Stages that go through the ring: several phases of each.
const ROUNDS: u32 = 4 * STAGES + 1;

/// Threads of a block: a warp that produces and two that consume.
const CONSUMERS: u32 = 2 * WARP_SIZE;
const THREADS: u32 = CONSUMERS + WARP_SIZE;

/// How the ring works, and what it does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Ring {
    /// As it should.
    Right,
    /// At the end threads arrive, and go on before they wait.
    ArrivesAndWaits,
    /// At the start blocks wait for their own threads alone.
    NoBarrierAtStart,
    /// The mbarriers are not made visible to bulk copies.
    NoFence,
    /// A block ends when it has all it needs itself.
    NoBarrierAtEnd,
    /// A stage is empty when the block's own consumers have read it.
    OwnReadersOnly,
    /// Consumers arrive at their own block's mbarriers alone.
    NoArrivalAtPeer,
    /// They arrive twice there instead of once at each.
    ArrivesTwiceHere,
    /// The producer does not wait for `empty`.
    NoWaitForEmpty,
    /// It expects what it loads itself.
    ExpectsOwnHalf,
    /// Its loads go to its own block alone.
    NoMulticast,
    /// They go to a block that there is not.
    NoSuchBlockInMask,
    /// They go nowhere.
    EmptyMask,
    /// Consumers arrive at an mbarrier of a block that there is not.
    NoSuchRank,
}

/// Adds up the stages, element by element: each block for itself.
#[kernel(cluster = BLOCKS)]
unsafe fn ring(sums: GlobalPtr<u32>, #[grid_constant] map: &TensorMap, producer: u32, how: Ring) {
    let objects = shared_array!(u64; 2 * STAGES);
    let full = |n: u32| Mbarrier::new(objects.add(n % STAGES));
    let empty = |n: u32| Mbarrier::new(objects.add(STAGES + n % STAGES));
    let parity = |n: u32| n / STAGES % 2;
    let stage = |n: u32| shared::dynamic::<u16>().add(n % STAGES * STAGE);
    let (i, rank) = (thread::thread_idx_x(), cluster::rank());
    let warp = i / WARP_SIZE;
    let readers = CONSUMERS / WARP_SIZE * if how == Ring::OwnReadersOnly { 1 } else { BLOCKS };
    unsafe {
        if i == 0 {
            for n in 0..STAGES {
                full(n).init(1);
                empty(n).init(readers);
            }
            if how != Ring::NoFence {
                fence_init();
            }
        }
        match how {
            Ring::NoBarrierAtStart => thread::sync_threads(),
            _ => cluster::sync(),
        }
        if warp == producer {
            for n in 0..if lane_id() == 0 { ROUNDS } else { 0 } {
                if how != Ring::NoWaitForEmpty {
                    empty(n).wait(1 - parity(n)); // empty
                }
                full(n).arrive_expect_tx(match how {
                    Ring::ExpectsOwnHalf => BOX_BYTES,
                    _ => STAGE_BYTES,
                });
                let to = stage(n).add(rank * BOX);
                let row = (n * BLOCKS + rank) * BOX_ROWS;
                let blocks = match how {
                    Ring::NoMulticast => 1 << rank,
                    Ring::NoSuchBlockInMask => 0b110,
                    Ring::EmptyMask => 0,
                    _ => BOTH,
                };
                load_3d_multicast(to, map, [0, row as i32, 0], full(n), blocks); // load
            }
            return;
        }
        let me = i - if warp > producer { WARP_SIZE } else { 0 };
        for n in 0..ROUNDS {
            full(n).wait(parity(n)); // full
            for at in (me..STAGE).step_by(CONSUMERS as usize) {
                let swizzled = Swizzle::Bytes128.apply(stage(n).add(at).address());
                let value = SharedPtr::<u16>::from_address(swizzled).load();
                let sum = sums.add((thread::block_idx_x() * STAGE + at).into());
                sum.store(sum.load() + u32::from(value));
            }
            sync_warp(FULL_MASK);
            let to = match how {
                Ring::NoSuchRank => lane_id() + 1,
                Ring::ArrivesTwiceHere => rank,
                _ => lane_id(),
            };
            let own_only = matches!(how, Ring::OwnReadersOnly | Ring::NoArrivalAtPeer);
            if lane_id() < BLOCKS && (!own_only || lane_id() == rank) {
                empty(n).in_block(to).arrive(); // arrive
            }
        }
        match how {
            Ring::NoBarrierAtEnd => {}
            Ring::ArrivesAndWaits => {
                cluster::arrive();
                let sum = sums.add((thread::block_idx_x() * STAGE + me).into());
                sum.store(sum.load() + 1);
                cluster::wait();
            }
            _ => cluster::sync(),
        }
    }
}

/// Which warp produces: the simulator runs the warps one after another.
const PRODUCERS: [u32; 3] = [0, 1, 2];

/// Clusters of a launch.
const CLUSTERS: u32 = 2;

fn matrix(simulator: &Simulator) -> TensorMap {
    let rows = ROUNDS * BLOCKS * BOX_ROWS - 3;
    let elements = Vec::from_iter((0..rows * BOX_COLS).map(|i| (i * i % 1009) as u16));
    let address = upload(simulator, &elements).address();
    let (shape, boxes) = ((1, rows.into(), BOX_COLS.into()), (BOX_ROWS, BOX_COLS));
    let strides = (0, u64::from(BOX_COLS) * 2);
    let (element, swizzle) = (ElementType::U16, Swizzle::Bytes128);
    let tensor = TiledTensor::matrices(element, address, shape, strides, boxes, swizzle);
    simulator.tensor_map(&tensor).unwrap()
}

fn run_ring(how: Ring, producer: u32) -> (Result<Counters, SimError>, Vec<u32>) {
    let simulator = Simulator::new();
    let map = matrix(&simulator);
    let grid = CLUSTERS * BLOCKS;
    let sums = upload(&simulator, &vec![0_u32; (grid * STAGE) as usize]);
    let shared = STAGES * STAGE_BYTES;
    let result = launch!(simulator, ring[grid, THREADS, shared](sums, map, producer, how));
    (result, download(&simulator, sums, (grid * STAGE) as usize))
}

/// What the sums of a block should be.
fn ring_sums() -> Vec<u32> {
    let mut sums = vec![0; STAGE as usize];
    for i in 0..(ROUNDS * BLOCKS * BOX_ROWS - 3) * BOX_COLS {
        sums[(i % STAGE) as usize] += i * i % 1009;
    }
    sums
}

fn ring_fault(how: Ring, producer: u32) -> Fault {
    fault(run_ring(how, producer).0)
}

#[test]
fn blocks_fill_each_others_stages() {
    for producer in PRODUCERS {
        for how in [Ring::Right, Ring::ArrivesAndWaits] {
            let (result, sums) = run_ring(how, producer);
            let counters = result.unwrap_or_else(|e| panic!("{how:?} with {producer}: {e}"));
            let mut expected = ring_sums();
            if how == Ring::ArrivesAndWaits {
                expected[..CONSUMERS as usize].iter_mut().for_each(|sum| *sum += 1);
            }
            for (block, sums) in sums.chunks(STAGE as usize).enumerate() {
                assert_eq!(sums, expected, "block {block}: {how:?} with {producer}");
            }
            // What goes to both blocks is fetched once.
            let boxes = u64::from(ROUNDS * CLUSTERS * BLOCKS);
            assert_eq!(counters.bulk_copies, boxes);
            assert_eq!(counters.bulk_bytes, boxes * u64::from(BOX_BYTES));
            let readers = u64::from(CONSUMERS / WARP_SIZE * BLOCKS);
            assert_eq!(counters.mbarrier_arrivals, boxes * (1 + readers));
        }
    }
}

#[test]
fn a_grid_is_a_multiple_of_the_cluster() {
    let simulator = Simulator::new();
    let (map, sums) = (matrix(&simulator), upload(&simulator, &[0_u32]));
    let shared = STAGES * STAGE_BYTES;
    let result = launch!(simulator, ring[3, THREADS, shared](sums, map, 0_u32, Ring::Right));
    let error = result.unwrap_err();
    assert!(matches!(error, SimError::InvalidLaunch(_)), "{error}");
    assert!(error.to_string().contains("clusters of 2"), "{error}");
}

#[test]
fn a_missing_barrier_at_the_start() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::NoBarrierAtStart, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierUninitialised, "{fault}");
        let fault = ring_fault(Ring::NoFence, producer);
        assert_eq!(fault.kind, FaultKind::MissingProxyFence { writer: [0; 3] });
        assert_line(&fault, SOURCE, "load");
    }
}

#[test]
fn a_missing_barrier_at_the_end() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::NoBarrierAtEnd, producer);
        let FaultKind::BlockEnded { block } = fault.kind else { panic!("{fault}") };
        assert_eq!(block[0] ^ 1, fault.block[0], "{fault}");
        assert_line(&fault, SOURCE, "arrive");
    }
}

#[test]
fn a_stage_that_the_other_block_still_reads() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::OwnReadersOnly, producer);
        // It tells the other block of bytes before that has seen the end of the phase before.
        assert_eq!(fault.kind, FaultKind::MbarrierOverrun, "{fault}");
        assert_line(&fault, SOURCE, "load");
        let fault = ring_fault(Ring::NoWaitForEmpty, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierOverrun, "{fault}");
    }
}

#[test]
fn arrivals_that_go_astray() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::NoArrivalAtPeer, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierDeadlock { missing: 2 }, "{fault}");
        assert_line(&fault, SOURCE, "empty");
        let fault = ring_fault(Ring::ArrivesTwiceHere, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierOverrun, "{fault}");
        assert_line(&fault, SOURCE, "load");
        let fault = ring_fault(Ring::NoSuchRank, producer);
        assert_eq!(fault.kind, FaultKind::ClusterMisuse);
        assert_line(&fault, SOURCE, "arrive");
    }
}

#[test]
fn other_bytes_than_come() {
    for producer in PRODUCERS {
        // A block whose own half is there goes on before the other one has begun. Where consumers come first, the other
        // block loads into a phase that is over.
        let kind = match producer {
            2 => FaultKind::MbarrierOverrun,
            _ => FaultKind::UninitialisedShared,
        };
        assert_eq!(ring_fault(Ring::ExpectsOwnHalf, producer).kind, kind, "{producer}");
        let fault = ring_fault(Ring::NoMulticast, producer);
        let bytes = FaultKind::MbarrierBytes { expected: STAGE_BYTES, copied: BOX_BYTES };
        assert_eq!(fault.kind, bytes);
        assert_line(&fault, SOURCE, "full");
    }
}

#[test]
fn masks_of_blocks_that_there_are_not() {
    for how in [Ring::NoSuchBlockInMask, Ring::EmptyMask] {
        let fault = ring_fault(how, 0);
        assert_eq!(fault.kind, FaultKind::ClusterMisuse);
        assert_line(&fault, SOURCE, "load");
    }
}

/// One stage that a thread of each block fills half of, and all threads read: what the barrier of a block makes known
/// to one of its threads that thread tells the other block.
#[kernel(cluster = BLOCKS)]
unsafe fn relayed(sums: GlobalPtr<u32>, #[grid_constant] map: &TensorMap, ordered: bool) {
    let objects = shared_array!(u64; 2);
    let (full, empty) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let stage = shared::dynamic::<u16>();
    let (i, rank) = (thread::thread_idx_x(), cluster::rank());
    unsafe {
        if i == 0 {
            full.init(1);
            empty.init(BLOCKS);
            fence_init();
        }
        cluster::sync();
        for n in 0..ROUNDS {
            if i == 0 {
                empty.wait(1 - n % 2);
                full.arrive_expect_tx(STAGE_BYTES);
                let row = (n * BLOCKS + rank) * BOX_ROWS;
                load_3d_multicast(stage.add(rank * BOX), map, [0, row as i32, 0], full, BOTH);
            }
            full.wait(n % 2);
            for at in (i..STAGE).step_by(THREADS as usize) {
                let swizzled = Swizzle::Bytes128.apply(stage.add(at).address());
                let value = SharedPtr::<u16>::from_address(swizzled).load();
                let sum = sums.add((thread::block_idx_x() * STAGE + at).into());
                sum.store(sum.load() + u32::from(value));
            }
            if ordered {
                thread::sync_threads();
            }
            if i < BLOCKS {
                empty.in_block(i).arrive();
            }
        }
        cluster::sync();
    }
}

#[test]
fn a_barrier_of_the_block_and_an_arrival_for_all_of_it() {
    for ordered in [true, false] {
        let simulator = Simulator::new();
        let map = matrix(&simulator);
        let sums = upload(&simulator, &[0_u32; (BLOCKS * STAGE) as usize]);
        let result = launch!(simulator, relayed[BLOCKS, THREADS, STAGE_BYTES](sums, map, ordered));
        if ordered {
            result.unwrap();
            let sums = download(&simulator, sums, (BLOCKS * STAGE) as usize);
            sums.chunks(STAGE as usize).for_each(|sums| assert_eq!(sums, ring_sums()));
        } else {
            let fault = fault(result);
            let kind = FaultKind::SharedRace { other: [1, 0, 0], other_access: Read };
            assert_eq!(fault.kind, kind, "{fault}");
        }
    }
}

/// What the first thread of the second warp of block 1 does with memory that a multicast of block 0 fills.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Told {
    /// Nothing before it has waited.
    Waits,
    /// Reads while the copy is under way.
    UnderWay,
    /// Reads when others have waited.
    OthersHaveWaited,
    /// Loads from block 0 what it has waited for.
    Elsewhere,
    /// Loads from block 0 what nobody has there.
    Beyond,
}

#[kernel(cluster = 2)]
unsafe fn told_of(sums: GlobalPtr<u32>, #[grid_constant] map: &TensorMap, how: Told) {
    let full = Mbarrier::new(shared_array!(u64; 1));
    let (tile, bytes) = (shared::dynamic::<u32>(), shared::dynamic_bytes());
    let (thread, rank) = (thread::thread_idx_x(), cluster::rank());
    let other = rank == 1 && thread == WARP_SIZE;
    unsafe {
        if thread == 0 {
            full.init(1);
            fence_init();
        }
        cluster::sync();
        if thread == 0 {
            full.arrive_expect_tx(bytes);
        }
        if rank == 0 && thread == 0 {
            load_3d_multicast(tile, map, [0, 0, 0], full, 0b11);
        }
        if how == Told::OthersHaveWaited && thread < WARP_SIZE {
            full.wait(0);
        }
        match how {
            Told::UnderWay | Told::OthersHaveWaited if other => sums.store(tile.load()),
            Told::Elsewhere if other => _ = cluster::load_vector::<u32, 4>(tile, 0),
            Told::Beyond if other => {
                let beyond = tile.add(bytes / 4);
                cluster::load_vector::<u32, 4>(beyond, 0);
            }
            _ => {}
        }
        if how == Told::UnderWay {
            thread::sync_threads();
        }
        full.wait(0);
        cluster::sync();
    }
}

#[test]
fn faults_say_of_which_block_a_thread_is() {
    let simulator = Simulator::new();
    let map = matrix(&simulator);
    let sums = upload(&simulator, &[0_u32]);
    let run = |how: Told| launch!(simulator, told_of[2, 2 * WARP_SIZE, BOX_BYTES](sums, map, how));
    run(Told::Waits).unwrap();
    let issuer = "thread (0,0,0) of block (0,0,0)";
    for (how, texts) in [
        (Told::UnderWay, [format!("{issuer}, which issued it"), String::new()]),
        (
            Told::OthersHaveWaited,
            [
                format!("races with a bulk load of {issuer}"),
                "has not waited for its mbarrier".to_owned(),
            ],
        ),
        (
            Told::Elsewhere,
            ["of block (0,0,0) races".to_owned(), format!("with a bulk load of {issuer}")],
        ),
        (Told::Beyond, ["of block (0,0,0) is out of bounds".to_owned(), String::new()]),
    ] {
        let fault = fault(run(how));
        assert_eq!((fault.block, fault.thread), ([1, 0, 0], [WARP_SIZE, 0, 0]), "{how:?}");
        let text = fault.to_string();
        assert!(texts.iter().all(|part| text.contains(part)), "{text}");
    }
}

/// What lies between what a thread of block 0 does to block 1 and what that does next, besides a bulk load that the
/// same thread has issued after it and block 1 has waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Issued {
    /// The thread has read, and arrives at an mbarrier of block 1, which waits for that, too, before it writes there.
    ArrivesToo,
    /// It has read, and block 1 writes there.
    Overwritten,
    /// The same, with a fence of the asynchronous proxy before the load.
    Fenced,
    /// It has read, and block 1 ends.
    ReadAndEnds,
    /// It has arrived at an mbarrier of block 1 for which nobody waits, and block 1 ends.
    ArrivedAndEnds,
}

#[kernel(cluster = 2)]
unsafe fn issued(#[grid_constant] map: &TensorMap, how: Issued) {
    let objects = shared_array!(u64; 2);
    let (full, read) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let words = shared_array!(u32; 4);
    let (tile, bytes) = (shared::dynamic::<u32>(), shared::dynamic_bytes());
    unsafe {
        full.init(1);
        read.init(1);
        fence_init();
        words.store_vec([0; 4]);
        cluster::sync();
        if cluster::rank() == 0 {
            if how != Issued::ArrivedAndEnds {
                cluster::load_vector::<u32, 4>(words, 1); // reads
            }
            if matches!(how, Issued::ArrivesToo | Issued::ArrivedAndEnds) {
                read.in_block(1).arrive(); // arrives
            }
            if how == Issued::Fenced {
                fence_shared();
            }
            load_3d_multicast(tile, map, [0, 0, 0], full, 0b10);
            return;
        }
        full.arrive_expect_tx(bytes);
        full.wait(0);
        if how == Issued::ArrivesToo {
            read.wait(0);
        }
        if matches!(how, Issued::ArrivesToo | Issued::Overwritten | Issued::Fenced) {
            words.store_vec([1; 4]); // overwrites
        }
    }
}

#[test]
fn a_copy_says_nothing_of_what_its_thread_did_before() {
    let simulator = Simulator::new();
    let map = matrix(&simulator);
    let run = |how: Issued| launch!(simulator, issued[2, 1, BOX_BYTES](map, how));
    run(Issued::ArrivesToo).unwrap();
    let race = FaultKind::SharedRace { other: [0; 3], other_access: Read };
    let ended = FaultKind::BlockEnded { block: [1, 0, 0] };
    for (how, kind, line) in [
        (Issued::Overwritten, race.clone(), "overwrites"),
        (Issued::Fenced, race, "overwrites"),
        (Issued::ReadAndEnds, ended.clone(), "reads"),
        (Issued::ArrivedAndEnds, ended, "arrives"),
    ] {
        let fault = fault(run(how));
        assert_eq!(fault.kind, kind, "{how:?}: {fault}");
        assert_line(&fault, SOURCE, line);
    }
}
