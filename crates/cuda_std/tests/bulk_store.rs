//! Bulk stores: what they write, and what must come before and after them.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::bulk_copy::{
    TensorMap, commit_group, fence_shared, load_2d, store_2d, wait_group, wait_group_read,
};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, SimError, Simulator};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::warp::{FULL_MASK, WARP_SIZE, sync_warp};
use cuda_std::{kernel, named_barrier, shared, shared_array, thread};

const SOURCE: &str = include_str!("bulk_store.rs");

/// Rows, columns and leading dimension of the matrix that is written.
const ROWS: usize = 21;
const COLS: usize = 44;
const LD: usize = 48;

/// Rows and columns of a box of 32-bit elements, a row of the widest swizzle.
const BOX_ROWS: u32 = 8;
const BOX_COLS: u32 = 32;
const BOX: u32 = BOX_ROWS * BOX_COLS;

/// Threads of a block.
const THREADS: u32 = 2 * WARP_SIZE;

/// What is done around a store.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Store {
    /// All threads write and fence; one stores after a block barrier.
    Right,
    /// As `Right`, with a named barrier.
    NamedBarrier,
    /// The fence comes after the barrier, in the thread that stores.
    FencedByIssuer,
    /// As `Right`, with two stores of one tile in a group, waited for to the end before it is overwritten.
    Twice,
    /// Nobody fences.
    NotFenced,
    /// The threads fence before they write.
    FencedTooEarly,
    /// All threads but the last fence.
    OneNotFenced,
    /// As `Right` for a first tile; for the second nobody fences.
    SecondNotFenced,
    /// No barrier before the store.
    NoBarrier,
    /// The last row is not written.
    Unwritten,
    /// The thread overwrites the tile and has not waited.
    OverwritesAtOnce,
    /// It has committed nothing, and waits.
    NotCommitted,
    /// It waits for all groups but the newest, which is that of the store.
    WaitsForTooFew,
    /// Other threads overwrite the tile when the one that stores has waited, but has not told them.
    OthersOverwrite,
    /// The same with a barrier between.
    OthersOverwriteLater,
    /// It ends without waiting.
    EndsAtOnce,
    /// It waits until the tile has been read, and ends.
    EndsWhenRead,
    /// A box is loaded over the tile.
    Loads,
}

#[kernel]
unsafe fn store(#[grid_constant] map: &TensorMap, x: i32, y: i32, swizzle: Swizzle, how: Store) {
    use Store::*;
    let full = Mbarrier::new(shared_array!(u64; 1));
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    let write = |base: u32| unsafe {
        let end = if how == Unwritten { BOX - BOX_COLS } else { BOX };
        for at in (i..end).step_by(THREADS as usize) {
            let address = swizzle.apply(tile.add(at).address());
            SharedPtr::from_address(address).store(base + at); // write
        }
    };
    unsafe {
        if how == Loads && i == 0 {
            full.init(1);
            fence_init();
        }
        if how == FencedTooEarly {
            fence_shared();
        }
        write(1000);
        if !matches!(how, FencedByIssuer | NotFenced | FencedTooEarly)
            && (how != OneNotFenced || i != THREADS - 1)
        {
            fence_shared();
        }
        match how {
            NoBarrier => {}
            NamedBarrier => named_barrier::sync(3, THREADS),
            _ => thread::sync_threads(),
        }
        if i == 0 {
            if how == FencedByIssuer {
                fence_shared();
            }
            store_2d(map, [x, y], tile); // store
            match how {
                Twice => {
                    store_2d(map, [x, y + 10], tile);
                    commit_group();
                    wait_group::<0>();
                }
                OverwritesAtOnce => write(2000),
                EndsAtOnce => commit_group(),
                NotCommitted => {
                    wait_group_read::<0>();
                    write(2000);
                }
                WaitsForTooFew => {
                    commit_group();
                    wait_group_read::<1>();
                    write(2000);
                }
                Loads => {
                    commit_group();
                    full.arrive_expect_tx(4 * BOX);
                    load_2d(tile, map, [x, y], full); // load
                }
                _ => {
                    commit_group();
                    wait_group_read::<0>();
                }
            }
        }
        match how {
            OthersOverwrite => {
                // The first warp gathers, so that what its first lane has done before is the last that others may not
                // know of.
                if i < WARP_SIZE {
                    sync_warp(FULL_MASK);
                } else {
                    write(2000);
                }
            }
            Twice | OthersOverwriteLater => {
                thread::sync_threads();
                write(2000);
            }
            SecondNotFenced => {
                thread::sync_threads();
                write(2000);
                thread::sync_threads();
                if i == 0 {
                    store_2d(map, [x, y], tile); // second store
                }
            }
            _ => {}
        }
    }
}

/// What the matrix holds after the kernel, of which every element was zero before.
fn run(how: Store, swizzle: Swizzle, at: (i32, i32)) -> (Result<Counters, SimError>, Vec<u32>) {
    run_in(COLS, how, swizzle, at)
}

/// The same in a matrix of so many columns.
fn run_in(
    columns: usize,
    how: Store,
    swizzle: Swizzle,
    (x, y): (i32, i32),
) -> (Result<Counters, SimError>, Vec<u32>) {
    let simulator = Simulator::new();
    let d: GlobalPtr<u32> = upload(&simulator, &[0_u32; ROWS * LD]);
    let cols = if swizzle == Swizzle::None { BOX_COLS } else { swizzle.row_bytes() / 4 };
    let tensor = TiledTensor::matrix(
        ElementType::U32,
        d.address(),
        (ROWS as u64, columns as u64),
        LD as u64 * 4,
        (BOX / cols, cols),
        swizzle,
    );
    let map = simulator.tensor_map(&tensor).unwrap();
    let result = launch!(simulator, store[1, THREADS, 4 * BOX](map, x, y, swizzle, how));
    (result, download(&simulator, d, ROWS * LD))
}

/// The matrix with boxes of these columns at some places.
fn expected(cols: u32, places: &[(i32, i32)]) -> Vec<u32> {
    let mut d = vec![0; ROWS * LD];
    for (x, y) in places {
        for at in 0..BOX {
            let (row, col) = (y + (at / cols) as i32, x + (at % cols) as i32);
            if (0..ROWS as i32).contains(&row) && (0..COLS as i32).contains(&col) {
                d[row as usize * LD + col as usize] = 1000 + at;
            }
        }
    }
    d
}

#[test]
fn boxes_are_stored_and_what_is_outside_is_left_out() {
    for at in [(0, 0), (4, 3), (40, 18), (-4, -2), (44, 0), (0, 21)] {
        for swizzle in Swizzle::ALL {
            let (result, d) = run(Store::Right, swizzle, at);
            result.unwrap_or_else(|e| panic!("{swizzle:?} at {at:?}: {e}"));
            let cols = if swizzle == Swizzle::None { BOX_COLS } else { swizzle.row_bytes() / 4 };
            assert_eq!(d, expected(cols, &[at]), "{swizzle:?} at {at:?}");
        }
    }
}

/// A GPU writes pieces of 16 bytes, also where a row ends before.
#[test]
fn rows_that_end_within_a_piece() {
    for columns in COLS - 3..COLS {
        let fault = fault(run_in(columns, Store::Right, Swizzle::None, (0, 0)).0);
        assert_eq!(fault.kind, FaultKind::Misaligned, "{columns}");
        assert_line(&fault, SOURCE, "store");
    }
}

#[test]
fn orders_that_the_rules_allow() {
    use Store::*;
    for how in [NamedBarrier, FencedByIssuer, OthersOverwriteLater, EndsWhenRead, Twice] {
        let (result, d) = run(how, Swizzle::Bytes128, (4, 1));
        let counters = result.unwrap_or_else(|e| panic!("{how:?}: {e}"));
        let places: &[_] = if how == Twice { &[(4, 1), (4, 11)] } else { &[(4, 1)] };
        assert_eq!(d, expected(BOX_COLS, places), "{how:?}");
        let stores = places.len() as u64;
        assert_eq!(counters.bulk_copies, stores);
        assert_eq!(counters.bulk_bytes, stores * u64::from(4 * BOX));
        assert_eq!(counters.global_store_requests, stores);
        assert_eq!(counters.global_store_elements, stores * u64::from(BOX));
        // Rows of 128 bytes that begin 16 bytes after a sector.
        assert_eq!(counters.global_store_sectors, stores * u64::from(BOX_ROWS) * 5);
        assert_eq!(counters.named_barriers, u64::from(how == NamedBarrier));
    }
}

#[test]
fn writes_that_a_store_need_not_see() {
    use Store::*;
    for (how, writer, line) in [
        (NotFenced, 0, "store"),
        (FencedTooEarly, 0, "store"),
        (OneNotFenced, THREADS - 1, "store"),
        (SecondNotFenced, 0, "second store"),
    ] {
        let fault = fault(run(how, Swizzle::None, (0, 0)).0);
        assert_eq!(fault.kind, FaultKind::MissingProxyFence { writer: [writer, 0, 0] }, "{how:?}");
        assert_line(&fault, SOURCE, line);
    }
}

#[test]
fn what_a_store_reads_has_been_written_and_ordered() {
    // Thread 0 comes before all others.
    let fault_of = |how: Store| fault(run(how, Swizzle::None, (0, 0)).0);
    assert_eq!(fault_of(Store::NoBarrier).kind, FaultKind::UninitialisedShared);
    assert_eq!(fault_of(Store::Unwritten).kind, FaultKind::UninitialisedShared);
}

#[test]
fn what_a_store_may_still_read_is_not_overwritten() {
    use Store::*;
    for how in [OverwritesAtOnce, NotCommitted, WaitsForTooFew] {
        let fault = fault(run(how, Swizzle::Bytes64, (0, 0)).0);
        assert_eq!(fault.kind, FaultKind::BulkStoreNotWaited { issuer: [0; 3] }, "{how:?}");
        assert_line(&fault, SOURCE, "write");
    }
    let load = fault(run(Loads, Swizzle::None, (0, 0)).0);
    assert_eq!(load.kind, FaultKind::BulkStoreNotWaited { issuer: [0; 3] });
    assert_line(&load, SOURCE, "load");
    let others = fault(run(OthersOverwrite, Swizzle::None, (0, 0)).0);
    assert_eq!(others.kind, FaultKind::SharedRace { other: [0; 3], other_access: Read });
    let end = fault(run(EndsAtOnce, Swizzle::None, (0, 0)).0);
    assert_eq!(end.kind, FaultKind::BulkStoreNotWaited { issuer: [0; 3] });
    assert_line(&end, SOURCE, "store");
}
