//! What a product takes and gives: factors, terms, and the target.
//!
//! | type | of | from |
//! |---|---|---|
//! | [`Factor`] | A and B | matrices and batches, transposed or not, also kept in halves |
//! | [`Term`] | C and the bias | matrices, batches, and vectors as matrices of one row |
//! | [`Target`] | D | matrices and batches that may be written |

use super::kept::Kept;
use crate::device::Device;
use crate::error::Result;
use crate::matrix::Matrix;
use crate::matrix::batch::Batch;
use crate::matrix::batch_view::{BatchView, BatchViewMut};
use crate::matrix::vector::Vector;
use crate::matrix::view::{MatrixView, MatrixViewMut};
use cuda_std::bulk_copy::TensorMap;
use regemm_kernels::element::Element;
use regemm_kernels::layout::Layout;
use regemm_kernels::maps::BoxShape;

/// The matrices of a batch after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    /// Matrices, the first included.
    pub count: usize,
    /// Elements from one to the next.
    pub stride: usize,
}

/// A matrix or a batch that a product reads row-major: C or a bias. A matrix is shared by all products of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a, T: Element> {
    pub(super) first: MatrixView<'a, T>,
    /// None for a matrix.
    pub(super) batch: Option<Repeat>,
}

/// A matrix or a batch that is multiplied: A or B, as it is stored or transposed. A matrix is shared by all products of
/// a batch.
///
/// # Examples
/// ```
/// use regemm::{Device, Gemm};
/// use regemm::ndarray::array;
///
/// let device = Device::sim();
/// let a = device.upload(&array![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]].view())?;
/// let mut d = device.matrix(2, 2)?;
/// Gemm::new(a.t(), &a).run(&mut d)?;
/// assert_eq!(d.to_array()?, array![[35.0, 44.0], [44.0, 56.0]]);
/// # Ok::<(), regemm::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T: Element> {
    pub(super) stored: Term<'a, T>,
    pub(super) layout: Layout,
    /// Halves of it that were made before.
    pub(super) halves: Option<Kept<'a>>,
}

/// A matrix or a batch that a product writes: D.
#[derive(Debug)]
pub struct Target<'a, T: Element> {
    pub(super) first: MatrixViewMut<'a, T>,
    /// None for a matrix.
    pub(super) batch: Option<Repeat>,
}

impl<'a, T: Element> Term<'a, T> {
    /// Whether each product has a matrix of its own.
    pub(super) fn is_repeated(&self) -> bool {
        self.stride() > 0
    }

    /// Elements from the matrix of one product to that of the next, zero for one that is shared.
    pub(super) fn stride(&self) -> u64 {
        self.batch.map_or(0, |batch| batch.stride as u64)
    }
}

/// As bulk copies find it.
impl<T: Element> Term<'_, T> {
    /// Matrices, and elements from one to the next.
    fn repeats(&self) -> (usize, usize) {
        self.batch.map_or((1, 0), |batch| (batch.count, batch.stride))
    }

    /// Whether bulk copies can take it.
    pub(super) fn takes_bulk_copies(&self) -> bool {
        self.first.takes_bulk_copies(self.repeats())
    }

    /// Whether bulk copies can write it.
    pub(super) fn takes_bulk_stores(&self) -> bool {
        self.takes_bulk_copies() && self.first.has_whole_rows()
    }

    /// A map of `products` of its matrices, from that of product `first` on, in such boxes.
    pub(super) fn tensor_map(
        &self,
        (first, products): (u32, u32),
        boxes: BoxShape,
    ) -> Result<TensorMap> {
        let (_, stride) = self.repeats();
        let matrix = self.first.moved(first as usize * stride, self.first.rows());
        matrix.tensor_map((products as usize, stride), boxes)
    }
}

impl<'a, T: Element> Factor<'a, T> {
    /// The factor that is stored in this layout: itself or its transpose.
    pub fn stored(stored: impl Into<Factor<'a, T>>, layout: Layout) -> Self {
        match layout {
            Layout::RowMajor => stored.into(),
            Layout::Transposed => stored.into().t(),
        }
    }

    /// The transpose. Nothing is moved: the product reads what is stored the other way.
    pub fn t(self) -> Self {
        Factor { layout: self.layout.transposed(), ..self }
    }

    /// Rows of the factor, those of each matrix of a batch.
    pub fn rows(&self) -> usize {
        self.layout.stored(self.stored.first.rows(), self.stored.first.cols()).0
    }

    /// Columns of the factor, those of each matrix of a batch.
    pub fn cols(&self) -> usize {
        self.layout.stored(self.stored.first.rows(), self.stored.first.cols()).1
    }

    /// How it lies in memory.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The number of matrices; none for one that is shared by all products of a batch.
    pub fn count(&self) -> Option<usize> {
        self.stored.batch.map(|batch| batch.count)
    }

    pub(super) fn device(&self) -> &'a Device {
        self.stored.first.device()
    }
}

impl<'a, T: Element> Target<'a, T> {
    /// The same memory, to be read.
    pub(super) fn view(&self) -> Term<'_, T> {
        Term { first: self.first.view(), batch: self.batch }
    }

    /// The number of matrices; none for one that is no batch.
    pub(super) fn count(&self) -> Option<usize> {
        self.batch.map(|batch| batch.count)
    }
}

macro_rules! conversions {
    ($($source:ty => $target:ident: $value:ident -> $make:expr;)*) => {$(
        impl<'a, T: Element> From<$source> for $target<'a, T> {
            fn from($value: $source) -> Self {
                $make
            }
        }
    )*};
}

conversions! {
    MatrixView<'a, T> => Term: first -> Term { first, batch: None };
    &'a Matrix<T> => Term: matrix -> matrix.view().into();
    &'a MatrixViewMut<'_, T> => Term: view -> view.view().into();
    BatchView<'a, T> => Term: view -> {
        let (first, count, stride) = view.into_parts();
        Term { first, batch: Some(Repeat { count, stride }) }
    };
    &'a Batch<T> => Term: batch -> batch.view().into();
    &'a BatchViewMut<'_, T> => Term: view -> view.view().into();
    &'a Vector<T> => Term: vector -> MatrixView::row(vector).into();

    Term<'a, T> => Factor: stored -> Factor { stored, layout: Layout::RowMajor, halves: None };
    MatrixView<'a, T> => Factor: view -> Term::from(view).into();
    &'a Matrix<T> => Factor: matrix -> Term::from(matrix).into();
    &'a MatrixViewMut<'_, T> => Factor: view -> Term::from(view).into();
    BatchView<'a, T> => Factor: view -> Term::from(view).into();
    &'a Batch<T> => Factor: batch -> Term::from(batch).into();
    &'a BatchViewMut<'_, T> => Factor: view -> Term::from(view).into();

    MatrixViewMut<'a, T> => Target: first -> Target { first, batch: None };
    &'a mut Matrix<T> => Target: matrix -> matrix.view_mut().into();
    &'a mut MatrixViewMut<'_, T> => Target: view -> view.reborrow().into();
    BatchViewMut<'a, T> => Target: view -> {
        let (first, count, stride) = view.into_parts();
        Target { first, batch: Some(Repeat { count, stride }) }
    };
    &'a mut Batch<T> => Target: batch -> batch.view_mut().into();
    &'a mut BatchViewMut<'_, T> => Target: view -> view.reborrow().into();
}

impl<T: Element> Matrix<T> {
    /// The transpose, as a factor of a product; nothing is moved.
    pub fn t(&self) -> Factor<'_, T> {
        Factor::from(self).t()
    }
}

impl<T: Element> Batch<T> {
    /// The batch of the transposes, as a factor of a product; nothing is moved.
    pub fn t(&self) -> Factor<'_, T> {
        Factor::from(self).t()
    }
}

impl<'a, T: Element> MatrixView<'a, T> {
    /// The transpose, as a factor of a product; nothing is moved.
    pub fn t(self) -> Factor<'a, T> {
        Factor::from(self).t()
    }
}

impl<'a, T: Element> BatchView<'a, T> {
    /// The batch of the transposes, as a factor of a product; nothing is moved.
    pub fn t(self) -> Factor<'a, T> {
        Factor::from(self).t()
    }
}
