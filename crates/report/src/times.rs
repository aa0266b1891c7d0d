//! Measured times as the library keeps them: what `regemm tune --output` writes, and what ships with it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tables of a file, which are all of one GPU.
#[derive(Deserialize)]
pub(crate) struct Tables {
    tables: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    gpu: String,
    #[serde(default)]
    multiprocessors: u32,
    dtype: String,
    /// Row-major where it was not noted.
    #[serde(default)]
    layouts: String,
    kernels: Vec<Kernel>,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Kernel {
    name: String,
}

#[derive(Deserialize)]
struct Entry {
    /// Rows, columns and depth.
    shape: [u32; 3],
    aligned: bool,
    /// In the order of the kernels; none of those that have no time on this shape.
    microseconds: Vec<Option<f64>>,
}

impl Tables {
    /// The same in the form that `regemm tune --json` prints after measuring.
    pub fn as_printed(&self) -> Value {
        let gpu = self.tables.first();
        json!({
            "command": "tune",
            "device": gpu.map(|gpu| json!({ "name": gpu.gpu, "multiprocessors": gpu.multiprocessors })),
            "dtype": gpu.map(|gpu| &gpu.dtype),
            "tables": self.tables.iter().map(Table::as_printed).collect::<Vec<_>>(),
        })
    }
}

impl Table {
    fn as_printed(&self) -> Value {
        json!({
            "dtype": self.dtype,
            "layouts": self.layouts,
            "entries": self.entries.iter().map(|entry| self.entry(entry)).collect::<Vec<_>>(),
        })
    }

    fn entry(&self, entry: &Entry) -> Value {
        let [m, n, k] = entry.shape;
        let times = self.kernels.iter().zip(&entry.microseconds);
        let times: Vec<(&str, f64)> = times
            .filter_map(|(kernel, time)| Some((kernel.name.as_str(), time.as_ref()? / 1e6)))
            .collect();
        let fastest = times.iter().min_by(|(_, one), (_, other)| one.total_cmp(other));
        let seconds: Map<String, Value> =
            times.iter().map(|&(name, seconds)| (name.to_owned(), seconds.into())).collect();
        json!({
            "m": m, "n": n, "k": k, "aligned": entry.aligned,
            "seconds": seconds,
            "fastest": fastest.map(|(name, _)| name),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::document::Document;
    use crate::section::Section;

    #[test]
    fn kept_times_are_shown_as_those_that_were_just_measured() {
        let text = r#"{ "format": 1, "tables": [
            {"gpu": "NVIDIA Imaginary", "multiprocessors": 10, "driver": "1", "code": "2", "dtype": "f16", "layouts": "nt",
             "changed": 3, "kernels": [{"name": "a", "tile": [1, 1, 1, 1, 1, 0]}, {"name": "b", "tile": [2, 2, 2, 1, 1, 0]}],
             "entries": [{"shape": [8, 9, 10], "aligned": true, "microseconds": [2.5, 1.5]},
                         {"shape": [8, 9, 11], "aligned": false, "microseconds": [2.5, null]},
                         {"shape": [8, 9, 12], "aligned": true, "microseconds": [4.5, 1.5]}]}
        ] }"#;
        let section = Section::new(&Document::parse(text).unwrap());
        assert_eq!(section.title, "Measured times for the choice of kernels on NVIDIA Imaginary");
        assert_eq!(section.tables[0].title, "Fastest kernels in f16 nt");
        assert_eq!(section.tables[0].rows, [["b", "2"], ["a", "1"]]);
    }
}
