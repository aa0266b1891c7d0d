//! Warpgroups whose blocks are in clusters of two, or of two by two: the products are right wherever the edges of D
//! lie, and each slice of B is fetched once for both of a column, each of A for both of a row. And what the simulator
//! says of such a kernel that leaves something out, or says too much.
//!
//! SAFETY of that kernel's `unsafe` blocks: it runs on the simulator alone, which checks every access.

use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, FaultKind, Launch, SimError, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use cuda_std::wgmma::{KMajor, M, MnMajor, THREADS};
use cuda_std::{cluster, shared, thread};
use half::bf16;
use regemm_kernels::epilogue::{Epilogue, Linear};
use regemm_kernels::gemm_kernels;
use regemm_kernels::kernel::{GemmKernel, KernelInfo, Needs, Rung, Schedule, Summation, Tile};
use regemm_kernels::layout::{Layout, Layouts, Nn, Nt, Tn, Tt};
use regemm_kernels::maps::{
    BoxShape, Boxes, Factors, Inside, Mappings, Maps, Matrices, Results, UNUSED,
};
use regemm_kernels::params::{GemmParams, MatrixRef, TargetRef, Workspace};
use regemm_kernels::schedule::parts::{Part, Parts};
use regemm_kernels::slices::clusters::Cluster;
use regemm_kernels::slices::ring::{Ring, WARP};
use regemm_kernels::tile::Origin;
use regemm_kernels::warpgroup::Warpgroup;
use regemm_kernels::warpgroup::bulk_panels::BulkPanel;
use regemm_kernels::warpgroup::outbox::{self, Outbox};
use regemm_kernels::warpgroup::pace;
use regemm_kernels::warpgroup::tile::WarpgroupTile;
use std::ffi::c_void;

gemm_kernels! {
    /// In all layouts, with tiles that are quick to simulate, and with high ones; then blocks for themselves.
    PAIRS:

    pair_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Nn, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    pair_nt_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Nt, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    pair_tn_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Tn, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    pair_tt_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Tt, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    tall_pair_bf16 = Warpgroup<bf16, 256, 128, 64, 3, Nn, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    tall_pair_nt_bf16 = Warpgroup<bf16, 256, 128, 64, 3, Nt, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    tall_pair_tn_bf16 = Warpgroup<bf16, 256, 128, 64, 3, Tn, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    tall_pair_tt_bf16 = Warpgroup<bf16, 256, 128, 64, 3, Tt, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    alone_bf16 = Warpgroup<bf16, 128, 128, 64, 3>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    tall_alone_bf16 = Warpgroup<bf16, 256, 128, 64, 3>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
}

gemm_kernels! {
    /// Two by two.
    SQUARES:

    square_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Nn, 2, bf16, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    square_nt_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Nt, 2, bf16, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    square_tn_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Tn, 2, bf16, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    square_tt_bf16 = Warpgroup<bf16, 128, 128, 64, 3, Tt, 2, bf16, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
}

/// What rows are padded to: 16 bytes, as bulk copies need.
const CHUNK: u32 = 8;

/// What lies between the rows of matrices, and in all of D before.
const CANARY: bf16 = bf16::NAN;

/// `D = A * B`, for each product of a batch.
#[derive(Clone, Copy, Debug)]
struct Product {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    /// Clusters that share the tiles.
    clusters: u32,
    /// Slices between two looks at how far others are, and the words in which clusters count, before the launch.
    pace: u32,
    words: [u32; pace::WORDS as usize],
}

/// Element of A and B, small enough for all sums to be exact in bf16.
fn a(product: u32, row: u32, p: u32) -> f32 {
    f32::from(u8::from((row * 7 + p * 3 + product).is_multiple_of(11)))
}

fn b(product: u32, p: u32, col: u32) -> f32 {
    ((p * 5 + col * 13 + product) % 3) as f32 - 1.0
}

/// Matrices of a batch in the simulator's memory, one behind the other, and the elements of one.
fn upload(
    simulator: &Simulator,
    batch: u32,
    (rows, cols): (u32, u32),
    value: impl Fn(u32, u32, u32) -> bf16,
) -> (MatrixRef<bf16>, u64) {
    let ld = cols.next_multiple_of(CHUNK) + CHUNK;
    let mut bytes = Vec::new();
    for product in 0..batch {
        for (row, col) in (0..rows).flat_map(|row| (0..ld).map(move |col| (row, col))) {
            let element = if col < cols { value(product, row, col) } else { CANARY };
            bytes.extend(element.to_ne_bytes());
        }
    }
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, &bytes).unwrap();
    let elements = u64::from(rows) * u64::from(ld);
    (MatrixRef { data: GlobalPtr::from_address(address), ld: ld.into() }, elements)
}

impl Product {
    const fn new(m: u32, n: u32, k: u32) -> Self {
        Product { m, n, k, batch: 1, clusters: 1, pace: 0, words: [0; pace::WORDS as usize] }
    }

    /// Runs a kernel and checks all of D and what lies between its rows.
    fn check(&self, kernel: &KernelInfo) -> Counters {
        let result = self.run(kernel);
        result.unwrap_or_else(|error| panic!("{}: {self:?}: {error}", kernel.name))
    }

    /// Runs a kernel, and where it has not failed checks all of D and what lies between its rows.
    fn run(&self, kernel: &KernelInfo) -> Result<Counters, SimError> {
        let Product { m, n, k, batch, clusters, pace, words } = *self;
        let simulator = Simulator::new();
        let factor = |layout: Layout, rows, cols, value: &dyn Fn(u32, u32, u32) -> f32| {
            let element = |product, stored_row, stored_col| {
                let (row, col) = layout.stored(stored_row, stored_col);
                bf16::from_f32(value(product, row, col))
            };
            upload(&simulator, batch, layout.stored(rows, cols), element)
        };
        let (stored_a, a_stride) = factor(kernel.layouts.a, m, k, &a);
        let (stored_b, b_stride) = factor(kernel.layouts.b, k, n, &b);
        let (d, d_stride) = upload(&simulator, batch, (m, n), |_, _, _| CANARY);
        let map =
            |matrix: MatrixRef<bf16>, stride: u64, (rows, cols): (u32, u32), boxes: BoxShape| {
                let shape = (batch.into(), rows.max(1).into(), cols.max(1).into());
                let tensor = TiledTensor::matrices(
                    ElementType::Bf16,
                    matrix.data.address(),
                    shape,
                    (2 * stride, 2 * matrix.ld),
                    (boxes.rows, boxes.cols),
                    boxes.swizzle,
                );
                simulator.tensor_map(&tensor).unwrap()
            };
        let boxes = kernel.boxes.unwrap();
        let [wholes, rests] = boxes.of_maps(kernel, kernel.width(), (m, n)).map(|of| {
            let [of_a, of_b] = of;
            let of_a = of_a.map(|of| map(stored_a, a_stride, kernel.layouts.a.stored(m, k), of));
            let of_b = of_b.map(|of| map(stored_b, b_stride, kernel.layouts.b.stored(k, n), of));
            [of_a, of_b].map(|map| map.unwrap_or(UNUSED))
        });
        let d_map = map(d, d_stride, (m, n), boxes.d.expect("D leaves by bulk copies"));
        let workspace = match pace {
            0 => Workspace::NONE,
            _ => {
                let bytes = words.map(u32::to_ne_bytes);
                let address = simulator.alloc(bytes.as_flattened().len() as u64).unwrap();
                simulator.write(address, bytes.as_flattened()).unwrap();
                Workspace { signals: GlobalPtr::from_address(address), ..Workspace::NONE }
            }
        };
        // Bulk stores write whole chunks.
        let mappings =
            if n.is_multiple_of(CHUNK) { Mappings::NONE.with_d() } else { Mappings::NONE };
        let params = GemmParams {
            a: stored_a,
            b: stored_b,
            d: TargetRef { first: d, stride: d_stride },
            a_stride,
            b_stride,
            m,
            n,
            k,
            slice_depth: if kernel.keeps_pace { pace } else { k },
            shared_tiles: 0,
            sharing_blocks: 0,
            workspace,
            maps: Maps::NONE,
            epilogue: Linear::<bf16>::identity(),
        };
        let launch = Launch {
            grid: [clusters * kernel.cluster, batch, 1],
            block: [kernel.threads(), 1, 1],
            dynamic_shared: kernel.shared_bytes,
        };
        let results = Results { d: d_map, ..Results::NONE };
        let matrices = Matrices { factors: Factors { wholes, rests }, results };
        let arguments: [*const c_void; 3] = [
            (&raw const params).cast(),
            (&raw const matrices).cast(),
            (&raw const mappings).cast(),
        ];
        // SAFETY: the arguments are of the types of the kernel's parameters.
        let counters = unsafe { simulator.launch(&kernel.entry, launch, &arguments)? };
        let mut bytes = vec![0; (u64::from(batch) * d_stride) as usize * size_of::<bf16>()];
        simulator.read(d.data.address(), &mut bytes).unwrap();
        let (stored, _) = bytes.as_chunks::<2>();
        for (at, &found) in stored.iter().enumerate() {
            let (product, at) = (at as u64 / d_stride, at as u64 % d_stride);
            let (row, col) = ((at / d.ld) as u32, (at % d.ld) as u32);
            let product = product as u32;
            let expected = if col < n {
                let products = (0..k).map(|p| a(product, row, p) * b(product, p, col));
                let sum: f32 = products.fold(0.0, |sum, product| sum + product);
                bf16::from_f32(sum)
            } else {
                CANARY
            };
            let place = format!("{}: {self:?}: product {product}, ({row}, {col})", kernel.name);
            assert_eq!(bf16::from_ne_bytes(found).to_bits(), expected.to_bits(), "{place}");
        }
        Ok(counters)
    }
}

/// Those in clusters of two.
fn pairs() -> impl Iterator<Item = &'static KernelInfo> {
    PAIRS.iter().filter(|kernel| kernel.cluster == 2)
}

/// Those in any clusters.
fn clusters() -> impl Iterator<Item = &'static KernelInfo> {
    pairs().chain(SQUARES)
}

#[test]
fn tiles_of_a_cluster_in_all_layouts() {
    for kernel in clusters() {
        let Tile { bm, bn, .. } = kernel.tile;
        let above = kernel.cluster / kernel.cluster_cols;
        Product::new(above * bm, kernel.cluster_cols * bn, 5 * 64).check(kernel);
    }
}

#[test]
fn tiles_that_lie_outside_of_d() {
    for kernel in clusters() {
        // One row of tiles, and three: the second block of a cluster has none of its own in the last.
        Product::new(100, 72, 70).check(kernel);
        let rows = 2 * kernel.tile.bm + 44;
        Product { clusters: 2, ..Product::new(rows, 129, 200) }.check(kernel);
        Product::new(1, 1, 1).check(kernel);
    }
}

#[test]
fn clusters_take_one_pair_of_tiles_after_another() {
    // 5 x 3 tiles, nine pairs or six squares, for two clusters: one may have more of them than the other.
    for kernel in clusters().filter(|kernel| kernel.layouts == Layouts::NN) {
        let rows = 5 * kernel.tile.bm - 7;
        Product { clusters: 2, ..Product::new(rows, 3 * 128 - 1, 4 * 64 + 3) }.check(kernel);
    }
}

#[test]
fn clusters_keep_pace() {
    // Slices of a piece that cut tiles evenly, unevenly and not at all; the simulator sees that words are left as they
    // were.
    for kernel in pairs().filter(|kernel| kernel.layouts == Layouts::NN) {
        let rows = 5 * kernel.tile.bm - 7;
        for pace in [1, 3, 4, 100] {
            let product = Product::new(rows, 3 * 128 - 1, 4 * 64 + 3);
            Product { clusters: 2, pace, ..product }.check(kernel);
        }
    }
}

#[test]
fn clusters_that_keep_pace_count_what_they_ask_for() {
    for kernel in pairs().filter(|kernel| kernel.layouts == Layouts::NN) {
        for words in [[1, 0], [0, 1]] {
            let product = Product { pace: 2, words, ..Product::new(200, 100, 300) };
            let Err(SimError::Fault(fault)) = product.run(kernel) else {
                panic!("{}", kernel.name)
            };
            assert_eq!(fault.kind, FaultKind::SignalNotZero { value: 1 }, "{}", kernel.name);
        }
        // Nobody looks where no pace is to be kept.
        Product { words: [1, 1], ..Product::new(200, 100, 300) }.check(kernel);
    }
}

#[test]
fn products_of_a_batch() {
    for kernel in clusters() {
        Product { batch: 3, clusters: 2, ..Product::new(200, 150, 130) }.check(kernel);
    }
}

#[test]
fn without_depth_there_is_nothing_to_bring() {
    for kernel in clusters() {
        let counters = Product { clusters: 2, ..Product::new(300, 100, 0) }.check(kernel);
        assert_eq!(counters.bulk_copies, 0);
    }
}

#[test]
fn what_both_blocks_need_is_fetched_once() {
    const SLICES: u32 = 4;
    for kernel in PAIRS {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        // Two tiles, of a cluster or of two blocks for themselves.
        let clusters = 2 / kernel.cluster;
        let product = Product { clusters, ..Product::new(2 * bm, bn, SLICES * bk) };
        let (rows_of_a, columns_of_b) = (2 * bm, clusters * bn);
        let of_factors = SLICES * (rows_of_a + columns_of_b) * bk;
        let elements = u64::from(of_factors + product.m * product.n);
        let counters = product.check(kernel);
        assert_eq!(counters.bulk_bytes, 2 * elements, "{}", kernel.name);
        let products = u64::from(product.m) * u64::from(product.n) * u64::from(product.k);
        assert_eq!(counters.tensor_fma, products, "{}", kernel.name);
    }
}

#[test]
fn squares_fetch_each_row_of_a_and_column_of_b_once() {
    const SLICES: u32 = 4;
    for kernel in SQUARES {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        let product = Product::new(2 * bm, 2 * bn, SLICES * bk);
        let of_factors = SLICES * (2 * bm + 2 * bn) * bk;
        let counters = product.check(kernel);
        let elements = u64::from(of_factors + product.m * product.n);
        assert_eq!(counters.bulk_bytes, 2 * elements, "{}", kernel.name);
    }
}

/// What [`Broken`] does wrong.
mod mistake {
    /// Nothing.
    pub const NOTHING: u32 = 0;
    /// Blocks begin when their own threads have come.
    pub const NO_START: u32 = 1;
    /// A stage is filled when its block's own readers have read it, and only they say so.
    pub const OWN_READERS: u32 = 2;
    /// The producer does not wait for a stage to be empty.
    pub const NO_WAIT: u32 = 3;
    /// It expects what it brings itself.
    pub const OWN_BYTES: u32 = 4;
    /// A block ends when it is done itself.
    pub const NO_END: u32 = 5;
    /// Who has read a stage says so to all blocks of the cluster, though one of two by two fills nothing of it.
    pub const TELLS_ALL: u32 = 6;
}

/// A tile of D for each block, as [`Warpgroup`] computes it, but for a mistake.
struct Broken<const MISTAKE: u32, const BESIDE: u32 = 1>;

type Right<const BESIDE: u32 = 1> = Warpgroup<bf16, 128, 128, 64, 3, Nn, 2, bf16, BESIDE>;
type PanelA = BulkPanel<bf16, KMajor, 128, 64>;
type PanelB = BulkPanel<bf16, MnMajor, 128, 64>;

const STAGES: u32 = <Right>::TILE.stages;
const STAGE_BYTES: u32 = PanelA::BYTES + PanelB::BYTES;
const CONSUMERS: u32 = 2 * THREADS;
const OUTBOXES: u32 = (STAGES * STAGE_BYTES).next_multiple_of(outbox::ALIGNMENT);
const RING: u32 = OUTBOXES + CONSUMERS / WARP * outbox::BYTES;

impl<const MISTAKE: u32, const BESIDE: u32> GemmKernel for Broken<MISTAKE, BESIDE> {
    type Element = bf16;
    type Target = bf16;
    const RUNG: Rung = Right::<BESIDE>::RUNG;
    const SUMMATION: Summation = Right::<BESIDE>::SUMMATION;
    const TILE: Tile = Right::<BESIDE>::TILE;
    const SCHEDULE: Schedule = Right::<BESIDE>::SCHEDULE;
    const PRODUCERS: u32 = Right::<BESIDE>::PRODUCERS;
    const CLUSTER: u32 = Right::<BESIDE>::CLUSTER;
    const CLUSTER_COLS: u32 = BESIDE;
    const NEEDS: Needs = Right::<BESIDE>::NEEDS;
    const BOXES: Option<Boxes> = Right::<BESIDE>::BOXES;
    const SHARED_BYTES: u32 = RING + Ring::<STAGES>::BYTES;

    unsafe fn run<E: Epilogue<bf16>>(p: GemmParams<bf16, E>) {
        let (thread, slices) = (thread::thread_idx_x(), p.k.div_ceil(Self::TILE.bk));
        let panels = |stage: u32| {
            let address = shared::dynamic::<u8>().address() + stage * STAGE_BYTES;
            (PanelA::at(address), PanelB::at(address + PanelA::BYTES))
        };
        unsafe {
            let mut sums = WarpgroupTile::<128>::declare();
            let cluster = Cluster::new(2, BESIDE);
            let shared_by = match MISTAKE {
                mistake::NO_START | mistake::OWN_READERS => Cluster::ALONE,
                mistake::TELLS_ALL => Cluster::new(Self::CLUSTER, 1),
                _ => cluster,
            };
            let mut ring = Ring::<STAGES>::for_bulk_copies(RING, CONSUMERS / WARP, shared_by);
            if MISTAKE == mistake::OWN_READERS {
                cluster::sync();
            }
            let tile = Parts::<2, BESIDE>::new::<Self, E>(&p).next();
            let Some(Part { origin: Origin { row, col }, .. }) = tile else { return };
            if thread >= CONSUMERS {
                let (a, b) = p.mapped_factors();
                for slice in 0..if thread == CONSUMERS { slices } else { 0 } {
                    let (to_a, to_b) = panels(match MISTAKE {
                        mistake::NO_WAIT => slice % STAGES,
                        _ => ring.wait_empty(),
                    });
                    let full = ring.expect(match MISTAKE {
                        mistake::OWN_BYTES => PanelA::BYTES + PanelB::BYTES / 2,
                        _ => STAGE_BYTES,
                    });
                    let k = slice * Self::TILE.bk;
                    let (a, b, rank) = (Inside::whole(a), Inside::whole(b), cluster::rank());
                    to_a.load_part::<BESIDE>(a, row, k, full, cluster.of_row(rank));
                    to_b.load_part::<2>(b, col, k, full, cluster.of_col(rank));
                }
                if thread == CONSUMERS && MISTAKE != mistake::NO_END {
                    ring.wait_all_read();
                }
                return;
            }
            let first = thread / THREADS * M as u32;
            for slice in 0..slices {
                let (a, b) = panels(ring.wait_full());
                sums.begin_products((a, first), b, slice == 0);
                if slice > 0 {
                    sums.wait::<1>();
                    ring.emptied();
                }
            }
            sums.wait::<0>();
            ring.emptied_last();
            let room = shared::dynamic::<u8>().add(OUTBOXES + thread / WARP * outbox::BYTES);
            let (mut outbox, origin) = (Outbox::new(room), Origin { row: row + first, col });
            let fetched = WarpgroupTile::<128>::fetch(&p, origin);
            sums.store(&p, origin, fetched, &mut outbox);
            outbox.finish();
        }
    }
}

gemm_kernels! {
    /// One for each mistake, in order.
    BROKEN:

    right_bf16 = Broken<{ mistake::NOTHING }>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    no_start_bf16 = Broken<{ mistake::NO_START }>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    own_readers_bf16 = Broken<{ mistake::OWN_READERS }>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    no_wait_bf16 = Broken<{ mistake::NO_WAIT }>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    own_bytes_bf16 = Broken<{ mistake::OWN_BYTES }>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    no_end_bf16 = Broken<{ mistake::NO_END }>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
}

gemm_kernels! {
    /// Two by two: without a mistake, and with one.
    BROKEN_SQUARES:

    right_square_bf16 = Broken<{ mistake::NOTHING }, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
    tells_all_bf16 = Broken<{ mistake::TELLS_ALL }, 2>, epilogue = Linear<bf16>, min_blocks = 1, factors = mapped;
}

/// Stages are used several times.
const DEEP: Product = Product::new(256, 128, (3 * STAGES - 1) * 64);

fn fault_of(mistake: u32) -> FaultKind {
    match DEEP.run(&BROKEN[mistake as usize]) {
        Err(SimError::Fault(fault)) => fault.kind,
        other => panic!("{mistake}: {other:?}"),
    }
}

#[test]
fn without_a_mistake_the_product_is_right() {
    DEEP.check(&BROKEN[mistake::NOTHING as usize]);
}

#[test]
fn blocks_that_do_not_wait_for_each_other() {
    assert_eq!(fault_of(mistake::NO_START), FaultKind::MbarrierUninitialised);
    assert_eq!(fault_of(mistake::NO_END), FaultKind::BlockEnded { block: [0; 3] });
}

#[test]
fn stages_that_the_other_block_still_reads() {
    // The other block is told of bytes of a phase before that is sure to be the one under way.
    assert_eq!(fault_of(mistake::OWN_READERS), FaultKind::MbarrierOverrun);
    assert_eq!(fault_of(mistake::NO_WAIT), FaultKind::MbarrierOverrun);
}

#[test]
fn readers_that_tell_a_block_which_fills_nothing_for_them() {
    let product = Product { n: 256, ..DEEP };
    let [right, tells_all] = BROKEN_SQUARES else { panic!("two") };
    product.check(right);
    let Err(SimError::Fault(fault)) = product.run(tells_all) else { panic!("no fault") };
    // A phase later they may tell it so again before it has heard of all.
    assert_eq!(fault.kind, FaultKind::MbarrierOverrun);
}

#[test]
fn bytes_of_the_other_block_that_nobody_expects() {
    // They come when the phase is over.
    assert_eq!(fault_of(mistake::OWN_BYTES), FaultKind::MbarrierOverrun);
}
