//! Errors of products by precision, data and depth: what an error study leaves behind.

#[cfg(test)]
pub(crate) mod synthetic;
pub mod tables;

use crate::provenance::Provenance;
use serde::{Deserialize, Serialize};

/// The subcommand, by which its documents are known.
pub const COMMAND: &str = "accuracy";
/// cuBLAS in f32 among the modes.
pub const CUBLAS: &str = "cuBLAS f32";
/// cuBLAS with factors rounded to TF32 among the modes.
pub const CUBLAS_TF32: &str = "cuBLAS TF32";

/// Half a unit in the last place of f32, relative: no rounded result is closer in general.
pub const UNIT_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;

/// A study: where, when and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`COMMAND`].
    pub command: String,
    /// Where, when and with what.
    pub provenance: Provenance,
    /// Element type of all matrices.
    pub dtype: String,
    /// Rows of A and D.
    pub rows: usize,
    /// Columns of B and D.
    pub cols: usize,
    /// Seed of the operands.
    pub seed: u64,
    /// What was loaded of the vendor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
    /// Modes that were left out, and why.
    pub missing: Vec<Missing>,
    /// Results that were wrong, in words. They have no point.
    pub wrong: Vec<String>,
    /// What operands held, in the order in which it was measured.
    pub data: Vec<Data>,
    /// A point a mode, kind of data and depth.
    pub points: Vec<Point>,
    /// Why it ended before all was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// A kind of operands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
}

/// The errors of one product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The name of the operands' [`Data`].
    pub data: String,
    /// Depth of the product.
    pub k: usize,
    /// A precision of this library, [`CUBLAS`] or [`CUBLAS_TF32`].
    pub mode: String,
    /// The kernel, if it is one of this library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// `||D - A B|| / ||A B||` in the Frobenius norm, against double precision.
    pub in_norm: f64,
    /// The largest `|D - A B|ij / (|A| |B|)ij`.
    pub componentwise: f64,
}

/// A mode that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// As [`Point::mode`].
    pub mode: String,
    /// Why.
    pub why: String,
}

/// One of the two errors of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// [`Point::in_norm`]
    InNorm,
    /// [`Point::componentwise`]
    Componentwise,
}

impl Measure {
    /// Both.
    pub const ALL: [Measure; 2] = [Measure::InNorm, Measure::Componentwise];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::InNorm => "error in norm",
            Measure::Componentwise => "componentwise error",
        }
    }

    /// Its value at a point.
    pub fn of(self, point: &Point) -> f64 {
        match self {
            Measure::InNorm => point.in_norm,
            Measure::Componentwise => point.componentwise,
        }
    }
}

/// Whether a mode is the vendor's.
pub fn is_vendor(mode: &str) -> bool {
    [CUBLAS, CUBLAS_TF32].contains(&mode)
}

impl Record {
    /// The modes that have points, those of this library first, each kind in the order in which they first appear.
    pub fn modes(&self) -> Vec<&str> {
        let mut modes: Vec<&str> = Vec::new();
        for point in &self.points {
            if !modes.contains(&point.mode.as_str()) {
                modes.push(&point.mode);
            }
        }
        modes.sort_by_key(|mode| is_vendor(mode));
        modes
    }

    /// The depths of a kind of data, in ascending order.
    pub fn depths(&self, data: &str) -> Vec<usize> {
        let of_data = self.points.iter().filter(|point| point.data == data);
        let mut depths: Vec<usize> = of_data.map(|point| point.k).collect();
        depths.sort_unstable();
        depths.dedup();
        depths
    }

    /// The point of a mode at a depth.
    pub fn point(&self, data: &str, mode: &str, k: usize) -> Option<&Point> {
        let is_it = |point: &&Point| point.k == k && point.mode == mode && point.data == data;
        self.points.iter().find(is_it)
    }

    /// Notes that a mode is left out, once.
    pub fn leave_out(&mut self, mode: &str, why: impl Into<String>) {
        if !self.is_left_out(mode) {
            self.missing.push(Missing { mode: mode.to_owned(), why: why.into() });
        }
    }

    /// Whether a mode is left out.
    pub fn is_left_out(&self, mode: &str) -> bool {
        self.missing.iter().any(|missing| missing.mode == mode)
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
    fn modes_and_depths_are_in_order_and_once() {
        let mut record = synthetic::record();
        assert_eq!(record.modes(), ["exact", "split", CUBLAS, CUBLAS_TF32]);
        record.points.reverse();
        assert_eq!(record.modes(), ["split", "exact", CUBLAS_TF32, CUBLAS]);
        assert_eq!(record.depths("normal"), [64, 4096]);
        assert_eq!(record.depths("none"), [0; 0]);
    }

    #[test]
    fn what_is_left_out_is_noted_once() {
        let mut record = synthetic::record();
        assert!(!record.is_left_out("other"));
        record.leave_out("other", "first");
        record.leave_out("other", "second");
        let noted: Vec<&str> = record.missing.iter().map(|missing| missing.why.as_str()).collect();
        assert_eq!(noted, ["first"]);
    }
}
