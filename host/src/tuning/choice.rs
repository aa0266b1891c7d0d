//! The choice by predicted times.

use super::class::Shape;
use super::model::Model;
use crate::device::info::DeviceInfo;
use crate::kernels::{
    NotTuned, Order, Problem, RunnerUp, Selection, Tuned, Why, in_the_faster_way, supports,
    twin_of_types,
};
use regemm_kernels::kernel::{KernelInfo, Needs, Rung};
use regemm_kernels::layout::{Layout, Layouts};
use std::borrow::Borrow;
use std::time::Duration;

/// Kernels whose predicted times differ by less than this are taken as equally fast: medians of repeated measurements
/// differ by as much. The rule then decides, so that the choice does not jump from shape to shape.
const TIE: f64 = 0.005;

/// The kernel with the shortest predicted time among those that the device can run, and of a rung if one is given, by the first model that knows
/// something near the shape: of the problem's element types, then of those that are [alike](crate::kernels::Types::and_alike).
///
/// # Errors
/// Why there is none: by the last model.
pub(super) fn choose(
    models: impl IntoIterator<Item: Borrow<Model>>,
    problem: &Problem,
    shape: Shape,
    device: &DeviceInfo,
    rung: Option<Rung>,
) -> Result<Selection, NotTuned> {
    if problem.batch != 1 {
        return Err(NotTuned::Batch);
    }
    let mut why_not = NotTuned::NoTable;
    for model in models {
        match choose_by(model.borrow(), problem, shape, device, rung) {
            Ok(selection) => return Ok(selection),
            Err(why) => why_not = why,
        }
    }
    Err(why_not)
}

/// The choice by one model. Times
/// are of row-major factors, and may be of results of another type: for others it is the twin of the kernel that would be chosen for
/// those, or the kernel of the same tiles whose slices come in another way, if that is [faster](in_the_faster_way) in these layouts. Not all kernels
/// have a twin for results of another type, and only those that have are asked.
fn choose_by(
    model: &Model,
    problem: &Problem,
    shape: Shape,
    device: &DeviceInfo,
    rung: Option<Rung>,
) -> Result<Selection, NotTuned> {
    let types = model.types().ok_or(NotTuned::NoTable)?;
    let other_types = types.results != problem.target;
    let measured = Problem {
        layouts: Layouts::NN,
        target: types.results,
        // Short results are not promoted: of their kernels it is the twins that are asked.
        promoted: problem.promoted && !other_types,
        ..*problem
    };
    let runs_long = |kernel: &KernelInfo| {
        let twin = twin_of_types(kernel, problem.types(), Layouts::NN);
        let row_major = Problem { layouts: Layouts::NN, ..*problem };
        twin.is_some_and(|twin| !problem.promoted || supports(twin, &row_major, device).is_ok())
    };
    let eligible = |kernel: &KernelInfo| {
        rung.is_none_or(|rung| rung == kernel.rung)
            && (problem.layouts.b == Layout::RowMajor || keeps_pages_open(kernel, problem, device))
            && (!other_types || runs_long(kernel))
            // Not all of those whose tiles fit, or have few rows as columns, are there for all layouts.
            && (!kernel.fits && !kernel.swapped
                || twin_of_types(kernel, problem.types(), problem.layouts).is_some())
    };
    // Where tiles fit how wide they are depends on the layouts.
    let launched = |kernel: &'static KernelInfo| {
        let twin = || twin_of_types(kernel, problem.types(), problem.layouts);
        kernel.fits.then(twin).flatten().unwrap_or(kernel)
    };
    let mut selection = fastest(model, &measured, shape, device, (eligible, launched))?;
    if let Why::Tuned(tuned) = &mut selection.why {
        tuned.promoted = problem.promoted;
    }
    if problem.layouts != Layouts::NN || other_types {
        let measured = selection.kernel;
        selection.kernel = twin_of_types(measured, problem.types(), problem.layouts)
            .map(|twin| in_the_faster_way(twin, problem))
            .filter(|twin| supports(twin, problem, device).is_ok())
            .ok_or(NotTuned::NoTwin(measured.name))?;
        if let Why::Tuned(tuned) = &mut selection.why {
            tuned.twin_of = Some(measured);
        }
    }
    Ok(selection)
}

/// Whether a kernel reads a large B whose rows run along k as fast as a row-major one, of which times are, for a D of few rows. Of a slice it reads 128 bytes of each
/// row, which lie far apart. Where D has few rows memory is all that counts, and it gives more the more slices are on their way, which are of the same pages: 16 x 28672 x 4096 in bf16 takes 63.2 us in 4 stages of 256
/// rows and 58.7 in 11 of 128; with B row-major 58.7 in 4 (H200). Warps read ahead no more than 3: 90.9 us, where `warpgroup64x64` with 13 takes 84.9 (H100). But theirs are small products, which
/// the L2 cache has room for.
fn keeps_pages_open(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> bool {
    const FEW_ROWS: u32 = 32;
    const SLICES: u32 = 8;
    let bytes = u64::from(problem.n) * u64::from(problem.k) * problem.dtype.bytes() as u64;
    let is_in_cache = device.l2_bytes.is_some_and(|l2_bytes| bytes <= l2_bytes);
    problem.m > FEW_ROWS
        || kernel.tile.stages >= SLICES
        || match kernel.needs {
            Needs::WarpgroupProducts => false,
            Needs::TensorCores => is_in_cache,
            _ => true,
        }
}

/// The kernel with the shortest predicted time for a single product of row-major factors, among those that are eligible; predicted of the kernel that is
/// launched in its place.
fn fastest(
    model: &Model,
    problem: &Problem,
    shape: Shape,
    device: &DeviceInfo,
    (eligible, launched): (
        impl Fn(&KernelInfo) -> bool,
        impl Fn(&'static KernelInfo) -> &'static KernelInfo,
    ),
) -> Result<Selection, NotTuned> {
    let near = model.near(shape).ok_or(NotTuned::NothingNear)?;
    let candidates = || {
        let wanted =
            model.kernels().iter().enumerate().filter(|(_, kernel)| {
                eligible(kernel) && supports(kernel, problem, device).is_ok()
            });
        wanted.filter_map(|(index, kernel)| {
            Some((*kernel, near.seconds_as(index, launched(kernel))?))
        })
    };
    let shortest = candidates().map(|(_, seconds)| seconds).fold(f64::INFINITY, f64::min);
    let (kernel, seconds) = candidates()
        .filter(|(_, seconds)| *seconds <= shortest * (1.0 + TIE))
        .max_by_key(|(kernel, _)| Order::of(kernel, problem, device).0)
        .ok_or(NotTuned::NothingNear)?;
    let runner_up = candidates()
        .filter(|(other, _)| other.name != kernel.name)
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(kernel, other): (&'static KernelInfo, f64)| RunnerUp {
            kernel,
            slower: other / seconds - 1.0,
        });
    let (nearest, source) = near.nearest();
    let tuned = Tuned {
        source,
        nearest,
        exact: near.exact,
        twin_of: None,
        // A time that no duration can hold is as good as endless.
        predicted: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
        runner_up,
        promoted: problem.promoted,
    };
    Ok(Selection { kernel, why: Why::Tuned(tuned) })
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::imagined_table;
    use super::super::shapes::default_shapes;
    use super::super::shipped;
    use super::super::table::{
        Entry, Source, Table,
        tests::{entry, on_h200},
    };
    use super::*;
    use crate::device::info::tests::h200;
    use crate::kernels::Types;
    use regemm_kernels::element::Dtype;

    fn problem(m: u32, n: u32, k: u32) -> Problem {
        Problem::new(Dtype::F32, m, n, k)
    }

    fn choose_in(
        table: &Table,
        device: &DeviceInfo,
        problem: Problem,
    ) -> Result<Selection, NotTuned> {
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
    fn other_layouts_take_the_twin_of_the_fastest_if_there_is_one() {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((64, 64, 64), &[("tiled32_f32", 1.0), ("tiled16_f32", 2.0)]));
        table.insert(entry((4096, 4096, 4096), &[("pipelined_f32", 1.0), ("tiled16_f32", 2.0)]));
        let transposed = |size| Problem { layouts: Layouts::TN, ..problem(size, size, size) };
        let selection = choose_in(&table, &h200(), transposed(64)).unwrap();
        assert_eq!(selection.kernel.name, "tiled32_tn_f32");
        assert_eq!(tuned(&selection).twin_of.unwrap().name, "tiled32_f32");
        assert!(selection.to_string().contains("the twin of tiled32_f32"), "{selection}");
        let none = choose_in(&table, &h200(), transposed(4096)).unwrap_err();
        assert_eq!(none, NotTuned::NoTwin("pipelined_f32"));
        assert!(none.to_string().contains("pipelined_f32, has no twin"), "{none}");
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
        assert_eq!(
            chosen,
            ["warpgroup_fitted_bf16", "warpgroup_fitted_nt_bf16", "warpgroup_tn_bf16"]
        );
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
        let table = imagined_table(&default_shapes(&h200(), Dtype::F32));
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
        let record = include_str!("../../../docs/measurements/2026-11-21-h200-ladder-f32.json");
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

    /// How much slower than the fastest the kernels are that would be chosen on some measured shapes if these had not been measured, each predicted from all
    /// others; and on how many of them the chosen one was not measured, since it came later.
    fn losses_where_left_out(table: &Table, wanted: impl Fn(&Shape) -> bool) -> (Vec<f64>, usize) {
        let loss = |left_out: &Entry| {
            let mut others = Table::new(table.types());
            let rest = table.entries().filter(|entry| entry.shape != left_out.shape);
            rest.for_each(|entry| others.insert(entry.clone()));
            let Shape { m, n, k, .. } = left_out.shape;
            let problem = Problem::new(table.types(), m, n, k);
            let selection = choose_in(&others, &h200(), problem).unwrap();
            let fastest = left_out.fastest().unwrap().seconds;
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

    /// Each measured shape of the shipped tables predicted from the others, which are farther away than those of most shapes
    /// that are not measured: the choice is close to the fastest there was.
    #[test]
    fn shipped_shapes_are_predicted_from_the_others() {
        const MEAN: f64 = 0.025;
        const TENTH: f64 = 0.075;
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
                assert!(mean < MEAN && tenth < TENTH, "{gpu}, {types}: {mean:.4}, {tenth:.3}");
            }
            assert!(of_types > 0, "nobody has times of {types}");
        }
    }

    /// Of shapes whose rows are whole vectors the wanted ones, more than `least`, predicted from all others: of both types of half precision, and on average less than
    /// `most` slower than the fastest.
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

    /// From square to square the tiles of the last round are shared or are not, and other kernels are the fastest, by up to a quarter: 2176 takes tiles of
    /// 192 columns, 2688 such of 256, and 3200 such of 128.
    #[test]
    fn squares_are_predicted_from_their_neighbours() {
        let square = |shape: &Shape| shape.m == shape.n && shape.n == shape.k;
        assert_predicted(|shape| square(shape) && (1280..=4608).contains(&shape.m), 25, 0.015);
    }

    /// Rows of 1000, 2200 or 5000 elements of half precision are slow to fetch, and other tiles the fastest, by up to a half.
    #[test]
    fn shapes_whose_rows_are_no_whole_lines_are_predicted_from_the_others() {
        let large = |shape: &Shape| shape.m.min(shape.n).min(shape.k) > 500;
        let cut = |shape: &Shape| [shape.n, shape.k].iter().any(|cols| cols % 64 != 0);
        assert_predicted(|shape| large(shape) && cut(shape), 15, 0.03);
    }

    /// Weights stored a row an output, of which a kernel with few slices on their way reads less at a time than of row-major ones.
    #[test]
    fn few_rows_beside_wide_transposed_weights_have_many_slices_on_their_way() {
        for dtype in [Dtype::Bf16, Dtype::F16] {
            let table = shipped::table(&h200().name, dtype).unwrap();
            for m in [1, 16, 32] {
                let problem = Problem::packed(dtype, (m, 28672, 4096), Layouts::NT);
                let selection = choose_in(&table, &h200(), problem).unwrap();
                let wide = format!("warpgroup32x128_nt_{dtype}");
                assert_eq!(selection.kernel.name, wide, "{m} rows: {selection}");
            }
            // Row-major ones instructions of warps read the fastest on an H100.
            for gpu in shipped::gpus() {
                let table = shipped::table(gpu, dtype).unwrap();
                let problem = Problem::packed(dtype, (16, 28672, 4096), Layouts::NT);
                let selection = choose_in(&table, &h200(), problem).unwrap();
                assert!(selection.kernel.tile.stages >= 8, "{gpu}: {selection}");
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
        // Once for each shape: later calls find the choice. In multiplications that wait for one another, since machines differ: about twice
        // what it takes.
        const MOST: u32 = 4000;
        const LOOKUPS: u32 = 2000;
        let table = imagined_table(&default_shapes(&h200(), Dtype::F32));
        let device = h200();
        let model = Model::new(&device, &[on_h200(Source::Shipped, &table)]);
        let batch = |first: u32| {
            let start = std::time::Instant::now();
            for i in first..first + LOOKUPS {
                let shape = Shape::packed(Dtype::F32, 100 + i, 4 * i + 64, 3 * i + 100);
                let problem = problem(shape.m, shape.n, shape.k);
                let selection = choose([&model], &problem, shape, &device, None);
                std::hint::black_box(selection.unwrap());
            }
            start.elapsed() / LOOKUPS
        };
        let multiplications = || {
            let start = std::time::Instant::now();
            let product = |product: f64, _| std::hint::black_box(product * 1.000_001);
            std::hint::black_box((0..MOST).fold(1.0, product));
            start.elapsed()
        };
        // The quickest of several batches: other work on the machine is not what is tested.
        let quickest = (0..10).map(|i| batch(100 + i)).min().unwrap();
        let most = (0..10).map(|_| multiplications()).min().unwrap();
        println!("{quickest:?}, with room for {most:?}");
        assert!(quickest < most, "{quickest:?}, which is more than {most:?}");
    }
}
