//! Operations that lanes of a warp do together.

use super::clocks::Clocks;
use super::counters::Counters;
use super::double_mma::{self, DoubleShape};
use super::mma::{self, Format};
use super::worker::{State, Thread};
use std::panic::Location;

const LANES: u32 = super::limits::WARP_THREADS;

/// Which lane a shuffle reads from (PTX ISA, `shfl.sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    /// The lane whose index differs by the bits of the operand.
    Butterfly,
    /// The lane above by the operand.
    Down,
    /// The lane below by the operand.
    Up,
    /// The lane of the operand.
    Index,
    /// The first lane, to be compared with: a hint, which is not counted.
    Uniform,
}

impl Shuffle {
    /// The source lane for `lane`, with the whole warp as the segment; its own where the result is out of range.
    pub(super) fn source(self, lane: u32, operand: u32) -> u32 {
        // The instruction uses the low five bits of its operand.
        let operand = operand % LANES;
        match self {
            Shuffle::Butterfly => lane ^ operand,
            Shuffle::Down if lane + operand < LANES => lane + operand,
            Shuffle::Up if lane >= operand => lane - operand,
            Shuffle::Down | Shuffle::Up => lane,
            Shuffle::Index => operand,
            Shuffle::Uniform => 0,
        }
    }
}

/// What lanes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// They wait for each other.
    Barrier,
    /// They exchange values.
    Shuffle(Shuffle),
    /// They exchange rows of matrices that they have read.
    LoadMatrices {
        /// Whether they get columns.
        transposed: bool,
    },
    /// They exchange registers for rows of matrices that they are to write.
    StoreMatrices {
        /// Whether they bring columns.
        transposed: bool,
    },
    /// They multiply matrices.
    MultiplyAdd(Format),
    /// The same in double precision.
    MultiplyAddDoubles(DoubleShape),
}

impl Operation {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "warp barrier",
            Operation::Shuffle(_) => "shuffle",
            Operation::LoadMatrices { .. } => "load of matrices",
            Operation::StoreMatrices { .. } => "store of matrices",
            Operation::MultiplyAdd(_) | Operation::MultiplyAddDoubles(_) => "matrix multiply-add",
        }
    }
}

/// A warp-collective operation that a lane has arrived at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collective {
    pub(crate) operation: Operation,
    /// Lanes that must take part.
    pub(crate) mask: u32,
    /// The lane's value.
    pub(crate) value: u32,
    /// The lane's operand.
    pub(crate) operand: u32,
    /// Where in the source.
    pub(crate) location: &'static Location<'static>,
}

impl Collective {
    /// Whether two lanes execute the same operation together.
    pub(super) fn same(&self, other: &Collective) -> bool {
        self.operation == other.operation
            && self.mask == other.mask
            && self.location == other.location
    }

    /// The operation's name.
    pub(super) fn name(&self) -> &'static str {
        self.operation.name()
    }

    /// Lanes that must take part, of the lanes that the warp has.
    pub(super) fn members(&self, lanes: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let mask = self.mask;
        (0..lanes).filter(move |lane| mask >> lane & 1 == 1)
    }
}

/// A shuffle that reads from a lane that does not take part.
pub(super) struct BadSource {
    /// The lane that reads.
    pub(super) lane: usize,
    /// The lane it reads from.
    pub(super) source: u32,
    pub(super) location: &'static Location<'static>,
}

/// Completes every operation of a warp for which all lanes have arrived, and counts them, but for hints. Their lanes
/// are ready again.
pub(super) fn complete(
    warp: &mut [Thread],
    clocks: &mut Clocks,
    counters: &mut Counters,
) -> Result<(), BadSource> {
    for lane in 0..warp.len() {
        let State::Collective(collective) = warp[lane].state else { continue };
        let members = collective.members(warp.len());
        let arrived = |member: usize| matches!(&warp[member].state, State::Collective(other) if other.same(&collective));
        if !members.clone().all(arrived) {
            continue;
        }
        match collective.operation {
            Operation::Barrier => clocks.join(collective.mask),
            Operation::Shuffle(shuffle) => exchange(warp, shuffle, members.clone())?,
            Operation::LoadMatrices { transposed } => mma::distribute(warp, transposed),
            Operation::StoreMatrices { transposed } => mma::gather(warp, transposed),
            Operation::MultiplyAdd(format) => mma::multiply(warp, format),
            Operation::MultiplyAddDoubles(shape) => double_mma::multiply(warp, shape),
        }
        for member in members {
            warp[member].state = State::Ready;
        }
        match collective.operation {
            Operation::Shuffle(Shuffle::Uniform)
            | Operation::LoadMatrices { .. }
            | Operation::StoreMatrices { .. } => {}
            Operation::Barrier | Operation::Shuffle(_) => counters.warp_collectives += 1,
            Operation::MultiplyAdd(format) => counters.tensor_fma += format.multiply_adds(),
            Operation::MultiplyAddDoubles(shape) => counters.tensor_fma += shape.multiply_adds(),
        }
    }
    Ok(())
}

/// Hands each member of a shuffle the value of its source lane.
fn exchange(
    warp: &mut [Thread],
    shuffle: Shuffle,
    members: impl Iterator<Item = usize>,
) -> Result<(), BadSource> {
    for lane in members {
        let State::Collective(Collective { operand, mask, location, .. }) = warp[lane].state else {
            continue;
        };
        let source = shuffle.source(lane as u32, operand);
        match warp.get(source as usize).map(|thread| &thread.state) {
            Some(State::Collective(from)) if mask >> source & 1 == 1 => {
                warp[lane].result = from.value;
            }
            _ => return Err(BadSource { lane, source, location }),
        }
    }
    Ok(())
}
