//! Traffic as a section: what crosses the memories, and the roofline.

use super::{Picture, Section, Subject, provenance, slug, text_at};
use crate::columns::{self, Column, column, decimals, factor, giga, objects, share, text, whole};
use crate::roofline::Roofline;
use serde_json::Value;

/// A quantity that was counted, or else worked out.
macro_rules! counted {
    ($heading:literal, $name:literal) => {
        column($heading, &[concat!("/counted/", $name), concat!("/formula/", $name)], whole)
    };
}

/// A quantity that was worked out, beside one that was counted.
macro_rules! formula {
    ($name:literal) => {
        column("formula", &[concat!("/formula/", $name)], whole)
    };
}

const KERNEL: Column = column("kernel", &["/kernel"], text);

const GLOBAL: [Column; 9] = [
    KERNEL,
    counted!("bytes loaded", "global_load_bytes"),
    formula!("global_load_bytes"),
    counted!("sectors loaded", "global_load_sectors"),
    formula!("global_load_sectors"),
    counted!("sectors stored", "global_store_sectors"),
    formula!("global_store_sectors"),
    column("fewer loads", &["/fewer_global_loads"], factor),
    column("FLOP a byte", &["/roofline/global_intensity"], decimals),
];

const SHARED: [Column; 10] = [
    KERNEL,
    counted!("bytes loaded", "shared_load_bytes"),
    formula!("shared_load_bytes"),
    counted!("bytes stored", "shared_store_bytes"),
    formula!("shared_store_bytes"),
    counted!("passes", "shared_passes"),
    formula!("shared_passes"),
    counted!("bank conflicts", "bank_conflicts"),
    formula!("bank_conflicts"),
    column("FLOP a byte", &["/roofline/shared_intensity"], decimals),
];

const WORK: [Column; 5] = [
    KERNEL,
    counted!("barriers", "block_barriers"),
    formula!("block_barriers"),
    counted!("multiply-adds", "fma"),
    formula!("fma"),
];

const ROOFLINE: [Column; 10] = [
    KERNEL,
    column("GFLOP/s without caches", &["/roofline/without_caches/flops"], giga),
    column("of peak", &["/share_of_peak"], share),
    column("held back by", &["/roofline/without_caches/bound"], words),
    column("GFLOP/s with perfect caches", &["/roofline/with_perfect_caches/flops"], giga),
    column("of peak", &["/share_of_peak_with_perfect_caches"], share),
    column("held back by", &["/roofline/with_perfect_caches/bound"], words),
    column("no speed, because", &["/without_speed"], text),
    column("measured GFLOP/s", &["/attained_flops"], giga),
    column("formula agrees", &["/agrees"], text),
];

fn words(value: &Value) -> Option<String> {
    value.as_str().map(|name| match name {
        "l1_cache" => "L1 cache".to_owned(),
        other => other.replace('_', " "),
    })
}

/// Tables of each memory, and the roofline as picture and table.
pub(super) fn traffic(document: &Value) -> Section {
    let provenance = provenance(document);
    let dtype = text_at(document, "/dtype");
    let extent = |name: &str| document.get(name).and_then(Value::as_u64).unwrap_or_default();
    let size = format!("{} x {} x {}", extent("m"), extent("n"), extent("k"));
    let kernels = objects(document, "/kernels");
    // Without counts the formulas stand in their places and need no columns of their own.
    let is_counted = kernels.iter().any(|kernel| kernel["counted"].is_object());
    let table = |title: &str, columns: &[Column]| {
        let shown = columns.iter().filter(|column| is_counted || column.heading != "formula");
        columns::table(title, &shown.copied().collect::<Vec<_>>(), kernels)
    };
    let tables = [
        table("Global memory", &GLOBAL),
        table("Shared memory", &SHARED),
        table("Work", &WORK),
        table("What the roofs allow", &ROOFLINE),
    ];
    let roofline = document.get("roofline");
    let roofline: Option<Roofline> =
        roofline.and_then(|roofline| serde_json::from_value(roofline.clone()).ok());
    let id = slug(&format!("traffic {dtype}"));
    let picture = |roofline| Picture {
        name: slug(&format!("roofline {dtype}")),
        caption: format!("Kernels below the roofs of {}, {size} in {dtype}", provenance.device),
        subject: Subject::Roofline(roofline),
    };
    let source = if is_counted {
        "Counted on the simulator, with what the formula of each kernel gives beside it."
    } else {
        "Worked out by the formula of each kernel; nothing was counted."
    };
    let mut notes = vec![
        source.to_owned(),
        "A kernel attains at most the peak, and at most what its memories deliver for each operation. Without caches \
         every sector that a request touches comes from global memory; perfect caches fetch each operand once. Real \
         caches lie between, so a kernel can be above the first roof."
            .to_owned(),
    ];
    // Where that is another GPU than the one whose roofline it is, the reader sees it beside the title.
    let measured_on = document.get("measured_on").and_then(Value::as_str);
    notes.extend(measured_on.map(|name| format!("Measured speeds are those of {name}.")));
    Section {
        title: format!("Traffic at {size} in {dtype}, and the roofline of {}", provenance.device),
        notes,
        pictures: roofline.map(picture).into_iter().collect(),
        tables: tables.into_iter().flatten().collect(),
        provenance,
        id,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(counted: Value) -> Value {
        json!({
            "command": "traffic", "m": 256, "n": 256, "k": 128, "dtype": "f32",
            "gpu": { "name": "NVIDIA Imaginary", "multiprocessors": 10, "compute_capability": [9, 0] },
            "kernels": [{
                "kernel": "tiled16_f32", "counted": counted,
                "formula": { "global_load_bytes": 1000, "bank_conflicts": 0 },
                "roofline": {
                    "global_intensity": 4.0,
                    "without_caches": { "flops": 8.1e12, "bound": "shared_memory" },
                },
                "share_of_peak": 0.121, "attained_flops": 6.8e12,
            }],
            "roofline": {
                "title": "a GPU", "peak_flops": 60e12, "bandwidth": 5e12,
                "points": [{ "name": "tiled16_f32", "intensity": 4.0, "attained": 6.8e12, "attainable": 8.1e12 }],
            },
        })
    }

    #[test]
    fn counts_stand_beside_formulas() {
        let mut document = document(json!({ "global_load_bytes": 1001 }));
        document["measured_on"] = "NVIDIA Other".into();
        let section = traffic(&document);
        assert_eq!(section.notes[2], "Measured speeds are those of NVIDIA Other.");
        let global = &section.tables[0];
        assert_eq!(global.heading, ["kernel", "bytes loaded", "formula", "FLOP a byte"]);
        assert_eq!(global.rows, [["tiled16_f32", "1,001", "1,000", "4.000"]]);
        let roofs = section.tables.last().unwrap();
        assert_eq!(roofs.rows, [["tiled16_f32", "8,100", "12.1 %", "shared memory", "6,800"]]);
        assert_eq!(section.pictures[0].name, "roofline-f32");
        assert!(section.title.contains("256 x 256 x 128"));
    }

    #[test]
    fn formulas_alone_have_no_second_column() {
        let section = traffic(&document(Value::Null));
        assert_eq!(section.tables[0].heading, ["kernel", "bytes loaded", "FLOP a byte"]);
        assert_eq!(section.tables[1].rows, [["tiled16_f32", "0"]]);
        assert!(section.notes[0].contains("nothing was counted"));
    }
}
