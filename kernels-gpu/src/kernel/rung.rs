//! The rungs of the ladder, by name.

use core::fmt;

/// A rung of the ladder: a kind of kernel, which adds one idea to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rung {
    /// [`crate::ladder::naive`]
    Naive,
    /// [`crate::ladder::tiled`]
    Tiled,
    /// [`crate::ladder::microkernel`]
    Microkernel,
    /// [`crate::ladder::double_buffered`]
    DoubleBuffered,
    /// [`crate::ladder::pipelined`]
    Pipelined,
    /// [`crate::ladder::warp_tiled`]
    WarpTiled,
    /// [`crate::ladder::decoupled`]
    Decoupled,
    /// [`crate::ladder::warp_specialised`]
    WarpSpecialised,
    /// [`crate::ladder::sliced_k`]
    SlicedK,
    /// [`crate::ladder::split_k`] and [`crate::ladder::split_sliced_k`]
    SplitK,
    /// [`crate::ladder::skinny`] and [`crate::ladder::skinny::staged`]
    Skinny,
    /// [`crate::ladder::stream_k`]
    StreamK,
    /// [`crate::warp::tensor_core`], [`crate::double::tensor_core`] and [`crate::double::bulk`]
    TensorCore,
    /// [`crate::warpgroup`]
    Warpgroup,
}

impl Rung {
    /// All rungs, from the bottom up.
    pub const ALL: [Rung; 14] = [
        Rung::Naive,
        Rung::Tiled,
        Rung::Microkernel,
        Rung::DoubleBuffered,
        Rung::Pipelined,
        Rung::WarpTiled,
        Rung::Decoupled,
        Rung::WarpSpecialised,
        Rung::SlicedK,
        Rung::SplitK,
        Rung::Skinny,
        Rung::StreamK,
        Rung::TensorCore,
        Rung::Warpgroup,
    ];

    /// The module's name.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Naive => "naive",
            Rung::Tiled => "tiled",
            Rung::Microkernel => "microkernel",
            Rung::DoubleBuffered => "double_buffered",
            Rung::Pipelined => "pipelined",
            Rung::WarpTiled => "warp_tiled",
            Rung::Decoupled => "decoupled",
            Rung::WarpSpecialised => "warp_specialised",
            Rung::SlicedK => "sliced_k",
            Rung::SplitK => "split_k",
            Rung::Skinny => "skinny",
            Rung::StreamK => "stream_k",
            Rung::TensorCore => "tensor_core",
            Rung::Warpgroup => "warpgroup",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
