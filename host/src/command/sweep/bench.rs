//! Runs the contenders on a device: one size, the same operands for all.

use super::campaign::{Machine, Run, Verdict};
use super::space::Kernel;
use crate::command::exit::Failure;
use crate::command::verdict::describe;
use ndarray::Array2;
use regemm::measure::{OperandSet, Rotation, Spacer};
use regemm::verify::{Expectation, Problem};
use regemm::{Counters, Device, Error, Gemm, Linear, Report, Stream};
use regemm_report::sweep::Counts;

/// Who computes the product.
#[derive(Clone, Copy)]
pub enum Contender<'a> {
    /// A configuration; none where it cannot run.
    Configuration(Option<&'a Kernel>),
    /// Whatever the library chooses.
    Library,
}

impl Contender<'_> {
    fn enqueue(&self, stream: &Stream, set: &mut OperandSet<'_, f32>) -> Result<Report, Failure> {
        let gemm = Gemm::new(set.a, set.b);
        let report = match self {
            Contender::Library => gemm.enqueue(stream, &mut set.d),
            // SAFETY: the identity holds no addresses.
            Contender::Configuration(Some(kernel)) => unsafe {
                gemm.enqueue_custom(stream, kernel, Linear::identity(), &mut set.d)
            },
            Contender::Configuration(None) => {
                return Err(Failure::Usage("there is no kernel of this configuration".into()));
            }
        };
        report.map_err(Failure::Library)
    }
}

/// One size on a device.
pub struct Bench<'a> {
    stream: Stream,
    /// None on the simulator, where there is nothing to wait for.
    spacer: Option<Spacer>,
    contenders: &'a [Contender<'a>],
    operands: Rotation<f32>,
    expectation: &'a Expectation<'a, f32>,
    poison: Array2<f32>,
    /// A result that was found right, with its relative error. Kernels that add in the same order give the same bits,
    /// and what has its bits is as right.
    right: Option<(Array2<f32>, f64)>,
}

/// Calls a function with the contenders on the product of two random `size` x `size` matrices.
///
/// # Errors
/// The device has no room for the operands or fails, or what the function gives.
pub fn with_bench<R>(
    device: &Device,
    contenders: &[Contender<'_>],
    size: usize,
    seed: u64,
    work: impl FnOnce(&mut Bench<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let stream = device.stream()?;
    let spacer = if device.is_sim() { None } else { Some(Spacer::new(&stream)?) };
    let mut operands = Rotation::<f32>::of_product(device, (size, size, size), seed)?;
    let set = operands.first_set()?;
    let (a, b) = (set.a.to_array()?, set.b.to_array()?);
    let expectation = Expectation::new(Problem::product(a.view(), b.view()), seed)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    work(&mut Bench {
        stream,
        spacer,
        contenders,
        operands,
        expectation: &expectation,
        poison: Array2::from_elem((size, size), f32::NAN),
        right: None,
    })
}

impl Machine for Bench<'_> {
    fn verify(&mut self, contender: usize) -> Result<Verdict, Failure> {
        let mut set = self.operands.first_set()?;
        set.d.copy_from(&self.poison.view())?;
        let start = self.stream.record()?;
        let report = match self.contenders[contender].enqueue(&self.stream, &mut set) {
            Err(Failure::Library(error)) if is_misfit(&error) => {
                return Ok(Verdict::CannotRun(error.to_string()));
            }
            Err(Failure::Library(error @ Error::Simulator(_))) => {
                return Ok(Verdict::Wrong(error.to_string()));
            }
            other => other?,
        };
        let end = self.stream.record()?;
        self.stream.synchronize()?;
        let run = match report.counters {
            Some(counters) => Run::Did(counts(&counters)),
            None => Run::Took(end.elapsed_since(&start)?.as_secs_f64()),
        };
        let kernel = report.kernel.name.to_owned();
        let d = set.d.view().to_array()?;
        if let Some((right, relative_error)) = &self.right
            && same_bits(right, &d)
        {
            return Ok(Verdict::Right { kernel, relative_error: *relative_error, run });
        }
        let verification =
            self.expectation.check(&d.view()).map_err(|error| Failure::Usage(error.to_string()))?;
        if !verification.pass() {
            return Ok(Verdict::Wrong(describe(&verification)));
        }
        let relative_error = verification.comparison.relative_norm_error;
        self.right = Some((d, relative_error));
        Ok(Verdict::Right { kernel, relative_error, run })
    }

    fn sample(&mut self, contender: usize, samples: usize) -> Result<Vec<f64>, Failure> {
        let mut events = Vec::with_capacity(samples);
        for _ in 0..samples {
            if let Some(spacer) = &mut self.spacer {
                spacer.enqueue(&self.stream)?;
            }
            let start = self.stream.record()?;
            let mut set = self.operands.next_set()?;
            self.contenders[contender].enqueue(&self.stream, &mut set)?;
            events.push((start, self.stream.record()?));
        }
        let times = events.iter().map(|(start, end)| end.elapsed_since(start));
        Ok(times.map(|time| time.map(|time| time.as_secs_f64())).collect::<Result<_, Error>>()?)
    }
}

/// `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES`, after which a context can still be used.
const LAUNCH_OUT_OF_RESOURCES: i32 = 701;

/// Whether an error means that this kernel is not for this device, which can go on with others.
pub fn is_misfit(error: &Error) -> bool {
    match error {
        // The driver refuses to compile it, or its blocks.
        Error::Cuda { call, code, .. } => {
            *call == "cuModuleLoadDataEx" || *code == LAUNCH_OUT_OF_RESOURCES
        }
        other => other.is_misfit(),
    }
}

fn same_bits(a: &Array2<f32>, b: &Array2<f32>) -> bool {
    a.dim() == b.dim() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// What the simulator counted, as a record holds it; size and error are for the campaign to add.
fn counts(counters: &Counters) -> Counts {
    Counts {
        global_bytes: counters.global_load_bytes + counters.global_store_bytes,
        global_sectors: counters.global_load_sectors + counters.global_store_sectors,
        shared_wavefronts: counters.shared_load_wavefronts + counters.shared_store_wavefronts,
        shared_conflicts: counters.shared_load_conflicts + counters.shared_store_conflicts,
        barriers: counters.block_barriers,
        async_copies: counters.async_copies,
        fma: counters.fma,
        ..Counts::default()
    }
}
