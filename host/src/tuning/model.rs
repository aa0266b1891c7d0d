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

use super::class::{Shape, ShapeClass};
use super::table::{Source, Table};
use super::trend::{Terms, Trend, terms};
use crate::device::info::DeviceInfo;
use regemm_kernels::element::Dtype;
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

/// What a measured shape counts for a kernel that makes bulk copies, where rows are whole lines and the other's are not.
const OTHER_ROWS: f64 = 1e-3;

/// Measured times on one device for one element type, ready for fast predictions.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    multiprocessors: u32,
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
    /// Whether the nearest is the very shape.
    pub exact: bool,
}

impl Model {
    /// From tables with their sources; where several have times for a class those of the last one count.
    pub fn new(device: &DeviceInfo, tables: &[(Source, &Table)]) -> Model {
        let mut kernels = Vec::new();
        let mut entries = BTreeMap::new();
        for (source, table) in tables {
            for kernel in table.kernels() {
                if !kernels.iter().any(|known: &&KernelInfo| known.name == kernel.name) {
                    kernels.push(kernel);
                }
            }
            entries.extend(table.entries().map(|entry| (entry.shape.class(), (*source, entry))));
        }
        let multiprocessors = device.multiprocessors;
        let dtype = kernels.first().map(|kernel| kernel.dtype);
        let points = |aligned: bool| {
            let chosen = entries.values().filter(|(_, entry)| entry.shape.aligned == aligned);
            let chosen: Vec<_> = chosen.copied().collect();
            let samples: Vec<Vec<Option<(Terms, f64)>>> = chosen
                .iter()
                .map(|(_, entry)| {
                    let sample = |kernel: &&'static KernelInfo| {
                        let seconds = entry.seconds(kernel)?;
                        Some((terms(kernel, entry.shape, multiprocessors), seconds))
                    };
                    kernels.iter().map(sample).collect()
                })
                .collect();
            let trend = |column: usize| {
                Trend::fit(&samples.iter().filter_map(|row| row[column]).collect::<Vec<_>>())
            };
            let trends: Vec<Option<Trend>> = (0..kernels.len()).map(trend).collect();
            let correction = |(sample, trend): (&Option<(Terms, f64)>, &Option<Trend>)| {
                let (Some((terms, seconds)), Some(trend)) = (sample, trend) else {
                    return f64::NAN;
                };
                (seconds / trend.seconds(terms)).ln()
            };
            Points {
                points: chosen
                    .iter()
                    .map(|(source, entry)| Point {
                        shape: entry.shape,
                        source: *source,
                        place: place(entry.shape),
                        lines: has_lines(dtype, entry.shape),
                    })
                    .collect(),
                corrections: samples
                    .iter()
                    .flat_map(|row| row.iter().zip(&trends).map(correction))
                    .collect(),
                trends,
            }
        };
        let (aligned, unaligned) = (points(true), points(false));
        let classes = entries.keys().copied().collect();
        Model { multiprocessors, classes, aligned, unaligned, kernels }
    }

    /// Whether there are no times at all.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Whether a shape of this class was measured.
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
            let distance = square(0) + square(1) + square(2);
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
        let exact = points.points[neighbours[0].0].shape == shape;
        if exact {
            (neighbours[0].1, count) = (1.0, 1);
        } else {
            for (_, distance) in &mut neighbours[..count] {
                *distance = weight(*distance);
            }
        }
        let lines = has_lines(self.kernels.first().map(|kernel| kernel.dtype), shape);
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
        let Model { kernels, multiprocessors, .. } = self.model;
        let trend = self.points.trends[kernel]?;
        let (mut sum, mut weights, mut missing) = (0.0, 0.0, 0.0);
        let makes_bulk_copies = kernels[kernel].boxes.is_some();
        for &(point, weight) in &self.neighbours[..self.count] {
            let has_other_rows = makes_bulk_copies && self.points.points[point].lines != self.lines;
            let weight = if has_other_rows { weight * OTHER_ROWS } else { weight };
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
        let terms = terms(kernels[kernel], self.shape, *multiprocessors);
        Some(trend.seconds(&terms) * (sum / weights).exp())
    }
}

/// Where a shape lies: binary logarithms of its sizes.
fn place(shape: Shape) -> [f64; 3] {
    let sizes = [shape.m, shape.n, shape.k];
    std::array::from_fn(|axis| f64::from(sizes[axis].max(1)).log2().min(ALIKE[axis]))
}

/// Whether the rows of packed row-major matrices are whole lines. False where the type is not known.
fn has_lines(dtype: Option<Dtype>, shape: Shape) -> bool {
    dtype.is_some_and(|dtype| {
        let bytes = |cols: u32| u64::from(cols) * dtype.bytes() as u64;
        bytes(shape.k).is_multiple_of(LINE_BYTES) && bytes(shape.n).is_multiple_of(LINE_BYTES)
    })
}

/// The weight of a neighbour at this squared distance: the inverse of the distance's fourth power, bounded.
fn weight(square: f64) -> f64 {
    /// Squared octaves that make no difference.
    const NOTHING: f64 = 1e-6;
    (square + NOTHING).powi(-2)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::shapes::default_shapes;
    use super::super::table::{Entry, Time, tests::entry};
    use super::*;
    use crate::device::info::tests::h200;
    use crate::kernels::{find, kernels_for};
    use crate::verify::rng;
    use rand::RngExt;
    use regemm_kernels::kernel::Schedule;
    use regemm_kernels::layout::Layouts;

    /// The time in seconds of a kernel on a GPU that does not exist but has what makes choices hard: blocks that hide each
    /// other's latency as far as they are resident together, rounds of blocks, memory that is slower than arithmetic, a
    /// fixed time for each launch, and slower loads where rows are no vectors.
    pub(crate) fn imagined(kernel: &KernelInfo, shape: Shape) -> f64 {
        const LAUNCH: f64 = 3e-6;
        const CLOCK: f64 = 1.8e9;
        const LATENCY_OF_A_STEP: f64 = 30.0;
        const BLOCKS_BEGUN: f64 = 600.0;
        const BANDWIDTH: f64 = 4e12;
        const MULTIPROCESSORS: f64 = 132.0;
        const LANES: f64 = 128.0;
        let [m, n, k] = [shape.m, shape.n, shape.k].map(f64::from);
        let tile = kernel.tile;
        let resident = (2048.0 / f64::from(kernel.threads())).clamp(1.0, 8.0);
        // Where K is split all multiprocessors share all tiles.
        let whole = |rounds: f64| match kernel.schedule {
            Schedule::Tiles | Schedule::Persistent | Schedule::ClusterK => rounds.ceil(),
            Schedule::SplitK | Schedule::StreamK => rounds,
        };
        let rounds = whole(kernel.blocks(shape.m, shape.n) as f64 / MULTIPROCESSORS);
        let outputs = f64::from(tile.tm * tile.tn);
        // What of the arithmetic's time goes to operands: the more, the smaller the thread's tile.
        let reuse = outputs / (outputs + 2.0 * f64::from(tile.tm + tile.tn));
        let depth = f64::from(shape.k.next_multiple_of(tile.bk));
        let work = f64::from(tile.bm * tile.bn) / LANES / reuse;
        let latency = LATENCY_OF_A_STEP / f64::from(tile.stages.max(1));
        let hidden = (latency * whole(rounds / resident)).max(work * rounds);
        let loads =
            if shape.aligned { 1.0 } else { 1.0 + 0.6 * f64::from(tile.stages) / outputs.sqrt() };
        let computing = (depth * hidden * loads + BLOCKS_BEGUN * whole(rounds / resident)) / CLOCK;
        let bytes = 4.0 * (m * k + k * n + 2.0 * m * n);
        LAUNCH + (computing.powi(4) + (bytes / BANDWIDTH).powi(4)).powf(0.25)
    }

    /// A table of the imagined GPU.
    pub(crate) fn imagined_table(shapes: &[Shape]) -> Table {
        let mut table = Table::new(Dtype::F32);
        for &shape in shapes {
            let of_type = kernels_for(Dtype::F32, Layouts::NN);
            let times = of_type.map(|kernel| Time { kernel, seconds: imagined(kernel, shape) });
            table.insert(Entry { shape, times: times.collect() });
        }
        table
    }

    fn shape(m: u32, n: u32, k: u32) -> Shape {
        Shape::packed(Dtype::F32, m, n, k)
    }

    fn model(table: &Table) -> Model {
        Model::new(&h200(), &[(Source::Measured, table)])
    }

    #[test]
    fn on_a_measured_shape_the_time_is_the_measured_one() {
        let table = imagined_table(&default_shapes(&h200(), Dtype::F32));
        let model = model(&table);
        for entry in table.entries() {
            let near = model.near(entry.shape).unwrap();
            assert!(near.exact && near.nearest() == (entry.shape, Source::Measured));
            for (index, kernel) in model.kernels().iter().enumerate() {
                let (predicted, measured) =
                    (near.seconds(index).unwrap(), entry.seconds(kernel).unwrap());
                assert!(
                    (predicted / measured - 1.0).abs() < 1e-9,
                    "{} {}",
                    kernel.name,
                    entry.shape
                );
            }
        }
    }

    #[test]
    fn one_measured_shape_scales_by_work() {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((1024, 1024, 1024), &[("pipelined_f32", 100.0)]));
        let model = model(&table);
        let seconds = |m, n, k| model.near(shape(m, n, k)).unwrap().seconds(0).unwrap();
        assert!((seconds(1024, 1024, 2048) - 200e-6).abs() < 1e-9, "twice the depth");
        assert!((seconds(1024, 1056, 1024) - 200e-6).abs() < 1e-9, "a second round of blocks");
        assert!((seconds(900, 1024, 1024) - 100e-6).abs() < 1e-9, "fewer blocks, as many rounds");
    }

    /// Small D is shared by its depth, of which there is always more to share.
    #[test]
    fn depth_counts_where_rows_and_columns_no_longer_do() {
        let mut table = Table::new(Dtype::F32);
        let deep = [(16384, 20.0, 21.0), (65536, 50.0, 40.0)];
        for (k, one, other) in deep {
            let times = [("split_k_f32", one), ("split_sliced_k_f32", other)];
            table.insert(entry((128, 128, k), &times));
        }
        let model = model(&table);
        for (k, one, other) in deep {
            let near = model.near(shape(128, 128, k)).unwrap();
            assert!(near.exact, "{k}");
            let seconds = [0, 1].map(|kernel| near.seconds(kernel).unwrap());
            assert!((seconds[0] / seconds[1] - one / other).abs() < 1e-9, "{k}: {seconds:?}");
        }
        let wide = model.near(shape(1 << 20, 128, 16384));
        assert!(wide.is_none(), "too far away");
    }

    /// A shape whose rows are no whole lines is nearest, and slow for bulk copies: it says little about one with whole lines.
    #[test]
    fn bulk_copies_are_predicted_from_rows_of_their_kind() {
        let mut table = Table::new(Dtype::Bf16);
        for (size, micros) in [(2048, 24.0), (2896, 99.0), (4096, 185.0)] {
            let time = |name| Time { kernel: find(name).unwrap(), seconds: micros * 1e-6 };
            let times = ["warpgroup128_bf16", "tensor_core_bf16"].map(time).to_vec();
            table.insert(Entry { shape: Shape::packed(Dtype::Bf16, size, size, size), times });
        }
        let model = model(&table);
        let correction = |size: u32, name: &str| {
            let shape = Shape::packed(Dtype::Bf16, size, size, size);
            let index = model.kernels().iter().position(|kernel| kernel.name == name).unwrap();
            let trend = model.aligned.trends[index].unwrap();
            let terms = terms(model.kernels()[index], shape, h200().multiprocessors);
            model.near(shape).unwrap().seconds(index).unwrap() / trend.seconds(&terms)
        };
        let at = |size| correction(size, "warpgroup128_bf16");
        // Two, five and eight rounds of tiles: those of the middle size take longer for their depth.
        let [low, high] = [at(4096), at(2896)];
        assert!(at(2048) < high && low < high);
        let middle = (low + high) / 2.0;
        assert!(at(3072) < middle && at(3080) > middle, "{low} {} {} {high}", at(3072), at(3080));
        let (other, nearest) = ("tensor_core_bf16", correction(2896, "tensor_core_bf16"));
        assert!((correction(3072, other) / nearest - 1.0).abs() < 0.01, "it makes no bulk copies");
    }

    #[test]
    fn only_shapes_nearby_and_of_the_same_alignment_count() {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0), ("tiled16_f32", 50.0)]));
        let model = model(&table);
        assert!(model.near(shape(4096, 1024, 1024)).is_some());
        assert!(model.near(shape(1024, 8192, 1024)).is_none(), "three octaves");
        assert!(model.near(shape(1024, 1023, 1024)).is_none(), "unaligned");
        assert!(
            model.has(shape(1050, 1000, 1024).class()) && !model.has(shape(2048, 64, 1).class())
        );
        assert!(Model::new(&h200(), &[]).near(shape(1, 1, 1)).is_none());
        let edges = [shape(0, 0, 0), shape(u32::MAX, u32::MAX, u32::MAX), shape(1, u32::MAX, 0)];
        for edge in edges {
            assert!(model.near(edge).is_none_or(|near| near.seconds(0).is_some()));
        }
    }

    #[test]
    fn later_tables_replace_classes_of_earlier_ones() {
        let mut shipped = Table::new(Dtype::F32);
        shipped.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0)]));
        shipped.insert(entry((256, 256, 256), &[("naive_f32", 10.0)]));
        let mut cached = Table::new(Dtype::F32);
        cached.insert(entry((1000, 1024, 1024), &[("naive_f32", 90.0)]));
        let tables = [(Source::Shipped, &shipped), (Source::Measured, &cached)];
        let model = Model::new(&h200(), &tables);
        let near = |m, n, k| model.near(shape(m, n, k)).unwrap().nearest();
        assert_eq!(near(1024, 1024, 1024), (shape(1000, 1024, 1024), Source::Measured));
        assert_eq!(near(256, 256, 256), (shape(256, 256, 256), Source::Shipped));
    }

    #[test]
    fn a_kernel_measured_only_far_away_is_not_compared() {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0)]));
        table.insert(entry((2048, 2048, 1024), &[("naive_f32", 400.0), ("tiled16_f32", 1.0)]));
        let model = model(&table);
        let near = model.near(shape(1000, 1024, 1024)).unwrap();
        let index = |name| model.kernels().iter().position(|kernel| kernel.name == name).unwrap();
        assert!(near.seconds(index("naive_f32")).is_some());
        assert_eq!(near.seconds(index("tiled16_f32")), None);
    }

    /// Random sizes: the kernel with the shortest predicted time is mostly as fast as the fastest, and little slower where
    /// it is not.
    #[test]
    fn predictions_hold_between_measured_shapes() {
        let model = model(&imagined_table(&default_shapes(&h200(), Dtype::F32)));
        let rng = &mut rng(1, 0);
        for multiple in [4, 1] {
            let mut losses = Vec::new();
            for _ in 0..4000 {
                let draw = |()| rng.random_range(5.0..13.0_f64).exp2() as u32 / multiple * multiple;
                let [m, n, k] = [(); 3].map(draw);
                let problem = shape(m, n, k);
                let near = model.near(problem).unwrap();
                let times = model.kernels().iter().enumerate();
                let times: Vec<(f64, f64)> = times
                    .map(|(index, kernel)| {
                        (near.seconds(index).unwrap(), imagined(kernel, problem))
                    })
                    .collect();
                let best = times.iter().map(|(_, actual)| *actual).fold(f64::INFINITY, f64::min);
                let chosen = times.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
                losses.push(chosen / best - 1.0);
            }
            losses.sort_by(f64::total_cmp);
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            let share = |limit: f64| losses.partition_point(|loss| *loss <= limit) as f64 / 4000.0;
            assert!(mean < 0.01, "{mean}");
            assert!(share(0.01) > 0.9, "{} are within 1 %", share(0.01));
        }
    }
}
