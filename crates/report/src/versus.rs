//! The library as its user gets it beside the vendor's libraries at their best, over a list of cases.
//!
//! | module | what it holds |
//! |---|---|
//! | `case` | what is computed: groups, sizes, layouts |
//! | `conditions` | clock and power; what is measured in short bursts |
//! | `accuracy` | errors beside those of the vendor's libraries |
//! | `summary` | ratios, and their geometric means by group |
//! | `tables` | a record as tables |
//! | `page` | a record as a page of Markdown |

mod accuracy;
mod case;
mod conditions;
mod page;
mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
mod tables;

pub use accuracy::{Accuracy, CLOSE};
pub use case::{Case, Group, Layouts};
pub use conditions::{Burst, Conditions};
pub use summary::{GroupSummary, SQUARES_THAT_COUNT, geometric_mean};

use crate::provenance::Provenance;
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

/// A run: where, when and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Where, when and with what.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Clocks and limits as `nvidia-smi` reports them when the run has ended.
    #[serde(default)]
    pub clocks_after: Option<String>,
    /// Element type of all matrices.
    pub dtype: String,
    /// The device's peak in TFLOP/s without tensor cores, from its number of units and its highest clock.
    pub peak: Option<f64>,
    /// The bandwidth of its memory in TB/s, from its clock and the width of its bus.
    pub bandwidth: Option<f64>,
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
    /// Bytes that any implementation has to move: A, B and D once.
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
    /// [`REGEMM`], [`WITH_EPILOGUE`], [`CUBLAS_LT`], [`LT_WITH_EPILOGUE`], [`CUBLAS`] or the name of a kernel that was asked for.
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
    /// `||D - D_ref|| / ||D_ref||` against double precision, on the elements that were compared.
    pub relative_error: f64,
    /// The same on a device that has rested, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
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
    /// What the first product took longer than the second: loading the kernel's module, which compiles it unless the driver
    /// has kept it, and the tables by which it was chosen.
    pub first_use: f64,
    /// Uploading the factors, the second product, and its way back to the host.
    pub product: f64,
}

impl Measured {
    /// A contender by its name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The faster one of the vendor's libraries, with an epilogue where that is what the case is about.
    pub fn best_of_vendor(&self) -> Option<&Entry> {
        let has_epilogue = self.case.group == Group::Epilogue;
        let compared = |entry: &&Entry| (entry.name == LT_WITH_EPILOGUE) == has_epilogue;
        let of_vendor = self.entries.iter().filter(|entry| entry.is_of_vendor()).filter(compared);
        of_vendor.min_by(|a, b| a.microseconds.total_cmp(&b.microseconds))
    }

    /// What is compared with the vendor's best: this library's choice, with an epilogue where that is what the case is about.
    pub fn ours(&self) -> Option<&Entry> {
        self.entry(if self.case.group == Group::Epilogue { WITH_EPILOGUE } else { REGEMM })
    }

    /// The speed of this library's choice relative to the vendor's best.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.best_of_vendor()?.microseconds / self.ours()?.microseconds)
    }

    /// The same in short bursts: to the library that is the faster one there.
    pub fn burst_ratio(&self) -> Option<f64> {
        let of = |entry: &Entry| entry.burst.as_ref().map(|burst| burst.microseconds);
        let of_vendor = self.entries.iter().filter(|entry| entry.is_of_vendor());
        let best = of_vendor.filter_map(of).min_by(f64::total_cmp)?;
        Some(best / of(self.entry(REGEMM)?)?)
    }

    /// What the fused epilogue costs, relative to the product without: of this library, and of cuBLASLt.
    pub fn epilogue_costs(&self) -> [Option<f64>; 2] {
        [[WITH_EPILOGUE, REGEMM], [LT_WITH_EPILOGUE, CUBLAS_LT]].map(|names| {
            let [with, without] = names.map(|name| Some(self.entry(name)?.microseconds));
            Some(with? / without? - 1.0)
        })
    }

    /// TB/s of the bytes that have to be moved.
    pub fn bandwidth_of(&self, entry: &Entry) -> f64 {
        self.bytes as f64 / entry.microseconds / 1e6
    }
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

    #[test]
    fn the_ratio_is_to_the_faster_library() {
        let record = synthetic::record();
        let case = &record.cases[0];
        let times = case.entries.iter().map(|entry| (entry.name.as_str(), entry.microseconds));
        let times: Vec<_> = times.collect();
        assert_eq!(times, [(REGEMM, 20.0), (CUBLAS_LT, 16.0), (CUBLAS, 18.0)]);
        assert_eq!(case.best_of_vendor().unwrap().name, CUBLAS_LT);
        assert_eq!(case.ratio(), Some(0.8));
    }

    #[test]
    fn in_bursts_the_vendor_has_a_best_of_its_own() {
        let record = synthetic::record();
        let burst = record.cases.iter().find(|case| case.case.m == 4096).unwrap();
        assert_eq!((burst.ratio(), burst.burst_ratio()), (Some(0.8), Some(1.1)));
        assert_eq!(record.cases[0].burst_ratio(), None);
    }

    /// Clock, power and bursts came to the records later: they may be absent.
    #[test]
    fn a_record_without_conditions_and_bursts_is_read() {
        let mut value = serde_json::to_value(synthetic::record()).unwrap();
        for case in value["cases"].as_array_mut().unwrap() {
            case.as_object_mut().unwrap().remove("conditions");
            for entry in case["entries"].as_array_mut().unwrap() {
                entry.as_object_mut().unwrap().remove("burst");
            }
        }
        let record: Record = serde_json::from_value(value).unwrap();
        assert!(record.cases.iter().all(|case| case.conditions.is_none()));
        assert!(record.burst_summary().is_none());
        let whole = synthetic::record();
        assert!(
            whole.cases.iter().any(|case| case.conditions.is_some())
                && whole.burst_summary().is_some()
        );
    }

    #[test]
    fn there_is_no_ratio_without_either_side() {
        let mut case = synthetic::record().cases.remove(0);
        case.entries.retain(|entry| !entry.is_of_vendor());
        assert_eq!(case.ratio(), None);
        let mut case = synthetic::record().cases.remove(0);
        case.entries.retain(Entry::is_of_vendor);
        assert_eq!(case.ratio(), None);
    }

    #[test]
    fn bytes_a_microsecond_are_megabytes_a_second() {
        let case = &synthetic::record().cases[0];
        let expected = case.bytes as f64 / 20e-6 / 1e12;
        assert!((case.bandwidth_of(&case.entries[0]) - expected).abs() < 1e-12);
    }
}
