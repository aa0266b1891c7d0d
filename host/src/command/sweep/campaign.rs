//! The measuring loop: which kernel is verified and sampled when, and what becomes of the record meanwhile.
//!
//! All kernels are verified on a size first. Then come passes over all of them with a few samples each, so that a drift
//! of the clock meets all alike. What runs long gets fewer samples, so that the slowest kernels do not take all the
//! time.

use crate::command::exit::Failure;
use regemm::measure::{Samples, orders};
use regemm_report::sweep::{Choice, Counts, Record, Timing};
use std::ops::ControlFlow;
use std::time::Duration;

/// Passes over all kernels of a size.
pub const PASSES: usize = 4;

/// Least samples of one kernel on one size: as few as have a median.
const MIN_SAMPLES: usize = 3;

/// Time for the samples of one kernel on one size, as far as more than [`MIN_SAMPLES`] are concerned.
const BUDGET: Duration = Duration::from_millis(250);

/// What runs kernels on one size: a device, or a stand-in in tests.
///
/// Contenders are numbered: the configurations in the order of the record, then the library's own choice.
pub trait Machine {
    /// Runs a contender once on poisoned memory and checks the result.
    fn verify(&mut self, contender: usize) -> Result<Verdict, Failure>;

    /// Times of so many runs of a contender that was verified, in seconds.
    fn sample(&mut self, contender: usize, samples: usize) -> Result<Vec<f64>, Failure>;
}

/// What verifying a contender showed.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The result is right.
    Right {
        /// Name of the kernel.
        kernel: String,
        /// `||D - D_ref|| / ||D_ref||` against double precision.
        relative_error: f64,
        /// What the run showed beside the result.
        run: Run,
    },
    /// The result is wrong, and how.
    Wrong(String),
    /// The kernel cannot run on this device after all, and why.
    CannotRun(String),
}

/// What a single run shows beside its result.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// About how long it took, in seconds: the samples can be taken.
    Took(f64),
    /// What it did. The simulator gives no times, so there is nothing more to measure.
    Did(Counts),
}

/// A step of the loop, for whoever watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The size that is measured.
    pub size: usize,
    /// The contender that has just been run.
    pub contender: usize,
    /// How much of the work is done with this step: a contender is `1 + PASSES` units a size.
    pub units: u64,
    /// Whether a pass over all contenders ends here.
    pub pass_ends: bool,
}

/// Units of work of one contender on one size.
pub const UNITS: u64 = 1 + PASSES as u64;

/// A record that is being filled.
pub struct Campaign {
    /// The record so far: valid at any time.
    pub record: Record,
    /// Whether the library's own choice is measured too.
    pub with_library: bool,
}

/// How a contender fares on the size that is being measured.
struct Standing {
    contender: usize,
    relative_error: f64,
    /// Samples that it gets.
    wanted: usize,
    /// Units of its work that are still to be reported.
    units: u64,
}

impl Campaign {
    /// Contenders that can run and have not all of their samples on a size.
    pub fn pending(&self, size: usize) -> Vec<usize> {
        let contenders = self.record.results.len() + usize::from(self.with_library);
        (0..contenders).filter(|&contender| self.is_pending(contender, size)).collect()
    }

    fn is_pending(&self, contender: usize, size: usize) -> bool {
        let entry = self.record.results.get(contender);
        if entry.is_some_and(|entry| entry.cannot_run.is_some() || entry.wrong.is_some()) {
            return false;
        }
        let counted = match entry {
            Some(entry) => entry.counts(size).is_some(),
            None => self.record.choice(size).is_some_and(|choice| choice.counts.is_some()),
        };
        let sampled = self
            .timing(contender, size)
            .is_some_and(|timing| timing.samples >= self.samples_wanted(timing.milliseconds / 1e3));
        !counted && !sampled
    }

    /// Verifies and measures everything that is pending on a size. `watch` sees the record after each step and may end
    /// the loop; the record then holds what was measured until then.
    ///
    /// # Errors
    /// What the machine or `watch` gives. The record holds what was measured until then.
    pub fn run_size(
        &mut self,
        size: usize,
        machine: &mut impl Machine,
        watch: &mut impl FnMut(&Record, Step) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<ControlFlow<()>, Failure> {
        let mut standings = Vec::new();
        for contender in self.pending(size) {
            let standing = self.judge(contender, size, machine.verify(contender)?)?;
            let units = if standing.is_some() { 1 } else { UNITS };
            standings.extend(standing);
            let step = Step { size, contender, units, pass_ends: false };
            if watch(&self.record, step)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        for mut order in orders(standings.len()) {
            order.retain(|&place| self.missing(&standings[place], size) > 0);
            let Some(&last) = order.last() else { break };
            for place in order {
                let standing = &mut standings[place];
                let contender = standing.contender;
                let missing = self.missing(standing, size);
                let samples = standing.wanted.div_ceil(PASSES).min(missing);
                let times = machine.sample(contender, samples)?;
                self.add(standing, size, &times);
                let units = if self.missing(standing, size) == 0 { standing.units } else { 1 };
                standing.units = standing.units.saturating_sub(units);
                let step = Step { size, contender, units, pass_ends: place == last };
                if watch(&self.record, step)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Marks the record as complete and drops what was only needed to continue it.
    pub fn finish(&mut self) {
        self.record.complete = true;
        let timings = self.record.results.iter_mut().flat_map(|entry| &mut entry.timings);
        let choices = self.record.library.iter_mut().filter_map(|choice| choice.timing.as_mut());
        for timing in timings.chain(choices) {
            timing.sample_milliseconds.clear();
        }
    }

    /// Takes a verdict down; the standing of a contender that is still to be sampled.
    fn judge(
        &mut self,
        contender: usize,
        size: usize,
        verdict: Verdict,
    ) -> Result<Option<Standing>, Failure> {
        let entry = self.record.results.get_mut(contender);
        match (verdict, entry) {
            (Verdict::Right { relative_error, run: Run::Took(seconds), kernel }, entry) => {
                if entry.is_none() {
                    let timing = self.record.choice(size).and_then(|known| known.timing.clone());
                    self.choose(Choice { size, kernel, timing, counts: None });
                }
                let wanted = self.samples_wanted(seconds);
                Ok(Some(Standing { contender, relative_error, wanted, units: UNITS - 1 }))
            }
            (Verdict::Right { relative_error, run: Run::Did(counts), kernel }, entry) => {
                let counts = Counts { size, relative_error, ..counts };
                match entry {
                    Some(entry) => entry.counts.push(counts),
                    None => {
                        self.choose(Choice { size, kernel, timing: None, counts: Some(counts) })
                    }
                }
                Ok(None)
            }
            (Verdict::Wrong(how), Some(entry)) => {
                entry.wrong = Some(format!("{size}: {how}"));
                // The speed of a kernel that is wrong somewhere is worth nothing anywhere.
                entry.timings.clear();
                entry.counts.clear();
                Ok(None)
            }
            (Verdict::CannotRun(why), Some(entry)) => {
                entry.cannot_run = Some(why);
                Ok(None)
            }
            (Verdict::Wrong(how) | Verdict::CannotRun(how), None) => Err(Failure::Verification(
                format!("the kernel that the library chooses for {size}: {how}"),
            )),
        }
    }

    /// Takes down what the library chooses for a size.
    fn choose(&mut self, choice: Choice) {
        self.record.library.retain(|known| known.size != choice.size);
        self.record.library.push(choice);
    }

    /// How many samples a kernel gets that takes so long.
    fn samples_wanted(&self, seconds: f64) -> usize {
        let affordable = (BUDGET.as_secs_f64() / seconds) as usize;
        affordable.clamp(MIN_SAMPLES.min(self.record.reps), self.record.reps)
    }

    fn missing(&self, standing: &Standing, size: usize) -> usize {
        let taken = self.timing(standing.contender, size).map_or(0, |timing| timing.samples);
        standing.wanted.saturating_sub(taken)
    }

    fn timing(&self, contender: usize, size: usize) -> Option<&Timing> {
        match self.record.results.get(contender) {
            Some(entry) => entry.timing(size),
            None => self.record.choice(size)?.timing.as_ref(),
        }
    }

    /// Adds samples of a contender.
    fn add(&mut self, standing: &Standing, size: usize, seconds: &[f64]) {
        let before = self.timing(standing.contender, size);
        let mut samples = before.map_or_else(Vec::new, |timing| timing.sample_milliseconds.clone());
        samples.extend(seconds.iter().map(|seconds| seconds * 1e3));
        let Some(timing) = summarise(size, samples, standing.relative_error) else { return };
        match self.record.results.get_mut(standing.contender) {
            Some(entry) => {
                entry.timings.retain(|timing| timing.size != size);
                entry.timings.push(timing);
            }
            None => {
                let of_size = |choice: &&mut Choice| choice.size == size;
                if let Some(choice) = self.record.library.iter_mut().find(of_size) {
                    choice.timing = Some(timing);
                }
            }
        }
    }
}

/// Median, speed and spread of samples; `None` without any.
fn summarise(size: usize, sample_milliseconds: Vec<f64>, relative_error: f64) -> Option<Timing> {
    let durations = sample_milliseconds.iter().map(|&ms| Duration::from_secs_f64(ms / 1e3));
    let samples = Samples::new(durations.collect())?;
    let seconds = samples.median().as_secs_f64();
    Some(Timing {
        size,
        milliseconds: seconds * 1e3,
        tflops: 2.0 * (size as f64).powi(3) / seconds / 1e12,
        spread: samples.spread(),
        samples: samples.count(),
        relative_error,
        sample_milliseconds,
    })
}

#[cfg(test)]
mod tests;
