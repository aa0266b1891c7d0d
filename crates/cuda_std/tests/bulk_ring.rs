//! A ring of stages between one thread that fills it with bulk loads and those that read it, and what happens where it
//! leaves something out.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::bulk_copy::{TensorMap, fence_shared, load_2d};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, Counters, Fault, FaultKind, SimError, Simulator};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, elect, lane_id, sync_warp};
use cuda_std::{kernel, shared, shared_array, thread};

const SOURCE: &str = include_str!("bulk_ring.rs");

/// Stages of the ring, each a box of 8 x 64 elements with a swizzle of 128 bytes.
const STAGES: u32 = 3;
const BOX_ROWS: u32 = 8;
const BOX_COLS: u32 = 64;
const STAGE_BYTES: u32 = BOX_ROWS * BOX_COLS * 2;

/// Boxes that go through the ring: several phases of each stage.
const BOXES: u32 = 4 * STAGES + 1;

/// How the ring works, and what it does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Ring {
    /// As it should.
    Right,
    /// The loads are issued before their bytes are expected.
    LoadsFirst,
    /// The elected lane is the producer.
    Elected,
    /// A fence of all kinds of writes instead of the one for mbarriers.
    FenceOfWrites,
    /// The producer arrives without expecting bytes.
    NoExpect,
    /// It expects fewer than come.
    TooFewBytes,
    /// It expects more than come.
    TooManyBytes,
    /// Consumers read without a wait for `full`.
    NoWaitForFull,
    /// They wait for the phase before.
    WrongParity,
    /// The producer does not wait for `empty`.
    NoWaitForEmpty,
    /// It waits for the phase that is under way when it should wait for the one before.
    WrongEmptyParity,
    /// It waits for its own loads of the turn before instead.
    WaitsForFull,
    /// The first lane of a warp arrives at `empty` before its warp has read.
    ArrivesForOthers,
    /// The mbarriers are not made visible to bulk copies.
    NoFence,
    /// Stages begin 128 bytes late.
    Misaligned,
    /// Consumers read as if nothing were swizzled.
    ReadsUnswizzled,
}

/// Adds up the boxes in a column of a matrix, element by element.
#[kernel]
unsafe fn ring(sums: GlobalPtr<u32>, #[grid_constant] map: &TensorMap, producer: u32, how: Ring) {
    let objects = shared_array!(u64; 2 * STAGES);
    let full = |n: u32| Mbarrier::new(objects.add(n % STAGES));
    let empty = |n: u32| Mbarrier::new(objects.add(STAGES + n % STAGES));
    let parity = |n: u32| n / STAGES % 2;
    let late = if how == Ring::Misaligned { 128 } else { 0 };
    let stage = |n: u32| {
        let address = shared::dynamic::<u8>().address() + n % STAGES * STAGE_BYTES + late;
        SharedPtr::<u16>::from_address(address)
    };
    let i = thread::thread_idx_x();
    let warp = i / WARP_SIZE;
    let consumers = thread::block_dim_x() - WARP_SIZE;
    unsafe {
        if i == 0 {
            for n in 0..STAGES {
                full(n).init(1);
                empty(n).init(consumers / WARP_SIZE);
            }
            match how {
                Ring::NoFence => {}
                Ring::FenceOfWrites => fence_shared(),
                _ => fence_init(),
            }
        }
        thread::sync_threads();
        if warp == producer {
            let leads =
                if how == Ring::Elected { elect(FULL_MASK) } else { lane_id() == WARP_SIZE - 1 };
            for n in 0..if leads { BOXES } else { 0 } {
                match how {
                    Ring::NoWaitForEmpty => {}
                    Ring::WrongEmptyParity => empty(n).wait(parity(n)), // empty
                    Ring::WaitsForFull => full(n).wait(1 - parity(n)),
                    _ => empty(n).wait(1 - parity(n)),
                }
                let load = || load_2d(stage(n), map, [0, (n * BOX_ROWS) as i32], full(n)); // load
                match how {
                    Ring::LoadsFirst => {
                        load();
                        full(n).arrive_expect_tx(STAGE_BYTES);
                    }
                    Ring::NoExpect => {
                        load();
                        full(n).arrive();
                    }
                    _ => {
                        full(n).arrive_expect_tx(match how {
                            Ring::TooFewBytes => STAGE_BYTES - 16,
                            Ring::TooManyBytes => STAGE_BYTES + 16,
                            _ => STAGE_BYTES,
                        });
                        load();
                    }
                }
            }
            return;
        }
        let me = i - if warp > producer { WARP_SIZE } else { 0 };
        for n in 0..BOXES {
            match how {
                Ring::NoWaitForFull => {}
                Ring::WrongParity => full(n).wait(1 - parity(n)),
                _ => full(n).wait(parity(n)), // full
            }
            if how == Ring::ArrivesForOthers && lane_id() == 0 {
                empty(n).arrive();
            }
            for at in (me..BOX_ROWS * BOX_COLS).step_by(consumers as usize) {
                let plain = stage(n).add(at).address();
                let swizzled = match how {
                    Ring::ReadsUnswizzled => plain,
                    _ => Swizzle::Bytes128.apply(plain),
                };
                let value = SharedPtr::<u16>::from_address(swizzled).load(); // consume
                let sum = sums.add(at.into());
                sum.store(sum.load() + u32::from(value));
            }
            if how != Ring::ArrivesForOthers {
                sync_warp(FULL_MASK);
                if lane_id() == 0 {
                    empty(n).arrive();
                }
            }
        }
    }
}

/// Threads of a block with two consumer warps.
const THREADS: u32 = 3 * WARP_SIZE;

/// Which warp produces: the simulator runs the warps one after another.
const PRODUCERS: [u32; 3] = [0, 1, 2];

fn run_ring(how: Ring, producer: u32) -> (Result<Counters, SimError>, Vec<u32>) {
    let simulator = Simulator::new();
    let rows = BOXES * BOX_ROWS - 3;
    let elements = Vec::from_iter((0..rows * BOX_COLS).map(|i| (i * i % 1009) as u16));
    let address = upload(&simulator, &elements).address();
    let (shape, box_shape) = ((rows.into(), BOX_COLS.into()), (BOX_ROWS, BOX_COLS));
    let stride = u64::from(BOX_COLS) * 2;
    let tensor =
        TiledTensor::matrix(ElementType::U16, address, shape, stride, box_shape, Swizzle::Bytes128);
    let map = simulator.tensor_map(&tensor).unwrap();
    let sums = upload(&simulator, &[0_u32; (BOX_ROWS * BOX_COLS) as usize]);
    let shared = STAGES * STAGE_BYTES + 128;
    let result = launch!(simulator, ring[1, THREADS, shared](sums, map, producer, how));
    (result, download(&simulator, sums, (BOX_ROWS * BOX_COLS) as usize))
}

/// What the sums should be.
fn ring_sums() -> Vec<u32> {
    let rows = BOXES * BOX_ROWS - 3;
    let mut sums = vec![0; (BOX_ROWS * BOX_COLS) as usize];
    for i in 0..rows * BOX_COLS {
        sums[(i % (BOX_ROWS * BOX_COLS)) as usize] += i * i % 1009;
    }
    sums
}

#[test]
fn rings_with_one_producing_thread() {
    for producer in PRODUCERS {
        for how in [Ring::Right, Ring::LoadsFirst, Ring::Elected, Ring::FenceOfWrites] {
            let (result, sums) = run_ring(how, producer);
            let counters = result.unwrap_or_else(|e| panic!("{how:?} with {producer}: {e}"));
            assert_eq!(sums, ring_sums(), "{how:?} with {producer}");
            let boxes = u64::from(BOXES);
            assert_eq!(counters.bulk_copies, boxes);
            assert_eq!(counters.bulk_bytes, boxes * u64::from(STAGE_BYTES));
            assert_eq!(counters.mbarrier_arrivals, boxes * 3);
        }
    }
}

fn ring_fault(how: Ring, producer: u32) -> Fault {
    fault(run_ring(how, producer).0)
}

#[test]
fn a_phase_that_expects_no_bytes_does_not_wait_for_them() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::NoExpect, producer);
        let issuer = [WARP_SIZE * producer + WARP_SIZE - 1, 0, 0];
        assert_eq!(fault.kind, FaultKind::AsyncNotWaited { issuer });
        assert_line(&fault, SOURCE, "consume");
    }
}

#[test]
fn a_phase_that_expects_other_bytes_than_come() {
    for producer in PRODUCERS {
        for (how, expected) in
            [(Ring::TooFewBytes, STAGE_BYTES - 16), (Ring::TooManyBytes, STAGE_BYTES + 16)]
        {
            let fault = ring_fault(how, producer);
            assert_eq!(fault.kind, FaultKind::MbarrierBytes { expected, copied: STAGE_BYTES });
            assert_line(&fault, SOURCE, "full");
        }
    }
}

#[test]
fn a_wait_for_full_that_was_dropped_or_is_for_another_phase() {
    for how in [Ring::NoWaitForFull, Ring::WrongParity] {
        let first = ring_fault(how, 0);
        assert_eq!(first.kind, FaultKind::AsyncNotWaited { issuer: [31, 0, 0] }, "{how:?}");
        assert_line(&first, SOURCE, "consume");
        // The consumers come first and find nothing at all.
        assert_eq!(ring_fault(how, 2).kind, FaultKind::UninitialisedShared, "{how:?}");
    }
}

#[test]
fn a_wait_for_empty_that_was_dropped_or_is_for_another_phase() {
    for producer in PRODUCERS {
        // The producer arrives for a second time in a phase that nobody has seen end.
        let fault = ring_fault(Ring::NoWaitForEmpty, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierOverrun);
        // It never begins.
        let fault = ring_fault(Ring::WrongEmptyParity, producer);
        // The first thread that waits in vain is told so: the producer for both consumers, or one of those for the
        // producer.
        let missing = if producer == 0 { 2 } else { 1 };
        assert_eq!(fault.kind, FaultKind::MbarrierDeadlock { missing }, "{fault}");
        // It knows that a stage is full, but not that it has been read: the stage that consumers wait for has been full
        // twice.
        let fault = ring_fault(Ring::WaitsForFull, producer);
        assert_eq!(fault.kind, FaultKind::MbarrierOverrun, "{fault}");
    }
}

#[test]
fn an_arrival_before_the_warp_has_read() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::ArrivesForOthers, producer);
        // The first lane of the first consumer is the one that reads after it has arrived.
        let other = [if producer == 0 { WARP_SIZE } else { 0 }, 0, 0];
        let kind = FaultKind::SharedRace { other, other_access: Read };
        assert_eq!(fault.kind, kind, "{fault}");
        assert_line(&fault, SOURCE, "load");
    }
}

#[test]
fn mbarriers_that_bulk_copies_need_not_see() {
    for producer in PRODUCERS {
        let fault = ring_fault(Ring::NoFence, producer);
        assert_eq!(fault.kind, FaultKind::MissingProxyFence { writer: [0; 3] });
        assert_line(&fault, SOURCE, "load");
    }
}

#[test]
fn stages_that_do_not_begin_where_the_pattern_does() {
    let fault = ring_fault(Ring::Misaligned, 0);
    assert_eq!(fault.kind, FaultKind::Misaligned);
    assert!(fault.message.contains("1024"), "{fault}");
    assert_line(&fault, SOURCE, "load");
}

#[test]
fn swizzled_stages_that_are_read_as_if_they_were_not() {
    let (result, sums) = run_ring(Ring::ReadsUnswizzled, 0);
    result.unwrap();
    let expected = ring_sums();
    assert_ne!(sums, expected);
    // The first row of a box is not exchanged.
    assert_eq!(sums[..BOX_COLS as usize], expected[..BOX_COLS as usize]);
}
