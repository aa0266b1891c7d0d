//! The tables that this library brings for known GPUs.
//!
//! Made on the GPU by `regemm tune --output host/src/tuning/shipped/<gpu>.json --merge`, more than once: of a kernel's times on a shape the shortest
//! counts. They hold for other drivers and for kernels whose code has changed as well, only less exactly, so it is the cache that
//! knows better where both have times.
//!
//! Not all is measured on the GPU itself: the H200's times of `warpgroup_fitted_tall` are worked out from what it takes of other kernels'
//! times on an H100, and times that cannot be, since a sample had to wait for the host, are left out. What was done is in
//! `docs/measurements/half-log.md`.
//!
//! A GPU without times of some element types takes those of another of its compute capability: which kernel is fastest depends most on the
//! architecture, and on how a product's tiles come out on the multiprocessors, which can be worked out (`model.rs`). That is nearer to the truth than
//! the [rule](crate::kernels::rank) (`docs/measurements/2026-11-24-hopper-borrowed-tables.md`).

use super::document::{Document, Stored};
use super::table::{Measured, Source, Table};
use crate::device::info::DeviceInfo;
use crate::kernels::Types;
use regemm_kernels::layout::Layouts;
use std::sync::OnceLock;

/// A GPU and the document of its tables.
struct Shipped {
    /// Its name as the driver gives it.
    gpu: &'static str,
    compute_capability: (u32, u32),
    multiprocessors: u32,
    document: &'static str,
    /// What is in the document, which is read once, when it is first needed.
    tables: OnceLock<Vec<Table>>,
}

static DOCUMENTS: [Shipped; 2] = [
    Shipped {
        gpu: "NVIDIA H100 80GB HBM3",
        compute_capability: (9, 0),
        multiprocessors: 132,
        document: include_str!("shipped/nvidia-h100-80gb-hbm3.json"),
        tables: OnceLock::new(),
    },
    Shipped {
        gpu: "NVIDIA H200",
        compute_capability: (9, 0),
        multiprocessors: 132,
        document: include_str!("shipped/nvidia-h200.json"),
        tables: OnceLock::new(),
    },
];

/// The GPUs for which there are tables, by the names that the driver gives them.
pub fn gpus() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.iter().map(|shipped| shipped.gpu)
}

impl Shipped {
    fn tables(&self) -> &[Table] {
        self.tables.get_or_init(|| self.decode())
    }

    fn decode(&self) -> Vec<Table> {
        let gpu = self.gpu;
        let table = |Stored { unknown, table, .. }: Stored| {
            if !unknown.is_empty() {
                log::debug!("a table shipped for {gpu} has stale kernels: {}", unknown.join(", "));
            }
            (!table.is_empty()).then_some(table)
        };
        match Document::decode(self.document) {
            Ok(document) => document.tables.into_iter().filter_map(table).collect(),
            Err(damage) => {
                log::warn!("the table shipped for {gpu} is ignored: {damage}");
                Vec::new()
            }
        }
    }
}

/// The tables for a GPU, by the name that the driver gives it: at most one for element types and layouts, and none without entries.
pub fn tables(gpu: &str) -> Vec<Table> {
    of_gpu(gpu).to_vec()
}

/// That of row-major factors.
pub fn table(gpu: &str, types: impl Into<Types>) -> Option<Table> {
    let types = types.into();
    let is_asked_for = |table: &&Table| (table.types(), table.layouts()) == (types, Layouts::NN);
    of_gpu(gpu).iter().find(is_asked_for).cloned()
}

fn of_gpu(gpu: &str) -> &'static [Table] {
    DOCUMENTS.iter().find(|shipped| shipped.gpu == gpu).map_or(&[], Shipped::tables)
}

/// The tables of some element types that a device takes, one for layouts.
#[derive(Clone, Debug)]
pub(super) struct ShippedTables {
    source: Source,
    multiprocessors: u32,
    tables: Vec<&'static Table>,
}

impl ShippedTables {
    pub fn measured(&self) -> impl Iterator<Item = Measured<'_>> {
        let ShippedTables { source, multiprocessors, ref tables } = *self;
        tables.iter().map(move |&table| Measured { source, multiprocessors, table })
    }
}

/// The GPU whose tables of these element types a device takes: itself, or else, of those that have one, that of the same compute capability whose number
/// of multiprocessors is nearest.
pub fn used_by(device: &DeviceInfo, types: impl Into<Types>) -> Option<&'static str> {
    of_device(device, types.into()).map(|(shipped, _)| shipped.gpu)
}

/// Times in other layouts count beside those of row-major factors alone.
fn of_device(device: &DeviceInfo, types: Types) -> Option<(&'static Shipped, Vec<&'static Table>)> {
    let alike = |shipped: &&Shipped| {
        shipped.gpu == device.name || Some(shipped.compute_capability) == device.compute_capability
    };
    let mut candidates = Vec::from_iter(DOCUMENTS.iter().filter(alike));
    candidates.sort_by_key(|shipped| {
        let distance = shipped.multiprocessors.abs_diff(device.multiprocessors);
        (shipped.gpu != device.name, distance)
    });
    candidates.into_iter().find_map(|shipped| {
        let of_types = shipped.tables().iter().filter(|table| table.types() == types);
        let tables = Vec::from_iter(of_types);
        let has_row_major = tables.iter().any(|table| table.layouts() == Layouts::NN);
        has_row_major.then_some((shipped, tables))
    })
}

/// The tables that a device takes.
pub(super) fn for_device(device: &DeviceInfo, types: impl Into<Types>) -> Option<ShippedTables> {
    let (&Shipped { gpu, multiprocessors, .. }, tables) = of_device(device, types.into())?;
    // A part of a GPU has its name and fewer multiprocessors.
    let is_own = gpu == device.name && multiprocessors == device.multiprocessors;
    let source = if is_own { Source::Shipped } else { Source::Alike };
    Some(ShippedTables { source, multiprocessors, tables })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use regemm_kernels::element::Dtype;
    use std::collections::HashSet;

    /// A table that names kernels or tiles that are no more is stale: it has to be made anew on the GPU.
    #[test]
    fn shipped_tables_are_of_this_librarys_kernels() {
        for Shipped { gpu, document: text, .. } in &DOCUMENTS {
            let document =
                Document::decode(text).unwrap_or_else(|damage| panic!("{gpu}: {damage}"));
            assert!(document.others.is_empty(), "{gpu}: types or layouts that there are not");
            let mut of_types = HashSet::new();
            for Stored { key, table, unknown, .. } in document.tables {
                assert_eq!(key.gpu, *gpu);
                let kind = (key.types, key.layouts);
                assert!(of_types.insert(kind), "{gpu} has {} {} twice", key.types, key.layouts);
                assert_eq!(unknown, [""; 0], "stale kernels in the table of {key}");
                assert!(!table.is_empty(), "{key}: no entries");
                for entry in table.entries() {
                    assert!(entry.times.len() > 1, "{key}: nothing to choose on {}", entry.shape);
                }
            }
        }
    }

    #[test]
    fn gpus_of_an_architecture_take_the_table_of_one_another() {
        let of_types = |device: &DeviceInfo, types: Types| {
            for_device(device, types).map(|found| {
                assert!(
                    found.measured().all(|table| table.multiprocessors == 132),
                    "where it was measured"
                );
                (used_by(device, types).unwrap(), found.source)
            })
        };
        let of = |device: DeviceInfo| of_types(&device, Dtype::Bf16.into());
        let (h100, pcie) = ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe");
        let named = |name: &str| DeviceInfo { name: name.into(), ..h200() };
        assert_eq!(of(h200()), Some(("NVIDIA H200", Source::Shipped)));
        assert_eq!(of(named(h100)), Some((h100, Source::Shipped)));
        let fewer = |count, device| DeviceInfo { multiprocessors: count, ..device };
        assert_eq!(of(fewer(114, named(pcie))).unwrap().1, Source::Alike);
        assert_eq!(of(fewer(60, h200())), Some(("NVIDIA H200", Source::Alike)), "a part");
        let newer = DeviceInfo { compute_capability: Some((10, 0)), ..named(pcie) };
        assert_eq!(of(newer), None);
        // What one has no times of the other may have.
        assert_eq!(of_types(&named(h100), Dtype::F32.into()), Some(("NVIDIA H200", Source::Alike)));
        let wide = Types { factors: Dtype::Bf16, results: Dtype::F32 };
        for (device, gpu) in [(h200(), "NVIDIA H200"), (named(h100), h100)] {
            assert_eq!(of_types(&device, wide), Some((gpu, Source::Shipped)));
        }
    }

    #[test]
    fn documents_are_read_once() {
        let tables = || for_device(&h200(), Dtype::F32).unwrap().tables;
        let (first, again) = (tables(), tables());
        assert!(first.iter().zip(&again).all(|(first, again)| std::ptr::eq(*first, *again)));
    }

    #[test]
    fn other_gpus_have_no_table() {
        assert!(table("NVIDIA Imaginary", Dtype::F32).is_none());
        assert_eq!(gpus().collect::<HashSet<_>>().len(), DOCUMENTS.len());
    }
}
