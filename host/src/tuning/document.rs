//! Tables as JSON: the form of the cache, of shipped tables and of `regemm tune --output`.

use super::class::Shape;
use super::key::Key;
use super::table::{Entry, Table, Time};
use crate::kernels::{Types, kernels};
use regemm_kernels::kernel::{KernelInfo, Tile};
use regemm_kernels::layout::Layouts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of the form; another one means that the fields mean something else.
pub(super) const FORMAT: u32 = 1;

/// What is wrong with a document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It is no JSON, or JSON of another kind.
    #[error("it is damaged: {0}")]
    Json(#[from] serde_json::Error),
    /// It has another form.
    #[error("it has format {found} where {FORMAT} is understood")]
    Format {
        /// Number of its form.
        found: u32,
    },
    /// A number in it cannot be.
    #[error("it is damaged: {what}")]
    Value {
        /// What cannot be.
        what: String,
    },
}

/// Tables of different keys.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub tables: Vec<Stored>,
}

/// A table with its key.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub key: Key,
    /// Seconds since the beginning of 1970 at which the last entry was added.
    pub changed: u64,
    pub table: Table,
    /// Kernels named in the document that this library does not have, or has with another tile. Their times are left out.
    pub unknown: Vec<String>,
    /// The table as it was read, with all that the library that wrote it knew; none once it is another one.
    pub read: Option<Box<JsonTable>>,
}

#[derive(Deserialize)]
struct Header {
    format: u32,
}

#[derive(Deserialize)]
struct JsonDocument {
    tables: Vec<JsonTable>,
}

/// What other versions of this library note besides.
type Others = serde_json::Map<String, Value>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JsonTable {
    gpu: String,
    /// Zero where it was not noted, which no GPU has.
    #[serde(default)]
    multiprocessors: u32,
    driver: String,
    code: String,
    /// The [name](Types::name) of the element types.
    dtype: String,
    /// The [name](Layouts::name) of the layouts: row-major where it was not noted.
    #[serde(default = "row_major")]
    layouts: String,
    changed: u64,
    kernels: Vec<JsonKernel>,
    #[serde(flatten)]
    others: Others,
    /// The last field, so that each entry gets its line.
    entries: Vec<JsonEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct JsonKernel {
    name: String,
    /// BM, BN, BK, TM, TN, stages.
    tile: [u32; 6],
    #[serde(flatten)]
    others: Others,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct JsonEntry {
    /// m, n, k.
    shape: [u32; 3],
    aligned: bool,
    /// One a kernel, in the order of `kernels`.
    microseconds: Vec<Option<f64>>,
    #[serde(flatten)]
    others: Others,
}

fn row_major() -> String {
    Layouts::NN.name().to_owned()
}

fn tile(Tile { bm, bn, bk, tm, tn, stages }: Tile) -> [u32; 6] {
    [bm, bn, bk, tm, tn, stages]
}

impl Stored {
    /// A table of this library's kernels.
    pub fn new(key: Key, changed: u64, table: Table) -> Stored {
        Stored { key, changed, table, unknown: Vec::new(), read: None }
    }

    /// Adds times.
    pub fn merge(&mut self, table: &Table, changed: u64) {
        self.table.merge(table);
        self.changed = changed;
        self.unknown.clear();
        self.read = None;
    }
}

impl Document {
    /// Reads a document.
    pub fn decode(text: &str) -> Result<Document, Damage> {
        let Header { format: found } = serde_json::from_str(text)?;
        if found != FORMAT {
            return Err(Damage::Format { found });
        }
        let JsonDocument { tables } = serde_json::from_str(text)?;
        let tables = tables.into_iter().map(decode_table).collect::<Result<_, _>>()?;
        Ok(Document { tables })
    }

    /// Writes a document: a line an entry, so that people and version control can read it.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        let tables = self.tables.iter().map(encode_table).collect::<Result<Vec<_>, _>>()?;
        let tables = if tables.is_empty() {
            "[]".to_owned()
        } else {
            format!("[\n{}\n]", tables.join(",\n"))
        };
        Ok(format!("{{ \"format\": {FORMAT}, \"tables\": {tables} }}\n"))
    }
}

/// Tables measured on one device as a document: what [`shipped`](super::shipped) tables are made of.
///
/// # Errors
/// A number cannot be written as JSON.
pub fn encode(
    device: &crate::DeviceInfo,
    changed: u64,
    tables: &[Table],
) -> Result<String, serde_json::Error> {
    let key = |table: &Table| Key::of(device, table.types(), table.layouts());
    let stored = |table: &Table| Stored::new(key(table), changed, table.clone());
    Document { tables: tables.iter().map(stored).collect() }.encode()
}

/// A document with the times of another one of the same GPU, and of the same element types and layouts or others: of two times of a kernel on a shape the
/// [shorter](Table::merge_shorter), whichever the driver and the version of the kernels. Kernels that this library does not have are left out.
///
/// # Errors
/// What is wrong with one of them.
pub fn merge_shorter(known: &str, newer: &str) -> Result<String, Damage> {
    let mut document = Document::decode(known)?;
    for Stored { key, changed, table, .. } in Document::decode(newer)?.tables {
        let alike = |stored: &&mut Stored| {
            // Zero where it was not noted.
            let parts = [stored.key.multiprocessors, key.multiprocessors];
            stored.key.gpu == key.gpu
                && (stored.key.types, stored.key.layouts) == (key.types, key.layouts)
                && (parts[0] == parts[1] || parts.contains(&0))
        };
        let known = document.tables.iter_mut().find(alike);
        let mut merged = match &known {
            Some(known) => known.table.clone(),
            None => Table::in_layouts(key.types, key.layouts),
        };
        merged.merge_shorter(&table);
        let stored = Stored::new(key, changed, merged);
        match known {
            Some(known) => *known = stored,
            None => document.tables.push(stored),
        }
    }
    Ok(document.encode()?)
}

fn decode_table(json: JsonTable) -> Result<Stored, Damage> {
    let types = Types::ALL.into_iter().find(|types| types.name() == json.dtype);
    let types = types.ok_or_else(|| value(format!("there is no element type {}", json.dtype)))?;
    let layouts = Layouts::ALL.into_iter().find(|layouts| layouts.name() == json.layouts);
    let layouts = layouts.ok_or_else(|| value(format!("there are no layouts {}", json.layouts)))?;
    let find = |kernel: &JsonKernel| {
        let same = |known: &&KernelInfo| {
            (Types::of(known), known.layouts) == (types, layouts)
                && known.name == kernel.name
                && tile(known.tile) == kernel.tile
        };
        kernels().iter().find(same)
    };
    let columns: Vec<Option<&'static KernelInfo>> = json.kernels.iter().map(find).collect();
    let mut table = Table::in_layouts(types, layouts);
    for entry in &json.entries {
        let [m, n, k] = entry.shape;
        let shape = Shape { m, n, k, aligned: entry.aligned };
        if entry.microseconds.len() != columns.len() {
            return Err(value(format!("{shape} has another number of times than of kernels")));
        }
        let mut times = Vec::with_capacity(columns.len());
        for (kernel, micros) in columns.iter().zip(&entry.microseconds) {
            let Some(micros) = *micros else { continue };
            if !(micros.is_finite() && micros > 0.0) {
                return Err(value(format!("a time of {micros} us on {shape}")));
            }
            times.extend(kernel.map(|kernel| Time { kernel, seconds: micros * 1e-6 }));
        }
        table.insert(Entry { shape, times });
    }
    let unknown = json.kernels.iter().zip(&columns).filter(|(_, known)| known.is_none());
    let (gpu, driver, code) = (json.gpu.clone(), json.driver.clone(), json.code.clone());
    Ok(Stored {
        key: Key { gpu, multiprocessors: json.multiprocessors, driver, code, types, layouts },
        changed: json.changed,
        unknown: unknown.map(|(kernel, _)| kernel.name.clone()).collect(),
        table,
        read: Some(Box::new(json)),
    })
}

impl JsonTable {
    fn new(Stored { key, changed, table, .. }: &Stored) -> JsonTable {
        let columns = table.kernels();
        let kernel = |kernel: &&KernelInfo| JsonKernel {
            name: kernel.name.to_owned(),
            tile: tile(kernel.tile),
            others: Others::new(),
        };
        // To the nanosecond, which is finer than events are.
        let micros = |seconds: f64| (seconds * 1e9).round().max(1.0) / 1e3;
        let entry = |entry: &Entry| {
            let Shape { m, n, k, aligned } = entry.shape;
            let times = columns.iter().map(|kernel| entry.seconds(kernel).map(micros));
            let (microseconds, others) = (times.collect(), Others::new());
            JsonEntry { shape: [m, n, k], aligned, microseconds, others }
        };
        JsonTable {
            gpu: key.gpu.clone(),
            multiprocessors: key.multiprocessors,
            driver: key.driver.clone(),
            code: key.code.clone(),
            dtype: key.types.name().to_owned(),
            layouts: key.layouts.name().to_owned(),
            changed: *changed,
            kernels: columns.iter().map(kernel).collect(),
            others: Others::new(),
            entries: table.entries().map(entry).collect(),
        }
    }
}

fn encode_table(stored: &Stored) -> Result<String, serde_json::Error> {
    let mut json = match &stored.read {
        Some(read) => JsonTable::clone(read),
        None => JsonTable::new(stored),
    };
    let entries = std::mem::take(&mut json.entries);
    let entries = entries.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    let head = serde_json::to_string(&json)?;
    let (head, entries) = (head.strip_suffix("]}").unwrap_or(&head), entries.join(",\n"));
    Ok(format!("{head}\n{entries}\n]}}"))
}

fn value(what: String) -> Damage {
    Damage::Value { what }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::entry;
    use super::*;
    use regemm_kernels::element::Dtype;

    fn document() -> Document {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((128, 256, 512), &[("naive_f32", 12.3456), ("tiled16_f32", 7.0)]));
        table.insert(entry((1, 1023, 77), &[("tiled16_f32", 3.5)]));
        let key = Key {
            gpu: "NVIDIA \"quoted\"".into(),
            multiprocessors: 132,
            driver: "CUDA 13.0".into(),
            code: "0123456789abcdef".into(),
            types: Dtype::F32.into(),
            layouts: Layouts::NN,
        };
        Document { tables: vec![Stored::new(key, 7, table)] }
    }

    #[test]
    fn round_trip() {
        let text = document().encode().unwrap();
        let again = Document::decode(&text).unwrap();
        assert_eq!(again.encode().unwrap(), text);
        let stored = &again.tables[0];
        assert_eq!((&stored.key, stored.changed), (&document().tables[0].key, 7));
        assert_eq!(stored.table.len(), 2);
        let entry = stored.table.get(Shape::packed(Dtype::F32, 128, 256, 512)).unwrap();
        assert!((entry.seconds(kernels().first().unwrap()).unwrap() - 12.346e-6).abs() < 1e-12);
        let odd = stored.table.get(Shape::packed(Dtype::F32, 1, 1023, 77)).unwrap();
        assert_eq!((odd.times.len(), odd.shape.aligned), (1, false));
    }

    #[test]
    fn no_tables_are_a_document_too() {
        let text = Document::default().encode().unwrap();
        assert!(Document::decode(&text).unwrap().tables.is_empty());
        let mut empty = document();
        empty.tables[0].table = Table::new(Dtype::F32);
        let again = Document::decode(&empty.encode().unwrap()).unwrap();
        assert!(again.tables[0].table.is_empty());
    }

    #[test]
    fn damage_is_named() {
        let good = document().encode().unwrap();
        let damaged = |from: &str, to: &str| {
            assert!(good.contains(from), "{good}");
            Document::decode(&good.replace(from, to)).unwrap_err().to_string()
        };
        for cut in [0, 1, good.len() / 2, good.len() - 3] {
            let error = Document::decode(&good[..cut]).unwrap_err();
            assert!(matches!(error, Damage::Json(_)), "{error}");
        }
        assert!(damaged("\"format\": 1", "\"format\": 2").contains("format 2"));
        assert!(damaged("\"f32\"", "\"f31\"").contains("f31"));
        assert!(damaged("\"nn\"", "\"nm\"").contains("nm"));
        assert!(damaged("12.346", "-12.346").contains("-12.346"));
        assert!(damaged("12.346", "0").contains("0 us"));
        assert!(damaged("12.346,", "").contains("128 x 256 x 512"));
        assert!(damaged("\"shape\"", "\"form\"").contains("shape"));
    }

    #[test]
    fn kernels_with_another_tile_are_unknown() {
        let good = document().encode().unwrap();
        let text = good.replace("[16,16,16,1,1,1]", "[16,16,32,1,1,1]");
        assert_ne!(good, text);
        let stored = &Document::decode(&text).unwrap().tables[0];
        assert_eq!(stored.unknown, ["tiled16_f32"]);
        assert_eq!(stored.table.len(), 1, "an entry with no known kernel is none");
    }

    #[test]
    fn a_newer_document_is_merged_by_gpu_and_types() {
        let later = |types: Dtype, names: &[(&str, f64)]| {
            let mut table = Table::new(types);
            table.insert(entry((128, 256, 512), names));
            let key = Key {
                driver: "CUDA 13.1".into(),
                types: types.into(),
                ..document().tables[0].key.clone()
            };
            Document { tables: vec![Stored::new(key, 9, table)] }.encode().unwrap()
        };
        let known = document().encode().unwrap();
        let times = [("naive_f32", 12.0), ("tiled16_f32", 8.0)];
        let text = merge_shorter(&known, &later(Dtype::F32, &times)).unwrap();
        let text = merge_shorter(&text, &later(Dtype::F64, &[("naive_f64", 5.0)])).unwrap();
        let tables = Document::decode(&text).unwrap().tables;
        assert_eq!(tables.len(), 2);
        assert_eq!((tables[0].key.driver.as_str(), tables[0].changed), ("CUDA 13.1", 9));
        assert_eq!((tables[0].table.len(), tables[1].table.len()), (2, 1));
        let entry = tables[0].table.get(Shape::packed(Dtype::F32, 128, 256, 512)).unwrap();
        let micros = Vec::from_iter(entry.times.iter().map(|time| (time.seconds * 1e6).round()));
        assert_eq!(micros, [12.0, 7.0]);
        assert!(merge_shorter(&known, "{").is_err() && merge_shorter("{", &known).is_err());
    }

    /// Documents of earlier versions are of row-major factors and do not say so.
    #[test]
    fn tables_are_of_layouts() {
        let (wide, layouts) = (Types::same(Dtype::Bf16), Layouts::NT);
        let mut table = Table::in_layouts(wide, layouts);
        table.insert(entry((256, 256, 256), &[("warpgroup_nt_bf16", 9.0)]));
        let key = Key { types: wide, layouts, ..document().tables[0].key.clone() };
        let text = Document { tables: vec![Stored::new(key, 7, table)] }.encode().unwrap();
        let stored = &Document::decode(&text).unwrap().tables[0];
        assert_eq!((stored.key.layouts, stored.table.layouts()), (layouts, layouts));
        assert_eq!(stored.table.len(), 1);
        let unnamed = text.replace("\"layouts\":\"nt\",", "");
        assert_ne!(unnamed, text);
        let stored = &Document::decode(&unnamed).unwrap().tables[0];
        assert_eq!(
            (stored.key.layouts, stored.unknown.len()),
            (Layouts::NN, 1),
            "its kernel is another"
        );
        let merged = merge_shorter(&unnamed, &text).unwrap();
        assert_eq!(Document::decode(&merged).unwrap().tables.len(), 2, "tables of their own");
    }

    #[test]
    fn kernels_of_the_same_factors_with_other_results_are_unknown() {
        let wide = Types { factors: Dtype::Bf16, results: Dtype::F32 };
        let mut table = Table::new(wide);
        table.insert(entry((256, 256, 256), &[("warpgroup_bf16_f32", 9.0)]));
        let key = Key { types: wide, ..document().tables[0].key.clone() };
        let text = Document { tables: vec![Stored::new(key, 7, table)] }.encode().unwrap();
        let stored = &Document::decode(&text).unwrap().tables[0];
        assert_eq!((stored.key.types, stored.table.types(), stored.table.len()), (wide, wide, 1));
        let text = text.replace("warpgroup_bf16_f32", "warpgroup_bf16");
        assert_eq!(Document::decode(&text).unwrap().tables[0].unknown, ["warpgroup_bf16"]);
    }
}
