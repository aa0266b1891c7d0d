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
use clap::{Args, Parser};
use common::kept::read;
use common::{Failure, Outcome, Recording, first_gpu, tell};
use library::{Addresses, Math, Product, Types};
use regemm::accuracy::{Data, precisions};
use regemm::{Device, Dtype, Matrix, Precision, Stream};
use regemm_report::accuracy::{CUBLAS, CUBLAS_TF32, Record};
use std::process::ExitCode;
use study::{Computed, Plan};

/// Measures errors of products beside cuBLAS's on a GPU
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
}

fn parse_data(name: &str) -> Result<Data, String> {
    let known = Data::ALL.into_iter().find(|data| data.name() == name);
    known.ok_or_else(|| format!("expected one of {}", Data::ALL.map(Data::name).join(", ")))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format!("accuracy: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let recording = &arguments.recording;
    recording.check_place()?;
    let (record, failure): (Record, _) = match &recording.from {
        Some(path) => (read(path)?, None),
        None => {
            check(&arguments.what)?;
            let Some(device) = first_gpu()? else { return Ok(()) };
            measure(arguments, &device)?
        }
    };
    let wrong = record.wrong.iter().map(|wrong| format!("wrong result: {wrong}").into());
    recording.finish(&record, wrong.chain(failure).collect())
}

fn check(Measuring { sizes, rows, cols, .. }: &Measuring) -> Result<(), &'static str> {
    let extents = sizes.iter().chain([rows, cols]);
    if extents.copied().any(|extent| extent == 0) {
        return Err("rows, columns and depths are at least 1");
    }
    Ok(())
}

/// Makes the study. A failure of the device ends it, and the record holds what came before.
fn measure(arguments: &Arguments, device: &Device) -> Outcome<(Record, Option<Failure>)> {
    let Arguments { what: Measuring { sizes, rows, cols, data }, recording } = arguments;
    let kinds = if data.is_empty() { Data::ALL.to_vec() } else { data.clone() };
    let plan = |data: &[Data], depths: &[usize], precisions: Vec<Precision>| Plan {
        rows: *rows,
        cols: *cols,
        depths: depths.to_vec(),
        data: data.to_vec(),
        precisions,
        seed: recording.seed,
    };
    let stream = device.stream()?;
    let vendor = Blas::load(&stream).map(|blas| Vendor { blas, stream });
    let f32 = |a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>| match &vendor {
        Ok(vendor) => vendor.multiply(Math::AsTheyAre, a, b, d),
        Err(why) => Err(why.clone()),
    };
    let tf32 = |a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>| match &vendor {
        Ok(vendor) => vendor.multiply(Math::Tf32, a, b, d),
        Err(why) => Err(why.clone()),
    };
    let others: [study::Other<'_>; 2] = [(CUBLAS, &f32), (CUBLAS_TF32, &tf32)];

    // Without a product nothing fails, and all that a record has besides is there.
    let none = plan(&kinds, &[], Vec::new());
    let mut record = study::run(&none, device, recording.provenance(device), &[], &mut |_| {})?;
    match &vendor {
        Ok(vendor) => record.libraries.push(format!(
            "cuBLAS {}: cublasSgemm in the default math mode, and cublasGemmEx with CUBLAS_COMPUTE_32F_FAST_TF32",
            vendor.blas.version()
        )),
        Err(why) => record.leave_out("cuBLAS", why.as_str()),
    }
    let is_loaded = vendor.is_ok();
    let trials = kinds.iter().flat_map(|&data| sizes.iter().map(move |&k| (data, k)));
    let trials: Vec<(usize, (Data, usize))> = trials.enumerate().collect();
    let count = plan(&kinds, sizes, Vec::new()).trials();
    let failure = recording.measure_each(&mut record, trials, |record, (index, (data, k))| {
        let is_in = |mode: &str| !record.is_left_out(mode);
        let precisions = precisions().filter(|precision| is_in(precision.name())).collect();
        let plan = plan(&[data], &[k], precisions);
        let others = others.iter().copied().filter(|(mode, _)| is_loaded && is_in(mode));
        let others: Vec<study::Other<'_>> = others.collect();
        let mut watch = |next: String| tell(format!("{} of {count}: {next}", index + 1));
        let provenance = record.provenance.clone();
        let (one, failure) = match study::run(&plan, device, provenance, &others, &mut watch) {
            Ok(one) => (one, None),
            Err(cut) => (*cut.record, cut.why),
        };
        record.points.extend(one.points);
        record.wrong.extend(one.wrong);
        record.stopped = one.stopped;
        one.missing.into_iter().for_each(|missing| record.leave_out(&missing.mode, missing.why));
        match failure {
            Some(error) => Err(format!("{}, K = {k}: {error}", data.name()).into()),
            None => Ok(()),
        }
    });
    Ok((record, failure))
}

/// cuBLAS and the stream that its handle was made for.
struct Vendor {
    blas: Blas,
    stream: Stream,
}

impl Vendor {
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
