//! Products of f32 on tensor cores, where 11 bits are enough: each number is rounded to one f16.
//!
//! It is [`crate::warpgroup::halves`] without the low halves: the launch before it ([`mod@crate::prepare::split`])
//! makes high ones alone, and tensor cores do a third of the work. As there, each row of A and each column of B is
//! multiplied by a power of two of its own first, so that f32 of any magnitude can be rounded to f16, and finished sums
//! are divided by both. All in between is [`crate::warpgroup`] as it is, with its large tiles, and so are the sums:
//! they stay in the tensor cores from the first value of k to the last.
//!
//! That cuts them off with every instruction, by more the larger they are. To take them over to f32 now and then would
//! need as many registers again as they have, and a smaller tile. But what is lost by it is little beside the rounding
//! of the factors, as long as there are fewer than some 30,000 values of k: a sum loses at most 10.5 roundings of f32
//! for every 16 of them, and a product of rounded factors, 16,388 in all.

use crate::element::Dtype;
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Summation, launched_as};
use crate::layout::Nn;
use crate::params::GemmParams;
use crate::swapped::InOrder;
use crate::warpgroup::Warpgroup;
use crate::warpgroup::bulk_panels::MajorLayouts;
use crate::warpgroup::halves::scale::divide;
use core::marker::PhantomData;
use cuda_std::device_inline;
use cuda_std::wgmma::M;
use half::f16;

/// Values of k in a slice: the row of a box of bulk copies.
const BK: usize = 64;

/// Rows of a block tile: those of one instruction for each of two warpgroups.
const BM: usize = 2 * M;

/// The kernel for rounded factors, with results of f32.
type Inner<const BN: usize, const STAGES: u32, L> = Warpgroup<f16, BM, BN, BK, STAGES, L, 1, f32>;

/// The kernel for block tiles of 128 x `BN` and factors in the layouts `L`.
///
/// What its parameters call A and B are the [lines](crate::prepare::split::Line) of both: what they are rounded to is
/// known by their maps alone.
pub struct Rounded<const BN: usize, const STAGES: u32, L = Nn>(PhantomData<L>);

impl<const BN: usize, const STAGES: u32, L: MajorLayouts<Operands = InOrder>> GemmKernel
    for Rounded<BN, STAGES, L>
{
    type Element = f16;
    type Target = f32;
    const DTYPE: Dtype = Dtype::F32;
    const SUMMATION: Summation = Summation::Rounded;
    launched_as!(Inner<BN, STAGES, L>);

    #[device_inline]
    unsafe fn run<E: Epilogue<f32>>(p: GemmParams<f16, E, f32>) {
        // SAFETY: as promised by the caller; without depth there are no lines.
        unsafe {
            Inner::<BN, STAGES, L>::run_with(&p, |sums, (product, origin)| {
                if p.k > 0 {
                    divide(sums, &p.with_factors_of(product), origin);
                }
            });
        }
    }
}
