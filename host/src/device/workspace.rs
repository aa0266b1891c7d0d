//! Memory that some kernels need besides their operands: for sums that are not finished, and for copies of factors.
//!
//! Each stream has some of its own, and so has a device for the work of no stream. It grows to the most that a product
//! on it has needed and is then used again and again: the work of a stream is in order, so that one product is done
//! with it before the next begins. What a CUDA graph has captured stays where it is as long as the device. Whoever
//! wants to know where memory goes makes a [`Workspace`] and passes it to [`Gemm::workspace`](crate::Gemm::workspace).

use super::pending::Use;
use super::stream::Stream;
use super::{Buffer, Device, Rows};
use crate::error::{Error, Result};
use cuda_std::memory::GlobalPtr;
use regemm_kernels::element::Element;
use regemm_kernels::params;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a signal.
pub(crate) const WORD_BYTES: u64 = size_of::<u32>() as u64;

/// Bytes that the host sets to zero at a time.
const ZEROED_TOGETHER: u64 = 4096;

/// How much memory a product needs besides its operands: [`Gemm::workspace_size`](crate::Gemm::workspace_size).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSize {
    /// Bytes for partial sums (of split-K and stream-K).
    pub partial_bytes: u64,
    /// Bytes for copies of factors in rows that bulk copies can take, for their halves, and for notes about products.
    pub copy_bytes: u64,
    /// Words by which blocks wait for one another, or tell later launches something.
    pub signals: u64,
}

impl WorkspaceSize {
    /// The least that is enough for either.
    pub fn max(self, other: WorkspaceSize) -> WorkspaceSize {
        WorkspaceSize {
            partial_bytes: self.partial_bytes.max(other.partial_bytes),
            copy_bytes: self.copy_bytes.max(other.copy_bytes),
            signals: self.signals.max(other.signals),
        }
    }

    fn holds(self, needed: WorkspaceSize) -> bool {
        self.max(needed) == self
    }
}

impl fmt::Display for WorkspaceSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkspaceSize { partial_bytes, copy_bytes, signals } = self;
        write!(
            f,
            "{partial_bytes} bytes for sums, {copy_bytes} bytes for copies and {signals} signals"
        )
    }
}

/// Memory on a device that products need besides their operands, made by [`Device::workspace`].
///
/// It serves one product at a time: those that share it are put in order by the library, as if each wrote it.
pub struct Workspace {
    size: WorkspaceSize,
    partials: Buffer,
    copies: Buffer,
    signals: Buffer,
    /// Held while a product is put on its stream: the launches of two must not alternate. Whether signals may not be
    /// zero.
    users: Mutex<Spoilt>,
}

/// Whether a launch has failed, whose blocks may have left signals behind that the next one would take for its own.
type Spoilt = bool;

impl Workspace {
    pub(crate) fn new(device: &Device, size: WorkspaceSize) -> Result<Workspace> {
        let bytes = size.signals.saturating_mul(WORD_BYTES);
        let partials = Buffer::new(device, size.partial_bytes)?;
        let copies = Buffer::new(device, size.copy_bytes)?;
        let signals = Buffer::new(device, bytes)?;
        let workspace = Workspace { size, partials, copies, signals, users: Mutex::default() };
        workspace.zero_signals()?;
        Ok(workspace)
    }

    /// Sets all signals to zero, after outstanding work that uses them.
    fn zero_signals(&self) -> Result<()> {
        self.signals.finish(Use::Write)?;
        let bytes = self.size.signals.saturating_mul(WORD_BYTES);
        let zeros = [0; ZEROED_TOGETHER as usize];
        for first in (0..bytes).step_by(zeros.len()) {
            let row_bytes = ZEROED_TOGETHER.min(bytes - first);
            let address = self.signals.address() + first;
            let to = Rows { address, row_bytes, pitch: row_bytes, rows: 1 };
            self.device().write_rows(&zeros[..row_bytes as usize], to)?;
        }
        Ok(())
    }

    /// How much it holds.
    pub fn size(&self) -> WorkspaceSize {
        self.size
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.partials.device()
    }

    /// For work on a stream, or on none.
    pub(crate) fn hold(&self, needed: WorkspaceSize, stream: Option<&Stream>) -> Result<Held<'_>> {
        if !self.size.holds(needed) {
            return Err(Error::WorkspaceTooSmall { found: self.size, needed });
        }
        let mut spoilt = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if *spoilt {
            let (needed, remedy) = Purpose::Zeroing.in_capture();
            stream.map_or(Ok(()), |stream| stream.refuse_capture(needed, remedy))?;
            self.zero_signals()?;
            *spoilt = false;
        }
        Ok(Held {
            partials: self.partials.address(),
            copies: self.copies.address(),
            signals: self.signals.address(),
            guard: Guard::Given { workspace: self, spoilt },
        })
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("size", &self.size).finish_non_exhaustive()
    }
}

/// What a workspace has to be at rest for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// To become larger.
    Growing,
    /// To have all signals zero again.
    Zeroing,
}

impl Purpose {
    /// What a capture cannot hold of it, and what would be right.
    pub fn in_capture(self) -> (&'static str, &'static str) {
        match self {
            Purpose::Growing => (
                "allocating a workspace",
                "give the product one (`Gemm::workspace`), or enqueue it once on the stream before the capture begins",
            ),
            Purpose::Zeroing => (
                "clearing a workspace after a launch that failed",
                "enqueue a product with that workspace once before the capture begins",
            ),
        }
    }
}

/// Where a stream's workspace comes from.
pub(crate) trait Memory {
    /// Waits for all work that may use what was allocated.
    fn settle(&self, purpose: Purpose) -> Result<()>;
    /// Memory of so many bytes, not zero of them.
    fn alloc(&self, bytes: u64) -> Result<u64>;
    /// Gives memory back that nothing uses.
    fn free(&self, address: u64);
    /// Whether what is launched now goes into a graph.
    fn is_captured(&self) -> Result<bool>;
    /// Keeps memory that a graph uses as long as the device.
    fn keep(&self, address: u64);
    /// Sets words to zero before any later work.
    fn zero(&self, address: u64, words: u64) -> Result<()>;
}

/// The workspace of a stream, as large as any of its work has needed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Grown {
    size: WorkspaceSize,
    /// Addresses of the sums, the copies and the signals; zero where there are none.
    partials: u64,
    copies: u64,
    signals: u64,
    spoilt: Spoilt,
    /// Whether a graph has its addresses, which launches go to that nobody sees here.
    in_graph: bool,
}

impl Grown {
    /// Whether it has to stay where it is as long as the device.
    pub fn is_in_graph(&self) -> bool {
        self.in_graph
    }

    /// The addresses of its allocations.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        [self.partials, self.copies, self.signals].into_iter().filter(|&address| address != 0)
    }

    fn reserve(&mut self, needed: WorkspaceSize, memory: &impl Memory) -> Result<()> {
        if self.size.holds(needed) {
            if self.spoilt {
                memory.settle(Purpose::Zeroing)?;
                memory.zero(self.signals, self.size.signals)?;
                self.spoilt = false;
            }
            return Ok(());
        }
        memory.settle(Purpose::Growing)?;
        let size = self.size.max(needed);
        let is_in_graph = self.in_graph;
        let give_up =
            |address| if is_in_graph { memory.keep(address) } else { memory.free(address) };
        self.addresses().for_each(give_up);
        *self = Grown::default();
        let alloc = |bytes| if bytes == 0 { Ok(0) } else { memory.alloc(bytes) };
        self.partials = alloc(size.partial_bytes)?;
        self.size.partial_bytes = size.partial_bytes;
        self.copies = alloc(size.copy_bytes)?;
        self.size.copy_bytes = size.copy_bytes;
        self.signals = alloc(size.signals.saturating_mul(WORD_BYTES))?;
        if size.signals > 0 {
            memory.zero(self.signals, size.signals)?;
        }
        self.size = size;
        Ok(())
    }
}

/// A workspace that nobody else uses until this is dropped.
pub(crate) struct Held<'w> {
    partials: u64,
    copies: u64,
    signals: u64,
    guard: Guard<'w>,
}

enum Guard<'w> {
    Nothing,
    Own { grown: MutexGuard<'w, Grown> },
    Given { workspace: &'w Workspace, spoilt: MutexGuard<'w, Spoilt> },
}

impl<'w> Held<'w> {
    /// For kernels that need none.
    pub const NOTHING: Held<'static> =
        Held { partials: 0, copies: 0, signals: 0, guard: Guard::Nothing };

    /// A stream's own, which grows if it is too small.
    pub fn own(
        workspace: &'w Mutex<Grown>,
        size: WorkspaceSize,
        memory: &impl Memory,
    ) -> Result<Held<'w>> {
        let mut grown = workspace.lock().unwrap_or_else(PoisonError::into_inner);
        grown.reserve(size, memory)?;
        grown.in_graph = grown.in_graph || memory.is_captured()?;
        let Grown { partials, copies, signals, .. } = *grown;
        Ok(Held { partials, copies, signals, guard: Guard::Own { grown } })
    }

    /// Notes that a launch has failed: whoever holds it next finds all signals zero again.
    pub fn spoil(&mut self) {
        match &mut self.guard {
            Guard::Nothing => {}
            // Without signals there is nothing to spoil.
            Guard::Own { grown } => grown.spoilt = grown.size.signals > 0,
            Guard::Given { spoilt, .. } => **spoilt = true,
        }
    }

    /// What a launch passes that needs so much. Kernels of which some blocks finish by themselves see that they do by
    /// there being nothing.
    pub fn to_kernel<T: Element>(&self, needed: WorkspaceSize) -> params::Workspace<T> {
        if (needed.partial_bytes, needed.signals) == (0, 0) {
            return params::Workspace::NONE;
        }
        params::Workspace {
            partials: GlobalPtr::from_address(self.partials),
            signals: GlobalPtr::from_address(self.signals),
        }
    }

    /// Where words that are zero between products begin.
    pub fn signals(&self) -> u64 {
        self.signals
    }

    /// Where the copies of factors go.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// Memory on which other work has to be ordered: that of a workspace that was given. A stream's own work is in
    /// order.
    pub fn buffers(&self) -> [Option<&Buffer>; 3] {
        match &self.guard {
            Guard::Given { workspace: Workspace { partials, copies, signals, .. }, .. } => {
                [Some(partials), Some(copies), Some(signals)]
            }
            _ => [None; 3],
        }
    }
}
