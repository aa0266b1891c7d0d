//! What several records come to, side by side.

use super::tables::ratio;
use super::{
    Case, Group, GroupSummary, Measured, REGEMM, Record, SQUARES_THAT_COUNT, WITH_EPILOGUE,
};
use crate::table::{Table, or_dash};

/// The groups of all records, a row each, and a column for each record: the geometric mean, and where the smallest
/// ratio is. Groups that no record has are left out.
pub fn side_by_side(records: &[Record]) -> Table {
    let heading = ["ratio to the vendor's best"].into_iter().map(str::to_owned);
    let heading = heading.chain(headings(records));
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

/// Every case of all records in tables by group, a row each: this library's speed and its ratio to the vendor's best.
/// Of squares those in short bursts and in long turns as well.
pub fn cases_side_by_side(records: &[Record]) -> Vec<Table> {
    let sustained = Group::ALL.map(|group| (group.to_string(), group, Regime::Sustained));
    let others =
        [("squares in short bursts", Regime::Bursts), ("squares in long turns", Regime::Turns)];
    let others = others.map(|(title, regime)| (title.to_owned(), Group::Squares, regime));
    let tables = sustained.into_iter().chain(others);
    let tables = tables.map(|(title, group, regime)| table_of(records, &title, group, regime));
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// The element types of records, and of those that have the same as much besides as tells them apart: the device, the
/// day and the commit, or else their number.
fn headings(records: &[Record]) -> Vec<String> {
    let details: [fn(&Record) -> String; 3] = [
        |record| record.provenance.device.clone(),
        |record| record.provenance.date.clone(),
        |record| record.provenance.commit.clone().unwrap_or_else(|| "no commit".to_owned()),
    ];
    let mut headings: Vec<String> = records.iter().map(|record| record.dtype.clone()).collect();
    for detail in details {
        let pairs = headings.iter().cloned().zip(records.iter().map(detail));
        let pairs: Vec<(String, String)> = pairs.collect();
        for (heading, (same, own)) in headings.iter_mut().zip(&pairs) {
            if pairs.iter().any(|(heading, other)| heading == same && other != own) {
                *heading += &format!(", {own}");
            }
        }
    }
    let alike = headings.clone();
    for (index, heading) in headings.iter_mut().enumerate() {
        if alike.iter().filter(|other| **other == alike[index]).count() > 1 {
            let number = alike[..=index].iter().filter(|other| **other == alike[index]).count();
            *heading += &format!(" ({number})");
        }
    }
    headings
}

/// How the contenders of a case took turns.
#[derive(Clone, Copy)]
enum Regime {
    Sustained,
    Bursts,
    Turns,
}

fn table_of(records: &[Record], title: &str, group: Group, regime: Regime) -> Table {
    let heading = ["m x n x k".to_owned()].into_iter().chain(headings(records));
    let mut table = Table::new(capitalised(title), heading);
    let mut cases: Vec<&Case> = Vec::new();
    for record in records {
        let of_group = record.cases.iter().filter(|measured| measured.case.group == group);
        for case in of_group.map(|measured| &measured.case) {
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases.sort_by_key(|case| (case.m * case.n * case.k * case.batch, case.label()));
    for case in cases {
        let cells: Vec<Option<String>> =
            records.iter().map(|record| cell(record, case, regime)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(or_dash);
            table.rows.push([case.label()].into_iter().chain(cells).collect());
        }
    }
    table
}

/// Speed and ratio of a case.
fn cell(record: &Record, case: &Case, regime: Regime) -> Option<String> {
    let measured = record.cases.iter().find(|measured| measured.case == *case)?;
    let ours = if case.group == Group::Epilogue { WITH_EPILOGUE } else { REGEMM };
    let entry = measured.entry(ours)?;
    let (tflops, value) = match regime {
        Regime::Sustained => (entry.tflops, measured.ratio()?),
        Regime::Bursts => (entry.burst.as_ref()?.tflops, measured.burst_ratio()?),
        Regime::Turns => (entry.turn.as_ref()?.tflops, measured.turn_ratio()?),
    };
    Some(format!("{} ({})", ratio(value), speed(tflops)))
}

/// Three digits of TFLOP/s.
fn speed(tflops: f64) -> String {
    let digits = if tflops < 10.0 { 2 } else { usize::from(tflops < 100.0) };
    format!("{tflops:.digits$}")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
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

    #[test]
    fn columns_of_one_type_are_told_apart() {
        let f64 = Record { dtype: "f64".into(), ..synthetic::record() };
        let mut other = synthetic::record();
        other.provenance.device = "NVIDIA Other".into();
        let mut later = other.clone();
        later.provenance.date = "2026-02-01".into();
        let records = [synthetic::record(), f64, other.clone(), later, other];
        let expected = [
            "f32, NVIDIA Imaginary",
            "f64",
            "f32, NVIDIA Other, 2026-01-31 (1)",
            "f32, NVIDIA Other, 2026-02-01",
            "f32, NVIDIA Other, 2026-01-31 (2)",
        ];
        assert_eq!(side_by_side(&records).heading[1..], expected);
        assert_eq!(cases_side_by_side(&records)[0].heading[1..], expected);
    }

    #[test]
    fn every_case_has_a_row_with_speed_and_ratio() {
        let mut other = synthetic::record();
        other.cases.retain(|measured| measured.case.m == 4096);
        let tables = cases_side_by_side(&[synthetic::record(), other]);
        let titles: Vec<_> = tables.iter().map(|table| table.title.as_str()).collect();
        let groups = ["Squares", "Odd", "Rectangles", "Layouts", "Epilogue"];
        let regimes = ["Squares in short bursts", "Squares in long turns"];
        assert_eq!(titles, [&groups[..], &regimes[..]].concat());
        assert_eq!(
            tables[0].rows,
            [
                ["256", "0.800 (1.68)", "-"],
                ["512", "1.250 (16.8)", "-"],
                ["4096", "0.800 (55.0)", "0.800 (55.0)"],
            ]
        );
        assert_eq!(tables[3].rows[0][0], "1024 TT");
        assert_eq!(tables[4].rows, [["4096", "1.080 (54.4)", "1.080 (54.4)"]]);
        assert_eq!(tables[5].rows, [["4096", "1.100 (68.7)", "1.100 (68.7)"]]);
        assert_eq!(tables[6].rows, [["4096", "0.950 (68.7)", "0.950 (68.7)"]]);
    }
}
