//! `regemm accuracy`: how far off products are, by precision, data and depth.
//!
//! | file | what it holds |
//! |---|---|
//! | `study.rs` | the study, which `cargo bench --bench accuracy` makes as well |

mod study;

use super::exit::{Failure, with_files};
use super::interrupt;
use super::numbers;
use super::options::{self, DeviceOption, distinct};
use super::output::{Output, table};
use super::progress;
use super::save::Destination;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use regemm::accuracy::{Data, precisions};
use regemm::{Device, Precision};
use regemm_report::accuracy::Record;
use regemm_report::accuracy::tables::CELLS;
use regemm_report::pictures;
use regemm_report::provenance::Provenance;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use study::{Plan, Watch};

/// Measure how far off products of f32 are: error against depth, by precision and kind of data
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Depths K of the products, comma-separated [default: 64 to 65536 on a GPU, 64 to 1024 on the simulator]
    #[arg(long, visible_alias = "depths", value_name = "K", value_delimiter = ',', value_parser = numbers::extent)]
    sizes: Vec<NonZeroUsize>,
    /// Rows and columns of D; of one of them where the other is given alone [default: 256 on a GPU, 32 on the
    /// simulator]
    #[arg(long, value_name = "N", value_parser = numbers::extent)]
    size: Option<NonZeroUsize>,
    /// Rows of D
    #[arg(long, value_name = "M", value_parser = numbers::extent)]
    rows: Option<NonZeroUsize>,
    /// Columns of D
    #[arg(long, value_name = "N", value_parser = numbers::extent)]
    cols: Option<NonZeroUsize>,
    /// What A and B hold, comma-separated
    #[arg(
        long,
        value_name = "KIND",
        value_delimiter = ',',
        value_parser = data(),
        default_value = "normal,uniform,wide"
    )]
    data: Vec<Data>,
    /// These precisions, comma-separated, in this order [default: exact, split, tf32 and fast]; auto is one of the
    /// first two, as the data are
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = options::precision_of_f32())]
    precisions: Vec<Precision>,
    #[command(flatten)]
    device: DeviceOption,
    /// Seed of the random operands
    #[arg(long, default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
    /// Write the record as JSON to this file, for `regemm report`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the curves as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the curves as PNG
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

const HELP: &str = "\
Two errors against double precision: in norm, ||D - AB|| / ||AB||, and the largest |D - AB| / (|A||B|) of an element. \
A and B hold normal numbers (sums cancel), uniform ones in [0, 1) (nothing cancels), or normal ones spread over 16 \
powers of two. Every result is verified against the bound of its precision; a wrong one is named, has no error, and \
the exit code is 1. Precisions that the device cannot compute in are left out, and it says so. The simulator adds as \
tensor cores do. Ctrl-C keeps what was measured. `cargo bench --bench accuracy` puts the vendor's library beside.

Examples:
  regemm accuracy
  regemm accuracy --sizes 64,256,1024,4096 --size 128 --svg accuracy.svg
  regemm accuracy --device sim --data wide --precisions exact,split --output accuracy.json";

/// What is computed if nothing is named.
const GPU_DEPTHS: [usize; 6] = [64, 256, 1024, 4096, 16384, 65536];
const SIMULATOR_DEPTHS: [usize; 5] = [64, 128, 256, 512, 1024];
const GPU_SIZE: usize = 256;
const SIMULATOR_SIZE: usize = 32;

/// Runs the subcommand.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.size.and(arguments.rows).and(arguments.cols).is_some() {
        let why = "--size would have no effect beside both --rows and --cols: leave one out";
        return Err(Failure::Usage(why.to_owned()));
    }
    let files = [&arguments.output, &arguments.svg, &arguments.png];
    let [json, svg, png] = Destination::each(files, arguments.force)?;
    let device = Device::open(arguments.device.device)?;
    let info = device.info();
    let provenance = Provenance::gather(&info.name, info.multiprocessors, info.compute_capability);
    let plan = arguments.plan(device.is_sim());
    if output.is_text() {
        arguments.device.announce_simulator(&device, multiply_adds(&plan));
    }
    let bar = progress::bar(plan.trials());
    interrupt::stop_by_request();
    let made = study::run(&plan, &device, provenance, &[], &mut Progress(&bar));
    bar.finish_and_clear();
    let (record, ended) = match made {
        Ok(record) => (record, Ok(())),
        Err(cut) => (*cut.record, Err(cut.why)),
    };
    let is_empty = record.points.is_empty() && record.wrong.is_empty();
    let ended = ended.map_err(|why| match (why, &arguments.output) {
        (Some(error), _) => error.into(),
        (None, _) if is_empty => {
            Failure::Interrupted("interrupted; nothing was measured yet".into())
        }
        (None, Some(path)) => {
            let path = path.display();
            Failure::Interrupted(format!("interrupted; what was measured is in {path}"))
        }
        (None, None) => {
            Failure::Interrupted("interrupted; only what was measured is reported".into())
        }
    });
    if is_empty && ended.is_err() {
        return ended;
    }

    // What was measured is printed, whether it can be kept or not.
    let kept = [
        json.map_or(Ok(()), |json| json.save_json(&record)),
        svg.map_or(Ok(()), |svg| svg.save_drawn(pictures::accuracy(&record).svg())),
        png.map_or(Ok(()), |png| png.save_drawn(pictures::accuracy(&record).png())),
    ];
    output.document(&record)?;
    print(&record, output)?;
    let right = match &record.wrong[..] {
        [] => Ok(()),
        wrong => Err(Failure::Verification(wrong.join("; "))),
    };
    with_files(ended.and(right), kept.into_iter().collect())
}

/// Shows what comes next, and hears whether the user wants it to.
struct Progress<'a>(&'a ProgressBar);

impl Watch for Progress<'_> {
    fn next(&mut self, product: String) {
        self.0.set_message(product);
        self.0.inc(1);
    }

    fn stops(&self) -> bool {
        interrupt::requested()
    }
}

impl Arguments {
    fn plan(&self, on_simulator: bool) -> Plan {
        let (depths, size): (&[usize], _) = if on_simulator {
            (&SIMULATOR_DEPTHS, SIMULATOR_SIZE)
        } else {
            (&GPU_DEPTHS, GPU_SIZE)
        };
        let extent = |own: Option<NonZeroUsize>| own.or(self.size).map_or(size, NonZeroUsize::get);
        Plan {
            rows: extent(self.rows),
            cols: extent(self.cols),
            depths: match &self.sizes[..] {
                [] => depths.to_vec(),
                given => distinct(given.iter().copied().map(NonZeroUsize::get)),
            },
            data: distinct(self.data.iter().copied()),
            precisions: match &self.precisions[..] {
                [] => precisions().collect(),
                given => distinct(given.iter().copied()),
            },
            seed: self.seed,
        }
    }
}

/// Those of all products in all precisions.
fn multiply_adds(plan: &Plan) -> f64 {
    let depths: f64 = plan.depths.iter().map(|&depth| depth as f64).sum();
    let area = plan.rows as f64 * plan.cols as f64;
    area * depths * (plan.data.len() * plan.precisions.len()) as f64
}

/// Reads a kind of data by name.
fn data() -> impl TypedValueParser<Value = Data> {
    PossibleValuesParser::new(Data::ALL.map(Data::name))
        .map(|name| Data::ALL.into_iter().find(|data| data.name() == name).unwrap_or(Data::Normal))
}

fn print(record: &Record, output: &mut Output) -> Result<(), Failure> {
    output.text(format_args!("{}, {}\n{CELLS}", record.provenance.device, record.subject()))?;
    for part in record.tables() {
        let heading: Vec<&str> = part.heading.iter().map(String::as_str).collect();
        output.text(format_args!("\n{}\n{}", part.title, table(&heading, part.rows)))?;
    }
    record.remarks().into_iter().try_for_each(|remark| output.text(remark))
}

#[cfg(test)]
mod tests {
    use super::study::{Other, Plan, run};
    use regemm::accuracy::Data;
    use regemm::{Device, Matrix, Precision};
    use regemm_report::provenance::Provenance;

    #[test]
    fn others_compute_the_same_products_and_may_fail() {
        let plan = Plan {
            rows: 3,
            cols: 4,
            depths: vec![1, 6],
            data: vec![Data::Wide, Data::Normal],
            precisions: vec![Precision::Exact],
            seed: 1,
        };
        let naive = |a: &Matrix<f32>, b: &Matrix<f32>, d: &mut Matrix<f32>| {
            let (on_host_a, on_host_b) = (a.to_array().unwrap(), b.to_array().unwrap());
            let product = on_host_a.dot(&on_host_b);
            d.copy_from(&product.view()).map_err(|error| error.to_string())
        };
        let lazy = |_: &Matrix<f32>, _: &Matrix<f32>, _: &mut Matrix<f32>| Ok(());
        let unable = |_: &Matrix<f32>, _: &Matrix<f32>, _: &mut Matrix<f32>| Err("no".to_owned());
        let others: [Other<'_>; 3] = [("naive", &naive), ("lazy", &lazy), ("unable", &unable)];
        let mut steps = Vec::new();
        let provenance = Provenance::gather("simulator", 1, None);
        let record =
            run(&plan, &Device::sim(), provenance, &others, &mut |step: String| steps.push(step))
                .unwrap();
        assert_eq!(steps, ["wide, K = 1", "wide, K = 6", "normal, K = 1", "normal, K = 6"]);
        assert_eq!((record.wrong.len(), record.modes()), (0, vec!["exact", "naive"]));
        assert_eq!(record.points.len(), 8);
        for point in &record.points {
            assert!(point.in_norm > 0.0 && point.in_norm < 1e-6, "{point:?}");
            assert_eq!(point.kernel.is_some(), point.mode == "exact");
        }
        let missing: Vec<_> = record.missing.iter().map(|missing| missing.mode.as_str()).collect();
        assert_eq!(missing, ["lazy", "unable"]);
    }
}
