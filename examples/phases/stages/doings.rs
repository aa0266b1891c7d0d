//! What a block does with slices of K and with stages, step by step.

use crate::Result;
use crate::element::{Element, Name};
use crate::run::Run;
use crate::steps::{self, Deed};
use std::collections::{BTreeMap, BTreeSet};

/// What is done to slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// They are loaded from global memory.
    Read,
    /// They are stored in shared memory.
    Write,
    /// They are loaded from there, and multiplied.
    Multiply,
}

/// A slice of K in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    /// Which stage; none where it is loaded from global memory.
    pub stage: Option<u64>,
    /// Which slice along K; none where there are zeros alone, as past the end of K.
    pub number: Option<u64>,
}

/// What all threads of a block do, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    pub verb: Verb,
    pub slices: BTreeSet<Slice>,
}

/// What they do between two barriers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// In their order.
    pub doings: Vec<Doing>,
    /// How many elements of D they store.
    pub stores: usize,
}

impl Step {
    /// The slices to which that is done, without zeros.
    pub fn slices(&self, verb: Verb) -> BTreeSet<u64> {
        self.of(verb).filter_map(|slice| slice.number).collect()
    }

    /// The same with their stages, and with zeros.
    pub fn of(&self, verb: Verb) -> impl Iterator<Item = &Slice> {
        self.doings.iter().filter(move |doing| doing.verb == verb).flat_map(|doing| &doing.slices)
    }

    /// Whether slices are loaded from global memory and others multiplied.
    pub fn overlaps(&self) -> bool {
        [Verb::Read, Verb::Multiply].iter().all(|&verb| !self.slices(verb).is_empty())
    }
}

/// All steps of a block.
pub fn of(run: &Run, block: u32) -> Result<Vec<Step>> {
    let steps = steps::steps(run, block)?;
    // Stages are as large as each other, and the first place of the first one is always written.
    let written = steps.iter().flatten().flatten().filter_map(|deed| match deed {
        Deed::Write(_, address) => Some(*address),
        _ => None,
    });
    let first = written.min().unwrap_or(0);
    let bytes = u64::from(run.kernel.shared_bytes / run.kernel.tile.stages);
    let slice = |deed: &Deed| {
        let (element, address) = match *deed {
            Deed::Read(element) => (element, None),
            Deed::Write(element, address) | Deed::Take(element, address) => {
                (element, Some(address))
            }
            Deed::Store(_) => return None,
        };
        let stage = address.map(|address| (address - first) / bytes);
        let number = element.map(|element| k(element) / u64::from(run.kernel.tile.bk));
        Some(Slice { stage, number })
    };
    steps.iter().map(|step| together(step, slice)).collect()
}

/// The value of k that an element of A or B belongs to.
fn k(element: Element) -> u64 {
    match element.matrix {
        Name::A => element.col,
        _ => element.row,
    }
}

/// What the threads of a block do in a step, of which each does the same to its share of the slices.
fn together(threads: &steps::Step, slice: impl Fn(&Deed) -> Option<Slice>) -> Result<Step> {
    let mut doings: Vec<Doing> = Vec::new();
    for (thread, deeds) in threads.iter().enumerate() {
        let own = in_order(deeds, &slice);
        if thread == 0 {
            doings = own;
        } else if own.len() == doings.len()
            && own.iter().zip(&doings).all(|(a, b)| a.verb == b.verb)
        {
            for (doing, own) in doings.iter_mut().zip(own) {
                doing.slices.extend(own.slices);
            }
        } else {
            return Err("the threads of a block do not do the same".into());
        }
    }
    for doing in &mut doings {
        // A slice at an edge has zeros, too.
        let slices = doing.slices.clone();
        let is_all =
            |zeros: &Slice| slices.iter().filter(|slice| slice.stage == zeros.stage).count() == 1;
        doing.slices.retain(|slice| slice.number.is_some() || is_all(slice));
    }
    let stores = threads.iter().flatten().filter(|deed| matches!(deed, Deed::Store(_))).count();
    Ok(Step { doings, stores })
}

/// What a thread does in a step. Loads from global memory and stores of what they have brought may take turns: they
/// count as one after the other as long as nothing is multiplied between them.
fn in_order(deeds: &[Deed], slice: impl Fn(&Deed) -> Option<Slice>) -> Vec<Doing> {
    let mut doings = Vec::new();
    let is_product = |deed: &Deed| matches!(deed, Deed::Take(..));
    for part in deeds.chunk_by(|a, b| is_product(a) == is_product(b)) {
        for verb in [Verb::Read, Verb::Write, Verb::Multiply] {
            let is_of = |deed: &&Deed| match deed {
                Deed::Read(_) => verb == Verb::Read,
                Deed::Write(..) => verb == Verb::Write,
                Deed::Take(..) => verb == Verb::Multiply,
                Deed::Store(_) => false,
            };
            let slices: BTreeSet<Slice> = part.iter().filter(is_of).filter_map(&slice).collect();
            if !slices.is_empty() {
                doings.push(Doing { verb, slices });
            }
        }
    }
    doings
}

/// A part of a software pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Prologue,
    SteadyState,
    Epilogue,
}

/// The part that each step belongs to: the steady state is from the first to the last that overlaps loads with
/// products. Where none does, there is no pipeline.
pub fn parts(steps: &[Step]) -> Option<Vec<Part>> {
    let first = steps.iter().position(Step::overlaps)?;
    let last = steps.iter().rposition(Step::overlaps)?;
    let part = |step| match step {
        _ if step < first => Part::Prologue,
        _ if step > last => Part::Epilogue,
        _ => Part::SteadyState,
    };
    Some((0..steps.len()).map(part).collect())
}

/// How many slices are multiplied between the loads of a slice and its own products, where they are most.
pub fn most_ahead(steps: &[Step]) -> usize {
    let (mut most, mut multiplied) = (0, 0);
    let mut when_read = BTreeMap::new();
    for doing in steps.iter().flat_map(|step| &step.doings) {
        for number in doing.slices.iter().filter_map(|slice| slice.number) {
            match doing.verb {
                Verb::Read => {
                    when_read.insert(number, multiplied);
                }
                Verb::Write => {}
                Verb::Multiply => {
                    most = most.max(multiplied - when_read.get(&number).unwrap_or(&multiplied));
                    multiplied += 1;
                }
            }
        }
    }
    most
}
