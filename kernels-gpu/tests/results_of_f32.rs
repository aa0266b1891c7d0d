//! Products of f16 and bf16 whose results are f32: nothing is rounded on the way to D, nor what the epilogue reads;
//! wherever the edges of D lie, and whether bulk copies can store it or not.

use cuda_std::bulk_copy::TensorMap;
use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use half::{bf16, f16};
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::fast_activation::SHORT_GELU_TANH_ULPS;
use regemm_kernels::epilogue::math::Elementary;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::gemm_kernels;
use regemm_kernels::kernel::{KernelInfo, Schedule, Tile};
use regemm_kernels::layout::{Layout, Nn, Nt, Tn, Tt};
use regemm_kernels::maps::{BoxShape, Factors, Mappings, Matrices, Results, UNUSED};
use regemm_kernels::params::{GemmParams, MatrixRef, Workspace};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::schedule::reduce;
use regemm_kernels::table::{KERNELS, reduce_f32};
use regemm_kernels::warpgroup::Warpgroup;
use regemm_kernels::warpgroup::cluster_split::ClusterSplit;
use regemm_kernels::warpgroup::split::SplitWarpgroup;
use std::ffi::c_void;

gemm_kernels! {
    /// Tiles of which the library has none with such results, or none at all: two pieces of 64 rows for each warpgroup,
    /// and 192 columns.
    OTHERS:

    tall_bf16_f32 = Warpgroup<bf16, 256, 128, 64, 3, Nn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    tall_tt_f16_f32 = Warpgroup<f16, 256, 128, 64, 3, Tt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    columns192_nt_bf16_f32 = Warpgroup<bf16, 128, 192, 64, 3, Nt, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    columns192_tn_f16_f32 = Warpgroup<f16, 128, 192, 64, 3, Tn, 1, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    split_tall_tn_bf16_f32 = SplitWarpgroup<bf16, 256, 128, 64, 3, Tn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped;
    split192_f16_f32 = SplitWarpgroup<f16, 128, 192, 64, 3, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, reducer = reduce_f32, factors = mapped;
    cluster_tall_nt_f16_f32 = ClusterSplit<f16, 256, 128, 64, 3, Nt, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
    cluster192_bf16_f32 = ClusterSplit<bf16, 128, 192, 64, 3, Nn, f32>, epilogue = Linear<f32>, min_blocks = 1, factors = mapped;
}

/// What rows of factors are padded to: 16 bytes, as bulk copies need.
const CHUNK: u32 = 8;

/// `D = activation(alpha * A * B + beta * C + bias)`.
#[derive(Clone, Copy, Debug)]
struct Product {
    m: u32,
    n: u32,
    k: u32,
    /// Elements behind each row of C and D.
    gap: u32,
    beta: f32,
    bias: BiasAxis,
    activation: Activation,
}

const PLAIN: Product = Product {
    m: 130,
    n: 72,
    k: 70,
    gap: 0,
    beta: 0.0,
    bias: BiasAxis::None,
    activation: Activation::None,
};

const ALPHA: f32 = 0.125;

/// Integers, of which no sum is rounded in f32, but most are in half precision.
fn a(row: u32, p: u32) -> f32 {
    ((row * 7 + p * 3) % 11) as f32 - 3.0
}

fn b(p: u32, col: u32) -> f32 {
    ((p * 5 + col * 13) % 9) as f32 - 3.0
}

/// Values of 20 bits.
fn c(row: u32, col: u32) -> f32 {
    1.0 + (row * 331 + col * 17) as f32 / (1 << 19) as f32
}

fn bias(i: u32) -> f32 {
    2.0 - i as f32 / (1 << 19) as f32
}

/// A matrix in the simulator's memory, with NaN between its rows.
fn upload<T: Element<Acc = f32>>(
    simulator: &Simulator,
    (rows, cols): (u32, u32),
    ld: u32,
    value: impl Fn(u32, u32) -> T,
) -> MatrixRef<T> {
    let canary = T::narrow(f32::NAN);
    let of_row = |row| (0..ld).map(move |col| (row, col));
    let elements: Vec<T> = (0..rows)
        .flat_map(of_row)
        .map(|(row, col)| if col < cols { value(row, col) } else { canary })
        .collect();
    // SAFETY: elements are plain numbers without padding.
    let bytes = unsafe {
        std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(&elements[..]))
    };
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, bytes).unwrap();
    MatrixRef { data: GlobalPtr::from_address(address), ld: ld.into() }
}

fn map<T: Element>(
    simulator: &Simulator,
    matrix: MatrixRef<T>,
    (rows, cols): (u32, u32),
    boxes: BoxShape,
) -> TensorMap {
    let element = match T::DTYPE {
        Dtype::F16 => ElementType::F16,
        Dtype::Bf16 => ElementType::Bf16,
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
    };
    let shape = (1, rows.max(1).into(), cols.max(1).into());
    let strides = (0, size_of::<T>() as u64 * matrix.ld);
    let address = matrix.data.address();
    let box_shape = (boxes.rows, boxes.cols);
    let tensor = TiledTensor::matrices(element, address, shape, strides, box_shape, boxes.swizzle);
    simulator.tensor_map(&tensor).unwrap()
}

impl Product {
    /// Runs a kernel of the table, in slices of this depth where it takes slices, and checks all of D and what lies
    /// between its rows.
    fn check(&self, name: &str, slice_depth: u32) -> Counters {
        let mut kernels = KERNELS.iter().chain(OTHERS);
        let kernel = kernels.find(|kernel| kernel.name == name).expect("it is in a table");
        assert_eq!(kernel.target, Dtype::F32, "{name}");
        match kernel.dtype {
            Dtype::F16 => self.check_for::<f16>(kernel, slice_depth),
            Dtype::Bf16 => self.check_for::<bf16>(kernel, slice_depth),
            _ => panic!("{name} has factors in half precision"),
        }
    }

    fn check_for<T: Element<Acc = f32>>(&self, kernel: &KernelInfo, slice_depth: u32) -> Counters {
        let Product { m, n, k, gap, .. } = *self;
        let simulator = Simulator::new();
        let factor = |layout: Layout, rows, cols, value: &dyn Fn(u32, u32) -> f32| {
            let stored = layout.stored(rows, cols);
            let element = |stored_row, stored_col| {
                let (row, col) = layout.stored(stored_row, stored_col);
                T::narrow(value(row, col))
            };
            (upload(&simulator, stored, stored.1.max(1).next_multiple_of(CHUNK), element), stored)
        };
        let (a_matrix, a_stored) = factor(kernel.layouts.a, m, k, &a);
        let (b_matrix, b_stored) = factor(kernel.layouts.b, k, n, &b);
        let ld = n + gap;
        let d = upload(&simulator, (m, n), ld, |_, _| f32::NAN);
        let of_c = upload(&simulator, (m, n), ld, c);
        let bias_len = if self.bias == BiasAxis::Row { m } else { n };
        let epilogue = Linear::<f32> {
            c: of_c,
            bias: upload(&simulator, (1, bias_len), bias_len, |_, i| bias(i)).data,
            alpha: ALPHA,
            beta: self.beta,
            bias_axis: self.bias,
            activation: self.activation,
            ..Linear::identity()
        };
        let partials = Partials::new::<T>(m, n, k, slice_depth);
        let sums = simulator.alloc(partials.product() * size_of::<f32>() as u64).unwrap();
        let workspace = Workspace { partials: GlobalPtr::from_address(sums), ..Workspace::NONE };
        let params = GemmParams {
            slice_depth,
            workspace,
            ..GemmParams::single([a_matrix, b_matrix], d, (m, n, k), epilogue)
        };
        // Bulk stores write whole pieces of 16 bytes.
        let d_is_mapped = ld.is_multiple_of(4) && n.is_multiple_of(4);
        let (mut results, mut mappings) = (Results::NONE, Mappings::NONE);
        let box_of_d = kernel.boxes.and_then(|boxes| boxes.d);
        if let Some(of_d) = box_of_d.filter(|_| d_is_mapped) {
            (results.d, mappings) = (map(&simulator, d, (m, n), of_d), mappings.with_d());
        }
        let box_of_c = kernel.boxes.and_then(|boxes| boxes.c);
        let brings_c = self.beta != 0.0 && k > 0 && ld.is_multiple_of(4);
        if let Some(boxes) = box_of_c.filter(|_| brings_c) {
            (results.c, mappings) = (map(&simulator, of_c, (m, n), boxes), mappings.with_c(true));
        }
        let maps = kernel.boxes.map(|boxes| {
            let of_maps = boxes.of_maps(kernel, kernel.width(), (m, n));
            of_maps.map(|[of_a, of_b]| {
                let a = of_a.map(|of| map(&simulator, a_matrix, a_stored, of));
                let b = of_b.map(|of| map(&simulator, b_matrix, b_stored, of));
                [a, b].map(|map| map.unwrap_or(UNUSED))
            })
        });
        let mut arguments: Vec<*const c_void> = vec![(&raw const params).cast()];
        let factors = maps.map(|[wholes, rests]| Factors { wholes, rests });
        let matrices = factors.map(|factors| Matrices { factors, results });
        if let Some(matrices) = &matrices {
            arguments.extend([(&raw const *matrices).cast(), (&raw const mappings).cast()]);
        }
        let run = |entry: &KernelEntry, grid, threads, dynamic_shared, arguments: &[_]| {
            let launch = Launch { grid, block: [threads, 1, 1], dynamic_shared };
            // SAFETY: the arguments are of the types of the kernel's parameters, or of the same layout.
            let launched = unsafe { simulator.launch(entry, launch, arguments) };
            launched.unwrap_or_else(|error| panic!("{}: {self:?}: {error}", kernel.name))
        };
        let tiles = kernel.blocks(m, n) as u32;
        let grid = match kernel.schedule {
            Schedule::Tiles | Schedule::ClusterK => [tiles, 1, 1],
            Schedule::Persistent => [tiles.min(2), 1, 1],
            Schedule::SplitK => [tiles, 1, partials.slices],
            Schedule::StreamK => panic!("there is none for half precision"),
        };
        let counters = run(&kernel.entry, grid, kernel.threads(), kernel.shared_bytes, &arguments);
        if let Some(reducer) = &kernel.reducer {
            assert_eq!(reducer.dtype, Dtype::F32, "{}", kernel.name);
            let grid = [reduce::blocks::<f32>(m, n) as u32, 1, 1];
            run(&reducer.entry, grid, reduce::THREADS, 0, &arguments[..1]);
        }

        let mut bytes = vec![0; (m * ld) as usize * size_of::<f32>()];
        simulator.read(d.data.address(), &mut bytes).unwrap();
        let (stored, _) = bytes.as_chunks::<4>();
        for (at, &found) in stored.iter().enumerate() {
            let (row, col) = (at as u32 / ld, at as u32 % ld);
            let expected = if col < n { self.expected(row, col) } else { f32::NAN };
            let found = f32::from_ne_bytes(found);
            let place = format!("{}: {self:?}: ({row}, {col})", kernel.name);
            let tolerance = self.tolerance();
            let is_close =
                tolerance > 0.0 && (found - expected).abs() <= tolerance * expected.abs();
            let is_right = found.to_bits() == expected.to_bits() || is_close;
            assert!(is_right, "{place}: {found} is not {expected}");
        }
        counters
    }

    /// How far off an element of D may be, relative to itself: not at all, but where GELU by tanh is the short form of
    /// it, or may be. As both bounds say, which are multiplied by at most 128 where results are nearly zero.
    fn tolerance(&self) -> f32 {
        if self.activation == Activation::GeluTanh {
            let ulps = <f32 as Elementary>::GELU_TANH_ULPS + SHORT_GELU_TANH_ULPS;
            128.0 * ulps as f32 * f32::EPSILON
        } else {
            0.0
        }
    }

    /// An element of D: the sum is exact, and what follows is rounded as the epilogue says.
    fn expected(&self, row: u32, col: u32) -> f32 {
        let sum: f32 = (0..self.k).fold(0.0, |sum, p| sum + a(row, p) * b(p, col));
        let bias = match self.bias {
            BiasAxis::None => 0.0,
            BiasAxis::Column => bias(col),
            BiasAxis::Row => bias(row),
        };
        let addend = if self.beta == 0.0 { bias } else { self.beta.mul_add(c(row, col), bias) };
        let value = ALPHA.mul_add(sum, addend);
        self.activation.apply(value, Linear::<f32>::identity().slope)
    }
}

/// One kernel of each kind, and both element types.
const DIRECT: [&str; 4] = [
    "warpgroup_bf16_f32",
    "warpgroup64_tn_f16_f32",
    "tensor_core_f16_f32",
    "tensor_core64_nt_bf16_f32",
];
const IN_SLICES: [&str; 2] = ["split_warpgroup64_bf16_f32", "split_warpgroup128_tt_f16_f32"];

/// Epilogues of all kinds.
fn epilogues(product: Product) -> [Product; 4] {
    [
        product,
        Product { beta: 0.5, ..product },
        Product { bias: BiasAxis::Row, activation: Activation::GeluErf, ..product },
        Product { beta: -2.0, bias: BiasAxis::Column, activation: Activation::Relu, ..product },
    ]
}

#[test]
fn sums_and_operands_of_the_epilogue_keep_all_their_bits() {
    let with_c = Product { beta: 0.5, ..PLAIN };
    let row = (0..PLAIN.n).map(|col| with_c.expected(100, col));
    let rounded = row.filter(|&value| f16::from_f32(value).to_f32() != value).count();
    assert!(rounded > PLAIN.n as usize / 2, "half precision would show");
    for name in DIRECT.into_iter().chain(["naive_tt_f16_f32"]) {
        for product in epilogues(PLAIN) {
            product.check(name, product.k);
        }
    }
}

#[test]
fn rows_that_bulk_copies_cannot_store() {
    for name in DIRECT {
        for product in epilogues(Product { m: 67, n: 65, k: 33, ..PLAIN }) {
            product.check(name, product.k);
        }
        // Pairs are aligned, but pieces of 16 bytes are not; then pairs are not either.
        Product { n: 66, beta: 1.0, ..PLAIN }.check(name, PLAIN.k);
        Product { gap: 3, beta: 1.0, ..PLAIN }.check(name, PLAIN.k);
        Product { m: 1, n: 1, k: 1, bias: BiasAxis::Column, ..PLAIN }.check(name, 1);
    }
}

#[test]
fn all_columns_of_wide_tiles_and_several_tiles() {
    let wide = Product { m: 200, n: 520, k: 64, ..PLAIN };
    for product in epilogues(wide) {
        product.check("warpgroup_nt_bf16_f32", wide.k);
        product.check("warpgroup64_f16_f32", wide.k);
    }
}

/// Of as many sums as in two halves one copy of the code is for both, and parts of D leave in each; of fewer there is
/// code for all.
#[test]
fn gelu_by_tanh_of_wide_high_and_narrow_tiles() {
    let of = |m, n| Product {
        bias: BiasAxis::Column,
        activation: Activation::GeluTanh,
        ..Product { m, n, k: 70, ..PLAIN }
    };
    for name in ["warpgroup_nt_bf16_f32", "warpgroup128_f16_f32", "warpgroup64_tn_f16_f32"] {
        of(200, 520).check(name, 64);
        // A D that is not mapped, and parts that are cut.
        of(67, 65).check(name, 64);
    }
    for name in ["tall_bf16_f32", "columns192_nt_bf16_f32"] {
        of(300, 260).check(name, 64);
    }
}

#[test]
fn high_tiles_and_those_of_192_columns() {
    for kernel in OTHERS {
        let Tile { bm, bn, bk, .. } = kernel.tile;
        // Two tiles in either direction, the last ones cut; in the middle of a piece of 64 rows, at its first row, and
        // not at all.
        for (m, n) in [(bm + bm / 2 + 7, bn + 68), (bm + bm / 2 + 1, bn - 3), (bm, bn)] {
            for product in epilogues(Product { m, n, k: 3 * bk + 5, ..PLAIN }) {
                product.check(kernel.name, 2 * bk);
            }
        }
        let without_depth = Product { m: bm, n: bn, k: 0, beta: 0.5, ..PLAIN };
        if kernel.reducer.is_none() {
            without_depth.check(kernel.name, bk);
        }
    }
}

#[test]
fn slices_are_added_up_without_rounding() {
    for name in IN_SLICES {
        for product in epilogues(Product { m: 67, n: 65, k: 200, ..PLAIN }) {
            product.check(name, 64);
            product.check(name, 256);
        }
    }
}

#[test]
fn skinny_products_leave_all_results_to_the_reducer() {
    for product in epilogues(Product { m: 2, n: 70, k: 300, ..PLAIN }) {
        product.check("skinny_rows_bf16_f32", 256);
        // A single slice as well.
        product.check("skinny_rows_nt_f16_f32", 512);
        let transposed = Product { m: product.n, n: product.m, ..product };
        transposed.check("skinny_cols_f16_f32", 512);
    }
}

#[test]
fn no_lanes_meet_in_a_bank_on_the_way_to_d_or_from_c() {
    let product = Product { m: 128, n: 64, k: 64, ..PLAIN };
    let counters = product.check("warpgroup64_bf16_f32", 64);
    let elements = 128 * 64;
    assert_eq!(counters.shared_store_elements, elements);
    assert_eq!(counters.shared_store_conflicts, 0);

    let with_c = Product { beta: 0.5, ..product }.check("warpgroup64_bf16_f32", 64);
    assert_eq!(with_c.bulk_bytes - counters.bulk_bytes, elements * 4, "C is brought");
    assert_eq!(with_c.shared_load_elements - counters.shared_load_elements, elements);
    assert_eq!(with_c.shared_load_conflicts, 0);
}

#[test]
fn kernels_that_share_an_entry_say_so() {
    let (mut transposing, mut widening) = (0, 0);
    for kernel in KERNELS.iter().filter(|kernel| kernel.name != kernel.entry.name) {
        let other = KERNELS.iter().find(|other| other.name == kernel.entry.name).unwrap();
        if kernel.transposes().contains(&true) {
            assert_eq!((other.layouts, kernel.multiplied), (other.multiplied, other.multiplied));
            transposing += 1;
        } else {
            widening += 1;
            assert_eq!(kernel.name, format!("{}_{}", kernel.entry.name, kernel.target));
            assert!(!kernel.finishes && kernel.reducer.is_some(), "{}", kernel.name);
        }
        assert_eq!((other.shared_bytes, other.tile), (kernel.shared_bytes, kernel.tile));
    }
    assert!(transposing > 0 && widening > 0, "{transposing} and {widening}");
}
