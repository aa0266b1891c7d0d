//! The choice of a kernel with everything that it was made from.

use super::choice;
use super::class::Shape;
use super::model::Model;
use super::nearby::Nearby;
use super::policy::Tuning;
use super::shipped::{self, ShippedTables};
use crate::device::Device;
use crate::device::info::{DeviceInfo, DeviceKind};
use crate::error::{Error, Result};
use crate::kernels::{
    NotTuned, Problem, Repack, Rule, Selection, Tuned, Why, choose_untuned, fitted, rank, supports,
    twin_of_types,
};
use regemm_kernels::kernel::{KernelInfo, Tile};
use regemm_kernels::layout::Layouts;
use std::borrow::Borrow;
use std::time::Duration;

/// Why a kernel is chosen for a problem, and how the others stand.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The problem.
    pub problem: Problem,
    /// Its shape.
    pub shape: Shape,
    /// The chosen kernel; an error where the device can run none.
    pub selection: Result<Selection>,
    /// All kernels of the element types and layouts: the chosen one, then those with expected times from fast to slow,
    /// then the others as the rule ranks them.
    pub ranking: Vec<Candidate>,
}

/// A kernel that could be chosen.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// The tiles that it would have: fewer columns or rows than it says where they
    /// [fit](regemm_kernels::warpgroup::fit).
    pub tile: Tile,
    /// The expected time, of its twin for row-major factors or results of the factors' type where it was not measured
    /// itself; none where nothing near the shape was, and for batches, which are not measured.
    pub predicted: Option<Duration>,
    /// Its place in the ranking by rule, the first being 1.
    pub place: usize,
    /// The part of the rule that put it there.
    pub rule: Rule,
    /// Why the device cannot run it.
    pub refusal: Option<Error>,
}

/// What [`Gemm::run`](crate::Gemm::run) would choose for a problem on a device now. Measures nothing, also where shapes
/// are measured at their first use.
pub fn explain(device: &Device, problem: &Problem, shape: Shape) -> Explanation {
    let (tuner, info) = (device.tuner(), device.info());
    let selection = tuner.choose(info, problem, shape, None, false);
    let tuned = tuner.policy() != Tuning::Rule && info.kind != DeviceKind::Sim;
    let models = tuned.then(|| tuner.models(info, problem.types()));
    of(problem, shape, info, selection, models.into_iter().flatten())
}

/// What would be chosen on a device that need not be there, such as one of the [known](crate::gpus) ones, by the tables
/// that this library brings and no cache.
pub fn explain_shipped(device: &DeviceInfo, problem: &Problem, shape: Shape) -> Explanation {
    let tables = problem.types().and_alike().map(|types| shipped::for_device(device, types));
    let model = |tables: Option<ShippedTables>| {
        Model::new(device, &Vec::from_iter(tables.iter().flat_map(ShippedTables::measured)))
    };
    let models = Vec::from_iter(tables.map(model));
    let selection = choice::choose(&models, problem, shape, device, None)
        .or_else(|not_tuned| choose_untuned(problem, device, None, not_tuned));
    of(problem, shape, device, selection, &models)
}

fn of(
    problem: &Problem,
    shape: Shape,
    device: &DeviceInfo,
    selection: Result<Selection>,
    models: impl IntoIterator<Item: Borrow<Model>>,
) -> Explanation {
    let mut models = models.into_iter().filter(|_| problem.batch == 1);
    let model = models.find(|model| model.borrow().near(shape, problem.layouts).is_some());
    let model = model.as_ref().map(Borrow::borrow);
    let near = model.and_then(|model: &Model| Some((model, Nearby::of(model, problem, shape)?)));
    // The time of what is chosen may be that of a kernel with the same tiles whose slices come in another way.
    let of_chosen = selection.as_ref().ok().and_then(|&Selection { kernel, why }| match why {
        Why::Tuned(Tuned { predicted, .. }) => Some((kernel.name, predicted)),
        _ => None,
    });
    let predicted = |kernel: &'static KernelInfo| {
        if let Some((_, predicted)) = of_chosen.filter(|(name, _)| *name == kernel.name) {
            return Some(predicted);
        }
        let (model, near) = near.as_ref()?;
        let of_types = |layouts| twin_of_types(kernel, model.types()?, layouts);
        let row_major = of_types(Layouts::NN)?;
        let index = model.kernels().iter().position(|known| known.name == row_major.name)?;
        let twin = of_types(kernel.layouts).unwrap_or(row_major);
        Duration::try_from_secs_f64(near.seconds_as(index, twin)?).ok()
    };
    let sizes = [problem.m, problem.n, problem.k];
    let candidate = |(place, Selection { kernel, why }): (usize, Selection)| {
        let Why::Rule { rule, .. } = why else { return None };
        Some(Candidate {
            kernel,
            tile: fitted(kernel, sizes, device.multiprocessors).tile,
            predicted: predicted(kernel),
            place: place + 1,
            rule,
            refusal: supports(kernel, problem, device).err(),
        })
    };
    let ranked = rank(problem, device).into_iter().enumerate();
    let mut ranking: Vec<Candidate> = ranked.filter_map(candidate).collect();
    let chosen = selection.as_ref().ok().map(|selection| selection.kernel.name);
    ranking.sort_by_key(|candidate| {
        let time = candidate.predicted.unwrap_or(Duration::MAX);
        (Some(candidate.kernel.name) != chosen, candidate.refusal.is_some(), time)
    });
    Explanation { problem: *problem, shape, selection, ranking }
}

impl Explanation {
    /// What is repacked for the chosen kernel.
    pub fn repack(&self) -> Repack {
        let chosen = self.selection.as_ref().ok();
        chosen.map(|selection| Repack::of(selection.kernel, &self.problem)).unwrap_or_default()
    }

    /// Why the choice was not made by measured times; none if it was.
    pub fn not_tuned(&self) -> Option<NotTuned> {
        match self.selection.as_ref().ok()?.why {
            Why::Rule { not_tuned, .. } => Some(not_tuned),
            _ => None,
        }
    }
}
