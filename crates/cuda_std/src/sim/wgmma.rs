//! Warpgroup matrix instructions: what the threads of a warpgroup do together, and when it takes effect. See "Warpgroup
//! matrix instructions" in [the module](crate::sim).

mod operand;

use operand::begin_operand;
pub(crate) use operand::wgmma_start;

use super::access::Place;
use super::accumulators::Accumulators;
use super::block::coordinates;
use super::fault::{FaultKind, Index, MemoryAccess, SimError};
use super::limits::WARP_THREADS;
use super::product::{multiply_add, operand as matrix};
use super::registers::{self, Transfer};
use super::worker::{State, Stop, Worker, current, raise, suspend};
use crate::wgmma::{K, M, THREADS};
use std::collections::{BTreeMap, VecDeque};

const LANES: usize = WARP_THREADS as usize;
const GROUP: usize = THREADS as usize;

/// Most groups that a wait can leave under way.
const MAX_PENDING: usize = 7;

/// One matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Columns of B.
    pub(crate) n: usize,
    /// Which accumulators.
    pub(crate) set: usize,
    pub(crate) bf16: bool,
    /// Descriptors of A and B, and whether they are not K-major.
    pub(crate) operands: [(u64, bool); 2],
    pub(crate) accumulate: bool,
}

/// What a warpgroup does together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Fence,
    Multiply(Instruction),
    Commit,
    /// Leaves as many groups under way.
    Wait(usize),
    Registers(Transfer),
}

impl Operation {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Fence => "warpgroup fence",
            Operation::Multiply(_) => "warpgroup matrix instruction",
            Operation::Commit => "warpgroup commit",
            Operation::Wait(_) => "warpgroup wait",
            Operation::Registers(_) => "transfer of registers",
        }
    }
}

/// A thread has arrived at an operation of its warpgroup.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) operation: Operation,
    pub(super) place: Place,
}

/// An instruction that has not been waited for.
struct Pending {
    instruction: Instruction,
    /// Its number in the warpgroup.
    number: u32,
    /// Addresses of the units of A and B.
    units: [Vec<u32>; 2],
    place: Place,
}

/// What a warpgroup has under way.
#[derive(Default)]
pub(super) struct Warpgroup {
    pub(super) sets: BTreeMap<usize, Accumulators>,
    /// Oldest first.
    pending: VecDeque<Pending>,
    /// Instructions in each committed group, oldest first.
    groups: VecDeque<usize>,
    /// Instructions that are in no group yet.
    open: usize,
    issued: u32,
}

/// The running thread's warpgroup, and its index there.
///
/// # Safety
/// `worker` must be the current one, and no reference to it may be alive.
pub(super) unsafe fn own<'a>(worker: *mut Worker) -> (&'a mut Warpgroup, usize) {
    // SAFETY: as promised by the caller.
    let state = unsafe { &mut *worker };
    let thread = state.thread as usize;
    let warpgroups = state.threads.len().div_ceil(GROUP);
    if state.warpgroups.len() < warpgroups {
        state.warpgroups.resize_with(warpgroups, Warpgroup::default);
        state.shared.track_warpgroups(state.threads.len());
    }
    (&mut state.warpgroups[thread / GROUP], thread % GROUP)
}

/// The running thread arrives at an operation of its warpgroup.
pub(crate) fn warpgroup(operation: Operation, place: Place) {
    let worker = current();
    // SAFETY: the worker is the current one.
    unsafe {
        let state = &mut *worker;
        let threads = state.threads.len();
        let first = state.thread as usize / GROUP * GROUP;
        let message = match operation {
            _ if first + GROUP > threads => Some(format!(
                "executes a {} in a warpgroup of {} threads, and it takes {GROUP}",
                operation.name(),
                threads - first
            )),
            Operation::Wait(pending) if pending > MAX_PENDING => Some(format!(
                "waits for all groups but {pending}, and there may be at most {MAX_PENDING}"
            )),
            _ => None,
        };
        if let Some(message) = message {
            raise(worker, FaultKind::WgmmaMisuse, None, message, place)
        }
        state.shared.track_readers();
        suspend(worker, Stop::Warpgroup(Step { operation, place }));
    }
}

/// Executes the operations that all threads of a warpgroup have arrived at, and says whether there were any.
pub(super) fn release(worker: &mut Worker) -> Result<bool, SimError> {
    let mut any = false;
    for group in 0..worker.threads.len() / GROUP {
        let threads = group * GROUP..(group + 1) * GROUP;
        let State::Warpgroup(step) = worker.threads[threads.start].state else { continue };
        let together = |other: &Step| {
            std::mem::discriminant(&other.operation) == std::mem::discriminant(&step.operation)
                && other.place == step.place
        };
        let mut differs = None;
        let mut all = true;
        for thread in threads.clone() {
            match &worker.threads[thread].state {
                State::Warpgroup(other) if together(other) => {
                    if other.operation != step.operation {
                        differs = differs.or(Some(thread));
                    }
                }
                _ => all = false,
            }
        }
        if !all {
            continue;
        }
        if let Some(thread) = differs {
            let message = format!(
                "executes a {} with other arguments than the first thread of its warpgroup",
                step.operation.name()
            );
            return Err(fault(worker, thread, step, FaultKind::WgmmaMisuse, None, message));
        }
        if let Operation::Registers(transfer) = step.operation {
            if !registers::execute(worker, group, step, transfer)? {
                continue;
            }
        } else {
            execute(worker, group, step)?;
        }
        worker.threads[threads].iter_mut().for_each(|thread| thread.state = State::Ready);
        any = true;
    }
    Ok(any)
}

pub(super) fn fault(
    worker: &Worker,
    thread: usize,
    step: Step,
    kind: FaultKind,
    access: Option<MemoryAccess>,
    message: String,
) -> SimError {
    let thread = coordinates(thread as u64, worker.block_dim);
    SimError::Fault(worker.fault_of(thread, kind, access, message, Some(step.place.into())))
}

fn execute(worker: &mut Worker, group: usize, step: Step) -> Result<(), SimError> {
    if worker.warpgroups.len() <= group {
        // No thread of the block has declared accumulators: there is nothing to order.
        return Ok(());
    }
    match step.operation {
        Operation::Fence => {
            for set in worker.warpgroups[group].sets.values_mut() {
                (set.fenced, set.shape) = (true, None);
            }
        }
        Operation::Multiply(instruction) => issue(worker, group, step, instruction)?,
        Operation::Commit => {
            let warpgroup = &mut worker.warpgroups[group];
            warpgroup.groups.push_back(warpgroup.open);
            warpgroup.open = 0;
        }
        Operation::Wait(newest) => wait(worker, group, newest),
        Operation::Registers(_) => {}
    }
    Ok(())
}

/// Checks an instruction, which from now on uses its operands and accumulators.
fn issue(
    worker: &mut Worker,
    group: usize,
    step: Step,
    instruction: Instruction,
) -> Result<(), SimError> {
    let first = group * GROUP;
    let warpgroup = &mut worker.warpgroups[group];
    let Some(set) = warpgroup.sets.get_mut(&instruction.set).filter(|set| set.complete()) else {
        let message = "executes a warpgroup matrix instruction on accumulators that not all of its threads have declared";
        return Err(fault(worker, first, step, FaultKind::WgmmaMisuse, None, message.to_owned()));
    };
    if instruction.n > set.n {
        let message = format!(
            "executes a warpgroup matrix instruction of {} columns on accumulators of {}",
            instruction.n, set.n
        );
        return Err(fault(worker, first, step, FaultKind::WgmmaMisuse, None, message));
    }
    if !set.fenced {
        let message = "executes a warpgroup matrix instruction on accumulators that threads have accessed, or have had from the \
                       start, without a warpgroup fence between";
        return Err(fault(worker, first, step, FaultKind::WgmmaFenceMissing, None, message.into()));
    }
    if let Some(last) = set.shape.replace(instruction.n)
        && last != instruction.n
    {
        let message = format!(
            "executes a warpgroup matrix instruction of {} columns on accumulators that one of {last} has changed, without a \
             warpgroup fence between: only those of one shape are in order without",
            instruction.n
        );
        return Err(fault(worker, first, step, FaultKind::WgmmaFenceMissing, None, message));
    }
    set.pending += 1;
    warpgroup.issued += 1;
    warpgroup.open += 1;
    let number = warpgroup.issued;
    let [a, b] = instruction.operands;
    let a = begin_operand(worker, group, step, ("A", a, M), number)?;
    let b = begin_operand(worker, group, step, ("B", b, instruction.n), number)?;
    let clocks = std::array::from_fn(|index| {
        let thread = group * GROUP + index;
        worker.clocks[thread / LANES].own(thread % LANES)
    });
    worker.shared.warpgroups().begin(group, number, clocks);
    worker.warpgroups[group].pending.push_back(Pending {
        instruction,
        number,
        units: [a, b],
        place: step.place,
    });
    worker.counters.wgmma_instructions += 1;
    worker.counters.tensor_fma += (M * instruction.n * K) as u64;
    Ok(())
}

/// Executes the instructions of all groups but the `newest`: only now are their operands read and their accumulators
/// changed.
fn wait(worker: &mut Worker, group: usize, newest: usize) {
    let warpgroup = &mut worker.warpgroups[group];
    let old = warpgroup.groups.len().saturating_sub(newest);
    let count: usize = warpgroup.groups.drain(..old).sum();
    let mut done = None;
    for Pending { instruction, number, units, .. } in warpgroup.pending.drain(..count) {
        let Instruction { n, set, bf16, accumulate, operands } = instruction;
        let mut read = |which: usize, rows: usize| {
            let units = units[which].iter().map(|&address| worker.shared.unit(address));
            matrix(units, rows, operands[which].1, bf16)
        };
        let (a, b) = (read(0, M), read(1, n));
        if let Some(set) = warpgroup.sets.get_mut(&set) {
            multiply_add((&mut set.values, set.n), &a, (&b, n), accumulate);
            set.pending -= 1;
        }
        done = Some(number);
    }
    let Some(number) = done else { return };
    let warpgroups = worker.shared.warpgroups();
    warpgroups.end(group, number);
    let agent = warpgroups.agent(group);
    for thread in group * GROUP..(group + 1) * GROUP {
        worker.clocks[thread / LANES].learn_one(thread % LANES, agent, number);
    }
}

/// Checks that no warpgroup has instructions under way when the block's threads have all returned.
pub(super) fn check_end(worker: &Worker) -> Result<(), SimError> {
    for (group, warpgroup) in worker.warpgroups.iter().enumerate() {
        if let Some(Pending { place, .. }) = warpgroup.pending.front() {
            let issuer = coordinates((group * GROUP) as u64, worker.block_dim);
            let kind = FaultKind::EndsUnderWay { issuer };
            let message = "has a warpgroup matrix instruction under way that its warpgroup has not waited for: the block has ended before";
            let place = Some((*place).into());
            return Err(SimError::Fault(worker.fault_of(
                issuer,
                kind,
                None,
                message.to_owned(),
                place,
            )));
        }
    }
    Ok(())
}

/// Checks that no thread of a block in which none can go on waits for others of its warpgroup.
pub(super) fn check_warpgroups(worker: &Worker) -> Result<(), SimError> {
    let waiting =
        worker.threads.iter().enumerate().find_map(|(index, thread)| match thread.state {
            State::Warpgroup(step) => Some((index, step)),
            _ => None,
        });
    let Some((thread, step)) = waiting else { return Ok(()) };
    let first = thread / GROUP * GROUP;
    let absent = |index: &usize| match worker.threads[*index].state {
        State::Warpgroup(other) => other.place != step.place,
        _ => true,
    };
    let missing = (first..first + GROUP).find(absent).unwrap_or(first);
    let missing = coordinates(missing as u64, worker.block_dim);
    let message = format!(
        "waits at a {} that not all threads of its warpgroup reach: thread {} does not",
        step.operation.name(),
        Index(missing)
    );
    Err(fault(worker, thread, step, FaultKind::DivergentBarrier { missing }, None, message))
}
