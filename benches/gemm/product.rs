//! A case as this library computes it.

use regemm::measure::{OperandSet, Part, SetLayout};
use regemm::{
    Accumulator, Activation, Element, Factor, Gemm, KernelChoice, MatrixView, Precision, Report,
    Stream, Vector, Yields,
};
use regemm_report::versus::Case;

/// Puts a case, whose operands lie as [`layout`] says, on a stream, with C added if the case has one, and with a bias
/// for each column and GELU (by tanh, the one that the vendor's epilogues have too) if there is a bias.
///
/// # Errors
/// Those of [`Gemm::enqueue`].
pub fn enqueue<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    case: &Case,
    (kernel, precision): (KernelChoice, Precision),
    bias: Option<&Vector<D>>,
    stream: &Stream,
    set: OperandSet<'_, T, D>,
) -> regemm::Result<Report> {
    let a = factor(case, set.a, case.layouts.a_transposed())?;
    let b = factor(case, set.b, case.layouts.b_transposed())?;
    let mut gemm = Gemm::widening(a, b).kernel(kernel).precision(precision);
    if case.has_addend() {
        gemm = gemm.c(T::Acc::ONE, set.c);
    }
    if let Some(bias) = bias {
        gemm = gemm.bias_per_column(bias).activation(Activation::GeluTanh);
    }
    if case.batch == 1 {
        gemm.enqueue(stream, set.d)
    } else {
        gemm.enqueue(stream, set.d.into_batch(case.batch, case.m, case.m)?)
    }
}

/// A factor as it lies in memory: a matrix, or the matrices of a batch below one another.
fn factor<'a, T: Element>(
    case: &Case,
    stored: MatrixView<'a, T>,
    transposed: bool,
) -> regemm::Result<Factor<'a, T>> {
    let factor = if case.batch == 1 {
        Factor::from(stored)
    } else {
        let rows = stored.rows() / case.batch;
        Factor::from(stored.as_batch(case.batch, rows, rows)?)
    };
    Ok(if transposed { factor.t() } else { factor })
}

/// How the operands of a case lie in memory: the matrices of a batch below one another, transposed factors as their
/// transposes.
pub fn layout(case: &Case) -> SetLayout {
    let Case { m, n, k, layouts, batch, .. } = *case;
    let part = |rows: usize, cols: usize, transposed: bool| {
        let (rows, cols) = if transposed { (cols, rows) } else { (rows, cols) };
        Part::packed(batch * rows, cols)
    };
    SetLayout {
        a: part(m, k, layouts.a_transposed()),
        b: part(k, n, layouts.b_transposed()),
        c: if case.has_addend() { part(m, n, false) } else { Part::default() },
        d: part(m, n, false),
    }
}
