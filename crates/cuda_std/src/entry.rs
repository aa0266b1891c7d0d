//! A kernel as the host sees it: its name in the PTX module, its launch bounds and parameters, and the function that
//! the simulator runs. Constants of this type are made by [`#[kernel]`](crate::kernel).

use core::ffi::c_void;

/// A kernel that can be launched: by its name on a GPU, by its function on the simulator.
#[derive(Clone, Copy, Debug)]
pub struct KernelEntry {
    /// Name of the PTX entry.
    pub name: &'static str,
    /// Most threads in a block (`.maxntid`).
    pub max_threads: Option<u32>,
    /// Fewest blocks resident on a multiprocessor that the registers of a thread must leave room for
    /// (`.minnctapersm`).
    pub min_blocks: Option<u32>,
    /// Most registers of a thread (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// Blocks of a [cluster](crate::cluster), which follow each other along x; 1 where they are on their own
    /// (`.reqnctapercluster`).
    pub cluster: u32,
    /// Whether a launch may begin before the one before it on its stream has ended: see
    /// [`early_start`](crate::early_start).
    pub early_start: bool,
    /// The parameters in order.
    pub parameters: &'static [Parameter],
    /// Runs one thread. The slice holds one pointer a parameter, as in `cuLaunchKernel`.
    pub function: unsafe fn(&[*const c_void]),
}

/// Size and alignment of one kernel parameter, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Bytes of the value.
    pub size: usize,
    /// Alignment of the value in bytes.
    pub align: usize,
}

impl Parameter {
    /// The parameter of a type.
    pub const fn of<T: Copy>() -> Self {
        Parameter { size: size_of::<T>(), align: align_of::<T>() }
    }
}
