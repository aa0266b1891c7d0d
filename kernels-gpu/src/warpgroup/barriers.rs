//! The numbers of a block's named barriers, all in one place: a number that two kinds of threads used for different
//! ends would count both.

use super::tile::WARPGROUPS;
use cuda_std::named_barrier::BARRIERS;

/// All threads that multiply.
pub const CONSUMERS_MEET: u32 = 1;

/// The second warpgroup, before its last slices of a tile, and the first when it has begun all of its own.
pub const HELD_MEET: u32 = CONSUMERS_MEET + 1;

/// The warps of the first warpgroup that write a part of D together; of each further one the next barrier.
pub const FIRST_PART_MEETS: u32 = HELD_MEET + 1;

/// Where warpgroups [take turns](super::ping_pong) the first waits here for its own; the next barrier is the second's.
pub const FIRST_TURN: u32 = FIRST_PART_MEETS + WARPGROUPS as u32;

const _: () = assert!(FIRST_TURN + WARPGROUPS as u32 <= BARRIERS);
