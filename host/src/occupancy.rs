//! How many blocks of a kernel a multiprocessor holds at a time, and what limits them.
//!
//! Worked out from published limits, so it needs no GPU. On a GPU the driver's own answer is
//! [`KernelReport::resident_blocks`](crate::KernelReport), and the two are the same.
//!
//! ```
//! use regemm::occupancy::{Demand, Limiter, Limits, occupancy};
//!
//! let h200 = Limits::of((9, 0)).unwrap();
//! let demand = Demand { threads: 256, registers: 128, shared_bytes: 16 << 10 };
//! let occupancy = occupancy(&h200, &demand)?;
//! assert_eq!((occupancy.blocks, occupancy.warps), (2, 16));
//! assert_eq!(occupancy.limited_by, [Limiter::Registers]);
//! # Ok::<(), regemm::occupancy::CannotLaunch>(())
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `limits` | what a multiprocessor has |
//! | `registers` | what one more or one fewer register a thread would do |
//! | `compiled` | the registers of this library's kernels, as recorded when they were compiled |

mod compiled;
mod limits;
mod registers;

pub use compiled::{Compiled, compiled, recorded_with};
pub use limits::{Limits, WARP_THREADS};
pub use registers::{RegisterSteps, register_steps};

use serde::Serialize;
use std::fmt;

/// What a block takes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// Threads of a block.
    pub threads: u32,
    /// 32-bit registers of a thread; 0 where registers are left out of account.
    pub registers: u32,
    /// Shared memory of a block in bytes: declared in the kernel and asked for at the launch, together.
    pub shared_bytes: u32,
}

/// What can limit the resident blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// Threads, in whole warps.
    Threads,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Block slots.
    Blocks,
}

impl Limiter {
    /// The resource in words.
    pub const fn name(self) -> &'static str {
        match self {
            Limiter::Threads => "threads",
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
            Limiter::Blocks => "block slots",
        }
    }
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The blocks that each resource has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    /// For their threads.
    pub threads: u32,
    /// For their registers; none where they take none.
    pub registers: Option<u32>,
    /// For their shared memory; none where they take none.
    pub shared_memory: Option<u32>,
    /// Block slots.
    pub blocks: u32,
}

impl Room {
    fn each(&self) -> [(Limiter, Option<u32>); 4] {
        [
            (Limiter::Threads, Some(self.threads)),
            (Limiter::Registers, self.registers),
            (Limiter::SharedMemory, self.shared_memory),
            (Limiter::Blocks, Some(self.blocks)),
        ]
    }
}

/// The blocks that are resident on a multiprocessor at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    /// Resident blocks; at least one.
    pub blocks: u32,
    /// Resident warps.
    pub warps: u32,
    /// Most warps that the multiprocessor can hold.
    pub most_warps: u32,
    /// The resources that have room for no more blocks than these.
    pub limited_by: Vec<Limiter>,
    /// The blocks that each resource has room for.
    pub room: Room,
    /// Registers that the resident blocks take, as they are given out.
    pub registers_used: u32,
    /// Bytes of shared memory that the resident blocks take, as they are given out.
    pub shared_bytes_used: u32,
}

impl Occupancy {
    /// Share of the most warps, 0 to 1.
    pub fn share(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.most_warps)
    }
}

/// Why a launch would fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum CannotLaunch {
    /// A block without threads.
    #[error("a block needs at least one thread")]
    NoThreads,
    /// Too many threads in a block.
    #[error("a block of {threads} threads is too large: the most are {most}")]
    Threads {
        /// Threads of the block.
        threads: u32,
        /// Most threads of a block.
        most: u32,
    },
    /// Too many registers of a thread.
    #[error("a thread cannot have {registers} registers: the most are {most}")]
    RegistersOfThread {
        /// Registers of the thread.
        registers: u32,
        /// Most registers of a thread.
        most: u32,
    },
    /// Too many registers of a block.
    #[error(
        "a block needs {needed} registers, as they are given out, but there are {most}: use fewer threads or \
         registers"
    )]
    RegistersOfBlock {
        /// Registers of the block, as they are given out.
        needed: u64,
        /// Most registers of a block.
        most: u32,
    },
    /// Too much shared memory.
    #[error("a block cannot have {bytes} bytes of shared memory: the most are {most}")]
    SharedMemory {
        /// Bytes of the block.
        bytes: u32,
        /// Most bytes of a block.
        most: u32,
    },
    /// The architecture lacks what the kernel needs: nothing is compiled for it but the end of a launch.
    #[error("it needs {needs}")]
    Lacks {
        /// [What it needs](regemm_kernels::kernel::Needs::name).
        needs: &'static str,
    },
    /// The multiprocessor has no block slot.
    #[error("limits without a block slot hold no block")]
    NoSlots,
}

/// How many blocks are resident on a multiprocessor at a time.
///
/// Each resource has room for a number of blocks, and the least of them counts:
/// - a block takes whole warps of the multiprocessor's threads;
/// - a warp takes a multiple of `register_unit` registers from one scheduler's part of them;
/// - a block takes a multiple of `shared_unit` bytes of shared memory, the reserved bytes included;
/// - there are `blocks` slots.
///
/// The method is that of NVIDIA's CUDA Occupancy Calculator. Shared memory is taken to be as large as it can be: the
/// driver's answer assumes so too, and a launch of a kernel that states no preference gets as much as it needs.
///
/// # Errors
/// Says why a launch would fail.
pub fn occupancy(limits: &Limits, demand: &Demand) -> Result<Occupancy, CannotLaunch> {
    let Demand { threads, registers, shared_bytes } = *demand;
    if threads == 0 {
        return Err(CannotLaunch::NoThreads);
    }
    let most = limits.threads_per_block.min(limits.threads);
    if threads > most {
        return Err(CannotLaunch::Threads { threads, most });
    }
    let most = limits.registers_per_thread;
    if registers > most {
        return Err(CannotLaunch::RegistersOfThread { registers, most });
    }
    if limits.blocks == 0 {
        return Err(CannotLaunch::NoSlots);
    }

    // Wide enough for products of any two fields.
    let warps = u64::from(threads.div_ceil(WARP_THREADS));
    let schedulers = u64::from(limits.schedulers.max(1));
    let of_warp = round_up(u64::from(registers) * u64::from(WARP_THREADS), limits.register_unit);
    let warps_of_scheduler = (u64::from(limits.registers) / schedulers).checked_div(of_warp);
    let warps_by_registers = warps_of_scheduler.map(|warps| warps * schedulers);
    // A launch is refused by the registers of a block whose warps are spread evenly over the schedulers, although they
    // are then given out by the warp.
    let of_block = of_warp.saturating_mul(warps.next_multiple_of(schedulers));
    let most = limits.registers_per_block.min(limits.registers);
    if of_block > u64::from(most) || warps_by_registers.is_some_and(|most| most < warps) {
        return Err(CannotLaunch::RegistersOfBlock { needed: of_block, most });
    }

    let reserved = u64::from(limits.shared_reserved);
    let shared_of_block = round_up(u64::from(shared_bytes) + reserved, limits.shared_unit);
    let by_shared_memory = u64::from(limits.shared_bytes).checked_div(shared_of_block);
    if shared_bytes > limits.shared_bytes_per_block || by_shared_memory == Some(0) {
        let most = limits.shared_bytes_per_block.min(limits.shared_bytes);
        return Err(CannotLaunch::SharedMemory { bytes: shared_bytes, most });
    }

    let by_threads = u64::from(limits.warps()) / warps;
    if by_threads == 0 {
        return Err(CannotLaunch::Threads { threads, most: limits.warps() * WARP_THREADS });
    }
    let room = Room {
        threads: saturate(by_threads),
        registers: warps_by_registers.map(|most| saturate(most / warps)),
        shared_memory: by_shared_memory.map(saturate),
        blocks: limits.blocks,
    };
    let least = |room: &Room| room.each().into_iter().filter_map(|(_, blocks)| blocks).min();
    let blocks = least(&room).unwrap_or(limits.blocks);
    let limits_it = |(limiter, room)| (room == Some(blocks)).then_some(limiter);
    Ok(Occupancy {
        blocks,
        warps: saturate(u64::from(blocks) * warps),
        most_warps: limits.warps(),
        limited_by: room.each().into_iter().filter_map(limits_it).collect(),
        room,
        registers_used: saturate(u64::from(blocks) * warps * of_warp),
        shared_bytes_used: saturate(u64::from(blocks) * shared_of_block),
    })
}

/// The next multiple of a unit; a unit of zero is none.
fn round_up(value: u64, unit: u32) -> u64 {
    value.next_multiple_of(u64::from(unit.max(1)))
}

fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
