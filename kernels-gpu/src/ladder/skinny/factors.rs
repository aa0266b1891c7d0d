//! Which factor of a [skinny](super) product is which.

use crate::element::Element;
use crate::kernel::ShortSide;
use crate::layout::{Layout, Layouts};
use crate::params::{GemmParams, MatrixRef};
use crate::slices::mover::vector_len;
use cuda_std::device_inline;

/// Which axis of D is short.
pub trait Side: 'static {
    /// Which.
    const SHORT: ShortSide;
    /// Whether D has few columns, so that the product is computed for the transposes.
    const TRANSPOSED: bool = matches!(Self::SHORT, ShortSide::Cols);
}

/// D has few rows: B is the large factor.
pub struct FewRows;

impl Side for FewRows {
    const SHORT: ShortSide = ShortSide::Rows;
}

/// D has few columns: A is the large factor.
pub struct FewCols;

impl Side for FewCols {
    const SHORT: ShortSide = ShortSide::Cols;
}

/// The factors of a product, or of its transpose where D has few columns: `short x k` and `k x long`.
#[derive(Clone, Copy)]
pub struct Factors<T> {
    /// The one with few rows.
    pub small: MatrixRef<T>,
    /// The one with many columns.
    pub large: MatrixRef<T>,
    /// Their layouts.
    pub layouts: Layouts,
    /// Rows of the small one.
    pub short: u32,
    /// Columns of the large one.
    pub long: u32,
    /// What they have in common.
    pub k: u32,
}

impl<T: Element> Factors<T> {
    /// Those of a product whose A and B lie in these layouts.
    #[device_inline]
    pub fn new<E, D: Element>(p: &GemmParams<T, E, D>, layouts: Layouts, transposed: bool) -> Self {
        let layouts = layouts_of_factors(layouts, transposed);
        let GemmParams { a, b, m, n, k, .. } = *p;
        if transposed {
            Factors { small: b, large: a, layouts, short: n, long: m, k }
        } else {
            Factors { small: a, large: b, layouts, short: m, long: n, k }
        }
    }

    /// Whether the stored rows of the large factor consist of whole, aligned vectors. The same for all threads.
    #[device_inline]
    pub fn is_wide(&self) -> bool {
        let vector = vector_len::<T>() as u32;
        let row = match self.layouts.b {
            Layout::RowMajor => self.long,
            Layout::Transposed => self.k,
        };
        self.large.has_vectors(vector) && row.is_multiple_of(vector)
    }
}

/// The layouts of the small and the large factor: those of A and B, or of their transposes the other way round.
pub const fn layouts_of_factors(layouts: Layouts, transposed: bool) -> Layouts {
    if transposed {
        Layouts { a: layouts.b.transposed(), b: layouts.a.transposed() }
    } else {
        layouts
    }
}
