//! `regemm mul`: multiplies matrices from files.

use super::exit::Failure;
use super::load::{Loaded, Stored, load, numpy_name};
use super::options::{self, DeviceOption};
use super::output::{Output, count, counters_json, seconds};
use super::save::Destination;
use super::{eprintln_quietly, interrupt, progress};
use clap::ValueEnum;
use ndarray::{Array1, Array2, ArrayD, Ix1, Ix2};
use regemm::verify::{Expectation, Problem, Verification};
use regemm::{
    Accumulator, Activation, BiasAxis, Device, Dtype, Element, Gemm, KernelChoice, Report, bf16,
    f16,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Multiply matrices from NumPy files: D = activation(alpha * A * B + beta * C + bias)
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// A, a matrix of m rows and k columns
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// B, a matrix of k rows and n columns
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// Where to write D, m rows and n columns, in C order
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
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    alpha: f64,
    /// Factor of C
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, requires = "c")]
    beta: f64,
    /// The function to apply to each element at the end
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = options::activation())]
    activation: Activation,
    /// Slope of leaky ReLU below zero
    #[arg(long, value_name = "SLOPE", default_value_t = 0.01, allow_negative_numbers = true)]
    leaky_slope: f64,
    /// Convert float32 files to this type to compute in; D is float32 again
    #[arg(long = "as", value_name = "TYPE")]
    compute_as: Option<Half>,
    #[command(flatten)]
    device: DeviceOption,
    /// The kernel to use, such as tiled16; the library chooses if none is named
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Check D against a double-precision reference before it is written
    #[arg(long)]
    verify: bool,
}

const HELP: &str = "\
All files hold float32, float64 or float16, all the same; C and Fortran order and both byte orders are
understood. NaN and infinities are computed with as IEEE 754 says.

Examples:
  regemm mul a.npy b.npy -o d.npy
  regemm mul x.npy w.npy -o y.npy --bias b.npy --activation gelu-erf --verify
  regemm mul a.npy b.npy -o d.npy --c c.npy --beta 0.5 --device cuda:0 --kernel microkernel";

#[derive(Clone, Copy, ValueEnum)]
enum Axis {
    /// One element a column of D
    Column,
    /// One element a row of D
    Row,
}

#[derive(Clone, Copy, ValueEnum)]
enum Half {
    Bf16,
    F16,
}

/// The seed of `--verify` on products so large that rows, columns and vectors are drawn.
const VERIFY_SEED: u64 = 0;

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let optional = [arguments.bias.as_deref(), arguments.c.as_deref()];
    let inputs: Vec<&Path> = [arguments.a.as_path(), arguments.b.as_path()]
        .into_iter()
        .chain(optional.into_iter().flatten())
        .collect();
    interrupt::install();
    let destination = Destination::new(&arguments.output, arguments.force, &inputs)?;

    let a = load(&arguments.a)?;
    let dtype = a.dtype();
    let others = Others {
        b: load_like(&arguments.b, &arguments.a, dtype)?,
        bias: load_optional(arguments.bias.as_deref(), &arguments.a, dtype)?,
        c: load_optional(arguments.c.as_deref(), &arguments.a, dtype)?,
    };
    match (dtype, arguments.compute_as) {
        (Dtype::F32, None) => multiply::<f32, f32>(arguments, a, others, destination, output),
        (Dtype::F64, None) => multiply::<f64, f64>(arguments, a, others, destination, output),
        (_, None) => multiply::<f16, f16>(arguments, a, others, destination, output),
        (Dtype::F32, Some(Half::Bf16)) => {
            multiply::<f32, bf16>(arguments, a, others, destination, output)
        }
        (Dtype::F32, Some(Half::F16)) => {
            multiply::<f32, f16>(arguments, a, others, destination, output)
        }
        (_, Some(_)) => Err(Failure::Usage(format!(
            "--as converts float32 files, but {} holds {}; leave --as out",
            arguments.a.display(),
            numpy_name(dtype)
        ))),
    }
}

struct Others {
    b: Loaded,
    bias: Option<Loaded>,
    c: Option<Loaded>,
}

fn load_like(path: &Path, first: &Path, dtype: Dtype) -> Result<Loaded, Failure> {
    let loaded = load(path)?;
    if loaded.dtype() == dtype {
        return Ok(loaded);
    }
    let (found, wanted) = (numpy_name(loaded.dtype()), numpy_name(dtype));
    let problem = format!(
        "holds {found}, but {} holds {wanted}; save x.astype(np.{wanted})",
        first.display()
    );
    Err(Failure::file(path, problem))
}

fn load_optional(
    path: Option<&Path>,
    first: &Path,
    dtype: Dtype,
) -> Result<Option<Loaded>, Failure> {
    path.map(|path| load_like(path, first, dtype)).transpose()
}

/// The operands on the host, in the type that is computed in, with shapes that fit.
struct Operands<T> {
    a: Array2<T>,
    b: Array2<T>,
    bias: Option<(BiasAxis, Vec<T>)>,
    c: Option<Array2<T>>,
}

/// Multiplies matrices of `S` in files, computing in `T`.
fn multiply<S, T>(
    arguments: &Arguments,
    a: Loaded,
    others: Others,
    destination: Destination,
    output: &mut Output,
) -> Result<(), Failure>
where
    S: Stored,
    T: Element<Acc = S::Acc>,
{
    let mut warnings = Vec::new();
    let operands = prepare::<S, T>(arguments, a, others, &mut warnings)?;
    for warning in &warnings {
        eprintln_quietly(format_args!("regemm: warning: {warning}"));
    }
    let device = Device::open(arguments.device.device)?;
    let (d, report, product_seconds) = compute(arguments, &operands, &device)?;
    let verification =
        arguments.verify.then(|| verify(arguments, &operands, &d)).transpose()?;
    if verification.as_ref().is_none_or(Verification::pass) {
        destination.save(&d, |element: T| S::narrow(element.widen()))?;
    }

    let (m, k, n) = (d.nrows(), operands.a.ncols(), d.ncols());
    let passed = verification.as_ref().map(Verification::pass);
    output.document(&json!({
        "command": "mul",
        "output": (passed != Some(false)).then_some(&arguments.output),
        "shape": { "m": m, "n": n, "k": k },
        "dtype": T::DTYPE.name(),
        "file_dtype": numpy_name(S::DTYPE),
        "device": device.info(),
        "kernel": report.kernel.name,
        "why": report.why,
        "launched": report.launched,
        "seconds": product_seconds,
        "counters": report.counters.as_ref().map(counters_json),
        "verification": verification.as_ref().map(|v| verification_json(v)),
        "warnings": warnings,
    }))?;
    output.text(format_args!(
        "D = {m} x {n} from A = {m} x {k} and B = {k} x {n}, {}",
        T::DTYPE
    ))?;
    output.text(format_args!("device   {}", device.info().name))?;
    output.text(format_args!("kernel   {}: {}", report.kernel.name, report.why))?;
    if let Some(seconds_taken) = product_seconds {
        let taken = seconds(seconds_taken);
        output.text(format_args!("time     {taken}, the loading of the kernel included"))?;
    }
    if let Some(counters) = &report.counters {
        output.text(format_args!(
            "counted  {} fused multiply-adds, {} elements loaded from global memory, {} stored",
            count(counters.fma),
            count(counters.global_load_elements),
            count(counters.global_store_elements)
        ))?;
    }
    if let Some(verification) = &verification {
        output.text(format_args!("verified {}", describe(verification)))?;
        if !verification.pass() {
            return Err(Failure::Verification(format!(
                "the result is wrong and {} was not written",
                arguments.output.display()
            )));
        }
    }
    output.text(format_args!("wrote    {}", arguments.output.display()))
}

fn prepare<S, T>(
    arguments: &Arguments,
    a: Loaded,
    others: Others,
    warnings: &mut Vec<String>,
) -> Result<Operands<T>, Failure>
where
    S: Stored,
    T: Element<Acc = S::Acc>,
{
    let a = matrix::<S>(&arguments.a, a)?;
    let b = matrix::<S>(&arguments.b, others.b)?;
    if a.ncols() != b.nrows() {
        let problem = format!(
            "is {} x {} but must have {} rows, because {} is {} x {}",
            b.nrows(),
            b.ncols(),
            a.ncols(),
            arguments.a.display(),
            a.nrows(),
            a.ncols()
        );
        return Err(Failure::file(&arguments.b, problem));
    }
    let (m, n) = (a.nrows(), b.ncols());
    let c = match (&arguments.c, others.c) {
        (Some(path), Some(c)) => {
            let c = matrix::<S>(path, c)?;
            if c.dim() != (m, n) {
                let problem = format!("is {} x {} but D is {m} x {n}", c.nrows(), c.ncols());
                return Err(Failure::file(path, problem));
            }
            Some((path, c))
        }
        _ => None,
    };
    let bias = match (&arguments.bias, others.bias) {
        (Some(path), Some(bias)) => {
            let bias = vector::<S>(path, bias)?;
            let axis = bias_axis(arguments.bias_axis, path, bias.len(), m, n)?;
            Some((path, axis, bias))
        }
        _ => None,
    };
    let mut convert = |path: &Path, elements: &mut dyn Iterator<Item = S>| {
        let mut not_finite = 0;
        let mut overflowed = 0;
        let converted: Vec<T> = elements
            .map(|element| {
                let wide = element.widen();
                let narrow = T::narrow(wide);
                let finite = wide.to_f64().is_finite();
                not_finite += usize::from(!finite);
                overflowed += usize::from(finite && !narrow.widen().to_f64().is_finite());
                narrow
            })
            .collect();
        if not_finite > 0 {
            let path = path.display();
            warnings.push(format!("{path}: {not_finite} elements are NaN or infinite"));
        }
        if overflowed > 0 {
            let (path, dtype) = (path.display(), T::DTYPE);
            warnings.push(format!("{path}: {overflowed} elements are infinite as {dtype}"));
        }
        converted
    };
    let mut convert_matrix = |path: &Path, matrix: &Array2<S>| {
        let elements = convert(path, &mut matrix.iter().copied());
        Array2::from_shape_vec(matrix.dim(), elements)
            .map_err(|error| Failure::file(path, format!("has an impossible shape: {error}")))
    };
    Ok(Operands {
        a: convert_matrix(&arguments.a, &a)?,
        b: convert_matrix(&arguments.b, &b)?,
        c: c.map(|(path, c)| convert_matrix(path, &c)).transpose()?,
        bias: bias
            .map(|(path, axis, bias)| (axis, convert(path, &mut bias.iter().copied()))),
    })
}

/// The array as one of type `S`, which it was checked to be.
fn typed<S: Stored>(path: &Path, loaded: Loaded) -> Result<ArrayD<S>, Failure> {
    let found = numpy_name(loaded.dtype());
    S::take(loaded).ok_or_else(|| Failure::file(path, format!("holds {found} elements")))
}

fn matrix<S: Stored>(path: &Path, loaded: Loaded) -> Result<Array2<S>, Failure> {
    let array = typed::<S>(path, loaded)?;
    let shape = array.shape().to_vec();
    array.into_dimensionality::<Ix2>().map_err(|_| {
        let remedy = if shape.len() == 1 {
            "; save x[None, :] for a row or x[:, None] for a column"
        } else {
            ""
        };
        let problem = format!(
            "has {} dimensions (shape {shape:?}) but a matrix has 2{remedy}",
            shape.len()
        );
        Failure::file(path, problem)
    })
}

/// A vector, or a matrix of one row or column.
fn vector<S: Stored>(path: &Path, loaded: Loaded) -> Result<Array1<S>, Failure> {
    let array = typed::<S>(path, loaded)?;
    let shape = array.shape().to_vec();
    let long = shape.iter().filter(|&&len| len != 1).count();
    if shape.is_empty() || long > 1 {
        let problem = format!("has shape {shape:?} but a bias is a vector; save x.ravel()");
        return Err(Failure::file(path, problem));
    }
    array
        .flatten()
        .into_dimensionality::<Ix1>()
        .map_err(|error| Failure::file(path, format!("has an impossible shape: {error}")))
}

fn bias_axis(
    given: Option<Axis>,
    path: &Path,
    len: usize,
    m: usize,
    n: usize,
) -> Result<BiasAxis, Failure> {
    match given {
        Some(Axis::Column) if len == n => Ok(BiasAxis::Column),
        Some(Axis::Row) if len == m => Ok(BiasAxis::Row),
        None if len == n && len != m => Ok(BiasAxis::Column),
        None if len == m && len != n => Ok(BiasAxis::Row),
        None if len == m => Err(Failure::Usage(format!(
            "D is {m} x {n}, so the bias in {} could run either way; say --bias-axis column (one \
             element a column) or --bias-axis row",
            path.display()
        ))),
        Some(Axis::Column) => {
            Err(Failure::file(path, format!("has {len} elements but D has {n} columns")))
        }
        Some(Axis::Row) => {
            Err(Failure::file(path, format!("has {len} elements but D has {m} rows")))
        }
        None => Err(Failure::file(
            path,
            format!("has {len} elements but D has {n} columns and {m} rows"),
        )),
    }
}

/// D, what the library reports, and the seconds the product took by the host's clock; on the simulator there are none.
fn compute<T: Element>(
    arguments: &Arguments,
    operands: &Operands<T>,
    device: &Device,
) -> Result<(Array2<T>, Report, Option<f64>), Failure> {
    let spinner = progress::spinner("multiplying");
    let constant = T::Acc::constant;
    let a = device.upload(&operands.a.view())?;
    let b = device.upload(&operands.b.view())?;
    let c = operands.c.as_ref().map(|c| device.upload(&c.view())).transpose()?;
    let bias = match &operands.bias {
        Some((axis, bias)) => Some((*axis, device.vector(bias)?)),
        None => None,
    };
    let mut d = device.matrix::<T>(operands.a.nrows(), operands.b.ncols())?;
    let mut gemm = Gemm::new(&a, &b)
        .alpha(constant(arguments.alpha))
        .activation(arguments.activation)
        .leaky_slope(constant(arguments.leaky_slope));
    if let Some(c) = &c {
        gemm = gemm.c(constant(arguments.beta), c);
    }
    gemm = match &bias {
        Some((BiasAxis::Column, bias)) => gemm.bias_per_column(bias),
        Some((BiasAxis::Row, bias)) => gemm.bias_per_row(bias),
        _ => gemm,
    };
    if let Some(name) = &arguments.kernel {
        gemm = gemm.kernel(KernelChoice::Named(name.clone()));
    }
    let start = Instant::now();
    let report = gemm.run(&mut d)?;
    let taken = (!device.is_sim()).then(|| start.elapsed().as_secs_f64());
    let d = d.to_array()?;
    spinner.finish_and_clear();
    Ok((d, report, taken))
}

fn verify<T: Element>(
    arguments: &Arguments,
    operands: &Operands<T>,
    d: &Array2<T>,
) -> Result<Verification, Failure> {
    let spinner = progress::spinner("verifying");
    let exactly = |value: f64| T::Acc::constant(value).to_f64();
    let problem = Problem {
        c: operands.c.as_ref().map(|c| c.view()),
        bias: operands.bias.as_ref().map(|(axis, bias)| (*axis, bias.as_slice())),
        alpha: exactly(arguments.alpha),
        beta: exactly(arguments.beta),
        activation: arguments.activation,
        slope: exactly(arguments.leaky_slope),
        ..Problem::product(operands.a.view(), operands.b.view())
    };
    // The shapes fit: the product has been computed.
    let verification = Expectation::new(problem, VERIFY_SEED)
        .and_then(|expectation| expectation.check(&d.view()))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    spinner.finish_and_clear();
    Ok(verification)
}

/// A verification in one line.
pub fn describe(verification: &Verification) -> String {
    let comparison = &verification.comparison;
    let mut text = format!(
        "{} elements: worst error {:.3} of its bound, relative error in norm {:.2e}",
        count(comparison.elements as u64),
        comparison.max_ratio,
        comparison.relative_norm_error
    );
    if let Some(freivalds) = &verification.freivalds {
        text += &format!(
            "; whole product by {} random vectors: worst residual {:.3} of its tolerance",
            freivalds.vectors, freivalds.max_ratio
        );
    }
    if comparison.undecided > 0 {
        text += &format!(
            "; {} elements undecided because sums may overflow",
            count(comparison.undecided as u64)
        );
    }
    if comparison.mismatches > 0 {
        text += &format!("; {} WRONG", count(comparison.mismatches as u64));
        if let Some(worst) = &comparison.worst {
            text += &format!(", worst {worst}");
        }
    }
    if let Some(freivalds) = verification.freivalds.as_ref().filter(|test| !test.pass()) {
        text += &format!("; {} WRONG rows", count(freivalds.failed_rows as u64));
    }
    text
}

/// A verification as a JSON object, its verdict included.
pub fn verification_json(verification: &Verification) -> Value {
    let mut object = json!(verification);
    object["pass"] = verification.pass().into();
    object
}
