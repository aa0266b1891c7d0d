//! A sweep as a section, and the table of pipelining.

use super::{Picture, Section, Subject, lists, slug};
use crate::sweep::Record;

/// A sweep: what won, a heat map a size, the tables, and what did not run.
pub(super) fn sweep(record: &Record) -> Section {
    let Record { dtype, provenance, .. } = record;
    let device = &provenance.device;
    let mut notes = vec![record.tally() + "."];
    notes.extend(record.verdicts());
    let is_timed =
        |size: &&usize| record.results.iter().any(|entry| entry.timing(**size).is_some());
    let picture = |size: &usize| Picture {
        name: slug(&format!("sweep {dtype} {size}")),
        caption: format!(
            "TFLOP/s at {size} x {size} x {size} by block tile (down), thread tile (across), loop order and staging (panels)"
        ),
        subject: Subject::HeatMap(record.clone(), *size),
    };
    Section {
        id: slug(&format!("sweep {dtype}")),
        title: format!("The sweep in {dtype} on {device}"),
        notes,
        // The largest size first: it says most.
        pictures: record.sizes.iter().rev().filter(is_timed).map(picture).collect(),
        tables: record.tables(),
        lists: without_results(record),
        provenance: provenance.clone(),
    }
}

/// One tile with each staging.
pub(super) fn pipelining(record: &Record) -> Section {
    let Record { dtype, provenance, .. } = record;
    let tile = record.results.first().map(|entry| {
        let (block, thread) = (entry.config.block_tile(), entry.config.thread_tile());
        format!("Block tile {block}, thread tile {thread}.")
    });
    Section {
        id: slug(&format!("pipelining {dtype}")),
        title: format!("Software pipelining in {dtype} on {}", provenance.device),
        notes: tile.into_iter().chain(record.pipelining_verdicts()).collect(),
        tables: record.pipelining(),
        lists: without_results(record),
        provenance: provenance.clone(),
        ..Section::default()
    }
}

/// What has no results, and why.
fn without_results(record: &Record) -> Vec<(String, Vec<String>)> {
    lists([("Wrong results", record.wrong()), ("Cannot run", record.cannot_run())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::synthetic::{counted, entry, record, timed};

    #[test]
    fn a_sweep_has_a_heat_map_a_size_and_tells_what_did_not_run() {
        let mut impossible = entry((128, 128, 32), (4, 4), "k_innermost", "async4");
        impossible.cannot_run = Some("needs 256 KiB of shared memory".into());
        let possible = entry((64, 64, 32), (8, 8), "k_innermost", "single");
        let record = record(vec![timed(timed(possible, 1024, 20.0), 4096, 30.0), impossible]);
        let section = sweep(&record);
        let names: Vec<&str> = section.pictures.iter().map(|picture| &picture.name[..]).collect();
        assert_eq!(names, ["sweep-f32-4096", "sweep-f32-1024"]);
        assert_eq!(section.tables, record.tables());
        assert_eq!(section.lists.len(), 1);
        assert!(section.lists[0].1[0].ends_with("needs 256 KiB of shared memory"));
        assert!(section.notes[0].contains("1 cannot run"));
    }

    #[test]
    fn counts_have_no_heat_map() {
        let counts = counted(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 64, 1000);
        let section = sweep(&record(vec![counts]));
        assert!(section.pictures.is_empty() && !section.tables.is_empty());
    }

    #[test]
    fn pipelining_names_its_tile() {
        let single = entry((64, 128, 16), (8, 8), "k_innermost", "single");
        let section = pipelining(&record(vec![timed(single, 1024, 20.0)]));
        assert_eq!(section.notes[0], "Block tile 64x128x16, thread tile 8x8.");
        assert_eq!(section.id, "pipelining-f32");
    }
}
