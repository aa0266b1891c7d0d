//! Sums of one warpgroup's products of halves, on their way to those of f32.
//!
//! A thread takes over what tensor cores have added up of the high halves every 16 or 32 values of k.
//! How it goes on from there is a matter of its registers.
//!
//! | columns | registers of a thread | high halves, every | then |
//! |---:|---|---:|---|
//! | 128 | 3 x 64 | 32 of k | are added to the sums |
//! | 64 | 4 x 32 | 16 of k | are added to *recent* sums, and these to the sums every 64 of k, while what rounding takes from them is kept for the next time |
//!
//! With one sum both errors grow. The more often threads take over, the less tensor cores cut off, always in the direction of zero: from the second
//! instruction on the sum so far decides which bits of 16 products count. But sums are rounded the more often, and the error of that grows with the root of `k`.
//! At 32 both are about as large at a depth of 1024, and 16 is worse from there on.
//!
//! With recent sums, which are small, hardly anything is lost by adding to them often. And what is lost when they are added to the sum can be
//! known: `next = sum + recent` leaves out `recent - (next - sum)`, without error where the sum is the larger one (T. J. Dekker, "A Floating-Point Technique for
//! Extending the Available Precision", 1971). With that the recent sums begin anew. So the error no longer grows with the depth
//! (that of W. Kahan's "Further remarks on reducing truncation errors", 1965, of which this is the form for blocks).

use super::{BK, PROMOTED, Slice};
use crate::bulk_panels::BulkPanel;
use crate::split::LOW_FACTOR;
use crate::warpgroup_tile::WarpgroupTile;
use cuda_std::unroll;
use cuda_std::wgmma::{self, Accumulators, K, Major};

/// Most columns of which a thread has room for recent sums.
const MOST_COLS_WITH_RECENT: usize = 64;

/// What is to be done with each register `$i` of a thread that has those of `$n` columns. Registers have names and no indices.
macro_rules! for_each_register {
    ($n:ident, $i:ident, $body:expr) => {
        for_each_register!(@ $n, $i, $body, 0 32 64 96)
    };
    (@ $n:ident, $i:ident, $body:expr, $($first:literal)*) => {$(
        unroll!(j < 32, {
            if const { $first + j < $n / 2 } {
                const $i: usize = $first + j;
                $body;
            }
        });
    )*};
}

/// The sums of high halves, and of low ones, which are multiplied by [`LOW_FACTOR`]; set 0 is the finished ones.
pub(crate) struct Products<const N: usize> {
    high: Accumulators<N, 1>,
    low: Accumulators<N, 2>,
    /// Of high halves since they were last added to the finished ones, where there is room for them.
    recent: Option<Accumulators<N, 3>>,
}

impl<const N: usize> Products<N> {
    /// Values of k whose products of high halves tensor cores add up before threads take them over.
    pub const PROMOTED: usize = promoted(N);

    /// Instructions that take as many.
    const STEPS: usize = {
        let steps = Self::PROMOTED / K;
        assert!(steps == 1 || steps == 2, "as many instructions as are written out");
        steps
    };

    /// The registers, of undefined values.
    ///
    /// # Safety
    /// As for [`Accumulators::declare`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn declare() -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            let (high, low) = (Accumulators::declare(), Accumulators::declare());
            let recent = if const { has_recent(N) } { Some(Accumulators::declare()) } else { None };
            Products { high, low, recent }
        }
    }

    /// Begins a tile.
    ///
    /// # Safety
    /// No products are under way.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn clear(&mut self) {
        // Low ones not by a flag of their first instruction, as high ones: then they would keep their registers from one tile to the next.
        // SAFETY: as promised by the caller.
        for_each_register!(N, I, unsafe { self.low.set::<I>(0.0) });
        if let Some(recent) = &mut self.recent {
            // SAFETY: as promised by the caller.
            for_each_register!(N, I, unsafe { recent.set::<I>(0.0) });
        }
    }

    /// Begins to add up the products of the `part`-th [`PROMOTED`](Self::PROMOTED) values of k of a slice, those of high halves first: of 64 rows of A,
    /// from the `row`-th of its panels on, and all columns of B. Sums of high halves begin anew.
    ///
    /// # Safety
    /// As for [`WarpgroupTile::begin_products`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn begin<A: Major, B: Major, const BM: usize>(
        &mut self,
        Slice { a, b }: &Slice<A, B, BM, N>,
        row: u32,
        part: usize,
    ) {
        let (a_high, a_low) = (a.high.operand(row), a.low.operand(row));
        let (b_high, b_low) = (b.high.operand(0), b.low.operand(0));
        let step_of = |step| (part * Self::STEPS + step) as u32;
        let of_a = |half, step| BulkPanel::<_, A, BM, BK>::step(half, step_of(step));
        let of_b = |half, step| BulkPanel::<_, B, N, BK>::step(half, step_of(step));
        // SAFETY: as promised by the caller.
        unsafe {
            wgmma::fence();
            self.high.mma_async(of_a(a_high, 0), of_b(b_high, 0), false);
            if const { Self::STEPS > 1 } {
                self.high.mma_async(of_a(a_high, 1), of_b(b_high, 1), true);
            }
            wgmma::commit_group();
            self.low.mma_async(of_a(a_high, 0), of_b(b_low, 0), true);
            self.low.mma_async(of_a(a_low, 0), of_b(b_high, 0), true);
            if const { Self::STEPS > 1 } {
                self.low.mma_async(of_a(a_high, 1), of_b(b_low, 1), true);
                self.low.mma_async(of_a(a_low, 1), of_b(b_high, 1), true);
            }
            wgmma::commit_group();
        }
    }

    /// Adds the sums of high halves to recent ones, or to those of the threads.
    ///
    /// # Safety
    /// The products of high halves have been waited for.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn promote(&mut self, sums: &mut WarpgroupTile<N>) {
        if let Some(recent) = &mut self.recent {
            for_each_register!(N, I, {
                // SAFETY: as promised by the caller.
                unsafe { recent.set::<I>(recent.get::<I>() + self.high.get::<I>()) };
            });
        } else {
            // SAFETY: as promised by the caller.
            for_each_register!(N, I, unsafe { sums.add::<I>(self.high.get::<I>()) });
        }
    }

    /// Adds recent sums, where there are some, to those of the threads; what rounding takes from them is recent afterwards. Products may be under way.
    ///
    /// # Safety
    /// All threads of the warpgroup get here together.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn settle(&mut self, sums: &mut WarpgroupTile<N>) {
        if let Some(recent) = &mut self.recent {
            for_each_register!(N, I, {
                // SAFETY: as promised by the caller.
                unsafe {
                    let (sum, addend) = (sums.get::<I>(), recent.get::<I>());
                    let next = sum + addend;
                    recent.set::<I>(addend - (next - sum));
                    sums.set::<I>(next);
                }
            });
        }
    }

    /// Adds those of low halves, and what is left of recent ones.
    ///
    /// # Safety
    /// All products have been waited for.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn finish(&self, sums: &mut WarpgroupTile<N>) {
        for_each_register!(N, I, {
            // SAFETY: as promised by the caller.
            unsafe {
                let low = |addend| self.low.scaled::<I>(1.0 / LOW_FACTOR, addend);
                match &self.recent {
                    Some(recent) => sums.add::<I>(low(recent.get::<I>())),
                    None => sums.set::<I>(low(sums.get::<I>())),
                }
            }
        });
    }
}

/// Values of k whose products of high halves tensor cores add up before threads take them over, in a tile of so many columns.
pub const fn promoted(cols: usize) -> usize {
    if has_recent(cols) { K } else { PROMOTED }
}

/// Whether a thread has room for recent sums of so many columns.
const fn has_recent(cols: usize) -> bool {
    cols <= MOST_COLS_WITH_RECENT
}
