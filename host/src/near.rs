//! Names like one that does not exist, for error messages that suggest what was meant.

/// Names in an error message that suggests others.
const SUGGESTIONS: usize = 3;

/// Least likeness of a name that is worth suggesting (Jaro and Winkler's measure; 1 is equality).
const LIKENESS: f64 = 0.75;

/// The candidates that are most like a name, best first; none where nothing is like it.
pub(crate) fn near(
    name: &str,
    candidates: impl IntoIterator<Item = &'static str>,
) -> Vec<&'static str> {
    let mut names: Vec<_> = candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    names.dedup_by_key(|(_, candidate)| *candidate);
    names.into_iter().take(SUGGESTIONS).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_names_come_first_and_once() {
        let names = ["tiled16", "tiled32", "naive", "tiled16", "tiled16_f32"];
        assert_eq!(near("tiled61", names), ["tiled16", "tiled16_f32", "tiled32"]);
        assert_eq!(near("xyz", names), [""; 0]);
    }
}
