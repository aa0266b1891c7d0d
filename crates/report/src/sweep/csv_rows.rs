//! A sweep as comma-separated values: a line for each configuration and size.

use super::{Config, Counts, Entry, Record, Timing};

/// The columns. Those of times are empty in a record of the simulator, those of counts in a record of a GPU.
const HEADING: [&str; 28] = [
    "kernel",
    "bm",
    "bn",
    "bk",
    "tm",
    "tn",
    "order",
    "staging",
    "threads",
    "registers",
    "local_bytes",
    "shared_bytes",
    "resident_blocks",
    "size",
    "milliseconds",
    "tflops",
    "share_of_peak",
    "spread",
    "samples",
    "global_bytes",
    "global_sectors",
    "shared_wavefronts",
    "shared_conflicts",
    "barriers",
    "async_copies",
    "fma",
    "relative_error",
    "problem",
];

/// What a line holds of one size.
#[derive(Clone, Copy)]
enum Outcome<'a> {
    Timing(&'a Timing),
    Counts(&'a Counts),
    /// Not measured, and why if that is known.
    Nothing(Option<&'a str>),
}

impl Record {
    /// A heading and a line for each configuration and size; a configuration without results has one line with the
    /// reason in the column `problem`. The library's own choices come last, without a configuration.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = |fields: Vec<String>| {
            // Writing to memory cannot fail, and all lines are as long as the heading.
            let _ = writer.write_record(fields);
        };
        write(HEADING.map(String::from).to_vec());
        for entry in &self.results {
            let problem = entry.cannot_run.as_deref().or(entry.wrong.as_deref());
            let timings = entry.timings.iter().map(Outcome::Timing);
            let mut results: Vec<Outcome<'_>> =
                timings.chain(entry.counts.iter().map(Outcome::Counts)).collect();
            if results.is_empty() || problem.is_some() {
                results.push(Outcome::Nothing(problem));
            }
            for result in results {
                write(self.line(configuration(entry), result));
            }
        }
        for choice in &self.library {
            let timing = choice.timing.as_ref().map(Outcome::Timing);
            if let Some(result) = timing.or(choice.counts.as_ref().map(Outcome::Counts)) {
                let mut first = vec![String::new(); CONFIGURATION];
                first[0].clone_from(&choice.kernel);
                write(self.line(first, result));
            }
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn line(&self, mut fields: Vec<String>, result: Outcome<'_>) -> Vec<String> {
        match result {
            Outcome::Timing(timing) => {
                let share = self.peak_tflops.map(|peak| timing.tflops / peak);
                fields.push(timing.size.to_string());
                fields.push(timing.milliseconds.to_string());
                fields.push(timing.tflops.to_string());
                fields.push(or_empty(share));
                fields.push(timing.spread.to_string());
                fields.push(timing.samples.to_string());
                fields.resize(HEADING.len() - 2, String::new());
                fields.push(timing.relative_error.to_string());
            }
            Outcome::Counts(counts) => {
                fields.push(counts.size.to_string());
                fields.resize(CONFIGURATION + 1 + TIMES, String::new());
                let numbers = [
                    counts.global_bytes,
                    counts.global_sectors,
                    counts.shared_wavefronts,
                    counts.shared_conflicts,
                    counts.barriers,
                    counts.async_copies,
                    counts.fma,
                ];
                fields.extend(numbers.map(|number| number.to_string()));
                fields.push(counts.relative_error.to_string());
            }
            Outcome::Nothing(problem) => {
                fields.resize(HEADING.len() - 1, String::new());
                fields.push(problem.unwrap_or_default().to_owned());
            }
        }
        fields.resize(HEADING.len(), String::new());
        fields
    }
}

/// Columns before `size`.
const CONFIGURATION: usize = 13;
/// Columns of times, from `milliseconds` to `samples`.
const TIMES: usize = 5;

fn configuration(entry: &Entry) -> Vec<String> {
    let Config { bm, bn, bk, tm, tn, order, staging } = &entry.config;
    vec![
        entry.kernel.clone(),
        bm.to_string(),
        bn.to_string(),
        bk.to_string(),
        tm.to_string(),
        tn.to_string(),
        order.clone(),
        staging.clone(),
        entry.threads.to_string(),
        or_empty(entry.registers),
        or_empty(entry.local_bytes),
        entry.shared_bytes.to_string(),
        or_empty(entry.resident_blocks),
    ]
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{choice, counted, entry, record, timed, timing};
    use std::collections::HashMap;

    /// Lines as maps from heading to field, read back by another route than they were written.
    fn read(text: &str) -> Vec<HashMap<String, String>> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.deserialize().map(|line| line.unwrap()).collect()
    }

    #[test]
    fn a_line_for_each_configuration_and_size() {
        let fast = entry((64, 64, 32), (8, 4), "k_innermost", "single");
        let mut record = record(vec![timed(timed(fast, 1024, 20.0), 2048, 25.0)]);
        record.peak_tflops = Some(50.0);
        record.library = vec![choice("pipelined_f32", timing(2048, 40.0))];
        let lines = read(&record.csv());
        assert_eq!(lines.len(), 3);
        let field = |line: usize, name: &str| lines[line][name].as_str();
        assert_eq!((field(0, "size"), field(0, "tflops")), ("1024", "20"));
        assert_eq!((field(1, "size"), field(1, "share_of_peak")), ("2048", "0.5"));
        assert_eq!((field(1, "tn"), field(1, "order")), ("4", "k_innermost"));
        assert_eq!((field(1, "registers"), field(1, "samples")), ("64", "20"));
        assert_eq!((field(1, "relative_error"), field(1, "global_bytes")), ("0.0000003", ""));
        assert_eq!(
            (field(2, "kernel"), field(2, "bm"), field(2, "tflops")),
            ("pipelined_f32", "", "40")
        );
    }

    #[test]
    fn reasons_with_commas_survive() {
        let mut impossible = entry((128, 128, 32), (4, 4), "k_innermost", "async4");
        let reason = "needs 256 KiB of shared memory, \"at most\" 227 KiB";
        impossible.cannot_run = Some(reason.into());
        let lines = read(&record(vec![impossible]).csv());
        assert_eq!((lines.len(), lines[0]["problem"].as_str()), (1, reason));
        assert_eq!(lines[0]["size"], "");
    }

    #[test]
    fn counts_leave_the_columns_of_times_empty() {
        let counts = counted(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 64, 1000);
        let lines = read(&record(vec![counts]).csv());
        let field = |name: &str| lines[0][name].as_str();
        assert_eq!((field("size"), field("milliseconds"), field("samples")), ("64", "", ""));
        assert_eq!((field("global_bytes"), field("fma")), ("1000", "262144"));
        assert_eq!((field("barriers"), field("relative_error")), ("12", "0.0000001"));
        assert_eq!((field("registers"), field("problem")), ("", ""));
    }
}
