//! What each rung moves and does, worked out from its tile sizes.
//!
//! `D[m x n] = A[m x k] * B[k x n]`, packed row-major matrices that begin at a sector, `alpha = 1`, `beta = 0`, no bias
//! and no activation. In elements, where the shape consists of whole tiles:
//!
//! | | naive | tiled | microkernel and above |
//! |---|---|---|---|
//! | global loads | `2 m n k` | `m n k (1/T + 1/T)` | `m n k (1/BN + 1/BM)` |
//! | global stores | `m n` | `m n` | `m n` |
//! | shared loads | 0 | `2 m n k` | `m n k (TM + TN) / (TM TN)` |
//! | shared stores | 0 | as global loads | as global loads |
//! | barriers a block | 0 | `2 k / T` | `2 k/BK`; double_buffered `k/BK + 1`; pipelined, warp_tiled `k/BK`; decoupled 1 |
//! | multiply-adds | `m n k + m n` | `m n k + m n` | `m n k + m n` |
//!
//! tensor_core differs in shared memory: its warps own `8 TM x 4 TN` elements of D and read `8 TM + 4 TN` elements of A
//! and B for each k, `m n k (1/(8 TM) + 1/(4 TN))` in all. Its sums go there and back once on their way to D, behind
//! one barrier more than there are slices; of f64 ([`regemm_kernels::double::tensor_core`]) two more.
//!
//! *Global loads.* A block that owns `BM x BN` elements of D reads `BM` rows of A and `BN` columns of B once. There are
//! `n / BN` blocks along a row of D, so each element of A is read `n / BN` times, and each of B `m / BM` times. Without
//! shared memory a block is a single thread: `T = 1`. So tiles of `T x T` read each operand `T` times less, 16 times
//! for the tiles of 16 that textbooks begin with (D. Kirk, W. Hwu, "Programming Massively Parallel Processors", chapter
//! on memory and tiling).
//!
//! *Shared loads.* Without a thread tile each multiply-add takes an element of A and one of B. A thread that owns `TM x
//! TN` elements of D loads `TM + TN` elements for `TM * TN` multiply-adds: the outer product.
//!
//! *Fragments.* From warp_tiled on a thread loads for the next k while it multiplies, so it loads for one k more than
//! there are. decoupled stops after the round of 8 values of k that holds the last.
//!
//! *Layouts.* A transposed factor is loaded as often, but by other requests: those of the tiles lie along its columns,
//! and without tiles the lanes of a warp, which each have a column of B, read as many rows of what is stored.
//!
//! *Edges.* What lies outside the matrices is not loaded, but zeros are stored to shared memory and multiplied in its
//! place: `m`, `n` and `k` are rounded up to whole tiles in all that concerns shared memory. The epilogue scales each
//! sum with one multiply-add; those of a thread tile do so a vector at a time, and then the last vector of a row counts
//! whole.
//!
//! *Sectors.* A request that reads consecutive elements touches the sectors that they lie in ([`SECTOR_BYTES`]); one
//! that reads a single element for all lanes touches one. Rows whose length is not a multiple of a sector begin inside
//! of one, and then a request may touch one more.
//!
//! *Passes.* A request of 4 bytes a lane is served in one pass over the banks, one of 8 in two, one of 16 in four
//! ([`PASS_BYTES`]), so without conflicts there is a pass for each 128 bytes that lanes receive or store, broadcasts
//! included. Conflicts are where a slice of A is stored transposed: its columns become rows that lie `BM` elements and
//! 16 bytes apart, which moves them on by four banks each, so the ninth meets the first. A request that stores from `c`
//! columns, `w` apart, takes `c w / 8` times as many passes.
//!
//! The compiler is free to fetch neighbouring elements in one wider load, and hardware may serve lanes that read the
//! same wide vector together, so a GPU may do with fewer requests and passes than the kernel asks for. At 4096 on an
//! H200 `tiled32_f32`, which walks along a row of A, and `double_buffered64_f32` reach 104 % of what these passes
//! allow.

mod doubles;
mod outer_products;

use super::request::Request;
use super::{PASS_BYTES, SECTOR_BYTES, Traffic, WARP_LANES};
use crate::kernels::Problem;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{KernelInfo, Rung, Schedule, Tile};
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::slices::mover::VECTOR_BYTES;
use regemm_kernels::warp::panels::{CHUNK, PAIR, SQUARE};
use regemm_kernels::warp::sums_on_the_way::{LANES, QUAD};

/// The widest load or store.
const VECTOR: u64 = VECTOR_BYTES as u64;

/// What a kernel moves and does for a product, worked out. Of a batch it is one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formula {
    /// The numbers. Exact for every shape for the kernels of the table, but for [`approximate`](Self::approximate).
    pub traffic: Traffic,
    /// A quantity that the formula and the simulator count differently for this shape: the sectors of the stores of a
    /// thread tile where the rows of D are not whole sectors. Lanes whose vectors lie outside of D skip their stores;
    /// the formula counts as requests what lanes store in the same step, the simulator what each of them stores as its
    /// n-th.
    pub approximate: Option<&'static str>,
}

/// A quantity of which formula and simulator say different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its name, as in [`Traffic::fields`].
    pub quantity: &'static str,
    /// What the simulator has counted.
    pub counted: u64,
    /// What the formula gives.
    pub formula: u64,
    /// Whether the two must be equal, and one of them is wrong.
    pub exact: bool,
}

impl Formula {
    /// Whether there is a formula for a kernel: not for those among whose blocks K is split, which move more the more
    /// slices there are, and those are as many as fill a device.
    pub fn exists(kernel: &KernelInfo) -> bool {
        kernel.schedule == Schedule::Tiles && kernel.producers == 0
    }

    /// The formula of a kernel for a product. None where a number takes more than 64 bits, and where there
    /// [is none](Self::exists).
    pub fn new(kernel: &KernelInfo, problem: &Problem) -> Option<Formula> {
        if !Self::exists(kernel) {
            return None;
        }
        let launch = Launch::new(kernel, problem);
        if problem.m == 0 || problem.n == 0 {
            return Some(Formula { traffic: Traffic::default(), approximate: None });
        }
        let (sums, approximate) = match kernel.rung {
            Rung::Naive => (launch.naive(), None),
            Rung::Tiled => (launch.tiled(), None),
            // They depend on what blocks share, and on what their producers copy by hand.
            Rung::SplitK
            | Rung::Skinny
            | Rung::WarpSpecialised
            | Rung::SlicedK
            | Rung::StreamK
            | Rung::Warpgroup => return None,
            Rung::Microkernel
            | Rung::DoubleBuffered
            | Rung::Pipelined
            | Rung::WarpTiled
            | Rung::Decoupled
            | Rung::TensorCore => {
                let row_bytes = launch.n * launch.result_bytes;
                let whole_sectors = row_bytes.is_multiple_of(SECTOR_BYTES);
                let sums = match kernel.rung {
                    Rung::TensorCore if kernel.dtype == Dtype::F64 => launch.double_tensor_cores(),
                    Rung::TensorCore => launch.tensor_cores(),
                    _ => launch.outer_products(),
                };
                (sums, (!whole_sectors).then_some("global_store_sectors"))
            }
        };
        Some(Formula { traffic: sums.narrow()?, approximate })
    }

    /// Where what was counted differs.
    pub fn differences(&self, counted: &Traffic) -> Vec<Difference> {
        let pairs = self.traffic.fields().into_iter().zip(counted.fields());
        pairs
            .filter(|((_, formula), (_, counted))| formula != counted)
            .map(|((quantity, formula), (_, counted))| {
                let exact = self.approximate != Some(quantity);
                Difference { quantity, counted, formula, exact }
            })
            .collect()
    }
}

/// [`Traffic`] with room for any shape.
#[derive(Default)]
struct Sums {
    load_requests: u128,
    load_bytes: u128,
    load_sectors: u128,
    store_bytes: u128,
    store_sectors: u128,
    shared_load_bytes: u128,
    shared_store_bytes: u128,
    conflicts: u128,
    barriers: u128,
    fma: u128,
}

impl Sums {
    fn narrow(&self) -> Option<Traffic> {
        let free_passes =
            (self.shared_load_bytes + self.shared_store_bytes) / u128::from(PASS_BYTES);
        Some(Traffic {
            global_load_requests: self.load_requests.try_into().ok()?,
            global_load_bytes: self.load_bytes.try_into().ok()?,
            global_load_sectors: self.load_sectors.try_into().ok()?,
            global_store_bytes: self.store_bytes.try_into().ok()?,
            global_store_sectors: self.store_sectors.try_into().ok()?,
            shared_load_bytes: self.shared_load_bytes.try_into().ok()?,
            shared_store_bytes: self.shared_store_bytes.try_into().ok()?,
            shared_passes: (free_passes + self.conflicts).try_into().ok()?,
            bank_conflicts: self.conflicts.try_into().ok()?,
            block_barriers: self.barriers.try_into().ok()?,
            fma: self.fma.try_into().ok()?,
        })
    }

    /// Adds the loads of a matrix that the requests cover `times` times.
    fn load(&mut self, request: Request, (rows, cols): (u64, u64), bytes: u64, times: u64) {
        self.load_requests += request.count(rows, cols) * u128::from(times);
        self.load_sectors += request.sectors(rows, cols, bytes) * u128::from(times);
    }
}

/// A kernel on a problem.
struct Launch {
    rung: Rung,
    layouts: Layouts,
    tile: Tile,
    m: u64,
    n: u64,
    k: u64,
    /// Tiles of D along a column and along a row.
    blocks_m: u64,
    blocks_n: u64,
    /// Steps along k.
    slices: u64,
    threads: u64,
    element_bytes: u64,
    /// Bytes of an element of D.
    result_bytes: u64,
    /// Bytes of an element in shared memory, which is a sum's.
    sum_bytes: u64,
}

impl Launch {
    fn new(kernel: &KernelInfo, problem: &Problem) -> Self {
        let tile = kernel.tile;
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        Launch {
            rung: kernel.rung,
            layouts: kernel.layouts,
            tile,
            m,
            n,
            k,
            blocks_m: m.div_ceil(tile.bm.into()),
            blocks_n: n.div_ceil(tile.bn.into()),
            slices: k.div_ceil(tile.bk.into()),
            threads: tile.threads().into(),
            element_bytes: kernel.dtype.bytes() as u64,
            result_bytes: kernel.target.bytes() as u64,
            sum_bytes: match kernel.dtype {
                Dtype::F64 => 8,
                Dtype::F32 | Dtype::F16 | Dtype::Bf16 => 4,
            },
        }
    }

    fn elements_of_d(&self) -> u128 {
        u128::from(self.m) * u128::from(self.n)
    }

    /// Multiply-adds of the product itself.
    fn products(&self) -> u128 {
        self.elements_of_d() * u128::from(self.k)
    }

    fn blocks(&self) -> u128 {
        u128::from(self.blocks_m) * u128::from(self.blocks_n)
    }

    /// Slices of all blocks.
    fn block_slices(&self) -> u128 {
        self.blocks() * u128::from(self.slices)
    }

    /// A warp owns 32 columns of a row of D (or less of several rows, where blocks are narrower). For each k it reads
    /// one element of A, which all lanes share, and 32 of B.
    fn naive(&self) -> Sums {
        let cols = WARP_LANES.min(self.tile.bn.into());
        let rows = WARP_LANES / cols;
        let bytes = self.element_bytes;
        let mut sums = Sums {
            load_bytes: 2 * self.products() * u128::from(bytes),
            store_bytes: self.elements_of_d() * u128::from(self.result_bytes),
            store_sectors: Request::rectangle(rows, cols).sectors(
                self.m,
                self.n,
                self.result_bytes,
            ),
            fma: self.products() + self.elements_of_d(),
            ..Sums::default()
        };
        let mut load = |layout: Layout, request: (u64, u64), shape: (u64, u64), times| {
            let (rows, cols) = layout.stored(request.0, request.1);
            let shape = layout.stored(shape.0, shape.1);
            sums.load(Request::rectangle(rows, cols), shape, bytes, times);
        };
        let Layouts { a, b } = self.layouts;
        load(a, (rows, 1), (self.m, self.k), self.n.div_ceil(cols));
        load(b, (1, cols), (self.k, self.n), self.m.div_ceil(rows));
        sums
    }

    /// A warp loads 32 columns of a row of a tile as it is stored, or two rows of 16.
    fn tiled(&self) -> Sums {
        let cols = WARP_LANES.min(self.tile.bn.into());
        let request = Request::rectangle(WARP_LANES / cols, cols);
        let thread_slices = self.block_slices() * u128::from(self.threads);
        let multiplied = thread_slices * u128::from(self.tile.bk);
        let mut sums = Sums {
            store_sectors: request.sectors(self.m, self.n, self.result_bytes),
            shared_load_bytes: 2 * multiplied * u128::from(self.sum_bytes),
            shared_store_bytes: 2 * thread_slices * u128::from(self.sum_bytes),
            barriers: 2 * self.block_slices(),
            fma: multiplied + self.elements_of_d(),
            ..Sums::default()
        };
        self.load_by_blocks(&mut sums, request, request);
        sums
    }

    /// Every block loads its rows of A and its columns of B once, by requests for what is stored, and stores its tile
    /// of D.
    fn load_by_blocks(&self, sums: &mut Sums, of_a: Request, of_b: Request) {
        let Launch { m, n, k, element_bytes: bytes, .. } = *self;
        let elements_of_a = u128::from(m) * u128::from(k) * u128::from(self.blocks_n);
        let elements_of_b = u128::from(k) * u128::from(n) * u128::from(self.blocks_m);
        sums.load_bytes = (elements_of_a + elements_of_b) * u128::from(bytes);
        sums.store_bytes = self.elements_of_d() * u128::from(self.result_bytes);
        let Layouts { a, b } = self.layouts;
        sums.load(of_a, a.stored(m, k), bytes, self.blocks_n);
        sums.load(of_b, b.stored(k, n), bytes, self.blocks_m);
    }

    /// Slices lie in shared memory as they do in global memory, and fragments are read a square at a time, 16 bytes a
    /// lane. The sums take a way through shared memory to D, by 4 a lane ([`regemm_kernels::warp::tile`]).
    fn tensor_cores(&self) -> Sums {
        let Tile { bm, bn, bk, tm, tn, .. } = self.tile;
        let [bm, bn, bk, tm, tn] = [bm, bn, bk, tm, tn].map(u64::from);
        let chunk = CHUNK as u64;
        let block_threads = self.blocks() * u128::from(self.threads);
        let multiplied = self.slices * bk;
        // Squares that a warp reads, for one step more than there are.
        let (rows, cols) = (LANES.0 as u64 * tm, LANES.1 as u64 * tn);
        let squares = (rows + cols) / SQUARE as u64;
        let steps = multiplied / SQUARE as u64 + u64::from(self.k > 0);
        let sum_bytes = self.blocks() * u128::from(bm * bn * self.sum_bytes);
        let slice_bytes = self.block_slices() * u128::from(bk * (bm + bn) * self.element_bytes);
        let (quads, quad) = (cols / QUAD as u64, QUAD as u64);
        let piece = if self.n.is_multiple_of(quad) { quad } else { 1 };
        let store = Request::spread((WARP_LANES / quads, 1), (quads, quad), piece);
        let mut sums = Sums {
            store_sectors: store.sectors(self.m, self.n, self.result_bytes),
            shared_load_bytes: block_threads * u128::from(squares * steps * VECTOR) + sum_bytes,
            shared_store_bytes: slice_bytes + sum_bytes,
            barriers: self.block_slices() + self.blocks(),
            fma: block_threads * u128::from(multiplied * tm * tn)
                + u128::from(self.m) * u128::from(self.n.next_multiple_of(quad)),
            ..Sums::default()
        };
        let request = |layout: Layout, tile: (u64, u64), shape: (u64, u64)| {
            let chunks = layout.stored(tile.0, tile.1).1 / chunk;
            let (_, row) = layout.stored(shape.0, shape.1);
            let piece = [chunk, PAIR as u64].into_iter().find(|&piece| row.is_multiple_of(piece));
            // Pairs of 32 chunks lie in every fourth bank.
            let tile_bytes = tile.0 * tile.1 * self.element_bytes;
            let replays = if piece == Some(PAIR as u64) { chunk / PAIR as u64 - 1 } else { 0 };
            let conflicts = self.block_slices() * u128::from(tile_bytes / PASS_BYTES * replays);
            let piece = piece.unwrap_or(1);
            (Request::spread((WARP_LANES / chunks, 1), (chunks, chunk), piece), conflicts)
        };
        let Layouts { a, b } = self.layouts;
        let (of_a, conflicts_a) = request(a, (bm, bk), (self.m, self.k));
        let (of_b, conflicts_b) = request(b, (bk, bn), (self.k, self.n));
        sums.conflicts = conflicts_a + conflicts_b;
        self.load_by_blocks(&mut sums, of_a, of_b);
        sums
    }
}

#[cfg(test)]
#[path = "formula_tests.rs"]
mod tests;
