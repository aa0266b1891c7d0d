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
//! | `../vendor/` | cuBLASLt |
//!
//! What a record holds, and how it is printed and drawn, is in the crate `regemm-report`.

#[path = "../common/mod.rs"]
mod common;
mod contest;
#[allow(dead_code, reason = "it measures nothing in TF32")]
#[path = "../vendor/library.rs"]
mod library;
#[path = "../vendor/lt.rs"]
mod lt;

use clap::Parser;
use common::{Recording, parse_dtype, read, write};
use regemm::{Device, Dtype, bf16, f16};
use regemm_report::ladder::Record;
use regemm_report::pictures;
use std::process::ExitCode;

/// Measures the kernels beside cuBLASLt on a GPU
#[derive(Parser)]
struct Arguments {
    /// Rows, columns and depth of the products
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024, 2048, 4096])]
    sizes: Vec<usize>,

    /// Element type: f32, f64, f16 or bf16
    #[arg(long, default_value = "f32", value_parser = parse_dtype)]
    dtype: Dtype,

    /// Samples of each contender
    #[arg(long, default_value_t = 30)]
    rounds: usize,

    #[command(flatten)]
    recording: Recording,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ladder: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    arguments.recording.check_place()?;
    let record: Record = match &arguments.recording.from {
        Some(path) => read(path)?,
        None => match Device::cuda(0) {
            Ok(device) => measure(arguments, &device)?,
            Err(error) => {
                println!("There is nothing to measure: {error}");
                return Ok(());
            }
        },
    };
    let table = record.markdown();
    println!("{table}");
    if let Some(path) = &arguments.recording.record {
        write(path, "json", serde_json::to_string_pretty(&record)?)?;
        write(path, "md", &table)?;
        write(path, "svg", pictures::ladder(&record).svg()?)?;
    }
    Ok(())
}

fn measure(arguments: &Arguments, device: &Device) -> Result<Record, Box<dyn std::error::Error>> {
    let mut record = begin(arguments, device);
    let mut kernels = Vec::new();
    for kernel in regemm::kernels::kernels_for(arguments.dtype, regemm::Layouts::NN) {
        match device.refusal(kernel)? {
            None => kernels.push(kernel),
            Some(why) => eprintln!("left out: {why}"),
        }
    }
    for &size in &arguments.sizes {
        eprintln!("measuring {size} x {size} x {size}");
        let contest = contest::Contest {
            device,
            kernels: &kernels,
            size,
            rounds: arguments.rounds,
            seed: arguments.recording.seed,
        };
        record.rounds.push(match arguments.dtype {
            Dtype::F32 => contest.run::<f32>()?,
            Dtype::F64 => contest.run::<f64>()?,
            Dtype::F16 => contest.run::<f16>()?,
            Dtype::Bf16 => contest.run::<bf16>()?,
        });
    }
    Ok(record)
}

/// An empty record of this machine and moment.
fn begin(arguments: &Arguments, device: &Device) -> Record {
    let info = device.info();
    Record {
        provenance: arguments.recording.provenance(device),
        dtype: arguments.dtype.to_string(),
        peak: info.peak_flops(arguments.dtype).map(|flops| flops / 1e12),
        rounds: Vec::new(),
    }
}
