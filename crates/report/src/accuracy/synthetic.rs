//! A record made up for tests.

use super::*;

/// Two precisions and two modes of the vendor on two kinds of data and two depths.
pub fn record() -> Record {
    let kinds = [("normal", "mean 0, variance 1"), ("wide", "of many magnitudes")];
    let modes = [("exact", 2e-7), ("split", 1e-7), (CUBLAS, 2.5e-7), (CUBLAS_TF32, 3e-4)];
    let mut points = Vec::new();
    for (data, _) in kinds {
        for k in [64_usize, 4096] {
            points.extend(modes.iter().map(|&(mode, error)| Point {
                data: data.into(),
                k,
                mode: mode.into(),
                kernel: (!is_vendor(mode)).then(|| "tiled16_f32".to_owned()),
                in_norm: error * (k / 64) as f64,
                componentwise: error / 4.0,
            }));
        }
    }
    let data = |(name, description): (&str, &str)| Data {
        name: name.into(),
        description: description.into(),
    };
    Record {
        command: COMMAND.into(),
        provenance: Provenance::synthetic(),
        dtype: "f32".into(),
        rows: 128,
        cols: 96,
        seed: 1,
        libraries: vec!["cuBLAS 13.1".into()],
        missing: Vec::new(),
        wrong: Vec::new(),
        data: kinds.map(data).into(),
        points,
        stopped: None,
    }
}
