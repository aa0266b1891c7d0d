//! What a kernel can do wrong, and how it is reported.

use std::fmt;
use std::panic::Location;

/// A state space of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Memory of the device, shared by all blocks.
    Global,
    /// Memory of a block.
    Shared,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Space::Global => "global",
            Space::Shared => "shared",
        })
    }
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
        })
    }
}

/// One access of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryAccess {
    /// Where.
    pub space: Space,
    /// Load or store.
    pub kind: AccessKind,
    /// Byte address in the space.
    pub address: u64,
    /// Bytes moved.
    pub bytes: u32,
}

impl fmt::Display for MemoryAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryAccess { space, kind, address, bytes } = self;
        let unit = if *bytes == 1 { "byte" } else { "bytes" };
        write!(f, "{kind} of {bytes} {unit} at {space} address {address:#x}")
    }
}

/// A place in the source of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// File as the compiler was given it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl From<&Location<'_>> for SourceLocation {
    fn from(location: &Location<'_>) -> Self {
        SourceLocation {
            file: location.file().to_owned(),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Which rule a thread broke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every allocation or shared array.
    OutOfBounds,
    /// An address that is not a multiple of the bytes moved.
    Misaligned,
    /// A read of shared memory that no thread of the block has written.
    UninitialisedShared,
    /// A load from global memory that another thread has stored to in the same launch, without anything between that
    /// orders the two: barriers for threads of a block or a cluster, signals for others as well. It is looked for only
    /// in launches that leave something out, or note what could be ([`Site`](crate::sim::Site)). Stores that come too
    /// early for others that load or store there, and bulk copies, are not looked at.
    GlobalRace {
        /// Index of the block that wrote.
        block: [u32; 3],
        /// Index of the thread that wrote, in its block.
        thread: [u32; 3],
    },
    /// Two threads touched the same byte of shared memory, at least one wrote it, and no barrier lies between.
    SharedRace {
        /// Index of the thread that came first, or whose copy did, in its block: the message says which block that is
        /// where it is another one of the cluster.
        other: [u32; 3],
        /// What it did.
        other_access: AccessKind,
    },
    /// An access to shared memory that an asynchronous copy is going to write: the thread that issued the copy has not
    /// waited for its group, and nobody has waited for an mbarrier that the copy arrives at.
    AsyncNotWaited {
        /// Index of the thread that issued the copy, in its block: the message says which block that is where it is
        /// another one of the cluster.
        issuer: [u32; 3],
    },
    /// A write to shared memory that a bulk store is going to read, or the end of a thread whose bulk store may still
    /// read it: the thread that issued the store has not waited for its group.
    BulkStoreNotWaited {
        /// Index of the thread that issued the store.
        issuer: [u32; 3],
    },
    /// A block that has ended while a bulk load to its shared memory was under way, an arrival of copies at one of its
    /// mbarriers, or a warpgroup matrix instruction: nobody has waited for that, and the memory may be another block's
    /// by then.
    EndsUnderWay {
        /// Index of the thread that issued it, or of the warpgroup's first.
        issuer: [u32; 3],
    },
    /// A bulk copy that need not see what a thread has written to shared memory, or that an mbarrier has been
    /// initialised, or a warpgroup matrix instruction that need not see what a thread has written: no proxy fence lies
    /// between the two.
    MissingProxyFence {
        /// Index of the thread that wrote.
        writer: [u32; 3],
    },
    /// A bulk copy with a tensor map that the simulator has not made, or of a tensor of another rank, or a prefetch of
    /// what is none.
    InvalidTensorMap,
    /// A barrier or warp-collective operation that not all of its threads reach, or a named barrier that not all lanes
    /// of a warp come to at one place.
    DivergentBarrier {
        /// The first thread that does not come.
        missing: [u32; 3],
    },
    /// An mbarrier operation at an address where no mbarrier has been initialised, or where no barrier lies between the
    /// initialisation and the operation.
    MbarrierUninitialised,
    /// An mbarrier that is initialised twice or for a number of arrivals that it cannot count, or a parity other than 0
    /// and 1.
    MbarrierMisuse,
    /// An access, of whatever kind, to the bytes of an mbarrier that is no operation on mbarriers.
    MbarrierOverwritten,
    /// More arrivals at an mbarrier than it expects in a phase, a phase that may be over before a thread that waits for
    /// the phase before has seen the end of that, or a wait for a parity by a thread that cannot know which phase has
    /// it. All are found by what is ordered, not by what came first in this run.
    MbarrierOverrun,
    /// A wait for an mbarrier that never ends: no thread of the block can go on.
    MbarrierDeadlock {
        /// Arrivals that the phase under way still lacks.
        missing: u32,
    },
    /// A wait for a signal that never ends: the blocks of lower index have ended and no thread of the block can go on.
    /// Values that blocks of higher index post are none that it may wait for.
    SignalDeadlock {
        /// The value of the word, of those that the block and the ones before it have posted.
        found: u32,
        /// The value that the thread waits for.
        wanted: u32,
    },
    /// A signal that was not zero before the launch, or that the kernel has not set back to zero at its end.
    SignalNotZero {
        /// Its value then.
        value: u32,
    },
    /// An access to global memory in a kernel that may begin before the launch before it has ended, by a thread that
    /// has not waited for that ([`early_start`](crate::early_start)).
    TooEarly,
    /// A value that a hint says is the same in all lanes of a warp, and is not.
    NotUniform {
        /// The value of the first lane.
        first: u32,
    },
    /// A write to shared memory that a warpgroup matrix instruction is going to read: its warpgroup has not waited for
    /// its group.
    OperandInFlight {
        /// Index of the warpgroup's first thread.
        issuer: [u32; 3],
    },
    /// An access of a thread to accumulators that a warpgroup matrix instruction is changing: it has not been waited
    /// for.
    AccumulatorsInFlight,
    /// A warpgroup matrix instruction on accumulators that threads, or an instruction of another shape, have accessed
    /// since the last warpgroup fence.
    WgmmaFenceMissing,
    /// A matrix descriptor that contradicts itself.
    WgmmaDescriptor,
    /// A warpgroup operation in a warpgroup that lacks threads or whose threads give different arguments, accumulators
    /// that are declared twice or not at all, or a wait for more groups than there can be.
    WgmmaMisuse,
    /// A wait for an mbarrier whose phase expects another number of bytes than bulk copies bring. With fewer no thread
    /// of the block can go on.
    MbarrierBytes {
        /// Bytes that the phase expects.
        expected: u32,
        /// Bytes of the copies that have been issued.
        copied: u32,
    },
    /// Blocks of the cluster that there are not, or a barrier of the cluster at which a thread arrives twice or waits
    /// without having arrived.
    ClusterMisuse,
    /// Something that a thread does to the shared memory of another block of its cluster, which may have ended by then:
    /// no thread of that block returns only after it has seen that.
    BlockEnded {
        /// Index of that block.
        block: [u32; 3],
    },
    /// A named barrier that there is not, for a number of threads that is no multiple of 32 or that the block does not
    /// have, for which threads name different numbers, or to which a thread comes that has not seen that the barrier
    /// was complete the last time. That is found by what is ordered, not by what came first in this run.
    NamedBarrierMisuse,
    /// A wait at a named barrier that never ends: no thread of the block can go on.
    NamedBarrierDeadlock {
        /// Threads that have not come.
        missing: u32,
    },
    /// A warpgroup that takes registers down to fewer than it has or gives some up for more, or that does either in a
    /// kernel without a bound on its registers.
    RegistersMisuse,
    /// A warpgroup that takes registers that nobody gives up: no thread of the block can go on.
    RegistersDeadlock {
        /// Registers that each of its threads lacks.
        missing: u32,
    },
    /// A shuffle that reads from a lane that does not take part in it.
    ShuffleSource {
        /// Index of that lane in the warp.
        lane: u32,
    },
    /// A warp-collective operation executed by a lane that its mask does not name.
    LaneNotInMask {
        /// The mask.
        mask: u32,
    },
    /// An operation that takes all 32 lanes of a warp, in one that has fewer.
    PartialWarp {
        /// Lanes of the warp.
        lanes: u32,
    },
    /// Threads of a block that declare static shared arrays of different lengths at one place, or one that declares the
    /// same array twice.
    SharedMismatch,
    /// More shared memory than a block may have.
    SharedLimit,
    /// A thread that has taken too many steps, which are accesses to memory and waits, so that it may well never end.
    /// How many there may be says [`limiting_steps`](crate::sim::Simulator::limiting_steps).
    Endless {
        /// How many it may take.
        steps: u64,
    },
    /// A Rust panic in the kernel: an index out of range, an overflow, an `unwrap`.
    Panic,
}

/// A rule that a kernel broke: which thread, where, and what was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which rule.
    pub kind: FaultKind,
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Index of the block in the grid: x, y, z.
    pub block: [u32; 3],
    /// Index of the thread in the block: x, y, z.
    pub thread: [u32; 3],
    /// The access that broke it, where it was one.
    pub access: Option<MemoryAccess>,
    /// What was wrong, in words.
    pub message: String,
    /// Where in the source; absent for a panic when the program has replaced the panic hook.
    pub location: Option<SourceLocation>,
}

impl Fault {
    /// The address of the access, where it was one.
    pub fn address(&self) -> Option<u64> {
        self.access.map(|access| access.address)
    }
}

/// An index triple as `(x,y,z)`.
pub(super) struct Index(pub [u32; 3]);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x},{y},{z})")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, thread) = (Index(self.block), Index(self.thread));
        write!(f, "kernel {}, block {block}, thread {thread}: ", self.kernel)?;
        if let Some(access) = &self.access {
            write!(f, "{access} ")?;
        }
        f.write_str(&self.message)?;
        if let Some(location) = &self.location {
            write!(f, " ({location})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Why a call on the simulator failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The kernel broke a rule. The memory holds whatever it had written by then.
    #[error(transparent)]
    Fault(Box<Fault>),
    /// The launch was refused and nothing ran. Says what would be right.
    #[error("invalid launch: {0}")]
    InvalidLaunch(String),
    /// No room for an allocation.
    #[error("out of memory: {requested} bytes requested, {available} available")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the simulated memory that are not allocated.
        available: u64,
    },
    /// An address range, given by the host, that does not lie in one live allocation. `bytes` is zero for
    /// [`free`](crate::sim::Simulator::free), which needs the address that `alloc` returned.
    #[error("invalid address: {bytes} bytes at {address:#x} do not lie in one live allocation")]
    InvalidAddress {
        /// First byte.
        address: u64,
        /// Length of the range.
        bytes: u64,
    },
    /// The host has no memory for the stacks of the threads.
    #[error("the host cannot provide stacks for the threads of a block: {0}")]
    HostResources(String),
}
