//! Sums of one warpgroup's products of halves, on their way to those of f32.
//!
//! Threads take over every 32 values of k what tensor cores have added up of the high halves, two instructions. There
//! are two ways from there.
//!
//! | | registers of a thread, for each of its sums | high halves | then |
//! |---|---:|---|---|
//! | [`InOneStep`] | 3 | 32 of k in one sum | are added to the sums |
//! | [`InTwoSteps`] | 5, so that tiles have 64 columns | 16 of k each in two sums | are added to *recent* sums, and these to the sums every 64 of k, while what rounding takes from them is kept for the next time |
//!
//! With one step both errors grow. The fewer products tensor cores add up, the less they cut off, always in the
//! direction of zero: from the second instruction on the sum so far decides which bits of 16 products count. But the
//! sums of threads are rounded the more often, and the error of that grows with the root of `k`. With 32 both are about
//! as large at a depth of 1024, and 16 is worse from there on. (On uniform data in \[0, 1), in norm, in parts of 1e-7:
//! 1.0, 1.2 and 1.7 at 512, 1024 and 4096 with 32, and 1.0, 1.2 and 2.2 with 16.)
//!
//! With recent sums, which are small, hardly anything is lost by adding to them often. And what is lost when they are
//! added to the sum can be known: `next = sum + recent` leaves out `recent - (next - sum)`, without error where the sum
//! is the larger one (T. J. Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971). With
//! that the recent sums begin anew (W. Kahan, "Further remarks on reducing truncation errors", 1965, does so for single
//! numbers). So the error does not grow with the depth: 0.5 at all of these. It costs 7 % of the speed.

use super::{BK, HalvedSlice, PROMOTED};
use crate::prepare::split::LOW_FACTOR;
use crate::warpgroup::bulk_panels::BulkPanel;
use crate::warpgroup::each::for_each_register;
use crate::warpgroup::tile::WarpgroupTile;
use core::marker::PhantomData;
use cuda_std::device_inline;
use cuda_std::wgmma::{self, Accumulators, K, Major};

/// How the sums of high halves are added up: in two steps, or one.
pub(crate) trait Steps {
    /// Whether there are recent sums.
    const TWO: bool;
}

/// See the table of the module.
pub(crate) struct InOneStep;

/// See the table of the module.
pub(crate) struct InTwoSteps;

impl Steps for InOneStep {
    const TWO: bool = false;
}

impl Steps for InTwoSteps {
    const TWO: bool = true;
}

/// The sums of high halves, and of low ones, which are multiplied by [`LOW_FACTOR`]; set 0 is the finished ones.
pub(crate) struct Products<S, const N: usize> {
    high: Accumulators<N, 1>,
    low: Accumulators<N, 2>,
    recent: Option<Recent<N>>,
    steps: PhantomData<S>,
}

/// What a thread has besides for two steps.
struct Recent<const N: usize> {
    /// Sums of high halves since they were last added to the finished ones.
    sums: Accumulators<N, 3>,
    /// Of the second instruction's high halves.
    second: Accumulators<N, 4>,
}

impl<S: Steps, const N: usize> Products<S, N> {
    /// The registers, of undefined values.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[device_inline]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            let (high, low) = (Accumulators::declare(), Accumulators::declare());
            let recent = if const { S::TWO } {
                Some(Recent { sums: Accumulators::declare(), second: Accumulators::declare() })
            } else {
                None
            };
            Products { high, low, recent, steps: PhantomData }
        }
    }

    /// Begins a tile.
    ///
    /// # Safety
    /// No products are under way.
    #[device_inline]
    #[track_caller]
    pub unsafe fn clear(&mut self) {
        // Low ones not by a flag of their first instruction, as high ones: then they would keep their registers from
        // one tile to the next. SAFETY: as promised by the caller.
        for_each_register!(N, I, unsafe { self.low.set::<I>(0.0) });
        if let Some(recent) = &mut self.recent {
            // SAFETY: as promised by the caller.
            for_each_register!(N, I, unsafe { recent.sums.set::<I>(0.0) });
        }
    }

    /// Begins to add up the products of the `section`-th [`PROMOTED`] values of k of a slice, those of high halves
    /// first: of 64 rows of A, from the `row`-th of its panels on, and all columns of B. Sums of high halves begin
    /// anew.
    ///
    /// # Safety
    /// As for [`WarpgroupTile::begin_products`].
    #[device_inline]
    #[track_caller]
    pub unsafe fn begin<A: Major, B: Major, const BM: usize>(
        &mut self,
        HalvedSlice { a, b }: &HalvedSlice<A, B, BM, N>,
        row: u32,
        section: usize,
    ) {
        const STEPS: usize = PROMOTED / K;
        let (a_high, a_low) = (a.high.operand(row), a.low.operand(row));
        let (b_high, b_low) = (b.high.operand(0), b.low.operand(0));
        let of_a =
            |half, step| BulkPanel::<_, A, BM, BK>::step(half, (section * STEPS + step) as u32);
        let of_b =
            |half, step| BulkPanel::<_, B, N, BK>::step(half, (section * STEPS + step) as u32);
        // SAFETY: as promised by the caller.
        unsafe {
            wgmma::fence();
            self.high.mma_async(of_a(a_high, 0), of_b(b_high, 0), false);
            match &mut self.recent {
                Some(recent) => recent.second.mma_async(of_a(a_high, 1), of_b(b_high, 1), false),
                None => self.high.mma_async(of_a(a_high, 1), of_b(b_high, 1), true),
            }
            wgmma::commit_group();
            self.low.mma_async(of_a(a_high, 0), of_b(b_low, 0), true);
            self.low.mma_async(of_a(a_low, 0), of_b(b_high, 0), true);
            self.low.mma_async(of_a(a_high, 1), of_b(b_low, 1), true);
            self.low.mma_async(of_a(a_low, 1), of_b(b_high, 1), true);
            wgmma::commit_group();
        }
        const { assert!(STEPS == 2, "as many instructions as are written out") }
    }

    /// Adds the sums of high halves to recent ones, or to those of the threads.
    ///
    /// # Safety
    /// The products of high halves have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn promote(&mut self, sums: &mut WarpgroupTile<N>) {
        if let Some(Recent { sums, second }) = &mut self.recent {
            for_each_register!(N, I, {
                // SAFETY: as promised by the caller.
                unsafe {
                    let addend = self.high.get::<I>() + second.get::<I>();
                    sums.set::<I>(sums.get::<I>() + addend);
                }
            });
        } else {
            // SAFETY: as promised by the caller.
            for_each_register!(N, I, unsafe { sums.add::<I>(self.high.get::<I>()) });
        }
    }

    /// Adds half of the recent sums, where there are some, to those of the threads, those of this `parity`; what
    /// rounding takes from them is recent afterwards. Products may be under way. It is half of them, for there are
    /// other additions to do, and all are to take as long in each section of a slice.
    ///
    /// # Safety
    /// As for [`WarpgroupTile::set`], whatever products are under way.
    #[device_inline]
    #[track_caller]
    pub unsafe fn settle(&mut self, sums: &mut WarpgroupTile<N>, parity: usize) {
        if let Some(recent) = &mut self.recent {
            for_each_register!(N, I, {
                if I % 2 == parity {
                    // SAFETY: as promised by the caller.
                    unsafe {
                        let (sum, addend) = (sums.get::<I>(), recent.sums.get::<I>());
                        let next = sum + addend;
                        recent.sums.set::<I>(addend - (next - sum));
                        sums.set::<I>(next);
                    }
                }
            });
        }
    }

    /// Adds those of low halves, and what is left of recent ones.
    ///
    /// # Safety
    /// All products have been waited for.
    #[device_inline]
    #[track_caller]
    pub unsafe fn finish(&self, sums: &mut WarpgroupTile<N>) {
        for_each_register!(N, I, {
            // SAFETY: as promised by the caller.
            unsafe {
                let low = |addend| self.low.scaled::<I>(1.0 / LOW_FACTOR, addend);
                match &self.recent {
                    Some(recent) => sums.add::<I>(low(recent.sums.get::<I>())),
                    None => sums.set::<I>(low(sums.get::<I>())),
                }
            }
        });
    }
}
