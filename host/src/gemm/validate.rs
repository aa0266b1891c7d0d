//! Shapes, devices and sizes of the operands.

use super::overlap::Extent;
use super::{Addend, Gemm, KernelChoice};
use crate::device::Device;
use crate::device::stream::Stream;
use crate::error::{Error, Operand, Result, Shape};
use crate::kernels::Problem;
use crate::matrix::view::{MatrixView, MatrixViewMut};
use regemm_kernels::activation::Activation;
use regemm_kernels::element::Element;
use regemm_kernels::epilogue::{BiasAxis, Linear};

/// Largest dimension of a product: the kernels count rows, columns and depth in 32 bits, and tiles may reach past the
/// end.
const MAX_DIMENSION: usize = i32::MAX as usize;

/// Checks all operands and says what is to be computed.
pub(super) fn problem<T: Element>(gemm: &Gemm<'_, T>, d: &MatrixViewMut<'_, T>) -> Result<Problem> {
    devices(gemm, d)?;
    shapes(gemm, d)?;
    overlaps(gemm, d)?;
    Ok(Problem {
        dtype: T::DTYPE,
        m: dimension("m", gemm.a.rows())?,
        n: dimension("n", gemm.b.cols())?,
        k: dimension("k", gemm.a.cols())?,
    })
}

/// Checks that the stream is one of the matrices' device.
pub(super) fn stream<T: Element>(gemm: &Gemm<'_, T>, stream: Option<&Stream>) -> Result<()> {
    stream.map_or(Ok(()), |stream| same_device(gemm, Operand::Stream, stream.device()))
}

/// Checks that nothing was set that a custom epilogue would silently ignore.
pub(super) fn no_linear_parts<T: Element>(gemm: &Gemm<'_, T>) -> Result<()> {
    let default = Linear::<T>::identity();
    let set = [
        ("alpha", gemm.alpha != default.alpha),
        ("C", !matches!(gemm.c, Addend::None)),
        ("a bias", gemm.bias.is_some()),
        ("an activation", gemm.activation != Activation::None),
        ("a slope", gemm.slope != default.slope),
        ("a choice of kernel", !matches!(gemm.kernel, KernelChoice::Auto)),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((part, _)) => {
            Err(Error::CustomEpilogue { part, remedy: "make it part of the epilogue" })
        }
        None => Ok(()),
    }
}

fn devices<T: Element>(gemm: &Gemm<'_, T>, d: &MatrixViewMut<'_, T>) -> Result<()> {
    same_device(gemm, Operand::B, gemm.b.device())?;
    if let Addend::Matrix(c) = gemm.c {
        same_device(gemm, Operand::C, c.device())?;
    }
    if let Some((_, bias)) = gemm.bias {
        same_device(gemm, Operand::Bias, bias.device())?;
    }
    for operand in &gemm.epilogue_operands {
        same_device(gemm, Operand::EpilogueOperand, operand.device())?;
    }
    same_device(gemm, Operand::D, d.device())
}

fn same_device<T: Element>(gemm: &Gemm<'_, T>, operand: Operand, device: &Device) -> Result<()> {
    if gemm.device().is_same(device) {
        return Ok(());
    }
    let (found, expected) = (device.spec(), gemm.device().spec());
    Err(Error::DeviceMismatch { operand, found, expected })
}

fn shapes<T: Element>(gemm: &Gemm<'_, T>, d: &MatrixViewMut<'_, T>) -> Result<()> {
    let (a, b) = (gemm.a.shape(), gemm.b.shape());
    same_shape(Operand::B, b, Shape { rows: a.cols, cols: b.cols }, || {
        format!("A is {a}, so B must have {} rows", a.cols)
    })?;
    let product = Shape { rows: a.rows, cols: b.cols };
    let because = || format!("A is {a} and B is {b}");
    same_shape(Operand::D, d.shape(), product, because)?;
    if let Addend::Matrix(c) = gemm.c {
        same_shape(Operand::C, c.shape(), product, because)?;
    }
    if let Some((bias_axis, bias)) = gemm.bias {
        let (expected, axis) = match bias_axis {
            BiasAxis::Row => (product.rows, "row"),
            _ => (product.cols, "column"),
        };
        if bias.len() != expected {
            return Err(Error::BiasLength { found: bias.len(), expected, axis });
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

fn overlaps<T: Element>(gemm: &Gemm<'_, T>, d: &MatrixViewMut<'_, T>) -> Result<()> {
    let written = extent(&d.view());
    let separate = |operand, read: MatrixView<'_, T>, remedy| {
        let (d, read) = (written.addresses(), extent(&read));
        if !written.overlaps(&read) {
            return Ok(());
        }
        let read = read.addresses();
        let (d_start, d_end, start, end) = (d.start, d.end, read.start, read.end);
        Err(Error::Overlap { operand, d_start, d_end, start, end, remedy })
    };
    const FACTOR: &str = "give D memory of its own, since it is written while this is still read";
    separate(Operand::A, gemm.a, FACTOR)?;
    separate(Operand::B, gemm.b, FACTOR)?;
    if let Some((_, bias)) = gemm.bias {
        separate(Operand::Bias, MatrixView::row(bias), FACTOR)?;
    }
    match gemm.c {
        Addend::Matrix(c) if !written.is_same(&extent(&c)) => separate(
            Operand::C,
            c,
            "C must be exactly the same matrix as D or share no memory with it",
        ),
        _ => Ok(()),
    }
}

fn extent<T: Element>(view: &MatrixView<'_, T>) -> Extent {
    Extent {
        address: view.address(),
        rows: view.rows(),
        cols: view.cols(),
        ld: view.ld(),
        element_bytes: size_of::<T>(),
    }
}

fn dimension(name: &'static str, value: usize) -> Result<u32> {
    if value > MAX_DIMENSION {
        return Err(Error::DimensionTooLarge { name, value, limit: MAX_DIMENSION });
    }
    Ok(value as u32)
}
