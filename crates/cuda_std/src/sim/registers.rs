//! Registers that warpgroups hand over to others. Only their numbers are kept: threads have as many as they like.

use super::access::Place;
use super::block::{Job, coordinates};
use super::fault::{FaultKind, SimError};
use super::wgmma::{self, Operation, Step};
use super::worker::{State, Worker};
use crate::registers::blocks_that_fit;
use crate::wgmma::THREADS;

/// Registers of a multiprocessor.
const ALL: u32 = 1 << 16;

/// Most registers of a thread, which has them by the eight.
const MOST: u32 = 256;
const UNIT: u32 = 8;

/// How many registers the threads of a warpgroup are to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) registers: u32,
    /// Whether they take them; else they give up what is beyond.
    pub(crate) takes: bool,
}

/// The registers of a block.
#[derive(Default)]
pub(super) struct Registers {
    /// Those of each thread at the launch; `None` where the kernel has no bound on them.
    launched: Option<u32>,
    /// Those of each thread of each warpgroup; empty until one of them hands some over.
    held: Vec<u32>,
    /// Those that have been given up and not been taken, for each thread of a warpgroup.
    free: u32,
}

impl Registers {
    /// Of a block that begins: a kernel that hands registers over has as many as its bounds allow.
    pub(super) fn new(job: &Job<'_>) -> Self {
        let for_blocks = job.entry.max_threads.zip(job.entry.min_blocks);
        let for_blocks = for_blocks
            .map(|(threads, blocks)| ALL / (threads * blocks_that_fit(threads, blocks)).max(1));
        let bounds = [job.entry.max_registers, for_blocks];
        let launched = bounds.into_iter().flatten().min();
        let launched = launched.map(|launched| launched.min(MOST) / UNIT * UNIT);
        Registers { launched, held: Vec::new(), free: 0 }
    }
}

/// The running thread arrives, with all of its warpgroup, where that hands over registers.
pub(crate) fn transfer(registers: u32, takes: bool, place: Place) {
    wgmma::warpgroup(Operation::Registers(Transfer { registers, takes }), place);
}

/// Hands registers over, for a warpgroup whose threads have all arrived; `false` where there are too few yet.
pub(super) fn execute(
    worker: &mut Worker,
    group: usize,
    step: Step,
    Transfer { registers, takes }: Transfer,
) -> Result<bool, SimError> {
    let groups = worker.threads.len() / THREADS as usize;
    let state = &mut worker.registers;
    if let Some(launched) = state.launched
        && state.held.is_empty()
    {
        state.held = vec![launched; groups];
    }
    let wrong = match state.held.get_mut(group) {
        None => "and the kernel has no bound on its registers: `max_registers`, or `max_threads` and `min_blocks`".to_owned(),
        Some(held) if takes && *held <= registers => {
            let more = registers - *held;
            if more > state.free {
                return Ok(false);
            }
            (*held, state.free) = (registers, state.free - more);
            return Ok(true);
        }
        Some(held) if !takes && *held >= registers => {
            (state.free, *held) = (state.free + *held - registers, registers);
            return Ok(true);
        }
        Some(held) => format!("and its threads have {held}"),
    };
    let verb = if takes { "takes registers up to" } else { "gives up registers down to" };
    let message = format!("{verb} {registers}, {wrong}");
    let first = group * THREADS as usize;
    Err(wgmma::fault(worker, first, step, FaultKind::RegistersMisuse, None, message))
}

/// Checks that no warpgroup of a block in which no thread can go on waits for registers.
pub(super) fn check_waits(worker: &Worker) -> Result<(), SimError> {
    let Registers { held, free, .. } = &worker.registers;
    for (group, threads) in worker.threads.chunks_exact(THREADS as usize).enumerate() {
        let State::Warpgroup(step) = threads[0].state else { continue };
        let Operation::Registers(Transfer { registers, .. }) = step.operation else { continue };
        let together =
            |state: &State| matches!(state, State::Warpgroup(other) if other.place == step.place);
        let (true, Some(held)) =
            (threads.iter().all(|thread| together(&thread.state)), held.get(group))
        else {
            continue;
        };
        let missing = registers.saturating_sub(held + free);
        let message = format!(
            "waits for {registers} registers, {missing} more than the {held} that it has and the {free} that others have given up: no \
             thread of the block can go on"
        );
        let thread = coordinates((group * THREADS as usize) as u64, worker.block_dim);
        let kind = FaultKind::RegistersDeadlock { missing };
        let place = Some(step.place.into());
        return Err(SimError::Fault(worker.fault_of(thread, kind, None, message, place)));
    }
    Ok(())
}
