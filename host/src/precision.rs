//! How accurately products of f32 are computed, and those of f16 and bf16 whose results are of f32.
//!
//! | module | what it holds |
//! |---|---|
//! | `record` | memory in which a product leaves how it was computed, for later |

pub(crate) mod record;

pub use record::PrecisionRecord;

use crate::kernels::Types;
use regemm_kernels::element::Dtype;
use regemm_kernels::warpgroup::promoted::PROMOTED;
use std::fmt;

/// What a product is computed in: what its results are worth, and what they cost. All but `Promoted` are of f32; that
/// one is of f16 or bf16 with [results of f32](crate::Gemm#element-types), and other products of these types are
/// `Exact`, whatever their kernel adds up with.
///
/// Write `u` for 2^-24, and `|A||B|` for the product of the matrices of magnitudes. All bounds are for the sums, before
/// alpha and what follows.
///
/// | precision | computed by | error of a sum over `k`, relative to `\|A\|\|B\|` |
/// |---|---|---|
/// | `Exact` | multiply-adds of f32 | `k u`; the bits are those of a kernel's [order of summation](regemm_kernels::kernel::Summation) |
/// | `Split` | tensor cores, from halves | `(56 + k / 16) u` |
/// | `Tf32` | tensor cores, from factors rounded to TF32 | `2^-10 + (8 + 2 k) u` |
/// | `Fast` | tensor cores, from factors rounded to f16 | `2^-10 + (8 + k) u` |
/// | `Auto` | one or the other, as the data are | `k u` |
/// | `Promoted` | tensor cores, from f16 or bf16 as they are, 256 values of k at a time | `(168 + k / 64) u`; `2 k u` where such products are `Exact` |
///
/// To these bounds is added what f16 loses for having few exponents: with `Split` and `Fast`, elements far below
/// the largest one in their row of A or column of B lose at most `p (max|A| sum|B| + sum|A| max|B|)` over that
/// row and that column, with `p` = 2^-49 and 2^-39. Elements that are all larger than 2^-28 of the largest lose
/// nothing.  `Auto` takes `Split` only where it is within the bound. With `Tf32` each element loses up to 2^-137,
/// times what it is multiplied by: `2^-137 (sum|A| + sum|B|)`.
///
/// For data of many kinds the errors of `Split` are no larger than those of f32 summed in ascending order from a depth
/// of 64 on, and smaller where `k` is large. Kernels of f32 that sum in parts, as they do where D is small, can be more
/// accurate than that. So on Hopper `Split` sums in parts, too, where D has fewer tiles of 128 x 64 than half of the
/// multiprocessors ([`regemm_kernels::warpgroup::split_halves`]): then errors in norm hardly grow with `k`, and are
/// 5e-8 to 8e-8 where all products are positive and 1e-7 to 1.3e-7 where signs are mixed. On other GPUs, and for larger
/// D, kernels of `Exact` that sum in parts can be more accurate where all products are positive. Those of `Tf32` and
/// `Fast` are about 3e-4 in norm where signs are mixed, whatever the depth; where all products are positive roundings
/// cancel, and it is what tensor cores cut off that grows with `k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// Multiply-adds of f32, one after another.
    #[default]
    Exact,
    /// Each element of A and B as two f16, which together have 22 or 23 of its 24 bits, and three products of these on
    /// tensor cores, on Hopper by warpgroups ([`regemm_kernels::warpgroup::halves`]), on other GPUs from compute
    /// capability 8.0 on by warps ([`regemm_kernels::warp::halves`]).
    ///
    /// To make the halves takes 12 bytes of traffic an element, once for each. Where D has few rows or columns, or K is
    /// deep beside both, that alone takes longer than `Exact` does, which reads 4; so do batches of small products,
    /// whose elements are each used a few hundred times. `Auto` computes these exactly, unless their factors are
    /// [kept](crate::SplitMatrix) in halves.
    ///
    /// Rows of A and columns of B are multiplied by powers of two first, so that magnitudes from end to end of f32 do.
    /// Elements below 2^-28 of the largest one in their row or column lose more bits the smaller they are, up to 2^-50
    /// of that largest one. An infinity or NaN in a row or column makes NaN of all that comes of it, also where the sum
    /// would be infinite. Where D would have elements larger than f32 has they become infinite.
    Split,
    /// Each element of A and B rounded to TF32, which has 11 of its 24 bits and all of its exponents, and one product
    /// of these on tensor cores ([`regemm_kernels::warp::tensor_core`]): from compute capability 8.0 on, on the
    /// simulator everywhere. It needs no memory besides the operands.
    ///
    /// Infinities and NaN are computed with as IEEE 754 says, where an element that is rounded to zero is zero.
    /// Elements within 2^-12 of the largest f32 become infinite, and each loses up to 2^-137, which counts where it is
    /// subnormal: those below become zero.
    Tf32,
    /// Each element of A and B rounded to one f16, which has 11 of its 24 bits, and one product of these on tensor
    /// cores ([`regemm_kernels::warpgroup::rounded`]): a third of the work of `Split`, and half of its memory, on GPUs
    /// of compute capability 9.0 and on the simulator. Results are of f32.
    ///
    /// Rows of A and columns of B are multiplied by powers of two as for `Split`. Here elements below 2^-28 of the
    /// largest one in their row or column lose up to 2^-39 of that largest one; infinities and NaN are computed with as
    /// IEEE 754 says, where an element that is rounded to zero is zero.
    Fast,
    /// As `Split` where that is worth no less than `Exact`, and as `Exact` otherwise: never less accurate than f32, and
    /// mostly faster.
    ///
    /// The host decides what it can see: the product is computed exactly where it is less deep than
    /// [`LEAST_DEPTH`](regemm_kernels::prepare::split::LEAST_DEPTH), too small for halves to save time
    /// ([`kernels::weigh`](crate::kernels::weigh)), or where the device has no kernel for them. Then the GPU looks at
    /// the data, product by product of a batch, while it splits them. A product is computed exactly if a row of its A
    /// or a column of its B
    /// - holds an infinity or NaN,
    /// - holds an element, not zero, so far below the largest one that its halves lose more than `k` times 2^-26 of it
    ///   (2^-22 at least, 2^-12 at most): elements above 2^-28 of the largest one never do, at a depth of 4096 those
    ///   above 2^-36 do not, and at no depth can one be farther below than 2^-38,
    /// - has none but subnormal elements.
    ///
    /// The bits are then those of `Exact` with a kernel that sums in ascending order of k. The host does not wait for
    /// any of that: both ways are launched, and one leaves at once. [`Report::computed`](crate::Report::computed) says
    /// which way was taken, and where the host did not wait for the product a [`PrecisionRecord`] does.
    Auto,
    /// Products of f16 or bf16 with results of f32, in which tensor cores add up no more than
    /// [256](regemm_kernels::warpgroup::promoted::PROMOTED) values of k: then threads take their sums over to f32
    /// ([`regemm_kernels::warpgroup::promoted`]). On GPUs of compute capability 9.0 and on the simulator.
    ///
    /// Tensor cores truncate sums instead of rounding them, always in the direction of zero, so that errors grow with
    /// the depth; here they hardly do. It is not a kernel of its own: the library chooses as for `Exact`, by measured
    /// times where there are some, but only among kernels that take sums over
    /// ([`Summation::Promoted`](regemm_kernels::kernel::Summation)), or, where K is no more than 256, among all kernels
    /// of warpgroups. Kernels that take sums over have no tiles of more than 128 columns, which costs large products a
    /// tenth to a fifth of the speed. A kernel or rung that is asked for must be one of them. For factors that must be
    /// repacked and a K of more than 2048 `Exact` [chooses](crate::kernels::choose) among these as well.
    ///
    /// Results of half precision are refused: rounding leaves nothing of what tensor cores cut off.
    Promoted,
}

/// Roundings of f32 that a product of two factors which were rounded to 11 bits is worth: 2^-10 and 2^-22, and as much
/// again for products of roundings.
const ROUNDED_PRODUCT: usize = (1 << 14) + 8;

/// Values of k that an instruction of tensor cores adds up in half precision, and half roundings of f32 that what
/// Hopper's cut off meanwhile is worth: 10.5.
const ADDED_AT_ONCE: usize = 16;
const HALF_ROUNDINGS_CUT_OFF: usize = 21;

/// Values of k in the shortest part of K that a kernel sums by itself: of a slice, of what one of the blocks that share
/// a tile does.
const SHORTEST_PART: usize = 64;

impl Precision {
    /// All there are.
    pub const ALL: [Precision; 6] = [
        Precision::Exact,
        Precision::Split,
        Precision::Tf32,
        Precision::Fast,
        Precision::Auto,
        Precision::Promoted,
    ];

    /// Its name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Exact => "exact",
            Precision::Split => "split",
            Precision::Tf32 => "tf32",
            Precision::Fast => "fast",
            Precision::Auto => "auto",
            Precision::Promoted => "promoted",
        }
    }

    /// Whether products of these types can be computed in it.
    pub fn is_for(self, types: Types) -> bool {
        let are_halves = matches!(types.factors, Dtype::F16 | Dtype::Bf16);
        match self {
            Precision::Exact => true,
            Precision::Promoted => are_halves && types.results == Dtype::F32,
            _ => types == Types::same(Dtype::F32),
        }
    }

    /// The largest integers up to which none is rounded where it is an element of A or B: of the factor with the larger
    /// ones, and of the other.
    pub(crate) const fn largest_integers(self) -> [f64; 2] {
        let bits = match self {
            Precision::Exact | Precision::Promoted => [24, 24],
            // By halves, if need be. The product of both low ones is left out, so that one factor must do without.
            Precision::Split | Precision::Auto => [22, 11],
            Precision::Tf32 | Precision::Fast => [11, 11],
        };
        [(1 << bits[0]) as f64, (1 << bits[1]) as f64]
    }

    /// Roundings of f32 that a sum of `k` products is worth, beside the `k` of `Exact` in f32.
    ///
    /// Halves lose 2^-22 of each factor at most, and what is left out of a product is as much: 12 roundings. Tensor
    /// cores cut off a part of the last bit of each of 32 products and the sum's own before the sum is taken over:
    /// Hopper's a quarter, and two times the sum's own, 21; those before it a half, and four times the sum's own, which
    /// they add to 8 products at once, 41. Then it is rounded as often as there are 32 values of k. The sums of low
    /// halves, which are cut off all the way, count 2^-11 as much: 10.5 for 8 values of k on Hopper, twice that before
    /// it.
    ///
    /// Where D is small Hopper's are less than that: sums are taken over after 16 products, 10.5, and what they are
    /// added to begins anew every 64, 6 whatever the depth. Slices of K are rounded once each, and have 64 values of k
    /// at least.
    ///
    /// Where both factors are rounded to 11 bits each loses 2^-11 at most, and their product 2^-10 and 2^-22. What
    /// tensor cores cut off, 10.5 for 16 values of k, is less than one for each. Those of other generations than Hopper
    /// may add up fewer at a time and keep fewer bits: there it is two for each, as in half precision.
    ///
    /// `Auto` takes halves only where that is within the bound of `Exact`, also with all that elements of unmarked
    /// lines may lose ([`regemm_kernels::prepare::split::LEAST_DEPTH`]).
    ///
    /// `Promoted` rounds no factor, and is Hopper's: of each instruction of 16 values of k it is worth 10.5, and of the
    /// 16 that add up 256 it is 168 of what these products come to, not of all before them. Then the sum is rounded to
    /// f32 as often as it is taken over, and once more for each part of K that is summed by itself, a slice or the
    /// share of one of several blocks. Both happen at multiples of 64 values of k, the depth of the flattest slices of
    /// these kernels, so that there are no more of them together than of these.
    pub(crate) const fn roundings(self, k: usize) -> usize {
        match self {
            Precision::Exact | Precision::Auto => k,
            Precision::Split => 56 + k.div_ceil(16),
            Precision::Tf32 => ROUNDED_PRODUCT + 2 * k,
            Precision::Fast => ROUNDED_PRODUCT + k,
            Precision::Promoted => {
                let together = if k < PROMOTED { k } else { PROMOTED };
                let cut_off = together.div_ceil(ADDED_AT_ONCE) * HALF_ROUNDINGS_CUT_OFF;
                cut_off.div_ceil(2) + k.div_ceil(SHORTEST_PART)
            }
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a product was computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Computed {
    /// In this precision, all products of a batch alike; never [`Precision::Auto`].
    In(Precision),
    /// So many products of a batch exactly, and so many others by halves: neither is zero.
    Mixed {
        /// Products computed as [`Precision::Exact`].
        exact: u32,
        /// Products computed as [`Precision::Split`].
        split: u32,
    },
    /// That is for the GPU to decide, and the host has not waited for it: a [`PrecisionRecord`] will know.
    Undecided,
}

impl Computed {
    /// Of products that were computed so: exactly, or else by halves.
    pub(crate) fn of(products: impl Iterator<Item = bool>) -> Computed {
        let (mut exact, mut split) = (0, 0);
        for is_exact in products {
            *(if is_exact { &mut exact } else { &mut split }) += 1;
        }
        match (exact, split) {
            (0, _) => Computed::In(Precision::Split),
            (_, 0) => Computed::In(Precision::Exact),
            _ => Computed::Mixed { exact, split },
        }
    }
}

impl fmt::Display for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Computed::In(precision) => precision.fmt(f),
            Computed::Mixed { exact, split } => {
                write!(f, "{exact} products exact, {split} split")
            }
            Computed::Undecided => f.pad("undecided"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernels;
    use regemm_kernels::kernel::Summation;

    /// By hand: 10.5 for each of up to 16 instructions, and one for every 64 values of k.
    #[test]
    fn promoted_sums_are_worth_few_roundings() {
        let roundings = |k| Precision::Promoted.roundings(k);
        assert_eq!([0, 1, 16, 17, 64].map(roundings), [0, 12, 12, 22, 43]);
        assert_eq!([255, 256, 257, 4096, 65536].map(roundings), [172, 172, 173, 232, 1192]);
        let deeper = |k: usize| roundings(k) <= roundings(k + 1);
        assert!((0..2000).all(deeper), "a deeper product is worth no fewer");
    }

    /// What the count of roundings takes for granted.
    #[test]
    fn parts_of_k_that_are_summed_by_themselves_are_no_shorter() {
        let of_warpgroups =
            |summation| matches!(summation, Summation::Promoted | Summation::Warpgroups);
        let mut found = 0;
        for kernel in kernels().iter().filter(|kernel| of_warpgroups(kernel.summation)) {
            found += 1;
            let bk = kernel.tile.bk as usize;
            assert!(bk.is_multiple_of(SHORTEST_PART) && bk > 0, "{}", kernel.name);
        }
        assert!(found > 0);
    }

    #[test]
    fn precisions_are_for_some_types() {
        for types in Types::ALL {
            let wide = types.factors != types.results;
            assert!(Precision::Exact.is_for(types));
            assert_eq!(Precision::Promoted.is_for(types), wide, "{types}");
            let of_f32 = [Precision::Split, Precision::Tf32, Precision::Fast, Precision::Auto];
            assert!(of_f32.iter().all(|p| p.is_for(types) == (types == Dtype::F32.into())));
        }
    }
}
