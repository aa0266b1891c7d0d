//! What the device did while something was measured, and measurements of a device that has rested or is one contender's
//! alone.

use serde::{Deserialize, Serialize};

/// Clock and power of a device while something was measured, as its management library reads them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// What the clock of the multiprocessors was set to, in MHz, on average. At a limit of power or current they leave
    /// out cycles of it.
    pub sm_mhz: f64,
    /// Mean power of the board in watts; none where the device does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Readings of which these are the means.
    pub readings: usize,
}

/// One contender on a device that has rested: a few milliseconds of products at a time, which end before the device has
/// come to the limit of its power. The figures beside it, for which all contenders alternate without a pause, are of a
/// device that is hot and, with large products, at that limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Median time of the product in microseconds.
    pub microseconds: f64,
    /// Speed in TFLOP/s at the median.
    pub tflops: f64,
    /// Distance of the quartiles relative to the median.
    pub spread: f64,
    /// Number of bursts.
    pub bursts: usize,
    /// Products in each.
    pub products: usize,
    /// Bursts that the device began before their first product was queued: they may hold a wait for the host.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub late: usize,
    /// Power in watts at the end of the pauses, mean of all bursts; none where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts_before: Option<f64>,
    /// Mean clock of the multiprocessors in MHz during the bursts, by the cycles that they counted (in records from
    /// before 2026-11-29, which do not say `%clock64`, what it was set to); none where it cannot be read. The power of
    /// so short a time cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<f64>,
}

/// One contender by itself on a device that is at the limit of its power: about a second of its products at a stretch,
/// of which the second half counts. Contenders that alternate share what one of them saves of the power; here each
/// keeps it for itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Median over the turns of the mean time of a product, in microseconds.
    pub microseconds: f64,
    /// Speed in TFLOP/s at that time.
    pub tflops: f64,
    /// Distance of the quartiles of the turns relative to the median.
    pub spread: f64,
    /// Number of turns.
    pub turns: usize,
    /// Products in the half of each turn that counts.
    pub products: usize,
    /// Mean clock of the multiprocessors in MHz in those halves, as of a [burst](Burst::sm_mhz); none where it cannot
    /// be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<f64>,
    /// Mean power of the board in watts in those halves; none where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
}

impl Turn {
    /// Floating-point operations for the board's energy, in GFLOP/J; none where its power cannot be read.
    pub fn gflop_a_joule(&self) -> Option<f64> {
        self.watts.map(|watts| self.tflops * 1e3 / watts)
    }
}
