//! An error study as tables, and as a page of Markdown.

use super::{Data, Measure, Record};
use crate::table::{Table, or_dash};
use std::fmt::Write;

/// What a cell of the tables holds.
pub const CELLS: &str = "Cells: error in norm || D - A B || / || A B ||, then the largest componentwise error | D - A B | / (| A | | B |), \
                         against double precision.";

impl Record {
    /// A table a kind of data: a row a depth, a column a mode, both errors in a cell.
    pub fn tables(&self) -> Vec<Table> {
        let modes = self.modes();
        let of_data = |data: &Data| {
            let title = format!("{}: {}", data.name, data.description);
            let mut table = Table::new(title, std::iter::once("K").chain(modes.iter().copied()));
            for k in self.depths(&data.name) {
                let cell = |mode: &&str| {
                    let point = self.point(&data.name, mode, k);
                    or_dash(point.map(|point| {
                        Measure::ALL.map(|measure| format!("{:.2e}", measure.of(point))).join("  ")
                    }))
                };
                table
                    .rows
                    .push(std::iter::once(k.to_string()).chain(modes.iter().map(cell)).collect());
            }
            table
        };
        self.data.iter().map(of_data).filter(|table| !table.rows.is_empty()).collect()
    }

    /// What was computed, in a line.
    pub fn subject(&self) -> String {
        let Record { rows, cols, seed, dtype, .. } = self;
        format!("{rows} x {cols} x K in {dtype}, seed {seed}")
    }

    /// What a reader should know beside the numbers: the vendor's libraries, and what was left out or wrong.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.libraries.clone();
        remarks.extend(
            self.missing.iter().map(|missing| format!("without {}: {}", missing.mode, missing.why)),
        );
        remarks.extend(self.wrong.iter().map(|wrong| format!("WRONG: {wrong}")));
        let ended = |why| format!("ended before all was measured: {why}");
        remarks.extend(self.stopped.iter().map(ended));
        remarks
    }

    /// Where and how it was measured, and the tables.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, text: &mut String) -> std::fmt::Result {
        let provenance = &self.provenance;
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        writeln!(text, "# Errors by precision: {}, {}\n", provenance.device, provenance.date)?;
        write!(text, "- commit {}", or_unknown(&provenance.commit))?;
        if let Some(driver) = &provenance.driver {
            write!(text, ", driver {driver}")?;
        }
        writeln!(text, "\n- {}", self.subject())?;
        for remark in self.remarks() {
            writeln!(text, "- {remark}")?;
        }
        writeln!(text, "\n{CELLS}")?;
        self.tables().iter().try_for_each(|table| write!(text, "\n{}", table.markdown()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::record;

    #[test]
    fn tables_have_a_row_a_depth_and_a_column_a_mode() {
        let mut record = record();
        record.points.retain(|point| !(point.mode == "split" && point.k == 4096));
        let tables = record.tables();
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].title, "normal: mean 0, variance 1");
        assert_eq!(tables[0].heading, ["K", "exact", "split", "cuBLAS f32", "cuBLAS TF32"]);
        assert_eq!(tables[0].rows[0][..3], ["64", "2.00e-7  5.00e-8", "1.00e-7  2.50e-8"]);
        assert_eq!(tables[0].rows[1][..3], ["4096", "1.28e-5  5.00e-8", "-"]);
    }

    #[test]
    fn a_page_says_where_with_what_and_what_is_missing() {
        let mut record = record();
        record.leave_out("other", "needs another GPU");
        record.wrong.push("exact at 64".into());
        let page = record.markdown();
        for part in [
            "# Errors by precision: NVIDIA Imaginary, 2026-01-31\n",
            "- commit abc1234, driver 580.1\n",
            "- 128 x 96 x K in f32, seed 1\n- cuBLAS 13.1\n- without other: needs another GPU\n- WRONG: exact at 64\n",
            "\n## wide: of many magnitudes\n\n| K | exact | split |",
        ] {
            assert!(page.contains(part), "`{part}` is missing in:\n{page}");
        }
    }
}
