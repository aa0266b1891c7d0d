//! What an error is about: shapes, operands, limits of a device.

use std::fmt;

/// Rows and columns of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows, self.cols)
    }
}

/// A part of `D = activation(alpha * A * B + beta * C + bias)`, or what else there is on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// The matrix that is added.
    C,
    /// The result.
    D,
    /// The bias vector.
    Bias,
    /// The stream that the work is put on.
    Stream,
    /// Memory for sums that are not finished.
    Workspace,
    /// What remembers how products were computed.
    PrecisionRecord,
    /// Memory that a custom epilogue reads.
    EpilogueOperand,
    /// A factor that is to be split.
    Factor,
    /// An array on the host.
    Array,
    /// A matrix on a device that is copied.
    Source,
    /// What it is copied to.
    Copy,
    /// What [measures](crate::measure::SmClock) at which clock multiprocessors ran.
    Clock,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operand::A => "A",
            Operand::B => "B",
            Operand::C => "C",
            Operand::D => "D",
            Operand::Bias => "the bias",
            Operand::Stream => "the stream",
            Operand::Workspace => "the workspace",
            Operand::PrecisionRecord => "the record of precisions",
            Operand::EpilogueOperand => "an operand of the epilogue",
            Operand::Factor => "the factor",
            Operand::Array => "the array",
            Operand::Source => "the matrix to be copied",
            Operand::Copy => "its copy",
            Operand::Clock => "the clock",
        })
    }
}

/// A limit of a device that a kernel can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// Threads in a block.
    Threads,
    /// Bytes of shared memory a block.
    SharedMemory,
    /// Blocks in a grid.
    Blocks,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Resource::Threads => "threads in a block",
            Resource::SharedMemory => "bytes of shared memory a block",
            Resource::Blocks => "blocks in a grid",
        })
    }
}
