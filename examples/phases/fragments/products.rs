//! What a thread loads from shared memory for each value of k.
//!
//! For each k it loads its share of a column of A and then that of a row of B. Which of the two a place in shared
//! memory belongs to is known by the elements that come there in the course of the launch.

use crate::Result;
use crate::element::{Element, Name};
use crate::run::Run;
use crate::steps::{Deed, steps};
use std::collections::BTreeMap;

/// What a thread holds in registers for one k. Outside of the matrices it has zeros instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    /// Its share of a column of A.
    pub a: Vec<Option<Element>>,
    /// Its share of a row of B.
    pub b: Vec<Option<Element>>,
}

/// The fragments of a thread, one for each value of k in turn.
pub fn fragments(run: &Run, block: u32, thread: usize) -> Result<Vec<Fragments>> {
    let steps = steps(run, block)?;
    let written = steps.iter().flatten().flatten().filter_map(|deed| match *deed {
        Deed::Write(element, address) => Some((address, element?.matrix)),
        _ => None,
    });
    let matrices: BTreeMap<u64, Name> = written.collect();
    let mut all: Vec<Fragments> = Vec::new();
    let mut last = Name::B;
    for deed in steps.iter().flat_map(|step| &step[thread]) {
        let Deed::Take(element, address) = *deed else { continue };
        // Where there never is an element, it is at an edge of the slice that begins before it.
        let (_, &matrix) = matrices.range(..=address).next_back().ok_or("nothing is there")?;
        if (last, matrix) == (Name::B, Name::A) {
            all.push(Fragments::default());
        }
        last = matrix;
        let own = all.last_mut().ok_or("a row of B without a column of A")?;
        if matrix == Name::A { own.a.push(element) } else { own.b.push(element) }
    }
    Ok(all)
}

/// The elements of D that a thread stores.
pub fn stored(run: &Run, block: u32, thread: usize) -> Result<Vec<Element>> {
    let steps = steps(run, block)?;
    let deeds = steps.iter().flat_map(|step| &step[thread]);
    Ok(deeds.filter_map(|deed| if let Deed::Store(d) = *deed { Some(d) } else { None }).collect())
}

/// The element of D to which the product of an element of A and one of B belongs.
pub fn target(a: Option<Element>, b: Option<Element>) -> Option<Element> {
    Some(Element { matrix: Name::D, row: a?.row, col: b?.col })
}
