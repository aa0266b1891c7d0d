//! Factors of f32 that are kept in two halves: split once, multiplied again and again.

use super::operands::{Factor, Repeat, Term};
use super::validate::dimension;
use crate::device::{Buffer, Code, Device, Launch, Region, Rows, Step};
use crate::error::{Error, Operand, Result, Shape};
use crate::kernels::MAX_PRODUCTS;
use crate::kernels::halves::{Room, across};
use crate::matrix::view::MatrixView;
use crate::precision::Precision;
use cuda_std::memory::GlobalPtr;
use half::f16;
use regemm_kernels::element::Element;
use regemm_kernels::layout::{Layout, Layouts};
use regemm_kernels::prepare::split::{self, HALVES, Split, SplitFactor};
use std::cell::Cell;
use std::fmt;

/// Bytes of a matrix's mark.
const MARK_BYTES: u64 = size_of::<u32>() as u64;

/// A factor, or a batch of them, in two halves, which products take in the place of f32: what is multiplied again and
/// again, such as weights, need be split only once.
///
/// [`Device::split_left`] makes one of what is to be A of products, [`Device::split_right`] of what is to be B: rows of
/// A and columns of B are scaled each by a power of two. So the transpose of one is the other: [`t`](SplitMatrix::t).
/// It has memory of its own, as much as f32 takes (rows are padded to multiples of 64 elements), and two bytes for each
/// of those rows or columns; what it was made of may be changed or dropped.
///
/// A product gives the same bits as if it split the factor itself, with [`Precision::Split`]. For [`Precision::Auto`],
/// which may have to compute exactly, the halves go [beside](Factor::with_halves) the matrix of f32.
///
/// # Examples
/// ```
/// use regemm::ndarray::Array2;
/// use regemm::{Device, Gemm, Precision};
///
/// let device = Device::sim();
/// let weights = device.upload(&Array2::from_elem((64, 8), 0.5f32).view())?;
/// let weights = device.split_right(&weights)?; // those of f32 are not needed any more
/// let mut y = device.matrix(4, 8)?;
/// for value in [1.0, 2.0] {
///     let x = device.upload(&Array2::from_elem((4, 64), value).view())?;
///     Gemm::new(&x, &weights).precision(Precision::Split).run(&mut y)?;
///     assert!(y.to_array()?.iter().all(|&sum| sum == 32.0 * value));
/// }
/// # Ok::<(), regemm::Error>(())
/// ```
pub struct SplitMatrix {
    /// The halves, what is known of the lines, and the marks.
    memory: Buffer,
    /// As they are stored: rows, columns.
    shape: (u32, u32),
    /// Matrices; none where it is one that all products of a batch share.
    count: Option<usize>,
    layout: Layout,
    /// Whether lines run across the rows that are stored.
    across: bool,
    room: Room,
}

impl SplitMatrix {
    /// # Errors
    /// As for [`Device::split_left`].
    pub(crate) fn new(
        device: &Device,
        factor: Factor<'_, f32>,
        is_right: bool,
    ) -> Result<SplitMatrix> {
        if factor.halves.is_some() {
            return Err(Error::Halves { operand: Operand::Factor, why: "it is split already" });
        }
        let Factor { stored, layout, .. } = factor;
        let [left, right] = across(Layouts { a: layout, b: layout });
        let across = if is_right { right } else { left };
        let rows = dimension("the number of rows", stored.first.rows())?;
        let cols = dimension("the number of columns", stored.first.cols())?;
        let count = stored.batch.map(|batch| batch.count);
        let matrices = dimension("the number of matrices", count.unwrap_or(1))?;
        let room = Room::of((rows, cols), across, [matrices, HALVES]);
        let marks = u64::from(matrices) * MARK_BYTES;
        let memory = Buffer::new(device, room.bytes().saturating_add(marks))?;
        let split = SplitMatrix { memory, shape: (rows, cols), count, layout, across, room };
        let zeros = vec![0; marks as usize];
        let to = Rows { address: split.marks(), row_bytes: marks, pitch: marks, rows: 1 };
        device.write_rows(&zeros, to)?;
        split.fill(&stored, matrices)?;
        Ok(split)
    }

    /// Splits what is stored.
    fn fill(&self, stored: &Term<'_, f32>, matrices: u32) -> Result<()> {
        let reads = [stored.first.region()];
        let writes = [Region::from(&self.memory)];
        for first in (0..matrices).step_by(MAX_PRODUCTS as usize) {
            let count = MAX_PRODUCTS.min(matrices - first);
            let from = stored.first.to_kernel().shifted(u64::from(first) * stored.stride());
            let (to, lines, marks) = (self.halves(first), self.lines(first), self.marks());
            let marks = GlobalPtr::<u32>::from_address(marks).add(first.into());
            let repeats = (count, stored.stride());
            let (to, lines) = (GlobalPtr::from_address(to), GlobalPtr::from_address(lines));
            let to_split = SplitFactor::new(from, self.shape, self.across, repeats, to, lines);
            let parameters = Split::new(to_split.with_marks(marks), SplitFactor::NONE);
            if parameters.blocks() == 0 {
                continue;
            }
            let arguments = [(&raw const parameters).cast()];
            let grid = [parameters.blocks(), 1, 1];
            let steps = [Step { code: Code::splitter(HALVES), grid, arguments: &arguments }];
            let begun = Cell::default();
            let launch = Launch { steps: &steps, reads: &reads, writes: &writes, begun: &begun };
            // SAFETY: the matrices are valid, and there is room for their halves, lines and marks.
            unsafe { self.device().launch(&launch, None)? };
        }
        Ok(())
    }

    /// The transpose, as a factor of a product: what was to be A becomes B, and the other way round.
    pub fn t(&self) -> Factor<'_, f32> {
        Factor::from(self).t()
    }

    /// Rows of the factor that was split, those of each matrix of a batch.
    pub fn rows(&self) -> usize {
        Factor::from(self).rows()
    }

    /// Columns of the factor that was split, those of each matrix of a batch.
    pub fn cols(&self) -> usize {
        Factor::from(self).cols()
    }

    /// The number of matrices; none for one that is shared by all products of a batch.
    pub fn count(&self) -> Option<usize> {
        self.count
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    pub(super) fn buffer(&self) -> &Buffer {
        &self.memory
    }

    /// The address of the high halves of a matrix.
    pub(super) fn halves(&self, matrix: u32) -> u64 {
        let elements = u64::from(matrix) * split::elements(self.shape.0, self.shape.1);
        self.memory.address() + elements * size_of::<f16>() as u64
    }

    /// The address of what is known of a matrix's lines.
    pub(super) fn lines(&self, matrix: u32) -> u64 {
        let lines = u64::from(matrix) * u64::from(split::lines(self.shape, self.across));
        self.memory.address() + self.room.halves + lines * size_of::<i16>() as u64
    }

    /// The address of the marks.
    pub(super) fn marks(&self) -> u64 {
        self.memory.address() + self.room.bytes()
    }

    /// The memory of both halves as that of f32: rows of halves are as long as half as many of these.
    fn as_stored(&self) -> Term<'_, f32> {
        let (rows, cols) = (self.shape.0 as usize, self.shape.1 as usize);
        let ld = split::ld(self.shape.1) as usize;
        let first = MatrixView::of_buffer(&self.memory, rows, cols, ld);
        Term { first, batch: self.count.map(|count| Repeat { count, stride: rows * ld }) }
    }
}

impl fmt::Debug for SplitMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitMatrix { shape: (rows, cols), count, layout, .. } = self;
        let mut f = f.debug_struct("SplitMatrix");
        f.field("rows", rows).field("cols", cols).field("count", count).field("layout", layout);
        f.finish_non_exhaustive()
    }
}

/// The halves that a factor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'a> {
    pub split: &'a SplitMatrix,
    /// Whether there is nothing else of it.
    pub alone: bool,
}

impl<'a> From<&'a SplitMatrix> for Factor<'a, f32> {
    fn from(split: &'a SplitMatrix) -> Self {
        let halves = Some(Kept { split, alone: true });
        Factor { stored: split.as_stored(), layout: split.layout, halves }
    }
}

impl<'a> Factor<'a, f32> {
    /// The same factor with its halves, which were made of the same matrix or batch before, and of what it holds now. A
    /// product takes what it needs of both.
    ///
    /// # Errors
    /// [`Error::Halves`] where they are of another shape or number, or on another device, and where the factor is kept
    /// in halves alone itself.
    pub fn with_halves(self, halves: &'a SplitMatrix) -> Result<Self> {
        let refuse = |why| Err(Error::Halves { operand: Operand::Factor, why });
        if self.halves.is_some_and(|kept| kept.alone) {
            return refuse("the factor itself is kept in halves alone: give the matrix of f32");
        }
        let shape = |(rows, cols): (u32, u32)| Shape { rows: rows as usize, cols: cols as usize };
        if self.stored.first.shape() != shape(halves.shape) || self.count() != halves.count {
            return refuse("they are of a matrix of another shape, or of another number of them");
        }
        if !self.device().is_same(halves.device()) {
            return refuse("they are on another device");
        }
        Ok(Factor { halves: Some(Kept { split: halves, alone: false }), ..self })
    }
}

impl Device {
    /// A factor in halves, to be A of products; see [`SplitMatrix`]. Waits until it is split.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`], [`Error::OutOfMemory`], [`Error::DimensionTooLarge`], [`Error::Halves`] where it is
    /// in halves already, or a failure of the device.
    pub fn split_left<'a>(&self, a: impl Into<Factor<'a, f32>>) -> Result<SplitMatrix> {
        self.split(a.into(), false)
    }

    /// A factor in halves, to be B of products: see [`split_left`](Device::split_left).
    ///
    /// # Errors
    /// As for [`split_left`](Device::split_left).
    pub fn split_right<'a>(&self, b: impl Into<Factor<'a, f32>>) -> Result<SplitMatrix> {
        self.split(b.into(), true)
    }

    fn split(&self, factor: Factor<'_, f32>, is_right: bool) -> Result<SplitMatrix> {
        if !self.is_same(factor.device()) {
            let (found, expected) = (factor.device().spec(), self.spec());
            return Err(Error::DeviceMismatch { operand: Operand::Factor, found, expected });
        }
        SplitMatrix::new(self, factor, is_right)
    }
}

/// Checks that a product in this precision can take the halves that its factors have.
pub(super) fn check<T: Element>(factors: [&Factor<'_, T>; 2], precision: Precision) -> Result<()> {
    let layouts = Layouts { a: factors[0].layout, b: factors[1].layout };
    let sides = across(layouts).into_iter().zip([Operand::A, Operand::B]);
    for (factor, (across, operand)) in factors.into_iter().zip(sides) {
        let Some(Kept { split, alone }) = factor.halves else { continue };
        if alone && precision != Precision::Split {
            return Err(Error::Precision {
                precision,
                with: "a factor that is kept in halves alone",
                remedy: "set `Precision::Split`, or give the matrix of f32 as well (`Factor::with_halves`)",
            });
        }
        if split.across != across {
            let why = "they were made for the other side: A takes those of `split_left`, or the transpose \
                       of those of `split_right`, and B the other way round";
            return Err(Error::Halves { operand, why });
        }
    }
    Ok(())
}
