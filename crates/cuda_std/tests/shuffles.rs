//! Every kind of shuffle, against the definition in the PTX manual.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, download, fault, launch, upload};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{FaultKind, Simulator};
use cuda_std::{kernel, thread, warp};

/// Each lane passes on `1000 + lane`, with an operand of its own.
#[kernel]
unsafe fn shuffle(mode: u32, operands: GlobalPtr<u32>, d: GlobalPtr<u32>) {
    let lane = warp::lane_id();
    let value = 1000 + lane;
    unsafe {
        let operand = operands.add(lane as u64).load();
        let result = match mode {
            0 => warp::shuffle_xor(warp::FULL_MASK, value, operand),
            1 => warp::shuffle_down(warp::FULL_MASK, value, operand),
            2 => warp::shuffle_up(warp::FULL_MASK, value, operand),
            _ => warp::shuffle(warp::FULL_MASK, value, operand),
        };
        d.add(lane as u64).store(result);
    }
}

fn run(mode: u32, operands: [u32; 32]) -> Vec<u32> {
    let simulator = Simulator::new();
    let input = upload(&simulator, &operands);
    let d = alloc::<u32>(&simulator, 32);
    launch!(simulator, shuffle[1, 32, 0](mode, input, d)).unwrap();
    download(&simulator, d, 32)
}

#[test]
fn butterfly() {
    for mask in 0..32 {
        let expected: Vec<u32> = (0..32).map(|lane| 1000 + (lane ^ mask)).collect();
        assert_eq!(run(0, [mask; 32]), expected);
    }
}

#[test]
fn down_keeps_the_top_lanes() {
    for delta in 0..32 {
        let from = |lane| if lane + delta < 32 { lane + delta } else { lane };
        let expected: Vec<u32> = (0..32).map(|lane| 1000 + from(lane)).collect();
        assert_eq!(run(1, [delta; 32]), expected);
    }
}

#[test]
fn up_keeps_the_bottom_lanes() {
    for delta in 0..32 {
        let from = |lane: u32| lane.checked_sub(delta).unwrap_or(lane);
        let expected: Vec<u32> = (0..32).map(|lane| 1000 + from(lane)).collect();
        assert_eq!(run(2, [delta; 32]), expected);
    }
}

#[test]
fn index_with_an_operand_of_each_lane() {
    let operands = std::array::from_fn(|lane| (lane as u32 * 7 + 3) % 32);
    assert_eq!(run(3, operands), operands.map(|lane| 1000 + lane));
}

#[test]
fn operands_count_modulo_32() {
    for mode in 0..4 {
        assert_eq!(run(mode, [5 + 32; 32]), run(mode, [5; 32]), "mode {mode}");
    }
}

/// The sum of a warp, in the two usual ways.
#[kernel]
unsafe fn warp_sum(x: GlobalPtr<f32>, d: GlobalPtr<f32>) {
    let i = thread::thread_idx_x() as u64;
    unsafe {
        let mut butterfly = x.add(i).load();
        let mut tree = butterfly;
        for step in [16, 8, 4, 2, 1] {
            butterfly += warp::shuffle_xor(warp::FULL_MASK, butterfly, step);
            tree += warp::shuffle_down(warp::FULL_MASK, tree, step);
        }
        d.add(i).store(butterfly);
        let first = i.is_multiple_of(32);
        d.add(96 + i / 32).store_if(first, tree);
    }
}

#[test]
fn warp_reduction() {
    let simulator = Simulator::new();
    let values: Vec<f32> = (0..96).map(|i| (i * i % 31) as f32).collect();
    let x = upload(&simulator, &values);
    let d = alloc::<f32>(&simulator, 99);
    let counters = launch!(simulator, warp_sum[1, 96, 0](x, d)).unwrap();
    let result = download(&simulator, d, 99);
    for (warp, chunk) in values.chunks(32).enumerate() {
        let sum: f32 = chunk.iter().sum();
        assert_eq!(result[warp * 32..][..32], [sum; 32]);
        assert_eq!(result[96 + warp], sum);
    }
    assert_eq!(counters.warp_collectives, 3 * 10);
}

/// Negative numbers and NaN keep their bits on the way.
#[kernel]
unsafe fn typed(d: GlobalPtr<i32>, e: GlobalPtr<f32>) {
    let lane = warp::lane_id();
    unsafe {
        let integer = warp::shuffle(warp::FULL_MASK, -(lane as i32), 5);
        let nan = f32::from_bits(0x7fc0_1234);
        let float = warp::shuffle_xor(warp::FULL_MASK, if lane == 0 { nan } else { 1.0 }, 1);
        d.add(lane as u64).store(integer);
        e.add(lane as u64).store(float);
    }
}

#[test]
fn other_types() {
    let simulator = Simulator::new();
    let (d, e) = (alloc::<i32>(&simulator, 32), alloc::<f32>(&simulator, 32));
    launch!(simulator, typed[1, 32, 0](d, e)).unwrap();
    assert_eq!(download(&simulator, d, 32), [-5; 32]);
    assert_eq!(download(&simulator, e, 32)[1].to_bits(), 0x7fc0_1234);
}

/// A shuffle of the first 8 lanes.
#[kernel]
unsafe fn low_lanes(source: u32) {
    if warp::lane_id() < 8 {
        unsafe { warp::shuffle(0xff, 1_u32, source) };
    }
}

/// A reduction over a warp of which lanes are missing.
#[kernel]
unsafe fn down_by(delta: u32) {
    unsafe { warp::shuffle_down(warp::FULL_MASK, 1_u32, delta) };
}

#[test]
fn a_source_that_does_not_take_part() {
    let simulator = Simulator::new();
    let outside = fault(launch!(simulator, low_lanes[1, 32, 0](8_u32)));
    assert_eq!(outside.kind, FaultKind::ShuffleSource { lane: 8 });
    assert_eq!((outside.kernel, outside.thread), ("low_lanes", [0; 3]));
    launch!(simulator, low_lanes[1, 32, 0](7_u32)).unwrap();

    // Lanes 20 to 31 of the second warp do not exist.
    let missing = fault(launch!(simulator, down_by[1, 52, 0](16_u32)));
    assert_eq!(missing.kind, FaultKind::ShuffleSource { lane: 20 });
    assert_eq!(missing.thread, [36, 0, 0]);
    launch!(simulator, down_by[1, 64, 0](16_u32)).unwrap();
}
