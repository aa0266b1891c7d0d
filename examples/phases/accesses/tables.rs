//! What is printed.

use super::deeds::{self, Deed, Phase, Place, deeds};
use crate::Result;
use crate::element::{Element, Name};
use crate::run::Run;
use crate::text::{joined, table, thread, words};
use comfy_table::CellAlignment;
use regemm_report::table::count;
use std::collections::{BTreeMap, BTreeSet};

/// Products that stand on one line.
const PRODUCTS_A_LINE: usize = 2;

/// The elements that a thread loads, in its order.
fn loads(deeds: &[Deed]) -> impl Iterator<Item = Element> {
    deeds.iter().filter_map(|deed| match deed {
        Deed::Load(_, element) => *element,
        _ => None,
    })
}

/// How often a thread gets a zero in place of an element.
fn zeros(deeds: &[Deed]) -> usize {
    deeds.iter().filter(|deed| matches!(deed, Deed::Load(_, None))).count()
}

/// What a thread stores in D.
fn stores(deeds: &[Deed]) -> impl Iterator<Item = Element> {
    deeds.iter().filter_map(|deed| match deed {
        Deed::Store(element) => Some(*element),
        _ => None,
    })
}

/// What is multiplied, and by how many threads.
pub fn heading(naive: &Run, block: u32) -> String {
    let tile = naive.kernel.tile;
    let blocks = naive.blocks();
    format!(
        "{}, in blocks of {} x {} threads, each of which computes one element of D.\n\
         Block {block} of 0 to {} is shown. Its threads are named (row,column) in the block.\n",
        naive.size,
        tile.bm,
        tile.bn,
        blocks - 1
    )
}

/// What each thread of a block of the naive kernel loads.
pub fn naive(run: &Run, block: u32) -> Result<String> {
    let deeds = deeds(run, run.block(block))?;
    let most = deeds.iter().map(|deeds| loads(deeds).count()).max().unwrap_or(0);
    let mut heading = words(["thread"]);
    heading.extend((1..=most).map(|n| n.to_string()));
    heading.push("stores".to_owned());
    let rows = deeds.iter().enumerate().map(|(index, deeds)| {
        let mut row = vec![thread(run, index)];
        row.extend(loads(deeds).map(|element| element.to_string()));
        row.resize(most + 1, String::new());
        let stored = joined(stores(deeds), " ");
        row.push(if stored.is_empty() { "outside of D".to_owned() } else { stored });
        row
    });
    let title = "naive: loads from global memory, in the order in which each thread makes them";
    Ok(table(title, heading, rows.collect(), CellAlignment::Left))
}

/// Which threads of a block of the naive kernel load the same elements.
pub fn readers(run: &Run, block: u32) -> Result<String> {
    let mut readers = BTreeMap::<Element, Vec<usize>>::new();
    for (index, deeds) in deeds(run, run.block(block))?.iter().enumerate() {
        loads(deeds).for_each(|element| readers.entry(element).or_default().push(index));
    }
    let (elements, all) = (readers.len(), readers.values().map(Vec::len).sum::<usize>());
    let mut shared = BTreeMap::<(Name, Vec<usize>), Vec<Element>>::new();
    for (element, threads) in readers {
        shared.entry((element.matrix, threads)).or_default().push(element);
    }
    let rows = shared.iter().map(|((_, threads), elements)| {
        vec![joined(elements, " "), joined(threads.iter().map(|&index| thread(run, index)), " ")]
    });
    let title = "naive: elements that the same threads of the block load";
    let table = table(title, words(["elements", "threads"]), rows.collect(), CellAlignment::Left);
    Ok(format!("{table}The block makes {all} loads of {elements} elements.\n"))
}

/// What the threads of a block of the tiled kernel do, phase by phase.
pub fn phases(run: &Run, block: u32) -> Result<String> {
    let deeds = deeds(run, run.block(block))?;
    let all: Vec<Vec<Phase>> =
        deeds.iter().map(|deeds| deeds::phases(deeds)).collect::<Result<_>>()?;
    let last = all[0].len();
    let mut text = String::new();
    for number in 0..last {
        let rows = all.iter().enumerate().map(|(index, phases)| {
            let Phase { brings, products } = &phases[number];
            let brought = |matrix: Name| {
                let of_matrix = brings.iter().filter(|(_, place)| place.matrix == matrix);
                joined(
                    of_matrix.map(|(element, place)| format!("{} -> {place}", or_zero(element))),
                    "\n",
                )
            };
            vec![thread(run, index), brought(Name::A), brought(Name::B), sum(products)]
        });
        let title = format!("tiled: phase {} of {last}", number + 1);
        let heading = words([
            "thread",
            "brings from A",
            "brings from B",
            "and after a barrier adds to its sum",
        ]);
        text += &table(&title, heading, rows.collect(), CellAlignment::Left);
        text += "A barrier ends the phase.\n\n";
    }

    let loaded: Vec<Element> = deeds.iter().flat_map(|deeds| loads(deeds)).collect();
    let elements = loaded.iter().collect::<BTreeSet<_>>().len();
    text += &format!("The block makes {} loads of {elements} elements", loaded.len());
    let zeros = deeds.iter().map(|deeds| zeros(deeds)).sum::<usize>();
    if zeros > 0 {
        text += &format!(", and {zeros} zeros stand for what lies outside of the matrices");
    }
    let stores = deeds.iter().map(|deeds| stores(deeds).count()).sum::<usize>();
    let elements = if stores == 1 { "element" } else { "elements" };
    text += &format!(". After the last phase its threads store {stores} {elements} of D.\n");
    Ok(text)
}

fn or_zero(element: &Option<Element>) -> String {
    element.map_or_else(|| "0".to_owned(), |element| element.to_string())
}

fn sum(products: &[(Place, Place)]) -> String {
    let lines = products
        .chunks(PRODUCTS_A_LINE)
        .map(|line| joined(line.iter().map(|(a, b)| format!("{a} * {b}")), " + "));
    joined(lines, " +\n")
}

/// How often elements are loaded in whole launches.
pub fn counts(naive: &Run, tiled: &[(u32, Run)]) -> Result<String> {
    let before = naive.counters.global_load_elements as f64;
    let tiled = tiled.iter().map(|(tile, run)| (format!("tiled, {tile} x {tile}"), run));
    let rows = std::iter::once(("naive".to_owned(), naive)).chain(tiled).map(|(name, run)| {
        let deeds = deeds(run, &run.threads)?;
        let mut times = BTreeMap::<Element, u64>::new();
        for element in deeds.iter().flat_map(|deeds| loads(deeds)) {
            *times.entry(element).or_default() += 1;
        }
        let counters = &run.counters;
        if times.values().sum::<u64>() != counters.global_load_elements {
            return Err(format!("{name}: the counters say something else than the threads").into());
        }
        let of = |matrix: Name| {
            let times = times.iter().filter(|(element, _)| element.matrix == matrix);
            times.map(|(_, &times)| times).collect::<Vec<_>>()
        };
        let (a, b) = (of(Name::A), of(Name::B));
        let zeros = deeds.iter().map(|deeds| zeros(deeds) as u64).sum();
        let mut row = vec![name];
        row.extend([a.iter().sum(), b.iter().sum(), counters.global_load_elements].map(count));
        row.extend([range(&a), range(&b)]);
        row.extend([zeros, counters.shared_load_elements, counters.block_barriers].map(count));
        row.push(format!("{:.2}", before / counters.global_load_elements as f64));
        Ok(row)
    });
    let heading = words([
        "kernel",
        "loads\nof A",
        "loads\nof B",
        "loads\ntogether",
        "of each\nelement of A",
        "of each\nelement of B",
        "zeros\ninstead",
        "loads from\nshared memory",
        "barriers of\nall blocks",
        "times fewer\nloads",
    ]);
    let title = "All blocks: loads from global memory";
    Ok(table(title, heading, rows.collect::<Result<_>>()?, CellAlignment::Right))
}

/// A number that is the same for all elements, or the least and the most.
fn range(times: &[u64]) -> String {
    match (times.iter().min(), times.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (Some(times), _) => times.to_string(),
        _ => "0".to_owned(),
    }
}
