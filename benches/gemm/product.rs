//! A case as this library computes it.

use regemm::measure::{OperandSet, Part, SetLayout};
use regemm::{Activation, Element, Gemm, KernelChoice, Report, Stream, Vector};
use regemm_report::versus::Case;

/// Why this library does not compute a case, if it does not.
pub fn lacking(case: &Case) -> Option<&'static str> {
    if case.batch > 1 {
        Some("batches are not supported yet")
    } else if case.layouts.a_transposed() || case.layouts.b_transposed() {
        Some("transposed factors are not supported yet")
    } else {
        None
    }
}

/// Puts a case that is not [`lacking`] on a stream, with a bias for each column and GELU (by tanh, the
/// one that the vendor's epilogues have too) if there is a bias.
///
/// # Errors
/// Those of [`Gemm::enqueue`].
pub fn enqueue<T: Element>(
    _case: &Case,
    kernel: KernelChoice,
    bias: Option<&Vector<T>>,
    stream: &Stream,
    set: OperandSet<'_, T>,
) -> regemm::Result<Report> {
    let gemm = Gemm::new(set.a, set.b).kernel(kernel);
    match bias {
        Some(bias) => {
            gemm.bias_per_column(bias).activation(Activation::GeluTanh).enqueue(stream, set.d)
        }
        None => gemm.enqueue(stream, set.d),
    }
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
        d: part(m, n, false),
    }
}
