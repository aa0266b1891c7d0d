//! How kernels are chosen.

use std::fmt;
use std::str::FromStr;

/// The environment variable that says how kernels are chosen on devices that are not told otherwise: `rule`, `table` or
/// `first-use`.
pub const TUNING_VARIABLE: &str = "REGEMM_TUNING";

/// How the library chooses a kernel where none is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tuning {
    /// By rule: see [`rank`](crate::kernels::rank).
    Rule,
    /// By measured times where there are some, else by rule.
    #[default]
    Table,
    /// By measured times; where a shape's class has none yet, its first product measures all kernels (about a second),
    /// and the times are kept in the user's cache folder. That waits for all work on the device, allocates and copies,
    /// so that nothing on the device may be captured in a CUDA graph meanwhile, on whatever stream;
    /// [`Gemm::workspace_size`](crate::Gemm::workspace_size) is a first use as well.
    ///
    /// As with [`Table`](Tuning::Table), and nothing is measured, for batches, for a
    /// [rung](crate::KernelChoice::Rung) that is asked for, for products that would take too long (of more than 2^39
    /// multiplications), and in other precisions of f32 than [`Precision::Exact`](crate::Precision::Exact).
    FirstUse,
}

impl Tuning {
    /// All ways.
    pub const ALL: [Tuning; 3] = [Tuning::Rule, Tuning::Table, Tuning::FirstUse];

    /// The name in text: `rule`, `table`, `first-use`.
    pub const fn name(self) -> &'static str {
        match self {
            Tuning::Rule => "rule",
            Tuning::Table => "table",
            Tuning::FirstUse => "first-use",
        }
    }

    /// What the environment says; the default, with a warning, where it says something that there is not.
    pub(super) fn from_environment() -> Tuning {
        let Some(text) = std::env::var_os(TUNING_VARIABLE).filter(|text| !text.is_empty()) else {
            return Tuning::default();
        };
        text.to_string_lossy().parse().unwrap_or_else(|error: InvalidTuning| {
            log::warn!("{TUNING_VARIABLE}: {error}; taken as `{}`", Tuning::default());
            Tuning::default()
        })
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Text that names no way of choosing kernels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of `rule`, `table` and `first-use`")]
pub struct InvalidTuning(String);

impl FromStr for Tuning {
    type Err = InvalidTuning;

    fn from_str(text: &str) -> Result<Self, InvalidTuning> {
        let known = Tuning::ALL.into_iter().find(|tuning| tuning.name() == text);
        known.ok_or_else(|| InvalidTuning(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for tuning in Tuning::ALL {
            assert_eq!(tuning.to_string().parse(), Ok(tuning));
        }
        let error = "always".parse::<Tuning>().unwrap_err().to_string();
        for tuning in Tuning::ALL {
            assert!(error.contains("always") && error.contains(tuning.name()), "{error}");
        }
    }
}
