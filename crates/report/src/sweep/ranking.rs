//! Who is ahead of whom, and the sentence that says what won.
//!
//! On a GPU the fastest wins. The simulator has no times: there the one that moves the fewest bytes between global
//! memory and the multiprocessors wins, and among equals the one with the fewest passes over shared memory.

use super::{Counts, Entry, Record};
use crate::table::count;
use std::cmp::Ordering;

impl Record {
    /// Whether this is a record of counts.
    pub fn is_of_simulator(&self) -> bool {
        self.results.iter().any(|entry| !entry.counts.is_empty())
    }

    /// The sizes that have results, in the order of the record.
    pub fn measured_sizes(&self) -> Vec<usize> {
        let has_results = |size: &usize| {
            let on_size =
                |entry: &Entry| entry.timing(*size).is_some() || entry.counts(*size).is_some();
            self.results.iter().any(on_size)
        };
        self.sizes.iter().copied().filter(has_results).collect()
    }

    /// The last size that has results.
    pub fn last_size(&self) -> Option<usize> {
        self.measured_sizes().pop()
    }

    /// The configurations with results on a size, the best first; equals in the order of the record.
    pub fn ranking(&self, size: usize) -> Vec<&Entry> {
        let has_result = |entry: &&Entry| merit(entry, size).is_some();
        let mut ranked: Vec<&Entry> = self.results.iter().filter(has_result).collect();
        ranked.sort_by(|a, b| ahead(a, b, size));
        ranked
    }

    /// What won on a size and by how much; `None` where nothing has a result.
    pub fn verdict(&self, size: usize) -> Option<String> {
        let ranking = self.ranking(size);
        let winner = *ranking.first()?;
        Some(match winner.timing(size) {
            Some(timing) => self.fastest(size, winner, timing.tflops, &ranking),
            None => least(size, winner, winner.counts(size)?, &ranking),
        })
    }

    fn fastest(&self, size: usize, winner: &Entry, speed: f64, ranking: &[&Entry]) -> String {
        let share = self.peak_tflops.map_or_else(String::new, |peak| {
            format!(" ({:.1} % of the peak)", 100.0 * speed / peak)
        });
        let mut text =
            format!("{size}: {} won with {} TFLOP/s{share}", winner.config, tflops(speed));
        let speed_of = |entry: &Entry| entry.timing(size).map(|timing| timing.tflops);
        let mut against = Vec::new();
        let other = ranking.iter().find(|entry| entry.config.order != winner.config.order);
        if let Some((other, behind)) = other.and_then(|&other| Some((other, speed_of(other)?))) {
            against.push(format!(
                "{} the best of another loop order ({}, {})",
                factor(speed / behind),
                other.config,
                tflops(behind)
            ));
        }
        let speeds: Vec<f64> = ranking.iter().filter_map(|entry| speed_of(entry)).collect();
        if speeds.len() > 1 {
            let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
            let (gain, count) = (factor(speed / mean), speeds.len());
            against.push(format!("{gain} the mean of all {count}"));
        }
        let choice = self.choice(size).and_then(|choice| Some((choice, choice.timing.as_ref()?)));
        if let Some((choice, timing)) = choice {
            against.push(format!(
                "{} what the library chooses ({}, {})",
                factor(speed / timing.tflops),
                choice.kernel,
                tflops(timing.tflops)
            ));
        }
        if !against.is_empty() {
            text += &format!(": {}", against.join(", "));
        }
        text
    }

    /// What the library chooses for a size.
    pub fn choice(&self, size: usize) -> Option<&super::Choice> {
        self.library.iter().find(|choice| choice.size == size)
    }
}

fn least(size: usize, winner: &Entry, counts: &Counts, ranking: &[&Entry]) -> String {
    let bytes = counts.global_bytes as f64;
    let mut text = format!(
        "{size}: {} moves the fewest bytes of global memory, {}",
        winner.config,
        count(counts.global_bytes)
    );
    let bytes_of = |entry: &Entry| Some(entry.counts(size)?.global_bytes as f64);
    let mut against = Vec::new();
    let other = ranking.iter().find(|entry| entry.config.order != winner.config.order);
    if let Some((other, more)) = other.and_then(|&other| Some((other, bytes_of(other)?))) {
        against.push(format!(
            "the best of another loop order ({}) moves {} as many",
            other.config,
            factor(more / bytes)
        ));
    }
    let all: Vec<f64> = ranking.iter().filter_map(|entry| bytes_of(entry)).collect();
    if all.len() > 1 {
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        against.push(format!("the mean of all {} is {} as many", all.len(), factor(mean / bytes)));
    }
    if !against.is_empty() {
        text += &format!("; {}", against.join(", "));
    }
    text
}

/// How good a configuration is on a size: the larger, the better.
pub(super) fn merit(entry: &Entry, size: usize) -> Option<(f64, f64)> {
    if let Some(timing) = entry.timing(size) {
        return Some((timing.tflops, 0.0));
    }
    let counts = entry.counts(size)?;
    Some((-(counts.global_bytes as f64), -(counts.shared_wavefronts as f64)))
}

fn ahead(a: &Entry, b: &Entry, size: usize) -> Ordering {
    match (merit(a, size), merit(b, size)) {
        (Some((a, a_next)), Some((b, b_next))) => b.total_cmp(&a).then(b_next.total_cmp(&a_next)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// A speed in TFLOP/s with three digits that say something, also far below 1.
pub(super) fn tflops(value: f64) -> String {
    match value {
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.1.. => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

fn factor(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0} times"),
        10.0.. => format!("{value:.1} times"),
        _ => format!("{value:.2} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{choice, counted, entry, record, timed, timing};
    use super::*;

    fn three() -> Record {
        record(vec![
            timed(entry((64, 64, 32), (8, 8), "k_after_threads", "single"), 4096, 2.0),
            timed(entry((128, 128, 8), (8, 8), "k_innermost", "single"), 4096, 38.0),
            timed(entry((128, 128, 16), (8, 16), "k_innermost", "async3"), 4096, 50.0),
        ])
    }

    #[test]
    fn the_verdict_names_the_winner_and_its_lead() {
        let mut record = three();
        record.peak_tflops = Some(100.0);
        record.library = vec![choice("pipelined_f32", timing(4096, 40.0))];
        assert_eq!(
            record.verdict(4096).unwrap(),
            "4096: 128x128x16 8x16 k_innermost async3 won with 50.0 TFLOP/s (50.0 % of the peak): 25.0 times the best of \
             another loop order (64x64x32 8x8 k_after_threads single, 2.00), 1.67 times the mean of all 3, 1.25 times what \
             the library chooses (pipelined_f32, 40.0)"
        );
    }

    #[test]
    fn a_lone_configuration_wins_over_nothing() {
        let alone = timed(entry((32, 32, 32), (8, 4), "standard", "single"), 64, 0.068);
        let record = Record { peak_tflops: None, ..record(vec![alone]) };
        assert_eq!(
            record.verdict(64).unwrap(),
            "64: 32x32x32 8x4 standard single won with 0.0680 TFLOP/s"
        );
        assert_eq!(record.verdict(128), None);
    }

    #[test]
    fn configurations_without_a_result_on_the_size_do_not_rank() {
        let mut record = three();
        record.results.push(entry((64, 64, 64), (8, 8), "standard", "single"));
        record.results.push(timed(
            entry((256, 128, 8), (8, 8), "k_innermost", "single"),
            1024,
            60.0,
        ));
        record.sizes = vec![1024, 2048, 4096];
        let speeds: Vec<_> =
            record.ranking(4096).iter().map(|entry| entry.timing(4096).unwrap().tflops).collect();
        assert_eq!(speeds, [50.0, 38.0, 2.0]);
        assert_eq!(record.measured_sizes(), [1024, 4096]);
        assert_eq!(record.last_size(), Some(4096));
    }

    #[test]
    fn on_the_simulator_the_least_traffic_wins_and_no_speed_is_named() {
        let same = counted(entry((64, 64, 32), (4, 4), "k_innermost", "single"), 64, 1000);
        let mut fewer_passes =
            counted(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 64, 1000);
        fewer_passes.counts[0].shared_wavefronts -= 1;
        let more = counted(entry((64, 64, 32), (8, 8), "standard", "single"), 64, 4000);
        let record = record(vec![more, same, fewer_passes]);
        assert!(record.is_of_simulator());
        assert_eq!(
            record.verdict(64).unwrap(),
            "64: 64x64x32 8x8 k_innermost single moves the fewest bytes of global memory, 1,000; the best of another \
             loop order (64x64x32 8x8 standard single) moves 4.00 times as many, the mean of all 3 is 2.00 times as many"
        );
    }

    #[test]
    fn speeds_keep_three_digits() {
        let shown = [48.26, 4.826, 0.4826, 0.0198].map(tflops);
        assert_eq!(shown, ["48.3", "4.83", "0.483", "0.0198"]);
        assert_eq!([1.5, 25.0, 217.4].map(factor), ["1.50 times", "25.0 times", "217 times"]);
    }
}
