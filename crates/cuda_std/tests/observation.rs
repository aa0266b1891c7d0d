//! Launches that are observed: what each thread did, in its order.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{
    AccessKind, Counters, Event, Launch, MemoryAccess, SimError, Simulator, Space, SyncOperation,
    ThreadEvents,
};
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x, thread_idx_y};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, sync_warp};
use cuda_std::{cluster, kernel, named_barrier, shared_array};
use std::ffi::c_void;

const SOURCE: &str = include_str!("observation.rs");

/// The line that ends in a mark.
fn line_of(mark: &str) -> u32 {
    let mark = format!("// {mark}");
    SOURCE.lines().position(|line| line.ends_with(&mark)).unwrap() as u32 + 1
}

/// `observe!(simulator, kernel[grid, block](arguments))`: an observed launch.
macro_rules! observe {
    ($simulator:expr, $kernel:ident[$grid:expr, $block:expr]($($argument:expr),*)) => {{
        use common::Shape as _;
        let launch = Launch { grid: $grid.dim(), block: $block.dim(), dynamic_shared: 0 };
        let arguments: &[*const c_void] = &[$(std::ptr::from_ref(&$argument).cast()),*];
        // SAFETY: each test passes arguments of the parameters' types.
        unsafe { $simulator.observe(&$kernel::ENTRY, launch, arguments) }
    }};
}

/// An event and its line, with the address from the beginning of whatever the test says is there.
type Told = (String, u32);

fn told(event: &Event, origin: impl Fn(&MemoryAccess) -> u64) -> Told {
    match *event {
        Event::Access { access, active, place } => {
            assert!(place.file().ends_with("observation.rs"), "{place}");
            let MemoryAccess { space, kind, address, bytes } = access;
            let off = if active { "" } else { " off" };
            let offset = address - origin(&access);
            (format!("{kind} {space} +{offset} {bytes}{off}"), place.line())
        }
        Event::Barrier { operation, place } => (operation.to_string(), place.line()),
    }
}

fn barriers(thread: &ThreadEvents) -> Vec<(SyncOperation, u32)> {
    let barrier = |event: &Event| match *event {
        Event::Barrier { operation, place } => Some((operation, place.line())),
        Event::Access { .. } => None,
    };
    thread.events.iter().filter_map(barrier).collect()
}

/// One access of each kind, on either side of a barrier.
#[kernel]
unsafe fn every_kind(x: GlobalPtr<f32>, y: GlobalPtr<f64>) {
    let shared = shared_array!(f32; 64);
    let i = thread_idx_x();
    unsafe {
        let value = x.add(i.into()).load(); // load
        let nothing = x.add(1000).load_if(i == 99); // load off
        shared.add(i).store(value + nothing); // store shared
        sync_threads(); // whole
        let [a, b] = shared.add(i / 2 * 2).load_vec::<2>(); // load pair
        shared.add(i).store_if(false, a); // store off
        y.add(i.into()).store((a + b).into()); // store
        copy_async::<_, 2>(shared.add(32 + 2 * i), x.add((2 * i).into()), true); // copy
        copy_async::<_, 1>(shared.add(48 + i), x.add(1000), false); // zeros
        commit_group();
        wait_group::<0>();
    }
}

#[test]
fn accesses_of_every_kind_in_order() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[1.5_f32; 16]);
    let y = alloc::<f64>(&simulator, 8);
    let (_, threads) = observe!(simulator, every_kind[1, 8](x, y)).unwrap();
    assert_eq!(threads.len(), 8);

    // All threads begin with a store to their element of shared memory.
    let first_store = threads[0].events.iter().find_map(|event| match event {
        Event::Access { access, .. } if access.space == Space::Shared => Some(access.address),
        _ => None,
    });
    let origin = |access: &MemoryAccess| match (access.space, access.kind) {
        (Space::Shared, _) => first_store.unwrap(),
        (Space::Global, AccessKind::Read) => x.address(),
        (Space::Global, AccessKind::Write) => y.address(),
    };
    for (i, thread) in (0..).zip(&threads) {
        assert_eq!((thread.block, thread.thread), ([0; 3], [i, 0, 0]));
        let expected = [
            (format!("read global +{} 4", 4 * i), "load"),
            ("read global +4000 4 off".into(), "load off"),
            (format!("write shared +{} 4", 4 * i), "store shared"),
            ("block barrier".into(), "whole"),
            (format!("read shared +{} 8", i / 2 * 8), "load pair"),
            (format!("write shared +{} 4 off", 4 * i), "store off"),
            (format!("write global +{} 8", 8 * i), "store"),
            (format!("read global +{} 8", 8 * i), "copy"),
            (format!("write shared +{} 8", 128 + 8 * i), "copy"),
            ("read global +4000 4 off".into(), "zeros"),
            (format!("write shared +{} 4", 192 + 4 * i), "zeros"),
        ];
        let expected: Vec<Told> =
            expected.into_iter().map(|(text, mark)| (text, line_of(mark))).collect();
        let found: Vec<Told> = thread.events.iter().map(|event| told(event, origin)).collect();
        assert_eq!(found, expected, "thread {i}");
    }
}

/// Threads of three warps go through a loop as often as their index says, which for most is more often than the log of
/// a warp has room for. In some rounds, and each in others, even threads load once more, so that some are ahead of
/// others when their logs are full, and keep a part of them. Between even threads and odd ones lies a barrier of the
/// warp.
#[kernel]
unsafe fn diverged(x: GlobalPtr<u32>) {
    let i = thread_idx_y() * WARP_SIZE + thread_idx_x();
    let block = block_idx_y() * 2 + block_idx_x();
    let rounds = 10 * i + block;
    unsafe {
        if i.is_multiple_of(2) {
            for round in 0..rounds {
                x.add(round.into()).load(); // even
                if round.is_multiple_of(i / 2 + 1) {
                    x.add(999).load(); // more
                }
            }
        }
        sync_warp(FULL_MASK); // warp
        if !i.is_multiple_of(2) {
            for round in (0..rounds).rev() {
                x.add(round.into()).load(); // odd
            }
        }
        sync_threads(); // block
    }
}

#[test]
fn threads_of_several_warps_and_blocks() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0_u32; 1000]);
    let (counters, threads) = observe!(simulator, diverged[(2, 2), (WARP_SIZE, 3)](x)).unwrap();
    assert_eq!(threads.len(), 4 * 96);
    let mut loads = 0;
    for (n, thread) in (0..).zip(&threads) {
        let (block, i) = (n / 96, n % 96);
        assert_eq!(thread.block, [block % 2, block / 2, 0]);
        assert_eq!(thread.thread, [i % WARP_SIZE, i / WARP_SIZE, 0]);

        let rounds = u64::from(10 * i + block);
        let load = |round: u64, mark| (format!("read global +{} 4", 4 * round), line_of(mark));
        let barrier = |text: &str, mark| (text.to_owned(), line_of(mark));
        let mut expected = Vec::new();
        if i.is_multiple_of(2) {
            for round in 0..rounds {
                expected.push(load(round, "even"));
                if round.is_multiple_of(u64::from(i / 2 + 1)) {
                    expected.push(load(999, "more"));
                }
            }
        }
        expected.push(barrier("warp barrier", "warp"));
        if !i.is_multiple_of(2) {
            expected.extend((0..rounds).rev().map(|round| load(round, "odd")));
        }
        expected.push(barrier("block barrier", "block"));
        loads += expected.len() as u64 - 2;
        let found: Vec<Told> =
            thread.events.iter().map(|event| told(event, |_| x.address())).collect();
        assert!(found == expected, "thread {i} of block {block}");
    }
    assert_eq!(counters.global_load_elements, loads);
}

/// Two warps meet at a named barrier; the third does not, and only comes to another one and goes on.
#[kernel(cluster = 2)]
unsafe fn barriers_of_some(x: GlobalPtr<u32>) {
    let warp = thread_idx_x() / WARP_SIZE;
    unsafe {
        if warp < 2 {
            named_barrier::sync(1, 2 * WARP_SIZE); // named
        }
        if warp == 2 {
            named_barrier::arrive(2, 2 * WARP_SIZE);
        } else if warp == 0 {
            named_barrier::sync(2, 2 * WARP_SIZE); // come
        }
        cluster::sync(); // cluster
        x.add(thread_idx_x().into()).store(warp);
    }
}

#[test]
fn barriers_of_a_part_of_the_block_and_of_the_cluster() {
    let simulator = Simulator::new();
    let x = alloc::<u32>(&simulator, 96);
    let (_, threads) = observe!(simulator, barriers_of_some[2, 96](x)).unwrap();
    assert_eq!(threads.len(), 2 * 96);
    let named = (SyncOperation::NamedBarrier, line_of("named"));
    let come = (SyncOperation::NamedBarrier, line_of("come"));
    let cluster = (SyncOperation::ClusterWait, line_of("cluster"));
    for thread in &threads {
        let expected = match thread.thread[0] / WARP_SIZE {
            0 => vec![named, come, cluster],
            1 => vec![named, cluster],
            _ => vec![cluster],
        };
        assert_eq!(barriers(thread), expected, "thread {:?}", thread.thread);
    }
}

#[test]
fn other_launches_are_not_observed_and_count_the_same() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0_u32; 1000]);
    let other =
        || -> Counters { launch!(simulator, diverged[(2, 2), (WARP_SIZE, 3), 0](x)).unwrap() };
    let before = other();
    let observe = || observe!(simulator, diverged[(2, 2), (WARP_SIZE, 3)](x)).unwrap();
    // One runs others at the same time: on the same host threads, with the same memory.
    let (observed, others) = rayon::join(observe, || [other(), other()]);
    assert_eq!(observed.0, before);
    assert_eq!(others, [before; 2]);
    assert!(observed == observe(), "it has nothing of the others, and is the same every time");
}

#[test]
fn a_launch_that_fails_tells_its_fault() {
    let simulator = Simulator::new();
    let x = upload(&simulator, &[0_u32; 10]);
    let error = observe!(simulator, diverged[(2, 2), (WARP_SIZE, 3)](x)).unwrap_err();
    assert!(matches!(error, SimError::Fault(_)), "{error}");
    let error = observe!(simulator, diverged[(2, 2), (WARP_SIZE, 99)](x)).unwrap_err();
    assert!(matches!(error, SimError::InvalidLaunch(_)), "{error}");
}

/// A thread that does nothing is there as well.
#[kernel]
unsafe fn first_alone(x: GlobalPtr<u8>) {
    if thread_idx_x() == 0 {
        unsafe { x.store(1) }
    }
}

#[test]
fn idle_threads_have_no_events() {
    let simulator = Simulator::new();
    let x = alloc::<u8>(&simulator, 1);
    let (_, threads) = observe!(simulator, first_alone[1, 3](x)).unwrap();
    let lengths: Vec<usize> = threads.iter().map(|thread| thread.events.len()).collect();
    assert_eq!(lengths, [1, 0, 0]);
}
