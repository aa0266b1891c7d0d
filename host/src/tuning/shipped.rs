//! The tables that this library brings for known GPUs.
//!
//! Made on the GPU by `regemm tune --output host/src/tuning/shipped/<gpu>.json --merge`, more than once: of a kernel's
//! times on a shape the shortest counts. They hold for other drivers and for kernels whose code has changed as well,
//! only less exactly, so it is the cache that knows better where both have times.
//!
//! Not all is measured on the GPU itself: of products with more than 3e10 multiply-adds the H200's times of
//! `warpgroup_fitted_tall`, and of `warpgroup_fitted128` and its pairs for row-major factors, are worked out from what
//! these take of other kernels' times on an H100, of the fastest other one's there, and what is known of 6144 is an
//! H100's. So are the H100's times of `warpgroup_fitted_quad` and `warpgroup_fitted_quad128` from an H200's. Times that
//! cannot be, since a sample had to wait for the host, are left out. What was done is in
//! `docs/measurements/half-log.md`.
//!
//! A GPU without times of some element types takes those of another of its compute capability: which kernel is fastest
//! depends most on the architecture, and on how a product's tiles come out on the multiprocessors, which can be worked
//! out (`model.rs`). That is nearer to the truth than the [rule](crate::kernels::rank)
//! (`docs/measurements/2026-11-24-hopper-borrowed-tables.md`).

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

/// The tables for a GPU, by the name that the driver gives it: at most one for element types and layouts, and none
/// without entries.
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

/// The tables of some element types that a device takes.
#[derive(Clone, Debug)]
pub(super) struct ShippedTables(Vec<Measured<'static>>);

impl ShippedTables {
    /// Where several have times for a shape those of the last one count.
    pub fn measured(&self) -> impl Iterator<Item = Measured<'_>> {
        self.0.iter().copied()
    }
}

/// The GPU whose tables of these element types a device takes: itself, or else, of those that have one of row-major
/// factors, that of the same compute capability whose number of multiprocessors is nearest.
pub fn used_by(device: &DeviceInfo, types: impl Into<Types>) -> Option<&'static str> {
    let types = types.into();
    alike(device).into_iter().find(|shipped| shipped.has_row_major(types)).map(|found| found.gpu)
}

/// Whether a device takes a GPU's table of these element types and layouts: of others than row-major factors also those
/// of GPUs that are alike.
pub fn is_used_by(
    device: &DeviceInfo,
    gpu: &str,
    types: impl Into<Types>,
    layouts: Layouts,
) -> bool {
    let types = types.into();
    used_by(device, types).is_some_and(|used| {
        let is_alike = || alike(device).iter().any(|shipped| shipped.gpu == gpu);
        used == gpu || (layouts != Layouts::NN && is_alike())
    })
}

/// The GPUs whose tables a device may take, those that say most of it first.
fn alike(device: &DeviceInfo) -> Vec<&'static Shipped> {
    let is_alike = |shipped: &&Shipped| {
        shipped.gpu == device.name || Some(shipped.compute_capability) == device.compute_capability
    };
    let mut found = Vec::from_iter(DOCUMENTS.iter().filter(is_alike));
    found.sort_by_key(|shipped| {
        let distance = shipped.multiprocessors.abs_diff(device.multiprocessors);
        (shipped.gpu != device.name, distance)
    });
    found
}

impl Shipped {
    fn of_types(&'static self, types: Types) -> impl Iterator<Item = &'static Table> {
        self.tables().iter().filter(move |table| table.types() == types)
    }

    fn has_row_major(&'static self, types: Types) -> bool {
        self.of_types(types).any(|table| table.layouts() == Layouts::NN)
    }

    fn measured(&self, device: &DeviceInfo, table: &'static Table) -> Measured<'static> {
        let Shipped { gpu, multiprocessors, .. } = *self;
        // A part of a GPU has its name and fewer multiprocessors.
        let is_own = gpu == device.name && multiprocessors == device.multiprocessors;
        let source = if is_own { Source::Shipped } else { Source::Alike };
        Measured { source, multiprocessors, table }
    }
}

/// The tables that a device takes: of row-major factors that of [one GPU](used_by), and of other layouts, which are
/// [ratios](super::in_layouts) to that, those of all that are alike, since a few shapes may have been measured on one
/// and many on another. They count beside row-major factors alone, and those of another GPU only where products do not
/// wait for memory (`model.rs`).
pub(super) fn for_device(device: &DeviceInfo, types: impl Into<Types>) -> Option<ShippedTables> {
    let types = types.into();
    used_by(device, types)?;
    let tables = alike(device).into_iter().rev().flat_map(|shipped| {
        shipped
            .of_types(types)
            .filter(|table| is_used_by(device, shipped.gpu, types, table.layouts()))
            .map(|table| shipped.measured(device, table))
    });
    Some(ShippedTables(tables.collect()))
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
                let is_row_major = |it: &Measured| it.table.layouts() == Layouts::NN;
                let mut row_major = found.measured().filter(is_row_major);
                let source = row_major.next().unwrap().source;
                assert!(row_major.next().is_none(), "of one GPU alone");
                (used_by(device, types).unwrap(), source)
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

    /// Of some layers one has own times, of other shapes those of the other, which come first: of two the last counts.
    #[test]
    fn times_in_other_layouts_are_of_all_that_are_alike() {
        let of = |types: Types| {
            let found = for_device(&h200(), types).unwrap();
            let in_layouts = found.measured().filter(|it| it.table.layouts() == Layouts::NT);
            Vec::from_iter(in_layouts.map(|it| it.source))
        };
        for types in [Dtype::Bf16, Dtype::F16].map(Types::from) {
            assert_eq!(of(types), [Source::Alike, Source::Shipped]);
            assert_eq!(
                of(Types { results: Dtype::F32, ..types }),
                [Source::Alike, Source::Shipped]
            );
        }
        // An H100 has no times of f32.
        assert_eq!(of(Dtype::F32.into()), [Source::Shipped]);
    }

    #[test]
    fn tables_that_are_used_are_those_that_a_device_takes() {
        for types in Types::ALL {
            let taken = for_device(&h200(), types).unwrap();
            for gpu in gpus() {
                for table in of_gpu(gpu).iter().filter(|table| table.types() == types) {
                    let is_taken = taken.measured().any(|it| std::ptr::eq(it.table, table));
                    let is_used = is_used_by(&h200(), gpu, types, table.layouts());
                    assert_eq!(is_used, is_taken, "{gpu}, {types} {}", table.layouts());
                }
            }
        }
        let elsewhere = DeviceInfo { compute_capability: Some((8, 0)), name: "A".into(), ..h200() };
        assert!(gpus().all(|gpu| !is_used_by(&elsewhere, gpu, Dtype::Bf16, Layouts::NT)));
    }

    #[test]
    fn documents_are_read_once() {
        let tables = || for_device(&h200(), Dtype::F32).unwrap();
        let (first, again) = (tables(), tables());
        let mut pairs = first.measured().zip(again.measured());
        assert!(pairs.all(|(first, again)| std::ptr::eq(first.table, again.table)));
    }

    #[test]
    fn other_gpus_have_no_table() {
        assert!(table("NVIDIA Imaginary", Dtype::F32).is_none());
        assert_eq!(gpus().collect::<HashSet<_>>().len(), DOCUMENTS.len());
    }
}
