//! Products of f32 on tensor cores by halves, on the simulator: all layouts and edges, batches, shared tiles and
//! epilogues, and errors beside those of sums of f32. With every family of kernels for halves: those of warpgroups, and
//! those of warps.

use cuda_std::bulk_copy::TensorMap;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use half::f16;
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::maps::{BoxShape, Factors, Mappings, Maps, Matrices, Results, UNUSED};
use regemm_kernels::params::{GemmParams, MatrixRef, TargetRef, Workspace};
use regemm_kernels::prepare::decision::Decision;
use regemm_kernels::prepare::split::{self, HALVES, Split, SplitFactor};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::schedule::reduce;
use regemm_kernels::table::{self, SPLITTER};
use std::ffi::c_void;

/// The element `(row, col)` of a matrix, of which every number has its own.
type Values = fn(u32, u32, u32) -> f32;

/// The names of kernels without layouts and types.
const WARPGROUPS: &str = "halves";
/// With sums that are added up in two steps, and K split.
const IN_SLICES: &str = "split_halves";
const FAMILIES: [&str; 4] = [WARPGROUPS, "halves64", IN_SLICES, "warp_halves"];

/// Values of k in a slice where K is split, unless a product has others.
const SLICE: u32 = 64;

/// `D = A * B` of so many products, and the values of both factors: element `(row, col)` of product `p`.
#[derive(Clone, Copy)]
struct Product {
    family: &'static str,
    shape: (u32, u32, u32),
    batch: u32,
    /// Blocks of the launch, and how many of them share the first tiles.
    blocks: u32,
    shared: (u32, u32),
    /// Values of k in a slice.
    slice: u32,
    /// Elements behind each row of D.
    gap: u32,
    a: Values,
    b: Values,
}

fn product(m: u32, n: u32, k: u32) -> Product {
    let (a, b) = (|p, row, col| normal(2 * p + 1, row, col), |p, row, col| normal(2 * p, row, col));
    let family = WARPGROUPS;
    Product {
        family,
        shape: (m, n, k),
        batch: 1,
        blocks: 2,
        shared: (0, 0),
        slice: SLICE,
        gap: 0,
        a,
        b,
    }
}

/// The product by the kernels of each family.
fn by_all(product: Product) -> [Product; FAMILIES.len()] {
    FAMILIES.map(|family| Product { family, ..product })
}

/// What a launch left: D row by row, product by product, without what lies between its rows.
struct Outcome {
    d: Vec<f32>,
    counters: Counters,
}

fn hash(x: u32) -> u32 {
    let mut x = x.wrapping_add(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// In [0, 1).
fn uniform(seed: u32, row: u32, col: u32) -> f32 {
    (hash(hash(hash(seed) ^ row) ^ col) >> 8) as f32 / (1 << 24) as f32
}

/// Nearly normally distributed: the sum of twelve that are uniform has a variance of one.
fn normal(seed: u32, row: u32, col: u32) -> f32 {
    (0..12).map(|i| uniform(seed * 12 + i, row, col)).sum::<f32>() - 6.0
}

/// Magnitudes over 16 powers of two.
fn wide(seed: u32, row: u32, col: u32) -> f32 {
    normal(seed, row, col) * 2f32.powi((hash(hash(col) ^ row) % 16) as i32 - 8)
}

/// From -4 to 4.
fn integer(seed: u32, row: u32, col: u32) -> f32 {
    (uniform(seed, row, col) * 9.0).floor() - 4.0
}

fn write<T: Copy>(simulator: &Simulator, elements: &[T]) -> u64 {
    // SAFETY: elements are plain numbers without padding.
    let bytes = unsafe {
        std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
    };
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, bytes).unwrap();
    address
}

/// A factor in the simulator's memory: as it is stored, room for its halves and lines.
struct Factor {
    shape: (u32, u32),
    across: bool,
    stored: u64,
    halves: u64,
    lines: u64,
}

impl Factor {
    fn new(
        simulator: &Simulator,
        batch: u32,
        (layout, is_b): (Layout, bool),
        (rows, cols): (u32, u32),
        value: impl Fn(u32, u32, u32) -> f32,
    ) -> Factor {
        let shape = layout.stored(rows, cols);
        let mut elements = Vec::new();
        for p in 0..batch {
            for (row, col) in (0..shape.0).flat_map(|row| (0..shape.1).map(move |col| (row, col))) {
                let (row, col) = layout.stored(row, col);
                elements.push(value(p, row, col));
            }
        }
        // Rows of A and columns of B are lines.
        let across = is_b == (layout == Layout::RowMajor);
        let halves = u64::from(batch) * split::elements(shape.0, shape.1) * size_of::<f16>() as u64;
        let lines = u64::from(batch * split::lines(shape, across)) * size_of::<i16>() as u64;
        let stored = write(simulator, &elements);
        let alloc = |bytes: u64| simulator.alloc(bytes.max(1)).unwrap();
        Factor { shape, across, stored, halves: alloc(halves), lines: alloc(lines) }
    }

    fn part(&self, batch: u32) -> SplitFactor {
        let (rows, cols) = self.shape;
        let from = MatrixRef { data: GlobalPtr::from_address(self.stored), ld: cols.into() };
        let matrices = (batch, u64::from(rows) * u64::from(cols));
        let (to, lines) =
            (GlobalPtr::from_address(self.halves), GlobalPtr::from_address(self.lines));
        SplitFactor::new(from, self.shape, self.across, matrices, to, lines)
    }

    fn map(&self, simulator: &Simulator, batch: u32, boxes: BoxShape) -> TensorMap {
        let (rows, cols) = (u64::from(self.shape.0), u64::from(self.shape.1));
        let row_bytes = split::ld(self.shape.1) * size_of::<f16>() as u64;
        let shape = (u64::from(batch * HALVES), rows, cols);
        let (strides, box_shape) = ((rows * row_bytes, row_bytes), (boxes.rows, boxes.cols));
        let (element, address) = (ElementType::F16, self.halves);
        let tensor =
            TiledTensor::matrices(element, address, shape, strides, box_shape, boxes.swizzle);
        simulator.tensor_map(&tensor).unwrap()
    }

    /// What kernels know of it besides its map.
    fn lines(&self) -> (MatrixRef<f16>, u64) {
        let (halves, lines) =
            (GlobalPtr::from_address(self.halves), GlobalPtr::from_address(self.lines));
        (split::reference(halves, lines), split::lines(self.shape, self.across).into())
    }
}

/// The kernel of a family whose name is that of the family and, but for NN, that of the layouts.
fn kernel(family: &str, layouts: Layouts) -> &'static KernelInfo {
    let name = match layouts {
        Layouts::NN => format!("{family}_f32"),
        _ => format!("{family}_{layouts}_f32"),
    };
    table::HALVES.iter().find(|kernel| kernel.name == name).expect("there is one")
}

impl Product {
    fn run(&self, layouts: Layouts) -> Outcome {
        self.run_with(layouts, |_, identity| identity)
    }

    /// With an epilogue that is made of the identity.
    fn run_with(
        &self,
        layouts: Layouts,
        epilogue: impl Fn(&Simulator, Linear<f32>) -> Linear<f32>,
    ) -> Outcome {
        let Product { shape: (m, n, k), batch, blocks, shared, gap, slice, .. } = *self;
        let kernel = kernel(self.family, layouts);
        let simulator = Simulator::new();
        let a = Factor::new(&simulator, batch, (layouts.a, false), (m, k), self.a);
        let b = Factor::new(&simulator, batch, (layouts.b, true), (k, n), self.b);
        let run = |entry, grid, threads, dynamic_shared, arguments: &[_]| {
            let launch = Launch { grid, block: [threads, 1, 1], dynamic_shared };
            // SAFETY: the arguments are of the types of the kernel's parameters.
            let launched = unsafe { simulator.launch(entry, launch, arguments) };
            launched.unwrap_or_else(|error| panic!("{}: {:?}: {error}", kernel.name, self.shape))
        };
        if k > 0 {
            let split = Split::new(a.part(batch), b.part(batch));
            let arguments = [(&raw const split).cast::<c_void>()];
            run(&SPLITTER, [split.blocks(), 1, 1], split::THREADS, 0, &arguments);
        }
        let ld = n + gap;
        let d = write(&simulator, &vec![f32::NAN; (batch * m * ld) as usize]);
        let first = MatrixRef::<f32> { data: GlobalPtr::from_address(d), ld: ld.into() };
        let ((lines_a, a_stride), (lines_b, b_stride)) = (a.lines(), b.lines());
        let of_slices = Partials::new::<f16>(m, n, k, slice);
        let sums = match kernel.schedule {
            Schedule::SplitK => u64::from(batch) * of_slices.product(),
            _ => u64::from(blocks * kernel.tile.bm * kernel.tile.bn),
        };
        let finishes = kernel.finishes && of_slices.slices == 1;
        let signals = vec![0_u32; blocks as usize];
        let params = GemmParams {
            a: lines_a,
            b: lines_b,
            d: TargetRef { first, stride: u64::from(m) * u64::from(ld) },
            a_stride,
            b_stride,
            m,
            n,
            k,
            slice_depth: slice,
            shared_tiles: shared.0,
            sharing_blocks: shared.1,
            workspace: if finishes {
                Workspace::NONE
            } else {
                Workspace {
                    partials: GlobalPtr::from_address(write(
                        &simulator,
                        &vec![f32::NAN; sums as usize],
                    )),
                    signals: GlobalPtr::from_address(write(&simulator, &signals)),
                }
            },
            maps: Maps::NONE,
            epilogue: epilogue(&simulator, Linear::identity()),
        };
        let d_is_mapped = ld.is_multiple_of(4) && n.is_multiple_of(4);
        let boxes = kernel.boxes;
        let maps = boxes
            .filter(|_| k > 0)
            .map(|boxes| [a.map(&simulator, batch, boxes.a), b.map(&simulator, batch, boxes.b)]);
        let maps = maps.unwrap_or([UNUSED; 2]);
        let of_d_map = boxes.and_then(|boxes| boxes.d).filter(|_| d_is_mapped);
        let mappings = if of_d_map.is_some() { Mappings::NONE.with_d() } else { Mappings::NONE };
        let d_map = of_d_map.map_or(UNUSED, |boxes| {
            let d_tensor = TiledTensor::matrices(
                ElementType::F32,
                d,
                (batch.into(), m.into(), n.into()),
                (u64::from(m * ld) * 4, u64::from(ld) * 4),
                (boxes.rows, boxes.cols),
                boxes.swizzle,
            );
            simulator.tensor_map(&d_tensor).unwrap()
        });
        let factors = Factors { wholes: maps, rests: [UNUSED; 2] };
        let results = Results { d: d_map, ..Results::NONE };
        let matrices = Matrices { factors, results };
        let decision = Decision::NONE;
        let arguments = [
            (&raw const params).cast::<c_void>(),
            (&raw const matrices).cast(),
            (&raw const mappings).cast(),
            (&raw const decision).cast(),
        ];
        let (blocks, slices) = match kernel.schedule {
            Schedule::Persistent => (blocks, 1),
            Schedule::SplitK => (kernel.blocks(m, n) as u32, of_slices.slices),
            _ => (kernel.blocks(m, n) as u32, 1),
        };
        let taken = &arguments[..kernel.entry.parameters.len()];
        let mut counters = Counters::default();
        if slices > 0 {
            let (grid, threads) = ([blocks, batch, slices], kernel.threads());
            counters = run(&kernel.entry, grid, threads, kernel.shared_bytes, taken);
        }
        if let Some(reducer) = kernel.reducer.as_ref().filter(|_| !finishes) {
            let grid = [reduce::blocks::<f32>(m, n) as u32, batch, 1];
            run(&reducer.entry, grid, reduce::THREADS, 0, &[arguments[0], arguments[3]]);
        }

        let mut bytes = vec![0; (batch * m * ld) as usize * size_of::<f32>()];
        simulator.read(d, &mut bytes).unwrap();
        let stored = bytes.as_chunks().0.iter().map(|&bytes| f32::from_ne_bytes(bytes));
        let (inside, outside): (Vec<_>, Vec<_>) =
            stored.enumerate().partition(|&(at, _)| at as u32 % ld < n);
        assert!(outside.iter().all(|(_, x)| x.is_nan()), "what lies between rows is left alone");
        Outcome { d: inside.into_iter().map(|(_, x)| x).collect(), counters }
    }

    /// Panics unless each element is within `bound` times the sum of the products' magnitudes, and more than that where
    /// `k` is small beside it.
    fn check(&self, layouts: Layouts) -> Counters {
        let outcome = self.run(layouts);
        let (exact, magnitudes) = self.exact();
        for (i, &found) in outcome.d.iter().enumerate() {
            let (expected, bound) = (exact[i], magnitudes[i] * BOUND);
            let error = (f64::from(found) - expected).abs();
            let Product { family, shape, .. } = self;
            assert!(error <= bound, "{family} {layouts}, {shape:?}: {i}: {found}, not {expected}");
        }
        outcome.counters
    }

    /// The sums in double precision, and those of magnitudes.
    fn exact(&self) -> (Vec<f64>, Vec<f64>) {
        let (m, n, k) = self.shape;
        let mut sums = (Vec::new(), Vec::new());
        for p in 0..self.batch {
            let b: Vec<f64> = (0..k * n).map(|i| f64::from((self.b)(p, i / n, i % n))).collect();
            for row in 0..m {
                let mut of_row = vec![(0.0, 0.0); n as usize];
                for depth in 0..k {
                    let a = f64::from((self.a)(p, row, depth));
                    for (col, (sum, magnitude)) in of_row.iter_mut().enumerate() {
                        let product = a * b[(depth * n) as usize + col];
                        (*sum, *magnitude) = (*sum + product, *magnitude + product.abs());
                    }
                }
                sums.0.extend(of_row.iter().map(|(sum, _)| sum));
                sums.1.extend(of_row.iter().map(|(_, magnitude)| magnitude));
            }
        }
        sums
    }

    /// The product as sums of f32 in ascending order of k, of factors that are rounded so.
    fn in_f32(&self, rounded: fn(f32) -> f32) -> Vec<f32> {
        let (m, n, k) = self.shape;
        let b: Vec<f32> = (0..k * n).map(|i| rounded((self.b)(0, i / n, i % n))).collect();
        let mut d = Vec::new();
        for row in 0..m {
            let mut sums = vec![0.0_f32; n as usize];
            for depth in 0..k {
                let a = rounded((self.a)(0, row, depth));
                for (sum, b) in sums.iter_mut().zip(&b[(depth * n) as usize..]) {
                    *sum = (f64::from(a) * f64::from(*b) + f64::from(*sum)) as f32;
                }
            }
            d.append(&mut sums);
        }
        d
    }

    /// The product as sums of f32 of so many values of k each, added up in order.
    fn in_f32_by_parts(&self, depth: u32) -> Vec<f32> {
        let (m, n, k) = self.shape;
        let mut d = Vec::new();
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let product = |k| f64::from((self.a)(0, row, k)) * f64::from((self.b)(0, k, col));
            let part = |first| {
                (first..k.min(first + depth))
                    .fold(0.0_f32, |sum, k| (product(k) + f64::from(sum)) as f32)
            };
            d.push((0..k).step_by(depth as usize).map(part).sum());
        }
        d
    }

    /// Error in norm, and the largest one relative to the sum of the products' magnitudes.
    fn errors(&self, d: &[f32]) -> (f64, f64) {
        let (exact, magnitudes) = self.exact();
        let errors: Vec<f64> =
            d.iter().zip(&exact).map(|(&d, exact)| f64::from(d) - exact).collect();
        let norm = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let of_magnitudes = errors.iter().zip(&magnitudes).map(|(error, of)| error.abs() / of);
        (norm(&errors) / norm(&exact), of_magnitudes.fold(0.0, f64::max))
    }
}

/// 22 bits of both factors, and as much again for what is left out and cut off.
const BOUND: f64 = 1.0 / (1 << 20) as f64;

#[test]
fn all_layouts_and_edges() {
    for layouts in Layouts::ALL {
        for (m, n, k) in [(1, 1, 1), (130, 72, 70), (65, 129, 200), (128, 128, 64), (200, 33, 31)] {
            for product in by_all(product(m, n, k)) {
                product.check(layouts);
            }
        }
    }
}

#[test]
fn integers_are_exact() {
    let integers =
        Product { a: integer, b: |p, row, col| integer(p + 1, row, col), ..product(140, 131, 150) };
    let exact: Vec<f32> = integers.exact().0.iter().map(|&sum| sum as f32).collect();
    for layouts in Layouts::ALL {
        for integers in by_all(integers) {
            assert!(integers.run(layouts).d == exact, "{}, {layouts}", integers.family);
        }
    }
}

#[test]
fn without_depth_there_is_nothing_but_zeros() {
    for product in by_all(product(130, 64, 0)) {
        assert!(product.run(Layouts::NN).d.iter().all(|&d| d == 0.0));
    }
}

#[test]
fn products_of_a_batch_have_factors_of_their_own() {
    for product in by_all(product(67, 65, 100)) {
        Product { batch: 3, ..product }.check(Layouts::NN);
        Product { batch: 2, shape: (64, 40, 64), ..product }.check(Layouts::TT);
    }
}

/// Rows at odd places, for which there is no map of D.
#[test]
fn rows_that_bulk_copies_cannot_store() {
    for product in by_all(product(70, 65, 64)) {
        Product { gap: 3, ..product }.check(Layouts::NT);
        Product { gap: 1, shape: (70, 64, 64), ..product }.check(Layouts::NN);
    }
}

/// More blocks than tiles: all but the last leave sums of their own values of k.
#[test]
fn tiles_that_blocks_share() {
    for (blocks, shared) in [(2, (1, 2)), (3, (1, 3)), (5, (2, 5))] {
        let n = 128 * shared.0;
        let shared = Product { blocks, shared, ..product(100, n - 20, 450) };
        shared.check(Layouts::NN);
    }
}

#[test]
fn the_epilogue_does_not_know() {
    let plain = Product { a: integer, b: integer, ..product(70, 72, 130) };
    let sums = plain.exact().0;
    for plain in by_all(plain) {
        let with_bias = plain.run_with(Layouts::TN, |simulator, identity| Linear {
            alpha: 0.5,
            bias: GlobalPtr::from_address(write(
                simulator,
                &(0..72).map(|i| i as f32).collect::<Vec<_>>(),
            )),
            bias_axis: BiasAxis::Column,
            activation: Activation::Relu,
            ..identity
        });
        for (i, &found) in with_bias.d.iter().enumerate() {
            assert_eq!(found, (0.5 * sums[i] as f32 + (i % 72) as f32).max(0.0));
        }
    }
}

/// From magnitudes of 1e30 and 1e-30, alone and mixed: what is an f32 in the end is as accurate as otherwise.
#[test]
fn large_and_tiny_magnitudes() {
    let scaled: [(Values, Values); 4] = [
        (|p, row, col| 1e30 * normal(p, row, col), |p, row, col| 1e-30 * normal(p + 1, row, col)),
        (|p, row, col| 1e-30 * normal(p, row, col), |p, row, col| 1e30 * normal(p + 1, row, col)),
        (|p, row, col| 1e-15 * normal(p, row, col), |p, row, col| 1e-15 * normal(p + 1, row, col)),
        (
            |p, row, col| normal(p, row, col) * if row % 2 == 0 { 1e30 } else { 1e-30 },
            |p, row, col| normal(p + 1, row, col) * if col % 2 == 0 { 1e-30 } else { 1.0 },
        ),
    ];
    for (a, b) in scaled {
        let scaled = Product { a, b, ..product(66, 68, 100) };
        let (exact, magnitudes) = scaled.exact();
        for scaled in by_all(scaled) {
            let outcome = scaled.run(Layouts::NN);
            for (i, &found) in outcome.d.iter().enumerate() {
                let error = (f64::from(found) - exact[i]).abs();
                // Subnormal numbers have fewer bits.
                let bound = magnitudes[i] * BOUND + f64::from(f32::from_bits(1));
                assert!(error <= bound, "{}: {i}: {found:e}, not {:e}", scaled.family, exact[i]);
            }
        }
    }
    for huge in by_all(Product { a: |_, _, _| 1e30, b: |_, _, _| 1e30, ..product(3, 3, 5) }) {
        assert!(huge.run(Layouts::NN).d.iter().all(|&d| d == f32::INFINITY));
    }
}

/// TF32 keeps 11 bits.
fn tf32(x: f32) -> f32 {
    const DROPPED: u32 = f32::MANTISSA_DIGITS - 11;
    let half = 1 << (DROPPED - 1);
    f32::from_bits((x.to_bits() + half) & !((1 << DROPPED) - 1))
}

/// In norm and element by element, for values of all kinds and depths; where tensor cores round factors to TF32 that is
/// not so.
#[test]
fn errors_are_no_larger_than_those_of_f32() {
    let kinds: [(&str, Values); 3] = [("normal", normal), ("uniform", uniform), ("wide", wide)];
    for (name, values) in kinds {
        for k in [64, 512, 1024] {
            let product = Product { a: values, b: values, ..product(64, 96, k) };
            let f32 = product.errors(&product.in_f32(|x| x));
            for by in by_all(product) {
                let found = product.errors(&by.run(Layouts::NN).d);
                let is_less = found.0 <= f32.0 && found.1 <= f32.1;
                assert!(is_less, "{}, {name}, {k}: {found:?}, f32 {f32:?}", by.family);
            }
            let tf32 = product.errors(&product.in_f32(tf32));
            assert!(tf32.0 > 8.0 * f32.0 && tf32.1 > 8.0 * f32.1, "{name}, {k}: {tf32:?}");
        }
    }
}

/// As sums of f32 in parts of 64 that are added up in the end, with K split and without. Those that take over every 32
/// of k, or add to one sum every 16, are twice as far off.
#[test]
fn errors_of_sums_in_two_steps_do_not_grow_with_the_depth() {
    let product = Product { a: uniform, b: uniform, family: IN_SLICES, ..product(48, 64, 512) };
    let in_parts = product.errors(&product.in_f32_by_parts(64));
    for slice in [SLICE, 512] {
        let found = product.errors(&Product { slice, ..product }.run(Layouts::NN).d);
        assert!(found.0 <= 1.2 * in_parts.0, "{slice}: {found:?}, f32 in parts {in_parts:?}");
        assert!(found.1 <= 1.2 * in_parts.1, "{slice}: {found:?}, f32 in parts {in_parts:?}");
    }
}

/// Those of its values of k that begin with the `FIRST`.
fn slice_of_a<const FIRST: u32>(_: u32, row: u32, k: u32) -> f32 {
    uniform(1, row, FIRST + k)
}

fn slice_of_b<const FIRST: u32>(_: u32, k: u32, col: u32) -> f32 {
    uniform(2, FIRST + k, col)
}

/// Each slice is what a block that finishes makes of it, and they are added up in order, the last one shorter than the
/// others.
#[test]
fn slices_are_products_of_their_own() {
    let slice = |a: Values, b: Values, k| {
        let product = Product { family: IN_SLICES, a, b, ..product(20, 30, k) };
        product.run(Layouts::NT).d
    };
    let whole = slice(slice_of_a::<0>, slice_of_b::<0>, 2 * SLICE + 40);
    let first = slice(slice_of_a::<0>, slice_of_b::<0>, SLICE);
    let second = slice(slice_of_a::<SLICE>, slice_of_b::<SLICE>, SLICE);
    let third = slice(slice_of_a::<{ 2 * SLICE }>, slice_of_b::<{ 2 * SLICE }>, 40);
    for (i, &found) in whole.iter().enumerate() {
        assert_eq!(found.to_bits(), ((first[i] + second[i]) + third[i]).to_bits(), "{i}");
    }
}

/// Both slices lie beyond the largest f32, though all of the sum is zero.
#[test]
fn slices_beyond_f32_are_infinite() {
    let b: Values = |_, k, _| if k < SLICE { 1e19 } else { -1e19 };
    let product = Product { a: |_, _, _| 1e19, b, ..product(2, 3, 2 * SLICE) };
    let run = |slice| Product { family: IN_SLICES, slice, ..product }.run(Layouts::NN).d;
    assert!(run(2 * SLICE).iter().all(|&d| d == 0.0));
    assert!(run(SLICE).iter().all(|d| d.is_nan()));
}

/// Three products on tensor cores, whose operands lie in shared memory without conflicts of banks, and as bulk copies
/// bring them.
#[test]
fn work_is_three_products() {
    for product in by_all(product(128, 128, 128)) {
        let counters = product.check(Layouts::NN);
        assert_eq!(counters.tensor_fma, 3 * 128 * 128 * 128);
        let conflicts = (counters.shared_load_conflicts, counters.shared_store_conflicts);
        assert_eq!(conflicts, (0, 0));
    }
}
