//! `regemm traffic`: what each kernel moves between the memories, and where that places it on the roofline of a GPU.
//!
//! | file | what it holds |
//! |---|---|
//! | `measured.rs` | speeds from a record of measurements |
//! | `tables.rs` | the tables |

mod measured;
mod tables;

use super::exit::{Failure, with_files};
use super::occupancy::cannot_launch;
use super::options::{self, Size};
use super::output::Output;
use super::progress;
use super::save::Destination;
use measured::Measured;
use regemm::kernels::{Problem, Types};
use regemm::occupancy::CannotLaunch;
use regemm::traffic::formula::Formula;
use regemm::traffic::roofline::{Attainable, Placement, Roofs};
use regemm::traffic::{Traffic, compulsory_bytes, count};
use regemm::{Device, DeviceInfo, KernelInfo, Rung, Schedule, gpus};
use regemm_report::pictures;
use regemm_report::roofline::{Point, Roofline};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;

/// Count what each kernel moves through global and shared memory, and place it on the roofline of a GPU
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Size of the product: N for N x N matrices, or MxNxK
    #[arg(long, value_name = "SIZE", default_value = "256")]
    size: Size,
    /// Element types, one kind in a run: `bf16_f32` has results of f32
    #[arg(long = "dtype", value_name = "TYPE", default_value = "f32", value_parser = options::types_of_run())]
    types: Types,
    /// Only these kernels, comma-separated, in this order. The name of a rung, such as tiled, stands for all of its
    /// kernels that have a formula; pipelined_f32 is the one that is called so
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// The GPU whose roofline it is, such as h200 [default: the one measured on, else the first of this machine, else
    /// h200]
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// Only the formulas, without counting: at once, also for sizes that would take the simulator hours
    #[arg(long)]
    formulas: bool,
    /// Put measured speeds beside: a record of the ladder from docs/measurements or `regemm ladder --json`
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// Draw the roofline as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the roofline as PNG
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Replace existing pictures
    #[arg(long)]
    force: bool,
}

const HELP: &str = "\
Counts come from the simulator, also on a machine with a GPU: they are exact and the same everywhere. Beside them \
stands what a formula gives for the kernel's tile sizes. Kernels whose blocks share tiles, and those with warps that \
only copy, have no formula and are left out. Where the two must be equal and are not, the exit code is 1.

The roofline (Williams, Waterman and Patterson, 2009) says what a GPU lets a kernel attain: at most the peak of the units \
that it multiplies with, which is another for tensor cores, and at most what its memories deliver for each operation. \
Caches decide how much really comes from global memory, so there are two answers: as if there were none, and as if they were perfect. The picture shows the first; a kernel whose \
circle is below the roof is held back by shared memory, one that was measured above its circle was helped by the \
caches. Kernels that the GPU cannot launch have no speed.

Examples:
  regemm traffic
  regemm traffic --kernels naive,tiled16,tiled32 --size 512
  regemm traffic --formulas --size 4096 --gpu rtx4090 --svg roofline.svg
  regemm traffic --formulas --size 4096 --measured ladder.json --png roofline.png";

/// The GPU whose roofline is shown where there is no other.
const DEFAULT_GPU: &str = "h200";

/// One kernel.
struct Row {
    kernel: &'static KernelInfo,
    formula: Formula,
    /// None where only formulas are asked for.
    counted: Option<Traffic>,
    placement: Placement,
    /// Why the GPU allows it no speed, if so.
    without_speed: Option<WithoutSpeed>,
    /// Measured speed in operations a second.
    attained: Option<f64>,
}

/// Why there is no roof for a kernel.
enum WithoutSpeed {
    /// The GPU cannot run it.
    CannotLaunch(CannotLaunch),
    /// What the units that it multiplies with can do is not known.
    NoPeak,
}

impl WithoutSpeed {
    fn of(kernel: &KernelInfo, gpu: &DeviceInfo) -> Option<WithoutSpeed> {
        let no_peak = || gpu.peak_flops_of(kernel).is_none().then_some(WithoutSpeed::NoPeak);
        cannot_launch(gpu, kernel).map(WithoutSpeed::CannotLaunch).or_else(no_peak)
    }
}

impl fmt::Display for WithoutSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WithoutSpeed::CannotLaunch(why) => write!(f, "cannot be launched: {why}"),
            WithoutSpeed::NoPeak => {
                f.write_str("the peak of the units it multiplies with is not known")
            }
        }
    }
}

impl Row {
    /// What was counted, or else worked out.
    fn traffic(&self) -> &Traffic {
        self.counted.as_ref().unwrap_or(&self.formula.traffic)
    }

    /// What the GPU allows without caches and with perfect ones, if it runs the kernel.
    fn attainable(&self) -> Option<[Attainable; 2]> {
        let Placement { without_caches, with_perfect_caches, .. } = self.placement;
        self.without_speed.is_none().then_some([without_caches, with_perfect_caches])
    }
}

/// All kernels on one problem and one GPU.
struct Survey {
    problem: Problem,
    size: Size,
    gpu: DeviceInfo,
    roofs: Roofs,
    rows: Vec<Row>,
    /// The name of the device that measured speeds are of.
    measured_on: Option<String>,
    /// Kernels for which there is no formula.
    left_out: Vec<&'static KernelInfo>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let kernels = options::kernels(arguments.types, &arguments.kernels)
        .map_err(|error| options::of_exact(error, "traffic"))?;
    let (kernels, left_out): (Vec<&'static KernelInfo>, Vec<&'static KernelInfo>) =
        kernels.into_iter().partition(|kernel| Formula::exists(kernel));
    let names = &arguments.kernels;
    let asked =
        left_out.iter().find(|kernel| kernels.is_empty() || options::is_named(kernel, names));
    if let Some(kernel) = asked {
        return Err(Failure::Usage(format!(
            "there is no formula for {}, because {}: leave it out",
            kernel.name,
            why_no_formula(kernel)
        )));
    }
    let size = arguments.size;
    let problem = problem(size, arguments.types);
    let measured = match &arguments.measured {
        Some(path) => Some(Measured::load(path, size, arguments.types)?),
        None => None,
    };
    let gpu = gpu(arguments, measured.as_ref())?;
    let roofs = Roofs::of(&gpu, arguments.types.factors).ok_or_else(|| {
        let name = &gpu.name;
        Failure::Usage(format!("the peak or bandwidth of {name} is not known; name one by --gpu"))
    })?;
    let [svg, png] = Destination::each([&arguments.svg, &arguments.png], arguments.force)?;

    if output.is_text() && !arguments.formulas {
        options::announce_counting(size.operations() / 2.0 * kernels.len() as f64);
    }
    let bar = progress::bar(kernels.len() as u64);
    let mut rows = Vec::new();
    for kernel in kernels {
        bar.set_message(kernel.name);
        let Problem { m, n, k, target, .. } = problem;
        let problem =
            Problem { target, ..Problem::packed(kernel.dtype, (m, n, k), kernel.layouts) };
        let formula = Formula::new(kernel, &problem).ok_or_else(|| too_large(size))?;
        let counted = (!arguments.formulas).then(|| count(kernel, &problem)).transpose()?;
        let traffic = counted.as_ref().unwrap_or(&formula.traffic);
        let peak = gpu.peak_flops_of(kernel);
        let placement = roofs.place(peak, traffic, &problem).ok_or_else(|| too_large(size))?;
        let attained = measured.as_ref().and_then(|measured| measured.speed(kernel.name));
        let without_speed = WithoutSpeed::of(kernel, &gpu);
        rows.push(Row { kernel, formula, counted, placement, without_speed, attained });
        bar.inc(1);
    }
    bar.finish_and_clear();

    let measured_on = measured.map(|measured| measured.device().to_owned());
    let survey = Survey { problem, size, gpu, roofs, rows, measured_on, left_out };
    let picture = survey.roofline();
    // What was counted is printed, whether it can be drawn or not.
    let kept = [
        svg.map_or(Ok(()), |svg| svg.save_drawn(pictures::roofline(&picture).svg())),
        png.map_or(Ok(()), |png| png.save_drawn(pictures::roofline(&picture).png())),
    ];
    output.document(&survey.json(&picture))?;
    output.text(tables::text(&survey))?;
    with_files(survey.verdict(), kept.into_iter().collect())
}

/// What the traffic of a kernel without a formula depends on.
fn why_no_formula(kernel: &KernelInfo) -> &'static str {
    if kernel.schedule == Schedule::Tiles {
        "warps that only copy load for it, some of them by hand and some in bulk"
    } else {
        "what it moves depends on the number of blocks that share a tile"
    }
}

fn too_large(size: Size) -> Failure {
    Failure::Usage(format!("a product of {size} moves more than 64 bits can count"))
}

fn problem(Size { m, n, k }: Size, types: Types) -> Problem {
    Problem { target: types.results, ..Problem::new(types.factors, m, n, k) }
}

/// The GPU that is named, or measured on, or here, or else [`DEFAULT_GPU`]. Speeds of one GPU below the roof of another
/// say nothing, so that one that was measured is not replaced unasked.
fn gpu(arguments: &Arguments, measured: Option<&Measured>) -> Result<DeviceInfo, Failure> {
    if let Some(name) = &arguments.gpu {
        return Ok(gpus::find(name)?.info());
    }
    if let Some(gpu) = measured.and_then(|measured| gpus::find(measured.device()).ok()) {
        return Ok(gpu.info());
    }
    let device = Device::auto()?;
    match (measured, &arguments.measured) {
        (Some(measured), Some(path)) if measured.device() != device.info().name => {
            let name = measured.device();
            let known: Vec<&str> = gpus::known().iter().map(|gpu| gpu.id).collect();
            Err(Failure::file(
                path,
                format!(
                    "was measured on {name}, whose peak and bandwidth are not known; name the GPU whose roofline it \
                     is by --gpu, one of {}",
                    known.join(", ")
                ),
            ))
        }
        _ if device.is_sim() => Ok(gpus::find(DEFAULT_GPU)?.info()),
        _ => Ok(device.info().clone()),
    }
}

impl Survey {
    /// How many times less the kernel before a row loads from global memory.
    fn fewer_loads(&self, row: usize) -> Option<f64> {
        let loads = |row: &Row| row.traffic().global_load_bytes as f64;
        Some(loads(&self.rows[row.checked_sub(1)?]) / loads(&self.rows[row]))
    }

    /// The device that was measured, where it is not the one whose roofline it is.
    fn measured_elsewhere(&self) -> Option<&str> {
        let name = self.measured_on.as_deref()?;
        // A name as it was typed may be another one of the same GPU.
        let known = gpus::find(name).map_or(name, |gpu| gpu.name);
        (known != self.gpu.name && name != self.gpu.name).then_some(name)
    }

    /// Bytes of A, B and D.
    fn operand_bytes(&self) -> u64 {
        compulsory_bytes(&self.problem) as u64
    }

    fn roofline(&self) -> Roofline {
        let point = |row: &Row| {
            let [without_caches, _] = row.attainable()?;
            Some(Point {
                name: row.kernel.name.to_owned(),
                intensity: row.placement.global_intensity,
                attained: row.attained,
                attainable: without_caches.flops,
                on_tensor_cores: row.kernel.rung >= Rung::TensorCore,
            })
        };
        let points = self.rows.iter().filter_map(point);
        let elsewhere = self.measured_elsewhere();
        let elsewhere = elsewhere.map_or(String::new(), |name| format!("; measured on {name}"));
        Roofline {
            title: format!(
                "{}, {} {}: attainable without caches{elsewhere}",
                self.gpu.name,
                self.size,
                self.problem.types()
            ),
            peak_flops: self.roofs.peak_flops,
            tensor_peak_flops: self.roofs.tensor_peak_flops,
            bandwidth: self.roofs.bandwidth,
            // Its roof is over another intensity than that of the points; `attainable` takes it into account.
            shared_bandwidth: None,
            points: points.collect(),
        }
    }

    fn json(&self, roofline: &Roofline) -> Value {
        let kernel = |(index, row): (usize, &Row)| {
            let peak = self.gpu.peak_flops_of(row.kernel);
            let [without_caches, with_perfect_caches] =
                row.attainable().map_or([None; 2], |speeds| speeds.map(Some));
            let share = |attainable: Option<Attainable>| Some(attainable?.flops / peak?);
            let mut roofline = json!(row.placement);
            roofline["without_caches"] = json!(without_caches);
            roofline["with_perfect_caches"] = json!(with_perfect_caches);
            json!({
                "kernel": row.kernel.name,
                "rung": row.kernel.rung.name(),
                "counted": row.counted,
                "formula": row.formula.traffic,
                "approximate": row.formula.approximate,
                "agrees": row.counted.map(|counted| !must_differ(row, &counted)),
                "fewer_global_loads": self.fewer_loads(index),
                "roofline": roofline,
                "without_speed": row.without_speed.as_ref().map(WithoutSpeed::to_string),
                "share_of_peak": share(without_caches),
                "share_of_peak_with_perfect_caches": share(with_perfect_caches),
                "attained_flops": row.attained,
            })
        };
        json!({
            "command": "traffic",
            "counted_on": self.rows.iter().any(|row| row.counted.is_some()).then_some("simulator"),
            "m": self.size.m,
            "n": self.size.n,
            "k": self.size.k,
            "dtype": self.problem.types().name(),
            "gpu": self.gpu,
            "measured_on": self.measured_on,
            "roofs": self.roofs,
            "compulsory_bytes": compulsory_bytes(&self.problem),
            "left_out": self.left_out.iter().map(|kernel| kernel.name).collect::<Vec<_>>(),
            "kernels": self.rows.iter().enumerate().map(kernel).collect::<Vec<_>>(),
            "roofline": roofline,
        })
    }

    /// Fails where a formula that is exact says something else than the simulator.
    fn verdict(&self) -> Result<(), Failure> {
        let wrong: Vec<String> = self.rows.iter().filter_map(disagreement).collect();
        if wrong.is_empty() { Ok(()) } else { Err(Failure::Verification(wrong.join("; "))) }
    }
}

fn must_differ(row: &Row, counted: &Traffic) -> bool {
    row.formula.differences(counted).iter().any(|difference| difference.exact)
}

/// Where formula and simulator must be equal and are not, in words.
fn disagreement(row: &Row) -> Option<String> {
    let differences = row.formula.differences(row.counted.as_ref()?);
    let exact = differences.iter().filter(|difference| difference.exact);
    let words: Vec<String> = exact
        .map(|difference| {
            let (quantity, counted) = (difference.quantity, difference.counted);
            format!("{quantity} counted {counted}, formula {}", difference.formula)
        })
        .collect();
    (!words.is_empty()).then(|| format!("{}: {}", row.kernel.name, words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use regemm::Dtype;

    fn row() -> Row {
        let kernel = regemm::kernels::find("naive_f32").unwrap();
        let problem = problem(Size::square(32), Dtype::F32.into());
        let formula = Formula::new(kernel, &problem).unwrap();
        let gpu = gpus::find(DEFAULT_GPU).unwrap().info();
        let roofs = Roofs::of(&gpu, Dtype::F32).unwrap();
        let placement = roofs.place(None, &formula.traffic, &problem).unwrap();
        let counted = Some(formula.traffic);
        Row { kernel, formula, counted, placement, without_speed: None, attained: None }
    }

    #[test]
    fn a_formula_that_should_be_exact_and_is_not_is_a_failure() {
        let mut row = row();
        assert_eq!(disagreement(&row), None);
        row.formula.traffic.fma += 1;
        let words = disagreement(&row).unwrap();
        assert!(words.contains("naive_f32: fma counted 33792, formula 33793"), "{words}");
        row.formula.approximate = Some("fma");
        assert_eq!(disagreement(&row), None);
        row.counted = None;
        row.formula.approximate = None;
        assert_eq!(disagreement(&row), None, "nothing is claimed where nothing was counted");
    }
}
