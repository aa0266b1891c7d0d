//! Bulk stores of what copies have brought, and many of them at a time.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::async_copy::{self, copy_async};
use cuda_std::bulk_copy::{TensorMap, commit_group, fence_shared, store_2d, wait_group};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::{kernel, shared, shared_array, thread};

const SOURCE: &str = include_str!("bulk_store_order.rs");

/// Rows and columns of a box of 32-bit elements.
const ROWS: u32 = 8;
const COLS: u32 = 32;
const ELEMENTS: u32 = ROWS * COLS;

/// Threads of a block, each of which copies four elements.
const THREADS: u32 = ELEMENTS / 4;

/// How threads wait for their copies to a tile, and when they fence it for the store.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Copied {
    /// They wait for the group, and fence.
    Right,
    /// They fence before they wait.
    FencedTooEarly,
    /// The same after a barrier of the block, at which the copies are under way.
    FencedTooEarlyLater,
    /// As `Right`, with an mbarrier that the copies arrive at.
    AtMbarrier,
    /// As `FencedTooEarlyLater`, with the mbarrier.
    AtMbarrierTooEarly,
}

#[kernel]
unsafe fn store_copied(#[grid_constant] map: &TensorMap, from: GlobalPtr<u32>, how: Copied) {
    use Copied::*;
    let arrived = Mbarrier::new(shared_array!(u64; 1));
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    let has_mbarrier = matches!(how, AtMbarrier | AtMbarrierTooEarly);
    unsafe {
        if has_mbarrier {
            if i == 0 {
                arrived.init(THREADS);
            }
            thread::sync_threads();
        }
        copy_async::<_, 4>(tile.add(4 * i), from.add(u64::from(4 * i)), true);
        if has_mbarrier {
            arrived.arrive_on_copies();
        } else {
            async_copy::commit_group();
        }
        if how != FencedTooEarly {
            thread::sync_threads();
        }
        if !matches!(how, Right | AtMbarrier) {
            fence_shared();
        }
        if has_mbarrier {
            arrived.wait(0);
        } else {
            async_copy::wait_group::<0>();
        }
        if matches!(how, Right | AtMbarrier) {
            fence_shared();
        }
        thread::sync_threads();
        if i == 0 {
            store_2d(map, [0, 0], tile); // store of copies
            commit_group();
            wait_group::<0>();
        }
    }
}

#[test]
fn copies_are_fenced_once_they_have_arrived() {
    use Copied::*;
    let simulator = Simulator::new();
    let values = Vec::from_iter(0..ELEMENTS);
    let from = upload(&simulator, &values);
    let run = |how: Copied| {
        let d = upload(&simulator, &[0_u32; ELEMENTS as usize]);
        let (rows, cols) = (u64::from(ROWS), u64::from(COLS));
        let tensor = TiledTensor::matrix(
            ElementType::U32,
            d.address(),
            (rows, cols),
            4 * cols,
            (ROWS, COLS),
            Swizzle::None,
        );
        let map = simulator.tensor_map(&tensor).unwrap();
        let result = launch!(simulator, store_copied[1, THREADS, 4 * ELEMENTS](map, from, how));
        (result, download(&simulator, d, ELEMENTS as usize))
    };
    for how in [Right, AtMbarrier] {
        let (result, d) = run(how);
        result.unwrap_or_else(|e| panic!("{how:?}: {e}"));
        assert_eq!(d, values, "{how:?}");
    }
    for how in [FencedTooEarly, FencedTooEarlyLater, AtMbarrierTooEarly] {
        let fault = fault(run(how).0);
        assert_eq!(fault.kind, FaultKind::MissingProxyFence { writer: [0; 3] }, "{how:?}");
        assert_line(&fault, SOURCE, "store of copies");
    }
}

/// Stores one piece again and again, and overwrites it without having waited for any of them.
#[kernel]
unsafe fn store_often(#[grid_constant] map: &TensorMap, times: u32) {
    let tile = shared::dynamic::<u32>();
    unsafe {
        tile.store_vec([1; 4]);
        fence_shared();
        for _ in 0..times {
            store_2d(map, [0, 0], tile);
        }
        tile.store(2); // after many stores
    }
}

#[test]
fn however_often_a_tile_is_being_read() {
    let simulator = Simulator::new();
    let d = upload(&simulator, &[0_u32; 4]);
    let tensor =
        TiledTensor::matrix(ElementType::U32, d.address(), (1, 4), 16, (1, 4), Swizzle::None);
    let map = simulator.tensor_map(&tensor).unwrap();
    for times in [1, 1 << 16] {
        let fault = fault(launch!(simulator, store_often[1, 1, 16](map, times)));
        assert_eq!(fault.kind, FaultKind::BulkStoreNotWaited { issuer: [0; 3] }, "{times}");
        assert_line(&fault, SOURCE, "after many stores");
    }
}
