//! What can be wrong with an access to shared memory, and how it is reported.

use super::block::coordinates;
use super::fault::{AccessKind, FaultKind, Index};
use super::worker::Worker;

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// The byte at this distance from the address has not been written.
    Uninitialised { distance: usize },
    /// Another thread touched one of the bytes, and nothing orders the two.
    Race { other: u32, other_access: AccessKind },
    /// That thread of another block of the cluster has read one of the bytes, and nothing orders the two.
    RemoteRead { rank: usize, thread: u32 },
    /// A copy of that thread is going to write one of the bytes.
    InFlight { issuer: u32 },
    /// A matrix instruction of the warpgroup that begins with that thread is going to read one of the bytes.
    OperandInFlight { reader: u32 },
    /// A bulk store of that thread is going to read one of the bytes.
    BeingRead { issuer: u32 },
    /// That thread wrote one of the bytes before, which another block need not see.
    NotReleased { writer: u32 },
    /// An mbarrier lies that far behind the address.
    Mbarrier { distance: isize },
    /// That thread wrote one of the bytes, which an asynchronous instruction need not see.
    NotFenced { writer: u32 },
}

/// The rule that an access has broken, and how.
#[cold]
pub(super) fn describe(worker: &Worker, violation: Violation) -> (FaultKind, String) {
    match violation {
        Violation::Uninitialised { distance: 0 } => (
            FaultKind::UninitialisedShared,
            "is uninitialised: no thread of the block has written there yet".to_owned(),
        ),
        Violation::Uninitialised { distance } => (
            FaultKind::UninitialisedShared,
            format!("is uninitialised: no thread of the block has written its byte {distance} yet"),
        ),
        Violation::Race { other, other_access } => {
            let other = worker.thread_of(other);
            let verb = match other_access {
                AccessKind::Read => "read",
                AccessKind::Write => "wrote",
            };
            (
                FaultKind::SharedRace { other, other_access },
                format!(
                    "races with thread {}, which {verb} there too: no barrier lies between",
                    Index(other)
                ),
            )
        }
        Violation::RemoteRead { rank, thread } => {
            let other = coordinates(thread.into(), worker.block_dim);
            // The blocks of a cluster follow each other along x.
            let [x, y, z] = worker.block_index;
            let block = [x + rank as u32 - worker.member.rank as u32, y, z];
            (
                FaultKind::SharedRace { other, other_access: AccessKind::Read },
                format!(
                    "races with thread {} of block {}, which read there too: nothing orders this after that",
                    Index(other),
                    Index(block)
                ),
            )
        }
        Violation::InFlight { issuer } => {
            let issuer = coordinates(issuer as u64, worker.block_dim);
            (
                FaultKind::AsyncNotWaited { issuer },
                format!(
                    "meets an asynchronous copy that is under way: thread {}, which issued it, has not waited for \
                     its group, nor has anybody for an mbarrier that it arrives at",
                    Index(issuer)
                ),
            )
        }
        Violation::OperandInFlight { reader } => {
            let issuer = coordinates(reader as u64, worker.block_dim);
            (
                FaultKind::OperandInFlight { issuer },
                format!(
                    "meets a matrix instruction that may still read there: the warpgroup of thread {} has not waited for \
                     its group",
                    Index(issuer)
                ),
            )
        }
        Violation::BeingRead { issuer } => {
            let issuer = coordinates(issuer as u64, worker.block_dim);
            (
                FaultKind::BulkStoreNotWaited { issuer },
                format!(
                    "overwrites what a bulk store may still read: thread {}, which issued it, has not waited for that",
                    Index(issuer)
                ),
            )
        }
        Violation::NotReleased { writer } => {
            let other = worker.thread_of(writer);
            (
                FaultKind::SharedRace { other, other_access: AccessKind::Write },
                format!(
                    "need not see what thread {} of that block wrote there: an arrival at an mbarrier of another block makes no \
                     writes visible, and no barrier of the cluster lies between",
                    Index(other)
                ),
            )
        }
        Violation::Mbarrier { distance } => {
            let place = match distance {
                0 => "there".to_owned(),
                1.. => format!("{distance} bytes behind"),
                _ => format!("{} bytes before", -distance),
            };
            (
                FaultKind::MbarrierOverwritten,
                format!(
                    "meets the mbarrier that lies {place}: until the block ends its 8 bytes are for mbarrier operations alone"
                ),
            )
        }
        Violation::NotFenced { writer } => {
            let writer = worker.thread_of(writer);
            (
                FaultKind::MissingProxyFence { writer },
                format!(
                    "is made by an asynchronous instruction, which need not see what thread {} wrote there: no proxy \
                     fence lies between",
                    Index(writer)
                ),
            )
        }
    }
}
