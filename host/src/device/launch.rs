//! Kernels as they are launched: where their code is, grids that run one after the other, and the memory that they use.

use super::Region;
use super::ptx::{self, PtxModule};
use cuda_std::entry::KernelEntry;
use regemm_kernels::cycles;
use regemm_kernels::kernel::{KernelInfo, Needs, Reducer};
use regemm_kernels::prepare::{repack, split};
use regemm_kernels::schedule::reduce;
use regemm_kernels::table::{CYCLE_COUNTER, REPACKER, ROUNDER, SPLITTER, TRANSPOSER};
use std::cell::Cell;
use std::ffi::c_void;

/// A kernel and where its PTX is.
#[derive(Clone, Copy)]
pub(crate) struct KernelSource {
    pub info: &'static KernelInfo,
    pub modules: &'static [PtxModule],
}

impl KernelSource {
    /// A kernel of this library.
    pub fn embedded(info: &'static KernelInfo) -> KernelSource {
        KernelSource { info, modules: ptx::MODULES }
    }

    /// The code of the kernel itself.
    pub fn code(&self) -> Code {
        let KernelSource { info, modules } = *self;
        let (threads, shared_bytes) = (info.threads(), info.shared_bytes);
        let needs = info.needs;
        Code { name: info.entry.name, entry: &info.entry, needs, threads, shared_bytes, modules }
    }

    /// The code of the kernel that is launched after it, if there is one.
    pub fn reducer(&self) -> Option<Code> {
        let KernelSource { info, modules } = *self;
        let of = |reducer: &'static Reducer| Code {
            name: reducer.name,
            entry: &reducer.entry,
            needs: Needs::Nothing,
            threads: reduce::THREADS,
            shared_bytes: 0,
            modules,
        };
        info.reducer.as_ref().map(of)
    }
}

/// The code of one PTX entry, and what all its launches have in common.
#[derive(Clone, Copy)]
pub(crate) struct Code {
    pub name: &'static str,
    pub entry: &'static KernelEntry,
    pub needs: Needs,
    /// Threads in a block, all along x.
    pub threads: u32,
    /// Bytes of dynamic shared memory a block.
    pub shared_bytes: u32,
    pub modules: &'static [PtxModule],
}

impl Code {
    /// That of the kernel of this library which is launched before one that makes bulk copies, if they cannot take a
    /// factor, or it takes one in another layout.
    pub fn repacker(transposes: bool) -> Code {
        let entry = if transposes { &TRANSPOSER } else { &REPACKER };
        Code::around(entry, repack::THREADS)
    }

    /// That of the kernel of this library which is launched before one that takes factors in so many halves.
    pub fn splitter(halves: u32) -> Code {
        let entry = if halves == 1 { &ROUNDER } else { &SPLITTER };
        Code::around(entry, split::THREADS)
    }

    /// That of the kernel of this library which is launched before and behind others whose clock is measured.
    pub fn cycle_counter() -> Code {
        Code::around(&CYCLE_COUNTER, cycles::THREADS)
    }

    fn around(entry: &'static KernelEntry, threads: u32) -> Code {
        let (needs, modules) = (Needs::Nothing, ptx::MODULES);
        Code { name: entry.name, entry, needs, threads, shared_bytes: 0, modules }
    }
}

/// One grid of blocks.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub code: Code,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Pointers to parameters, of which the kernel takes the first ones.
    pub arguments: &'a [*const c_void],
}

impl<'a> Step<'a> {
    /// Pointers to the kernel's parameters.
    pub(super) fn taken(&self) -> &'a [*const c_void] {
        &self.arguments[..self.code.entry.parameters.len().min(self.arguments.len())]
    }
}

/// Grids that run one after the other.
pub(crate) struct Launch<'a> {
    pub steps: &'a [Step<'a>],
    /// Memory that the kernels read.
    pub reads: &'a [Region<'a>],
    /// Memory that the kernels write, as far as their work on it has to be put in order.
    pub writes: &'a [Region<'a>],
    /// Set before the first of them is started: whatever fails from then on may have left something behind.
    pub begun: &'a Cell<bool>,
}
