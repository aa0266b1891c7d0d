//! How the factors of a product lie in memory: row-major or transposed.
//!
//! A transposed factor is stored as its transpose, which is the same as column-major: a kernel walks along the other
//! axis of it, and what is a row for one layout is a column for the other. So a kernel is compiled for its [`Layouts`],
//! which it takes as a type parameter: a marker that is [`OperandLayouts`].

use core::fmt;
use cuda_std::device_inline;

/// How one factor lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Rows of the factor lie together.
    #[default]
    RowMajor,
    /// Columns of the factor lie together: what is stored is its transpose, row-major.
    Transposed,
}

impl Layout {
    /// The layout of the transpose of what lies so.
    pub const fn transposed(self) -> Layout {
        match self {
            Layout::RowMajor => Layout::Transposed,
            Layout::Transposed => Layout::RowMajor,
        }
    }

    /// Rows and columns as they are stored, of a factor of `rows` rows and `cols` columns, and the reverse.
    #[device_inline]
    pub const fn stored<N: Copy>(self, rows: N, cols: N) -> (N, N) {
        match self {
            Layout::RowMajor => (rows, cols),
            Layout::Transposed => (cols, rows),
        }
    }
}

/// How both factors lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layouts {
    /// The left factor, `m x k`. Transposed it is stored `k x m`.
    pub a: Layout,
    /// The right factor, `k x n`. Transposed it is stored `n x k`.
    pub b: Layout,
}

impl Layouts {
    /// Both row-major.
    pub const NN: Layouts = Layouts { a: Layout::RowMajor, b: Layout::RowMajor };
    /// B transposed.
    pub const NT: Layouts = Layouts { a: Layout::RowMajor, b: Layout::Transposed };
    /// A transposed.
    pub const TN: Layouts = Layouts { a: Layout::Transposed, b: Layout::RowMajor };
    /// Both transposed.
    pub const TT: Layouts = Layouts { a: Layout::Transposed, b: Layout::Transposed };

    /// All of them.
    pub const ALL: [Layouts; 4] = [Layouts::NN, Layouts::NT, Layouts::TN, Layouts::TT];

    /// The field's name, A's layout first: `nn`, `nt`, `tn`, `tt`.
    pub const fn name(self) -> &'static str {
        match (self.a, self.b) {
            (Layout::RowMajor, Layout::RowMajor) => "nn",
            (Layout::RowMajor, Layout::Transposed) => "nt",
            (Layout::Transposed, Layout::RowMajor) => "tn",
            (Layout::Transposed, Layout::Transposed) => "tt",
        }
    }
}

impl fmt::Display for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Layouts as a type: a parameter of kernels.
pub trait OperandLayouts: 'static {
    /// The layouts.
    const LAYOUTS: Layouts;
}

macro_rules! markers {
    ($($(#[$doc:meta])* $marker:ident = $layouts:ident;)*) => {$(
        $(#[$doc])*
        pub struct $marker;

        impl OperandLayouts for $marker {
            const LAYOUTS: Layouts = Layouts::$layouts;
        }
    )*};
}

markers! {
    /// [`Layouts::NN`] as a type.
    Nn = NN;
    /// [`Layouts::NT`] as a type.
    Nt = NT;
    /// [`Layouts::TN`] as a type.
    Tn = TN;
    /// [`Layouts::TT`] as a type.
    Tt = TT;
}
