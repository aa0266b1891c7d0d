//! `regemm info`: devices, limits and kernels.

use super::exit::Failure;
use super::options::DeviceOption;
use super::output::{Output, bytes, count, or_dash, table};
use super::progress;
use regemm::{Device, DeviceInfo, Dtype, Error, KernelInfo, KernelReport, kernels};
use serde_json::{Value, json};

/// Show the devices with their limits, and the kernels with what they take of a device
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[command(flatten)]
    device: DeviceOption,
}

const HELP: &str = "\
Registers, local memory and resident blocks come from the driver, which compiles each kernel for the GPU; the \
simulator does not know them. --device says for which device kernels are described.

Examples:
  regemm info
  regemm info --device cuda:1 --json";

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (gpus, without_gpu) = match Device::cuda_devices() {
        Ok(0) => (0, Some("the driver finds no GPU".to_owned())),
        Ok(gpus) => (gpus, None),
        Err(error @ Error::NoDriver { .. }) => (0, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let selected = Device::open(arguments.device.device)?;
    let mut devices = (0..gpus).map(Device::cuda).collect::<Result<Vec<_>, _>>()?;
    devices.push(Device::sim());

    let spinner = progress::spinner("compiling kernels");
    let reports = kernels::of_all_precisions()
        .map(|kernel| Ok((kernel, selected.kernel_report(kernel)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    spinner.finish_and_clear();

    output.document(&json!({
        "command": "info",
        "version": env!("CARGO_PKG_VERSION"),
        "devices": devices.iter().map(device_json).collect::<Vec<_>>(),
        "without_gpu": without_gpu,
        "kernels_on": selected.spec().to_string(),
        "kernels": reports.iter().map(|(kernel, report)| kernel_json(kernel, report)).collect::<Vec<_>>(),
    }))?;
    output.text(format_args!("regemm {}", env!("CARGO_PKG_VERSION")))?;
    for device in &devices {
        output.text(format_args!("\n{}: {}", device.spec(), describe(device.info())))?;
    }
    if let Some(why) = without_gpu {
        output.text(format_args!("\nNo GPU: {why}"))?;
    }
    output.text(format_args!("\nKernels on {}", selected.spec()))?;
    let rows = reports.iter().map(|(kernel, report)| row(kernel, report));
    output.text(table(&HEADING, rows))
}

fn device_json(device: &Device) -> Value {
    let mut object = json!(device.info());
    object["device"] = device.spec().to_string().into();
    let peaks =
        Dtype::ALL.map(|dtype| (dtype.name().to_owned(), json!(device.info().peak_flops(dtype))));
    object["peak_flops"] = Value::Object(peaks.into_iter().collect());
    object
}

fn kernel_json(kernel: &KernelInfo, report: &KernelReport) -> Value {
    let tile = kernel.tile;
    json!({
        "name": kernel.name,
        "rung": kernel.rung.name(),
        "dtype": kernel.dtype.name(),
        "target": kernel.target.name(),
        "tile": {
            "bm": tile.bm, "bn": tile.bn, "bk": tile.bk,
            "tm": tile.tm, "tn": tile.tn, "stages": tile.stages,
        },
        "threads": kernel.threads(),
        "cluster": kernel.cluster,
        "cluster_cols": kernel.cluster_cols,
        "report": report,
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
    let peaks: Vec<String> = [Dtype::F32, Dtype::F64]
        .into_iter()
        .filter_map(|dtype| Some((dtype, info.peak_flops(dtype)?)))
        .map(|(dtype, peak)| format!("{dtype} {:.1} TFLOP/s", peak / 1e12))
        .collect();
    if !peaks.is_empty() {
        lines.push(format!("peak outside the tensor cores: {}", peaks.join(", ")));
    }
    lines.join("\n  ")
}

const HEADING: [&str; 8] = [
    "kernel",
    "block tile",
    "thread tile",
    "threads",
    "shared memory",
    "registers",
    "local memory",
    "resident blocks",
];

fn row(kernel: &KernelInfo, report: &KernelReport) -> Vec<String> {
    let tile = kernel.tile;
    // Shared memory declared in the kernel is only known once it is compiled.
    let shared = match report.static_shared_bytes {
        Some(declared) => Some(declared + report.dynamic_shared_bytes),
        None if report.dynamic_shared_bytes == 0 && tile.stages > 0 => None,
        None => Some(report.dynamic_shared_bytes),
    };
    vec![
        kernel.name.to_owned(),
        format!("{} x {} x {}", tile.bm, tile.bn, tile.bk),
        format!("{} x {}", tile.tm, tile.tn),
        match kernel.cluster {
            1 => kernel.threads().to_string(),
            blocks if kernel.cluster_cols > 1 => {
                format!("{}, clusters of {blocks} abreast", kernel.threads())
            }
            blocks => format!("{}, clusters of {blocks}", kernel.threads()),
        },
        or_dash(shared.map(|shared| bytes(shared.into()))),
        or_dash(report.registers),
        or_dash(report.local_bytes.map(|local| bytes(local.into()))),
        or_dash(report.resident_blocks),
    ]
}
