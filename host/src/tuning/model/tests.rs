//! Predictions beside a GPU that does not exist, whose times are known for every shape, and beside tables of a few
//! shapes.

use super::super::shapes::default_shapes;
use super::super::table::{
    Entry, Table, Time,
    tests::{entry, on_h200},
};
use super::*;
use crate::device::info::tests::h200;
use crate::kernels::{find, kernels_for, twin};
use crate::verify::rng;
use rand::RngExt;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::Schedule;
use regemm_kernels::layout::Layouts;

/// The time in seconds of a kernel on a GPU that does not exist but has what makes choices hard: blocks that hide each
/// other's latency as far as they are resident together, rounds of blocks, memory that is slower than arithmetic, a
/// fixed time for each launch, and slower loads where rows are no vectors.
pub(crate) fn imagined(kernel: &KernelInfo, shape: Shape) -> f64 {
    imagined_with(h200().multiprocessors, kernel, shape)
}

/// The same with another number of multiprocessors.
fn imagined_with(multiprocessors: u32, kernel: &KernelInfo, shape: Shape) -> f64 {
    const LAUNCH: f64 = 3e-6;
    const CLOCK: f64 = 1.8e9;
    const LATENCY_OF_A_STEP: f64 = 30.0;
    const BLOCKS_BEGUN: f64 = 600.0;
    const BANDWIDTH: f64 = 4e12;
    const LANES: f64 = 128.0;
    let [m, n, k] = [shape.m, shape.n, shape.k].map(f64::from);
    let tile = kernel.tile;
    let resident = (2048.0 / f64::from(kernel.threads())).clamp(1.0, 8.0);
    let a_multiprocessor = kernel.blocks(shape.m, shape.n) as f64 / f64::from(multiprocessors);
    // Where K is split all multiprocessors share all tiles. Kernels that need not split it do not where there are
    // enough: several of those blocks begin and end together.
    let keeps_k = kernel.finishes && kernel.tile.stages > 0 && a_multiprocessor >= 0.5;
    let whole = |rounds: f64| match kernel.schedule {
        Schedule::SplitK | Schedule::StreamK if !keeps_k => rounds,
        _ => rounds.ceil(),
    };
    let together = if keeps_k { f64::from(kernel.entry.min_blocks.unwrap_or(1)) } else { 1.0 };
    let rounds = together * whole(a_multiprocessor / together);
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
    Model::new(&h200(), &[on_h200(Source::Measured, table)])
}

#[test]
fn on_a_measured_shape_the_time_is_the_measured_one() {
    let table = imagined_table(&default_shapes(&h200(), Dtype::F32, Layouts::NN));
    let model = model(&table);
    for entry in table.entries() {
        let near = model.near(entry.shape, Layouts::NN).unwrap();
        assert!(
            near.measured().is_exact()
                && near.measured().nearest() == (entry.shape, Source::Measured)
        );
        for (index, kernel) in model.kernels().iter().enumerate() {
            let (predicted, measured) =
                (near.seconds(index).unwrap(), entry.seconds(kernel).unwrap());
            assert!((predicted / measured - 1.0).abs() < 1e-9, "{} {}", kernel.name, entry.shape);
        }
    }
}

/// Sizes from 16384 on count as alike, but of those that were measured each has its own times.
#[test]
fn the_very_shape_counts_where_others_are_alike() {
    let mut table = Table::new(Dtype::F32);
    for (n, microseconds) in [(16384, 40.0), (28672, 60.0), (32768, 90.0)] {
        table.insert(entry((16, n, 4096), &[("pipelined_f32", microseconds)]));
    }
    let model = model(&table);
    for (n, microseconds) in [(16384, 40.0), (28672, 60.0), (32768, 90.0)] {
        let near = model.near(shape(16, n, 4096), Layouts::NN).unwrap();
        assert!(near.measured().is_exact(), "{n}");
        assert!((near.seconds(0).unwrap() - microseconds * 1e-6).abs() < 1e-12, "{n}");
    }
}

#[test]
fn one_measured_shape_scales_by_work() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((1024, 1024, 1024), &[("pipelined_f32", 100.0)]));
    let model = model(&table);
    let seconds = |m, n, k| model.near(shape(m, n, k), Layouts::NN).unwrap().seconds(0).unwrap();
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
        let near = model.near(shape(128, 128, k), Layouts::NN).unwrap();
        assert!(near.measured().is_exact(), "{k}");
        let seconds = [0, 1].map(|kernel| near.seconds(kernel).unwrap());
        assert!((seconds[0] / seconds[1] - one / other).abs() < 1e-9, "{k}: {seconds:?}");
    }
    let wide = model.near(shape(1 << 20, 128, 16384), Layouts::NN);
    assert!(wide.is_none(), "too far away");
}

/// A shape whose rows are no whole sectors is nearest, and slow for bulk copies: it says little about one with whole
/// lines or sectors.
#[test]
fn bulk_copies_are_predicted_from_rows_of_their_kind() {
    let mut table = Table::new(Dtype::Bf16);
    for (size, micros) in [(2048, 24.0), (2888, 170.0), (4096, 185.0)] {
        let time = |name| Time { kernel: find(name).unwrap(), seconds: micros * 1e-6 };
        let times = ["warpgroup128_bf16", "tensor_core_bf16"].map(time).to_vec();
        table.insert(Entry { shape: Shape::packed(Dtype::Bf16, size, size, size), times });
    }
    let model = model(&table);
    let correction_of = |[m, n, k]: [u32; 3], name: &str| {
        let shape = Shape::packed(Dtype::Bf16, m, n, k);
        let index = model.kernels().iter().position(|kernel| kernel.name == name).unwrap();
        let trend = model.aligned.trends[index].unwrap();
        let terms = terms(model.kernels()[index], shape, h200().multiprocessors);
        model.near(shape, Layouts::NN).unwrap().seconds(index).unwrap() / trend.seconds(&terms)
    };
    let correction = |size, name| correction_of([size; 3], name);
    let at = |size| correction(size, "warpgroup128_bf16");
    // Two, five and eight rounds of tiles: those of the middle size take longer for their depth.
    let [low, high] = [at(4096), at(2888)];
    assert!(at(2048) < high && low < high);
    let middle = (low + high) / 2.0;
    let [lines, sectors, cut] = [3072, 3088, 3080].map(at);
    assert!(lines < middle && cut > middle, "{low} {lines} {cut} {high}");
    assert!(sectors < middle, "{low} {sectors} {high}: nearly as lines");
    let by = |sizes| correction_of(sizes, "warpgroup128_bf16");
    let [a, b] = [by([3072, 3072, 3080]), by([3072, 3080, 3072])];
    assert!(a > middle && b > middle, "{middle} {a} {b}: by the factor with the slower rows");
    let rows_of_d = by([3080, 3072, 3072]);
    assert!(rows_of_d < middle, "{rows_of_d} {middle}: how many rows there are does not count");
    let [lines, cut] = [3072, 3080].map(|size| correction(size, "tensor_core_bf16"));
    assert!((cut / lines - 1.0).abs() < 0.005, "{lines} {cut}: it makes no bulk copies");
}

#[test]
fn only_shapes_nearby_and_of_the_same_alignment_count() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0), ("tiled16_f32", 50.0)]));
    let model = model(&table);
    assert!(model.near(shape(4096, 1024, 1024), Layouts::NN).is_some());
    assert!(model.near(shape(1024, 8192, 1024), Layouts::NN).is_none(), "three octaves");
    assert!(model.near(shape(1024, 1023, 1024), Layouts::NN).is_none(), "unaligned");
    assert!(
        model.has(Layouts::NN, shape(1050, 1000, 1024).class())
            && !model.has(Layouts::NN, shape(2048, 64, 1).class())
    );
    assert!(Model::new(&h200(), &[]).near(shape(1, 1, 1), Layouts::NN).is_none());
    let edges = [shape(0, 0, 0), shape(u32::MAX, u32::MAX, u32::MAX), shape(1, u32::MAX, 0)];
    for edge in edges {
        assert!(model.near(edge, Layouts::NN).is_none_or(|near| near.seconds(0).is_some()));
    }
}

#[test]
fn later_tables_replace_shapes_of_earlier_ones() {
    let mut shipped = Table::new(Dtype::F32);
    shipped.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0)]));
    shipped.insert(entry((256, 256, 256), &[("naive_f32", 10.0)]));
    let mut cached = Table::new(Dtype::F32);
    cached.insert(entry((1024, 1024, 1024), &[("naive_f32", 90.0)]));
    cached.insert(entry((1000, 1024, 1024), &[("naive_f32", 80.0)]));
    let tables = [on_h200(Source::Shipped, &shipped), on_h200(Source::Measured, &cached)];
    let model = Model::new(&h200(), &tables);
    let near = |m, n, k| model.near(shape(m, n, k), Layouts::NN).unwrap().measured().nearest();
    assert_eq!(near(1024, 1024, 1024), (shape(1024, 1024, 1024), Source::Measured));
    assert_eq!(near(1000, 1024, 1024), (shape(1000, 1024, 1024), Source::Measured));
    assert_eq!(near(256, 256, 256), (shape(256, 256, 256), Source::Shipped));
}

#[test]
fn a_kernel_measured_only_far_away_is_not_compared() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0)]));
    table.insert(entry((2048, 2048, 1024), &[("naive_f32", 400.0), ("tiled16_f32", 1.0)]));
    let model = model(&table);
    let near = model.near(shape(1000, 1024, 1024), Layouts::NN).unwrap();
    let index = |name| model.kernels().iter().position(|kernel| kernel.name == name).unwrap();
    assert!(near.seconds(index("naive_f32")).is_some());
    assert_eq!(near.seconds(index("tiled16_f32")), None);
}

/// Where it was measured in the layouts themselves nothing need be known of its twin.
#[test]
fn a_time_on_the_very_shape_counts_without_one_of_the_twin() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((1024, 1024, 1024), &[("naive_f32", 100.0)]));
    table.insert(entry((2048, 2048, 1024), &[("naive_f32", 400.0), ("tiled16_f32", 1.0)]));
    let mut transposed = Table::in_layouts(Dtype::F32, Layouts::NT);
    transposed
        .insert(entry((1000, 1024, 1024), &[("naive_nt_f32", 90.0), ("tiled16_nt_f32", 70.0)]));
    let tables = [&table, &transposed].map(|table| on_h200(Source::Measured, table));
    let model = Model::new(&h200(), &tables);
    let seconds = |m| {
        let near = model.near(shape(m, 1024, 1024), Layouts::NT).unwrap();
        ["naive", "tiled16"].map(|name| {
            let [row_major, twin] = ["", "_nt"].map(|it| find(&format!("{name}{it}_f32")).unwrap());
            let index = model.kernels().iter().position(|it| it.name == row_major.name).unwrap();
            (near.seconds_as(index, twin), near.knows_twin(twin))
        })
    };
    let [naive, tiled] = seconds(1000);
    assert!((naive.0.unwrap() - 90e-6).abs() < 1e-12 && naive.1);
    assert!((tiled.0.unwrap() - 70e-6).abs() < 1e-12 && tiled.1);
    let [naive, tiled] = seconds(1016);
    assert!(naive.0.is_some() && naive.1);
    assert_eq!(tiled, (None, false), "of another shape it says nothing");
}

/// Random sizes: the kernel with the shortest predicted time is mostly as fast as the fastest, and little slower where
/// it is not.
#[test]
fn predictions_hold_between_measured_shapes() {
    let model = model(&imagined_table(&default_shapes(&h200(), Dtype::F32, Layouts::NN)));
    for multiple in [4, 1] {
        assert_close_to_the_fastest(&model, multiple, 0.9);
    }
}

/// Of a GPU with the same multiprocessors, only more or fewer of them, as the versions of an architecture and parts of
/// a GPU have.
#[test]
fn predictions_hold_with_other_counts_of_multiprocessors() {
    let table = imagined_table(&default_shapes(&h200(), Dtype::F32, Layouts::NN));
    for multiprocessors in [16, 60, 114, 144] {
        let device = DeviceInfo { multiprocessors, ..h200() };
        let model = Model::new(&device, &[on_h200(Source::Alike, &table)]);
        assert_close_to_the_fastest(&model, 4, 0.85);
        let measured = model.near(shape(1024, 1024, 1024), Layouts::NN).unwrap();
        assert_eq!(measured.measured().nearest(), (shape(1024, 1024, 1024), Source::Alike));
        assert!(!measured.measured().is_exact(), "not on this GPU");
    }
}

/// What a layout takes longer is a ratio: measured on one GPU it holds for another, and between shapes; on the very
/// shape it is the time.
#[test]
fn what_other_layouts_take_is_relative_to_row_major_factors() {
    let table = imagined_table(&default_shapes(&h200(), Dtype::F32, Layouts::NN));
    let mut transposed = Table::in_layouts(Dtype::F32, Layouts::TN);
    for n in [256, 1024, 4096] {
        // Some have no twin.
        let entry = table.get(shape(n, n, n)).unwrap().times.iter();
        let times = entry.filter_map(|time| {
            let kernel = twin(time.kernel, Layouts::TN)?;
            Some(Time { kernel, seconds: 1.25 * time.seconds })
        });
        transposed.insert(Entry { shape: shape(n, n, n), times: times.collect() });
    }
    for multiprocessors in [h200().multiprocessors, 60] {
        let device = DeviceInfo { multiprocessors, ..h200() };
        let is_own = multiprocessors == h200().multiprocessors;
        let source = if is_own { Source::Measured } else { Source::Alike };
        let model = Model::new(&device, &[&table, &transposed].map(|it| on_h200(source, it)));
        let index = model.kernels().iter().position(|it| it.name == "tiled32_f32").unwrap();
        let tiled = find("tiled32_tn_f32").unwrap();
        let ratio = |n| {
            let [own, row_major] = [Layouts::TN, Layouts::NN].map(|layouts| {
                let near = model.near(shape(n, n, n), layouts).unwrap();
                let seconds = near.seconds_as(index, tiled).unwrap();
                (seconds, near.measured().is_exact(), near.knows_twin(tiled))
            });
            assert_eq!((own.1, own.2), (is_own && n == 1024, true), "{n}");
            assert!(!row_major.2, "they are no twins");
            own.0 / row_major.0
        };
        assert!((ratio(1024) - 1.25).abs() < 1e-9);
        let between = ratio(1100);
        assert!(between > 1.21 && between < 1.25 + 1e-9, "{between}: but for noise");
        let between_two = ratio(2000);
        assert!(between_two > 1.21 && between_two < 1.25 + 1e-9, "{between_two}");
        let far = model.near(shape(16, 16384, 16384), Layouts::TN).unwrap();
        assert!(!far.knows_twin(tiled), "as fast as its twin, for all that is known");
        assert!(model.has(Layouts::TN, shape(1024, 1024, 1024).class()) == is_own);
    }
}

/// The choice by a model is close to the fastest of the imagined GPU on average, and within 1 % for a share of random
/// sizes, which are multiples of a number.
fn assert_close_to_the_fastest(model: &Model, multiple: u32, least: f64) {
    const SIZES: usize = 4000;
    let rng = &mut rng(1, u64::from(multiple));
    let mut losses = Vec::new();
    for _ in 0..SIZES {
        let draw = |()| rng.random_range(5.0..13.0_f64).exp2() as u32 / multiple * multiple;
        let [m, n, k] = [(); 3].map(draw);
        let problem = shape(m, n, k);
        let near = model.near(problem, Layouts::NN).unwrap();
        let actual = |kernel| imagined_with(model.multiprocessors, kernel, problem);
        let times: Vec<(f64, f64)> = model
            .kernels()
            .iter()
            .enumerate()
            .map(|(index, kernel)| (near.seconds(index).unwrap(), actual(kernel)))
            .collect();
        let best = times.iter().map(|(_, actual)| *actual).fold(f64::INFINITY, f64::min);
        let chosen = times.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
        losses.push(chosen / best - 1.0);
    }
    losses.sort_by(f64::total_cmp);
    let mean = losses.iter().sum::<f64>() / SIZES as f64;
    let share = |limit: f64| losses.partition_point(|loss| *loss <= limit) as f64 / SIZES as f64;
    println!("{}: {mean:.4} on average", model.multiprocessors);
    assert!(mean < 0.01, "{mean}");
    assert!(share(0.01) > least, "{} are within 1 %", share(0.01));
}

/// Of two kernels with the same times where the cache has room enough the one that keeps pace is expected to be faster
/// where it has not, unless measured times there say otherwise.
#[test]
fn blocks_that_drift_apart_take_longer_than_where_they_were_measured() {
    let kernels = ["warpgroup_bf16", "warpgroup_pair_bf16"].map(|name| find(name).unwrap());
    let cube = |size| Shape::packed(Dtype::Bf16, size, size, size);
    let mut table = Table::new(Dtype::Bf16);
    let mut insert = |size, seconds| {
        let times = kernels.map(|kernel| Time { kernel, seconds }).to_vec();
        table.insert(Entry { shape: cube(size), times });
        let model = model(&table);
        let of = |size| {
            let near = model.near(cube(size), Layouts::NN).unwrap();
            let seconds = |kernel: &KernelInfo| {
                near.seconds(model.kernels().iter().position(|k| k.name == kernel.name).unwrap())
            };
            let [drifts, keeps_pace] = kernels.map(|kernel| seconds(kernel).unwrap());
            drifts / keeps_pace
        };
        [8192, 12_288, 16_384].map(of).map(|ratio| (ratio * 1e6).round() / 1e6)
    };
    assert_eq!(insert(8192, 1.6e-3), [1.0, DRIFT, DRIFT]);
    assert_eq!(insert(16_384, 12.5e-3)[2], 1.0);
}
