//! A record as tables.

use super::{Entry, Group, GroupSummary, Measured, REGEMM, Record, SQUARES_THAT_COUNT};
use crate::table::{Table, or_dash, percent};

impl Record {
    /// What the cases come to, a row a group.
    pub fn summary_table(&self) -> Table {
        let heading = ["group", "cases", "geometric mean", "smallest", "where", "below 1.00"];
        let mut table = Table::new("Ratio to the vendor's best", heading);
        let mut add = |name: String, summary: &GroupSummary<'_>| {
            let (smallest, case) = summary.smallest;
            table.rows.push(vec![
                name,
                summary.count.to_string(),
                ratio(summary.mean),
                ratio(smallest),
                case.label(),
                summary.below_one.to_string(),
            ]);
        };
        for summary in self.summaries() {
            let name = match summary.group {
                Group::Squares => {
                    let (first, last) = SQUARES_THAT_COUNT.into_inner();
                    format!("squares {first} to {last}")
                }
                group => group.to_string(),
            };
            add(name, &summary);
        }
        let mut shown = None;
        for (name, summary) in [
            ("large squares, in short bursts", self.burst_summary()),
            ("large squares, in long turns", self.turn_summary()),
        ] {
            let Some([of_regime, sustained]) = summary else { continue };
            add(name.to_owned(), &of_regime);
            // Nearly always the same squares as those above.
            if shown.as_ref() != Some(&sustained) {
                add("the same squares, sustained".to_owned(), &sustained);
                shown = Some(sustained);
            }
        }
        table
    }

    /// The cases of a group, a row each; `None` where there are none.
    pub fn group_table(&self, group: Group) -> Option<Table> {
        let cases: Vec<&Measured> =
            self.cases.iter().filter(|measured| measured.case.group == group).collect();
        let names = names(&cases);
        let of_any =
            |measured: &&Measured| measured.conditions.is_some() || measured.sm_mhz().is_some();
        let has_conditions = cases.iter().any(of_any);
        let memory_bound = cases.iter().any(|measured| measured.memory_bound);
        let plain_layouts =
            cases.iter().any(|measured| self.relative_to_plain_layout(measured).is_some());
        let is_layouts = group == Group::Layouts && plain_layouts;

        let mut heading: Vec<String> =
            ["m x n x k", "layouts", "chosen kernel"].map(str::to_owned).into();
        heading.extend(names.iter().map(|name| format!("{name}, TFLOP/s")));
        if group == Group::Epilogue {
            let costs = ["cost of the epilogue", "cuBLASLt's", "ratio with epilogue"];
            heading.extend(costs.map(str::to_owned));
        } else {
            heading.push("ratio to the vendor's best".into());
        }
        if is_layouts {
            heading.push("relative to NN".into());
        }
        if memory_bound {
            heading.extend(["TB/s", "vendor's best, TB/s"].map(str::to_owned));
        }
        heading.push("us".into());
        heading.extend(names.iter().map(|name| format!("{name}, spread")));
        if has_conditions {
            heading.extend(["SM MHz", "W"].map(str::to_owned));
        }

        let mut table = Table::new(title(group), heading);
        for measured in &cases {
            // What is compared: with the epilogue where that is what the case is about.
            let ours = measured.ours();
            let of_each = |cell: fn(&Entry) -> String| {
                names.iter().map(move |name| or_dash(measured.entry(name).map(cell)))
            };
            let mut row = vec![
                measured.case.shape(),
                measured.case.layouts.to_string(),
                or_dash(ours.and_then(|entry| entry.kernel.as_ref())),
            ];
            row.extend(of_each(|entry| speed(entry.tflops)));
            if group == Group::Epilogue {
                row.extend(measured.epilogue_costs().map(|cost| or_dash(cost.map(percent))));
            }
            row.push(or_dash(measured.ratio().map(ratio)));
            if is_layouts {
                row.push(or_dash(self.relative_to_plain_layout(measured).map(ratio)));
            }
            if memory_bound {
                for entry in [ours, measured.best_of_vendor()] {
                    let entry = entry.filter(|_| measured.memory_bound);
                    let bandwidth = entry.map(|entry| measured.bandwidth_of(entry));
                    row.push(or_dash(bandwidth.map(|value| format!("{value:.2}"))));
                }
            }
            row.push(or_dash(ours.map(|entry| format!("{:.1}", entry.microseconds))));
            row.extend(of_each(|entry| percent(entry.spread)));
            if has_conditions {
                row.push(whole(measured.sm_mhz()));
                row.push(whole(measured.conditions.and_then(|conditions| conditions.watts)));
            }
            table.rows.push(row);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// The relative error in norm of every contender on every case, and this library's relative to that of the vendor's
    /// faster one.
    pub fn error_table(&self) -> Table {
        let cases: Vec<&Measured> =
            self.cases.iter().filter(|measured| !measured.entries.is_empty()).collect();
        let names = names(&cases);
        let ends = |first, last| {
            std::iter::once(first).chain(names.iter().copied()).chain(std::iter::once(last))
        };
        let heading = ends("case", "ratio to the vendor's");
        let mut table = Table::new("Relative error in norm", heading);
        for measured in cases {
            let mut row = vec![measured.case.label()];
            row.extend(names.iter().map(|name| {
                let entry = measured.entry(name);
                or_dash(entry.map(|entry| format!("{:.2e}", entry.relative_error)))
            }));
            row.push(or_dash(measured.error_ratio().map(ratio)));
            table.rows.push(row);
        }
        table
    }

    /// What calls cost the host, and the way to a first result, as far as they were measured.
    pub fn host_tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if let Some(host) = &self.host {
            let title = format!(
                "Host cost of a call (size {}, {} calls), microseconds",
                host.size, host.calls
            );
            let mut table = Table::new(title, ["call", "median", "95 % within"]);
            for entry in &host.entries {
                let time = |value: f64| format!("{value:.2}");
                table.rows.push(vec![entry.name.clone(), time(entry.median), time(entry.p95)]);
            }
            tables.push(table);
        }
        if !self.first_results.is_empty() {
            let heading =
                ["kernel compiled before", "kernel", "open", "first use", "product", "in all"];
            let title = "A fresh process to its first result, milliseconds";
            let mut table = Table::new(title, heading);
            for first in &self.first_results {
                let time = |value: f64| format!("{value:.1}");
                let cached = if first.cached { "yes" } else { "no" };
                table.rows.push(vec![
                    cached.to_owned(),
                    format!("{} at {}", first.kernel, first.size),
                    time(first.open),
                    time(first.first_use),
                    time(first.product),
                    time(first.total()),
                ]);
            }
            tables.push(table);
        }
        tables
    }

    /// All tables.
    pub fn tables(&self) -> Vec<Table> {
        let groups = Group::ALL.into_iter().filter_map(|group| self.group_table(group));
        let first = [self.summary_table(), self.burst_table(), self.turn_table()];
        let mut tables: Vec<Table> = first.into_iter().chain(groups).collect();
        tables.extend(self.host_tables());
        tables.push(self.error_table());
        tables.retain(|table| !table.rows.is_empty());
        tables
    }
}

/// The contenders of some cases, those that do not compute them too. The library itself comes first, whether or not it
/// has all cases.
pub(super) fn names<'a>(cases: &[&'a Measured]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for measured in cases {
        let unsupported = measured.unsupported.iter().map(|missing| missing.name.as_str());
        for name in measured.entries.iter().map(|entry| entry.name.as_str()).chain(unsupported) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.sort_by_key(|name| *name != REGEMM);
    names
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Squares => "Squares",
        Group::Between => "Squares between",
        Group::Odd => "Squares off by one",
        Group::Rectangles => "Rectangles",
        Group::Layers => "Layers of a transformer",
        Group::Tokens => "Layers with any number of tokens",
        Group::Layouts => "Layouts",
        Group::Batched => "Batched",
        Group::Addend => "With C added",
        Group::Epilogue => "Epilogue",
    }
}

pub(super) fn ratio(value: f64) -> String {
    format!("{value:.3}")
}

/// Clocks and power.
pub(super) fn whole(value: Option<f64>) -> String {
    or_dash(value.map(|value| format!("{value:.0}")))
}

/// Three digits for small values and two decimals for large ones.
pub(super) fn speed(tflops: f64) -> String {
    if tflops < 1.0 { format!("{tflops:.3}") } else { format!("{tflops:.2}") }
}

#[cfg(test)]
mod tests {
    use super::super::{CUBLAS, CUBLAS_LT, LT_WITH_EPILOGUE, WITH_EPILOGUE, synthetic};
    use super::*;

    #[test]
    fn a_group_has_a_row_a_case() {
        let record = synthetic::record();
        let table = record.group_table(Group::Squares).unwrap();
        assert_eq!(
            table.heading,
            [
                "m x n x k",
                "layouts",
                "chosen kernel",
                "regemm, TFLOP/s",
                "cuBLASLt, TFLOP/s",
                "cuBLAS, TFLOP/s",
                "ratio to the vendor's best",
                "us",
                "regemm, spread",
                "cuBLASLt, spread",
                "cuBLAS, spread",
                "SM MHz",
                "W"
            ]
        );
        assert_eq!(table.rows[0][11..], ["-", "-"], "not read");
        assert_eq!(table.rows[2][11..], ["1410", "698"]);
        assert_eq!(table.rows.len(), 3);
        assert_eq!(table.rows[2][..4], ["4096", "NN", "tiled16_f32", "54.98"]);
        assert_eq!(table.rows[2][6..9], ["0.800", "2500.0", "1.0 %"]);
    }

    #[test]
    fn errors_stand_beside_the_vendors() {
        let table = synthetic::record().error_table();
        assert_eq!(
            table.heading,
            [
                "case",
                REGEMM,
                CUBLAS_LT,
                CUBLAS,
                WITH_EPILOGUE,
                LT_WITH_EPILOGUE,
                "ratio to the vendor's"
            ]
        );
        assert_eq!(table.rows[0], ["256", "3.00e-7", "2.50e-7", "2.50e-7", "-", "-", "1.200"]);
    }

    #[test]
    fn a_case_that_the_library_lacks_has_dashes() {
        let record = synthetic::record();
        let table = record.group_table(Group::Batched).unwrap();
        assert_eq!(table.heading[3], "regemm, TFLOP/s");
        assert_eq!(table.rows[0][..4], ["64 of 256", "NN", "-", "-"]);
    }

    #[test]
    fn a_memory_bound_group_shows_bandwidth() {
        let table = synthetic::record().group_table(Group::Rectangles).unwrap();
        let column = table.heading.iter().position(|heading| heading == "TB/s").unwrap();
        // 8192 * 8192 + 2 * 8192 elements of 4 bytes in 70 and 63 microseconds.
        assert_eq!(table.rows[0][column..column + 2], ["3.84", "4.26"]);
    }

    /// The library may choose another kernel for a product with an epilogue; its bandwidth stands beside the vendor's.
    #[test]
    fn kernel_and_bandwidth_are_of_what_is_compared() {
        let mut record = synthetic::record();
        let epilogue = record.cases.iter_mut().find(|case| case.case.group == Group::Epilogue);
        let epilogue = epilogue.unwrap();
        epilogue.memory_bound = true;
        epilogue.entries[1].kernel = Some("naive_f32".into());
        let table = record.group_table(Group::Epilogue).unwrap();
        let column = table.heading.iter().position(|heading| heading == "TB/s").unwrap();
        assert_eq!(table.rows[0][2], "naive_f32");
        // 3 * 4096 * 4096 elements of 4 bytes in 2525 and 2727 microseconds.
        assert_eq!(table.rows[0][column..column + 2], ["0.08", "0.07"]);
    }

    #[test]
    fn the_epilogue_has_a_cost_and_layouts_are_relative_to_the_plain_one() {
        let record = synthetic::record();
        let epilogue = record.group_table(Group::Epilogue).unwrap();
        let cost = epilogue.heading.iter().position(|h| h == "cost of the epilogue").unwrap();
        assert_eq!(epilogue.heading[cost + 1..cost + 3], ["cuBLASLt's", "ratio with epilogue"]);
        // 2500 and 2525 microseconds beside 2600 and 2727, of which the second ones are compared.
        assert_eq!(epilogue.rows[0][cost..cost + 3], ["1.0 %", "4.9 %", "1.080"]);
        assert!(epilogue.heading.contains(&format!("{WITH_EPILOGUE}, TFLOP/s")));
        let us = epilogue.heading.iter().position(|heading| heading == "us").unwrap();
        assert_eq!(epilogue.rows[0][us], "2525.0", "of what the ratio is of");
        let layouts = record.group_table(Group::Layouts).unwrap();
        let relative = layouts.heading.iter().position(|h| h == "relative to NN").unwrap();
        assert_eq!([&layouts.rows[0][relative], &layouts.rows[1][relative]], ["0.500", "-"]);
    }
}
