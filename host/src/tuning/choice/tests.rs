//! The choice by tables that are made up, and by those that are shipped.

use super::super::document::Document;
use super::super::model::are_alike;
use super::super::model::tests::imagined_table;
use super::super::shapes::default_shapes;
use super::super::shipped;
use super::super::table::{
    Entry, Source, Table,
    tests::{entry, on_h200},
};
use super::*;
use crate::device::info::tests::h200;
use crate::kernels::{LaunchShape, Types, family_name, twin};
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::Summation;
use std::collections::HashSet;

fn problem(m: u32, n: u32, k: u32) -> Problem {
    Problem::new(Dtype::F32, m, n, k)
}

fn choose_in(table: &Table, device: &DeviceInfo, problem: Problem) -> Result<Selection, NotTuned> {
    let model = Model::new(device, &[on_h200(Source::Measured, table)]);
    let shape = Shape::packed(problem.dtype, problem.m, problem.n, problem.k);
    choose([&model], &problem, shape, device, None)
}

fn tuned(selection: &Selection) -> Tuned {
    let Why::Tuned(tuned) = selection.why else { panic!("{selection}") };
    tuned
}

#[test]
fn the_fastest_is_chosen_with_its_reason() {
    let mut table = Table::new(Dtype::F32);
    let times = [("tiled16_f32", 50.0), ("tiled32_f32", 40.0), ("pipelined_f32", 41.0)];
    table.insert(entry((256, 256, 256), &times));
    let selection = choose_in(&table, &h200(), problem(256, 256, 256)).unwrap();
    assert_eq!(selection.kernel.name, "tiled32_f32");
    let why = tuned(&selection);
    assert!(why.exact && why.source == Source::Measured);
    let runner_up = why.runner_up.unwrap();
    assert_eq!(runner_up.kernel.name, "pipelined_f32");
    assert!((runner_up.slower - 0.025).abs() < 1e-9);
    let text = selection.to_string();
    for part in ["tiled32_f32", "this very shape", "40.00 us", "pipelined_f32 2.5 % slower"] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    let near = choose_in(&table, &h200(), problem(256, 256, 300)).unwrap().to_string();
    assert!(near.contains("nearest 256 x 256 x 256"), "{near}");
}

#[test]
fn the_rule_decides_between_equals() {
    let mut table = Table::new(Dtype::F32);
    let times =
        [("tiled16_f32", 999.0), ("pipelined_f32", 1001.0), ("double_buffered_f32", 1000.0)];
    table.insert(entry((2048, 2048, 2048), &times));
    let selection = choose_in(&table, &h200(), problem(2048, 2048, 2048)).unwrap();
    assert_eq!(selection.kernel.name, "pipelined_f32", "the highest rung of three equals");
    assert!(selection.to_string().contains("tiled16_f32 as fast"), "{selection}");
}

#[test]
fn what_the_device_cannot_run_is_passed_over() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((64, 64, 64), &[("tiled32_f32", 1.0), ("tiled16_f32", 2.0)]));
    let narrow = DeviceInfo { max_threads_per_block: 512, ..h200() };
    let selection = choose_in(&table, &narrow, problem(64, 64, 64)).unwrap();
    assert_eq!(selection.kernel.name, "tiled16_f32");
    assert!(tuned(&selection).runner_up.is_none());
}

#[test]
fn without_times_it_says_why() {
    let mut table = Table::new(Dtype::F32);
    let nothing = choose_in(&table, &h200(), problem(64, 64, 64)).unwrap_err();
    assert_eq!(nothing, NotTuned::NoTable);
    table.insert(entry((64, 64, 64), &[("tiled32_f32", 1.0)]));
    let far = choose_in(&table, &h200(), problem(4096, 4096, 4096)).unwrap_err();
    assert_eq!(far, NotTuned::NothingNear);
}

#[test]
fn other_layouts_take_the_twin_of_the_fastest_that_has_one() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((64, 64, 64), &[("tiled32_f32", 1.0), ("tiled16_f32", 2.0)]));
    table.insert(entry((4096, 4096, 4096), &[("pipelined_f32", 1.0), ("tiled16_f32", 2.0)]));
    let transposed = |size| Problem { layouts: Layouts::TN, ..problem(size, size, size) };
    let selection = choose_in(&table, &h200(), transposed(64)).unwrap();
    assert_eq!(selection.kernel.name, "tiled32_tn_f32");
    assert_eq!(tuned(&selection).twin_of.unwrap().name, "tiled32_f32");
    assert!(selection.to_string().contains("the twin of tiled32_f32"), "{selection}");
    let second = choose_in(&table, &h200(), transposed(4096)).unwrap();
    assert_eq!(second.kernel.name, "tiled16_tn_f32", "the first has none");
    assert!(tuned(&second).runner_up.is_none(), "{second}");
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((4096, 4096, 4096), &[("pipelined_f32", 1.0), ("microkernel_f32", 2.0)]));
    let none = choose_in(&table, &h200(), transposed(4096)).unwrap_err();
    assert_eq!(none, NotTuned::NoTwin("pipelined_f32"));
    assert!(none.to_string().contains("such as pipelined_f32, has a twin"), "{none}");
}

/// What is next is said by the name of what would be launched, and is not the kernel that was chosen.
#[test]
fn the_next_kernel_is_one_for_the_layouts() {
    let times = [("sliced_k_f32", 1.0), ("sliced_k_bulk_f32", 1.1), ("tiled16_f32", 9.0)];
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((1024, 1152, 1024), &times));
    let problem = Problem { layouts: Layouts::NT, ..problem(1024, 1152, 1024) };
    let selection = choose_in(&table, &h200(), problem).unwrap();
    assert_eq!(selection.kernel.name, "sliced_k_bulk_nt_f32");
    assert_eq!(tuned(&selection).runner_up.unwrap().kernel.name, "tiled16_nt_f32", "{selection}");
}

/// Each kernel that has an expected time is there with it: also the chosen one where that is the time of another with
/// the same tiles.
#[test]
fn the_chosen_kernel_is_explained_with_its_time() {
    let device = crate::gpus::find("h200").unwrap().info();
    for layouts in Layouts::ALL {
        for (m, n, k) in [(512, 10_001, 8192), (16_384, 16_383, 16_384), (1024, 1024, 1024)] {
            let problem = Problem::packed(Dtype::F32, (m, n, k), layouts);
            let shape = Shape::packed_in(layouts, Dtype::F32, m, n, k);
            let explained = super::super::explain::explain_shipped(&device, &problem, shape);
            let selection = explained.selection.unwrap();
            let first = &explained.ranking[0];
            assert_eq!(first.kernel.name, selection.kernel.name);
            assert_eq!(first.predicted, Some(tuned(&selection).predicted), "{selection}");
        }
    }
}

/// The expected seconds of what a GPU chooses, and its name.
fn explained_on(gpu: &str, problem: &Problem) -> (f64, &'static str) {
    let device = crate::gpus::find(gpu).unwrap().info();
    let Problem { m, n, k, .. } = *problem;
    let shape = Shape::packed_in(problem.layouts, problem.dtype, m, n, k);
    let explained = super::super::explain::explain_shipped(&device, problem, shape);
    let selection = explained.selection.unwrap();
    (tuned(&selection).predicted.as_secs_f64(), selection.kernel.name)
}

/// Transposed weights of an odd number of outputs are copied by nobody, and those of row-major B alone: D's odd rows
/// cost something, but no copies of both factors.
#[test]
fn only_factors_that_are_copied_take_time_for_it() {
    for gpu in ["h100", "h200"] {
        for ((m, n, k), layouts, most) in [
            ((64, 50_303, 768), Layouts::NT, 1.45),
            ((16, 128_255, 8192), Layouts::NT, 1.05),
            ((128, 11_007, 4096), Layouts::NT, 1.25),
            ((8192, 7, 8192), Layouts::NN, 1.35),
            ((8192, 100, 8192), Layouts::NN, 1.35),
        ] {
            let seconds =
                |n| explained_on(gpu, &Problem::packed(Dtype::Bf16, (m, n, k), layouts)).0;
            let ratio = seconds(n) / seconds(n.next_multiple_of(8));
            assert!((0.9..most).contains(&ratio), "{gpu}: {m} x {n} x {k} {layouts}: {ratio:.2}");
        }
    }
}

/// One row of A or D that is no whole vectors is as good as none.
#[test]
fn what_has_few_bytes_says_little_of_vectors() {
    let shapes = [(1, 16_383, 8192_u32, Layouts::NT), (1, 16_384, 4095, Layouts::NN)];
    for (m, n, k, layouts) in shapes {
        let [odd, even] = [(n, k), (16_384, k.next_multiple_of(8))]
            .map(|(n, k)| explained_on("h200", &Problem::packed(Dtype::F16, (m, n, k), layouts)).0);
        assert!((0.99..1.1).contains(&(odd / even)), "{m} x {n} x {k}: {:.2}", odd / even);
    }
}

/// In D that is large in both directions nothing is new from a depth on, and larger tiles are faster than smaller ones.
#[test]
fn the_largest_products_are_chosen_by_the_largest_that_were_measured() {
    for (types, size) in [(Dtype::Bf16, 32_767), (Dtype::F32, 32_768), (Dtype::F64, 40_001)] {
        explained_on("h200", &Problem::new(types, size, size, size));
    }
}

/// As long as nothing near is known of kernels with such results, what is known of others says which is fastest.
#[test]
fn results_of_another_type_are_chosen_by_their_own_times_or_else_by_those_of_twins() {
    let wide = Types { factors: Dtype::Bf16, results: Dtype::F32 };
    let times = |suffix: &str, [pair, plain]: [f64; 2]| {
        let names = ["warpgroup_pair", "warpgroup"].map(|name| format!("{name}_{suffix}"));
        entry((4096, 4096, 4096), &[(&names[0], pair), (&names[1], plain)])
    };
    let (mut short, mut own) = (Table::new(Dtype::Bf16), Table::new(wide));
    short.insert(times("bf16", [170.0, 180.0]));
    own.insert(times("bf16_f32", [200.0, 190.0]));
    let model = |table| Model::new(&h200(), &[on_h200(Source::Measured, table)]);
    let (short, own, none) = (model(&short), model(&own), model(&Table::new(wide)));
    let chosen = |models: [&Model; 2], size| {
        let problem = Problem::new(wide, size, size, size);
        let shape = Shape::packed(Dtype::Bf16, size, size, size);
        choose(models, &problem, shape, &h200(), None)
    };
    let by_own = chosen([&own, &short], 4096).unwrap();
    assert_eq!(by_own.kernel.name, "warpgroup_bf16_f32");
    assert!(tuned(&by_own).twin_of.is_none());
    let by_twin = chosen([&none, &short], 4096).unwrap();
    assert_eq!(by_twin.kernel.name, "warpgroup_pair_bf16_f32");
    assert_eq!(tuned(&by_twin).twin_of.unwrap().name, "warpgroup_pair_bf16");
    assert_eq!(chosen([&own, &short], 64).unwrap_err(), NotTuned::NothingNear);
    assert_eq!(chosen([&none, &none], 4096).unwrap_err(), NotTuned::NoTable);
}

/// The kernel that a table of bf16 chooses for squares, by their layouts.
fn chosen_for(table: &Table, size: u32) -> impl Fn(Layouts) -> &'static str {
    move |layouts| {
        let problem = Problem { layouts, ..Problem::new(Dtype::Bf16, size, size, size) };
        choose_in(table, &h200(), problem).unwrap().kernel.name
    }
}

/// Of 2560 x 2560 tiles are 208 wide, but 256 where that is across rows of both factors.
#[test]
fn tiles_that_fit_take_as_long_as_they_are_wide() {
    let mut table = Table::new(Dtype::Bf16);
    let times = [("warpgroup_fitted_bf16", 49.0), ("warpgroup_bf16", 52.0)];
    table.insert(entry((2560, 2560, 2560), &times));
    let chosen = [Layouts::NN, Layouts::NT, Layouts::TN].map(chosen_for(&table, 2560));
    assert_eq!(chosen, ["warpgroup_fitted_bf16", "warpgroup_fitted_nt_bf16", "warpgroup_tn_bf16"]);
}

#[test]
fn a_kernel_that_is_not_there_for_all_layouts_is_chosen_where_it_is() {
    let mut table = Table::new(Dtype::Bf16);
    let times = [("warpgroup_fitted_tall_bf16", 30.0), ("warpgroup_fitted_pair_bf16", 39.0)];
    table.insert(entry((2200, 2200, 2200), &times));
    let chosen = [Layouts::NN, Layouts::TT, Layouts::TN].map(chosen_for(&table, 2200));
    let tall = ["warpgroup_fitted_tall_bf16", "warpgroup_fitted_tall_tt_bf16"];
    assert_eq!(chosen, [tall[0], tall[1], "warpgroup_fitted_pair_tn_bf16"]);
}

/// At a shape by its own times, near it by how those of kernels compare to those of their twins, and else by twins
/// alone.
#[test]
fn other_layouts_have_times_of_their_own() {
    let mut row_major = Table::new(Dtype::Bf16);
    let mut transposed = Table::in_layouts(Dtype::Bf16, Layouts::NT);
    // In microseconds for each row.
    let times = |suffix: &str, [one, other]: [f64; 2], n: u32| {
        let names = ["warpgroup", "warpgroup128"].map(|name| format!("{name}_{suffix}"));
        let [one, other] = [one, other].map(|micros| micros * f64::from(n));
        entry((n, 2 * n, n / 2), &[(&names[0], one), (&names[1], other)])
    };
    for n in [512, 1024, 4096] {
        row_major.insert(times("bf16", [1.0, 1.1], n));
    }
    transposed.insert(times("nt_bf16", [1.2, 1.0], 1024));
    let tables = [&row_major, &transposed].map(|table| on_h200(Source::Measured, table));
    let model = Model::new(&h200(), &tables);
    let chosen = |n, layouts| {
        let problem = Problem::packed(Dtype::Bf16, (n, 2 * n, n / 2), layouts);
        let shape = Shape::packed_in(layouts, Dtype::Bf16, n, 2 * n, n / 2);
        choose([&model], &problem, shape, &h200(), None).unwrap()
    };
    let own = chosen(1024, Layouts::NT);
    assert_eq!(own.kernel.name, "warpgroup128_nt_bf16");
    let Tuned { exact, twin_of, predicted, runner_up, .. } = tuned(&own);
    assert!(exact && twin_of.is_none(), "{own}");
    assert_eq!(predicted, Duration::from_micros(1024));
    let runner_up = runner_up.unwrap();
    assert_eq!(runner_up.kernel.name, "warpgroup_nt_bf16");
    assert!((runner_up.slower - 0.2).abs() < 1e-9, "{own}");
    let near = chosen(896, Layouts::NT);
    assert_eq!(near.kernel.name, "warpgroup128_nt_bf16");
    assert!(
        !tuned(&near).exact && near.to_string().contains("nearest 1024 x 2048 x 512"),
        "{near}"
    );
    let far = chosen(8192, Layouts::NT);
    assert_eq!(far.kernel.name, "warpgroup_nt_bf16");
    let twin = tuned(&far).twin_of.unwrap();
    assert_eq!((twin.name, tuned(&far).nearest.m), ("warpgroup_bf16", 4096));
    for layouts in [Layouts::NN, Layouts::TN] {
        assert_eq!(
            family_name(chosen(1024, layouts).kernel),
            "warpgroup",
            "nobody measured {layouts}"
        );
    }
}

/// Narrower tiles are no faster where memory takes the time: so they were measured, with A and B in other layouts.
#[test]
fn tiles_that_fit_are_no_faster_for_being_narrower_in_other_layouts() {
    let mut table = Table::new(Dtype::Bf16);
    let times = [("warpgroup64_bf16", 188.0), ("warpgroup_fitted_pair_bf16", 250.0)];
    let mut fine = entry((16384, 16, 16384), &times);
    fine.shape = Shape::packed(Dtype::Bf16, 16384, 16, 16384);
    table.insert(fine);
    let model = Model::new(&h200(), &[on_h200(Source::Measured, &table)]);
    for layouts in Layouts::ALL {
        let problem = Problem::packed(Dtype::Bf16, (16384, 16, 16384), layouts);
        let shape = Shape::packed_in(layouts, Dtype::Bf16, 16384, 16, 16384);
        let selection = choose([&model], &problem, shape, &h200(), None).unwrap();
        assert_eq!(family_name(selection.kernel), "warpgroup64", "{selection}");
    }
}

/// What is measured in NN says nothing of what it takes to transpose both factors, or none.
#[test]
fn other_layouts_take_slices_in_the_faster_way() {
    let times = [("sliced_k_f32", 1.0), ("sliced_k_bulk_f32", 1.1), ("tiled16_f32", 9.0)];
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((512, 640, 512), &times));
    table.insert(entry((1024, 1152, 1024), &times));
    let chosen = |(m, n, k), layouts| {
        let problem = Problem { layouts, ..problem(m, n, k) };
        choose_in(&table, &h200(), problem).unwrap().kernel.name
    };
    let large = (1024, 1152, 1024);
    assert_eq!(chosen(large, Layouts::NN), "sliced_k_f32", "as measured");
    assert_eq!(chosen(large, Layouts::NT), "sliced_k_bulk_nt_f32", "both are transposed");
    assert_eq!(chosen(large, Layouts::TN), "sliced_k_bulk_tn_f32", "none is");
    let small = (512, 640, 512);
    assert_eq!(chosen(small, Layouts::NT), "sliced_k_nt_f32", "for too little");
    assert_eq!(chosen(small, Layouts::TN), "sliced_k_bulk_tn_f32");
}

#[test]
fn times_of_single_products_say_nothing_of_batches() {
    let mut table = Table::new(Dtype::F32);
    table.insert(entry((64, 64, 64), &[("tiled32_f32", 1.0)]));
    let batch = Problem { batch: 2, ..problem(64, 64, 64) };
    assert_eq!(choose_in(&table, &h200(), batch).unwrap_err(), NotTuned::Batch);
}

#[test]
fn a_rung_is_kept_to() {
    let table = imagined_table(&default_shapes(&h200(), Dtype::F32, Layouts::NN));
    let model = Model::new(&h200(), &[on_h200(Source::Shipped, &table)]);
    let shape = Shape::packed(Dtype::F32, 1000, 2000, 3000);
    let halves = [Rung::TensorCore, Rung::Warpgroup];
    for rung in Rung::ALL.into_iter().filter(|rung| !halves.contains(rung)) {
        let problem = problem(1000, 2000, 3000);
        let selection = choose([&model], &problem, shape, &h200(), Some(rung)).unwrap();
        assert_eq!(selection.kernel.rung, rung);
    }
}

/// The times of a real GPU, with one size after the other left out, of which the last is predicted from smaller ones
/// alone: the choice is close to the fastest.
#[test]
fn recorded_sizes_are_predicted_from_the_others() {
    // At 1024 alone some tiles are shared by four blocks each, of which the other sizes know nothing.
    const SLACK: f64 = 0.03;
    let record = include_str!("../../../../docs/measurements/2026-11-21-h200-ladder-f32.json");
    let record: serde_json::Value = serde_json::from_str(record).unwrap();
    let rounds = record["rounds"].as_array().unwrap();
    let times = |round: &serde_json::Value| {
        let entries = round["entries"].as_array().unwrap().iter();
        let of_kernels = entries.filter(|e| e["name"] != "cuBLASLt");
        of_kernels
            .map(|e| {
                let name = e["name"].as_str().unwrap().to_owned();
                (name, e["milliseconds"].as_f64().unwrap() * 1e3)
            })
            .collect::<Vec<_>>()
    };
    for left_out in 1..rounds.len() {
        let mut table = Table::new(Dtype::F32);
        for (index, round) in rounds.iter().enumerate() {
            if index != left_out {
                let size = round["size"].as_u64().unwrap() as u32;
                let times = times(round);
                let times: Vec<_> = times.iter().map(|(name, t)| (name.as_str(), *t)).collect();
                table.insert(entry((size, size, size), &times));
            }
        }
        let size = rounds[left_out]["size"].as_u64().unwrap() as u32;
        let selection = choose_in(&table, &h200(), problem(size, size, size)).unwrap();
        let times = times(&rounds[left_out]);
        let time = |name: &str| times.iter().find(|(known, _)| known == name).unwrap().1;
        let fastest = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let slower = time(selection.kernel.name) / fastest - 1.0;
        assert!(slower <= SLACK, "{size}: {selection}, but it is {slower:.3} slower");
    }
}

/// How much slower than the fastest the kernels are that would be chosen on some measured shapes if these had not been
/// measured, each predicted from all others; and on how many of them the chosen one was not measured, since it came
/// later.
fn losses_where_left_out(table: &Table, wanted: impl Fn(&Shape) -> bool) -> (Vec<f64>, usize) {
    let loss = |left_out: &Entry| {
        let mut others = Table::new(table.types());
        let rest = table.entries().filter(|entry| entry.shape != left_out.shape);
        rest.for_each(|entry| others.insert(entry.clone()));
        let Shape { m, n, k, .. } = left_out.shape;
        let problem = Problem::new(table.types(), m, n, k);
        let selection = choose_in(&others, &h200(), problem).unwrap();
        // Where sums are to be promoted only kernels that do so are asked.
        let is_asked = |kernel: &KernelInfo| match selection.why {
            Why::Tuned(Tuned { promoted: true, .. }) => kernel.summation == Summation::Promoted,
            _ => true,
        };
        let asked = left_out.times.iter().filter(|time| is_asked(time.kernel));
        let fastest = asked.map(|time| time.seconds).fold(f64::INFINITY, f64::min);
        left_out.seconds(selection.kernel).map(|seconds| seconds / fastest - 1.0)
    };
    let wanted: Vec<_> = table.entries().filter(|entry| wanted(&entry.shape)).collect();
    // On all processors: half a minute on one, as the last test of all that is left to run.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = wanted.len().div_ceil(threads).max(1);
    let found: Vec<_> = std::thread::scope(|scope| {
        let parts = wanted.chunks(part).map(|part| {
            scope.spawn(|| part.iter().map(|left_out| loss(left_out)).collect::<Vec<_>>())
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let unknown = found.iter().filter(|loss| loss.is_none()).count();
    let mut losses: Vec<_> = found.into_iter().flatten().collect();
    losses.sort_by(f64::total_cmp);
    (losses, unknown)
}

fn mean(losses: &[f64]) -> f64 {
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// Between measured shapes as well kernels for few rows and columns are those that are made for D's sides.
#[test]
fn few_rows_and_columns_go_to_kernels_that_are_made_for_them() {
    for short in 1..=32 {
        for (layouts, sides) in [(Layouts::NT, (short, 7000)), (Layouts::NN, (7000, short))] {
            let (m, n, k) = (sides.0, sides.1, 5000);
            let problem = Problem::packed(Dtype::F32, (m, n, k), layouts);
            let shape = Shape::packed_in(layouts, Dtype::F32, m, n, k);
            let explained = super::super::explain::explain_shipped(&h200(), &problem, shape);
            let kernel = explained.selection.unwrap().kernel;
            assert_eq!(kernel.rung, Rung::Skinny, "{problem}: {}", kernel.name);
            assert!(is_told_for_sides(kernel, problem.m, problem.n), "{problem}: {}", kernel.name);
        }
    }
}

/// Each measured shape of the shipped tables predicted from the others, which are farther away than those of most
/// shapes that are not measured: the choice is close to the fastest there was.
#[test]
fn shipped_shapes_are_predicted_from_the_others() {
    // In f32 there are kernels for few columns whose times jump from one to the next, and which are the fastest for
    // small D of any sides; and a sixth of the shapes is drawn at random, most of them small.
    let most_of =
        |types: Types| if types.factors == Dtype::F32 { (0.037, 0.115) } else { (0.02, 0.06) };
    for dtype in Dtype::ALL {
        assert!(shipped::table(&h200().name, dtype).is_some(), "times of every type: {dtype}");
    }
    for types in Types::ALL {
        let tables = shipped::gpus().filter_map(|gpu| Some((gpu, shipped::table(gpu, types)?)));
        let mut of_types = 0;
        for (gpu, table) in tables {
            of_types += 1;
            let (losses, unknown) = losses_where_left_out(&table, |_| true);
            assert!(unknown * 10 < losses.len(), "{types}: of {unknown} nobody knows");
            let mean = mean(&losses);
            let tenth = losses[losses.len() * 9 / 10];
            println!("{gpu}, {types}: {mean:.4} on average, one in ten {tenth:.3} or more");
            let (most, most_of_tenth) = most_of(types);
            assert!(mean < most && tenth < most_of_tenth, "{gpu}, {types}: {mean:.4}, {tenth:.3}");
        }
        assert!(of_types > 0, "nobody has times of {types}");
    }
}

/// Of shapes whose rows are whole vectors the wanted ones, more than `least`, predicted from all others: of both types
/// of half precision, and on average less than `most` slower than the fastest.
fn assert_predicted(wanted: impl Fn(&Shape) -> bool, least: usize, most: f64) {
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for gpu in shipped::gpus() {
            let table = shipped::table(gpu, dtype).unwrap();
            let aligned = |shape: &Shape| shape.aligned && wanted(shape);
            let (losses, unknown) = losses_where_left_out(&table, aligned);
            assert!(
                losses.len() > least && unknown == 0,
                "{gpu}, {dtype}: {unknown} of {}",
                losses.len()
            );
            let mean = mean(&losses);
            println!("{gpu}, {dtype}: {mean:.4} on average");
            assert!(mean < most, "{gpu}, {dtype}: {mean:.4}");
        }
    }
}

/// From square to square the tiles of the last round are shared or are not, and other kernels are the fastest, by up to
/// a quarter: 2176 takes tiles of 192 columns, 2688 such of 256, and 3200 such of 128.
#[test]
fn squares_are_predicted_from_their_neighbours() {
    let square = |shape: &Shape| shape.m == shape.n && shape.n == shape.k;
    assert_predicted(|shape| square(shape) && (1280..=4608).contains(&shape.m), 25, 0.01);
}

/// Rows of 1000, 2200 or 5000 elements of half precision are slow to fetch, and other tiles the fastest, by up to a
/// half; those of 2400 or 2800 are nearly as fast as lines.
#[test]
fn shapes_whose_rows_are_no_whole_lines_are_predicted_from_the_others() {
    let large = |shape: &Shape| shape.m.min(shape.n).min(shape.k) > 500;
    let no_lines = |shape: &Shape| [shape.n, shape.k].iter().any(|cols| cols % 64 != 0);
    assert_predicted(|shape| large(shape) && no_lines(shape), 15, 0.022);
}

/// What a GPU knows of the layouts of a table: all shapes of row-major factors, those of GPUs that are alike, and these
/// of the table.
fn model_with<'e>(
    row_major: &Table,
    of_others: &[&Table],
    layouts: Layouts,
    known: impl Iterator<Item = &'e Entry>,
) -> Model {
    let mut of_layouts = Table::in_layouts(row_major.types(), layouts);
    known.for_each(|entry| of_layouts.insert(entry.clone()));
    let own = [row_major, &of_layouts].map(|table| on_h200(Source::Shipped, table));
    let others = of_others.iter().map(|table| on_h200(Source::Alike, table));
    Model::new(&h200(), &Vec::from_iter(others.chain(own)))
}

/// How much slower than the fastest the kernels are that a model chooses on measured shapes in some layouts; of those
/// that were measured there.
fn losses_in_layouts<'e>(
    model: &Model,
    layouts: Layouts,
    entries: impl Iterator<Item = &'e Entry>,
    is_told: impl Fn(&KernelInfo) -> bool,
) -> Vec<f64> {
    let loss = |entry: &Entry| {
        let Shape { m, n, k, .. } = entry.shape;
        let problem = Problem::packed(model.types().unwrap(), (m, n, k), layouts);
        let selection = choose([model], &problem, entry.shape, &h200(), None).unwrap();
        assert!(is_told(selection.kernel), "nobody can tell how fast it is: {selection}");
        let told = entry.times.iter().filter(|time| is_told(time.kernel));
        let fastest = told.map(|time| time.seconds).fold(f64::INFINITY, f64::min);
        Some(entry.seconds(selection.kernel)? / fastest - 1.0)
    };
    entries.filter_map(loss).collect()
}

/// Measured shapes are predicted a part at a time, from all other parts.
const PARTS: usize = 8;

/// Of other layouts as many shapes as are needed: on those the fastest is chosen, and between them a kernel that is
/// close to it.
#[test]
fn shipped_layouts_are_predicted_from_one_another_and_from_row_major_factors() {
    let mut found = 0;
    for gpu in shipped::gpus() {
        let tables = shipped::tables(gpu);
        let is_row_major = |table: &&Table| table.layouts() == Layouts::NN;
        for table in tables.iter().filter(|table| !is_row_major(table)) {
            found += 1;
            let (types, layouts) = (table.types(), table.layouts());
            let mut of_types = tables.iter().filter(is_row_major);
            let row_major = of_types.find(|other| other.types() == types).unwrap();
            let alike = |other: &Table| (other.types(), other.layouts()) == (types, layouts);
            let of_others = shipped::gpus().filter(|other| *other != gpu).flat_map(shipped::tables);
            let of_others = Vec::from_iter(of_others.filter(alike));
            let of_others = Vec::from_iter(&of_others);
            let entries = Vec::from_iter(table.entries());
            let part_of = |part| {
                let numbered = entries.iter().copied().enumerate();
                numbered.partition::<Vec<_>, _>(|(index, _)| index % PARTS == part)
            };
            let predicted = |part| {
                let (wanted, others) = part_of(part);
                let known = others.into_iter().map(|(_, entry)| entry);
                let model = model_with(row_major, &of_others, layouts, known);
                losses_in_layouts(
                    &model,
                    layouts,
                    wanted.into_iter().map(|(_, entry)| entry),
                    |_| true,
                )
            };
            let by_all = model_with(row_major, &of_others, layouts, table.entries());
            let by_none = model_with(row_major, &of_others, layouts, std::iter::empty());
            let own = losses_in_layouts(&by_all, layouts, table.entries(), |_| true);
            // Of a transposed B there are kernels of which row-major factors have none alike. Who has no times of
            // these, of any GPU, does not choose them.
            let is_told = |kernel: &KernelInfo| {
                let row_major = twin(kernel, Layouts::NN);
                !of_others.is_empty() || row_major.is_some_and(|twin| are_alike(twin, kernel))
            };
            // Shapes that another GPU's tables have for these factors and layouts, whatever the results, and those that
            // this one alone has.
            let tables_of_others = Vec::from_iter(
                shipped::gpus().filter(|other| *other != gpu).flat_map(shipped::tables),
            );
            let is_known = |entry: &&Entry| {
                let mut tables = tables_of_others.iter().filter(|other| {
                    (other.types().factors, other.layouts()) == (types.factors, layouts)
                });
                tables.any(|other| other.get(entry.shape).is_some())
            };
            let none_of = |wanted: bool| {
                let entries = table.entries().filter(|entry| is_known(entry) == wanted);
                losses_in_layouts(&by_none, layouts, entries, is_told)
            };
            let [known, new] = [true, false].map(none_of);
            let none = [&known[..], &new].concat();
            let others = Vec::from_iter((0..PARTS).flat_map(predicted));
            let least = table.len() * 19 / 20;
            assert!([&own, &others, &none].iter().all(|losses| losses.len() >= least), "measured");
            // None at all where no other GPU has such layouts, or none but what others have.
            let mean_of_some = |losses: &[f64]| if losses.is_empty() { 0.0 } else { mean(losses) };
            let [known, new] = [known, new].map(|losses| mean_of_some(&losses));
            let [own, others] = [own, others].map(|losses| mean(&losses));
            let kind = format!("{gpu}, {types} {layouts}");
            println!(
                "{kind}: {own:.4}, by others {others:.4}, by none of its own {known:.4} and {new:.4}"
            );
            assert!(own < 0.001, "{kind}: {own:.4}");
            // Of a transposed B there are layers with any number of tokens among the shapes, each of which says little
            // about the next.
            let most = match (types.factors, layouts) {
                // Some kernels of f32 have a transposed factor copied first, and others read it as it is: what that
                // takes row-major factors do not tell. For few rows of a transposed B there are four kernels that
                // row-major factors have none alike of.
                (Dtype::F32, Layouts::NT) => [0.024, 0.0, 0.1],
                // More than half of these shapes were drawn at random, most of them small.
                (Dtype::F32, Layouts::TT) => [0.065, 0.0, 0.16],
                (Dtype::F32, ..) => [0.014, 0.0, 0.1],
                (Dtype::F64, ..) => [0.01, 0.0, 0.027],
                (_, Layouts::NT) if types.results == Dtype::F32 => [0.0215, 0.019, 0.05],
                (_, Layouts::NT) => [0.017, 0.016, 0.05],
                _ => [0.019, 0.022, 0.0165],
            };
            let found = [others, known, new];
            let is_below = found.iter().zip(most).all(|(found, most)| *found <= most);
            assert!(is_below, "{kind}: {found:?}, {most:?}");
        }
    }
    assert!(found > 0, "nobody has times of other layouts");
}

/// Kernels for a transposed B whose tiles no row-major factors have are told between measured shapes, too, wherever
/// their twins are.
#[test]
fn kernels_with_tiles_of_their_own_are_told_between_measured_shapes() {
    let mut found = 0;
    for gpu in shipped::gpus() {
        let tables = shipped::tables(gpu);
        // In f64 all kernels have one alike for row-major factors.
        let has_such =
            |table: &&Table| table.layouts() == Layouts::NT && table.types().factors != Dtype::F64;
        for table in tables.iter().filter(has_such) {
            let is_row_major =
                |other: &&Table| (other.types(), other.layouts()) == (table.types(), Layouts::NN);
            let row_major = tables.iter().find(is_row_major).unwrap();
            let mut errors = Vec::new();
            for part in 0..PARTS {
                let numbered = table.entries().enumerate();
                let (wanted, others) =
                    numbered.partition::<Vec<_>, _>(|(index, _)| index % PARTS == part);
                let others = others.into_iter().map(|(_, entry)| entry);
                let model = model_with(row_major, &[], Layouts::NT, others);
                for (_, entry) in wanted {
                    let near = model.near(entry.shape, Layouts::NT).unwrap();
                    let with_twins = model.kernels().iter().zip(model.twins(Layouts::NT));
                    for (index, (kernel, twins)) in with_twins.enumerate() {
                        for twin in twins.iter().filter(|twin| !are_alike(kernel, twin)) {
                            let told = near.seconds_as(index, twin).zip(entry.seconds(twin));
                            errors
                                .extend(told.map(|(seconds, measured)| (seconds / measured).ln()));
                        }
                    }
                }
            }
            found += 1;
            let kind = format!("{gpu}, {}", table.types());
            let squares = Vec::from_iter(errors.iter().map(|error| error * error));
            println!("{kind}: {} times, {:.3}", errors.len(), mean(&squares).sqrt());
            assert!(errors.len() > 10, "{kind}: {} times", errors.len());
            // Those of f32 are for few rows, and have next to nothing in common with those that tell of them. In bf16
            // shapes that were drawn at random are among them.
            let most = match table.types().factors {
                Dtype::F32 => 0.14,
                Dtype::Bf16 => 0.085,
                _ => 0.07,
            };
            assert!(mean(&squares).sqrt() < most, "{kind}: {:.3}", mean(&squares).sqrt());
        }
    }
    assert!(found > 0, "nobody has times of such kernels");
}

/// Weights stored a row an output, of which a kernel with few slices on their way reads less at a time than of
/// row-major ones.
#[test]
fn few_rows_beside_wide_transposed_weights_have_many_slices_on_their_way() {
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for gpu in shipped::gpus() {
            let table = shipped::table(gpu, dtype).unwrap();
            for m in [1, 16, 32] {
                let problem = Problem::packed(dtype, (m, 28672, 4096), Layouts::NT);
                let selection = choose_in(&table, &h200(), problem).unwrap();
                let tile = selection.kernel.tile;
                let reads_rows = selection.kernel.rung == Rung::Skinny && m == 1;
                assert!(tile.stages >= 8 || reads_rows, "{gpu}, {m} rows: {selection}");
            }
        }
    }
}

/// Weights have a round number of columns, and tokens are any number: tiles fit these, and where they are few so are
/// the rows of tiles, in pairs that share what they have of the weights. Of fewer tokens they fit the weights, or are
/// 64 of them wide.
#[test]
fn layers_with_any_number_of_tokens_have_tiles_that_fit_these() {
    for gpu in ["h100", "h200"] {
        let device = crate::gpus::find(gpu).unwrap().info();
        for (m, n, k, family) in [
            (333, 4096, 14336, "warpgroup_fitted_pair128"),
            (777, 4096, 14336, "warpgroup_fitted_rows"),
            (777, 8192, 3584, "warpgroup_fitted_rows"),
            (1500, 768, 3072, "warpgroup_fitted128"),
            (256, 6144, 4096, "warpgroup_fitted_cols128"),
            (200, 5120, 5120, "warpgroup_fitted_cols128"),
            (100, 5120, 5120, "warpgroup_fitted64"),
        ] {
            let problem = Problem::packed(Dtype::Bf16, (m, n, k), Layouts::NT);
            let shape = Shape::packed(Dtype::Bf16, m, n, k);
            let explained = super::super::explain::explain_shipped(&device, &problem, shape);
            let selection = explained.selection.unwrap();
            assert_eq!(family_name(selection.kernel), family, "{gpu}: {selection}");
        }
    }
}

/// Where all wait for memory kernels are within 1 % on an H100 that are a third apart on an H200, whose memory is
/// faster. Of two that were measured beside the vendor's library there (`docs/measurements`, 2026-11-26 and 2026-11-27)
/// the slower one is not chosen.
#[test]
fn an_h200_chooses_by_its_own_times_where_memory_is_what_products_wait_for() {
    let device = crate::gpus::find("h200").unwrap().info();
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for (shape @ (m, n, k), layouts, slower) in [
            ((1, 28672, 4096), Layouts::NT, "skinny_rows"),
            ((1, 4096, 14336), Layouts::NT, "warpgroup32x64"),
            ((16, 28672, 4096), Layouts::NT, "warpgroup64x64"),
            ((16, 6144, 4096), Layouts::NT, "warpgroup32x128"),
            ((6144, 6144, 6144), Layouts::NN, "warpgroup128"),
            ((2048, 2048, 2048), Layouts::NN, "warpgroup_fitted_pair128"),
        ] {
            let problem = Problem::packed(dtype, shape, layouts);
            let shape = Shape::packed(dtype, m, n, k);
            let explained = super::super::explain::explain_shipped(&device, &problem, shape);
            let selection = explained.selection.unwrap();
            assert_ne!(family_name(selection.kernel), slower, "{dtype} {shape}: {selection}");
        }
    }
}

/// Where no times of such products are known these are expected to be faster than pairs of tiles of 256 columns. At
/// 16384 they are slower on an H200: by 5 % beside the vendor's library (`docs/measurements`, 2026-11-28), and by 10 %
/// of a transposed B by `regemm tune`.
#[test]
fn an_h200_takes_large_tiles_for_large_products() {
    let device = crate::gpus::find("h200").unwrap().info();
    for dtype in [Dtype::Bf16, Dtype::F16] {
        for (layouts, slower) in [(Layouts::NN, "warpgroup_pair128"), (Layouts::NT, "ping_pong")] {
            for size in [10240, 12288, 14336, 16384, 20480] {
                let problem = Problem::packed(dtype, (size, size, size), layouts);
                let shape = Shape::packed(dtype, size, size, size);
                let explained = super::super::explain::explain_shipped(&device, &problem, shape);
                let selection = explained.selection.unwrap();
                assert_ne!(family_name(selection.kernel), slower, "{dtype} {shape}: {selection}");
            }
        }
    }
}

/// Of layers that an H100's times are of, kernels that came later were not measured there. What is expected of
/// `warpgroup_fitted128` is 2 % less than what the fastest took; the bench has 7 % more on an H200.
#[test]
fn who_was_not_measured_on_a_measured_shape_has_to_be_clearly_faster() {
    for gpu in ["h100", "h200"] {
        let device = crate::gpus::find(gpu).unwrap().info();
        for tokens in [2048, 4096] {
            let problem = Problem::packed(Dtype::Bf16, (tokens, 28672, 4096), Layouts::NT);
            let shape = Shape::packed(Dtype::Bf16, tokens, 28672, 4096);
            let explained = super::super::explain::explain_shipped(&device, &problem, shape);
            let selection = explained.selection.unwrap();
            let family = family_name(selection.kernel);
            let is_large = ["warpgroup", "warpgroup_pair", "warpgroup_fitted"].contains(&family);
            assert!(is_large, "{gpu}, {tokens}: {selection}");
            // Nobody that comes behind it is said to be faster.
            let Why::Tuned(tuned) = selection.why else { panic!("{selection}") };
            assert!(tuned.runner_up.unwrap().slower >= -TIE, "{gpu}, {tokens}: {selection}");
        }
    }
}

/// At 5000 power limits all kernels, and tall tiles take 3 % longer than pairs in the bench, but less in `regemm tune`.
#[test]
fn where_power_limits_all_the_bench_decides() {
    for gpu in shipped::gpus() {
        for dtype in [Dtype::Bf16, Dtype::F16] {
            let table = shipped::table(gpu, dtype).unwrap();
            let problem = Problem::new(dtype, 5000, 5000, 5000);
            let selection = choose_in(&table, &h200(), problem).unwrap();
            let pair = format!("warpgroup_fitted_pair_{dtype}");
            assert_eq!(selection.kernel.name, pair, "{gpu}: {selection}");
        }
    }
}

/// What is measured at 8192, where the cache has room enough, says nothing else of 12288 than that all are alike.
#[test]
fn where_the_cache_is_too_small_a_kernel_is_chosen_that_keeps_pace() {
    for dtype in [Dtype::Bf16, Dtype::F16] {
        let table = shipped::table(h200().name.as_ref(), dtype).unwrap();
        for size in [12_288, 14_336, 16_384] {
            let problem = Problem::new(dtype, size, size, size);
            let selection = choose_in(&table, &h200(), problem).unwrap();
            assert!(selection.kernel.keeps_pace, "{size}: {selection}");
        }
    }
}

#[test]
fn a_lookup_is_quick() {
    // Once for each shape: later calls find the choice. Beside what it takes to prepare the model, which is work of the
    // same kind, so that neither another processor nor other work on this one changes their ratio: about a third of
    // what it is.
    const AT_LEAST: u32 = 250;
    const LOOKUPS: u32 = 200;
    const ROUNDS: u32 = 20;
    let table = imagined_table(&default_shapes(&h200(), Dtype::F32, Layouts::NN));
    let device = h200();
    let timed = |work: &dyn Fn()| {
        let start = std::time::Instant::now();
        work();
        start.elapsed()
    };
    let prepared = || Model::new(&device, &[on_h200(Source::Shipped, &table)]);
    let model = prepared();
    let lookup = |i: u32| {
        let shape = Shape::packed(Dtype::F32, 100 + i, 4 * i + 64, 3 * i + 100);
        let problem = problem(shape.m, shape.n, shape.k);
        choose([&model], &problem, shape, &device, None).unwrap()
    };
    let batch = |round: u32| {
        for i in round * LOOKUPS..(round + 1) * LOOKUPS {
            std::hint::black_box(lookup(i));
        }
    };
    // The quickest of several, which take turns.
    let mut quickest = [std::time::Duration::MAX; 2];
    for round in 0..ROUNDS {
        let preparation = timed(&|| drop(std::hint::black_box(prepared())));
        let times = [preparation, timed(&|| batch(round)) / LOOKUPS];
        quickest = std::array::from_fn(|i| quickest[i].min(times[i]));
    }
    let [preparation, quickest] = quickest;
    println!("{quickest:?}, with room for {:?}", preparation / AT_LEAST);
    assert!(quickest * AT_LEAST < preparation, "{quickest:?} beside {preparation:?}");
}

/// Of shapes that are far from all measured ones trends tell, where enough were measured for these: a deep K of few
/// elements is shared by blocks.
#[test]
fn trends_tell_of_shapes_that_are_far_from_all() {
    let extremes =
        [(1, 1, 3_000_000), (3, 2, 500_000), (2_000_000, 2, 3), (3, 1_000_000, 2), (1, 1, 1)];
    for types in Types::ALL {
        let table = shipped::table(&h200().name, types).unwrap();
        for (m, n, k) in extremes {
            let problem = Problem::new(types, m, n, k);
            let selection = choose_in(&table, &h200(), problem).unwrap();
            let nearest = tuned(&selection).nearest;
            let octaves = |a: u32, b: u32| (f64::from(a) / f64::from(b)).log2().abs();
            let far = octaves(m, nearest.m) + octaves(n, nearest.n) + octaves(k, nearest.k);
            assert!(far > 2.25, "{problem}: {nearest} is near");
            let kernel = selection.kernel;
            let [x, z] = LaunchShape::new(kernel, &problem, &h200(), None).main.unwrap();
            let is_shared = kernel.cluster > 1 || u64::from(x) * u64::from(z) > kernel.blocks(m, n);
            assert!(k < 100_000 || is_shared, "{selection}");
        }
        let few: Vec<_> = table.entries().take(20).cloned().collect();
        let mut small = Table::new(types);
        few.into_iter().for_each(|entry| small.insert(entry));
        let problem = Problem::new(types, 1, 1, 3_000_000);
        assert_eq!(choose_in(&small, &h200(), problem).unwrap_err(), NotTuned::NothingNear);
    }
}

/// How much slower than the fastest of those that a device can run the rule's kernels are on the measured shapes of a
/// table, as if it had no times; and on how many shapes the rule's kernel came later than the table.
fn losses_by_rule(table: &Table, device: &DeviceInfo) -> (Vec<f64>, usize) {
    let known: HashSet<&str> =
        table.entries().flat_map(|entry| &entry.times).map(|time| time.kernel.name).collect();
    let mut later = 0;
    let mut loss = |entry: &Entry| {
        let Shape { m, n, k, .. } = entry.shape;
        let problem = Problem::packed(table.types(), (m, n, k), table.layouts());
        let by_rule = crate::kernels::choose(&problem, device, None).unwrap().kernel;
        later += usize::from(!known.contains(by_rule.name));
        let runs = |kernel: &'static KernelInfo| supports(kernel, &problem, device).is_ok();
        let able = entry.times.iter().filter(|time| runs(time.kernel));
        let fastest = able.map(|time| time.seconds).fold(f64::INFINITY, f64::min);
        entry.seconds(by_rule).map(|seconds| seconds / fastest - 1.0)
    };
    let is_packed = |entry: &&Entry| {
        let Shape { m, n, k, .. } = entry.shape;
        entry.shape == Shape::packed_in(table.layouts(), table.types().factors, m, n, k)
    };
    let losses = table.entries().filter(is_packed).filter_map(&mut loss).collect();
    (losses, later)
}

/// Where there are no times the rule is not far from the fastest either: on Hopper, and with the kernels that run on
/// Ampere, whose times are a Hopper's here. Nowhere is it off by an order of magnitude: a kernel that takes K one by
/// one needs a hundred times as long for a D of few elements and a deep K as one that shares it out.
#[test]
fn the_rule_is_not_far_from_the_fastest() {
    for gpu in shipped::gpus() {
        for table in shipped::tables(gpu) {
            for (compute_capability, mean_of, most) in [((9, 0), 0.25, 5.5), ((8, 0), 0.2, 4.5)] {
                let compute_capability = Some(compute_capability);
                let device = DeviceInfo { compute_capability, ..h200() };
                let (losses, later) = losses_by_rule(&table, &device);
                let kind = format!("{gpu}, {} {}", table.types(), table.layouts());
                let (mean, worst) =
                    (mean(&losses), losses.iter().fold(0.0, |a, b| f64::max(a, *b)));
                println!(
                    "{kind}, {compute_capability:?}: {} {mean:.3} {worst:.2}, {later} later",
                    losses.len()
                );
                let known = table.len() - later;
                assert!(3 * losses.len() >= 2 * known, "{kind}: {}", losses.len());
                assert!(mean < mean_of && worst < most, "{kind}: {mean:.3}, {worst:.2}");
            }
        }
    }
}

/// Shapes drawn at random that are in no table, with what all kernels take there on an H200: it is by them that tables
/// and rule can be judged (`docs/measurements/2026-11-28-h200-held-out.md`).
#[test]
fn shapes_that_no_table_has_are_near_the_fastest() {
    let document = Document::decode(include_str!("held_out.json")).unwrap();
    let device = h200();
    for stored in &document.tables {
        let table = &stored.table;
        let (types, layouts) = (table.types(), table.layouts());
        let shipped = shipped::tables(&device.name);
        let alike = |shipped: &&Table| (shipped.types(), shipped.layouts()) == (types, layouts);
        let of_layouts = shipped.iter().find(alike).expect("times of an H200");
        let loss = |entry: &Entry| {
            assert!(of_layouts.get(entry.shape).is_none(), "{types} {layouts}: {}", entry.shape);
            let Shape { m, n, k, .. } = entry.shape;
            let problem = Problem::packed(types, (m, n, k), layouts);
            let explained = super::super::explain::explain_shipped(&device, &problem, entry.shape);
            let chosen = entry.seconds(explained.selection.unwrap().kernel)?;
            let fastest = entry.times.iter().map(|time| time.seconds).fold(f64::INFINITY, f64::min);
            Some(chosen / fastest - 1.0)
        };
        let by_tables = Vec::from_iter(table.entries().map(loss).map(Option::unwrap));
        let found = [by_tables, losses_by_rule(table, &device).0].map(|losses| {
            (losses.len(), mean(&losses), losses.iter().fold(0.0, |a, b| f64::max(a, *b)))
        });
        println!("{types} {layouts}: {found:.3?}");
        for ((count, mean, worst), most) in found.into_iter().zip([(0.18, 1.0), (0.3, 2.0)]) {
            assert!(count > 4, "{types} {layouts}: {count}");
            assert!(mean < most.0 && worst < most.1, "{types} {layouts}: {mean:.3}, {worst:.2}");
        }
    }
    assert!(document.tables.len() >= 15, "four types in all layouts");
}
