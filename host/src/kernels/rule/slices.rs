//! In which way slices of f32 come: copied and transposed by producers, or in bulk, from factors that are transposed
//! before.
//!
//! Producers' instructions take issue slots from multiply-adds, and more of them where they transpose. To copy a factor
//! once more takes as long as memory does, whatever is multiplied then. All numbers are from an H200, at 1024 for small
//! tiles and at 2048 and 4096 for large ones.

use super::super::{Problem, Repack, kernels_for};
use super::LARGE_TILE;
use regemm_kernels::element::Dtype;
use regemm_kernels::kernel::KernelInfo;

/// Multiply-adds that are done in the time in which an element is copied, 1.9 ps at 26e12 a second, and in that of a
/// launch.
const MULTIPLY_ADDS_A_COPY: u64 = 50;
const MULTIPLY_ADDS_OF_A_LAUNCH: u64 = 26_000_000;

/// The part of the time, one in so many, which producers take from a product if they transpose neither factor, A, B, or
/// both: of small tiles and of large ones.
const TAKEN_BY_SMALL_TILES: [u64; 4] = [36, 19, 10, 8];
const TAKEN_BY_LARGE_TILES: [u64; 4] = [36, 64, 64, 16];

/// Elements of the smallest tile of which slices come in either way, 64 x 128, and the part of the time that smaller
/// tiles gain where they fit.
pub(super) const SMALLEST_ON_THE_WAY: i64 = 64 * 128;
const GAINED_BY_SMALLER_TILES: [u64; 4] = [36, 4, 4, 4];

/// Whether a kernel's slices are those of outer products and come in bulk.
pub(crate) fn come_in_bulk(kernel: &KernelInfo) -> bool {
    kernel.dtype == Dtype::F32
        && kernel.producers > 0
        && kernel.boxes.is_some()
        && !kernel.takes_halves()
}

/// Whether a kernel whose slices come in bulk gains more by that than it costs to copy what has to be copied before.
pub(super) fn bulk_pays(kernel: &KernelInfo, problem: &Problem) -> bool {
    let repack = Repack::of(kernel, problem);
    if repack.is_nothing() {
        return true;
    }
    let taken = match i64::from(kernel.tile.bm * kernel.tile.bn) {
        LARGE_TILE.. => TAKEN_BY_LARGE_TILES,
        ..SMALLEST_ON_THE_WAY => GAINED_BY_SMALLER_TILES,
        _ => TAKEN_BY_SMALL_TILES,
    };
    let [a, b] = kernel.transposes().map(usize::from);
    let Problem { m, n, k, batch, .. } = *problem;
    let products = [n, k, batch]
        .into_iter()
        .fold(u64::from(m), |product, size| product.saturating_mul(size.into()));
    let copies = repack.elements(problem).saturating_mul(MULTIPLY_ADDS_A_COPY);
    products / taken[a + 2 * b] >= copies.saturating_add(MULTIPLY_ADDS_OF_A_LAUNCH)
}

/// The kernel with the same tiles whose slices come in the faster way for this problem: the given one, where there is
/// no other.
pub(crate) fn in_the_faster_way(
    kernel: &'static KernelInfo,
    problem: &Problem,
) -> &'static KernelInfo {
    let tiles = |kernel: &KernelInfo| {
        (kernel.rung, kernel.tile, kernel.schedule, kernel.depth_groups, kernel.producers)
    };
    let other = kernels_for(problem.types(), problem.layouts)
        .find(|other| tiles(other) == tiles(kernel) && come_in_bulk(other) != come_in_bulk(kernel));
    let Some(other) = other else { return kernel };
    let (in_bulk, on_the_way) =
        if come_in_bulk(kernel) { (kernel, other) } else { (other, kernel) };
    if bulk_pays(in_bulk, problem) { in_bulk } else { on_the_way }
}
