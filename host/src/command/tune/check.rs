//! How close the choice comes to the fastest kernel.

use super::super::exit::Failure;
use super::super::options::Size;
use super::super::output::{Output, seconds, table};
use super::super::{interrupt, progress};
use super::{Arguments, kinds, problem, provenance, shape};
use indicatif::ProgressBar;
use regemm::kernels::{Types, Why};
use regemm::tuning::Shape;
use regemm::tuning::explain::{Explanation, explain};
use regemm::tuning::measure::{Measured, Meter};
use regemm::{Device, Element, Error, KernelInfo, Layouts, Yields, with_types};
use serde_json::{Value, json};

/// A choice this much slower than the fastest kernel is as good: less is not told apart reliably.
const CLOSE: f64 = 0.01;

/// One shape.
struct Check {
    explanation: Explanation,
    chosen: Measured,
    fastest: Measured,
    all: Vec<Measured>,
}

impl Check {
    /// The time of the chosen kernel relative to that of the fastest, less one.
    fn loss(&self) -> f64 {
        median(&self.chosen) / median(&self.fastest) - 1.0
    }

    /// Whether the shape itself is in the table that the choice was made by.
    fn tuned_on(&self) -> bool {
        let why = self.explanation.selection.as_ref().ok().map(|selection| selection.why);
        matches!(why, Some(Why::Tuned(tuned)) if tuned.exact)
    }

    /// The expected time of a kernel.
    fn expected(&self, kernel: &KernelInfo) -> Option<f64> {
        let mut ranking = self.explanation.ranking.iter();
        let candidate = ranking.find(|candidate| candidate.kernel.name == kernel.name)?;
        candidate.predicted.map(|time| time.as_secs_f64())
    }
}

fn median(measured: &Measured) -> f64 {
    measured.samples.median().as_secs_f64()
}

/// Runs `regemm tune --check`.
pub fn run(arguments: &Arguments, device: &Device, output: &mut Output) -> Result<(), Failure> {
    interrupt::stop_by_request();
    let asked = arguments.check.len() * kinds(arguments).count();
    let bar = progress::long_bar(asked as u64);
    let mut checks = Vec::new();
    let outcome = kinds(arguments).try_for_each(|(types, layouts)| {
        with_types!(types, check(arguments, layouts, device, &bar, &mut checks))
    });
    bar.finish_and_clear();
    // What was checked before a failure is shown first.
    if outcome.is_ok() || !checks.is_empty() {
        report(device, &checks, checks.len() == asked, output)?;
    }
    outcome?;
    if interrupt::requested() {
        return Err(Failure::Interrupted("interrupted; the other shapes were not measured".into()));
    }
    Ok(())
}

fn check<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    arguments: &Arguments,
    layouts: Layouts,
    device: &Device,
    bar: &ProgressBar,
    checks: &mut Vec<Check>,
) -> Result<(), Failure> {
    let types = Types { factors: T::DTYPE, results: D::DTYPE };
    let mut meter = Meter::<T, D>::new(device, arguments.reps, arguments.seed)?;
    for &size in &arguments.check {
        if interrupt::requested() {
            break;
        }
        bar.set_message(format!("{types} {layouts} {size}"));
        checks.push(check_shape(device, &mut meter, (types, layouts), size)?);
        bar.inc(1);
    }
    Ok(())
}

fn check_shape<T: Element + Yields<D>, D: Element<Acc = T::Acc>>(
    device: &Device,
    meter: &mut Meter<T, D>,
    (types, layouts): (Types, Layouts),
    size: Size,
) -> Result<Check, Failure> {
    let problem = problem(types, layouts, size);
    let shape = shape(&problem);
    let explanation = explain(device, &problem, shape);
    let selection = explanation.selection.clone()?;
    let all = meter.measure(layouts, shape)?;
    let fastest = all.iter().min_by(|a, b| median(a).total_cmp(&median(b))).cloned();
    let chosen = all.iter().find(|one| one.kernel.name == selection.kernel.name).cloned();
    // The chosen kernel runs on the device, so it was measured unless its result is wrong.
    let missing = || Error::NotMeasurable {
        why: "the kernel that is chosen does not agree with the others".into(),
    };
    let (chosen, fastest) = chosen.zip(fastest).ok_or_else(missing)?;
    Ok(Check { explanation, chosen, fastest, all })
}

fn report(
    device: &Device,
    checks: &[Check],
    complete: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let close = checks.iter().filter(|check| check.loss() <= CLOSE).count();
    let worst = checks.iter().map(Check::loss).max_by(f64::total_cmp);
    output.document(&json!({
        "command": "tune",
        "provenance": provenance(device.info()),
        "device": device.info(),
        "policy": device.tuning().name(),
        "within": CLOSE,
        "complete": complete,
        "checked": checks.len(),
        "close": close,
        "worst_loss": worst,
        "results": checks.iter().map(check_json).collect::<Vec<_>>(),
    }))?;
    output.text(format_args!("{}, choosing by {}", device.info().name, device.tuning()))?;
    let row = |check: &Check| {
        let Check { explanation, chosen, fastest, .. } = check;
        let problem = &explanation.problem;
        vec![
            format!("{} {} {}", problem.types(), problem.layouts, explanation.shape),
            chosen.kernel.name.to_owned(),
            seconds(median(chosen)),
            fastest.kernel.name.to_owned(),
            seconds(median(fastest)),
            format!("{:.3}", 1.0 + check.loss()),
            format!("{:.1} %", chosen.samples.spread() * 100.0),
            if check.tuned_on() { "yes" } else { "no" }.to_owned(),
        ]
    };
    let heading = ["shape", "chosen", "time", "fastest", "time", "ratio", "spread", "tuned on"];
    output.text(table(&heading, checks.iter().map(row)))?;
    output.text(format_args!(
        "{close} of {} within {} % of the fastest{}",
        checks.len(),
        CLOSE * 100.0,
        worst.map_or(String::new(), |worst| format!(", at worst {:.1} % slower", worst * 100.0))
    ))
}

fn check_json(check: &Check) -> Value {
    let Check { explanation, chosen, fastest, all } = check;
    let Shape { m, n, k, aligned } = explanation.shape;
    let kernel = |one: &Measured| {
        json!({
            "kernel": one.kernel.name,
            "seconds": median(one),
            "spread": one.samples.spread(),
            "samples": one.samples.count(),
            "expected_seconds": check.expected(one.kernel),
        })
    };
    json!({
        "m": m, "n": n, "k": k, "aligned": aligned,
        "dtype": explanation.problem.types().name(),
        "layouts": explanation.problem.layouts.name(),
        "chosen": chosen.kernel.name,
        "fastest": fastest.kernel.name,
        "loss": check.loss(),
        "tuned_on": check.tuned_on(),
        "why": explanation.selection.as_ref().ok().map(|selection| selection.why.to_string()),
        "kernels": all.iter().map(kernel).collect::<Vec<_>>(),
    })
}
