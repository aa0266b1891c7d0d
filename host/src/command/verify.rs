//! `regemm verify`: random problems on every kernel.

use super::case::{Draw, Outcome};
use super::exit::Failure;
use super::left_out::unsupported;
use super::numbers;
use super::options::{self, DeviceOption, distinct_kernels};
use super::output::{Output, count, many, table};
use super::{eprintln_quietly, interrupt, progress};
use clap::Args;
use regemm::kernels::{self, Types, base_name};
use regemm::{Device, Dtype, Element, Error, KernelInfo, Layouts, Precision, Summation, Yields};
use serde_json::{Value, json};
use std::num::NonZeroUsize;

/// Run random problems on every kernel and compare with a double-precision reference
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Number of problems [default: 200 on a GPU, 100 on the simulator]
    #[arg(long, value_name = "N", value_parser = numbers::count)]
    cases: Option<NonZeroUsize>,
    /// Seed of all problems; a fresh one is drawn and printed if none is given
    #[arg(long, value_parser = numbers::seed)]
    seed: Option<u64>,
    /// Only the problem of this number, as printed by a failure
    #[arg(long, value_name = "I", requires = "seed", conflicts_with = "cases",
          value_parser = numbers::case)]
    case: Option<u64>,
    /// Only these element types, comma-separated: `bf16_f32` has results of f32
    #[arg(
        long,
        value_name = "TYPE",
        value_delimiter = ',',
        value_parser = options::types(),
        default_value = "f32,f64,f16,bf16,f16_f32,bf16_f32"
    )]
    dtype: Vec<Types>,
    /// Only these kernels, comma-separated. The name of a rung, such as tiled, stands for all of its kernels;
    /// pipelined_f32 is the one that is called so
    #[arg(long, visible_alias = "kernel", value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// The kernels of this precision: exact; split, tf32 or fast, which are of f32; or promoted, which are of f16_f32
    /// and bf16_f32. Auto has none of its own
    #[arg(long, value_name = "PRECISION", default_value = "exact", hide_possible_values = true,
          value_parser = options::precision_with_kernels())]
    precision: Precision,
    /// Most rows, columns and depth [default: 1000 on a GPU, 160 on the simulator]
    #[arg(long, value_name = "N", value_parser = numbers::extent)]
    max_size: Option<NonZeroUsize>,
    #[command(flatten)]
    device: DeviceOption,
}

const HELP: &str = "\
Shapes, layouts, leading dimensions, alpha, beta, bias, activation and elements are random, and a quarter of the \
problems are batches. A kernel named without layouts runs transposed factors where it can, else row-major ones. All \
elements of D are compared with a bound that follows from the number of roundings, or exactly where the elements are \
integers. D is NaN before each run, and canaries around it and in its gaps show stray writes. Kernels that the device cannot \
run are left out unless they are named themselves. A failure prints the command that repeats it. An interruption ends \
the run after the problem under way; what was found until then is reported.

Examples:
  regemm verify
  regemm verify --cases 1000 --seed 7 --device cuda:0
  regemm verify --dtype f16,bf16 --kernels microkernel,double_buffered --json
  regemm verify --precision split
  regemm verify --precision fast --kernels rounded --cases 1000
  regemm verify --precision promoted --max-size 600 --cases 20";

const GPU_CASES: u64 = 200;
const SIMULATOR_CASES: u64 = 100;
const GPU_MAX_SIZE: usize = 1000;
const SIMULATOR_MAX_SIZE: usize = 160;

/// Failures that are printed; all are counted.
const PRINTED_FAILURES: usize = 10;

/// How one kernel fared.
struct Record {
    kernel: &'static KernelInfo,
    cases: u64,
    elements: usize,
    failures: u64,
    max_ratio: f64,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let precision = arguments.precision;
    let named = options::distinct(arguments.dtype.iter().copied());
    let mut asked = distinct_kernels(select(precision, &named, &arguments.kernels)?);
    let device = Device::open(arguments.device.device)?;
    let names = &arguments.kernels;
    let is_run = |kernel: &'static KernelInfo| {
        options::is_named(kernel, names) || unsupported(kernel, &device).is_none()
    };
    // Where none is left of those that were asked for, the first says why.
    if names.is_empty() || asked.iter().any(|kernel| is_run(kernel)) {
        asked.retain(|kernel| is_run(kernel));
    }
    if asked.is_empty() {
        let name = &device.info().name;
        return Err(Failure::Usage(format!("{name} has no kernels of precision {precision}")));
    }
    let types: Vec<Types> = (named.into_iter())
        .filter(|&types| asked.iter().any(|kernel| Types::of(kernel) == types))
        .collect();
    let mut records = Vec::new();
    let (cases, max_size) = if device.is_sim() {
        (SIMULATOR_CASES, SIMULATOR_MAX_SIZE)
    } else {
        (GPU_CASES, GPU_MAX_SIZE)
    };
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let max_size = arguments.max_size.map_or(max_size, NonZeroUsize::get);
    let cases = match arguments.case {
        Some(case) => case..case + 1,
        None => 0..arguments.cases.map_or(cases, |cases| cases.get() as u64),
    };
    output.text(format_args!("{}, seed {seed}", device.info().name))?;

    let mut failures = Vec::new();
    let (mut problems, mut ended) = (0, Ok(()));
    let bar = progress::bar(cases.end - cases.start);
    interrupt::stop_by_request();
    for index in cases {
        if interrupt::requested() {
            let why = "interrupted; only what was verified is reported";
            ended = Err(Failure::Interrupted(why.into()));
            break;
        }
        let Some(case) = Draw::new(seed, index, &types, precision, max_size) else {
            ended = Err(Failure::Verification(format!(
                "problem {index} could not be drawn: nothing was verified by it"
            )));
            break;
        };
        bar.set_message(format!("case {index}"));
        let kernels: Vec<_> = (asked.iter().copied())
            .filter(|kernel| Types::of(kernel) == case.types)
            .map(|kernel| case.kernel(kernel))
            .collect();
        // Of the case's own types alone: how many there are to draw from depends on the kernels, which are fewer then.
        let repeat = |kernels: &str| {
            let precision = match precision {
                Precision::Exact => String::new(),
                other => format!(" --precision {other}"),
            };
            format!(
                "regemm verify --seed {seed} --case {index} --max-size {max_size} --dtype {} \
                 --kernels {kernels}{precision} --device {}",
                case.types.name(),
                device.spec()
            )
        };
        let outcomes = regemm::with_types!(case.types, run_case(&case, &device, &kernels));
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(failure) => {
                let names: Vec<_> = kernels.iter().map(|kernel| kernel.name).collect();
                bar.suspend(|| {
                    eprintln_quietly(format_args!("regemm: in case {index}: {case}"));
                    eprintln_quietly(format_args!("regemm: repeat: {}", repeat(&names.join(","))));
                });
                ended = Err(failure);
                break;
            }
        };
        problems += 1;
        for outcome in outcomes {
            note(&mut records, &outcome);
            let Some(fault) = outcome.fault else { continue };
            let repeat = repeat(outcome.kernel.name);
            if failures.len() < PRINTED_FAILURES {
                let name = outcome.kernel.name;
                bar.suspend(|| {
                    output.text(format_args!(
                        "FAILED {name}, case {index}: {fault}\n  {case}\n  repeat: {repeat}"
                    ))
                })?;
            }
            failures.push(json!({
                "kernel": outcome.kernel.name,
                "case": index,
                "problem": case.to_string(),
                "fault": fault,
                "comparison": outcome.comparison,
                "repeat": repeat,
            }));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if problems == 0 {
        return ended;
    }
    records.sort_by_key(|record| {
        kernels::of_all_precisions().position(|kernel| kernel.name == record.kernel.name)
    });
    report(&device, (seed, precision, problems), &records, &failures, &ended, output)?;
    ended.and(match failures.len() {
        0 => Ok(()),
        wrong => Err(Failure::Verification(format!("{wrong} failures, seed {seed}"))),
    })
}

fn run_case<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    case: &Draw,
    device: &Device,
    kernels: &[&'static KernelInfo],
) -> Result<Vec<Outcome>, Failure> {
    case.run::<T, D>(device, kernels)
}

/// The kernels of a precision and of these element types with these names. A name that fits none is an error.
fn select(
    precision: Precision,
    types: &[Types],
    names: &[String],
) -> Result<Vec<&'static KernelInfo>, Failure> {
    if precision == Precision::Exact {
        return Ok(select_exact(types, names)?);
    }
    let types: Vec<_> = types.iter().copied().filter(|&types| precision.is_for(types)).collect();
    if types.is_empty() {
        let all = Types::ALL.into_iter().filter(|&types| precision.is_for(types));
        let all: Vec<_> = all.map(Types::name).collect();
        return Err(Failure::Usage(format!(
            "precision {precision} is for {}: leave out --dtype",
            all.join(" and ")
        )));
    }
    if precision == Precision::Promoted {
        let mut selected = select_exact(&types, names)?;
        let promotes = |kernel: &KernelInfo| kernel.summation == Summation::Promoted;
        let is_named = |kernel: &KernelInfo| options::is_named(kernel, names);
        return match selected.iter().find(|kernel| is_named(kernel) && !promotes(kernel)) {
            Some(KernelInfo { name, .. }) => Err(Failure::Usage(format!(
                "kernel {name} does not take its sums over to f32: leave out --precision"
            ))),
            None => {
                selected.retain(|kernel| promotes(kernel));
                Ok(selected)
            }
        };
    }
    let all = kernels::kernels_of(precision).iter();
    if names.is_empty() {
        return Ok(all.filter(|kernel| kernel.layouts == Layouts::NN).collect());
    }
    let named = |name: &String| {
        let is_named = |kernel: &&KernelInfo| kernel.name == name || base_name(kernel) == name;
        all.clone().find(is_named).ok_or_else(|| match kernels::find_for(name, Dtype::F32) {
            Ok(KernelInfo { name, .. }) => Failure::Usage(format!(
                "kernel {name} computes in precision exact, not in {precision}: leave out --precision"
            )),
            Err(_) if options::is_rung(name) => Failure::Usage(format!(
                "kernels of rung {name} compute in precision exact, not in {precision}: leave out --precision"
            )),
            Err(error) => error.into(),
        })
    };
    names.iter().map(named).collect()
}

fn select_exact(types: &[Types], names: &[String]) -> Result<Vec<&'static KernelInfo>, Error> {
    let mut selected = Vec::new();
    let mut refusal = None;
    let names: Vec<&[String]> =
        if names.is_empty() { vec![&[]] } else { names.chunks(1).collect() };
    for name in names {
        let before = selected.len();
        for &types in types {
            match options::kernels(types, name) {
                Ok(kernels) => selected.extend(kernels),
                Err(error) => refusal = Some(error),
            }
        }
        if let (true, Some(error)) = (selected.len() == before, refusal.take()) {
            return Err(error);
        }
    }
    Ok(selected)
}

fn note(records: &mut Vec<Record>, outcome: &Outcome) {
    let kernel = outcome.kernel;
    let known = records.iter().position(|record| record.kernel.name == kernel.name);
    let index = known.unwrap_or_else(|| {
        records.push(Record { kernel, cases: 0, elements: 0, failures: 0, max_ratio: 0.0 });
        records.len() - 1
    });
    let record = &mut records[index];
    record.cases += 1;
    record.failures += u64::from(outcome.fault.is_some());
    if let Some(comparison) = &outcome.comparison {
        record.elements += comparison.elements;
        record.max_ratio = record.max_ratio.max(comparison.max_ratio);
    }
}

fn report(
    device: &Device,
    (seed, precision, problems): (u64, Precision, u64),
    records: &[Record],
    failures: &[Value],
    ended: &Result<(), Failure>,
    output: &mut Output,
) -> Result<(), Failure> {
    let kernels: Vec<Value> = records
        .iter()
        .map(|record| {
            json!({
                "kernel": record.kernel.name,
                "dtype": record.kernel.dtype.name(),
                "target": record.kernel.target.name(),
                "cases": record.cases,
                "elements": record.elements,
                "failures": record.failures,
                // JSON has no infinity.
                "max_ratio": record.max_ratio.is_finite().then_some(record.max_ratio),
            })
        })
        .collect();
    output.document(&json!({
        "command": "verify",
        "device": device.info(),
        "seed": seed,
        "precision": precision.name(),
        "problems": problems,
        "kernels": kernels,
        "failures": failures,
        // What was found before is worth as much.
        "stopped": ended.as_ref().err().map(Failure::to_string),
        "pass": failures.is_empty() && ended.is_ok(),
    }))?;
    let rows = records.iter().map(|record| {
        vec![
            record.kernel.name.to_owned(),
            count(record.cases),
            count(record.elements as u64),
            format!("{:.3}", record.max_ratio),
            count(record.failures),
        ]
    });
    output
        .text(table(&["kernel", "cases", "elements", "worst error / bound", "failures"], rows))?;
    if failures.is_empty() {
        let elements: usize = records.iter().map(|record| record.elements).sum();
        output.text(format_args!(
            "{}, {}, {}: all right",
            many(problems, "problem"),
            many(records.len() as u64, "kernel"),
            many(elements as u64, "element")
        ))?;
    }
    Ok(())
}

/// A seed that no run had before, short enough to type.
fn fresh_seed() -> u64 {
    rand::random_range(0..1_000_000_000)
}
