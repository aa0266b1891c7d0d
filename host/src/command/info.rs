//! `regemm info`: devices, limits and kernels.

use super::exit::Failure;
use super::left_out::{self, unsupported};
use super::options::{self, DeviceOption};
use super::output::{Output, bytes, count, many, or_dash, table};
use super::progress;
use regemm::gpus::{self, Gpu};
use regemm::kernels::{Types, base_name, family_name};
use regemm::occupancy::compiled;
use regemm::{
    Device, DeviceInfo, DeviceSpec, Dtype, Error, KernelInfo, KernelReport, Rung, kernels,
};
use serde_json::{Value, json};

/// Show the devices with their limits, how many kernels there are, and what those of some types or names take
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// List the kernels of these element types, comma-separated: `bf16_f32` has results of f32
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = options::types())]
    dtype: Vec<Types>,
    /// List these kernels, comma-separated, in all layouts where a name has none. The name of a rung, such as tiled,
    /// stands for all of its kernels; pipelined_f32 is the one that is called so
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    #[command(flatten)]
    device: DeviceOption,
}

const HELP: &str = "\
Without --dtype and --kernels there is a table of how many kernels there are; --json has them all. Of kernels that are \
listed registers, local memory and resident blocks come from the driver, which compiles each kernel for the GPU; the \
simulator does not know them. --device says for which device kernels are described. What cannot run there is listed \
too, with the reasons below.

Examples:
  regemm info
  regemm info --dtype f16,f16_f32 --kernels warpgroup,tensor_core
  regemm info --device cuda:1 --json";

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let kernels = arguments.select()?;
    let (gpus, without_gpu) = match Device::cuda_devices() {
        Ok(0) => (0, Some("the driver finds no GPU".to_owned())),
        Ok(gpus) => (gpus, None),
        Err(error @ Error::NoDriver { .. }) => (0, Some(error.to_string())),
        // Somebody wants to know of the simulator, whatever is wrong with GPUs.
        Err(error) if arguments.device.device == DeviceSpec::Sim => (0, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let selected = Device::open(arguments.device.device)?;
    // One that others keep, or that has failed, is no reason to be silent about the rest.
    let mut devices: Vec<(DeviceSpec, Result<Device, Error>)> =
        (0..gpus).map(|gpu| (DeviceSpec::Cuda(gpu), Device::cuda(gpu))).collect();
    devices.push((DeviceSpec::Sim, Ok(Device::sim())));

    let is_listed =
        !output.is_text() || !arguments.dtype.is_empty() || !arguments.kernels.is_empty();
    let spinner = progress::spinner("compiling kernels");
    let listed = if is_listed { &kernels[..] } else { &[] };
    let reports = listed
        .iter()
        .map(|&kernel| Ok((kernel, report(&selected, kernel)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    spinner.finish_and_clear();

    output.document(&json!({
        "command": "info",
        "version": env!("CARGO_PKG_VERSION"),
        "devices": devices.iter().map(|(spec, device)| device_json(*spec, device)).collect::<Vec<_>>(),
        "without_gpu": without_gpu,
        "kernels_on": selected.spec().to_string(),
        "kernels": reports.iter().map(|(kernel, outcome)| kernel_json(kernel, outcome)).collect::<Vec<_>>(),
    }))?;
    output.text(format_args!("regemm {}", env!("CARGO_PKG_VERSION")))?;
    for (spec, device) in &devices {
        match device {
            Ok(device) => output.text(format_args!("\n{spec}: {}", describe(device.info())))?,
            Err(error) => output.text(format_args!("\n{spec}: cannot be opened: {error}"))?,
        }
    }
    if let Some(why) = without_gpu {
        output.text(format_args!("\nNo GPU: {why}"))?;
    }
    output.text(format_args!("\nKernels on {}", selected.spec()))?;
    if !is_listed {
        return summarise(&kernels, &selected, output);
    }
    let rows = reports.iter().map(|(kernel, outcome)| row(kernel, outcome));
    output.text(table(&HEADING, rows))?;
    left_out::reasons(reports.iter().filter_map(|(_, outcome)| outcome.as_ref().err()))
        .into_iter()
        .try_for_each(|why| output.text(why))
}

/// How many kernels there are of each rung and element types, of those that the device runs, and why not of all.
fn summarise(
    kernels: &[&'static KernelInfo],
    device: &Device,
    output: &mut Output,
) -> Result<(), Failure> {
    // Those of precisions besides exact belong to no rung of the ladder.
    let is_exact = |kernel: &KernelInfo| kernels::find(kernel.name).is_ok();
    let (mut running, mut refusals) = (Vec::new(), Vec::new());
    for &kernel in kernels {
        match unsupported(kernel, device) {
            None => running.push((is_exact(kernel).then_some(kernel.rung), Types::of(kernel))),
            Some(why) => refusals.push(why),
        }
    }
    let heading: Vec<&str> = ["rung"].into_iter().chain(Types::ALL.map(Types::name)).collect();
    let rungs = Rung::ALL.map(Some).into_iter().chain([None]);
    let rows = rungs.map(|rung| {
        let name = rung.map_or("other precisions than exact", Rung::name).to_owned();
        let number = |types| running.iter().filter(|&&kernel| kernel == (rung, types)).count();
        let cell = |number| or_dash((number > 0).then_some(number));
        [name].into_iter().chain(Types::ALL.map(number).map(cell)).collect()
    });
    output.text(table(&heading, rows))?;
    left_out::reasons(&refusals).into_iter().try_for_each(|why| output.text(why))?;
    let all = many(kernels.len() as u64, "kernel");
    let number = match refusals.len() {
        0 => format!("{all} in all"),
        _ => format!("{} of {all} run here", count(running.len() as u64)),
    };
    output.text(format_args!(
        "{number}, each in one of four layouts. `regemm info --dtype f32` or `--kernels tiled` lists some with what they \
         take of the device."
    ))
}

impl Arguments {
    /// The kernels that are asked for. A name that fits none is an error.
    fn select(&self) -> Result<Vec<&'static KernelInfo>, Failure> {
        let has_types =
            |kernel: &KernelInfo| self.dtype.is_empty() || self.dtype.contains(&Types::of(kernel));
        let is_named = |kernel: &KernelInfo, name: &str| {
            // Those of precisions besides exact belong to no rung of the ladder.
            let is_of_rung = kernel.rung.name() == name && kernels::find(kernel.name).is_ok();
            is_of_rung || [kernel.name, base_name(kernel), family_name(kernel)].contains(&name)
        };
        for name in &self.kernels {
            let mut named =
                kernels::of_all_precisions().filter(|kernel| is_named(kernel, name)).peekable();
            if named.peek().is_none() {
                kernels::find(name)?;
            } else if !named.any(has_types) {
                let types: Vec<_> = self.dtype.iter().map(|types| types.name()).collect();
                let types = types.join(", ");
                return Err(Failure::Usage(format!("there is no kernel `{name}` for {types}")));
            }
        }
        let is_asked = |kernel: &&KernelInfo| {
            has_types(kernel)
                && (self.kernels.is_empty()
                    || self.kernels.iter().any(|name| is_named(kernel, name)))
        };
        Ok(kernels::of_all_precisions().filter(is_asked).collect())
    }
}

/// What a kernel takes of the device, or why it cannot run there.
type Outcome = Result<KernelReport, Error>;

/// The outcome; a failure of the device is not about the kernel, and an error.
fn report(device: &Device, kernel: &KernelInfo) -> Result<Outcome, Error> {
    match device.kernel_report(kernel) {
        Ok(report) => Ok(Ok(report)),
        Err(why) if why.is_misfit() => Ok(Err(why)),
        Err(error) => Err(error),
    }
}

fn device_json(spec: DeviceSpec, device: &Result<Device, Error>) -> Value {
    let device = match device {
        Ok(device) => device,
        Err(error) => {
            return json!({ "device": spec.to_string(), "cannot_be_opened": error.to_string() });
        }
    };
    let mut object = json!(device.info());
    object["device"] = spec.to_string().into();
    let peaks =
        Dtype::ALL.map(|dtype| (dtype.name().to_owned(), json!(device.info().peak_flops(dtype))));
    object["peak_flops"] = Value::Object(peaks.into_iter().collect());
    let peaks = Dtype::ALL
        .map(|dtype| (dtype.name().to_owned(), json!(device.info().tensor_peak_flops(dtype))));
    object["tensor_peak_flops"] = Value::Object(peaks.into_iter().collect());
    object
}

fn kernel_json(kernel: &KernelInfo, outcome: &Outcome) -> Value {
    let tile = kernel.tile;
    json!({
        "name": kernel.name,
        "rung": kernel.rung.name(),
        "dtype": kernel.dtype.name(),
        "target": kernel.target.name(),
        "layouts": kernel.layouts.name(),
        "tile": {
            "bm": tile.bm, "bn": tile.bn, "bk": tile.bk,
            "tm": tile.tm, "tn": tile.tn, "stages": tile.stages,
        },
        "threads": kernel.threads(),
        "producers": kernel.producers,
        "depth_groups": kernel.depth_groups,
        "turns": kernel.turns,
        "cluster": kernel.cluster,
        "cluster_cols": kernel.cluster_cols,
        "report": outcome.as_ref().ok(),
        "cannot_run": outcome.as_ref().err().map(Error::to_string),
    })
}

/// A device and its limits, a line for each.
fn describe(info: &DeviceInfo) -> String {
    let mut lines = vec![info.name.clone()];
    if let (Some((major, minor)), Some((cuda, cuda_minor))) =
        (info.compute_capability, info.driver_version)
    {
        lines.push(format!(
            "compute capability {major}.{minor}, driver for CUDA {cuda}.{cuda_minor}"
        ));
    }
    let clock = info.clock_khz.map(|clock| format!(" at up to {} MHz", clock / 1000));
    lines.push(format!("{} multiprocessors{}", info.multiprocessors, clock.unwrap_or_default()));
    let l2 = info.l2_bytes.map(|l2| format!(", L2 cache {}", bytes(l2)));
    lines.push(format!("memory {}{}", bytes(info.memory_bytes), l2.unwrap_or_default()));
    lines.push(format!(
        "a block: {} threads, {} shared memory",
        count(info.max_threads_per_block.into()),
        bytes(info.shared_bytes_per_block.into())
    ));
    lines.push(format!(
        "a multiprocessor: {} threads, {} blocks, {} registers, {} shared memory",
        count(info.max_threads_per_multiprocessor.into()),
        info.max_blocks_per_multiprocessor,
        count(info.registers_per_multiprocessor.into()),
        bytes(info.shared_bytes_per_multiprocessor.into())
    ));
    let peaks = |peaks: &[(&str, Option<f64>)]| {
        let known = peaks.iter().filter_map(|&(name, peak)| Some((name, peak? / 1e12)));
        known.map(|(name, peak)| format!("{name} {peak:.1} TFLOP/s")).collect::<Vec<_>>().join(", ")
    };
    let plain = [Dtype::F32, Dtype::F64].map(|dtype| (dtype.name(), info.peak_flops(dtype)));
    let of_tensor_cores = [("f16 and bf16", Dtype::F16), ("tf32", Dtype::F32), ("f64", Dtype::F64)];
    let of_tensor_cores =
        of_tensor_cores.map(|(name, dtype)| (name, info.tensor_peak_flops(dtype)));
    for (units, peaks) in [
        ("outside the tensor cores", peaks(&plain)),
        ("of the tensor cores", peaks(&of_tensor_cores)),
    ] {
        if !peaks.is_empty() {
            lines.push(format!("peak {units}: {peaks}"));
        }
    }
    lines.join("\n  ")
}

const HEADING: [&str; 9] = [
    "kernel",
    "layouts",
    "block tile",
    "thread tile",
    "threads",
    "shared memory",
    "registers",
    "local memory",
    "resident blocks",
];

/// The threads of a block, and what it has to do with other blocks and tiles.
fn threads(kernel: &KernelInfo) -> String {
    let mut text = kernel.threads().to_string();
    if kernel.turns > 1 {
        text += &format!(", {} tiles in turns", kernel.turns);
    }
    if kernel.cluster > 1 {
        let abreast = if kernel.cluster_cols > 1 { " abreast" } else { "" };
        text += &format!(", clusters of {}{abreast}", kernel.cluster);
    }
    text
}

/// Bytes of shared memory that a kernel declares, as they were recorded for the first architecture that it is compiled
/// for.
fn declared(kernel: &KernelInfo) -> Option<u32> {
    let recorded = |gpu: &Gpu| compiled(kernel.entry.name, gpu.capability);
    Some(gpus::known().iter().find_map(recorded)?.static_shared_bytes)
}

fn row(kernel: &KernelInfo, outcome: &Outcome) -> Vec<String> {
    let tile = kernel.tile;
    let report = outcome.as_ref().ok();
    // Shared memory declared in the kernel is only known once it is compiled; the simulator compiles nothing.
    let dynamic = report.map_or(kernel.shared_bytes, |report| report.dynamic_shared_bytes);
    let shared =
        match report.and_then(|report| report.static_shared_bytes).or_else(|| declared(kernel)) {
            Some(declared) => Some(declared + dynamic),
            None if dynamic == 0 && tile.stages > 0 => None,
            None => Some(dynamic),
        };
    vec![
        kernel.name.to_owned(),
        kernel.layouts.name().to_owned(),
        format!("{} x {} x {}", tile.bm, tile.bn, tile.bk),
        format!("{} x {}", tile.tm, tile.tn),
        threads(kernel),
        or_dash(shared.map(|shared| bytes(shared.into()))),
        or_dash(report.and_then(|report| report.registers)),
        or_dash(report.and_then(|report| report.local_bytes).map(|local| bytes(local.into()))),
        match report {
            Some(report) => or_dash(report.resident_blocks),
            None => "cannot run here".to_owned(),
        },
    ]
}
