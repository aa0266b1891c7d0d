//! A record made up for tests.

use super::{Entry, Record, Round, VENDOR};
use crate::provenance::Provenance;
use crate::settings::Settings;

/// Two kernels and the vendor's library on two sizes.
pub fn record() -> Record {
    let entry = |name: &str, size: usize, tflops: f64| Entry {
        name: name.into(),
        milliseconds: 2.0 * (size as f64).powi(3) / tflops / 1e9,
        tflops,
        spread: 0.02,
        samples: 30,
        relative_error: 3e-7,
    };
    let round = |size: usize, speeds: [f64; 3]| Round {
        size,
        shape: None,
        entries: ["naive_f32", "tiled16_f32", VENDOR]
            .into_iter()
            .zip(speeds)
            .map(|(name, speed)| entry(name, size, speed))
            .collect(),
        vendor: Some("cuBLASLt 13.1, best of 7 algorithms".into()),
        without_vendor: None,
    };
    Record {
        provenance: Provenance::synthetic(),
        dtype: "f32".into(),
        peak: Some(60.0),
        settings: Settings {
            arguments: Some("--sizes 1024,4096".into()),
            seed: Some(7),
            tuning: None,
        },
        rounds: vec![round(1024, [5.0, 10.0, 40.0]), round(4096, [6.0, 10.0, 50.0])],
    }
}
