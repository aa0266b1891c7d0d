//! The kernels among whose blocks K is split, [`regemm_kernels::ladder::split_k`] and
//! [`regemm_kernels::ladder::skinny`]: the order in which they sum, to the bit, and how often they read the factors, in
//! exact counts from the simulator.

mod common;
#[path = "common/order.rs"]
mod order;

use common::{PACKED, Product, Storage, Values};
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Launch, Simulator};
use half::{bf16, f16};
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::epilogue::{Epilogue, Linear};
use regemm_kernels::kernel::{KernelInfo, Reducer, Rung, Schedule, ShortSide, checked_reducer};
use regemm_kernels::ladder::split_k::SplitK;
use regemm_kernels::ladder::tiled::Tiled;
use regemm_kernels::layout::{Layout, Layouts, Nn};
use regemm_kernels::params::{GemmParams, MatrixRef, Workspace};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::table::KERNELS;
use std::ffi::c_void;

/// Bytes of a sector of global memory.
const SECTOR: u64 = 32;

/// Bytes that a thread reads at once.
const VECTOR_BYTES: u32 = 16;

/// Threads that read together.
const WARP: u32 = 32;

/// Neither starts nor rows are aligned.
const ODD: Storage = Storage { start: 1, gap: 3 };

/// The kernels whose K is split and whose results are of their factors' type: of f32 all, of f16 and bf16 those that
/// need no tensor maps. Sums of f64 are compared by the library's tests of kernels.
fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
    let types = [Dtype::F32, Dtype::F16, Dtype::Bf16];
    let of_types = KERNELS.iter().filter(move |kernel| types.contains(&kernel.dtype));
    of_types.filter(|kernel| {
        let splits = kernel.schedule == Schedule::SplitK && kernel.boxes.is_none();
        splits && kernel.target == kernel.dtype
    })
}

fn is_skinny(kernel: &KernelInfo) -> bool {
    kernel.rung == Rung::Skinny
}

/// An epilogue with other parameters than [`Linear`].
#[derive(Clone, Copy)]
struct Halved(#[allow(dead_code)] u32);

impl Epilogue<f32> for Halved {
    unsafe fn apply(&self, sum: f32, _: u32, _: u32) -> f32 {
        sum / 2.0
    }
}

/// A row without it would store sums that nobody adds up, and one for another epilogue read what is not there. In a
/// table this is a constant, so such a row does not compile.
#[test]
fn a_row_names_a_reducer_of_its_epilogue_where_k_is_split_and_there_alone() {
    type Split = SplitK<f32, 64, 128, 16, 8, 8, 3, Nn>;
    type Whole = Tiled<f32, 16>;
    let split = KERNELS.iter().find(|kernel| kernel.name == "split_k_f32").unwrap();
    assert!(split.reducer.is_some());
    let refused = |row: fn(Option<Reducer>) -> Option<Reducer>, reducer| {
        std::panic::catch_unwind(|| row(reducer)).is_err()
    };
    assert!(!refused(checked_reducer::<Split, Linear<f32>>, split.reducer));
    assert!(!refused(checked_reducer::<Whole, Linear<f32>>, None));
    assert!(refused(checked_reducer::<Split, Linear<f32>>, None), "nobody adds up");
    assert!(refused(checked_reducer::<Split, Halved>, split.reducer), "of another epilogue");
    assert!(refused(checked_reducer::<Whole, Linear<f32>>, split.reducer), "nothing to add up");
}

#[test]
fn every_tile_is_there_in_all_layouts_with_a_reducer() {
    let of_all = ["skinny_rows", "skinny_cols"];
    let of_f32 = ["split_k", "split_sliced_k", "split_specialised", "split_k16"];
    // Those whose large factor lies along k.
    let staged = ["rows_nt", "rows_tt", "cols", "cols_nt"]
        .iter()
        .flat_map(|of| [4, 8, 16, 32].map(|rows| format!("skinny{rows}_{of}_f32")));
    let mut count = 0;
    for name in staged {
        let kernel = kernels().find(|kernel| kernel.name == name).expect(&name);
        assert_eq!(kernel.reducer.unwrap().name, "reduce_f32", "{name}");
        count += 1;
    }
    // By rungs tests below know them.
    assert!(kernels().all(|kernel| kernel.name.starts_with("skinny") == is_skinny(kernel)));
    for (dtype, families) in [
        (Dtype::F32, &[&of_all[..], &of_f32[..]].concat()[..]),
        (Dtype::F16, &of_all),
        (Dtype::Bf16, &of_all),
    ] {
        for (layouts, family) in
            Layouts::ALL.iter().flat_map(|l| families.iter().map(move |f| (l, f)))
        {
            let name = match *layouts {
                Layouts::NN => format!("{family}_{dtype}"),
                layouts => format!("{family}_{layouts}_{dtype}"),
            };
            let kernel = kernels().find(|kernel| kernel.name == name).expect(&name);
            assert_eq!(kernel.reducer.unwrap().name, format!("reduce_{dtype}"), "{name}");
            count += 1;
        }
    }
    assert_eq!(count, kernels().count(), "and no other");
}

#[test]
fn slices_are_summed_and_added_in_ascending_order() {
    for kernel in kernels() {
        let tile = kernel.tile;
        let (m, n) = (tile.bm.min(70) + 3, tile.bn.min(70) + 1);
        for (steps, k) in
            [(1, 5 * tile.bk + 1), (2, 5 * tile.bk), (3, 3 * tile.bk), (1, 70 * tile.bk)]
        {
            let (m, n) = if k > 20 * tile.bk { (2, 5) } else { (m, n) };
            let values = Values::Normals;
            let expected = Product { values, ..Product::new(m, n, k) };
            for storage in [PACKED, ODD] {
                let product = Product { storage, ..expected };
                let found = product.run_in_slices(kernel, steps * tile.bk);
                let right = found.bits == order::summed(&expected, kernel, steps * tile.bk);
                assert!(right, "{}: {product:?}, slices of {steps} steps", kernel.name);
            }
        }
    }
}

#[test]
fn integers_are_exact_wherever_rows_start_and_end() {
    for kernel in kernels() {
        let tile = kernel.tile;
        let storages = [PACKED, Storage { start: 4, gap: 8 }, Storage { start: 0, gap: 3 }, ODD];
        for (m, n) in [(1, tile.bn + 4), (tile.bm + 4, 1), (3, 7)] {
            for k in [0, 1, tile.bk, 2 * tile.bk + 4] {
                for storage in storages {
                    let product = Product { storage, ..Product::new(m, n, k) };
                    let (split, whole) =
                        (product.run_in_slices(kernel, tile.bk), product.run(kernel));
                    let right =
                        split.bits == product.exact(kernel.dtype) && whole.bits == split.bits;
                    assert!(right, "{}: {product:?}", kernel.name);
                }
            }
        }
    }
}

/// Every element of the large factor is read by one thread, once, whatever the layout and however many slices there
/// are, and where rows are aligned in whole sectors. What else is read is the small factor: once by each thread that
/// multiplies it.
#[test]
fn skinny_kernels_read_the_large_factor_once() {
    for kernel in kernels().filter(|kernel| is_skinny(kernel) && kernel.tile.stages == 0) {
        let (name, tile) = (kernel.name, kernel.tile);
        let bytes = kernel.dtype.bytes() as u32;
        let vector = VECTOR_BYTES / bytes;
        let few_rows = kernel.short_side == Some(ShortSide::Rows);
        let (short, long) = if few_rows { (tile.bm, tile.bn) } else { (tile.bn, tile.bm) };
        let Layouts { a, b } = kernel.layouts;
        // Which factor's elements lie together along k.
        let (small_deep, large_deep) = match few_rows {
            true => (a == Layout::RowMajor, b == Layout::Transposed),
            false => (b == Layout::Transposed, a == Layout::RowMajor),
        };
        for (storage, narrow) in [(PACKED, short), (PACKED, 1), (ODD, 1)] {
            let (wide, k) = (2 * long, 6 * tile.bk);
            let (m, n) = if few_rows { (narrow, wide) } else { (wide, narrow) };
            let product = Product { storage, ..Product::new(m, n, k) };
            for steps in [1, 2, 6] {
                let counters = product.run_in_slices(kernel, steps * tile.bk).counters;
                let large = u64::from(wide) * u64::from(k);
                let threads = u64::from(wide / vector);
                let small = threads * u64::from(narrow) * u64::from(k);
                let found = counters.global_load_elements;
                assert_eq!(found, large + small, "{name}: {product:?}, {steps}");
                if storage.start == 0 {
                    // Lanes of one group read the same element, and those of the next one a vector further on along k.
                    let apart = if small_deep { 1 } else { u64::from(narrow) };
                    let groups = if large_deep { WARP } else { WARP / (long / vector) };
                    // Two neighbours share a sector where nothing is between them.
                    let of_request = u64::from(groups) * apart.min(2) / 2;
                    let sectors = counters.global_load_sectors - small / 32 * of_request;
                    assert_eq!(
                        sectors * SECTOR,
                        u64::from(bytes) * large,
                        "{name}: {product:?}, {steps}"
                    );
                }
            }
        }
    }
}

/// Both factors are read once by each block that needs them: the large one once in all, the small one once for each
/// tile. In aligned rows nothing meets in a bank of shared memory.
#[test]
fn staged_skinny_kernels_read_the_small_factor_once_for_each_tile() {
    for kernel in kernels().filter(|kernel| is_skinny(kernel) && kernel.tile.stages > 0) {
        let (name, tile) = (kernel.name, kernel.tile);
        let few_rows = kernel.short_side == Some(ShortSide::Rows);
        let (short, long) = if few_rows { (tile.bm, tile.bn) } else { (tile.bn, tile.bm) };
        for (storage, narrow) in [(PACKED, short), (PACKED, short / 2), (ODD, short - 1)] {
            const TILES: u32 = 3;
            let (wide, k) = (TILES * long, 6 * tile.bk);
            let (m, n) = if few_rows { (narrow, wide) } else { (wide, narrow) };
            let product = Product { storage, ..Product::new(m, n, k) };
            for steps in [1, 2, 6] {
                let counters = product.run_in_slices(kernel, steps * tile.bk).counters;
                let elements = u64::from(k) * u64::from(wide + TILES * narrow);
                let conflicts = counters.shared_load_conflicts + counters.shared_store_conflicts;
                assert!(storage.start > 0 || conflicts == 0, "{name}: {product:?}, {steps}");
                assert_eq!(counters.global_load_elements, elements, "{name}: {product:?}, {steps}");
            }
        }
    }
}

/// The reducer reads whole vectors of sums, so all of what is in the workspace has to be written, whatever is between
/// the rows' ends.
#[test]
fn skinny_kernels_write_all_of_the_workspace() {
    fn check<T: Element>() {
        for kernel in KERNELS.iter().filter(|kernel| kernel.rung == Rung::Skinny) {
            if kernel.dtype != T::DTYPE {
                continue;
            }
            let tile = kernel.tile;
            let few_rows = kernel.short_side == Some(ShortSide::Rows);
            let (short, long) = if few_rows { (tile.bm, tile.bn) } else { (tile.bn, tile.bm) };
            for narrow in 1..=2 * short + 1 {
                let (m, n) = if few_rows { (narrow, long + 1) } else { (long + 1, narrow) };
                assert_eq!(
                    unwritten::<T>(kernel, (m, n, 3 * tile.bk)),
                    0,
                    "{}: {m} x {n}",
                    kernel.name
                );
            }
        }
    }
    check::<f32>();
    check::<f64>();
    check::<f16>();
    check::<bf16>();
}

/// How many words of the sums of a product in slices of one step the kernel does not write. All elements are zero.
fn unwritten<T: Element>(kernel: &KernelInfo, (m, n, k): (u32, u32, u32)) -> usize {
    const NEVER: [u8; 4] = 0x7fc0_ffee_u32.to_ne_bytes();
    let simulator = Simulator::new();
    let zeros = |rows: u32, cols: u32| {
        let bytes = u64::from(rows) * u64::from(cols) * size_of::<T>() as u64;
        GlobalPtr::<T>::from_address(simulator.alloc(bytes).unwrap())
    };
    let factor = |layout: Layout, rows, cols| {
        let (rows, cols) = layout.stored(rows, cols);
        MatrixRef { data: zeros(rows, cols), ld: cols.into() }
    };
    let partials = Partials::new::<T>(m, n, k, kernel.tile.bk);
    let words = size_of::<T::Acc>() / NEVER.len();
    let never = NEVER.repeat(partials.product() as usize * words);
    let sums = simulator.alloc(never.len() as u64).unwrap();
    simulator.write(sums, &never).unwrap();
    let factors = [factor(kernel.layouts.a, m, k), factor(kernel.layouts.b, k, n)];
    let d = MatrixRef { data: zeros(m, n), ld: n.into() };
    let params = GemmParams {
        slice_depth: kernel.tile.bk,
        workspace: Workspace { partials: GlobalPtr::from_address(sums), ..Workspace::NONE },
        ..GemmParams::single(factors, d, (m, n, k), Linear::<T>::identity())
    };
    let launch = Launch {
        grid: [kernel.blocks(m, n) as u32, 1, partials.slices],
        block: [kernel.threads(), 1, 1],
        dynamic_shared: kernel.shared_bytes,
    };
    let argument = (&raw const params).cast::<c_void>();
    // SAFETY: the one argument points to a value of the kernel's parameter type.
    unsafe { simulator.launch(&kernel.entry, launch, &[argument]) }.unwrap();
    let mut found = never;
    simulator.read(sums, &mut found).unwrap();
    found.as_chunks::<4>().0.iter().filter(|&&word| word == NEVER).count()
}
