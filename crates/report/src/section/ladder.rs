//! The ladder as a section: speeds, or counts where there are none.

use super::{Picture, Section, Subject, lists, provenance, slug, text_at};
use crate::columns::{self, Column, column, objects, scientific, text, whole};
use crate::ladder::command::Run;
use crate::ladder::{Climb, Record};
use serde_json::Value;

/// A measured ladder: the picture, then speeds and what they are worth.
pub(super) fn measured(record: &Record) -> Section {
    let Record { provenance, dtype, .. } = record;
    let device = &provenance.device;
    let mut notes = vec![
        "Every kernel adds one idea to the one before it. Speeds are medians of samples taken in turn, on random data; \
         every result is verified before its speed counts."
            .to_owned(),
    ];
    if let Some(peak) = record.peak {
        notes.push(format!(
            "The peak is {peak:.1} TFLOP/s: all multiply-add units at the highest clock, without tensor cores."
        ));
    }
    notes.extend(record.vendor().into_iter().map(|vendor| format!("Vendor: {vendor}.")));
    let id = slug(&format!("ladder {dtype}"));
    let has_bars = record.rounds.iter().any(|round| round.rungs().next().is_some());
    let picture = has_bars.then(|| Picture {
        name: id.clone(),
        caption: format!("Speed of every kernel in {dtype} on {device}, by size of the product"),
        subject: Subject::Ladder(record.clone()),
    });
    Section {
        title: format!("The ladder in {dtype} on {device}"),
        notes,
        pictures: picture.into_iter().collect(),
        tables: record.tables(),
        provenance: provenance.clone(),
        id,
        ..Section::default()
    }
}

/// The same as the command prints it: with shares of tensor cores' peak, and with all that has no speed.
pub(super) fn climbed(climb: &Climb) -> Section {
    let mut section = measured(&climb.record);
    section.tables = climb.tables();
    section.notes.extend(climb.tensor_peak.map(|peak| {
        format!(
            "That of tensor cores is {peak:.1} TFLOP/s; a kernel's share is that of the units that it multiplies \
             with."
        )
    }));
    section.notes.extend(
        climb.processor.iter().map(|what| format!("The processor's times are those of {what}.")),
    );
    section.notes.extend(
        climb.stopped.iter().map(|why| format!("The run ended before all was measured: {why}.")),
    );
    section.lists = lists([
        ("Wrong results", climb.wrong.clone()),
        ("Verified and not measured", climb.unmeasured.clone()),
        ("Cannot run", climb.left_out.clone()),
    ]);
    section
}

const COUNTERS: [Column; 12] = [
    column("kernel", &["/kernel"], text),
    column("global loads", &["/counters/global_load_elements"], whole),
    column("sectors loaded", &["/counters/global_load_sectors"], whole),
    column("global stores", &["/counters/global_store_elements"], whole),
    column("shared load passes", &["/counters/shared_load_wavefronts"], whole),
    column("load conflicts", &["/counters/shared_load_conflicts"], whole),
    column("shared store passes", &["/counters/shared_store_wavefronts"], whole),
    column("store conflicts", &["/counters/shared_store_conflicts"], whole),
    column("barriers", &["/counters/block_barriers"], whole),
    column("multiply-adds", &["/counters/fma"], whole),
    column("on tensor cores", &["/counters/tensor_fma"], whole),
    column("error in norm", &["/verification/comparison/relative_norm_error"], scientific),
];

/// A ladder of the simulator: what each kernel did.
pub(super) fn counted(document: &Value) -> Section {
    let dtype = text_at(document, "/dtype");
    let sizes = objects(document, "/results").iter();
    let tables = sizes.filter_map(|size| {
        let extent = |name: &str| size.get(name).and_then(Value::as_u64).unwrap_or_default();
        let title = format!("Counts at {} x {} x {}", extent("m"), extent("n"), extent("k"));
        columns::table(&title, &COUNTERS, objects(size, "/kernels"))
    });
    let mut notes = vec![
        "The simulator runs the same kernels on the CPU and counts what they do. Its counts are exact and the same on \
         every machine; it gives no times."
            .to_owned(),
    ];
    if let Some(why) = document.get("stopped").and_then(Value::as_str) {
        notes.push(format!("The run ended before all was counted: {why}."));
    }
    let climb = serde_json::from_value::<Run>(document.clone()).map(Run::climb);
    let wrong = climb.map_or_else(|_| Vec::new(), |climb| climb.wrong);
    Section {
        id: slug(&format!("ladder counts {dtype}")),
        title: format!("The ladder in {dtype}, counted on the simulator"),
        notes,
        lists: lists([("Wrong results", wrong)]),
        tables: tables.collect(),
        provenance: provenance(document),
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::ladder::synthetic::record;
    use serde_json::json;

    #[test]
    fn a_measured_ladder_has_its_picture_and_all_tables() {
        let section = measured(&record());
        assert_eq!(section.id, "ladder-f32");
        assert_eq!(section.pictures.len(), 1);
        assert_eq!(section.tables, record().tables());
        assert!(section.notes.iter().any(|note| note.contains("best of 7 algorithms")));
    }

    #[test]
    fn a_counted_ladder_has_a_table_a_size() {
        let kernels =
            json!([{ "kernel": "naive_f32", "counters": { "fma": 4096, "block_barriers": 0 } }]);
        let document = json!({
            "device": { "name": "simulator" }, "dtype": "f32",
            "results": [{ "m": 16, "n": 16, "k": 16, "kernels": kernels }, { "m": 8, "n": 8, "k": 8, "kernels": [] }],
        });
        let section = counted(&document);
        assert_eq!(section.tables.len(), 1);
        assert_eq!(section.tables[0].title, "Counts at 16 x 16 x 16");
        assert_eq!(section.tables[0].rows, [["naive_f32", "0", "4,096"]]);
    }

    /// As `regemm ladder --json` prints it on a GPU on which one kernel is right and another is wrong.
    fn on_a_gpu() -> Value {
        let kernel = |name: &str, seconds: Option<f64>| {
            json!({
                "kernel": name, "seconds": seconds, "spread": seconds, "gflops": seconds,
                "verification": {
                    "pass": seconds.is_some(), "comparison": { "relative_norm_error": 0.5, "mismatches": 3 },
                },
            })
        };
        json!({
            "command": "ladder", "dtype": "f32", "peak_flops": 60e12, "tensor_peak_flops": 900e12,
            "device": { "name": "NVIDIA Imaginary", "multiprocessors": 10, "compute_capability": [9, 0] },
            "results": [{ "m": 16, "n": 16, "k": 16, "kernels": [kernel("a", Some(1.0)), kernel("b", None)] }],
            "left_out": [{ "kernel": "c", "why": "no room" }],
            "stopped": "a kernel failed",
        })
    }

    fn shown(document: &Value) -> Section {
        Section::new(&Document::parse(&document.to_string()).unwrap())
    }

    #[test]
    fn what_has_no_speed_is_told() {
        let section = shown(&on_a_gpu());
        assert_eq!(section.title, "The ladder in f32 on NVIDIA Imaginary");
        let titles: Vec<&str> = section.lists.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["Wrong results", "Cannot run"]);
        assert!(section.lists[0].1[0].starts_with("b on 16: 3 wrong elements"), "{section:?}");
        assert_eq!(section.lists[1].1, ["c: no room"]);
        for part in ["tensor cores is 900.0", "before all was measured: a kernel failed."] {
            assert!(section.notes.iter().any(|note| note.contains(part)), "{:?}", section.notes);
        }
    }

    #[test]
    fn a_gpu_whose_results_are_all_wrong_is_no_simulator() {
        let mut document = on_a_gpu();
        document["results"][0]["kernels"].as_array_mut().unwrap().remove(0);
        let section = shown(&document);
        assert_eq!(section.title, "The ladder in f32 on NVIDIA Imaginary");
        assert!(section.tables.is_empty() && section.pictures.is_empty());
        assert_eq!(section.lists[0].0, "Wrong results");
    }
}
