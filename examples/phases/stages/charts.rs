//! What is printed.

use super::doings::{Doing, Part, Slice, Step, Verb, most_ahead, parts};
use crate::Result;
use crate::run::Run;
use crate::text::{joined, table, words};
use comfy_table::CellAlignment;
use regemm_report::table::count;

/// Steps that stand beside each other.
const STEPS_A_CHART: usize = 16;

/// What is multiplied, and in what parts.
pub fn heading(run: &Run, block: u32) -> String {
    let tile = run.kernel.tile;
    format!(
        "{}, in tiles of {} x {} and slices of {} values of k.\n\
         Block {block} of 0 to {} is shown: {} threads, each of which computes {} x {} elements of D. A step ends with a \
         barrier.\nIn charts w says that a stage is written, or that copies to it begin, 0 that only zeros are, and r \
         that it is read.\n",
        run.size,
        tile.bm,
        tile.bn,
        tile.bk,
        run.blocks() - 1,
        run.kernel.threads(),
        tile.tm,
        tile.tn,
    )
}

fn name(run: &Run) -> String {
    let stages = run.kernel.tile.stages;
    format!("{}, {stages} {}", run.kernel.rung, if stages == 1 { "stage" } else { "stages" })
}

/// What the block does, step by step.
pub fn steps(run: &Run, steps: &[Step]) -> String {
    let parts = parts(steps);
    let part = |step: usize| match parts.as_ref().map(|parts| parts[step]) {
        Some(Part::Prologue) => "prologue",
        Some(Part::SteadyState) => "steady state",
        Some(Part::Epilogue) => "epilogue",
        None => "",
    };
    let row = |(number, step): (usize, &Step)| {
        let mut deeds: Vec<String> =
            step.doings.iter().filter_map(|doing| in_words(run, doing)).collect();
        if step.stores > 0 {
            deeds.push(format!("stores {} elements of D", step.stores));
        }
        vec![(number + 1).to_string(), joined(deeds, "; "), part(number).to_owned()]
    };
    let rows = steps.iter().enumerate().map(row).collect();
    let heading = words(["step", "what the threads do, in this order", ""]);
    table(&format!("{}, step by step", name(run)), heading, rows, CellAlignment::Left)
}

/// One thing that the threads do; nothing where an asynchronous copy, which says it, both loads and stores.
fn in_words(run: &Run, doing: &Doing) -> Option<String> {
    let copies = run.counters.async_copies > 0;
    let slices = doing.slices.iter().map(|&Slice { stage, number }| {
        let what = number.map_or_else(|| "zeros".to_owned(), |number| format!("slice {number}"));
        match (stage, doing.verb) {
            (Some(stage), Verb::Multiply) => format!("{what} from stage {stage}"),
            (Some(stage), _) => format!("{what} to stage {stage}"),
            (None, _) => what,
        }
    });
    let verb = match doing.verb {
        Verb::Read if copies => return None,
        Verb::Read => "reads",
        Verb::Write if copies => "begins to copy",
        Verb::Write => "writes",
        Verb::Multiply => "multiplies",
    };
    let slices = joined(slices, " and ");
    Some(match slices.as_str() {
        // What lies outside of the matrices is not touched.
        "zeros" => "reads nothing, past the end of K".to_owned(),
        _ => format!("{verb} {slices}"),
    })
}

/// When slices are loaded and multiplied, and what happens to stages meanwhile: a column for each step.
pub fn chart(run: &Run, steps: &[Step]) -> String {
    let numbers = |step: &Step, verb| joined(step.slices(verb), " ");
    let stage = |step: &Step, stage: u64| {
        let has = |verb, zeros: bool| {
            step.of(verb).any(|slice| slice.stage == Some(stage) && slice.number.is_none() == zeros)
        };
        let marks =
            [("w", Verb::Write, false), ("0", Verb::Write, true), ("r", Verb::Multiply, false)];
        let marks = marks.iter().filter(|(_, verb, zeros)| has(*verb, *zeros));
        joined(marks.map(|(mark, ..)| mark), "")
    };
    let mut text = String::new();
    for (chart, steps) in steps.chunks(STEPS_A_CHART).enumerate() {
        let row = |title: String, cell: &dyn Fn(&Step) -> String| {
            std::iter::once(title).chain(steps.iter().map(cell)).collect::<Vec<_>>()
        };
        let first = chart * STEPS_A_CHART + 1;
        let mut heading = words(["step"]);
        heading.extend((first..first + steps.len()).map(|step| step.to_string()));
        let mut rows = vec![
            row("loads slice".to_owned(), &|step| numbers(step, Verb::Read)),
            row("multiplies slice".to_owned(), &|step| numbers(step, Verb::Multiply)),
        ];
        let stages = 0..u64::from(run.kernel.tile.stages);
        rows.extend(stages.map(|of| row(format!("stage {of}"), &|step| stage(step, of))));
        let title = format!("{}, in time", name(run));
        text += &table(&title, heading, rows, CellAlignment::Center);
    }
    text
}

/// The kernels beside each other.
pub fn compared(runs: &[(Run, Vec<Step>)]) -> Result<String> {
    let rows = runs.iter().map(|(run, steps)| {
        let barriers = steps.len() as u64 - 1;
        let counters = &run.counters;
        if barriers * u64::from(run.blocks()) != counters.block_barriers {
            let name = name(run);
            return Err(format!("{name}: the counters say something else than the threads").into());
        }
        let slices = steps.iter().map(|step| step.slices(Verb::Multiply).len()).sum::<usize>();
        let overlap = steps.iter().filter(|step| step.overlaps()).count();
        let mut row = vec![name(run)];
        row.extend(
            [slices, steps.len(), overlap, most_ahead(steps)].map(|number| count(number as u64)),
        );
        row.extend([count(barriers), format!("{:.2}", barriers as f64 / slices as f64)]);
        row.push(count(counters.shared_bytes));
        Ok(row)
    });
    let heading = words([
        "kernel",
        "slices",
        "steps",
        "of which load\nand multiply",
        "slices multiplied\nwhile one is loaded",
        "barriers",
        "barriers\na slice",
        "bytes of\nshared memory",
    ]);
    let title = "The kernels beside each other, one block of each";
    Ok(table(title, heading, rows.collect::<Result<_>>()?, CellAlignment::Right))
}
