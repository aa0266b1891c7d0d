//! A record as a page of Markdown.

use super::{CLOSE, REGEMM, Record, Unsupported};
use crate::table::percent;
use std::fmt::Write;

impl Record {
    /// Where and how it was measured, what is missing, and the tables.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, text: &mut String) -> std::fmt::Result {
        let provenance = &self.provenance;
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        let (dtype, device) = (&self.dtype, &provenance.device);
        writeln!(
            text,
            "# {REGEMM} and the vendor's library in {dtype}: {device}, {}\n",
            provenance.date
        )?;
        writeln!(
            text,
            "- commit {}, driver {}",
            or_unknown(&provenance.commit),
            or_unknown(&provenance.driver)
        )?;
        writeln!(text, "- before: {}", or_unknown(&provenance.clocks))?;
        writeln!(text, "- after: {}", or_unknown(&self.clocks_after))?;
        if let Some(peak) = self.peak {
            let multiprocessors = provenance.multiprocessors;
            writeln!(
                text,
                "- peak {peak:.1} TFLOP/s without tensor cores ({multiprocessors} multiprocessors)"
            )?;
        }
        if let Some(bandwidth) = self.bandwidth {
            writeln!(text, "- memory {bandwidth:.2} TB/s by its clock")?;
        }
        if let Some(line) = self.settings.line("gemm") {
            writeln!(text, "{line}")?;
        }
        for library in &self.libraries {
            writeln!(text, "- {library}")?;
        }
        for missing in &self.without {
            writeln!(text, "- not measured: {missing}")?;
        }
        if let Some(accuracy) = self.accuracy() {
            let (largest, case) = accuracy.largest;
            writeln!(
                text,
                "- error in norm against double precision on the same inputs: no larger than that of the vendor's faster \
                 library in {} of {} cases, and within {} of it in {}; at most {largest:.2} times as large ({})",
                accuracy.no_larger,
                accuracy.count,
                percent(CLOSE),
                accuracy.close,
                case.label()
            )?;
        }
        let late: Vec<String> = self.late().collect();
        if !late.is_empty() {
            writeln!(
                text,
                "- samples that may hold a wait for the host, since the device began them too early: {}",
                late.join("; ")
            )?;
        }
        for (case, missing) in self.unsupported() {
            writeln!(text, "- {} does not compute {case}: {}", missing.name, missing.why)?;
        }
        writeln!(
            text,
            "- `cargo bench --bench gemm`: medians of alternating samples between events, random normal operands that \
             rotate through more memory than the L2 holds, every result verified first; how, is in `docs/benchmarks.md`"
        )?;
        self.tables().iter().try_for_each(|table| write!(text, "\n{}", table.markdown()))
    }

    /// What has samples that came too early for the host, in words.
    fn late(&self) -> impl Iterator<Item = String> {
        self.cases.iter().flat_map(|measured| {
            let (group, label) = (measured.case.group, measured.case.label());
            measured.entries.iter().flat_map(move |entry| {
                let (name, label) = (entry.name.clone(), label.clone());
                let bursts = entry.burst.as_ref().map(|burst| (burst.late, burst.bursts, "bursts"));
                let all = [Some((entry.late, entry.samples, "samples")), bursts];
                let late = all.into_iter().flatten().filter(|(late, ..)| *late > 0);
                late.map(move |(late, of, what)| {
                    format!("{late} of {of} {what} of {name} on {group} {label}")
                })
            })
        })
    }

    fn unsupported(&self) -> impl Iterator<Item = (String, &Unsupported)> {
        self.cases.iter().flat_map(|measured| {
            let label = measured.case.label();
            measured.unsupported.iter().map(move |missing| (label.clone(), missing))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;

    #[test]
    fn a_page_says_where_with_what_and_what_it_comes_to() {
        let page = synthetic::record().markdown();
        for part in [
            "# regemm and the vendor's library in f32: NVIDIA Imaginary, 2026-01-31\n",
            "- after: 1755 MHz\n",
            "- made by `cargo bench --bench gemm -- --rounds 30`, seed 7, `REGEMM_TUNING=table`\n",
            "- cuBLASLt 13.1.0, best of 16\n",
            "- not measured: libother: not found\n",
            "| squares 512 to 8192 | 2 | 1.000 | 0.800 | 4096 | 1 |\n",
            "| large squares, in short bursts | 1 | 1.100 | 1.100 | 4096 | 0 |\n",
            "| the same squares, sustained | 1 | 0.800 | 0.800 | 4096 | 1 |\n\
             | large squares, in long turns | 1 | 0.950 | 0.950 | 4096 | 1 |\n",
            "## Long turns\n",
            "library in 1 of 8 cases, and within 1.0 % of it in 1; at most 1.20 times as large (",
            "| Gemm::enqueue | 3.50 | 4.25 |\n",
            "| yes | tiled16_f32 at 1024 | 200.0 | 5.0 | 4.0 | 209.0 |\n",
        ] {
            assert!(page.contains(part), "`{part}` is missing in:\n{page}");
        }
    }

    #[test]
    fn samples_that_may_hold_a_wait_are_told() {
        let mut record = synthetic::record();
        assert!(!record.markdown().contains("wait for the host"));
        record.cases[0].entries[1].late = 3;
        record.cases[2].entries[0].burst.as_mut().unwrap().late = 1;
        let page = record.markdown();
        let told = "early: 3 of 30 samples of cuBLASLt on squares 256; 1 of 5 bursts of regemm on squares 4096\n";
        assert!(page.contains(told), "{page}");
    }

    #[test]
    fn what_the_library_lacks_has_a_reason() {
        let page = synthetic::record().markdown();
        assert!(page.contains("- regemm does not compute 64 of 256: no batches\n"));
    }

    #[test]
    fn a_record_without_the_vendor_has_no_summary() {
        let mut record = synthetic::record();
        for case in &mut record.cases {
            case.entries.retain(|entry| !entry.is_of_vendor());
        }
        assert!(record.summary_table().rows.is_empty());
        assert!(!record.markdown().contains("## Ratio"));
        assert!(record.markdown().contains("## Squares\n"));
    }
}
