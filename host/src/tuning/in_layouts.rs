//! What kernels take for factors in other layouts than row-major, where that was measured.
//!
//! Most of a kernel's time is what its twin for row-major factors takes, of which more shapes are measured. So what is kept of a measured time is its ratio to what the
//! [`model`](super::model) says of the twin on that shape, and ratios are interpolated. They change slowly from shape to shape, and far from all
//! measured shapes a kernel counts as fast as its twin. On a measured shape the prediction is the measured time.

use super::class::Shape;
use super::model::Model;
use super::neighbours::{Neighbours, Site, weight};
use super::table::{Entry, Source};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use std::collections::BTreeMap;

/// A measured shape at this distance, in squared octaves, counts as much as that twins are alike as far as nobody knows. With 2 to 4 shipped shapes are predicted best
/// from one another: the chosen kernel is 0.65 % slower than the fastest, with 0.3 or 8 it is 0.85.
const AS_MUCH_AS_NOTHING: f64 = 3.0;

/// Measured times in some layouts, by shape: where they come from, and on how many multiprocessors.
pub(super) type Entries = BTreeMap<Shape, (Source, u32, Entry)>;

/// Measured ratios in some layouts.
#[derive(Clone, Debug)]
pub(super) struct Ratios {
    sites: Vec<Site>,
    /// The kernels for the layouts.
    kernels: Vec<&'static KernelInfo>,
    /// Logarithms, a row a site and a column a kernel; NaN where there is none.
    logarithms: Vec<f64>,
    /// What was measured, likewise: also where the model knows nothing of the twin.
    seconds: Vec<f64>,
}

/// The measured ratios near a shape.
pub(super) struct NearRatios<'m> {
    ratios: &'m Ratios,
    pub neighbours: Neighbours,
}

impl Ratios {
    /// Of these times to those that a model predicts for twins. Shapes near none of the model's are left out.
    pub fn new(model: &Model, layouts: Layouts, entries: &Entries) -> Ratios {
        let of_kernel = |(row_major, twins): (usize, &Vec<&'static KernelInfo>)| {
            twins.iter().map(move |&twin| (row_major, twin)).collect::<Vec<_>>()
        };
        let columns = Vec::from_iter(model.twins(layouts).iter().enumerate().flat_map(of_kernel));
        let (mut sites, mut logarithms, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
        for (&shape, (source, multiprocessors, entry)) in entries {
            let Some(near) = model.near(shape, Layouts::NN) else { continue };
            let near = near.with_multiprocessors(*multiprocessors);
            let logarithm = |&(row_major, kernel): &(usize, &'static KernelInfo)| {
                let alike = near.seconds_as_row_major(row_major, kernel)?;
                Some((entry.seconds(kernel)? / alike).ln())
            };
            logarithms.extend(columns.iter().map(|it| logarithm(it).unwrap_or(f64::NAN)));
            let measured = |&(_, kernel): &(usize, &'static KernelInfo)| entry.seconds(kernel);
            seconds.extend(columns.iter().map(|it| measured(it).unwrap_or(f64::NAN)));
            let scaled = *multiprocessors != model.multiprocessors();
            sites.push(Site::new(shape, *source, scaled));
        }
        let kernels = columns.into_iter().map(|(_, kernel)| kernel).collect();
        Ratios { sites, kernels, logarithms, seconds }
    }

    fn column(&self, kernel: &KernelInfo) -> Option<usize> {
        self.kernels.iter().position(|known| known.name == kernel.name)
    }

    /// Those near a shape; none where there are none.
    pub fn near(&self, shape: Shape) -> Option<NearRatios<'_>> {
        let sites = self.sites.iter().enumerate();
        let alike = sites.filter(|(_, site)| site.shape.aligned == shape.aligned);
        let neighbours = Neighbours::among(alike, shape)?;
        Some(NearRatios { ratios: self, neighbours })
    }
}

impl NearRatios<'_> {
    /// What a kernel for the layouts took on the very shape, with as many multiprocessors; none where that was not measured.
    pub fn measured(&self, kernel: &KernelInfo) -> Option<f64> {
        let Ratios { seconds, kernels, .. } = self.ratios;
        let column = self.ratios.column(kernel)?;
        let (site, _) = self.neighbours.iter().next().filter(|_| self.neighbours.is_exact())?;
        Some(seconds[site * kernels.len() + column]).filter(|seconds| !seconds.is_nan())
    }

    /// What a kernel for the layouts takes relative to what its twin for row-major factors does; none where that was not measured nearby.
    pub fn of(&self, kernel: &KernelInfo) -> Option<f64> {
        let Weighed { sum, weights, .. } = self.weighed(kernel)?;
        let of_nothing = if self.neighbours.is_itself { 0.0 } else { weight(AS_MUCH_AS_NOTHING) };
        (weights > 0.0).then(|| (sum / (weights + of_nothing)).exp())
    }

    /// Whether that was measured on most of what is near.
    pub fn is_near(&self, kernel: &KernelInfo) -> bool {
        self.weighed(kernel).is_some_and(|Weighed { weights, missing, .. }| weights > missing)
    }

    fn weighed(&self, kernel: &KernelInfo) -> Option<Weighed> {
        let Ratios { logarithms, kernels, .. } = self.ratios;
        let column = self.ratios.column(kernel)?;
        let mut weighed = Weighed { sum: 0.0, weights: 0.0, missing: 0.0 };
        for (site, weight) in self.neighbours.iter() {
            let logarithm = logarithms[site * kernels.len() + column];
            if logarithm.is_nan() {
                weighed.missing += weight;
            } else {
                weighed.sum += weight * logarithm;
                weighed.weights += weight;
            }
        }
        Some(weighed)
    }
}

/// The logarithms of a kernel's ratios on the shapes nearby.
struct Weighed {
    /// Each times its weight.
    sum: f64,
    /// Of those.
    weights: f64,
    /// Of shapes without one.
    missing: f64,
}
