//! Bulk loads: what arrives where, what must come before and after them, and what they count.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{assert_line, download, fault, launch, upload};
use cuda_std::bulk_copy::{TensorMap, fence_shared, load_2d, load_3d, prefetch};
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{AccessKind::*, Counters, FaultKind, Simulator, limits};
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TensorMapError, TiledTensor};
use cuda_std::warp::WARP_SIZE;
use cuda_std::{kernel, shared, shared_array, thread};

const SOURCE: &str = include_str!("bulk_load.rs");

/// Rows, columns and leading dimension of a matrix of 16-bit elements.
const ROWS: usize = 50;
const COLS: usize = 70;
const LD: usize = 72;

/// Element `(row, col)`; never zero.
fn element(row: usize, col: usize) -> u16 {
    (1 + row * LD + col) as u16
}

/// A map of boxes of that matrix.
fn map(simulator: &Simulator, (rows, cols): (u32, u32), swizzle: Swizzle) -> TensorMap {
    let elements = Vec::from_iter((0..ROWS * LD).map(|i| match i % LD {
        col if col < COLS => element(i / LD, col),
        _ => u16::MAX,
    }));
    let address = upload(simulator, &elements).address();
    let tensor = TiledTensor::matrix(
        ElementType::U16,
        address,
        (ROWS as u64, COLS as u64),
        (LD * size_of::<u16>()) as u64,
        (rows, cols),
        swizzle,
    );
    simulator.tensor_map(&tensor).unwrap()
}

/// Loads one box and stores the words of shared memory as they lie there.
#[kernel]
unsafe fn load_box(
    d: GlobalPtr<u32>,
    #[grid_constant] map: &TensorMap,
    x: i32,
    y: i32,
    bytes: u32,
) {
    let full = Mbarrier::new(shared_array!(u64; 1));
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            full.init(1);
            fence_init();
            prefetch(map);
        }
        thread::sync_threads();
        if i == 0 {
            full.arrive_expect_tx(bytes);
            load_2d(tile, map, [x, y], full);
        }
        full.wait(0);
        for word in (i..bytes / 4).step_by(thread::block_dim_x() as usize) {
            d.add(word.into()).store(tile.add(word).load());
        }
    }
}

/// The bytes of shared memory after a load, and its counters.
fn loaded((rows, cols): (u32, u32), swizzle: Swizzle, x: i32, y: i32) -> (Vec<u16>, Counters) {
    let simulator = Simulator::new();
    let map = map(&simulator, (rows, cols), swizzle);
    let bytes = rows * cols * 2;
    let d = upload(&simulator, &vec![0_u32; bytes as usize / 4]);
    let counters = launch!(simulator, load_box[1, 64, bytes](d, map, x, y, bytes)).unwrap();
    (download(&simulator, d.cast(), bytes as usize / 2), counters)
}

/// Element `(row, col)` of the box at `(x, y)`, zero outside of the matrix.
fn expected(row: u32, col: u32, x: i32, y: i32) -> u16 {
    let (row, col) = (i64::from(row) + i64::from(y), i64::from(col) + i64::from(x));
    let inside = (0..ROWS as i64).contains(&row) && (0..COLS as i64).contains(&col);
    if inside { element(row as usize, col as usize) } else { 0 }
}

#[test]
fn boxes_arrive_row_by_row_with_zeros_outside() {
    for (x, y) in [(0, 0), (8, 7), (56, 45), (-8, -3), (72, 0), (0, -100), (i32::MAX - 7, i32::MIN)]
    {
        let (rows, cols) = (9, 24);
        let (found, _) = loaded((rows, cols), Swizzle::None, x, y);
        for row in 0..rows {
            for col in 0..cols {
                let at = (row * cols + col) as usize;
                assert_eq!(found[at], expected(row, col, x, y), "({row}, {col}) at ({x}, {y})");
            }
        }
    }
}

/// Loads one box of a matrix of a batch and stores the elements as they lie there.
#[kernel]
unsafe fn load_box_of_batch(
    d: GlobalPtr<u16>,
    #[grid_constant] map: &TensorMap,
    y: i32,
    z: i32,
    elements: u32,
) {
    let full = Mbarrier::new(shared_array!(u64; 1));
    let tile = shared::dynamic::<u16>();
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            full.init(1);
            fence_init();
        }
        thread::sync_threads();
        if i == 0 {
            full.arrive_expect_tx(2 * elements);
            load_3d(tile, map, [8, y, z], full);
        }
        full.wait(0);
        for at in (i..elements).step_by(thread::block_dim_x() as usize) {
            d.add(at.into()).store(tile.add(at).load());
        }
    }
}

#[test]
fn a_box_is_a_part_of_one_matrix_of_a_batch() {
    // Three matrices of 16 x 70 elements in rows of 72, with a row between them.
    const MATRIX_ROWS: usize = 16;
    const PITCH: usize = (MATRIX_ROWS + 1) * LD;
    let (rows, cols) = (6, 24);
    for (y, z) in [(0, 0), (3, 1), (13, 1), (-2, 2), (0, 3), (0, -1)] {
        let simulator = Simulator::new();
        let elements = Vec::from_iter((0..3 * PITCH).map(|i| 1 + i as u16));
        let address = upload(&simulator, &elements).address();
        let (shape, strides) =
            ((3, MATRIX_ROWS as u64, COLS as u64), (2 * PITCH as u64, 2 * LD as u64));
        let element = ElementType::U16;
        let tensor =
            TiledTensor::matrices(element, address, shape, strides, (rows, cols), Swizzle::None);
        let map = simulator.tensor_map(&tensor).unwrap();
        let count = rows * cols;
        let d = upload(&simulator, &vec![u16::MAX; count as usize]);
        launch!(simulator, load_box_of_batch[1, 32, 2 * count](d, map, y, z, count)).unwrap();
        for (at, found) in download(&simulator, d, count as usize).into_iter().enumerate() {
            let (row, col) = (at as i32 / cols as i32 + y, at % cols as usize + 8);
            let inside = (0..MATRIX_ROWS as i32).contains(&row) && (0..3).contains(&z);
            let expected =
                if inside { 1 + (z as usize * PITCH + row as usize * LD + col) as u16 } else { 0 };
            assert_eq!(found, expected, "element {at} at {y} of {z}");
        }
    }
}

#[test]
fn boxes_begin_at_multiples_of_16_bytes() {
    for x in [1, 4, 7, -3] {
        let simulator = Simulator::new();
        let map = map(&simulator, (8, 8), Swizzle::None);
        let d = upload(&simulator, &[0_u32; 32]);
        let fault = fault(launch!(simulator, load_box[1, 32, 128](d, map, x, 0, 128)));
        assert_eq!(fault.kind, FaultKind::Misaligned);
        assert!(fault.message.contains(&format!("element {x} ")), "{fault}");
    }
}

/// The pieces of a row are exchanged by the row's number, which is what the bits of the address are where a tile begins
/// at a multiple of the pattern's length.
#[test]
fn swizzled_boxes_have_their_pieces_exchanged() {
    const PIECE: u32 = 8;
    for (swizzle, pieces, rows_alike) in
        [(Swizzle::Bytes32, 2, 4), (Swizzle::Bytes64, 4, 2), (Swizzle::Bytes128, 8, 1)]
    {
        let (rows, cols) = (20, pieces * PIECE);
        let (found, _) = loaded((rows, cols), swizzle, 8, 2);
        for row in 0..rows {
            for col in 0..cols {
                let piece = (col / PIECE) ^ (row / rows_alike % pieces);
                let at = row * cols + piece * PIECE + col % PIECE;
                assert_eq!(found[at as usize], expected(row, col, 8, 2), "({row}, {col})");
            }
        }
    }
}

#[test]
fn what_loads_count() {
    // Rows of 144 bytes: those of the box take 48 of them, two sectors where they begin at one, else two or three.
    let (_, counters) = loaded((8, 24), Swizzle::None, 0, 0);
    assert_eq!((counters.bulk_copies, counters.bulk_bytes), (1, 8 * 48));
    assert_eq!(counters.global_load_requests, 1);
    assert_eq!((counters.global_load_elements, counters.global_load_bytes), (8 * 24, 8 * 48));
    assert_eq!(counters.global_load_sectors, 8 * 2);
    assert_eq!((counters.mbarrier_arrivals, counters.mbarrier_waits), (1, 64));
    // One row and six columns of it lie in the matrix.
    let (_, counters) = loaded((8, 24), Swizzle::None, 64, 49);
    assert_eq!((counters.bulk_copies, counters.bulk_bytes), (1, 8 * 48));
    assert_eq!((counters.global_load_elements, counters.global_load_sectors), (6, 1));
    // None does.
    let (_, counters) = loaded((8, 24), Swizzle::None, 72, 0);
    assert_eq!((counters.global_load_requests, counters.global_load_sectors), (0, 0));
}

/// What a thread does with a tile before and after it loads a box there.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Tile {
    /// Writes, fences, and lets another thread load.
    Fenced,
    /// As `Fenced`, with the fence in the thread that loads.
    FencedLater,
    /// Writes and lets another thread load.
    NotFenced,
    /// Fences before it writes.
    FencedBefore,
    /// Waits for the load and overwrites what all read.
    Overwrites,
    /// The map is that of three dimensions.
    OtherRank,
    /// The map is nobody's.
    NoMap,
    /// That is prefetched, and nothing loaded with it.
    PrefetchOfNoMap,
    /// The map is prefetched before it is used.
    Prefetched,
    /// The mbarrier is none.
    NoMbarrier,
}

/// The first warp writes a tile, thread 32 loads a box there, and all read it.
#[kernel]
unsafe fn tile(d: GlobalPtr<u32>, #[grid_constant] map: &TensorMap, what: Tile) {
    let objects = shared_array!(u64; 2);
    let full = Mbarrier::new(objects);
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    unsafe {
        if i == 0 {
            full.init(1);
            fence_init();
        }
        if what == Tile::FencedBefore {
            fence_shared();
        }
        if i < WARP_SIZE && what != Tile::OtherRank {
            tile.add(i).store(i);
        }
        if what == Tile::Fenced {
            fence_shared();
        }
        thread::sync_threads();
        if matches!(what, Tile::Prefetched | Tile::PrefetchOfNoMap) {
            prefetch(map); // prefetch
        }
        if i == 32 {
            if matches!(what, Tile::FencedLater | Tile::Overwrites | Tile::Prefetched) {
                fence_shared();
            }
            let object =
                if what == Tile::NoMbarrier { Mbarrier::new(objects.add(1)) } else { full };
            full.arrive_expect_tx(128);
            load_2d(tile, map, [0, 0], object); // load a tile
        }
        full.wait(0);
        if what == Tile::Overwrites && i == 0 {
            tile.store(0); // overwrite
        }
        d.add(i.into()).store(tile.add(i % 32).load());
    }
}

#[test]
fn what_a_load_overwrites_and_what_overwrites_it() {
    let simulator = Simulator::new();
    let d = upload(&simulator, &[0_u32; 64]);
    let tensor = |rank: u32| TiledTensor {
        rank,
        strides: [128; 4],
        dims: [32, 1, 1, 1, 1],
        ..TiledTensor::matrix(
            ElementType::U32,
            upload(&simulator, &Vec::from_iter(100_u32..132)).address(),
            (1, 32),
            128,
            (1, 32),
            Swizzle::None,
        )
    };
    let run = |what: Tile| {
        let mut map =
            simulator.tensor_map(&tensor(2 + u32::from(what == Tile::OtherRank))).unwrap();
        if matches!(what, Tile::NoMap | Tile::PrefetchOfNoMap) {
            map.opaque[0] = 0;
        }
        launch!(simulator, tile[1, 64, 128](d, map, what))
    };
    for what in [Tile::Fenced, Tile::FencedLater, Tile::Prefetched] {
        run(what).unwrap_or_else(|e| panic!("{what:?}: {e}"));
        assert_eq!(download(&simulator, d, 64), Vec::from_iter((0..64).map(|i| 100 + i % 32)));
    }
    for what in [Tile::NotFenced, Tile::FencedBefore] {
        let fault = fault(run(what));
        assert_eq!(fault.kind, FaultKind::MissingProxyFence { writer: [0; 3] }, "{what:?}");
        assert_line(&fault, SOURCE, "load a tile");
    }
    let prefetches = fault(run(Tile::PrefetchOfNoMap));
    assert_eq!(prefetches.kind, FaultKind::InvalidTensorMap);
    assert_line(&prefetches, SOURCE, "prefetch");
    let overwrites = fault(run(Tile::Overwrites));
    assert!(matches!(overwrites.kind, FaultKind::SharedRace { .. }), "{overwrites}");
    for (what, kind) in [
        (Tile::OtherRank, FaultKind::InvalidTensorMap),
        (Tile::NoMap, FaultKind::InvalidTensorMap),
        (Tile::NoMbarrier, FaultKind::MbarrierUninitialised),
    ] {
        let fault = fault(run(what));
        assert_eq!(fault.kind, kind, "{what:?}");
        assert_line(&fault, SOURCE, "load a tile");
    }
}

#[test]
fn boxes_that_no_block_has_room_for() {
    let boxes = |rank: u32, box_dims: [u32; 5], swizzle: Swizzle| {
        let (element, strides) = (ElementType::U16, [1 << 9, 1 << 17, 1 << 25, 1 << 33]);
        TiledTensor { element, address: 0, rank, dims: [256; 5], strides, box_dims, swizzle }
    };
    let most = limits::MAX_SHARED;
    for (rank, box_dims, swizzle, found) in [
        (5, [256; 5], Swizzle::None, 1 << 41),
        (4, [256; 5], Swizzle::None, 1 << 33),
        // Rows of 128 bytes in shared memory.
        (3, [32, 8, 228, 1, 1], Swizzle::Bytes128, 228 << 10),
    ] {
        let error = boxes(rank, box_dims, swizzle).check().unwrap_err();
        assert_eq!(error, TensorMapError::BoxBytes { found, most });
    }
    let largest = boxes(3, [32, 8, 227, 1, 1], Swizzle::Bytes128);
    largest.check().unwrap();
    assert_eq!((largest.box_rows(), largest.box_bytes()), (8 * 227, 64 * 8 * 227));
}

#[test]
fn a_tensor_that_does_not_lie_in_memory() {
    let simulator = Simulator::new();
    let d = upload(&simulator, &[0_u32; 64]);
    let address = upload(&simulator, &[0_u32; 64]).address();
    let run = |rows: u64| {
        let shape = (rows, 32);
        let tensor =
            TiledTensor::matrix(ElementType::U32, address, shape, 128, (1, 32), Swizzle::None);
        let map = simulator.tensor_map(&tensor).unwrap();
        launch!(simulator, tile[1, 64, 128](d, map, Tile::Fenced))
    };
    run(2).unwrap();
    let fault = fault(run(3));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert!(fault.message.contains("its last 128 bytes"), "{fault}");
}

/// The second warp loads a box and waits for it; the first one reads it, after a barrier that has nothing to do with
/// it, or after one at which the second warp has come when it had waited.
#[kernel]
unsafe fn others_wait(d: GlobalPtr<u32>, #[grid_constant] map: &TensorMap, related: u32) {
    let objects = shared_array!(u64; 2);
    let (full, other) = (Mbarrier::new(objects), Mbarrier::new(objects.add(1)));
    let tile = shared::dynamic::<u32>();
    let i = thread::thread_idx_x();
    let comes = if related != 0 { WARP_SIZE } else { 2 * WARP_SIZE };
    unsafe {
        if i == 0 {
            full.init(1);
            other.init(1);
            fence_init();
        }
        thread::sync_threads();
        if i / WARP_SIZE == 1 {
            if i == WARP_SIZE {
                full.arrive_expect_tx(128);
                load_2d(tile, map, [0, 0], full);
            }
            full.wait(0);
        }
        if i == comes {
            other.arrive();
        }
        if i < WARP_SIZE {
            other.wait(0);
            d.add(i.into()).store(tile.add(i).load()); // read
        }
    }
}

#[test]
fn who_has_not_waited_has_not_seen_what_others_have() {
    let simulator = Simulator::new();
    let d = upload(&simulator, &[0_u32; 32]);
    let source = upload(&simulator, &Vec::from_iter(100_u32..132)).address();
    let tensor =
        TiledTensor::matrix(ElementType::U32, source, (1, 32), 128, (1, 32), Swizzle::None);
    let map = simulator.tensor_map(&tensor).unwrap();
    let run = |related: u32| launch!(simulator, others_wait[1, 96, 128](d, map, related));
    run(1).unwrap();
    assert_eq!(download(&simulator, d, 32), Vec::from_iter(100..132));
    let fault = fault(run(0));
    assert_eq!(fault.kind, FaultKind::SharedRace { other: [32, 0, 0], other_access: Write });
    assert_line(&fault, SOURCE, "read");
}
