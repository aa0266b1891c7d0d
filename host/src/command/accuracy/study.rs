//! An error study: every mode on the same operands, for all kinds of data and all depths.

use regemm::accuracy::{Data, Trial, is_unavailable};
use regemm::verify::Errors;
use regemm::{Device, Dtype, Error, Matrix, Precision, Result};
use regemm_report::accuracy::{self, Point, Record};
use regemm_report::provenance::Provenance;
use std::fmt;
use std::ops::ControlFlow;

/// What is computed.
pub struct Plan {
    /// Rows of D.
    pub rows: usize,
    /// Columns of D.
    pub cols: usize,
    /// Depths of the products.
    pub depths: Vec<usize>,
    /// What A and B hold.
    pub data: Vec<Data>,
    /// Precisions of this library.
    pub precisions: Vec<Precision>,
    /// Seed of the operands.
    pub seed: u64,
}

/// Somebody else's mode: its name, and what computes D of packed row-major A and B. Without success the mode is left
/// out.
pub type Other<'a> =
    (&'a str, &'a dyn Fn(&Matrix<f32>, &Matrix<f32>, &mut Matrix<f32>) -> Computed);

/// Whether somebody else has computed a product; else why not, in words.
pub type Computed = std::result::Result<(), String>;

impl Plan {
    /// How many products there are; each is computed in all modes.
    pub fn trials(&self) -> u64 {
        (self.data.len() * self.depths.len()) as u64
    }

    fn record(&self, provenance: Provenance) -> Record {
        let data = |data: &Data| accuracy::Data {
            name: data.name().to_owned(),
            description: data.description().to_owned(),
        };
        Record {
            command: accuracy::COMMAND.to_owned(),
            provenance,
            dtype: Dtype::F32.name().to_owned(),
            rows: self.rows,
            cols: self.cols,
            seed: self.seed,
            libraries: Vec::new(),
            missing: Vec::new(),
            wrong: Vec::new(),
            data: self.data.iter().map(data).collect(),
            points: Vec::new(),
            stopped: None,
        }
    }
}

/// Who follows a study: a function that is told what comes next, or somebody who may end it as well.
pub trait Watch {
    /// The product that is computed next, in all modes.
    fn next(&mut self, product: String);

    /// Whether to stop; asked before each mode.
    fn stops(&self) -> bool {
        false
    }
}

impl<F: FnMut(String)> Watch for F {
    fn next(&mut self, product: String) {
        self(product);
    }
}

/// A study that has ended before all was measured.
#[derive(Debug)]
pub struct Cut {
    /// What was measured until then.
    pub record: Box<Record>,
    /// The failure; none where somebody has asked to stop.
    pub why: Option<Error>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{why} (after {} points)", self.record.points.len()),
            None => write!(f, "interrupted after {} points", self.record.points.len()),
        }
    }
}

impl std::error::Error for Cut {}

/// Makes a study.
///
/// # Errors
/// A failure of the device, or that the study was asked to stop, with what was measured until then. What the device
/// cannot do, and what is wrong, is in the record.
pub fn run(
    plan: &Plan,
    device: &Device,
    provenance: Provenance,
    others: &[Other<'_>],
    watch: &mut dyn Watch,
) -> std::result::Result<Record, Cut> {
    let mut record = plan.record(provenance);
    let why = match pursue(&mut record, plan, device, others, watch) {
        Ok(ControlFlow::Continue(())) => return Ok(record),
        Ok(ControlFlow::Break(())) => None,
        Err(error) => Some(error),
    };
    record.stopped = Some(why.as_ref().map_or("interrupted".to_owned(), Error::to_string));
    Err(Cut { record: Box::new(record), why })
}

fn pursue(
    record: &mut Record,
    plan: &Plan,
    device: &Device,
    others: &[Other<'_>],
    watch: &mut dyn Watch,
) -> Result<ControlFlow<()>> {
    for &data in &plan.data {
        for &k in &plan.depths {
            watch.next(format!("{}, K = {k}", data.name()));
            let mut trial = Trial::new(device, data, (plan.rows, plan.cols, k), plan.seed)?;
            let place = Place { data, k };
            for &precision in &plan.precisions {
                if watch.stops() {
                    return Ok(ControlFlow::Break(()));
                }
                own(record, &mut trial, place, precision)?;
            }
            for other in others {
                if watch.stops() {
                    return Ok(ControlFlow::Break(()));
                }
                foreign(record, &mut trial, place, other)?;
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Where in a study a product stands.
#[derive(Clone, Copy)]
struct Place {
    data: Data,
    k: usize,
}

impl Place {
    fn point(self, mode: &str, kernel: Option<&str>, errors: Errors) -> Point {
        Point {
            data: self.data.name().to_owned(),
            k: self.k,
            mode: mode.to_owned(),
            kernel: kernel.map(str::to_owned),
            in_norm: errors.in_norm,
            componentwise: errors.componentwise,
        }
    }
}

fn own(record: &mut Record, trial: &mut Trial, place: Place, precision: Precision) -> Result<()> {
    let mode = precision.name();
    if record.is_left_out(mode) {
        return Ok(());
    }
    match trial.in_precision(precision) {
        Ok(measured) if measured.comparison.pass() => {
            record.points.push(place.point(mode, Some(measured.kernel), measured.errors));
        }
        Ok(measured) => {
            let worst = measured.comparison.worst.map(|worst| worst.to_string());
            let (data, k, kernel) = (place.data.name(), place.k, measured.kernel);
            record.wrong.push(format!(
                "{mode} ({kernel}) on {data}, K = {k}: {}",
                worst.unwrap_or_else(|| "no element can be judged".to_owned())
            ));
        }
        // What every GPU can compute in cannot be left out: there would be nothing left.
        Err(error) if is_unavailable(&error) && precision != Precision::Exact => {
            record.leave_out(mode, error.to_string())
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Somebody else's results are not ours to judge, but what is no number has no place in a picture.
fn foreign(
    record: &mut Record,
    trial: &mut Trial,
    place: Place,
    &(mode, compute): &Other<'_>,
) -> Result<()> {
    if record.is_left_out(mode) {
        return Ok(());
    }
    let (computed, errors) = trial.measure(|a, b, d| Ok(compute(a, b, d)))?;
    match computed {
        Ok(()) if errors.in_norm.is_finite() && errors.componentwise.is_finite() => {
            record.points.push(place.point(mode, None, errors));
        }
        Ok(()) => record.leave_out(mode, "its result holds what is no number"),
        Err(why) => record.leave_out(mode, why),
    }
    Ok(())
}
