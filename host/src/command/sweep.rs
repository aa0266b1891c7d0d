//! `regemm sweep`: the microkernel in many configurations.
//!
//! | file | what it holds |
//! |---|---|
//! | `filter` | which configurations are swept |
//! | `space` | the configurations and their kernels, as far as this build has them |
//! | `compile` | compiling all kernels ahead of their use |
//! | `campaign` | the measuring loop |
//! | `bench` | running kernels of one size on a device |
//! | `store` | the file that a sweep is kept in, and continued from |

mod bench;
mod campaign;
mod compile;
pub mod filter;
pub mod space;
mod store;

use super::exit::{Failure, with_files};
use super::numbers;
use super::options::{self, DeviceOption};
use super::output::{Output, table};
use super::save::{Destination, check_distinct};
use super::{interrupt, progress};
use bench::{Contender, with_bench};
use campaign::{Campaign, Step, UNITS};
use filter::Filter;
use indicatif::ProgressBar;
use regemm::{Device, Dtype};
use regemm_report::provenance::Provenance;
use regemm_report::sweep::{Entry, Record};
use space::Subject;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use store::Store;

/// Measure one kernel in many configurations: block tiles, thread tiles, loop orders and stagings (needs a build with
/// --features sweep)
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Rows, columns and depth of the products, comma-separated [default: 1024,2048,4096 on a GPU, 256 on the
    /// simulator]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = numbers::extent)]
    sizes: Vec<NonZeroUsize>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    device: DeviceOption,
    /// Most measurements of one configuration on one size, of which the median counts; slow ones get fewer
    #[arg(long, value_name = "N", default_value = "20", value_parser = numbers::count)]
    reps: NonZeroUsize,
    /// Seed of the random operands
    #[arg(long, default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
    /// Keep the record in this JSON file, written after each pass over the configurations
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continue the sweep in the output file; begin one if there is no such file. Tables that exist need --force
    #[arg(long, requires = "output")]
    resume: bool,
    /// Write a line for each configuration and size to this CSV file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the tables to this Markdown file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Replace output files that exist
    #[arg(long)]
    force: bool,
}

const HELP: &str = "\
Loop orders: where the loop over the depth k stands among a thread's loops.
  standard         outermost: partial sums go to memory and back for every k
  k_after_threads  after the loops over a thread's elements: they do so for every slice
  k_innermost      innermost: they stay in registers
Stagings: how slices of A and B come to shared memory.
  direct           not at all: threads load their operands themselves, through the L1 cache
  single           one stage: loading and multiplying take turns
  double           two stages, through registers
  async2 to 4      two to four stages, asynchronous copies (compute capability 8.0 and newer)

A slice is BK values of k. Without shared memory BK matters to k_after_threads alone. Tiles of 1xBNxBK with thread \
tiles of 1x1 are the plainest mapping: a block is a row of the product, a thread a column. A block has at most 1024 \
threads, so that wider rows are several blocks.

Every result is verified before a speed is kept. Times come from events on the GPU; all configurations take turns in \
several passes, so that clocks and temperature are the same for all. The simulator counts what a kernel does and \
gives no times. Ctrl-C keeps what was measured. The kernels are part of builds with the feature `sweep` only:
  cargo run --release --features sweep -- sweep

Examples:
  regemm sweep --output sweep.json --csv sweep.csv --markdown sweep.md
  regemm sweep --output sweep.json --resume
  regemm sweep --sizes 1024 --tile 32x32x32,64x64x64 --thread-tile 8x4,8x8 --staging single
  regemm sweep --staging direct,single --thread-tile 2x2,4x4,4x8,8x4,8x8
  regemm sweep --staging direct --tile 1x1024x32 --order k_innermost
  regemm sweep --device sim --order standard,k_innermost --tile 32x32x32 --json";

/// Sizes that are measured on a GPU if none are named.
const GPU_SIZES: [usize; 3] = [1024, 2048, 4096];
/// The same on the simulator: the least that every tile divides.
const SIMULATOR_SIZES: [usize; 1] = [256];

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut subjects = space::subjects("sweep")?;
    arguments.filter.apply(&mut subjects, |subject| &subject.entry.config)?;
    let device = Device::open(arguments.device.device)?;
    let defaults: &[usize] = if device.is_sim() { &SIMULATOR_SIZES } else { &GPU_SIZES };
    let plan = Plan {
        command: "sweep",
        sizes: distinct(&arguments.sizes, defaults),
        seed: arguments.seed,
        reps: arguments.reps.get(),
    };
    let paths = [&arguments.output, &arguments.csv, &arguments.markdown];
    check_distinct(paths.into_iter().flatten().map(PathBuf::as_path))?;
    let overwrite = arguments.force || arguments.resume;
    let mut store = Store::new(arguments.output.as_deref(), overwrite)?;
    // To continue a record is no permission to replace what else is there.
    drop(Destination::each([&arguments.csv, &arguments.markdown], arguments.force)?);
    interrupt::stop_by_request();

    let mut record = plan.record(&device, &subjects);
    if let Some(path) = arguments.output.as_deref().filter(|_| arguments.resume)
        && let Some(earlier) = store::load(path)?
    {
        store::continue_from(&mut record, earlier, path)?;
    }
    let mut flow = Ok(ControlFlow::Continue(()));
    if !record.complete {
        let mut campaign = Campaign { record, with_library: true };
        flow = pursue(&mut campaign, &device, &mut subjects, &mut store);
        record = campaign.record;
    }
    if flow.is_err() && record.measured().is_empty() && record.wrong().is_empty() {
        // There is nothing to show beside the failure.
        return flow.map(drop);
    }
    // What was measured is printed, whether it can be kept or not.
    let save = |path: &Option<PathBuf>, text: fn(&Record) -> String| match path {
        Some(path) => Destination::new(path, arguments.force, &[])?.save_text(&text(&record)),
        None => Ok(()),
    };
    let kept = [save(&arguments.csv, Record::csv), save(&arguments.markdown, Record::markdown)];
    report(&record, output)?;
    let found = match flow {
        Err(failure) => Err(failure),
        Ok(ControlFlow::Break(())) => {
            Err(Failure::Interrupted(format!("interrupted; {}", store.describe())))
        }
        Ok(ControlFlow::Continue(())) => verdict(&record),
    };
    with_files(found, kept.into_iter().collect())
}

/// What is measured, whatever the configurations.
pub struct Plan {
    /// The subcommand's name.
    pub command: &'static str,
    /// Rows, columns and depth of the products.
    pub sizes: Vec<usize>,
    /// Seed of the operands.
    pub seed: u64,
    /// Most samples of one configuration on one size.
    pub reps: usize,
}

impl Plan {
    /// A record without results.
    pub fn record(&self, device: &Device, subjects: &[Subject]) -> Record {
        let info = device.info();
        Record {
            command: self.command.to_owned(),
            provenance: Provenance::gather(
                &info.name,
                info.multiprocessors,
                info.compute_capability,
            ),
            dtype: Dtype::F32.name().to_owned(),
            peak_tflops: info.peak_flops(Dtype::F32).map(|flops| flops / 1e12),
            sizes: self.sizes.clone(),
            seed: self.seed,
            reps: self.reps,
            complete: false,
            results: subjects.iter().map(|subject| subject.entry.clone()).collect(),
            library: Vec::new(),
            effort: None,
        }
    }
}

impl Campaign {
    /// Takes over what the device makes of the kernels; results stay.
    fn describe(&mut self, subjects: &[Subject]) {
        for (entry, subject) in self.record.results.iter_mut().zip(subjects) {
            let known = std::mem::take(entry);
            *entry = Entry {
                timings: known.timings,
                counts: known.counts,
                wrong: known.wrong,
                ..subject.entry.clone()
            };
        }
    }
}

/// A record of these configurations, and how measuring has ended.
pub fn measure_once(
    plan: &Plan,
    device: &Device,
    subjects: &mut [Subject],
) -> Result<(Record, Result<(), Failure>), Failure> {
    interrupt::stop_by_request();
    let record = plan.record(device, subjects);
    let mut campaign = Campaign { record, with_library: false };
    let mut nowhere = Store::new(None, false)?;
    let ended = match pursue(&mut campaign, device, subjects, &mut nowhere) {
        Ok(ControlFlow::Continue(())) => Ok(()),
        Ok(ControlFlow::Break(())) => {
            let why = "interrupted; only what was measured is reported";
            Err(Failure::Interrupted(why.into()))
        }
        Err(failure) => Err(failure),
    };
    match ended {
        Err(failure) if campaign.record.measured().is_empty() => Err(failure),
        ended => Ok((campaign.record, ended)),
    }
}

/// Compiles the kernels, measures what is pending and stores the record, also where measuring fails.
fn pursue(
    campaign: &mut Campaign,
    device: &Device,
    subjects: &mut [Subject],
    store: &mut Store,
) -> Result<ControlFlow<()>, Failure> {
    let start = Instant::now();
    compile::compile(device, subjects)?;
    let compiled = start.elapsed();
    campaign.describe(subjects);
    store.save(&campaign.record)?;
    let flow = measure(campaign, device, subjects, store);
    if !device.is_sim() {
        let effort = campaign.record.effort.get_or_insert_default();
        effort.compile_seconds += compiled.as_secs_f64();
        effort.measure_seconds += (start.elapsed() - compiled).as_secs_f64();
    }
    store.save(&campaign.record)?;
    flow
}

/// Measures what is pending, on all sizes. The campaign's record holds what was measured also where this fails.
fn measure(
    campaign: &mut Campaign,
    device: &Device,
    subjects: &[Subject],
    store: &mut Store,
) -> Result<ControlFlow<()>, Failure> {
    let mut contenders: Vec<Contender<'_>> =
        subjects.iter().map(|subject| Contender::Configuration(subject.kernel())).collect();
    contenders.push(Contender::Library);
    let sizes = campaign.record.sizes.clone();
    let work = |&size: &usize| campaign.pending(size).len() as u64 * UNITS * weight(size);
    let bar = progress::long_bar(sizes.iter().map(work).sum());
    for size in sizes {
        if campaign.pending(size).is_empty() {
            continue;
        }
        bar.set_message(format!("{size}: operands and their reference"));
        let seed = campaign.record.seed;
        let mut watch = |record: &Record, step: Step| {
            show(&bar, record, step);
            if step.pass_ends {
                store.save(record)?
            } else {
                store.save_if_due(record)?
            }
            Ok(if interrupt::requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        };
        let flow = with_bench(device, &contenders, size, seed, |bench| {
            campaign.run_size(size, bench, &mut watch)
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    campaign.finish();
    Ok(ControlFlow::Continue(()))
}

/// How long a step takes on this size compared with others, roughly: times are bounded, copies for verification are
/// not.
fn weight(size: usize) -> u64 {
    const UNIT: usize = 256;
    ((size / UNIT).pow(2) as u64).max(1)
}

fn show(bar: &ProgressBar, record: &Record, step: Step) {
    bar.inc(step.units * weight(step.size));
    let name = match record.results.get(step.contender) {
        Some(entry) => entry.config.to_string(),
        None => "the library's choice".to_owned(),
    };
    bar.set_message(format!("{}: {name}", step.size));
}

/// Sizes as they were named, each once; these if none were.
pub fn distinct(named: &[NonZeroUsize], defaults: &[usize]) -> Vec<usize> {
    match named {
        [] => defaults.to_vec(),
        named => options::distinct(named.iter().map(|size| size.get())),
    }
}

/// The tables, what did not run, and what won; or the record.
fn report(record: &Record, output: &mut Output) -> Result<(), Failure> {
    output.document(record)?;
    output.text(format_args!(
        "{}, {}: {}",
        record.provenance.device,
        record.dtype,
        record.tally()
    ))?;
    for part in record.tables() {
        let heading: Vec<&str> = part.heading.iter().map(String::as_str).collect();
        output.text(format_args!("\n{}\n{}", part.title, table(&heading, part.rows)))?;
    }
    for (title, lines) in [("Wrong results", record.wrong()), ("Cannot run", record.cannot_run())] {
        if !lines.is_empty() {
            output.text(format_args!("\n{title}\n  {}", lines.join("\n  ")))?;
        }
    }
    output.text(format_args!("\n{}", record.verdicts().join("\n")))
}

/// Fails where a result was wrong.
pub fn verdict(record: &Record) -> Result<(), Failure> {
    let wrong = record.wrong();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Verification(wrong.join("; "))) }
}
