//! Devices: one API over two machines, a CUDA GPU and the simulator.
//!
//! | module | what it holds |
//! |---|---|
//! | [`info`] | names and limits |
//! | [`stream`] | streams and events |
//! | [`report`] | what a kernel takes of a device |
//! | [`ptx`] | the embedded PTX and the choice among architectures |
//! | [`workspace`] | memory for sums that are not finished, and for copies of factors |
//! | `spec` | the text form of a device: `auto`, `cuda:0`, `sim` |
//! | `buffer` | device memory with the work that is outstanding on it |
//! | `region` | memory that work uses, be it a buffer or somebody else's |
//! | `foreign` | the work that is outstanding on somebody else's memory |
//! | `launch` | kernels as they are launched |
//! | `pending` | how outstanding work is remembered and waited for |
//! | `tensor_map` | what bulk copies need to know of a matrix |
//! | `cuda`, `sim` | the two machines |

mod buffer;
mod cuda;
mod foreign;
pub mod info;
mod launch;
mod pending;
pub mod ptx;
mod region;
pub mod report;
mod sim;
mod spec;
pub mod stream;
mod tensor_map;
pub mod workspace;

pub(crate) use buffer::{Buffer, Rows};
pub(crate) use launch::{Code, KernelSource, Launch, Step};
pub(crate) use pending::Use;
pub(crate) use region::Region;
pub use spec::DeviceSpec;

use crate::error::{Error, Result};
use crate::kernels;
use crate::matrix::Matrix;
use crate::matrix::batch::Batch;
use crate::matrix::vector::Vector;
use crate::precision::{Precision, PrecisionRecord};
use crate::tuning::{Tuner, Tuning};
use cuda::CudaDevice;
use cuda_std::sim::Counters;
use info::{DeviceInfo, DeviceKind};
use ndarray::{ArrayView2, ArrayView3};
use regemm_kernels::element::Element;
use regemm_kernels::kernel::KernelInfo;
use report::KernelReport;
use sim::SimDevice;
use std::fmt;
use std::sync::Arc;
use stream::Stream;
use workspace::{Held, Workspace, WorkspaceSize};

/// A machine that kernels run on: a CUDA GPU or the simulator.
///
/// A handle: clones are the same device, and so are all handles of one GPU that live at the same time. Every simulator
/// that is opened is a machine of its own. Any thread may use it at any time. What a handle says about
/// [precision](Device::with_precision) goes with it to its clones and to all that is made by it, and does not change
/// other handles.
///
/// Matrices, streams and all else that is made by a handle keep the device open; views of memory that somebody else
/// owns do not. Where the last of them is dropped, that waits for the work this library has put on streams, and then
/// the kernels are gone.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
    precision: Precision,
}

struct Inner {
    info: DeviceInfo,
    machine: Machine,
    /// Shared by all handles of one GPU.
    tuner: Arc<Tuner>,
}

pub(crate) enum Machine {
    Cuda(Arc<CudaDevice>),
    Sim(SimDevice),
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoSuchDevice`], or a failure of the driver; never for [`DeviceSpec::Sim`].
    pub fn open(spec: DeviceSpec) -> Result<Device> {
        match spec {
            DeviceSpec::Auto => Device::auto(),
            DeviceSpec::Cuda(ordinal) => Device::cuda(ordinal),
            DeviceSpec::Sim => Ok(Device::sim()),
        }
    }

    /// The first CUDA device; where there is none or no driver, the simulator. [`Device::cuda_devices`] says why, and
    /// so does the log (the crate `log`, level `info`: a program that wants to see it installs a logger). The simulator
    /// is slower by orders of magnitude: a program that must have a GPU opens [`Device::cuda`].
    ///
    /// # Errors
    /// A driver is there but does not work, or a CUDA device that cannot be used.
    pub fn auto() -> Result<Device> {
        match Device::cuda_devices() {
            Ok(0) => log::info!("the simulator is used: there is no CUDA device"),
            Err(error @ Error::NoDriver { .. }) => log::info!("the simulator is used: {error}"),
            Ok(_) => return Device::cuda(0),
            Err(error) => return Err(error),
        }
        Ok(Device::sim())
    }

    /// The CUDA device with this index.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoSuchDevice`], or a failure of the driver.
    pub fn cuda(ordinal: usize) -> Result<Device> {
        let device = CudaDevice::open(ordinal)?;
        let (info, tuner) = (device.info().clone(), Arc::clone(device.tuner()));
        Ok(Device::of(Inner { info, machine: Machine::Cuda(device), tuner }))
    }

    fn of(inner: Inner) -> Device {
        Device { inner: Arc::new(inner), precision: Precision::default() }
    }

    /// Number of CUDA devices.
    ///
    /// # Errors
    /// [`Error::NoDriver`] where there is none, or [`Error::Cuda`] where it does not work.
    pub fn cuda_devices() -> Result<usize> {
        cuda::device_count()
    }

    /// Name and limits.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Whether this is a simulator.
    pub fn is_sim(&self) -> bool {
        matches!(self.machine(), Machine::Sim(_))
    }

    /// What [`Device::open`] takes to open a device like this.
    pub fn spec(&self) -> DeviceSpec {
        match self.info().kind {
            DeviceKind::Cuda { ordinal } => DeviceSpec::Cuda(ordinal),
            DeviceKind::Sim => DeviceSpec::Sim,
        }
    }

    /// A handle of this device with another precision. It is that of products whose A was made by this handle, unless
    /// they set a [precision](crate::Gemm::precision) or a [kernel](crate::Gemm::kernel) themselves, and if it
    /// [is for](Precision::is_for) their element types (mostly f32). All others are computed as without it.
    ///
    /// ```
    /// use regemm::ndarray::Array2;
    /// use regemm::{Computed, Device, Gemm, Precision};
    ///
    /// let device = Device::sim().with_precision(Precision::Split);
    /// let a = device.upload(&Array2::from_elem((16, 80), 0.1f32).view())?;
    /// let mut d = device.matrix(16, 16)?;
    /// let report = Gemm::new(&a, a.t()).run(&mut d)?;
    /// assert_eq!(report.computed, Computed::In(Precision::Split));
    /// let report = Gemm::new(&a, a.t()).precision(Precision::Exact).run(&mut d)?;
    /// assert_eq!(report.computed, Computed::In(Precision::Exact));
    /// # Ok::<(), regemm::Error>(())
    /// ```
    pub fn with_precision(self, precision: Precision) -> Device {
        Device { precision, ..self }
    }

    /// What products of the types that it [is for](Precision::is_for) are computed in where they ask for nothing:
    /// [`Precision::Exact`] unless the handle [says otherwise](Device::with_precision).
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// How kernels are chosen on this device where none is named. Unless [set](Device::set_tuning), what the
    /// environment variable [`TUNING_VARIABLE`](crate::tuning::TUNING_VARIABLE) says, else [`Tuning::Table`].
    pub fn tuning(&self) -> Tuning {
        self.inner.tuner.policy()
    }

    /// Sets how kernels are chosen on this device, for all handles of it.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.inner.tuner.set_policy(tuning);
    }

    pub(crate) fn tuner(&self) -> &Tuner {
        &self.inner.tuner
    }

    /// A new stream: work put on it runs in order, and beside the work of other streams.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Waits for all work on the device and gives memory back that dropped matrices held until now.
    ///
    /// # Errors
    /// A failure of the driver, or of a kernel that ran since the last synchronisation.
    pub fn synchronize(&self) -> Result<()> {
        match self.machine() {
            Machine::Cuda(cuda) => cuda.synchronize(),
            Machine::Sim(_) => Ok(()),
        }
    }

    /// A `rows x cols` matrix without gaps between its rows. Its elements are whatever the memory held on a GPU, and
    /// 0xFF bytes, which are NaN, on the simulator.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`], or a failure of the device.
    pub fn matrix<T: Element>(&self, rows: usize, cols: usize) -> Result<Matrix<T>> {
        Matrix::new(self, rows, cols, cols)
    }

    /// A `rows x cols` matrix of zeros without gaps between its rows.
    ///
    /// # Errors
    /// As for [`Device::matrix`], or a failure of the device.
    pub fn zeros<T: Element>(&self, rows: usize, cols: usize) -> Result<Matrix<T>> {
        self.matrix(rows, cols)?.zeroed()
    }

    /// A `rows x cols` matrix whose rows begin `ld` elements apart; elements and gaps as in [`Device::matrix`].
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::SizeOverflow`], [`Error::OutOfMemory`], or a failure of the device.
    pub fn matrix_with_ld<T: Element>(
        &self,
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Matrix<T>> {
        Matrix::new(self, rows, cols, ld)
    }

    /// A copy of an array of any strides, without gaps between its rows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::OutOfHostMemory`], [`Error::SizeOverflow`], or a failure of the device.
    pub fn upload<T: Element>(&self, array: &ArrayView2<'_, T>) -> Result<Matrix<T>> {
        let mut matrix = self.matrix(array.nrows(), array.ncols())?;
        matrix.copy_from(array)?;
        Ok(matrix)
    }

    /// A copy of a row-major matrix in a slice: element `(row, col)` is `data[row * ld + col]`. The copy has the same
    /// leading dimension, and the gaps between its rows hold what they hold in the slice.
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::SliceLength`] where the slice ends before the last element (what lies
    /// behind it is ignored), [`Error::SizeOverflow`], [`Error::OutOfMemory`], or a failure of the device.
    pub fn upload_slice<T: Element>(
        &self,
        data: &[T],
        rows: usize,
        cols: usize,
        ld: usize,
    ) -> Result<Matrix<T>> {
        Matrix::from_slice(self, data, rows, cols, ld)
    }

    /// A batch of `count` matrices of `rows x cols` elements without gaps; elements as in [`Device::matrix`].
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`], or a failure of the device.
    pub fn batch<T: Element>(&self, count: usize, rows: usize, cols: usize) -> Result<Batch<T>> {
        // The product is checked before anything is made of it.
        Batch::new(self, count, (rows, cols), cols, rows.saturating_mul(cols))
    }

    /// A batch of `count` matrices of `rows x cols` zeros without gaps.
    ///
    /// # Errors
    /// As for [`Device::batch`], or a failure of the device.
    pub fn zeros_batch<T: Element>(
        &self,
        count: usize,
        rows: usize,
        cols: usize,
    ) -> Result<Batch<T>> {
        self.batch(count, rows, cols)?.zeroed()
    }

    /// A batch of `count` matrices of `rows x cols` elements that begin `stride` elements apart, one behind the other
    /// or side by side, with rows `ld` elements apart; elements and gaps as in [`Device::matrix`].
    ///
    /// # Errors
    /// [`Error::LeadingDimension`], [`Error::BatchStride`], [`Error::SizeOverflow`], [`Error::OutOfMemory`], or a
    /// failure of the device.
    pub fn batch_with_strides<T: Element>(
        &self,
        count: usize,
        rows: usize,
        cols: usize,
        ld: usize,
        stride: usize,
    ) -> Result<Batch<T>> {
        Batch::new(self, count, (rows, cols), ld, stride)
    }

    /// A copy of a `count x rows x cols` array of any strides, without gaps.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::OutOfHostMemory`], [`Error::SizeOverflow`], or a failure of the device.
    pub fn upload_batch<T: Element>(&self, array: &ArrayView3<'_, T>) -> Result<Batch<T>> {
        let (count, rows, cols) = array.dim();
        let mut batch = self.batch(count, rows, cols)?;
        batch.copy_from(array)?;
        Ok(batch)
    }

    /// A copy of a slice.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or a failure of the device.
    pub fn vector<T: Element>(&self, data: &[T]) -> Result<Vector<T>> {
        Vector::new(self, data)
    }

    /// Memory that products need besides their operands: see [`Gemm::workspace`](crate::Gemm::workspace).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or a failure of the device.
    pub fn workspace(&self, size: WorkspaceSize) -> Result<Workspace> {
        Workspace::new(self, size)
    }

    /// Memory for what so many products are computed in: see [`PrecisionRecord`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or a failure of the device.
    pub fn precision_record(&self, products: u32) -> Result<PrecisionRecord> {
        PrecisionRecord::new(self, products)
    }

    /// What a kernel [of any precision](crate::kernels::of_all_precisions) takes of this device. On a GPU this compiles
    /// the kernel if it has not been used yet.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], a [misfit](Error::is_misfit), or a failure of the driver.
    pub fn kernel_report(&self, kernel: &KernelInfo) -> Result<KernelReport> {
        // Anyone can make a value of this type, so only its name is trusted.
        let found = kernels::of_all_precisions().find(|known| known.name == kernel.name);
        let kernel = found.map_or_else(|| kernels::find(kernel.name), Ok)?;
        self.report(KernelSource::embedded(kernel))
    }

    /// Why this device cannot run a kernel: one of the errors that are [misfits](Error::is_misfit). None where it can.
    ///
    /// # Errors
    /// As for [`Device::kernel_report`], where it is not about the kernel.
    pub fn refusal(&self, kernel: &KernelInfo) -> Result<Option<Error>> {
        match self.kernel_report(kernel) {
            Ok(_) => Ok(None),
            Err(error) if error.is_misfit() => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn report(&self, kernel: KernelSource) -> Result<KernelReport> {
        match self.machine() {
            Machine::Cuda(cuda) => cuda.report(kernel),
            Machine::Sim(_) => Ok(sim::report(kernel.info)),
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.inner.machine
    }

    /// Whether memory of one can be used on the other.
    pub(crate) fn is_same(&self, other: &Device) -> bool {
        match (self.machine(), other.machine()) {
            (Machine::Cuda(a), Machine::Cuda(b)) => Arc::ptr_eq(a, b),
            _ => Arc::ptr_eq(&self.inner, &other.inner),
        }
    }

    /// The workspace of work on a stream, or on none, held until no more launches use it: the given one if it
    /// is large enough, else the stream's own.
    pub(crate) fn hold_workspace<'w>(
        &'w self,
        size: WorkspaceSize,
        given: Option<&'w Workspace>,
        stream: Option<&'w Stream>,
    ) -> Result<Held<'w>> {
        match (given, self.machine()) {
            (_, _) if size == WorkspaceSize::default() => Ok(Held::NOTHING),
            (Some(given), _) => given.hold(size, stream),
            (None, Machine::Cuda(cuda)) => {
                cuda.hold_workspace(size, stream.and_then(Stream::as_cuda))
            }
            (None, Machine::Sim(sim)) => sim.hold_workspace(size),
        }
    }

    /// Runs kernels after all earlier work on the memory it uses: on a stream without waiting for it, or on none and
    /// to its end. Counters come from the simulator alone.
    ///
    /// # Safety
    /// The kernels keep [`GemmKernel`](regemm_kernels::kernel::GemmKernel)'s contract and their arguments are valid for
    /// them; memory that is named neither in `reads` nor in `writes` stays valid until the work is done.
    pub(crate) unsafe fn launch(
        &self,
        launch: &Launch<'_>,
        stream: Option<&Stream>,
    ) -> Result<Option<Counters>> {
        // SAFETY: as promised by the caller.
        unsafe {
            match self.machine() {
                Machine::Cuda(cuda) => {
                    cuda.launch(launch, stream.and_then(Stream::as_cuda)).map(|()| None)
                }
                Machine::Sim(sim) => sim.launch(launch).map(Some),
            }
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}: {})", self.spec(), self.info().name)
    }
}
