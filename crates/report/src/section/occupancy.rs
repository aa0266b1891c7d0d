//! Occupancy as a section.

use super::{Section, provenance, slug, text_at};
use crate::columns::{self, Column, column, objects, share, text, whole};
use serde_json::Value;

const KERNELS: [Column; 12] = [
    column("kernel", &["/kernel"], text),
    column("threads", &["/threads"], whole),
    column("registers", &["/registers"], whole),
    column("shared bytes", &["/shared_bytes"], whole),
    column("local bytes", &["/local_bytes"], whole),
    column("resident blocks", &["/occupancy/blocks"], whole),
    column("driver's blocks", &["/driver_blocks"], whole),
    column("warps", &["/occupancy/warps"], whole),
    column("of all warps", &["/occupancy/share"], share),
    column("limited by", &["/occupancy/limited_by", "/occupancy/cannot_launch"], text),
    column("blocks with a register more", &["/one_more_register/blocks"], whole),
    column("blocks with a register fewer", &["/one_fewer_register/blocks"], whole),
];

const STEPS: [Column; 4] = [
    column("kernel", &["/kernel"], text),
    column("registers", &["/registers"], whole),
    column("more blocks with up to", &["/more_blocks_up_to_registers"], whole),
    column("fewer blocks from", &["/fewer_blocks_from_registers"], whole),
];

const LIMITS: [Column; 5] = [
    column("compute capability", &["/capability"], text),
    column("threads", &["/threads"], whole),
    column("blocks", &["/blocks"], whole),
    column("registers", &["/registers"], whole),
    column("shared bytes", &["/shared_bytes"], whole),
];

/// Resident blocks of each kernel, or of one block, what limits them, and what other numbers of registers would do.
pub(super) fn occupancy(document: &Value) -> Section {
    let provenance = provenance(document);
    let dtype = text_at(document, "/dtype");
    let one_block: Vec<Value> = document.get("block").cloned().into_iter().map(named).collect();
    let kernels =
        if one_block.is_empty() { objects(document, "/kernels") } else { one_block.as_slice() };
    let mut limits = document.get("limits").cloned().unwrap_or_default();
    if let (Some((major, minor)), Some(limits)) =
        (provenance.compute_capability, limits.as_object_mut())
    {
        limits.insert("capability".to_owned(), format!("{major}.{minor}").into());
    }
    let tables = [
        columns::table("Resident blocks on a multiprocessor", &KERNELS, kernels),
        columns::table("Where registers change that", &STEPS, kernels),
        columns::table("What a multiprocessor has", &LIMITS, &[limits]),
    ];
    let recorded = text_at(document, "/recorded_with");
    let registers = if recorded.is_empty() {
        "Registers are those of the compiled kernels.".to_owned()
    } else {
        format!("Registers are as recorded with {recorded}.")
    };
    let mut notes = vec![
        "Warps that wait for memory cost nothing as long as others can run. How many are resident depends on what each block \
         takes of a multiprocessor."
            .to_owned(),
    ];
    if one_block.is_empty() {
        notes.push(registers);
    }
    Section {
        id: slug(&format!("occupancy {dtype}")),
        title: format!("Occupancy on {}", provenance.device),
        notes,
        tables: tables.into_iter().flatten().collect(),
        provenance,
        ..Section::default()
    }
}

/// A block of no kernel, with a name for its row.
fn named(mut block: Value) -> Value {
    if let Some(object) = block.as_object_mut() {
        object.insert("kernel".to_owned(), "one block".into());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block() -> Value {
        json!({
            "kernel": null, "threads": 512, "registers": 11, "shared_bytes": 0,
            "occupancy": { "blocks": 2, "warps": 32, "share": 0.625, "limited_by": ["registers"] },
            "one_more_register": { "blocks": 2 }, "one_fewer_register": { "blocks": 3 },
            "fewer_blocks_from_registers": 17, "more_blocks_up_to_registers": 10,
        })
    }

    #[test]
    fn one_block_has_a_row_and_the_steps_of_its_registers() {
        let section = occupancy(&json!({
            "command": "occupancy", "gpu": "NVIDIA Imaginary", "compute_capability": [9, 0],
            "limits": { "threads": 1536, "blocks": 8, "registers": 16384, "shared_bytes": 16384 },
            "block": block(),
        }));
        assert_eq!(section.title, "Occupancy on NVIDIA Imaginary");
        let rows: Vec<_> = section.tables.iter().map(|table| table.rows[0].join("|")).collect();
        assert_eq!(
            rows,
            [
                "one block|512|11|0|2|32|62.5 %|registers|2|3",
                "one block|11|10|17",
                "9.0|1,536|8|16,384|16,384"
            ]
        );
    }

    #[test]
    fn kernels_have_a_row_each() {
        let mut second = block();
        second["kernel"] = "tiled16_f32".into();
        second["occupancy"] = json!({ "blocks": 0, "cannot_launch": "too many threads" });
        let section = occupancy(&json!({
            "gpu": "NVIDIA Imaginary", "dtype": "f32", "recorded_with": "rustc 1.96", "kernels": [block(), second],
        }));
        assert_eq!(section.id, "occupancy-f32");
        assert!(section.notes[1].contains("recorded with rustc 1.96"));
        let row = section.tables[0].rows[1].join("|");
        assert!(row.starts_with("tiled16_f32|512|11|0|0|-|-|too many threads"), "{row}");
    }
}
