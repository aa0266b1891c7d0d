//! What a benchmark was told, so that its record can be made again.

use serde::{Deserialize, Serialize};

/// What a run was told. All of it is absent in records from before it was kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The benchmark's arguments, as far as they say what is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The seed of the operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How the library chose kernels, where it was to choose: `rule`, `table` or `first-use`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<String>,
}

impl Settings {
    /// The line of a page that tells what this benchmark was told, as far as the record says.
    pub(crate) fn line(&self, benchmark: &str) -> Option<String> {
        let Settings { arguments, seed, tuning } = self;
        let command = arguments.as_ref().map(|arguments| match arguments.as_str() {
            "" => format!("`cargo bench --bench {benchmark}`"),
            arguments => format!("`cargo bench --bench {benchmark} -- {arguments}`"),
        });
        let seed = seed.map(|seed| format!("seed {seed}"));
        let tuning = tuning.as_ref().map(|tuning| format!("`REGEMM_TUNING={tuning}`"));
        let all: Vec<String> = [command, seed, tuning].into_iter().flatten().collect();
        (!all.is_empty()).then(|| format!("- made by {}", all.join(", ")))
    }
}
