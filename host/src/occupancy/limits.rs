//! What a multiprocessor has to share out among blocks.

use crate::device::info::DeviceInfo;
use serde::Serialize;

/// Threads in a warp, on every GPU.
pub const WARP_THREADS: u32 = 32;

/// What a multiprocessor has, and in what units it gives it out. The fields are public so that machines can be
/// described that do not exist, such as those of textbooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Most threads of a block.
    pub threads_per_block: u32,
    /// Most resident threads.
    pub threads: u32,
    /// Most resident blocks.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Most registers of a block.
    pub registers_per_block: u32,
    /// Most registers of a thread.
    pub registers_per_thread: u32,
    /// A warp gets a multiple of this many registers.
    pub register_unit: u32,
    /// Warp schedulers. Each has an equal part of the registers, and a warp's registers come from one of them.
    pub schedulers: u32,
    /// Shared memory in bytes, where the cache that it is carved out of leaves it the most.
    pub shared_bytes: u32,
    /// Most shared memory that a block can ask for, in bytes.
    pub shared_bytes_per_block: u32,
    /// A block gets a multiple of this many bytes of shared memory.
    pub shared_unit: u32,
    /// Shared memory that the system takes beside what a block asks for, in bytes a block.
    pub shared_reserved: u32,
}

const KIB: u32 = 1 << 10;

impl Limits {
    /// The compute capabilities whose limits are known here, from old to new.
    pub const CAPABILITIES: [(u32, u32); 9] =
        [(7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)];

    /// What all of [`Limits::CAPABILITIES`] from 8.0 on have in common, with the numbers of 9.0 for the rest.
    pub(crate) const NEWEST: Limits = Limits {
        threads_per_block: 1024,
        threads: 2048,
        blocks: 32,
        registers: 64 * KIB,
        registers_per_block: 64 * KIB,
        registers_per_thread: 255,
        register_unit: 256,
        schedulers: 4,
        shared_bytes: 228 * KIB,
        shared_bytes_per_block: 227 * KIB,
        shared_unit: 128,
        shared_reserved: KIB,
    };

    /// The limits of a compute capability, major and minor; none where they are not known here.
    ///
    /// CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability" (threads, blocks, registers,
    /// shared memory) and section "Shared Memory" of each capability (the 1 KiB that is reserved); CUDA Occupancy
    /// Calculator for the units and the schedulers.
    pub fn of(capability: (u32, u32)) -> Option<Limits> {
        let newest = Limits::NEWEST;
        // Threads, blocks and KiB of shared memory of a multiprocessor.
        let (threads, blocks, shared) = match capability {
            (7, 5) => {
                // Nothing is reserved here, so a block can have it all.
                let shared = 64 * KIB;
                return Some(Limits {
                    threads: 1024,
                    blocks: 16,
                    shared_bytes: shared,
                    shared_bytes_per_block: shared,
                    shared_unit: 256,
                    shared_reserved: 0,
                    ..newest
                });
            }
            (8, 0) => (2048, 32, 164),
            (8, 6) => (1536, 16, 100),
            (8, 7) => (1536, 16, 164),
            (8, 9) => (1536, 24, 100),
            (9, 0) | (10, 0 | 3) => (2048, 32, 228),
            (12, 0) => (1536, 24, 100),
            _ => return None,
        };
        let shared_bytes = shared * KIB;
        let shared_bytes_per_block = shared_bytes - newest.shared_reserved;
        Some(Limits { threads, blocks, shared_bytes, shared_bytes_per_block, ..newest })
    }

    /// The limits of a device as its driver gives them, in the units of its compute capability; those of the newest
    /// known here where it is not known.
    pub fn of_device(info: &DeviceInfo) -> Limits {
        let published = info.compute_capability.and_then(Limits::of).unwrap_or(Limits::NEWEST);
        Limits {
            threads_per_block: info.max_threads_per_block,
            threads: info.max_threads_per_multiprocessor,
            blocks: info.max_blocks_per_multiprocessor,
            registers: info.registers_per_multiprocessor,
            shared_bytes: info.shared_bytes_per_multiprocessor,
            shared_bytes_per_block: info.shared_bytes_per_block,
            ..published
        }
    }

    /// The same machine giving out everything to the unit, as textbooks reckon: single registers from one pool, single
    /// bytes, and nothing reserved.
    pub fn without_granularity(self) -> Limits {
        Limits { register_unit: 1, schedulers: 1, shared_unit: 1, shared_reserved: 0, ..self }
    }

    /// Most resident warps.
    pub fn warps(&self) -> u32 {
        self.threads / WARP_THREADS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_capability_has_limits_and_no_other() {
        for major in 0..20 {
            for minor in 0..10 {
                let listed = Limits::CAPABILITIES.contains(&(major, minor));
                assert_eq!(Limits::of((major, minor)).is_some(), listed, "{major}.{minor}");
            }
        }
    }

    #[test]
    fn a_device_has_the_limits_that_are_published_for_it() {
        for gpu in crate::gpus::known() {
            assert_eq!(Limits::of_device(&gpu.info()), Limits::of(gpu.capability).unwrap());
        }
    }

    /// A block that takes all it may must still fit.
    #[test]
    fn the_limits_of_a_block_are_within_those_of_a_multiprocessor() {
        for capability in Limits::CAPABILITIES {
            let limits = Limits::of(capability).unwrap();
            let of_block = limits.shared_bytes_per_block + limits.shared_reserved;
            assert_eq!(of_block, limits.shared_bytes, "{capability:?}");
            assert!(limits.threads_per_block <= limits.threads, "{capability:?}");
            assert_eq!(limits.threads % WARP_THREADS, 0, "{capability:?}");
            assert_eq!(limits.registers % (limits.schedulers * limits.register_unit), 0);
        }
    }
}
