//! From checked operands to a launch.

use super::Report;
use crate::device::stream::Stream;
use crate::device::{Buffer, KernelSource, Launch};
use crate::error::Result;
use crate::kernels::{Problem, Why};
use crate::matrix::view::{MatrixView, MatrixViewMut};
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::params::GemmParams;

/// A product whose operands are checked.
pub(super) struct Plan<'a, T: Element> {
    pub kernel: KernelSource,
    pub why: Why,
    pub problem: Problem,
    pub a: MatrixView<'a, T>,
    pub b: MatrixView<'a, T>,
    /// Memory that the epilogue reads.
    pub epilogue_operands: Vec<&'a Buffer>,
}

/// Runs or enqueues the kernel; nothing where D has no elements.
///
/// # Safety
/// The problem is that of A, B and D, which are valid and do not overlap; the kernel keeps
/// [`GemmKernel`](regemm_kernels::kernel::GemmKernel)'s contract for epilogues of type `E`, and the epilogue is valid
/// until the work is done.
pub(super) unsafe fn execute<T: Element, E: Epilogue<T>>(
    plan: &Plan<'_, T>,
    epilogue: E,
    d: &MatrixViewMut<'_, T>,
    stream: Option<&Stream>,
) -> Result<Report> {
    let Problem { m, n, k, .. } = plan.problem;
    let skipped =
        Report { kernel: plan.kernel.info, why: plan.why, counters: None, launched: false };
    let blocks = plan.kernel.info.blocks(m, n);
    if blocks == 0 {
        return Ok(skipped);
    }

    let params = GemmParams {
        a: plan.a.to_kernel(),
        b: plan.b.to_kernel(),
        d: d.view().to_kernel(),
        m,
        n,
        k,
        epilogue,
    };
    let factors = [plan.a.buffer(), plan.b.buffer()];
    let mut reads: Vec<&Buffer> = factors.into_iter().flatten().collect();
    reads.extend(&plan.epilogue_operands);
    let launch = Launch {
        kernel: plan.kernel,
        // `supports` has compared them with the largest grid, which has fewer than 2^31.
        blocks: blocks as u32,
        argument: (&raw const params).cast(),
        reads: &reads,
        writes: d.buffer(),
    };
    // SAFETY: as promised by the caller; the parameters live until the launch has copied them.
    let counters = unsafe { d.device().launch(&launch, stream)? };
    Ok(Report { counters, launched: true, ..skipped })
}
