//! The ladder beside the vendor's library: `cargo bench --bench ladder`.
//!
//! Measures every kernel of one element type and cuBLASLt at its best, alternating, on square matrices of random data,
//! and verifies every result before a speed is printed. Needs a GPU; without one it says so. Without cuBLASLt it
//! measures the kernels alone.
//!
//! `cargo bench --bench ladder -- --record docs/measurements/NAME` writes `NAME.json`, `NAME.md` and `NAME.svg`. The
//! picture and the table can be made again from the JSON: `-- --from NAME.json --record NAME`.
//!
//! | file | what it holds |
//! |---|---|
//! | `contest.rs` | measuring kernels and vendor on one size |
//! | `../common/` | records, and how samples are chosen |
//! | `../vendor/` | cuBLASLt |
//!
//! What a record holds, and how it is printed and drawn, is in the crate `regemm-report`.

#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../common/mod.rs"]
mod common;
mod contest;
#[allow(dead_code, reason = "it measures nothing in TF32")]
#[path = "../vendor/library.rs"]
mod library;
#[path = "../vendor/lt.rs"]
mod lt;
#[path = "../common/sampling.rs"]
mod sampling;

use clap::{Args, Parser};
use common::kept::read;
use common::{Failure, Outcome, Recording, first_gpu, parse_dtype, tell};
use regemm::{Device, Dtype, bf16, f16};
use regemm_report::ladder::Record;
use regemm_report::settings::Settings;
use std::process::ExitCode;

/// Measures the kernels beside cuBLASLt on a GPU
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    what: Measuring,

    #[command(flatten)]
    recording: Recording,
}

/// What is measured: nothing that a record which is there already could be asked for.
#[derive(Args)]
#[group(multiple = true, conflicts_with = "from")]
struct Measuring {
    /// Rows, columns and depth of the products
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024, 2048, 4096])]
    sizes: Vec<usize>,

    /// Element type: f32, f64, f16 or bf16
    #[arg(long, default_value = "f32", value_parser = parse_dtype)]
    dtype: Dtype,

    /// Samples of each contender
    #[arg(long, default_value_t = 30)]
    rounds: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format!("ladder: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let recording = &arguments.recording;
    recording.check_place()?;
    if let Some(path) = &recording.from {
        return recording.finish::<Record>(&read(path)?, Vec::new());
    }
    let Some(device) = first_gpu()? else { return Ok(()) };
    let (record, failures) = measure(arguments, &device)?;
    recording.finish(&record, failures)
}

/// Measures what was asked for. A failure of the device ends it, and the record holds what came before; what is wrong
/// is left out, and is a failure as well.
fn measure(arguments: &Arguments, device: &Device) -> Outcome<(Record, Vec<Failure>)> {
    let Arguments { what, recording } = arguments;
    let mut record = begin(arguments, device);
    let mut kernels = Vec::new();
    for kernel in regemm::kernels::kernels_for(what.dtype, regemm::Layouts::NN) {
        match device.refusal(kernel)? {
            None => kernels.push(kernel),
            Some(why) => tell(format!("left out: {why}")),
        }
    }
    let mut wrong = Vec::new();
    let measure = |record: &mut Record, &size: &usize| {
        tell(format!("measuring {size} x {size} x {size}"));
        let contest = contest::Contest {
            device,
            kernels: &kernels,
            size,
            rounds: what.rounds,
            seed: recording.seed,
        };
        let measured = match what.dtype {
            Dtype::F32 => contest.run::<f32>(),
            Dtype::F64 => contest.run::<f64>(),
            Dtype::F16 => contest.run::<f16>(),
            Dtype::Bf16 => contest.run::<bf16>(),
        };
        let (round, found) = measured.map_err(|error| format!("size {size}: {error}"))?;
        record.rounds.push(round);
        wrong.extend(found);
        Ok(())
    };
    let failure = recording.measure_each(&mut record, &what.sizes, measure);
    let wrong = wrong.into_iter().map(Failure::from);
    Ok((record, wrong.chain(failure).collect()))
}

/// An empty record of this machine and moment.
fn begin(arguments: &Arguments, device: &Device) -> Record {
    let info = device.info();
    Record {
        provenance: arguments.recording.provenance(device),
        dtype: arguments.what.dtype.to_string(),
        peak: info.peak_flops(arguments.what.dtype).map(|flops| flops / 1e12),
        settings: Settings {
            arguments: Some(common::arguments()),
            seed: Some(arguments.recording.seed),
            tuning: None,
        },
        rounds: Vec::new(),
    }
}
