//! Which elements go through shared memory, step by step: what a block does from one barrier to the next.
//!
//! A thread stores in shared memory what it has loaded from global memory, in the order in which it has loaded it. So
//! each place there holds an element that is known, and a thread that loads from the place loads that element: what it
//! was before the step, since what others store in the same step nobody may load.

use crate::Result;
use crate::element::Element;
use crate::run::{BYTES, Run};
use cuda_std::sim::{AccessKind, Event, Space, SyncOperation};
use std::collections::{BTreeMap, VecDeque};

/// What a thread does to one element; or to a zero in place of one, outside of the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It loads it from global memory.
    Read(Option<Element>),
    /// It stores it at an address of shared memory.
    Write(Option<Element>, u64),
    /// It loads it from there, to multiply it.
    Take(Option<Element>, u64),
    /// It stores it in global memory.
    Store(Element),
}

/// What each thread of a block does between two barriers, in its order.
pub type Step = Vec<Vec<Deed>>;

/// The steps of a block.
pub fn steps(run: &Run, block: u32) -> Result<Vec<Step>> {
    let is_barrier = |event: &Event| matches!(event, Event::Barrier { .. });
    let threads: Vec<Vec<&[Event]>> =
        run.block(block).iter().map(|thread| thread.events.split(is_barrier).collect()).collect();
    let barriers = run.block(block).iter().flat_map(|thread| &thread.events);
    for event in barriers.filter(|event| is_barrier(event)) {
        if !matches!(event, Event::Barrier { operation: SyncOperation::BlockBarrier, .. }) {
            return Err(format!("nothing that these kernels do: {event:?}").into());
        }
    }

    let mut shared = BTreeMap::new();
    let mut carried = vec![VecDeque::new(); threads.len()];
    let mut steps = Vec::new();
    for number in 0..threads[0].len() {
        let step: Step = threads
            .iter()
            .zip(&mut carried)
            .map(|(parts, carried)| deeds(run, parts[number], carried, &shared))
            .collect::<Result<_>>()?;
        for deed in step.iter().flatten() {
            if let Deed::Write(element, address) = *deed {
                shared.insert(address, element);
            }
        }
        steps.push(step);
    }
    Ok(steps)
}

/// What a thread does in a step, which begins with what it carries from global memory and with what lies in shared
/// memory.
fn deeds(
    run: &Run,
    events: &[Event],
    carried: &mut VecDeque<Option<Element>>,
    shared: &BTreeMap<u64, Option<Element>>,
) -> Result<Vec<Deed>> {
    let mut deeds = Vec::new();
    for event in events {
        let Event::Access { access, active, .. } = event else { continue };
        let missing =
            || format!("{}: nothing is known of what it moves: {access}", run.kernel.name);
        for word in 0..u64::from(access.bytes) / BYTES {
            let address = access.address + word * BYTES;
            deeds.push(match (access.space, access.kind) {
                (Space::Global, AccessKind::Read) => {
                    let element = if *active { Some(run.element_at(address)?) } else { None };
                    carried.push_back(element);
                    Deed::Read(element)
                }
                (Space::Shared, AccessKind::Write) => {
                    Deed::Write(carried.pop_front().ok_or_else(missing)?, address)
                }
                (Space::Shared, AccessKind::Read) => {
                    Deed::Take(*shared.get(&address).ok_or_else(missing)?, address)
                }
                // Outside of D nothing is stored.
                (Space::Global, AccessKind::Write) if !active => continue,
                (Space::Global, AccessKind::Write) => Deed::Store(run.element_at(address)?),
            });
        }
    }
    Ok(deeds)
}
