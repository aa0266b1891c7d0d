//! A sweep as tables: mean and best by loop order, by block tile, by thread tile, by staging and without shared memory,
//! and the best of all.

use super::groups::{Group, matched_on};
use super::ranking::{merit, tflops};
use super::{Counts, Entry, Record};
use crate::table::{Table, count, or_dash, percent};

/// Configurations in a table of the best.
pub const TOP: usize = 10;

/// A property of a configuration, where it is known.
type Value = Box<dyn Fn(&Entry) -> Option<f64>>;

/// What a group needs: a heading, and the cell of a group.
type Need<'a> = (&'a str, &'a dyn Fn(&Group<'_>) -> String);

/// One column over the configurations of a group.
struct Column {
    size: usize,
    heading: String,
    value: Value,
    fold: Fold,
    show: fn(f64) -> String,
}

/// How the values of a group become one.
#[derive(Clone, Copy)]
enum Fold {
    Mean,
    Most,
    Least,
}

impl Column {
    fn cell(&self, group: &Group<'_>) -> String {
        let values: Vec<f64> =
            group.entries.iter().filter_map(|entry| (self.value)(entry)).collect();
        let folded = match self.fold {
            _ if values.is_empty() => None,
            Fold::Mean => Some(values.iter().sum::<f64>() / values.len() as f64),
            Fold::Most => values.iter().copied().reduce(f64::max),
            Fold::Least => values.iter().copied().reduce(f64::min),
        };
        or_dash(folded.map(self.show))
    }
}

impl Record {
    /// All tables of the record, in the order of a report: groups first, then the [`TOP`] of each size.
    pub fn tables(&self) -> Vec<Table> {
        let order = self.winning_order().unwrap_or_default();
        let staging = self.common_staging().unwrap_or_default();
        let within = format!("{order}, {staging}");
        let mut by_block = self.by_block_tile();
        let mut by_thread = self.by_thread_tile();
        self.sort(&mut by_block);
        self.sort(&mut by_thread);
        let threads = |group: &Group<'_>| group.range(|entry| Some(entry.threads));
        let registers = |group: &Group<'_>| group.range(|entry| entry.registers);
        let shared = |group: &Group<'_>| group.range(|entry| Some(entry.shared_bytes));
        let resident = |group: &Group<'_>| group.range(|entry| entry.resident_blocks);

        let by_order = |staging: &str| {
            let title = format!("By loop order ({staging}, tiles that all have)");
            self.of_matched_groups(&title, &self.by_order(staging), &[])
        };
        let mut tables: Vec<_> = self.stagings_of_orders().into_iter().map(by_order).collect();
        tables.extend([
            self.of_groups(
                &format!("By block tile ({within})"),
                &by_block,
                &[("shared bytes", &shared)],
            ),
            self.of_groups(
                &format!("By thread tile ({within})"),
                &by_thread,
                &[("threads", &threads), ("registers", &registers)],
            ),
            self.of_matched_groups(
                &format!("By staging ({order}, tiles that all have)"),
                &self.by_staging(),
                &[("shared bytes", &shared), ("resident blocks", &resident)],
            ),
            self.of_matched_groups(
                &format!("By shared memory ({order}, tiles that both have)"),
                &self.by_shared_memory(),
                &[("registers", &registers), ("resident blocks", &resident)],
            ),
        ]);
        tables.retain(|table| !table.rows.is_empty());
        tables.extend(self.measured_sizes().into_iter().map(|size| self.top(size, TOP)));
        tables
    }

    /// The best configurations on a size.
    pub fn top(&self, size: usize, most: usize) -> Table {
        let mut ranking = self.ranking(size);
        ranking.truncate(most);
        let title = format!("The best {} on {size}", ranking.len());
        if self.is_of_simulator() {
            counted_top(title, size, &ranking)
        } else {
            self.timed_top(title, size, &ranking)
        }
    }

    fn timed_top(&self, title: String, size: usize, ranking: &[&Entry]) -> Table {
        let heading = [
            "configuration",
            "TFLOP/s",
            "of peak",
            "time",
            "spread",
            "threads",
            "registers",
            "shared bytes",
            "resident blocks",
        ];
        let mut table = Table::new(title, heading);
        for entry in ranking {
            let Some(timing) = entry.timing(size) else { continue };
            let share = self.peak_tflops.map(|peak| percent(timing.tflops / peak));
            table.rows.push(vec![
                entry.config.to_string(),
                tflops(timing.tflops),
                or_dash(share),
                format!("{:.4} ms", timing.milliseconds),
                percent(timing.spread),
                entry.threads.to_string(),
                or_dash(entry.registers),
                count(entry.shared_bytes.into()),
                or_dash(entry.resident_blocks),
            ]);
        }
        table
    }

    /// What did not run, a line each: the configuration and the reason.
    pub fn cannot_run(&self) -> Vec<String> {
        let reason =
            |entry: &Entry| Some(format!("{}: {}", entry.config, entry.cannot_run.as_ref()?));
        self.results.iter().filter_map(reason).collect()
    }

    /// What gave a wrong result, a line each: the configuration and what was wrong.
    pub fn wrong(&self) -> Vec<String> {
        let reason = |entry: &Entry| Some(format!("{}: {}", entry.config, entry.wrong.as_ref()?));
        self.results.iter().filter_map(reason).collect()
    }

    /// Best group first, by its best configuration on the last size.
    fn sort(&self, groups: &mut [Group<'_>]) {
        let Some(size) = self.last_size() else { return };
        let best = |group: &Group<'_>| {
            let merits = group.entries.iter().filter_map(|entry| merit(entry, size));
            merits.fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |best, next| {
                if next > best { next } else { best }
            })
        };
        groups.sort_by(|a, b| {
            let (a, b) = (best(a), best(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
    }

    /// A row a group, whatever else its configurations are.
    fn of_groups(&self, title: &str, groups: &[Group<'_>], needs: &[Need<'_>]) -> Table {
        self.of_groups_on(title, groups, needs, |_| groups.to_vec())
    }

    /// A row a group; on each size only what all of them have there.
    fn of_matched_groups(&self, title: &str, groups: &[Group<'_>], needs: &[Need<'_>]) -> Table {
        self.of_groups_on(title, groups, needs, |size| matched_on(groups, size))
    }

    fn of_groups_on<'a>(
        &self,
        title: &str,
        groups: &[Group<'a>],
        needs: &[Need<'_>],
        on: impl Fn(usize) -> Vec<Group<'a>>,
    ) -> Table {
        let columns = self.columns();
        let name = title.split(" (").next().unwrap_or(title).trim_start_matches("By ");
        let mut heading = vec![name.to_owned(), "configurations".to_owned()];
        heading.extend(needs.iter().map(|(heading, _)| (*heading).to_owned()));
        heading.extend(columns.iter().map(|column| column.heading.clone()));
        let mut table = Table::new(self.with_unit(title), heading);
        let compared: Vec<Vec<Group<'_>>> = columns.iter().map(|column| on(column.size)).collect();
        for (index, group) in groups.iter().enumerate() {
            let mut row = vec![group.name.clone(), group.entries.len().to_string()];
            row.extend(needs.iter().map(|(_, cell)| cell(group)));
            let cells = columns.iter().zip(&compared);
            row.extend(cells.map(|(column, groups)| column.cell(&groups[index])));
            table.rows.push(row);
        }
        table
    }

    fn with_unit(&self, title: &str) -> String {
        if self.is_of_simulator() { title.to_owned() } else { format!("{title}, TFLOP/s") }
    }

    /// Mean and best for each size: speeds, or counts.
    fn columns(&self) -> Vec<Column> {
        let sizes = self.measured_sizes();
        if !self.is_of_simulator() {
            let column = |size: usize, name: &str, fold| Column {
                size,
                heading: format!("{name} {size}"),
                value: Box::new(move |entry| entry.timing(size).map(|timing| timing.tflops)),
                fold,
                show: tflops,
            };
            let pair = |size| [column(size, "mean", Fold::Mean), column(size, "best", Fold::Most)];
            return sizes.into_iter().flat_map(pair).collect();
        }
        let one_size = sizes.len() == 1;
        let column = |size: usize, name: &str, fold, of: fn(&Counts) -> u64| Column {
            size,
            heading: if one_size { name.to_owned() } else { format!("{name} {size}") },
            value: Box::new(move |entry| entry.counts(size).map(|counts| of(counts) as f64)),
            fold,
            show: |value| count(value.round() as u64),
        };
        let of_size = |size| {
            [
                column(size, "mean global bytes", Fold::Mean, |counts| counts.global_bytes),
                column(size, "least", Fold::Least, |counts| counts.global_bytes),
                column(size, "mean shared passes", Fold::Mean, |counts| counts.shared_wavefronts),
                column(size, "conflicts", Fold::Mean, |counts| counts.shared_conflicts),
                column(size, "barriers", Fold::Mean, |counts| counts.barriers),
            ]
        };
        sizes.into_iter().flat_map(of_size).collect()
    }
}

fn counted_top(title: String, size: usize, ranking: &[&Entry]) -> Table {
    let heading = [
        "configuration",
        "global bytes",
        "sectors",
        "shared passes",
        "conflicts",
        "barriers",
        "async copies",
        "threads",
        "shared bytes",
    ];
    let mut table = Table::new(title, heading);
    for entry in ranking {
        let Some(counts) = entry.counts(size) else { continue };
        let mut row = vec![entry.config.to_string()];
        let numbers = [
            counts.global_bytes,
            counts.global_sectors,
            counts.shared_wavefronts,
            counts.shared_conflicts,
            counts.barriers,
            counts.async_copies,
            entry.threads.into(),
            entry.shared_bytes.into(),
        ];
        row.extend(numbers.map(count));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{counted, entry, record, timed};
    use super::*;

    /// Two sizes, two loop orders, two stagings, two tiles of each kind.
    fn on_a_gpu() -> Record {
        let speeds = [
            ((64, 64, 32), (4, 4), "standard", "single", 1.0),
            ((64, 64, 32), (8, 8), "standard", "single", 3.0),
            ((64, 64, 32), (4, 4), "k_innermost", "single", 20.0),
            ((64, 64, 32), (8, 8), "k_innermost", "single", 30.0),
            ((128, 64, 8), (8, 8), "k_innermost", "single", 34.0),
            ((128, 64, 8), (8, 8), "k_innermost", "async2", 40.0),
        ];
        let measure = |(block, thread, order, staging, speed): (_, _, &str, &str, f64)| {
            let entry = entry(block, thread, order, staging);
            timed(timed(entry, 1024, speed / 2.0), 4096, speed)
        };
        record(speeds.map(measure).to_vec())
    }

    #[track_caller]
    fn find(tables: &[Table], title: &str) -> Table {
        let found = tables.iter().find(|table| table.title.starts_with(title));
        found.unwrap_or_else(|| panic!("no table {title} among {tables:?}")).clone()
    }

    fn row(table: &Table, index: usize) -> Vec<&str> {
        table.rows[index].iter().map(String::as_str).collect()
    }

    #[test]
    fn loop_orders_with_mean_and_best_of_each_size() {
        let table = find(&on_a_gpu().tables(), "By loop order");
        assert_eq!(
            table.heading,
            ["loop order", "configurations", "mean 1024", "best 1024", "mean 4096", "best 4096"]
        );
        assert_eq!(row(&table, 0), ["standard", "2", "1.00", "1.50", "2.00", "3.00"]);
        assert_eq!(row(&table, 1), ["k_innermost", "2", "12.5", "15.0", "25.0", "30.0"]);
    }

    #[test]
    fn what_was_cut_off_is_compared_over_the_tiles_that_all_have_on_a_size() {
        let mut record = on_a_gpu();
        // 64x64x32 with 8x8 a thread is missing on 4096 in one order, as after Ctrl-C.
        record.results[3].timings.retain(|timing| timing.size == 1024);
        let table = find(&record.tables(), "By loop order");
        assert_eq!(row(&table, 0), ["standard", "2", "1.00", "1.50", "1.00", "1.00"]);
        assert_eq!(row(&table, 1), ["k_innermost", "2", "12.5", "15.0", "20.0", "20.0"]);
        // Of an order that has nothing there is nothing to compare with.
        for entry in &mut record.results[..2] {
            entry.timings.retain(|timing| timing.size == 1024);
        }
        let table = find(&record.tables(), "By loop order");
        assert_eq!(row(&table, 0)[4..], ["-", "-"]);
        assert_eq!(row(&table, 1)[4..], ["20.0", "20.0"]);
    }

    #[test]
    fn tiles_come_best_first_with_what_they_need() {
        let tables = on_a_gpu().tables();
        let blocks = find(&tables, "By block tile (k_innermost, single)");
        assert_eq!(row(&blocks, 0)[..3], ["128x64x8", "1", "6,144"]);
        assert_eq!(row(&blocks, 1)[..3], ["64x64x32", "2", "16,384"]);
        let threads = find(&tables, "By thread tile");
        assert_eq!(threads.heading[2..4], ["threads", "registers"]);
        assert_eq!(row(&threads, 0)[..4], ["8x8", "2", "64-128", "96"]);
        assert_eq!(row(&threads, 1)[..4], ["4x4", "1", "256", "48"]);
        let stagings = find(&tables, "By staging");
        assert_eq!(row(&stagings, 1)[..4], ["async2", "1", "12,288", "2"]);
    }

    #[test]
    fn what_has_no_shared_memory_has_tables_of_its_own() {
        let mut record = on_a_gpu();
        for (order, speed) in [("standard", 0.5), ("k_innermost", 10.0)] {
            let entry = timed(entry((64, 64, 32), (8, 8), order, "direct"), 1024, speed / 2.0);
            record.results.push(timed(entry, 4096, speed));
        }
        let tables = record.tables();
        let orders = find(&tables, "By loop order (direct, tiles that all have)");
        assert_eq!(row(&orders, 1), ["k_innermost", "1", "5.00", "5.00", "10.0", "10.0"]);
        let orders = find(&tables, "By loop order (single, tiles that all have)");
        assert_eq!(row(&orders, 1)[..2], ["k_innermost", "2"]);
        let pair = find(&tables, "By shared memory (k_innermost, tiles that both have)");
        assert_eq!(row(&pair, 0)[..4], ["direct", "1", "96", "2"]);
        assert_eq!(row(&pair, 1)[6..], ["30.0", "30.0"]);
        let stagings = find(&tables, "By staging");
        assert_eq!(stagings.rows.len(), 2, "single and async2");
    }

    #[test]
    fn the_top_is_the_ranking_cut_off() {
        let table = on_a_gpu().top(4096, 2);
        assert_eq!(table.title, "The best 2 on 4096");
        assert_eq!(row(&table, 0)[..3], ["128x64x8 8x8 k_innermost async2", "40.0", "59.8 %"]);
        assert_eq!(row(&table, 1)[1], "34.0");
        let tops = on_a_gpu().tables();
        assert_eq!(find(&tops, "The best 6 on 1024").rows.len(), 6);
    }

    #[test]
    fn on_the_simulator_counts_and_no_speeds() {
        let record = record(vec![
            counted(entry((64, 64, 32), (8, 8), "standard", "single"), 64, 9_000),
            counted(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 64, 1_000),
            counted(entry((64, 64, 32), (4, 4), "k_innermost", "single"), 64, 2_000),
        ]);
        let tables = record.tables();
        let orders = find(&tables, "By loop order");
        assert_eq!(row(&orders, 0), ["standard", "1", "9,000", "9,000", "500", "7", "12"]);
        let threads = find(&tables, "By thread tile");
        assert_eq!(row(&threads, 0)[..5], ["8x8", "1", "64", "-", "1,000"]);
        let top = find(&tables, "The best 3 on 64");
        assert_eq!(row(&top, 0)[..2], ["64x64x32 8x8 k_innermost single", "1,000"]);
        for table in tables {
            assert!(!table.markdown().contains("TFLOP"), "{}", table.title);
        }
    }

    #[test]
    fn every_row_is_as_long_as_its_heading() {
        let mut mixed = on_a_gpu();
        mixed.results.push(entry((32, 32, 32), (2, 2), "k_innermost", "single"));
        for table in mixed.tables() {
            assert!(table.rows.iter().all(|row| row.len() == table.heading.len()), "{table:?}");
        }
    }

    #[test]
    fn what_did_not_run_is_listed_with_its_reason() {
        let mut record = on_a_gpu();
        record.results[0].cannot_run = Some("2048 threads, a block has at most 1024".into());
        record.results[1].wrong = Some("4 elements".into());
        assert_eq!(
            record.cannot_run(),
            ["64x64x32 4x4 standard single: 2048 threads, a block has at most 1024"]
        );
        assert_eq!(record.wrong(), ["64x64x32 8x8 standard single: 4 elements"]);
    }

    #[test]
    fn an_empty_record_has_no_tables() {
        assert_eq!(record(Vec::new()).tables(), []);
    }
}
