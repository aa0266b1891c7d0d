//! A sweep as a page of Markdown.

use super::Record;
use std::fmt::Write;

impl Record {
    /// Where and how it was measured, what won, the tables, and what cannot run.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut text);
        text
    }

    /// What won, a line a size; without results a line that says so.
    pub fn verdicts(&self) -> Vec<String> {
        let lines: Vec<String> =
            self.measured_sizes().into_iter().filter_map(|size| self.verdict(size)).collect();
        if lines.is_empty() { vec!["Nothing was measured.".to_owned()] } else { lines }
    }

    /// How many configurations there are, and what became of them.
    pub fn tally(&self) -> String {
        let (all, measured) = (self.results.len(), self.measured().len());
        let (cannot, wrong) = (self.cannot_run().len(), self.wrong().len());
        let mut text = format!("{all} configurations: {measured} measured, {cannot} cannot run");
        if wrong > 0 {
            let _ = write!(text, ", {wrong} WRONG");
        }
        if !self.complete {
            text += "; not complete";
        }
        if let Some(effort) = &self.effort {
            let (compiling, measuring) = (effort.compile_seconds, effort.measure_seconds);
            let _ = write!(text, "; {compiling:.0} s compiling, {measuring:.0} s measuring");
        }
        text
    }

    fn write_markdown(&self, text: &mut String) -> std::fmt::Result {
        let provenance = &self.provenance;
        writeln!(
            text,
            "# {} in {}: {}, {}\n",
            capitalised(&self.command),
            self.dtype,
            provenance.device,
            provenance.date
        )?;
        let commit = provenance.commit.as_deref().unwrap_or("unknown");
        write!(text, "- regemm {}, commit {commit}", provenance.version)?;
        if let Some(driver) = &provenance.driver {
            write!(text, ", driver {driver}")?;
        }
        if let Some(clocks) = &provenance.clocks {
            write!(text, ", {clocks}")?;
        }
        writeln!(text)?;
        if let Some(peak) = self.peak_tflops {
            let count = provenance.multiprocessors;
            writeln!(
                text,
                "- peak {peak:.1} TFLOP/s without tensor cores ({count} multiprocessors)"
            )?;
        }
        if self.is_of_simulator() {
            writeln!(text, "- counts of the simulator, which gives no times")?;
        } else {
            writeln!(
                text,
                "- medians of at most {} samples between events, the configurations in turn, random normal data (seed {}) \
                 in more memory than the L2 holds, every result verified first",
                self.reps, self.seed
            )?;
        }
        writeln!(text, "- {}", self.tally())?;
        for verdict in self.verdicts() {
            writeln!(text, "- {verdict}")?;
        }
        for table in self.tables() {
            write!(text, "\n{}", table.markdown())?;
        }
        write_list(text, "Wrong results", &self.wrong())?;
        write_list(text, "Cannot run", &self.cannot_run())
    }
}

fn write_list(text: &mut String, title: &str, lines: &[String]) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n## {title}\n")?;
    lines.iter().try_for_each(|line| writeln!(text, "- {line}"))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Effort;
    use super::super::synthetic::{counted, entry, record, timed};

    #[test]
    fn a_page_says_where_what_won_and_what_cannot_run() {
        let mut impossible = entry((128, 128, 32), (4, 4), "k_innermost", "async4");
        impossible.cannot_run = Some("needs 256 KiB of shared memory".into());
        let record = record(vec![
            timed(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 1024, 20.0),
            impossible,
        ]);
        let page = record.markdown();
        for part in [
            "# Sweep in f32: NVIDIA Imaginary, 2026-01-31",
            "commit abc1234, driver 580.1",
            "peak 66.9 TFLOP/s",
            "2 configurations: 1 measured, 1 cannot run\n",
            "- 1024: 64x64x32 8x8 k_innermost single won with 20.0 TFLOP/s (29.9 % of the peak)\n",
            "## By thread tile (k_innermost, single), TFLOP/s",
            "## Cannot run\n\n- 128x128x32 4x4 k_innermost async4: needs 256 KiB of shared memory\n",
        ] {
            assert!(page.contains(part), "`{part}` is missing in:\n{page}");
        }
        assert!(!page.contains("WRONG") && !page.contains("Wrong"));
    }

    #[test]
    fn a_wrong_result_and_an_unfinished_sweep_are_told() {
        let mut wrong = entry((64, 64, 32), (8, 8), "k_innermost", "single");
        wrong.wrong = Some("3 elements differ".into());
        let mut record = record(vec![wrong]);
        record.complete = false;
        record.effort = Some(Effort { compile_seconds: 12.2, measure_seconds: 80.9 });
        let page = record.markdown();
        for part in [
            "1 WRONG; not complete; 12 s compiling, 81 s measuring",
            "Nothing was measured.",
            "## Wrong results",
        ] {
            assert!(page.contains(part), "`{part}` is missing in:\n{page}");
        }
    }

    #[test]
    fn the_simulators_page_holds_no_times() {
        let counts = counted(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 64, 1000);
        let mut record = record(vec![counts]);
        record.peak_tflops = None;
        let page = record.markdown();
        assert!(page.contains("gives no times") && !page.contains("TFLOP"), "{page}");
    }
}
