//! Products of f64 on tensor cores, [`regemm_kernels::double_tensor_core`], [`regemm_kernels::double_cluster_split`] and
//! [`regemm_kernels::double_bulk`]: in all layouts,
//! wherever matrices lie and whatever their shapes, the bits of fused multiply-adds in ascending order of k, which is how the simulator adds
//! up, over all of K or half of it; and what the kernels do, in exact counts.

use cuda_std::bulk_copy::TensorMap;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use regemm_kernels::activation::Activation;
use regemm_kernels::double_tensor_core::DoubleTensorCore;
use regemm_kernels::double_tile::STEP;
use regemm_kernels::element::Dtype;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::{KernelInfo, Needs, Schedule, Tile};
use regemm_kernels::layout::{Layout, Layouts, Tn};
use regemm_kernels::maps::{BoxShape, Maps};
use regemm_kernels::params::{GemmParams, MatrixRef, TargetRef, Workspace};
use regemm_kernels::table::KERNELS;
use std::ffi::c_void;
use std::ops::Range;

regemm_kernels::gemm_kernels! {
    /// What the table has no row for: slices that are more than a line of the banks, and other numbers of stages.
    OTHERS:

    tensor_core_deep_f64 = DoubleTensorCore<64, 64, 32, 4, 8, 3>, epilogue = Linear<f64>, min_blocks = 1;
    tensor_core_deep_tn_f64 = DoubleTensorCore<64, 64, 32, 4, 8, 4, Tn>, epilogue = Linear<f64>, min_blocks = 1;
}

/// Threads of a warp, and bytes of a sector of global memory.
const WARP: u64 = 32;
const SECTOR: u64 = 32;

/// What is in memory where no element is: a NaN, which would spread to every sum.
const CANARY: f64 = f64::from_bits(u64::MAX);

/// `D = activation(alpha * A * B + beta * C + bias)`, or two of them.
#[derive(Clone, Copy, Debug)]
struct Product {
    m: u32,
    n: u32,
    k: u32,
    /// Elements before the first of each matrix, and from the end of one row to the next.
    start: u32,
    gap: u32,
    batch: u32,
    /// Clusters that take all tiles, where blocks take several.
    clusters: u32,
    alpha: f64,
    beta: f64,
    bias: BiasAxis,
    activation: Activation,
}

impl Product {
    /// Of matrices without gaps, whose result is only stored.
    const fn new(m: u32, n: u32, k: u32) -> Self {
        let (alpha, beta) = (1.0, 0.0);
        let (bias, activation) = (BiasAxis::None, Activation::None);
        Product { m, n, k, start: 0, gap: 0, batch: 1, clusters: 1, alpha, beta, bias, activation }
    }
}

/// Numbers whose products and sums are all rounded: element `(row, col)` of a matrix, of which every seed has its own.
fn number(seed: u32, row: u32, col: u32) -> f64 {
    let mixed = [row, col].into_iter().fold(seed.wrapping_mul(0x9e37_79b9), |hash, x| {
        let hash = (hash ^ x).wrapping_mul(0x85eb_ca6b);
        hash ^ hash >> 15
    });
    f64::from(mixed) / f64::from(1 << 31) - 1.0 + 1.0 / 3.0
}

/// Seeds of A, B, C and the bias of a product of a batch.
fn seeds(product: u32) -> [u32; 4] {
    [1, 2, 3, 4].map(|matrix| 10 * product + matrix)
}

/// Matrices of a batch in the simulator's memory, one after another.
struct Stored {
    first: MatrixRef<f64>,
    stride: u64,
    address: u64,
    elements: Vec<f64>,
}

fn upload(
    simulator: &Simulator,
    product: &Product,
    (rows, cols): (u32, u32),
    value: impl Fn(u32, u32, u32) -> f64,
) -> Stored {
    let ld = cols + product.gap;
    let mut elements = vec![CANARY; product.start as usize];
    for index in 0..product.batch {
        for row in 0..rows {
            elements.extend((0..cols).map(|col| value(index, row, col)));
            elements.extend(vec![CANARY; product.gap as usize]);
        }
    }
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, &bytes).unwrap();
    let data = GlobalPtr::from_address(address).add(product.start.into());
    let stride = u64::from(rows) * u64::from(ld);
    Stored { first: MatrixRef { data, ld: ld.into() }, stride, address, elements }
}

/// The sum of `k` products in a kernel's order: ascending, where blocks share K over the part of each.
fn sum_of(kernel: &KernelInfo, k: u32, factors: impl Fn(u32) -> (f64, f64)) -> f64 {
    let sum = |range: Range<u32>| {
        range.fold(0.0, |sum, p| {
            let (a, b) = factors(p);
            f64::mul_add(a, b, sum)
        })
    };
    let part = k.div_ceil(kernel.tile.bk).div_ceil(kernel.cluster) * kernel.tile.bk;
    if kernel.schedule == Schedule::ClusterK && part < k { sum(0..part) + sum(part..k) } else { sum(0..k) }
}

impl Product {
    /// Runs a kernel, and checks every bit of D and that nothing beside it is written.
    fn check(&self, kernel: &KernelInfo) -> Counters {
        let Product { m, n, k, batch, alpha, beta, .. } = *self;
        let simulator = Simulator::new();
        let factor = |layout: Layout, matrix: usize, rows, cols| {
            upload(&simulator, self, layout.stored(rows, cols), |index, row, col| {
                let (row, col) = layout.stored(row, col);
                number(seeds(index)[matrix], row, col)
            })
        };
        let a = factor(kernel.layouts.a, 0, m, k);
        let b = factor(kernel.layouts.b, 1, k, n);
        let c = factor(Layout::RowMajor, 2, m, n);
        let bias_len = if self.bias == BiasAxis::Row { m } else { n };
        let bias = factor(Layout::RowMajor, 3, 1, bias_len);
        let d = upload(&simulator, self, (m, n), |_, _, _| CANARY);
        let epilogue = Linear::<f64> {
            c: c.first,
            bias: bias.first.data,
            c_stride: c.stride,
            bias_stride: bias.stride,
            alpha,
            beta,
            bias_axis: self.bias,
            activation: self.activation,
            ..Linear::identity()
        };
        let params = GemmParams {
            a: a.first,
            b: b.first,
            d: TargetRef { first: d.first, stride: d.stride },
            a_stride: a.stride,
            b_stride: b.stride,
            m,
            n,
            k,
            slice_depth: 0,
            shared_tiles: 0,
            sharing_blocks: 0,
            workspace: Workspace::NONE,
            maps: Maps::NONE,
            epilogue,
        };
        let blocks = match kernel.schedule {
            Schedule::Persistent => self.clusters * kernel.cluster,
            _ => kernel.blocks(m, n) as u32,
        };
        let launch = Launch {
            grid: [blocks, batch, 1],
            block: [kernel.threads(), 1, 1],
            dynamic_shared: kernel.shared_bytes,
        };
        let map = |stored: &Stored, (rows, cols): (u32, u32), boxes: BoxShape| {
            let tensor = TiledTensor::matrices(
                ElementType::F64,
                stored.first.data.address(),
                (batch.into(), rows.max(1).into(), cols.max(1).into()),
                // Without depth there is nothing to copy.
                (8 * stored.stride.max(2), 8 * stored.first.ld.max(2)),
                (boxes.rows, boxes.cols),
                boxes.swizzle,
            );
            simulator.tensor_map(&tensor).unwrap()
        };
        let maps: Option<[TensorMap; 3]> = kernel.boxes.map(|boxes| {
            [
                map(&a, kernel.layouts.a.stored(m, k), boxes.a),
                map(&b, kernel.layouts.b.stored(k, n), boxes.b),
                map(&a, kernel.layouts.a.stored(m, k), boxes.a), // of D nobody asks
            ]
        });
        let d_is_mapped = 0_u32;
        let mut arguments = vec![(&raw const params).cast::<c_void>()];
        if let Some(maps) = &maps {
            arguments.extend(maps.iter().map(|map| (&raw const *map).cast::<c_void>()));
            arguments.push((&raw const d_is_mapped).cast());
        }
        // SAFETY: the arguments point to values of the types of the kernel's parameters.
        let launched = unsafe { simulator.launch(&kernel.entry, launch, &arguments) };
        let counters =
            launched.unwrap_or_else(|error| panic!("{}: {self:?}: {error}", kernel.name));

        let expected = upload(&simulator, self, (m, n), |index, row, col| {
            let [seed_a, seed_b, seed_c, seed_bias] = seeds(index);
            let sum = sum_of(kernel, k, |p| (number(seed_a, row, p), number(seed_b, p, col)));
            let bias = match self.bias {
                BiasAxis::None => 0.0,
                BiasAxis::Column => number(seed_bias, 0, col),
                BiasAxis::Row => number(seed_bias, 0, row),
            };
            let addend =
                if beta == 0.0 { bias } else { beta.mul_add(number(seed_c, row, col), bias) };
            self.activation.apply(alpha.mul_add(sum, addend), Linear::<f64>::identity().slope)
        });
        let mut bytes = vec![0; size_of::<f64>() * d.elements.len()];
        simulator.read(d.address, &mut bytes).unwrap();
        let (found, _) = bytes.as_chunks::<8>();
        for (at, (&found, expected)) in found.iter().zip(&expected.elements).enumerate() {
            let found = f64::from_le_bytes(found);
            let name = kernel.name;
            assert_eq!(found.to_bits(), expected.to_bits(), "{name}: {self:?}: at {at}: {found}");
        }
        counters
    }
}

/// The kernels of the table whose threads copy: one block for a tile, and two.
fn kernels() -> impl Iterator<Item = &'static KernelInfo> {
    const NEEDS: [Needs; 2] = [Needs::DoubleTensorCores, Needs::DoubleTensorCoresInClusters];
    let of_doubles = KERNELS.iter().filter(|kernel| NEEDS.contains(&kernel.needs));
    of_doubles.filter(|kernel| kernel.boxes.is_none())
}

/// Those with bulk copies.
fn bulk_kernels() -> impl Iterator<Item = &'static KernelInfo> {
    KERNELS.iter().filter(|kernel| kernel.target == Dtype::F64 && kernel.boxes.is_some())
}

/// The other tests loop over what is there.
#[test]
fn there_are_tiles_of_all_sizes_in_all_layouts() {
    const TILES: [(u32, u32, u32); 5] =
        [(128, 128, 1), (128, 64, 1), (64, 64, 1), (64, 32, 1), (64, 64, 2)];
    for (bm, bn, cluster) in TILES {
        for layouts in Layouts::ALL {
            let fits = |kernel: &&KernelInfo| {
                let tile = kernel.tile;
                (tile.bm, tile.bn, kernel.cluster, kernel.layouts) == (bm, bn, cluster, layouts)
            };
            assert_eq!(kernels().filter(fits).count(), 1, "{bm} x {bn}, {cluster}, {layouts}");
        }
    }
    assert_eq!(kernels().count(), TILES.len() * Layouts::ALL.len());
}

/// No slice at all, less than one, whole ones, fewer than stages, as many, and more.
#[test]
fn sums_are_in_ascending_order_for_all_depths() {
    for kernel in kernels().chain(OTHERS) {
        let (bk, stages) = (kernel.tile.bk, kernel.tile.stages);
        for k in [0, 1, 3, bk - 1, bk, bk + 1, 2 * bk, stages * bk, 2 * stages * bk + 5] {
            Product::new(33, 17, k).check(kernel);
        }
    }
}

/// Chunks are copied where all rows begin at multiples of 16 bytes and consist of whole ones, elements anywhere else.
#[test]
fn matrices_lie_anywhere() {
    for kernel in kernels().chain(OTHERS) {
        let (bm, bn) = (kernel.tile.bm, kernel.tile.bn);
        let (odd, even) = ((bm + 3, bn - 5, 37), (bm - 2, bn + 2, 38));
        for (start, gap, shapes) in
            [(0, 0, [(1, 1, 1), odd]), (0, 2, [(2, 2, 2), even]), (1, 1, [odd, even])]
        {
            for (m, n, k) in shapes {
                Product { start, gap, ..Product::new(m, n, k) }.check(kernel);
            }
        }
    }
}

/// Also with several groups of tiles, the last of which has fewer rows.
#[test]
fn tiles_are_counted_in_groups() {
    let kernel = KERNELS.iter().find(|kernel| kernel.name == "tensor_core64_f64").unwrap();
    Product::new(18 * 64 + 1, 2 * 64, 2).check(kernel);
}

#[test]
fn the_epilogue_is_fused() {
    // Rows of whole vectors, and others.
    let plain = Product::new(66, 70, 19);
    let odd = Product { start: 1, ..Product::new(66, 71, 19) };
    for kernel in kernels() {
        for product in [
            Product { alpha: -0.75, beta: 0.5, ..plain },
            Product { alpha: -0.75, beta: 0.5, ..odd },
            Product { bias: BiasAxis::Row, activation: Activation::GeluErf, ..plain },
            Product { beta: -2.0, bias: BiasAxis::Column, activation: Activation::Relu, ..odd },
            Product { k: 0, beta: 1.5, bias: BiasAxis::Row, ..plain },
        ] {
            product.check(kernel);
        }
    }
}

#[test]
fn products_of_a_batch_are_apart() {
    for kernel in kernels() {
        let product =
            Product { gap: 1, beta: 0.25, bias: BiasAxis::Column, ..Product::new(65, 30, 21) };
        Product { batch: 3, ..product }.check(kernel);
    }
}

/// Whole slices travel by chunks, each element once for each block that needs it, all others one by one; fragments are read without
/// conflicts wherever k runs, and so are the sums on their way to D.
#[test]
fn no_lanes_meet_in_a_bank() {
    for kernel in kernels().chain(OTHERS) {
        let (name, tile) = (kernel.name, kernel.tile);
        for (odd, bytes_of_copy) in [(0, 16), (1, 8)] {
            let product =
                Product { start: odd, ..Product::new(2 * tile.bm, 2 * tile.bn, 6 * tile.bk) };
            let Product { m, n, k, .. } = product;
            let counters = product.check(kernel);
            let conflicts = (counters.shared_load_conflicts, counters.shared_store_conflicts);
            assert_eq!(conflicts, (0, 0), "{name}");

            let loads = 2 * u64::from(k) * u64::from(m + n);
            assert_eq!(counters.global_load_elements, loads, "{name}");
            // As many slices of zeros as are under way follow the last.
            let blocks = kernel.cluster;
            let beyond = blocks * (tile.stages - 1) * tile.bk;
            let copied = 2 * u64::from(k + beyond) * u64::from(m + n);
            assert_eq!(counters.async_copies * bytes_of_copy, 8 * copied, "{name}");
            if odd == 0 {
                assert_eq!(counters.global_load_sectors * SECTOR, 8 * loads, "{name}");
                assert_eq!(counters.global_store_sectors * SECTOR, 8 * u64::from(m * n), "{name}");
            }

            // A warp reads its rows of A and columns of B for each k, and for one step more.
            let (rows, cols) = (u64::from(8 * tile.tm), u64::from(4 * tile.tn));
            let warps = u64::from(m * n) / (rows * cols);
            let fragments = warps * (rows + cols) * u64::from(k + blocks * STEP as u32);
            // Each sum goes there and back on its way to D; before that each block leaves half of its own there for the other.
            let sums = u64::from(m * n);
            let left = u64::from(blocks - 1) * sums;
            assert_eq!(counters.shared_load_elements, fragments + sums + left, "{name}");
            let requests = (fragments + (sums + left) / 2) / WARP;
            assert_eq!(counters.shared_load_requests, requests, "{name}");
            assert_eq!(counters.shared_store_elements, copied + sums + left, "{name}");

            // One for the first slice, one for each, and one before the sums take the stages' place.
            let barriers = k / tile.bk + 2 * blocks;
            assert_eq!(counters.block_barriers, 4 * u64::from(barriers), "{name}");
            let products = sums * u64::from(k);
            assert_eq!((counters.tensor_fma, counters.fma), (products, sums), "{name}");
        }
    }
}

#[test]
fn bulk_copies_are_there_in_all_layouts() {
    let layouts: Vec<_> = bulk_kernels().map(|kernel| kernel.layouts).collect();
    assert_eq!(layouts, Layouts::ALL);
}

/// Rows of any length that begin at multiples of 16 bytes; depths of no slice, of one, of as many as stages, and of more; D of one tile, and
/// of a pair of which one lies outside.
#[test]
fn bulk_copies_bring_what_there_is() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, stages, .. } = kernel.tile;
        for (m, n, k) in [
            (2 * bm, bn, 2 * bk),
            (1, 1, 1),
            (bm + 3, bn - 5, stages * bk),
            (33, 18, 0),
            (35, 20, 2 * stages * bk + 5),
        ] {
            // As many elements as make all rows even.
            for gap in [0, 1, 2] {
                let odd = |(_, cols): (u32, u32)| (cols + gap) % 2 == 1;
                let Layouts { a, b } = kernel.layouts;
                if !odd(a.stored(m, k)) && !odd(b.stored(k, n)) {
                    Product { gap, ..Product::new(m, n, k) }.check(kernel);
                }
            }
        }
    }
}

/// Clusters that have one pair of tiles after another, some one more than others, some none; and the epilogue of each of them.
#[test]
fn bulk_copies_go_on_with_the_next_tile() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        let plain = Product::new(3 * bm - 2, 2 * bn - 6, 2 * bk + 2);
        for product in [
            Product { clusters: 3, ..plain },
            Product { clusters: 5, alpha: -0.75, beta: 0.5, ..plain },
            Product { bias: BiasAxis::Column, activation: Activation::GeluErf, ..plain },
            Product { gap: 2, beta: 0.25, bias: BiasAxis::Row, ..plain },
            Product { k: 0, clusters: 2, beta: 1.5, ..plain },
            Product { batch: 2, clusters: 2, m: 66, ..plain },
        ] {
            product.check(kernel);
        }
    }
}

/// What both blocks of a cluster need is fetched once, and neither fragments nor sums on their way to D meet in a bank.
#[test]
fn bulk_copies_and_fragments_in_exact_counts() {
    for kernel in bulk_kernels() {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        let (m, n, k) = (2 * bm, 2 * bn, 4 * bk);
        for (alpha, beta) in [(-0.75, 0.0), (1.0, 0.5)] {
            let counters = Product { alpha, beta, ..Product::new(m, n, k) }.check(kernel);
            let name = kernel.name;
            let conflicts = (counters.shared_load_conflicts, counters.shared_store_conflicts);
            assert_eq!(conflicts, (0, 0), "{name}");
            // Two tiles for each block, and one slice beyond the last, which lies outside.
            let slices = u64::from(2 * k + bk);
            assert_eq!(counters.bulk_bytes, 8 * slices * u64::from(2 * bm + bn), "{name}");
            let elements = u64::from(m * n);
            let products = elements * u64::from(k);
            let of_epilogue = elements * if beta == 0.0 { 1 } else { 2 };
            assert_eq!((counters.tensor_fma, counters.fma), (products, of_epilogue), "{name}");
            assert_eq!(counters.global_store_sectors * SECTOR, 8 * elements, "{name}");
        }
    }
}
