//! Named barriers count whole warps, whose lanes come together.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, lane_id, sync_warp};
use cuda_std::{kernel, named_barrier, shared_array, thread};

const SOURCE: &str = include_str!("named_barrier_warps.rs");

/// Threads of a block.
const THREADS: u32 = 2 * WARP_SIZE;

/// Half of a warp.
const HALF: u32 = WARP_SIZE / 2;

/// What the lanes of a warp do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Lanes {
    /// All of them come to the same barriers.
    Together,
    /// Half of each warp waits, and the others end.
    HalfEnds,
    /// Half of each warp waits at the barrier, the others at that of the block.
    HalfAtBlockBarrier,
    /// The others wait for the first half in the same warp.
    HalfAtWarpBarrier,
    /// Each half waits at a place of its own.
    TwoPlaces,
    /// Each half waits at a barrier of its own.
    TwoBarriers,
    /// Half of each warp waits, and the others arrive.
    HalfArrives,
    /// Half of each warp arrives, and the others do not.
    HalfArrivesAlone,
}

#[kernel]
unsafe fn lanes(d: GlobalPtr<u32>, how: Lanes) {
    use Lanes::*;
    let values = shared_array!(u32; THREADS);
    let i = thread::thread_idx_x();
    let first = lane_id() < HALF;
    unsafe {
        values.add(i).store(i);
        match how {
            Together => {
                // None of the lanes waits at the first one: they come to it one after another.
                named_barrier::arrive(1 + i / WARP_SIZE, THREADS);
                named_barrier::sync(2 - i / WARP_SIZE, THREADS);
            }
            HalfEnds | HalfAtBlockBarrier | HalfAtWarpBarrier if first => {
                named_barrier::sync(1, THREADS); // half
            }
            HalfEnds => return,
            HalfAtBlockBarrier => thread::sync_threads(),
            HalfAtWarpBarrier => sync_warp(FULL_MASK),
            TwoPlaces if first => named_barrier::sync(1, THREADS),
            TwoPlaces => named_barrier::sync(1, THREADS), // other place
            TwoBarriers => {
                named_barrier::sync(if first { 1 } else { 2 }, THREADS); // barriers
            }
            HalfArrives if first => named_barrier::sync(1, THREADS),
            HalfArrives => named_barrier::arrive(1, THREADS), // arrives
            HalfArrivesAlone => {
                if first {
                    named_barrier::arrive(1, THREADS); // arrives alone
                }
                return;
            }
        }
        d.add(i.into()).store(values.add((i + WARP_SIZE) % THREADS).load());
    }
}

#[test]
fn the_lanes_of_a_warp_come_together() {
    use Lanes::*;
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, THREADS as usize);
    let run = |how: Lanes| launch!(simulator, lanes[1, THREADS, 0](d, how));
    let counters = run(Together).unwrap();
    assert_eq!(counters.named_barriers, 2);
    let others = Vec::from_iter((0..THREADS).map(|i| (i + WARP_SIZE) % THREADS));
    assert_eq!(download(&simulator, d, THREADS as usize), others);
    for (how, thread, missing, line) in [
        (HalfEnds, 0, HALF, "half"),
        (HalfAtBlockBarrier, 0, HALF, "half"),
        (HalfAtWarpBarrier, 0, HALF, "half"),
        (TwoPlaces, HALF, 0, "other place"),
        (TwoBarriers, HALF, 0, "barriers"),
        (HalfArrives, HALF, 0, "arrives"),
        (HalfArrivesAlone, 0, HALF, "arrives alone"),
    ] {
        let fault = fault(run(how));
        assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [missing, 0, 0] }, "{how:?}");
        assert_eq!(fault.thread, [thread, 0, 0], "{how:?}");
        assert_line(&fault, SOURCE, line);
    }
}

/// The last warp is not a whole one, and counts as one.
#[kernel]
unsafe fn partial(d: GlobalPtr<u32>, threads: u32) {
    let values = shared_array!(u32; THREADS);
    let (i, all) = (thread::thread_idx_x(), thread::block_dim_x());
    unsafe {
        values.add(i).store(i);
        named_barrier::sync(1, threads);
        d.add(i.into()).store(values.add(all - 1 - i).load());
    }
}

#[test]
fn a_warp_that_is_not_a_whole_one_counts_as_one() {
    let simulator = Simulator::new();
    let block = THREADS - 5;
    let d = alloc::<u32>(&simulator, block as usize);
    let run = |threads: u32| launch!(simulator, partial[1, block, 0](d, threads));
    run(THREADS).unwrap();
    assert!(download(&simulator, d, block as usize).into_iter().eq((0..block).rev()));
    for wrong in [block, THREADS + WARP_SIZE] {
        assert_eq!(fault(run(wrong)).kind, FaultKind::NamedBarrierMisuse, "{wrong}");
    }
}
