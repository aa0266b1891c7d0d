//! How many registers a thread of a configuration needs, and how many blocks that leaves room for.
//!
//! Two estimates from the sizes alone, since what a thread takes in the end is up to the compiler: [`needed`] decides
//! what cannot run, [`min_blocks`] is what the compiler is asked to leave room for.

use regemm_kernels::kernel::{GemmKernel, Rung, Tile};
use regemm_kernels::share_of_registers::{OF_MULTIPROCESSOR, UNIT};
use regemm_kernels::slices::AT_ONCE;
use regemm_kernels::slices::ring::WARP;

/// Most registers that a thread can name. This and all other limits: CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability".
pub const PER_THREAD: u32 = 255;

/// A multiprocessor is four parts, each with a quarter of the registers and of the warps.
const PARTITIONS: u32 = 4;
const PER_PARTITION: u32 = OF_MULTIPROCESSOR / PARTITIONS;

/// What a thread cannot do without beside values of the matrices: where its operands, its part of D and the slices are.
const POSITIONS: u32 = 16;

/// As [`POSITIONS`], where the compiler may keep what it could also compute again.
const COMFORTABLE_POSITIONS: u32 = 32;

/// Shared memory of a multiprocessor of compute capability 9.0 in bytes, and what the system takes of it for each
/// block.
const SHARED: u32 = 228 * 1024;
const SHARED_OF_SYSTEM: u32 = 1024;

/// Most blocks resident on a multiprocessor: the fewest of all compute capabilities from 7.5 on.
const BLOCKS: u32 = 16;

/// Registers without which a thread cannot work: its sums, a column and a row of operands, positions, and its share of
/// the next slices where it carries that while it multiplies ([`Rung::DoubleBuffered`]). For each element it carries
/// one and a half, as loads that are under way have predicates and addresses.
///
/// How much those take is found by experiment. What needs more by this measure than it can have, ptxas 13.0 compiles
/// with 176 to 1536 bytes of local memory a thread; other double-buffered kernels with less, and mostly with none.
pub const fn needed(tile: Tile, rung: Rung) -> u32 {
    let carried = carried(tile, rung) * 3 / 2;
    tile.tm * tile.tn + tile.tm + tile.tn + carried + POSITIONS
}

/// Registers that each thread of a block of so many can have.
pub const fn available(threads: u32) -> u32 {
    min(OF_MULTIPROCESSOR / threads / UNIT * UNIT, PER_THREAD)
}

/// Elements of both slices that a thread moves.
const fn share(tile: Tile) -> u32 {
    tile.bk * (tile.bm + tile.bn) / tile.threads()
}

/// Elements of the next slices that a thread carries while it multiplies.
const fn carried(tile: Tile, rung: Rung) -> u32 {
    match rung {
        Rung::DoubleBuffered => share(tile),
        _ => 0,
    }
}

/// Blocks for which a multiprocessor's registers should have room, if a thread takes as many as are comfortable: beside
/// its sums the operands of one k while those of the one before are multiplied, or what it moves at a time. No more
/// than shared memory has room for.
pub const fn min_blocks<K: GemmKernel>() -> u32 {
    let tile = K::TILE;
    let sums = tile.tm * tile.tn;
    let operands = 2 * (tile.tm + tile.tn);
    let registers = match K::RUNG {
        // Beside operands where the next of them are, 64 bits for each row of A and column of B.
        Rung::Naive => sums + 2 * operands + COMFORTABLE_POSITIONS,
        Rung::DoubleBuffered | Rung::Pipelined => {
            let carried = 2 * carried(tile, K::RUNG);
            sums + operands + max(COMFORTABLE_POSITIONS, POSITIONS + carried)
        }
        _ => {
            let moved = min(share(tile), 2 * AT_ONCE as u32);
            sums + max(operands, moved + UNIT) + COMFORTABLE_POSITIONS
        }
    };
    let warps = PARTITIONS * (PER_PARTITION / (WARP * registers.next_multiple_of(UNIT)));
    let by_registers = warps / tile.threads().div_ceil(WARP);
    let by_shared = SHARED / (K::SHARED_BYTES + SHARED_OF_SYSTEM);
    max(1, min(min(by_registers, by_shared), BLOCKS))
}

const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

const fn max(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}
