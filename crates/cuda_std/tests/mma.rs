//! Matrix products of a warp: fragments against the tables of the PTX manual, element by element, the arithmetic, what
//! is counted, and kernels that are wrong on purpose.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, assert_access, assert_line, download, fault, launch, upload};
use cuda_std::async_copy::{commit_group, copy_async, wait_group};
use cuda_std::memory::GlobalPtr;
use cuda_std::mma::{load_matrices, multiply_add, store_matrices};
use cuda_std::sim::{AccessKind, Counters, FaultKind, Simulator, Space};
use cuda_std::{kernel, shared, thread, warp};
use half::{bf16, f16};

const SOURCE: &str = include_str!("mma.rs");
const LANES: usize = 32;

/// Registers of A, B and C that a lane passes.
const OPERANDS: usize = 10;

/// Each lane multiplies the fragments that it finds, A's registers first.
#[kernel]
unsafe fn multiply(bf16s: u32, operands: GlobalPtr<u32>, d: GlobalPtr<f32>) {
    let lane = u64::from(warp::lane_id());
    unsafe {
        let register = |i: usize| operands.add(lane * OPERANDS as u64 + i as u64).load();
        let (a, b) = (std::array::from_fn(register), std::array::from_fn(|i| register(4 + i)));
        let c = std::array::from_fn(|i| f32::from_bits(register(6 + i)));
        let sums =
            if bf16s == 0 { multiply_add::<f16>(a, b, c) } else { multiply_add::<bf16>(a, b, c) };
        d.add(lane * 4).store_vec(sums);
    }
}

/// Row and column of element `i` of a lane's fragment of A: "Matrix Fragments for mma.m16n8k16 with floating point
/// type".
fn of_a(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
    let col = if i < 4 { thread_in_group * 2 + (i & 1) } else { thread_in_group * 2 + (i & 1) + 8 };
    (row, col)
}

/// The same of B.
fn of_b(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    let row = if i < 2 { thread_in_group * 2 + (i & 1) } else { thread_in_group * 2 + (i & 1) + 8 };
    (row, group)
}

/// The same of C and D.
fn of_c(lane: usize, i: usize) -> (usize, usize) {
    let (group, thread_in_group) = (lane >> 2, lane % 4);
    (if i < 2 { group } else { group + 8 }, thread_in_group * 2 + (i & 1))
}

/// The factors and the addend of a product.
struct Product {
    a: fn(usize, usize) -> f32,
    b: fn(usize, usize) -> f32,
    c: fn(usize, usize) -> f32,
}

/// D of a product, by rows, and what was counted.
fn run(product: &Product, bf16s: bool) -> ([[f32; 8]; 16], Counters) {
    let bits = |value: f32| -> u32 {
        let bits =
            if bf16s { bf16::from_f32(value).to_bits() } else { f16::from_f32(value).to_bits() };
        bits.into()
    };
    let mut operands = Vec::new();
    for lane in 0..LANES {
        let pair = |elements: [(usize, usize); 2], value: fn(usize, usize) -> f32| {
            let [low, high] = elements.map(|(row, col)| bits(value(row, col)));
            low | high << 16
        };
        for r in 0..4 {
            operands.push(pair([of_a(lane, 2 * r), of_a(lane, 2 * r + 1)], product.a));
        }
        for r in 0..2 {
            operands.push(pair([of_b(lane, 2 * r), of_b(lane, 2 * r + 1)], product.b));
        }
        operands.extend((0..4).map(|i| {
            let (row, col) = of_c(lane, i);
            (product.c)(row, col).to_bits()
        }));
    }
    let simulator = Simulator::new();
    let (operands, d) = (upload(&simulator, &operands), alloc::<f32>(&simulator, 4 * LANES));
    let counters = launch!(simulator, multiply[1, 32, 0](u32::from(bf16s), operands, d)).unwrap();
    let mut result = [[f32::NAN; 8]; 16];
    for (lane, registers) in download(&simulator, d, 4 * LANES).chunks_exact(4).enumerate() {
        for (i, &value) in registers.iter().enumerate() {
            let (row, col) = of_c(lane, i);
            result[row][col] = value;
        }
    }
    (result, counters)
}

/// Every element of A times every element of B and all of C are told apart by what they add to D.
#[test]
fn fragments_are_those_of_the_manual() {
    let product = Product {
        a: |row, k| ((row * 16 + k) % 11) as f32 - 5.0,
        b: |k, col| ((k * 8 + col) % 13) as f32 - 6.0,
        c: |row, col| (row * 100 + col) as f32,
    };
    for bf16s in [false, true] {
        let (d, counters) = run(&product, bf16s);
        for (row, values) in d.iter().enumerate() {
            for (col, &value) in values.iter().enumerate() {
                let products = (0..16).map(|k| (product.a)(row, k) * (product.b)(k, col));
                let expected = products.sum::<f32>() + (product.c)(row, col);
                assert_eq!(value, expected, "row {row}, column {col}");
            }
        }
        assert_eq!(counters.tensor_fma, 16 * 8 * 16);
        assert_eq!((counters.fma, counters.warp_collectives), (0, 0));
    }
}

/// One element of A and one of B at a time: only their product may show, and only where it belongs.
#[test]
fn each_element_has_its_place() {
    for k in 0..16 {
        let mut a = vec![0_u32; OPERANDS * LANES];
        let one = u32::from(f16::ONE.to_bits());
        for lane in 0..LANES {
            for i in 0..8 {
                if of_a(lane, i).1 == k {
                    a[lane * OPERANDS + i / 2] |= (one + of_a(lane, i).0 as u32) << (i % 2 * 16);
                }
            }
            for i in 0..4 {
                if of_b(lane, i).0 == k {
                    a[lane * OPERANDS + 4 + i / 2] |=
                        (one + 64 * of_b(lane, i).1 as u32) << (i % 2 * 16);
                }
            }
        }
        let simulator = Simulator::new();
        let (operands, d) = (upload(&simulator, &a), alloc::<f32>(&simulator, 4 * LANES));
        launch!(simulator, multiply[1, 32, 0](0_u32, operands, d)).unwrap();
        for (lane, registers) in download(&simulator, d, 4 * LANES).chunks_exact(4).enumerate() {
            for (i, &value) in registers.iter().enumerate() {
                let (row, col) = of_c(lane, i);
                let factor = |bits: u32| f16::from_bits(bits as u16).to_f32();
                let expected = factor(one + row as u32) * factor(one + 64 * col as u32);
                assert_eq!(value, expected, "k {k}, row {row}, column {col}");
            }
        }
    }
}

#[test]
fn sums_are_truncated_once_an_instruction() {
    let small = 2.0_f32.powi(-25);
    // One product is lost below the last place of 1, 16 are not; -1 is truncated towards zero as well.
    let of_one = Product {
        a: |row, k| if row % 2 == 0 || k == 0 { 2.0_f32.powi(-12) } else { 0.0 },
        b: |_, col| if col % 2 == 0 { 2.0_f32.powi(-13) } else { -(2.0_f32.powi(-13)) },
        c: |_, col| if col < 4 { 1.0 } else { -1.0 },
    };
    let (d, _) = run(&of_one, true);
    for (row, values) in d.iter().enumerate() {
        for (col, &value) in values.iter().enumerate() {
            let count = if row % 2 == 0 { 16.0 } else { 1.0 };
            let term = if col % 2 == 0 { count * small } else { -count * small };
            let exact = f64::from((of_one.c)(row, col)) + f64::from(term);
            let nearest = exact as f32;
            let ulp = f64::from(nearest.abs()) * f64::from(f32::EPSILON);
            let error = exact.abs() - f64::from(value.abs());
            assert!(
                (0.0..ulp).contains(&error),
                "row {row}, column {col}: {value:e}, not {exact:e}"
            );
        }
    }
    assert_eq!(d[0][0], 1.0 + 16.0 * small);
    assert_eq!(d[1][0], 1.0, "below the last place");
    assert_eq!(d[1][1], 1.0 - f32::EPSILON / 2.0, "truncated, not rounded to 1");
    assert_eq!(d[1][4], -1.0 + f32::EPSILON / 2.0);
}

/// Products are aligned to the largest number first, and what lies below two bits more than an f32 has is cut off of
/// each of them.
#[test]
fn products_far_below_the_largest_number_are_cut_off() {
    let product = |scale: fn(usize, usize) -> f32| {
        let (d, _) = run(&Product { a: |_, _| 2.0_f32.powi(-13), b: scale, c: |_, _| 1.0 }, true);
        d[3][5]
    };
    assert_eq!(product(|_, _| 2.0_f32.powi(-12)), 1.0 + 16.0 * 2.0_f32.powi(-25), "two bits more");
    assert_eq!(product(|_, _| 2.0_f32.powi(-13)), 1.0, "each of them is, whatever the sum");
    assert_eq!(product(|_, _| 1.5 * 2.0_f32.powi(-12)), 1.0 + 16.0 * 2.0_f32.powi(-25), "a part");
}

#[test]
fn special_values_are_those_of_ieee_754() {
    let product = Product {
        a: |row, k| match (row, k) {
            (0, 3) => f32::NAN,
            (1, 3) => f32::INFINITY,
            (2, 3) => 0.0,
            _ => 1.0,
        },
        b: |k, col| if (k, col) == (3, 5) { f32::INFINITY } else { 1.0 },
        c: |_, _| 0.0,
    };
    let (d, _) = run(&product, false);
    assert!(d[0].iter().all(|x| x.is_nan()));
    assert!(d[1].iter().all(|&x| x == f32::INFINITY));
    assert!(d[2][5].is_nan(), "0 * infinity");
    assert_eq!((d[2][0], d[3][5], d[3][0]), (15.0, f32::INFINITY, 16.0));
}

/// Each lane writes a row of 8 numbers, and passes another lane's row on; rows are `stride` elements apart.
#[kernel]
unsafe fn load(transposed: u32, stride: u32, d: GlobalPtr<u32>) {
    let lane = warp::lane_id();
    let rows = shared::dynamic::<f16>();
    unsafe {
        let row = std::array::from_fn(|i| f16::from_bits((lane * 8) as u16 + i as u16));
        rows.add(lane * stride).store_vec::<8>(row);
        warp::sync_warp(warp::FULL_MASK);
        let passed = rows.add((lane + 5) % 32 * stride);
        let registers = if transposed == 0 {
            load_matrices::<f16, false>(passed)
        } else {
            load_matrices::<f16, true>(passed)
        };
        d.add(u64::from(lane) * 4).store_vec(registers);
    }
}

fn run_load(transposed: bool, stride: u32) -> (Vec<u32>, Counters) {
    let simulator = Simulator::new();
    let d = alloc::<u32>(&simulator, 4 * LANES);
    let bytes = 32 * stride * 2;
    let counters =
        launch!(simulator, load[1, 32, bytes](u32::from(transposed), stride, d)).unwrap();
    (download(&simulator, d, 4 * LANES), counters)
}

/// "ldmatrix": without `.trans` a lane holds two elements of row `lane / 4`, with it two of column `lane / 4`.
#[test]
fn matrices_arrive_as_in_the_manual() {
    for transposed in [false, true] {
        let (registers, _) = run_load(transposed, 8);
        for lane in 0..LANES {
            for matrix in 0..4 {
                let element =
                    |row: usize, col: usize| ((matrix * 8 + row + 5) % 32 * 8 + col) as u32;
                let at = |i: usize| {
                    let (across, along) = (lane / 4, lane % 4 * 2 + i);
                    if transposed { element(along, across) } else { element(across, along) }
                };
                let register = registers[lane * 4 + matrix];
                assert_eq!(register, at(0) | at(1) << 16, "lane {lane}, matrix {matrix}");
            }
        }
    }
}

/// 8 rows of 16 bytes are a pass over the banks where they lie together or are padded by one row, and 8 passes where
/// they are 128 bytes apart.
#[test]
fn rows_that_meet_in_a_bank_are_conflicts() {
    for (stride, passes) in [(8, 1), (64 + 8, 1), (16, 2), (32, 4), (64, 8)] {
        let (_, counters) = run_load(true, stride);
        assert_eq!(counters.shared_load_requests, 1);
        assert_eq!(counters.shared_load_bytes, 32 * 16);
        assert_eq!(counters.shared_load_elements, 32 * 8);
        assert_eq!(counters.shared_load_wavefronts, 4 * passes, "{stride}");
        assert_eq!(counters.shared_load_conflicts, 4 * (passes - 1), "{stride}");
        assert_eq!(counters.warp_collectives, 1, "the warp barrier alone");
    }
}

/// Copies rows of 16 bytes, a lane each, and reads them as matrices, after waiting for what `waits` says: 2 for its
/// copies and the other lanes, 1 for its copies alone, 0 for nothing.
#[kernel]
unsafe fn copy_and_load(waits: u32, rows: GlobalPtr<f16>, d: GlobalPtr<u32>) {
    let thread = thread::thread_idx_x();
    let target = shared::dynamic::<f16>().add(thread * 8);
    unsafe {
        copy_async::<f16, 8>(target, rows.add(u64::from(thread) * 8), true);
        commit_group();
        if waits > 0 {
            wait_group::<0>();
        }
        if waits > 1 {
            thread::sync_threads();
        }
        let other = shared::dynamic::<f16>().add((thread + 32) % 64 * 8);
        let registers = load_matrices::<f16, false>(other); // without a wait
        d.add(u64::from(thread) * 4).store_vec(registers);
    }
}

#[test]
fn a_load_must_wait_for_copies_and_for_those_who_made_them() {
    let simulator = Simulator::new();
    let rows = upload(&simulator, &[f16::ONE; 64 * 8]);
    let d = alloc::<u32>(&simulator, 64 * 4);
    launch!(simulator, copy_and_load[1, 64, 1024](2_u32, rows, d)).unwrap();
    assert!(download(&simulator, d, 64 * 4).iter().all(|&word| word == 0x3c00_3c00));

    // The first warp reads what the second has not even begun to copy.
    let fault_early = fault(launch!(simulator, copy_and_load[1, 64, 1024](0_u32, rows, d)));
    assert_eq!(fault_early.kind, FaultKind::UninitialisedShared);
    assert_line(&fault_early, SOURCE, "without a wait");
}

/// Copies a row and reads it at once.
#[kernel]
unsafe fn load_in_flight(rows: GlobalPtr<f16>, waits: u32) {
    let thread = thread::thread_idx_x();
    let target = shared::dynamic::<f16>().add(thread * 8);
    unsafe {
        copy_async::<f16, 8>(target, rows.add(u64::from(thread) * 8), true);
        commit_group();
        if waits == 1 {
            wait_group::<0>();
        }
        load_matrices::<f16, true>(target); // in flight
    }
}

#[test]
fn a_copy_under_way_must_not_be_read() {
    let simulator = Simulator::new();
    let rows = upload(&simulator, &[f16::ONE; 32 * 8]);
    launch!(simulator, load_in_flight[1, 32, 512](rows, 1_u32)).unwrap();
    let fault = fault(launch!(simulator, load_in_flight[1, 32, 512](rows, 0_u32)));
    assert_eq!(fault.kind, FaultKind::AsyncNotWaited { issuer: [0, 0, 0] });
    assert_line(&fault, SOURCE, "in flight");
}

/// The first warp writes rows that the second reads, with or without a barrier between.
#[kernel]
unsafe fn load_of_another_warp(barrier: u32) {
    let thread = thread::thread_idx_x();
    let row = shared::dynamic::<bf16>().add(thread % 32 * 8);
    unsafe {
        if thread < 32 {
            row.store_vec([bf16::ONE; 8]);
        }
        if barrier == 1 {
            thread::sync_threads();
        }
        if thread >= 32 {
            load_matrices::<bf16, false>(row); // race
        }
    }
}

#[test]
fn a_load_races_with_stores_of_another_warp() {
    let simulator = Simulator::new();
    launch!(simulator, load_of_another_warp[1, 64, 512](1_u32)).unwrap();
    let fault = fault(launch!(simulator, load_of_another_warp[1, 64, 512](0_u32)));
    let (other, other_access) = ([0, 0, 0], AccessKind::Write);
    assert_eq!(fault.kind, FaultKind::SharedRace { other, other_access });
    assert_line(&fault, SOURCE, "race");
}

/// Reads rows that begin `offset` elements into shared memory, of which all that there is is written.
#[kernel]
unsafe fn load_at(offset: u32) {
    let lane = warp::lane_id();
    let row = shared::dynamic::<f16>().add(lane * 8);
    unsafe {
        row.store_vec([f16::ONE; 8]);
        warp::sync_warp(warp::FULL_MASK);
        load_matrices::<f16, false>(row.add(offset)); // a row
    }
}

#[test]
fn rows_are_aligned_and_inside() {
    let simulator = Simulator::new();
    launch!(simulator, load_at[1, 32, 512](0_u32)).unwrap();
    let base = (1 << 20) + (1 << 10);
    let misaligned = fault(launch!(simulator, load_at[1, 32, 512](4_u32)));
    assert_eq!(misaligned.kind, FaultKind::Misaligned);
    let access = (Space::Shared, AccessKind::Read, base + 8, 16);
    assert_access(&misaligned, "load_at", ([0; 3], [0; 3]), access);
    let outside = fault(launch!(simulator, load_at[1, 32, 512](8_u32)));
    assert_eq!(outside.kind, FaultKind::OutOfBounds);
    let access = (Space::Shared, AccessKind::Read, base + 512, 16);
    assert_access(&outside, "load_at", ([0; 3], [31, 0, 0]), access);
    assert_line(&outside, SOURCE, "a row");
}

/// Lanes that reach the operation: all but the upper half, or all at two places.
#[kernel]
unsafe fn diverge(how: u32) {
    let lane = warp::lane_id();
    let (a, b, c) = ([0; 4], [0; 2], [0.0; 4]);
    unsafe {
        let row = shared::dynamic::<f16>().add(thread::thread_idx_x() * 8);
        row.store_vec([f16::ONE; 8]);
        match how {
            0 if lane < 16 => {
                load_matrices::<f16, false>(row);
            }
            1 if lane < 16 => {
                multiply_add::<f16>(a, b, c);
            }
            2 if lane < 16 => {
                multiply_add::<f16>(a, b, c);
            }
            2 => {
                multiply_add::<f16>(a, b, c);
            }
            3 => {
                multiply_add::<f16>(a, b, c);
            }
            _ => {}
        }
    }
}

#[test]
fn all_lanes_execute_the_same_operation() {
    let simulator = Simulator::new();
    for (how, name) in
        [(0, "load of matrices"), (1, "matrix multiply-add"), (2, "matrix multiply-add")]
    {
        let fault = fault(launch!(simulator, diverge[1, 32, 512](how)));
        assert_eq!(fault.kind, FaultKind::DivergentBarrier { missing: [16, 0, 0] }, "{how}");
        assert!(fault.message.contains(name), "{fault}");
    }
    launch!(simulator, diverge[1, 32, 512](3_u32)).unwrap();
    for (threads, lanes) in [(31, 31), (33, 1), (1, 1)] {
        let fault = fault(launch!(simulator, diverge[1, threads, 1024](3_u32)));
        assert_eq!(fault.kind, FaultKind::PartialWarp { lanes });
        assert!(fault.message.contains(&format!("{lanes} threads")), "{fault}");
    }
}

/// Each lane passes registers that tell lane, register and half, and another lane's row; then all rows are read back as
/// they lie.
#[kernel]
unsafe fn store(stride: u32, transposed: u32, d: GlobalPtr<u16>) {
    let lane = warp::lane_id();
    let rows = shared::dynamic::<u16>();
    unsafe {
        let registers = std::array::from_fn(|i| {
            let low = lane * 8 + i as u32 * 2;
            low | (low + 1) << 16
        });
        let row = rows.add((lane + 5) % 32 * stride);
        if transposed != 0 {
            store_matrices::<_, true>(row, registers);
        } else {
            store_matrices::<_, false>(row, registers); // store
        }
        warp::sync_warp(warp::FULL_MASK);
        let row = rows.add(lane * stride).load_vec::<8>();
        d.add(u64::from(lane) * 8).store_vec(row);
    }
}

/// "stmatrix": row `r` of matrix `i` goes to the address of lane `8 i + r`, and its elements `2t` and `2t + 1` come
/// from register `i` of lane `4 r + t`; with `.trans` rows and columns change places.
#[test]
fn matrices_leave_as_in_the_manual() {
    let simulator = Simulator::new();
    let d = alloc::<u16>(&simulator, 8 * LANES);
    for transposed in [false, true] {
        let how = u32::from(transposed);
        let counters = launch!(simulator, store[1, 32, 32 * 16](8_u32, how, d)).unwrap();
        let rows = download(&simulator, d, 8 * LANES);
        for address_lane in 0..LANES {
            let (matrix, row) = (address_lane / 8, address_lane % 8);
            for col in 0..8 {
                let (of_row, of_col) = if transposed { (col, row) } else { (row, col) };
                let lane = of_row * 4 + of_col / 2;
                let expected = lane * 8 + matrix * 2 + of_col % 2;
                let found = rows[(address_lane + 5) % 32 * 8 + col];
                let place = format!("matrix {matrix}, row {row}, column {col}, {transposed}");
                assert_eq!(usize::from(found), expected, "{place}");
            }
        }
        assert_eq!(counters.warp_collectives, 1, "the barrier alone");
    }
}

#[test]
fn stored_rows_of_matrices_are_checked() {
    let simulator = Simulator::new();
    let d = alloc::<u16>(&simulator, 8 * LANES);
    let misaligned = fault(launch!(simulator, store[1, 32, 32 * 18](9_u32, 0_u32, d)));
    assert_eq!(misaligned.kind, FaultKind::Misaligned);
    assert_line(&misaligned, SOURCE, "store");
    let partial = fault(launch!(simulator, store[1, 31, 32 * 16](8_u32, 0_u32, d)));
    assert_eq!(partial.kind, FaultKind::PartialWarp { lanes: 31 });
}
