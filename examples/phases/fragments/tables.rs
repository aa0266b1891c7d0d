//! What is printed.

use super::kernels::thread_tile;
use super::products::{Fragments, fragments, stored, target};
use crate::Result;
use crate::element::Element;
use crate::run::Run;
use crate::size::Size;
use crate::text::{joined, table, thread as place, words};
use comfy_table::CellAlignment;
use regemm_report::table::count;
use std::collections::BTreeSet;

/// What is multiplied, and in what parts.
pub fn heading(run: &Run, block: u32) -> String {
    let tile = run.kernel.tile;
    format!(
        "{}, in tiles of {} x {}: {} threads, each of which computes {} x {} elements of D.\n\
         Block {block} of 0 to {} is shown. Its threads are named (row,column) in the block.\n",
        run.size,
        tile.bm,
        tile.bn,
        run.kernel.threads(),
        tile.tm,
        tile.tn,
        run.blocks() - 1,
    )
}

/// What a thread of a block loads for one k, and what it adds to which of its sums.
pub fn products(
    run: &Run,
    (block, thread): (u32, usize),
    k: u32,
    own: &Fragments,
) -> Result<String> {
    let targets = own.a.iter().flat_map(|&a| own.b.iter().filter_map(move |&b| target(a, b)));
    let stored: BTreeSet<Element> = stored(run, block, thread)?.into_iter().collect();
    if stored != targets.collect() {
        return Err("the thread stores other elements of D than those of its products".into());
    }

    let or_zero = |element: &Option<Element>| {
        element.map_or_else(|| "0".to_owned(), |element| element.to_string())
    };
    let mut heading = words(["to the sum of"]);
    heading.extend(own.b.iter().map(|b| format!("* {}", or_zero(b))));
    let rows = own.a.iter().map(|a| {
        let sums = own.b.iter().map(|b| {
            target(*a, *b).map_or_else(|| "outside of D".to_owned(), |element| element.to_string())
        });
        std::iter::once(or_zero(a)).chain(sums).collect()
    });
    let title = format!(
        "Thread {} for k = {k} loads from shared memory\n  of a column of A: {}\n  of a row of B:    {}\n\
         and multiplies each with each. The table has the elements of D to whose sums the products are added:",
        place(run, thread),
        joined(own.a.iter().map(or_zero), " "),
        joined(own.b.iter().map(or_zero), " "),
    );
    let table = table(&title, heading, rows.collect(), CellAlignment::Left);
    let (loads, products) = (own.a.len() + own.b.len(), multiply_adds(run)?);
    Ok(format!(
        "{table}{loads} loads, {products} multiply-adds: each element of A is used {} times, each of B {}.\n",
        own.b.len(),
        own.a.len(),
    ))
}

/// How many multiply-adds a thread executes for one k: all that the simulator has counted, in equal parts. Those of
/// the epilogue are the ones of a product without depth.
pub fn multiply_adds(run: &Run) -> Result<u64> {
    let mut parts = 0;
    for block in 0..run.blocks() {
        for thread in 0..run.kernel.threads() as usize {
            parts += fragments(run, block, thread)?.len() as u64;
        }
    }
    let products = of_products(run)?;
    if parts == 0 || !products.is_multiple_of(parts) {
        return Err(format!("{products} multiply-adds for {parts} values of k of threads").into());
    }
    Ok(products / parts)
}

/// The multiply-adds of a launch without those of its epilogue.
fn of_products(run: &Run) -> Result<u64> {
    let epilogue = Run::new(run.kernel, Size { k: 0, ..run.size })?;
    Ok(run.counters.fma - epilogue.counters.fma)
}

/// The kernels beside each other.
pub fn compared(runs: &[Run]) -> Result<String> {
    let rows = runs.iter().map(|run| {
        let own = &fragments(run, 0, 0)?[0];
        let counters = &run.counters;
        let products = of_products(run)?;
        let mut row = vec![thread_tile(run.kernel)];
        row.push(count((own.a.len() + own.b.len()) as u64));
        row.push(count(multiply_adds(run)?));
        row.push(format!("{:.3}", counters.shared_load_elements as f64 / products as f64));
        row.extend(
            [counters.shared_load_elements, products, counters.global_load_elements].map(count),
        );
        Ok(row)
    });
    let heading = words([
        "elements of D\nof a thread",
        "loads\nfor one k",
        "multiply-adds\nfor one k",
        "loads for a\nmultiply-add",
        "loads from\nshared memory",
        "multiply-adds\nof all threads",
        "loads from\nglobal memory",
    ]);
    let title = "Thread tiles beside each other, all blocks together";
    Ok(table(title, heading, rows.collect::<Result<_>>()?, CellAlignment::Right))
}
