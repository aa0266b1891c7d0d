//! The tables of short bursts and of long turns, each beside what is sustained.

use super::tables::{names, ratio, speed, whole};
use super::{Entry, Group, Measured, Record};
use crate::table::{Table, or_dash, percent};

impl Record {
    /// Large squares in short bursts and sustained, a row each; empty where nothing was measured in bursts.
    pub fn burst_table(&self) -> Table {
        let cases = self.cases_with(|entry| entry.burst.is_some());
        let names = names(&cases);
        let mut heading = vec!["m x n x k".to_owned()];
        heading.extend(of_each(&names, "TFLOP/s in bursts"));
        heading.extend(["ratio in bursts", "ratio sustained"].map(str::to_owned));
        heading.extend(of_each(&names, "MHz in bursts"));
        heading.push("MHz sustained".into());
        heading.extend(["W before a burst", "W sustained"].map(str::to_owned));
        heading.extend(of_each(&names, "spread of bursts"));
        let mut table = Table::new("Short bursts and sustained", heading);
        for measured in cases {
            let bursts = || {
                let of = |name: &&str| measured.entry(name).and_then(|entry| entry.burst.as_ref());
                names.iter().map(of)
            };
            let mut row = vec![measured.case.label()];
            row.extend(bursts().map(|burst| or_dash(burst.map(|burst| speed(burst.tflops)))));
            row.extend([measured.burst_ratio(), measured.ratio()].map(|r| or_dash(r.map(ratio))));
            let conditions = measured.conditions;
            row.extend(bursts().map(|burst| whole(burst.and_then(|burst| burst.sm_mhz))));
            row.push(whole(measured.sm_mhz()));
            let before: Vec<f64> = bursts().flatten().filter_map(|b| b.watts_before).collect();
            let count = before.len() as f64;
            let mean = (!before.is_empty()).then(|| before.iter().sum::<f64>() / count);
            row.push(whole(mean));
            row.push(whole(conditions.and_then(|conditions| conditions.watts)));
            row.extend(bursts().map(|burst| or_dash(burst.map(|burst| percent(burst.spread)))));
            table.rows.push(row);
        }
        table
    }

    /// What was measured in long turns, a row a case; empty where nothing was.
    pub fn turn_table(&self) -> Table {
        let cases = self.cases_with(|entry| entry.turn.is_some());
        let names = names(&cases);
        let has_costs =
            cases.iter().any(|case| case.epilogue_costs_in_turns().iter().any(Option::is_some));
        let mut heading = vec!["case".to_owned()];
        heading.extend(of_each(&names, "TFLOP/s in turns"));
        heading.extend(["ratio in turns", "ratio sustained (alternating)"].map(str::to_owned));
        if has_costs {
            heading.extend(["cost of the epilogue in turns", "cuBLASLt's"].map(str::to_owned));
        }
        for what in ["MHz in turns", "W in turns", "GFLOP/J", "spread of turns"] {
            heading.extend(of_each(&names, what));
        }
        let mut table = Table::new("Long turns", heading);
        for measured in cases {
            let turns = || {
                let of = |name: &&str| measured.entry(name).and_then(|entry| entry.turn.as_ref());
                names.iter().map(of)
            };
            let mut row = vec![match measured.case.group {
                // Its size is that of a plain product, too.
                Group::Epilogue => format!("{}, epilogue", measured.case.label()),
                _ => measured.case.label(),
            }];
            row.extend(turns().map(|turn| or_dash(turn.map(|turn| speed(turn.tflops)))));
            row.extend([measured.turn_ratio(), measured.ratio()].map(|r| or_dash(r.map(ratio))));
            if has_costs {
                row.extend(measured.epilogue_costs_in_turns().map(|c| or_dash(c.map(percent))));
            }
            row.extend(turns().map(|turn| whole(turn.and_then(|turn| turn.sm_mhz))));
            row.extend(turns().map(|turn| whole(turn.and_then(|turn| turn.watts))));
            row.extend(turns().map(|turn| {
                or_dash(turn.and_then(|turn| turn.gflop_a_joule()).map(|e| format!("{e:.1}")))
            }));
            row.extend(turns().map(|turn| or_dash(turn.map(|turn| percent(turn.spread)))));
            table.rows.push(row);
        }
        table
    }

    fn cases_with(&self, has: fn(&Entry) -> bool) -> Vec<&Measured> {
        self.cases.iter().filter(|measured| measured.entries.iter().any(has)).collect()
    }
}

/// A column for each contender.
fn of_each(names: &[&str], what: &str) -> Vec<String> {
    names.iter().map(|name| format!("{name}, {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    /// The cell of a row under a heading.
    fn cell<'a>(table: &'a Table, row: usize, heading: &str) -> &'a str {
        let column = table.heading.iter().position(|found| found == heading);
        &table.rows[row][column.unwrap_or_else(|| panic!("{:?}", table.heading))]
    }

    #[test]
    fn bursts_stand_beside_what_is_sustained() {
        let record = synthetic::record();
        let table = record.burst_table();
        assert_eq!(table.rows.len(), 1);
        for (heading, expected) in [
            ("m x n x k", "4096"),
            ("regemm, TFLOP/s in bursts", "68.72"),
            ("ratio in bursts", "1.100"),
            ("ratio sustained", "0.800"),
            ("cuBLAS, MHz in bursts", "1965"),
            ("MHz sustained", "1410"),
            ("W before a burst", "150"),
            ("W sustained", "698"),
            ("regemm, spread of bursts", "2.0 %"),
        ] {
            assert_eq!(cell(&table, 0, heading), expected, "{heading}");
        }
        let mut counted = record.clone();
        for case in &mut counted.cases {
            case.entries[0].sm_mhz = Some(1234.0);
        }
        assert_eq!(
            cell(&counted.burst_table(), 0, "MHz sustained"),
            "1234",
            "what is counted counts"
        );
        let mut without = record;
        for entry in without.cases.iter_mut().flat_map(|case| &mut case.entries) {
            entry.burst = None;
        }
        assert!(without.burst_table().rows.is_empty());
        assert!(!without.markdown().contains("bursts"));
    }

    #[test]
    fn turns_show_speed_clock_and_energy_of_each() {
        let record = synthetic::record();
        let table = record.turn_table();
        assert_eq!(table.rows.len(), 2);
        assert!(table.rows.iter().all(|row| row.len() == table.heading.len()));
        for (row, heading, expected) in [
            (0, "case", "4096"),
            (0, "regemm, TFLOP/s in turns", "68.72"),
            (0, "regemm, bias and GELU, TFLOP/s in turns", "-"),
            (0, "ratio in turns", "0.950"),
            (0, "ratio sustained (alternating)", "0.800"),
            (0, "cost of the epilogue in turns", "-"),
            (0, "cuBLAS, MHz in turns", "1500"),
            (0, "regemm, W in turns", "650"),
            (0, "cuBLASLt, W in turns", "690"),
            // 68.72 TFLOP/s at 650 W, and 72.34 at 700 W.
            (0, "regemm, GFLOP/J", "105.7"),
            (0, "cuBLAS, GFLOP/J", "103.3"),
            (0, "regemm, spread of turns", "3.0 %"),
            (1, "case", "4096, epilogue"),
            (1, "ratio in turns", "1.050"),
            (1, "ratio sustained (alternating)", "1.080"),
            (1, "cost of the epilogue in turns", "25.0 %"),
            (1, "cuBLASLt's", "50.0 %"),
        ] {
            assert_eq!(cell(&table, row, heading), expected, "{heading}");
        }
    }

    #[test]
    fn without_turns_nothing_is_said_of_them() {
        let mut record = synthetic::record();
        let speaks_of_costs = |table: Table| table.heading.iter().any(|h| h.contains("epilogue"));
        assert!(speaks_of_costs(record.turn_table()));
        record.cases.retain(|case| case.case.group == Group::Squares);
        assert!(!speaks_of_costs(record.turn_table()), "squares have none");
        for entry in record.cases.iter_mut().flat_map(|case| &mut case.entries) {
            entry.turn = None;
        }
        assert!(record.turn_table().rows.is_empty());
        assert!(!record.markdown().contains("turns"));
    }

    #[test]
    fn energy_is_not_told_without_power() {
        let mut record = synthetic::record();
        for turn in record.cases.iter_mut().flat_map(|case| &mut case.entries) {
            if let Some(turn) = &mut turn.turn {
                (turn.watts, turn.sm_mhz) = (None, None);
            }
        }
        let table = record.turn_table();
        for heading in ["regemm, GFLOP/J", "regemm, W in turns", "regemm, MHz in turns"] {
            assert_eq!(cell(&table, 0, heading), "-", "{heading}");
        }
        assert_eq!(cell(&table, 0, "ratio in turns"), "0.950");
    }
}
