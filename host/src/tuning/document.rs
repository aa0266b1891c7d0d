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
    Json(serde_json::Error),
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

/// Not a source: the message has all of it.
impl From<serde_json::Error> for Damage {
    fn from(error: serde_json::Error) -> Self {
        Damage::Json(error)
    }
}

/// Tables of different keys.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub tables: Vec<Stored>,
    /// Tables of element types or layouts that this library does not have, as they were read.
    pub others: Vec<JsonTable>,
}

/// A table with its key.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub key: Key,
    /// Seconds since the beginning of 1970 at which the last entry was added.
    pub changed: u64,
    pub table: Table,
    /// Kernels named in the document that this library does not have, or has with another tile. Their times are left
    /// out.
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
        let mut document = Document::default();
        let JsonDocument { tables } = serde_json::from_str(text)?;
        for json in tables {
            match (json.types(), json.layouts()) {
                (Some(types), Some(layouts)) => {
                    document.tables.push(decode_table(json, types, layouts)?);
                }
                _ => document.others.push(json),
            }
        }
        Ok(document)
    }

    /// Writes a document: a line an entry, so that people and version control can read it.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        let ours = self.tables.iter().map(|stored| match &stored.read {
            Some(read) => JsonTable::clone(read),
            None => JsonTable::new(stored),
        });
        let all = ours.chain(self.others.iter().cloned());
        let tables = all.map(encode_table).collect::<Result<Vec<_>, _>>()?;
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
    Document { tables: tables.iter().map(stored).collect(), others: Vec::new() }.encode()
}

/// A document with the times of another one of the same GPU, and of the same element types and layouts or others: of
/// two times of a kernel on a shape the [shorter](Table::merge_shorter), whichever the driver and the version of the
/// kernels. Kernels that this library does not have are left out; tables of types and layouts that it does not have
/// stay as they are.
///
/// # Errors
/// What is wrong with one of them; also where the newer one has tables of types or layouts that this library does not
/// have, and cannot merge.
pub fn merge_shorter(known: &str, newer: &str) -> Result<String, Damage> {
    let mut document = Document::decode(known)?;
    let newer = Document::decode(newer)?;
    if let Some(JsonTable { dtype, layouts, .. }) = newer.others.first() {
        return Err(value(format!("there are no kernels of {dtype} in layouts {layouts}")));
    }
    for Stored { key, changed, table, .. } in newer.tables {
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

fn decode_table(json: JsonTable, types: Types, layouts: Layouts) -> Result<Stored, Damage> {
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
    /// Its element types, if this library has them.
    fn types(&self) -> Option<Types> {
        Types::ALL.into_iter().find(|types| types.name() == self.dtype)
    }

    /// Its layouts, likewise.
    fn layouts(&self) -> Option<Layouts> {
        Layouts::ALL.into_iter().find(|layouts| layouts.name() == self.layouts)
    }

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

fn encode_table(mut json: JsonTable) -> Result<String, serde_json::Error> {
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
mod tests;
