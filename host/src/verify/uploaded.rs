//! A case on a device: its operands in hostile surroundings, and its products.

use super::canary::{Canaries, CanaryFault};
use super::case::{Addend, Case, Operands, nan};
use crate::device::Device;
use crate::error::Result;
use crate::gemm::{Factor, Gemm, KernelChoice, Report, Target, Term};
use crate::matrix::Matrix;
use ndarray::{Array2, Array3, s};
use regemm_kernels::element::{Accumulator, Element, Yields};
use regemm_kernels::epilogue::BiasAxis;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layout;
use std::ops::Range;

/// Rows of canaries above and below each D, and of NaN below the other matrices.
const MARGIN: usize = 2;

/// The operands of a case on a device.
pub struct Uploaded<'o, T, D = T> {
    case: Case,
    device: &'o Device,
    a: Framed<T>,
    b: Framed<T>,
    c: Option<Framed<D>>,
    bias: Option<Framed<D>>,
    c_on_host: Option<&'o Array3<D>>,
}

/// What a kernel made of a case.
#[derive(Clone, Debug)]
pub struct Outcome<D> {
    /// D, `m x n`; those of a batch below each other.
    pub d: Array2<D>,
    /// What the canaries around D show.
    pub stray: Option<CanaryFault>,
    /// How it was computed.
    pub report: Report,
}

impl Case {
    /// Copies operands of this case to a device.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn upload<'o, T: Element, D: Element>(
        &self,
        device: &'o Device,
        operands: &'o Operands<T, D>,
    ) -> Result<Uploaded<'o, T, D>> {
        let shared = self.batch.map_or([true; 4], |batch| batch.shared);
        let factor = |which: usize, matrices, layout| {
            Framed::upload(device, matrices, layout, self.gaps[which], shared[which])
        };
        let rows = |bias: &Array2<D>| {
            let rows = bias.clone().insert_axis(ndarray::Axis(1));
            Framed::upload(device, &rows, Layout::RowMajor, (0, 0), shared[3])
        };
        let upload_c = |c| Framed::upload(device, c, Layout::RowMajor, self.gaps[2], shared[2]);
        Ok(Uploaded {
            case: *self,
            device,
            a: factor(0, &operands.a, self.layouts.a)?,
            b: factor(1, &operands.b, self.layouts.b)?,
            c: operands.c.as_ref().map(upload_c).transpose()?,
            bias: operands.bias.as_ref().map(rows).transpose()?,
            c_on_host: operands.c.as_ref(),
        })
    }
}

impl<T: Element + Yields<D>, D: Element<Acc = T::Acc>> Uploaded<'_, T, D> {
    /// Computes D with a kernel.
    ///
    /// # Errors
    /// A kernel for other layouts than the case's, a failure of the device, or a fault that the simulator found.
    pub fn run(&self, kernel: &'static KernelInfo) -> Result<Outcome<D>> {
        let case = &self.case;
        let constant = T::Acc::constant;
        let (left, gap) = case.gaps[3];
        let canaries = Canaries::around_each(case.count(), (case.m, case.n), MARGIN, left, gap);
        let mut buffer = canaries.buffer::<D>();
        for product in 0..case.count() {
            let first = canaries.inside_rows.start + product * canaries.pitch;
            for row in 0..case.m {
                for (col, in_row) in canaries.inside_cols.clone().enumerate() {
                    buffer[(first + row) * canaries.ld + in_row] = match self.c_on_host {
                        Some(c) if case.addend == Addend::Same => c[(product, row, col)],
                        _ => nan(),
                    };
                }
            }
        }
        let mut d = self.device.upload_slice(&buffer, canaries.rows, canaries.ld, canaries.ld)?;
        let mut gemm = Gemm::widening(self.a.factor()?, self.b.factor()?)
            .alpha(constant(case.alpha))
            .activation(case.activation)
            .leaky_slope(constant(case.slope))
            .precision(case.precision)
            .kernel(KernelChoice::Info(kernel));
        gemm = match case.slices {
            Some(slices) => gemm.slices(slices),
            None => gemm,
        };
        gemm = match (case.addend, &self.c) {
            (Addend::Matrix, Some(c)) => gemm.c(constant(case.beta), c.term()?),
            (Addend::Same, _) => gemm.accumulate(constant(case.beta)),
            _ => gemm,
        };
        gemm = match (case.bias, &self.bias) {
            (BiasAxis::Column, Some(bias)) => gemm.bias_per_column(bias.term()?),
            (BiasAxis::Row, Some(bias)) => gemm.bias_per_row(bias.term()?),
            _ => gemm,
        };
        let rows = canaries.inside_rows.start..canaries.rows;
        let inside = d.view_mut().slice(rows, canaries.inside_cols.clone())?;
        let target: Target<'_, D> = match case.batch {
            Some(batch) => inside.into_batch(batch.count, case.m, canaries.pitch)?.into(),
            None => inside.slice(0..case.m, 0..case.n)?.into(),
        };
        let report = gemm.run(target)?;

        let raw = d.read_raw()?;
        let inside = |(row, col): (usize, usize)| {
            let (product, row) = (row / case.m, row % case.m);
            let row = canaries.inside_rows.start + product * canaries.pitch + row;
            raw[row * canaries.ld + canaries.inside_cols.start + col]
        };
        Ok(Outcome {
            stray: canaries.check(&raw, false).err(),
            report,
            d: Array2::from_shape_fn((case.count() * case.m, case.n), inside),
        })
    }
}

/// Matrices inside a larger one that is NaN around each of them: what is read there by mistake shows in the result.
struct Framed<T> {
    matrix: Matrix<T>,
    layout: Layout,
    count: usize,
    rows: usize,
    cols: Range<usize>,
    /// Whether there is one matrix, for all products.
    shared: bool,
}

impl<T: Element> Framed<T> {
    fn upload(
        device: &Device,
        matrices: &Array3<T>,
        layout: Layout,
        (left, gap): (usize, usize),
        shared: bool,
    ) -> Result<Self> {
        let (count, rows, cols) = matrices.dim();
        let (rows, cols) = layout.stored(rows, cols);
        let (pitch, cols) = (rows + MARGIN, left..left + cols);
        let mut framed = Array2::from_elem((count * pitch, cols.end + gap), nan());
        for (index, matrix) in matrices.outer_iter().enumerate() {
            let stored = match layout {
                Layout::RowMajor => matrix,
                Layout::Transposed => matrix.reversed_axes(),
            };
            let first = index * pitch;
            framed.slice_mut(s![first..first + rows, cols.clone()]).assign(&stored);
        }
        let matrix = device.upload(&framed.view())?;
        Ok(Framed { matrix, layout, count, rows, cols, shared })
    }

    fn term(&self) -> Result<Term<'_, T>> {
        let all = self.matrix.view().slice(0..self.matrix.rows(), self.cols.clone())?;
        Ok(if self.shared {
            all.slice(0..self.rows, 0..self.cols.len())?.into()
        } else {
            all.as_batch(self.count, self.rows, self.rows + MARGIN)?.into()
        })
    }

    fn factor(&self) -> Result<Factor<'_, T>> {
        Ok(Factor::stored(self.term()?, self.layout))
    }
}
