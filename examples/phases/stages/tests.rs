//! What is printed, and that it is what the kernels do.

use super::doings::{Part, Slice, most_ahead, parts};
use super::*;
use crate::Cli;
use crate::stages::doings::Verb;
use crate::testing::{assert_printed, lines};
use clap::Parser;
use regemm_kernels::kernel::Rung;
use std::collections::{BTreeMap, BTreeSet};

fn printed(size: &str, depth: u32, block: u32) -> Vec<String> {
    lines(&show(&Arguments { size: size.parse().unwrap(), depth, block }).unwrap())
}

#[test]
fn four_slices_of_two() {
    let expected = [
        "microkernel, 1 stage, step by step",
        "1 reads slice 0; writes slice 0 to stage 0",
        "2 multiplies slice 0 from stage 0",
        "3 reads slice 1; writes slice 1 to stage 0",
        "8 multiplies slice 3 from stage 0",
        "9 stores 16 elements of D",
        "microkernel, 1 stage, in time",
        "step 1 2 3 4 5 6 7 8 9",
        "stage 0 w r w r w r w r",
        "double_buffered, 2 stages, step by step",
        "1 reads slice 0; writes slice 0 to stage 0 prologue",
        "2 reads slice 1; multiplies slice 0 from stage 0; writes slice 1 to stage 1 steady state",
        "3 reads slice 2; multiplies slice 1 from stage 1; writes slice 2 to stage 0 steady state",
        "4 reads slice 3; multiplies slice 2 from stage 0; writes slice 3 to stage 1 steady state",
        "5 reads nothing, past the end of K; multiplies slice 3 from stage 1; writes zeros to stage 0 epilogue",
        "6 stores 16 elements of D epilogue",
        "double_buffered, 2 stages, in time",
        "loads slice 0 1 2 3",
        "multiplies slice 0 1 2 3",
        "stage 0 w r w r 0",
        "stage 1 w r w r",
        "pipelined, 2 stages, step by step",
        "1 begins to copy slice 0 to stage 0 prologue",
        "2 begins to copy slice 1 to stage 1; multiplies slice 0 from stage 0 steady state",
        "5 multiplies slice 3 from stage 1; stores 16 elements of D epilogue",
        "pipelined, 3 stages, step by step",
        "1 begins to copy slice 0 to stage 0 and slice 1 to stage 1 prologue",
        "2 begins to copy slice 2 to stage 2; multiplies slice 0 from stage 0 steady state",
        "3 begins to copy slice 3 to stage 0; multiplies slice 1 from stage 1 steady state",
        "4 multiplies slice 2 from stage 2 epilogue",
        "5 multiplies slice 3 from stage 0; stores 16 elements of D epilogue",
        "pipelined, 3 stages, in time",
        "loads slice 0 1 2 3",
        "stage 0 w r w r",
        "stage 1 w r",
        "stage 2 w r",
        // Slices, steps, those of them that load and multiply, slices multiplied while one is loaded, barriers and
        // barriers a slice, bytes of shared memory.
        "microkernel, 1 stage 4 9 0 0 8 2.00 96",
        "double_buffered, 2 stages 4 6 3 1 5 1.25 192",
        "pipelined, 2 stages 4 5 3 1 4 1.00 192",
        "pipelined, 3 stages 4 5 2 2 4 1.00 288",
    ];
    assert_printed(&printed("8", 2, 0), &expected);
}

/// Where steps of a load or of a product stand in a chart is what it is about.
#[test]
fn loads_stand_above_the_products_that_they_overlap_with() {
    let text = show(&Arguments { size: "8".parse().unwrap(), depth: 2, block: 3 }).unwrap();
    let drawn = "\
double_buffered, 2 stages, in time
┌──────────────────────────────────────────┐
│ step               1   2   3   4   5   6 │
╞══════════════════════════════════════════╡
│ loads slice        0   1   2   3         │
│ multiplies slice       0   1   2   3     │
│ stage 0            w   r   w   r   0     │
│ stage 1                w   r   w   r     │
└──────────────────────────────────────────┘
";
    assert!(text.contains(drawn), "{text}");
}

#[test]
fn long_charts_are_continued() {
    let expected = [
        "step 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "step 17 18 19",
        "multiplies slice 15 16",
        "pipelined, 3 stages 17 18 15 2 17 1.00 288",
    ];
    assert_printed(&printed("1x1x33", 2, 0), &expected);
}

/// One slice, several, and parts of one; edges of D in each direction; all depths.
const CASES: [(&str, u32); 7] = [
    ("8", 2),
    ("5x3x4", 2),
    ("4x6x5", 1),
    ("7x9x6", 4),
    ("1x2x3", 4),
    ("1x1x1", 2),
    ("17x5x33", 4),
];

/// The steps of all blocks of all kernels.
fn all() -> impl Iterator<Item = (Run, Vec<Step>)> {
    CASES.into_iter().flat_map(|(size, depth)| {
        kernels::of_depth(depth).flat_map(move |kernel| {
            let blocks = Run::new(kernel, size.parse().unwrap()).unwrap().blocks();
            (0..blocks).map(move |block| {
                let run = Run::new(kernel, size.parse().unwrap()).unwrap();
                let steps = doings::of(&run, block).unwrap();
                (run, steps)
            })
        })
    })
}

#[test]
fn slices_are_multiplied_in_order_from_the_stages_that_they_were_brought_to() {
    for (run, steps) in all() {
        let mut stages = BTreeMap::new();
        let mut multiplied = Vec::new();
        for step in &steps {
            let of = |verb| step.of(verb).copied().collect::<Vec<Slice>>();
            for Slice { stage, number } in of(Verb::Multiply) {
                assert_eq!(stages[&stage], number, "{}", run.kernel.name);
                multiplied.push(number.unwrap());
            }
            let used: BTreeSet<_> = of(Verb::Multiply).iter().map(|slice| slice.stage).collect();
            for Slice { stage, number } in of(Verb::Write) {
                assert!(stage < Some(run.kernel.tile.stages.into()));
                assert!(!used.contains(&stage), "nobody writes what others read: {step:?}");
                stages.insert(stage, number);
            }
        }
        let slices = u64::from(run.size.k.div_ceil(run.kernel.tile.bk));
        assert!(multiplied.into_iter().eq(0..slices), "{} {}", run.kernel.name, run.size);
    }
}

#[test]
fn barriers_and_overlap_are_those_of_the_rung() {
    for (run, steps) in all() {
        let slices = run.size.k.div_ceil(run.kernel.tile.bk) as usize;
        let ahead = run.kernel.tile.stages as usize - 1;
        let barriers = match run.kernel.rung {
            Rung::Microkernel => 2 * slices,
            Rung::DoubleBuffered => slices + 1,
            _ => slices,
        };
        let what = format!("{} {}", run.kernel.name, run.size);
        assert_eq!(steps.len() - 1, barriers, "{what}");
        assert_eq!(most_ahead(&steps), ahead.min(slices - 1), "{what}");
        let overlap = if ahead == 0 { 0 } else { slices.saturating_sub(ahead) };
        assert_eq!(steps.iter().filter(|step| step.overlaps()).count(), overlap, "{what}");
        // The steady state is one stretch, after one step and before those that only multiply.
        if let Some(parts) = parts(&steps) {
            let count = |part| parts.iter().filter(|&&other| other == part).count();
            assert_eq!((count(Part::Prologue), count(Part::SteadyState)), (1, overlap), "{what}");
        }
    }
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let arguments = Arguments { size: "8".parse().unwrap(), depth: 2, block: 4 };
    assert_eq!(show(&arguments).unwrap_err().to_string(), "there is no block 4: they are 0 to 3");
    for wrong in [["--depth", "3"], ["--size", "0"], ["--block", "-1"], ["--tile", "2"]] {
        let line = ["phases", "stages"].iter().chain(&wrong);
        assert!(Cli::try_parse_from(line).is_err(), "{wrong:?}");
    }
    assert!(Cli::try_parse_from(["phases", "--size", "8", "stages"]).is_err(), "whose size?");
}
