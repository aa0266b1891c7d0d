//! Running a product on the simulator, by any kernel of the table, and all of D as bytes.

use cuda_std::bulk_copy::TensorMap;
use cuda_std::entry::KernelEntry;
use cuda_std::memory::GlobalPtr;
use cuda_std::sim::{Launch, SimError, Simulator};
use cuda_std::tensor_map::{ElementType, TiledTensor};
use half::{bf16, f16};
use regemm_kernels::element::{Accumulator, Dtype, Element};
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::{KernelInfo, Schedule};
use regemm_kernels::layout::Layout;
use regemm_kernels::maps::{BoxShape, Factors, Mappings, Maps, Matrices, Results, UNUSED};
use regemm_kernels::params::{GemmParams, MatrixRef, TargetRef, Workspace};
use regemm_kernels::prepare::decision::{Decision, Marks};
use regemm_kernels::prepare::split::{self, Split};
use regemm_kernels::schedule::partials::Partials;
use regemm_kernels::schedule::reduce;
use regemm_kernels::table::{ROUNDER, SPLITTER};
use regemm_kernels::warpgroup::fit::Columns;
use regemm_kernels::warpgroup::pace;
use std::ffi::c_void;

/// What bulk copies need rows to be multiples of.
const CHUNK_BYTES: u32 = 16;

/// What becomes of the sums of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Finish {
    /// All that an epilogue reads: a bias and C.
    All,
    /// A bias alone.
    Bias,
    /// A bias and GELU.
    Gelu,
    /// Nothing but a factor.
    Factor,
}

/// `D = activation(alpha * A * B + beta * C + bias)`, and how it is launched.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    m: u32,
    n: u32,
    k: u32,
    /// Clusters that stay, where blocks do.
    clusters: u32,
    /// How many tiles are shared by how many of them.
    shared: (u32, u32),
    /// Values of k in a slice, where K is split.
    slice: u32,
    /// Slices between two looks at how far others are, where blocks keep pace.
    pace: u32,
    /// Width of the tiles, where they fit.
    width: u32,
    /// Whether rows begin where they happen to: else at multiples of 16 bytes.
    is_odd: bool,
    /// Whether the launches of the product decide which of them computes it.
    is_decided: bool,
    /// Whether the kernel reads C by itself, also where bulk copies could bring it.
    reads_c: bool,
    finish: Finish,
}

impl Product {
    /// With all that an epilogue reads, by one cluster where blocks stay.
    pub const fn new(m: u32, n: u32, k: u32) -> Self {
        Product {
            m,
            n,
            k,
            clusters: 1,
            shared: (0, 0),
            slice: k,
            pace: 0,
            width: 0,
            is_odd: false,
            is_decided: false,
            reads_c: false,
            finish: Finish::All,
        }
    }

    /// The same product without C, with GELU but without C, and with a factor alone: each goes a way of its own to D.
    pub fn finished_otherwise(self) -> [Self; 3] {
        [Finish::Bias, Finish::Gelu, Finish::Factor].map(|finish| Product { finish, ..self })
    }

    /// With a C that no bulk copy brings.
    pub const fn reading_c(self) -> Self {
        Product { reads_c: true, ..self }
    }

    /// With rows that begin anywhere.
    pub const fn odd(self) -> Self {
        Product { is_odd: true, ..self }
    }

    /// By a launch that has decided to.
    pub const fn decided(self) -> Self {
        Product { is_decided: true, ..self }
    }

    /// By so many clusters that stay.
    pub const fn staying(self, clusters: u32) -> Self {
        Product { clusters, ..self }
    }

    /// With so many tiles that so many clusters share.
    pub const fn shared(self, tiles: u32, clusters: u32) -> Self {
        Product { shared: (tiles, clusters), ..self }
    }

    /// With K split in slices of that depth.
    pub const fn sliced(self, slice: u32) -> Self {
        Product { slice, ..self }
    }

    /// By clusters that look after so many slices how far others are.
    pub const fn paced(self, pace: u32) -> Self {
        Product { pace, ..self }
    }

    /// In tiles that are so wide.
    pub const fn fitted(self, width: u32) -> Self {
        Product { width, ..self }
    }
}

/// An element type of matrices.
trait Number: Element {
    const MAPPED: ElementType;
    fn bytes(self) -> Vec<u8>;
}

macro_rules! numbers {
    ($($t:ident = $mapped:ident,)*) => {$(
        impl Number for $t {
            const MAPPED: ElementType = ElementType::$mapped;

            fn bytes(self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        }
    )*};
}

numbers! { f32 = F32, f64 = F64, f16 = F16, bf16 = Bf16, }

/// Element `(row, col)` of a matrix, of which every seed has its own: an integer from -4 to 4, so that a row or a
/// column is like no other.
fn value(seed: u32, row: u32, col: u32) -> f64 {
    let mut x = (row << 16 ^ col).wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 15)).wrapping_mul(0xc2b2_ae35);
    f64::from((x >> 13) % 9) - 4.0
}

/// A matrix in the simulator's memory.
struct Stored<T> {
    matrix: MatrixRef<T>,
    shape: (u32, u32),
}

impl<T: Number> Stored<T> {
    /// Without a value it is all NaN, as is what lies between rows.
    fn new(
        simulator: &Simulator,
        product: &Product,
        (rows, cols): (u32, u32),
        value: Option<&dyn Fn(u32, u32) -> f64>,
    ) -> Result<Self, SimError> {
        let size = size_of::<T>() as u32;
        let chunk = CHUNK_BYTES / size;
        let ld = if product.is_odd { cols | 1 } else { cols.next_multiple_of(chunk) + chunk };
        let mut bytes = Vec::new();
        for row in 0..rows {
            if let Some(value) = value {
                let element = |col| T::narrow(T::Acc::constant(value(row, col))).bytes();
                bytes.extend((0..cols).flat_map(element));
            }
            bytes.resize(((row + 1) * ld * size) as usize, 0xff);
        }
        let address = simulator.alloc(bytes.len().max(1) as u64)?;
        simulator.write(address, &bytes)?;
        let data = GlobalPtr::from_address(address);
        Ok(Stored { matrix: MatrixRef { data, ld: ld.into() }, shape: (rows, cols) })
    }

    fn map(&self, simulator: &Simulator, boxes: BoxShape) -> TensorMap {
        let (rows, cols) = self.shape;
        let row_bytes = size_of::<T>() as u64 * self.matrix.ld;
        let shape = (1, rows.into(), cols.into());
        map::<T>(simulator, self.matrix.data.address(), shape, row_bytes, boxes)
    }
}

fn map<T: Number>(
    simulator: &Simulator,
    address: u64,
    (matrices, rows, cols): (u64, u64, u64),
    row_bytes: u64,
    boxes: BoxShape,
) -> TensorMap {
    let (shape, strides) = ((matrices, rows, cols), (rows * row_bytes, row_bytes));
    let of_box = (boxes.rows, boxes.cols);
    let tensor = TiledTensor::matrices(T::MAPPED, address, shape, strides, of_box, boxes.swizzle);
    simulator.tensor_map(&tensor).unwrap()
}

/// A factor as a kernel finds it.
struct Factor<T> {
    matrix: MatrixRef<T>,
    stride: u64,
    /// In whole boxes, and of what there is besides these.
    maps: [TensorMap; 2],
}

/// That neither factor has a mark, and a launch before has not found that.
fn decision(simulator: &Simulator) -> Result<Decision, SimError> {
    let word = |value: u32| {
        let address = simulator.alloc(size_of::<u32>() as u64)?;
        simulator.write(address, &value.to_ne_bytes())?;
        Ok(GlobalPtr::from_address(address))
    };
    let marks = || Ok(Marks { words: word(0)?, stride: 0, passing: 1 });
    Ok(Decision { a: marks()?, b: marks()?, exact: word(1)? })
}

/// Runs a kernel on one block after another.
///
/// # Safety
/// The arguments are of the types of its parameters.
unsafe fn launch(
    simulator: &Simulator,
    entry: &KernelEntry,
    grid: [u32; 3],
    (threads, dynamic_shared): (u32, u32),
    arguments: &[*const c_void],
) -> Result<(), SimError> {
    let launch = Launch { grid, block: [threads, 1, 1], dynamic_shared };
    // SAFETY: as promised by the caller; kernels that decide nothing do not take the last argument.
    unsafe { simulator.launch(entry, launch, &arguments[..entry.parameters.len()])? };
    Ok(())
}

impl Product {
    /// How wide the tiles of a kernel are.
    fn width(&self, kernel: &KernelInfo) -> u32 {
        if kernel.fits { self.width } else { kernel.width() }
    }

    /// Launches a kernel, and what comes before and after it, and gives D with what lies between its rows.
    pub fn run(&self, kernel: &KernelInfo, simulator: &Simulator) -> Result<Vec<u8>, SimError> {
        match (kernel.halves(), kernel.dtype, kernel.target) {
            (0, Dtype::F32, Dtype::F32) => self.run_of::<f32, f32>(kernel, simulator),
            (0, Dtype::F64, Dtype::F64) => self.run_of::<f64, f64>(kernel, simulator),
            (0, Dtype::Bf16, Dtype::Bf16) => self.run_of::<bf16, bf16>(kernel, simulator),
            (0, Dtype::F16, Dtype::F16) => self.run_of::<f16, f16>(kernel, simulator),
            (0, Dtype::F16, Dtype::F32) => self.run_of::<f16, f32>(kernel, simulator),
            (1 | 2, Dtype::F32, Dtype::F32) => self.run_with_halves(kernel, simulator),
            types => unreachable!("no case has {types:?}"),
        }
    }

    fn run_of<T: Number, D: Number + Element<Acc = T::Acc>>(
        &self,
        kernel: &KernelInfo,
        simulator: &Simulator,
    ) -> Result<Vec<u8>, SimError> {
        let Product { m, n, k, .. } = *self;
        // Without depth there is nothing to map.
        let boxes = kernel.boxes.filter(|_| k > 0);
        let boxes = boxes.map(|boxes| boxes.of_maps(kernel, self.width(kernel), (m, n)));
        let factor = |which: usize, layout: Layout, (rows, cols)| {
            let element = |row, col| {
                let (row, col) = layout.stored(row, col);
                value(which as u32, row, col)
            };
            let stored =
                Stored::<T>::new(simulator, self, layout.stored(rows, cols), Some(&element))?;
            let maps = boxes
                .unwrap_or_default()
                .map(|boxes| boxes[which].map_or(UNUSED, |boxes| stored.map(simulator, boxes)));
            Ok(Factor { matrix: stored.matrix, stride: 0, maps })
        };
        let a = factor(0, kernel.layouts.a, (m, k))?;
        let b = factor(1, kernel.layouts.b, (k, n))?;
        self.multiply::<T, D>(kernel, simulator, [a, b])
    }

    /// With factors of f32, of which a launch makes halves.
    fn run_with_halves(
        &self,
        kernel: &KernelInfo,
        simulator: &Simulator,
    ) -> Result<Vec<u8>, SimError> {
        let Product { m, n, k, .. } = *self;
        let halves = kernel.halves();
        let mut parts = Vec::new();
        let mut factors = Vec::new();
        for (which, layout, (rows, cols)) in
            [(0, kernel.layouts.a, (m, k)), (1, kernel.layouts.b, (k, n))]
        {
            let element = |row, col| {
                let (row, col) = layout.stored(row, col);
                value(which as u32, row, col)
            };
            let shape @ (rows, cols) = layout.stored(rows, cols);
            let stored = Stored::<f32>::new(simulator, self, shape, Some(&element))?;
            let across = (which == 1) == (layout == Layout::RowMajor);
            let elements = u64::from(halves) * split::elements_of_half(rows, cols);
            let to = GlobalPtr::from_address(simulator.alloc(elements * size_of::<f16>() as u64)?);
            let lines = split::lines(shape, across);
            let to_lines = simulator.alloc(u64::from(lines) * size_of::<i16>() as u64)?;
            let to_lines = GlobalPtr::from_address(to_lines);
            parts.push(split::SplitFactor::new(stored.matrix, shape, across, (1, 0), to, to_lines));
            let row_bytes = split::ld(cols) * size_of::<f16>() as u64;
            let boxes = kernel.boxes.map(|boxes| boxes.of_maps(kernel, self.width(kernel), (m, n)));
            let shape = (halves.into(), rows.into(), cols.into());
            factors.push(Factor {
                matrix: split::reference(to, to_lines),
                stride: lines.into(),
                maps: boxes.unwrap_or_default().map(|boxes| {
                    let of = |boxes| map::<f16>(simulator, to.address(), shape, row_bytes, boxes);
                    boxes[which].map_or(UNUSED, of)
                }),
            });
        }
        let split = Split::new(parts[0], parts[1]);
        let entry = if halves == 1 { &ROUNDER } else { &SPLITTER };
        let (grid, size) = ([split.blocks(), 1, 1], (split::THREADS, 0));
        // SAFETY: the argument is of the type of the kernel's parameter.
        unsafe { launch(simulator, entry, grid, size, &[(&raw const split).cast()])? };
        let Ok(factors) = factors.try_into() else { unreachable!("there are two") };
        self.multiply::<f16, f32>(kernel, simulator, factors)
    }

    fn multiply<T: Number, D: Number + Element<Acc = T::Acc>>(
        &self,
        kernel: &KernelInfo,
        simulator: &Simulator,
        [a, b]: [Factor<T>; 2],
    ) -> Result<Vec<u8>, SimError> {
        let Product { m, n, k, clusters, shared, slice, pace, .. } = *self;
        let stored = |shape, seed| {
            Stored::<D>::new(simulator, self, shape, Some(&|row, col| value(seed, row, col)))
        };
        let c = stored((m, n), 2)?;
        let bias = stored((1, n), 3)?;
        let has_c = self.finish == Finish::All;
        let d = Stored::<D>::new(simulator, self, (m, n), None)?;
        let epilogue = Linear::<D> {
            c: c.matrix,
            bias: bias.matrix.data,
            alpha: T::Acc::constant(-0.75),
            beta: T::Acc::constant(if has_c { 0.5 } else { 0.0 }),
            bias_axis: match self.finish {
                Finish::Factor => BiasAxis::None,
                _ => BiasAxis::Column,
            },
            activation: match self.finish {
                Finish::Gelu => Activation::GeluTanh,
                _ => Activation::None,
            },
            ..Linear::identity()
        };

        let sum = size_of::<T::Acc>() as u64;
        let of_slices = Partials::new::<T>(m, n, k, slice.max(1));
        let finishes = kernel.finishes && of_slices.slices == 1;
        let sharing = u64::from(shared.1 * kernel.cluster);
        let tile = u64::from(kernel.tile.bm * kernel.tile.bn * kernel.depth_groups);
        let sums = match kernel.schedule {
            Schedule::SplitK if !finishes => of_slices.product(),
            _ => sharing * tile,
        };
        let signals = vec![0; 4 * (sharing as usize + pace::WORDS as usize)];
        let address = simulator.alloc(signals.len() as u64)?;
        simulator.write(address, &signals)?;
        let workspace = Workspace {
            partials: match sums {
                0 => GlobalPtr::null(),
                _ => GlobalPtr::from_address(simulator.alloc(sum * sums)?),
            },
            signals: GlobalPtr::from_address(address),
        };
        let params = GemmParams::<T, _, D> {
            a: a.matrix,
            b: b.matrix,
            d: TargetRef { first: d.matrix, stride: 0 },
            a_stride: a.stride,
            b_stride: b.stride,
            m,
            n,
            k,
            slice_depth: if kernel.keeps_pace { pace } else { slice },
            shared_tiles: match kernel.fits {
                true => Columns::new(kernel.walked(m, n).1, self.width(kernel)).word(),
                false => shared.0,
            },
            sharing_blocks: shared.1,
            workspace,
            maps: Maps::of_products(1),
            epilogue,
        };
        let params = if kernel.swapped { params.swapped() } else { params };
        let [left, right] = if kernel.swapped { [b, a] } else { [a, b] };
        let [wholes, rests] = [0, 1].map(|which| [left.maps[which], right.maps[which]]);
        let factors = Factors { wholes, rests };
        let row_bytes = n * size_of::<D>() as u32;
        let box_of_d = kernel.boxes.and_then(|boxes| boxes.d);
        let box_of_d = box_of_d.filter(|_| !self.is_odd && row_bytes.is_multiple_of(CHUNK_BYTES));
        let (mut results, mut mappings) = (Results::NONE, Mappings::NONE);
        if let Some(boxes) = box_of_d {
            (results.d, mappings) = (d.map(simulator, boxes), mappings.with_d());
        }
        let box_of_c =
            kernel.boxes.filter(|_| k > 0 && has_c && !self.reads_c).and_then(|boxes| boxes.c);
        if let Some(boxes) = box_of_c {
            (results.c, mappings) = (c.map(simulator, boxes), mappings.with_c(true));
        }
        let decision = match self.is_decided {
            true => decision(simulator)?,
            false => Decision::NONE,
        };
        let matrices = Matrices { factors, results };
        let mapped: [*const c_void; 4] = [
            (&raw const params).cast(),
            (&raw const matrices).cast(),
            (&raw const mappings).cast(),
            (&raw const decision).cast(),
        ];
        let plain = [mapped[0], mapped[3]];
        let tiles = kernel.blocks(m, n) as u32;
        let (blocks, slices) = match kernel.schedule {
            Schedule::Tiles | Schedule::ClusterK => (tiles, 1),
            Schedule::Persistent => (clusters * kernel.cluster, 1),
            Schedule::StreamK => (shared.1 + tiles - shared.0, 1),
            Schedule::SplitK => (tiles, of_slices.slices),
        };
        let arguments = if kernel.boxes.is_some() { &mapped[..] } else { &plain };
        let size = (kernel.threads(), kernel.shared_bytes);
        // SAFETY: the arguments are of the types of the kernels' parameters.
        unsafe {
            launch(simulator, &kernel.entry, [blocks, 1, slices], size, arguments)?;
            if let Some(reducer) = kernel.reducer.as_ref().filter(|_| !finishes) {
                let grid = [reduce::blocks::<T>(m, n) as u32, 1, 1];
                launch(simulator, &reducer.entry, grid, (reduce::THREADS, 0), &plain)?;
            }
        }
        let mut bytes = vec![0; (u64::from(m) * d.matrix.ld) as usize * size_of::<D>()];
        simulator.read(d.matrix.data.address(), &mut bytes)?;
        Ok(bytes)
    }
}
