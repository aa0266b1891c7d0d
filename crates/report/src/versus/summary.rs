//! Ratios of a group in one number.

use super::{Case, Group, Measured, Record};
use std::ops::RangeInclusive;

/// The squares of which the mean is taken: below, a product is hardly more than the start of a kernel; above, few
/// samples fit into the time.
pub const SQUARES_THAT_COUNT: RangeInclusive<usize> = 512..=8192;

/// The ratios of a group to the vendor's best.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSummary<'a> {
    /// The group.
    pub group: Group,
    /// Cases that have a ratio and count.
    pub count: usize,
    /// Geometric mean of the ratios.
    pub mean: f64,
    /// The smallest ratio and its case.
    pub smallest: (f64, &'a Case),
    /// Cases with a ratio below one.
    pub below_one: usize,
}

/// The geometric mean; `None` of nothing.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
}

impl Record {
    /// The groups that have ratios. Of the squares those in [`SQUARES_THAT_COUNT`] count.
    pub fn summaries(&self) -> Vec<GroupSummary<'_>> {
        Group::ALL.into_iter().filter_map(|group| self.summary(group)).collect()
    }

    fn summary(&self, group: Group) -> Option<GroupSummary<'_>> {
        let counts = |measured: &&Measured| {
            let case = &measured.case;
            case.group == group && (group != Group::Squares || SQUARES_THAT_COUNT.contains(&case.m))
        };
        summary_of(group, self.cases.iter().filter(counts), Measured::ratio)
    }

    /// The squares that were measured in short bursts too: what they come to in bursts, and what the same ones come to
    /// sustained. None where nothing was measured in bursts.
    pub fn burst_summary(&self) -> Option<[GroupSummary<'_>; 2]> {
        self.squares_beside_sustained(Measured::burst_ratio)
    }

    /// The same of the squares that were measured in long turns.
    pub fn turn_summary(&self) -> Option<[GroupSummary<'_>; 2]> {
        self.squares_beside_sustained(Measured::turn_ratio)
    }

    /// The squares that have a ratio: what they come to by it, and what the same ones come to sustained.
    fn squares_beside_sustained(
        &self,
        ratio: fn(&Measured) -> Option<f64>,
    ) -> Option<[GroupSummary<'_>; 2]> {
        let squares = || {
            let all = self.cases.iter().filter(|measured| measured.case.group == Group::Squares);
            all.filter(move |measured| ratio(measured).is_some())
        };
        Some([
            summary_of(Group::Squares, squares(), ratio)?,
            summary_of(Group::Squares, squares(), Measured::ratio)?,
        ])
    }

    /// The speed of a case with transposed factors relative to the same product with neither, if that was measured.
    pub fn relative_to_plain_layout(&self, measured: &Measured) -> Option<f64> {
        let case = measured.case;
        let is_plain = |other: &&Measured| {
            let plain = Case { layouts: Default::default(), group: other.case.group, ..case };
            // The group does not matter, but for what is computed: to add C takes time of its own.
            other.case == plain && other.case.has_addend() == case.has_addend()
        };
        let plain = self.cases.iter().find(is_plain)?.entry(super::REGEMM)?;
        Some(plain.microseconds / measured.entry(super::REGEMM)?.microseconds)
    }
}

/// What some cases of a group come to; none where none has a ratio.
fn summary_of<'a>(
    group: Group,
    cases: impl Iterator<Item = &'a Measured>,
    ratio: fn(&Measured) -> Option<f64>,
) -> Option<GroupSummary<'a>> {
    let ratios: Vec<(f64, &Case)> =
        cases.filter_map(|measured| Some((ratio(measured)?, &measured.case))).collect();
    let values: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
    Some(GroupSummary {
        group,
        count: ratios.len(),
        mean: geometric_mean(&values)?,
        smallest: ratios.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?,
        below_one: values.iter().filter(|ratio| **ratio < 1.0).count(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::*;

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[1.0, 1.0, 8.0]).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_smallest_and_the_largest_squares_do_not_count() {
        let record = synthetic::record();
        let summaries = record.summaries();
        let groups: Vec<Group> = summaries.iter().map(|summary| summary.group).collect();
        use Group::{Epilogue, Layouts, Odd, Rectangles, Squares};
        assert_eq!(groups, [Squares, Odd, Rectangles, Layouts, Epilogue]);
        let squares = &summaries[0];
        // 1.25 at 512 and 0.8 at 4096; 0.8 at 256 stays out.
        assert_eq!((squares.count, squares.below_one), (2, 1));
        assert!((squares.mean - 1.0).abs() < 1e-12, "{}", squares.mean);
        assert_eq!((squares.smallest.0, squares.smallest.1.m), (0.8, 4096));
    }

    #[test]
    fn bursts_are_summed_up_beside_the_same_squares_sustained() {
        let record = synthetic::record();
        let [bursts, sustained] = record.burst_summary().unwrap();
        assert_eq!((bursts.count, sustained.count), (1, 1));
        assert!((bursts.mean - 1.1).abs() < 1e-12 && (sustained.mean - 0.8).abs() < 1e-12);
    }

    #[test]
    fn of_turns_squares_alone_are_summed_up() {
        let record = synthetic::record();
        // The epilogue was measured in turns too, and is no square of the plain product.
        let [turns, sustained] = record.turn_summary().unwrap();
        assert_eq!((turns.count, sustained.count), (1, 1));
        assert!((turns.mean - 0.95).abs() < 1e-12 && (sustained.mean - 0.8).abs() < 1e-12);
    }

    #[test]
    fn a_transposed_product_is_compared_with_the_plain_one_of_its_size() {
        let record = synthetic::record();
        let at = |label: &str| record.cases.iter().find(|c| c.case.label() == label).unwrap();
        assert_eq!(record.relative_to_plain_layout(at("4096 NT")), Some(0.5));
        assert_eq!(record.relative_to_plain_layout(at("1024 TT")), None, "no plain 1024");
    }

    #[test]
    fn a_product_with_an_addend_is_not_the_plain_one() {
        let mut record = synthetic::record();
        let at = |record: &Record, label: &str| {
            record.cases.iter().find(|c| c.case.label() == label).unwrap().clone()
        };
        // In front of the plain ones, and of a size that none of those has.
        for size in [4096, 1024] {
            let mut with_addend = at(&record, "512");
            with_addend.case = Case::of(Group::Addend, (size, size, size));
            record.cases.insert(0, with_addend);
        }
        assert_eq!(record.relative_to_plain_layout(&at(&record, "4096 NT")), Some(0.5));
        assert_eq!(record.relative_to_plain_layout(&at(&record, "1024 TT")), None);
    }
}
