//! Shapes, devices and sizes of the operands.

use super::operands::{Factor, Target, Term};
use super::overlap::{Extent, Extents};
use super::{Addend, Gemm, KernelChoice, kept};
use crate::device::Device;
use crate::device::stream::Stream;
use crate::error::{Error, Operand, Result, Shape};
use crate::kernels::{Problem, Repack};
use crate::precision::Precision;
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::activation::Activation;
use regemm_kernels::epilogue::{BiasAxis, Linear};
use regemm_kernels::layout::Layouts;

/// Largest dimension of a product: the kernels count rows, columns and depth in 32 bits, and tiles may reach past the
/// end.
const MAX_DIMENSION: usize = i32::MAX as usize;

/// Checks all operands of a product in a precision and says what is to be computed.
pub(super) fn problem<T: Element, D: Element>(
    gemm: &Gemm<'_, T, D>,
    d: &Target<'_, D>,
    precision: Precision,
) -> Result<Problem> {
    devices(gemm, d)?;
    shapes(gemm, d)?;
    counts(gemm, d)?;
    overlaps(gemm, d)?;
    kept::check([&gemm.a, &gemm.b], precision)?;
    let takes_halves = matches!(precision, Precision::Split | Precision::Auto);
    Ok(Problem {
        dtype: T::DTYPE,
        target: D::DTYPE,
        m: dimension("m", gemm.a.rows())?,
        n: dimension("n", gemm.b.cols())?,
        k: dimension("k", gemm.a.cols())?,
        layouts: Layouts { a: gemm.a.layout(), b: gemm.b.layout() },
        batch: dimension("the number of products", d.count().unwrap_or(1))?,
        repack: Repack::new(to_repack(&gemm.a)?, to_repack(&gemm.b)?),
        matrices: [matrices(&gemm.a)?, matrices(&gemm.b)?],
        kept: [&gemm.a, &gemm.b].map(|factor| takes_halves && factor.halves.is_some()),
        promoted: precision == Precision::Promoted,
    })
}

/// Checks that the stream is one of the matrices' device.
pub(super) fn stream<T: Element, D: Element>(
    gemm: &Gemm<'_, T, D>,
    stream: Option<&Stream>,
) -> Result<()> {
    stream.map_or(Ok(()), |stream| same_device(gemm, Operand::Stream, stream.device()))
}

/// Checks that nothing was set that a custom epilogue would silently ignore.
pub(super) fn no_linear_parts<T: Element, D: Element<Acc = T::Acc>>(
    gemm: &Gemm<'_, T, D>,
) -> Result<()> {
    let default = Linear::<D>::identity();
    let set = [
        ("alpha", gemm.alpha != default.alpha),
        ("C", !matches!(gemm.c, Addend::None)),
        ("a bias", gemm.bias.is_some()),
        ("an activation", gemm.activation != Activation::None),
        ("a slope", gemm.slope != default.slope),
        ("a choice of kernel", !matches!(gemm.kernel, KernelChoice::Auto)),
        ("a precision", gemm.precision.is_some_and(|precision| precision != Precision::Exact)),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((part, _)) => {
            Err(Error::CustomEpilogue { part, remedy: "make it part of the epilogue" })
        }
        None => Ok(()),
    }
}

fn devices<T: Element, D: Element>(gemm: &Gemm<'_, T, D>, d: &Target<'_, D>) -> Result<()> {
    same_device(gemm, Operand::B, gemm.b.device())?;
    if let Addend::Term(c) = gemm.c {
        same_device(gemm, Operand::C, c.first.device())?;
    }
    if let Some((_, bias)) = gemm.bias {
        same_device(gemm, Operand::Bias, bias.first.device())?;
    }
    for operand in gemm.epilogue_operands.iter().chain(&gemm.epilogue_results) {
        same_device(gemm, Operand::EpilogueOperand, operand.device())?;
    }
    if let Some(workspace) = gemm.workspace {
        same_device(gemm, Operand::Workspace, workspace.device())?;
    }
    if let Some(record) = gemm.record {
        same_device(gemm, Operand::PrecisionRecord, record.device())?;
    }
    same_device(gemm, Operand::D, d.first.device())
}

fn same_device<T: Element, D: Element>(
    gemm: &Gemm<'_, T, D>,
    operand: Operand,
    device: &Device,
) -> Result<()> {
    if gemm.a.device().is_same(device) {
        return Ok(());
    }
    let (found, expected) = (device.spec(), gemm.a.device().spec());
    Err(Error::DeviceMismatch { operand, found, expected })
}

fn shapes<T: Element, D: Element>(gemm: &Gemm<'_, T, D>, d: &Target<'_, D>) -> Result<()> {
    let shape = |factor: &Factor<'_, T>| Shape { rows: factor.rows(), cols: factor.cols() };
    let (a, b) = (shape(&gemm.a), shape(&gemm.b));
    same_shape(Operand::B, b, Shape { rows: a.cols, cols: b.cols }, || {
        format!("A is {a}, so B must have {} rows", a.cols)
    })?;
    let product = Shape { rows: a.rows, cols: b.cols };
    let because = || format!("A is {a} and B is {b}");
    same_shape(Operand::D, d.first.shape(), product, because)?;
    if let Addend::Term(c) = gemm.c {
        same_shape(Operand::C, c.first.shape(), product, because)?;
    }
    if let Some((bias_axis, bias)) = gemm.bias {
        let (expected, axis) = match bias_axis {
            BiasAxis::Row => (product.rows, "row"),
            _ => (product.cols, "column"),
        };
        let Shape { rows, cols: found } = bias.first.shape();
        if rows != 1 {
            return same_shape(
                Operand::Bias,
                bias.first.shape(),
                Shape { rows: 1, cols: expected },
                || format!("a bias is one row with an element for each {axis} of D"),
            );
        }
        if found != expected {
            return Err(Error::BiasLength { found, expected, axis });
        }
    }
    Ok(())
}

/// Checks that each operand is one matrix, or a batch of as many as D.
fn counts<T: Element, D: Element>(gemm: &Gemm<'_, T, D>, d: &Target<'_, D>) -> Result<()> {
    let c = if let Addend::Term(c) = gemm.c { Some(c) } else { None };
    let operands = [
        (Operand::A, gemm.a.stored.batch),
        (Operand::B, gemm.b.stored.batch),
        (Operand::C, c.and_then(|c| c.batch)),
        (Operand::Bias, gemm.bias.and_then(|(_, bias)| bias.batch)),
    ];
    for (operand, batch) in operands {
        let Some(batch) = batch else { continue };
        let (found, expected) = (batch.count, d.count());
        if Some(found) != expected {
            return Err(Error::BatchMismatch { operand, found, expected });
        }
    }
    Ok(())
}

fn same_shape(
    operand: Operand,
    found: Shape,
    expected: Shape,
    because: impl Fn() -> String,
) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::ShapeMismatch { operand, found, expected, because: because() })
}

fn overlaps<T: Element, D: Element>(gemm: &Gemm<'_, T, D>, d: &Target<'_, D>) -> Result<()> {
    let target = d.view();
    let written = extents(&target);
    let separate = |operand, read: Extents, remedy| {
        let d = written.addresses();
        if !written.overlaps(&read) {
            return Ok(());
        }
        let read = read.addresses();
        let (d_start, d_end, start, end) = (d.start, d.end, read.start, read.end);
        Err(Error::Overlap { operand, d_start, d_end, start, end, remedy })
    };
    const FACTOR: &str = "give D memory of its own, since it is written while this is still read";
    separate(Operand::A, extents(&gemm.a.stored), FACTOR)?;
    separate(Operand::B, extents(&gemm.b.stored), FACTOR)?;
    if let Some((_, bias)) = gemm.bias {
        separate(Operand::Bias, extents(&bias), FACTOR)?;
    }
    match gemm.c {
        Addend::Term(c) if !is_same(&target, &c) => separate(
            Operand::C,
            extents(&c),
            "C must be exactly the same matrix as D or share no memory with it",
        ),
        _ => Ok(()),
    }
}

/// Whether both have the same elements in the same places, product by product.
fn is_same<T: Element>(d: &Term<'_, T>, c: &Term<'_, T>) -> bool {
    let same_steps = match (d.batch, c.batch) {
        (Some(d), Some(c)) => d.stride == c.stride || d.count <= 1,
        (Some(d), None) => d.count <= 1,
        (None, _) => true,
    };
    same_steps && matrix_extent(d).is_same(&matrix_extent(c))
}

/// The elements of a matrix or of a batch.
fn extents<T: Element>(term: &Term<'_, T>) -> Extents {
    let (count, stride) = term.batch.map_or((1, 0), |batch| (batch.count, batch.stride));
    Extents::new(matrix_extent(term), count, stride)
}

/// The elements of a matrix, or of the first one of a batch.
fn matrix_extent<T: Element>(term: &Term<'_, T>) -> Extent {
    Extent {
        address: term.first.address(),
        rows: term.first.rows(),
        cols: term.first.cols(),
        ld: term.first.ld(),
        element_bytes: size_of::<T>(),
    }
}

/// Matrices of a factor: one where all products share it.
fn matrices<T: Element>(factor: &Factor<'_, T>) -> Result<u32> {
    let batch = factor.stored.batch.filter(|_| factor.stored.is_repeated());
    dimension("the number of products", batch.map_or(1, |batch| batch.count))
}

/// Matrices of a factor that bulk copies cannot take.
fn to_repack<T: Element>(factor: &Factor<'_, T>) -> Result<u32> {
    if factor.stored.takes_bulk_copies() { Ok(0) } else { matrices(factor) }
}

pub(super) fn dimension(name: &'static str, value: usize) -> Result<u32> {
    if value > MAX_DIMENSION {
        return Err(Error::DimensionTooLarge { name, value, limit: MAX_DIMENSION });
    }
    Ok(value as u32)
}
