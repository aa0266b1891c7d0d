//! From checked operands to a launch.

use super::Report;
use super::decide::{self, Exactly};
use super::halves::InHalves;
use super::operands::{Factor, Target, Term};
use super::prepare::{AsStored, Prepared};
use crate::device::stream::Stream;
use crate::device::workspace::{Held, Workspace, WorkspaceSize};
use crate::device::{KernelSource, Launch, Region, Step};
use crate::error::Result;
use crate::kernels::{LaunchShape, MAX_PRODUCTS, Problem, Repack, Why};
use crate::precision::{Computed, Precision, PrecisionRecord};
use cuda_std::bulk_copy::TensorMap;
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::maps::{Factors, Mappings, Maps, Matrices, Results};
use regemm_kernels::params::{GemmParams, MatrixRef, TargetRef};
use regemm_kernels::prepare::decision::Decision;
use regemm_kernels::warpgroup::fit::Columns;
use smallvec::SmallVec;
use std::cell::Cell;

/// A product whose operands are checked.
pub(super) struct Plan<'a, T: Element> {
    pub kernel: KernelSource,
    pub why: Why,
    pub problem: Problem,
    /// What it is computed in, unless the GPU decides that: never [`Precision::Auto`].
    pub precision: Precision,
    /// The exact kernel behind one by halves, where the GPU decides between them.
    pub if_marked: Option<&'static KernelInfo>,
    /// Where that is noted, if the caller wants to know.
    pub record: Option<&'a PrecisionRecord>,
    pub a: Factor<'a, T>,
    pub b: Factor<'a, T>,
    /// Slices of K, where they are not for the library to choose.
    pub slices: Option<u32>,
    /// Memory besides the operands, where it is not the stream's own.
    pub workspace: Option<&'a Workspace>,
    /// Memory that the epilogue reads.
    pub epilogue_operands: Vec<Region<'a>>,
    /// Memory that the epilogue writes besides D.
    pub epilogue_results: Vec<Region<'a>>,
}

/// Runs or enqueues the kernel, and what is launched before and after it, once for as many products as a grid can have;
/// nothing where D has no elements.
///
/// # Safety
/// The problem is that of A, B and D, which are valid and do not overlap; the kernel keeps
/// [`GemmKernel`](regemm_kernels::kernel::GemmKernel)'s contract for epilogues of type `E`, and the epilogue is valid
/// until the work is done. If there is a `c`, it is what the epilogue [adds](regemm_kernels::epilogue::Short::of_c).
pub(super) unsafe fn execute<T: Element, E: Epilogue<D>, D: Element>(
    plan: &Plan<'_, T>,
    epilogue: E,
    (d, c): (&Target<'_, D>, Option<Term<'_, D>>),
    stream: Option<&Stream>,
) -> Result<Report> {
    let results = (d, c);
    // SAFETY: as promised by the caller.
    unsafe {
        if plan.kernel.info.takes_halves() {
            execute_prepared::<T, InHalves<T>, E, D>(plan, epilogue, results, stream)
        } else {
            execute_prepared::<T, AsStored<T>, E, D>(plan, epilogue, results, stream)
        }
    }
}

/// The same for factors that are prepared in one way.
///
/// # Safety
/// As for [`execute`].
unsafe fn execute_prepared<'a, T: Element, F: Prepared<'a, T>, E: Epilogue<D>, D: Element>(
    plan: &Plan<'a, T>,
    epilogue: E,
    results: (&Target<'_, D>, Option<Term<'_, D>>),
    stream: Option<&Stream>,
) -> Result<Report> {
    let Problem { m, n, batch, .. } = plan.problem;
    let (computed, launched) = (Computed::In(plan.precision), false);
    let (kernel, repacked) = (plan.kernel.info, Repack::default());
    let report = Report { kernel, why: plan.why, computed, counters: None, launched, repacked };
    if m == 0 || n == 0 || batch == 0 {
        plan.remember(computed);
        return Ok(report);
    }
    let (shape, size) = plan.shape();
    let mut workspace = plan.a.device().hold_workspace(size, plan.workspace, stream)?;
    let begun = Cell::default();
    let held = (&shape, &workspace, &begun);
    // Others do not touch the record before the work that is put on the stream here is remembered.
    let _recording = plan.record.map(PrecisionRecord::hold);
    // SAFETY: as promised by the caller.
    let launched =
        unsafe { launch_prepared::<T, F, E, D>(plan, epilogue, results, stream, held, report) };
    // What is refused before anything runs leaves nothing behind.
    if launched.is_err() && begun.get() {
        workspace.spoil();
        if let Some(record) = plan.record {
            record.forget();
        }
    }
    launched
}

/// The launches, of such a shape and with this workspace; what they did is added to the report. Whether one has begun
/// is noted also where it fails.
///
/// # Safety
/// As for [`execute`].
unsafe fn launch_prepared<'a, T: Element, F: Prepared<'a, T>, E: Epilogue<D>, D: Element>(
    plan: &Plan<'a, T>,
    epilogue: E,
    (d, c): (&Target<'_, D>, Option<Term<'_, D>>),
    stream: Option<&Stream>,
    (shape, workspace, begun): (&LaunchShape, &Held<'_>, &Cell<bool>),
    mut report: Report,
) -> Result<Report> {
    let Problem { m, n, k, batch, .. } = plan.problem;
    let (kernel, device) = (plan.kernel.info, plan.a.device());
    let exactly = plan
        .if_marked
        .map(|exact| Exactly::new(exact, shape, &plan.problem, device, workspace, plan.record));
    let exactly = exactly.transpose()?;
    let (a, b, d) = (plan.a.stored, plan.b.stored, d.view());
    // SAFETY: the workspace has room for the copies, and is held until they are used.
    let mut prepared = unsafe { F::new(plan, shape, workspace.copies())? };
    if let Some(exactly) = &exactly {
        prepared = prepared.with_marks(exactly.marks());
    }
    // Both are set for each launch.
    let nothing = MatrixRef::NULL;
    let params = GemmParams::<F::Element, E, D> {
        a: nothing,
        b: nothing,
        d: TargetRef { first: d.first.to_kernel(), stride: d.stride() },
        a_stride: 0,
        b_stride: 0,
        m,
        n,
        k,
        slice_depth: if kernel.keeps_pace { shape.pace } else { shape.slice_depth },
        shared_tiles: if kernel.fits {
            Columns::new(kernel.walked(m, n).1, shape.tile_width).word()
        } else {
            shape.shared_tiles
        },
        sharing_blocks: shape.sharing_blocks,
        workspace: workspace.to_kernel(shape.workspace),
        maps: Maps::of_products(shape.products),
        epilogue,
    };
    let exact_params = exactly.as_ref().map(|exactly| exactly.parameters(&params, plan, workspace));
    let exact_params = exact_params.transpose()?;
    let decision = exactly.as_ref().map(|exactly| exactly.decision([&plan.a, &plan.b]));
    let decision = decision.unwrap_or(Decision::NONE);
    let mut reads = SmallVec::<[Region; 4]>::from_iter([a.first.region(), b.first.region()]);
    let halves = [&plan.a, &plan.b].into_iter().filter_map(|factor| factor.halves);
    reads.extend(halves.map(|kept| Region::from(kept.split.buffer())));
    reads.extend(plan.epilogue_operands.iter().copied());
    let of_workspace = workspace.buffers().into_iter().flatten().map(Region::from);
    let notes = plan.record.filter(|_| exactly.is_some()).map(|record| record.notes(batch));
    let notes = notes.transpose()?.map(Region::from);
    let mut writes = SmallVec::<[Region; 4]>::from_iter([d.first.region()]);
    writes.extend(notes.into_iter().chain(of_workspace));
    writes.extend(plan.epilogue_results.iter().copied());
    for first in (0..batch).step_by(MAX_PRODUCTS as usize) {
        let products = MAX_PRODUCTS.min(batch - first);
        let parts = (first, products);
        let [(a, a_stride), (b, b_stride)] = prepared.references(parts);
        let params = GemmParams { a, b, a_stride, b_stride, ..params.from_product(first) };
        let params = if kernel.swapped { params.swapped() } else { params };
        // Where there is nothing to multiply there may be no matrix to map.
        let boxes = kernel.boxes.filter(|_| k > 0);
        let of_maps = boxes.map(|boxes| boxes.of_maps(kernel, shape.tile_width, (m, n)));
        let [of_wholes, of_rests] = of_maps.unwrap_or_default();
        let in_order = |[a, b]: [TensorMap; 2]| if kernel.swapped { [b, a] } else { [a, b] };
        let factors = Factors {
            wholes: in_order(prepared.maps(parts, of_wholes)?),
            rests: in_order(prepared.maps(parts, of_rests)?),
        };
        let mut results = Results::NONE;
        let mut mappings = Mappings::NONE;
        // Where bulk copies cannot take C or D the kernel reads or stores them in another way.
        if let Some(of_d) = boxes.and_then(|boxes| boxes.d).filter(|_| d.takes_bulk_stores()) {
            results.d = d.tensor_map((first, products), of_d)?;
            mappings = mappings.with_d();
        }
        if let Some((c, of_c)) = c.zip(boxes.and_then(|boxes| boxes.c))
            && c.takes_bulk_copies()
        {
            results.c = c.tensor_map((first, products), of_c)?;
            mappings = mappings.with_c(!c.is_repeated());
        }
        let matrices = Matrices { factors, results };
        // What the GPU decides by comes last; kernels that do not take it take the first ones.
        let of_decision = (&raw const decision).cast();
        let mapped = [
            (&raw const params).cast(),
            (&raw const matrices).cast(),
            (&raw const mappings).cast(),
            of_decision,
        ];
        let plain = [mapped[0], of_decision];
        let arguments = if kernel.boxes.is_some() { &mapped[..] } else { &plain };
        let along_y = products.div_ceil(shape.products);
        let step = |code, [x, z]: [u32; 2]| Step { code, grid: [x, along_y, z], arguments };
        let before = (k > 0).then(|| prepared.before(parts));
        let of_before = before.as_ref().map(|before| [(&raw const before.parameters).cast()]);
        let of_before = before.as_ref().zip(of_before.as_ref());
        let of_before = of_before.filter(|(before, _)| before.blocks > 0);
        let copies = of_before.map(|(before, arguments)| Step {
            code: before.code,
            grid: [before.blocks, 1, 1],
            arguments,
        });
        let main = shape.main.map(|blocks| step(plan.kernel.code(), blocks));
        let reducer = plan.kernel.reducer().zip(shape.reduce);
        // It has no maps.
        let reduce =
            reducer.map(|(code, blocks)| Step { arguments: &plain, ..step(code, [blocks, 1]) });
        let of_exact =
            exact_params.as_ref().map(|params| [(&raw const *params).cast(), of_decision]);
        let exact = exactly.as_ref().zip(of_exact.as_ref()).and_then(|(exactly, arguments)| {
            let blocks = exactly.shape.main?;
            Some(Step { arguments, ..step(exactly.source.code(), blocks) })
        });
        let steps = [copies, main, reduce, exact].into_iter().flatten();
        let steps: SmallVec<[Step; 4]> = steps.collect();
        let launch = Launch { steps: &steps, reads: &reads, writes: &writes, begun };
        // SAFETY: as promised by the caller; the parameters live until the launch has copied them. Nobody else's
        // launches use the workspace before those that are put on the stream here.
        let counted = unsafe { device.launch(&launch, stream)? };
        report.launched = true;
        report.repacked = shape.repack;
        if let Some(counted) = counted {
            *report.counters.get_or_insert_default() += counted;
        }
    }
    let undecided = if exactly.is_some() { Computed::Undecided } else { report.computed };
    plan.remember(undecided);
    if let Some(exactly) = exactly {
        report.computed = exactly.computed(device, stream)?;
    }
    Ok(report)
}

impl<T: Element> Plan<'_, T> {
    /// What the launches look like, and the memory besides the operands.
    pub fn shape(&self) -> (LaunchShape, WorkspaceSize) {
        let device = self.a.device();
        let shape = LaunchShape::new(self.kernel.info, &self.problem, device.info(), self.slices);
        let size = match self.if_marked {
            Some(exact) => decide::workspace(&shape, exact, &self.problem, device),
            None => shape.workspace,
        };
        (shape, size)
    }

    fn remember(&self, computed: Computed) {
        if let Some(record) = self.record {
            record.remember(self.problem.batch, computed);
        }
    }
}
