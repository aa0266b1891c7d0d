//! Each way to use warpgroup matrix instructions wrongly is reported, and no right one is.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch};
use cuda_std::async_copy;
use cuda_std::bulk_copy::fence_shared;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind, FaultKind, Simulator};
use cuda_std::wgmma::{self, Accumulators, KMajor, Layout, M, Swizzle, THREADS};
use cuda_std::{kernel, shared, thread};
use half::bf16;

const SOURCE: &str = include_str!("wgmma_faults.rs");

/// Columns of B.
const N: usize = 64;

/// Elements of a row of an operand: 64 of K, where an instruction uses 16.
const ROW: u32 = 64;

/// Bytes of both operands.
const SHARED: u32 = (M + N) as u32 * ROW * 2;

const OPERAND: Layout<bf16, KMajor> = Layout::new(Swizzle::Bytes128, 16, 1024);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Mistake {
    /// Nothing.
    Nothing,
    /// No fence before the first instruction.
    NoFence,
    /// None after the threads have read a register.
    NoFenceAfterGet,
    /// None after they have written one.
    NoFenceAfterSet,
    /// No wait before a register is read.
    NoWait,
    /// A wait, but the instruction is in no group.
    NoCommit,
    /// A wait for all groups but the one of the instruction.
    WaitForOthers,
    /// A wait for the first of two instructions on the same accumulators.
    WaitForFirst,
    /// A register is written before the wait.
    SetInFlight,
    /// No fence of the proxies.
    NoProxyFence,
    /// One before the stores.
    ProxyFenceEarly,
    /// One after the barrier, of the first thread alone.
    ProxyFenceOfOne,
    /// No mistake: one of all threads after the barrier.
    ProxyFenceOfReaders,
    /// No barrier between the stores and the instruction.
    NoBarrier,
    /// An operand is overwritten before the wait.
    Overwrites,
    /// No mistake: it is after the wait.
    OverwritesAfterWait,
    /// The next group's operand is overwritten after a wait for the group before.
    OverwritesNextGroup,
    /// An asynchronous copy to an operand begins before the wait.
    CopiesInFlight,
    /// An asynchronous copy to an operand has not been waited for.
    CopyNotWaitedFor,
    /// No mistake: an asynchronous copy that has been waited for, and then fenced.
    CopyFenced,
    /// One that was fenced before it had been waited for.
    CopyNotFenced,
    /// A part of B has not been written.
    Uninitialised,
    /// B lies behind the end of shared memory.
    OutOfBounds,
    /// An operand starts at no multiple of 16.
    Misaligned,
    /// One starts in the second row of its swizzle pattern.
    SecondRow,
    /// No mistake: and its base offset says so.
    BaseOffset,
    /// One starts in the last 16 bytes of a row.
    OffTheRow,
    /// It runs off its 18 bits.
    OffTheField,
    /// One thread does not take part.
    OneMissing,
    /// One thread gives another operand.
    OtherOperand,
    /// One thread wants to accumulate.
    OtherScale,
    /// The accumulators are declared twice.
    DeclaredTwice,
    /// An instruction has more columns than there are accumulators.
    TooManyColumns,
    /// There is no such register.
    NoSuchRegister,
    /// A wait that no instruction can say.
    WaitForEight,
}
use Mistake::*;

#[kernel]
unsafe fn mistaken(source: GlobalPtr<bf16>, to: GlobalPtr<f32>, mistake: Mistake) {
    let t = thread::thread_idx_x();
    let a = shared::dynamic::<bf16>();
    let b = a.add(M as u32 * ROW);
    unsafe {
        let mut d = Accumulators::<N>::declare();
        if mistake == DeclaredTwice {
            Accumulators::<N>::declare(); // declares again
        }
        if mistake == ProxyFenceEarly {
            fence_shared();
        }
        let written = if mistake == Uninitialised { SHARED / 2 - 8 } else { SHARED / 2 };
        for e in (t..written).step_by(thread::block_dim_x() as usize) {
            a.add(e).store(bf16::ONE);
        }
        if !matches!(
            mistake,
            NoProxyFence | ProxyFenceEarly | ProxyFenceOfOne | ProxyFenceOfReaders
        ) {
            fence_shared();
        }
        if matches!(mistake, CopyFenced | CopyNotFenced) {
            thread::sync_threads();
        }
        if matches!(mistake, CopyFenced | CopyNotFenced) && t == 5 {
            async_copy::copy_async::<bf16, 8>(b, source, true);
            async_copy::commit_group();
            async_copy::wait_group::<0>();
            if mistake == CopyFenced {
                fence_shared();
            }
        }
        if mistake != NoBarrier {
            thread::sync_threads();
        }
        if mistake == ProxyFenceOfReaders || mistake == ProxyFenceOfOne && t == 0 {
            fence_shared();
        }
        if mistake == CopyNotWaitedFor && t == 5 {
            async_copy::copy_async::<bf16, 8>(b, source, true);
        }
        let mut a_operand = OPERAND.at(a);
        let b_operand = match mistake {
            Misaligned => OPERAND.at(b.add(4)), // starts at 8
            SecondRow => OPERAND.at(b.add(ROW)),
            BaseOffset => {
                a_operand = OPERAND.with_base_offset(1).at(a.add(ROW));
                // Both run on into what follows, where they find the same numbers.
                OPERAND.at(a)
            }
            OffTheRow => OPERAND.at(b).advance(112),
            OffTheField => OPERAND.at(b).advance((1 << 18) - 1024),
            OutOfBounds => OPERAND.at(b.add(8 * ROW)),
            OtherOperand if t == 7 => OPERAND.at(a),
            _ => OPERAND.at(b),
        };
        if mistake == OneMissing && t == 77 {
            return;
        }
        if mistake != NoFence {
            wgmma::fence();
        }
        if mistake == NoFenceAfterGet {
            d.get::<3>();
        }
        if mistake == NoFenceAfterSet && t == 9 {
            d.set::<3>(0.0);
        }
        let accumulate = mistake == OtherScale && t == 100;
        if mistake == TooManyColumns {
            d.mma_async_of_cols::<{ 2 * N }, _, _, _>(a_operand, b_operand, false); // too many
        }
        d.mma_async(a_operand, b_operand, accumulate); // multiplies
        if mistake != NoCommit {
            wgmma::commit_group();
        }
        if mistake == Overwrites && t == 40 {
            b.add(ROW + 3).store(bf16::ZERO); // overwrites
        }
        if mistake == CopiesInFlight && t == 40 {
            async_copy::copy_async::<bf16, 8>(b, source, true);
        }
        if mistake == SetInFlight {
            d.set::<0>(0.0);
        }
        if mistake == OverwritesNextGroup {
            d.mma_async(OPERAND.at(a).advance(32), OPERAND.at(b).advance(32), true);
            wgmma::commit_group();
            wgmma::wait_group::<1>();
            // The units of the first instruction, and of the second, in a row that the swizzle leaves alone.
            if t == 40 {
                b.store(bf16::ZERO);
                b.add(16).store(bf16::ZERO); // overwrites the next
            }
        }
        match mistake {
            NoWait => {}
            WaitForOthers => wgmma::wait_group::<1>(),
            WaitForFirst => {
                d.mma_async(OPERAND.at(a), OPERAND.at(b), true);
                wgmma::commit_group();
                wgmma::wait_group::<1>();
            }
            WaitForEight => wgmma::wait_group::<8>(),
            _ => wgmma::wait_group::<0>(),
        }
        if mistake == OverwritesAfterWait {
            b.add(t * 8).store(bf16::ZERO);
        }
        if mistake == NoSuchRegister {
            d.get::<{ N / 2 }>();
        }
        to.add(t as u64).store(d.get::<5>()); // reads
    }
}

#[test]
fn mistakes() {
    let simulator = Simulator::new();
    let source = common::upload(&simulator, &[bf16::ONE; 8]);
    let to = alloc::<f32>(&simulator, THREADS as usize);
    let run =
        |mistake: Mistake| launch!(simulator, mistaken[1, THREADS, SHARED](source, to, mistake));
    for right in [Nothing, ProxyFenceOfReaders, OverwritesAfterWait, BaseOffset, CopyFenced] {
        run(right).unwrap();
        assert_eq!(
            download(&simulator, to, THREADS as usize),
            [16.0; THREADS as usize],
            "{right:?}"
        );
    }
    let at = |x: u32| [x, 0, 0];
    for (mistake, kind, line) in [
        (NoFence, FaultKind::WgmmaFenceMissing, "multiplies"),
        (NoFenceAfterGet, FaultKind::WgmmaFenceMissing, "multiplies"),
        (NoFenceAfterSet, FaultKind::WgmmaFenceMissing, "multiplies"),
        (NoWait, FaultKind::AccumulatorsInFlight, "reads"),
        (NoCommit, FaultKind::AccumulatorsInFlight, "reads"),
        (WaitForOthers, FaultKind::AccumulatorsInFlight, "reads"),
        (WaitForFirst, FaultKind::AccumulatorsInFlight, "reads"),
        (SetInFlight, FaultKind::AccumulatorsInFlight, ""),
        (NoProxyFence, FaultKind::MissingProxyFence { writer: at(0) }, "multiplies"),
        (ProxyFenceEarly, FaultKind::MissingProxyFence { writer: at(0) }, "multiplies"),
        (ProxyFenceOfOne, FaultKind::MissingProxyFence { writer: at(0) }, "multiplies"),
        (
            NoBarrier,
            FaultKind::SharedRace { other: at(0), other_access: AccessKind::Write },
            "multiplies",
        ),
        (Overwrites, FaultKind::OperandInFlight { issuer: at(0) }, "overwrites"),
        (OverwritesNextGroup, FaultKind::OperandInFlight { issuer: at(0) }, "overwrites the next"),
        (CopiesInFlight, FaultKind::OperandInFlight { issuer: at(0) }, ""),
        (CopyNotWaitedFor, FaultKind::AsyncNotWaited { issuer: at(5) }, "multiplies"),
        (CopyNotFenced, FaultKind::MissingProxyFence { writer: at(5) }, "multiplies"),
        (Uninitialised, FaultKind::UninitialisedShared, ""),
        (OutOfBounds, FaultKind::OutOfBounds, "multiplies"),
        (Misaligned, FaultKind::Misaligned, "starts at 8"),
        (SecondRow, FaultKind::WgmmaDescriptor, "multiplies"),
        (OffTheRow, FaultKind::WgmmaDescriptor, "multiplies"),
        (OffTheField, FaultKind::WgmmaDescriptor, "multiplies"),
        (OneMissing, FaultKind::DivergentBarrier { missing: at(77) }, ""),
        (OtherOperand, FaultKind::WgmmaMisuse, "multiplies"),
        (OtherScale, FaultKind::WgmmaMisuse, "multiplies"),
        (DeclaredTwice, FaultKind::WgmmaMisuse, "declares again"),
        (NoSuchRegister, FaultKind::WgmmaMisuse, ""),
        (TooManyColumns, FaultKind::WgmmaMisuse, "too many"),
        (WaitForEight, FaultKind::WgmmaMisuse, ""),
    ] {
        println!("{mistake:?}:");
        let fault = fault(run(mistake));
        assert_eq!(fault.kind, kind, "{mistake:?}");
        if !line.is_empty() {
            assert_line(&fault, SOURCE, line);
        }
    }
}

#[test]
fn a_warpgroup_has_128_threads() {
    let simulator = Simulator::new();
    let source = common::upload(&simulator, &[bf16::ONE; 8]);
    let to = alloc::<f32>(&simulator, 2 * THREADS as usize);
    for threads in [32, 96, 127, 160] {
        let fault = fault(launch!(simulator, mistaken[1, threads, SHARED](source, to, Nothing)));
        assert_eq!(fault.kind, FaultKind::WgmmaMisuse, "{threads} threads");
    }
}
