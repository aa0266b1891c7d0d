//! What is known near a problem of whose matrices some have rows of whole vectors and others have not.
//!
//! Measured shapes that are not aligned have odd rows in both factors, most of them. Where bulk copies can take one
//! factor as it is stored, or both, as those of a product with transposed weights for an odd number of outputs, such
//! times hold a copy that nobody makes. There a kernel that makes bulk copies is told by aligned shapes, and what is
//! different is added: [copies](copying) of the factors that need one, and the [stores](Model::odd_store_seconds) of
//! D's odd rows.
//!
//! Kernels for a few rows or columns wait for the larger factor, and are told by both kinds of shapes, each as much as
//! such matrices have bytes: for 1 x 16384 x 16384 in f16 `skinny_rows` takes 183 us where the rows of A are single
//! elements, and 182 where they are vectors (H100). Others wait for whichever factor comes in single elements, and are
//! told by shapes that are not aligned: there `tensor_core64` takes half as long again for 1 x 32768 x 8192.

use super::class::{Shape, is_whole};
use super::model::{Model, Near};
use crate::kernels::{Problem, Repack};
use regemm_kernels::kernel::{KernelInfo, Rung};

/// What a launch that copies factors takes, and each byte of them, which is read and written: what products with a
/// small D take longer in bf16 than aligned ones on an H200, 129 x 2049 x 2049 10.1 us and 33 x 8191 x 8191 77.8.
const COPY_LAUNCH_SECONDS: f64 = 5e-6;
const COPY_SECONDS_A_BYTE: f64 = 2.0 / 3.7e12;

/// The measured shapes near a problem.
pub(super) struct Nearby<'m> {
    model: &'m Model,
    problem: Problem,
    /// Those as aligned as the problem's shape.
    own: Near<'m>,
    /// Aligned ones, if kernels are told by these as well.
    aligned: Option<Near<'m>>,
    /// The share of the matrices' bytes whose rows are no whole vectors.
    odd_share: f64,
}

impl<'m> Nearby<'m> {
    /// Those near a problem of this shape; none where there are none that are as aligned.
    pub fn of(model: &'m Model, problem: &Problem, shape: Shape) -> Option<Nearby<'m>> {
        let own = model.near(shape, problem.layouts)?;
        let aligned = as_aligned(model, &own, problem, shape);
        Some(Nearby { model, problem: *problem, own, aligned, odd_share: odd_share(problem) })
    }

    /// Those by which a kernel is told, most of it.
    pub fn telling(&self, kernel: &KernelInfo) -> &Near<'m> {
        let is_skinny = kernel.rung == Rung::Skinny && self.odd_share < 0.5;
        let by_aligned = kernel.boxes.is_some() || is_skinny;
        self.aligned.as_ref().filter(|_| by_aligned).unwrap_or(&self.own)
    }

    /// The expected time in seconds of a kernel or its twin: see [`Near::seconds_as`].
    pub fn seconds_as(&self, kernel: usize, twin: &KernelInfo) -> Option<f64> {
        let by_aligned = twin.boxes.is_some() || twin.rung == Rung::Skinny;
        let Some(aligned) = self.aligned.as_ref().filter(|_| by_aligned) else {
            return self.own.seconds_as(kernel, twin);
        };
        let seconds = aligned.seconds_as(kernel, twin)?;
        if twin.boxes.is_none() {
            let own = self.own.seconds_as(kernel, twin)?;
            // More odd rows are no faster: then it is the aligned shapes that are farther away, or unlike it.
            return Some(own.min(seconds + (own - seconds) * self.odd_share));
        }
        let Problem { m, n, .. } = self.problem;
        let stores = match has_odd_results(&self.problem) {
            true => f64::from(m) * f64::from(n) * self.model.odd_store_seconds(kernel),
            false => 0.0,
        };
        Some(seconds + copying(twin, &self.problem) + stores)
    }
}

fn has_odd_results(problem: &Problem) -> bool {
    !is_whole(problem.target, problem.n)
}

/// The share of the bytes of A, B and D that are in rows of no whole vectors.
fn odd_share(problem: &Problem) -> f64 {
    let Problem { dtype, target, repack, .. } = *problem;
    let [m, n, k] = [problem.m, problem.n, problem.k].map(f64::from);
    let [factor, result] = [dtype, target].map(|it| it.bytes() as f64);
    let matrices = [
        (m * k * factor, repack.a > 0),
        (k * n * factor, repack.b > 0),
        (m * n * result, has_odd_results(problem)),
    ];
    let all = matrices.iter().map(|(bytes, _)| bytes).sum::<f64>().max(1.0);
    let odd = matrices.iter().filter(|(_, is_odd)| *is_odd).map(|(bytes, _)| bytes).sum::<f64>();
    odd / all
}

/// What an aligned shape of the same sizes would be near, unless both factors have odd rows, or shapes nearer than that
/// have such rows of the same ones.
fn as_aligned<'m>(
    model: &'m Model,
    own: &Near,
    problem: &Problem,
    shape: Shape,
) -> Option<Near<'m>> {
    let copied = [problem.repack.a, problem.repack.b].map(|count| count > 0);
    if shape.aligned || copied == [true; 2] || own.measured().is_exact() {
        return None;
    }
    let aligned = model.near(Shape { aligned: true, ..shape }, problem.layouts)?;
    if own.knows_layouts() && !aligned.knows_layouts() {
        return None;
    }
    let is_farther = |square: f64| {
        let nearest = aligned.measured().places().next();
        nearest.is_some_and(|(_, of_aligned)| of_aligned < square)
    };
    own.square_to_alike(copied).is_none_or(is_farther).then_some(aligned)
}

/// What a kernel's copies of factors with odd rows take, in seconds. Those that it transposes it copies anyway.
pub(super) fn copying(kernel: &KernelInfo, problem: &Problem) -> f64 {
    let Repack { a, b, transposed } = Repack::of(kernel, problem);
    let count = |count: u32, is_transposed: bool| f64::from(if is_transposed { 0 } else { count });
    let [m, n, k] = [problem.m, problem.n, problem.k].map(f64::from);
    let elements = count(a, transposed[0]) * m * k + count(b, transposed[1]) * k * n;
    // The factor that is transposed has a launch already.
    let launches = f64::from(elements > 0.0 && transposed == [false; 2]);
    let bytes = elements * problem.dtype.bytes() as f64;
    launches * COPY_LAUNCH_SECONDS + bytes * COPY_SECONDS_A_BYTE
}
