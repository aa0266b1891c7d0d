//! A product as a Hopper kernel computes it: one thread brings tiles by bulk copies into a ring of stages, two
//! warpgroups multiply them, and one thread of each hands the stages back.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_line, download, fault, launch, upload};
use cuda_std::bulk_copy::{TensorMap, load_2d};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::wgmma::{self, Accumulators, KMajor, Layout, MnMajor, THREADS};
use cuda_std::{kernel, shared, shared_array, thread, unroll};
use half::bf16;

const SOURCE: &str = include_str!("wgmma_bulk.rs");

/// Tile of D, and the tile of K that a stage holds.
const M: u32 = 128;
const N: u32 = 128;
const K: u32 = 64;

const STAGES: u32 = 2;

/// K of the whole product.
const DEPTH: u32 = 5 * K;

/// Bytes of a stage: A as 128 rows of 128 bytes, then B as two boxes of 64 columns.
const A_BYTES: u32 = M * K * 2;
const B_BOX_BYTES: u32 = K * K * 2;
const STAGE_BYTES: u32 = A_BYTES + N / K * B_BOX_BYTES;

/// A is row-major, and so is B: that makes A K-major, and B not.
const A: Layout<bf16, KMajor> = Layout::new(Swizzle::Bytes128, 16, 1024);
const B: Layout<bf16, MnMajor> = Layout::new(Swizzle::Bytes128, B_BOX_BYTES, 1024);

/// What the consumers do wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Mistake {
    /// Nothing.
    Nothing,
    /// They hand a stage back while the instructions that read it are under way.
    ReturnsEarly,
    /// They do not wait for a stage to be full.
    DoesNotWait,
}

#[kernel]
unsafe fn gemm(
    #[grid_constant] a: &TensorMap,
    #[grid_constant] b: &TensorMap,
    d: GlobalPtr<f32>,
    mistake: Mistake,
) {
    let objects = shared_array!(u64; 4);
    let full = |stage| Mbarrier::new(objects.add(stage));
    let empty = |stage| Mbarrier::new(objects.add(STAGES + stage));
    let at = |stage: u32, bytes: u32| {
        SharedPtr::<bf16>::from_address(
            shared::dynamic::<u8>().address() + stage * STAGE_BYTES + bytes,
        )
    };
    let t = thread::thread_idx_x();
    unsafe {
        let mut sums = Accumulators::<{ N as usize }>::declare();
        if t == 0 {
            for stage in 0..STAGES {
                full(stage).init(1);
                empty(stage).init(2);
            }
            fence_init();
        }
        thread::sync_threads();
        let group = t / THREADS;
        for tile in 0..DEPTH / K {
            let (stage, round) = (tile % STAGES, tile / STAGES);
            if group == 0 {
                if t == 0 {
                    empty(stage).wait((round + 1) & 1);
                    full(stage).arrive_expect_tx(STAGE_BYTES);
                    let k = (tile * K) as i32;
                    load_2d(at(stage, 0), a, [k, 0], full(stage)); // fills
                    for n in 0..N / K {
                        let to = at(stage, A_BYTES + n * B_BOX_BYTES);
                        load_2d(to, b, [(n * K) as i32, k], full(stage));
                    }
                }
                continue;
            }
            if mistake != Mistake::DoesNotWait {
                full(stage).wait(round & 1);
            }
            let a = A.at(at(stage, (group - 1) * A_BYTES / 2));
            let b = B.at(at(stage, A_BYTES));
            wgmma::fence();
            // The first product of a tile replaces the sums of the one before.
            unroll!(step < 4, {
                let accumulate = tile > 0 || step != 0;
                let (along, down) = (32 * step as u32, 2048 * step as u32);
                sums.mma_async(a.advance(along), b.advance(down), accumulate); // reads
            });
            wgmma::commit_group();
            if mistake != Mistake::ReturnsEarly {
                wgmma::wait_group::<0>();
            }
            if t.is_multiple_of(THREADS) {
                empty(stage).arrive();
            }
        }
        if group > 0 {
            wgmma::wait_group::<0>();
            let t = t % THREADS;
            let row = (group - 1) * M / 2 + t / 32 * 16 + t % 32 / 4;
            let to = d.add((row * N + t % 4 * 2).into());
            unroll!(j < 16, {
                let (upper, lower) = (to.add(8 * j as u64), to.add(8 * (j as u64 + N as u64)));
                upper.store_vec([sums.get::<{ 4 * j }>(), sums.get::<{ 4 * j + 1 }>()]);
                lower.store_vec([sums.get::<{ 4 * j + 2 }>(), sums.get::<{ 4 * j + 3 }>()]);
            });
        }
    }
}

/// A matrix of small integers.
fn integers(count: u32, factor: u32) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32((i * factor % 23) as f32 - 11.0)).collect()
}

#[test]
fn a_ring_of_bulk_copies_feeds_two_warpgroups() {
    let simulator = Simulator::new();
    let (a, b) = (integers(M * DEPTH, 7), integers(DEPTH * N, 13));
    let map = |matrix: &[bf16], (rows, cols): (u32, u32), tile: (u32, u32)| {
        let tensor = TiledTensor::matrix(
            ElementType::Bf16,
            upload(&simulator, matrix).address(),
            (rows.into(), cols.into()),
            u64::from(cols) * 2,
            tile,
            Swizzle::Bytes128,
        );
        simulator.tensor_map(&tensor).unwrap()
    };
    let (a_map, b_map) = (map(&a, (M, DEPTH), (M, K)), map(&b, (DEPTH, N), (K, K)));
    let d = alloc::<f32>(&simulator, (M * N) as usize);
    let shared = STAGES * STAGE_BYTES;
    let run = |mistake: Mistake| launch!(simulator, gemm[1, 3 * THREADS, shared](a_map, b_map, d, mistake));
    let counters = run(Mistake::Nothing).unwrap();
    assert_eq!(counters.wgmma_instructions, u64::from(2 * 4 * DEPTH / K));
    let found = download(&simulator, d, (M * N) as usize);
    for (at, found) in found.into_iter().enumerate() {
        let (i, j) = (at / N as usize, at % N as usize);
        let products = (0..DEPTH as usize)
            .map(|k| a[i * DEPTH as usize + k].to_f32() * b[k * N as usize + j].to_f32());
        assert_eq!(found, products.sum::<f32>(), "({i}, {j})");
    }
    let early = fault(run(Mistake::ReturnsEarly));
    assert_eq!(early.kind, FaultKind::OperandInFlight { issuer: [THREADS, 0, 0] });
    assert_line(&early, SOURCE, "fills");
    let impatient = fault(run(Mistake::DoesNotWait));
    assert_eq!(impatient.kind, FaultKind::AsyncNotWaited { issuer: [0; 3] });
    assert_line(&impatient, SOURCE, "reads");
}
