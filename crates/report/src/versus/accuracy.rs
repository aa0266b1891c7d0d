//! Errors beside those of the vendor's libraries.

use super::{Case, Measured, Record};

/// Errors whose ratio is no farther than this from one are taken for equal: they are norms over samples of the
/// elements, and where the rounding of the result outweighs that of the sums they differ in the last digits only.
pub const CLOSE: f64 = 0.01;

/// The relative errors in norm of this library's choice, each relative to that of the vendor's faster library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy<'a> {
    /// Cases that have both.
    pub count: usize,
    /// Cases in which the error is no larger than the vendor's.
    pub no_larger: usize,
    /// Cases in which it is no larger, or larger by no more than [`CLOSE`].
    pub close: usize,
    /// The largest ratio and its case.
    pub largest: (f64, &'a Case),
}

impl Measured {
    /// The error of this library's choice relative to that of the vendor's library to which the ratio is; 1 where both
    /// are exact.
    pub fn error_ratio(&self) -> Option<f64> {
        let (own, vendor) = (self.ours()?.relative_error, self.best_of_vendor()?.relative_error);
        Some(if own == vendor { 1.0 } else { own / vendor })
    }
}

impl Record {
    /// What all cases come to; none where there is nothing to compare.
    pub fn accuracy(&self) -> Option<Accuracy<'_>> {
        let of_case = |measured| Some((Measured::error_ratio(measured)?, &measured.case));
        let ratios: Vec<(f64, &Case)> = self.cases.iter().filter_map(of_case).collect();
        let up_to = |most: f64| ratios.iter().filter(|(ratio, _)| *ratio <= most).count();
        Some(Accuracy {
            count: ratios.len(),
            no_larger: up_to(1.0),
            close: up_to(1.0 + CLOSE),
            largest: ratios.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;

    #[test]
    fn errors_are_relative_to_the_faster_library() {
        let mut record = synthetic::record();
        let ratio = record.cases[0].error_ratio().unwrap();
        assert!((ratio - 1.2).abs() < 1e-12, "{ratio}");
        // cuBLAS is the slower one here.
        record.cases[0].entries[2].relative_error = 1e-3;
        assert_eq!(record.cases[0].error_ratio(), Some(ratio));
        let accuracy = record.accuracy().unwrap();
        assert_eq!((accuracy.count, accuracy.no_larger, accuracy.close), (8, 1, 1));
        assert!((accuracy.largest.0 - 1.2).abs() < 1e-12);
        record.cases[0].entries[0].relative_error = 1.005 * 2.5e-7;
        let accuracy = record.accuracy().unwrap();
        assert_eq!((accuracy.no_larger, accuracy.close), (1, 2));
    }

    #[test]
    fn what_is_no_number_is_no_smaller() {
        let mut record = synthetic::record();
        for entry in record.cases.iter_mut().flat_map(|case| &mut case.entries) {
            if !entry.is_of_vendor() {
                entry.relative_error = f64::NAN;
            }
        }
        let accuracy = record.accuracy().unwrap();
        assert_eq!((accuracy.no_larger, accuracy.close), (0, 0));
        assert!(accuracy.largest.0.is_nan());
    }

    #[test]
    fn two_exact_results_are_equal() {
        let mut case = synthetic::record().cases.remove(0);
        case.entries.iter_mut().for_each(|entry| entry.relative_error = 0.0);
        assert_eq!(case.error_ratio(), Some(1.0));
    }
}
