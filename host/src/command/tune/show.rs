//! What the tables hold, and removing them.

use super::super::eprintln_quietly;
use super::super::exit::Failure;
use super::super::output::{Output, table};
use regemm::kernels::Types;
use regemm::tuning::cache::{Cache, Cached, CachedFile};
use regemm::tuning::{Key, Table, shipped};
use regemm::{Device, Layouts};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A table that there is.
struct Found {
    key: Option<Key>,
    gpu: String,
    types: Types,
    layouts: Layouts,
    entries: usize,
    kernels: usize,
    /// Whether the device's choices use it.
    used: bool,
    /// The file; none for one that is shipped.
    path: Option<PathBuf>,
    /// Seconds since the beginning of 1970.
    changed: Option<u64>,
}

impl Found {
    fn new(gpu: &str, table: &Table, used: bool) -> Found {
        Found {
            key: None,
            gpu: gpu.to_owned(),
            types: table.types(),
            layouts: table.layouts(),
            entries: table.len(),
            kernels: table.kernels().len(),
            used,
            path: None,
            changed: None,
        }
    }

    fn cached(device: &Device, path: &Path, cached: Cached) -> Found {
        let Cached { key, changed, table } = cached;
        let used = !device.is_sim() && Key::of(device.info(), key.types, key.layouts) == key;
        let (path, changed) = (Some(path.to_owned()), Some(changed));
        Found { path, changed, key: Some(key.clone()), ..Found::new(&key.gpu, &table, used) }
    }

    fn json(&self) -> Value {
        json!({
            "gpu": self.gpu,
            "dtype": self.types.name(),
            "layouts": self.layouts.name(),
            "source": if self.path.is_some() { "measured" } else { "shipped" },
            "file": self.path.as_ref().map(|path| path.display().to_string()),
            "multiprocessors": self.key.as_ref().map(|key| key.multiprocessors),
            "driver": self.key.as_ref().map(|key| &key.driver),
            "code": self.key.as_ref().map(|key| &key.code),
            "changed": self.changed,
            "shapes": self.entries,
            "kernels": self.kernels,
            "used": self.used,
        })
    }

    fn row(&self) -> Vec<String> {
        let driver = self.key.as_ref().map_or("any driver", |key| &key.driver);
        vec![
            self.gpu.clone(),
            self.types.name().to_owned(),
            self.layouts.name().to_owned(),
            if self.path.is_some() { "measured" } else { "shipped" }.to_owned(),
            driver.to_owned(),
            self.entries.to_string(),
            self.kernels.to_string(),
            if self.used { "yes" } else { "no" }.to_owned(),
        ]
    }
}

/// Shows all tables.
pub fn show(device: &Device, cache: &Cache, output: &mut Output) -> Result<(), Failure> {
    let mut found = Vec::new();
    for gpu in shipped::gpus() {
        let used =
            |table: &Table| shipped::is_used_by(device.info(), gpu, table.types(), table.layouts());
        let tables = shipped::tables(gpu).into_iter();
        found.extend(tables.map(|table| Found::new(gpu, &table, used(&table))));
    }
    let mut damaged = Vec::new();
    for CachedFile { path, tables } in cache.contents()? {
        match tables {
            Ok(tables) => {
                found.extend(tables.into_iter().map(|cached| Found::cached(device, &path, cached)))
            }
            Err(error) => {
                eprintln_quietly(format_args!("regemm: warning: {error}"));
                damaged.push(error.to_string());
            }
        }
    }
    let own = cache.file(&device.info().name);
    output.document(&json!({
        "command": "tune",
        "device": device.info().name,
        "policy": device.tuning().name(),
        "file": (!device.is_sim()).then(|| own.display().to_string()),
        "tables": found.iter().map(Found::json).collect::<Vec<_>>(),
        "damaged": damaged,
    }))?;
    output.text(format_args!("{}, choosing by {}", device.info().name, device.tuning()))?;
    if device.is_sim() {
        output.text("The simulator gives no times, so kernels are chosen by rule.")?;
    } else {
        output.text(format_args!("times go to {}", own.display()))?;
    }
    if found.is_empty() {
        return output.text("There are no tables yet: regemm tune makes one.");
    }
    let heading = ["GPU", "type", "layouts", "times", "driver", "shapes", "kernels", "used here"];
    output.text(table(&heading, found.iter().map(Found::row)))
}

/// Removes the device's times from the cache; all GPUs' on the simulator.
pub fn clear(device: &Device, cache: &Cache, output: &mut Output) -> Result<(), Failure> {
    let gpu = (!device.is_sim()).then_some(device.info().name.as_str());
    let removed = cache.clear(gpu)?;
    let shown: Vec<_> = removed.iter().map(|path| path.display().to_string()).collect();
    output.document(&json!({ "command": "tune", "removed": shown }))?;
    if shown.is_empty() {
        return output.text("There was nothing to remove.");
    }
    shown.iter().try_for_each(|path| output.text(format_args!("removed {path}")))
}
