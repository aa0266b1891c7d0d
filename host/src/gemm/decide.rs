//! A product that is computed by halves or exactly, as the GPU [decides](regemm_kernels::prepare::decision): what that
//! takes besides the product by halves.

use super::execute::Plan;
use super::operands::Factor;
use super::prepare::{AsStored, Prepared};
use crate::device::stream::Stream;
use crate::device::workspace::{Held, WORD_BYTES, WorkspaceSize};
use crate::device::{Device, KernelSource};
use crate::error::Result;
use crate::kernels::{LaunchShape, Problem};
use crate::precision::record::{NOTE_BYTES, read_notes};
use crate::precision::{Computed, PrecisionRecord};
use cuda_std::memory::GlobalPtr;
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::Epilogue;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::maps::Maps;
use regemm_kernels::params::GemmParams;
use regemm_kernels::prepare::decision::{Decision, Marks};

/// The exact product behind one by halves, and where both find what decides between them.
pub(super) struct Exactly {
    pub source: KernelSource,
    pub shape: LaunchShape,
    /// Products, and matrices of A and of B that have a mark.
    products: u32,
    matrices: [u32; 2],
    /// Where marks begin, and notes.
    marks: u64,
    notes: u64,
}

/// The memory of a product by halves of this shape, with an exact one behind it.
pub(super) fn workspace(
    halves: &LaunchShape,
    exact: &KernelInfo,
    problem: &Problem,
    device: &Device,
) -> WorkspaceSize {
    let both = halves.workspace.max(shape(exact, problem, device).workspace);
    let marks = problem.matrices.map(u64::from).iter().sum::<u64>();
    let notes = u64::from(problem.batch) * NOTE_BYTES;
    WorkspaceSize {
        // As signals they are zero before a product, and again after it.
        signals: both.signals + marks,
        copy_bytes: both.copy_bytes.saturating_add(notes),
        ..both
    }
}

fn shape(exact: &KernelInfo, problem: &Problem, device: &Device) -> LaunchShape {
    LaunchShape::new(exact, problem, device.info(), None)
}

impl Exactly {
    /// Behind the product by halves of this shape, in a workspace of [`workspace`]; notes go to the record if there is
    /// one.
    ///
    /// # Errors
    /// The record has no room for the products.
    pub fn new(
        exact: &'static KernelInfo,
        halves: &LaunchShape,
        problem: &Problem,
        device: &Device,
        held: &Held<'_>,
        record: Option<&PrecisionRecord>,
    ) -> Result<Exactly> {
        let shape = shape(exact, problem, device);
        let both = halves.workspace.max(shape.workspace);
        let notes = match record {
            Some(record) => record.notes(problem.batch)?.address(),
            None => held.copies() + both.copy_bytes,
        };
        Ok(Exactly {
            source: KernelSource::embedded(exact),
            shape,
            products: problem.batch,
            matrices: problem.matrices,
            marks: held.signals() + both.signals * WORD_BYTES,
            notes,
        })
    }

    /// Where the marks of A begin, and those of B.
    pub fn marks(&self) -> [GlobalPtr<u32>; 2] {
        let first = GlobalPtr::from_address(self.marks);
        [first, first.add(self.matrices[0].into())]
    }

    /// What both launches decide by. Factors that are repeated have a mark for each product, and halves that are kept
    /// have their own.
    pub fn decision<T: Element>(&self, [a, b]: [&Factor<'_, T>; 2]) -> Decision {
        let of = |factor: &Factor<'_, T>, words| {
            let kept = factor.halves.map(|kept| GlobalPtr::from_address(kept.split.marks()));
            Marks {
                words: kept.unwrap_or(words),
                stride: u32::from(factor.stored.is_repeated()),
                passing: u32::from(kept.is_none()),
            }
        };
        let [of_a, of_b] = self.marks();
        Decision { a: of(a, of_a), b: of(b, of_b), exact: GlobalPtr::from_address(self.notes) }
    }

    /// The parameters of the exact product, made of those of the one by halves.
    ///
    /// # Errors
    /// As for [`Prepared::new`].
    pub fn parameters<T: Element, F: Element, E: Epilogue<D>, D: Element>(
        &self,
        halves: &GemmParams<F, E, D>,
        plan: &Plan<'_, T>,
        held: &Held<'_>,
    ) -> Result<GemmParams<T, E, D>> {
        let products = (0, self.products);
        // SAFETY: kernels without bulk copies copy nothing first.
        let stored = unsafe { AsStored::new(plan, &self.shape, 0)? };
        let [(a, a_stride), (b, b_stride)] = stored.references(products);
        let GemmParams { d, m, n, k, epilogue, .. } = *halves;
        let LaunchShape { slice_depth, shared_tiles, sharing_blocks, .. } = self.shape;
        Ok(GemmParams {
            a,
            b,
            d,
            a_stride,
            b_stride,
            m,
            n,
            k,
            slice_depth,
            shared_tiles,
            sharing_blocks,
            workspace: held.to_kernel(self.shape.workspace),
            maps: Maps::NONE,
            epilogue,
        })
    }

    /// What the products were computed in, as far as it is known: that of work on a stream is not.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn computed(&self, device: &Device, stream: Option<&Stream>) -> Result<Computed> {
        match stream {
            Some(_) => Ok(Computed::Undecided),
            None => {
                let notes = read_notes(device, self.notes, self.products)?;
                Ok(Computed::of(notes.into_iter()))
            }
        }
    }
}
