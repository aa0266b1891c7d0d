//! `regemm ladder`: every kernel over a list of sizes.
//!
//! | file | what it holds |
//! |---|---|
//! | `cpu` | the same product on the processor |
//! | `show` | a size as a table and as JSON |

mod cpu;
mod show;

use self::cpu::OnCpu;
use super::exit::Failure;
use super::interrupt;
use super::left_out::{self, LeftOut};
use super::numbers;
use super::options::{self, DeviceOption, Size, distinct};
use super::output::Output;
use super::progress;
use super::verdict::describe;
use indicatif::ProgressBar;
use ndarray::{Array2, ArrayView2};
use regemm::kernels::Types;
use regemm::measure::{OperandSet, Rotation, Samples, Sampling, SetLayout, alternate};
use regemm::verify::{Expectation, Problem, Verification, check_room, check_room_to_verify};
use regemm::{
    Accumulator, Counters, Device, Element, Factor, Gemm, KernelChoice, KernelInfo, Layout,
    Layouts, MatrixView, Yields,
};
use regemm_report::provenance::Provenance;
use serde_json::json;
use std::num::NonZeroUsize;

/// Run all kernels over a list of sizes: speed on a GPU, counters on the simulator, and the error
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Sizes, comma-separated: N for N x N matrices, or MxNxK [default: 256 to 4096 on a GPU, 256 on the simulator]
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    sizes: Vec<Size>,
    /// Element types, one kind in a run: `bf16_f32` has results of f32
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = options::types_of_run())]
    dtype: Types,
    #[command(flatten)]
    device: DeviceOption,
    /// How A and B lie in memory, A first, one way in a run: n as they are multiplied, t transposed
    #[arg(long, visible_alias = "layout", value_name = "LAYOUTS", default_value = "nn", value_parser = options::layouts_of_run())]
    layouts: Layouts,
    /// Only these kernels, comma-separated, in this order. The name of a rung, such as tiled or stream_k, stands for
    /// all of its kernels that can run; stream_k_f32 is the one that is called so
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// Measurements of each kernel on a GPU, of which the median counts
    #[arg(long, value_name = "N", default_value = "20", value_parser = numbers::count)]
    reps: NonZeroUsize,
    /// Multiply on the processor, too: the first kernel's speed-up is relative to that
    #[arg(long)]
    cpu: bool,
    /// Seed of the random operands
    #[arg(long, default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
}

const HELP: &str = "\
Every result is verified before its speed is printed. Times come from events on the GPU, after warm-up, with operands \
rotated through more memory than its L2 cache holds. The simulator counts what a kernel does and gives no times. \
`--cpu` takes the host's clock around products by the crate matrixmultiply on all cores, in f32, or in f64 for that.

Examples:
  regemm ladder
  regemm ladder --cpu --sizes 256,512,1024 --kernels naive,tiled32,microkernel
  regemm ladder --sizes 1024,4095x4097x4093 --dtype bf16
  regemm ladder --device sim --sizes 128 --kernels naive,tiled16 --json";

/// Sizes that are measured if none are named.
const GPU_SIZES: [u32; 5] = [256, 512, 1024, 2048, 4096];
const SIMULATOR_SIZES: [u32; 1] = [256];

/// One kernel on one size.
struct Rung {
    kernel: &'static KernelInfo,
    verification: Verification,
    counters: Option<Counters>,
    /// None on the simulator, where the verification failed, and where measuring has ended before.
    samples: Option<Samples>,
}

impl Rung {
    fn seconds(&self) -> Option<f64> {
        self.samples.as_ref().map(|samples| samples.median().as_secs_f64())
    }
}

/// All kernels on one size.
struct Climbed {
    size: Size,
    /// Where it was asked for.
    cpu: Option<OnCpu>,
    rungs: Vec<Rung>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let layouts = arguments.layouts;
    let kernels = options::kernels_in(layouts, arguments.dtype, &arguments.kernels)
        .map_err(|error| options::of_exact(error, "ladder"))?;
    let device = Device::open(arguments.device.device)?;
    if arguments.cpu && device.is_sim() {
        return Err(Failure::Usage(
            "`--cpu` compares times, and the simulator gives none; run it where there is a GPU"
                .into(),
        ));
    }
    let sizes = match (&arguments.sizes[..], device.is_sim()) {
        ([], true) => SIMULATOR_SIZES.map(Size::square).to_vec(),
        ([], false) => GPU_SIZES.map(Size::square).to_vec(),
        (sizes, _) => distinct(sizes.iter().copied()),
    };
    let (kernels, left_out) = left_out::fitting(&device, kernels, &arguments.kernels)?;
    if let Some(why) = left_out::none_left(&kernels, &left_out) {
        return Err(why.into());
    }
    let products: f64 = sizes.iter().map(|size| size.operations() / 2.0).sum();
    if output.is_text() {
        arguments.device.announce_simulator(&device, products * kernels.len() as f64);
    }
    let ladder = Ladder {
        bar: progress::bar((sizes.len() * kernels.len()) as u64),
        device,
        layouts,
        kernels,
        left_out,
        reps: arguments.reps.get(),
        cpu: arguments.cpu,
        seed: arguments.seed,
    };
    interrupt::stop_by_request();
    regemm::with_types!(arguments.dtype, climb(&ladder, &sizes, output))
}

struct Ladder {
    device: Device,
    layouts: Layouts,
    kernels: Vec<&'static KernelInfo>,
    left_out: Vec<LeftOut>,
    reps: usize,
    cpu: bool,
    seed: u64,
    bar: ProgressBar,
}

fn climb<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    ladder: &Ladder,
    sizes: &[Size],
    output: &mut Output,
) -> Result<(), Failure> {
    let types = Types { factors: T::DTYPE, results: D::DTYPE };
    let mut results = Vec::new();
    let mut wrong = Vec::new();
    let mut ended = Ok(());
    output.text(format_args!("{}, {}", ladder.device.info().name, types))?;
    for &size in sizes {
        let mut climbed = Climbed { size, cpu: None, rungs: Vec::new() };
        ended = ladder.climb_size::<T, D>(&mut climbed);
        if climbed.rungs.is_empty() {
            break;
        }
        ladder.bar.suspend(|| output.text(format_args!("\n{size}\n{}", ladder.text(&climbed))))?;
        let Climbed { cpu, rungs, .. } = &climbed;
        for cpu in cpu.iter().filter(|cpu| !cpu.verification.pass()) {
            wrong.push(format!("the processor on {size}: {}", describe(&cpu.verification)));
        }
        for rung in rungs.iter().filter(|rung| !rung.verification.pass()) {
            let (name, verdict) = (rung.kernel.name, describe(&rung.verification));
            wrong.push(format!("{name} on {size}: {verdict}"));
        }
        results.push(ladder.json(&climbed));
        if ended.is_err() {
            break;
        }
    }
    ladder.bar.finish_and_clear();
    if results.is_empty() {
        return ended;
    }
    let left_out = left_out::reasons(ladder.left_out.iter().map(|(_, why)| why));
    if !left_out.is_empty() {
        output.text(format_args!("\n{}", left_out.join("\n")))?;
    }
    let info = ladder.device.info();
    // Asking for it takes a moment, and only a document shows it.
    let provenance = (!output.has_document())
        .then(|| Provenance::gather(&info.name, info.multiprocessors, info.compute_capability));
    output.document(&json!({
        "command": "ladder",
        "provenance": provenance,
        "device": info,
        "dtype": types.name(),
        "layouts": ladder.layouts.name(),
        "seed": ladder.seed,
        "peak_flops": info.peak_flops(T::DTYPE),
        "tensor_peak_flops": info.tensor_peak_flops(T::DTYPE),
        "results": results,
        "left_out": left_out::json(&ladder.left_out),
        // What was measured before is worth as much.
        "stopped": ended.as_ref().err().map(Failure::to_string),
    }))?;
    ended?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Verification(wrong.join("; "))) }
}

impl Ladder {
    /// Verifies all kernels on the same operands, then measures those that are right. What was done before a failure is
    /// there, too.
    fn climb_size<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
        &self,
        climbed: &mut Climbed,
    ) -> Result<(), Failure> {
        let size = climbed.size;
        let (m, n, k) = size.on_host();
        self.bar.set_message(format!("{size}: reference"));
        let mut operands = Rotation::<T, D>::widening(&self.device, self.seed);
        operands.fit(SetLayout::packed_in(self.layouts, m, n, k))?;
        self.verify(climbed, &mut operands)?;
        if self.device.is_sim() {
            return Ok(());
        }
        let rungs = &mut climbed.rungs;
        self.bar.set_message(format!("{size}: measuring"));
        let right: Vec<usize> =
            (0..rungs.len()).filter(|&rung| rungs[rung].verification.pass()).collect();
        let stream = self.device.stream()?;
        let sampling = Sampling::rounds(self.reps);
        let products = vec![1; right.len()];
        let samples = alternate::<Failure>(&stream, &products, sampling, |contender| {
            go_on()?;
            let OperandSet { a, b, d, .. } = operands.next_set()?;
            let kernel = KernelChoice::Info(rungs[right[contender]].kernel);
            let (a, b) = self.factors(a, b);
            Ok(Gemm::widening(a, b).kernel(kernel).enqueue(&stream, d).map(drop)?)
        })?;
        for (rung, samples) in right.into_iter().zip(samples) {
            rungs[rung].samples = Some(samples);
        }
        Ok(())
    }

    fn factors<'m, T: Element>(
        &self,
        a: MatrixView<'m, T>,
        b: MatrixView<'m, T>,
    ) -> (Factor<'m, T>, Factor<'m, T>) {
        (Factor::stored(a, self.layouts.a), Factor::stored(b, self.layouts.b))
    }

    fn verify<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
        &self,
        climbed: &mut Climbed,
        operands: &mut Rotation<T, D>,
    ) -> Result<(), Failure> {
        let size = climbed.size;
        let (m, n, k) = size.on_host();
        check_room_to_verify(T::DTYPE, (m, n, k))?;
        if self.cpu {
            check_room(cpu::bytes(T::DTYPE, (m, n, k)))?;
        }
        let mut set = operands.first_set()?;
        let (a, b) = (set.a.to_array()?, set.b.to_array()?);
        let misfit = |error: regemm::verify::ShapeError| Failure::Usage(error.to_string());
        let stored = |layout, matrix| match layout {
            Layout::RowMajor => matrix,
            Layout::Transposed => ArrayView2::reversed_axes(matrix),
        };
        let (a, b) = (stored(self.layouts.a, a.view()), stored(self.layouts.b, b.view()));
        let problem = Problem::of_factors(a, b);
        let expectation = Expectation::<T, D>::new(problem, self.seed).map_err(misfit)?;
        check_room(m.checked_mul(n).and_then(|len| len.checked_mul(size_of::<D>())))?;
        let poison = Array2::from_elem((m, n), D::narrow(D::Acc::constant(f64::NAN)));
        for &kernel in &self.kernels {
            go_on()?;
            self.bar.set_message(format!("{size}: {}", kernel.name));
            set.d.copy_from(&poison.view())?;
            let (a, b) = self.factors(set.a, set.b);
            let gemm = Gemm::widening(a, b).kernel(KernelChoice::Info(kernel));
            let report = gemm.run(&mut set.d)?;
            let verification =
                expectation.check(&set.d.view().to_array()?.view()).map_err(misfit)?;
            self.bar.inc(1);
            let counters = report.counters;
            climbed.rungs.push(Rung { kernel, verification, counters, samples: None });
        }
        if self.cpu {
            go_on()?;
            self.bar.set_message(format!("{size}: on the processor"));
            let on_cpu = OnCpu::measure([a, b], &expectation, self.reps).map_err(misfit)?;
            climbed.cpu = Some(on_cpu);
        }
        Ok(())
    }
}

/// Fails where the user has asked to stop.
fn go_on() -> Result<(), Failure> {
    if interrupt::requested() {
        return Err(Failure::Interrupted("interrupted; only what was measured is reported".into()));
    }
    Ok(())
}
