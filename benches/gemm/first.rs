//! The way of a fresh process to its first result: this program starts itself anew and takes the times there.

use crate::common::say;
use crate::options::Measuring;
use regemm::kernels::Types;
use regemm::verify::{Distribution, Expectation, Problem, random_matrix, rng};
use regemm::{Device, Element, Gemm, Precision, Yields};
use regemm_report::versus::FirstResult;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type Error = Box<dyn std::error::Error>;

/// The option by which the child process is told when it was started, in nanoseconds since 1970.
pub const OPTION: &str = "--first-result";

/// Keeps the driver from using compiled kernels of earlier processes, and from keeping them (CUDA C++ Programming
/// Guide, "CUDA Environment Variables").
const WITHOUT_CACHE: (&str, &str) = ("CUDA_CACHE_DISABLE", "1");

/// Rows, columns and depth of the product.
const SIZE: usize = 1024;

/// Processes, of which the median counts.
const PROCESSES: usize = 3;

/// Starts processes, without the driver's cache of compiled kernels and with it.
///
/// # Errors
/// A process cannot be started, fails, or computes a wrong result.
pub fn measure(what: &Measuring) -> Result<Vec<FirstResult>, Error> {
    let mut results = Vec::new();
    for cached in [false, true] {
        if cached {
            // Fills the cache.
            start(what, cached)?;
        }
        let mut runs =
            (0..PROCESSES).map(|_| start(what, cached)).collect::<Result<Vec<_>, Error>>()?;
        runs.sort_by(|a, b| a.total().total_cmp(&b.total()));
        results.push(runs.swap_remove(PROCESSES / 2));
    }
    Ok(results)
}

fn start(what: &Measuring, cached: bool) -> Result<FirstResult, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    let Types { factors, results } = what.types();
    command.args(["--dtype", factors.name(), "--results", results.name()]);
    command.args(["--precision", what.precision.name()]).stderr(Stdio::inherit());
    if !cached {
        command.env(WITHOUT_CACHE.0, WITHOUT_CACHE.1);
    }
    command.arg(OPTION).arg(now().as_nanos().to_string());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("the process for the first result: {}", output.status).into());
    }
    let result: FirstResult = serde_json::from_slice(&output.stdout)?;
    Ok(FirstResult { cached, ..result })
}

/// The child's part: prints its times as JSON.
///
/// # Errors
/// A failure of the device, or a wrong result.
pub fn child<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    started: u64,
    precision: Precision,
) -> Result<(), Error> {
    let device = Device::cuda(0)?;
    let open = now().saturating_sub(Duration::from_nanos(started));

    // Making the factors is no part of the way.
    let mut rng = rng(1, 0);
    let mut factor = || random_matrix::<T>(&mut rng, SIZE, SIZE, Distribution::Normal);
    let (a, b) = (factor(), factor());

    let start = Instant::now();
    let (a_there, b_there) = (device.upload(&a.view())?, device.upload(&b.view())?);
    let mut d = device.matrix::<D>(SIZE, SIZE)?;
    let upload = start.elapsed();
    let mut run = || -> Result<_, Error> {
        let start = Instant::now();
        let report = Gemm::widening(&a_there, &b_there).precision(precision).run(&mut d)?;
        Ok((report.kernel.name, start.elapsed()))
    };
    let (kernel, first) = run()?;
    let (_, second) = run()?;
    let start = Instant::now();
    let result = d.to_array()?;
    let download = start.elapsed();

    let problem = Problem { precision, ..Problem::of_factors(a.view(), b.view()) };
    let expectation = Expectation::<T, D>::new(problem, 1)?;
    let verification = expectation.check(&result.view())?;
    if !verification.pass() {
        return Err(format!("the first result of {kernel} is wrong: {verification:?}").into());
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let result = FirstResult {
        cached: false,
        size: SIZE,
        kernel: kernel.to_owned(),
        open: milliseconds(open),
        first_use: milliseconds(first.saturating_sub(second)),
        product: milliseconds(upload + second + download),
    };
    say(&serde_json::to_string(&result)?)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
