//! The stagings of one tile beside each other: what overlapping copies with multiplications gains, what more buffers on
//! top of that gain, and what they take.

use super::ranking::tflops;
use super::{Entry, Record, overlap};
use crate::table::count;
use crate::table::{Table, or_dash};

/// The rows: a staging, and what it is called.
const ROWS: [(&str, &str); 5] = [
    (SINGLE, "basic: one stage"),
    ("double", "double buffering through registers"),
    (PIPELINED, "pipelined: 2 stages"),
    ("async3", "pipelined: 3 stages"),
    (DOUBLED, "plus double buffering: 4 stages"),
];

/// One stage.
pub(super) const SINGLE: &str = "single";
/// The plain pipeline.
const PIPELINED: &str = "async2";
/// The pipeline with twice its buffers.
const DOUBLED: &str = "async4";

impl Record {
    /// The stagings of the record's first tile: speeds and what they take, and the change against the first row and
    /// against the row before; times of slices where tiles are few; counts on the simulator.
    pub fn pipelining(&self) -> Vec<Table> {
        let rows = self.stagings();
        if self.is_of_simulator() {
            return self.measured_sizes().into_iter().map(|size| counts(size, &rows)).collect();
        }
        let sizes = self.measured_sizes();
        let mut speeds = Table::new("Speed in TFLOP/s, and what a kernel takes", [""]);
        speeds.heading.extend(sizes.iter().map(ToString::to_string));
        speeds.heading.extend(RESOURCES.map(String::from));
        for (name, entry) in &rows {
            let mut row = vec![(*name).to_owned()];
            row.extend(sizes.iter().map(|&size| or_dash(speed(entry, size).map(tflops))));
            row.extend([
                count(entry.shared_bytes.into()),
                or_dash(entry.registers),
                entry.threads.to_string(),
                or_dash(entry.resident_blocks),
            ]);
            speeds.rows.push(row);
        }
        let first = |_: usize| 0;
        let before = |row: usize| row.saturating_sub(1);
        let mut tables = vec![
            speeds,
            changes("Change against the first row", &sizes, &rows, first),
            changes("Change against the row before", &sizes, &rows, before),
        ];
        tables.extend(overlap::table(self, &rows));
        tables
    }

    /// What the tables say, a line each: the gain of the pipeline, that of double buffering on top, and why.
    pub fn pipelining_verdicts(&self) -> Vec<String> {
        let find = |staging: &str| {
            self.results
                .iter()
                .find(|entry| entry.config.staging == staging && entry.cannot_run.is_none())
        };
        let mut lines = Vec::new();
        if let (Some(basic), Some(pipelined)) = (find(SINGLE), find(PIPELINED)) {
            lines.extend(self.gain("Pipelining against one stage", basic, pipelined));
            lines.extend(overlap::verdict(self, basic, pipelined));
        }
        if let (Some(pipelined), Some(doubled)) = (find(PIPELINED), find(DOUBLED)) {
            lines.extend(self.gain("Double buffering on top of it", pipelined, doubled));
            lines.push(occupancy(pipelined, doubled));
        }
        lines
    }

    fn stagings(&self) -> Vec<(&'static str, &Entry)> {
        let row = |(staging, name): (&str, &'static str)| {
            let has_results =
                |entry: &&Entry| !entry.timings.is_empty() || !entry.counts.is_empty();
            let of_staging = |entry: &&Entry| entry.config.staging == staging;
            self.results.iter().filter(of_staging).find(has_results).map(|entry| (name, entry))
        };
        ROWS.into_iter().filter_map(row).collect()
    }

    fn gain(&self, what: &str, from: &Entry, to: &Entry) -> Option<String> {
        let at = |size: usize| {
            Some(format!("{} at {size}", change(speed(from, size)?, speed(to, size)?)))
        };
        let gains: Vec<String> = self.sizes.iter().filter_map(|&size| at(size)).collect();
        (!gains.is_empty()).then(|| format!("{what}: {}.", gains.join(", ")))
    }
}

const RESOURCES: [&str; 4] = ["shared bytes", "registers", "threads", "resident blocks"];

fn speed(entry: &Entry, size: usize) -> Option<f64> {
    entry.timing(size).map(|timing| timing.tflops)
}

/// A relative change as a percentage with its sign.
fn change(from: f64, to: f64) -> String {
    format!("{:+.1} %", 100.0 * (to / from - 1.0))
}

fn changes(
    title: &str,
    sizes: &[usize],
    rows: &[(&str, &Entry)],
    against: impl Fn(usize) -> usize,
) -> Table {
    let mut table = Table::new(title, [""]);
    table.heading.extend(sizes.iter().map(ToString::to_string));
    for (index, (name, entry)) in rows.iter().enumerate().skip(1) {
        let other = rows[against(index)].1;
        let at = |size: usize| Some(change(speed(other, size)?, speed(entry, size)?));
        let mut row = vec![(*name).to_owned()];
        row.extend(sizes.iter().map(|&size| or_dash(at(size))));
        table.rows.push(row);
    }
    table
}

fn counts(size: usize, rows: &[(&str, &Entry)]) -> Table {
    let heading = [
        "",
        "async copies",
        "barriers",
        "shared bytes",
        "global bytes",
        "shared passes",
        "conflicts",
        "threads",
    ];
    let mut table = Table::new(format!("Counts of {size} x {size} x {size}"), heading);
    for (name, entry) in rows {
        let Some(counts) = entry.counts(size) else { continue };
        let mut row = vec![(*name).to_owned()];
        let numbers = [
            counts.async_copies,
            counts.barriers,
            entry.shared_bytes.into(),
            counts.global_bytes,
            counts.shared_wavefronts,
            counts.shared_conflicts,
            entry.threads.into(),
        ];
        row.extend(numbers.map(count));
        table.rows.push(row);
    }
    table
}

/// What twice the buffers do to the number of resident blocks.
fn occupancy(pipelined: &Entry, doubled: &Entry) -> String {
    let (from, to) = (pipelined.shared_bytes, doubled.shared_bytes);
    let shared = format!(
        "Twice the buffers: {} instead of {} bytes of shared memory a block",
        count(to.into()),
        count(from.into())
    );
    match (pipelined.resident_blocks, doubled.resident_blocks) {
        (Some(before), Some(after)) if after < before => format!(
            "{shared}, and {after} instead of {before} resident blocks: fewer warps to hide latency with."
        ),
        (Some(before), Some(_)) => format!(
            "{shared}, and still {before} resident blocks: here shared memory does not limit occupancy."
        ),
        _ => format!("{shared}."),
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{counted, entry, record, timed};
    use super::*;

    const SPEEDS: [(&str, f64); 5] =
        [("async4", 42.0), ("async2", 40.0), ("single", 20.0), ("double", 30.0), ("async3", 41.0)];

    fn on_a_gpu() -> Record {
        let measure = |(staging, speed): (&str, f64)| {
            let entry = entry((64, 128, 16), (8, 8), "k_innermost", staging);
            timed(timed(entry, 1024, speed / 2.0), 4096, speed)
        };
        record(SPEEDS.map(measure).to_vec())
    }

    fn cells(table: &Table, row: usize) -> Vec<&str> {
        table.rows[row].iter().map(String::as_str).collect()
    }

    #[test]
    fn rows_come_in_the_order_of_the_story() {
        let tables = on_a_gpu().pipelining();
        let names: Vec<&str> = tables[0].rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(names, ROWS.map(|(_, name)| name));
        assert_eq!(
            tables[0].heading,
            ["", "1024", "4096", "shared bytes", "registers", "threads", "resident blocks"]
        );
        assert_eq!(
            cells(&tables[0], 2),
            ["pipelined: 2 stages", "20.0", "40.0", "24,576", "96", "128", "2"]
        );
    }

    #[test]
    fn changes_against_the_first_row_and_the_row_before() {
        let tables = on_a_gpu().pipelining();
        assert_eq!(cells(&tables[1], 1), ["pipelined: 2 stages", "+100.0 %", "+100.0 %"]);
        assert_eq!(cells(&tables[2], 1)[1..], ["+33.3 %", "+33.3 %"]);
        assert_eq!(cells(&tables[2], 3)[1..], ["+2.4 %", "+2.4 %"]);
    }

    #[test]
    fn what_double_buffering_gains_and_takes() {
        let mut record = on_a_gpu();
        record.results[0].resident_blocks = Some(4);
        record.results[1].resident_blocks = Some(6);
        assert_eq!(
            record.pipelining_verdicts(),
            [
                "Pipelining against one stage: +100.0 % at 1024, +100.0 % at 4096.",
                "Double buffering on top of it: +5.0 % at 1024, +5.0 % at 4096.",
                "Twice the buffers: 49,152 instead of 24,576 bytes of shared memory a block, and 4 instead of 6 resident \
                 blocks: fewer warps to hide latency with.",
            ]
        );
        record.results[0].resident_blocks = Some(6);
        assert!(record.pipelining_verdicts()[2].contains("still 6 resident blocks"));
    }

    #[test]
    fn a_staging_that_cannot_run_leaves_no_row_and_no_verdict() {
        let mut record = on_a_gpu();
        record.results[0].timings.clear();
        record.results[0].cannot_run = Some("needs asynchronous copies".into());
        assert_eq!(record.pipelining()[0].rows.len(), 4);
        assert_eq!(record.pipelining_verdicts().len(), 1);
    }

    /// 10 multiprocessors that have 6.69 TFLOP/s each: 0.0392 us for the multiply-adds of 64 x 128 x 16.
    #[test]
    fn where_tiles_are_alone_the_times_of_slices_say_what_could_be_hidden() {
        let measure = |(staging, micros): (&str, f64)| {
            let entry = entry((64, 128, 16), (8, 8), "k_innermost", staging);
            // 16 slices each, and 8 tiles; 12 are too many.
            let mut entry = timed(timed(entry, 256, 1.0), 300, 1.0);
            entry.timings[0].milliseconds = 16.0 * micros / 1e3;
            entry
        };
        let record = record([("single", 0.1392), ("async2", 0.1142)].map(measure).to_vec());
        let tables = record.pipelining();
        assert_eq!(tables[3].heading, ["", "256"]);
        let column = Vec::from_iter(tables[3].rows.iter().map(|row| row[1].as_str()));
        assert_eq!(column, ["0.139", "0.114", "0.039", "0.100", "0.100"]);
        let verdicts = record.pipelining_verdicts();
        assert!(verdicts[1].ends_with("the pipeline hides 64 % at 256."), "{verdicts:?}");
        // Nothing is known of loads without one stage.
        let record = super::super::synthetic::record(record.results[1..].to_vec());
        let column = Vec::from_iter(record.pipelining()[3].rows.iter().map(|row| row[1].clone()));
        assert_eq!(column, ["0.114", "0.039", "-", "-"]);
    }

    #[test]
    fn the_simulator_counts() {
        let counts = counted(entry((64, 128, 16), (8, 8), "k_innermost", "async2"), 64, 1000);
        let mut basic = counted(entry((64, 128, 16), (8, 8), "k_innermost", "single"), 64, 1000);
        basic.counts[0].barriers = 8;
        let record = record(vec![counts, basic]);
        let tables = record.pipelining();
        assert_eq!(tables.len(), 1);
        assert_eq!(cells(&tables[0], 0)[..4], ["basic: one stage", "0", "8", "12,288"]);
        assert!(record.pipelining_verdicts().is_empty(), "no speeds, nothing to compare");
    }
}
