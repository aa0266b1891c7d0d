//! What a kernel multiplies: the factors as they are stored, or what a launch before it makes of them.

use super::execute::Plan;
use super::repack::Repacked;
use crate::device::Code;
use crate::error::Result;
use crate::kernels::{LaunchShape, Repack as Repacks};
use cuda_std::bulk_copy::TensorMap;
use cuda_std::memory::GlobalPtr;
use regemm_kernels::element::Element;
use regemm_kernels::maps::{BoxShape, UNUSED};
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::repack::Repack;

/// A factor as a kernel's parameters have it: the first matrix, and elements from one to the next.
pub(super) type Reference<E> = (MatrixRef<E>, u64);

/// The launch before a kernel's own.
pub(super) struct Before<P> {
    pub code: Code,
    /// Blocks along x; none where there is nothing to do.
    pub blocks: u32,
    pub parameters: P,
}

/// Both factors of a product, made ready for a kernel. Products are those of one launch: the first, and how many.
pub(super) trait Prepared<'a, T: Element>: Sized {
    /// What the kernel multiplies.
    type Element: Element;
    /// The parameters of the launch before.
    type Parameters;

    /// Of a plan's factors, with copies from an address on.
    ///
    /// # Errors
    /// What is copied is larger than a matrix can be.
    ///
    /// # Safety
    /// There is as much memory as the launch's shape says, to be used until the work is done.
    unsafe fn new(plan: &Plan<'a, T>, shape: &LaunchShape, copies: u64) -> Result<Self>;

    /// The same with words for marks of the matrices of A and B, where there can be marks
    /// ([`regemm_kernels::prepare::decision`]).
    fn with_marks(self, _: [GlobalPtr<u32>; 2]) -> Self {
        self
    }

    /// A and B of a launch.
    fn references(&self, products: (u32, u32)) -> [Reference<Self::Element>; 2];

    /// Maps of A and B for a launch, in such boxes; unused ones where there are none.
    ///
    /// # Errors
    /// The driver refuses one.
    fn maps(&self, products: (u32, u32), boxes: [Option<BoxShape>; 2]) -> Result<[TensorMap; 2]>;

    /// What is launched first.
    fn before(&self, products: (u32, u32)) -> Before<Self::Parameters>;
}

/// Factors as they are stored, or copies of them in rows that bulk copies can take.
pub(super) struct AsStored<'a, T: Element> {
    a: Repacked<'a, T>,
    b: Repacked<'a, T>,
    /// Whether one of them is transposed.
    transposes: bool,
}

impl<'a, T: Element> Prepared<'a, T> for AsStored<'a, T> {
    type Element = T;
    type Parameters = Repack;

    unsafe fn new(plan: &Plan<'a, T>, shape: &LaunchShape, copies: u64) -> Result<Self> {
        let [bytes_of_a, _] = shape.repack.bytes(&plan.problem);
        let (Repacks { a, b, .. }, [way_of_a, way_of_b]) = (shape.repack, shape.repack.ways());
        // SAFETY: as promised by the caller; the copies of both lie one behind the other.
        unsafe {
            Ok(AsStored {
                a: Repacked::new(plan.a.stored, (a, way_of_a), copies)?,
                b: Repacked::new(plan.b.stored, (b, way_of_b), copies + bytes_of_a)?,
                transposes: shape.repack.transposes(),
            })
        }
    }

    fn references(&self, (first, _): (u32, u32)) -> [Reference<T>; 2] {
        [&self.a, &self.b].map(|factor| factor.reference(first))
    }

    fn maps(
        &self,
        (first, count): (u32, u32),
        [a, b]: [Option<BoxShape>; 2],
    ) -> Result<[TensorMap; 2]> {
        let map = |factor: &Repacked<'_, T>, boxes: Option<BoxShape>| {
            let Some(boxes) = boxes else { return Ok(UNUSED) };
            let (matrices, first) = factor.mapped(first);
            matrices.tensor_map((first, count), boxes)
        };
        Ok([map(&self.a, a)?, map(&self.b, b)?])
    }

    fn before(&self, products: (u32, u32)) -> Before<Repack> {
        let parameters = Repack { a: self.a.copied(products), b: self.b.copied(products) };
        Before { code: Code::repacker(self.transposes), blocks: parameters.blocks(), parameters }
    }
}
