//! Predicted times for shapes that were not measured.
//!
//! A kernel's time is its [`trend`](super::trend) times a correction: what measured times of
//! [nearby](super::neighbours) shapes are of the trend there, told of this one by [`kriging`](super::kriging). On a
//! measured shape the prediction is the measured time. That is of row-major factors; in other layouts it is times what
//! was measured of [these](super::in_layouts).
//!
//! For kernels that make bulk copies the [rows](Rows) count, too: where they are whole lines of the L2 cache a row of a
//! box is a line, and where they are not it is parts of two, or of more sectors than it is long. On an H200 a round of
//! tiles of 128 x 128 takes 18 % longer for its depth in the product of 2896 in bf16, whose rows are no whole lines,
//! than in those of 2048 and 4096; tiles of 128 x 256, which fetch less, notice less. So a measured shape says little
//! about one that differs in that.
//!
//! Times of a GPU with another number of multiprocessors say the same of this one: what a time is of the trend there,
//! with its tiles in so many rounds, and the trend is asked for those that they make here. Clocks and memory may differ
//! as well, but so they do for all kernels, and what counts is which of them is fastest.
//!
//! Where blocks [drift apart](crate::kernels::drifts) further than the L2 cache has room for, which measured shapes are
//! too small for, a kernel that does not keep pace takes longer than its trend says.

use super::class::{Shape, ShapeClass};
use super::in_layouts::{Entries, NearRatios, Ratios};
use super::kriging::{Kriging, Variances};
use super::nearby::copying;
use super::neighbours::{MOST, Nearness, Neighbours, REACH, Site};
use super::table::{Entry, Measured, Source};
use super::trend::{SHAPES_OF_TREND, Terms, Trend, terms};
use crate::device::info::DeviceInfo;
use crate::kernels::{Problem, Rows, Types, drifts, family_name, twins};
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// How much farther away a measured shape is for a kernel that makes bulk copies, where its [rows](Rows) are of another
/// kind: squared octaves. However near, as 1800 is to 1792, it says less than one that is like it.
const OTHER_ROWS: f64 = 1.0;

/// The same of whole lines and whole sectors, which take nearly as long.
const LINES_OR_SECTORS: f64 = 0.1;

/// How much longer a kernel takes whose blocks drift apart: tiles of 128 x 192 beside `warpgroup_pair_bf16` at 12288 x
/// 12288 x 12288 0.3 % where both alternate and so share the power that one of them saves, 2.2 % in long turns of each
/// by itself, and 6.3 % in short bursts (H200).
const DRIFT: f64 = 1.02;

/// Of deviations from the trend: how its rows fall on banks of memory is a shape's own, and how good a trend is beyond
/// the largest measured shapes nobody knows. With noise of 0.03 to 0.1 shipped shapes that are left out are predicted
/// equally well.
const VARIANCES: Variances = Variances { noise: 0.05, level: 10.0 };

/// Measured times on one device for factors and results of some types, ready for fast predictions.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// None where there are no times.
    types: Option<Types>,
    multiprocessors: u32,
    l2_bytes: Option<u64>,
    /// For row-major factors.
    kernels: Vec<&'static KernelInfo>,
    classes: BTreeSet<ShapeClass>,
    aligned: Points,
    unaligned: Points,
    /// By their place in [`Layouts::ALL`]; no times of row-major factors.
    in_layouts: [InLayouts; Layouts::ALL.len()],
    /// See [`Model::odd_store_seconds`]. Worked out when they are first needed.
    odd_stores: OnceLock<Vec<f64>>,
}

/// What was measured in some layouts.
#[derive(Clone, Debug, Default)]
struct InLayouts {
    entries: Entries,
    /// Worked out when they are first needed.
    ratios: OnceLock<Ratios>,
    /// For each kernel of row-major factors those that have it for a twin. Worked out when they are first needed.
    twins: OnceLock<Vec<Vec<&'static KernelInfo>>>,
}

/// The measured shapes of one alignment.
#[derive(Clone, Debug)]
struct Points {
    points: Vec<Point>,
    /// One a kernel; none for one without times.
    trends: Vec<Option<Trend>>,
    /// Logarithms of measured times relative to the trend, a row a point and a column a kernel; NaN where there is
    /// none.
    corrections: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    site: Site,
    /// What its rows are.
    rows: Rows,
}

/// The measured shapes near a shape, and what each of them counts.
pub(crate) struct Near<'m> {
    model: &'m Model,
    points: &'m Points,
    layouts: Layouts,
    shape: Shape,
    /// What its rows are.
    rows: Rows,
    neighbours: Neighbours,
    /// What the neighbours say of it, as far as it is not bulk copies that take the time.
    kriging: Kriging,
    /// The same for kernels that make bulk copies.
    kriging_by_rows: Kriging,
    /// With which the time is predicted.
    multiprocessors: u32,
    /// What is known of the layouts; none of row-major factors, and where nothing is known nearby.
    ratios: Option<NearRatios<'m>>,
}

/// Operations for a byte of the matrices from which on times in other layouts of another GPU count. With fewer all wait
/// for memory, and those of two GPUs differ: an H200's brings 1.4 times as much as an H100's, and of the kernels for 1
/// x 4096 x 14336, which are as fast as one another on that, some are a third faster there.
const ENOUGH_OPERATIONS: f64 = 100.0;

impl Model {
    /// From tables in any layouts; where several have times for a shape those of the last one count.
    pub fn new(device: &DeviceInfo, tables: &[Measured]) -> Model {
        let mut kernels = Vec::new();
        let mut entries = BTreeMap::new();
        let mut in_layouts = <[InLayouts; Layouts::ALL.len()]>::default();
        for measured in tables {
            let Measured { source, multiprocessors, table } = *measured;
            if table.layouts() != Layouts::NN {
                let is_borrowed = source == Source::Alike;
                let factor_bytes = table.types().factors.bytes();
                let says_something = |it: &&Entry| {
                    !is_borrowed || it.shape.operations_per_byte(factor_bytes) >= ENOUGH_OPERATIONS
                };
                let of_table = table.entries().filter(says_something);
                let stored = of_table.map(|it| (it.shape, (source, multiprocessors, it.clone())));
                in_layouts[place_of(table.layouts())].entries.extend(stored);
                continue;
            }
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
                    .map(|(measured, Entry { shape, .. })| {
                        let scaled = measured.multiprocessors != multiprocessors;
                        let site = Site::new(*shape, measured.source, scaled);
                        Point { site, rows: rows_of(types, *shape) }
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
        Model {
            types,
            multiprocessors,
            l2_bytes,
            classes,
            aligned,
            unaligned,
            kernels,
            in_layouts,
            odd_stores: OnceLock::new(),
        }
    }

    /// Element types of factors and results; none where there are no times at all.
    pub fn types(&self) -> Option<Types> {
        self.types
    }

    /// Multiprocessors of the device.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Bytes of the device's L2 cache.
    pub(super) fn l2_bytes(&self) -> Option<u64> {
        self.l2_bytes
    }

    /// Whether a shape of this class was measured on this GPU, in these layouts.
    pub fn has(&self, layouts: Layouts, class: ShapeClass) -> bool {
        if layouts == Layouts::NN {
            return self.classes.contains(&class);
        }
        let mut entries = self.in_layouts[place_of(layouts)].entries.iter();
        entries.any(|(shape, (source, ..))| shape.class() == class && *source != Source::Alike)
    }

    /// The kernels that have times, for row-major factors.
    pub fn kernels(&self) -> &[&'static KernelInfo] {
        &self.kernels
    }

    /// The kernels for some layouts, in the order of [`Model::kernels`]: all that have one for a twin.
    pub fn twins(&self, layouts: Layouts) -> &[Vec<&'static KernelInfo>] {
        let of = |kernel: &&'static KernelInfo| twins(kernel, Types::of(kernel), layouts).collect();
        let of_all = || self.kernels.iter().map(of).collect();
        self.in_layouts[place_of(layouts)].twins.get_or_init(of_all)
    }

    /// The measured shapes near a shape, or where there are enough of them for [trends](super::trend) the nearest,
    /// however far away; none where there are none of row-major factors.
    pub fn near(&self, shape: Shape, layouts: Layouts) -> Option<Near<'_>> {
        let points = if shape.aligned { &self.aligned } else { &self.unaligned };
        let sites = points.points.iter().map(|point| &point.site);
        let has_trends = points.points.len() >= SHAPES_OF_TREND;
        let reach = if has_trends { f64::INFINITY } else { REACH };
        let neighbours = Neighbours::among(sites.enumerate(), shape, reach)?;
        let rows = rows_of(self.types, shape);
        let farther = |point: usize, other: Option<usize>| {
            let of_other = other.map_or(rows, |other| points.points[other].rows);
            between_rows([points.points[point].rows, of_other])
        };
        let kriging_by_rows = Kriging::new(&neighbours, VARIANCES, farther);
        let kriging = Kriging::new(&neighbours, VARIANCES, |_, _| 0.0);
        Some(Near {
            model: self,
            points,
            layouts,
            shape,
            rows,
            neighbours,
            kriging,
            kriging_by_rows,
            multiprocessors: self.multiprocessors,
            ratios: self.ratios(layouts).and_then(|ratios| ratios.near(shape)),
        })
    }

    /// What a kernel that makes bulk copies takes longer for each element of a D whose rows are no whole vectors, by
    /// its index, in seconds: what measured times hold beside those of aligned products and of copies of the factors,
    /// in the least squares of relative errors.
    pub(super) fn odd_store_seconds(&self, kernel: usize) -> f64 {
        self.odd_stores.get_or_init(|| self.odd_stores())[kernel]
    }

    fn odd_stores(&self) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.kernels.len()];
        let Some(types) = self.types else { return Vec::new() };
        for Point { site, .. } in &self.unaligned.points {
            let Shape { m, n, k, .. } = site.shape;
            let aligned = Shape { aligned: true, ..site.shape };
            let [own, aligned] = [site.shape, aligned].map(|it| self.near(it, Layouts::NN));
            let Some((own, aligned)) = own.zip(aligned) else { continue };
            let problem = Problem::packed(types, (m, n, k), Layouts::NN);
            let elements = f64::from(m) * f64::from(n);
            for (index, (kernel, (of_both, of_squares))) in
                self.kernels.iter().zip(&mut sums).enumerate()
            {
                let seconds = [&own, &aligned].map(|near| near.seconds_as_row_major(index, kernel));
                let [Some(measured), Some(expected)] = seconds else { continue };
                let relative = elements / measured;
                *of_both += relative * (measured - expected - copying(kernel, &problem)) / measured;
                *of_squares += relative * relative;
            }
        }
        let of_bulk = self.kernels.iter().zip(&sums).filter(|(kernel, _)| kernel.boxes.is_some());
        let all = of_bulk.fold((0.0, 0.0), |all: (f64, f64), (_, it)| (all.0 + it.0, all.1 + it.1));
        // Who was not measured there is taken to be like the others. If nobody was it is 0 / 0.
        let slope = |it: (f64, f64)| if it.1 > 0.0 { it } else { all };
        sums.into_iter().map(slope).map(|(both, squares)| (both / squares).max(0.0)).collect()
    }

    fn ratios(&self, layouts: Layouts) -> Option<&Ratios> {
        let InLayouts { entries, ratios, .. } = &self.in_layouts[place_of(layouts)];
        let of_entries = || Ratios::new(self, layouts, entries);
        (!entries.is_empty()).then(|| ratios.get_or_init(of_entries))
    }
}

impl<'m> Near<'m> {
    /// The measured shapes in the layouts, or where nothing near was measured in them those of row-major factors.
    pub(super) fn measured(&self) -> &Neighbours {
        self.ratios.as_ref().map_or(&self.neighbours, |ratios| &ratios.neighbours)
    }

    /// Whether something was measured nearby in the layouts, if these are others than row-major.
    pub(super) fn knows_layouts(&self) -> bool {
        self.ratios.is_some()
    }

    /// The squared distance to the nearest of those whose factors have odd rows like these, A and B.
    pub(super) fn square_to_alike(&self, odd: [bool; 2]) -> Option<f64> {
        let factors = self.model.types?.factors;
        let (layouts, neighbours) = match &self.ratios {
            Some(ratios) => (self.layouts, &ratios.neighbours),
            None => (Layouts::NN, &self.neighbours),
        };
        let shape = |place: usize| match &self.ratios {
            Some(ratios) => ratios.shape(place),
            None => self.points.points[place].site.shape,
        };
        let is_alike = |place: usize| shape(place).odd_factors(factors, layouts) == odd;
        neighbours.places().find(|(place, _)| is_alike(*place)).map(|(_, square)| square)
    }

    /// Whether a kernel for the layouts was measured nearby in them.
    pub fn knows_twin(&self, twin: &KernelInfo) -> bool {
        self.ratios.as_ref().is_some_and(|ratios| ratios.knows(twin))
    }

    /// Whether it was measured on the very shape, with as many multiprocessors.
    pub fn is_measured_twin(&self, twin: &KernelInfo) -> bool {
        self.measured().is_exact() && self.knows_twin(twin)
    }

    /// Whether others were measured in the layouts on the very shape, with as many multiprocessors, and this kernel for
    /// them was not.
    pub fn others_were_measured(&self, twin: &KernelInfo) -> bool {
        let of =
            |ratios: &NearRatios| ratios.neighbours.is_exact() && ratios.measured(twin).is_none();
        self.ratios.as_ref().is_some_and(of)
    }

    /// The same for times on another number of multiprocessors.
    pub fn with_multiprocessors(self, multiprocessors: u32) -> Near<'m> {
        Near { multiprocessors, ..self }
    }

    /// The expected time in seconds of a kernel, by its index in [`Model::kernels`]; none where it was not measured
    /// nearby.
    #[cfg(test)]
    pub fn seconds(&self, kernel: usize) -> Option<f64> {
        self.seconds_as(kernel, self.model.kernels[kernel])
    }

    /// The expected time in seconds of a kernel, by its index in [`Model::kernels`], or of a twin of it for the
    /// layouts; none where it was not measured nearby. How wide tiles are that fit depends on the layouts.
    pub fn seconds_as(&self, kernel: usize, twin: &KernelInfo) -> Option<f64> {
        let alike = self.seconds_as_row_major(kernel, twin);
        let Some(ratios) = &self.ratios else {
            // By times of other tiles a kernel is told only where somebody knows how much longer or shorter it takes.
            return alike.filter(|_| are_alike(self.model.kernels[kernel], twin));
        };
        let predicted = || {
            let alike = (alike, self.uncertainty());
            ratios.seconds(twin, alike, (self.shape, self.multiprocessors))
        };
        ratios.measured(twin).or_else(predicted)
    }

    /// How far off times are that are told from neighbours, [relative](Kriging::uncertainty) to how trends are.
    pub(super) fn uncertainty(&self) -> f64 {
        self.kriging.uncertainty()
    }

    /// The same if factors in the layouts took as long as row-major ones: what measured ratios are relative to.
    pub(super) fn seconds_as_row_major(&self, kernel: usize, twin: &KernelInfo) -> Option<f64> {
        let Model { kernels, l2_bytes, .. } = self.model;
        let trend = self.points.trends[kernel]?;
        let makes_bulk_copies = kernels[kernel].boxes.is_some();
        let (mut corrections, mut nearness) = ([f64::NAN; MOST], Nearness::default());
        for ((point, square), known) in self.neighbours.places().zip(&mut corrections) {
            let rows = [self.points.points[point].rows, self.rows];
            let farther = if makes_bulk_copies { between_rows(rows) } else { 0.0 };
            *known = self.points.corrections[point * kernels.len() + kernel];
            nearness.count(square + farther, !known.is_nan());
        }
        // A kernel that was measured on the far ones alone cannot be compared with one that was on the near ones.
        if !nearness.is_most() {
            return None;
        }
        let kriging = if makes_bulk_copies { &self.kriging_by_rows } else { &self.kriging };
        let correction = kriging.expected(&corrections);
        let of_tiles = |kernel| trend.seconds(&terms(kernel, self.shape, self.multiprocessors));
        // Smaller tiles are no faster where it is not products that take time.
        let launched = if twin.fits { twin } else { kernels[kernel] };
        let tiles = of_tiles(launched).max(of_tiles(kernels[kernel]));
        let drift = drift(kernels[kernel], self.shape, self.multiprocessors, *l2_bytes);
        Some(tiles * drift * correction.exp())
    }
}

/// Whether a kernel and its twin for other layouts have the same tiles, or are of one family, which may fit rows of D
/// in some layouts and columns in others.
pub(super) fn are_alike(kernel: &KernelInfo, twin: &KernelInfo) -> bool {
    let tile = |kernel: &KernelInfo| (kernel.tile, kernel.swapped);
    family_name(kernel) == family_name(twin) || tile(kernel) == tile(twin)
}

/// The place of layouts in [`Layouts::ALL`].
fn place_of(layouts: Layouts) -> usize {
    Layouts::ALL.iter().position(|known| *known == layouts).unwrap_or_default()
}

/// What a kernel takes relative to its trend, if its blocks drift apart.
pub(super) fn drift(
    kernel: &KernelInfo,
    shape: Shape,
    multiprocessors: u32,
    l2_bytes: Option<u64>,
) -> f64 {
    let Shape { m, n, k, .. } = shape;
    if drifts(kernel, (m, n, k), multiprocessors, l2_bytes) { DRIFT } else { 1.0 }
}

/// How much farther away from each other shapes are by their rows: squared octaves.
fn between_rows(rows: [Rows; 2]) -> f64 {
    if rows[0] == rows[1] {
        0.0
    } else if rows.contains(&Rows::Cut) {
        OTHER_ROWS
    } else {
        LINES_OR_SECTORS
    }
}

/// What the rows are of that of packed row-major factors which is fetched more slowly. One whose rows are no whole
/// vectors is copied into lines. Nobody asks where their type is not known.
fn rows_of(types: Option<Types>, shape: Shape) -> Rows {
    types.map_or(Rows::Cut, |Types { factors, .. }| {
        let rows = |cols: u32| Rows::of(u64::from(cols) * factors.bytes() as u64);
        let is_copied = shape.odd_factors(factors, Layouts::NN);
        let of = |cols, is_copied| if is_copied { Rows::Lines } else { rows(cols) };
        of(shape.k, is_copied[0]).max(of(shape.n, is_copied[1]))
    })
}

#[cfg(test)]
pub(super) mod tests;
