//! The loop on a stand-in for a device.

use super::*;
use regemm::measure::orders;
use regemm_report::sweep::{Config, Entry};

/// A machine whose kernels take what they are told to.
struct Fake {
    /// Time of each contender's runs.
    seconds: Vec<f64>,
    /// Verdicts that are not `Right`.
    odd: Vec<(usize, Verdict)>,
    /// The contender whose first sample fails.
    broken: Option<usize>,
    /// Counts instead of times.
    counts: bool,
    verified: Vec<usize>,
    /// Contender and number of samples of each visit.
    visits: Vec<(usize, usize)>,
}

impl Fake {
    fn new(seconds: &[f64]) -> Fake {
        Fake {
            seconds: seconds.to_vec(),
            odd: Vec::new(),
            broken: None,
            counts: false,
            verified: Vec::new(),
            visits: Vec::new(),
        }
    }

    fn samples_of(&self, contender: usize) -> Vec<usize> {
        let visits = self.visits.iter().filter(|(visited, _)| *visited == contender);
        visits.map(|(_, samples)| *samples).collect()
    }
}

impl Machine for Fake {
    fn verify(&mut self, contender: usize) -> Result<Verdict, Failure> {
        self.verified.push(contender);
        if let Some((_, verdict)) = self.odd.iter().find(|(odd, _)| *odd == contender) {
            return Ok(verdict.clone());
        }
        let run = if self.counts {
            Run::Did(Counts { global_bytes: 100 + contender as u64, ..Counts::default() })
        } else {
            Run::Took(self.seconds[contender])
        };
        Ok(Verdict::Right { kernel: format!("k{contender}"), relative_error: 1e-7, run })
    }

    fn sample(&mut self, contender: usize, samples: usize) -> Result<Vec<f64>, Failure> {
        if self.broken == Some(contender) {
            return Err(Failure::Usage("the device is gone".into()));
        }
        self.visits.push((contender, samples));
        Ok(vec![self.seconds[contender]; samples])
    }
}

const SIZE: usize = 1000;
const REPS: usize = 20;
const QUICK: f64 = 1e-3;
/// Longer than the whole budget.
const SLOW: f64 = 1.0;

fn campaign(configurations: u32, with_library: bool) -> Campaign {
    let entry = |tile| Entry {
        kernel: format!("k{tile}"),
        config: Config { bm: tile, ..Config::default() },
        ..Entry::default()
    };
    let record = Record {
        sizes: vec![SIZE],
        reps: REPS,
        results: (0..configurations).map(entry).collect(),
        ..Record::default()
    };
    Campaign { record, with_library }
}

/// Runs to the end and gives the steps.
fn run(campaign: &mut Campaign, machine: &mut Fake) -> Vec<Step> {
    let mut steps = Vec::new();
    let flow = campaign.run_size(SIZE, machine, &mut |_, step| {
        steps.push(step);
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(flow.unwrap(), ControlFlow::Continue(()));
    steps
}

#[test]
fn all_are_verified_first_and_then_take_turns() {
    let mut campaign = campaign(3, false);
    let mut machine = Fake::new(&[QUICK; 3]);
    let steps = run(&mut campaign, &mut machine);
    assert_eq!(machine.verified, [0, 1, 2]);
    let order: Vec<usize> = machine.visits.iter().map(|(contender, _)| *contender).collect();
    let drawn: Vec<usize> = orders(3).take(PASSES).flatten().collect();
    assert_eq!(order, drawn, "each pass in another order");
    assert_eq!(machine.samples_of(0), [5, 5, 5, 5]);
    let ends = steps.iter().filter(|step| step.pass_ends).count();
    assert_eq!(ends, PASSES);

    let timing = campaign.record.results[1].timing(SIZE).unwrap();
    assert_eq!((timing.samples, timing.relative_error), (REPS, 1e-7));
    approx::assert_relative_eq!(timing.milliseconds, 1.0);
    approx::assert_relative_eq!(timing.tflops, 2.0, max_relative = 1e-9);
    assert!(campaign.pending(SIZE).is_empty());
}

#[test]
fn slow_kernels_get_the_fewest_samples_one_a_pass() {
    let mut campaign = campaign(2, false);
    let mut machine = Fake::new(&[QUICK, SLOW]);
    run(&mut campaign, &mut machine);
    assert_eq!(machine.samples_of(0).iter().sum::<usize>(), REPS);
    assert_eq!(machine.samples_of(1), [1; MIN_SAMPLES]);
    assert!(campaign.pending(SIZE).is_empty());
}

#[test]
fn in_between_samples_fill_the_budget() {
    let mut campaign = campaign(1, false);
    let mut machine = Fake::new(&[BUDGET.as_secs_f64() / 10.5]);
    run(&mut campaign, &mut machine);
    assert_eq!(machine.samples_of(0).iter().sum::<usize>(), 10);
}

#[test]
fn fewer_repetitions_than_the_fewest_samples_are_obeyed() {
    let mut campaign = campaign(1, false);
    campaign.record.reps = 1;
    let mut machine = Fake::new(&[SLOW]);
    run(&mut campaign, &mut machine);
    assert_eq!(machine.visits, [(0, 1)]);
}

#[test]
fn all_work_is_reported_whatever_becomes_of_it() {
    let mut campaign = campaign(4, true);
    let mut machine = Fake::new(&[QUICK, SLOW, QUICK, QUICK, QUICK]);
    machine.odd = vec![(2, Verdict::Wrong("no".into())), (3, Verdict::CannotRun("no".into()))];
    let steps = run(&mut campaign, &mut machine);
    assert_eq!(steps.iter().map(|step| step.units).sum::<u64>(), 5 * UNITS);
}

#[test]
fn a_wrong_kernel_has_no_speed_on_any_size() {
    let mut campaign = campaign(2, false);
    campaign.record.sizes = vec![SIZE / 2, SIZE];
    let known = Timing { size: SIZE / 2, samples: REPS, ..Timing::default() };
    campaign.record.results[0].timings.push(known);
    let mut machine = Fake::new(&[QUICK, QUICK]);
    machine.odd = vec![(0, Verdict::Wrong("2 elements".into()))];
    run(&mut campaign, &mut machine);
    let entry = &campaign.record.results[0];
    assert_eq!(entry.wrong.as_deref(), Some("1000: 2 elements"));
    assert!(entry.timings.is_empty() && machine.samples_of(0).is_empty());
    assert!(campaign.record.results[1].timing(SIZE).is_some());
    assert!(campaign.pending(SIZE / 2).iter().all(|&contender| contender != 0));
}

#[test]
fn what_the_device_refuses_is_passed_over() {
    let mut campaign = campaign(2, false);
    campaign.record.results[1].cannot_run = Some("known before".into());
    let mut machine = Fake::new(&[QUICK, QUICK]);
    machine.odd = vec![(0, Verdict::CannotRun("too large".into()))];
    run(&mut campaign, &mut machine);
    assert_eq!(machine.verified, [0]);
    assert_eq!(campaign.record.results[0].cannot_run.as_deref(), Some("too large"));
    assert!(machine.visits.is_empty());
}

#[test]
fn the_librarys_choice_takes_turns_with_the_others() {
    let mut campaign = campaign(1, true);
    let mut machine = Fake::new(&[QUICK, 2.0 * QUICK]);
    run(&mut campaign, &mut machine);
    let choice = campaign.record.choice(SIZE).unwrap();
    assert_eq!((choice.kernel.as_str(), campaign.record.library.len()), ("k1", 1));
    approx::assert_relative_eq!(choice.timing.as_ref().unwrap().milliseconds, 2.0);

    let mut machine = Fake::new(&[QUICK, QUICK]);
    machine.odd = vec![(1, Verdict::Wrong("3 elements".into()))];
    let failure = self::campaign(1, true)
        .run_size(SIZE, &mut machine, &mut |_, _| Ok(ControlFlow::Continue(())));
    assert!(matches!(failure, Err(Failure::Verification(_))), "{failure:?}");
}

#[test]
fn counts_need_no_samples() {
    let mut campaign = campaign(2, true);
    let mut machine = Fake::new(&[]);
    machine.counts = true;
    run(&mut campaign, &mut machine);
    assert!(machine.visits.is_empty());
    let counts = campaign.record.results[1].counts(SIZE).unwrap();
    assert_eq!((counts.global_bytes, counts.relative_error), (101, 1e-7));
    let choice = campaign.record.choice(SIZE).unwrap();
    assert_eq!(choice.counts.as_ref().unwrap().global_bytes, 102);
    assert!(campaign.pending(SIZE).is_empty());
}

/// Whenever the loop is stopped, what is on disk then can be continued to the same number of samples, and what had all
/// of its samples is not run again.
#[test]
fn a_stopped_campaign_continues_where_it_was() {
    let seconds = [QUICK, SLOW, 2.0 * QUICK];
    let steps = run(&mut campaign(2, true), &mut Fake::new(&seconds)).len();
    for stop in 1..steps {
        let mut first = campaign(2, true);
        let mut seen = 0;
        let flow = first.run_size(SIZE, &mut Fake::new(&seconds), &mut |_, _| {
            seen += 1;
            Ok(if seen == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        assert_eq!(flow.unwrap(), ControlFlow::Break(()));
        let json = serde_json::to_string(&first.record).unwrap();

        let record: Record = serde_json::from_str(&json).unwrap();
        let mut second = Campaign { record, with_library: true };
        let pending = second.pending(SIZE);
        assert!(!pending.is_empty(), "stopped after {stop} of {steps} steps");
        let mut machine = Fake::new(&seconds);
        run(&mut second, &mut machine);
        assert_eq!(machine.verified, pending);
        second.finish();
        let samples = second.record.results.iter().map(|entry| entry.timing(SIZE).unwrap().samples);
        assert_eq!(samples.collect::<Vec<_>>(), [REPS, MIN_SAMPLES]);
        assert_eq!(second.record.library.len(), 1);
        assert_eq!(second.record.choice(SIZE).unwrap().timing.as_ref().unwrap().samples, REPS);
    }
}

#[test]
fn a_failure_of_the_device_keeps_what_was_measured() {
    let mut campaign = campaign(2, false);
    let mut machine = Fake::new(&[QUICK, QUICK]);
    let first_pass = orders(2).next().unwrap();
    machine.broken = Some(first_pass[1]);
    let failure = campaign.run_size(SIZE, &mut machine, &mut |_, _| Ok(ControlFlow::Continue(())));
    assert!(failure.is_err());
    let measured = &campaign.record.results[first_pass[0]];
    assert_eq!(measured.timing(SIZE).unwrap().samples, REPS / PASSES);
}

#[test]
fn a_finished_record_holds_no_single_samples() {
    let mut campaign = campaign(1, true);
    run(&mut campaign, &mut Fake::new(&[QUICK, QUICK]));
    let raw = |campaign: &Campaign| {
        let timing = campaign.record.results[0].timing(SIZE).unwrap();
        let choice = campaign.record.choice(SIZE).unwrap().timing.as_ref().unwrap();
        [timing.sample_milliseconds.len(), choice.sample_milliseconds.len()]
    };
    assert_eq!(raw(&campaign), [REPS, REPS]);
    campaign.finish();
    assert!(campaign.record.complete);
    assert_eq!(raw(&campaign), [0, 0]);
}
