//! Speeds from a record of measurements: one of the benchmark, or what `regemm ladder --json` prints.

use super::{Failure, Size};
use crate::command::report;
use regemm::kernels::Types;
use regemm_report::document::Document;
use regemm_report::ladder::{Climb, Record, Round};
use std::path::Path;

/// Measured speeds of kernels on one size.
#[derive(Debug)]
pub struct Measured {
    device: String,
    round: Round,
}

impl Measured {
    /// The speeds on this size and of these element types that a file holds.
    pub fn load(path: &Path, size: Size, types: Types) -> Result<Self, Failure> {
        let failure = |problem: String| Failure::file(path, problem);
        match report::read(path)? {
            Document::Climb(climb)
                if climb.record.rounds.iter().all(|round| round.entries.is_empty()) =>
            {
                Err(failure("holds no speeds: no kernel had a right result and a time".to_owned()))
            }
            Document::Ladder(record) | Document::Climb(Climb { record, .. }) => {
                Self::find(record, size, types).map_err(failure)
            }
            Document::Counts(_) => Err(failure(
                "holds no speeds: they come from `regemm ladder --json` on a GPU, not from the \
                 simulator"
                    .to_owned(),
            )),
            other => Err(failure(format!("is {}; name one of the ladder", other.description()))),
        }
    }

    fn find(record: Record, size: Size, types: Types) -> Result<Self, String> {
        if record.dtype != types.name() {
            return Err(format!("holds speeds for {}; add --dtype {0}", record.dtype));
        }
        let size_of = |round: &Round| round.shape.unwrap_or((round.size, round.size, round.size));
        let sizes: Vec<_> = record.rounds.iter().map(size_of).collect();
        let found = record.rounds.into_iter().find(|round| size_of(round) == size.on_host());
        let device = record.provenance.device;
        found.map(|round| Measured { device, round }).ok_or_else(|| {
            let option = |(m, n, k): &(usize, usize, usize)| format!("{m}x{n}x{k}");
            let sizes: Vec<_> = sizes.iter().map(option).collect();
            format!("holds no speeds on {size}; add --size, one of {}", sizes.join(", "))
        })
    }

    /// The name of the device that was measured.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The speed of a kernel in operations a second.
    pub fn speed(&self, kernel: &str) -> Option<f64> {
        let entry = self.round.entries.iter().find(|entry| entry.name == kernel)?;
        Some(entry.tflops * 1e12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regemm::Dtype;

    fn record() -> Record {
        let text = r#"{"date": "2026-01-31", "gpu": "NVIDIA L4", "multiprocessors": 58, "dtype": "f32", "peak": 30.3,
            "rounds": [
                {"size": 512, "vendor": null, "without_vendor": null, "entries": [{"name": "naive_f32",
                 "milliseconds": 1.0, "tflops": 2.5, "spread": 0.0, "samples": 9, "relative_error": 0.0}]},
                {"size": 1, "shape": [1, 2, 3], "vendor": null, "without_vendor": null, "entries": []}
            ]}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_speeds_of_a_size_are_found() {
        let measured = Measured::find(record(), Size::square(512), Dtype::F32.into()).unwrap();
        assert_eq!((measured.device(), measured.speed("naive_f32")), ("NVIDIA L4", Some(2.5e12)));
        assert_eq!(measured.speed("tiled16_f32"), None);
        let odd = Measured::find(record(), Size { m: 1, n: 2, k: 3 }, Dtype::F32.into()).unwrap();
        assert_eq!(odd.speed("naive_f32"), None);
    }

    #[test]
    fn what_does_not_fit_says_what_would() {
        let why = |size, dtype| Measured::find(record(), size, Types::same(dtype)).unwrap_err();
        assert!(why(Size::square(512), Dtype::F64).ends_with("add --dtype f32"));
        assert!(why(Size::square(1), Dtype::F32).ends_with("one of 512x512x512, 1x2x3"));
    }
}
