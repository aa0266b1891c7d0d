//! Everything that can go wrong, with messages that say what was wrong and what would be right.

mod misfit;
mod subject;
mod wording;

use crate::device::DeviceSpec;
use crate::device::workspace::WorkspaceSize;
use crate::kernels::Types;
use crate::precision::Precision;
use cuda_std::sim::SimError;
use cuda_std::tensor_map::TensorMapError;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::{Needs, Rung};
use regemm_kernels::layout::Layouts;
use std::borrow::Cow;
use wording::{
    any_of, batch_of, gpu_suggestion, instead_of, layouts_remedy, names_of, no_room,
    number_of_devices, same_kind, suggestion, what_is_expected,
};

pub use subject::{Operand, Resource, Shape};

/// The result of everything in this library that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong. A message tells all of it: no error has a source besides.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operand's shape does not fit the others.
    #[error("{operand} is {found} but must be {expected}: {because}")]
    ShapeMismatch {
        /// The operand.
        operand: Operand,
        /// Its shape.
        found: Shape,
        /// The shape that would fit.
        expected: Shape,
        /// Where the expectation comes from.
        because: String,
    },

    /// The bias vector has the wrong length.
    #[error("the bias has {found} elements but must have {expected}: one for each {axis} of D")]
    BiasLength {
        /// Its length.
        found: usize,
        /// The length that would fit.
        expected: usize,
        /// `row` or `column`.
        axis: &'static str,
    },

    /// A leading dimension is shorter than a row.
    #[error(
        "the leading dimension is {ld} but a row has {cols} elements: it must be at least {cols}"
    )]
    LeadingDimension {
        /// The leading dimension.
        ld: usize,
        /// Columns of the matrix.
        cols: usize,
    },

    /// The matrices of a batch that is to be written lie neither one behind the other nor side by side in the same
    /// rows.
    #[error(
        "the matrices of the batch begin {stride} elements apart but each takes {needed}: the stride must be at least {needed}, or at least {cols} and all side by side in the {ld} elements of a row"
    )]
    BatchStride {
        /// Elements from one matrix to the next.
        stride: usize,
        /// Elements from the first to the last one of a matrix.
        needed: usize,
        /// Columns of a matrix.
        cols: usize,
        /// Elements from one row of a matrix to the next.
        ld: usize,
    },

    /// An operand is a batch of another number of matrices than D.
    #[error(
        "{operand} is a batch of {found} but D {}: give both the same number, or {operand} as one matrix that is shared",
        batch_of(*expected)
    )]
    BatchMismatch {
        /// The operand.
        operand: Operand,
        /// The number of its matrices.
        found: usize,
        /// The number of D's; none where D is one matrix and no batch.
        expected: Option<usize>,
    },

    /// A slice does not have as many elements as the matrix or vector it stands for.
    #[error("the slice has {found} elements but {layout} takes {needed}")]
    SliceLength {
        /// Its length.
        found: usize,
        /// The length that is needed.
        needed: usize,
        /// What it stands for.
        layout: String,
    },

    /// A range of rows, columns or matrices does not lie in the matrix or batch.
    #[error("{axis} {start}..{end} do not lie in what has {len} {axis}")]
    Range {
        /// `rows`, `columns` or `matrices`.
        axis: &'static str,
        /// First index.
        start: usize,
        /// One past the last index.
        end: usize,
        /// Rows, columns or matrices that there are.
        len: usize,
    },

    /// D shares memory with an operand it must not share memory with.
    ///
    /// Of matrices of the same leading dimension, and batches of the same stride as well, that is told exactly, however
    /// they interleave. Of others, such as two batches of different strides in one matrix, what lies between the
    /// elements counts too: operands that interleave so are refused.
    #[error(
        "D (addresses {d_start:#x}..{d_end:#x}) overlaps {operand} ({start:#x}..{end:#x}): {remedy}"
    )]
    Overlap {
        /// The operand.
        operand: Operand,
        /// First address of D.
        d_start: u64,
        /// One past D's last address.
        d_end: u64,
        /// First address of the operand.
        start: u64,
        /// One past the operand's last address.
        end: u64,
        /// What would be right.
        remedy: &'static str,
    },

    /// The bytes of a matrix, batch or vector cannot be counted in an address.
    #[error("{rows} x {ld} elements of {dtype} are more bytes than an address can count")]
    SizeOverflow {
        /// Rows of the matrix, or matrices of the batch.
        rows: usize,
        /// Elements from one to the next.
        ld: usize,
        /// Their type.
        dtype: Dtype,
    },

    /// Memory that somebody else owns would end behind the last address.
    #[error("{bytes} bytes from the address {address:#x} on are more than there are addresses for")]
    AddressOverflow {
        /// Where it begins.
        address: u64,
        /// How long it is.
        bytes: u64,
    },

    /// An element's address is no multiple of its size.
    #[error(
        "the address {address:#x} is no multiple of {}, the bytes of an element of {dtype}",
        dtype.bytes()
    )]
    Misaligned {
        /// The address.
        address: u64,
        /// The element type.
        dtype: Dtype,
    },

    /// A dimension of a product, or of a factor that is to be split, is too large for the kernels' 32-bit indices.
    #[error(
        "{name} = {value} is too large: the kernels take at most {limit}; take the matrices in parts"
    )]
    DimensionTooLarge {
        /// `m`, `n`, `k`, or in words what is counted: products, rows, columns, matrices.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The largest value.
        limit: usize,
    },

    /// The device has too little free memory.
    #[error("{}", no_room(*device, *requested, *free))]
    OutOfMemory {
        /// The device.
        device: DeviceSpec,
        /// Bytes asked for.
        requested: u64,
        /// Bytes free at that time; on the simulator those that it would take of the host, which may have fewer.
        free: u64,
    },

    /// The host has too little free memory for a copy of a matrix.
    #[error("the host has no room for a copy of {requested} bytes")]
    OutOfHostMemory {
        /// Bytes asked for.
        requested: usize,
    },

    /// There is no NVIDIA driver: its library cannot be loaded, or is the toolkit's stub.
    #[error("no NVIDIA driver: {why}; the device `sim` works without one")]
    NoDriver {
        /// What was tried and what the system said.
        why: String,
    },

    /// The driver is too old for the embedded PTX.
    #[error(
        "the NVIDIA driver supports CUDA {}.{} but {what} needs {}.{}: update the driver",
        found.0, found.1, needed.0, needed.1
    )]
    DriverTooOld {
        /// CUDA version of the driver.
        found: (u32, u32),
        /// CUDA version that is needed.
        needed: (u32, u32),
        /// What needs it.
        what: String,
    },

    /// There is no CUDA device of this index.
    #[error("there is no device cuda:{ordinal}: {}", number_of_devices(*count))]
    NoSuchDevice {
        /// The index asked for.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },

    /// The text names no device.
    #[error("`{text}` is no device: it must be `auto`, `sim`, `cuda` or `cuda:N` with a number N")]
    InvalidDeviceSpec {
        /// The text.
        text: String,
    },

    /// The GPU is older than all PTX there is for a kernel.
    #[error(
        "kernel {kernel} is compiled for {available}, and {device} has compute capability {}.{}, which runs none of it: choose another device, or `sim`",
        capability.0, capability.1
    )]
    GpuTooOld {
        /// The device's name.
        device: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// The kernel.
        kernel: String,
        /// The architectures there is PTX for.
        available: String,
    },

    /// All PTX there is for a kernel is compiled for architectures that lack what the kernel needs.
    #[error(
        "{kernel} needs {needs}, and its PTX is compiled for {available}: build the kernel crate for an architecture that has it (sm_80, or sm_90a for 9.0)"
    )]
    PtxLacks {
        /// The kernel.
        kernel: String,
        /// What it needs.
        needs: Needs,
        /// The architectures there is PTX for.
        available: String,
    },

    /// There is no PTX for a kernel at all.
    #[error(
        "no PTX module has the entry `{kernel}`: build the kernel crate with cuda_builder and embed its PTX"
    )]
    NoPtx {
        /// The kernel.
        kernel: String,
    },

    /// What is embedded as a kernel's PTX is something else.
    #[error(
        "the embedded PTX of {kernel} for {arch} cannot be unpacked ({why}): embed what cuda_builder writes"
    )]
    DamagedPtx {
        /// The kernel.
        kernel: &'static str,
        /// The architecture that the module is for.
        arch: &'static str,
        /// What is wrong with it.
        why: String,
    },

    /// Operands live on different devices.
    #[error(
        "{operand} is on {found} but {} on {expected}: all must be on one device{}",
        what_is_expected(*operand), same_kind(*found, *expected)
    )]
    DeviceMismatch {
        /// The operand that is elsewhere.
        operand: Operand,
        /// Where it is.
        found: DeviceSpec,
        /// Where A is, or the stream whose clock is measured, or where the factor is to be split or the matrix to be
        /// copied.
        expected: DeviceSpec,
    },

    /// No kernel has this name.
    #[error("there is no kernel `{name}`; {}", suggestion(near))]
    UnknownKernel {
        /// The name.
        name: String,
        /// Names like it, best first.
        near: Vec<&'static str>,
    },

    /// No kernel of this name is for these element types, but some are for others.
    #[error("there is no kernel `{name}` for matrices of {expected}, only for {}", any_of(found))]
    KernelWithoutDtype {
        /// The name.
        name: String,
        /// Those of the matrices.
        expected: Types,
        /// Those that there are kernels of this name for.
        found: Vec<Types>,
    },

    /// No kernel of this rung is for these element types.
    #[error(
        "rung {rung} has no kernels for matrices of {expected}; these have: {}",
        names_of(found)
    )]
    RungWithoutDtype {
        /// The rung.
        rung: Rung,
        /// The types of the matrices.
        expected: Types,
        /// The rungs with kernels for them.
        found: Vec<Rung>,
    },

    /// A kernel that computes in another precision than the product's.
    #[error("kernel {kernel} computes in precision {precision}: ask for that precision too")]
    KernelOfPrecision {
        /// The kernel.
        kernel: &'static str,
        /// What it computes in.
        precision: Precision,
    },

    /// A kernel that no product can name: only [`Precision::Auto`] launches it, beside one by halves.
    #[error(
        "kernel {kernel} is launched by precision auto alone: ask for that precision and for no kernel"
    )]
    KernelOfAuto {
        /// The kernel.
        kernel: &'static str,
    },

    /// No GPU of this name is known.
    #[error("no GPU `{name}` is known; {}", gpu_suggestion(near, known))]
    UnknownGpu {
        /// The name.
        name: String,
        /// Ids like it, best first.
        near: Vec<&'static str>,
        /// All ids.
        known: Vec<&'static str>,
    },

    /// A kernel for other element types.
    #[error("kernel {kernel} is for matrices of {found} but these are of {expected}")]
    KernelDtype {
        /// The kernel.
        kernel: &'static str,
        /// Its element types.
        found: Types,
        /// Those of the matrices.
        expected: Types,
    },

    /// A kernel for factors that lie otherwise in memory.
    #[error(
        "kernel {kernel} takes A and B as `{found}` but these are `{expected}` (n: row-major, t: transposed, A first): {}",
        layouts_remedy(kernel, fitting)
    )]
    KernelLayouts {
        /// The kernel.
        kernel: &'static str,
        /// The layouts that it takes.
        found: Layouts,
        /// The layouts of the factors.
        expected: Layouts,
        /// Kernels for these; none where the kernel is the user's own.
        fitting: Vec<&'static str>,
    },

    /// A kernel needs what the GPU does not have.
    #[error(
        "kernel {kernel} needs {needs}, but {device} has compute capability {}.{}: choose one of a lower rung",
        found.0, found.1
    )]
    KernelNeeds {
        /// The kernel.
        kernel: &'static str,
        /// What it needs.
        needs: Needs,
        /// The device's compute capability.
        found: (u32, u32),
        /// The device's name.
        device: String,
    },

    /// A kernel that the device cannot run.
    #[error(
        "kernel {kernel} needs {needed} {resource} but {device} has {available}: {}",
        instead_of(*resource)
    )]
    KernelDoesNotFit {
        /// The kernel.
        kernel: &'static str,
        /// What is short.
        resource: Resource,
        /// How much the kernel needs.
        needed: u64,
        /// How much there is.
        available: u64,
        /// The device's name.
        device: String,
    },

    /// A workspace that was given is too small for the product.
    #[error(
        "the product needs a workspace of {needed} but the given one has {found}: make one of `Gemm::workspace_size`, or give none"
    )]
    WorkspaceTooSmall {
        /// What the workspace holds.
        found: WorkspaceSize,
        /// What the product needs.
        needed: WorkspaceSize,
    },

    /// A custom kernel's parameters are not those of its epilogue type.
    #[error(
        "kernel {kernel} takes {found} but this epilogue type makes {expected}: name the epilogue of the kernel's row"
    )]
    KernelParameters {
        /// The kernel.
        kernel: &'static str,
        /// Its parameters.
        found: String,
        /// The parameters that would be passed.
        expected: String,
    },

    /// Something was set that this epilogue would ignore.
    #[error("{part} would have no effect here: {remedy}")]
    CustomEpilogue {
        /// What was set.
        part: &'static str,
        /// What would be right.
        remedy: &'static str,
    },

    /// A device does not have what a precision takes.
    #[error("precision {precision} does not go with this device: it takes {takes}")]
    DeviceWithoutPrecision {
        /// The precision.
        precision: Precision,
        /// The compute capability it takes.
        takes: &'static str,
    },

    /// A product cannot be computed in this precision.
    #[error("precision {precision} does not go with {with}: {remedy}")]
    Precision {
        /// The precision.
        precision: Precision,
        /// What it does not go with.
        with: &'static str,
        /// What would.
        remedy: &'static str,
    },

    /// Halves that a factor was split into before do not go where they are given.
    #[error("the halves of {operand} do not fit: {why}")]
    Halves {
        /// Whose halves.
        operand: Operand,
        /// Why not.
        why: &'static str,
    },

    /// A record of precisions is for fewer products than a batch has.
    #[error("the record has room for {found} products, but there are {needed}: make it as large")]
    RecordTooSmall {
        /// Products that it has room for.
        found: u32,
        /// Products that there are.
        needed: u32,
    },

    /// A fault that the simulator found in a kernel, or a request it cannot fulfil.
    #[error("simulator: {0}")]
    Simulator(SimError),

    /// Bulk copies cannot take a matrix, or not in such boxes.
    #[error("no tensor map can be made: {0}")]
    TensorMap(TensorMapError),

    /// A call to the CUDA driver failed.
    #[error("{call} failed: {name} ({code}): {text}")]
    Cuda {
        /// The driver's function.
        call: &'static str,
        /// Its result code.
        code: i32,
        /// The code's name.
        name: String,
        /// The driver's explanation.
        text: String,
    },

    /// A stream is being captured in a graph, and something is asked of it that a graph cannot hold. The capture goes
    /// on without it.
    #[error("the stream is being captured in a graph, in which {needed} is not possible: {remedy}")]
    Capturing {
        /// What would be needed.
        needed: &'static str,
        /// What would be right.
        remedy: &'static str,
    },

    /// Something of the CUDA driver was given to the simulator.
    #[error(
        "{what} belongs to a CUDA device, and this is the simulator: open one with `Device::cuda`"
    )]
    NotCuda {
        /// What was given.
        what: &'static str,
    },

    /// A time cannot be measured, such as on the simulator, which has no clock.
    #[error("no time can be measured: {why}")]
    NotMeasurable {
        /// Why not.
        why: Cow<'static, str>,
    },
}
