//! What the benchmarks do without a GPU: the table of cases, the products and their verification on the simulator, how
//! they keep records, and that they say so and go.

#[path = "../benches/gemm/cases.rs"]
mod cases;
#[path = "../benches/gemm/check.rs"]
mod check;
#[allow(dead_code, reason = "the benchmarks use the rest")]
#[path = "../benches/common/mod.rs"]
mod common;
#[path = "../benches/gemm/product.rs"]
mod product;
#[path = "benchmarks/programs.rs"]
mod programs;

use cases::cases;
use check::Expected;
use clap::Parser;
use common::kept;
use regemm::measure::Rotation;
use regemm::ndarray::Array2;
use regemm::{Accumulator, Device, Element, KernelChoice, Precision, Yields, bf16, kernels};
use regemm_report::ladder;
use regemm_report::settings::Settings;
use regemm_report::versus::{
    Case, Group, Layouts, Measured, Record, cases_side_by_side, side_by_side,
};
use std::collections::HashSet;
use std::path::Path;

/// What all benchmarks read of their command lines.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    recording: common::Recording,
}

#[test]
fn the_table_holds_every_group_and_no_case_twice() {
    let all = cases(&Group::ALL, &[], &[]);
    let distinct: HashSet<Case> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    let count = |group| all.iter().filter(|case| case.group == group).count();
    assert_eq!(Group::ALL.map(count), [7, 8, 5, 11, 12, 20, 6, 4, 3, 1]);
    assert!(all.is_sorted_by_key(|case| case.group));
}

#[test]
fn odd_sizes_have_rows_that_are_no_multiple_of_a_vector() {
    for case in cases(&[Group::Odd], &[], &[]) {
        assert!(case.is_square() && !case.n.is_multiple_of(2), "{}", case.label());
    }
}

/// Of rows of half precision some are no whole sectors of the L2 cache, 32 bytes, and all are whole vectors.
#[test]
fn squares_between_are_no_powers_of_two() {
    let between = cases(&[Group::Between], &[], &[]);
    assert!(between.iter().all(|case| case.is_square() && !case.n.is_power_of_two()));
    assert!(between.iter().all(|case| case.n.is_multiple_of(8)));
    assert!(between.iter().any(|case| !case.n.is_multiple_of(16)));
}

#[test]
fn sizes_replace_those_of_squares_layouts_addends_and_the_epilogue() {
    let groups = [Group::Squares, Group::Layouts, Group::Addend, Group::Epilogue];
    let some = cases(&groups, &[128, 96], &[]);
    let labels: Vec<String> = some.iter().map(Case::label).collect();
    let expected = ["128", "96", "128 NT", "128 TN", "128 TT", "96 NT", "96 TN", "96 TT"];
    assert_eq!(labels[..8], expected);
    assert_eq!(labels[8..], ["128", "96", "128", "96"]);
    assert_eq!(cases(&[Group::Odd], &[128], &[]), cases(&[Group::Odd], &[], &[]));
    assert!(cases(&[], &[], &[]).is_empty());
}

#[test]
fn batches_and_layouts_say_what_they_are() {
    let batched = cases(&[Group::Batched], &[], &[]);
    assert!(batched.iter().all(|case| case.batch > 1 && case.layouts == Layouts::Nn));
    let layouts = cases(&[Group::Layouts], &[], &[]);
    assert!(layouts.iter().all(|case| case.batch == 1 && case.layouts != Layouts::Nn));
}

/// Activations, a row a token, times weights that are stored a row an output.
#[test]
fn layers_have_transposed_weights_and_shapes_replace_theirs_and_those_of_rectangles() {
    let layers = cases(&[Group::Layers], &[], &[]);
    assert!(layers.iter().all(|case| case.layouts == Layouts::Nt && case.batch == 1));
    assert!(layers.iter().any(|case| case.m == 1) && layers.iter().any(|case| case.m > 1024));
    let tokens = cases(&[Group::Tokens], &[], &[]);
    assert!(tokens.iter().all(|case| case.layouts == Layouts::Nt && case.m % 32 != 0));
    let groups = [Group::Squares, Group::Rectangles, Group::Layers];
    let some = cases(&groups, &[128], &[[3, 50, 70], [9, 20, 8]]);
    let labels: Vec<String> = some.iter().map(Case::label).collect();
    let expected = ["128", "3 x 50 x 70", "9 x 20 x 8", "3 x 50 x 70 NT", "9 x 20 x 8 NT"];
    assert_eq!(labels, expected);
}

/// Small cases of every kind.
fn small_cases() -> Vec<Case> {
    let of = |group, layouts, batch| Case { layouts, batch, ..Case::of(group, (20, 24, 28)) };
    let layouts = [Layouts::Nn, Layouts::Nt, Layouts::Tn, Layouts::Tt];
    let mut all: Vec<Case> =
        layouts.into_iter().map(|layouts| of(Group::Layouts, layouts, 1)).collect();
    all.push(of(Group::Batched, Layouts::Nn, 3));
    all.push(of(Group::Addend, Layouts::Nn, 1));
    all
}

#[test]
fn a_case_is_computed_as_it_is_verified() {
    computes_as_it_verifies::<f32, f32>(1e-6);
    computes_as_it_verifies::<bf16, bf16>(4e-3);
    // Sums of exact products, which are not rounded on their way.
    computes_as_it_verifies::<bf16, f32>(1e-6);
}

fn computes_as_it_verifies<T, D>(small: f64)
where
    T: Element + Yields<D>,
    D: Element<Acc = T::Acc>,
{
    let device = Device::sim();
    let stream = device.stream().unwrap();
    let mut operands = Rotation::<T, D>::widening(&device, 1);
    let of = |value: f64| D::narrow(D::Acc::constant(value));
    for case in small_cases() {
        operands.fit(product::layout(&case)).unwrap();
        let set = operands.first_set().unwrap();
        let [a, b] = [set.a, set.b].map(|factor| factor.to_array().unwrap());
        let c = set.c.to_array().unwrap();
        let values: Vec<D> = (0..case.n).map(|col| of(col as f64 / 8.0)).collect();
        let on_device = device.vector(&values).unwrap();
        for with_bias in [false, true] {
            let (bias, bias_on_device) =
                (with_bias.then_some(&values[..]), with_bias.then_some(&on_device));
            let poison = Array2::from_elem((case.batch * case.m, case.n), of(f64::NAN));
            operands.first_set().unwrap().d.copy_from(&poison.view()).unwrap();
            let set = operands.first_set().unwrap();
            product::enqueue(
                &case,
                (KernelChoice::Auto, Precision::Exact),
                bias_on_device,
                &stream,
                set,
            )
            .unwrap();
            let mut d = operands.first_set().unwrap().d.view().to_array().unwrap();
            let operands_of = (&a, &b, case.has_addend().then_some(&c));
            let expected = Expected::new(&case, Precision::Exact, operands_of, bias, 1).unwrap();
            let judgement = expected.check(&d).unwrap();
            assert_eq!(judgement.wrong, None, "{}", case.label());
            assert!(judgement.relative_error < small, "{}", judgement.relative_error);

            // One wrong element, in the last product of a batch.
            let last = &mut d[(case.batch * case.m - 1, 3)];
            *last = of(last.widen().to_f64() + 0.5);
            assert!(expected.check(&d).unwrap().wrong.is_some(), "{}", case.label());
            assert!(expected.check(&poison).unwrap().relative_error.is_nan());
        }
    }
}

#[test]
fn records_are_written_whole_and_what_is_wrong_with_their_place_shows_early() {
    let folder = tempfile::tempdir().unwrap();
    let recording = |path: &Path| {
        let line = ["bench".as_ref(), "--record".as_ref(), path.as_os_str()];
        Arguments::try_parse_from(line).unwrap().recording
    };
    let path = folder.path().join("2026.01.31-gemm");
    recording(&path).check_place().unwrap();
    for content in ["[1]", "[1, 2]"] {
        let file = kept::write(&path, "json", content).unwrap();
        assert_eq!(file, folder.path().join("2026.01.31-gemm.json"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else stays");
    }
    let missing = folder.path().join("missing").join("gemm");
    for error in [
        recording(&missing).check_place().unwrap_err(),
        kept::write(&missing, "json", "1").unwrap_err().to_string(),
        kept::read::<Record>(&missing).unwrap_err(),
    ] {
        assert!(error.contains("missing/gemm"), "{error}");
    }
}

#[test]
fn arguments_that_are_kept_say_what_is_measured() {
    for (given, kept) in [
        ("--bench", ""),
        ("--dtype f16 --record docs/x --rounds 3 --bench", "--dtype f16 --rounds 3"),
        ("--record=docs/x --commit abc --sizes=1,2", "--sizes=1,2"),
    ] {
        let arguments = given.split(' ').map(str::to_owned);
        assert_eq!(common::said_to_measure(arguments), kept);
    }
}

/// A time limit, or who is tired of waiting, ends a run without a word.
#[test]
fn numbers_are_kept_after_each_case_and_a_failure_ends_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ladder");
    let line = ["bench".as_ref(), "--record".as_ref(), path.as_os_str()];
    let recording = Arguments::try_parse_from(line).unwrap().recording;
    let sizes = || -> Option<Vec<usize>> {
        let record: ladder::Record = kept::read(&path.with_extension("json")).ok()?;
        Some(record.rounds.iter().map(|round| round.size).collect())
    };
    let mut record = ladder::Record {
        provenance: recording.provenance(&Device::sim()),
        dtype: "f32".into(),
        peak: None,
        settings: Settings::default(),
        rounds: Vec::new(),
    };
    let mut kept_before = Vec::new();
    let failure = recording.measure_each(&mut record, [16, 32, 64, 128], |record, size| {
        kept_before.push(sizes());
        if size == 64 {
            return Err("no more".into());
        }
        record.rounds.push(ladder::Round {
            size,
            shape: None,
            entries: Vec::new(),
            vendor: None,
            without_vendor: None,
        });
        Ok(())
    });
    assert_eq!(failure.unwrap().to_string(), "no more");
    assert_eq!(kept_before, [None, Some(vec![16]), Some(vec![16, 32])]);
    assert_eq!(sizes(), Some(vec![16, 32]));
}

/// A page, and the records that the command beside its tables names.
fn page_and_records(page: &str) -> (String, Vec<Record>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let command = "cargo bench --bench gemm -- --summary ";
    let files = text.lines().find_map(|line| line.strip_prefix(command));
    let files = files.unwrap_or_else(|| panic!("{page} names no records"));
    let read = |file| std::fs::read_to_string(root.join(file)).unwrap();
    let records = files
        .split(',')
        .map(|file| serde_json::from_str(&read(file)).unwrap_or_else(|e| panic!("{file}: {e}")))
        .collect();
    (text, records)
}

/// What pages show of records is what the command beside it makes of them.
#[test]
fn tables_of_pages_are_those_of_the_records_that_they_name() {
    for page in ["README.md", "docs/performance.md"] {
        let (text, records) = page_and_records(page);
        let mut tables = vec![side_by_side(&records)];
        if page == "README.md" {
            let (fast, all) = as_fast(&tables[0].markdown());
            let sentence =
                format!("On an H200, {fast} of the {all} cases of [the main records](#how-fast)");
            assert!(text.contains(&sentence), "{page} does not say: {sentence}");
            let [speeds, ratios] = at_a_glance(&records, &["f32", "bf16", "f16", "f64"]);
            for row in [speeds, ratios] {
                assert!(text.contains(&row), "{page} begins with another row than this: {row}");
            }
        } else {
            tables.extend(cases_side_by_side(&records));
        }
        for table in tables {
            let markdown = table.markdown();
            let (_, rows) = markdown.split_once("\n\n").unwrap();
            assert!(text.contains(rows), "{page} has another table than this:\n{markdown}");
        }
    }
}

/// The same of errors: f32 and f64 have numbers there, the others say that they have no larger ones.
#[test]
fn errors_of_the_page_are_those_of_the_records_that_it_names() {
    /// Above this ratio to the vendor's error a case is counted.
    const LARGER: f64 = 1.2;
    let (text, records) = page_and_records("docs/performance.md");
    let (_, errors) = text.split_once("\n## Errors\n").unwrap();
    for record in records {
        let accuracy = record.accuracy().unwrap();
        let says = |row: &str| assert!(errors.contains(row), "the page does not say: {row}");
        let close = || assert_eq!(accuracy.close, accuracy.count, "{}", record.dtype);
        match record.dtype.as_str() {
            "f32" => {
                let is_larger = |case: &&Measured| case.error_ratio().unwrap() > LARGER;
                let cases = Vec::from_iter(record.cases.iter().filter(is_larger));
                let larger = cases.len();
                says(&format!("The {larger} cases of f32 are those of [`stream_k`]"));
                for case in cases {
                    let kernel = case.ours().unwrap().kernel.as_deref().unwrap();
                    assert!(kernel.starts_with("stream_k"), "{kernel}");
                }
                let (most, case) = accuracy.largest;
                says(&format!(
                    "| f32 | no larger in {} of {} cases, no more than 1 % larger in {}, more than {LARGER} times as \
                     large in {larger}, at most {most:.2} times as large ({}) |",
                    accuracy.no_larger,
                    accuracy.count,
                    accuracy.close,
                    case.label()
                ));
            }
            "f64" => {
                let (most, case) = accuracy.largest;
                says(&format!(
                    "| f64 | no larger in {} of {} cases, at most {most:.2} times as large ({})",
                    accuracy.no_larger,
                    accuracy.count,
                    case.label()
                ));
            }
            "f32 (precision split)" => {
                let (most, case) = accuracy.largest;
                says(&format!("| f32 in halves | at most {most:.2} of them ({}) |", case.label()));
            }
            "bf16" | "f16" => {
                says("| f16, bf16 | no larger, or at most 1 % larger, in all cases of the bench |");
                close();
            }
            "bf16 (results f32)" => {
                says("| results of f32 | no larger, or at most 1 % larger, in all cases; ");
                close();
            }
            other => panic!("the page says nothing of {other}"),
        }
    }
}

/// What the README begins with: speeds at 4096 by element type, and their ratios to the vendor's.
fn at_a_glance(records: &[Record], types: &[&str]) -> [String; 2] {
    let squares = cases_side_by_side(records).swap_remove(0);
    let row = squares.rows.iter().find(|row| row[0] == "4096").unwrap();
    let cells: Vec<(&str, &str)> = types
        .iter()
        .map(|of| {
            let column = squares.heading.iter().position(|heading| heading == of).unwrap();
            row[column].trim_end_matches(')').split_once(" (").unwrap()
        })
        .collect();
    let join = |cells: Vec<&str>| cells.join(" | ");
    [
        format!("| TFLOP/s | {} |", join(cells.iter().map(|(_, speed)| *speed).collect())),
        format!(
            "| ratio to the vendor's best | {} |",
            join(cells.iter().map(|(ratio, _)| *ratio).collect())
        ),
    ]
}

/// The newest record of the ladder of an element type on an H200, and its name.
fn newest_ladder(dtype: &str) -> (String, ladder::Record) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measurements");
    let ending = format!("-h200-ladder-{dtype}.json");
    let files = std::fs::read_dir(&folder).unwrap();
    let names = files.filter_map(|file| file.unwrap().file_name().into_string().ok());
    let newest = names.filter(|name| name.ends_with(&ending)).max().unwrap();
    let text = std::fs::read_to_string(folder.join(&newest)).unwrap();
    (newest.trim_end_matches(".json").to_owned(), serde_json::from_str(&text).unwrap())
}

/// The speed of a rung's best kernel, or of the kernel of this name where that is no rung's, on one size, and what it
/// is of the vendor's, as the README has them.
fn best_of_rung(record: &ladder::Record, rung: &str, size: usize) -> String {
    let round = record.rounds.iter().find(|round| round.size == size).unwrap();
    let is_rung = kernels::kernels().iter().any(|kernel| kernel.rung.name() == rung);
    let is_meant = |name: &str| match kernels::find(name) {
        Ok(kernel) if is_rung => kernel.rung.name() == rung,
        Ok(kernel) => kernels::base_name(kernel) == rung,
        Err(_) => false,
    };
    let speeds = round.rungs().filter(|entry| is_meant(&entry.name)).map(|entry| entry.tflops);
    let best = speeds.max_by(f64::total_cmp).unwrap_or_else(|| panic!("{rung} at {size}"));
    let of_vendor = 100.0 * best / round.vendor_tflops().unwrap();
    let decimals = if best < 100.0 { 1 } else { 0 };
    format!("| {best:.decimals$} | {of_vendor:.0} % |")
}

/// Each row of the README's ladder is the best kernel of its rung.
#[test]
fn the_ladder_of_the_readme_is_that_of_the_newest_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, section) = text.split_once("\n## The ladder\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let [(f32_name, in_f32), (f16_name, in_f16)] = ["f32", "f16"].map(newest_ladder);
    for name in [&f32_name, &f16_name] {
        assert!(section.contains(&format!("{name}.md")), "the README shows another than {name}");
    }
    let mut rows = 0;
    for line in section.lines() {
        let Some((rung, _)) = line.strip_prefix("| [`").and_then(|rest| rest.split_once('`'))
        else {
            continue;
        };
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        // Tables of small D say where; of a product that the ladder does not have, another record is named.
        let size = match cells[..] {
            [_, _, _, place, ..] if cells.len() == 6 => place.parse().ok(),
            _ => Some(4096),
        };
        let Some(size) = size else {
            assert!(line.contains("docs/measurements/"), "{line}");
            continue;
        };
        let record = if ["tensor_core", "warpgroup"].contains(&rung) { &in_f16 } else { &in_f32 };
        let expected = best_of_rung(record, rung, size);
        assert!(line.ends_with(&expected), "{line}\nends otherwise in the record: {expected}");
        rows += 1;
    }
    assert_eq!(rows, 14, "rungs with a speed");
}

/// A record that the table does not name has no command that makes it again.
#[test]
fn the_table_of_records_names_them_all() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measurements");
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let files = std::fs::read_dir(&folder).unwrap();
    let mut records: Vec<String> = files
        .filter_map(|file| file.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".md") && name != "README.md")
        .collect();
    records.retain(|name| !table.contains(&format!("]({name})")));
    assert!(records.is_empty(), "not in the table: {records:?}");
}

/// What a page takes its numbers from is current, and nothing else.
#[test]
fn current_records_are_those_that_pages_name() {
    let read = |page: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
    };
    let (pages, table) =
        (read("README.md") + &read("docs/performance.md"), read("docs/measurements/README.md"));
    let (_, current) = table.split_once("## Current records").unwrap();
    let (current, _) = current.split_once("\n## ").unwrap();
    let rows = current.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    let names: Vec<&str> = rows.map(|(name, _)| name).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(pages.contains(name), "no page names {name}");
    }
}

/// How many cases of all records of a table are at least as fast as the vendor's, and how many there are.
fn as_fast(table: &str) -> (u32, u32) {
    let row = table.lines().find(|line| line.contains("cases that are at least as fast")).unwrap();
    let counts = row.split('|').filter_map(|cell| cell.trim().split_once(" of "));
    let counts = counts.map(|(fast, all)| [fast, all].map(|count| count.parse::<u32>().unwrap()));
    let sums = counts.reduce(|[x, y], [fast, all]| [x + fast, y + all]);
    sums.map(|[fast, all]| (fast, all)).unwrap()
}
