//! What each rung does, in exact counts from the simulator: the claims that the modules' documentation makes.

use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use half::{bf16, f16};
use regemm_kernels::element::{Accumulator, Element};
use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::ladder::pipelined::Pipelined;
use regemm_kernels::layout::Layout;
use regemm_kernels::params::{GemmParams, MatrixRef};
use regemm_kernels::table::{KERNELS, TF32};
use std::ffi::c_void;

/// An even size: a multiple of every tile.
const SIZE: u32 = 256;

regemm_kernels::gemm_kernels! {
    /// Pipelines that the table has no row for: the other numbers of stages, and slices of 16.
    PIPELINES:

    pipelined_2_stages_f32 = Pipelined<f32, 128, 128, 8, 8, 8, 2>, epilogue = Linear<f32>, min_blocks = 2;
    pipelined_4_stages_f32 = Pipelined<f32, 128, 128, 8, 8, 8, 4>, epilogue = Linear<f32>, min_blocks = 2;
    pipelined_deep_f32 = Pipelined<f32, 128, 128, 16, 8, 8, 3>, epilogue = Linear<f32>, min_blocks = 2;
    pipelined_small_f32 = Pipelined<f32, 64, 64, 16, 4, 4, 4>, epilogue = Linear<f32>, min_blocks = 4;
    pipelined_deep_f64 = Pipelined<f64, 64, 64, 16, 4, 4, 2>, epilogue = Linear<f64>, min_blocks = 2;
}

fn kernel<T: Element>(name: &str) -> &'static KernelInfo {
    let name = format!("{name}_{}", T::DTYPE);
    KERNELS
        .iter()
        .chain(PIPELINES)
        .chain(TF32)
        .find(|kernel| kernel.name == name)
        .expect("a kernel of the table")
}

fn bytes_of<T: Copy>(data: &[T]) -> &[u8] {
    // SAFETY: elements are plain numbers without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Runs a kernel on packed `m x k` and `k x n` matrices of small integers, stored as it takes them, and checks the
/// product on the way.
fn count<T: Element>(name: &str, m: u32, n: u32, k: u32) -> Counters {
    let kernel = kernel::<T>(name);
    let simulator = Simulator::new();
    let upload = |rows: u32, cols: u32, modulus: u32| {
        let integer = |i| T::narrow(T::Acc::constant((i % modulus) as f64 - 2.0));
        let data: Vec<T> = (0..rows * cols).map(integer).collect();
        let address = simulator.alloc(size_of_val(&data[..]) as u64).unwrap();
        simulator.write(address, bytes_of(&data)).unwrap();
        let ld = cols as u64;
        (data, MatrixRef { data: GlobalPtr::<T>::from_address(address), ld })
    };
    let factor = |layout: Layout, rows: u32, cols: u32, modulus: u32| {
        let (stored_rows, stored_cols) = layout.stored(rows, cols);
        let (data, matrix) = upload(stored_rows, stored_cols, modulus);
        let value = move |row: u32, col: u32| {
            let (row, col) = layout.stored(row, col);
            data[(row * stored_cols + col) as usize].widen().to_f64()
        };
        (value, matrix)
    };
    let (host_a, a) = factor(kernel.layouts.a, m, k, 5);
    let (host_b, b) = factor(kernel.layouts.b, k, n, 3);
    let (_, d) = upload(m, n, 2);
    let params = GemmParams::single([a, b], d, (m, n, k), Linear::<T>::identity());
    let launch = Launch {
        grid: [kernel.blocks(m, n) as u32, 1, 1],
        block: [kernel.threads(), 1, 1],
        dynamic_shared: kernel.shared_bytes,
    };
    // SAFETY: the one argument points to a value of the kernel's parameter type.
    let counters =
        unsafe { simulator.launch(&kernel.entry, launch, &[(&raw const params).cast::<c_void>()]) }
            .unwrap_or_else(|error| panic!("{error}"));

    let mut result = vec![0; (m * n) as usize * size_of::<T>()];
    simulator.read(d.data.address(), &mut result).unwrap();
    let expected: Vec<T> = (0..m * n)
        .map(|i| {
            let (row, col) = (i / n, i % n);
            let products = (0..k).map(|p| host_a(row, p) * host_b(p, col));
            // From +0, as the kernels' sums: `sum` would begin at -0.
            T::narrow(T::Acc::constant(products.fold(0.0, |sum, product| sum + product)))
        })
        .collect();
    assert!(result == bytes_of(&expected), "{name}: the product is wrong");
    counters
}

/// `count` for a cube of [`SIZE`], which divides into whole tiles.
fn count_even<T: Element>(name: &str) -> Counters {
    count::<T>(name, SIZE, SIZE, SIZE)
}

/// Multiply-adds of the product itself: the epilogue adds one for each element of D.
const PRODUCTS: u64 = (SIZE as u64).pow(3);
const ELEMENTS: u64 = (SIZE as u64).pow(2);

/// Elements of A and B that a kernel with `bm x bn` tiles loads: each operand once for every tile across.
fn tiled_loads(bm: u32, bn: u32) -> u64 {
    PRODUCTS / bn as u64 + PRODUCTS / bm as u64
}

#[test]
fn naive_loads_two_elements_for_every_multiply_add() {
    let counters = count_even::<f32>("naive");
    assert_eq!(counters.global_load_elements, 2 * PRODUCTS);
    // A warp reads one element of A, a broadcast from one sector, and 32 of B, which are four whole sectors.
    assert_eq!(counters.global_load_requests, 2 * PRODUCTS / 32);
    assert_eq!(counters.global_load_sectors, (1 + 4) * PRODUCTS / 32);
    assert_eq!(counters.shared_load_requests + counters.shared_store_requests, 0);
    assert_eq!(counters.block_barriers, 0);
}

#[test]
fn tiles_of_16_divide_global_loads_by_16_and_of_32_by_32() {
    let naive = count_even::<f32>("naive").global_load_elements;
    assert_eq!(count_even::<f32>("tiled16").global_load_elements * 16, naive);
    assert_eq!(count_even::<f32>("tiled32").global_load_elements * 32, naive);
}

#[test]
fn tiled_loads_two_shared_elements_for_every_multiply_add() {
    for (name, tile) in [("tiled16", 16), ("tiled32", 32)] {
        let counters = count_even::<f32>(name);
        assert_eq!(counters.shared_load_elements, 2 * PRODUCTS);
        assert_eq!(counters.shared_store_elements, tiled_loads(tile, tile));
        let steps = (SIZE / tile) as u64 * ((SIZE / tile) as u64).pow(2);
        assert_eq!(counters.block_barriers, 2 * steps, "two barriers a tile");
        assert_eq!(counters.shared_bytes, 2 * 4 * (tile as u64).pow(2));
    }
}

#[test]
fn outer_products_load_a_column_and_a_row_for_a_whole_tile_of_multiply_adds() {
    for name in ["microkernel", "double_buffered", "double_buffered64", "pipelined"] {
        let tile = kernel::<f32>(name).tile;
        let counters = count_even::<f32>(name);
        assert_eq!(counters.global_load_elements, tiled_loads(tile.bm, tile.bn), "{name}");
        let outer_products = PRODUCTS / (tile.tm * tile.tn) as u64;
        assert_eq!(
            counters.shared_load_elements,
            outer_products * (tile.tm + tile.tn) as u64,
            "{name}"
        );
        // All of them in vectors of four.
        assert_eq!(counters.shared_load_requests * 32 * 4, counters.shared_load_elements);
    }
}

#[test]
fn rows_of_whole_vectors_are_loaded_and_stored_in_vectors() {
    for name in ["microkernel", "double_buffered", "double_buffered64"] {
        let wide = count::<f32>(name, 128, 128, 128);
        assert_eq!(wide.global_load_requests * 32 * 4, wide.global_load_elements, "{name}");
        assert_eq!(wide.global_store_requests * 32 * 4, wide.global_store_elements, "{name}");
        // One column less, and no row but the first starts at a multiple of 16 bytes.
        let narrow = count::<f32>(name, 128, 127, 127);
        assert!(narrow.global_load_requests * 32 >= narrow.global_load_elements, "{name}");
        assert!(narrow.global_store_requests * 32 >= narrow.global_store_elements, "{name}");
    }
}

#[test]
fn a_second_stage_saves_a_barrier_a_slice() {
    let blocks = 4;
    let slices = |name| (SIZE / kernel::<f32>(name).tile.bk) as u64;
    assert_eq!(
        count_even::<f32>("microkernel").block_barriers,
        blocks * 2 * slices("microkernel"),
        "before and after each multiplication"
    );
    assert_eq!(
        count_even::<f32>("double_buffered").block_barriers,
        blocks * (slices("double_buffered") + 1),
        "one a slice, and one for the first"
    );
}

/// Blocks of a pipelined kernel for [`SIZE`], and slices of each.
fn pipeline<T: Element>(name: &str) -> (u64, u64) {
    let kernel = kernel::<T>(name);
    (kernel.blocks(SIZE, SIZE), (SIZE / kernel.tile.bk) as u64)
}

/// Every element of the slices arrives by an asynchronous copy, those of A one by one (they are transposed on the way),
/// those of B in vectors, and none passes through registers: all other stores to shared memory would add to these
/// counts. There is one barrier a slice, and no bank is asked for two words at once.
fn check_pipeline<T: Element>(name: &str) {
    let tile = kernel::<T>(name).tile;
    let counters = count_even::<T>(name);
    let (blocks, slices) = pipeline::<T>(name);
    assert_eq!(counters.block_barriers, blocks * slices, "{name}");

    let vector = 16 / size_of::<T>() as u64;
    let (a, b) = ((tile.bm * tile.bk) as u64, (tile.bk * tile.bn) as u64);
    let copies = blocks * slices * (a + b / vector);
    assert_eq!(counters.async_copies, copies, "{name}");
    assert_eq!(counters.global_load_requests, copies / 32, "{name}");
    assert_eq!(counters.shared_store_requests, copies / 32, "{name}");
    assert_eq!(counters.global_load_elements, tiled_loads(tile.bm, tile.bn), "{name}");
    assert_eq!(counters.shared_store_elements, counters.global_load_elements, "{name}");

    let conflicts = (counters.shared_load_conflicts, counters.shared_store_conflicts);
    assert_eq!(conflicts, (0, 0), "{name}");
    // The rows of the transposed slice of A are a vector longer than its columns.
    let stage = (a + b + tile.bk as u64 * vector) * size_of::<T>() as u64;
    assert_eq!(counters.shared_bytes, tile.stages as u64 * stage, "{name}");
}

#[test]
fn a_pipeline_copies_asynchronously_with_one_barrier_a_slice_and_no_bank_conflicts() {
    for name in ["pipelined", "pipelined_2_stages", "pipelined_4_stages", "pipelined_deep"] {
        check_pipeline::<f32>(name);
    }
    check_pipeline::<f32>("pipelined_small");
    check_pipeline::<f64>("pipelined");
    check_pipeline::<f64>("pipelined_deep");
    assert_eq!(count_even::<f32>("double_buffered").async_copies, 0);
}

/// Slices at least a sector deep are copied by whole sectors, each once for each block that needs it.
#[test]
fn a_pipeline_reads_whole_sectors() {
    for counters in [
        count_even::<f32>("pipelined"),
        count_even::<f32>("pipelined_deep"),
        count_even::<f64>("pipelined"),
    ] {
        assert_eq!(counters.global_load_sectors * 32, counters.global_load_bytes);
    }
}

/// Where rows are not whole vectors B is copied one by one too, and what lies outside arrives as zeros: no copy is left
/// out but those of slices past the end.
#[test]
fn a_pipeline_fills_ragged_slices_with_zeros() {
    for name in ["pipelined", "pipelined_2_stages", "pipelined_4_stages"] {
        let tile = kernel::<f32>(name).tile;
        let (m, n) = (tile.bm + 3, tile.bn - 1);
        // Fewer slices than stages, as many, and more.
        for k in [1, 2 * tile.bk, 3 * tile.bk - 1, 3 * tile.bk + 1, 5 * tile.bk + 1] {
            let counters = count::<f32>(name, m, n, k);
            let (blocks, slices) = (2, k.div_ceil(tile.bk) as u64);
            let elements = (tile.bk * (tile.bm + tile.bn)) as u64;
            assert_eq!(counters.async_copies, blocks * slices * elements, "{name}, k = {k}");
            let loads = (m * k) as u64 + 2 * (k * n) as u64;
            assert_eq!(counters.global_load_elements, loads, "{name}, k = {k}");
            assert_eq!(counters.block_barriers, blocks * slices, "{name}, k = {k}");
        }
        let nothing = count::<f32>(name, m, n, 0);
        assert_eq!((nothing.async_copies, nothing.block_barriers), (0, 0), "{name}");
    }
}

#[test]
fn every_rung_does_the_same_multiply_adds() {
    for name in ["naive", "tiled16", "tiled32", "microkernel", "double_buffered", "pipelined"] {
        let counters = count_even::<f32>(name);
        assert_eq!(counters.fma, PRODUCTS + ELEMENTS, "{name}");
        assert_eq!(counters.global_store_elements, ELEMENTS, "{name} stores each element once");
    }
}

/// Two of the larger tiles in every direction and along k: more of them do the same again.
#[test]
fn tiles_load_whole_sectors_without_bank_conflicts_in_all_layouts() {
    const TWO_TILES: u32 = 64;
    fn check<T: Element>() {
        let count_tiles = |name: &str| count::<T>(name, TWO_TILES, TWO_TILES, TWO_TILES);
        for name in ["tiled16", "tiled32"] {
            let row_major = count_tiles(name);
            for layouts in ["nt", "tn", "tt"] {
                let name = format!("{name}_{layouts}");
                let counters = count_tiles(&name);
                assert_eq!(counters.global_load_sectors, row_major.global_load_sectors, "{name}");
                assert_eq!(counters.shared_load_elements, row_major.shared_load_elements, "{name}");
                assert_eq!(counters.shared_load_conflicts, 0, "loads of {name}_{}", T::DTYPE);
                assert_eq!(counters.shared_store_conflicts, 0, "stores of {name}_{}", T::DTYPE);
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
}

/// Without shared memory a warp reads a transposed B from 32 rows, each of which is a sector of its own.
#[test]
fn naive_reads_a_sector_a_lane_of_a_transposed_b() {
    let sectors = |name| count_even::<f32>(name).global_load_sectors;
    assert_eq!(sectors("naive_tn"), sectors("naive"));
    assert_eq!(sectors("naive_nt"), (1 + 32) * PRODUCTS / 32);
    assert_eq!(sectors("naive_tt"), sectors("naive_nt"));
}

/// Whole tiles of D, the largest once, and four slices of eight: more of them do the same again.
fn check_bank_conflicts<T: Element>() {
    for name in ["tiled16", "tiled32", "microkernel", "double_buffered"] {
        let counters = count::<T>(name, 128, 128, 32);
        assert_eq!(counters.shared_load_conflicts, 0, "loads of {name}_{}", T::DTYPE);
        assert_eq!(counters.shared_store_conflicts, 0, "stores of {name}_{}", T::DTYPE);
    }
}

#[test]
fn no_kernel_with_slices_of_eight_has_bank_conflicts() {
    check_bank_conflicts::<f32>();
    check_bank_conflicts::<f64>();
    check_bank_conflicts::<f16>();
    check_bank_conflicts::<bf16>();
}

/// Sixteen values of k make four vectors of a row of A. The padding sets the first two apart; the third falls on the
/// banks of the first. One extra wavefront for each transposed store, of which there are few.
#[test]
fn slices_of_sixteen_store_a_with_two_way_conflicts() {
    let counters = count_even::<f32>("double_buffered64");
    assert_eq!(counters.shared_load_conflicts, 0);
    let (blocks, warps, stores_of_a) = (16, 8, 4);
    let slices = (SIZE / 16) as u64 + 1; // one past the end, of zeros
    assert_eq!(counters.shared_store_conflicts, blocks * warps * stores_of_a * slices);
}

#[test]
fn ragged_edges_load_nothing_outside() {
    let (m, n, k) = (35, 67, 21);
    for (name, bm, bn) in [("naive", 8, 32), ("tiled16", 16, 16), ("tiled32", 32, 32)] {
        let counters = count::<f32>(name, m, n, k);
        let (across, down) = if name == "naive" {
            (n as u64, m as u64)
        } else {
            (n.div_ceil(bn) as u64, m.div_ceil(bm) as u64)
        };
        let expected = (m * k) as u64 * across + (k * n) as u64 * down;
        assert_eq!(counters.global_load_elements, expected, "{name}");
        assert_eq!(counters.global_store_elements, (m * n) as u64, "{name}");
    }
}

/// Slices are copied 16 bytes at a time, fragments are read by 16 bytes a lane, or elements of f32 that cannot be
/// transposed, and nothing meets in a bank on the way there and back, whichever way the factors lie.
#[test]
fn tensor_cores_read_and_write_shared_memory_without_bank_conflicts() {
    for name in ["tensor_core", "tensor_core64"] {
        for layouts in ["", "_nt", "_tn", "_tt"] {
            check_tensor_core::<f16>(&format!("{name}{layouts}"));
            check_tensor_core::<bf16>(&format!("{name}{layouts}"));
        }
    }
    for layouts in ["", "_nt", "_tn", "_tt"] {
        check_tensor_core::<f32>(&format!("tf32{layouts}"));
    }
}

fn check_tensor_core<T: Element>(name: &str) {
    /// Bytes of a copy, and of what a lane reads at once.
    const VECTOR: u64 = 16;
    let counters = count_even::<T>(name);
    let tile = kernel::<T>(name).tile;
    assert_eq!((counters.shared_load_conflicts, counters.shared_store_conflicts), (0, 0), "{name}");
    let loads = tiled_loads(tile.bm, tile.bn);
    assert_eq!(counters.global_load_elements, loads, "{name}");
    assert_eq!(counters.global_load_bytes, 32 * counters.global_load_sectors, "{name}");
    assert_eq!(counters.global_store_bytes, 32 * counters.global_store_sectors, "{name}");
    assert_eq!(counters.async_copies * VECTOR, counters.global_load_bytes, "{name}");
    assert_eq!((counters.tensor_fma, counters.fma), (PRODUCTS, ELEMENTS), "{name}");

    // A warp reads its rows of A and columns of B for each k, and those of an instruction more; the sums are read once.
    let (rows, cols) = (u64::from(8 * tile.tm), u64::from(4 * tile.tn));
    let (warps, element) = (ELEMENTS / (rows * cols), size_of::<T>() as u64);
    let fragments = warps * (rows + cols) * (u64::from(SIZE) + 2 * VECTOR / element);
    let sums = ELEMENTS * size_of::<f32>() as u64;
    assert_eq!(counters.shared_load_bytes, fragments * element + sums, "{name}");
    if element == 2 {
        assert_eq!(counters.shared_load_elements, fragments + ELEMENTS, "{name}");
        let requests = counters.shared_load_requests;
        assert_eq!(counters.shared_load_bytes, VECTOR * 32 * requests, "{name}");
    }
    let blocks = ELEMENTS / u64::from(tile.bm * tile.bn);
    assert_eq!(counters.block_barriers, blocks * u64::from(SIZE / tile.bk + 1), "{name}");
}
