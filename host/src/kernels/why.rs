//! A chosen kernel and the reason for choosing it.

use super::Rule;
use crate::precision::Precision;
use crate::tuning::{Shape, Source};
use regemm_kernels::kernel::KernelInfo;
use std::fmt;
use std::time::Duration;

/// A kernel and the reason for choosing it.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// Why this one.
    pub why: Why,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel.name, self.why)
    }
}

/// Why a kernel was chosen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Why {
    /// It was asked for.
    Asked,
    /// It is the user's own.
    Custom,
    /// It is the one for a precision that was asked for.
    Precision(Precision),
    /// By rule: see [`rank`](super::rank).
    Rule {
        /// The part of the rule that decided.
        rule: Rule,
        /// Why not by measured times.
        not_tuned: NotTuned,
        /// Whether it was chosen among those that [promote](super::Problem::promoted) alone.
        promoted: bool,
    },
    /// By measured times: see [`tuning`](crate::tuning).
    Tuned(Tuned),
}

impl Why {
    /// By rule, which was asked for.
    pub(crate) fn by_rule(rule: Rule, promoted: bool) -> Why {
        Why::Rule { rule, not_tuned: NotTuned::NotAsked, promoted }
    }
}

/// Why a choice was made by rule and not by measured times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotTuned {
    /// The rule was asked for.
    NotAsked,
    /// There are no times of the simulator.
    Simulator,
    /// Measuring was asked for, but the simulator gives no times.
    NotMeasurable,
    /// Nothing was measured on such a GPU for the element type.
    NoTable,
    /// Nothing was measured that is near the problem's shape.
    NothingNear,
    /// Measuring at first use failed; the log says how.
    Failed,
    /// Times are of single products, and this is a batch.
    Batch,
    /// Times are of row-major factors, and no kernel that was measured on those, of which this is the fastest, has a
    /// twin for these layouts that the device can run.
    NoTwin(&'static str),
}

/// A choice by measured times.
#[derive(Clone, Copy, Debug)]
pub struct Tuned {
    /// Where the times come from.
    pub source: Source,
    /// The measured shape that is nearest to the problem's.
    pub nearest: Shape,
    /// Whether that is the very shape of the problem.
    pub exact: bool,
    /// The kernel for row-major factors and results of their type whose times these are, where they are not so: the
    /// chosen kernel is its twin for their layouts and types.
    pub twin_of: Option<&'static KernelInfo>,
    /// How long the product is expected to take on the device.
    pub predicted: Duration,
    /// The kernel that would have been next.
    pub runner_up: Option<RunnerUp>,
    /// Whether it was chosen among those that [promote](super::Problem::promoted) alone.
    pub promoted: bool,
}

/// The kernel that was nearly chosen.
#[derive(Clone, Copy, Debug)]
pub struct RunnerUp {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// Its expected time relative to that of the chosen one, less one. Slightly below zero where both are so close that
    /// the rule decided between them.
    pub slower: f64,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Asked => f.write_str("the kernel that was asked for"),
            Why::Custom => f.write_str("a kernel of the user's own"),
            Why::Precision(precision) => write!(f, "the kernel for precision {precision}"),
            Why::Rule { rule, not_tuned, promoted } => {
                write!(f, "{}{rule}{not_tuned}{}", among(*promoted), instead_of(*promoted))
            }
            Why::Tuned(tuned) => write!(f, "{tuned}{}", instead_of(tuned.promoted)),
        }
    }
}

/// What comes before the reason where not all kernels could be chosen.
fn among(promoted: bool) -> &'static str {
    if promoted { "of those that promote their sums: " } else { "" }
}

/// What comes after it then: what the others, which may be faster, do worse.
fn instead_of(promoted: bool) -> &'static str {
    if promoted { "; others cut off more of the sums" } else { "" }
}

impl fmt::Display for NotTuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotTuned::NoTwin(name) => {
                let why = "times are of row-major factors, and no kernel for those";
                return write!(
                    f,
                    " (by rule: {why}, such as {name}, has a twin for these layouts)"
                );
            }
            NotTuned::Batch => " (by rule: times are of single products, not of batches)",
            NotTuned::NotAsked => "",
            NotTuned::Simulator => " (by rule, as always on the simulator)",
            NotTuned::NotMeasurable => " (by rule: the simulator gives no times to tune by)",
            NotTuned::NoTable => " (by rule: nothing is tuned for this GPU, see `regemm tune`)",
            NotTuned::NothingNear => " (by rule: nothing near this shape is tuned)",
            NotTuned::Failed => " (by rule: measuring failed)",
        })
    }
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuned { source, nearest, exact, twin_of, predicted, runner_up, promoted } = self;
        f.write_str(among(*promoted))?;
        if let Some(kernel) = twin_of {
            write!(f, "the twin of {}, which was measured in its place: ", kernel.name)?;
        }
        write!(f, "the fastest by measured times ({source}, ")?;
        if *exact {
            f.write_str("of this very shape): ")?;
        } else {
            write!(f, "nearest {nearest}): expected ")?;
        }
        match predicted.as_secs_f64() {
            seconds if seconds >= 1.0 => write!(f, "{seconds:.3} s")?,
            seconds if seconds >= 1e-3 => write!(f, "{:.3} ms", seconds * 1e3)?,
            seconds => write!(f, "{:.2} us", seconds * 1e6)?,
        }
        match runner_up {
            None => Ok(()),
            Some(RunnerUp { kernel, slower }) if *slower <= 0.0 => {
                write!(f, ", {} as fast", kernel.name)
            }
            Some(RunnerUp { kernel, slower }) => {
                write!(f, ", {} {:.1} % slower", kernel.name, slower * 100.0)
            }
        }
    }
}
