//! Products of f64 on the simulator, wherever matrices lie.

use cuda_std::bulk_copy::TensorMap;
use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::layout::Layout;
use regemm_kernels::maps::{BoxShape, Factors, Mappings, Maps, Matrices, Results, UNUSED};
use regemm_kernels::params::{GemmParams, MatrixRef, TargetRef, Workspace};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::schedule::reduce;
use regemm_kernels::schedule::shares::{Segment, Share, Shares};
use std::ffi::c_void;
use std::ops::Range;

/// Threads of a warp, and bytes of a sector of global memory.
pub const WARP: u64 = 32;
pub const SECTOR: u64 = 32;

/// What is in memory where no element is: a NaN, which would spread to every sum.
const CANARY: f64 = f64::from_bits(u64::MAX);

/// `D = activation(alpha * A * B + beta * C + bias)`, or two of them.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Elements before the first of each matrix, and from the end of one row to the next.
    pub start: u32,
    pub gap: u32,
    pub batch: u32,
    /// Clusters that take all tiles, where blocks take several.
    pub clusters: u32,
    /// How many pairs of tiles, all in one row of them, are shared by how many of those clusters.
    pub shared: (u32, u32),
    /// Slices of K, or fewer, of kernels that split it.
    pub slices: u32,
    pub alpha: f64,
    pub beta: f64,
    pub bias: BiasAxis,
    pub activation: Activation,
}

impl Product {
    /// Of matrices without gaps, whose result is only stored.
    pub const fn new(m: u32, n: u32, k: u32) -> Self {
        let (alpha, beta) = (1.0, 0.0);
        let (bias, activation) = (BiasAxis::None, Activation::None);
        let (batch, clusters, shared, slices) = (1, 1, (0, 0), 3);
        let (start, gap) = (0, 0);
        Product {
            m,
            n,
            k,
            start,
            gap,
            batch,
            clusters,
            shared,
            slices,
            alpha,
            beta,
            bias,
            activation,
        }
    }

    /// Values of k in a slice of one of those kernels.
    fn slice_depth(&self, kernel: &KernelInfo) -> u32 {
        let bk = kernel.tile.bk;
        self.k.div_ceil(bk).div_ceil(self.slices).max(1) * bk
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

/// The parts of K whose sums a kernel adds up for an element in column `col`, in that order: all of it, where the
/// blocks of a cluster share K the part of each, where K is split each slice, where clusters share tiles that of the
/// one which ends the tile and then those of its helpers.
fn parts_of(kernel: &KernelInfo, product: &Product, col: u32) -> Vec<Range<u32>> {
    let (k, bk) = (product.k, kernel.tile.bk);
    let slices = k.div_ceil(bk);
    let tile = col / kernel.tile.bn;
    let (tiles, clusters) = product.shared;
    let part = slices.div_ceil(kernel.cluster) * bk;
    if kernel.schedule == Schedule::ClusterK && part < k {
        vec![0..part, part..k]
    } else if kernel.schedule == Schedule::SplitK {
        let depth = product.slice_depth(kernel);
        (0..k.div_ceil(depth)).map(|slice| slice * depth..k.min((slice + 1) * depth)).collect()
    } else if tile < tiles {
        let shares = Shares::new(tiles, clusters, slices);
        let of = |Segment { first, end, .. }: Segment| first * bk..k.min(end * bk);
        let ends = |share: &Share| share.finished.tile == tile && !share.finished.is_empty();
        let last = (0..clusters).find(|&cluster| ends(&shares.of(cluster))).unwrap();
        let Share { finished, first_helper, .. } = shares.of(last);
        let helpers = (first_helper..last).map(|helper| of(shares.of(helper).unfinished));
        [of(finished)].into_iter().chain(helpers).collect()
    } else {
        std::iter::once(0..k).collect()
    }
}

/// The sums of such parts, each in ascending order, added up.
fn sum_of(parts: &[Range<u32>], factors: impl Fn(u32) -> (f64, f64)) -> f64 {
    let sum = |range: &Range<u32>| {
        range.clone().fold(0.0, |sum, p| {
            let (a, b) = factors(p);
            f64::mul_add(a, b, sum)
        })
    };
    parts.iter().map(sum).reduce(|sum, part| sum + part).unwrap_or_default()
}

impl Product {
    /// Runs a kernel, and checks every bit of D and that nothing beside it is written. Gives what the kernel did,
    /// without the launch that adds slices of K up.
    pub fn check(&self, kernel: &KernelInfo) -> Counters {
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
        let sharing = u64::from(self.shared.1 * kernel.cluster);
        let of_tile = u64::from(kernel.tile.bm * kernel.tile.bn) * size_of::<f64>() as u64;
        let slice_depth = self.slice_depth(kernel);
        let of_slices = Partials::new::<f64>(m, n, k, slice_depth);
        let partial_bytes = match kernel.schedule {
            Schedule::SplitK => u64::from(batch) * of_slices.product() * size_of::<f64>() as u64,
            _ => sharing * of_tile,
        };
        let partials = simulator.alloc(partial_bytes.max(1)).unwrap();
        let signal_bytes = vec![0; (sharing * size_of::<u32>() as u64).max(4) as usize];
        let signals = simulator.alloc(signal_bytes.len() as u64).unwrap();
        simulator.write(signals, &signal_bytes).unwrap();
        let signals = GlobalPtr::from_address(signals);
        let params = GemmParams {
            a: a.first,
            b: b.first,
            d: TargetRef { first: d.first, stride: d.stride },
            a_stride: a.stride,
            b_stride: b.stride,
            m,
            n,
            k,
            slice_depth,
            shared_tiles: self.shared.0,
            sharing_blocks: self.shared.1,
            workspace: Workspace { partials: GlobalPtr::from_address(partials), signals },
            maps: Maps::NONE,
            epilogue,
        };
        let blocks = match kernel.schedule {
            Schedule::Persistent => self.clusters * kernel.cluster,
            _ => kernel.blocks(m, n) as u32,
        };
        let slices = if kernel.schedule == Schedule::SplitK { of_slices.slices } else { 1 };
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
        let maps: Option<[TensorMap; 2]> = kernel.boxes.map(|boxes| {
            [
                map(&a, kernel.layouts.a.stored(m, k), boxes.a),
                map(&b, kernel.layouts.b.stored(k, n), boxes.b),
            ]
        });
        let (results, mappings) = (Results::NONE, Mappings::NONE);
        let mut arguments = vec![(&raw const params).cast::<c_void>()];
        let factors = maps.map(|wholes| Factors { wholes, rests: [UNUSED; 2] });
        let matrices = factors.map(|factors| Matrices { factors, results });
        if let Some(matrices) = &matrices {
            arguments.extend([(&raw const *matrices).cast(), (&raw const mappings).cast()]);
        }
        let run = |entry: &KernelEntry, grid, threads, dynamic_shared, arguments: &[_]| {
            let launch = Launch { grid, block: [threads, 1, 1], dynamic_shared };
            // SAFETY: the arguments point to values of the types of the kernels' parameters.
            let launched = unsafe { simulator.launch(entry, launch, arguments) };
            launched.unwrap_or_else(|error| panic!("{}: {self:?}: {error}", kernel.name))
        };
        // Without depth there is no slice.
        let counters = if slices > 0 {
            let grid = [blocks, batch, slices];
            run(&kernel.entry, grid, kernel.threads(), kernel.shared_bytes, &arguments)
        } else {
            Counters::default()
        };
        if let Some(reducer) = &kernel.reducer {
            let grid = [reduce::blocks::<f64>(m, n) as u32, batch, 1];
            run(&reducer.entry, grid, reduce::THREADS, 0, &arguments[..1]);
        }

        let expected = upload(&simulator, self, (m, n), |index, row, col| {
            let [seed_a, seed_b, seed_c, seed_bias] = seeds(index);
            let parts = parts_of(kernel, self, col);
            let sum = sum_of(&parts, |p| (number(seed_a, row, p), number(seed_b, p, col)));
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
