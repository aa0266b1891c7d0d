//! Warpgroup matrix instructions: descriptors, layouts of operands and accumulators against the tables of the PTX
//! manual, and products of all layouts against a plain reference.
//!
//! SAFETY of the kernels' `unsafe` blocks: they run on the simulator alone, which checks every access.

mod common;

use common::{alloc, download, launch, upload};
use cuda_std::bulk_copy::fence_shared;
use cuda_std::memory::{GlobalPtr, SharedPtr};
use cuda_std::scalar::Scalar;
use cuda_std::sim::{Counters, Simulator};
use cuda_std::wgmma::{
    self, Accumulators, Element, KMajor, Layout, M, Major, MnMajor, Swizzle, THREADS,
};
use cuda_std::{kernel, shared, thread, unroll};
use half::{bf16, f16};

/// Columns of A in the products: three instructions.
const DEPTH: usize = 3 * wgmma::K;

/// Bytes of a unit, the row of a core matrix, and its elements.
const UNIT: u32 = 16;
const ELEMENTS: u32 = 8;

/// The unit of a row that lies at each place, for eight rows: the manual's figures of the three modes ("Swizzling
/// Modes").
const ROWS_32: [[u32; 2]; 8] = [[0, 1], [0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 0], [1, 0]];
const ROWS_64: [[u32; 4]; 8] = [
    [0, 1, 2, 3],
    [0, 1, 2, 3],
    [1, 0, 3, 2],
    [1, 0, 3, 2],
    [2, 3, 0, 1],
    [2, 3, 0, 1],
    [3, 2, 1, 0],
    [3, 2, 1, 0],
];
const ROWS_128: [[u32; 8]; 8] = [
    [0, 1, 2, 3, 4, 5, 6, 7],
    [1, 0, 3, 2, 5, 4, 7, 6],
    [2, 3, 0, 1, 6, 7, 4, 5],
    [3, 2, 1, 0, 7, 6, 5, 4],
    [4, 5, 6, 7, 0, 1, 2, 3],
    [5, 4, 7, 6, 1, 0, 3, 2],
    [6, 7, 4, 5, 2, 3, 0, 1],
    [7, 6, 5, 4, 3, 2, 1, 0],
];

/// The place in row `row` at which its unit `unit` lies.
fn place(swizzle: Swizzle, row: u32, unit: u32) -> u32 {
    let row = row as usize % 8;
    let units: &[u32] = match swizzle {
        Swizzle::None => &[0],
        Swizzle::Bytes32 => &ROWS_32[row],
        Swizzle::Bytes64 => &ROWS_64[row],
        Swizzle::Bytes128 => &ROWS_128[row],
    };
    units.iter().position(|&there| there == unit).unwrap() as u32
}

/// Units of a row.
fn width(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 1,
        Swizzle::Bytes32 => 2,
        Swizzle::Bytes64 => 4,
        Swizzle::Bytes128 => 8,
    }
}

/// An operand of `rows` (M or N) times `DEPTH` elements as blocks of eight rows of units, which lie one after the
/// other. Of a K-major operand a row is one of M or N and the blocks of one row of blocks lie together; of the others a
/// row is one of K.
#[derive(Clone, Copy)]
struct Blocks {
    swizzle: Swizzle,
    transposed: bool,
    rows: u32,
}

impl Blocks {
    /// Bytes of a block.
    fn bytes(self) -> u32 {
        8 * width(self.swizzle) * UNIT
    }

    /// Blocks from one to the next along M or N, and along K.
    fn steps(self) -> (u32, u32) {
        if self.transposed { (DEPTH as u32 / 8, 1) } else { (1, self.rows / 8) }
    }

    /// Bytes from the start to an element.
    fn offset(self, i: u32, k: u32) -> u32 {
        let (down, along) = if self.transposed { (k, i) } else { (i, k) };
        let wide = width(self.swizzle) * ELEMENTS;
        let (down_block, along_block) = (down / 8, along / wide);
        let (i_step, k_step) = self.steps();
        let block = if self.transposed {
            down_block * k_step + along_block * i_step
        } else {
            down_block * i_step + along_block * k_step
        };
        let unit = place(self.swizzle, down, along % wide / ELEMENTS);
        block * self.bytes() + (down % 8 * width(self.swizzle) + unit) * UNIT + along % ELEMENTS * 2
    }

    /// What the manual calls the offsets of the leading dimension and of the stride: from block to block of eight rows,
    /// and across; without swizzle, where no row has a second unit, the stride is always that along M or N.
    fn layout<T: Element, J: Major>(self) -> Layout<T, J> {
        assert_eq!(J::TRANSPOSED, self.transposed);
        let (i_step, k_step) = self.steps();
        let (i_step, k_step) = (i_step * self.bytes(), k_step * self.bytes());
        let (leading, stride) = match (self.swizzle, self.transposed) {
            (Swizzle::None, _) => (k_step, i_step),
            (_, false) => (UNIT, i_step),
            (_, true) => (i_step, k_step),
        };
        Layout::new(self.swizzle, leading, stride)
    }

    /// Bytes from the start to the part of an instruction that begins at column `k` of A or row `k` of B, but for the
    /// swizzle.
    fn start(self, k: u32) -> u32 {
        let (_, k_step) = self.steps();
        if self.transposed || self.swizzle == Swizzle::None {
            return k / 8 * k_step * self.bytes();
        }
        let wide = width(self.swizzle) * ELEMENTS;
        k / wide * k_step * self.bytes() + k % wide * 2
    }
}

#[test]
fn swizzles_are_those_of_the_manual() {
    for swizzle in Swizzle::ALL {
        for row in 0..8 {
            for unit in 0..width(swizzle) {
                let from = (row * width(swizzle) + unit) * UNIT;
                let to = (row * width(swizzle) + place(swizzle, row, unit)) * UNIT;
                assert_eq!(swizzle.apply(from + 6), to + 6, "{swizzle:?}: row {row}, unit {unit}");
            }
        }
    }
}

#[test]
fn descriptors_have_the_manuals_fields() {
    fn fields<J: Major>(layout: Layout<f16, J>, start: u32) -> [u64; 5] {
        let bits = layout.at(SharedPtr::from_address(start)).bits();
        let field = |low: u32, width: u32| bits >> low & ((1 << width) - 1);
        let fields = [field(0, 14), field(16, 14), field(32, 14), field(49, 3), field(62, 2)];
        let [start, leading, stride, base, swizzle] = fields;
        let all = start | leading << 16 | stride << 32 | base << 49 | swizzle << 62;
        assert_eq!(bits, all, "bits outside of the fields");
        fields
    }
    const A: Layout<f16, KMajor> = Layout::new(Swizzle::Bytes128, 16, 1024);
    assert_eq!(fields(A, 0x2_3c00), [0x23c0, 1, 64, 0, 1]);
    assert_eq!(fields(A.with_base_offset(5), 0x280), [0x28, 1, 64, 5, 1]);
    let largest = (1 << 18) - 16;
    let layout = Layout::<f16, MnMajor>::new(Swizzle::None, largest, 0);
    assert_eq!(fields(layout, largest), [0x3fff, 0x3fff, 0, 0, 0]);
    let mode = |swizzle| fields(Layout::<f16, KMajor>::new(swizzle, 0, 0), 0)[4];
    assert_eq!(Swizzle::ALL.map(mode), [0, 3, 2, 1]);
    // The next instruction's part of a row.
    let a = A.at(SharedPtr::from_address(0x400));
    assert_eq!(a.advance(96).bits(), a.bits() + 6);
}

#[test]
fn offsets_are_those_of_the_blocks() {
    fn check<J: Major>(swizzle: Swizzle) {
        for rows in [64, 192, 256] {
            let blocks = Blocks { swizzle, transposed: J::TRANSPOSED, rows };
            let layout = blocks.layout::<bf16, J>();
            let columns = if J::TRANSPOSED || swizzle == Swizzle::None {
                DEPTH as u32
            } else {
                width(swizzle) * ELEMENTS
            };
            for (i, k) in
                (0..rows).flat_map(|i| (0..columns.min(DEPTH as u32)).map(move |k| (i, k)))
            {
                assert_eq!(layout.offset(i, k), blocks.offset(i, k), "{swizzle:?} {i} {k}");
            }
        }
    }
    for swizzle in Swizzle::ALL {
        check::<KMajor>(swizzle);
        check::<MnMajor>(swizzle);
    }
}

/// The matrices of a product and what is wanted of it.
#[derive(Clone, Copy)]
struct Product {
    /// `M` rows of `DEPTH`, and `DEPTH` rows of `n`, of 16 bits.
    a: GlobalPtr<u16>,
    b: GlobalPtr<u16>,
    /// `n / 2` registers of each thread, as they are at the start and at the end.
    c: GlobalPtr<f32>,
    d: GlobalPtr<f32>,
    n: u32,
    swizzle: Swizzle,
    bf16: bool,
    transposed: [bool; 2],
    /// Whether to start from `c`.
    add: bool,
}

/// Stores element `(i, k)` of an operand where it belongs.
unsafe fn fill<T: Element>(
    to: SharedPtr<T>,
    from: GlobalPtr<T>,
    blocks: Blocks,
    steps: (u64, u64),
) {
    let elements = blocks.rows * DEPTH as u32;
    for e in (thread::thread_idx_x()..elements).step_by(THREADS as usize) {
        let (i, k) = (e / DEPTH as u32, e % DEPTH as u32);
        let from = from.add(i as u64 * steps.0 + k as u64 * steps.1);
        let to = SharedPtr::<T>::from_address(to.address() + blocks.offset(i, k));
        unsafe { to.store(from.load()) }
    }
}

/// What an accumulator holds that is none of an instruction's.
const OTHER: f32 = 7.0;

/// Of `N` columns, with accumulators of `ALL`: the others stay as they are.
unsafe fn multiply<T: Element + Scalar, A: Major, B: Major, const N: usize, const ALL: usize>(
    p: Product,
) {
    let blocks = |transposed, rows| Blocks { swizzle: p.swizzle, transposed, rows };
    let (a_blocks, b_blocks) = (blocks(A::TRANSPOSED, M as u32), blocks(B::TRANSPOSED, N as u32));
    let a = shared::dynamic::<T>();
    // Blocks of 32 columns of K do not divide DEPTH: there is room for a whole one.
    let b = a.add(M as u32 * 64);
    let registers = thread::thread_idx_x() as u64 * (N as u64 / 2);
    unsafe {
        let mut d = Accumulators::<ALL>::declare();
        fill(a, p.a.cast(), a_blocks, (DEPTH as u64, 1));
        fill(b, p.b.cast(), b_blocks, (1, N as u64));
        fence_shared();
        thread::sync_threads();
        // The last of the others.
        if const { N < 256 && ALL == 256 } {
            d.set::<127>(OTHER);
        }
        if p.add {
            let c = p.c.add(registers);
            unroll!(i < 32, {
                if 4 * i < N / 2 {
                    d.set::<{ 4 * i }>(c.add(4 * i as u64).load());
                    d.set::<{ 4 * i + 1 }>(c.add(4 * i as u64 + 1).load());
                    d.set::<{ 4 * i + 2 }>(c.add(4 * i as u64 + 2).load());
                    d.set::<{ 4 * i + 3 }>(c.add(4 * i as u64 + 3).load());
                }
            });
        }
        let (a, b) = (a_blocks.layout::<T, A>().at(a), b_blocks.layout::<T, B>().at(b));
        wgmma::fence();
        for k in (0..DEPTH as u32).step_by(wgmma::K) {
            let (a, b) = (a.advance(a_blocks.start(k)), b.advance(b_blocks.start(k)));
            d.mma_async_of_cols::<N, _, _, _>(a, b, k > 0 || p.add);
        }
        wgmma::commit_group();
        wgmma::wait_group::<0>();
        if const { N < 256 && ALL == 256 } {
            assert_eq!(d.get::<127>(), OTHER, "it is none of the instruction's");
        }
        let to = p.d.add(registers);
        unroll!(i < 32, {
            if 4 * i < N / 2 {
                to.add(4 * i as u64).store(d.get::<{ 4 * i }>());
                to.add(4 * i as u64 + 1).store(d.get::<{ 4 * i + 1 }>());
                to.add(4 * i as u64 + 2).store(d.get::<{ 4 * i + 2 }>());
                to.add(4 * i as u64 + 3).store(d.get::<{ 4 * i + 3 }>());
            }
        });
    }
}

#[kernel]
unsafe fn product(p: Product) {
    unsafe fn majors<T: Element, const N: usize, const ALL: usize>(p: Product) {
        unsafe {
            match p.transposed {
                [false, false] => multiply::<T, KMajor, KMajor, N, ALL>(p),
                [false, true] => multiply::<T, KMajor, MnMajor, N, ALL>(p),
                [true, false] => multiply::<T, MnMajor, KMajor, N, ALL>(p),
                [true, true] => multiply::<T, MnMajor, MnMajor, N, ALL>(p),
            }
        }
    }
    unsafe {
        match (p.bf16, p.n) {
            (false, 32) => majors::<f16, 32, 32>(p),
            (false, 64) => majors::<f16, 64, 64>(p),
            (false, 80) => majors::<f16, 80, 128>(p),
            (false, 96) => majors::<f16, 96, 128>(p),
            (false, 112) => majors::<f16, 112, 128>(p),
            (false, 128) => majors::<f16, 128, 128>(p),
            (false, 144) => majors::<f16, 144, 256>(p),
            (false, 192) => majors::<f16, 192, 192>(p),
            (false, 240) => majors::<f16, 240, 256>(p),
            (false, _) => majors::<f16, 256, 256>(p),
            (true, 32) => majors::<bf16, 32, 32>(p),
            (true, 64) => majors::<bf16, 64, 64>(p),
            (true, 80) => majors::<bf16, 80, 128>(p),
            (true, 96) => majors::<bf16, 96, 128>(p),
            (true, 112) => majors::<bf16, 112, 128>(p),
            (true, 128) => majors::<bf16, 128, 128>(p),
            (true, 144) => majors::<bf16, 144, 256>(p),
            (true, 192) => majors::<bf16, 192, 192>(p),
            (true, 240) => majors::<bf16, 240, 256>(p),
            (true, _) => majors::<bf16, 256, 256>(p),
        }
    }
}

/// Thread and register that hold each element of the accumulators, row by row: the manual's figure of the fragment of D
/// ("Register Fragments and Shared Memory Matrix Layouts"), in which a warp has 16 rows, the four threads of a row two
/// neighbours each, and the eight rows below the next two registers.
fn fragment(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..M).flat_map(move |row| {
        (0..n).map(move |column| {
            let thread = 32 * (row / 16) + 4 * (row % 8) + column % 8 / 2;
            (thread, 4 * (column / 8) + 2 * (row % 16 / 8) + column % 2)
        })
    })
}

/// Runs a product of matrices given row by row, and gives D row by row.
fn run(
    simulator: &Simulator,
    (a, b, c): (&[f32], &[f32], Option<&[f32]>),
    bf16: bool,
    (swizzle, transposed): (Swizzle, [bool; 2]),
) -> (Vec<f32>, Counters) {
    let encode = |x: &f32| {
        let bits = if bf16 { bf16::from_f32(*x).to_bits() } else { f16::from_f32(*x).to_bits() };
        let back =
            if bf16 { bf16::from_bits(bits).to_f32() } else { f16::from_bits(bits).to_f32() };
        assert_eq!(*x, back, "the test's number is none of the type");
        bits
    };
    let n = b.len() / DEPTH;
    let bits = |x: &[f32]| x.iter().map(encode).collect::<Vec<u16>>();
    let (a, b) = (upload(simulator, &bits(a)), upload(simulator, &bits(b)));
    let mut registers = vec![f32::NAN; M * n];
    for ((thread, register), c) in fragment(n).zip(c.unwrap_or_default()) {
        registers[thread * (n / 2) + register] = *c;
    }
    let (from, d) = (upload(simulator, &registers), alloc::<f32>(simulator, M * n));
    let add = c.is_some();
    let p = Product { a, b, c: from, d, n: n as u32, swizzle, bf16, transposed, add };
    let shared = (M as u32 + n as u32) * 64 * 2;
    let counters = launch!(simulator, product[1, THREADS, shared](p)).unwrap();
    let d = download(simulator, d, M * n);
    (fragment(n).map(|(thread, register)| d[thread * (n / 2) + register]).collect(), counters)
}

/// Small integers, other ones each time.
fn integers(count: usize, limit: u32, state: &mut u32) -> Vec<f32> {
    let mut next = || {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 16) % (2 * limit + 1)
    };
    (0..count).map(|_| next() as f32 - limit as f32).collect()
}

#[test]
fn every_accumulator_is_where_the_manual_has_it() {
    // The corners of the figure.
    let at: Vec<_> = fragment(256).collect();
    assert_eq!((at[0], at[1], at[2], at[8]), ((0, 0), (0, 1), (1, 0), (0, 4)));
    assert_eq!((at[256], at[8 * 256], at[16 * 256]), ((4, 0), (0, 2), (32, 0)));
    assert_eq!(at[63 * 256 + 255], (127, 127));
    // Element (i, j) is 256 i + j.
    for n in [32, 64, 80, 96, 112, 128, 144, 192, 240, 256] {
        let mut a = vec![0.0; M * DEPTH];
        let mut b = vec![0.0; DEPTH * n];
        for i in 0..M {
            (a[i * DEPTH], a[i * DEPTH + 1]) = (i as f32, 1.0);
        }
        for j in 0..n {
            (b[j], b[n + j]) = (256.0, j as f32);
        }
        let layout = (Swizzle::Bytes128, [false, false]);
        let (d, counters) = run(&Simulator::new(), (&a, &b, None), true, layout);
        for (e, d) in d.into_iter().enumerate() {
            assert_eq!(d, (256 * (e / n) + e % n) as f32, "element {e} of {n} columns");
        }
        assert_eq!(counters.wgmma_instructions, 3);
        assert_eq!(counters.tensor_fma, (M * n * DEPTH) as u64);
        assert_eq!(counters.fma, 0);
    }
}

#[test]
fn products_of_all_layouts() {
    let mut state = 1;
    for (n, bf16) in [
        (32, false),
        (32, true),
        (64, false),
        (128, true),
        (144, false),
        (192, false),
        (192, true),
        (240, true),
        (256, false),
    ] {
        let simulator = Simulator::new();
        let (a, b) = (integers(M * DEPTH, 8, &mut state), integers(DEPTH * n, 8, &mut state));
        let c = integers(M * n, 1000, &mut state);
        for swizzle in Swizzle::ALL {
            for transposed in [[false, false], [false, true], [true, false], [true, true]] {
                if transposed[1] && n < (width(swizzle) * ELEMENTS) as usize {
                    // There are no rows that long.
                    continue;
                }
                for c in [None, Some(&c[..])] {
                    let (d, _) = run(&simulator, (&a, &b, c), bf16, (swizzle, transposed));
                    for (e, d) in d.into_iter().enumerate() {
                        let (i, j) = (e / n, e % n);
                        let products = (0..DEPTH).map(|k| a[i * DEPTH + k] * b[k * n + j]);
                        let expected = products.sum::<f32>() + c.map_or(0.0, |c| c[e]);
                        assert_eq!(
                            d, expected,
                            "{n} {bf16} {swizzle:?} {transposed:?}: ({i}, {j})"
                        );
                    }
                }
            }
        }
    }
}

/// One instruction adds its products up without rounding in between, and each instruction rounds once.
#[test]
fn an_instruction_rounds_once() {
    let n = 64;
    let (mut a, mut b) = (vec![0.0; M * DEPTH], vec![0.0; DEPTH * n]);
    // 2^24 + 1 + 1 in one instruction, and the second 1 in the next one.
    a[..3].fill(1.0);
    (a[DEPTH], a[DEPTH + 1], a[DEPTH + wgmma::K]) = (1.0, 1.0, 1.0);
    for k in [1, 2, wgmma::K] {
        b[k * n..][..n].fill(1.0);
    }
    b[..n].fill(16_777_216.0);
    let layout = (Swizzle::None, [false, false]);
    let (d, _) = run(&Simulator::new(), (&a, &b, None), true, layout);
    assert_eq!((d[0], d[n]), (16_777_218.0, 16_777_216.0));
}
