//! The operands of warpgroup matrix instructions: where they lie, and whether an instruction may read them.

use super::{GROUP, LANES, Step, fault};
use crate::sim::access::Place;
use crate::sim::accessor::Accessor;
use crate::sim::fault::{AccessKind, FaultKind, MemoryAccess, SimError, Space};
use crate::sim::operands::UNIT;
use crate::sim::product::units;
use crate::sim::record::Write;
use crate::sim::violation::{Violation, describe};
use crate::sim::worker::{Worker, current, raise};
use crate::wgmma::Operand;

/// Where the simulator keeps the bits of an address that a descriptor has no room for: its shared memory is larger than
/// that of a GPU, and the manual leaves these bits open.
const HIGH_BIT: u32 = 52;
const HIGH_BITS: u32 = 10;

/// Bits of an address that a descriptor has room for.
const LOW_BITS: u32 = 18;

/// The lowest bits of a descriptor of a matrix that starts at `address`.
pub(crate) fn wgmma_start(address: u32, place: Place) -> u64 {
    if !address.is_multiple_of(UNIT as u32) {
        let access = operand_access(address);
        let message = format!("is misaligned: an operand starts at a multiple of {UNIT}");
        // SAFETY: the worker is the current one.
        unsafe { raise(current(), FaultKind::Misaligned, Some(access), message, place) }
    }
    let low = address & ((1 << LOW_BITS) - 1);
    (low / UNIT as u32) as u64 | ((address >> LOW_BITS) as u64) << HIGH_BIT
}

fn operand_access(address: u32) -> MemoryAccess {
    let (space, kind) = (Space::Shared, AccessKind::Read);
    MemoryAccess { space, kind, address: address as u64, bytes: UNIT as u32 }
}

/// Checks that a warpgroup may read an operand, and gives the addresses of its units.
pub(super) fn begin_operand(
    worker: &mut Worker,
    group: usize,
    step: Step,
    (name, (bits, transposed), rows): (&str, (u64, bool), usize),
    number: u32,
) -> Result<Vec<u32>, SimError> {
    let first = group * GROUP;
    let high = ((bits >> HIGH_BIT) as u32 % (1 << HIGH_BITS)) << LOW_BITS;
    let operand = match Operand::decode(bits, transposed) {
        Ok(operand) => operand,
        Err(wrong) => {
            let message = format!(
                "executes a warpgroup matrix instruction whose descriptor of {name} {wrong}"
            );
            return Err(fault(worker, first, step, FaultKind::WgmmaDescriptor, None, message));
        }
    };
    let addresses: Vec<u32> = units(rows, transposed)
        .map(|(i, k)| high.wrapping_add(operand.unit(i as u32, k as u32)))
        .collect();
    let epoch = worker.shared.epoch();
    let (clocks, fences) = (&worker.clocks, std::mem::take(&mut worker.shared.fences));
    let readers = || {
        (first..first + GROUP).map(|thread| {
            let clocks = &clocks[thread / LANES];
            Accessor::new(thread as u32, clocks.own(thread % LANES), clocks)
        })
    };
    let mut last = None;
    let mut judge = |write: Write| {
        if last == Some(write) {
            return Ok(());
        }
        let seen = |reader: Accessor<'_>| {
            reader.thread == write.agent || reader.comes_after(write.agent, write.clock)
        };
        if write.epoch == epoch && !readers().all(seen) {
            return Err(Violation::Race { other: write.agent, other_access: AccessKind::Write });
        }
        let covered = |reader: Accessor<'_>| fences.cover(write.agent, write.clock, &reader);
        if !readers().all(covered) {
            return Err(Violation::NotFenced { writer: write.agent });
        }
        last = Some(write);
        Ok(())
    };
    for &address in &addresses {
        let (kind, message) = match worker.shared.begin_operand(address, group, number, &mut judge)
        {
            Some(Ok(())) => continue,
            Some(Err(violation)) => describe(worker, worker, violation),
            None => {
                let around = worker.shared.explain(address, UNIT as u32);
                (FaultKind::OutOfBounds, format!("is out of bounds: {around}"))
            }
        };
        let message = format!("of the operand {name} of a warpgroup matrix instruction {message}");
        return Err(fault(worker, first, step, kind, Some(operand_access(address)), message));
    }
    worker.shared.fences = fences;
    Ok(addresses)
}
