//! The ladder as `regemm ladder --json` prints it.

use super::{Entry, Record, Round};
use crate::float;
use crate::provenance::Provenance;
use serde::Deserialize;

/// A run of `regemm ladder`.
#[derive(Deserialize)]
pub(crate) struct Run {
    device: Device,
    dtype: String,
    peak_flops: Option<f64>,
    results: Vec<Size>,
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
struct Size {
    m: usize,
    n: usize,
    k: usize,
    kernels: Vec<Rung>,
}

#[derive(Deserialize)]
struct Rung {
    kernel: String,
    seconds: Option<f64>,
    spread: Option<f64>,
    gflops: Option<f64>,
    verification: Verification,
}

#[derive(Deserialize)]
struct Verification {
    comparison: Comparison,
}

#[derive(Deserialize)]
struct Comparison {
    /// Of a wrong result it need not be finite.
    #[serde(default = "float::missing", deserialize_with = "float::read")]
    relative_norm_error: f64,
}

const GIGA_IN_TERA: f64 = 1e3;
const MILLISECONDS: f64 = 1e3;

impl Run {
    /// The run as a record, without the kernels that were not measured; `None` where none was.
    pub fn record(self) -> Option<Record> {
        let provenance = self.provenance.unwrap_or_else(|| Provenance {
            device: self.device.name,
            multiprocessors: self.device.multiprocessors,
            compute_capability: self.device.compute_capability,
            ..Provenance::default()
        });
        let rounds: Vec<Round> = self.results.into_iter().map(Size::round).collect();
        let is_measured = rounds.iter().any(|round| !round.entries.is_empty());
        let peak = self.peak_flops.map(|flops| flops / 1e12);
        is_measured.then_some(Record { provenance, dtype: self.dtype, peak, rounds })
    }
}

impl Size {
    fn round(self) -> Round {
        let Size { m, n, k, kernels } = self;
        let entry = |rung: Rung| {
            Some(Entry {
                name: rung.kernel,
                milliseconds: rung.seconds? * MILLISECONDS,
                tflops: rung.gflops? / GIGA_IN_TERA,
                spread: rung.spread.unwrap_or_default(),
                samples: 0,
                relative_error: rung.verification.comparison.relative_norm_error,
            })
        };
        Round {
            size: m,
            shape: (m != n || n != k).then_some((m, n, k)),
            entries: kernels.into_iter().filter_map(entry).collect(),
            vendor: None,
            without_vendor: Some("`regemm ladder` measures none".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(seconds: Option<f64>) -> Run {
        serde_json::from_value(document(seconds, &json!(2e-7))).unwrap()
    }

    fn document(seconds: Option<f64>, error: &serde_json::Value) -> serde_json::Value {
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
        let record = run(Some(1e-3)).record().unwrap();
        assert_eq!(record.rounds[0].label(), "100 x 200 x 300");
        let entry = &record.rounds[0].entries[0];
        assert_eq!((entry.milliseconds, entry.spread), (1.0, 0.25));
        assert!((entry.tflops - 0.012).abs() < 1e-12, "{}", entry.tflops);
        assert_eq!(record.provenance.device, "NVIDIA Imaginary");
    }

    #[test]
    fn a_run_without_times_is_none() {
        assert_eq!(run(None).record(), None);
    }

    /// A kernel whose result is wrong may have no error that is a number.
    #[test]
    fn a_run_with_an_error_that_is_not_finite_is_a_record() {
        let errors = [json!("NaN"), json!("inf"), json!("-inf"), json!(0.5), json!(null)];
        let expected = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, f64::NAN];
        for (error, expected) in errors.iter().zip(expected) {
            let run: Run = serde_json::from_value(document(Some(1e-3), error)).unwrap();
            let read = run.record().unwrap().rounds[0].entries[0].relative_error;
            assert!(read == expected || read.is_nan() && expected.is_nan(), "{error}: {read}");
        }
        for error in [json!("many"), json!("1.5"), json!([])] {
            let run = serde_json::from_value::<Run>(document(Some(1e-3), &error));
            assert!(run.is_err(), "{error}");
        }
    }
}
