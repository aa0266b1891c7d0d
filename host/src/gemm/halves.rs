//! Factors of f32 in halves, which a launch before the kernel makes.

use super::execute::Plan;
use super::operands::{Factor, Repeat, Term};
use super::prepare::{Before, Prepared, Reference};
use crate::device::Code;
use crate::error::Result;
use crate::kernels::LaunchShape;
use crate::kernels::halves::{Room, across, rooms};
use crate::matrix::view::MatrixView;
use cuda_std::bulk_copy::TensorMap;
use cuda_std::memory::GlobalPtr;
use half::f16;
use regemm_kernels::element::{Dtype, Element};
use regemm_kernels::maps::{BoxShape, UNUSED};
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::split::{self, HALVES, Split, SplitFactor};

/// Both factors in halves.
pub(super) struct InHalves<'a, T: Element> {
    a: Halved<'a, T>,
    b: Halved<'a, T>,
    /// How many of each element.
    halves: u32,
}

/// One of them.
struct Halved<'a, T: Element> {
    stored: Term<'a, T>,
    /// Whether its lines, rows of A or columns of B, run across the rows that are stored.
    across: bool,
    /// The halves of its matrices, as a batch of as many times more.
    halves: Term<'a, f16>,
    /// Where what is known of its lines begins.
    lines: u64,
    /// Whether the halves were made before, all of them.
    is_kept: bool,
    /// Words for marks of its matrices, or null.
    marks: GlobalPtr<u32>,
}

impl<'a, T: Element> Prepared<'a, T> for InHalves<'a, T> {
    type Element = f16;
    type Parameters = Split;

    unsafe fn new(plan: &Plan<'a, T>, _: &LaunchShape, copies: u64) -> Result<Self> {
        let halves = plan.kernel.info.halves();
        let [of_a, of_b] = rooms(&plan.problem, halves);
        let [across_a, across_b] = across(plan.problem.layouts);
        // SAFETY: as promised by the caller; those of both lie one behind the other.
        unsafe {
            Ok(InHalves {
                a: Halved::new(&plan.a, across_a, halves, (copies, of_a))?,
                b: Halved::new(&plan.b, across_b, halves, (copies + of_a.bytes(), of_b))?,
                halves,
            })
        }
    }

    fn with_marks(mut self, [of_a, of_b]: [GlobalPtr<u32>; 2]) -> Self {
        (self.a.marks, self.b.marks) = (of_a, of_b);
        self
    }

    fn references(&self, (first, _): (u32, u32)) -> [Reference<f16>; 2] {
        [&self.a, &self.b].map(|factor| factor.reference(first))
    }

    fn maps(&self, products: (u32, u32), [a, b]: [Option<BoxShape>; 2]) -> Result<[TensorMap; 2]> {
        let map = |factor: &Halved<'a, T>, boxes: Option<BoxShape>| match boxes {
            Some(boxes) => factor.map(products, self.halves, boxes),
            None => Ok(UNUSED),
        };
        Ok([map(&self.a, a)?, map(&self.b, b)?])
    }

    fn before(&self, products: (u32, u32)) -> Before<Split> {
        let parameters = Split::new(self.a.to_split(products), self.b.to_split(products));
        Before { code: Code::splitter(self.halves), blocks: parameters.blocks(), parameters }
    }
}

impl<'a, T: Element> Halved<'a, T> {
    /// In the halves that it has, or in new ones.
    ///
    /// # Safety
    /// There is so much room from the address on for so many halves of as many of the matrices as one launch has
    /// products, to be used until the work is done.
    unsafe fn new(
        factor: &Factor<'a, T>,
        across: bool,
        halves: u32,
        (address, room): (u64, Room),
    ) -> Result<Self> {
        debug_assert_eq!(T::DTYPE, Dtype::F32, "others have no halves");
        let stored = factor.stored;
        let (rows, cols) = (stored.first.rows(), stored.first.cols());
        // All dimensions are below 2^31.
        let ld = split::ld(cols as u32) as usize;
        // Where there is one half alone it is not kept.
        let kept = factor.halves.filter(|_| halves == HALVES).map(|kept| kept.split);
        let (first, lines) = match kept {
            Some(split) => (split.halves(0), split.lines(0)),
            None => (address, address + room.halves),
        };
        // SAFETY: as promised by the caller; whoever reads the halves is ordered after the launch that makes them, and
        // the memory of those that are kept is among what the product reads.
        let first = unsafe { MatrixView::from_raw(stored.first.device(), first, rows, cols, ld)? };
        let count = factor.count().unwrap_or(1) * halves as usize;
        let halves = Term { first, batch: Some(Repeat { count, stride: rows * ld }) };
        Ok(Halved {
            stored,
            across,
            halves,
            lines,
            is_kept: kept.is_some(),
            marks: GlobalPtr::null(),
        })
    }

    /// Rows and columns as they are stored.
    fn shape(&self) -> (u32, u32) {
        // All dimensions are below 2^31.
        (self.stored.first.rows() as u32, self.stored.first.cols() as u32)
    }

    /// The matrix of product `first` among those in halves: new halves are those of one launch.
    fn index(&self, first: u32) -> u32 {
        if self.is_kept && self.stored.is_repeated() { first } else { 0 }
    }

    /// What is known of the lines stands in the place of elements.
    fn reference(&self, first: u32) -> Reference<f16> {
        let of_matrix = u64::from(split::lines(self.shape(), self.across));
        let index = u64::from(self.index(first));
        let lines = GlobalPtr::from_address(self.lines).add(index * of_matrix);
        let (rows, cols) = self.shape();
        // Of kernels without maps, which are those of both halves.
        let halves = GlobalPtr::from_address(self.halves.first.address());
        let halves = halves.add(index * split::elements(rows, cols));
        (split::reference(halves, lines), if self.stored.is_repeated() { of_matrix } else { 0 })
    }

    /// A map of so many halves of so many products.
    fn map(
        &self,
        (first, products): (u32, u32),
        halves: u32,
        boxes: BoxShape,
    ) -> Result<TensorMap> {
        let matrices = if self.stored.is_repeated() { products } else { 1 };
        self.halves.tensor_map((self.index(first) * halves, matrices * halves), boxes)
    }

    /// What is split for `products` products from product `first` on. What all products share is split for the first
    /// ones.
    fn to_split(&self, (first, products): (u32, u32)) -> SplitFactor {
        let repeated = self.stored.is_repeated();
        if self.is_kept || (first > 0 && !repeated) {
            return SplitFactor::NONE;
        }
        let stride = self.stored.stride();
        let stored = self.stored.first.to_kernel().shifted(u64::from(first) * stride);
        let from = MatrixRef { data: stored.data.cast(), ld: stored.ld };
        let matrices = (if repeated { products } else { 1 }, stride);
        let to = GlobalPtr::from_address(self.halves.first.address());
        let lines = GlobalPtr::from_address(self.lines);
        SplitFactor::new(from, self.shape(), self.across, matrices, to, lines)
            .with_marks(self.marks)
    }
}
