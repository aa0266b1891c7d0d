//! One kernel in many configurations: what a sweep over tiles, loop orders and stagings leaves behind.
//!
//! A record of a GPU holds times, one of the simulator counts; none holds both.
//!
//! | module | what it holds |
//! |---|---|
//! | [`groups`] | which configurations are compared with each other |
//! | [`ranking`] | who is ahead of whom, and the sentence that says what won |
//! | [`tables`] | mean and best by loop order, tile and staging; the best of all |
//! | [`pipelining`] | the stagings of one tile beside each other |
//! | `overlap` | what loads take beside multiply-adds, and how much of it a pipeline hides |
//! | [`markdown`], [`csv_rows`] | a sweep as a page, and as comma-separated values |

pub mod csv_rows;
pub mod groups;
pub mod markdown;
mod overlap;
pub mod pipelining;
pub mod ranking;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod tables;

use crate::provenance::Provenance;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A sweep: where, when and what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The subcommand that made it: `sweep` or `pipelining`.
    pub command: String,
    /// Where, when and with what.
    pub provenance: Provenance,
    /// Element type of all matrices.
    pub dtype: String,
    /// The device's peak in TFLOP/s without tensor cores.
    pub peak_tflops: Option<f64>,
    /// Rows, columns and depth of the products, in the order in which they are measured.
    pub sizes: Vec<usize>,
    /// Seed of the operands.
    pub seed: u64,
    /// Most samples of one configuration on one size; slow ones get fewer.
    pub reps: usize,
    /// Whether every configuration was measured on every size.
    pub complete: bool,
    /// The configurations, in the order of the space that was swept.
    pub results: Vec<Entry>,
    /// What the library chooses by itself, one a size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<Choice>,
    /// How long all of it took on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// How long a sweep took, all parts of one that was continued together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Seconds until the driver had compiled all kernels.
    pub compile_seconds: f64,
    /// Seconds of verifying and measuring.
    pub measure_seconds: f64,
}

/// One configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the kernel.
    pub kernel: String,
    /// What it is made of.
    pub config: Config,
    /// Why it cannot run, if it cannot: on any GPU or on this one.
    #[serde(default)]
    pub cannot_run: Option<String>,
    /// What was wrong with its result, if anything: its speed was not measured then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// Registers of a thread, as compiled; unknown on the simulator.
    pub registers: Option<u32>,
    /// Bytes of local memory a thread; unknown on the simulator.
    pub local_bytes: Option<u32>,
    /// Bytes of shared memory a block.
    pub shared_bytes: u32,
    /// Threads a block.
    pub threads: u32,
    /// Blocks that are resident on a multiprocessor at a time; unknown on the simulator.
    pub resident_blocks: Option<u32>,
    /// Times on a GPU, one a size; what cannot run has none.
    #[serde(default)]
    pub timings: Vec<Timing>,
    /// Counts of the simulator, one a size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<Counts>,
}

/// The kernel that the library chooses for a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Rows, columns and depth of the product that it was chosen for.
    pub size: usize,
    /// Name of the kernel.
    pub kernel: String,
    /// Its time on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Its counts on the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// Times of one kernel on one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Rows, columns and depth of the product.
    pub size: usize,
    /// Median time of one product.
    pub milliseconds: f64,
    /// Speed at the median.
    pub tflops: f64,
    /// Distance of the quartiles relative to the median.
    pub spread: f64,
    /// Number of samples.
    pub samples: usize,
    /// `||D - D_ref|| / ||D_ref||` against double precision.
    #[serde(deserialize_with = "crate::float::read")]
    pub relative_error: f64,
    /// The samples in the order in which they were taken: only until the record is complete, so that it can be
    /// continued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample_milliseconds: Vec<f64>,
}

/// What one kernel did on one size, as the simulator counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows, columns and depth of the product.
    pub size: usize,
    /// Bytes that lanes loaded from and stored to global memory.
    pub global_bytes: u64,
    /// 32-byte sectors of global memory that requests touched.
    pub global_sectors: u64,
    /// Passes over the banks of shared memory.
    pub shared_wavefronts: u64,
    /// Those of them that bank conflicts caused.
    pub shared_conflicts: u64,
    /// Block barriers.
    pub barriers: u64,
    /// Asynchronous copies to shared memory.
    pub async_copies: u64,
    /// Fused multiply-adds.
    pub fma: u64,
    /// `||D - D_ref|| / ||D_ref||` against double precision.
    #[serde(deserialize_with = "crate::float::read")]
    pub relative_error: f64,
}

/// What a configuration is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Config {
    /// Rows of D that a block owns.
    pub bm: u32,
    /// Columns of D that a block owns.
    pub bn: u32,
    /// Depth of the slices in shared memory; with `direct` what takes the place of a slice.
    pub bk: u32,
    /// Rows of D that a thread owns.
    pub tm: u32,
    /// Columns of D that a thread owns.
    pub tn: u32,
    /// Where the loop over the depth stands: `standard`, `k_after_threads` or `k_innermost`.
    pub order: String,
    /// How slices come to shared memory: not at all (`direct`); to one stage (`single`), to two through registers
    /// (`double`), or to so many by asynchronous copies (`async2`, `async3`, `async4`).
    pub staging: String,
}

impl Config {
    /// The block tile in words: `64x64x32`.
    pub fn block_tile(&self) -> String {
        format!("{}x{}x{}", self.bm, self.bn, self.bk)
    }

    /// The thread tile in words: `8x4`.
    pub fn thread_tile(&self) -> String {
        format!("{}x{}", self.tm, self.tn)
    }
}

/// All of it: `64x64x32 8x4 k_innermost single`.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.block_tile(), self.thread_tile(), self.order, self.staging)
    }
}

impl Entry {
    /// Its times on a size.
    pub fn timing(&self, size: usize) -> Option<&Timing> {
        self.timings.iter().find(|timing| timing.size == size)
    }

    /// Its counts on a size.
    pub fn counts(&self, size: usize) -> Option<&Counts> {
        self.counts.iter().find(|counts| counts.size == size)
    }
}
