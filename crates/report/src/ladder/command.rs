//! The ladder as `regemm ladder --json` prints it.

use super::{Entry, PROCESSOR, Record, Round};
use crate::float;
use crate::provenance::Provenance;
use crate::settings::Settings;
use crate::table::{self, Table};
use serde::Deserialize;
use serde_json::Value;

/// A run of `regemm ladder` on a GPU: a record, and what has no place in one.
#[derive(Clone, Debug, PartialEq)]
pub struct Climb {
    /// What was measured, the processor among it where it was asked for.
    pub record: Record,
    /// The peak of tensor cores in TFLOP/s.
    pub tensor_peak: Option<f64>,
    /// Of the peak of the units that a kernel multiplies with: size, kernel, share.
    pub shares: Vec<(String, String, f64)>,
    /// What the processor's times are of, if it was measured.
    pub processor: Option<String>,
    /// Results that were wrong, a line each.
    pub wrong: Vec<String>,
    /// Kernels that were verified and have no time, a line each.
    pub unmeasured: Vec<String>,
    /// Kernels that the device cannot run, with the reason.
    pub left_out: Vec<String>,
    /// Why the run has ended before all was measured.
    pub stopped: Option<String>,
}

impl Climb {
    /// The tables of the record, with shares of the peak that is each kernel's own.
    pub fn tables(&self) -> Vec<Table> {
        self.record.tables_with("Share of the peak of its units", |entry, round| {
            let label = round.label();
            let is_its = |(size, kernel, _): &&(String, String, f64)| {
                *size == label && *kernel == entry.name
            };
            self.shares.iter().find(is_its).map(|(.., share)| *share)
        })
    }
}

/// The document.
#[derive(Deserialize)]
pub(crate) struct Run {
    device: Device,
    dtype: String,
    peak_flops: Option<f64>,
    #[serde(default)]
    tensor_peak_flops: Option<f64>,
    results: Vec<Size>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
    #[serde(default)]
    stopped: Option<String>,
    #[serde(default)]
    provenance: Option<Provenance>,
}

#[derive(Deserialize)]
struct Device {
    name: String,
    multiprocessors: u32,
    #[serde(default)]
    compute_capability: Option<(u32, u32)>,
}

#[derive(Deserialize)]
struct LeftOut {
    kernel: String,
    why: String,
}

#[derive(Deserialize)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
    #[serde(default)]
    cpu: Option<Cpu>,
    kernels: Vec<Rung>,
}

#[derive(Deserialize)]
struct Cpu {
    dtype: String,
    #[serde(default)]
    cores: Option<usize>,
    #[serde(flatten)]
    timed: Timed,
}

#[derive(Deserialize)]
struct Rung {
    kernel: String,
    #[serde(default)]
    share_of_peak: Option<f64>,
    #[serde(default)]
    counters: Option<Value>,
    #[serde(flatten)]
    timed: Timed,
}

/// What the kernels and the processor have in common.
#[derive(Deserialize)]
struct Timed {
    seconds: Option<f64>,
    spread: Option<f64>,
    gflops: Option<f64>,
    verification: Verification,
}

#[derive(Deserialize)]
struct Verification {
    #[serde(default)]
    pass: Option<bool>,
    comparison: Comparison,
}

#[derive(Deserialize)]
struct Comparison {
    /// Of a wrong result it need not be finite.
    #[serde(default = "float::missing", deserialize_with = "float::read")]
    relative_norm_error: f64,
    #[serde(default)]
    mismatches: u64,
}

const GIGA_IN_TERA: f64 = 1e3;
const MILLISECONDS: f64 = 1e3;
const FLOPS_IN_TERA: f64 = 1e12;

impl Run {
    /// Whether it is one of the simulator, which counts and gives no times. A GPU on which every result is wrong has no
    /// times either.
    pub fn is_of_simulator(&self) -> bool {
        let mut rungs = self.results.iter().flat_map(|size| &size.kernels);
        self.device.compute_capability.is_none() && rungs.all(|rung| rung.timed.seconds.is_none())
            || self.has_counters()
    }

    fn has_counters(&self) -> bool {
        let mut rungs = self.results.iter().flat_map(|size| &size.kernels);
        rungs.any(|rung| rung.counters.as_ref().is_some_and(Value::is_object))
    }

    /// A run on a GPU.
    pub fn climb(self) -> Climb {
        let provenance = self.provenance.unwrap_or_else(|| Provenance {
            device: self.device.name,
            multiprocessors: self.device.multiprocessors,
            compute_capability: self.device.compute_capability,
            ..Provenance::default()
        });
        let record = Record {
            provenance,
            dtype: self.dtype,
            peak: self.peak_flops.map(|flops| flops / FLOPS_IN_TERA),
            settings: Settings::default(),
            rounds: Vec::new(),
        };
        let left_out = |LeftOut { kernel, why }| format!("{kernel}: {why}");
        let mut climb = Climb {
            record,
            tensor_peak: self.tensor_peak_flops.map(|flops| flops / FLOPS_IN_TERA),
            shares: Vec::new(),
            processor: None,
            wrong: Vec::new(),
            unmeasured: Vec::new(),
            left_out: self.left_out.into_iter().map(left_out).collect(),
            stopped: self.stopped,
        };
        self.results.into_iter().for_each(|size| climb.add(size));
        climb
    }
}

impl Climb {
    /// Adds a size.
    fn add(&mut self, Size { m, n, k, cpu, kernels }: Size) {
        let mut round = Round {
            size: m,
            shape: (m != n || n != k).then_some((m, n, k)),
            entries: Vec::new(),
            vendor: None,
            without_vendor: Some("`regemm ladder` measures none".to_owned()),
        };
        let label = round.label();
        if let Some(Cpu { dtype, cores, timed }) = cpu {
            let cores = cores.map_or(String::new(), |cores| format!(" on {cores} cores"));
            self.processor =
                Some(format!("products in {dtype} by the crate matrixmultiply{cores}"));
            let name = format!("{PROCESSOR}, {dtype}");
            round.entries.extend(self.judge(name, timed, &label));
        }
        for Rung { kernel, share_of_peak, timed, .. } in kernels {
            if let Some(share) = share_of_peak {
                self.shares.push((label.clone(), kernel.clone(), share));
            }
            round.entries.extend(self.judge(kernel, timed, &label));
        }
        self.record.rounds.push(round);
    }

    /// What was measured of a contender; where that is nothing it is in a list.
    fn judge(&mut self, name: String, timed: Timed, size: &str) -> Option<Entry> {
        let Verification { pass, comparison } = timed.verification;
        if pass == Some(false) {
            let Comparison { relative_norm_error, mismatches } = comparison;
            // None where a random vector alone has shown it.
            let elements = match mismatches {
                0 => String::new(),
                count => format!("{} wrong elements, ", table::count(count)),
            };
            self.wrong.push(format!(
                "{name} on {size}: {elements}relative error in norm {relative_norm_error:.1e}"
            ));
            return None;
        }
        let (Some(seconds), Some(gflops)) = (timed.seconds, timed.gflops) else {
            self.unmeasured.push(format!("{name} on {size}"));
            return None;
        };
        Some(Entry {
            name,
            milliseconds: seconds * MILLISECONDS,
            tflops: gflops / GIGA_IN_TERA,
            spread: timed.spread.unwrap_or_default(),
            samples: 0,
            relative_error: comparison.relative_norm_error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(seconds: Option<f64>) -> Run {
        serde_json::from_value(document(seconds, &json!(2e-7))).unwrap()
    }

    fn document(seconds: Option<f64>, error: &Value) -> Value {
        let speed = seconds.map(|seconds| 2.0 * 100.0 * 200.0 * 300.0 / seconds / 1e9);
        json!({
            "command": "ladder",
            "device": { "name": "NVIDIA Imaginary", "multiprocessors": 10, "compute_capability": [9, 0] },
            "dtype": "f32",
            "peak_flops": 60e12,
            "results": [{
                "m": 100, "n": 200, "k": 300,
                "kernels": [{
                    "kernel": "naive_f32", "seconds": seconds, "spread": seconds.map(|_| 0.25), "gflops": speed,
                    "verification": { "comparison": { "relative_norm_error": error } },
                }],
            }],
        })
    }

    #[test]
    fn a_measured_run_is_a_record() {
        let run = run(Some(1e-3));
        assert!(!run.is_of_simulator());
        let record = run.climb().record;
        assert_eq!(record.rounds[0].label(), "100 x 200 x 300");
        let entry = &record.rounds[0].entries[0];
        assert_eq!((entry.milliseconds, entry.spread), (1.0, 0.25));
        assert!((entry.tflops - 0.012).abs() < 1e-12, "{}", entry.tflops);
        assert_eq!(record.provenance.device, "NVIDIA Imaginary");
    }

    /// The same document from a GPU and from the simulator.
    #[test]
    fn a_run_without_times_need_not_be_one_of_the_simulator() {
        let run = run(None);
        assert!(!run.is_of_simulator());
        let climb = run.climb();
        assert_eq!(climb.record.rounds[0].entries, []);
        assert_eq!(climb.unmeasured, ["naive_f32 on 100 x 200 x 300"]);
        let mut document = document(None, &json!(2e-7));
        document["device"]["compute_capability"] = json!(null);
        let run: Run = serde_json::from_value(document).unwrap();
        assert!(run.is_of_simulator());
    }

    #[test]
    fn what_is_wrong_or_was_left_out_is_in_lists() {
        let mut document = document(Some(1e-3), &json!(0.5));
        let kernel = document["results"][0]["kernels"][0].clone();
        let mut wrong = kernel.clone();
        wrong["kernel"] = "tiled16_f32".into();
        wrong["seconds"] = json!(null);
        wrong["verification"]["pass"] = false.into();
        wrong["verification"]["comparison"]["mismatches"] = 7.into();
        document["results"][0]["kernels"] = json!([kernel, wrong]);
        document["left_out"] = json!([{ "kernel": "tma_f32", "why": "needs another GPU" }]);
        document["stopped"] = "no memory".into();
        let climb = serde_json::from_value::<Run>(document).unwrap().climb();
        assert_eq!(
            climb.wrong,
            ["tiled16_f32 on 100 x 200 x 300: 7 wrong elements, relative error in norm 5.0e-1"]
        );
        assert_eq!(climb.left_out, ["tma_f32: needs another GPU"]);
        assert_eq!((climb.unmeasured.len(), climb.record.rounds[0].entries.len()), (0, 1));
        assert_eq!(climb.stopped.as_deref(), Some("no memory"));
    }

    #[test]
    fn the_processor_is_compared_with_and_shares_are_of_each_kernels_units() {
        let mut document = document(Some(1e-3), &json!(2e-7));
        document["tensor_peak_flops"] = json!(900e12);
        document["results"][0]["kernels"][0]["share_of_peak"] = json!(0.125);
        document["results"][0]["cpu"] = json!({
            "dtype": "f32", "cores": 8, "seconds": 2e-3, "spread": 0.5, "gflops": 6.0,
            "verification": { "pass": true, "comparison": { "relative_norm_error": 1e-7 } },
        });
        let climb = serde_json::from_value::<Run>(document).unwrap().climb();
        assert_eq!(climb.tensor_peak, Some(900.0));
        assert!(climb.processor.as_ref().is_some_and(|words| words.ends_with("on 8 cores")));
        let tables = climb.tables();
        let rows = |title: &str| {
            let found = tables.iter().find(|table| table.title == title);
            found.unwrap_or_else(|| panic!("no {title} among {tables:?}")).rows.clone()
        };
        assert_eq!(rows("TFLOP/s"), [["processor, f32", "0.01"], ["naive_f32", "0.01"]]);
        assert_eq!(rows("Ratio to the processor")[1], ["naive_f32", "2.000"]);
        let shares = [["processor, f32", "-"], ["naive_f32", "12.5 %"]];
        assert_eq!(rows("Share of the peak of its units"), shares);
        assert_eq!(climb.record.rounds[0].rungs().count(), 1, "the processor is no kernel");
    }

    /// A kernel whose result is wrong may have no error that is a number.
    #[test]
    fn a_run_with_an_error_that_is_not_finite_is_a_record() {
        let errors = [json!("NaN"), json!("inf"), json!("-inf"), json!(0.5), json!(null)];
        let expected = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, f64::NAN];
        for (error, expected) in errors.iter().zip(expected) {
            let run: Run = serde_json::from_value(document(Some(1e-3), error)).unwrap();
            let read = run.climb().record.rounds[0].entries[0].relative_error;
            assert!(read == expected || read.is_nan() && expected.is_nan(), "{error}: {read}");
        }
        for error in [json!("many"), json!("1.5"), json!([])] {
            let run = serde_json::from_value::<Run>(document(Some(1e-3), &error));
            assert!(run.is_err(), "{error}");
        }
    }
}
