//! The tuned choice as a section: how close it comes to the fastest kernel, why it is made, and what was measured for
//! it.

use super::{Section, provenance, slug, text_at};
use crate::columns::{self, Column, column, objects, scientific, share, text, whole};
use crate::table::{Table, or_dash};
use serde_json::Value;

const CHECKED: [Column; 6] = [
    column("shape", &["/shape"], text),
    column("chosen", &["/chosen"], text),
    column("fastest", &["/fastest"], text),
    column("slower", &["/loss"], share),
    column("tuned on this shape", &["/tuned_on"], text),
    column("why", &["/why"], text),
];

const RANKING: [Column; 5] = [
    column("kernel", &["/kernel"], text),
    column("expected seconds", &["/expected_seconds"], scientific),
    column("rank by rule", &["/rank_by_rule"], whole),
    column("rule", &["/rule"], text),
    column("cannot run", &["/cannot_run"], text),
];

/// Whatever `regemm tune` printed: a check, explanations, what was measured, or the tables there are.
pub(super) fn tune(document: &Value) -> Section {
    let provenance = provenance(document);
    let subject = if document.get("results").is_some() {
        "How good the choice of kernels is"
    } else if document.get("explanations").is_some() {
        "Why kernels are chosen"
    } else {
        "Measured times for the choice of kernels"
    };
    let mut section = Section {
        id: slug(&format!("tune {}", text_at(document, "/dtype"))),
        title: format!("{subject} on {}", provenance.device),
        provenance,
        ..Section::default()
    };
    check(document, &mut section);
    for explanation in objects(document, "/explanations") {
        let (kernel, why) = (text_at(explanation, "/kernel"), text_at(explanation, "/why"));
        let title = format!("{}: {kernel}, {why}", shape(explanation));
        section.tables.extend(columns::table(&title, &RANKING, objects(explanation, "/ranking")));
    }
    let tables = objects(document, "/tables");
    let (measured, listed): (Vec<Value>, Vec<Value>) =
        tables.iter().cloned().partition(|table| table.get("entries").is_some());
    measured.iter().for_each(|table| wins(table, &mut section));
    section.tables.extend(columns::every("Tables of measured times", &listed));
    section
}

/// How close the choice comes to the fastest kernel.
fn check(document: &Value, section: &mut Section) {
    let results: Vec<Value> = objects(document, "/results").iter().map(with_shape).collect();
    let number = |name: &str| document.get(name).and_then(Value::as_f64);
    if let (Some(close), Some(checked), Some(within)) =
        (number("close"), number("checked"), number("within"))
    {
        let worst = number("worst_loss");
        let worst =
            worst.map_or(String::new(), |loss| format!(", at worst {:.1} % slower", 100.0 * loss));
        let percent = 100.0 * within;
        section.notes.push(format!(
            "The choice is within {percent:.0} % of the fastest kernel on {close} of {checked} shapes{worst}."
        ));
    }
    section.tables.extend(columns::table("Choice and fastest kernel", &CHECKED, &results));
    section.tables.extend(times(&results));
}

/// The time of every kernel on every shape that was checked, in milliseconds.
fn times(results: &[Value]) -> Option<Table> {
    const MILLISECONDS: f64 = 1e3;
    let mut kernels: Vec<&str> = Vec::new();
    for kernel in results.iter().flat_map(|result| objects(result, "/kernels")) {
        let name = text_at(kernel, "/kernel");
        if !kernels.contains(&name) {
            kernels.push(name);
        }
    }
    if kernels.is_empty() {
        return None;
    }
    let mut table = Table::new("Time of each kernel in ms", ["shape"]);
    table.heading.extend(kernels.iter().map(|name| (*name).to_owned()));
    for result in results {
        let mut row = vec![text_at(result, "/shape").to_owned()];
        row.extend(kernels.iter().map(|name| {
            let mut all = objects(result, "/kernels").iter();
            let kernel = all.find(|kernel| text_at(kernel, "/kernel") == *name);
            let seconds = kernel.and_then(|kernel| kernel.get("seconds")?.as_f64());
            or_dash(seconds.map(|seconds| format!("{:.4}", MILLISECONDS * seconds)))
        }));
        table.rows.push(row);
    }
    Some(table)
}

/// How often each kernel is the fastest among the shapes of a table.
fn wins(measured: &Value, section: &mut Section) {
    let kind = kind(measured);
    let entries = objects(measured, "/entries");
    let mut wins: Vec<(&str, u64)> = Vec::new();
    for entry in entries {
        let fastest = text_at(entry, "/fastest");
        match wins.iter_mut().find(|(name, _)| *name == fastest) {
            Some((_, count)) => *count += 1,
            None => wins.push((fastest, 1)),
        }
    }
    wins.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let number = |place: &str| measured.pointer(place).and_then(Value::as_f64);
    if let (Some(mean), Some(worst)) = (number("/rule/mean_loss"), number("/rule/worst_loss")) {
        // Shapes on which the rule's kernel has no time are in no mean. Older documents do not say how many are.
        let shapes = measured.pointer("/rule/shapes").and_then(Value::as_u64);
        section.notes.push(format!(
            "{kind}: without measured times the choice would be {:.1} % slower on average over {} shapes, {:.1} % at \
             worst ({}).",
            100.0 * mean,
            shapes.unwrap_or(entries.len() as u64),
            100.0 * worst,
            text_at(measured, "/rule/worst_shape")
        ));
    }
    let mut table = Table::new(format!("Fastest kernels in {kind}"), ["kernel", "fastest on"]);
    table.rows =
        wins.into_iter().map(|(name, count)| vec![name.to_owned(), count.to_string()]).collect();
    if !table.rows.is_empty() {
        section.tables.push(table);
    }
}

/// The element types, and the layouts unless both factors are row-major, as they are where a document does not say.
fn kind(object: &Value) -> String {
    let dtype = text_at(object, "/dtype");
    match text_at(object, "/layouts") {
        "" | "nn" => dtype.to_owned(),
        layouts => format!("{dtype} {layouts}"),
    }
}

fn shape(object: &Value) -> String {
    let extent = |name: &str| object.get(name).and_then(Value::as_u64).unwrap_or_default();
    let aligned = object.get("aligned").and_then(Value::as_bool).unwrap_or(true);
    format!(
        "{} {} x {} x {}{}",
        kind(object),
        extent("m"),
        extent("n"),
        extent("k"),
        if aligned { "" } else { ", rows unaligned" }
    )
}

fn with_shape(result: &Value) -> Value {
    let mut result = result.clone();
    let shape = shape(&result);
    if let Some(object) = result.as_object_mut() {
        object.insert("shape".to_owned(), shape.into());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_check_says_how_close_the_choice_comes() {
        let section = tune(&json!({
            "command": "tune", "device": { "name": "NVIDIA Imaginary" },
            "within": 0.01, "checked": 2, "close": 1, "worst_loss": 0.034,
            "results": [
                {
                    "m": 1000, "n": 1000, "k": 1000, "dtype": "f32", "aligned": true, "chosen": "a", "fastest": "b",
                    "loss": 0.034, "tuned_on": false, "why": "its class is tuned",
                    "kernels": [{ "kernel": "a", "seconds": 0.00206 }, { "kernel": "b", "seconds": 0.002 }],
                },
                { "m": 7, "n": 7, "k": 7, "dtype": "f32", "aligned": false, "chosen": "b", "fastest": "b", "loss": 0.0 },
            ],
        }));
        assert_eq!(
            section.notes,
            [
                "The choice is within 1 % of the fastest kernel on 1 of 2 shapes, at worst 3.4 % slower."
            ]
        );
        assert_eq!(
            section.tables[0].rows[0],
            ["f32 1000 x 1000 x 1000", "a", "b", "3.4 %", "no", "its class is tuned"]
        );
        assert_eq!(section.tables[0].rows[1][0], "f32 7 x 7 x 7, rows unaligned");
        assert_eq!(section.tables[1].heading, ["shape", "a", "b"]);
        assert_eq!(section.tables[1].rows[0][1..], ["2.0600", "2.0000"]);
        assert_eq!(section.tables[1].rows[1][1..], ["-", "-"]);
    }

    #[test]
    fn explanations_have_a_ranking_each() {
        let section = tune(&json!({
            "gpu": "NVIDIA Imaginary",
            "explanations": [{
                "m": 8, "n": 9, "k": 10, "dtype": "f16", "aligned": true, "kernel": "a", "why": "it is the fastest",
                "ranking": [{ "kernel": "a", "expected_seconds": 0.000123, "rank_by_rule": 1 }],
            }],
        }));
        assert_eq!(section.title, "Why kernels are chosen on NVIDIA Imaginary");
        assert_eq!(section.tables[0].title, "f16 8 x 9 x 10: a, it is the fastest");
        assert_eq!(section.tables[0].rows, [["a", "1.2e-4", "1"]]);
    }

    #[test]
    fn measured_times_are_counted_by_their_winners() {
        let fastest = |name: &str| json!({ "m": 1, "n": 1, "k": 1, "fastest": name });
        let section = tune(&json!({
            "tables": [{
                "dtype": "f32", "entries": [fastest("a"), fastest("b"), fastest("b")],
                "rule": { "mean_loss": 0.05, "worst_loss": 0.5, "worst_shape": "1 x 2 x 3" },
            }],
        }));
        assert_eq!(section.tables[0].rows, [["b", "2"], ["a", "1"]]);
        assert!(
            section.notes[0].contains("5.0 % slower on average over 3 shapes, 50.0 % at worst")
        );
    }

    #[test]
    fn shapes_without_a_time_of_the_rule_are_in_no_mean() {
        let section = tune(&json!({
            "tables": [{
                "dtype": "f32", "entries": [{ "fastest": "a" }, { "fastest": "b" }],
                "rule": { "shapes": 1, "mean_loss": 0.05, "worst_loss": 0.5, "worst_shape": "1 x 2 x 3" },
            }],
        }));
        assert!(section.notes[0].contains("on average over 1 shapes"), "{:?}", section.notes);
    }

    #[test]
    fn layouts_are_told_apart() {
        let fastest = json!([{ "m": 1, "n": 1, "k": 1, "fastest": "a" }]);
        let rule = json!({ "mean_loss": 0.05, "worst_loss": 0.5, "worst_shape": "1 x 2 x 3" });
        let in_layouts = |layouts: &str| json!({ "dtype": "bf16", "layouts": layouts, "entries": fastest, "rule": rule });
        let section = tune(&json!({ "tables": [in_layouts("nn"), in_layouts("nt")] }));
        let titles = section.tables.iter().map(|table| table.title.as_str());
        assert_eq!(
            Vec::from_iter(titles),
            ["Fastest kernels in bf16", "Fastest kernels in bf16 nt"]
        );
        assert!(section.notes[0].starts_with("bf16: without"), "{}", section.notes[0]);
        assert!(section.notes[1].starts_with("bf16 nt: without"), "{}", section.notes[1]);

        let shape = |layouts: &str| json!({ "m": 8, "n": 9, "k": 10, "dtype": "f16", "layouts": layouts, "why": "why" });
        let section = tune(&json!({ "results": [shape("nn"), shape("tt")] }));
        let rows = section.tables[0].rows.iter().map(|row| row[0].as_str());
        assert_eq!(Vec::from_iter(rows), ["f16 8 x 9 x 10", "f16 tt 8 x 9 x 10"]);
    }

    #[test]
    fn a_list_of_tables_is_shown_as_it_is() {
        let section = tune(
            &json!({ "device": "NVIDIA Imaginary", "tables": [{ "gpu": "a", "dtype": "f32", "shapes": 300 }] }),
        );
        assert!(section.title.starts_with("Measured times"), "{}", section.title);
        assert_eq!(section.tables[0].rows, [["f32", "a", "300"]]);
    }
}
