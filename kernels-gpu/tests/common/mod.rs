//! Running kernels on the simulator, for operands in any layout that lie anywhere: kernels of types whose sums are f32,
//! which take no tensor maps.

use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Counters, Launch, Simulator};
use half::{bf16, f16};
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::epilogue::Linear;
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::layout::Layout;
use regemm_kernels::params::{GemmParams, MatrixRef, Workspace};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::schedule::reduce;
use std::ffi::c_void;

/// Where the elements of all matrices lie.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Elements before the first, which is aligned to 16 bytes where these are.
    pub start: u32,
    /// Elements from the end of one row to the next.
    pub gap: u32,
}

/// Rows without gaps, aligned as an allocation is.
pub const PACKED: Storage = Storage { start: 0, gap: 0 };

/// What the elements of A and B are, once they are rounded to the kernel's type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// From -4 to 4: all sums are exact.
    Integers,
    /// Normally distributed, so that every rounding shows.
    Normals,
}

/// `D = A * B`, `m x k` and `k x n`.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub values: Values,
    pub storage: Storage,
}

/// What a launch left.
pub struct Outcome {
    /// The bits of D, row by row.
    pub bits: Vec<u32>,
    pub counters: Counters,
}

/// An element whose sums are f32.
pub trait Summed32: Element<Acc = f32> {
    /// What is in memory where no element of A or B is, and in all of D before: a NaN, which would spread to every sum.
    const CANARY: Self;

    /// Its bits, the upper ones zero.
    fn bits(self) -> u32;
}

impl Summed32 for f32 {
    const CANARY: Self = f32::from_bits(u32::MAX);

    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Summed32 for f16 {
    const CANARY: Self = f16::from_bits(u16::MAX);

    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

impl Summed32 for bf16 {
    const CANARY: Self = bf16::from_bits(u16::MAX);

    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

/// The value of a type that is nearest to a number.
pub fn rounded(dtype: Dtype, value: f32) -> f32 {
    match dtype {
        Dtype::F32 => value,
        Dtype::F16 => f16::narrow(value).widen(),
        Dtype::Bf16 => bf16::narrow(value).widen(),
        Dtype::F64 => unreachable!("its sums are not f32"),
    }
}

/// The bits of the value of a type that is nearest to a number, the upper ones zero.
pub fn rounded_bits(dtype: Dtype, value: f32) -> u32 {
    match dtype {
        Dtype::F32 => value.bits(),
        Dtype::F16 => f16::narrow(value).bits(),
        Dtype::Bf16 => bf16::narrow(value).bits(),
        Dtype::F64 => unreachable!("its sums are not f32"),
    }
}

/// A matrix in the simulator's memory.
struct Stored<T> {
    matrix: MatrixRef<T>,
    /// Where the allocation begins, and the bits of the elements in it: no more than up to the last one.
    address: u64,
    elements: Vec<u32>,
}

/// Bits of a matrix in memory, and its leading dimension.
fn elements<T: Summed32>(
    rows: u32,
    cols: u32,
    storage: Storage,
    bits: impl Fn(u32, u32) -> u32,
) -> (Vec<u32>, u32) {
    let ld = cols + storage.gap;
    let mut elements = vec![T::CANARY.bits(); storage.start as usize];
    for row in 0..rows {
        elements.resize((storage.start + row * ld) as usize, T::CANARY.bits());
        elements.extend((0..cols).map(|col| bits(row, col)));
    }
    (elements, ld)
}

/// Fewer bytes than four leave out the upper ones, which GPUs and the hosts they have put last.
fn upload<T: Summed32>(
    simulator: &Simulator,
    (rows, cols): (u32, u32),
    storage: Storage,
    bits: impl Fn(u32, u32) -> u32,
) -> Stored<T> {
    let (elements, ld) = elements::<T>(rows, cols, storage, bits);
    let low = |bits: &u32| bits.to_le_bytes().into_iter().take(size_of::<T>());
    let bytes: Vec<u8> = elements.iter().flat_map(low).collect();
    let address = simulator.alloc(bytes.len().max(1) as u64).unwrap();
    simulator.write(address, &bytes).unwrap();
    let data = GlobalPtr::<T>::from_address(address).add(storage.start.into());
    Stored { matrix: MatrixRef { data, ld: ld.into() }, address, elements }
}

impl Product {
    /// Of packed integers.
    pub fn new(m: u32, n: u32, k: u32) -> Self {
        Product { m, n, k, values: Values::Integers, storage: PACKED }
    }

    /// Element `(row, col)` of A, for kernels of a type.
    pub fn a(&self, dtype: Dtype, row: u32, col: u32) -> f32 {
        rounded(dtype, self.values.at(1, row, col))
    }

    /// Element `(row, col)` of B, for kernels of a type.
    pub fn b(&self, dtype: Dtype, row: u32, col: u32) -> f32 {
        rounded(dtype, self.values.at(2, row, col))
    }

    /// Runs a kernel, and checks that it leaves alone what lies between the rows of D.
    pub fn run(&self, kernel: &KernelInfo) -> Outcome {
        self.run_in_slices(kernel, self.k)
    }

    /// As [`run`](Self::run), where K is split in slices of this depth. What is counted is the first launch.
    pub fn run_in_slices(&self, kernel: &KernelInfo, slice_depth: u32) -> Outcome {
        match kernel.dtype {
            Dtype::F32 => self.run_of::<f32>(kernel, slice_depth),
            Dtype::F16 => self.run_of::<f16>(kernel, slice_depth),
            Dtype::Bf16 => self.run_of::<bf16>(kernel, slice_depth),
            Dtype::F64 => unreachable!("its sums are not f32"),
        }
    }

    fn run_of<T: Summed32>(&self, kernel: &KernelInfo, slice_depth: u32) -> Outcome {
        let Product { m, n, k, storage, .. } = *self;
        let simulator = Simulator::new();
        let factor = |layout: Layout, rows, cols, value: &dyn Fn(u32, u32) -> f32| {
            let bits = |stored_row, stored_col| {
                let (row, col) = layout.stored(stored_row, stored_col);
                T::narrow(value(row, col)).bits()
            };
            upload::<T>(&simulator, layout.stored(rows, cols), storage, bits).matrix
        };
        let a = factor(kernel.layouts.a, m, k, &|row, col| self.a(T::DTYPE, row, col));
        let b = factor(kernel.layouts.b, k, n, &|row, col| self.b(T::DTYPE, row, col));
        let d = upload::<T>(&simulator, (m, n), storage, |_, _| T::CANARY.bits());
        let slices = match kernel.schedule {
            Schedule::Tiles | Schedule::Persistent | Schedule::ClusterK | Schedule::StreamK => 1,
            Schedule::SplitK => k.div_ceil(slice_depth.max(1)),
        };
        let partials = Partials::new::<T>(m, n, k, slice_depth.max(1));
        let sums = partials.product() * size_of::<f32>() as u64;
        let finished = slices == 1 && kernel.finishes;
        let workspace = match finished {
            true => Workspace::NONE,
            false => Workspace {
                partials: GlobalPtr::from_address(simulator.alloc(sums.max(1)).unwrap()),
                ..Workspace::NONE
            },
        };
        let params = GemmParams {
            slice_depth,
            workspace,
            ..GemmParams::single([a, b], d.matrix, (m, n, k), Linear::<T>::identity())
        };
        let run = |entry: &KernelEntry, grid, threads, dynamic_shared| {
            let launch = Launch { grid, block: [threads, 1, 1], dynamic_shared };
            let argument = (&raw const params).cast::<c_void>();
            // SAFETY: the one argument points to a value of the kernel's parameter type.
            let launched = unsafe { simulator.launch(entry, launch, &[argument]) };
            launched.unwrap_or_else(|error| panic!("{}: {self:?}: {error}", entry.name))
        };
        let mut counters = Counters::default();
        if slices > 0 {
            let grid = [kernel.blocks(m, n) as u32, 1, slices];
            counters = run(&kernel.entry, grid, kernel.threads(), kernel.shared_bytes);
        }
        if let Some(reducer) = kernel.reducer.as_ref().filter(|_| !finished) {
            let grid = [reduce::blocks::<T>(m, n) as u32, 1, 1];
            run(&reducer.entry, grid, reduce::THREADS, 0);
        }

        let mut bytes = vec![0; size_of::<T>() * d.elements.len()];
        simulator.read(d.address, &mut bytes).unwrap();
        let bits = |element: &[u8]| {
            element.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte))
        };
        let stored: Vec<u32> = bytes.chunks_exact(size_of::<T>()).map(bits).collect();
        let at =
            |row: u32, col: u32| stored[(storage.start + row * (n + storage.gap) + col) as usize];
        assert!(
            elements::<T>(m, n, storage, at).0 == stored,
            "{}: {self:?} stores outside of D",
            kernel.name
        );
        let bits = (0..m * n).map(|i| at(i / n, i % n)).collect();
        Outcome { bits, counters }
    }

    /// The bits of D for integers, of which no sum is rounded before it is stored.
    pub fn exact(&self, dtype: Dtype) -> Vec<u32> {
        assert_eq!(self.values, Values::Integers);
        let sum = |row: u32, col: u32| -> i64 {
            let products = |p| self.a(dtype, row, p) as i64 * self.b(dtype, p, col) as i64;
            (0..self.k).map(products).sum()
        };
        let element = |i| rounded_bits(dtype, sum(i / self.n, i % self.n) as f32);
        (0..self.m * self.n).map(element).collect()
    }
}

impl Values {
    /// Element `(row, col)` of a matrix, of which every seed has its own.
    fn at(self, seed: u32, row: u32, col: u32) -> f32 {
        let index = hash(hash(seed) ^ row) ^ col;
        match self {
            Values::Integers => (hash(index) % 9) as f32 - 4.0,
            Values::Normals => {
                // G. E. P. Box and M. E. Muller, "A Note on the Generation of Random Normal Deviates", 1958.
                let uniform = |x: u32| (f64::from(x) + 0.5) / 2f64.powi(32);
                let radius = (-2.0 * uniform(hash(index)).ln()).sqrt();
                let angle = std::f64::consts::TAU * uniform(hash(!index));
                (radius * angle.cos()) as f32
            }
        }
    }
}

/// The finalizer of MurmurHash3, shifted so that it does not map zero to zero.
fn hash(x: u32) -> u32 {
    let mut x = x.wrapping_add(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}
