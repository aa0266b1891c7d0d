//! Products in which D has a few rows or a few columns: the speed of memory.
//!
//! With a handful of rows of A there is next to nothing to reuse: every element of B takes part in so few multiply-adds
//! that a GPU waits for memory whatever else it does. So the large factor is read once, straight to registers, in
//! vectors of 16 bytes and many of them in flight at a time. The small factor comes from the caches.
//!
//! For one row or column this is GEMV. On an H200 1 x 8192 x 8192 in f32 reads memory at 4.3 TB/s.
//!
//! A thread owns a vector of places along the *long* axis of D and up to `ROWS` along the *short* one. That leaves few
//! threads for all of K: so `GROUPS` groups of threads share it as in [`crate::ladder::sliced_k`], and their sums meet
//! in shared memory ([`groups`]). Where even that leaves multiprocessors idle, blocks share K too
//! ([`Schedule::SplitK`]). Where no blocks share it each block has complete sums and applies the epilogue itself,
//! without a second launch. Two things may differ:
//!
//! - Which factor is the large one: B where D has few rows ([`FewRows`]), A where it has few columns ([`FewCols`]). The
//!   second is the first for the transposes, `D^T = B^T A^T`, and nothing here but the last store knows of it.
//! - How it lies in memory: elements that follow each other lie along the long axis, or along k. A thread's vector runs
//!   the same way, and neighbouring threads follow each other the same way: they own neighbouring places in the first
//!   case, and belong to neighbouring groups in the second.
//!
//! From a handful of rows on registers are what is short: those of sums, and none are left for loads in flight. Where
//! elements lie together along k, both factors come through shared memory then: [`staged`].

pub mod factors;
pub mod groups;
pub mod staged;

use crate::element::{Accumulator, Element};
use crate::epilogue::Epilogue;
use crate::kernel::{GemmKernel, Rung, Schedule, ShortSide, Summation, Tile};
use crate::layout::{Layouts, Nn, OperandLayouts};
use crate::params::GemmParams;
use crate::slices::mover::vector_len;
use core::marker::PhantomData;
use cuda_std::{device_inline, unroll};
use factors::{Factors, Side};
use groups::{Groups, MOST_IN_VECTOR};

pub use factors::{FewCols, FewRows};

/// Slices of the large factor whose loads are in flight together, and of elements of 8 bytes, of which a vector and so
/// a slice has few.
const IN_FLIGHT: usize = 2;
const IN_FLIGHT_OF_DOUBLES: usize = 4;

/// The kernel for tiles of `ROWS` places along the short axis and `LONG` along the long one, `GROUPS` groups that share
/// the depth, the short axis `S`, factors in the layouts `L`, and results of `D`. A thread has a vector of places, and
/// a slice a vector of values of k for each group.
pub struct Skinny<
    T,
    const ROWS: usize,
    const LONG: usize,
    const GROUPS: usize,
    S = FewRows,
    L = Nn,
    D = T,
>(PhantomData<(T, S, L, D)>);

impl<
    T: Element,
    const ROWS: usize,
    const LONG: usize,
    const GROUPS: usize,
    S: Side,
    L: OperandLayouts,
    D: Element<Acc = T::Acc>,
> GemmKernel for Skinny<T, ROWS, LONG, GROUPS, S, L, D>
{
    type Element = T;
    type Target = D;
    const RUNG: Rung = Rung::Skinny;
    const LAYOUTS: Layouts = L::LAYOUTS;
    const SUMMATION: Summation = Summation::InGroups;
    const TILE: Tile = {
        let short = (ROWS as u32, ROWS as u32);
        let long = (LONG as u32, Self::VECTOR as u32);
        let ((bm, tm), (bn, tn)) = if S::TRANSPOSED { (long, short) } else { (short, long) };
        Tile { bm, bn, bk: (GROUPS * Self::VECTOR) as u32, tm, tn, stages: 0 }
    };
    const SCHEDULE: Schedule = Schedule::SplitK;
    /// Results of another type than the factors' are left to the reducer, so that the kernel is the same for all.
    const FINISHES: bool = T::DTYPE as u8 == D::DTYPE as u8;
    const DEPTH_GROUPS: u32 = GROUPS as u32;
    const SHORT_SIDE: Option<ShortSide> = Some(S::SHORT);
    const SHARED_BYTES: u32 = Groups::<Self, S>::SHARED_BYTES;

    #[device_inline]
    unsafe fn run<E: Epilogue<D>>(p: GemmParams<T, E, D>) {
        let slice = p.slice();
        let factors = Factors { k: slice.end, ..Factors::new(&p, Self::LAYOUTS, S::TRANSPOSED) };
        let part = Groups::<Self, S>::part(&p);
        let start = Start {
            short: part.short,
            long: part.long + part.right as u32,
            first: slice.first + (part.group * Self::VECTOR) as u32,
        };
        // SAFETY: the launch keeps the kernel's contract; nothing lies in shared memory.
        unsafe {
            let mut sums = [[T::Acc::ZERO; MOST_IN_VECTOR]; ROWS];
            // A single row, or column, of D takes a fraction of the registers and instructions.
            if factors.short - start.short == 1 {
                sums[0] = Self::sum::<1>(&factors, start)[0];
            } else {
                sums = Self::sum::<ROWS>(&factors, start);
            }
            Groups::<Self, S>::add_up(&p, &slice, part, &sums);
        }
    }
}

/// Where a thread begins: along the short and the long axis of D, and along k.
#[derive(Clone, Copy)]
struct Start {
    short: u32,
    long: u32,
    first: u32,
}

impl<
    T: Element,
    const ROWS: usize,
    const LONG: usize,
    const GROUPS: usize,
    S: Side,
    L: OperandLayouts,
    D: Element<Acc = T::Acc>,
> Skinny<T, ROWS, LONG, GROUPS, S, L, D>
{
    /// Places of a thread along the long axis, and values of k of each slice.
    const VECTOR: usize = vector_len::<T>();

    /// Values of k in a slice.
    const DEPTH: usize = GROUPS * Self::VECTOR;

    /// Whether elements of the large factor lie together along the long axis.
    const ALONG: bool = Groups::<Self, S>::ALONG;

    /// The sums of a thread for the first `R` places along the short axis, over its values of k of all slices.
    #[device_inline]
    unsafe fn sum<const R: usize>(
        factors: &Factors<T>,
        start: Start,
    ) -> [[T::Acc; MOST_IN_VECTOR]; R] {
        let mut sums = [[T::Acc::ZERO; MOST_IN_VECTOR]; R];
        let mut k = start.first;
        // SAFETY: as promised by the caller. The branch is the same for all threads.
        unsafe {
            if factors.is_wide() && size_of::<T>() == size_of::<f64>() {
                while k < factors.k {
                    Self::add::<IN_FLIGHT_OF_DOUBLES, R>(factors, start, true, k, &mut sums);
                    k += (IN_FLIGHT_OF_DOUBLES * Self::DEPTH) as u32;
                }
            } else if factors.is_wide() {
                while k < factors.k {
                    Self::add::<IN_FLIGHT, R>(factors, start, true, k, &mut sums);
                    k += (IN_FLIGHT * Self::DEPTH) as u32;
                }
            } else {
                // Elements one by one are as many loads as that.
                while k < factors.k {
                    Self::add::<1, R>(factors, start, false, k, &mut sums);
                    k += Self::DEPTH as u32;
                }
            }
        }
        sums
    }

    /// Adds a thread's values of k of `SLICES` slices, from `k` on. All loads come first, those of the large factor
    /// before those of the small one.
    #[device_inline]
    unsafe fn add<const SLICES: usize, const R: usize>(
        factors: &Factors<T>,
        start: Start,
        wide: bool,
        k: u32,
        sums: &mut [[T::Acc; MOST_IN_VECTOR]; R],
    ) {
        // Element `(k, place)` is `[slice][k][place]`, or `[slice][place][k]` where vectors lie along k.
        let mut large = [[[T::ZERO; MOST_IN_VECTOR]; MOST_IN_VECTOR]; SLICES];
        let mut small = [[[T::ZERO; R]; MOST_IN_VECTOR]; SLICES];
        unroll!(n < SLICES * MOST_IN_VECTOR, {
            let (s, i) = (n / MOST_IN_VECTOR, n % MOST_IN_VECTOR);
            if i < Self::VECTOR {
                let k = k + (s * Self::DEPTH) as u32;
                // SAFETY: as promised by the caller; vectors are whole and aligned where `wide` holds.
                unsafe { Self::load(factors, start.long, k, i, wide, &mut large[s][i]) };
            }
        });
        unroll!(n < SLICES * MOST_IN_VECTOR, {
            let (s, i) = (n / MOST_IN_VECTOR, n % MOST_IN_VECTOR);
            if i < Self::VECTOR {
                let first = k + (s * Self::DEPTH) as u32;
                let k = first + i as u32;
                let first = factors.small.at_in(factors.layouts.a, start.short, first);
                let (down, right) = factors.small.steps_in(factors.layouts.a);
                for row in 0..R {
                    let short = start.short + row as u32;
                    let element = first.add(row as u64 * down + i as u64 * right);
                    // SAFETY: an element of the factor where the predicate holds.
                    small[s][i][row] =
                        unsafe { element.load_if(k < factors.k && short < factors.short) };
                }
            }
        });
        unroll!(n < SLICES * MOST_IN_VECTOR, {
            let (s, i) = (n / MOST_IN_VECTOR, n % MOST_IN_VECTOR);
            if i < Self::VECTOR {
                for j in 0..Self::VECTOR {
                    let large = if Self::ALONG { large[s][i][j] } else { large[s][j][i] }.widen();
                    for row in 0..R {
                        sums[row][j] = T::Acc::fma(small[s][i][row].widen(), large, sums[row][j]);
                    }
                }
            }
        });
    }

    /// Loads vector `i` of a thread's part of a slice: places for `k + i`, or values of k for place `long + i`. What
    /// lies outside is zero.
    #[device_inline]
    unsafe fn load(
        factors: &Factors<T>,
        long: u32,
        k: u32,
        i: usize,
        wide: bool,
        vector: &mut [T; MOST_IN_VECTOR],
    ) {
        let (down, right) = if Self::ALONG { (k, long) } else { (long, k) };
        let (rows, row) =
            if Self::ALONG { (factors.k, factors.long) } else { (factors.long, factors.k) };
        let source = factors.large.at(down, right).add(i as u64 * factors.large.ld);
        let inside = down + (i as u32) < rows;
        // SAFETY: as promised by the caller; elements of the factor where the predicates hold.
        unsafe {
            if wide {
                source.load_slice_if(inside && right < row, &mut vector[..Self::VECTOR]);
            } else {
                for j in 0..Self::VECTOR {
                    let inside = inside && right + (j as u32) < row;
                    vector[j] = source.add(j as u64).load_if(inside);
                }
            }
        }
    }
}
