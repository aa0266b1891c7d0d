//! What a run of the benchmark leaves behind.

use regemm::measure::Samples;
use regemm::{Device, DeviceInfo, Dtype};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::process::Command;

/// A run: where, when and what.
#[derive(Serialize, Deserialize)]
pub struct Record {
    pub date: String,
    pub commit: String,
    pub gpu: String,
    pub multiprocessors: u32,
    pub driver: String,
    /// Clocks and limits as `nvidia-smi` reports them when the run begins.
    pub clocks: String,
    pub dtype: String,
    /// The device's peak in TFLOP/s without tensor cores, from its number of units and its highest clock.
    pub peak: Option<f64>,
    pub rounds: Vec<Round>,
}

/// All contenders on one size.
#[derive(Serialize, Deserialize)]
pub struct Round {
    pub size: usize,
    pub entries: Vec<Entry>,
    /// The vendor's library, if there is one.
    pub vendor: Option<String>,
    /// Why there is none.
    pub without_vendor: Option<String>,
}

/// One contender on one size.
#[derive(Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    /// Median time of one product in milliseconds.
    pub milliseconds: f64,
    pub tflops: f64,
    /// Distance of the quartiles relative to the median.
    pub spread: f64,
    pub samples: usize,
    /// `||D - D_ref|| / ||D_ref||` against double precision.
    pub relative_error: f64,
}

impl Entry {
    pub fn new(name: String, size: usize, samples: &Samples, relative_error: f64) -> Self {
        let seconds = samples.median().as_secs_f64();
        Entry {
            name,
            milliseconds: seconds * 1e3,
            tflops: 2.0 * (size as f64).powi(3) / seconds / 1e12,
            spread: samples.spread(),
            samples: samples.count(),
            relative_error,
        }
    }

    pub fn is_vendor(&self) -> bool {
        self.name == "cuBLASLt"
    }
}

impl Round {
    /// Speed of the vendor's library in TFLOP/s.
    pub fn vendor_tflops(&self) -> Option<f64> {
        self.entries.iter().find(|entry| entry.is_vendor()).map(|entry| entry.tflops)
    }
}

impl Record {
    /// An empty record of this machine and moment.
    pub fn begin(
        device: &Device,
        dtype: Dtype,
        commit: Option<String>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let info: &DeviceInfo = device.info();
        let clocks = output_of(
            "nvidia-smi",
            &[
                "--query-gpu=clocks.sm,clocks.max.sm,clocks.mem,power.limit",
                "--format=csv,noheader",
            ],
        );
        Ok(Record {
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            commit: commit
                .or_else(|| output_of("git", &["rev-parse", "--short", "HEAD"]))
                .unwrap_or_else(|| "unknown".into()),
            gpu: info.name.clone(),
            multiprocessors: info.multiprocessors,
            driver: output_of(
                "nvidia-smi",
                &["--query-gpu=driver_version", "--format=csv,noheader"],
            )
            .unwrap_or_else(|| "unknown".into()),
            clocks: clocks.map_or_else(
                || "unknown".into(),
                |text| format!("SM now, SM most, memory, power limit: {text}"),
            ),
            dtype: dtype.to_string(),
            peak: info.peak_flops(dtype).map(|flops| flops / 1e12),
            rounds: Vec::new(),
        })
    }

    pub fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// The record as a table: a row a contender, a column a size.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "# The ladder in {}: {}, {}\n", self.dtype, self.gpu, self.date)?;
        writeln!(text, "- commit {}, driver {}, {}", self.commit, self.driver, self.clocks)?;
        if let Some(peak) = self.peak {
            let multiprocessors = self.multiprocessors;
            writeln!(
                text,
                "- peak {peak:.1} TFLOP/s without tensor cores ({multiprocessors} multiprocessors)"
            )?;
        }
        if let Some(first) = self.rounds.first() {
            match (&first.vendor, &first.without_vendor) {
                (Some(vendor), _) => writeln!(text, "- {vendor}")?,
                (None, why) => {
                    writeln!(text, "- no vendor library: {}", why.as_deref().unwrap_or("unknown"))?;
                }
            }
        }
        writeln!(
            text,
            "- `cargo bench --bench ladder`: median of alternating samples between events, random normal data in more \
             memory than the L2 holds, every result verified first\n"
        )?;

        self.write_table(text, "TFLOP/s", |entry, _| format!("{:.2}", entry.tflops))?;
        self.write_table(text, "Ratio to cuBLASLt", |entry, round| {
            round
                .vendor_tflops()
                .map_or("-".into(), |vendor| format!("{:.3}", entry.tflops / vendor))
        })?;
        if let Some(peak) = self.peak {
            self.write_table(text, "Share of the peak", |entry, _| {
                format!("{:.1} %", 100.0 * entry.tflops / peak)
            })?;
        }
        self.write_table(text, "Spread of the samples (quartiles / median)", |entry, _| {
            format!("{:.1} %", 100.0 * entry.spread)
        })?;
        self.write_table(text, "Relative error in norm", |entry, _| {
            format!("{:.1e}", entry.relative_error)
        })
    }

    fn write_table(
        &self,
        text: &mut String,
        heading: &str,
        cell: impl Fn(&Entry, &Round) -> String,
    ) -> std::fmt::Result {
        let Some(first) = self.rounds.first() else { return Ok(()) };
        let sizes: Vec<_> = self.rounds.iter().map(|round| round.size.to_string()).collect();
        writeln!(text, "## {heading}\n\n| | {} |", sizes.join(" | "))?;
        writeln!(text, "|---|{}", "---:|".repeat(sizes.len()))?;
        for (index, entry) in first.entries.iter().enumerate() {
            let cells: Vec<_> = self
                .rounds
                .iter()
                .map(|round| {
                    round.entries.get(index).map_or("-".into(), |entry| cell(entry, round))
                })
                .collect();
            writeln!(text, "| {} | {} |", entry.name, cells.join(" | "))?;
        }
        writeln!(text)
    }
}

/// What a program prints, trimmed; `None` where it cannot be run or fails.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}
