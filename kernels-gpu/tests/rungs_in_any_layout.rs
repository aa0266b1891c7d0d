//! The rungs whose factors may lie in any layout, [`regemm_kernels::ladder::warp_tiled`] and
//! [`regemm_kernels::ladder::decoupled`]: what they do, in exact counts from the simulator, and that they compute the
//! bits of [`regemm_kernels::ladder::naive`].

mod common;

use common::{PACKED, Product, Storage, Values};
use cuda_std::sim::Counters;
use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::{KernelInfo, Rung};
use regemm_kernels::ladder::decoupled::{Decoupled, ROUND};
use regemm_kernels::ladder::warp_tiled::WarpTiled;
use regemm_kernels::layout::{Layout, Layouts, Nt, Tn, Tt};
use regemm_kernels::table::KERNELS;

regemm_kernels::gemm_kernels! {
    /// Small tiles that the table has no row for: the fewest stages, slices of one round and of several, and thread
    /// tiles that are not square.
    OTHERS:

    warp_tiled_2_stages_f32 = WarpTiled<f32, 64, 64, 8, 8, 4, 2>, epilogue = Linear<f32>, min_blocks = 1;
    warp_tiled_2_stages_nt_f32 = WarpTiled<f32, 64, 64, 8, 8, 4, 2, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    warp_tiled_2_stages_tn_f32 = WarpTiled<f32, 64, 64, 8, 8, 4, 2, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    warp_tiled_2_stages_tt_f32 = WarpTiled<f32, 64, 64, 8, 8, 4, 2, Tt>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_3_stages_f32 = Decoupled<f32, 64, 64, 8, 8, 4, 3>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_3_stages_nt_f32 = Decoupled<f32, 64, 64, 8, 8, 4, 3, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_3_stages_tn_f32 = Decoupled<f32, 64, 64, 8, 8, 4, 3, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_3_stages_tt_f32 = Decoupled<f32, 64, 64, 8, 8, 4, 3, Tt>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_5_stages_f32 = Decoupled<f32, 32, 64, 32, 4, 8, 5>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_5_stages_nt_f32 = Decoupled<f32, 32, 64, 32, 4, 8, 5, Nt>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_5_stages_tn_f32 = Decoupled<f32, 32, 64, 32, 4, 8, 5, Tn>, epilogue = Linear<f32>, min_blocks = 1;
    decoupled_5_stages_tt_f32 = Decoupled<f32, 32, 64, 32, 4, 8, 5, Tt>, epilogue = Linear<f32>, min_blocks = 1;
}

/// Bytes of a sector of global memory.
const SECTOR: u64 = 32;

/// Threads of a warp.
const WARP: u64 = 32;

/// Elements that one asynchronous copy or load moves where it can: 16 bytes of them.
const VECTOR: u64 = 4;

/// The kernels of a rung, those of the table first.
fn kernels_of(rung: Rung) -> impl Iterator<Item = &'static KernelInfo> {
    KERNELS.iter().chain(OTHERS).filter(move |kernel| kernel.rung == rung)
}

/// The kernels of both rungs.
fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
    kernels_of(Rung::WarpTiled).chain(kernels_of(Rung::Decoupled))
}

/// A product of `tiles` whole tiles of D in either direction, `slices` deep.
fn even(kernel: &KernelInfo, tiles: u32, slices: u32) -> Product {
    let tile = kernel.tile;
    Product::new(tiles * tile.bm, tiles * tile.bn, slices * tile.bk)
}

/// How a kernel divides up a product.
struct Work {
    blocks: u64,
    threads: u64,
    warps: u64,
    /// Slices of each factor.
    slices: u64,
    /// Values of k that are multiplied, zeros past the end among them.
    depth: u64,
}

impl Work {
    fn of(kernel: &KernelInfo, product: &Product) -> Work {
        let granule = match kernel.rung {
            Rung::Decoupled => ROUND as u32,
            _ => kernel.tile.bk,
        };
        Work {
            blocks: kernel.blocks(product.m, product.n),
            threads: kernel.threads().into(),
            warps: u64::from(kernel.threads()) / WARP,
            slices: product.k.div_ceil(kernel.tile.bk).into(),
            depth: product.k.next_multiple_of(granule).into(),
        }
    }

    /// Elements of fragments that all threads read: one k more than are multiplied, because those of the next are read
    /// first.
    fn fragments(&self, kernel: &KernelInfo) -> u64 {
        let values = if self.depth == 0 { 0 } else { self.depth + 1 };
        self.blocks * self.threads * values * u64::from(kernel.tile.tm + kernel.tile.tn)
    }
}

/// Elements of A and B inside of the matrices: each row of A once for every tile along a row of D, each column of B
/// once for every tile along a column.
fn operand_elements(kernel: &KernelInfo, product: &Product) -> u64 {
    let Product { m, n, k, .. } = *product;
    let (tiles_m, tiles_n) = (m.div_ceil(kernel.tile.bm), n.div_ceil(kernel.tile.bn));
    u64::from(k) * (u64::from(m) * u64::from(tiles_n) + u64::from(n) * u64::from(tiles_m))
}

fn conflicts(counters: &Counters) -> (u64, u64) {
    (counters.shared_load_conflicts, counters.shared_store_conflicts)
}

/// The other tests loop over what is there.
#[test]
fn every_tile_is_there_in_all_layouts() {
    for name in ["warp_tiled", "warp_tiled32", "decoupled"] {
        for layouts in Layouts::ALL {
            let name = match layouts {
                Layouts::NN => format!("{name}_f32"),
                _ => format!("{name}_{layouts}_f32"),
            };
            let kernel = kernels().find(|kernel| kernel.name == name).expect(&name);
            assert_eq!(kernel.layouts, layouts, "{name}");
        }
    }
}

/// A factor whose stored rows are rows of the slices is copied in vectors, one that is transposed on the way element by
/// element; in either case a warp reads whole sectors, nothing is read twice, and no two lanes meet in a bank.
#[test]
fn slices_arrive_in_whole_sectors_without_bank_conflicts_in_all_layouts() {
    for kernel in kernels() {
        let (name, tile) = (kernel.name, kernel.tile);
        let product = even(kernel, 2, 3);
        let counters = product.run(kernel).counters;
        assert_eq!(conflicts(&counters), (0, 0), "{name}");
        assert_eq!(counters.global_load_elements, operand_elements(kernel, &product), "{name}");
        assert_eq!(counters.global_load_bytes, counters.global_load_sectors * SECTOR, "{name}");

        let copies_of = |width: u32, vectors: bool| {
            u64::from(width * tile.bk) / if vectors { VECTOR } else { 1 }
        };
        let copies = copies_of(tile.bm, kernel.layouts.a == Layout::Transposed)
            + copies_of(tile.bn, kernel.layouts.b == Layout::RowMajor);
        let work = Work::of(kernel, &product);
        assert_eq!(counters.async_copies, work.blocks * work.slices * copies, "{name}");
        // All lanes of a warp take part in each, and nothing else is read from global or written to shared memory.
        assert_eq!(counters.global_load_requests * WARP, counters.async_copies, "{name}");
        assert_eq!(counters.shared_store_requests * WARP, counters.async_copies, "{name}");
        assert_eq!(counters.shared_store_elements, counters.global_load_elements, "{name}");
    }
}

/// Rows that are not whole vectors are copied element by element whatever the layout, and what lies outside arrives as
/// zeros.
#[test]
fn ragged_slices_are_read_inside_the_matrices_alone_and_without_bank_conflicts() {
    for kernel in kernels() {
        let (name, tile) = (kernel.name, kernel.tile);
        for k in [1, tile.bk + 1, 2 * tile.bk - 1] {
            let product = Product::new(tile.bm + 3, tile.bn - 1, k);
            let counters = product.run(kernel).counters;
            let work = Work::of(kernel, &product);
            assert_eq!(conflicts(&counters), (0, 0), "{name}, k = {k}");
            let inside = operand_elements(kernel, &product);
            assert_eq!(counters.global_load_elements, inside, "{name}, k = {k}");
            let copies = work.blocks * work.slices * u64::from(tile.bk * (tile.bm + tile.bn));
            assert_eq!(counters.async_copies, copies, "{name}, k = {k}");
            let stored = u64::from(product.m * product.n);
            assert_eq!(counters.global_store_elements, stored, "{name}, k = {k}");
        }
    }
}

/// Rows of the slice of A are a vector longer than they have elements where it is row-major, so transposed on the way,
/// and those of B where it is not.
#[test]
fn a_stage_is_padded_where_a_factor_is_transposed_and_a_ring_has_two_barriers_a_stage() {
    const BARRIER_BYTES: u64 = 8;
    for kernel in kernels() {
        let tile = kernel.tile;
        let padding = |is_transposed: bool| if is_transposed { VECTOR } else { 0 };
        let row_of_a = u64::from(tile.bm) + padding(kernel.layouts.a == Layout::RowMajor);
        let row_of_b = u64::from(tile.bn) + padding(kernel.layouts.b == Layout::Transposed);
        let row = row_of_a + row_of_b;
        let slices = u64::from(tile.bk) * row * size_of::<f32>() as u64;
        let ring = if kernel.rung == Rung::Decoupled { 2 * BARRIER_BYTES } else { 0 };
        let counters = even(kernel, 1, 1).run(kernel).counters;
        let expected = u64::from(tile.stages) * (slices + ring);
        assert_eq!(counters.shared_bytes, expected, "{}", kernel.name);
    }
}

/// Depths about a round, about a slice, and of several turns of a ring.
fn depths(kernel: &KernelInfo) -> Vec<u32> {
    let (bk, round, stages) = (kernel.tile.bk, ROUND as u32, kernel.tile.stages);
    let turns = 2 * stages * bk;
    let mut depths = vec![0, 1, round - 1, round, round + 1, bk - 1, bk, bk + 1];
    depths.extend([(stages - 1) * bk, stages * bk, turns, turns + 1, turns + round + 1]);
    depths.sort();
    depths.dedup();
    depths
}

#[test]
fn fragments_of_one_k_more_than_are_multiplied_are_read_in_vectors() {
    for kernel in kernels() {
        for k in depths(kernel) {
            let name = format!("{}, k = {k}", kernel.name);
            let product = Product { k, ..even(kernel, 1, 1) };
            let counters = product.run(kernel).counters;
            let work = Work::of(kernel, &product);
            assert_eq!(counters.shared_load_elements, work.fragments(kernel), "{name}");
            let requests = counters.shared_load_requests;
            assert_eq!(requests * WARP * VECTOR, counters.shared_load_elements, "{name}");
            assert_eq!(counters.shared_load_conflicts, 0, "{name}");
            // The epilogue adds one for each element of D.
            let elements = u64::from(product.m * product.n);
            assert_eq!(counters.fma, elements * (work.depth + 1), "{name}");
        }
    }
}

#[test]
fn warp_tiles_have_one_barrier_a_slice() {
    for kernel in kernels_of(Rung::WarpTiled) {
        for k in depths(kernel) {
            let product = Product { k, ..even(kernel, 1, 1) };
            let counters = product.run(kernel).counters;
            let name = format!("{}, k = {k}", kernel.name);
            assert_eq!(counters.block_barriers, Work::of(kernel, &product).slices, "{name}");
            assert_eq!((counters.mbarrier_arrivals, counters.mbarrier_waits), (0, 0), "{name}");
            assert_eq!(counters.warp_collectives, 0, "{name}");
        }
    }
}

/// One barrier of the block, after which
///
/// - each thread arrives at *full* once for each slice;
/// - each thread waits for *full* once for each slice;
/// - each warp gathers and arrives at *empty* once for each slice but the last;
/// - each thread waits for *empty* once for each slice that is copied while others are multiplied, all after the first
///   `STAGES - 2`.
#[test]
fn decoupled_warps_meet_once_and_wait_for_stages() {
    for kernel in kernels_of(Rung::Decoupled) {
        for k in depths(kernel) {
            let name = format!("{}, k = {k}", kernel.name);
            let product = Product { k, ..even(kernel, 1, 1) };
            let counters = product.run(kernel).counters;
            let Work { threads, warps, slices, .. } = Work::of(kernel, &product);
            assert_eq!(counters.block_barriers, 1, "{name}");

            let ahead = u64::from(kernel.tile.stages) - 2;
            let emptied = warps * slices.saturating_sub(1);
            let arrivals = threads * slices + emptied;
            assert_eq!(counters.mbarrier_arrivals, arrivals, "{name}");
            let waits = threads * (slices + slices.saturating_sub(ahead));
            assert_eq!(counters.mbarrier_waits, waits, "{name}");
            assert_eq!(counters.warp_collectives, emptied, "{name}");
        }
    }
}

/// Checks a kernel's D of one product, stored in several ways, against the row-major [`regemm_kernels::ladder::naive`]
/// and, of integers, against the exact product.
fn check(kernel: &KernelInfo, product: Product, storages: &[Storage]) {
    let naive = KERNELS.iter().find(|kernel| kernel.name == "naive_f32").unwrap();
    for values in [Values::Integers, Values::Normals] {
        let product = Product { values, ..product };
        let expected = product.run(naive).bits;
        if values == Values::Integers {
            assert!(expected == product.exact(naive.dtype), "naive: {product:?}");
        }
        for &storage in storages {
            let product = Product { storage, ..product };
            assert!(product.run(kernel).bits == expected, "{}: {product:?}", kernel.name);
        }
    }
}

/// Neither starts nor rows are aligned.
const ODD: Storage = Storage { start: 1, gap: 3 };

/// In one tile: what each block does along k does not depend on how many there are.
#[test]
fn bits_of_naive_for_all_depths() {
    for kernel in kernels() {
        for k in depths(kernel) {
            check(kernel, Product::new(kernel.tile.bm - 3, kernel.tile.bn - 5, k), &[ODD]);
        }
    }
}

#[test]
fn bits_of_naive_for_less_than_a_tile() {
    for kernel in kernels() {
        let tile = kernel.tile;
        for (m, n, k) in [(1, 5, 2 * tile.bk + 3), (tile.bm - 1, 1, 3), (7, tile.bn - 3, 29)] {
            check(kernel, Product::new(m, n, k), &[PACKED, ODD]);
        }
    }
}

/// Rows of whole vectors may be copied as such only where they also start at multiples of 16 bytes.
#[test]
fn bits_of_naive_wherever_rows_start() {
    let storages = [
        PACKED,
        Storage { start: 4, gap: 8 },
        Storage { start: 1, gap: 0 },
        Storage { start: 2, gap: 4 },
        Storage { start: 0, gap: 1 },
        ODD,
    ];
    for kernel in kernels() {
        let tile = kernel.tile;
        check(kernel, Product::new(tile.bm + 12, tile.bn - 4, 2 * tile.bk + 4), &storages);
    }
}

/// Rows that start at multiples of 16 bytes but do not consist of whole vectors: what follows their ends belongs to
/// others.
#[test]
fn aligned_rows_of_odd_length_are_read_to_their_ends() {
    let storage = Storage { start: 0, gap: 3 };
    for kernel in kernels() {
        let tile = kernel.tile;
        let product = Product::new(tile.bm + 1, tile.bn + 5, tile.bk + 1);
        check(kernel, product, &[storage]);
        let counters = Product { storage, ..product }.run(kernel).counters;
        let inside = operand_elements(kernel, &product);
        assert_eq!(counters.global_load_elements, inside, "{}", kernel.name);
    }
}
