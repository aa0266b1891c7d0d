//! What several records come to, side by side.

use super::tables::ratio;
use super::{Group, GroupSummary, Measured, Record, SQUARES_THAT_COUNT};
use crate::table::{Table, or_dash};

/// The groups of all records, a row each, and a column for each record: the geometric mean, and where the smallest ratio is. Groups that no record has are
/// left out.
pub fn side_by_side(records: &[Record]) -> Table {
    let heading = ["ratio to the vendor's best"].into_iter().map(str::to_owned);
    let heading = heading.chain(records.iter().map(|record| record.dtype.clone()));
    let mut table = Table::new("Ratio to the vendor's best: mean (smallest)", heading);
    let mut add = |name: String, of: &dyn Fn(&Record) -> Option<String>| {
        let cells: Vec<_> = records.iter().map(of).collect();
        if cells.iter().any(Option::is_some) {
            table.rows.push([name].into_iter().chain(cells.into_iter().map(or_dash)).collect());
        }
    };
    for group in Group::ALL {
        let (first, last) = SQUARES_THAT_COUNT.into_inner();
        let name = match group {
            Group::Squares => format!("squares, {first} to {last}"),
            group => group.to_string(),
        };
        add(name, &|record| {
            let summaries = record.summaries();
            summaries.iter().find(|summary| summary.group == group).map(in_a_cell)
        });
    }
    let regime =
        |summary: Option<[GroupSummary<'_>; 2]>| summary.as_ref().map(|[of, _]| in_a_cell(of));
    add("large squares, in short bursts".into(), &|record| regime(record.burst_summary()));
    add("large squares, in long turns".into(), &|record| regime(record.turn_summary()));
    add("cases that are at least as fast".into(), &|record| {
        let ratios: Vec<f64> = record.cases.iter().filter_map(Measured::ratio).collect();
        let fast = ratios.iter().filter(|&&ratio| ratio >= 1.0).count();
        (!ratios.is_empty()).then(|| format!("{fast} of {}", ratios.len()))
    });
    table
}

fn in_a_cell(summary: &GroupSummary<'_>) -> String {
    let (smallest, case) = summary.smallest;
    format!("{} ({} at {})", ratio(summary.mean), ratio(smallest), case.label())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versus::synthetic;

    #[test]
    fn every_record_has_a_column_and_every_group_of_any_a_row() {
        let all = synthetic::record();
        let mut squares = all.clone();
        squares.dtype = "f64".into();
        squares.cases.retain(|measured| measured.case.group == Group::Squares);
        let table = side_by_side(&[all, squares]);
        assert_eq!(table.heading, ["ratio to the vendor's best", "f32", "f64"]);
        let expected = [
            ["squares, 512 to 8192", "1.000 (0.800 at 4096)", "1.000 (0.800 at 4096)"],
            ["odd", "1.100 (1.100 at 1023)", "-"],
            ["rectangles", "0.900 (0.900 at 1 x 8192 x 8192)", "-"],
            ["layouts", "0.693 (0.400 at 4096 NT)", "-"],
            ["epilogue", "1.080 (1.080 at 4096)", "-"],
            ["large squares, in short bursts", "1.100 (1.100 at 4096)", "1.100 (1.100 at 4096)"],
            ["large squares, in long turns", "0.950 (0.950 at 4096)", "0.950 (0.950 at 4096)"],
            ["cases that are at least as fast", "4 of 8", "1 of 3"],
        ];
        assert_eq!(table.rows, expected);
    }
}
