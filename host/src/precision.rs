//! How accurately products of f32 are computed.

use std::fmt;

/// What a product of f32 is computed in: what its results are worth, and what they cost.
///
/// Write `u` for 2^-24, and `|A||B|` for the product of the matrices of magnitudes. All bounds are for the sums, before alpha and what follows.
///
/// | precision | computed by | error of a sum over `k`, relative to `\|A\|\|B\|` |
/// |---|---|---|
/// | `Exact` | multiply-adds of f32 | `k u`, and the same bits with every kernel of the ladder |
/// | `Split` | tensor cores, from halves | `(56 + k / 16) u` |
///
/// For data of many kinds the errors of `Split` are no larger than those of `Exact` from a depth of 64 on, and smaller where `k` is large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// Multiply-adds of f32, one after another.
    #[default]
    Exact,
    /// Each element of A and B as two f16, which together have 22 or 23 of its 24 bits, and three products of these on tensor cores,
    /// on Hopper by warpgroups ([`regemm_kernels::halves`]), on other GPUs from compute capability 8.0 on by warps
    /// ([`regemm_kernels::warp_halves`]).
    ///
    /// Rows of A and columns of B are multiplied by powers of two first, so that magnitudes from end to end of f32 do. Elements below 2^-28 of
    /// the largest one in their row or column lose more bits the smaller they are, up to 2^-50 of that largest one. An infinity or NaN in a row
    /// or column makes NaN of all that comes of it, also where the sum would be infinite. Where D would have elements larger than f32 has they
    /// become infinite.
    Split,
}

impl Precision {
    /// All there are.
    pub const ALL: [Precision; 2] = [Precision::Exact, Precision::Split];

    /// Its name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Exact => "exact",
            Precision::Split => "split",
        }
    }

    /// Roundings of f32 that a sum of `k` products is worth, beside the `k` of `Exact`.
    ///
    /// Halves lose 2^-22 of each factor at most, and what is left out of a product is as much: 12 roundings. Tensor cores cut off a part of the last
    /// bit of each of 32 products and the sum's own before the sum is taken over: Hopper's a quarter, and two times the sum's own, 21; those before it
    /// a half, and four times the sum's own, which they add to 8 products at once, 41. Then it is rounded as often as there are 32 values of k. The sums of
    /// low halves, which are cut off all the way, count 2^-11 as much: 10.5 for 8 values of k on Hopper, twice that before it.
    pub(crate) const fn roundings(self, k: usize) -> usize {
        match self {
            Precision::Exact => k,
            Precision::Split => 56 + k.div_ceil(16),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
