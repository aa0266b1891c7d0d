//! Which configurations are compared with each other, and what a group of them has in common.
//!
//! A mean says something only over groups that are alike in everything else: loop orders are compared over the tiles
//! that all of them have, of each size those that all have there; stagings likewise, and tiles within one loop order
//! and one staging. Kernels without shared memory are apart: there are such of tiles that are not staged in every way,
//! and the other way round.

use super::{Config, Entry, Record};
use crate::table::count;
use std::collections::BTreeMap;

/// The loop orders, from the slowest to the fastest in theory.
pub const ORDERS: [&str; 3] = ["standard", "k_after_threads", "k_innermost"];

/// The stagings, by the number of stages.
pub const STAGINGS: [&str; 6] = [DIRECT, STAGED[0], STAGED[1], STAGED[2], STAGED[3], STAGED[4]];

/// Those of them that bring slices to shared memory.
pub const STAGED: [&str; 5] = ["single", "double", "async2", "async3", "async4"];

/// The one without shared memory.
const DIRECT: &str = "direct";

/// Configurations with one thing in common.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// What they have in common: a loop order, a tile, a staging.
    pub name: String,
    /// The configurations, none of them without results.
    pub entries: Vec<&'a Entry>,
}

impl Group<'_> {
    /// The smallest and the largest of a property: `32`, or `32-128`; `-` where it is not known.
    pub fn range(&self, property: impl Fn(&Entry) -> Option<u32>) -> String {
        let values: Vec<u32> = self.entries.iter().filter_map(|entry| property(entry)).collect();
        match (values.iter().min(), values.iter().max()) {
            (Some(&least), Some(&most)) if least == most => count(least.into()),
            (Some(&least), Some(&most)) => {
                format!("{}-{}", count(least.into()), count(most.into()))
            }
            _ => "-".to_owned(),
        }
    }
}

impl Record {
    /// The configurations with results on at least one size.
    pub fn measured(&self) -> Vec<&Entry> {
        let has_results = |entry: &&Entry| !entry.timings.is_empty() || !entry.counts.is_empty();
        self.results.iter().filter(has_results).collect()
    }

    /// By loop order within a staging, over the tiles that every loop order of the record has in it.
    pub fn by_order(&self, staging: &str) -> Vec<Group<'_>> {
        let entries = of_stagings(self.measured(), &[staging]);
        matched(&entries, |config| config.order.clone(), tiles, &ORDERS)
    }

    /// The stagings in which loop orders are compared: those that the record has in several, or else the one in which
    /// tiles are.
    pub fn stagings_of_orders(&self) -> Vec<&'static str> {
        let has_several = |staging: &&str| self.by_order(staging).len() > 1;
        let found: Vec<_> = STAGINGS.into_iter().filter(has_several).collect();
        if found.is_empty() { self.common_staging().into_iter().collect() } else { found }
    }

    /// By staging, over the tiles that every way of staging of the record has in the winning loop order.
    pub fn by_staging(&self) -> Vec<Group<'_>> {
        let entries = of_stagings(self.in_winning_order(), &STAGED);
        matched(&entries, |config| config.staging.clone(), tiles, &STAGINGS)
    }

    /// Without shared memory and with one stage of it, over the tiles that the record has both of in the winning loop
    /// order.
    pub fn by_shared_memory(&self) -> Vec<Group<'_>> {
        let pair = [DIRECT, STAGED[0]];
        let entries = of_stagings(self.in_winning_order(), &pair);
        let groups = matched(&entries, |config| config.staging.clone(), tiles, &STAGINGS);
        if groups.len() == pair.len() { groups } else { Vec::new() }
    }

    /// By block tile, within the winning loop order and one staging.
    pub fn by_block_tile(&self) -> Vec<Group<'_>> {
        grouped(&self.in_winning_order_and_one_staging(), Config::block_tile)
    }

    /// By thread tile, within the winning loop order and one staging.
    pub fn by_thread_tile(&self) -> Vec<Group<'_>> {
        grouped(&self.in_winning_order_and_one_staging(), Config::thread_tile)
    }

    /// The loop order of the winner on the last size that has results.
    pub fn winning_order(&self) -> Option<&str> {
        let size = self.last_size()?;
        Some(self.ranking(size).first()?.config.order.as_str())
    }

    /// The staging in which tiles are compared: the plainest one that the record has in the winning loop order, and
    /// the one without shared memory only where it has no other.
    pub fn common_staging(&self) -> Option<&'static str> {
        let entries = self.in_winning_order();
        let has = |staging: &&&str| entries.iter().any(|entry| entry.config.staging == **staging);
        STAGED.iter().chain(&[DIRECT]).find(has).copied()
    }

    fn in_winning_order(&self) -> Vec<&Entry> {
        let order = self.winning_order();
        let in_order = |entry: &&Entry| Some(entry.config.order.as_str()) == order;
        self.measured().into_iter().filter(in_order).collect()
    }

    fn in_winning_order_and_one_staging(&self) -> Vec<&Entry> {
        let staging = self.common_staging();
        let staged = |entry: &&Entry| Some(entry.config.staging.as_str()) == staging;
        self.in_winning_order().into_iter().filter(staged).collect()
    }
}

/// Those of some stagings.
fn of_stagings<'a>(mut entries: Vec<&'a Entry>, stagings: &[&str]) -> Vec<&'a Entry> {
    entries.retain(|entry| stagings.contains(&entry.config.staging.as_str()));
    entries
}

/// What is the same in all groups that are compared.
fn tiles(config: &Config) -> (String, String) {
    (config.block_tile(), config.thread_tile())
}

/// Groups by a key, in the order in which the keys appear.
fn grouped<'a>(entries: &[&'a Entry], key: impl Fn(&Config) -> String) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for &entry in entries {
        let name = key(&entry.config);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.entries.push(entry),
            None => groups.push(Group { name, entries: vec![entry] }),
        }
    }
    groups
}

/// Groups by a key, each with only those entries whose other properties occur under every key. The keys come in the
/// order of `known`.
fn matched<'a, R: Ord>(
    entries: &[&'a Entry],
    key: impl Fn(&Config) -> String,
    rest: impl Fn(&Config) -> R,
    known: &[&str],
) -> Vec<Group<'a>> {
    let mut groups = grouped(entries, &key);
    let occurrences = occurrences(&groups, &rest);
    let everywhere = groups.len();
    for group in &mut groups {
        group.entries.retain(|entry| occurrences.get(&rest(&entry.config)) == Some(&everywhere));
    }
    groups.retain(|group| !group.entries.is_empty());
    groups.sort_by_key(|group| known.iter().position(|name| *name == group.name));
    groups
}

/// What is compared on one size of groups that were matched over all: those entries whose tile has a result there in
/// every group that has any there. A sweep that was cut off has not all tiles on its last size.
pub(super) fn matched_on<'a>(groups: &[Group<'a>], size: usize) -> Vec<Group<'a>> {
    let has_results = |entry: &Entry| entry.timing(size).is_some() || entry.counts(size).is_some();
    let mut groups = groups.to_vec();
    for group in &mut groups {
        group.entries.retain(|entry| has_results(entry));
    }
    let everywhere = groups.iter().filter(|group| !group.entries.is_empty()).count();
    let occurrences = occurrences(&groups, tiles);
    for group in &mut groups {
        group.entries.retain(|entry| occurrences.get(&tiles(&entry.config)) == Some(&everywhere));
    }
    groups
}

/// In how many groups each value of a property occurs.
fn occurrences<R: Ord>(groups: &[Group<'_>], of: impl Fn(&Config) -> R) -> BTreeMap<R, usize> {
    let mut occurrences = BTreeMap::new();
    for entry in groups.iter().flat_map(|group| &group.entries) {
        *occurrences.entry(of(&entry.config)).or_default() += 1;
    }
    occurrences
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{counted, entry, record, timed};
    use super::*;

    fn names(groups: &[Group<'_>]) -> Vec<(String, usize)> {
        groups.iter().map(|group| (group.name.clone(), group.entries.len())).collect()
    }

    #[test]
    fn orders_are_compared_over_the_tiles_that_all_have() {
        let record = record(vec![
            timed(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 1024, 10.0),
            timed(entry((128, 128, 8), (8, 8), "k_innermost", "single"), 1024, 40.0),
            timed(entry((64, 64, 32), (8, 8), "standard", "single"), 1024, 1.0),
            timed(entry((64, 64, 32), (4, 4), "standard", "single"), 1024, 2.0),
        ]);
        let groups = record.by_order("single");
        assert_eq!(names(&groups), [("standard".into(), 1), ("k_innermost".into(), 1)]);
        assert_eq!(groups[1].entries[0].config.bm, 64, "128x128x8 has no standard counterpart");
    }

    #[test]
    fn an_order_without_results_does_not_empty_the_others() {
        let mut without = entry((64, 64, 32), (8, 8), "standard", "single");
        without.cannot_run = Some("too many registers".into());
        let record = record(vec![
            without,
            timed(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 1024, 10.0),
        ]);
        assert_eq!(names(&record.by_order("single")), [("k_innermost".into(), 1)]);
    }

    #[test]
    fn tiles_are_compared_within_the_winning_order_and_the_plainest_staging() {
        let record = record(vec![
            timed(entry((32, 32, 32), (4, 4), "standard", "single"), 1024, 1.0),
            timed(entry((32, 32, 32), (4, 4), "k_innermost", "single"), 1024, 5.0),
            timed(entry((64, 64, 32), (4, 4), "k_innermost", "single"), 1024, 8.0),
            timed(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 1024, 9.0),
            timed(entry((64, 64, 32), (8, 8), "k_innermost", "async3"), 1024, 12.0),
        ]);
        assert_eq!(record.winning_order(), Some("k_innermost"));
        assert_eq!(record.common_staging(), Some("single"));
        let blocks = record.by_block_tile();
        assert_eq!(names(&blocks), [("32x32x32".into(), 1), ("64x64x32".into(), 2)]);
        assert_eq!(names(&record.by_thread_tile()), [("4x4".into(), 2), ("8x8".into(), 1)]);
        assert_eq!(names(&record.by_staging()), [("single".into(), 1), ("async3".into(), 1)]);
    }

    #[test]
    fn kernels_without_shared_memory_are_compared_with_those_of_one_stage() {
        let of = |tile, thread, order: &str, staging: &str, speed| {
            timed(entry(tile, thread, order, staging), 1024, speed)
        };
        let mut record = record(vec![
            of((32, 32, 32), (4, 4), "standard", "single", 0.3),
            of((32, 32, 32), (4, 4), "k_innermost", "single", 5.0),
            of((64, 64, 32), (8, 8), "k_innermost", "single", 9.0),
            of((64, 64, 32), (8, 8), "k_innermost", "async3", 12.0),
            of((32, 32, 32), (4, 4), "standard", "direct", 0.2),
            of((32, 32, 32), (4, 4), "k_innermost", "direct", 2.0),
            of((1, 1024, 32), (1, 1), "k_innermost", "direct", 1.0),
        ]);
        assert_eq!(names(&record.by_shared_memory()), [("direct".into(), 1), ("single".into(), 1)]);
        assert_eq!(names(&record.by_staging()), [("single".into(), 1), ("async3".into(), 1)]);
        assert_eq!(record.common_staging(), Some("single"));
        assert_eq!(record.stagings_of_orders(), ["direct", "single"]);
        let orders = [("standard".into(), 1), ("k_innermost".into(), 1)];
        assert_eq!(names(&record.by_order("direct")), orders);

        record.results.retain(|entry| entry.config.staging == "direct");
        assert_eq!(record.common_staging(), Some("direct"));
        assert!(record.by_shared_memory().is_empty() && record.by_staging().is_empty());
        let blocks = [("32x32x32".into(), 1), ("1x1024x32".into(), 1)];
        assert_eq!(names(&record.by_block_tile()), blocks);
        record.results.retain(|entry| entry.config.order == "k_innermost");
        assert_eq!(record.stagings_of_orders(), ["direct"], "one order is a table, too");
    }

    #[test]
    fn counts_are_results_too() {
        let record = record(vec![
            counted(entry((64, 64, 32), (8, 8), "k_innermost", "single"), 64, 1000),
            entry((64, 64, 32), (4, 4), "k_innermost", "single"),
        ]);
        assert_eq!(record.measured().len(), 1);
        assert_eq!(names(&record.by_thread_tile()), [("8x8".into(), 1)]);
    }

    #[test]
    fn ranges_of_what_a_group_needs() {
        let mut few = entry((32, 32, 32), (8, 4), "k_innermost", "single");
        let mut many = few.clone();
        (few.registers, few.threads) = (Some(40), 32);
        (many.registers, many.threads) = (Some(64), 32);
        let group = Group { name: "8x4".into(), entries: vec![&few, &many] };
        assert_eq!(group.range(|entry| entry.registers), "40-64");
        assert_eq!(group.range(|entry| Some(entry.threads)), "32");
        assert_eq!(group.range(|_| None), "-");
    }

    #[test]
    fn an_empty_record_has_no_groups() {
        let record = record(Vec::new());
        assert_eq!(record.winning_order(), None);
        assert!(record.by_order("single").is_empty() && record.by_block_tile().is_empty());
    }
}
