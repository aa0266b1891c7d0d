//! Measured times by shape.

use super::class::Shape;
use crate::kernels::Types;
use regemm_kernels::kernel::KernelInfo;
use regemm_kernels::layout::Layouts;
use std::collections::BTreeMap;
use std::fmt;

/// Where measured times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// This library brings them for another GPU [of the architecture](super::shipped::used_by).
    Alike,
    /// This library brings them for the GPU.
    Shipped,
    /// They were measured here.
    Measured,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Alike => "shipped for another GPU of this architecture",
            Source::Shipped => "shipped for this GPU",
            Source::Measured => "measured on this GPU",
        })
    }
}

/// The time of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// Median time of a product in seconds, by events on the device.
    pub seconds: f64,
}

/// The times of all kernels that were measured on one shape.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The shape.
    pub shape: Shape,
    /// One a kernel.
    pub times: Vec<Time>,
}

impl Entry {
    /// The fastest kernel.
    pub fn fastest(&self) -> Option<Time> {
        self.times.iter().copied().min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// The time of a kernel in seconds.
    pub fn seconds(&self, kernel: &KernelInfo) -> Option<f64> {
        self.times.iter().find(|time| time.kernel.name == kernel.name).map(|time| time.seconds)
    }
}

/// Measured times on one GPU for factors and results of some types, in some layouts: one entry a shape.
#[derive(Clone, Debug)]
pub struct Table {
    types: Types,
    layouts: Layouts,
    entries: BTreeMap<Shape, Entry>,
}

impl Table {
    /// A table without entries, for row-major factors.
    pub fn new(types: impl Into<Types>) -> Table {
        Table::in_layouts(types, Layouts::NN)
    }

    /// A table without entries, for factors in these layouts.
    pub fn in_layouts(types: impl Into<Types>, layouts: Layouts) -> Table {
        Table { types: types.into(), layouts, entries: BTreeMap::new() }
    }

    /// Element types of factors and results.
    pub fn types(&self) -> Types {
        self.types
    }

    /// How the factors lie in memory.
    pub fn layouts(&self) -> Layouts {
        self.layouts
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, ordered by shape.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The entry of a shape.
    pub fn get(&self, shape: Shape) -> Option<&Entry> {
        self.entries.get(&shape)
    }

    /// Adds an entry in place of that of the same shape, if there is one. Entries without times are left out.
    pub fn insert(&mut self, entry: Entry) {
        if !entry.times.is_empty() {
            self.entries.insert(entry.shape, entry);
        }
    }

    /// Adds the entries of another table, which replace those of the same shapes.
    pub fn merge(&mut self, newer: &Table) {
        self.entries.extend(newer.entries.iter().map(|(shape, entry)| (*shape, entry.clone())));
    }

    /// Adds the times of another table: where both have one of a kernel on a shape the shorter counts, since what
    /// disturbs a measurement makes it longer.
    pub fn merge_shorter(&mut self, other: &Table) {
        for entry in other.entries() {
            let Some(known) = self.entries.get_mut(&entry.shape) else {
                self.insert(entry.clone());
                continue;
            };
            for time in &entry.times {
                match known.times.iter_mut().find(|known| known.kernel.name == time.kernel.name) {
                    Some(known) => known.seconds = known.seconds.min(time.seconds),
                    None => known.times.push(*time),
                }
            }
        }
    }

    /// All kernels that have a time in some entry, in the order of [`kernels`](crate::kernels::kernels).
    pub fn kernels(&self) -> Vec<&'static KernelInfo> {
        let timed =
            |kernel: &&KernelInfo| self.entries().any(|entry| entry.seconds(kernel).is_some());
        crate::kernels::kernels().iter().filter(timed).collect()
    }
}

/// A table, where it comes from, and on how many multiprocessors its times were measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'t> {
    pub source: Source,
    pub multiprocessors: u32,
    pub table: &'t Table,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::device::info::tests::h200;
    use crate::kernels::find;
    use regemm_kernels::element::Dtype;

    /// Times of an H200.
    pub(crate) fn on_h200(source: Source, table: &Table) -> Measured<'_> {
        Measured { source, multiprocessors: h200().multiprocessors, table }
    }

    /// An entry with these times in microseconds.
    pub(crate) fn entry(shape: (u32, u32, u32), times: &[(&str, f64)]) -> Entry {
        let (m, n, k) = shape;
        let time = |&(name, micros): &(&str, f64)| Time {
            kernel: find(name).unwrap(),
            seconds: micros * 1e-6,
        };
        Entry { shape: Shape::packed(Dtype::F32, m, n, k), times: times.iter().map(time).collect() }
    }

    #[test]
    fn of_two_times_the_shorter_is_kept() {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((64, 64, 64), &[("naive_f32", 3.0), ("tiled16_f32", 2.0)]));
        let mut other = Table::new(Dtype::F32);
        let times = [("naive_f32", 1.0), ("tiled16_f32", 4.0), ("tiled32_f32", 9.0)];
        other.insert(entry((64, 64, 64), &times));
        other.insert(entry((65, 65, 65), &[("naive_f32", 4.0)]));
        table.merge_shorter(&other);
        let micros = |n| {
            let entry = table.get(Shape::packed(Dtype::F32, n, n, n)).unwrap();
            entry.times.iter().map(|time| (time.seconds * 1e6).round()).collect::<Vec<_>>()
        };
        assert_eq!((micros(64), micros(65)), (vec![1.0, 2.0, 9.0], vec![4.0]));
    }

    #[test]
    fn a_shape_has_one_entry_and_the_newer_wins() {
        let mut table = Table::new(Dtype::F32);
        table.insert(entry((1024, 1024, 1024), &[("naive_f32", 300.0)]));
        table.insert(entry((512, 512, 512), &[("naive_f32", 50.0)]));
        let mut newer = Table::new(Dtype::F32);
        newer.insert(entry((1024, 1024, 1024), &[("naive_f32", 310.0), ("tiled16_f32", 200.0)]));
        newer.insert(entry((1050, 1000, 1024), &[("naive_f32", 320.0)]));
        newer.insert(entry((4096, 4096, 4096), &[]));
        table.merge(&newer);
        assert_eq!(table.len(), 3, "an entry without times is none");
        let replaced = table.get(Shape::packed(Dtype::F32, 1024, 1024, 1024)).unwrap();
        assert_eq!(replaced.fastest().unwrap().kernel.name, "tiled16_f32");
        let names: Vec<_> = table.kernels().iter().map(|kernel| kernel.name).collect();
        assert_eq!(names, ["naive_f32", "tiled16_f32"]);
    }
}
