//! Blocks that end while something of theirs is under way.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, fault, launch, upload};
use cuda_std::async_copy::copy_async;
use cuda_std::bulk_copy::{TensorMap, fence_shared, load_2d};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::swizzle::Swizzle as BoxSwizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::wgmma::{self, Accumulators, KMajor, Layout, M, Swizzle, THREADS};
use cuda_std::{kernel, shared, shared_array, thread};
use half::bf16;

const SOURCE: &str = include_str!("ends_under_way.rs");

/// Columns of B, and both operands: 16 values of k, as rows of 32 bytes.
const N: usize = 64;
const SHARED: u32 = (M + N) as u32 * 32;
const OPERAND: Layout<bf16, KMajor> = Layout::new(Swizzle::None, 128, 256);

/// Elements of a box, and threads that copy an element each.
const BOX: u32 = 32;

/// What is under way, and thread 64 or its warpgroup have issued.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Work {
    Load,
    /// Copies that arrive at an mbarrier.
    Copies,
    Products,
    /// Products in no group.
    NoCommit,
}
use Work::*;

#[kernel]
unsafe fn issue(
    source: GlobalPtr<u32>,
    #[grid_constant] map: &TensorMap,
    work: Work,
    somebody_waits: u32,
) {
    let object = Mbarrier::new(shared_array!(u64; 1));
    let to = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    unsafe {
        let mut sums = Accumulators::<N>::declare();
        for word in (i..SHARED / 4).step_by(THREADS as usize) {
            to.add(word).store(0);
        }
        fence_shared();
        if i == 0 {
            object.init(1);
            fence_init();
        }
        thread::sync_threads();
        match work {
            Load if i == 64 => {
                object.arrive_expect_tx(4 * BOX);
                load_2d(to, map, [0, 0], object); // issues
            }
            Copies if i == 64 => {
                copy_async::<u32, 4>(to, source, true);
                object.arrive_on_copies(); // arrives
            }
            Products | NoCommit => {
                wgmma::fence();
                let b = to.cast().add(M as u32 * 16);
                sums.mma_async(OPERAND.at(to.cast()), OPERAND.at(b), false); // multiplies
                if work != NoCommit {
                    wgmma::commit_group();
                }
                if somebody_waits != 0 {
                    wgmma::wait_group::<0>();
                }
                return;
            }
            _ => {}
        }
        // Who has issued it returns at any rate.
        if i < 32 && somebody_waits != 0 {
            object.wait(0);
        }
    }
}

#[test]
fn somebody_waits_before_the_block_ends() {
    let simulator = Simulator::new();
    let source = upload(&simulator, &[7_u32; BOX as usize]);
    let tensor = TiledTensor::matrix(
        ElementType::U32,
        source.address(),
        (1, BOX.into()),
        u64::from(4 * BOX),
        (1, BOX),
        BoxSwizzle::None,
    );
    let map = simulator.tensor_map(&tensor).unwrap();
    let run = |work: Work, waits: u32| launch!(simulator, issue[2, THREADS, SHARED](source, map, work, waits));
    for (work, issuer, line) in [
        (Load, 64, "issues"),
        (Copies, 64, "arrives"),
        (Products, 0, "multiplies"),
        (NoCommit, 0, "multiplies"),
    ] {
        if work != NoCommit {
            run(work, 1).unwrap();
        }
        let fault = fault(run(work, 0));
        let issuer = [issuer, 0, 0];
        assert_eq!(fault.kind, FaultKind::EndsUnderWay { issuer }, "{work:?}");
        assert_eq!((fault.block, fault.thread), ([0; 3], issuer));
        assert_line(&fault, SOURCE, line);
    }
}
