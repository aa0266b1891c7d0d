//! Kernels that make bulk copies, for the device and the simulator alike.
//!
//! SAFETY of their `unsafe` blocks: each is launched as its comment says.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

use cuda_std::bulk_copy::{self, TensorMap};
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::swizzle::Swizzle;
use cuda_std::{cluster, kernel, named_barrier, registers, shared, shared_array, thread, warp};

/// Threads of the blocks that load and store boxes.
pub const THREADS: u32 = 128;

/// What shared memory holds where nothing is loaded.
const UNTOUCHED: u32 = 0xdead_beef;

/// Loads a box, of `expected` bytes, and copies the dynamic shared memory, `words` words, as it is to `out`.
#[kernel(max_threads = THREADS)]
pub unsafe fn load_box(
    out: GlobalPtr<u32>,
    #[grid_constant] map: &TensorMap,
    x: i32,
    y: i32,
    expected: u32,
    words: u32,
) {
    let full = Mbarrier::new(shared_array!(u64; 1));
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    unsafe {
        let mut j = i;
        while j < words {
            tile.add(j).store(UNTOUCHED);
            j += THREADS;
        }
        if i == 0 {
            full.init(1);
            mbarrier::fence_init();
            bulk_copy::prefetch(map);
        }
        bulk_copy::fence_shared();
        thread::sync_threads();
        if i < warp::WARP_SIZE && warp::elect(warp::FULL_MASK) {
            full.arrive_expect_tx(expected);
            bulk_copy::load_2d(tile, map, [x, y], full);
        }
        full.wait(0);
        let mut j = i;
        while j < words {
            out.add(j as u64).store(tile.add(j).load());
            j += THREADS;
        }
    }
}

/// Fills the dynamic shared memory, `words` words, from `source` as it is and stores a box from there.
#[kernel(max_threads = THREADS)]
pub unsafe fn store_box(
    source: GlobalPtr<u32>,
    #[grid_constant] map: &TensorMap,
    x: i32,
    y: i32,
    words: u32,
) {
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    unsafe {
        let mut j = i;
        while j < words {
            tile.add(j).store(source.add(j as u64).load());
            j += THREADS;
        }
        bulk_copy::fence_shared();
        thread::sync_threads();
        if i == 0 {
            bulk_copy::store_2d(map, [x, y], tile);
            bulk_copy::commit_group();
            bulk_copy::wait_group_read::<0>();
            bulk_copy::wait_group::<0>();
        }
    }
}

/// Stages of the ring.
const STAGES: u32 = 3;

/// Rows and columns of a stage: boxes of f32 elements with a swizzle of 128 bytes.
pub const ROWS: u32 = 64;
pub const COLS: u32 = 32;

/// Elements and bytes of a stage.
const STAGE: u32 = ROWS * COLS;
const STAGE_BYTES: u32 = STAGE * size_of::<f32>() as u32;

/// Columns of the result.
pub const RESULTS: u32 = 4;

/// Threads of a warpgroup.
const GROUP: u32 = 128;

/// Threads of the ring's blocks: a warpgroup that produces and one that consumes.
pub const RING_THREADS: u32 = 2 * GROUP;

/// Bytes of dynamic shared memory of the ring's blocks.
pub const RING_SHARED: u32 = STAGES * STAGE_BYTES + ROWS * RESULTS * size_of::<f32>() as u32;

/// The barrier of the consumers, and that at which the producers come to them.
const CONSUMERS: u32 = 1;
const ALL: u32 = 2;

/// For each row of the matrix of `map`, in boxes of `ROWS x COLS`: its sum, twice that, its number in its block, and
/// zero. They are stored in boxes of `ROWS x RESULTS` that are not swizzled, by `target`. There is a block for `ROWS`
/// rows.
#[kernel(max_threads = RING_THREADS, min_blocks = 2)]
pub unsafe fn ring(
    #[grid_constant] map: &TensorMap,
    #[grid_constant] target: &TensorMap,
    cols: u32,
) {
    let objects = shared_array!(u64; 2 * STAGES);
    let full = |s: u32| Mbarrier::new(objects.add(s));
    let empty = |s: u32| Mbarrier::new(objects.add(STAGES + s));
    let stages = shared::dynamic::<f32>();
    let result: SharedPtr<f32> = stages.add(STAGES * STAGE);
    let i = thread::thread_idx_x();
    let row = thread::block_idx_x() * ROWS;
    let tiles = cols.div_ceil(COLS);
    unsafe {
        if i == 0 {
            for s in 0..STAGES {
                full(s).init(1);
                empty(s).init(GROUP / warp::WARP_SIZE);
            }
            mbarrier::fence_init();
        }
        thread::sync_threads();
        let (mut stage, mut parity) = (0, 0);
        if i < GROUP {
            registers::decrease::<40>();
            if i < warp::WARP_SIZE && warp::elect(warp::FULL_MASK) {
                for tile in 0..tiles {
                    empty(stage).wait(parity ^ 1);
                    full(stage).arrive_expect_tx(STAGE_BYTES);
                    let at = [(tile * COLS) as i32, row as i32];
                    bulk_copy::load_2d(stages.add(stage * STAGE), map, at, full(stage));
                    stage += 1;
                    if stage == STAGES {
                        (stage, parity) = (0, parity ^ 1);
                    }
                }
            }
            named_barrier::arrive(ALL, RING_THREADS);
            return;
        }
        registers::increase::<160>();
        let me = i - GROUP;
        let mut sum = 0.0_f32;
        for _ in 0..tiles {
            full(stage).wait(parity);
            if me < ROWS {
                let base = stages.add(stage * STAGE).address() + me * COLS * 4;
                for c in 0..COLS {
                    let at = Swizzle::Bytes128.apply(base + c * 4);
                    sum += SharedPtr::<f32>::from_address(at).load();
                }
            }
            warp::sync_warp(warp::FULL_MASK);
            if warp::lane_id() == 0 {
                empty(stage).arrive();
            }
            stage += 1;
            if stage == STAGES {
                (stage, parity) = (0, parity ^ 1);
            }
        }
        if me < ROWS {
            result.add(me * RESULTS).store(sum);
        }
        named_barrier::sync(CONSUMERS, GROUP);
        if me >= ROWS {
            let r = me - ROWS;
            result.add(r * RESULTS + 1).store(2.0 * result.add(r * RESULTS).load());
            result.add(r * RESULTS + 2).store(r as f32);
            result.add(r * RESULTS + 3).store(0.0);
        }
        bulk_copy::fence_shared();
        named_barrier::sync(ALL, RING_THREADS);
        if me == 0 {
            bulk_copy::store_2d(target, [0, row as i32], result);
            bulk_copy::commit_group();
            bulk_copy::wait_group_read::<0>();
        }
    }
}

/// Blocks that load a box of a matrix of a batch together.
pub const SHARERS: u32 = 2;

/// Each block of a cluster loads one of two boxes, which lie one above the other, to all of them, and copies both,
/// `words` words, to its part of `out`.
#[kernel(max_threads = THREADS, cluster = SHARERS)]
pub unsafe fn share_boxes(
    out: GlobalPtr<u32>,
    #[grid_constant] map: &TensorMap,
    box_rows: u32,
    words: u32,
) {
    let objects = shared_array!(u64; 2);
    let (full, read) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let boxes = shared::dynamic::<u32>();
    let (i, rank) = (thread::thread_idx_x(), cluster::rank());
    unsafe {
        if i == 0 {
            full.init(1);
            read.init(SHARERS * THREADS / warp::WARP_SIZE);
            mbarrier::fence_init();
        }
        cluster::sync();
        if i < warp::WARP_SIZE && warp::elect(warp::FULL_MASK) {
            full.arrive_expect_tx(words * 4);
            let (target, row) = (boxes.add(rank * (words / SHARERS)), (rank * box_rows) as i32);
            bulk_copy::load_3d_multicast(target, map, [0, row, 0], full, 0b11);
        }
        full.wait(0);
        let out = out.add(u64::from(thread::block_idx_x() * words));
        let mut j = i;
        while j < words {
            out.add(j as u64).store(boxes.add(j).load());
            j += THREADS;
        }
        warp::sync_warp(warp::FULL_MASK);
        if warp::lane_id() < SHARERS {
            read.in_block(warp::lane_id()).arrive();
        }
        // Nobody arrives any more.
        read.wait(0);
    }
}
