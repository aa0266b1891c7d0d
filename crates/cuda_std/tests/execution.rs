//! Indices, grids, launch limits, panics, and that all of it is repeatable.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{Shape as _, alloc, assert_line, download, fault, launch, upload};
use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Launch, SimError, Simulator};
use cuda_std::{kernel, math, shared_array, thread, warp};
use std::panic::catch_unwind;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const SOURCE: &str = include_str!("execution.rs");

/// Writes everything a thread knows of its place, 13 numbers.
#[kernel]
unsafe fn indices(d: GlobalPtr<u32>) {
    let block = (thread::block_idx_z() * thread::grid_dim_y() + thread::block_idx_y())
        * thread::grid_dim_x()
        + thread::block_idx_x();
    let within = (thread::thread_idx_z() * thread::block_dim_y() + thread::thread_idx_y())
        * thread::block_dim_x()
        + thread::thread_idx_x();
    let threads = thread::block_dim_x() * thread::block_dim_y() * thread::block_dim_z();
    let values = [
        thread::thread_idx_x(),
        thread::thread_idx_y(),
        thread::thread_idx_z(),
        thread::block_idx_x(),
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::block_dim_x(),
        thread::block_dim_y(),
        thread::block_dim_z(),
        thread::grid_dim_x(),
        thread::grid_dim_y(),
        thread::grid_dim_z(),
        warp::lane_id(),
    ];
    let d = d.add((block * threads + within) as u64 * 13);
    for (i, value) in values.into_iter().enumerate() {
        unsafe { d.add(i as u64).store(value) };
    }
}

#[test]
fn indices_in_one_two_and_three_dimensions() {
    let shapes = [
        ([1, 1, 1], [1, 1, 1]),
        ([5, 1, 1], [33, 1, 1]),
        ([2, 3, 1], [8, 5, 1]),
        ([2, 3, 4], [3, 5, 7]),
        ([1, 1, 2], [2, 2, 64]),
    ];
    for (grid, block) in shapes {
        let simulator = Simulator::new();
        let count = |dim: [u32; 3]| dim.iter().product::<u32>();
        let total = (count(grid) * count(block)) as usize;
        let d = alloc::<u32>(&simulator, total * 13);
        let shape = |[x, y, z]: [u32; 3]| (x, y, z);
        launch!(simulator, indices[shape(grid), shape(block), 0](d)).unwrap();
        let result = download(&simulator, d, total * 13);
        let mut rows = result.chunks(13);
        for bz in 0..grid[2] {
            for by in 0..grid[1] {
                for bx in 0..grid[0] {
                    let mut linear = 0;
                    for tz in 0..block[2] {
                        for ty in 0..block[1] {
                            for tx in 0..block[0] {
                                let mut expected = vec![tx, ty, tz, bx, by, bz];
                                expected.extend(block.into_iter().chain(grid));
                                expected.push(linear % 32);
                                assert_eq!(rows.next().unwrap(), expected);
                                linear += 1;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One thread a block marks its block.
#[kernel]
unsafe fn mark_block(d: GlobalPtr<u32>) {
    let block = thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x();
    unsafe { d.add(block as u64).store(block) }
}

#[test]
fn ninety_thousand_blocks() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 90_000);
    let counters = launch!(simulator, mark_block[(300, 300), 1, 0](d)).unwrap();
    assert_eq!(counters.global_store_requests, 90_000);
    assert_eq!(download(&simulator, d, 90_000), Vec::from_iter(0..90_000));
}

/// A kernel with some of everything.
#[kernel]
unsafe fn mixture(x: GlobalPtr<f32>, d: GlobalPtr<f32>) {
    let row = shared_array!(f32; 96);
    let i = thread::thread_idx_x();
    let at = (thread::block_idx_x() * 96 + i) as u64;
    unsafe {
        row.add(i * 5 % 96).store(x.add(at).load());
        thread::sync_threads();
        let mut value = row.add(i).load();
        value += warp::shuffle_xor(warp::FULL_MASK, value, 16);
        d.add(at).store(math::fma_f32(value, value, row.add(95 - i).load()));
    }
}

#[test]
fn the_same_on_any_number_of_host_threads() {
    let simulator = Simulator::new();
    let values: Vec<f32> = (0..96 * 50).map(|i| (i as f32).sin()).collect();
    let x = upload(&simulator, &values);
    let run = || {
        let d = alloc::<f32>(&simulator, values.len());
        let counters = launch!(simulator, mixture[50, 96, 0](x, d)).unwrap();
        let bits: Vec<u32> =
            download(&simulator, d, values.len()).into_iter().map(f32::to_bits).collect();
        (counters, bits)
    };
    let expected = run();
    assert_eq!(expected.0.block_barriers, 50);
    assert_eq!(run(), expected);
    for threads in [1, 2, 7] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(run), expected, "{threads} threads");
    }
}

/// Blocks from `first` on read out of bounds; so does the first one that is a multiple of 64, in its last thread.
#[kernel]
unsafe fn faults_in_many_blocks(x: GlobalPtr<f32>, first: u32) {
    let (block, i) = (thread::block_idx_x(), thread::thread_idx_x());
    let wrong = block >= first || block == 64 && i == 7;
    unsafe { x.add(if wrong { 1 << 20 } else { 0 }).load() };
}

#[test]
fn the_fault_of_the_lowest_block_is_reported() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0.0_f32]);
    for threads in [1, 2, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for _ in 0..20 {
            let fault = pool
                .install(|| fault(launch!(simulator, faults_in_many_blocks[200, 8, 0](x, 65_u32))));
            assert_eq!((fault.block, fault.thread), ([64, 0, 0], [7, 0, 0]));
        }
    }
    launch!(simulator, faults_in_many_blocks[64, 8, 0](x, 64_u32)).unwrap();
}

/// Launches from several host threads at once, one of which faults.
#[test]
fn launches_at_the_same_time() {
    let simulator = Simulator::new();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let simulator = simulator.clone();
            scope.spawn(move || {
                for _ in 0..10 {
                    let d = alloc::<u32>(&simulator, 400);
                    if n == 0 {
                        fault(launch!(simulator, mark_block[(20, 21), 1, 0](d)));
                    } else {
                        launch!(simulator, mark_block[(20, 20), 1, 0](d)).unwrap();
                        assert_eq!(download(&simulator, d, 400), Vec::from_iter(0..400));
                    }
                    simulator.free(d.address()).unwrap();
                }
            });
        }
    });
}

/// Launches in a pool and beside it, for each of which the same lock is held. None waits for threads of the pool, which
/// may wait for the lock, nor does its own thread meanwhile begin another one.
#[test]
fn launches_wait_for_no_other_work_of_a_pool() {
    const LONGEST: Duration = Duration::from_secs(120);
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let simulator = Simulator::new();
        let lock = Mutex::new(());
        let run = || {
            let _held = lock.lock().unwrap();
            let d = alloc::<u32>(&simulator, 400);
            launch!(simulator, mark_block[(20, 20), 1, 0](d)).unwrap();
            assert_eq!(download(&simulator, d, 400), Vec::from_iter(0..400));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..50).for_each(|_| run()));
            rayon::scope(|scope| (0..50).for_each(|_| scope.spawn(|_| run())));
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONGEST).expect("they wait for each other, or one has failed");
}

/// Blocks whose threads are all there for long enough that those of other blocks are, too.
#[kernel]
unsafe fn meets(d: GlobalPtr<u32>) {
    unsafe {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            std::thread::sleep(Duration::from_millis(300));
        }
        thread::sync_threads();
        d.add(thread::thread_idx_x().into()).store(1);
    }
}

/// As many blocks at a time as there are threads of the pool would need more stacks than a process gets.
#[test]
fn large_blocks_of_launches_at_the_same_time() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(40).build().unwrap();
    pool.scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|_| {
                let simulator = Simulator::new();
                let d = alloc::<u32>(&simulator, 1024);
                launch!(simulator, meets[16, 1024, 0](d)).unwrap();
                assert_eq!(download(&simulator, d, 1024), [1; 1024]);
            });
        }
    });
}

#[kernel]
unsafe fn index_out_of_range(table: [u32; 4], d: GlobalPtr<u32>) {
    let i = thread::thread_idx_x();
    unsafe { d.add(i as u64).store(table[i as usize]) } // table lookup
}

#[kernel]
unsafe fn traps(d: GlobalPtr<u32>) {
    if thread::thread_idx_x() == 5 {
        thread::trap(); // no use
    }
    unsafe { d.store(1) }
}

#[test]
fn a_trap_is_a_fault() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    let fault = fault(launch!(simulator, traps[1, 8, 0](d)));
    assert_eq!(fault.kind, FaultKind::Panic);
    assert_eq!(fault.thread, [5, 0, 0]);
    assert!(fault.message.contains("trap"), "{fault}");
    assert_line(&fault, SOURCE, "no use");
    launch!(simulator, traps[1, 5, 0](d)).unwrap();
}

#[test]
fn a_panic_is_a_fault() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 8);
    let fault = fault(launch!(simulator, index_out_of_range[2, 8, 0]([1_u32, 2, 3, 4], d)));
    assert_eq!(fault.kind, FaultKind::Panic);
    assert_eq!((fault.kernel, fault.block), ("index_out_of_range", [0; 3]));
    assert_eq!(fault.thread, [4, 0, 0]);
    assert!(fault.message.contains("index out of bounds: the len is 4"), "{fault}");
    assert_line(&fault, SOURCE, "table lookup");
    launch!(simulator, index_out_of_range[2, 4, 0]([1_u32, 2, 3, 4], d)).unwrap();
    assert_eq!(download(&simulator, d, 4), [1, 2, 3, 4]);
}

#[test]
fn device_functions_outside_of_a_kernel() {
    for function in [thread::thread_idx_x, warp::lane_id] {
        let payload = catch_unwind(function).unwrap_err();
        let message = payload.downcast_ref::<&str>().unwrap();
        assert!(message.contains("outside of a kernel"), "{message}");
    }
    // Arithmetic needs no kernel.
    assert_eq!(math::fma_f32(2.0, 3.0, 4.0), 10.0);
}

/// Tries to launch another kernel.
#[kernel]
unsafe fn nested(simulator: *const Simulator, d: GlobalPtr<u32>) {
    // SAFETY: the test passes a live simulator.
    let simulator = unsafe { &*simulator };
    let result = launch!(simulator, mark_block[1, 1, 0](d));
    let refused = matches!(result, Err(SimError::InvalidLaunch(_)));
    unsafe { d.store(refused as u32) };
}

#[test]
fn a_kernel_cannot_launch_another() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    launch!(simulator, nested[1, 1, 0](&raw const simulator, d)).unwrap();
    assert_eq!(download(&simulator, d, 1), [1]);
}

#[kernel(max_threads = 128)]
unsafe fn bounded(d: GlobalPtr<u32>) {
    unsafe { d.store_if(thread::thread_idx_x() == 0, 1) }
}

#[test]
fn launches_that_are_refused() {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 1);
    let refused = |grid: [u32; 3], block: [u32; 3], shared: u32, arguments: usize| {
        let launch = Launch { grid, block, dynamic_shared: shared };
        let arguments = vec![(&raw const d).cast(); arguments];
        // SAFETY: the argument is a pointer, as the parameter.
        match unsafe { simulator.launch(&bounded::ENTRY, launch, &arguments) } {
            Err(SimError::InvalidLaunch(message)) => message,
            other => panic!("expected a refusal, got {other:?}"),
        }
    };
    let one = 1_u32.dim();
    for (grid, block, shared, arguments, expected) in [
        ([0, 1, 1], one, 0, 1, "the grid is 0 along x, and must be 1 to 2147483647"),
        ([1, 0, 1], one, 0, 1, "the grid is 0 along y, and must be 1 to 65535"),
        ([1, 65_536, 1], one, 0, 1, "the grid is 65536 along y, and must be 1 to 65535"),
        ([1, 1, 65_536], one, 0, 1, "the grid is 65536 along z"),
        ([1 << 31, 1, 1], one, 0, 1, "the grid is 2147483648 along x"),
        (one, [1, 1, 0], 0, 1, "the block is 0 along z, and must be 1 to 64"),
        (one, [1, 1, 65], 0, 1, "the block is 65 along z, and must be 1 to 64"),
        (one, [1025, 1, 1], 0, 1, "the block is 1025 along x, and must be 1 to 1024"),
        (one, [32, 33, 1], 0, 1, "a block of 1056 threads, and there may be 1024"),
        (one, [129, 1, 1], 0, 1, "a block of 129 threads, and the kernel was compiled for 128"),
        (
            one,
            one,
            232_449,
            1,
            "232449 bytes of dynamic shared memory, and a block may have 232448",
        ),
        (one, one, 0, 0, "0 arguments, and the kernel has 1 parameters"),
        (one, one, 0, 2, "2 arguments, and the kernel has 1 parameters"),
    ] {
        let message = refused(grid, block, shared, arguments);
        assert!(message.contains(expected), "{message:?} does not contain {expected:?}");
        assert!(message.starts_with("bounded: "));
    }
    assert_eq!(download(&simulator, d, 1), [u32::MAX]);
    launch!(simulator, bounded[1, 128, 232_448](d)).unwrap();
    assert_eq!(download(&simulator, d, 1), [1]);

    let launch = Launch { grid: one, block: one, dynamic_shared: 0 };
    let unaligned = (&raw const d).cast::<u8>().wrapping_add(1).cast();
    // SAFETY: the launch is refused.
    let result = unsafe { simulator.launch(&bounded::ENTRY, launch, &[unaligned]) };
    assert!(matches!(result, Err(SimError::InvalidLaunch(_))), "{result:?}");
}

#[test]
fn an_entry_describes_its_kernel() {
    let KernelEntry { name, max_threads, min_blocks, parameters, .. } = bounded::ENTRY;
    assert_eq!((name, max_threads, min_blocks), ("bounded", Some(128), None));
    assert_eq!((parameters[0].size, parameters[0].align), (8, 8));
}
