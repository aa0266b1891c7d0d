//! What kernels take for factors in other layouts than row-major, where that was measured.
//!
//! It is expected from two sides: of what the [`model`](super::model) says of the twin for row-major factors, of which
//! more shapes are measured, and of a [`trend`](super::trend) of its own through all that was measured in the layouts,
//! which knows how these are fetched. Each counts by how uncertain the other is: where the twin was measured on the
//! very shape it alone. What is kept of a measured time is its ratio to the mean of both, and ratios are told of other
//! shapes by [`kriging`](super::kriging). Far from all measured shapes a kernel counts as fast as its twin. On a
//! measured shape the prediction is the measured time.

use super::class::Shape;
use super::kriging::{Kriging, Variances};
use super::model::{Model, are_alike, drift};
use super::neighbours::{MOST, Nearness, Neighbours, REACH, Site};
use super::table::{Entry, Source};
use super::trend::{Trend, terms};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use std::collections::BTreeMap;

/// How far off a kernel's own trend is, beside how far off its twin's time is by the [`kriging`](super::kriging) of
/// that: the square, relative to the variance of deviations from the twin's trend. With 0.1 to 0.3 shipped shapes are
/// predicted equally well from one another.
const OWN_UNCERTAINTY: f64 = 0.2;

/// Measured shapes that a trend of a kernel's own takes. Fewer are no more than their ratios to its twin.
const ENOUGH: usize = 32;

/// Of ratios, which are 1 as far as nobody knows.
const VARIANCES: Variances = Variances { noise: 0.1, level: 0.0 };

/// Measured times in some layouts, by shape: where they come from, and on how many multiprocessors.
pub(super) type Entries = BTreeMap<Shape, (Source, u32, Entry)>;

/// Measured ratios in some layouts.
#[derive(Clone, Debug)]
pub(super) struct Ratios {
    l2_bytes: Option<u64>,
    sites: Vec<Site>,
    columns: Vec<Column>,
    /// Logarithms, a row a site and a column a kernel; NaN where there is none.
    logarithms: Vec<f64>,
    /// What was measured, likewise: also where the model knows nothing of the twin.
    seconds: Vec<f64>,
}

/// A kernel for the layouts.
#[derive(Clone, Debug)]
struct Column {
    kernel: &'static KernelInfo,
    /// Whether its twin for row-major factors has the same tiles.
    is_alike: bool,
    /// For shapes that are [aligned](Shape::aligned) and those that are not; none where too few were measured.
    aligned: Option<Trend>,
    unaligned: Option<Trend>,
}

/// The measured ratios near a shape.
pub(super) struct NearRatios<'m> {
    ratios: &'m Ratios,
    pub neighbours: Neighbours,
    kriging: Kriging,
}

impl Ratios {
    /// Of these times to those that are expected. Shapes near none of the model's are left out.
    pub fn new(model: &Model, layouts: Layouts, entries: &Entries) -> Ratios {
        let of_kernel = |(row_major, twins): (usize, &Vec<&'static KernelInfo>)| {
            twins.iter().map(move |&twin| (row_major, twin)).collect::<Vec<_>>()
        };
        let twins = Vec::from_iter(model.twins(layouts).iter().enumerate().flat_map(of_kernel));
        let column = |&(row_major, kernel): &(usize, &'static KernelInfo)| {
            let [aligned, unaligned] = [true, false].map(|it| own_trend(kernel, entries, it));
            let is_alike = are_alike(model.kernels()[row_major], kernel);
            Column { kernel, is_alike, aligned, unaligned }
        };
        let mut ratios = Ratios {
            l2_bytes: model.l2_bytes(),
            sites: Vec::new(),
            columns: twins.iter().map(column).collect(),
            logarithms: Vec::new(),
            seconds: Vec::new(),
        };
        for (&shape, (source, multiprocessors, entry)) in entries {
            let Some(near) = model.near(shape, Layouts::NN) else { continue };
            let near = near.with_multiprocessors(*multiprocessors);
            let uncertainty = near.uncertainty();
            for (column, (row_major, kernel)) in twins.iter().enumerate() {
                let seconds = entry.seconds(kernel);
                let expected = || {
                    let twin = near.seconds_as_row_major(*row_major, kernel);
                    ratios.expected(column, (twin, uncertainty), (shape, *multiprocessors))
                };
                let ratio = seconds.and_then(|seconds| Some(seconds / expected()?));
                ratios.logarithms.push(ratio.map_or(f64::NAN, f64::ln));
                ratios.seconds.push(seconds.unwrap_or(f64::NAN));
            }
            let scaled = *multiprocessors != model.multiprocessors();
            ratios.sites.push(Site::new(shape, *source, scaled));
        }
        ratios
    }

    /// What a kernel is expected to take, in seconds, by what its twin does, of which something is uncertain, and by
    /// its own trend; of these on a shape and so many multiprocessors.
    fn expected(&self, column: usize, twin: (Option<f64>, f64), at: (Shape, u32)) -> Option<f64> {
        let ((twin, uncertainty), (shape, multiprocessors)) = (twin, at);
        let Column { kernel, is_alike, aligned, unaligned } = &self.columns[column];
        let trend = if shape.aligned { aligned } else { unaligned };
        let own = trend.map(|trend| {
            let drift = drift(kernel, shape, multiprocessors, self.l2_bytes);
            trend.seconds(&terms(kernel, shape, multiprocessors)) * drift
        });
        match (own, twin) {
            (Some(own), Some(twin)) if *is_alike => {
                Some(twin * (own / twin).powf(uncertainty / (uncertainty + OWN_UNCERTAINTY)))
            }
            (own, twin) => own.or(twin),
        }
    }

    fn column(&self, kernel: &KernelInfo) -> Option<usize> {
        self.columns.iter().position(|known| known.kernel.name == kernel.name)
    }

    /// Those near a shape; none where there are none.
    pub fn near(&self, shape: Shape) -> Option<NearRatios<'_>> {
        let sites = self.sites.iter().enumerate();
        let alike = sites.filter(|(_, site)| site.shape.aligned == shape.aligned);
        let neighbours = Neighbours::among(alike, shape, REACH)?;
        let kriging = Kriging::new(&neighbours, VARIANCES, |_, _| 0.0);
        Some(NearRatios { ratios: self, neighbours, kriging })
    }
}

/// The trend of all that was measured of a kernel; none where that is too little.
fn own_trend(kernel: &KernelInfo, entries: &Entries, aligned: bool) -> Option<Trend> {
    let alike = entries.iter().filter(|(shape, _)| shape.aligned == aligned);
    let samples = alike.filter_map(|(&shape, (_, multiprocessors, entry))| {
        Some((terms(kernel, shape, *multiprocessors), entry.seconds(kernel)?))
    });
    let samples = Vec::from_iter(samples);
    Trend::fit(&samples).filter(|_| samples.len() >= ENOUGH)
}

impl NearRatios<'_> {
    /// What a kernel for the layouts took on the very shape, with as many multiprocessors; none where that was not
    /// measured.
    pub fn measured(&self, kernel: &KernelInfo) -> Option<f64> {
        let Ratios { seconds, columns, .. } = self.ratios;
        let column = self.ratios.column(kernel)?;
        let (site, _) = self.neighbours.places().next().filter(|_| self.neighbours.is_exact())?;
        Some(seconds[site * columns.len() + column]).filter(|seconds| !seconds.is_nan())
    }

    /// A shape by its place among those that were measured.
    pub fn shape(&self, place: usize) -> Shape {
        self.ratios.sites[place].shape
    }

    /// Whether a kernel for the layouts was measured nearby.
    pub fn knows(&self, kernel: &KernelInfo) -> bool {
        let of = |column| self.logarithms(column).1.is_any();
        self.ratios.column(kernel).is_some_and(of) || self.measured(kernel).is_some()
    }

    /// What a kernel is expected to take, in seconds, by what its twin for row-major factors would, of which something
    /// is uncertain; of these on a shape and so many multiprocessors. Times of other tiles say it only where its own
    /// are of most of what is near.
    pub fn seconds(
        &self,
        kernel: &KernelInfo,
        twin: (Option<f64>, f64),
        at: (Shape, u32),
    ) -> Option<f64> {
        let Some(column) = self.ratios.column(kernel) else { return twin.0 };
        let (logarithms, nearness) = self.logarithms(column);
        if !self.ratios.columns[column].is_alike && !nearness.is_most() {
            return None;
        }
        if !nearness.is_any() {
            return twin.0;
        }
        let expected = self.ratios.expected(column, twin, at)?;
        Some(expected * self.kriging.expected(&logarithms).exp())
    }

    /// Of what is near, the nearest first.
    fn logarithms(&self, column: usize) -> ([f64; MOST], Nearness) {
        let Ratios { logarithms, columns, .. } = self.ratios;
        let (mut found, mut nearness) = ([f64::NAN; MOST], Nearness::default());
        for ((site, square), known) in self.neighbours.places().zip(&mut found) {
            *known = logarithms[site * columns.len() + column];
            nearness.count(square, !known.is_nan());
        }
        (found, nearness)
    }
}
