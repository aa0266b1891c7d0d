//! The same kernels with bulk copies compiled for the device and run on the simulator.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;
mod kernels;

use common::{download, launch, upload};
use cuda_std::sim::Simulator;
use cuda_std::swizzle::Swizzle;
use cuda_std::tensor_map::{ElementType, TiledTensor};
use kernels::{
    COLS, RESULTS, RING_SHARED, RING_THREADS, ROWS, SHARERS, THREADS, load_box, ring, share_boxes,
    store_box,
};

/// Instructions of each kernel where the target has bulk copies.
const INSTRUCTIONS: [(&str, &[&str]); 4] = [
    (
        "load_box",
        &[
            ".param .align 64 .b8 load_box_param_1[128]",
            "cvta.param.u64",
            "prefetch.tensormap [",
            "fence.mbarrier_init.release.cluster;",
            "elect.sync",
            "mbarrier.arrive.expect_tx.shared.b64",
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [",
            "mbarrier.try_wait.parity.shared.b64",
        ],
    ),
    (
        "store_box",
        &[
            "fence.proxy.async.shared::cta;",
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [",
            "cp.async.bulk.commit_group;",
            "cp.async.bulk.wait_group.read 0;",
            "cp.async.bulk.wait_group 0;",
        ],
    ),
    (
        "ring",
        &[
            ".param .align 64 .b8 ring_param_0[128]",
            ".param .align 64 .b8 ring_param_1[128]",
            "mbarrier.arrive.expect_tx.shared.b64",
            "setmaxnreg.dec.sync.aligned.u32 40;",
            "setmaxnreg.inc.sync.aligned.u32 160;",
            "bar.arrive",
            "bar.sync",
        ],
    ),
    (
        "share_boxes",
        &[
            ".explicitcluster",
            ".reqnctapercluster 2, 1, 1",
            "%cluster_ctarank;",
            "barrier.cluster.arrive;",
            "barrier.cluster.wait;",
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [",
            "mapa.shared::cluster.u32",
            "mbarrier.arrive.shared::cluster.b64 _, [",
        ],
    ),
];

#[test]
fn kernels_compile_to_the_instructions_they_name() {
    let source = [("lib.rs", include_str!("kernels.rs"))];
    let modules = device::compile("bulk_kernels", &source, ["sm_75", "sm_90a"]);
    for (entry, instructions) in INSTRUCTIONS {
        let hopper = device::text(&modules, "sm_90a", entry);
        let hopper = hopper.split_whitespace().collect::<Vec<_>>().join(" ");
        for instruction in instructions {
            assert!(hopper.contains(instruction), "{instruction}:\n{hopper}");
        }
        // A map that is copied to local memory is none.
        assert!(!hopper.contains(".local"), "{hopper}");
        assert!(!hopper.contains("trap"), "{hopper}");
        // A barrier that is copied to where only some threads come is another one.
        let barriers = hopper.matches("barrier.cluster.arrive;").count();
        assert_eq!(barriers, usize::from(entry == "share_boxes"), "{hopper}");
        let turing = device::text(&modules, "sm_75", entry);
        assert!(turing.contains("trap;") && !turing.contains("cp.async"), "{turing}");
        assert!(!turing.contains("cluster"), "{turing}");
    }
}

#[test]
fn a_box_goes_to_shared_memory_and_back_on_the_simulator() {
    const SHAPE: (u32, u32) = (16, 32);
    const WORDS: u32 = SHAPE.0 * SHAPE.1;
    let simulator = Simulator::new();
    let (rows, cols) = (40, 48);
    let values = Vec::from_iter(1..=(rows * cols) as u32);
    let (source, target) = (upload(&simulator, &values), upload(&simulator, &[0; 40 * 48]));
    let tile = upload(&simulator, &[0_u32; WORDS as usize]);
    let map = |address: u64| {
        let (shape, stride, u32) = ((rows as u64, cols as u64), cols as u64 * 4, ElementType::U32);
        let swizzle = Swizzle::Bytes128;
        simulator
            .tensor_map(&TiledTensor::matrix(u32, address, shape, stride, SHAPE, swizzle))
            .unwrap()
    };
    let (from, to) = (map(source.address()), map(target.address()));
    let (x, y, bytes) = (8_i32, 5_i32, 4 * WORDS);
    launch!(simulator, load_box[1, THREADS, bytes](tile, from, x, y, bytes, WORDS)).unwrap();
    launch!(simulator, store_box[1, THREADS, bytes](tile, to, x, y, WORDS)).unwrap();
    let stored = download(&simulator, target, rows * cols);
    for (at, (&stored, &value)) in stored.iter().zip(&values).enumerate() {
        let inside = (5..21).contains(&(at / cols)) && (8..40).contains(&(at % cols));
        assert_eq!(stored, if inside { value } else { 0 }, "element {at}");
    }
}

#[test]
fn the_ring_runs_on_the_simulator() {
    for (rows, cols) in [(64, 32), (150, 100), (320, 500)] {
        let simulator = Simulator::new();
        let values = Vec::from_iter((0..rows * cols).map(|i| (i * 7919 % 1013) as f32 / 7.0));
        let matrix = upload(&simulator, &values);
        let result = upload(&simulator, &vec![f32::NAN; rows * RESULTS as usize]);
        let map = |address: u64, cols: usize, box_cols: u32, swizzle: Swizzle| {
            let (shape, stride) = ((rows as u64, cols as u64), cols as u64 * 4);
            let boxes = (ROWS, box_cols);
            let f32 = ElementType::F32;
            let tensor = TiledTensor::matrix(f32, address, shape, stride, boxes, swizzle);
            simulator.tensor_map(&tensor).unwrap()
        };
        let source = map(matrix.address(), cols, COLS, Swizzle::Bytes128);
        let target = map(result.address(), RESULTS as usize, RESULTS, Swizzle::None);
        let blocks = (rows as u32).div_ceil(ROWS);
        let counters = launch!(
            simulator,
            ring[blocks, RING_THREADS, RING_SHARED](source, target, cols as u32)
        )
        .unwrap();
        let boxes = blocks * ((cols as u32).div_ceil(COLS) + 1);
        assert_eq!(counters.bulk_copies, u64::from(boxes));
        let found = download(&simulator, result, rows * RESULTS as usize);
        for (row, values) in values.chunks(cols).enumerate() {
            let sum: f32 = values.iter().fold(0.0, |sum, value| sum + value);
            let expected = [sum, 2.0 * sum, (row % ROWS as usize) as f32, 0.0];
            assert_eq!(found[row * RESULTS as usize..][..RESULTS as usize], expected, "row {row}");
        }
    }
}

#[test]
fn blocks_of_a_cluster_share_boxes_on_the_simulator() {
    const CLUSTERS: u32 = 3;
    let simulator = Simulator::new();
    let (rows, cols) = (8, 32);
    let words = SHARERS * rows * cols;
    let values = Vec::from_iter(0..words);
    let source = upload(&simulator, &values);
    let shape = (1, u64::from(SHARERS * rows), u64::from(cols));
    let (strides, boxes) = ((0, 4 * u64::from(cols)), (rows, cols));
    let tensor = TiledTensor::matrices(
        ElementType::U32,
        source.address(),
        shape,
        strides,
        boxes,
        Swizzle::None,
    );
    let map = simulator.tensor_map(&tensor).unwrap();
    let blocks = CLUSTERS * SHARERS;
    let out = upload(&simulator, &vec![u32::MAX; (blocks * words) as usize]);
    let counters =
        launch!(simulator, share_boxes[blocks, THREADS, words * 4](out, map, rows, words)).unwrap();
    assert_eq!(counters.bulk_bytes, u64::from(CLUSTERS * words * 4));
    let found = download(&simulator, out, (blocks * words) as usize);
    assert!(found.chunks(words as usize).all(|copy| copy == values));
}
