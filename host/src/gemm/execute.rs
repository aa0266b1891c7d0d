//! From checked operands to a launch.

use super::Report;
use super::operands::{Factor, Target};
use crate::device::stream::Stream;
use crate::device::{Buffer, KernelSource, Launch};
use crate::error::Result;
use crate::kernels::{Problem, Why};
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::params::{GemmParams, TargetRef};

/// Most blocks of a grid along y on every GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
const MAX_PRODUCTS: u32 = 65_535;

/// A product whose operands are checked.
pub(super) struct Plan<'a, T: Element> {
    pub kernel: KernelSource,
    pub why: Why,
    pub problem: Problem,
    pub a: Factor<'a, T>,
    pub b: Factor<'a, T>,
    /// Memory that the epilogue reads.
    pub epilogue_operands: Vec<&'a Buffer>,
}

/// Runs or enqueues the kernel, in one launch for as many products as a grid can have; nothing where D has no elements.
///
/// # Safety
/// The problem is that of A, B and D, which are valid and do not overlap; the kernel keeps
/// [`GemmKernel`](regemm_kernels::kernel::GemmKernel)'s contract for epilogues of type `E`, and the epilogue is valid
/// until the work is done.
pub(super) unsafe fn execute<T: Element, E: Epilogue<T>>(
    plan: &Plan<'_, T>,
    epilogue: E,
    d: &Target<'_, T>,
    stream: Option<&Stream>,
) -> Result<Report> {
    let Problem { m, n, k, batch, .. } = plan.problem;
    let mut report =
        Report { kernel: plan.kernel.info, why: plan.why, counters: None, launched: false };
    let blocks = plan.kernel.info.blocks(m, n);
    if blocks == 0 || batch == 0 {
        return Ok(report);
    }

    let (a, b, d) = (plan.a.stored, plan.b.stored, d.view());
    let params = GemmParams {
        a: a.first.to_kernel(),
        b: b.first.to_kernel(),
        d: TargetRef { first: d.first.to_kernel(), stride: d.stride() },
        a_stride: a.stride(),
        b_stride: b.stride(),
        m,
        n,
        k,
        epilogue,
    };
    let factors = [a.first.buffer(), b.first.buffer()];
    let mut reads: Vec<&Buffer> = factors.into_iter().flatten().collect();
    reads.extend(&plan.epilogue_operands);
    for first in (0..batch).step_by(MAX_PRODUCTS as usize) {
        let params = params.from_product(first);
        let launch = Launch {
            kernel: plan.kernel,
            // `supports` has compared them with the largest grid, which has fewer than 2^31.
            blocks: [blocks as u32, MAX_PRODUCTS.min(batch - first)],
            argument: (&raw const params).cast(),
            reads: &reads,
            writes: d.first.buffer(),
        };
        // SAFETY: as promised by the caller; the parameters live until the launch has copied them.
        let counted = unsafe { plan.a.device().launch(&launch, stream)? };
        report.launched = true;
        if let Some(counted) = counted {
            *report.counters.get_or_insert_default() += counted;
        }
    }
    Ok(report)
}
