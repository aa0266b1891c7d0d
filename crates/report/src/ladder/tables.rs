//! The ladder as tables, and as a page of Markdown.

use super::{Entry, Record, Round, VENDOR};
use crate::table::{Table, or_dash, percent};
use std::fmt::Write;

impl Record {
    /// Speeds, their ratios to the vendor's library and to the peak, how much the samples scatter, and errors: a row a
    /// contender, a column a size. What was not measured has no table.
    pub fn tables(&self) -> Vec<Table> {
        self.tables_with("Share of the peak without tensor cores", |entry, _| {
            Some(entry.tflops / self.peak?)
        })
    }

    /// The same with shares of another peak.
    pub(super) fn tables_with(
        &self,
        of_peak: &str,
        share: impl Fn(&Entry, &Round) -> Option<f64>,
    ) -> Vec<Table> {
        let mut tables =
            vec![self.table("TFLOP/s", |entry, _| Some(format!("{:.2}", entry.tflops)))];
        if self.rounds.iter().any(|round| round.vendor_tflops().is_some()) {
            tables.push(self.table(&format!("Ratio to {VENDOR}"), |entry, round| {
                Some(format!("{:.3}", entry.tflops / round.vendor_tflops()?))
            }));
        }
        if self.rounds.iter().any(|round| round.processor_tflops().is_some()) {
            tables.push(self.table("Ratio to the processor", |entry, round| {
                Some(format!("{:.3}", entry.tflops / round.processor_tflops()?))
            }));
        }
        let has_share =
            |round: &Round| round.entries.iter().any(|entry| share(entry, round).is_some());
        if self.rounds.iter().any(has_share) {
            tables.push(self.table(of_peak, |entry, round| share(entry, round).map(percent)));
        }
        tables.push(self.table("Spread of the samples (quartiles / median)", |entry, _| {
            Some(percent(entry.spread))
        }));
        tables.push(self.table("Relative error in norm", |entry, _| {
            Some(format!("{:.1e}", entry.relative_error))
        }));
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn table(&self, title: &str, cell: impl Fn(&Entry, &Round) -> Option<String>) -> Table {
        let sizes = self.rounds.iter().map(Round::label);
        let mut table = Table::new(title, std::iter::once(String::new()).chain(sizes));
        for name in self.contenders() {
            let cells = self.rounds.iter().map(|round| {
                let entry = round.entries.iter().find(|entry| entry.name == name);
                or_dash(entry.and_then(|entry| cell(entry, round)))
            });
            table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
        table
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
        writeln!(
            text,
            "# The ladder in {}: {}, {}\n",
            self.dtype, provenance.device, provenance.date
        )?;
        writeln!(
            text,
            "- commit {}, driver {}, {}",
            or_unknown(&provenance.commit),
            or_unknown(&provenance.driver),
            or_unknown(&provenance.clocks)
        )?;
        if let Some(peak) = self.peak {
            let multiprocessors = provenance.multiprocessors;
            writeln!(
                text,
                "- peak {peak:.1} TFLOP/s without tensor cores ({multiprocessors} multiprocessors)"
            )?;
        }
        for vendor in self.vendor() {
            writeln!(text, "- {vendor}")?;
        }
        writeln!(
            text,
            "- `cargo bench --bench ladder`: median of alternating samples between events, random normal data in more \
             memory than the L2 holds, every result verified first"
        )?;
        if let Some(line) = self.settings.line("ladder") {
            writeln!(text, "{line}")?;
        }
        self.tables().iter().try_for_each(|table| write!(text, "\n{}", table.markdown()))
    }

    /// Which vendor's library was measured, or why none was; with the sizes where that is not the same for all.
    pub fn vendor(&self) -> Vec<String> {
        let words = |round: &Round| match (&round.vendor, &round.without_vendor) {
            (Some(vendor), _) => vendor.clone(),
            (None, why) => format!("no vendor library: {}", why.as_deref().unwrap_or("unknown")),
        };
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for round in &self.rounds {
            let (words, size) = (words(round), round.label());
            match found.iter_mut().find(|(known, _)| *known == words) {
                Some((_, sizes)) => sizes.push(size),
                None => found.push((words, vec![size])),
            }
        }
        let is_one = found.len() == 1;
        let line = |(words, sizes): (String, Vec<String>)| match is_one {
            true => words,
            false => format!("{words} (at {})", sizes.join(", ")),
        };
        found.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Record;
    use super::super::synthetic::record;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_page_tells_how_to_make_the_record_again() {
        let page = record().markdown();
        let line = "- made by `cargo bench --bench ladder -- --sizes 1024,4096`, seed 7\n";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn tables_have_a_row_a_contender_and_a_column_a_size() {
        let tables = record().tables();
        let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "TFLOP/s",
                "Ratio to cuBLASLt",
                "Share of the peak without tensor cores",
                "Spread of the samples (quartiles / median)",
                "Relative error in norm"
            ]
        );
        assert_eq!(tables[0].heading, ["", "1024", "4096"]);
        assert_eq!(tables[0].rows[0], ["naive_f32", "5.00", "6.00"]);
        assert_eq!(tables[1].rows[1], ["tiled16_f32", "0.250", "0.200"]);
        assert_eq!(tables[2].rows[2], ["cuBLASLt", "66.7 %", "83.3 %"]);
        assert_eq!(tables[3].rows[0], ["naive_f32", "2.0 %", "2.0 %"]);
        assert_eq!(tables[4].rows[0], ["naive_f32", "3.0e-7", "3.0e-7"]);
    }

    #[test]
    fn a_record_without_vendor_and_peak_has_fewer_tables() {
        let mut record = record();
        record.peak = None;
        for round in &mut record.rounds {
            round.entries.retain(|entry| !entry.is_vendor());
            (round.vendor, round.without_vendor) = (None, Some("libcublasLt is missing".into()));
        }
        assert_eq!(record.tables().len(), 3);
        assert!(record.markdown().contains("- no vendor library: libcublasLt is missing\n"));
    }

    #[test]
    fn pages_of_the_repository_are_made_from_their_records() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measurements");
        let mut pages = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if !name.contains("-ladder-") || !name.ends_with(".json") {
                continue;
            }
            pages += 1;
            let record = fs::read_to_string(&path).unwrap();
            let record: Record = serde_json::from_str(&record).unwrap();
            let page = fs::read_to_string(path.with_extension("md")).unwrap();
            for (made, kept) in record.markdown().lines().zip(page.lines()) {
                assert_eq!(made, kept, "{name}");
            }
            assert_eq!(record.markdown().len(), page.len(), "{name}");
        }
        assert!(pages > 2, "{pages}");
    }

    #[test]
    fn what_the_vendor_has_is_told_of_every_size() {
        let mut record = record();
        record.rounds[0].vendor = None;
        record.rounds[0].without_vendor = Some("no algorithm".into());
        assert_eq!(
            record.vendor(),
            [
                "no vendor library: no algorithm (at 1024)",
                "cuBLASLt 13.1, best of 7 algorithms (at 4096)"
            ]
        );
        let page = record.markdown();
        assert!(page.contains("\n- cuBLASLt 13.1, best of 7 algorithms (at 4096)\n"), "{page}");
    }

    #[test]
    fn a_page_says_where_and_with_what() {
        let page = record().markdown();
        for part in [
            "# The ladder in f32: NVIDIA Imaginary, 2026-01-31\n",
            "- commit abc1234, driver 580.1, unknown\n",
            "- peak 60.0 TFLOP/s without tensor cores (10 multiprocessors)\n",
            "- cuBLASLt 13.1, best of 7 algorithms\n",
            "\n## TFLOP/s\n\n|  | 1024 | 4096 |\n|---|---:|---:|\n| naive_f32 | 5.00 | 6.00 |\n",
        ] {
            assert!(page.contains(part), "`{part}` is missing in:\n{page}");
        }
    }
}
