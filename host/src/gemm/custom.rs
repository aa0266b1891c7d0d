//! Kernels with an epilogue of the user's own.
//!
//! 1. Write a kernel crate (`no_std`): an [`Epilogue`] in plain Rust, and `regemm_kernels::gemm_kernels!` with rows
//!    that name kernels to end in it.
//! 2. Compile it in a build script by `cuda_builder`, whose `write_index` writes the list of its PTX.
//! 3. Make a [`CustomKernel`] of a row of the table and that list, and run it by
//!    [`Gemm::run_custom`](super::Gemm::run_custom), on a GPU and on the simulator alike. The choice among your kernels
//!    is yours: one that this device cannot run is refused with an error that [is a misfit](Error::is_misfit).
//!
//! `examples/custom_epilogue` has all of it.

use super::execute::{Plan, execute};
use super::operands::{Target, Term};
use super::{Gemm, Report, validate};
use crate::device::ptx::PtxModule;
use crate::device::report::KernelReport;
use crate::device::stream::Stream;
use crate::device::workspace::WorkspaceSize;
use crate::device::{Device, KernelSource};
use crate::error::{Error, Result};
use crate::kernels::{self, Types, Why};
use crate::matrix::vector::Vector;
use crate::precision::Precision;
use cuda_std::entry::Parameter;
use regemm_kernels::element::{Element, Yields};
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::maps::{Mappings, Matrices};
use regemm_kernels::params::GemmParams;
use std::fmt;
use std::marker::PhantomData;

/// A kernel for factors of `T` that ends in the epilogue `E`, whose results are of `D`.
pub struct CustomKernel<T, E, D = T> {
    source: KernelSource,
    types: PhantomData<fn(T, E, D)>,
}

impl<T, E, D> Clone for CustomKernel<T, E, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E, D> Copy for CustomKernel<T, E, D> {}

impl<T: Element, E: Epilogue<D>, D: Element> CustomKernel<T, E, D> {
    /// The kernel of one row of a table, with the PTX of its crate. For the simulator alone the PTX may be empty.
    ///
    /// # Errors
    /// [`Error::KernelDtype`] and [`Error::KernelParameters`] where the row is for other types.
    ///
    /// # Safety
    /// `info` is a row of a table made by `regemm_kernels::gemm_kernels!`, its epilogue is `E`, and `modules` are what
    /// `cuda_builder` made of that crate.
    pub unsafe fn new(info: &'static KernelInfo, modules: &'static [PtxModule]) -> Result<Self> {
        let (found, expected) = (Types::of(info), Types { factors: T::DTYPE, results: D::DTYPE });
        if found != expected {
            return Err(Error::KernelDtype { kernel: info.name, found, expected });
        }
        let (matrices, mappings) = (Parameter::of::<Matrices>(), Parameter::of::<Mappings>());
        let all = [Parameter::of::<GemmParams<T, E, D>>(), matrices, mappings];
        let expected = if info.boxes.is_some() { &all[..] } else { &all[..1] };
        if info.entry.parameters != expected {
            return Err(Error::KernelParameters {
                kernel: info.name,
                found: describe(info.entry.parameters),
                expected: describe(expected),
            });
        }
        Ok(CustomKernel { source: KernelSource { info, modules }, types: PhantomData })
    }
}

impl<T, E, D> CustomKernel<T, E, D> {
    /// The row of the table.
    pub fn info(&self) -> &'static KernelInfo {
        self.source.info
    }

    /// What the kernel takes of a device: see [`Device::kernel_report`].
    ///
    /// # Errors
    /// As for [`Device::kernel_report`].
    pub fn report(&self, device: &Device) -> Result<KernelReport> {
        device.report(self.source)
    }

    pub(super) fn source(&self) -> KernelSource {
        self.source
    }
}

impl<T, E, D> fmt::Debug for CustomKernel<T, E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomKernel({})", self.info().name)
    }
}

fn describe(parameters: &[Parameter]) -> String {
    let sizes: Vec<_> = parameters.iter().map(|p| format!("{} bytes", p.size)).collect();
    format!("{} parameter(s) of {}", parameters.len(), sizes.join(" and "))
}

/// A product with an epilogue of the user's own.
impl<'a, T: Element + Yields<D>, D: Element<Acc = T::Acc>> Gemm<'a, T, D> {
    /// Names a matrix or batch that the custom epilogue reads through an address in it, so that its work is ordered
    /// after work that writes the matrix, and before work that will.
    pub fn epilogue_reads_matrix<U: Element>(mut self, matrix: impl Into<Term<'a, U>>) -> Self {
        self.epilogue_operands.push(matrix.into().first.region());
        self
    }

    /// Names a vector that the custom epilogue reads: see [`Gemm::epilogue_reads_matrix`].
    pub fn epilogue_reads_vector<U: Element>(mut self, vector: &'a Vector<U>) -> Self {
        self.epilogue_operands.push(vector.buffer().into());
        self
    }

    /// Names a matrix or batch that the custom epilogue writes besides D through an address in it, such as what an
    /// activation was applied to: so that its work is ordered after all other work on it, and who reads it waits. An
    /// epilogue is applied to each element of D once; it may write what belongs to that element, and read nothing that
    /// it writes for others.
    pub fn epilogue_writes_matrix<U: Element>(mut self, matrix: impl Into<Target<'a, U>>) -> Self {
        self.epilogue_results.push(matrix.into().first.region());
        self
    }

    /// Names a vector that the custom epilogue writes: see [`Gemm::epilogue_writes_matrix`].
    pub fn epilogue_writes_vector<U: Element>(mut self, vector: &'a mut Vector<U>) -> Self {
        self.epilogue_results.push(vector.buffer().into());
        self
    }

    /// The memory that the product needs besides its operands with a kernel of the user's own: see
    /// [`Gemm::workspace_size`].
    ///
    /// # Errors
    /// As for [`Gemm::run_custom`], as far as operands and kernel are concerned.
    pub fn workspace_size_custom<'d, E: Epilogue<D>>(
        &self,
        kernel: &CustomKernel<T, E, D>,
        d: impl Into<Target<'d, D>>,
    ) -> Result<WorkspaceSize> {
        Ok(self.plan_custom(kernel, &d.into())?.shape().1)
    }

    /// Computes `D = epilogue(A * B)` with a kernel of the user's own and waits for it.
    ///
    /// # Errors
    /// As for [`Gemm::run`]; [`Error::CustomEpilogue`] where alpha, C, a bias, an activation, a slope, a kernel or a
    /// precision was set, which are for the epilogue or the kernel to say.
    ///
    /// # Safety
    /// Addresses in the epilogue are those of memory on this device that is valid for what the epilogue reads and
    /// writes there, and that nobody else writes, or reads where it writes, at the same time: work on matrices and
    /// vectors that are named ([`Gemm::epilogue_reads_matrix`], [`Gemm::epilogue_writes_matrix`]) is put in order. An
    /// epilogue without addresses needs nothing.
    pub unsafe fn run_custom<'d, E: Epilogue<D>>(
        self,
        kernel: &CustomKernel<T, E, D>,
        epilogue: E,
        d: impl Into<Target<'d, D>>,
    ) -> Result<Report> {
        // SAFETY: as promised by the caller.
        unsafe { self.start_custom(kernel, epilogue, &d.into(), None) }
    }

    /// Computes `D = epilogue(A * B)` with a kernel of the user's own on a stream: see [`Gemm::enqueue`].
    ///
    /// # Errors
    /// As for [`Gemm::run_custom`].
    ///
    /// # Safety
    /// As for [`Gemm::run_custom`], until the work is done. Memory of matrices and vectors that are named stays valid
    /// so long by itself.
    pub unsafe fn enqueue_custom<'d, E: Epilogue<D>>(
        self,
        stream: &Stream,
        kernel: &CustomKernel<T, E, D>,
        epilogue: E,
        d: impl Into<Target<'d, D>>,
    ) -> Result<Report> {
        // SAFETY: as promised by the caller.
        unsafe { self.start_custom(kernel, epilogue, &d.into(), Some(stream)) }
    }

    /// # Safety
    /// As for [`Gemm::enqueue_custom`].
    unsafe fn start_custom<E: Epilogue<D>>(
        &self,
        kernel: &CustomKernel<T, E, D>,
        epilogue: E,
        d: &Target<'_, D>,
        stream: Option<&Stream>,
    ) -> Result<Report> {
        validate::stream(self, stream)?;
        let plan = self.plan_custom(kernel, d)?;
        // SAFETY: the operands are checked; the kernel keeps the contract, as was promised when it was made, and the
        // epilogue is the caller's promise.
        unsafe { execute(&plan, epilogue, (d, None), stream) }
    }

    /// All that a launch needs to know.
    fn plan_custom<E: Epilogue<D>>(
        &self,
        kernel: &CustomKernel<T, E, D>,
        d: &Target<'_, D>,
    ) -> Result<Plan<'a, T>> {
        validate::no_linear_parts(self)?;
        let problem = validate::problem(self, d, Precision::Exact)?;
        kernels::supports(kernel.info(), &problem, self.device().info())?;
        Ok(Plan {
            kernel: kernel.source(),
            why: Why::Custom,
            problem,
            precision: kernels::precise::precision_of(kernel.info()),
            if_marked: None,
            record: self.record,
            a: self.a,
            b: self.b,
            slices: self.slices,
            workspace: self.workspace,
            epilogue_operands: self.epilogue_operands.clone(),
            epilogue_results: self.epilogue_results.clone(),
        })
    }
}
