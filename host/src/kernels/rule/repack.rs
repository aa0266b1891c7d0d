//! What it costs to repack a factor in a launch before the product, beside what that gains. The numbers are those of
//! half precision, by which f64 goes as well; f32 has its own in `slices.rs`.

use super::super::{Problem, Repack};
use super::slices::{bulk_pays, come_in_bulk};
use regemm_kernels::kernel::KernelInfo;

/// Multiply-adds that an H200 does on tensor cores with rows at odd places, 30e12 a second, in the time in which an
/// element of 2 bytes is repacked, which moves it twice at 3.5e12 bytes a second; and in the 3 us of the launch that
/// does so.
const MULTIPLY_ADDS_A_COPY: u64 = 35;
const MULTIPLY_ADDS_OF_A_LAUNCH: u64 = 90_000_000;

/// Elements of D below which such a product is no faster: each value of k takes as long as for so many.
const LEAST_D: u64 = 1024 * 1024;

/// Multiply-adds below which a product takes less time than that launch by whatever kernel.
const LEAST_WORK: u64 = 1 << 22;

/// Whether a product that needs factors repacked gains more than that costs, beside one that takes them as they are.
pub(super) fn repack_pays(kernel: &KernelInfo, problem: &Problem) -> bool {
    if come_in_bulk(kernel) {
        return bulk_pays(kernel, problem);
    }
    let repack = Repack::of(kernel, problem);
    let Problem { m, n, k, batch, .. } = *problem;
    let elements = u64::from(m).saturating_mul(n.into()).saturating_mul(batch.into());
    let work = elements.max(LEAST_D).saturating_mul(k.into());
    let copies = repack.elements(problem).saturating_mul(MULTIPLY_ADDS_A_COPY);
    // Of those that promote all need it.
    let is_tiny = elements.saturating_mul(k.into()) < LEAST_WORK;
    repack.is_nothing()
        || problem.promoted
        || (!is_tiny && work >= copies.saturating_add(MULTIPLY_ADDS_OF_A_LAUNCH))
}
