//! Matrices and their elements, by name.

use std::fmt;

/// A matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    A,
    B,
    D,
}

/// An element of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    pub matrix: Name,
    pub row: u64,
    pub col: u64,
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element { matrix, row, col } = self;
        write!(f, "{matrix:?}[{row}][{col}]")
    }
}
