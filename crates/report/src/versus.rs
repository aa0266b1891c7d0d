//! The library as its user gets it beside the vendor's libraries at their best, over a list of cases.
//!
//! | module | what it holds |
//! |---|---|
//! | `case` | what is computed: groups, sizes, layouts |
//! | `conditions` | clock and power; what is measured in short bursts and in long turns |
//! | `ratios` | how a case compares with the vendor's best, and what an epilogue costs |
//! | `accuracy` | errors beside those of the vendor's libraries |
//! | `summary` | geometric means of ratios by group |
//! | `tables` | a record as tables |
//! | `regimes` | the tables of short bursts and of long turns |
//! | `page` | a record as a page of Markdown |
//! | `side_by_side` | several records in one table |

mod accuracy;
mod case;
mod conditions;
mod page;
mod ratios;
mod regimes;
mod side_by_side;
mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
mod tables;

pub use accuracy::{Accuracy, CLOSE};
pub use case::{Case, Group, Layouts};
pub use conditions::{Burst, Conditions, Turn};
pub use side_by_side::{cases_side_by_side, side_by_side};
pub use summary::{GroupSummary, SQUARES_THAT_COUNT, geometric_mean};

use crate::provenance::Provenance;
use crate::settings::Settings;
use serde::{Deserialize, Serialize};

/// The name of this library's automatic choice among the contenders.
pub const REGEMM: &str = "regemm";
/// The same with a bias and GELU in its epilogue.
pub const WITH_EPILOGUE: &str = "regemm, bias and GELU";
/// The name of cuBLASLt among the contenders.
pub const CUBLAS_LT: &str = "cuBLASLt";
/// The same with a bias and GELU in its epilogue.
pub const LT_WITH_EPILOGUE: &str = "cuBLASLt, bias and GELU";
/// The name of cuBLAS among the contenders.
pub const CUBLAS: &str = "cuBLAS";

/// The name of a kernel that was asked for with a bias and GELU in its epilogue.
pub fn kernel_with_epilogue(kernel: &str) -> String {
    format!("{kernel}, bias and GELU")
}

/// A run: where, when and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Where, when and with what.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Clocks and limits as `nvidia-smi` reports them when the run has ended.
    #[serde(default)]
    pub clocks_after: Option<String>,
    /// Element type of the matrices, and what else all products have in common.
    pub dtype: String,
    /// The device's peak in TFLOP/s without tensor cores, from its number of units and its highest clock.
    pub peak: Option<f64>,
    /// The bandwidth of its memory in TB/s, from its clock and the width of its bus.
    pub bandwidth: Option<f64>,
    /// How to make it again; not in older records.
    #[serde(flatten)]
    pub settings: Settings,
    /// What was loaded of the vendor, and how it was used; where clocks and power were read.
    pub libraries: Vec<String>,
    /// What could not be loaded, and why.
    pub without: Vec<String>,
    /// What was measured, in groups.
    pub cases: Vec<Measured>,
    /// What a call costs the host, if that was measured.
    #[serde(default)]
    pub host: Option<HostCost>,
    /// How long a fresh process takes to its first result, if that was measured.
    #[serde(default)]
    pub first_results: Vec<FirstResult>,
}

/// All contenders on one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What is computed.
    #[serde(flatten)]
    pub case: Case,
    /// Bytes that any implementation has to move: A, B, D and, if there is one, C once.
    pub bytes: u64,
    /// Whether those take longer at the device's bandwidth than the arithmetic at its peak.
    pub memory_bound: bool,
    /// Clock and power while the contenders alternated, the same for all; none where they cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// Who was measured.
    pub entries: Vec<Entry>,
    /// Who does not compute this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<Unsupported>,
}

/// One contender on one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`REGEMM`], [`WITH_EPILOGUE`], [`CUBLAS_LT`], [`LT_WITH_EPILOGUE`], [`CUBLAS`], the name of a kernel that was
    /// asked for or that [with an epilogue](kernel_with_epilogue).
    pub name: String,
    /// The kernel that ran, if it is one of this library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Median time of the product in microseconds; of a batch, all of it.
    pub microseconds: f64,
    /// Speed in TFLOP/s at the median.
    pub tflops: f64,
    /// Distance of the quartiles relative to the median.
    pub spread: f64,
    /// Number of samples.
    pub samples: usize,
    /// Products between the two events of a sample.
    pub products: usize,
    /// Samples that the device began before all of them was queued, however often they were taken: they may hold a wait
    /// for the host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: usize,
    /// Mean clock of the multiprocessors in MHz, by the cycles that they counted during the samples; none where that
    /// was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<f64>,
    /// `||D - D_ref|| / ||D_ref||` against double precision, on the elements that were compared.
    #[serde(deserialize_with = "crate::float::read")]
    pub relative_error: f64,
    /// The same on a device that has rested, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// The same by itself for a while, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
}

/// A contender that does not compute a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unsupported {
    /// As [`Entry::name`].
    pub name: String,
    /// Why not.
    pub why: String,
    /// Whether it did, with a wrong result.
    #[serde(default)]
    pub wrong: bool,
}

/// What calls cost the host: the time until the function that puts a product on a stream returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCost {
    /// Rows, columns and depth of the products.
    pub size: usize,
    /// Calls that were timed, of each.
    pub calls: usize,
    /// Who was called.
    pub entries: Vec<CallCost>,
}

/// What a call of one library costs the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallCost {
    /// The function.
    pub name: String,
    /// Median in microseconds.
    pub median: f64,
    /// The time in microseconds that 95 % of the calls do not exceed.
    pub p95: f64,
}

/// The way of a fresh process to its first product, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstResult {
    /// Whether the driver had compiled the kernel before and kept it.
    pub cached: bool,
    /// Rows, columns and depth of the product.
    pub size: usize,
    /// The kernel that was chosen.
    pub kernel: String,
    /// From the start of the process until the device is open.
    pub open: f64,
    /// What the first product took longer than the second: loading the kernel's module, which compiles it unless the
    /// driver has kept it, and the tables by which it was chosen.
    pub first_use: f64,
    /// Uploading the factors, the second product, and its way back to the host.
    pub product: f64,
}

impl Measured {
    /// A contender by its name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// TB/s of the bytes that have to be moved.
    pub fn bandwidth_of(&self, entry: &Entry) -> f64 {
        self.bytes as f64 / entry.microseconds / 1e6
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl FirstResult {
    /// From the start of the process until the first result is on the host. It is verified after that.
    pub fn total(&self) -> f64 {
        self.open + self.first_use + self.product
    }
}

impl Entry {
    /// Whether this is one of the vendor's libraries.
    pub fn is_of_vendor(&self) -> bool {
        [CUBLAS_LT, LT_WITH_EPILOGUE, CUBLAS].contains(&self.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_file() {
        let record = synthetic::record();
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    /// Clock, power, bursts and turns came to the records later: they may be absent.
    #[test]
    fn a_record_without_conditions_bursts_and_turns_is_read() {
        let mut value = serde_json::to_value(synthetic::record()).unwrap();
        for case in value["cases"].as_array_mut().unwrap() {
            case.as_object_mut().unwrap().remove("conditions");
            for entry in case["entries"].as_array_mut().unwrap() {
                for later in ["burst", "turn"] {
                    entry.as_object_mut().unwrap().remove(later);
                }
            }
        }
        let record: Record = serde_json::from_value(value).unwrap();
        assert!(record.cases.iter().all(|case| case.conditions.is_none()));
        assert!(record.burst_summary().is_none() && record.turn_summary().is_none());
        let whole = synthetic::record();
        assert!(whole.cases.iter().any(|case| case.conditions.is_some()));
        assert!(whole.burst_summary().is_some() && whole.turn_summary().is_some());
    }

    /// Settings and late samples came to the records later, too.
    #[test]
    fn a_record_without_settings_is_read() {
        let mut value = serde_json::to_value(synthetic::record()).unwrap();
        for later in ["arguments", "seed", "tuning"] {
            assert!(value.as_object_mut().unwrap().remove(later).is_some(), "{later}");
        }
        let record: Record = serde_json::from_value(value).unwrap();
        assert_eq!(record.settings, Settings::default());
        assert!(record.cases.iter().flat_map(|case| &case.entries).all(|entry| entry.late == 0));
        assert!(!record.markdown().contains("made by"));
    }

    #[test]
    fn bytes_a_microsecond_are_megabytes_a_second() {
        let case = &synthetic::record().cases[0];
        let expected = case.bytes as f64 / 20e-6 / 1e12;
        assert!((case.bandwidth_of(&case.entries[0]) - expected).abs() < 1e-12);
    }
}
