//! Factors that bulk copies cannot take, and the copies that they take instead.

use super::operands::{Repeat, Term};
use super::prepare::Reference;
use crate::error::Result;
use crate::kernels::{MAX_PRODUCTS, Way};
use crate::matrix::view::MatrixView;
use cuda_std::memory::GlobalPtr;
use regemm_kernels::element::Element;
use regemm_kernels::params::MatrixRef;
use regemm_kernels::prepare::repack::{self, CopiedFactor, Unit};

/// A factor, and its copies if it is repacked.
pub(super) struct Repacked<'a, T: Element> {
    stored: Term<'a, T>,
    copies: Option<Term<'a, T>>,
    way: Way,
}

impl<'a, T: Element> Repacked<'a, T> {
    /// Of a factor of which so many matrices are repacked in this way: into the memory from `address` on.
    ///
    /// # Errors
    /// As for [`MatrixView::from_raw`].
    ///
    /// # Safety
    /// There is memory for as many of them as one launch has products, to be used until the work is done.
    pub unsafe fn new(
        stored: Term<'a, T>,
        (matrices, way): (u32, Way),
        address: u64,
    ) -> Result<Self> {
        if matrices == 0 {
            return Ok(Repacked { stored, copies: None, way });
        }
        let (rows, cols) = (stored.first.rows(), stored.first.cols());
        let (rows, cols) = if way == Way::Transposed { (cols, rows) } else { (rows, cols) };
        let ld = repack::ld(units::<T>(cols)) as usize / Self::UNITS;
        // SAFETY: as promised by the caller; whoever reads the copies is ordered after the launch that makes them.
        let first =
            unsafe { MatrixView::from_raw(stored.first.device(), address, rows, cols, ld)? };
        let count = matrices.min(MAX_PRODUCTS) as usize;
        let batch = stored.is_repeated().then_some(Repeat { count, stride: rows * ld });
        Ok(Repacked { stored, copies: Some(Term { first, batch }), way })
    }

    /// Units of an element.
    const UNITS: usize = size_of::<T>() / size_of::<Unit>();

    /// What is copied for `products` products from product `first` on. What all products share is copied for the first
    /// ones.
    pub fn copied(&self, (first, products): (u32, u32)) -> CopiedFactor {
        let Some(copies) = &self.copies else { return CopiedFactor::NONE };
        let repeated = self.stored.is_repeated();
        if first > 0 && !repeated {
            return CopiedFactor::NONE;
        }
        let stride = self.stored.stride() * Self::UNITS as u64;
        let from = self.stored.first.to_kernel();
        let data = from.data.cast().add(u64::from(first) * stride);
        let from = MatrixRef { data, ld: from.ld * Self::UNITS as u64 };
        // All dimensions are below 2^31.
        let shape = (self.stored.first.rows() as u32, units::<T>(self.stored.first.cols()));
        let count = if repeated { products } else { 1 };
        let to = GlobalPtr::from_address(copies.first.address());
        let matrices = (count, stride);
        match self.way {
            Way::Vectors => CopiedFactor::new(from, shape, matrices, to),
            Way::Squares => CopiedFactor::squares(from, shape, matrices, to, false),
            Way::Transposed => CopiedFactor::squares(from, shape, matrices, to, true),
        }
    }

    /// The factor as it is stored, from product `first` on.
    pub fn reference(&self, first: u32) -> Reference<T> {
        let stride = self.stored.stride();
        (self.stored.first.to_kernel().shifted(u64::from(first) * stride), stride)
    }

    /// What bulk copies take, and which of its matrices is that of product `first`.
    pub fn mapped(&self, first: u32) -> (&Term<'a, T>, u32) {
        self.copies.as_ref().map_or((&self.stored, first), |copies| (copies, 0))
    }
}

/// Units of a row of so many elements.
fn units<T: Element>(cols: usize) -> u64 {
    cols as u64 * Repacked::<T>::UNITS as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use half::f16;
    use regemm_kernels::prepare::repack::Repack;

    /// Rows of 7 elements: one block copies a matrix.
    fn repacked<'a>(first: MatrixView<'a, f16>, batch: Option<Repeat>) -> Repacked<'a, f16> {
        let matrices = batch.map_or(1, |batch| batch.count as u32);
        // SAFETY: nothing is launched.
        unsafe { Repacked::new(Term { first, batch }, (matrices, Way::Vectors), 4096).unwrap() }
    }

    fn blocks(copied: CopiedFactor) -> u32 {
        Repack { a: copied, b: CopiedFactor::NONE }.blocks()
    }

    #[test]
    fn each_launch_copies_the_matrices_of_its_own_products() {
        let device = Device::sim();
        let matrix = device.matrix::<f16>(5, 7).unwrap();
        let count = MAX_PRODUCTS as usize + 3;
        let own = repacked(matrix.view(), Some(Repeat { count, stride: 35 }));
        assert_eq!(blocks(own.copied((0, MAX_PRODUCTS))), MAX_PRODUCTS);
        assert_eq!(blocks(own.copied((MAX_PRODUCTS, 3))), 3);
        // The map is of the copies, of which the first is that of the launch's first product.
        let (copies, index) = own.mapped(MAX_PRODUCTS);
        assert_eq!((copies.first.address(), copies.first.ld(), index), (4096, 64, 0));
        assert_eq!(copies.batch, Some(Repeat { count: MAX_PRODUCTS as usize, stride: 5 * 64 }));
    }

    #[test]
    fn what_all_products_share_is_copied_for_the_first_launch() {
        let device = Device::sim();
        let matrix = device.matrix::<f16>(5, 7).unwrap();
        let shared = repacked(matrix.view(), None);
        assert_eq!(blocks(shared.copied((0, MAX_PRODUCTS))), 1);
        assert_eq!(blocks(shared.copied((MAX_PRODUCTS, 3))), 0);
        let (copy, index) = shared.mapped(MAX_PRODUCTS);
        assert_eq!((copy.first.address(), copy.batch, index), (4096, None, 0));
    }

    #[test]
    fn what_is_not_copied_is_mapped_where_it_lies() {
        let device = Device::sim();
        let matrix = device.matrix::<f16>(5, 8).unwrap();
        let stored = Term { first: matrix.view(), batch: None };
        // SAFETY: nothing is copied.
        let left = unsafe { Repacked::new(stored, (0, Way::Vectors), 0).unwrap() };
        assert_eq!(blocks(left.copied((0, 1))), 0);
        let (mapped, index) = left.mapped(MAX_PRODUCTS);
        assert_eq!((mapped.first.address(), index), (matrix.view().address(), MAX_PRODUCTS));
    }
}
