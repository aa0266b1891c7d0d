//! `regemm mul`: multiplies matrices from files.
//!
//! | file | what it holds |
//! |---|---|
//! | `product.rs` | the product on a device, and its verification |

mod product;

use super::eprintln_quietly;
use super::exit::Failure;
use super::load::{Stored, numpy_name};
use super::numbers;
use super::operands::{Axis, Contents, Files, Operands, Read};
use super::options::{self, DeviceOption};
use super::output::{Output, count, counters_json, multiply_adds, seconds};
use super::save::Destination;
use super::tune::explain::{explanation_json, ranking};
use super::verdict::{describe, verification_json};
use clap::ValueEnum;
use ndarray::Axis as ArrayAxis;
use product::{Computed, compute, verify};
use regemm::tuning::Shape;
use regemm::tuning::explain::explain;
use regemm::verify::Verification;
use regemm::{
    Accumulator, Activation, Device, Dtype, Element, Layout, Layouts, Precision, Yields, bf16, f16,
    kernels,
};
use serde_json::json;
use std::path::PathBuf;

/// Multiply matrices from NumPy files: D = activation(alpha * A * B + beta * C + bias)
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// A, a matrix of m rows and k columns, or a batch of them
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// B, a matrix of k rows and n columns, or a batch of them
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// The file holds A transposed: k rows and m columns
    #[arg(long)]
    transpose_a: bool,
    /// The file holds B transposed: n rows and k columns
    #[arg(long)]
    transpose_b: bool,
    /// Where to write D, m rows and n columns, in C order: a file, or a pipe with a name, but not standard output
    #[arg(short, long, value_name = "D.npy")]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// A vector to add to every row (n elements) or every column (m elements)
    #[arg(long, value_name = "BIAS.npy")]
    bias: Option<PathBuf>,
    /// Whether the bias has one element a column or one a row; its length tells unless m = n
    #[arg(long, value_name = "AXIS", requires = "bias")]
    bias_axis: Option<Axis>,
    /// C, a matrix to add, m rows and n columns
    #[arg(long, value_name = "C.npy")]
    c: Option<PathBuf>,
    /// Factor of the product
    #[arg(long, default_value_t = 1.0, allow_hyphen_values = true, value_parser = numbers::factor)]
    alpha: f64,
    /// Factor of C
    #[arg(long, default_value_t = 1.0, allow_hyphen_values = true, requires = "c",
          value_parser = numbers::factor)]
    beta: f64,
    /// The function to apply to each element at the end
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = options::activation())]
    activation: Activation,
    /// Slope of leaky ReLU below zero [default: 0.01]
    #[arg(long, value_name = "SLOPE", allow_hyphen_values = true, value_parser = numbers::factor)]
    leaky_slope: Option<f64>,
    /// Convert float32 files to this type to compute in; D is float32 again
    #[arg(long = "as", value_name = "TYPE")]
    compute_as: Option<Half>,
    /// Keep D in float32 when computing in f16 or bf16. C and the bias must then be float32 too
    #[arg(long, value_name = "TYPE")]
    results: Option<Results>,
    #[command(flatten)]
    device: DeviceOption,
    /// The kernel to use, such as tiled16; the library chooses if none is named
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// What float32 is computed in: multiply-adds of float32 (exact), or on tensor cores from 22 (split)
    /// or 11 bits (tf32, fast), with kernels of their own; or from 22 where the data lose nothing by that (auto).
    /// With --results f32, promoted: tensor cores add up no more than 256 values of k before f32 does
    #[arg(long, value_name = "PRECISION", default_value = "exact", value_parser = options::precision())]
    precision: Precision,
    /// Show how the kernel was chosen: all kernels with their expected times and places by rule
    #[arg(long)]
    explain: bool,
    /// Check D against a double-precision reference, by what the precision is worth, before it is written
    #[arg(long)]
    verify: bool,
}

const HELP: &str = "\
All files hold float32, float64 or float16, all the same, but for --results: with it C, the bias and D hold float32 \
beside factors of float16. C and Fortran order and both byte orders are understood. NaN and infinities are computed \
with as IEEE 754 says, but for --precision split, which makes NaN of both, and fast and tf32, which may round what an infinity \
is multiplied by to zero. With --alpha 0 A and B are not read, and with --beta 0 C is not, so that what is in them does \
not matter. An array of three dimensions is a batch of matrices: then D is one too, and matrices in other \
files are shared by all products (a bias of two dimensions has a row for each).

Examples:
  regemm mul a.npy b.npy -o d.npy
  regemm mul x.npy w.npy -o y.npy --bias b.npy --activation gelu-erf --verify
  regemm mul a.npy b.npy -o d.npy --c c.npy --beta 0.5 --device cuda:0 --kernel microkernel
  regemm mul a.npy b.npy -o d.npy --as bf16 --results f32
  regemm mul a.npy b.npy -o d.npy --as bf16 --results f32 --precision promoted --verify
  regemm mul a.npy b.npy -o d.npy --precision split --verify
  regemm mul a.npy b.npy -o d.npy --precision tf32 --explain
  regemm mul a.npy b.npy -o d.npy --precision auto --explain
  regemm mul queries.npy keys.npy -o scores.npy --transpose-b --alpha 0.125";

#[derive(Clone, Copy, ValueEnum)]
enum Results {
    F32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Half {
    Bf16,
    F16,
}

/// The seed of `--verify` on products so large that rows, columns and vectors are drawn.
const VERIFY_SEED: u64 = 0;

/// The slope that is meant where none is given.
const LEAKY_SLOPE: f64 = 0.01;

impl Arguments {
    fn slope(&self) -> f64 {
        self.leaky_slope.unwrap_or(LEAKY_SLOPE)
    }

    /// Alpha, beta and the slope as they are computed with. What is finite, or not zero, must be so in that type.
    fn factors<A: Accumulator>(&self) -> Result<[f64; 3], Failure> {
        let factors = [("alpha", self.alpha), ("beta", self.beta), ("leaky-slope", self.slope())];
        for (name, given) in factors {
            let constant = A::constant(given).to_f64();
            // Of the types that are computed in f32 is the only one that does not hold all that f64 does.
            let becomes = match given.is_finite() {
                true if !constant.is_finite() => Some(("infinite", "a smaller one")),
                true if constant == 0.0 && given != 0.0 => Some(("zero", "a larger one, or 0")),
                _ => None,
            };
            if let Some((becomes, remedy)) = becomes {
                return Err(Failure::Usage(format!(
                    "--{name} {given:e} is {becomes} in f32, which D is computed in: give {remedy}"
                )));
            }
        }
        Ok(factors.map(|(_, given)| given))
    }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let layout = |transposed| if transposed { Layout::Transposed } else { Layout::RowMajor };
    let files = Files {
        a: &arguments.a,
        b: &arguments.b,
        c: arguments.c.as_deref(),
        bias: arguments.bias.as_deref(),
        bias_axis: arguments.bias_axis,
        layouts: Layouts { a: layout(arguments.transpose_a), b: layout(arguments.transpose_b) },
    };
    if arguments.leaky_slope.is_some() && arguments.activation != Activation::LeakyRelu {
        let activation = arguments.activation.name();
        return Err(Failure::Usage(format!(
            "--leaky-slope is for --activation leaky-relu, but the activation is {activation}: leave one out"
        )));
    }
    let destination = Destination::new(&arguments.output, arguments.force, &files.paths())?;
    let contents = files.load(arguments.results.map(|Results::F32| Dtype::F32))?;
    let dtype = contents.dtype();
    let multiply = match (dtype, arguments.compute_as, arguments.results) {
        (Dtype::F32, None, _) => multiply::<f32, f32, f32, f32>,
        (Dtype::F64, None, None) => multiply::<f64, f64, f64, f64>,
        (Dtype::F64, None, Some(Results::F32)) => {
            return Err(Failure::Usage(format!(
                "--results f32 is for factors of float16 or with --as, but {} holds {}: leave it out",
                arguments.a.display(),
                numpy_name(dtype)
            )));
        }
        (Dtype::F16 | Dtype::Bf16, None, None) => multiply::<f16, f16, f16, f16>,
        (Dtype::F16 | Dtype::Bf16, None, Some(Results::F32)) => multiply::<f16, f16, f32, f32>,
        (Dtype::F32, Some(Half::Bf16), None) => multiply::<f32, bf16, f32, bf16>,
        (Dtype::F32, Some(Half::F16), None) => multiply::<f32, f16, f32, f16>,
        (Dtype::F32, Some(Half::Bf16), Some(Results::F32)) => multiply::<f32, bf16, f32, f32>,
        (Dtype::F32, Some(Half::F16), Some(Results::F32)) => multiply::<f32, f16, f32, f32>,
        (_, Some(_), _) => {
            return Err(Failure::Usage(format!(
                "--as converts float32, but {} holds {}: leave --as out",
                arguments.a.display(),
                numpy_name(dtype)
            )));
        }
    };
    multiply(arguments, contents, destination, output)
}

/// Multiplies matrices of `S` in files as matrices of `T`, to results of `D`; C, the bias and D are of `R` in files.
fn multiply<S, T, R, D>(
    arguments: &Arguments,
    contents: Contents<'_>,
    destination: Destination,
    output: &mut Output,
) -> Result<(), Failure>
where
    S: Stored,
    T: Element<Acc = S::Acc> + Yields<D>,
    R: Stored<Acc = S::Acc>,
    D: Element<Acc = S::Acc>,
{
    let is_half = matches!(T::DTYPE, Dtype::F16 | Dtype::Bf16);
    if arguments.precision == Precision::Promoted && !(is_half && D::DTYPE == Dtype::F32) {
        return Err(Failure::Usage(format!(
            "--precision promoted is for products of f16 or bf16 with results of f32: add --results f32{}",
            if is_half { "" } else { ", and --as bf16 or --as f16" }
        )));
    }
    let [alpha, beta, slope] = arguments.factors::<T::Acc>()?;
    let read = Read { factors: alpha != 0.0, c: beta != 0.0 };
    let mut operands = contents.into_operands::<S, T, R, D>(read)?;
    let all_finite =
        operands.warnings.is_empty() && [alpha, beta, slope].iter().all(|x| x.is_finite());
    for warning in &operands.warnings {
        eprintln_quietly(format_args!("regemm: warning: {warning}"));
    }
    let device = Device::open(arguments.device.device)?;
    if output.is_text() {
        arguments.device.announce_simulator(&device, operands.multiply_adds());
    }
    let Computed { d, report, times: taken } = compute(arguments, &operands, &device)?;
    let not_finite = d.iter().filter(|element| !element.widen().to_f64().is_finite()).count();
    if all_finite && not_finite > 0 {
        let warning = format!(
            "{} NaN or infinite, though all that {} computed from is finite",
            match not_finite {
                1 => "1 element of D is".to_owned(),
                many => format!("{} elements of D are", count(many as u64)),
            },
            if not_finite == 1 { "it is" } else { "they are" }
        );
        eprintln_quietly(format_args!("regemm: warning: {warning}"));
        operands.warnings.push(warning);
    }
    let Operands { shape: (m, n, k), count: products, layouts, .. } = operands;
    // The sizes were small enough for a product.
    let batch = products.unwrap_or(1) as u32;
    let [rows, cols, depth] = [m, n, k].map(|size| size as u32);
    let single = kernels::Problem::packed(T::DTYPE, (rows, cols, depth), layouts);
    let matrices = [operands.a.batch, operands.b.batch].map(|many| if many { batch } else { 1 });
    let promoted = arguments.precision == Precision::Promoted;
    let problem = kernels::Problem { batch, matrices, target: D::DTYPE, promoted, ..single };
    let explanation = arguments.explain.then(|| {
        explain(&device, &problem, Shape::packed_in(layouts, T::DTYPE, rows, cols, depth))
    });
    let weighed =
        (arguments.explain && arguments.precision == Precision::Auto).then(
            || match kernels::weigh(&problem, device.info(), false) {
                Ok(either) => either.to_string(),
                Err(against) => against.to_string(),
            },
        );
    let verification = arguments.verify.then(|| verify(arguments, &operands, &d)).transpose()?;
    // A wrong result is not written.
    let pass = verification.as_ref().is_none_or(Verification::pass);
    if pass {
        let d = if products.is_some() {
            d.into_dyn()
        } else {
            d.index_axis_move(ArrayAxis(0), 0).into_dyn()
        };
        destination.save(&d, |element: D| R::narrow(element.widen()))?;
    }

    output.document(&json!({
        "command": "mul",
        "output": pass.then(|| arguments.output.display().to_string()),
        "shape": { "m": m, "n": n, "k": k },
        "layouts": layouts.name(),
        "batch": products,
        "dtype": T::DTYPE.name(),
        "target": D::DTYPE.name(),
        "file_dtype": numpy_name(S::DTYPE),
        "device": device.info(),
        "kernel": report.kernel.name,
        "why": report.why.to_string(),
        "precision": arguments.precision.name(),
        "computed": report.computed.to_string(),
        "weighed": weighed,
        "repacked": report.repacked.factors().collect::<Vec<_>>(),
        "transposed": report.repacked.transposed_factors().collect::<Vec<_>>(),
        "explanation": explanation.as_ref().map(explanation_json),
        "launched": report.launched,
        "seconds": taken.map(|taken| taken.first),
        "seconds_once_loaded": taken.map(|taken| taken.once_loaded),
        "counters": report.counters.as_ref().map(counters_json),
        "verification": verification.as_ref().map(verification_json),
        "warnings": operands.warnings,
    }))?;
    let times = products.map(|products| format!("{products} times ")).unwrap_or_default();
    let transposed = |layout| if layout == Layout::Transposed { " (transposed)" } else { "" };
    let (of_a, of_b) = (transposed(layouts.a), transposed(layouts.b));
    output.text(format_args!(
        "D = {times}{m} x {n} from A = {m} x {k}{of_a} and B = {k} x {n}{of_b}, {}",
        kernels::Types { factors: T::DTYPE, results: D::DTYPE }
    ))?;
    output.text(format_args!("device   {}", device.info().name))?;
    output.text(format_args!("kernel   {}: {}", report.kernel.name, report.why))?;
    if arguments.precision != Precision::Exact {
        let (asked, computed) = (arguments.precision, report.computed);
        output.text(format_args!("computed {computed} (precision {asked})"))?;
    }
    if let Some(weighed) = &weighed {
        output.text(format_args!("weighed  {weighed}"))?;
    }
    if !report.repacked.is_nothing() {
        output.text(format_args!("         {}", report.repacked))?;
    }
    if let Some(explanation) = &explanation {
        // What is explained is the choice among kernels of the table, which precisions of f32 do not take.
        let chooses = matches!(arguments.precision, Precision::Exact | Precision::Promoted);
        let otherwise = match (&arguments.kernel, chooses) {
            (Some(_), true) => Some("without --kernel"),
            (None, true) | (Some(_), false) => None,
            (None, false) => Some("with --precision exact"),
        };
        if let (Some(otherwise), Ok(selection)) = (otherwise, &explanation.selection) {
            output.text(format_args!("{otherwise} it would be {selection}"))?;
        }
        output.text(ranking(explanation))?;
    }
    if let Some(taken) = taken {
        let (first, once_loaded) = (seconds(taken.first), seconds(taken.once_loaded));
        output.text(format_args!(
            "time     {once_loaded} by the host's clock, and {first} the first time, when the kernel is loaded"
        ))?;
    }
    if let Some(counters) = &report.counters {
        output.text(format_args!(
            "counted  {} fused multiply-adds, {} elements loaded from global memory, {} stored",
            count(multiply_adds(counters)),
            count(counters.global_load_elements),
            count(counters.global_store_elements)
        ))?;
    }
    if let Some(verification) = &verification {
        output.text(format_args!("verified {}", describe(verification)))?;
    }
    if let Some(verification) = verification.filter(|verification| !verification.pass()) {
        let path = arguments.output.display();
        return Err(Failure::Verification(
            if verification.comparison.mismatches == 0
                && verification.freivalds.is_none_or(|test| test.pass())
            {
                format!("sums may overflow, so no element could be judged: {path} was not written")
            } else {
                format!("the result is wrong: {path} was not written")
            },
        ));
    }
    output.text(format_args!("wrote    {}", arguments.output.display()))
}
