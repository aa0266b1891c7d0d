//! What loads take beside multiply-adds, and how much of it a pipeline hides.
//!
//! Where each tile has a multiprocessor to itself, its block walks along K alone: nobody else hides its latency, and
//! the time of the product is that of its slices. With one stage a slice is loaded and multiplied in turn, so it takes
//! the sum of both, `L + C`; where loads of the next slices are under way meanwhile it takes no less than the longer
//! one, `max(L, C)`. `C` is what the multiply-adds take at the peak of the multiprocessor, and all else that one stage
//! takes counts as `L`: latency, barriers, and the way through shared memory.

use super::pipelining::SINGLE;
use super::{Entry, Record};
use crate::table::{Table, or_dash};

/// A size on which every tile has a multiprocessor to itself.
struct Alone {
    size: usize,
    /// Of a tile along K.
    slices: f64,
    /// Microseconds of a slice's multiply-adds at the peak.
    products: f64,
}

/// The times of slices, a row a staging; none where no product is so small, or the peak is not known.
pub(super) fn table(record: &Record, rows: &[(&'static str, &Entry)]) -> Option<Table> {
    let (_, first) = rows.first()?;
    let sizes = sizes_alone(record, first);
    if sizes.is_empty() {
        return None;
    }
    let title = "Microseconds of a slice of K, where each tile has a multiprocessor to itself";
    let mut table = Table::new(title, [""]);
    table.heading.extend(sizes.iter().map(|alone| alone.size.to_string()));
    for (name, entry) in rows {
        let mut row = vec![(*name).to_owned()];
        row.extend(sizes.iter().map(|alone| or_dash(alone.of_slice(entry).map(microseconds))));
        table.rows.push(row);
    }
    let in_turn = (first.config.staging == SINGLE).then_some(*first);
    let mut add = |name: &str, of: &dyn Fn(&Alone) -> Option<f64>| {
        let mut row = vec![name.to_owned()];
        row.extend(sizes.iter().map(|alone| or_dash(of(alone).map(microseconds))));
        table.rows.push(row);
    };
    add("its multiply-adds, at the peak: C", &|alone| Some(alone.products));
    add("what else one stage takes: L", &|alone| alone.loads(in_turn?));
    add("if the shorter one were hidden: max(L, C)", &|alone| alone.overlapped(in_turn?));
    Some(table)
}

/// How much of what could be hidden a pipeline does, on each size where that can be said.
pub(super) fn verdict(record: &Record, in_turn: &Entry, pipelined: &Entry) -> Option<String> {
    let hidden = |alone: &Alone| {
        let most = alone.of_slice(in_turn)? - alone.overlapped(in_turn)?;
        let found = alone.of_slice(in_turn)? - alone.of_slice(pipelined)?;
        let share = (most > 0.0).then(|| 100.0 * found / most)?;
        Some(format!("{share:.0} % at {}", alone.size))
    };
    let hidden = Vec::from_iter(sizes_alone(record, in_turn).iter().filter_map(hidden));
    let what =
        "Of what loads and multiply-adds of a block could hide of each other the pipeline hides";
    (!hidden.is_empty()).then(|| format!("{what} {}.", hidden.join(", ")))
}

fn sizes_alone(record: &Record, entry: &Entry) -> Vec<Alone> {
    let [bm, bn, bk] = [entry.config.bm, entry.config.bn, entry.config.bk].map(|it| it as usize);
    let multiprocessors = record.provenance.multiprocessors as usize;
    let Some(peak) = record.peak_tflops.filter(|_| multiprocessors > 0) else { return Vec::new() };
    let alone = |size: usize| {
        let tiles = size.div_ceil(bm) * size.div_ceil(bn);
        // Millions of operations that a multiprocessor does in a microsecond at its peak.
        let rate = peak / multiprocessors as f64;
        let products = 2.0 * (bm * bn * bk) as f64 / 1e6 / rate;
        let slices = size.div_ceil(bk) as f64;
        (tiles <= multiprocessors).then_some(Alone { size, slices, products })
    };
    record.measured_sizes().into_iter().filter_map(alone).collect()
}

impl Alone {
    /// With this staging.
    fn of_slice(&self, entry: &Entry) -> Option<f64> {
        Some(entry.timing(self.size)?.milliseconds * 1e3 / self.slices)
    }

    fn loads(&self, in_turn: &Entry) -> Option<f64> {
        Some((self.of_slice(in_turn)? - self.products).max(0.0))
    }

    fn overlapped(&self, in_turn: &Entry) -> Option<f64> {
        Some(self.loads(in_turn)?.max(self.products))
    }
}

fn microseconds(value: f64) -> String {
    format!("{value:.3}")
}
