//! The choice by predicted times.

use super::class::Shape;
use super::model::Model;
use super::nearby::Nearby;
use crate::device::info::DeviceInfo;
use crate::kernels::precise::or_promoted;
use crate::kernels::{
    NotTuned, Order, Problem, RunnerUp, Selection, Tuned, Why, in_the_faster_way,
    is_told_for_sides, supports, twin_of_types,
};
use regemm_kernels::kernel::{KernelInfo, Needs, Rung};
use regemm_kernels::layout::{Layout, Layouts};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::time::Duration;

/// Kernels whose predicted times differ by less than this are taken as equally fast: medians of repeated measurements
/// differ by as much. The rule then decides, so that the choice does not jump from shape to shape.
const TIE: f64 = 0.005;

/// By how much what is expected of a kernel may be too short, where others were measured on the very shape and it was
/// not: it is chosen if it is faster still. A kernel that came later than the times is not there among them.
const DOUBT: f64 = 0.08;

/// The kernel with the shortest predicted time among those that the device can run, and of a rung if one is given, by
/// the first model that knows something near the shape: of the problem's element types, then of those that are
/// [alike](crate::kernels::Types::and_alike). Where tensor cores would cut off too much, among those that
/// [promote](or_promoted) their sums.
///
/// # Errors
/// Why there is none: by the last model.
pub(super) fn choose(
    models: impl IntoIterator<Item: Borrow<Model>>,
    problem: &Problem,
    shape: Shape,
    device: &DeviceInfo,
    rung: Option<Rung>,
) -> Result<Selection, NotTuned> {
    if problem.batch != 1 {
        return Err(NotTuned::Batch);
    }
    let mut why_not = NotTuned::NoTable;
    for model in models {
        let by_model = |problem: &Problem| choose_by(model.borrow(), problem, shape, device, rung);
        match or_promoted(problem, rung, by_model) {
            Ok(selection) => return Ok(selection),
            Err(why) => why_not = why,
        }
    }
    Err(why_not)
}

/// The choice by one model. Times are of row-major factors, or of these layouts as far as they were measured, and may
/// be of results of another type. Of others it is the twin of the kernel that would be chosen for those, or the kernel
/// of the same tiles whose slices come in another way, if that is [faster](in_the_faster_way) in these layouts. Not all
/// kernels have a twin for all layouts, or for results of another type, and only those that have are asked.
fn choose_by(
    model: &Model,
    problem: &Problem,
    shape: Shape,
    device: &DeviceInfo,
    rung: Option<Rung>,
) -> Result<Selection, NotTuned> {
    let types = model.types().ok_or(NotTuned::NoTable)?;
    let near = Nearby::of(model, problem, shape).ok_or(NotTuned::NothingNear)?;
    let other_types = types.results != problem.target;
    let row_major = Problem { layouts: Layouts::NN, ..*problem };
    let measured = Problem {
        target: types.results,
        // Short results are not promoted: of their kernels it is the twins that are asked.
        promoted: problem.promoted && !other_types,
        ..row_major
    };
    let is_of_rung = |kernel: &KernelInfo| rung.is_none_or(|rung| rung == kernel.rung);
    let launched = |twin: &'static KernelInfo| {
        let own = (!other_types).then_some(twin);
        let launched = own.or_else(|| twin_of_types(twin, problem.types(), problem.layouts));
        launched.filter(|kernel| supports(kernel, problem, device).is_ok())
    };
    let candidate = |index: usize, kernel: &'static KernelInfo, twin: &'static KernelInfo| {
        let seconds = near.seconds_as(index, twin).filter(|_| is_of_rung(kernel))?;
        let measured = near.telling(twin).measured();
        let is_exact = measured.is_exact() && measured.nearest().0 == shape;
        let is_guess = || near.telling(twin).others_were_measured(twin);
        let in_question = |kernel: &&KernelInfo| {
            is_told_for_sides(kernel, problem.m, problem.n) || (is_exact && !is_guess())
        };
        let launched = launched(twin).filter(in_question)?;
        let is_told = near.telling(twin).is_measured_twin(twin)
            || problem.layouts.b == Layout::RowMajor
            || keeps_pages_open(kernel, problem, device);
        is_told.then(|| Candidate { kernel, twin, launched, seconds, is_guess: is_guess() })
    };
    let mut candidates = Vec::new();
    let of_kernels = model.kernels().iter().zip(model.twins(problem.layouts)).enumerate();
    for (index, (&kernel, twins)) in of_kernels {
        candidates.extend(twins.iter().filter_map(|&twin| candidate(index, kernel, twin)));
    }
    let chosen = fastest(&candidates, &measured, device).ok_or_else(|| {
        // The fastest of row-major factors, if that is why.
        let known = model.kernels().iter().enumerate().filter(|(_, kernel)| is_of_rung(kernel));
        let known = known.filter(|(_, kernel)| supports(kernel, &measured, device).is_ok());
        let times = known.filter_map(|(index, kernel)| {
            Some((near.seconds_as(index, kernel)?, NotTuned::NoTwin(kernel.name)))
        });
        let fastest = times.min_by(|a, b| a.0.total_cmp(&b.0));
        fastest.map_or(NotTuned::NothingNear, |(_, no_twin)| no_twin)
    })?;

    let is_known = |&Candidate { twin, .. }: &Candidate| {
        let is_measured = problem.layouts == Layouts::NN || near.telling(twin).knows_twin(twin);
        !other_types && is_measured
    };
    let kernel_of = |candidate: &Candidate| -> &'static KernelInfo {
        if is_known(candidate) {
            return candidate.launched;
        }
        let faster = in_the_faster_way(candidate.launched, problem);
        if supports(faster, problem, device).is_ok() { faster } else { candidate.launched }
    };
    let kernel = kernel_of(chosen);
    let mut others = Vec::from_iter(&candidates);
    others.sort_by(|a, b| a.weighed().total_cmp(&b.weighed()));
    // In the faster way two of them may be one.
    let mut others = others.into_iter().map(|other| (kernel_of(other), other.weighed()));
    let runner_up = others.find(|(other, _)| other.name != kernel.name);
    let runner_up = runner_up
        .map(|(kernel, seconds)| RunnerUp { kernel, slower: seconds / chosen.weighed() - 1.0 });
    let measured = near.telling(chosen.twin).measured();
    let (nearest, source) = measured.nearest();
    let tuned = Tuned {
        source,
        nearest,
        exact: measured.is_exact() && nearest == shape,
        twin_of: (!is_known(chosen)).then_some(chosen.kernel),
        // A time that no duration can hold is as good as endless.
        predicted: Duration::try_from_secs_f64(chosen.seconds).unwrap_or(Duration::MAX),
        runner_up,
        promoted: problem.promoted,
    };
    Ok(Selection { kernel, why: Why::Tuned(tuned) })
}

/// Whether a kernel reads a large B whose rows run along k as fast as a row-major one, where its times are those of a
/// row-major one, for a D of few rows. Of a slice it reads 128 bytes of each row, which lie far apart. Where D has few
/// rows memory is all that counts, and it gives more the more slices are on their way, which are of the same pages: 16
/// x 28672 x 4096 in bf16 takes 63.2 us in 4 stages of 256 rows and 58.7 in 11 of 128; with B row-major 58.7 in 4
/// (H200). Warps read ahead no more than 3: 90.9 us, where `warpgroup64x64` with 13 takes 84.9 (H100). But theirs are
/// small products, which the L2 cache has room for.
fn keeps_pages_open(kernel: &KernelInfo, problem: &Problem, device: &DeviceInfo) -> bool {
    const FEW_ROWS: u32 = 32;
    const SLICES: u32 = 8;
    let bytes = u64::from(problem.n) * u64::from(problem.k) * problem.dtype.bytes() as u64;
    let is_in_cache = device.l2_bytes.is_some_and(|l2_bytes| bytes <= l2_bytes);
    problem.m > FEW_ROWS
        || kernel.tile.stages >= SLICES
        || match kernel.needs {
            Needs::WarpgroupProducts => false,
            Needs::TensorCores => is_in_cache,
            _ => true,
        }
}

/// A kernel that could be chosen, or a twin of it.
struct Candidate {
    /// For row-major factors.
    kernel: &'static KernelInfo,
    /// For the problem's layouts, of the same types.
    twin: &'static KernelInfo,
    /// For the problem's types as well.
    launched: &'static KernelInfo,
    /// The expected time of what would be launched.
    seconds: f64,
    /// Whether others were measured on the very shape, and this was not.
    is_guess: bool,
}

impl Candidate {
    /// The time that counts beside others.
    fn weighed(&self) -> f64 {
        self.seconds * if self.is_guess { 1.0 + DOUBT } else { 1.0 }
    }
}

/// The one with the shortest expected time; among equals as the rule has it, and of twins of the same kernel the first.
fn fastest<'c>(
    candidates: &'c [Candidate],
    problem: &Problem,
    device: &DeviceInfo,
) -> Option<&'c Candidate> {
    let shortest = candidates.iter().map(Candidate::weighed).fold(f64::INFINITY, f64::min);
    let equals = candidates.iter().filter(|it| it.weighed() <= shortest * (1.0 + TIE));
    let in_order = |it: &&'c Candidate| Order::of(it.kernel, problem, device).0;
    equals.reduce(|best, it| {
        let is_better = match in_order(&it).cmp(&in_order(&best)) {
            Ordering::Equal => !std::ptr::eq(it.kernel, best.kernel),
            order => order.is_gt(),
        };
        if is_better { it } else { best }
    })
}

#[cfg(test)]
mod tests;
