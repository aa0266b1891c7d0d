//! Kernels with an epilogue of the user's own.
//!
//! A kernel crate of the user's instantiates `regemm_kernels::gemm_kernels!` with an [`Epilogue`] written in plain Rust
//! and is compiled by `cuda_builder`. What the macro's table and the build script give goes into a [`CustomKernel`],
//! which [`Gemm::run_custom`](super::Gemm::run_custom) runs on a GPU and on the simulator alike.

use crate::device::ptx::PtxModule;
use crate::device::report::KernelReport;
use crate::device::{Device, KernelSource};
use crate::error::{Error, Result};
use crate::kernels::Types;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::entry::Parameter;
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::params::GemmParams;
use std::fmt;
use std::marker::PhantomData;

/// A kernel for factors of `T` that ends in the epilogue `E`, whose results are of `D`.
pub struct CustomKernel<T, E, D = T> {
    source: KernelSource,
    types: PhantomData<fn(T, E, D)>,
}

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
        let map = Parameter::of::<TensorMap>();
        let flag = Parameter::of::<u32>();
        let all = [Parameter::of::<GemmParams<T, E, D>>(), map, map, map, flag];
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
