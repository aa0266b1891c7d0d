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
//! | `options.rs` | the command line |
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
//! | `../common/` | records, and how samples are chosen |
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
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../vendor/library.rs"]
mod library;
#[path = "../vendor/lt.rs"]
mod lt;
mod meter;
mod options;
mod product;
#[path = "../common/sampling.rs"]
mod sampling;
mod turn;

use clap::Parser;
use common::kept::read;
use common::{Failure, Outcome, first_gpu, say, tell};
use contest::{Contest, Libraries};
use library::{Math, WORKSPACE_BYTES};
use meter::Meter;
use options::Arguments;
use regemm::kernels::Types;
use regemm::measure::Rotation;
use regemm::{Device, Dtype, Element, Yields, bf16, f16};
use regemm_report::settings::Settings;
use regemm_report::versus::{
    CUBLAS, CUBLAS_LT, Case, Measured, REGEMM, Record, WITH_EPILOGUE, cases_side_by_side,
    side_by_side,
};
use regemm_report::{provenance, table};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Types { factors, results } = arguments.what.types();
    let outcome = match (factors, results) {
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
            tell(format!("gemm: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(arguments: &Arguments) -> Outcome<()> {
    if let Some(started) = arguments.first_result {
        return first::child::<T, D>(started, arguments.what.precision);
    }
    if !arguments.summary.is_empty() {
        let records =
            arguments.summary.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        let tables = [side_by_side(&records)].into_iter().chain(cases_side_by_side(&records));
        let tables: Vec<String> = tables.map(|table| table.markdown()).collect();
        return say(&tables.join("\n"));
    }
    let recording = &arguments.recording;
    recording.check_place()?;
    let (record, mut failures): (Record, _) = match &recording.from {
        Some(path) => (read(path)?, Vec::new()),
        None => {
            arguments.what.check()?;
            let Some(device) = first_gpu()? else { return Ok(()) };
            measure::<T, D>(arguments, &device)?
        }
    };
    let unsupported = record.cases.iter().flat_map(|measured| &measured.unsupported);
    let wrong = unsupported.filter(|missing| missing.wrong).count();
    if wrong > 0 {
        failures.push(format!("{wrong} results were wrong: see above").into());
    }
    recording.finish(&record, failures)
}

/// Measures what was asked for. A failure of the device ends it, and the record holds what came before. That a
/// contender of this library computes none of the cases is a failure as well.
fn measure<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    arguments: &Arguments,
    device: &Device,
) -> Outcome<(Record, Vec<Failure>)> {
    let Arguments { what, recording, .. } = arguments;
    let stream = device.stream()?;
    // The processes start before this one has loaded anything large.
    let first_results = if what.skip_host {
        Vec::new()
    } else {
        first::measure(what).unwrap_or_else(|error| {
            tell(format!("the first result was not measured: {error}"));
            Vec::new()
        })
    };
    let libraries = Libraries { lt: lt::Vendor::load(&stream), blas: blas::Blas::load(&stream) };
    let meter = Meter::new(device.spec());
    let math = contest::math_beside::<T>(what.precision);
    let mut record = begin(arguments, device, (&libraries, math), &meter);
    record.first_results = first_results;
    if !what.skip_host {
        let product = (what.precision, math);
        record.host = Some(host::cost::<T, D>(&stream, &libraries, product, recording.seed)?);
    }

    let cases = cases::cases(&what.cases, &what.sizes, &what.shapes);
    let layouts: Vec<_> = cases.iter().map(product::layout).collect();
    let mut operands = Rotation::<T, D>::widening(device, recording.seed);
    operands.reserve(&layouts)?;
    let mut contest = Contest {
        device,
        stream: &stream,
        libraries: &libraries,
        kernels: &what.kernels,
        precision: what.precision,
        rounds: what.rounds,
        bursts: !what.skip_bursts,
        turns: !what.skip_turns,
        meter: meter.as_ref().ok(),
        seed: recording.seed,
        operands,
    };
    let failure = recording.measure_each(&mut record, &cases, |record, case| {
        let measured = contest.run(case);
        let measured =
            measured.map_err(|error| format!("{} {}: {error}", case.group, case.label()))?;
        tell(in_short(&measured));
        record.cases.push(measured);
        Ok(())
    });
    record.clocks_after = provenance::clocks(&record.provenance.device);
    let mut failures = Vec::from_iter(failure);
    for name in [REGEMM].into_iter().chain(what.kernels.iter().map(String::as_str)) {
        let cases = &record.cases;
        if !cases.is_empty() && cases.iter().all(|measured| measured.entry(name).is_none()) {
            failures.push(format!("{name} has no speed on any case: see above").into());
        }
    }
    Ok((record, failures))
}

/// A case in a line, for who watches.
fn in_short(measured: &Measured) -> String {
    let Case { group, .. } = measured.case;
    let mut line = format!("{group:<10} {:<22}", measured.case.label());
    for entry in &measured.entries {
        line += &format!(" {} {:.2}", entry.name, entry.tflops);
        let is_chosen = [REGEMM, WITH_EPILOGUE].contains(&entry.name.as_str());
        if let Some(kernel) = entry.kernel.as_ref().filter(|_| is_chosen) {
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
    if let Some(mhz) = measured.sm_mhz() {
        line += &format!(", {mhz:.0} MHz");
    }
    if let Some(watts) = measured.conditions.and_then(|conditions| conditions.watts) {
        line += &format!(", {watts:.0} W");
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
    loaded.push(
        "clocks: cycles that the multiprocessors counted (`%clock64`) for the time that passed"
            .to_owned(),
    );
    match meter {
        Ok(meter) => {
            let version = meter.version();
            loaded.push(format!("NVML {version}: power while a case is measured"));
        }
        Err(why) => without.push(format!("power: {why}")),
    }
    Record {
        provenance: arguments.recording.provenance(device),
        clocks_after: None,
        dtype: arguments.what.described(),
        peak: info.peak_flops(arguments.what.dtype).map(|flops| flops / 1e12),
        bandwidth: info.memory_bandwidth.map(|bytes| bytes as f64 / 1e12),
        settings: Settings {
            arguments: Some(common::arguments()),
            seed: Some(arguments.recording.seed),
            tuning: Some(device.tuning().to_string()),
        },
        libraries: loaded,
        without,
        cases: Vec::new(),
        host: None,
        first_results: Vec::new(),
    }
}
