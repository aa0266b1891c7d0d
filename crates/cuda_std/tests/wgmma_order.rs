//! What orders warpgroup matrix instructions and what other warpgroups do to their operands, and two sets of
//! accumulators.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch};
use cuda_std::bulk_copy::fence_shared;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind, FaultKind, Simulator};
use cuda_std::wgmma::{self, Accumulators, KMajor, Layout, M, Swizzle, THREADS};
use cuda_std::{kernel, shared, shared_array, thread};
use half::bf16;

const SOURCE: &str = include_str!("wgmma_order.rs");

/// Columns of B.
const N: usize = 64;

/// Elements of a row of an operand: 64 of K, where an instruction uses 16.
const ROW: u32 = 64;

/// Bytes of both operands.
const SHARED: u32 = (M + N) as u32 * ROW * 2;

const OPERAND: Layout<bf16, KMajor> = Layout::new(Swizzle::Bytes128, 16, 1024);

/// What the second of two warpgroups waits for before it overwrites what the first has multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Order {
    /// A block barrier after the first warpgroup's wait.
    Barrier,
    /// An arrival of one thread of the first warpgroup after the wait.
    Arrival,
    /// One before the wait.
    EarlyArrival,
    /// The same, but the second warpgroup takes its time.
    LateFill,
}

/// Two rounds of a stage that the second warpgroup fills for the first, and one instruction each.
#[kernel]
unsafe fn handed_over(to: GlobalPtr<f32>, order: Order) {
    const ROUNDS: u32 = 3;
    let objects = shared_array!(u64; 2);
    let (full, empty) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let t = thread::thread_idx_x();
    let stage = shared::dynamic::<bf16>();
    unsafe {
        let mut d = Accumulators::<N>::declare();
        if t == 0 {
            full.init(THREADS);
            empty.init(1);
        }
        thread::sync_threads();
        for round in 0..ROUNDS {
            if t >= THREADS {
                if order != Order::Barrier {
                    empty.wait((round + 1) & 1);
                }
                for _ in 0..if order == Order::LateFill { 8 } else { 0 } {
                    wgmma::fence();
                }
                for e in (t - THREADS..SHARED / 2).step_by(THREADS as usize) {
                    stage.add(e).store(bf16::from_f32(round as f32)); // fills
                }
                fence_shared();
                full.arrive();
            } else {
                full.wait(round & 1);
                wgmma::fence();
                let b = stage.add(M as u32 * ROW);
                d.mma_async(OPERAND.at(stage), OPERAND.at(b), round > 0);
                wgmma::commit_group();
                if matches!(order, Order::EarlyArrival | Order::LateFill) && t == 64 {
                    empty.arrive();
                }
                wgmma::wait_group::<0>();
                if order == Order::Arrival && t == 64 {
                    empty.arrive();
                }
            }
            if order == Order::Barrier {
                thread::sync_threads();
            }
        }
        if t < THREADS {
            to.add(t as u64).store(d.get::<31>());
        }
    }
}

#[test]
fn a_stage_is_handed_over() {
    let simulator = Simulator::new();
    let to = alloc::<f32>(&simulator, THREADS as usize);
    let run = |order: Order| launch!(simulator, handed_over[1, 2 * THREADS, SHARED](to, order));
    for right in [Order::Barrier, Order::Arrival] {
        run(right).unwrap();
        let expected = [16.0 * (1.0 + 4.0); THREADS as usize];
        assert_eq!(download(&simulator, to, THREADS as usize), expected, "{right:?}");
    }
    for (wrong, kind) in [
        (Order::EarlyArrival, FaultKind::OperandInFlight { issuer: [0; 3] }),
        // The instruction is done in this run, and the second warpgroup cannot know it.
        (Order::LateFill, FaultKind::SharedRace { other: [0; 3], other_access: AccessKind::Read }),
    ] {
        let fault = fault(run(wrong));
        assert_eq!(fault.kind, kind, "{wrong:?}");
        assert_eq!(fault.thread, [THREADS, 0, 0]);
        assert_line(&fault, SOURCE, "fills");
    }
}

/// The threads of the first warpgroup fill a stage for the second one, and tell it by a fence of the proxies on either
/// side.
#[kernel]
unsafe fn fenced_by(reader: u32, fences: u32) {
    let full = Mbarrier::new(shared_array!(u64; 1));
    let t = thread::thread_idx_x();
    let stage = shared::dynamic::<bf16>();
    unsafe {
        let mut d = Accumulators::<N>::declare();
        if t == 0 {
            full.init(THREADS);
        }
        thread::sync_threads();
        if t < THREADS {
            for e in (t..SHARED / 2).step_by(THREADS as usize) {
                stage.add(e).store(bf16::ONE);
            }
            if reader == 0 && fences != 0 {
                fence_shared();
            }
            full.arrive();
            if reader == 0 && fences == 0 {
                // Too late: nobody comes after it.
                fence_shared();
            }
        } else {
            if reader == 1 && fences == 0 {
                // Too early: the thread has not seen what was stored.
                fence_shared();
            }
            full.wait(0);
            if reader == 1 && fences != 0 {
                fence_shared();
            }
            wgmma::fence();
            let b = stage.add(M as u32 * ROW);
            d.mma_async(OPERAND.at(stage), OPERAND.at(b), false);
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        }
    }
}

#[test]
fn proxies_are_fenced_on_either_side() {
    let simulator = Simulator::new();
    for reader in [0_u32, 1] {
        launch!(simulator, fenced_by[1, 2 * THREADS, SHARED](reader, 1_u32)).unwrap();
        let fault = fault(launch!(simulator, fenced_by[1, 2 * THREADS, SHARED](reader, 0_u32)));
        assert_eq!(fault.kind, FaultKind::MissingProxyFence { writer: [0; 3] });
        assert_eq!(fault.thread, [THREADS, 0, 0]);
    }
}

/// Two products into two sets of accumulators. One is read while the other is under way, or too early where asked for.
#[kernel]
unsafe fn two_sets(to: GlobalPtr<f32>, early: bool) {
    let t = thread::thread_idx_x();
    let a = shared::dynamic::<bf16>();
    let b = a.add(M as u32 * ROW);
    unsafe {
        let mut first = Accumulators::<N, 0>::declare();
        let mut second = Accumulators::<N, 1>::declare();
        for e in (t..SHARED / 2).step_by(THREADS as usize) {
            a.add(e).store(bf16::ONE);
        }
        fence_shared();
        thread::sync_threads();
        wgmma::fence();
        first.mma_async(OPERAND.at(a), OPERAND.at(b), false);
        wgmma::commit_group();
        second.mma_async(OPERAND.at(a), OPERAND.at(b), false);
        second.mma_async(OPERAND.at(a), OPERAND.at(b), true);
        wgmma::commit_group();
        wgmma::wait_group::<1>();
        let one = first.get::<0>();
        if early {
            second.get::<0>(); // too early
        }
        wgmma::wait_group::<0>();
        to.add(t as u64).store(1000.0 * one + second.get::<{ N / 2 - 1 }>());
    }
}

#[test]
fn sets_of_accumulators_are_waited_for_apart() {
    let simulator = Simulator::new();
    let to = alloc::<f32>(&simulator, THREADS as usize);
    let counters = launch!(simulator, two_sets[1, THREADS, SHARED](to, false)).unwrap();
    assert_eq!(counters.wgmma_instructions, 3);
    assert_eq!(download(&simulator, to, THREADS as usize), [16_032.0; THREADS as usize]);
    let fault = fault(launch!(simulator, two_sets[1, THREADS, SHARED](to, true)));
    assert_eq!(fault.kind, FaultKind::AccumulatorsInFlight);
    assert_line(&fault, SOURCE, "too early");
}

/// Registers of the second of two sets through the first, and one that is of neither where asked for.
#[kernel]
unsafe fn one_after_another(to: GlobalPtr<f32>, beyond: bool) {
    let t = thread::thread_idx_x();
    unsafe {
        let mut first = Accumulators::<N, 0>::declare();
        let mut second = Accumulators::<N, 1>::declare();
        first.set::<{ N / 2 }>(t as f32);
        second.set::<{ N / 2 - 1 }>(10.0);
        let sum = second.get::<0>() + first.get::<{ N - 1 }>();
        to.add(t as u64).store(first.scaled::<{ N / 2 }>(2.0, sum));
        if beyond {
            first.get::<N>(); // of no set
        }
    }
}

#[test]
fn sets_that_follow_one_another_are_read_and_written_as_one() {
    let simulator = Simulator::new();
    let to = alloc::<f32>(&simulator, THREADS as usize);
    launch!(simulator, one_after_another[1, THREADS, 0](to, false)).unwrap();
    let expected: Vec<f32> = (0..THREADS).map(|t| 3.0 * t as f32 + 10.0).collect();
    assert_eq!(download(&simulator, to, THREADS as usize), expected);
    let fault = fault(launch!(simulator, one_after_another[1, THREADS, 0](to, true)));
    assert_eq!(fault.kind, FaultKind::WgmmaMisuse);
    assert_line(&fault, SOURCE, "of no set");
}

/// Sums of all columns and of the first ones, one after the other, with a fence between or a wait alone.
#[kernel]
unsafe fn shapes(to: GlobalPtr<f32>, fences: bool, waits: bool) {
    const ALL: usize = 192;
    let t = thread::thread_idx_x();
    let a = shared::dynamic::<bf16>();
    unsafe {
        let mut d = Accumulators::<ALL>::declare();
        for e in (t..(M + ALL) as u32 * ROW).step_by(THREADS as usize) {
            a.add(e).store(bf16::ONE);
        }
        fence_shared();
        thread::sync_threads();
        let b = a.add(M as u32 * ROW);
        wgmma::fence();
        d.mma_async(OPERAND.at(a), OPERAND.at(b), false);
        d.mma_async(OPERAND.at(a), OPERAND.at(b), true);
        if waits {
            wgmma::commit_group();
            wgmma::wait_group::<0>();
        }
        if fences {
            wgmma::fence();
        }
        d.mma_async_of_cols::<128, _, _, _>(OPERAND.at(a), OPERAND.at(b), true); // narrower
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        to.add(t as u64).store(d.get::<0>() + d.get::<{ ALL / 2 - 1 }>());
    }
}

#[test]
fn instructions_of_other_shapes_come_after_a_fence() {
    let simulator = Simulator::new();
    let to = alloc::<f32>(&simulator, THREADS as usize);
    let bytes = (M + 192) as u32 * ROW * 2;
    let run = |fences: bool, waits: bool| launch!(simulator, shapes[1, THREADS, bytes](to, fences, waits));
    for waits in [false, true] {
        run(true, waits).unwrap();
        assert_eq!(download(&simulator, to, THREADS as usize), [80.0; THREADS as usize]);
        let fault = fault(run(false, waits));
        assert_eq!(fault.kind, FaultKind::WgmmaFenceMissing);
        assert_line(&fault, SOURCE, "narrower");
    }
}
