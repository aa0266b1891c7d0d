//! Which kernel is chosen for a shape, and why.

use super::super::exit::Failure;
use super::super::output::{Output, or_dash, seconds, table};
use super::{Arguments, kinds, problem, shape};
use regemm::kernels::Why;
use regemm::tuning::explain::{Candidate, Explanation, explain, explain_shipped};
use regemm::{Device, Error, Needs, gpus};
use serde_json::{Value, json};

/// Runs `regemm tune --explain`.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let known = arguments.gpu.as_deref().map(gpus::find).transpose()?;
    let device = match known {
        Some(_) => None,
        None => Some(Device::open(arguments.device.device)?),
    };
    let mut explanations = Vec::new();
    for (types, layouts) in kinds(arguments) {
        for &size in &arguments.explain {
            let problem = problem(types, layouts, size);
            let shape = shape(&problem);
            explanations.push(match (&device, known) {
                (Some(device), _) => explain(device, &problem, shape),
                (None, Some(gpu)) => explain_shipped(&gpu.info(), &problem, shape),
                // One of the two is there: a device is opened where no GPU is named.
                (None, None) => continue,
            });
        }
    }
    let name = match (&device, known) {
        (Some(device), _) => device.info().name.as_str(),
        (None, gpu) => gpu.map_or("", |gpu| gpu.name),
    };
    output.document(&json!({
        "command": "tune",
        "gpu": name,
        "policy": device.as_ref().map(|device| device.tuning().name()),
        "explanations": explanations.iter().map(explanation_json).collect::<Vec<_>>(),
    }))?;
    output.text(name)?;
    for explanation in &explanations {
        output.text(format_args!("\n{}", text(explanation)))?;
    }
    Ok(())
}

/// An explanation in words, with a table of all kernels.
fn text(explanation: &Explanation) -> String {
    let Explanation { problem, shape, selection, .. } = explanation;
    let alignment = if shape.aligned { "" } else { ", rows unaligned" };
    let choice = match (selection, explanation.repack()) {
        (Ok(selection), repack) if !repack.is_nothing() => format!("{selection}\n{repack}"),
        (Ok(selection), _) => selection.to_string(),
        (Err(error), _) => error.to_string(),
    };
    format!("{problem}{alignment}\n{choice}\n{}", ranking(explanation))
}

/// All kernels, the chosen one first.
pub fn ranking(explanation: &Explanation) -> String {
    let chosen = explanation.ranking.first().and_then(|candidate| candidate.predicted);
    let row = |candidate: &Candidate| {
        let ratio = candidate.predicted.zip(chosen);
        let ratio = ratio.map(|(time, chosen)| time.as_secs_f64() / chosen.as_secs_f64());
        vec![
            candidate.kernel.name.to_owned(),
            format!("{} x {}", candidate.tile.bm, candidate.tile.bn),
            or_dash(candidate.predicted.map(|time| seconds(time.as_secs_f64()))),
            or_dash(ratio.map(|ratio| format!("{ratio:.3}"))),
            candidate.place.to_string(),
            match &candidate.refusal {
                Some(error) => format!("cannot: {}", in_short(error)),
                None => reason(explanation, candidate),
            },
        ]
    };
    let heading = [
        "kernel",
        "tile of D",
        "expected time",
        "chosen = 1",
        "rank by rule",
        "why there, or why it cannot run",
    ];
    table(&heading, explanation.ranking.iter().map(row))
}

/// Why the rule puts a kernel where it does. Only of the one that it chooses is it true that it is the best.
fn reason(explanation: &Explanation, candidate: &Candidate) -> String {
    let is_chosen = match &explanation.selection {
        Ok(selection) if matches!(selection.why, Why::Rule { .. }) => {
            selection.kernel.name == candidate.kernel.name
        }
        _ => candidate.place == 1,
    };
    if is_chosen { candidate.rule.to_string() } else { candidate.rule.of_another().to_string() }
}

/// Why a kernel cannot run, short enough for a cell.
fn in_short(error: &Error) -> String {
    match error {
        Error::KernelNeeds { needs, .. } => match needs {
            Needs::Nothing => error.to_string(),
            Needs::TensorCores | Needs::DoubleTensorCores => {
                "needs compute capability 8.0".to_owned()
            }
            Needs::DoubleTensorCoresInClusters
            | Needs::RegisterTransfers
            | Needs::WarpgroupProducts => "needs compute capability 9.0 alone".to_owned(),
        },
        Error::KernelDoesNotFit { resource, needed, available, .. } => {
            format!("{needed} {resource}, of {available}")
        }
        Error::Precision { .. } => "does not take sums over to f32".to_owned(),
        other => other.to_string(),
    }
}

/// An explanation as a JSON object.
pub fn explanation_json(explanation: &Explanation) -> Value {
    let Explanation { problem, shape, selection, ranking } = explanation;
    let candidate = |candidate: &Candidate| {
        json!({
            "kernel": candidate.kernel.name,
            "tile": [candidate.tile.bm, candidate.tile.bn],
            "expected_seconds": candidate.predicted.map(|time| time.as_secs_f64()),
            "rank_by_rule": candidate.place,
            "rule": reason(explanation, candidate),
            "cannot_run": candidate.refusal.as_ref().map(ToString::to_string),
        })
    };
    json!({
        "m": problem.m, "n": problem.n, "k": problem.k,
        "dtype": problem.types().name(),
        "layouts": problem.layouts.name(),
        "aligned": shape.aligned,
        "kernel": selection.as_ref().ok().map(|selection| selection.kernel.name),
        "why": match selection {
            Ok(selection) => selection.why.to_string(),
            Err(error) => error.to_string(),
        },
        "repacked": explanation.repack().factors().collect::<Vec<_>>(),
        "transposed": explanation.repack().transposed_factors().collect::<Vec<_>>(),
        "tuned": selection.is_ok() && explanation.not_tuned().is_none(),
        "ranking": ranking.iter().map(candidate).collect::<Vec<_>>(),
    })
}
