//! Predicted times for shapes that were not measured.
//!
//! A kernel's time is its [`trend`](super::trend) times a correction: what measured times of nearby shapes are of the trend
//! there. The correction is interpolated by inverse distances (D. Shepard, "A two-dimensional interpolation function for
//! irregularly-spaced data", ACM 1968), distances being those of the binary logarithms of m, n and k. On a measured shape
//! the prediction is the measured time.
//!
//! For kernels that make bulk copies the rows count, too: where they are whole lines of the L2 cache a row of a box is a line, and where
//! they are not it is parts of two. On an H200 a round of tiles of 128 x 128 takes 18 % longer for its depth in the product of 2896 in
//! bf16, whose rows are no whole lines, than in those of 2048 and 4096; tiles of 128 x 256, which fetch less, notice less. So a measured shape says
//! little about one that differs in that.
//!
//! Times of a GPU with another number of multiprocessors say the same of this one: what a time is of the trend there, with its tiles in so
//! many rounds, and the trend is asked for those that they make here. Clocks and memory may differ as well, but so they do for all kernels, and what
//! counts is which of them is fastest.
//!
//! Where blocks [drift apart](crate::kernels::drifts) further than the L2 cache has room for, which measured shapes are too small for, a kernel
//! that does not keep pace takes longer than its trend says.

use super::class::{Shape, ShapeClass};
use super::table::{Entry, Measured, Source};
use super::trend::{Terms, Trend, terms};
use crate::device::info::DeviceInfo;
use crate::kernels::{Types, drifts};
use regemm_kernels::kernel::KernelInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Measured shapes farther away than this say nothing about a shape: octaves.
const REACH: f64 = 2.25;

/// Most measured shapes that a prediction is made from: those around a cell of a grid in three directions.
const NEIGHBOURS: usize = 8;

/// Sizes of m, n and k from here on are alike, as far as distances go. Binary logarithms. With so many rows or columns every device is full;
/// depth goes on to matter, since where D is small it is what fills the device.
const ALIKE: [f64; 3] = [14.0, 14.0, 16.0];

/// Bytes of a line of the L2 cache.
const LINE_BYTES: u64 = 128;

/// How much farther away a measured shape is for a kernel that makes bulk copies, where rows are whole lines and the other's are not: squared octaves. However
/// near, as 1800 is to 1792, it says less than one that is like it.
const OTHER_ROWS: f64 = 1.0;

/// How much longer a kernel takes whose blocks drift apart: tiles of 128 x 192 beside `warpgroup_pair_bf16` at 12288 x 12288 x 12288 0.3 % where both
/// alternate and so share the power that one of them saves, 2.2 % in long turns of each by itself, and 6.3 % in short bursts (H200).
const DRIFT: f64 = 1.02;

/// Measured times on one device for factors and results of some types, ready for fast predictions.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// None where there are no times.
    types: Option<Types>,
    multiprocessors: u32,
    l2_bytes: Option<u64>,
    kernels: Vec<&'static KernelInfo>,
    classes: BTreeSet<ShapeClass>,
    aligned: Points,
    unaligned: Points,
}

/// The measured shapes of one alignment.
#[derive(Clone, Debug)]
struct Points {
    points: Vec<Point>,
    /// One a kernel; none for one without times.
    trends: Vec<Option<Trend>>,
    /// Logarithms of measured times relative to the trend, a row a point and a column a kernel; NaN where there is none.
    corrections: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    shape: Shape,
    source: Source,
    place: [f64; 3],
    /// Whether all rows are whole lines.
    lines: bool,
    /// Whether it was measured with another number of multiprocessors.
    scaled: bool,
}

/// The measured shapes near a shape, and what each of them counts.
pub(crate) struct Near<'m> {
    model: &'m Model,
    points: &'m Points,
    shape: Shape,
    /// Whether all rows are whole lines.
    lines: bool,
    /// Index and weight, the nearest first.
    neighbours: [(usize, f64); NEIGHBOURS],
    count: usize,
    /// Whether the nearest is the very shape, measured with as many multiprocessors.
    pub exact: bool,
}

impl Model {
    /// From tables; where several have times for a shape those of the last one count.
    pub fn new(device: &DeviceInfo, tables: &[Measured]) -> Model {
        let mut kernels = Vec::new();
        let mut entries = BTreeMap::new();
        for measured in tables {
            for kernel in measured.table.kernels() {
                if !kernels.iter().any(|known: &&KernelInfo| known.name == kernel.name) {
                    kernels.push(kernel);
                }
            }
            let of_table = measured.table.entries();
            entries.extend(of_table.map(|entry| (entry.shape, (*measured, entry))));
        }
        let (multiprocessors, l2_bytes) = (device.multiprocessors, device.l2_bytes);
        let types = kernels.first().map(|&kernel: &&KernelInfo| Types::of(kernel));
        let points = |aligned: bool| {
            let chosen = entries.values().filter(|(_, entry)| entry.shape.aligned == aligned);
            let chosen: Vec<_> = chosen.copied().collect();
            let samples: Vec<Vec<Option<(Terms, f64)>>> = chosen
                .iter()
                .map(|(Measured { multiprocessors, .. }, entry)| {
                    let sample = |kernel: &&'static KernelInfo| {
                        let seconds = entry.seconds(kernel)?;
                        Some((terms(kernel, entry.shape, *multiprocessors), seconds))
                    };
                    kernels.iter().map(sample).collect()
                })
                .collect();
            let trend = |column: usize| {
                Trend::fit(&samples.iter().filter_map(|row| row[column]).collect::<Vec<_>>())
            };
            let trends: Vec<Option<Trend>> = (0..kernels.len()).map(trend).collect();
            let correction = |at: (Shape, u32), sample: &Option<(Terms, f64)>, column: usize| {
                let (Some((terms, seconds)), Some(trend)) = (sample, &trends[column]) else {
                    return f64::NAN;
                };
                let (shape, multiprocessors) = at;
                let drift = drift(kernels[column], shape, multiprocessors, l2_bytes);
                (seconds / (trend.seconds(terms) * drift)).ln()
            };
            let of_point = |((measured, entry), row): (&(Measured, &Entry), &Vec<_>)| -> Vec<f64> {
                let at = (entry.shape, measured.multiprocessors);
                let columns = row.iter().enumerate();
                columns.map(|(column, sample)| correction(at, sample, column)).collect()
            };
            Points {
                points: chosen
                    .iter()
                    .map(|(measured, entry)| Point {
                        shape: entry.shape,
                        source: measured.source,
                        scaled: measured.multiprocessors != multiprocessors,
                        place: place(entry.shape),
                        lines: has_lines(types, entry.shape),
                    })
                    .collect(),
                corrections: chosen.iter().zip(&samples).flat_map(of_point).collect(),
                trends,
            }
        };
        let (aligned, unaligned) = (points(true), points(false));
        // What was measured on another GPU is no reason not to measure on this one.
        let own = entries.iter().filter(|(_, (measured, _))| measured.source != Source::Alike);
        let classes = own.map(|(shape, _): (&Shape, _)| shape.class()).collect();
        Model { types, multiprocessors, l2_bytes, classes, aligned, unaligned, kernels }
    }

    /// Element types of factors and results; none where there are no times at all.
    pub fn types(&self) -> Option<Types> {
        self.types
    }

    /// Whether a shape of this class was measured on this GPU.
    pub fn has(&self, class: ShapeClass) -> bool {
        self.classes.contains(&class)
    }

    /// The kernels that have times.
    pub fn kernels(&self) -> &[&'static KernelInfo] {
        &self.kernels
    }

    /// The measured shapes near a shape; none where there are none.
    pub fn near(&self, shape: Shape) -> Option<Near<'_>> {
        let points = if shape.aligned { &self.aligned } else { &self.unaligned };
        let place = place(shape);
        let mut neighbours = [(usize::MAX, REACH * REACH); NEIGHBOURS];
        let mut count = 0;
        for (index, point) in points.points.iter().enumerate() {
            let square = |axis: usize| (place[axis] - point.place[axis]).powi(2);
            // Others may be alike as far as distances go.
            let is_it = point.shape == shape;
            let distance = if is_it { -1.0 } else { square(0) + square(1) + square(2) };
            if distance > neighbours[NEIGHBOURS - 1].1 {
                continue;
            }
            // Insertion into a short sorted list; the last one falls off. Equals keep the order of the table.
            let mut at = count.min(NEIGHBOURS - 1);
            while at > 0 && neighbours[at - 1].1 > distance {
                neighbours[at] = neighbours[at - 1];
                at -= 1;
            }
            neighbours[at] = (index, distance);
            count = (count + 1).min(NEIGHBOURS);
        }
        if count == 0 {
            return None;
        }
        let nearest = points.points[neighbours[0].0];
        let exact = nearest.shape == shape && !nearest.scaled;
        if nearest.shape == shape {
            (neighbours[0].1, count) = (1.0, 1);
        } else {
            for (_, distance) in &mut neighbours[..count] {
                *distance = weight(*distance);
            }
        }
        let lines = has_lines(self.types, shape);
        Some(Near { model: self, points, shape, lines, neighbours, count, exact })
    }
}

impl Near<'_> {
    /// The nearest measured shape.
    pub fn nearest(&self) -> (Shape, Source) {
        let point = self.points.points[self.neighbours[0].0];
        (point.shape, point.source)
    }

    /// The expected time in seconds of a kernel, by its index in [`Model::kernels`]; none where it was not measured nearby.
    pub fn seconds(&self, kernel: usize) -> Option<f64> {
        self.seconds_as(kernel, self.model.kernels[kernel])
    }

    /// The same of a kernel that is not measured itself, but is another one's twin: as long as its own tiles take it.
    pub fn seconds_as(&self, kernel: usize, twin: &KernelInfo) -> Option<f64> {
        let Model { kernels, multiprocessors, l2_bytes, .. } = self.model;
        let trend = self.points.trends[kernel]?;
        let (mut sum, mut weights, mut missing) = (0.0, 0.0, 0.0);
        let makes_bulk_copies = kernels[kernel].boxes.is_some();
        for &(point, weight) in &self.neighbours[..self.count] {
            let has_other_rows = makes_bulk_copies && self.points.points[point].lines != self.lines;
            let weight = if has_other_rows { farther(weight, OTHER_ROWS) } else { weight };
            let correction = self.points.corrections[point * kernels.len() + kernel];
            if correction.is_nan() {
                missing += weight;
            } else {
                sum += weight * correction;
                weights += weight;
            }
        }
        // A kernel that was measured on the far ones alone cannot be compared with one that was on the near ones.
        if weights <= missing {
            return None;
        }
        let terms = terms(twin, self.shape, *multiprocessors);
        let drift = drift(kernels[kernel], self.shape, *multiprocessors, *l2_bytes);
        Some(trend.seconds(&terms) * drift * (sum / weights).exp())
    }
}

/// What a kernel takes relative to its trend, if its blocks drift apart.
fn drift(kernel: &KernelInfo, shape: Shape, multiprocessors: u32, l2_bytes: Option<u64>) -> f64 {
    let Shape { m, n, k, .. } = shape;
    if drifts(kernel, (m, n, k), multiprocessors, l2_bytes) { DRIFT } else { 1.0 }
}

/// Where a shape lies: binary logarithms of its sizes.
fn place(shape: Shape) -> [f64; 3] {
    let sizes = [shape.m, shape.n, shape.k];
    std::array::from_fn(|axis| f64::from(sizes[axis].max(1)).log2().min(ALIKE[axis]))
}

/// Whether the rows of packed row-major factors are whole lines. False where their type is not known.
fn has_lines(types: Option<Types>, shape: Shape) -> bool {
    types.is_some_and(|Types { factors, .. }| {
        let bytes = |cols: u32| u64::from(cols) * factors.bytes() as u64;
        bytes(shape.k).is_multiple_of(LINE_BYTES) && bytes(shape.n).is_multiple_of(LINE_BYTES)
    })
}

/// The weight of a neighbour at this squared distance: the inverse of the distance's fourth power, bounded.
fn weight(square: f64) -> f64 {
    /// Squared octaves that make no difference.
    const NOTHING: f64 = 1e-6;
    (square + NOTHING).powi(-2)
}

/// The weight of a neighbour that has this weight and were so much farther away, in squared octaves.
fn farther(weight: f64, square: f64) -> f64 {
    (weight.sqrt().recip() + square).powi(-2)
}

#[cfg(test)]
pub(super) mod tests;
