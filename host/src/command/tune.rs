//! `regemm tune`: measures which kernel is fastest on which shapes, and explains the choice.
//!
//! | file | what it holds |
//! |---|---|
//! | `campaign` | measuring many shapes |
//! | `show` | what the tables hold, and removing them |
//! | `explain` | which kernel is chosen for a shape, and why |
//! | `check` | how close the choice comes to the fastest kernel |

mod campaign;
mod check;
pub mod explain;
mod show;

use super::eprintln_quietly;
use super::exit::{Failure, with_files};
use super::interrupt;
use super::numbers;
use super::options::{self, DeviceOption, Size, distinct};
use super::output::{Output, table};
use super::progress;
use super::save::Destination;
use campaign::{Campaign, Flow};
use regemm::kernels::{self, Problem, Types};
use regemm::tuning::cache::Cache;
use regemm::tuning::{self, Key, Shape, Table};
use regemm::{Device, DeviceInfo, DeviceSpec, Element, Error, Layouts, Yields, with_types};
use regemm_report::provenance::Provenance;
use serde_json::{Value, json};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Measure which kernel is fastest on which shapes, so that the library chooses well on this GPU
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Shapes to measure, comma-separated: N or MxNxK [default: some 490 with sides up to 32768 and depths up to 65536,
    /// which say enough about all others; in other layouts some 120, and in `nt` some 95 of layers of transformers
    /// besides]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', conflicts_with_all = MODES)]
    sizes: Vec<Size>,
    /// Element types, comma-separated: `bf16_f32` has results of f32
    #[arg(
        long = "dtype",
        value_name = "TYPE",
        value_delimiter = ',',
        default_value = "f32",
        value_parser = options::types(),
        conflicts_with_all = ["show", "clear"]
    )]
    types: Vec<Types>,
    /// How the factors lie in memory, comma-separated, A's layout first: `nt` is B transposed, as weights often are.
    /// Times in other layouts need times in `nn`: if at least 32 shapes were measured in `nn` they count for all
    /// shapes, else near those shapes alone
    #[arg(
        long,
        value_name = "LAYOUTS",
        value_delimiter = ',',
        default_value = "nn",
        value_parser = options::layouts(),
        conflicts_with_all = ["show", "clear"]
    )]
    layouts: Vec<Layouts>,
    #[command(flatten)]
    device: DeviceOption,
    /// Least measurements of each kernel that comes close to the fastest, of which the median counts
    #[arg(long, value_name = "N", default_value = "10", value_parser = numbers::count, conflicts_with_all = WITHOUT_TIMES)]
    reps: NonZeroUsize,
    /// Seed of the random operands
    #[arg(long, default_value_t = 1, value_parser = numbers::seed, conflicts_with_all = WITHOUT_TIMES)]
    seed: u64,
    /// Write the times to this file instead of the cache
    #[arg(long, short, value_name = "FILE", conflicts_with_all = MODES)]
    output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Add to the output file if it exists: of two times of a kernel on a shape the shorter counts
    #[arg(long, requires = "output", conflicts_with = "force")]
    merge: bool,
    /// Measure nothing: show the tables there are, and where
    #[arg(long, group = "mode")]
    show: bool,
    /// Measure nothing: remove this GPU's times, of all types and layouts, from the cache; without a GPU those of all
    /// GPUs
    #[arg(long, group = "mode")]
    clear: bool,
    /// Measure nothing: show which kernel is chosen for these shapes, comma-separated, and why
    #[arg(long, value_name = "SIZE", value_delimiter = ',', group = "mode")]
    explain: Vec<Size>,
    /// Explain for a known GPU that need not be there, such as h200, by what the library brings for it, whatever
    /// REGEMM_TUNING says
    #[arg(long, value_name = "GPU", requires = "explain", conflicts_with = "device")]
    gpu: Option<String>,
    /// Measure all kernels on these shapes, comma-separated, and compare the one that is chosen with the fastest: what
    /// a product of your own takes; keep nothing
    #[arg(long, value_name = "SIZE", value_delimiter = ',', group = "mode")]
    check: Vec<Size>,
}

/// What excludes measuring for the tables.
const MODES: [&str; 4] = ["show", "clear", "explain", "check"];

/// What measures nothing at all.
const WITHOUT_TIMES: [&str; 3] = ["show", "clear", "explain"];

const HELP: &str = "\
Times go to a file in the user's cache folder, where every program that uses the library on this GPU finds them; they \
count as long as driver and kernels stay the same. Measuring one element type takes one to three minutes of a large GPU, \
and in each of the other layouts one more. Ctrl-C keeps what was measured. For some GPUs the library brings times with it: --show lists them.

Environment:
  REGEMM_TUNING     how kernels are chosen: rule, table (by measured times if there are some; the
                    default) or first-use (shapes like none before are measured when they come)
  REGEMM_CACHE_DIR  the cache folder [default: regemm in the user's cache folder]

Examples:
  regemm tune
  regemm tune --dtype f32,f64,f16,bf16,f16_f32,bf16_f32
  regemm tune --sizes 1000,1x4096x4096
  regemm tune --dtype bf16 --layouts nn,nt
  regemm tune --dtype bf16 --output gpu.json --merge
  regemm tune --explain 4096,100x200x300
  regemm tune --explain 4096 --gpu h200 --json
  regemm tune --check 1000,1500,3000 --reps 30
  regemm tune --show";

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.show || arguments.clear {
        let device = Device::open(arguments.device.device)?;
        let cache = Cache::of_user()?;
        return if arguments.show {
            show::show(&device, &cache, output)
        } else {
            show::clear(&device, &cache, output)
        };
    }
    if !arguments.explain.is_empty() {
        return explain::run(arguments, output);
    }
    let device = Device::open(arguments.device.device)?;
    if device.is_sim() {
        let because = match arguments.device.device {
            DeviceSpec::Auto => format!(" ({})", options::why_no_gpu()),
            _ => String::new(),
        };
        let why = format!("the simulator counts work and has no clock{because}").into();
        return Err(Failure::Library(Error::NotMeasurable { why }));
    }
    if !arguments.check.is_empty() {
        return check::run(arguments, &device, output);
    }
    measure(arguments, &device, output)
}

/// Measures for the tables.
fn measure(arguments: &Arguments, device: &Device, output: &mut Output) -> Result<(), Failure> {
    interrupt::stop_by_request();
    // What cannot be added to is better known before than after minutes of measuring.
    known_times(arguments)?;
    let plan: Vec<(Types, Layouts, Vec<Shape>)> = kinds(arguments)
        .map(|(types, layouts)| {
            let shapes = match &arguments.sizes[..] {
                [] => tuning::default_shapes(device.info(), types, layouts),
                sizes => sizes.iter().map(|&size| shape(&problem(types, layouts, size))).collect(),
            };
            (types, layouts, shapes)
        })
        .collect();
    let store = Store::prepared(arguments, device)?;
    if let Store::Cache(cache) = &store {
        warn_of_missing_row_major(arguments, device.info(), cache);
    }
    let campaign = Campaign {
        device,
        reps: arguments.reps,
        seed: arguments.seed,
        // Shapes that somebody has named are measured however long that takes.
        patient: !arguments.sizes.is_empty(),
        bar: progress::long_bar(plan.iter().map(|(.., shapes)| shapes.len() as u64).sum()),
    };
    let mut outcomes = Vec::new();
    let mut flow = Flow::Complete;
    for (types, layouts, shapes) in &plan {
        let outcome = with_types!(*types, campaign_of(&campaign, *layouts, shapes));
        flow = outcome.flow;
        outcomes.push(outcome.tables);
        if !matches!(flow, Flow::Complete) {
            break;
        }
    }
    campaign.bar.finish_and_clear();

    // What was measured is kept, however the measuring ended, and printed, whether it could be kept or not.
    let tables: Vec<&Table> =
        outcomes.iter().map(|tables| &tables.table).filter(|table| !table.is_empty()).collect();
    let kept = if tables.is_empty() {
        if let Flow::Failed(failure) = flow {
            return Err(failure);
        }
        Ok(None)
    } else {
        store.keep(device.info(), &tables, arguments).map(Some)
    };
    let file = kept.as_ref().ok().and_then(Option::as_ref);
    output.document(&json!({
        "command": "tune",
        "provenance": provenance(device.info()),
        "device": device.info(),
        "file": file.map(|path| path.display().to_string()),
        "not_kept": kept.as_ref().err().map(Failure::to_string),
        "complete": matches!(flow, Flow::Complete),
        "tables": outcomes.iter().map(|tables| tables.json(device.info())).collect::<Vec<_>>(),
    }))?;
    for tables in &outcomes {
        output.text(tables.text(device.info()))?;
    }
    if let Some(path) = file {
        output.text(format_args!("wrote {}", path.display()))?;
    }
    end(flow, kept)
}

/// Says of which element types nothing is known in row-major layouts, without which times in others do not count.
fn warn_of_missing_row_major(arguments: &Arguments, device: &DeviceInfo, cache: &Cache) {
    if arguments.layouts.contains(&Layouts::NN) {
        return;
    }
    let is_known = |types: Types| {
        // What is wrong with a file of the cache is said when it is written.
        let cached = || cache.load(&Key::of(device, types, Layouts::NN)).ok().flatten();
        tuning::shipped::used_by(device, types).is_some() || cached().is_some()
    };
    let types = distinct(arguments.types.iter().copied());
    let missing: Vec<_> =
        types.into_iter().filter(|types| !is_known(*types)).map(Types::name).collect();
    if !missing.is_empty() {
        eprintln_quietly(format_args!(
            "regemm: warning: nothing of {} was measured in nn on this GPU, without which times in other layouts do \
             not count: measure that as well, by --layouts nn",
            missing.join(" and ")
        ));
    }
}

/// What the measuring and the keeping come to. Of two failures the device's comes first, which the other may follow
/// from.
fn end(flow: Flow, kept: Result<Option<PathBuf>, Failure>) -> Result<(), Failure> {
    match (flow, kept) {
        (Flow::Failed(failure), kept) => with_files(Err(failure), kept.map(drop)),
        (Flow::Complete | Flow::Interrupted, Err(failure)) => Err(failure),
        (Flow::Complete, Ok(_)) => Ok(()),
        (Flow::Interrupted, Ok(kept)) => Err(Failure::Interrupted(match kept {
            Some(path) => format!("interrupted; {} has what was measured", path.display()),
            None => "interrupted; nothing was measured yet".to_owned(),
        })),
    }
}

fn campaign_of<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    campaign: &Campaign<'_>,
    layouts: Layouts,
    shapes: &[Shape],
) -> campaign::Outcome {
    campaign.run::<T, D>(layouts, shapes)
}

/// The output file that is there, if times are to be added to it.
fn known_times(arguments: &Arguments) -> Result<Option<String>, Failure> {
    let Some(path) = arguments.output.as_ref().filter(|path| arguments.merge && path.is_file())
    else {
        return Ok(None);
    };
    let known = fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
    // With itself: whether it can be.
    tuning::merge_shorter(&known, &known).map_err(|error| Failure::file(path, error))?;
    Ok(Some(known))
}

/// Where measured times go.
enum Store {
    /// To a file that was named.
    File(PathBuf, Destination),
    /// To the cache.
    Cache(Cache),
}

impl Store {
    /// The output file if one is named, else the cache. What is wrong with the place shows now, and not after minutes
    /// of measuring.
    fn prepared(arguments: &Arguments, device: &Device) -> Result<Store, Failure> {
        if let Some(path) = &arguments.output {
            let destination = Destination::new(path, arguments.force || arguments.merge, &[])?;
            return Ok(Store::File(path.clone(), destination));
        }
        let cache = Cache::of_user()?;
        // The simulator is not measured, so that nothing is kept of it.
        if !device.is_sim() {
            cache.prepare(&device.info().name)?;
        }
        Ok(Store::Cache(cache))
    }

    /// Writes tables, and gives the file.
    fn keep(
        self,
        device: &DeviceInfo,
        tables: &[&Table],
        arguments: &Arguments,
    ) -> Result<PathBuf, Failure> {
        match self {
            Store::File(path, destination) => {
                destination.save_text(&encoded(device, tables, arguments, &path)?)?;
                Ok(path)
            }
            Store::Cache(cache) => {
                let mut path = PathBuf::new();
                for table in tables {
                    path = cache.merge(&Key::of(device, table.types(), table.layouts()), table)?;
                }
                Ok(path)
            }
        }
    }
}

/// What the output file will hold: tables, with the times that are there already if they are to be added to it.
fn encoded(
    device: &DeviceInfo,
    tables: &[&Table],
    arguments: &Arguments,
    path: &Path,
) -> Result<String, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let tables: Vec<Table> = tables.iter().map(|&table| table.clone()).collect();
    let failure = |error: tuning::Damage| Failure::file(path, error);
    let text = tuning::encode(device, now, &tables).map_err(|error| failure(error.into()))?;
    match known_times(arguments)? {
        Some(known) => tuning::merge_shorter(&known, &text).map_err(failure),
        None => Ok(text),
    }
}

/// All element types in all layouts, each once.
fn kinds(arguments: &Arguments) -> impl Iterator<Item = (Types, Layouts)> {
    let layouts = distinct(arguments.layouts.iter().copied());
    let in_layouts = move |types| layouts.clone().into_iter().map(move |it| (types, it));
    distinct(arguments.types.iter().copied()).into_iter().flat_map(in_layouts)
}

/// The shape of a problem of packed matrices.
fn shape(&Problem { dtype, layouts, m, n, k, .. }: &Problem) -> Shape {
    Shape::packed_in(layouts, dtype, m, n, k)
}

/// The product of packed matrices of this size.
fn problem(types: Types, layouts: Layouts, Size { m, n, k }: Size) -> Problem {
    Problem::packed(types, (m, n, k), layouts)
}

fn provenance(info: &DeviceInfo) -> Provenance {
    Provenance::gather(&info.name, info.multiprocessors, info.compute_capability)
}

/// A measured shape as JSON: the times in seconds by kernel.
fn entry_json(entry: &tuning::Entry) -> Value {
    let times = entry.times.iter();
    let times = times.map(|time| (time.kernel.name.to_owned(), json!(time.seconds)));
    let Shape { m, n, k, aligned } = entry.shape;
    json!({
        "m": m, "n": n, "k": k, "aligned": aligned,
        "seconds": Value::Object(times.collect()),
        "fastest": entry.fastest().map(|time| time.kernel.name),
    })
}

/// How often each kernel is the fastest, and how much slower what the rule chooses is.
fn summary(info: &DeviceInfo, measured: &Table) -> Option<(Vec<(String, usize)>, RuleLoss)> {
    let wins = measured.kernels().into_iter().map(|kernel| {
        let fastest =
            |entry: &&tuning::Entry| entry.fastest().is_some_and(|t| t.kernel.name == kernel.name);
        (kernel.name.to_owned(), measured.entries().filter(fastest).count())
    });
    let mut losses: Vec<(f64, Shape)> = measured
        .entries()
        .filter_map(|entry| {
            let Shape { m, n, k, .. } = entry.shape;
            let problem = Problem::packed(measured.types(), (m, n, k), measured.layouts());
            let by_rule = kernels::choose(&problem, info, None).ok()?;
            let ratio = entry.seconds(by_rule.kernel)? / entry.fastest()?.seconds;
            Some((ratio - 1.0, entry.shape))
        })
        .collect();
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    let &(worst, worst_shape) = losses.last()?;
    let mean = losses.iter().map(|(loss, _)| loss).sum::<f64>() / losses.len() as f64;
    Some((wins.collect(), RuleLoss { shapes: losses.len(), mean, worst, worst_shape }))
}

/// How much slower than the fastest kernel the one is that the rule chooses: the time relative to the fastest, less
/// one.
struct RuleLoss {
    /// Those on which the rule's kernel has a time.
    shapes: usize,
    mean: f64,
    worst: f64,
    worst_shape: Shape,
}

impl campaign::Tables {
    fn json(&self, info: &DeviceInfo) -> Value {
        let summary = summary(info, &self.table);
        json!({
            "dtype": self.table.types().name(),
            "layouts": self.table.layouts().name(),
            "entries": self.table.entries().map(entry_json).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(|(shape, why)| {
                json!({ "shape": shape.to_string(), "why": why })
            }).collect::<Vec<_>>(),
            "rule": summary.map(|(_, loss)| json!({
                "shapes": loss.shapes,
                "mean_loss": loss.mean,
                "worst_loss": loss.worst,
                "worst_shape": loss.worst_shape.to_string(),
            })),
        })
    }

    fn text(&self, info: &DeviceInfo) -> String {
        let campaign::Tables { table: measured, .. } = self;
        let (types, layouts) = (measured.types(), measured.layouts());
        let mut text = format!("{types}, {layouts}: {} shapes measured\n", measured.len());
        for (shape, why) in &self.skipped {
            text += &format!("skipped {shape}: {why}\n");
        }
        if let Some((wins, loss)) = summary(info, &self.table) {
            let rows = wins.into_iter().map(|(name, count)| vec![name, count.to_string()]);
            text += &table(&["kernel", "fastest on"], rows);
            text += &format!(
                "\nThe rule alone would be {:.1} % slower on average over {} shapes, {:.0} % at worst ({}).\n",
                loss.mean * 100.0,
                loss.shapes,
                loss.worst * 100.0,
                loss.worst_shape
            );
        }
        text
    }
}
