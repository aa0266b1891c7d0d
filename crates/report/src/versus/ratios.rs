//! How a case compares with the vendor's best, and what an epilogue costs, in each of the regimes that are measured.

use super::{CUBLAS_LT, Entry, Group, LT_WITH_EPILOGUE, Measured, REGEMM, WITH_EPILOGUE};

/// The time of a contender in one regime, in microseconds; none where that was not measured.
type Time = fn(&Entry) -> Option<f64>;

fn sustained(entry: &Entry) -> Option<f64> {
    Some(entry.microseconds)
}

fn in_bursts(entry: &Entry) -> Option<f64> {
    entry.burst.as_ref().map(|burst| burst.microseconds)
}

fn in_turns(entry: &Entry) -> Option<f64> {
    entry.turn.as_ref().map(|turn| turn.microseconds)
}

impl Measured {
    /// The faster one of the vendor's libraries, with an epilogue where that is what the case is about.
    pub fn best_of_vendor(&self) -> Option<&Entry> {
        self.best_of_vendor_by(sustained).map(|(entry, _)| entry)
    }

    /// What is compared with the vendor's best: this library's choice, with an epilogue where that is what the case is
    /// about.
    pub fn ours(&self) -> Option<&Entry> {
        self.entry(if self.case.group == Group::Epilogue { WITH_EPILOGUE } else { REGEMM })
    }

    /// The mean clock of the multiprocessors in MHz while [ours](Self::ours) was measured, sustained; in records that
    /// do not have it what it was set to during the case.
    pub fn sm_mhz(&self) -> Option<f64> {
        let counted = self.ours().and_then(|entry| entry.sm_mhz);
        counted.or(self.conditions.map(|conditions| conditions.sm_mhz))
    }

    /// The speed of this library's choice relative to the vendor's best.
    pub fn ratio(&self) -> Option<f64> {
        self.ratio_by(sustained)
    }

    /// The same in short bursts: to the library that is the faster one there.
    pub fn burst_ratio(&self) -> Option<f64> {
        self.ratio_by(in_bursts)
    }

    /// The same in long turns: to the library that is the faster one there.
    pub fn turn_ratio(&self) -> Option<f64> {
        self.ratio_by(in_turns)
    }

    /// What the fused epilogue costs, relative to the product without: of this library, and of cuBLASLt.
    pub fn epilogue_costs(&self) -> [Option<f64>; 2] {
        self.epilogue_costs_by(sustained)
    }

    /// The same in long turns.
    pub fn epilogue_costs_in_turns(&self) -> [Option<f64>; 2] {
        self.epilogue_costs_by(in_turns)
    }

    fn best_of_vendor_by(&self, time: Time) -> Option<(&Entry, f64)> {
        let has_epilogue = self.case.group == Group::Epilogue;
        let compared = |entry: &&Entry| (entry.name == LT_WITH_EPILOGUE) == has_epilogue;
        let of_vendor = self.entries.iter().filter(|entry| entry.is_of_vendor()).filter(compared);
        let timed = of_vendor.filter_map(|entry| Some((entry, time(entry)?)));
        timed.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    fn ratio_by(&self, time: Time) -> Option<f64> {
        let (_, best) = self.best_of_vendor_by(time)?;
        Some(best / time(self.ours()?)?)
    }

    fn epilogue_costs_by(&self, time: Time) -> [Option<f64>; 2] {
        [[WITH_EPILOGUE, REGEMM], [LT_WITH_EPILOGUE, CUBLAS_LT]].map(|names| {
            let [with, without] = names.map(|name| time(self.entry(name)?));
            Some(with? / without? - 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CUBLAS, synthetic};
    use super::*;

    #[test]
    fn the_ratio_is_to_the_faster_library() {
        let record = synthetic::record();
        let case = &record.cases[0];
        let times = case.entries.iter().map(|entry| (entry.name.as_str(), entry.microseconds));
        let times: Vec<_> = times.collect();
        assert_eq!(times, [(REGEMM, 20.0), (CUBLAS_LT, 16.0), (CUBLAS, 18.0)]);
        assert_eq!(case.best_of_vendor().unwrap().name, CUBLAS_LT);
        assert_eq!(case.ratio(), Some(0.8));
    }

    #[test]
    fn in_bursts_the_vendor_has_a_best_of_its_own() {
        let record = synthetic::record();
        let burst = record.cases.iter().find(|case| case.case.m == 4096).unwrap();
        assert_eq!((burst.ratio(), burst.burst_ratio()), (Some(0.8), Some(1.1)));
        assert_eq!(record.cases[0].burst_ratio(), None);
    }

    #[test]
    fn there_is_no_ratio_without_either_side() {
        let mut case = synthetic::record().cases.remove(0);
        case.entries.retain(|entry| !entry.is_of_vendor());
        assert_eq!(case.ratio(), None);
        let mut case = synthetic::record().cases.remove(0);
        case.entries.retain(Entry::is_of_vendor);
        assert_eq!(case.ratio(), None);
    }

    #[test]
    fn in_turns_the_vendor_has_a_best_of_its_own() {
        let record = synthetic::record();
        let square = record.cases.iter().find(|case| case.case.m == 4096).unwrap();
        // cuBLASLt and cuBLAS are equal where contenders alternate; by itself cuBLAS is the faster one.
        assert_eq!((square.ratio(), square.turn_ratio()), (Some(0.8), Some(0.95)));
        assert_eq!(record.cases[0].turn_ratio(), None);
    }

    #[test]
    fn in_turns_products_with_an_epilogue_are_compared_with_each_other() {
        let record = synthetic::record();
        let epilogue = record.cases.iter().find(|case| case.case.group == Group::Epilogue).unwrap();
        assert_eq!(epilogue.turn_ratio(), Some(1.05));
        assert_eq!(epilogue.epilogue_costs_in_turns(), [Some(0.25), Some(0.5)]);
        assert_ne!(epilogue.epilogue_costs(), epilogue.epilogue_costs_in_turns());
        let plain = &record.cases[0];
        assert_eq!(plain.epilogue_costs_in_turns(), [None, None]);
    }
}
