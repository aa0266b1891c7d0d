//! The library as its user gets it beside the vendor's: `cargo bench --bench gemm`.
//!
//! Measures the automatic choice, cuBLASLt at its best and cuBLAS, alternating, on random operands that rotate past the
//! L2 cache, and verifies every result before a speed is printed. `docs/benchmarks.md` says how. Needs a GPU; without
//! one it says so. Libraries that cannot be loaded are left out.
//!
//! `cargo bench --bench gemm -- --record docs/measurements/NAME` writes `NAME.json`, `NAME.md`, `NAME.svg` and
//! `NAME.png`. All but the first can be made again: `-- --from NAME.json --record NAME`.
//!
//! | file | what it holds |
//! |---|---|
//! | `cases.rs` | what is measured |
//! | `contest.rs` | verifying and measuring all contenders on one case |
//! | `burst.rs` | measuring in short bursts |
//! | `turn.rs` | measuring in long turns |
//! | `meter.rs` | clock and power of the device |
//! | `product.rs` | a case as this library computes it |
//! | `check.rs` | whether a result is right |
//! | `host.rs` | what a call costs the host |
//! | `first.rs` | the way of a fresh process to its first result |
//! | `../vendor/` | cuBLASLt and cuBLAS |
//!
//! What a record holds, and how it is printed and drawn, is in the crate `regemm-report`.

#[allow(dead_code, reason = "another benchmark uses the rest")]
#[path = "../vendor/blas.rs"]
mod blas;
mod burst;
mod cases;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod contest;
mod first;
mod host;
#[path = "../vendor/library.rs"]
mod library;
#[path = "../vendor/lt.rs"]
mod lt;
mod meter;
mod product;
mod turn;

use clap::Parser;
use common::{Recording, parse_dtype, read, write};
use contest::{Contest, Libraries};
use library::{Math, WORKSPACE_BYTES};
use meter::Meter;
use regemm::measure::Rotation;
use regemm::{Device, Dtype, Element, Precision, Yields, bf16, f16};
use regemm_report::provenance;
use regemm_report::versus::{
    CUBLAS, CUBLAS_LT, Case, Group, Measured, REGEMM, Record, cases_side_by_side, side_by_side,
};
use regemm_report::{pictures, table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures the library beside cuBLASLt and cuBLAS on a GPU
#[derive(Parser)]
struct Arguments {
    /// Groups of cases: squares, between, odd, rectangles, layers, tokens, layouts, batched, addend, epilogue
    #[arg(long, value_delimiter = ',', default_values_t = Group::ALL, value_parser = parse_group)]
    cases: Vec<Group>,

    /// Sizes of the squares, the layouts, those with an addend and the epilogue, instead of the usual ones
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,

    /// Rows, columns and depth of the rectangles, the layers and those of tokens, such as 16x4096x14336, instead of the
    /// usual ones
    #[arg(long, value_delimiter = ',', value_parser = parse_shape)]
    shapes: Vec<[usize; 3]>,

    /// Element type: f32, f64, f16 or bf16
    #[arg(long, default_value = "f32", value_parser = parse_dtype)]
    dtype: Dtype,

    /// Element type of the results, f32, where factors are of f16 or bf16; that of the factors unless given
    #[arg(long, value_parser = parse_dtype)]
    results: Option<Dtype>,

    /// What f32 is computed in: exact, split, tf32, fast or auto; with --results f32 exact or promoted
    #[arg(long, default_value = "exact", value_parser = parse_precision)]
    precision: Precision,

    /// Kernels to measure beside the automatic choice, where that has an epilogue with one and without;
    /// with --precision split also those for halves
    #[arg(long = "kernel", value_delimiter = ',')]
    kernels: Vec<String>,

    /// Samples of each contender; by the time that they take unless given
    #[arg(long)]
    rounds: Option<usize>,

    /// Leave out what a call costs the host and the way to a first result
    #[arg(long)]
    skip_host: bool,

    /// Leave out what large squares do in short bursts
    #[arg(long)]
    skip_bursts: bool,

    /// Leave out what large squares, and those with an epilogue, do in long turns
    #[arg(long)]
    skip_turns: bool,

    /// Given to the processes that this one starts: see first.rs
    #[arg(long, hide = true)]
    first_result: Option<u64>,

    /// Print what these records come to, side by side, instead of measuring
    #[arg(long, value_delimiter = ',')]
    summary: Vec<PathBuf>,

    #[command(flatten)]
    recording: Recording,
}

type Failure = Box<dyn std::error::Error>;
type Outcome<T> = Result<T, Failure>;

fn parse_group(name: &str) -> Result<Group, String> {
    let known = Group::ALL.into_iter().find(|group| group.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Group::ALL.map(Group::name).join(", ")))
}

fn parse_shape(text: &str) -> Result<[usize; 3], String> {
    let sides: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    let sides = sides.ok().and_then(|sides| <[usize; 3]>::try_from(sides).ok());
    sides.filter(|sides| !sides.contains(&0)).ok_or_else(|| "expected MxNxK".to_owned())
}

fn parse_precision(name: &str) -> Result<Precision, String> {
    let known = Precision::ALL.into_iter().find(|precision| precision.name() == name);
    known.ok_or_else(|| {
        format!("expected one of {}", Precision::ALL.map(Precision::name).join(", "))
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let results = arguments.results.unwrap_or(arguments.dtype);
    let outcome = match (arguments.dtype, results) {
        (Dtype::F32, Dtype::F32) => run::<f32, f32>(&arguments),
        (Dtype::F64, Dtype::F64) => run::<f64, f64>(&arguments),
        (Dtype::F16, Dtype::F16) => run::<f16, f16>(&arguments),
        (Dtype::F16, Dtype::F32) => run::<f16, f32>(&arguments),
        (Dtype::Bf16, Dtype::Bf16) => run::<bf16, bf16>(&arguments),
        (Dtype::Bf16, Dtype::F32) => run::<bf16, f32>(&arguments),
        (factors, results) => {
            Err(format!("there are no products of {factors} with results of {results}").into())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gemm: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(arguments: &Arguments) -> Outcome<()> {
    if let Some(started) = arguments.first_result {
        return first::child::<T>(started);
    }
    if !arguments.summary.is_empty() {
        let records =
            arguments.summary.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        let tables = [side_by_side(&records)].into_iter().chain(cases_side_by_side(&records));
        let tables: Vec<String> = tables.map(|table| table.markdown()).collect();
        print!("{}", tables.join("\n"));
        return Ok(());
    }
    arguments.recording.check_place()?;
    let (record, failure): (Record, _) = match &arguments.recording.from {
        Some(path) => (read(path)?, None),
        None => match Device::cuda(0) {
            Ok(device) => measure::<T, D>(arguments, &device)?,
            Err(error) => {
                println!("There is nothing to measure: {error}");
                return Ok(());
            }
        },
    };
    let text = record.markdown();
    println!("{text}");
    let kept = match &arguments.recording.record {
        Some(path) => keep(&record, &text, path),
        None => Ok(()),
    };
    let unsupported = record.cases.iter().flat_map(|measured| &measured.unsupported);
    let wrong = unsupported.filter(|missing| missing.wrong).count();
    let wrong = (wrong > 0).then(|| format!("{wrong} results were wrong: see above").into());
    let failures: Vec<Failure> = [failure, wrong, kept.err()].into_iter().flatten().collect();
    let words: Vec<String> = failures.iter().map(ToString::to_string).collect();
    if words.is_empty() { Ok(()) } else { Err(words.join("; ").into()) }
}

/// Writes a record, its tables and its picture.
fn keep(record: &Record, text: &str, path: &Path) -> Outcome<()> {
    write(path, "json", serde_json::to_string_pretty(record)?)?;
    write(path, "md", text)?;
    let picture = pictures::versus(record);
    write(path, "svg", picture.svg()?)?;
    write(path, "png", picture.png()?)?;
    Ok(())
}

/// Measures what was asked for. A failure of the device ends it, and the record holds what came before.
fn measure<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    arguments: &Arguments,
    device: &Device,
) -> Outcome<(Record, Option<Failure>)> {
    let stream = device.stream()?;
    // The processes start before this one has loaded anything large.
    let first_results = if arguments.skip_host {
        Vec::new()
    } else {
        first::measure(arguments.dtype.name()).unwrap_or_else(|error| {
            eprintln!("the first result was not measured: {error}");
            Vec::new()
        })
    };
    let libraries = Libraries { lt: lt::Vendor::load(&stream), blas: blas::Blas::load(&stream) };
    let meter = Meter::new(device.spec());
    let math = contest::math_beside::<T>(arguments.precision);
    let mut record = begin(arguments, device, (&libraries, math), &meter);
    record.first_results = first_results;
    if !arguments.skip_host {
        record.host = Some(host::cost::<T>(&stream, &libraries, arguments.recording.seed)?);
    }

    let cases = cases::cases(&arguments.cases, &arguments.sizes, &arguments.shapes);
    let layouts: Vec<_> = cases.iter().map(product::layout).collect();
    let mut operands = Rotation::<T, D>::widening(device, arguments.recording.seed);
    operands.reserve(&layouts)?;
    let mut contest = Contest {
        device,
        stream: &stream,
        libraries: &libraries,
        kernels: &arguments.kernels,
        precision: arguments.precision,
        rounds: arguments.rounds,
        bursts: !arguments.skip_bursts,
        turns: !arguments.skip_turns,
        meter: meter.as_ref().ok(),
        seed: arguments.recording.seed,
        operands,
    };
    let mut failure = None;
    for case in &cases {
        match contest.run(case) {
            Ok(measured) => {
                eprintln!("{}", in_short(&measured));
                record.cases.push(measured);
            }
            Err(error) => {
                failure = Some(format!("{} {}: {error}", case.group, case.label()).into());
                break;
            }
        }
    }
    record.clocks_after = provenance::clocks(&record.provenance.device);
    Ok((record, failure))
}

/// A case in a line, for who watches.
fn in_short(measured: &Measured) -> String {
    let Case { group, .. } = measured.case;
    let mut line = format!("{group:<10} {:<22}", measured.case.label());
    for entry in &measured.entries {
        line += &format!(" {} {:.2}", entry.name, entry.tflops);
        if let Some(kernel) = entry.kernel.as_ref().filter(|_| entry.name == REGEMM) {
            line += &format!(" ({kernel})");
        }
    }
    if let Some(ratio) = measured.ratio() {
        line += &format!(", ratio {ratio:.3}");
    }
    let others = [("in bursts", measured.burst_ratio()), ("in turns", measured.turn_ratio())];
    let others = others.map(|(regime, ratio)| Some(format!("{regime} {:.3}", ratio?)));
    let others: Vec<String> = others.into_iter().flatten().collect();
    if !others.is_empty() {
        line += &format!(" ({})", others.join(", "));
    }
    if let Some(conditions) = measured.conditions {
        line += &format!(", {:.0} MHz", conditions.sm_mhz);
        if let Some(watts) = conditions.watts {
            line += &format!(", {watts:.0} W");
        }
    }
    let costs = measured.epilogue_costs().into_iter().zip(measured.epilogue_costs_in_turns());
    for (of_whom, (cost, in_turns)) in ["", " of cuBLASLt"].into_iter().zip(costs) {
        if let Some(cost) = cost {
            line += &format!(", epilogue{of_whom} {}", table::percent(cost));
        }
        if let Some(cost) = in_turns {
            line += &format!(" (in turns {})", table::percent(cost));
        }
    }
    for missing in &measured.unsupported {
        line += &format!(", {}: {}", missing.name, missing.why);
    }
    line
}

/// What is multiplied, and how.
fn described(arguments: &Arguments) -> String {
    let Arguments { dtype, precision, .. } = arguments;
    let results = arguments.results.filter(|results| results != dtype);
    let results = results.map(|results| format!("results {results}"));
    let precision = Some(precision).filter(|precision| **precision != Precision::Exact);
    let precision = precision.map(|precision| format!("precision {precision}"));
    let details: Vec<String> = results.into_iter().chain(precision).collect();
    match &details[..] {
        [] => dtype.to_string(),
        details => format!("{dtype} ({})", details.join(", ")),
    }
}

/// An empty record of this machine and moment.
fn begin(
    arguments: &Arguments,
    device: &Device,
    (libraries, math): (&Libraries, Math),
    meter: &Result<Meter, String>,
) -> Record {
    let info = device.info();
    let (mut loaded, mut without) = (Vec::new(), Vec::new());
    let workspace = WORKSPACE_BYTES >> 20;
    let math = match math {
        Math::AsTheyAre => "",
        Math::Tf32 => ", factors rounded to TF32 (CUBLAS_COMPUTE_32F_FAST_TF32)",
    };
    match &libraries.lt {
        Ok(lt) => {
            let (version, most) = (lt.version(), lt::ALGORITHMS);
            loaded.push(format!(
                "{CUBLAS_LT} {version}, the fastest of up to {most} algorithms by its heuristic, {workspace} MiB of workspace{math}"
            ));
        }
        Err(why) => without.push(format!("{CUBLAS_LT}: {why}")),
    }
    match &libraries.blas {
        Ok(blas) => {
            let version = blas.version();
            loaded.push(format!(
                "{CUBLAS} {version}, default math mode, {workspace} MiB of workspace{math}"
            ));
        }
        Err(why) => without.push(format!("{CUBLAS}: {why}")),
    }
    match meter {
        Ok(meter) => {
            loaded.push(format!(
                "NVML {}: clock and power while a case is measured",
                meter.version()
            ));
        }
        Err(why) => without.push(format!("clocks and power: {why}")),
    }
    Record {
        provenance: arguments.recording.provenance(device),
        clocks_after: None,
        dtype: described(arguments),
        peak: info.peak_flops(arguments.dtype).map(|flops| flops / 1e12),
        bandwidth: info.memory_bandwidth.map(|bytes| bytes as f64 / 1e12),
        libraries: loaded,
        without,
        cases: Vec::new(),
        host: None,
        first_results: Vec::new(),
    }
}
