//! Measuring many shapes.

use super::super::exit::Failure;
use super::super::interrupt;
use super::super::output::seconds;
use indicatif::ProgressBar;
use regemm::kernels::Types;
use regemm::tuning::measure::{Meter, entry};
use regemm::tuning::{Entry, Shape, Table};
use regemm::{Device, Element, Error, Layouts, Yields};
use std::num::NonZeroUsize;

/// Runs of each kernel at least: what the slow ones take decides how long a shape takes. One whose results are
/// compared, one to warm up, and one that is measured.
const RUNS: f64 = 3.0;

/// Shapes that are expected to take longer than this, in seconds, are left out unless they were asked for by name.
const PATIENCE: f64 = 15.0;

/// How shapes are measured.
pub struct Campaign<'a> {
    pub device: &'a Device,
    pub reps: NonZeroUsize,
    pub seed: u64,
    /// Measure shapes however long they take, and fail where there is no memory for one.
    pub patient: bool,
    pub bar: ProgressBar,
}

/// What was measured for factors and results of some types, in some layouts.
pub struct Tables {
    pub table: Table,
    /// Shapes that were left out, and why.
    pub skipped: Vec<(Shape, String)>,
}

/// What became of a campaign.
pub struct Outcome {
    pub tables: Tables,
    pub flow: Flow,
}

/// How measuring ended.
pub enum Flow {
    Complete,
    Interrupted,
    Failed(Failure),
}

impl Campaign<'_> {
    /// Measures shapes until the last one, an interruption or a failure of the device. What was measured until then is
    /// kept.
    pub fn run<T, D>(&self, layouts: Layouts, shapes: &[Shape]) -> Outcome
    where
        T: Element + Yields<D>,
        D: Element<Acc = T::Acc>,
    {
        let types = Types { factors: T::DTYPE, results: D::DTYPE };
        let mut tables = Tables { table: Table::in_layouts(types, layouts), skipped: Vec::new() };
        let flow = match self.measure::<T, D>(shapes, &mut tables) {
            Ok(flow) => flow,
            Err(error) => Flow::Failed(error.into()),
        };
        Outcome { tables, flow }
    }

    fn measure<T, D>(&self, shapes: &[Shape], tables: &mut Tables) -> Result<Flow, Error>
    where
        T: Element + Yields<D>,
        D: Element<Acc = T::Acc>,
    {
        let (types, layouts) = (tables.table.types(), tables.table.layouts());
        let mut meter = Meter::<T, D>::new(self.device, self.reps, self.seed)?;
        let mut last: Option<Entry> = None;
        for &shape in shapes {
            if interrupt::requested() {
                return Ok(Flow::Interrupted);
            }
            self.bar.set_message(format!("{types} {layouts} {shape}"));
            self.bar.inc(1);
            let expected = last.as_ref().map_or(0.0, |last| expected_seconds(last, shape));
            if !self.patient && expected > PATIENCE {
                tables.skipped.push((shape, format!("it would take about {}", seconds(expected))));
                continue;
            }
            match meter.measure(layouts, shape) {
                Ok(measured) => {
                    let entry = entry(shape, &measured);
                    last = Some(entry.clone());
                    tables.table.insert(entry);
                }
                Err(error @ Error::OutOfMemory { .. }) if !self.patient => {
                    tables.skipped.push((shape, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Flow::Complete)
    }
}

/// How long measuring a shape will take at least, by the speed of all kernels on another shape of less work.
fn expected_seconds(known: &Entry, shape: Shape) -> f64 {
    let work = |shape: Shape| f64::from(shape.m) * f64::from(shape.n) * f64::from(shape.k);
    let all: f64 = known.times.iter().map(|time| time.seconds).sum();
    RUNS * all * work(shape) / work(known.shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regemm::tuning::Time;
    use regemm::{Dtype, kernels};

    #[test]
    fn slow_kernels_decide_how_long_a_shape_takes() {
        let time = |name: &str, seconds| Time { kernel: kernels::find(name).unwrap(), seconds };
        let shape = |n| Shape::packed(Dtype::F32, n, n, n);
        let times = vec![time("naive_f32", 0.9), time("pipelined_f32", 0.1)];
        let known = Entry { shape: shape(1024), times };
        assert!((expected_seconds(&known, shape(2048)) - 24.0).abs() < 1e-9);
    }
}
