//! The ladder as a section: speeds, or counts where there are none.

use super::{Picture, Section, Subject, provenance, slug, text_at};
use crate::columns::{self, Column, column, objects, scientific, text, whole};
use crate::ladder::Record;
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
    notes.extend(record.vendor().map(|vendor| format!("Vendor: {vendor}.")));
    let id = slug(&format!("ladder {dtype}"));
    Section {
        title: format!("The ladder in {dtype} on {device}"),
        notes,
        pictures: vec![Picture {
            name: id.clone(),
            caption: format!(
                "Speed of every kernel in {dtype} on {device}, by size of the product"
            ),
            subject: Subject::Ladder(record.clone()),
        }],
        tables: record.tables(),
        provenance: provenance.clone(),
        id,
        ..Section::default()
    }
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
    Section {
        id: slug(&format!("ladder counts {dtype}")),
        title: format!("The ladder in {dtype}, counted on the simulator"),
        notes: vec![
            "The simulator runs the same kernels on the CPU and counts what they do. Its counts are exact and the same on \
             every machine; it gives no times."
                .to_owned(),
        ],
        tables: tables.collect(),
        provenance: provenance(document),
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
