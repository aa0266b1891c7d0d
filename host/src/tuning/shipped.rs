//! The tables that this library brings for known GPUs.
//!
//! Made on the GPU by `regemm tune --output host/src/tuning/shipped/<gpu>.json`. They hold for other drivers and for kernels
//! whose code has changed as well, only less exactly, so it is the cache that knows better where both have times.

use super::document::{Document, Stored};
use super::table::Table;
use regemm_kernels::element::Dtype;

/// Names of GPUs as the driver gives them, and the documents of their tables.
static DOCUMENTS: &[(&str, &str)] = &[("NVIDIA H200", include_str!("shipped/nvidia-h200.json"))];

/// The GPUs for which there are tables, by the names that the driver gives them.
pub fn gpus() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.iter().map(|(gpu, _)| *gpu)
}

/// The table for a GPU, by the name that the driver gives it.
pub fn table(gpu: &str, dtype: Dtype) -> Option<Table> {
    let found = stored(gpu).into_iter().find(|stored| stored.key.dtype == dtype)?;
    if !found.unknown.is_empty() {
        log::debug!("the table shipped for {gpu} has stale kernels: {}", found.unknown.join(", "));
    }
    (!found.table.is_empty()).then_some(found.table)
}

fn stored(gpu: &str) -> Vec<Stored> {
    let Some((_, text)) = DOCUMENTS.iter().find(|(name, _)| *name == gpu) else {
        return Vec::new();
    };
    match Document::decode(text) {
        Ok(document) => document.tables,
        Err(damage) => {
            log::warn!("the table shipped for {gpu} is ignored: {damage}");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A table that names kernels or tiles that are no more is stale: it has to be made anew on the GPU.
    #[test]
    fn shipped_tables_are_of_this_librarys_kernels() {
        for (gpu, text) in DOCUMENTS {
            let document =
                Document::decode(text).unwrap_or_else(|damage| panic!("{gpu}: {damage}"));
            let mut dtypes = HashSet::new();
            for Stored { key, table, unknown, .. } in document.tables {
                assert_eq!(key.gpu, *gpu);
                assert!(dtypes.insert(key.dtype), "{gpu} has {} twice", key.dtype);
                assert_eq!(unknown, [""; 0], "stale kernels in the table of {key}");
                assert!(!table.is_empty(), "{key}: no entries");
                for entry in table.entries() {
                    assert!(entry.times.len() > 1, "{key}: nothing to choose on {}", entry.shape);
                }
            }
        }
    }

    #[test]
    fn other_gpus_have_no_table() {
        assert!(table("NVIDIA Imaginary", Dtype::F32).is_none());
        assert_eq!(gpus().collect::<HashSet<_>>().len(), DOCUMENTS.len());
    }
}
