//! `regemm pipelining`: one tile with each way of staging.

use super::exit::Failure;
use super::numbers;
use super::options::DeviceOption;
use super::output::{Output, table};
use super::sweep::filter::{Filter, block_tile, thread_tile};
use super::sweep::{Plan, distinct, measure_once, space, verdict};
use regemm::Device;
use regemm_report::sweep::groups::STAGED;
use std::num::NonZeroUsize;

/// Measure what software pipelining gains: one tile with one stage, double-buffered, and with asynchronous copies
/// (needs a build with --features sweep)
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Rows, columns and depth of the products, comma-separated [default: 256 to 4096 on a GPU, 128 on the simulator]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = numbers::extent)]
    sizes: Vec<NonZeroUsize>,
    /// Block tile: BMxBNxBK
    #[arg(long, value_name = "BMxBNxBK", default_value = "64x128x16", value_parser = block_tile)]
    tile: String,
    /// Thread tile: TMxTN
    #[arg(long, value_name = "TMxTN", default_value = "8x8", value_parser = thread_tile)]
    thread_tile: String,
    #[command(flatten)]
    device: DeviceOption,
    /// Measurements of each kernel on a GPU, of which the median counts
    #[arg(long, value_name = "N", default_value = "30", value_parser = numbers::count)]
    reps: NonZeroUsize,
    /// Seed of the random operands
    #[arg(long, default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
}

const HELP: &str = "\
The rows: one stage, where loading and multiplying take turns; two stages through registers; a software pipeline of \
asynchronous copies with two and three stages; and the pipeline with twice its buffers, which is double buffering on \
top of it. More buffers take shared memory, and with it resident blocks: the table shows both. On a GPU another table \
has sizes of so few tiles that each has a multiprocessor to itself: what a slice of K takes in turn with its \
multiply-adds, and what would be left of it if the shorter of both were hidden. Ctrl-C keeps what was measured.

The kernels are those of `regemm sweep`, which are part of builds with the feature `sweep` only:
  cargo run --release --features sweep -- pipelining

Examples:
  regemm pipelining
  regemm pipelining --tile 128x128x8 --thread-tile 8x16 --sizes 1024,4096
  regemm pipelining --device sim --json";

/// Sizes that are measured if none are named.
const GPU_SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];
const SIMULATOR_SIZES: [usize; 1] = [128];

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut subjects = space::subjects("pipelining")?;
    let filter = Filter {
        order: vec!["k_innermost".into()],
        tile: vec![arguments.tile.clone()],
        thread_tile: vec![arguments.thread_tile.clone()],
        staging: STAGED.map(String::from).to_vec(),
    };
    filter.apply(&mut subjects, |subject| &subject.entry.config)?;
    let device = Device::open(arguments.device.device)?;
    let defaults: &[usize] = if device.is_sim() { &SIMULATOR_SIZES } else { &GPU_SIZES };
    let plan = Plan {
        command: "pipelining",
        sizes: distinct(&arguments.sizes, defaults),
        seed: arguments.seed,
        reps: arguments.reps.get(),
    };
    let (record, ended) = measure_once(&plan, &device, &mut subjects)?;

    output.document(&record)?;
    output.text(format_args!(
        "{}, {}: block tile {}, thread tile {}",
        record.provenance.device, record.dtype, arguments.tile, arguments.thread_tile
    ))?;
    for part in record.pipelining() {
        let heading: Vec<&str> = part.heading.iter().map(String::as_str).collect();
        output.text(format_args!("\n{}\n{}", part.title, table(&heading, part.rows)))?;
    }
    for line in record.cannot_run() {
        output.text(format_args!("\nCannot run: {line}"))?;
    }
    output.text(format_args!("\n{}", record.pipelining_verdicts().join("\n")))?;
    ended.and_then(|()| verdict(&record))
}
