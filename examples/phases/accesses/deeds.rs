//! Events of threads as elements of matrices and places in tiles, and the phases that they make.
//!
//! What lies in global memory is known by its address. Where a thread loads nothing and gets zero, the instruction says
//! of which matrix it would be: that from which others load there. And a tile in shared memory is known by what threads
//! put there: they put their loads in the order in which they have made them.

use crate::Result;
use crate::element::{Element, Name};
use crate::run::{BYTES, Run};
use cuda_std::sim::{AccessKind, Event, Space, SyncOperation, ThreadEvents};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// A place in the tile of a matrix in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The matrix whose elements come there.
    pub matrix: Name,
    pub row: u64,
    pub col: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { matrix, row, col } = self;
        let tile = format!("tile_{matrix:?}").to_lowercase();
        write!(f, "{tile}[{row}][{col}]")
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It loads an element from global memory; or none of that matrix, and gets zero.
    Load(Name, Option<Element>),
    /// It stores an element in global memory.
    Store(Element),
    /// It stores in shared memory what it has loaded.
    Put(Place),
    /// It loads from shared memory.
    Take(Place),
    /// It waits for its block.
    Barrier,
}

/// What a thread does from one barrier that ends a phase to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// What it brings, before all threads have brought theirs. Nothing is brought as a zero.
    pub brings: Vec<(Option<Element>, Place)>,
    /// What it multiplies, and adds to its sum, after that.
    pub products: Vec<(Place, Place)>,
}

/// What threads of a launch do, each in its order.
pub fn deeds(run: &Run, threads: &[ThreadEvents]) -> Result<Vec<Vec<Deed>>> {
    let sources = sources(run)?;
    let tiles = tiles(run, &sources)?;
    let size = u64::from(run.kernel.tile.bk);
    let place = |address: u64| {
        let (&matrix, index) = tiles.iter().find_map(|(matrix, first)| {
            let index = address.checked_sub(*first)? / BYTES;
            (index < size * size).then_some((matrix, index))
        })?;
        Some(Place { matrix, row: index / size, col: index % size })
    };
    let deed = |event: &Event| match *event {
        Event::Barrier { operation: SyncOperation::BlockBarrier, .. } => Ok(Deed::Barrier),
        Event::Access { access, active, place: instruction } => match (access.space, access.kind) {
            (Space::Global, AccessKind::Read) => {
                let element = if active { Some(run.element(&access)?) } else { None };
                Ok(Deed::Load(known(sources.get(instruction).copied(), event)?, element))
            }
            (Space::Global, AccessKind::Write) => Ok(Deed::Store(run.element(&access)?)),
            (Space::Shared, AccessKind::Write) => {
                Ok(Deed::Put(known(place(access.address), event)?))
            }
            (Space::Shared, AccessKind::Read) => {
                Ok(Deed::Take(known(place(access.address), event)?))
            }
        },
        Event::Barrier { .. } => known(None, event),
    };
    threads.iter().map(|thread| thread.events.iter().map(deed).collect()).collect()
}

fn known<T>(what: Option<T>, event: &Event) -> Result<T> {
    what.ok_or_else(|| format!("nothing that these kernels do: {event:?}").into())
}

type Instruction = std::panic::Location<'static>;

/// From which matrix each instruction loads.
fn sources(run: &Run) -> Result<BTreeMap<Instruction, Name>> {
    let mut sources = BTreeMap::new();
    for event in run.threads.iter().flat_map(|thread| &thread.events) {
        if let Event::Access { access, active: true, place } = event
            && (access.space, access.kind) == (Space::Global, AccessKind::Read)
        {
            sources.insert(**place, run.element(access)?.matrix);
        }
    }
    Ok(sources)
}

/// Where the tile of each matrix begins in shared memory: at the first place where something of the matrix is put.
fn tiles(run: &Run, sources: &BTreeMap<Instruction, Name>) -> Result<BTreeMap<Name, u64>> {
    let mut tiles = BTreeMap::new();
    for thread in &run.threads {
        let mut loaded = VecDeque::new();
        for event in &thread.events {
            let Event::Access { access, place, .. } = event else { continue };
            match (access.space, access.kind) {
                (Space::Global, AccessKind::Read) => loaded.push_back(sources.get(*place).copied()),
                (Space::Shared, AccessKind::Write) => {
                    let matrix = known(loaded.pop_front().flatten(), event)?;
                    let first = tiles.entry(matrix).or_insert(access.address);
                    *first = access.address.min(*first);
                }
                _ => {}
            }
        }
    }
    Ok(tiles)
}

/// The phases of a thread of the tiled kernel: each has a barrier in it and one at its end. What comes after the last
/// is no part of them.
pub fn phases(deeds: &[Deed]) -> Result<Vec<Phase>> {
    let parts: Vec<&[Deed]> = deeds.split(|deed| *deed == Deed::Barrier).collect();
    let (_, parts) = parts.split_last().expect("splitting gives at least one part");
    parts.chunks(2).map(|part| phase(part).ok_or_else(|| "no phase of tiles".into())).collect()
}

/// The phase of what comes before the barrier in it, and after.
fn phase(parts: &[&[Deed]]) -> Option<Phase> {
    let &[before, after] = parts else { return None };
    let mut loaded = VecDeque::new();
    let mut phase = Phase::default();
    for deed in before {
        match *deed {
            Deed::Load(matrix, element) => loaded.push_back((matrix, element)),
            Deed::Put(place) => {
                let (matrix, element) = loaded.pop_front()?;
                if matrix != place.matrix {
                    return None;
                }
                phase.brings.push((element, place));
            }
            _ => return None,
        }
    }
    for pair in after.chunks(2) {
        let &[Deed::Take(a), Deed::Take(b)] = pair else { return None };
        phase.products.push((a, b));
    }
    loaded.is_empty().then_some(phase)
}
