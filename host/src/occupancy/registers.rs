//! What one more or one fewer register a thread would do.

use super::{CannotLaunch, Demand, Limits, Occupancy, occupancy};

/// What a change of the registers of a thread would do to the resident blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterSteps {
    /// With one register more.
    pub one_more: Result<Occupancy, CannotLaunch>,
    /// With one register fewer; none where there is only one or none.
    pub one_fewer: Option<Result<Occupancy, CannotLaunch>>,
    /// The fewest registers with which fewer blocks are resident or the launch fails.
    pub fewer_blocks_from: Option<u32>,
    /// The most registers with which more blocks are resident than now; none where registers do not limit.
    pub more_blocks_up_to: Option<u32>,
}

/// What a change of the registers of a thread would do. A demand that cannot be launched counts as no block.
pub fn register_steps(limits: &Limits, demand: &Demand) -> RegisterSteps {
    let with = |registers| occupancy(limits, &Demand { registers, ..*demand });
    let blocks = |registers| with(registers).map_or(0, |occupancy| occupancy.blocks);
    let now = blocks(demand.registers);
    // One past the most, where every launch fails.
    let end = limits.registers_per_thread.saturating_add(1);
    let fewer = demand.registers.checked_sub(1).filter(|&registers| registers > 0);
    RegisterSteps {
        one_more: with(demand.registers.saturating_add(1)),
        one_fewer: fewer.map(with),
        fewer_blocks_from: first(demand.registers, end, |registers| blocks(registers) < now),
        more_blocks_up_to: fewer
            .and_then(|_| first(0, demand.registers, |registers| blocks(registers) <= now))
            .and_then(|first_like_now| first_like_now.checked_sub(1))
            .filter(|&registers| registers > 0),
    }
}

/// The least of `from + 1 ..= to` for which something holds that stays true once it is.
fn first(from: u32, to: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    if from >= to || !holds(to) {
        return None;
    }
    let (mut no, mut yes) = (from, to);
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(middle) { yes = middle } else { no = middle }
    }
    Some(yes)
}
