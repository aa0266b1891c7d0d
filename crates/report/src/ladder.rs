//! The kernels of one element type beside the vendor's library, over a list of sizes.

pub(crate) mod command;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod tables;

pub use command::Climb;

use crate::provenance::Provenance;
use crate::settings::Settings;
use serde::{Deserialize, Serialize};

/// A run: where, when and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Where, when and with what.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Element type of all matrices.
    pub dtype: String,
    /// The device's peak in TFLOP/s without tensor cores, from its number of units and its highest clock.
    pub peak: Option<f64>,
    /// How to make it again; not in older records.
    #[serde(flatten)]
    pub settings: Settings,
    /// A round a size.
    pub rounds: Vec<Round>,
}

/// All contenders on one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Rows, columns and depth of the product; its rows if it is not square.
    pub size: usize,
    /// Rows, columns and depth of a product that is not square.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<(usize, usize, usize)>,
    /// The contenders, in the same order in all rounds.
    pub entries: Vec<Entry>,
    /// The vendor's library, if there is one.
    pub vendor: Option<String>,
    /// Why there is none.
    pub without_vendor: Option<String>,
}

/// One contender on one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel's name, or [`VENDOR`].
    pub name: String,
    /// Median time of one product in milliseconds.
    pub milliseconds: f64,
    /// Speed in TFLOP/s at the median.
    pub tflops: f64,
    /// Distance of the quartiles relative to the median.
    pub spread: f64,
    /// Number of samples.
    pub samples: usize,
    /// `||D - D_ref|| / ||D_ref||` against double precision.
    #[serde(deserialize_with = "crate::float::read")]
    pub relative_error: f64,
}

/// The name of the vendor's library among the contenders.
pub const VENDOR: &str = "cuBLASLt";

/// How the name of the host's processor begins among the contenders.
pub const PROCESSOR: &str = "processor";

impl Entry {
    /// Whether this is the vendor's library.
    pub fn is_vendor(&self) -> bool {
        self.name == VENDOR
    }

    /// Whether this is the host's processor.
    pub fn is_processor(&self) -> bool {
        self.name.starts_with(PROCESSOR)
    }

    /// Whether this is a kernel.
    pub fn is_kernel(&self) -> bool {
        !self.is_vendor() && !self.is_processor()
    }
}

impl Record {
    /// The names of all contenders in the order in which they first appear.
    pub fn contenders(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in self.rounds.iter().flat_map(|round| &round.entries) {
            if !names.contains(&entry.name.as_str()) {
                names.push(&entry.name);
            }
        }
        names
    }
}

impl Round {
    /// The size in words: `4096`, or `100 x 200 x 300`.
    pub fn label(&self) -> String {
        match self.shape {
            None => self.size.to_string(),
            Some((m, n, k)) => format!("{m} x {n} x {k}"),
        }
    }

    /// The kernels.
    pub fn rungs(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_kernel())
    }

    /// The fastest kernel.
    pub fn fastest(&self) -> Option<&Entry> {
        self.rungs().max_by(|a, b| a.tflops.total_cmp(&b.tflops))
    }

    /// Speed of the vendor's library in TFLOP/s.
    pub fn vendor_tflops(&self) -> Option<f64> {
        self.entries.iter().find(|entry| entry.is_vendor()).map(|entry| entry.tflops)
    }

    /// Speed of the host's processor in TFLOP/s.
    pub fn processor_tflops(&self) -> Option<f64> {
        self.entries.iter().find(|entry| entry.is_processor()).map(|entry| entry.tflops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as it was written before records named the version.
    const OLD: &str = r#"{
        "date": "2026-01-31", "commit": "abc1234", "gpu": "NVIDIA H200", "multiprocessors": 132, "driver": "580.1",
        "clocks": "1980 MHz", "dtype": "f16", "peak": 66.9,
        "rounds": [{"size": 256, "vendor": null, "without_vendor": "none here", "entries": [
            {"name": "naive_f16", "milliseconds": 0.5, "tflops": 2.5, "spread": 0.25, "samples": 30, "relative_error": 0.125}
        ]}]
    }"#;

    #[test]
    fn an_old_record_still_loads() {
        let record: Record = serde_json::from_str(OLD).unwrap();
        assert_eq!(record.provenance.device, "NVIDIA H200");
        assert_eq!(record.provenance.commit.as_deref(), Some("abc1234"));
        assert_eq!((record.peak, record.rounds[0].entries[0].tflops), (Some(66.9), 2.5));
        assert_eq!(record.rounds[0].label(), "256");
    }

    #[test]
    fn a_record_survives_its_file() {
        let record = synthetic::record();
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn the_records_of_this_repository_load() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measurements");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let is_ladder = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.contains("ladder") && name.ends_with(".json")
        };
        let mut loaded = 0;
        for path in files.filter(is_ladder) {
            let text = std::fs::read_to_string(&path).unwrap();
            let record: Record = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(record.rounds.iter().all(|round| round.rungs().count() > 0));
            loaded += 1;
        }
        assert!(loaded >= 3, "only {loaded} records in {folder}");
    }
}
