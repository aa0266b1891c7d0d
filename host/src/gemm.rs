//! The product `D = activation(alpha * A * B + beta * C + bias)`: a builder, and its execution.
//!
//! | module | what it holds |
//! |---|---|
//! | [`operands`] | what a product takes and gives: matrices and batches, transposed or not |
//! | `selection` | which kernel, in which precision |
//! | `validate` | shapes, devices and sizes of the operands |
//! | `overlap` | which views share memory |
//! | `execute` | from checked operands to a launch |
//! | `prepare` | factors as kernels take them |
//! | `repack` | those that bulk copies cannot take |
//! | `halves` | those of f32 in halves |
//! | [`kept`] | factors of f32 that are split once and kept so |
//! | `decide` | an exact product behind one by halves, of which the GPU takes one |
//! | [`custom`] | kernels with an epilogue of the user's own |

pub mod custom;
mod decide;
mod execute;
mod halves;
pub mod kept;
pub mod operands;
mod overlap;
mod prepare;
mod repack;
mod selection;
mod validate;

use crate::device::stream::Stream;
use crate::device::workspace::{Workspace, WorkspaceSize};
use crate::device::{Device, Region};
use crate::error::{Error, Result};
use crate::kernels::{Repack, Why};
use crate::precision::{Computed, Precision, PrecisionRecord};
use cuda_std::sim::Counters;
use execute::execute;
pub use kept::SplitMatrix;
use ndarray::{Array2, ArrayView2};
pub use operands::{Factor, Target, Term};
use regemm_kernels::element::{Accumulator, Element, Yields};
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::kernel::{KernelInfo, Rung};
use regemm_kernels::params::MatrixRef;
use std::num::NonZeroU32;

/// Which kernel runs a product.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum KernelChoice {
    /// The library chooses: by measured times if there are some ([`tuning`](crate::tuning)), else by rule
    /// ([`rank`](crate::kernels::rank)).
    #[default]
    Auto,
    /// By name: that of an entry (`tiled16_nt_f32`), the part before the element type (`tiled16_nt`), or the part
    /// before the layouts (`tiled16`), which means the kernel for the layouts of the factors.
    Named(String),
    /// The kernel of a rung that is expected to be the fastest of those the device can run, as for `Auto`.
    Rung(Rung),
    /// The kernel of the table with this one's name.
    Info(&'static KernelInfo),
}

/// What became of a product.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The kernel; with [`Precision::Auto`], where the GPU decides, the one by halves, also if the product was then
    /// left to an exact one.
    pub kernel: &'static KernelInfo,
    /// Why this one.
    pub why: Why,
    /// What it was computed in: not known yet where the GPU decides that and was not waited for.
    pub computed: Computed,
    /// What the kernel did; only the simulator counts.
    pub counters: Option<Counters>,
    /// Whether a kernel was launched: not where D has no elements.
    pub launched: bool,
    /// What was copied first, since the kernel's bulk copies cannot take it as it is stored, or transposed.
    pub repacked: Repack,
}

/// C of a product.
#[derive(Clone, Copy, Debug)]
enum Addend<'a, D: Element> {
    None,
    Term(Term<'a, D>),
    /// D itself.
    Accumulate,
}

/// A product of matrices, `D[m x n] = activation(alpha * A[m x k] * B[k x n] + beta * C[m x n] + bias)`.
///
/// Without further calls alpha is 1 and there is no C, bias or activation. Alpha, beta and the slope are of the type in
/// which products are summed: f64 for f64, else f32. `beta == 0` never reads C and `alpha == 0` never reads A or B, so
/// that NaN there does not matter; where `k == 0` the product is zero.
///
/// A and B may be transposed: [`Matrix::t`](crate::Matrix::t). So a column-major `m x k` matrix with leading dimension
/// `ld` is `device.upload_slice(&data, k, m, ld)?`, of which `t()` is passed as A; nothing is moved. D and C are
/// row-major. If D is a [batch](crate::Batch) there are as many products, in one launch: every other operand is a batch
/// of the same number, or one matrix that all products share.
///
/// # Element types
///
/// A and B are of one type, `T`. D, C and the bias are of the same, or, where A and B are [`f16`](crate::f16) or
/// [`bf16`](crate::bf16), of f32, all three. Then the sums, which are of f32 in any case, are not rounded on their way
/// to D. Such a product begins with [`Gemm::widening`]:
/// ```
/// use regemm::{Device, Gemm, bf16};
/// use regemm::ndarray::Array2;
///
/// let device = Device::sim();
/// let third = device.upload(&Array2::from_elem((1, 1), bf16::from_f32(1.0 / 3.0)).view())?;
/// let (mut short, mut long) = (device.matrix::<bf16>(1, 1)?, device.matrix::<f32>(1, 1)?);
/// Gemm::new(&third, &third).run(&mut short)?;
/// Gemm::widening(&third, &third).run(&mut long)?;
/// assert_eq!(long.to_array()?[[0, 0]], 0.333984375f32 * 0.333984375);
/// assert_eq!(short.to_array()?[[0, 0]], bf16::from_f32(long.to_array()?[[0, 0]]));
/// # Ok::<(), regemm::Error>(())
/// ```
///
/// Tensor cores truncate sums instead of rounding them, which shows in results of f32 where K is deep:
/// [`Precision::Promoted`] bounds that.
///
/// # Memory
///
/// Some products need memory besides their operands ([`Gemm::workspace_size`] says how much): where several blocks sum
/// parts of the same elements of D, and where A or B is repacked. The fastest kernels on Hopper take factors in half
/// precision only if their address, their leading dimension and the distance between the matrices of a batch are
/// multiples of 16 bytes. Where it pays, as in all but small products, another factor is first copied into aligned rows
/// ([`Report::repacked`]), which takes a little more memory than the factor itself. In f32 these kernels take A
/// transposed and B row-major; factors in other layouts are copied, and transposed, where that is faster than to do so
/// for each tile of D. The first product of that kind on a stream allocates the memory, later ones use it again. If a
/// [workspace](Gemm::workspace) is given nothing is allocated, and one that is too small is an error.
///
/// # Examples
/// ```
/// use regemm::{Activation, Device, Gemm};
/// use regemm::ndarray::array;
///
/// let device = Device::sim();
/// let a = device.upload(&array![[1.0f32, 2.0], [3.0, 4.0]].view())?;
/// let b = device.upload(&array![[1.0f32, -1.0], [0.0, 1.0]].view())?;
/// let mut d = device.matrix(2, 2)?;
/// Gemm::new(&a, &b).alpha(10.0).activation(Activation::Relu).run(&mut d)?;
/// assert_eq!(d.to_array()?, array![[10.0, 10.0], [30.0, 10.0]]);
/// # Ok::<(), regemm::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a product does nothing until it is run or enqueued"]
pub struct Gemm<'a, T: Element, D: Element = T> {
    a: Factor<'a, T>,
    b: Factor<'a, T>,
    alpha: T::Acc,
    beta: T::Acc,
    c: Addend<'a, D>,
    bias: Option<(BiasAxis, Term<'a, D>)>,
    activation: Activation,
    slope: T::Acc,
    kernel: KernelChoice,
    precision: Option<Precision>,
    any_size: bool,
    record: Option<&'a PrecisionRecord>,
    slices: Option<u32>,
    workspace: Option<&'a Workspace>,
    epilogue_operands: Vec<Region<'a>>,
    epilogue_results: Vec<Region<'a>>,
}

impl<'a, T: Element> Gemm<'a, T> {
    /// The product `A * B`, with results of the factors' type.
    pub fn new(a: impl Into<Factor<'a, T>>, b: impl Into<Factor<'a, T>>) -> Self {
        Self::widening(a, b)
    }
}

impl<'a, T: Element + Yields<D>, D: Element<Acc = T::Acc>> Gemm<'a, T, D> {
    /// The product `A * B`, with results of the type that D has: see [element types](Gemm#element-types).
    pub fn widening(a: impl Into<Factor<'a, T>>, b: impl Into<Factor<'a, T>>) -> Self {
        let identity = Linear::<D>::identity();
        Gemm {
            a: a.into(),
            b: b.into(),
            alpha: identity.alpha,
            beta: identity.beta,
            c: Addend::None,
            bias: None,
            activation: identity.activation,
            slope: identity.slope,
            kernel: KernelChoice::Auto,
            precision: None,
            any_size: false,
            record: None,
            slices: None,
            workspace: None,
            epilogue_operands: Vec::new(),
            epilogue_results: Vec::new(),
        }
    }

    /// The factor of the product, of f64 in products of f64 and of f32 in all others. Any value, also infinities and
    /// NaN, which do what IEEE 754 says.
    pub fn alpha(mut self, alpha: T::Acc) -> Self {
        self.alpha = alpha;
        self
    }

    /// Adds `beta * C`. C may be the same matrix or batch as D; otherwise it must not overlap D, which is
    /// [told exactly](crate::Error::Overlap) of parts of one matrix. Replaces [`Gemm::accumulate`].
    pub fn c(mut self, beta: T::Acc, c: impl Into<Term<'a, D>>) -> Self {
        self.beta = beta;
        self.c = Addend::Term(c.into());
        self
    }

    /// Adds `beta` times what D holds before. Replaces [`Gemm::c`].
    pub fn accumulate(mut self, beta: T::Acc) -> Self {
        self.beta = beta;
        self.c = Addend::Accumulate;
        self
    }

    /// Adds to every row a vector of `n` elements, one for each column; a batch of vectors is one of matrices of one
    /// row. Replaces [`Gemm::bias_per_row`].
    pub fn bias_per_column(mut self, bias: impl Into<Term<'a, D>>) -> Self {
        self.bias = Some((BiasAxis::Column, bias.into()));
        self
    }

    /// Adds to every column a vector of `m` elements, one for each row; a batch of vectors is one of matrices of one
    /// row. Replaces [`Gemm::bias_per_column`].
    pub fn bias_per_row(mut self, bias: impl Into<Term<'a, D>>) -> Self {
        self.bias = Some((BiasAxis::Row, bias.into()));
        self
    }

    /// The function that is applied last.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// The slope of [`Activation::LeakyRelu`] below zero; 0.01 unless set.
    pub fn leaky_slope(mut self, slope: T::Acc) -> Self {
        self.slope = slope;
        self
    }

    /// The kernel; chosen by the library unless set.
    pub fn kernel(mut self, kernel: KernelChoice) -> Self {
        self.kernel = kernel;
        self
    }

    /// What the product is computed in. Every precision but [`Precision::Exact`] is [for some
    /// types](Precision::is_for) only, and uses kernels of its own or a part of the others; if a
    /// [kernel](Gemm::kernel) is set as well it must be one of those. Unless set, the precision is that of the
    /// [handle](Device::with_precision) by which A was made, if it is for these types; where a kernel is set it is
    /// `Exact`.
    ///
    /// ```
    /// use regemm::{Device, Gemm, Precision};
    /// use regemm::ndarray::array;
    ///
    /// let device = Device::sim();
    /// let a = device.upload(&array![[1.0f32, 1e-6], [3e30, 4.0]].view())?;
    /// let mut d = device.matrix(2, 2)?;
    /// Gemm::new(&a, a.t()).precision(Precision::Split).run(&mut d)?;
    /// assert_eq!(d.to_array()?[[0, 0]], 1.0);
    /// # Ok::<(), regemm::Error>(())
    /// ```
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Lets the data decide between the ways of [`Precision::Auto`] also where a product is so small that halves save
    /// no time. Then the way does not depend on the size, except that a product too shallow for halves to be accurate
    /// enough is still computed exactly.
    pub fn auto_at_any_size(mut self) -> Self {
        self.any_size = true;
        self
    }

    /// Where it is noted what the product is computed in, for work on a stream of [`Precision::Auto`]: see
    /// [`PrecisionRecord`].
    pub fn record_precision(mut self, record: &'a PrecisionRecord) -> Self {
        self.record = Some(record);
        self
    }

    /// How K is divided, with a kernel that divides it; others ignore it. The number is
    ///
    /// - with one of [`Schedule::SplitK`] that of the slices of K (split-K's, not the slices of `BK` values that pass
    ///   through shared memory), each of which is summed by itself: fewer where K is too shallow for so many,
    /// - with one of [`Schedule::StreamK`] or [`Schedule::Persistent`] that of the blocks, or clusters of blocks, that
    ///   share the tiles of the last round, where a round has one tile for each of them. It is ignored where the tiles
    ///   come out even, or are not worth sharing.
    ///
    /// Unless set it follows from the product and the device's number of multiprocessors ([`LaunchShape`]). The same
    /// kernel with the same number gives the same bits on every device, but for tensor cores, which do not add alike
    /// everywhere.
    ///
    /// [`Schedule::SplitK`]: regemm_kernels::kernel::Schedule::SplitK
    /// [`Schedule::StreamK`]: regemm_kernels::kernel::Schedule::StreamK
    /// [`Schedule::Persistent`]: regemm_kernels::kernel::Schedule::Persistent
    /// [`LaunchShape`]: crate::kernels::LaunchShape
    pub fn slices(mut self, slices: NonZeroU32) -> Self {
        self.slices = Some(slices.get());
        self
    }

    /// Memory for sums that are not finished and copies of factors, at least of [`Gemm::workspace_size`]. Unless given
    /// the stream has its own, and the device for the work of no stream: it grows when a product needs more than any
    /// before it, and then waits for the work that is on the stream.
    pub fn workspace(mut self, workspace: &'a Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// The memory that the product needs besides its operands, as it is now, with the kernel that is chosen for it. The
    /// choice is made as for the product itself: with [`Tuning::FirstUse`](crate::tuning::Tuning::FirstUse) the first
    /// one of a shape measures kernels. For a kernel of your own there is [`Gemm::workspace_size_custom`].
    ///
    /// # Errors
    /// As for [`Gemm::run`], as far as the operands are concerned.
    pub fn workspace_size<'d>(&self, d: impl Into<Target<'d, D>>) -> Result<WorkspaceSize> {
        self.check_no_custom_parts()?;
        let d = d.into();
        let problem = validate::problem(self, &d, self.in_precision())?;
        let selection = self.select(&problem, &d, None)?;
        let problem = self.without_factors_of_zero(problem);
        Ok(self.plan(selection, problem, Vec::new()).shape().1)
    }

    /// Computes D and waits for it.
    ///
    /// # Errors
    /// - The operands: [`Error::ShapeMismatch`], [`Error::BiasLength`], [`Error::BatchMismatch`],
    ///   [`Error::DimensionTooLarge`], [`Error::DeviceMismatch`], [`Error::Halves`], and [`Error::Overlap`] where D
    ///   overlaps A, B, the bias or a different C.
    /// - The kernel: [`Error::UnknownKernel`], [`Error::KernelDtype`], [`Error::KernelWithoutDtype`],
    ///   [`Error::RungWithoutDtype`], [`Error::KernelLayouts`], [`Error::KernelNeeds`], [`Error::KernelDoesNotFit`],
    ///   [`Error::KernelOfPrecision`]; [`Error::Precision`], [`Error::DeviceWithoutPrecision`];
    ///   [`Error::CustomEpilogue`] where operands of a custom epilogue were set.
    /// - What it takes: [`Error::WorkspaceTooSmall`], [`Error::RecordTooSmall`], [`Error::OutOfMemory`];
    ///   [`Error::NoPtx`], [`Error::DamagedPtx`], [`Error::GpuTooOld`], [`Error::PtxLacks`], [`Error::DriverTooOld`];
    ///   [`Error::TensorMap`] where bulk copies cannot take an operand in the kernel's boxes.
    /// - [`Error::Cuda`] or [`Error::Simulator`] where the device fails. Where a kernel fails D may have been written
    ///   in part.
    pub fn run<'d>(self, d: impl Into<Target<'d, D>>) -> Result<Report> {
        self.start(&d.into(), None)
    }

    /// Computes D on a stream, after the work that is on it and after all other work on these matrices; returns at
    /// once. The matrices may be used, changed and dropped as usual. On the simulator the work is done on return.
    ///
    /// # Errors
    /// As for [`Gemm::run`], and [`Error::Capturing`] where the stream is being captured and the product needs what a
    /// graph cannot hold; failures of a kernel on a GPU are reported by a later synchronisation.
    pub fn enqueue<'d>(self, stream: &Stream, d: impl Into<Target<'d, D>>) -> Result<Report> {
        self.start(&d.into(), Some(stream))
    }

    /// An error where something is named that only a custom epilogue uses.
    fn check_no_custom_parts(&self) -> Result<()> {
        if self.epilogue_operands.is_empty() && self.epilogue_results.is_empty() {
            return Ok(());
        }
        Err(Error::CustomEpilogue {
            part: "operands of a custom epilogue",
            remedy: "run them with a custom kernel",
        })
    }

    fn start(&self, d: &Target<'_, D>, stream: Option<&Stream>) -> Result<Report> {
        self.check_no_custom_parts()?;
        let problem = validate::problem(self, d, self.in_precision())?;
        validate::stream(self, stream)?;
        let selection = self.select(&problem, d, stream)?;
        let problem = self.without_factors_of_zero(problem);
        // Without a product there is nothing that an infinite or undefined factor could turn into NaN.
        let alpha = if problem.k == 0 { T::Acc::ZERO } else { self.alpha };

        let c = match self.c {
            _ if self.beta == T::Acc::ZERO => None,
            Addend::None => None,
            Addend::Term(c) => Some(c),
            Addend::Accumulate => Some(d.view()),
        };
        let (bias_axis, bias) = self.bias.unzip();
        let epilogue = Linear {
            c: c.map_or(MatrixRef::NULL, |c| c.first.to_kernel()),
            bias: bias.map_or(MatrixRef::NULL, |bias| bias.first.to_kernel()).data,
            c_stride: c.map_or(0, |c| c.stride()),
            bias_stride: bias.map_or(0, |bias| bias.stride()),
            alpha,
            // Without C there is nothing that beta could multiply.
            beta: if c.is_some() { self.beta } else { T::Acc::ZERO },
            slope: self.slope,
            bias_axis: bias_axis.unwrap_or_default(),
            activation: self.activation,
        };
        let others = [c, bias].map(|term| term.map(|term| term.first.region()));
        let plan = self.plan(selection, problem, others.into_iter().flatten().collect());
        // SAFETY: the operands are checked, so that the kernel, which is one of the table, stays within them; the
        // epilogue's C and bias are among the operands.
        unsafe { execute(&plan, epilogue, (d, c), stream) }
    }
}

/// `A * B` of two arrays of any strides, `m x k` times `k x n`, on a device: an array of `m x n`.
///
/// Each call uploads A and B, waits for the product and downloads it. To multiply the same matrix again, or to go on
/// with the result, keep the matrices on the device and use [`Gemm`].
///
/// # Examples
/// ```
/// use regemm::ndarray::array;
/// use regemm::{Device, matmul};
///
/// let device = Device::auto()?;
/// let a = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let b = array![[1.0], [0.0], [-1.0]];
/// assert_eq!(matmul(&device, &a.view(), &b.view())?, array![[-2.0], [-2.0]]);
/// # Ok::<(), regemm::Error>(())
/// ```
///
/// # Errors
/// [`Error::ShapeMismatch`], [`Error::DimensionTooLarge`], [`Error::OutOfMemory`], [`Error::OutOfHostMemory`], or the
/// device fails.
pub fn matmul<T: Element>(
    device: &Device,
    a: &ArrayView2<'_, T>,
    b: &ArrayView2<'_, T>,
) -> Result<Array2<T>> {
    let (a, b) = (device.upload(a)?, device.upload(b)?);
    let mut d = device.matrix(a.rows(), b.cols())?;
    Gemm::new(&a, &b).run(&mut d)?;
    d.to_array()
}
