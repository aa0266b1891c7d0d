//! The order in which kernels say that they sum.

use crate::common::{Product, rounded_bits};
use regemm_kernels::kernel::KernelInfo;

/// The bits of a product as [`Schedule`](regemm_kernels::kernel::Schedule) and
/// [`Summation`](regemm_kernels::kernel::Summation) say, for slices of K of this depth: each group sums its part of the
/// slice in ascending order of k, from zero; the sums of groups are added in order, then those of slices.
pub fn summed(product: &Product, kernel: &KernelInfo, slice_depth: u32) -> Vec<u32> {
    let (bk, groups, dtype) = (kernel.tile.bk, kernel.depth_groups, kernel.dtype);
    let in_order = |sums: &mut dyn Iterator<Item = f32>| sums.reduce(|sum, more| sum + more);
    let element = |row: u32, col: u32| {
        let slice = |first: u32| {
            let group = |index: u32| {
                let mine = |p: &u32| (p - first) % bk / (bk / groups) == index;
                let add = |sum: f32, p| {
                    let (a, b) = (product.a(dtype, row, p), product.b(dtype, p, col));
                    a.mul_add(b, sum)
                };
                (first..product.k.min(first + slice_depth)).filter(mine).fold(0.0, add)
            };
            in_order(&mut (0..groups).map(group)).unwrap_or(0.0)
        };
        in_order(&mut (0..product.k).step_by(slice_depth as usize).map(slice)).unwrap_or(0.0)
    };
    let bits = |i| rounded_bits(dtype, element(i / product.n, i % product.n));
    (0..product.m * product.n).map(bits).collect()
}
