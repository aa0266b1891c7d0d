//! How far off products are, beside the vendor's: `cargo bench --bench accuracy`.
//!
//! Makes the study of `regemm accuracy` on a GPU, and has cuBLAS compute the same products, in f32 and with factors
//! rounded to TF32. No times are taken, so other work on the GPU does no harm. Needs a GPU; without one it says so.
//! Without cuBLAS it makes the study of this library alone, and says why.
//!
//! `cargo bench --bench accuracy -- --record docs/measurements/NAME` writes `NAME.json`, `NAME.md`, `NAME.svg` and
//! `NAME.png`. All but the first can be made again: `-- --from NAME.json --record NAME`.
//!
//! | file | what it holds |
//! |---|---|
//! | `../../host/src/command/accuracy/study.rs` | the study |
//! | `../vendor/` | cuBLAS |
//!
//! What a record holds, and how it is printed and drawn, is in the crate `regemm-report`.

#[path = "../vendor/blas.rs"]
mod blas;
#[allow(dead_code, reason = "other benchmarks use the rest")]
#[path = "../common/mod.rs"]
mod common;
#[path = "../vendor/library.rs"]
mod library;
#[path = "../../host/src/command/accuracy/study.rs"]
mod study;

use blas::Blas;
use clap::Parser;
use common::{Recording, read, write};
use library::{Addresses, Math, Product, Types};
use regemm::accuracy::{Data, precisions};
use regemm::{Device, Dtype, Matrix, Stream};
use regemm_report::accuracy::{CUBLAS, CUBLAS_TF32, Record};
use regemm_report::pictures;
use std::process::ExitCode;
use study::{Computed, Plan};

/// Measures errors of products beside cuBLAS's on a GPU
#[derive(Parser)]
struct Arguments {
    /// Depths K of the products
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
    )]
    sizes: Vec<usize>,

    /// Rows of D
    #[arg(long, default_value_t = 256)]
    rows: usize,

    /// Columns of D
    #[arg(long, default_value_t = 256)]
    cols: usize,

    /// What A and B hold: normal, uniform or wide; all of them unless given
    #[arg(long, value_delimiter = ',', value_parser = parse_data)]
    data: Vec<Data>,

    #[command(flatten)]
    recording: Recording,
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn parse_data(name: &str) -> Result<Data, String> {
    let known = Data::ALL.into_iter().find(|data| data.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Data::ALL.map(Data::name).join(", ")))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("accuracy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
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
    let text = record.markdown();
    println!("{text}");
    if let Some(path) = &arguments.recording.record {
        write(path, "json", serde_json::to_string_pretty(&record)?)?;
        write(path, "md", &text)?;
        let picture = pictures::accuracy(&record);
        write(path, "svg", picture.svg()?)?;
        write(path, "png", picture.png()?)?;
    }
    if record.wrong.is_empty() { Ok(()) } else { Err(record.wrong.join("; ").into()) }
}

fn measure(arguments: &Arguments, device: &Device) -> Outcome<Record> {
    let Arguments { sizes, rows, cols, data, recording } = arguments;
    if sizes.iter().chain([rows, cols]).any(|&extent| extent == 0) {
        return Err("rows, columns and depths are at least 1".into());
    }
    let plan = Plan {
        rows: *rows,
        cols: *cols,
        depths: sizes.clone(),
        data: if data.is_empty() { Data::ALL.to_vec() } else { data.clone() },
        precisions: precisions().collect(),
        seed: recording.seed,
    };
    let (trials, mut step) = (plan.trials(), 0);
    let mut watch = |next: String| {
        step += 1;
        eprintln!("{step} of {trials}: {next}");
    };
    let provenance = recording.provenance(device);
    let stream = device.stream()?;
    match Blas::load(&stream) {
        Ok(blas) => {
            let vendor = Vendor { blas, stream };
            let f32 = |a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>| vendor.f32(a, b, d);
            let tf32 = |a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>| vendor.tf32(a, b, d);
            let others: [study::Other<'_>; 2] = [(CUBLAS, &f32), (CUBLAS_TF32, &tf32)];
            let mut record = study::run(&plan, device, provenance, &others, &mut watch)?;
            let version = vendor.blas.version();
            record.libraries.push(format!("cuBLAS {version}: cublasSgemm in the default math mode, and cublasGemmEx with CUBLAS_COMPUTE_32F_FAST_TF32"));
            Ok(record)
        }
        Err(why) => {
            let mut record = study::run(&plan, device, provenance, &[], &mut watch)?;
            record.leave_out("cuBLAS", why);
            Ok(record)
        }
    }
}

/// cuBLAS and the stream that its handle was made for.
struct Vendor {
    blas: Blas,
    stream: Stream,
}

impl Vendor {
    fn f32(&self, a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>) -> Computed {
        self.multiply(Math::AsTheyAre, a, b, d)
    }

    fn tf32(&self, a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>) -> Computed {
        self.multiply(Math::Tf32, a, b, d)
    }

    fn multiply(
        &self,
        math: Math,
        a: &Matrix<f32>,
        b: &Matrix<f32>,
        d: &mut Matrix<f32>,
    ) -> Computed {
        let (m, n, k) = (a.rows(), b.cols(), a.cols());
        let product = Product { math, ..Product::of(Types::all(Dtype::F32), (m, n, k)) };
        let addresses = Addresses { a: a.address(), b: b.address(), c: None, d: d.address() };
        // SAFETY: packed matrices of the product's shape, which stay until the stream is synchronised below.
        unsafe { self.blas.enqueue(&self.stream, &product, addresses)? };
        self.stream.synchronize().map_err(|error| error.to_string())
    }
}
