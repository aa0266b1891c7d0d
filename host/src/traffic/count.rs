//! A run on the simulator.

use super::Traffic;
use crate::device::Device;
use crate::error::Result;
use crate::gemm::{Factor, Gemm, KernelChoice};
use crate::kernels::Problem;
use half::{bf16, f16};
use regemm_kernels::element::{Dtype, Element, Yields};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layout;

/// Runs a kernel on the simulator and gives what it did: exact, and the same every time. It does not depend on what the
/// matrices hold. They are packed; the product is `alpha = 1`, `beta = 0`, without bias and activation. The time grows
/// with `m * n * k`. Of a batch one product is run.
///
/// # Errors
/// [`Error::KernelDtype`](crate::Error::KernelDtype) where the problem is of other element types than the kernel; out
/// of memory; a fault of the kernel.
pub fn count(kernel: &'static KernelInfo, problem: &Problem) -> Result<Traffic> {
    match (problem.dtype, problem.target) {
        (Dtype::F16, Dtype::F32) => run::<f16, f32>(kernel, problem),
        (Dtype::Bf16, Dtype::F32) => run::<bf16, f32>(kernel, problem),
        (Dtype::F32, _) => run::<f32, f32>(kernel, problem),
        (Dtype::F64, _) => run::<f64, f64>(kernel, problem),
        (Dtype::F16, _) => run::<f16, f16>(kernel, problem),
        (Dtype::Bf16, _) => run::<bf16, bf16>(kernel, problem),
    }
}

fn run<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    kernel: &'static KernelInfo,
    problem: &Problem,
) -> Result<Traffic> {
    let device = Device::sim();
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as usize);
    // Not filled: fresh memory of the simulator holds NaN, which costs neither memory of the host nor time.
    let factor = |layout: Layout, rows, cols| {
        let (stored_rows, stored_cols) = layout.stored(rows, cols);
        device.matrix::<T>(stored_rows, stored_cols)
    };
    let (a, b) = (factor(problem.layouts.a, m, k)?, factor(problem.layouts.b, k, n)?);
    let mut d = device.matrix::<D>(m, n)?;
    let (a, b) = (Factor::stored(&a, problem.layouts.a), Factor::stored(&b, problem.layouts.b));
    let report = Gemm::widening(a, b).kernel(KernelChoice::Info(kernel)).run(&mut d)?;
    Ok(report.counters.as_ref().map(Traffic::from).unwrap_or_default())
}
