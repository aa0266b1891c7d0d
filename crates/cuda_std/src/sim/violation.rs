//! What can be wrong with an access to shared memory, and how it is reported.

use super::block::coordinates;
use super::fault::{AccessKind, FaultKind, Index};
use super::in_flight::Issuer;
use super::shared::agents_of;
use super::worker::Worker;
use std::fmt;

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
    InFlight { issuer: Issuer },
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

/// By what means somebody has touched shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    /// By its own access.
    Access,
    /// By an asynchronous copy.
    Copy,
    /// By a bulk load.
    Load,
}

/// Who has touched shared memory.
struct Actor {
    /// Index in its block.
    thread: [u32; 3],
    /// Its block, where that is another one than that of the thread that is told of it.
    block: Option<[u32; 3]>,
    means: Means,
}

impl Actor {
    fn new(worker: &Worker, Issuer { rank, thread }: Issuer, means: Means) -> Self {
        let block = (rank != worker.member.rank).then(|| worker.block_of(rank));
        Actor { thread: coordinates(thread.into(), worker.block_dim), block, means }
    }

    /// Who an agent of `owner` is, or stands for.
    fn of_agent(worker: &Worker, owner: &Worker, agent: u32) -> Self {
        let agents = agents_of(owner.threads.len());
        let loads = owner.mbarriers.values().find_map(|object| object.issuer_of(agents, agent));
        if let Some(issuer) = loads {
            return Actor::new(worker, issuer, Means::Load);
        }
        let threads = agents as u32 / 2;
        let means = if agent < threads { Means::Access } else { Means::Copy };
        Actor::new(worker, Issuer { rank: owner.member.rank, thread: agent % threads }, means)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.means {
            Means::Access => "",
            Means::Copy => "an asynchronous copy of ",
            Means::Load => "a bulk load of ",
        })?;
        write!(f, "thread {}", Index(self.thread))?;
        match self.block {
            Some(block) => write!(f, " of block {}", Index(block)),
            None => Ok(()),
        }
    }
}

/// The rule that an access of a thread of `worker` to the shared memory of `owner` has broken, and how.
#[cold]
pub(super) fn describe(
    worker: &Worker,
    owner: &Worker,
    violation: Violation,
) -> (FaultKind, String) {
    let agent = |agent: u32| Actor::of_agent(worker, owner, agent);
    let thread =
        |thread: u32| Actor::new(worker, Issuer { rank: owner.member.rank, thread }, Means::Access);
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
            let actor = agent(other);
            let verb = match other_access {
                AccessKind::Read => "read",
                AccessKind::Write => "wrote",
            };
            let unseen = match actor.means {
                Means::Access => " too: no barrier lies between",
                Means::Copy => {
                    ": this thread has waited for no mbarrier that it arrives at, and no barrier lies between this and \
                     the wait of another"
                }
                Means::Load => {
                    ": this thread has not waited for its mbarrier, and no barrier lies between this and the wait of \
                     another"
                }
            };
            let message = format!("races with {actor}, which {verb} there{unseen}");
            (FaultKind::SharedRace { other: actor.thread, other_access }, message)
        }
        Violation::RemoteRead { rank, thread } => {
            let other = coordinates(thread.into(), owner.block_dim);
            (
                FaultKind::SharedRace { other, other_access: AccessKind::Read },
                format!(
                    "races with thread {} of block {}, which read there too: nothing orders this after that",
                    Index(other),
                    Index(owner.block_of(rank))
                ),
            )
        }
        Violation::InFlight { issuer } => {
            let issuer = Actor::new(worker, issuer, Means::Access);
            (
                FaultKind::AsyncNotWaited { issuer: issuer.thread },
                format!(
                    "meets an asynchronous copy that is under way: {issuer}, which issued it, has not waited for \
                     its group, nor has anybody for an mbarrier that it arrives at"
                ),
            )
        }
        Violation::OperandInFlight { reader } => {
            let issuer = thread(reader);
            (
                FaultKind::OperandInFlight { issuer: issuer.thread },
                format!(
                    "meets a matrix instruction that may still read there: the warpgroup of {issuer} has not waited for \
                     its group"
                ),
            )
        }
        Violation::BeingRead { issuer } => {
            let issuer = thread(issuer);
            (
                FaultKind::BulkStoreNotWaited { issuer: issuer.thread },
                format!(
                    "overwrites what a bulk store may still read: {issuer}, which issued it, has not waited for that"
                ),
            )
        }
        Violation::NotReleased { writer } => {
            let other = agent(writer);
            (
                FaultKind::SharedRace { other: other.thread, other_access: AccessKind::Write },
                format!(
                    "need not see what {other} wrote there: an arrival at an mbarrier of another block makes no writes \
                     visible, and no barrier of the cluster lies between"
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
            let writer = agent(writer);
            (
                FaultKind::MissingProxyFence { writer: writer.thread },
                format!(
                    "is made by an asynchronous instruction, which need not see what {writer} wrote there: no proxy \
                     fence lies between"
                ),
            )
        }
    }
}
